// The script of a report: its panels, whose numbers are in the page itself.

import { embedded, embeddedFile } from "./embedded.js";
import { drawRow } from "../rows/row.js";
import { followSystemColours } from "./system_colours.js";

/** Draw every row of the page, in the colours that the reader's system prefers, and on paper in light ones. */
function drawReport() {
  followSystemColours();
  const views = JSON.parse(embedded("views"));
  const plotly = embeddedFile(embedded("plotly"), "text/javascript");
  const files = views.files.map((/** @type {{ data: string }} */ { data }) =>
    embeddedFile(Uint8Array.from(atob(data), (byte) => byte.charCodeAt(0))));
  const shared = { scope: "report", dark: views.dark, plotly, files };
  for (const element of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-view]"))) {
    const value = { ...shared, ...views.rows[Number(element.dataset.view)] };
    drawRow({ element, trigger: () => {}, props: { value }, watch: () => {} });
  }
}

drawReport();
