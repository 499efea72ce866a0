// All that is used of plotly beyond its documented functions: its private fields are named in this file alone, and
// pyproject.toml caps the version of plotly for their sake.

import { framed } from "./export.js";

// Without `_baseUrl`, clips are named with the address that a page with <base> had when it was first drawn, and nothing
// is clipped any more once that address has changed.
const CONFIG = { displayModeBar: false, responsive: false, scrollZoom: false, showTips: false, doubleClick: "reset",
  _baseUrl: "" };

const DOTS = "dots"; // marks the element of a figure whose traces in WebGL are dots alone

/**
 * Let plotly draw figures of dots without multisampling, for which it has no option. The shader of dots smooths their
 * edges itself, and without a graphics card multisampling takes more than half of the time of a map.
 */
function sampleDotsOnce() {
  const { prototype } = HTMLCanvasElement, original = /** @type {any} */ (prototype.getContext);
  if (original.samplesDotsOnce) return;
  /** @type {any} */
  const own = /** @this {HTMLCanvasElement} @param {string} kind @param {any} options */ function (kind, options) {
    const dots = options?.antialias && this.matches(".gl-canvas") && this.closest(`[data-${DOTS}]`);
    return original.call(this, kind, dots ? { ...options, antialias: false } : options);
  };
  own.samplesDotsOnce = true;
  prototype.getContext = own;
}

/** A figure in an element of the page, drawn by plotly. */
export class PlotlyStage {
  /** @type {PlotlyLibrary | null} */
  #plotly = null;
  #counts = /** @type {WeakMap<object, { whole: number, shown: number }>} */ (new WeakMap());

  /** @param {HTMLElement} node */
  constructor(node) {
    this.node = /** @type {PlotlyNode} */ (node);
  }

  /**
   * Draw a figure, or change the drawn one into it.
   * @param {PlotlyLibrary} plotly
   * @param {any[]} traces
   * @param {any} layout
   */
  async react(plotly, traces, layout) {
    this.#plotly = plotly;
    const flat = traces.filter(({ type }) => type === "scattergl");
    this.node.toggleAttribute(`data-${DOTS}`, flat.every(({ mode }) => mode === "markers"));
    sampleDotsOnce();
    await plotly.react(this.node, traces, layout, CONFIG);
  }

  /** How many WebGL contexts the figure holds. */
  get contexts() {
    return this.node.querySelectorAll("canvas").length;
  }

  /** Remove the figure, and give its WebGL contexts back: a browser has about sixteen. */
  purge() {
    if (!this.node._fullLayout) return;
    const canvases = [...this.node.querySelectorAll("canvas")];
    this.#plotly?.purge(this.node);
    for (const canvas of canvases) {
      const context = canvas.getContext("webgl2") ?? canvas.getContext("webgl");
      context?.getExtension("WEBGL_lose_context")?.loseContext();
    }
  }

  /**
   * Return where the 3-D scene is seen from, if there is one.
   * @returns {Camera | null}
   */
  camera() {
    return this.node._fullLayout?.scene?.camera ?? null;
  }

  /**
   * Show the first rows of the path of a 3-D scene, its first trace, without giving plotly another figure.
   * @param {number} share of its rows
   */
  reveal(share) {
    const scene = this.node._fullLayout?.scene?._scene, path = scene?.traces?.[this.node._fullData?.[0]?.uid];
    if (!scene?.glplot || !path) return;
    for (const drawn of [path.linePlot, path.scatterPlot]) if (drawn) this.#shorten(drawn, share);
    scene.glplot.redraw();
  }

  /**
   * Return a trace with plotly's defaults, if it is drawn.
   * @param {number} number
   * @returns {any}
   */
  trace(number) {
    const found = this.node._fullData?.[number];
    return found?.visible === true ? found : null;
  }

  /**
   * Listen to the pointer and to everything that moves points on the screen, the camera included.
   * @param {object} listener
   * @param {(points: PlotPoint[]) => void} listener.enter
   * @param {() => void} listener.leave
   * @param {(point: PlotPoint) => void} listener.click
   * @param {() => void} listener.moved
   */
  listen({ enter, leave, click, moved }) {
    this.node.on("plotly_hover", ({ points }) => enter(points));
    this.node.on("plotly_unhover", () => leave());
    this.node.on("plotly_click", ({ points }) => click(points[0]));
    this.node.on("plotly_relayouting", () => moved());
    this.node.on("plotly_afterplot", () => moved());
    const scene = this.node._fullLayout?.scene?._scene?.glplot;
    if (!scene) return;
    const before = scene.onrender;
    scene.onrender = () => {
      before?.();
      moved();
    };
  }

  /**
   * Return where the points of a trace are in pixels of the stage, as a function of their place in it, or null.
   * @param {any} data as ``trace`` returns it
   * @returns {((at: number) => Spot) | null}
   */
  projector(data) {
    if (data.type === "scatter3d") return this.#projector3d(data);
    const axes = this.axes(data);
    if (!axes) return null;
    const { x, y } = axes;
    return (at) => ({ x: x.start + x.pixel(value(data, "x", at)), y: y.start + y.pixel(value(data, "y", at)) });
  }

