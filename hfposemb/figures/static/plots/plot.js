// One figure in its box, with the marks and the tooltip laid over it.

import { h, s } from "../rows/elements.js";
import { enlarged } from "./enlarge.js";
import { cross, dot, sampled } from "./marks.js";
import { page } from "../pages/page.js";
import { PlotlyStage } from "./plotly_adapter.js";
import { growth } from "../rows/present.js";
import { recoloured } from "./recolour.js";
import { rowsOf, rowsWithin, withSelected } from "./selection.js";
import { tablesOf } from "../rows/table.js";
import { plain } from "../rows/text.js";
import { tooltip } from "./tooltip.js";
import { describe, labelOf, patchesOf, placeOf, placeOfRow, rowOf } from "./traces.js";
import { mayUnroll, unroll } from "./unroll.js";
import { unpack } from "./unpack.js";

const PHONE = "(max-width: 719px)";
const PHONE_EYE = { x: 1.42, y: 1.26, z: 0.76 };
const HEAVY = 150, LONGEST_WAIT = 800; // ms: of a painting that waits, and how long it waits at most

/** A figure, its caption, its marks and its tooltip. */
export class Plot {
  /** @type {{ data: any[], layout: any } | null} */
  #figure = null;
  /** @type {{ data: any[], layout: any } | null} */
  #sent = null; // the figure without what is selected
  #cost = 0; // ms that it took to paint
  #later = 0; // timer of a painting that waits
  /** @type {PlotlyLibrary | null} */
  #plotly = null;
  #known = ""; // what is drawn, as text
  #kinds = ""; // of the drawn traces
  #turn = 0;
  #seen = false; // whether it has been drawn, in whatever size
  #scope = "";
  /** @type {Record<string, string>} */
  #partner = {};
  /** @type {Camera | null} */
  #camera = null;
  /** @type {string | null} */
  #hovering = null; // the group under the pointer
  /** @type {PointerEvent | null} */
  #pointer = null;
  #groups = new Set();
  #heard = new AbortController();
  /** @type {Size | null} */
  drawn = null;
  /** @type {TraceInfo[]} */
  traces = [];
  flat = true; // needs no WebGL

