// A row of panels, with the style sheet that all rows share.

import { page } from "../../hfposemb/figures/static/pages/page.js";
import { drawRow } from "../../hfposemb/figures/static/rows/row.js";
import { followKeyboard } from "./keyboard.js";

/**
 * Draw a row once its style is there.
 * @param {GradioElement} host
 */
export async function drawStyledRow(host) {
  try {
    await page.style(new URL("hfposemb.css", host.props.value.script.url).href);
  } catch (error) {
    host.element.textContent = error instanceof Error ? error.message : String(error);
    return;
  }
  drawRow(host);
  followKeyboard(host.element);
}
