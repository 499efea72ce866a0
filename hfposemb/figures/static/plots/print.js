// The page on paper. A printer gets no picture from WebGL, so plots in space are images while the page is printed.

import { imagesOf } from "./plotly_adapter.js";

/** Draw plots as images when the page is about to be printed, in light colours, and put everything back afterwards. */
export function followPrinting() {
  /** @type {HTMLImageElement[]} */
  const images = [];
  addEventListener("beforeprint", () => {
    for (const plot of document.querySelectorAll(".js-plotly-plot")) images.push(...imagesOf(plot));
  });
  addEventListener("afterprint", () => {
    for (const image of images.splice(0)) image.remove();
  });
}
