// What the keyboard needs of Gradio's tabs: one tab stop for the strip, and arrow keys along it.

import { nextTab } from "./keys.js";

const TAB_STRIP = ":scope > .tab-wrapper [role=tablist]";
const SELECTED = `${TAB_STRIP} [role=tab][aria-selected=true]`;
const followed = new WeakSet();

/**
 * Follow the tabs that an element is in, once for all elements in them.
 * @param {HTMLElement} element
 */
export function followKeyboard(element) {
  const tabs = element.closest(".tabs");
  if (!tabs || followed.has(tabs)) return;
  followed.add(tabs);
  tabs.addEventListener("keydown", (event) => moveAlong(tabs, /** @type {KeyboardEvent} */ (event)));
  let asked = false, shown = tabs.querySelector(SELECTED);
  const tend = () => {
    asked = false;
    oneStop(tabs);
    const selected = tabs.querySelector(SELECTED);
    if (selected !== shown) bringTab(selected);
    shown = selected;
  };
  new MutationObserver(() => {
    if (!asked) requestAnimationFrame(tend);
    asked = true;
  }).observe(tabs, {
    childList: true, subtree: true, attributes: true, attributeFilter: ["aria-selected"],
  });
  tend();
}

/**
 * Scroll the strip, where it is wider than the window, so that a tab is seen whole.
 * @param {Element | null} tab
 */
function bringTab(tab) {
  const strip = tab?.parentElement;
  if (!(tab instanceof HTMLElement) || !strip) return;
  strip.scrollLeft = tab.offsetLeft - (strip.clientWidth - tab.offsetWidth) / 2;
}

/** @param {Element} tabs */
function tabsOf(tabs) {
  const shown = [...tabs.querySelectorAll(`${TAB_STRIP} [role=tab]`)];
  return /** @type {HTMLElement[]} */ (shown).filter((tab) => !tab.closest("[aria-hidden=true]"));
}

/** @param {Element} tabs */
function oneStop(tabs) {
  for (const tab of tabsOf(tabs)) tab.tabIndex = tab.getAttribute("aria-selected") === "true" ? 0 : -1;
}

/**
 * @param {Element} tabs
 * @param {KeyboardEvent} event
 */
function moveAlong(tabs, event) {
  if (event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
  const all = tabsOf(tabs), next = nextTab(event.key, all.findIndex((tab) => tab === event.target), all.length);
  if (next === null) return;
  event.preventDefault();
  all[next].focus();
  all[next].click();
}
