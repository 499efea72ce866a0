// The script of a report: its panels, whose numbers are in the page itself.

import { embedded, file } from "./embedded.js";
import { drawRow } from "./row.js";

/** Draw every row of the page, in the colours that the reader's system prefers, and on paper in light ones. */
function drawReport() {
  const wanted = matchMedia("(prefers-color-scheme: dark)");
  const paint = (/** @type {boolean} */ dark) => document.body.classList.toggle("dark", dark);
  paint(wanted.matches);
  wanted.addEventListener("change", () => paint(wanted.matches));
  addEventListener("beforeprint", () => paint(false));
  addEventListener("afterprint", () => paint(wanted.matches));
  const views = JSON.parse(embedded("views"));
  const plotly = file(embedded("plotly"), "text/javascript");
  const files = views.files.map((/** @type {{ data: string }} */ { data }) =>
    file(Uint8Array.from(atob(data), (byte) => byte.charCodeAt(0))));
  const shared = { scope: "report", dark: views.dark, plotly, files };
  for (const element of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-view]"))) {
    const value = { ...shared, ...views.rows[Number(element.dataset.view)] };
    drawRow({ element, trigger: () => {}, props: { value }, watch: () => {} });
  }
}

drawReport();
