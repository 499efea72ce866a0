// Draws rows of panels: a module that a page loads once, whose drawRow each row calls. Whatever comes from Python reaches
// the page as text, never as markup.

const PHONE = "(max-width: 719px)";
const LONGEST = 160; // characters of a label that are shown
const SVG = "http://www.w3.org/2000/svg";
const ROWS = 100, COLUMNS = 12; // of a table that are shown; the file has all

// ---- the page: what all rows share -----------------------------------------------------------------------------------

function openPage() {
  const files = new Map(); // url → promise of its decoded content, oldest first
  const page = { links: new EventTarget(), marks: new Map(), plotly: null };

  page.read = (url, kind) => {
    const known = files.get(url) ?? fetch(url).then((answer) => {
      if (!answer.ok) throw new Error("This view is no longer on the server. Reload the page.");
      return answer[kind]();
    });
    files.delete(url);
    files.set(url, known);
    if (files.size > 48) files.delete(files.keys().next().value);
    known.catch(() => files.delete(url));
    return known;
  };

  // The plotly.js of the installed wheel. Gradio has another one for gr.Plot under the same global name, which is put back.
  page.load = (url) => (page.plotly ??= new Promise((resolve, reject) => {
    const before = window.Plotly;
    const script = document.createElement("script");
    script.src = url;
    script.onload = () => {
      const ours = window.Plotly;
      if (before) window.Plotly = before;
      resolve(ours);
    };
    script.onerror = () => reject(new Error("The plot library could not be loaded. Reload the page."));
    document.head.append(script);
  }).catch((error) => { page.plotly = null; throw error; }));

  // A group has one marked row, which stays, and perhaps one under the pointer, which is shown in its place.
  const set = (role) => (scope, group, index) => {
    const name = `${scope}/${group}`;
    const mark = page.marks.get(name) ?? { marked: null, hovered: null };
    if (mark[role] === index) return;
    mark[role] = index;
    page.marks.set(name, mark);
    page.links.dispatchEvent(new CustomEvent("mark", { detail: { scope, group } }));
  };
  page.mark = set("marked");
  page.hover = set("hovered");
  page.current = (scope, group) => {
    const mark = page.marks.get(`${scope}/${group}`);
    return mark?.hovered ?? mark?.marked ?? null;
  };

  // One plot at a time, the page answers in between; what is on the screen comes first, there what needs no WebGL, since it
  // takes a fraction of the time, the rest when nothing else is to do.
  const queue = new Map(); // plot → those who wait until it is painted
  let painting = false;
  page.later = (go) => (window.requestIdleCallback ? requestIdleCallback(go, { timeout: 1000 }) : setTimeout(go)); // Safari has none
  const pause = (near) => new Promise((go) => (near ? setTimeout(go) : page.later(go)));
  const below = (plot) => {
    const { top, bottom, left, width } = plot.box.getBoundingClientRect();
    return !width ? Infinity : bottom < 0 ? innerHeight - bottom : left > innerWidth ? innerHeight + top : Math.max(top, 0);
  };
  const before = ([far, plot], [least, best]) => (Math.max(far, least) < innerHeight && plot.flat !== best.flat ? plot.flat : far < least);
  const next = () => [...queue.keys()].map((plot) => [below(plot), plot]).reduce((best, one) => (before(one, best) ? one : best));
  const paint = async (plot) => {
    const told = queue.get(plot);
    queue.delete(plot);
    await plot.paint().then(() => told?.forEach(([done]) => done()), (error) => told?.forEach(([, failed]) => failed(error)));
  };
  page.draw = (plot) => new Promise(async (...told) => {
    queue.set(plot, [...(queue.get(plot) ?? []), told]);
    if (painting) return;
    painting = true;
    for (let near = true; queue.size; near = queue.size && next()[0] < innerHeight) {
      await pause(near);
      if (queue.size) await paint(next()[1]);
    }
    painting = false;
  });
  page.forget = (plot) => {
    queue.get(plot)?.forEach(([done]) => done());
    queue.delete(plot);
  };
  window.addEventListener("beforeprint", () => [...queue.keys()].forEach(paint));

  // Where a page may not write to the clipboard, the text is selected, to be copied by hand.
  page.copy = async (button, pre) => {
    try {
      await navigator.clipboard.writeText(pre.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(pre);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  };

  page.isDark = () => document.body.classList.contains("dark");
  let dark = page.isDark();
  new MutationObserver(() => {
    if (dark === page.isDark()) return;
    dark = page.isDark();
    page.links.dispatchEvent(new Event("theme"));
  }).observe(document.body, { attributes: true, attributeFilter: ["class"] });

  customElements.define("hfposemb-row", class extends HTMLElement {
    connectedCallback() { this.dispatchEvent(new Event("entered")); }
    disconnectedCallback() { queueMicrotask(() => this.isConnected || this.dispatchEvent(new Event("left"))); }
  });
  return page;
}

const page = (window.hfposemb ??= openPage());

// ---- words -----------------------------------------------------------------------------------------------------------

// Control and bidirectional characters by name, and no more than can be read.
function plain(text, longest = LONGEST) {
  const cut = text.length > longest ? text.slice(0, longest) + "…" : text;
  return cut.replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, (character) =>
    `⟨U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

// A word that no line has room for is the name of a source. It is cut in its middle, since both ends tell it from others.
const shortened = (text) => text.replace(/\S{37,}/gu, (name) => [...name].slice(0, 18).join("") + "…" + [...name].slice(-17).join(""));

// The whole of a text that was shortened, on hover.
function whole(node, text) {
  if (shortened(text) !== text) node.title = plain(text, 600);
  return node;
}

function number(value) {
  if (value === null || value === undefined || value === "") return "";
  if (!Number.isFinite(Number(value))) return plain(String(value));
  const size = Math.abs(value);
  const text = Number.isInteger(Number(value)) ? size.toLocaleString("en")
    : size < 1 ? size.toFixed(3).replace(/^0/, "") : size < 100 ? size.toFixed(2) : Math.round(size).toLocaleString("en");
  return (value < 0 && /[1-9]/.test(text) ? "−" : "") + text;
}

// Text of a figure is written for plotly, which reads it as markup. A tooltip shows what it stood for.
const unescaped = (text) => text.replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&#36;/g, "$").replace(/&amp;/g, "&");

function h(tag, className, ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...children.filter((child) => child !== null && child !== ""));
  return node;
}

// Text in which the given words, if any, are written in the accent.
function emphasised(text, words) {
  const shown = plain(text, 600), at = words ? shown.indexOf(plain(words)) : -1;
  if (at < 0) return [shown];
  return [shown.slice(0, at), h("strong", "accent", plain(words)), shown.slice(at + plain(words).length)];
}

// ---- figures ---------------------------------------------------------------------------------------------------------

const ARRAYS = { f4: Float32Array, f8: Float64Array, i1: Int8Array, i2: Int16Array, i4: Int32Array,
  u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, b1: Uint8Array };

// Put the numbers and labels back in their places.
async function restore(value, numbers, files) {
  if (Array.isArray(value)) return Promise.all(value.map((item) => restore(item, numbers, files)));
  if (value === null || typeof value !== "object") return value;
  if ("$json" in value) return page.read(files[value.$json].url, "json");
  if ("$bin" in value) {
    const [rows, width = null] = value.shape;
    let array = new ARRAYS[value.dtype](numbers, value.$bin, rows * (width ?? 1));
    if ("scale" in value) array = Float32Array.from(array, (step) => (step === -32768 ? NaN : step * value.scale + value.offset));
    return width === null ? array : Array.from({ length: rows }, (_, row) => array.subarray(row * width, (row + 1) * width));
  }
  const entries = Object.entries(value).map(async ([name, item]) => [name, await restore(item, numbers, files)]);
  return Object.fromEntries(await Promise.all(entries));
}

// Every colour by its partner on a dark page. Words are left alone, and so are arrays of numbers.
const WORDS = new Set(["text", "labels", "name", "ticktext", "customdata", "meta", "hovertext", "hovertemplate"]);
function recoloured(value, partner) {
  if (typeof value === "string") {
    if (value.startsWith("#")) return partner[value.toLowerCase()] ?? value;
    const rgb = /^rgba?\((\d+), *(\d+), *(\d+)(.*)\)$/.exec(value);
    const hex = rgb && partner["#" + rgb.slice(1, 4).map((part) => Number(part).toString(16).padStart(2, "0")).join("")];
    if (!hex) return value;
    return `rgba(${[1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)).join(", ")}${rgb[4] || ", 1"})`;
  }
  if (Array.isArray(value)) return ArrayBuffer.isView(value[0]) ? value : value.map((item) => recoloured(item, partner));
  if (value === null || typeof value !== "object" || ArrayBuffer.isView(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, WORDS.has(name) ? item : recoloured(item, partner)]));
}

// One figure in its box, with the marks and the tooltip laid over it.
class Plot {
  constructor(panel) {
    this.panel = panel;
    this.stage = h("div", "stage");
    this.overlay = document.createElementNS(SVG, "svg");
    this.overlay.classList.add("overlay");
    this.tip = h("div", "tip");
    this.tip.hidden = true;
    this.box = h("div", "plot", this.stage, this.overlay, this.tip);
    this.box.setAttribute("role", "img");
    this.caption = h("p", "caption");
    this.turn = 0;
    this.box.addEventListener("pointermove", (event) => { this.pointer = event; });
    this.box.addEventListener("pointerleave", () => this.leave());
    this.box.addEventListener("click", () => this.box.classList.add("tapped"));
    this.observer = new ResizeObserver(() => requestAnimationFrame(() => this.fit()));
    this.observer.observe(this.box);
    this.heard = new AbortController();
    page.links.addEventListener("theme", () => this.draw(), { signal: this.heard.signal });
    page.links.addEventListener("mark", ({ detail }) => {
      if (detail.scope === this.scope && this.links?.has(detail.group)) this.place();
    }, { signal: this.heard.signal });
  }

  async show(drawing, value, label) {
    const turn = ++this.turn;
    this.scope = value.scope;
    this.partner = value.dark;
    this.box.setAttribute("aria-label", label);
    const known = JSON.stringify([drawing.figure, value.files[drawing.bin]?.url], (key, item) => (key === "$json" ? value.files[item].url : item));
    if (this.drawn && known === this.known) return; // only the words around it have changed
    const numbers = drawing.bin === null ? null : page.read(value.files[drawing.bin].url, "arrayBuffer");
    const [plotly, figure] = await Promise.all([page.load(value.plotly.url), Promise.resolve(numbers).then((buffer) => restore(drawing.figure, buffer, value.files))]);
    if (turn !== this.turn) return; // a newer value has come meanwhile
    this.plotly = plotly;
    this.known = known;
    this.figure = figure;
    this.flat = !figure.data.some((trace) => /gl|3d/.test(trace.type));
    this.traces = figure.data.map((trace) => this.describe(trace));
    this.links = new Set(this.traces.map((trace) => trace.group).filter(Boolean));
    await this.draw();
  }

  // What the pointer needs to know of a trace.
  describe(trace) {
    const meta = trace.meta && typeof trace.meta === "object" && !Array.isArray(trace.meta) ? trace.meta : {};
    const labels = meta.labels ?? (Array.isArray(trace.text) ? trace.text : null);
    const points = trace.type === "heatmap" ? 0 : Math.max(trace.x?.length ?? 0, trace.y?.length ?? 0);
    const ids = meta.ids ?? (meta.link && meta.first === undefined && trace.type !== "heatmap" ? trace.customdata : null) ?? null;
    const places = ids && new Map(Array.from(ids, (id, place) => [id, place]));
    return { group: meta.link ?? null, first: meta.first ?? 0, ids, places, labels, escaped: !meta.labels, points, axes: meta.axes ?? "xy",
      grid: meta.grid ?? null, tiles: meta.tiles ?? null, kept: meta.kept ?? null, of: meta.of ?? 0,
      own: trace.hoverinfo !== "skip" && (Boolean(meta.link || labels) || !trace.hovertemplate) };
  }

  // The patches of an image that a cell of a map stands for: the one whose map it is in, if there are several, and its own.
  patchesOf(point) {
    const { grid, tiles } = this.traces[point.curveNumber] ?? {};
    if (!grid || !Array.isArray(point.pointNumber)) return null;
    const [rows, columns] = grid, [down, across] = point.pointNumber;
    if (!tiles) return [{ row: down, column: across }];
    const row = Math.floor(down / (rows + 1)), column = Math.floor(across / (columns + 1));
    return [{ row: tiles[0][row], column: tiles[1][column] }, { row: down % (rows + 1), column: across % (columns + 1) }];
  }

  reserve(layout, width = this.box.clientWidth) {
    const margin = { l: 48, r: 16, t: 8, b: 44, ...layout.template?.layout?.margin, ...layout.margin };
    const square = layout.yaxis?.scaleanchor && !layout.height;
    const aspect = Number(layout.meta?.aspect) || 1; // of an image that is not square
    let height = square ? Math.min((width - margin.l - margin.r) * aspect, 560) + margin.t + margin.b : layout.height ?? 300;
    if (matchMedia(PHONE).matches) height = Math.min(height, square ? 340 : 300);
    this.box.style.height = `${Math.max(height, 60)}px`;
    return { width, height: Math.max(height, 60) };
  }

  // Draw when it is this plot's turn.
  draw() {
    return page.draw(this);
  }

  // Draw now, if the box is on the screen: a hidden tab has no size, and holds no WebGL context.
  async paint() {
    if (!this.figure || !this.box.clientWidth) return;
    const { width, height } = this.reserve(this.figure.layout);
    const { data, layout } = page.isDark() ? recoloured(this.figure, this.partner) : this.figure;
    const style = getComputedStyle(this.box);
    const kinds = JSON.stringify([...new Set(data.map((trace) => trace.type ?? "scatter"))].sort());
    if (this.kinds && this.kinds !== kinds) this.release();
    const traces = data.map((trace, place) => this.traces[place].own
      ? { ...trace, meta: undefined, text: /text/.test(trace.mode) || trace.texttemplate || trace.textposition ? trace.text : undefined, hoverinfo: "none", hovertemplate: undefined }
      : { ...trace, meta: undefined });
    const scene = layout.scene && { ...layout.scene, camera: this.camera ?? layout.scene.camera ?? layout.template?.layout?.scene?.camera };
    if (scene && !this.camera && matchMedia(PHONE).matches) scene.camera = { ...scene.camera, eye: { x: 1.42, y: 1.26, z: 0.76 } };
    await this.plotly.react(this.stage, traces, {
      hovermode: "closest", uirevision: "kept", ...layout, ...(scene && { scene }), width, height, autosize: false,
      paper_bgcolor: "rgba(0,0,0,0)", font: { ...layout.font, family: style.fontFamily },
    }, { displayModeBar: false, responsive: false, scrollZoom: false, showTips: false, doubleClick: "reset" });
    if (!this.figure) return this.release(); // the panel left meanwhile
    this.box.classList.toggle("deep", Boolean(scene) || kinds.includes("3d"));
    if (this.kinds !== kinds) this.listen();
    this.kinds = kinds;
    this.drawn = { width, height };
    this.place();
    this.panel.settle();
  }

  rest() {
    if (!this.figure || this.box.clientWidth || !this.drawn) return;
    this.release();
    this.panel.node.dataset.state = "loading";
  }

  // Give the WebGL contexts back: a browser has about sixteen.
  release() {
    if (!this.stage._fullLayout) return;
    this.camera = this.stage._fullLayout?.scene?.camera ?? this.camera;
    const canvases = [...this.stage.querySelectorAll("canvas")];
    this.plotly.purge(this.stage);
    for (const canvas of canvases) (canvas.getContext("webgl2") ?? canvas.getContext("webgl"))?.getExtension("WEBGL_lose_context")?.loseContext();
    this.overlay.replaceChildren();
    this.kinds = this.drawn = null;
  }

  dispose() {
    this.turn++;
    page.forget(this);
    this.observer.disconnect();
    this.heard.abort();
    this.release();
    this.figure = null;
    this.box.remove();
    this.caption.remove();
  }

  fit() {
    if (!this.figure) return;
    if (!this.box.clientWidth) {
      if (/gl|3d/.test(this.kinds ?? "")) page.later(() => this.rest());
    } else if (!this.drawn || Math.abs(this.box.clientWidth - this.drawn.width) > 1) this.draw();
  }

  listen() {
    this.stage.on("plotly_hover", ({ points }) => this.enter(points));
    this.stage.on("plotly_unhover", () => this.leave());
    this.stage.on("plotly_click", ({ points }) => this.click(points[0]));
    this.stage.on("plotly_relayouting", () => this.place());
    this.stage.on("plotly_afterplot", () => this.place());
    const deep = this.stage._fullLayout?.scene?._scene?.glplot; // the marks follow the camera
    if (deep) {
      const before = deep.onrender;
      deep.onrender = () => { before?.(); this.place(); };
    }
  }

  // The row of the linked group that a point stands for.
  rowOf(point) {
    const trace = this.traces[point.curveNumber];
    if (!trace?.group) return null;
    if (Array.isArray(point.pointNumber)) return Math.round(trace.axes === "y" ? point.y : point.x);
    const place = point.pointNumber ?? point.pointIndex;
    return trace.ids ? trace.ids[place] : place + trace.first;
  }

  labelOf({ curveNumber, pointNumber, pointIndex }) {
    const { labels, escaped } = this.traces[curveNumber] ?? {}, place = pointNumber ?? pointIndex;
    const label = String((Array.isArray(place) ? labels?.[place[0]]?.[place[1]] : labels?.[place]) ?? "");
    return escaped ? unescaped(label) : label;
  }

  enter(points) {
    const point = points[0], trace = this.traces[point.curveNumber];
    this.leave();
    if (trace?.group) {
      this.hovering = trace.group;
      page.hover(this.scope, trace.group, this.rowOf(point));
    }
    if (!points.some(({ curveNumber }) => this.traces[curveNumber]?.own)) return;
    const titleOf = (axis) => unescaped(axis?.title?.text ?? "");
    const lines = [], patches = this.patchesOf(point);
    if (patches) {
      lines.push(h("strong", "", patches.map(({ row, column }) => `row ${row}, column ${column}`).join(" and ")), h("span", "", number(point.z)));
    } else if (Array.isArray(point.pointNumber) && !this.labelOf(point)) {
      const [across, down] = [titleOf(point.xaxis), titleOf(point.yaxis)].map((title) => plain(title));
      lines.push(h("strong", "", across === down ? `${down} ${number(point.y)} and ${number(point.x)}` : `${down} ${number(point.y)}, ${across} ${number(point.x)}`), h("span", "", number(point.z)));
    } else if (this.labelOf(point)) {
      lines.push(h("strong", "", plain(this.labelOf(point))), trace.group ? h("span", "", `${plain(trace.group)} ${number(this.rowOf(point))}`) : "");
    } else if (point.z !== undefined) {
      lines.push(h("strong", "", trace.group ? `${plain(trace.group)} ${number(this.rowOf(point))}` : `${number(point.x)}, ${number(point.y)}, ${number(point.z)}`));
    } else {
      lines.push(h("strong", "", `${plain(titleOf(point.xaxis))} ${number(point.x)}`));
      for (const { data, y } of points.slice(0, 6)) lines.push(h("span", "", `${plain(unescaped(data.name ?? ""))} ${number(y)}`));
    }
    const kept = trace?.kept?.[point.pointNumber ?? point.pointIndex] ?? -1; // -1: not measured
    if (kept >= 0) lines.push(h("span", "", `${kept} of its ${trace.of} nearest are near it here`));
    this.tip.replaceChildren(...lines.filter(Boolean));
    this.tip.hidden = false;
    const frame = this.box.getBoundingClientRect();
    const x = (this.pointer?.clientX ?? frame.left) - frame.left, y = (this.pointer?.clientY ?? frame.top) - frame.top;
    this.tip.style.left = `${Math.max(0, Math.min(x + 14, frame.width - this.tip.offsetWidth))}px`;
    this.tip.style.top = `${y > this.tip.offsetHeight + 18 ? y - this.tip.offsetHeight - 12 : y + 18}px`;
  }

  leave() {
    this.tip.hidden = true;
    if (this.hovering) page.hover(this.scope, this.hovering, null);
    this.hovering = null;
  }

  click(point) {
    const trace = this.traces[point.curveNumber], patch = this.patchesOf(point)?.[0];
    const index = patch ? patch.row * trace.grid[1] + patch.column : this.rowOf(point);
    if (trace.group) page.mark(this.scope, trace.group, index);
    this.panel.trigger("select", { panel: this.panel.key, group: patch ? "patch" : trace.group, index: index ?? point.pointNumber, text: this.labelOf(point),
      x: point.x ?? null, y: point.y ?? null });
  }

  // Where the points of a trace are, in pixels of the box: a function of their place in it, or null.
  projector(data) {
    const layout = this.stage._fullLayout, size = layout._size;
    const value = (axis, at) => data[axis]?.[at] ?? (data[axis + "0"] ?? 0) + at * (data["d" + axis] ?? 1);
    if (data.type === "scatter3d") {
      const scene = layout[data.scene ?? "scene"]?._scene;
      if (!scene?.glplot) return null;
      const { model, view, projection } = scene.glplot.cameraParams, { x, y } = scene.fullSceneLayout.domain;
      const width = size.w * (x[1] - x[0]), height = size.h * (y[1] - y[0]);
      const left = size.l + size.w * x[0], top = size.t + size.h * (1 - y[1]);
      const times = (m, p) => [0, 1, 2, 3].map((row) => m[row] * p[0] + m[4 + row] * p[1] + m[8 + row] * p[2] + m[12 + row] * p[3]);
      return (at) => {
        const place = ["x", "y", "z"].map((axis, dimension) => value(axis, at) * scene.dataScale[dimension]);
        const [px, py, , pw] = times(projection, times(view, times(model, [...place, 1])));
        return { x: left + (1 + px / pw) * width / 2, y: top + (1 - py / pw) * height / 2 };
      };
    }
    const [xaxis, yaxis] = this.axes(data);
    return xaxis && yaxis && ((at) => ({ x: xaxis._offset + xaxis.d2p(value("x", at)), y: yaxis._offset + yaxis.d2p(value("y", at)) }));
  }

  axes(data) {
    return ["x", "y"].map((name) => this.stage._fullLayout[`${name}axis${(data[name + "axis"] ?? name).slice(1)}`]);
  }

  // Lay the mark of each group over the plot.
  place() {
    if (!this.drawn) return;
    const shapes = [], labelled = new Set();
    this.traces.forEach((trace, number) => {
      const index = trace.group ? page.current(this.scope, trace.group) : null;
      const data = this.stage._fullData?.[number];
      if (index === null || !data || data.visible !== true) return;
      if (data.type === "heatmap") return void shapes.push(...this.cross(trace, data, index));
      const at = trace.places ? trace.places.get(index) : index - trace.first;
      if (at === undefined || at < 0 || at >= trace.points) return;
      const where = this.projector(data);
      const spot = where?.(at);
      if (!spot || !(spot.x >= 0 && spot.x <= this.drawn.width && spot.y >= 0 && spot.y <= this.drawn.height)) return;
      const named = data.type !== "scatter" || !/lines/.test(data.mode);
      const label = named && !labelled.has(trace.group) ? plain(this.labelOf({ curveNumber: number, pointNumber: at }) || String(index), 24) : "";
      labelled.add(trace.group);
      shapes.push(...this.dot(spot, index, label, where, trace.points));
    });
    this.overlay.replaceChildren(...shapes);
  }

  cross(trace, data, index) {
    const [xaxis, yaxis] = this.axes(data);
    const [left, top, x, y] = [xaxis._offset, yaxis._offset, xaxis.d2p(index), yaxis.d2p(index)];
    const line = (x1, y1, x2, y2) => s("line", { class: "cross", "data-index": index, x1, y1, x2, y2 });
    return [
      trace.axes.includes("x") && x >= 0 && x <= xaxis._length ? line(left + x, top, left + x, top + yaxis._length) : null,
      trace.axes.includes("y") && y >= 0 && y <= yaxis._length ? line(left, top + y, left + xaxis._length, top + y) : null,
    ].filter(Boolean);
  }

  // A dot, and its label where the fewest points are in the way.
  dot({ x, y }, index, words, where, points) {
    const dot = s("circle", { class: "mark", "data-index": index, cx: x, cy: y, r: 6 });
    if (!words) return [dot];
    const { width, height } = this.drawn, long = 8 * words.length + 8, step = Math.max(1, Math.floor(points / 300));
    const crowd = Array.from({ length: Math.floor(points / step) }, (_, turn) => where(turn * step)).filter((p) => Math.abs(p.x - x) < 60 + long && Math.abs(p.y - y) < 60);
    let best = null;
    for (let turn = 0; turn < 12; turn++) {
      const dx = Math.cos(turn * Math.PI / 6 + 0.4), dy = Math.sin(turn * Math.PI / 6 + 0.4), end = { x: x + 32 * dx, y: y + 32 * dy };
      const from = dx < 0 ? end.x - long : end.x;
      if (from < 0 || from + long > width || end.y < 10 || end.y > height - 10) continue;
      const hidden = crowd.filter((p) => p.x > from - 4 && p.x < from + long + 4 && Math.abs(p.y - end.y) < 12).length;
      const outward = (dx * (x - width / 2) + dy * (y - height / 2)) / (width + height);
      if (!best || hidden - outward < best.cost) best = { cost: hidden - outward, end, dx };
    }
    if (!best) return [dot];
    const label = s("text", { class: "mark-label", x: best.end.x + (best.dx < 0 ? -4 : 4), y: best.end.y, "text-anchor": best.dx < 0 ? "end" : "start" });
    label.textContent = words;
    return [s("line", { class: "leader", x1: x, y1: y, x2: best.end.x, y2: best.end.y }), dot, label];
  }

  // The numbers behind the picture, as tables: of each matrix its own, of all points one, a row for each.
  tables() {
    const { data = [], layout } = this.figure ?? {};
    const words = (text) => unescaped(String(text).replace(/<[^>]*>/g, ""));
    const found = data.filter((trace) => trace.type === "heatmap").map(({ x, y, z, name = "" }) => ({
      name, header: [words(layout.yaxis?.title?.text || "row"), ...Array.from({ length: z[0]?.length ?? 0 }, (_, at) => x?.[at] ?? at)],
      rows: z.length, row: (at) => [y?.[at] ?? at, ...z[at]],
    }));
    const told = data.map((trace, place) => ({ ...this.traces[place], trace })).filter(({ points, trace }) => points && trace.hoverinfo !== "skip");
    if (!told.length) return found;
    const has = (test) => told.some(test), deep = has(({ trace }) => trace.z);
    const title = (axis) => words((deep ? layout.scene?.[`${axis}axis`] : layout[`${axis}axis`])?.title?.text || axis);
    const columns = [
      has(({ trace }) => trace.name) && told.length > 1 && ["series", ({ trace }) => words(trace.name ?? "")],
      has(({ group }) => group) && [told.find(({ group }) => group).group, ({ group, ids, first }, at) => (!group ? "" : ids ? ids[at] : first + at)],
      has(({ labels }) => labels) && ["label", ({ labels, escaped }, at) => (escaped ? words(labels?.[at] ?? "") : labels[at] ?? "")],
      ...["x", "y", ...(deep ? ["z"] : [])].map((axis) => [title(axis), ({ trace }, at) => trace[axis]?.[at] ?? at]),
    ].filter(Boolean);
    const ends = told.reduce((sums, { points }) => [...sums, (sums.at(-1) ?? 0) + points], []);
    const row = (at) => {
      const place = ends.findIndex((end) => at < end);
      return columns.map(([, cell]) => cell(told[place], at - (ends[place - 1] ?? 0)));
    };
    return [...found, { name: "", header: columns.map(([name]) => name), rows: ends.at(-1), row }];
  }

  async download(format, name) {
    if (!this.drawn) await this.paint();
    if (!this.drawn) return;
    const { width, height } = this.drawn;
    const { data, layout } = this.stage;
    const background = getComputedStyle(this.panel.node).backgroundColor;
    const scene = layout.scene && { ...layout.scene, camera: this.stage._fullLayout.scene.camera };
    return this.plotly.downloadImage({ data, layout: { ...layout, ...(scene && { scene }), paper_bgcolor: background } }, { format, width, height, scale: 2, filename: name });
  }
}

// A table to be read, its first row and column as headings.
function tabled({ name, header, rows, row }, title) {
  const shown = Math.min(rows, ROWS), across = Math.min(header.length, COLUMNS);
  const cell = (value) => (typeof value === "number" ? number(value) : plain(String(value ?? ""), 60));
  const heading = (scope, value) => { const node = h("th", "", cell(value)); node.scope = scope; return node; };
  const cells = (at) => row(at).slice(0, across).map((value, place) => (place ? h("td", "", cell(value)) : heading("row", value)));
  const left = [shown < rows ? `the first ${shown} of ${rows.toLocaleString("en")} rows` : "", across < header.length ? `${across - 1} of ${header.length - 1} columns` : ""];
  const said = [plain(name), left.filter(Boolean).join(", ")].filter(Boolean).join(": ");
  const box = h("div", "sheet", h("table", "", h("caption", "", said || title),
    h("thead", "", h("tr", "", ...header.slice(0, across).map((value) => heading("col", value)))),
    h("tbody", "", ...Array.from({ length: shown }, (_, at) => h("tr", "", ...cells(at))))));
  box.tabIndex = 0; // it scrolls
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", `Table: ${title}`);
  return box;
}

// A table as CSV. A spreadsheet must not run a text as a formula: those that look like one begin with an apostrophe.
function separated({ header, rows, row }) {
  const cell = (value) => {
    if (typeof value === "number") return Number.isFinite(value) ? String(Number(value.toPrecision(7))) : "";
    const text = String(value ?? "");
    return /^[=+\-@\t\r']/.test(text) || /[",\r\n]/.test(text) ? `"${(/^[=+\-@\t\r']/.test(text) ? "'" : "") + text.replace(/"/g, '""')}"` : text;
  };
  return [header, ...Array.from({ length: rows }, (_, at) => row(at))].map((cells) => cells.map(cell).join(",") + "\r\n").join("");
}

