// What is seldom done with a panel, behind one button.

import { button, h } from "./elements.js";
import { place } from "./glossary.js";

/**
 * Return a button that shows others, each of which closes them again.
 * @param {string} title of the panel
 * @param {HTMLElement[]} items
 */
export function menu(title, items) {
  if (items.length < 2) return items;
  const list = h("div", "menu", ...items), ask = button("action more", "Save, code ▾");
  ask.setAttribute("aria-label", `Save, code: ${title}`);
  list.popover = "auto";
  ask.popoverTargetElement = list;
  list.addEventListener("toggle", () => place(list, ask));
  list.addEventListener("click", () => list.hidePopover());
  return [ask, list];
}