  /** @param {PlotOwner} panel */
  constructor(panel) {
    this.panel = panel;
    const stage = h("div", "stage");
    this.stage = new PlotlyStage(stage);
    this.overlay = s("svg", { class: "overlay" });
    this.tip = h("div", "tip");
    this.tip.hidden = true;
    this.box = h("div", "plot", stage, this.overlay, this.tip);
    this.box.setAttribute("role", "img");
    this.caption = h("p", "caption");
    this.box.addEventListener("pointermove", (event) => { this.#pointer = event; });
    this.box.addEventListener("pointerleave", () => this.#leave());
    this.box.addEventListener("click", () => this.box.classList.add("tapped"));
    this.observer = new ResizeObserver(() => requestAnimationFrame(() => this.#fit()));
    this.observer.observe(this.box);
    page.links.addEventListener("theme", () => this.redraw(), { signal: this.#heard.signal });
    page.links.addEventListener("mark", (event) => {
      const { scope, group } = /** @type {CustomEvent} */ (event).detail;
      if (scope === this.#scope && this.#groups.has(group)) this.#place();
    }, { signal: this.#heard.signal });
    page.links.addEventListener("selection", (event) => {
      const { scope, group } = /** @type {CustomEvent} */ (event).detail;
      if (!this.panel.selects || scope !== this.#scope || !this.#groups.has(group)) return;
      this.#select();
      this.#redrawLater();
    }, { signal: this.#heard.signal });
  }

  /**
   * Show a drawing; the promise is settled when it is painted.
   * @param {DrawingSpec} drawing
   * @param {RowValue} value
   * @param {string} label
   */
  async show(drawing, value, label) {
    const turn = ++this.#turn, { files } = value;
    this.#scope = value.scope;
    this.#partner = value.dark;
    this.box.setAttribute("aria-label", label);
    const file = drawing.bin === null ? null : files[drawing.bin];
    const named = (/** @type {string} */ key, /** @type {any} */ item) => (key === "$json" ? files[item].url : item);
    const known = JSON.stringify([drawing.figure, file?.url], named);
    if (this.drawn && known === this.#known) return; // only the words around it have changed
    const [plotly, figure] = await Promise.all([page.load(value.plotly.url), readFigure(drawing.figure, file, files)]);
    if (turn !== this.#turn) return; // a newer value has come meanwhile
    this.#plotly = plotly;
    this.#known = known;
    this.#sent = figure;
    this.flat = !figure.data.some((/** @type {any} */ trace) => /gl|3d/.test(trace.type));
    clearTimeout(this.#later);
    this.#select();
    await page.queue.add(this);
  }

  /**
   * Give the box the height of its figure.
   * @param {any} layout
   * @param {number} [width]
   * @returns {Size}
   */
  reserve(layout, width = this.box.clientWidth) {
    if (this.panel.presented()) {
      this.box.style.removeProperty("height");
      return { width, height: this.box.clientHeight };
    }
    const margin = { l: 48, r: 16, t: 8, b: 44, ...layout.template?.layout?.margin, ...layout.margin };
    const square = layout.yaxis?.scaleanchor && !layout.height;
    const aspect = Number(layout.meta?.aspect) || 1; // of an image that is not square
    let height = layout.height ?? 300;
    if (square) height = Math.min((width - margin.l - margin.r) * aspect, 560) + margin.t + margin.b;
    if (matchMedia(PHONE).matches) height = Math.min(height, square ? 340 : 300);
    this.box.style.height = `${Math.max(height, 60)}px`;
    return { width, height: Math.max(height, 60) };
  }

  /** Draw now, if the box is on the screen: a hidden tab has no size. */
  async paint() {
    if (!this.#figure || !this.#plotly) return;
    if (!this.box.clientWidth) {
      if (this.drawn) this.box.dataset.outdated = "";
      return;
    }
    const size = this.reserve(this.#figure.layout);
    const coloured = page.isDark() ? recoloured(this.#figure, this.#partner) : this.#figure;
    const { data, layout } = enlarged(coloured, growth(this.panel.presented()));
    const kinds = JSON.stringify([...new Set(data.map((/** @type {any} */ trace) => trace.type ?? "scatter"))].sort());
    if (this.#kinds && this.#kinds !== kinds) this.#release();
    const traces = data.map((/** @type {any} */ trace, /** @type {number} */ at) => sent(trace, this.traces[at].own));
    const scene = layout.scene && this.#scene(layout, size), annotations = shownNotes(layout.annotations);
    const family = getComputedStyle(this.box).fontFamily;
    const began = performance.now();
    await this.stage.react(this.#plotly, traces, {
      hovermode: "closest", uirevision: "kept", ...layout, ...(scene && { scene }), ...(annotations && { annotations }),
      ...size, autosize: false,
      paper_bgcolor: "rgba(0,0,0,0)", font: { ...layout.font, family },
    });
    if (!this.#figure) return this.#release(); // the panel left meanwhile
    this.#cost = performance.now() - began;
    this.box.classList.toggle("deep", Boolean(scene) || kinds.includes("3d"));
    const isFirst = !this.#seen && Boolean(layout.meta?.unrolls);
    this.#seen = true;
    if (isFirst && mayUnroll(this.#cost)) unroll(this.box, (share) => this.stage.reveal(share));
    if (this.#kinds !== kinds) this.#listen();
    this.#kinds = kinds;
    this.drawn = size;
    delete this.box.dataset.outdated;
    page.contexts.hold(this, this.stage.contexts);
    this.#place();
    this.panel.settle();
  }

  /**
   * Return the figure in the colours of the page, as a file needs it.
   * @returns {SavedFigure | null}
   */
  saved() {
    if (!this.#figure) return null;
    const { data, layout } = page.isDark() ? recoloured(this.#figure, this.#partner) : this.#figure;
    const scene = layout.scene && { ...layout.scene, camera: this.stage.camera() ?? layout.scene.camera };
    return { data, layout: { ...layout, ...(scene && { scene }) }, traces: this.traces };
  }

  /** Return the numbers behind the picture. */
  tables() {
    return this.#figure ? tablesOf(this.#figure, this.traces) : [];
  }

  /**
   * Return the rows of its group within a shape, in the coordinates of the plot.
   * @param {Corners} area
   * @returns {Set<number>}
   */
  rowsWithin(area) {
    return rowsWithin(this.#figure?.data ?? [], this.traces, area);
  }

  /**
   * Save the picture as a file.
   * @param {string} format
   * @param {string} filename
   * @param {Omit<ExportWords, "ink" | "subdued">} words
   */
  async download(format, filename, words) {
    if (!this.drawn) await this.paint();
    if (!this.drawn) return;
    const { backgroundColor, color } = getComputedStyle(this.panel.node);
    const subdued = getComputedStyle(this.caption).color;
    await this.stage.download({ format, filename, ...this.drawn }, backgroundColor, { ...words, ink: color, subdued });
  }

  /** Leave the page. */
  dispose() {
    this.#turn++;
    page.queue.forget(this);
    clearTimeout(this.#later);
    this.observer.disconnect();
    this.#heard.abort();
    this.#release();
    this.#figure = this.#sent = null;
    this.box.remove();
    this.caption.remove();
  }

  // Let what is selected stand out.
  #select() {
    if (!this.#sent) return;
    const traces = this.#sent.data.map(describe);
    this.#groups = new Set(traces.map((trace) => trace.group).filter(Boolean));
    const [group] = this.panel.selects ? this.#groups : [];
    const rows = rowsOf(page.selections.get(`${this.#scope}/${group}`) ?? "");
    this.#figure = withSelected(this.#sent, traces, rows);
    this.traces = this.#figure.data.map(describe);
  }

  // A selection changes while somebody types, and a large map keeps the page busy: it waits as long as it would take.
  #redrawLater() {
    clearTimeout(this.#later);
    if (!this.drawn || this.#cost < HEAVY) return this.redraw();
    this.box.dataset.outdated = ""; // tests and people who script the page wait for the end of it
    this.#later = setTimeout(() => this.redraw(), Math.min(this.#cost, LONGEST_WAIT));
  }

  /** Draw again, when it is its turn. */
  redraw() {
    if (!this.#figure) return;
    page.queue.add(this).catch((error) => this.panel.fail(error));
  }

  /**
   * @param {any} layout
   * @param {Size} size
   */
  #scene({ scene, template, meta }, size) {
    const camera = this.#camera ?? scene.camera ?? template?.layout?.scene?.camera;
    if (this.#camera) return { ...scene, camera };
    if (meta?.fit) return { ...scene, camera: fitted(camera, meta.fit, size) };
    return { ...scene, camera: matchMedia(PHONE).matches ? { ...camera, eye: PHONE_EYE } : camera };
  }

  #release() {
    this.#camera = this.stage.camera() ?? this.#camera;
    this.stage.purge();
    page.contexts.hold(this, 0);
    this.overlay.replaceChildren();
    this.#kinds = "";
    this.drawn = null;
  }

  #fit() {
    if (!this.#figure) return;
    const width = this.box.clientWidth;
    if (!width) return page.contexts.hide(this);
    if (this.drawn) page.contexts.hold(this, this.stage.contexts);
    const isCurrent = this.drawn && Math.abs(width - this.drawn.width) <= 1 && !("outdated" in this.box.dataset);
    if (!isCurrent) this.redraw();
  }

  /** Give up what is drawn, which is hidden, and its WebGL contexts. */
  free() {
    if (!this.#figure || this.box.clientWidth || !this.drawn) return;
    this.#release();
    this.panel.node.dataset.state = "loading";
  }

  #listen() {
    this.stage.listen({
      enter: (points) => this.#enter(points), leave: () => this.#leave(),
      click: (point) => this.#click(point), moved: () => this.#place(),
    });
  }

  /** @param {PlotPoint[]} points */
  #enter(points) {
    const point = points[0], trace = this.traces[point.curveNumber], group = trace?.group ?? null;
    if (this.#hovering !== group) this.#leave();
    this.tip.hidden = true;
    this.#hovering = group;
    if (group) page.hover(this.#scope, group, rowOf(trace, point));
    if (!points.some(({ curveNumber }) => this.traces[curveNumber]?.own)) return;
    const [first, ...rest] = tooltip(points, this.traces);
    this.tip.replaceChildren(h("strong", "", first), ...rest.map((line) => h("span", "", line)));
    this.tip.hidden = false;
    const { left, top, width } = this.box.getBoundingClientRect();
    const x = (this.#pointer?.clientX ?? left) - left, y = (this.#pointer?.clientY ?? top) - top;
    const { offsetWidth, offsetHeight } = this.tip;
    this.tip.style.left = `${Math.max(0, Math.min(x + 14, width - offsetWidth))}px`;
    this.tip.style.top = `${y > offsetHeight + 18 ? y - offsetHeight - 12 : y + 18}px`;
  }

  #leave() {
    this.tip.hidden = true;
    if (this.#hovering) page.hover(this.#scope, this.#hovering, null);
    this.#hovering = null;
  }

  /** @param {PlotPoint} point */
  #click(point) {
    const trace = this.traces[point.curveNumber], patch = patchesOf(trace, point)?.[0];
    const index = patch && trace.grid ? patch.row * trace.grid[1] + patch.column : rowOf(trace, point);
    if (trace.group) page.mark(this.#scope, trace.group, index);
    this.panel.trigger("select", {
      panel: this.panel.key, group: patch ? "patch" : trace.group, index: index ?? point.pointNumber,
      text: labelOf(trace, placeOf(point)), x: point.x ?? null, y: point.y ?? null,
    }, this.panel);
  }

  // Lay the mark of each group over the plot; the first trace of a group has its label.
  #place() {
    if (!this.drawn) return;
    const labelled = new Set();
    this.overlay.replaceChildren(...this.traces.flatMap((trace, number) => {
      const index = trace.group ? page.current(this.#scope, trace.group) : null;
      const data = this.stage.trace(number);
      return index === null || !data ? [] : this.#mark(trace, data, index, labelled);
    }));
  }

  /**
   * @param {TraceInfo} trace
   * @param {any} data
   * @param {number} index
   * @param {Set<string | null>} labelled
   * @returns {SVGElement[]}
   */
  #mark(trace, data, index, labelled) {
    if (data.type === "heatmap") {
      const axes = this.stage.axes(data), at = trace.places ? trace.places.get(index) : index;
      return axes && at !== undefined ? cross(axes, trace.axes, at) : [];
    }
    const at = placeOfRow(trace, index), where = at === null ? null : this.stage.projector(data);
    if (at === null || !where || !this.drawn) return [];
    const spot = where(at), { width, height } = this.drawn;
    if (!(spot.x >= 0 && spot.x <= width && spot.y >= 0 && spot.y <= height)) return [];
    const named = (data.type !== "scatter" || !/lines/.test(data.mode)) && !labelled.has(trace.group);
    labelled.add(trace.group);
    const label = named ? plain(labelOf(trace, at) || String(index), 24) : "";
    return dot(spot, index, label, this.drawn, label ? sampled(where, trace.points) : []);
  }
}

/**
 * Return a camera at the least distance from which the whole cloud is seen: see camera.py.
 * @param {{ eye: Place, center: Place }} camera
 * @param {{ up: number, across: number }} fit
 * @param {Size} size
 */
export function fitted({ eye, center }, { up, across }, { width, height }) {
  const step = { x: eye.x - center.x, y: eye.y - center.y, z: eye.z - center.z };
  const share = Math.max(up, across * height / width) / Math.hypot(step.x, step.y, step.z);
  return {
    center, eye: { x: center.x + share * step.x, y: center.y + share * step.y, z: center.z + share * step.z },
  };
}

/**
 * Return a trace as plotly is given it; a trace with a tooltip of ours gets none of plotly's.
 * @param {any} trace
 * @param {boolean} own
 */
function sent(trace, own) {
  if (!own) return { ...trace, meta: undefined };
  const written = /text/.test(trace.mode) || trace.texttemplate || trace.textposition;
  const text = written ? trace.text : undefined;
  return { ...trace, meta: undefined, text, hoverinfo: "none", hovertemplate: undefined };
}

/**
 * Return the labels of a figure that there is room for.
 * @param {any[] | undefined} notes
 */
function shownNotes(notes) {
  if (!matchMedia(PHONE).matches) return notes;
  return notes?.filter(({ name, xref, text }) => name !== "region" && (xref !== "x2" || /^<b>/.test(text)));
}

/**
 * Read the numbers and labels of a figure.
 * @param {any} figure
 * @param {SentFile | null} file
 * @param {SentFile[]} files
 */
async function readFigure(figure, file, files) {
  const numbers = file && await page.read(file.url, "arrayBuffer");
  return unpack(figure, numbers, (place) => page.read(files[place].url, "json"));
}
