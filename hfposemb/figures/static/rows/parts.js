// Parts of a panel.

import { button, emphasised, h, present, whole } from "./elements.js";
import { explained } from "./glossary.js";
import { openPart } from "./open_in.js";
import { page } from "../pages/page.js";
import { csv, tableElement } from "./table.js";
import { number, plain, shortened } from "./text.js";

/**
 * Return a colour as it is on this page, light or dark.
 * @param {string} colour
 * @param {RowValue} value
 */
export function onThisPage(colour, value) {
  return (page.isDark() ? value.dark[colour.toLowerCase()] : null) ?? colour;
}

/**
 * Return a disc in a colour.
 * @param {string} colour
 * @param {RowValue} value
 */
export function disc(colour, value) {
  const node = h("span", "disc");
  if (colour) node.style.setProperty("--colour", onThisPage(colour, value));
  return node;
}

/**
 * Return the line of colour scales, or nothing.
 * @param {ScaleBarSpec[]} bars
 * @param {RowValue} value
 */
export function scaleBars(bars, value) {
  return bars.length ? h("p", "scale-bars", ...bars.map((bar) => scaleBar(bar, value))) : null;
}

/**
 * @param {ScaleBarSpec} bar
 * @param {RowValue} value
 */
function scaleBar(bar, value) {
  const strip = h("span", "strip");
  const colours = bar.colors.map((colour) => onThisPage(colour, value));
  strip.style.background = `linear-gradient(to right, ${colours.join(", ")})`;
  const title = bar.title ? h("span", "", plain(bar.title) + " ") : null;
  return h("span", "scale-bar", title, h("span", "", plain(bar.low)), strip, h("span", "", plain(bar.high)));
}

/**
 * Return what a file of a panel's figure says besides the figure.
 * @param {PanelSpec} spec
 * @param {RowValue} value
 * @param {string} caption of the figure, where a panel has several
 */
export function exportWords(spec, value, caption) {
  const bars = spec.scale_bars.length ? spec.scale_bars : value.scale_bars;
  const [name = "", note = ""] = spec.source;
  const titles = [spec.title || note, spec.drawings.length > 1 ? caption : ""].filter(Boolean);
  return {
    source: plain(name), title: plain(titles.join(". "), 400),
    legend: spec.legend.map((item) => ({ name: plain(item.name), color: onThisPage(item.color, value) })),
    bars: bars.map(({ low, high, title, colors }) => ({
      low: plain(low), high: plain(high), title: plain(title),
      colors: colors.map((colour) => onThisPage(colour, value)),
    })),
  };
}

/**
 * Return the names above a panel: its source, its title and what is below it.
 * @param {PanelSpec} spec
 * @param {RowValue} value
 */
export function panelNames(spec, value) {
  const [name, note = ""] = spec.source;
  const words = emphasised(shortened(spec.title), shortened(spec.emphasis));
  const title = h("h3", spec.source.length ? "title plain" : "title", ...words);
  const source = !spec.source.length ? null : h("p", "source", disc(spec.color, value),
    whole(h("strong", "", plain(shortened(name))), name), h("span", "note", plain(note)));
  const known = new Set();
  const said = emphasised(spec.subtitle, spec.emphasis).flatMap((part) =>
    typeof part === "string" ? explained(part, known) : [part]);
  const subtitle = spec.subtitle ? h("p", "subtitle", ...said) : null;
  return h("div", "names", source, spec.title ? whole(title, spec.title) : null, subtitle);
}

/**
 * Return the large numbers of a panel, or nothing.
 * @param {PanelSpec} spec
 */
export function numbers(spec) {
  if (!spec.numbers.length) return null;
  return h("div", "numbers", ...spec.numbers.map(([figure, words]) =>
    h("p", "", h("strong", "", plain(figure)), h("span", "", plain(words)))));
}

/**
 * Return the legend of a panel, or nothing; some entries are buttons.
 * @param {PanelSpec} spec
 * @param {RowValue} value
 * @param {(name: string) => void} choose
 */
export function legend(spec, value, choose) {
  if (!spec.legend.length) return null;
  return h("p", "legend", ...spec.legend.map((item) => {
    const note = item.note ? h("span", "note", plain(item.note)) : null;
    const parts = present([disc(item.color, value), plain(item.name), note]);
    if (!item.pick) return h("span", "", ...parts);
    const node = button("pick", ...parts);
    node.title = `Select: ${plain(item.name)}`;
    node.onclick = () => choose(item.name);
    return node;
  }));
}

/**
 * Return the button with how to read a panel, which shows and hides the text.
 * @param {string} text
 * @param {string} title of the panel
 * @param {string} id of the text's element
 */