function s(tag, attributes) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

// ---- panels ----------------------------------------------------------------------------------------------------------

function scaleBar(bar, value) {
  const colours = bar.colors.map((colour) => (page.isDark() ? value.dark[colour.toLowerCase()] : null) ?? colour);
  const strip = h("span", "strip");
  strip.style.background = `linear-gradient(to right, ${colours.join(", ")})`;
  return h("span", "scale-bar", bar.title ? h("span", "", plain(bar.title) + " ") : "", h("span", "", plain(bar.low)), strip, h("span", "", plain(bar.high)));
}

function coloured(node, colour, value) {
  if (!colour) return node;
  node.style.setProperty("--colour", (page.isDark() ? value.dark[colour.toLowerCase()] : null) ?? colour);
  return node;
}

let panels = 0;

class PanelView {
  constructor(key, trigger) {
    this.key = key;
    this.trigger = trigger;
    this.plots = [];
    this.folds = [];
    this.unfolded = new Set();
    this.id = `hfposemb-help-${Math.random().toString(36).slice(2)}-${panels++}`;
    this.head = h("div", "head");
    this.drawings = h("div", "drawings");
    this.tail = h("div", "tail");
    this.node = h("section", "panel", this.head, this.drawings, this.tail);
    this.node.dataset.key = key;
  }

