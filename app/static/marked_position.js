// The slider of the marked position. Dragging it sends no request: the mark moves in the browser.

import { page } from "../../hfposemb/figures/static/pages/page.js";

/**
 * Move the mark of a group. Gradio fires release of a slider for a pointer, but not for a key: it is given one.
 * @param {[index: number]} values
 * @param {{ scope: string, group: string }} options
 */
export function markPosition([index], { scope, group }) {
  page.mark(scope, group, index);
  const range = document.activeElement;
  if (!(range instanceof HTMLInputElement) || range.type !== "range" || range.dataset.keys) return;
  range.dataset.keys = "heard";
  range.addEventListener("keyup", () => range.dispatchEvent(new PointerEvent("pointerup", { bubbles: true })));
}