export function help(text, title, id) {
  const known = new Set();
  const paragraphs = text.split("\n\n").map((paragraph) => paragraph.replace(/\s+/g, " ").trim());
  const body = h("div", "help",
    ...paragraphs.map((paragraph) => h("p", "", ...explained(plain(paragraph, 2000), known))));
  const ask = button("ask", h("span", "", "?"));
  body.id = id;
  ask.setAttribute("aria-label", `How to read: ${title}`);
  ask.setAttribute("aria-controls", id);
  const open = (/** @type {boolean} */ opened) => {
    body.hidden = !opened;
    ask.setAttribute("aria-expanded", String(opened));
  };
  open(false);
  const aside = h("div", "aside", ask, body);
  ask.onclick = () => open(Boolean(body.hidden));
  aside.onkeydown = (event) => {
    if (event.key !== "Escape" || body.hidden || aside.querySelector(".meaning:popover-open")) return;
    event.preventDefault();
    open(false);
    ask.focus();
  };
  aside.addEventListener("focusout", ({ relatedTarget }) => {
    if (!(relatedTarget instanceof Node && aside.contains(relatedTarget))) open(false);
  });
  body.tabIndex = -1;
  return aside;
}

/**
 * Return the button that takes the whole window from a panel.
 * @param {() => void} leave
 */
export function presentButton(leave) {
  const node = button("present", h("span", "", "×"));
  node.setAttribute("aria-label", "Leave the whole window");
  node.title = "Leave (Esc)";
  node.onclick = leave;
  return node;
}

/**
 * Return a list of neighbours to choose from: one stop of the keyboard, whose arrows go through it.
 * @param {NeighbourListSpec} list
 * @param {RowValue} value
 * @param {(row: NeighbourSpec) => void} choose
 */
export function neighbourList(list, value, choose) {
  const largest = Math.max(...list.rows.map((row) => Math.abs(row.value)), 1);
  const rows = list.rows.map((row) => {
    const length = h("span", "");
    length.style.width = `${100 * Math.max(row.value, 0) / largest}%`;
    const node = h("li", row.shared ? "neighbour shared" : "neighbour", h("bdi", "", plain(row.label, 40)),
      h("span", "measure", length), h("span", "value", number(row.value)));
    node.setAttribute("role", "option");
    node.setAttribute("aria-selected", "false");
    node.onclick = () => choose(row);
    return node;
  });
  const name = !list.name ? null : h("p", "source", list.color ? disc(list.color, value) : null,
    whole(h("strong", "", plain(shortened(list.name))), list.name));
  const box = h("ol", "", ...rows);
  box.setAttribute("role", "listbox");
  box.setAttribute("aria-label", plain(list.name) || "Neighbours");
  oneStop(rows, rows[0]);
  box.onkeydown = (event) => {
    const at = rows.findIndex((row) => row === event.target), by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Enter" || event.key === " ") rows[at]?.click();
    else if (by) oneStop(rows, rows[at + by])?.focus();
    else return;
    event.preventDefault();
  };
  return h("div", "list", name, box);
}

/**
 * Let the keyboard stop at one row of a list, and return that row.
 * @param {HTMLElement[]} rows
 * @param {HTMLElement | undefined} chosen
 */
function oneStop(rows, chosen) {
  if (chosen) rows.forEach((row) => { row.tabIndex = row === chosen ? 0 : -1; });
  return chosen;
}

const NETWORKS = /^(?:127|10|192\.168|172\.(?:1[6-9]|2\d|3[01]))\.[\d.]+$/;
const NAMES = /^(?:[^.]+|\[.*\]|.*\.(?:local|lan|internal))$/; // of a machine, and of its network

/**
 * Return what reproduces the numbers of a panel, each text with a button that copies it.
 * @param {RecipeSpec} recipe
 * @param {string} title of the panel
 */
export function recipeParts(recipe, title) {
  const { python, command, cite, local } = recipe;
  const part = (/** @type {string} */ name, /** @type {string} */ text) => {
    const code = h("pre", "", text), copy = button("action", "Copy");
    copy.onclick = () => page.copy(copy, code);
    copy.setAttribute("aria-label", `Copy ${name}`);
    code.tabIndex = 0; // it scrolls
    code.setAttribute("role", "group");
    code.setAttribute("aria-label", `${name}: ${title}`);
    return h("div", "", h("p", "", h("strong", "", name), copy), code);
  };
  // Nobody else can open an address of this machine.
  const own = local || !/^https?:$/.test(location.protocol)
    || [NETWORKS, NAMES].some((one) => one.test(location.hostname));
  const cited = own ? cite : cite.replace(/\n}$/, `,\n  url = {${location.href}}\n}`);
  const opened = openPart(recipe, title, saveText, own ? undefined : location.href);
  return [part("Python", python), opened, ...(command ? [part("Command line", command)] : []), part("Cite", cited)];
}

/**
 * Save a text as a file.
 * @param {string} text
 * @param {string} type
 * @param {string} filename
 */
export function saveText(text, type, filename) {
  const link = h("a", "");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = filename;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href)); // the click has begun the download by then; it sends no event
}

/**
 * Return a table with the button that saves it.
 * @param {Table} table
 * @param {string} words
 * @param {string} filename
 */
export function tablePart(table, words, filename) {
  const save = button("action", "CSV");
  save.setAttribute("aria-label", `CSV: ${words}`);
  save.onclick = () => saveText(csv(table), "text/csv", filename);
  return h("div", "", h("p", "", h("strong", "", words), save), tableElement(table, words));
}