  prepare(spec, value) {
    this.spec = spec;
    this.value = value;
    this.node.style.setProperty("--span", spec.span);
    this.node.classList.toggle("error", spec.tone === "error");
    this.node.dataset.state = "loading";
    this.words();
    while (this.plots.length > spec.drawings.length) this.plots.pop().dispose();
    while (this.plots.length < spec.drawings.length) {
      const plot = new Plot(this);
      this.plots.push(plot);
      this.drawings.append(plot.box, plot.caption);
    }
    spec.drawings.forEach((drawing, place) => {
      const { caption } = this.plots[place];
      caption.replaceChildren(...emphasised(drawing.caption, spec.emphasis));
      caption.hidden = !drawing.caption;
    });
  }

  show() {
    const { spec, value } = this;
    const drawn = spec.drawings.map((drawing, place) => {
      const plot = this.plots[place];
      return plot.show(drawing, value, plain([spec.source[0], spec.title, spec.subtitle, drawing.caption].filter(Boolean).join(". "), 400));
    });
    Promise.all(drawn).then(() => this.settle(), (error) => this.fail(error));
  }

  // Say that everything is drawn; tests and people who script the page wait for it.
  settle() {
    if (!this.plots.every((plot) => plot.drawn)) return;
    this.node.dataset.points = this.plots.flatMap((plot) => plot.traces).reduce((sum, trace) => sum + trace.points, 0);
    this.folds.filter(({ name }) => name === "Table").forEach((fold) => fold.show());
    this.node.dataset.state = "drawn";
  }