  /**
   * Return the axes of a trace in pixels of the stage, or null.
   * @param {any} data as ``trace`` returns it
   * @returns {{ x: PixelAxis, y: PixelAxis } | null}
   */
  axes(data) {
    const layout = this.node._fullLayout;
    const [x, y] = ["x", "y"].map((name) => layout?.[`${name}axis${(data[name + "axis"] ?? name).slice(1)}`]);
    return x && y ? { x: pixels(x), y: pixels(y) } : null;
  }

  /**
   * Return pixels of the stage in the coordinates of the axes that the first one is in: an inset's before the figure's.
   * @param {Spot} first
   * @param {Spot[]} corners
   * @returns {Corners | null}
   */
  places(first, corners) {
    const within = (/** @type {PixelAxis} */ { start, length }, /** @type {number} */ at) =>
      at >= start && at <= start + length;
    const inset = this.node._fullLayout?.xaxis2 && this.axes({ xaxis: "x2", yaxis: "y2" });
    const axes = inset && within(inset.x, first.x) && within(inset.y, first.y) ? inset : this.axes({});
    if (!axes) return null;
    const { x, y } = axes;
    return {
      x: corners.map((corner) => x.value(corner.x - x.start)), y: corners.map((corner) => y.value(corner.y - y.start)),
    };
  }

  /**
   * Save the figure as an image file.
   * @param {{ format: string, width: number, height: number, filename: string }} file
   * @param {string} background
   * @param {ExportWords} words
   */
  async download({ format, filename, ...drawn }, background, words) {
    const { data, layout } = this.node, camera = this.camera();
    const scene = layout.scene && { ...layout.scene, ...(camera && { camera }) };
    const { l: left, r: right, t: top, b: bottom } = this.node._fullLayout._size;
    const figure = { data, layout: { ...layout, ...(scene && { scene }), paper_bgcolor: background } };
    const pen = document.createElement("canvas").getContext("2d");
    if (pen) pen.font = `13px ${layout.font?.family ?? "sans-serif"}`;
    const measure = (/** @type {string} */ text) => pen?.measureText(text).width ?? 7 * text.length;
    const { width, height, ...whole } = framed(figure, { ...drawn, left, right, top, bottom }, words, measure);
    await this.#plotly?.downloadImage(whole, { scale: 2, format, filename, width, height });
  }

  // Plotly draws as many vertices of a buffer as the object says: two for each edge of a ribbon, three for a triangle.
  // A count that is not ours is that of a figure which was drawn since.
  /**
   * @param {{ vertexCount: number }} drawn
   * @param {number} share
   */
  #shorten(drawn, share) {
    const known = this.#counts.get(drawn);
    const whole = known?.shown === drawn.vertexCount ? known.whole : drawn.vertexCount;
    drawn.vertexCount = share < 1 ? 6 * Math.floor(whole * share / 6) : whole;
    this.#counts.set(drawn, { whole, shown: drawn.vertexCount });
  }

  /**
   * @param {any} data
   * @returns {((at: number) => Spot) | null}
   */
  #projector3d(data) {
    const layout = this.node._fullLayout, size = layout?._size, scene = layout?.[data.scene ?? "scene"]?._scene;
    if (!size || !scene?.glplot) return null;
    const { model, view, projection } = scene.glplot.cameraParams, { x, y } = scene.fullSceneLayout.domain;
    const width = size.w * (x[1] - x[0]), height = size.h * (y[1] - y[0]);
    const left = size.l + size.w * x[0], top = size.t + size.h * (1 - y[1]);
    return (at) => {
      const place = ["x", "y", "z"].map((axis, dimension) => value(data, axis, at) * scene.dataScale[dimension]);
      const [px, py, , pw] = times(projection, times(view, times(model, [...place, 1])));
      return { x: left + (1 + px / pw) * width / 2, y: top + (1 - py / pw) * height / 2 };
    };
  }
}

/**
 * Return a coordinate of a point, which a trace may give as a first value and a step.
 * @param {any} data
 * @param {string} axis
 * @param {number} at
 * @returns {number}
 */
function value(data, axis, at) {
  return data[axis]?.[at] ?? (data[axis + "0"] ?? 0) + at * (data["d" + axis] ?? 1);
}

/**
 * Multiply a matrix of four columns, one after the other, with a vector.
 * @param {ArrayLike<number>} m
 * @param {number[]} p
 * @returns {number[]}
 */
function times(m, p) {
  return [0, 1, 2, 3].map((row) => m[row] * p[0] + m[4 + row] * p[1] + m[8 + row] * p[2] + m[12 + row] * p[3]);
}

/**
 * @param {{ _offset: number, _length: number, d2p: (value: number) => number, p2d: (pixel: number) => number }} axis
 * @returns {PixelAxis}
 */
function pixels(axis) {
  const { _offset: start, _length: length } = axis;
  return { start, length, pixel: (at) => axis.d2p(at), value: (pixel) => axis.p2d(pixel) };
}

/**
 * Lay an image over each WebGL canvas of a plot.
 * @param {any} plot
 * @returns {HTMLImageElement[]}
 */
export function imagesOf(plot) {
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
