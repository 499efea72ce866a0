// The page on paper. A printer gets no picture from WebGL, so plots in space are images while the page is printed.

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

/**
 * Lay an image over each WebGL canvas of a plot.
 * @param {any} plot
 * @returns {HTMLImageElement[]}
 */
function imagesOf(plot) {
  const layout = plot._fullLayout ?? {};
  for (const [name, { _scene: scene }] of Object.entries(layout).filter(([, part]) => part?._scene)) {
    if (/^scene\d*$/.test(name)) scene.glplot?.redraw(); // WebGL keeps no picture longer than until it is shown
  }
  return [...plot.querySelectorAll("canvas")].filter((canvas) => canvas.width).map((canvas) => {
    const image = document.createElement("img");
    image.src = canvas.toDataURL();
    image.style.cssText = "position: absolute; inset: 0; width: 100%; height: 100%";
    canvas.after(image);
    return image;
  });
}