  fail(error) {
    this.node.dataset.state = "failed";
    this.node.classList.add("error");
    this.tail.prepend(h("p", "message", plain(error.message, 300)));
  }

  words() {
    const { spec, value } = this;
    const focused = [...this.node.querySelectorAll("button")].indexOf(document.activeElement);
    const title = whole(h("h3", spec.source.length ? "title plain" : "title", ...emphasised(shortened(spec.title), shortened(spec.emphasis))), spec.title);
    const name = spec.source.length ? h("p", "source", coloured(h("span", "disc"), spec.color, value), whole(h("strong", "", plain(shortened(spec.source[0]))), spec.source[0]), h("span", "note", plain(spec.source[1] ?? ""))) : "";
    const names = h("div", "names", name, spec.title ? title : "", spec.subtitle ? h("p", "subtitle", ...emphasised(spec.subtitle, spec.emphasis)) : "");
    this.head.replaceChildren(...[
      h("div", "top", names, spec.help ? this.help(spec.help) : ""),
      spec.numbers.length ? h("div", "numbers", ...spec.numbers.map(([figure, words]) => h("p", "", h("strong", "", plain(figure)), h("span", "", plain(words))))) : "",
      spec.legend.length ? h("p", "legend", ...spec.legend.map((item) => h("span", "", coloured(h("span", "disc"), item.color, value), plain(item.name), item.note ? h("span", "note", plain(item.note)) : ""))) : "",
      spec.scale_bars.length ? h("p", "scale-bars", ...spec.scale_bars.map((bar) => scaleBar(bar, value))) : "",
    ].filter(Boolean));
    const actions = spec.actions.map((action) => {
      const button = h("button", "action", plain(action));
      button.type = "button";
      button.onclick = () => this.act(action);
      return button;
    });
    this.folds = [
      spec.drawings.length ? this.fold("Table", "sheets", () => this.sheets()) : null,
      spec.recipe ? this.fold("Python", "recipe", () => this.recipe(spec.recipe)) : null,
    ].filter(Boolean);
    actions.push(...this.folds.map((fold) => fold.button));
    this.tail.replaceChildren(...[
      spec.message ? h("p", "message", ...emphasised(spec.message, spec.emphasis)) : "",
      spec.lists.length ? h("div", "lists", ...spec.lists.map((list, place) => this.list(list, place))) : "",
      spec.foot || actions.length ? h("div", "foot", h("span", "", plain(spec.foot, 400)), h("span", "actions", ...actions)) : "",
      ...this.folds.map((fold) => fold.body),
    ].filter(Boolean));
    if (focused >= 0) this.node.querySelectorAll("button")[focused]?.focus({ preventScroll: true });
  }

