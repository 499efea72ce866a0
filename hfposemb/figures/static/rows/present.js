// One panel in the whole window, for a projector; arrow keys go through the panels of the page.

import { button, h } from "./elements.js";

const LARGER = 1.6; // letters of a panel that has the window
const SMALL = "(max-width: 719px)"; // no projector

/** @type {Set<Presentable>} */
const views = new Set();
/** @type {{ view: Presentable, dialog: HTMLDialogElement, held: HTMLElement } | null} */
let stage = null;

/**
 * Let a panel be shown in the whole window.
 * @param {Presentable} view
 */
export function enlist(view) {
  views.add(view);
  view.node.addEventListener("keydown", (event) => {
    if (event.key !== "p" || event.ctrlKey || event.metaKey || event.altKey || !view.hasPictures()) return;
    if (event.target instanceof Element && event.target.closest("input, textarea, select, [role=dialog]")) return;
    event.preventDefault();
    togglePresent(view);
  });
}

/**
 * Forget a panel that leaves the page.
 * @param {Presentable} view
 */
export function discharge(view) {
  if (stage?.view === view) leave();
  views.delete(view);
}

/**
 * Return what has the place of a panel in its row.
 * @param {Presentable} view
 * @returns {HTMLElement}
 */
export function placeOfPanel(view) {
  return stage?.view === view ? stage.held : view.node;
}

/**
 * Return whether a panel has the window.
 * @param {Presentable} view
 */
export function isPresented(view) {
  return stage?.view === view;
}

/**
 * Return how much larger the letters of a panel are now.
 * @param {boolean} presented
 */
export function growth(presented) {
  return presented && !matchMedia(SMALL).matches ? LARGER : 1;
}

/**
 * Give a panel the window, or give it back.
 * @param {Presentable} view
 */
export function togglePresent(view) {
  const leaves = isPresented(view);
  leave();
  if (leaves) view.focus();
  else enter(view);
}

/** @param {Presentable} view */
function enter(view) {
  const held = h("div", "held"), dialog = h("dialog", "whole-window");
  const { height } = view.node.getBoundingClientRect();
  held.style.height = `${height}px`;
  held.style.setProperty("--span", view.node.style.getPropertyValue("--span"));
  const row = view.node.closest("hfposemb-row, #hfposemb-rows");
  if (!row) return;
  dialog.setAttribute("aria-label", "Panel in the whole window");
  view.node.replaceWith(held);
  stage = { view, dialog, held };
  dialog.append(view.node, steps(view));
  row.append(dialog);
  dialog.addEventListener("cancel", (event) => {
    event.preventDefault();
    togglePresent(view);
  });
  dialog.addEventListener("keydown", onKey);
  dialog.showModal();
  view.node.classList.add("presented");
  view.redraw();
  view.focus();
}

function leave() {
  if (!stage) return;
  const { view, dialog, held } = stage;
  stage = null;
  view.node.classList.remove("presented");
  held.replaceWith(view.node);
  dialog.close();
  dialog.remove();
  view.redraw();
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!by || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target instanceof Element && event.target.closest(".drawer, input, textarea, select")) return;
  event.preventDefault();
  step(by);
}

/** @param {number} by */
function step(by) {
  if (!stage) return;
  const all = shown(), at = all.indexOf(stage.view), next = all[(at + by + all.length) % all.length];
  if (next === stage.view) return;
  leave();
  enter(next);
}

/**
 * Return the panels with pictures that are seen on the page, in its order.
 * @returns {Presentable[]}
 */
function shown() {
  const found = [...views].filter((view) => view.hasPictures() && placeOfPanel(view).offsetWidth);
  const follows = Node.DOCUMENT_POSITION_FOLLOWING;
  return found.sort((one, other) =>
    (placeOfPanel(one).compareDocumentPosition(placeOfPanel(other)) & follows ? -1 : 1));
}

/** @param {Presentable} view */
function steps(view) {
  const all = shown(), at = all.indexOf(view);
  /** @type {(words: string, sign: string, by: number) => HTMLElement} */
  const go = (words, sign, by) => {
    const node = button("action", sign);
    node.setAttribute("aria-label", words);
    node.onclick = () => step(by);
    return node;
  };
  return h("nav", "steps", go("Previous panel", "←", -1), h("span", "", `${at + 1} of ${all.length}`),
    go("Next panel", "→", 1));
}
