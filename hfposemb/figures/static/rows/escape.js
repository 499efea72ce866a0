// Escape clears a selection, wherever the focus is.

const OWN = ".aside, .recipe, .sheets, [role=dialog], [role=listbox], [aria-modal=true]"; // parts that close by Escape

/**
 * Press the button that clears the selection of the page, if one is on the screen.
 * @param {KeyboardEvent} event
 */
export function clearByEscape(event) {
  if (event.key !== "Escape" || event.defaultPrevented) return;
  if (event.target instanceof Element && event.target.closest(OWN)) return;
  const all = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(".action[data-action='Clear']"));
  [...all].find((node) => node.offsetWidth)?.click();
}