  help(text) {
    const body = h("div", "help", ...text.split("\n\n").map((paragraph) => h("p", "", plain(paragraph.replace(/\s+/g, " ").trim(), 2000))));
    const button = h("button", "ask", h("span", "", "?"));
    button.type = "button";
    body.id = this.id;
    body.hidden = true;
    button.setAttribute("aria-label", `How to read: ${plain(this.spec.title || this.spec.source[0] || "this panel")}`);
    button.setAttribute("aria-controls", this.id);
    const open = (opened) => {
      body.hidden = !opened;
      button.setAttribute("aria-expanded", String(opened));
    };
    open(false);
    const aside = h("div", "aside", button, body);
    button.onclick = () => open(body.hidden);
    aside.onkeydown = (event) => { if (event.key === "Escape") { open(false); button.focus(); } };
    aside.addEventListener("focusout", (event) => { if (!aside.contains(event.relatedTarget)) open(false); });
    body.tabIndex = -1;
    return aside;
  }

  // Something folded away below the panel until it is asked for; it stays open while the panel is drawn anew.
  fold(name, className, build) {
    const body = h("div", className), button = h("button", "action", name);
    button.type = "button";
    body.id = `${this.id}-${className}`;
    button.setAttribute("aria-controls", body.id);
    const show = () => {
      const open = this.unfolded.has(name);
      body.hidden = !open;
      button.setAttribute("aria-expanded", String(open));
      body.replaceChildren(...(open ? build() : []));
    };
    button.onclick = () => { this.unfolded.delete(name) || this.unfolded.add(name); show(); };
    body.onkeydown = (event) => { if (event.key === "Escape") { this.unfolded.delete(name); show(); button.focus(); } };
    show();
    return { name, button, body, show };
  }

  // What gives the panel's numbers.
  recipe({ python, command, cite, local }) {
    const title = plain(this.spec.title || this.spec.source[0] || "this panel");
    const part = (name, text) => {
      const code = h("pre", "", text), copy = h("button", "action", "Copy");
      copy.type = "button";
      copy.onclick = () => page.copy(copy, code);
      copy.setAttribute("aria-label", `Copy ${name}`);
      code.tabIndex = 0; // it scrolls
      code.setAttribute("role", "group");
      code.setAttribute("aria-label", `${name}: ${title}`);
      return h("div", "", h("p", "", h("strong", "", name), copy), code);
    };
    // Nobody else can open an address of this machine.
    const own = local || !/^https?:$/.test(location.protocol) || /^(localhost|127\..*|\[::1\])$/.test(location.hostname);
    const cited = own ? cite : cite.replace(/\n}$/, `,\n  url = {${location.href}}\n}`);
    return [part("Python", python), ...(command ? [part("Command line", command)] : []), part("Cite", cited)];
  }

  // The numbers of every plot as they are drawn, for who does not see it, or wants them elsewhere.
  sheets() {
    const title = plain(this.spec.title || this.spec.source[0] || "this panel");
    return this.plots.flatMap((plot, place) => plot.tables().map((table, turn) => {
      const save = h("button", "action", "CSV"), words = plain(this.spec.drawings[place]?.caption, 120) || title;
      save.type = "button";
      save.setAttribute("aria-label", `CSV: ${words}`);
      save.onclick = () => {
        const link = document.createElement("a");
        link.href = URL.createObjectURL(new Blob([separated(table)], { type: "text/csv" }));
        link.download = `${[this.file(), place ? place + 1 : "", turn ? turn + 1 : ""].filter(Boolean).join("-")}.csv`;
        link.click();
        setTimeout(() => URL.revokeObjectURL(link.href));
      };
      return h("div", "", h("p", "", h("strong", "", words), save), tabled(table, words));
    }));
  }

  list(list, place) {
    const largest = Math.max(...list.rows.map((row) => Math.abs(row.value)), 1e-9);
    const rows = list.rows.map((row) => {
      const bar = h("span", "measure", h("span", ""));
      bar.firstChild.style.width = `${100 * Math.max(row.value, 0) / Math.max(largest, 1)}%`;
      const button = h("button", row.shared ? "neighbour shared" : "neighbour", h("bdi", "", plain(row.label, 40)), bar, h("span", "value", number(row.value)));
      button.type = "button";
      button.onclick = () => this.trigger("select", { panel: this.key, list: place, id: row.id, label: row.label });
      return h("li", "", button);
    });
    return h("div", "list", list.name ? h("p", "source", list.color ? coloured(h("span", "disc"), list.color, this.value) : "", whole(h("strong", "", plain(shortened(list.name))), list.name)) : "", h("ol", "", ...rows));
  }

  // What a file of this panel is called.
  file() {
    return plain(this.spec.source[0] ?? this.spec.title, 60).toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") || this.key;
  }

  act(action) {
    if (action !== "PNG" && action !== "SVG") return this.trigger("select", { panel: this.key, action });
    const name = this.file();
    return this.plots.forEach((plot, place) => plot.download(action.toLowerCase(), place ? `${name}-${place + 1}` : name));
  }

  dispose() {
    this.plots.forEach((plot) => plot.dispose());
    this.node.remove();
  }
}

// ---- the row ---------------------------------------------------------------------------------------------------------

// The row as it is sent: one text, and the files beside it. A report has it as it is.
function received(sent) {
  if (typeof sent?.row !== "string") return sent;
  const { row, ...files } = JSON.parse(JSON.stringify(sent)); // once through Gradio's proxies
  return { ...JSON.parse(row), ...files };
}

// Draw in an element of a page, as Gradio hands it to the script of a component.
export function drawRow(element, trigger, props, watch) {
  const root = element.querySelector("hfposemb-row");
  const heading = h("div", "heading");
  const grid = h("div", "grid");
  const views = new Map();
  let shown = null;
  let marked = "";
  let present = false;

  function head(value) {
    heading.hidden = !value.heading && !value.subheading && !value.scale_bars.length;
    heading.replaceChildren(...[
      value.heading ? whole(h("h2", "", plain(shortened(value.heading), 600)), value.heading) : "",
      value.subheading || value.scale_bars.length ? h("div", "under", h("p", "subtitle", plain(value.subheading, 600)), h("p", "scale-bars", ...value.scale_bars.map((bar) => scaleBar(bar, value)))) : "",
    ].filter(Boolean));
  }

  function update() {
    if (!present) return;
    shown = received(props.value);
    const value = shown;
    root.classList.toggle("late", !value?.panels);
    if (!value?.panels) return;
    head(value);
    grid.style.setProperty("--wanted", value.columns);
    grid.classList.toggle("swipe", value.swipe);
    grid.classList.toggle("many", value.columns > 2);
    const keys = new Set(value.panels.map((panel) => panel.key));
    for (const [key, view] of views) if (!keys.has(key)) { view.dispose(); views.delete(key); }
    value.panels.forEach((spec, place) => {
      const view = views.get(spec.key) ?? new PanelView(spec.key, trigger);
      views.set(spec.key, view);
      if (grid.children[place] !== view.node) grid.insertBefore(view.node, grid.children[place] ?? null);
      view.prepare(spec, value);
    });
    // All widths before any height: whatever is read after it was written is laid out anew.
    const boxes = value.panels.flatMap((spec) => spec.drawings.map((drawing, place) => [views.get(spec.key).plots[place], drawing]));
    const widths = boxes.map(([plot]) => plot.box.clientWidth);
    boxes.forEach(([plot, drawing], place) => plot.reserve(drawing.figure.layout, widths[place]));
    views.forEach((view) => view.show());
    if (marked !== JSON.stringify(value.marked)) {
      marked = JSON.stringify(value.marked);
      for (const [group, index] of Object.entries(value.marked)) page.mark(value.scope, group, index);
    }
  }

  function repaint() {
    if (!present || !shown?.panels) return;
    head(shown);
    views.forEach((view) => view.words());
  }

  root.append(heading, grid);
  root.addEventListener("left", () => {
    present = false;
    page.links.removeEventListener("theme", repaint);
    views.forEach((view) => view.dispose());
    views.clear();
  });
  const enter = () => {
    if (present) return;
    present = true;
    page.links.addEventListener("theme", repaint);
    update();
  };
  root.addEventListener("entered", enter);
  watch("value", update);
  if (root.isConnected) enter(); // it may have left before this was loaded
}
