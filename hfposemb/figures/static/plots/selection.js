// Selected rows of a group, which stand out in a plot while the others fade.

const FADED = 0.06;
const STANDS_OUT = 6; // px: dots of a selection of few
const FEW = 400;
const WIDER = 2; // lines of a selection, as a multiple
const FRAME = "#b8175c"; // the accent, readable on the colours of a matrix in both themes
const MOST_FRAMES = 60; // of a matrix

/**
 * Return the rows that a text names: steps from one to the next in base 36, a run as its first and its length. See
 * encoded_rows.py.
 * @param {string} text
 * @returns {Set<number>}
 */
export function rowsOf(text) {
  const rows = new Set();
  let last = 0;
  for (const run of text ? text.split(".") : []) {
    const [step, more = "0"] = run.split("~");
    const first = last + parseInt(step, 36);
    last = first + parseInt(more, 36);
    for (let row = first; row <= last; row++) rows.add(row);
  }
  return rows;
}

/**
 * Return the text that names rows, as ``rowsOf`` reads it.
 * @param {Iterable<number>} rows
 * @returns {string}
 */
export function textOf(rows) {
  let end = 0;
  return runsOf(rows).map(([first, last]) => {
    const step = (first - end).toString(36), more = last > first ? `~${(last - first).toString(36)}` : "";
    end = last;
    return step + more;
  }).join(".");
}

/**
 * Return the first and the last of each run of neighbouring rows.
 * @param {Iterable<number>} rows
 * @param {number} [gap] between rows that are still neighbours
 * @returns {[number, number][]}
 */
export function runsOf(rows, gap = 1) {
  /** @type {[number, number][]} */
  const runs = [];
  for (const row of [...new Set(rows)].sort((one, other) => one - other)) {
    const run = runs.at(-1);
    if (run && row - run[1] <= gap) run[1] = row;
    else runs.push([row, row]);
  }
  return runs;
}

/**
 * Return a selection after rows were chosen: these alone, or these as well. Of a single row that is chosen again, the
 * selection loses it.
 * @param {Set<number>} before
 * @param {Set<number>} chosen
 * @param {boolean} adds
 * @returns {Set<number>}
 */
export function changedSelection(before, chosen, adds) {
  if (!adds) return chosen;
  const [row] = chosen;
  if (chosen.size === 1 && before.has(row)) return new Set([...before].filter((one) => one !== row));
  return new Set([...before, ...chosen]);
}

/**
 * Return the rows of a figure's group that are within a shape; of a matrix, those of the columns that it spans.
 * @param {any[]} data
 * @param {TraceInfo[]} traces
 * @param {Corners} area
 * @returns {Set<number>}
 */
export function rowsWithin(data, traces, area) {
  const rows = /** @type {Set<number>} */ (new Set());
  data.forEach((trace, place) => {
    const { group, stub, ids, first, points, outside } = traces[place];
    if (!group || stub) return;
    if (isMatrix(trace)) {
      const [low, high] = spanOf(trace);
      const from = Math.max(Math.ceil(Math.min(...area.x)), low), to = Math.min(Math.floor(Math.max(...area.x)), high);
      for (let row = from; row <= to; row++) rows.add(ids ? ids[row] : row);
      return;
    }
    for (let at = 0; at < points; at++) {
      if (outside?.has(at) || !isWithin(trace.x[at], trace.y[at], area)) continue;
      rows.add(ids ? ids[at] : at + first);
    }
  });
  return rows;
}

/**
 * Return the first and the last column of a matrix, each of whose cells may stand for several.
 * @param {any} trace
 * @returns {[number, number]}
 */
function spanOf({ z, x0 = 0, dx = 1 }) {
  return [Math.ceil(x0 - dx / 2), Math.floor(x0 + dx * (z[0].length - 0.5) - 1e-6)];
}

/**
 * Return whether a point is within a shape, by the parity of its edges to the right of it.
 * @param {number} px
 * @param {number} py
 * @param {Corners} area
 */
function isWithin(px, py, { x, y }) {
  let within = false;
  for (let at = 0, last = x.length - 1; at < x.length; last = at++) {
    const crosses = (y[at] > py) !== (y[last] > py);
    if (crosses && px < (x[last] - x[at]) * (py - y[at]) / (y[last] - y[at]) + x[at]) within = !within;
  }
  return within;
}

/**
 * Return a figure in which some rows of a group stand out: their dots are drawn once more, above all others.
 * @param {{ data: any[], layout: any }} figure
 * @param {TraceInfo[]} traces
 * @param {Set<number>} rows
 */
export function withSelected({ data, layout }, traces, rows) {
  if (!rows.size) return { data, layout };
  const matrix = traces.findIndex(({ group }, place) => group && isMatrix(data[place]));
  if (matrix >= 0) return withFrames({ data, layout }, placesOf(traces[matrix], rows));
  const above = data.flatMap((trace, place) => selectedDots(trace, traces[place], rows));
  const below = data.map((trace, place) => (traces[place].group ? faded(trace) : trace));
  const own = below.filter((_, place) => traces[place].group), marks = below.filter((_, place) => !traces[place].group);
  return { data: [...own, ...above, ...marks], layout };
}

/** @param {any} trace */
function faded(trace) {
  if (isLine(trace)) return trace;
  if (trace.type === "scatter3d" || /lines/.test(trace.mode)) return { ...trace, opacity: FADED };
  return { ...trace, marker: { ...trace.marker, opacity: FADED } };
}

/**
 * Return the selected dots of a trace as a trace of their own, none if there are none.
 * @param {any} trace
 * @param {TraceInfo} info
 * @param {Set<number>} rows
 */
function selectedDots(trace, { group, ids, first, points }, rows) {
  if (!group) return [];
  const at = /** @type {number[]} */ ([]);
  for (let place = 0; place < points; place++) if (rows.has(ids ? ids[place] : place + first)) at.push(place);
  if (!at.length) return [];
  /** @type {(values: any) => any} */
  const part = (values) =>
    (typeof values === "string" || values?.length === undefined ? values : at.map((place) => values[place]));
  const { type, mode, xaxis, yaxis, x, y, z } = trace;
  const places = { x: part(x), y: part(y), ...(z && { z: part(z) }), ...(xaxis && { xaxis }), ...(yaxis && { yaxis }) };
  const kept = { type, mode, ...places, hoverinfo: "skip", showlegend: false };
  const { line } = trace;
  const bold = line && { line: { ...line, width: WIDER * (line.width ?? 2), color: part(line.color) } };
  if (isLine(trace)) return [{ ...kept, ...bold }];
  const { color, size, symbol } = trace.marker;
  const larger = (/** @type {number} */ own) => (rows.size > FEW ? 1.5 * own : Math.max(own, STANDS_OUT));
  const sizes = part(size), drawn = Array.isArray(sizes) ? sizes.map(larger) : larger(sizes);
  const marker = { ...trace.marker, color: part(color), symbol: part(symbol), opacity: 1, size: drawn };
  return [{ ...kept, ...bold, marker }];
}

/** @param {any} trace */
const isLine = (trace) => trace.mode === "lines";

/** @param {any} trace */
const isMatrix = (trace) => trace.type === "heatmap";

/**
 * Return where rows of a group are in a matrix.
 * @param {TraceInfo} trace
 * @param {Set<number>} rows
 * @returns {number[]}
 */
function placesOf({ places }, rows) {
  return places ? [...rows].map((row) => places.get(row)).filter((place) => place !== undefined) : [...rows];
}

/**
 * Return a matrix whose selected rows and columns are framed: each run of them, or of many runs those far apart.
 * @param {{ data: any[], layout: any }} figure
 * @param {number[]} rows
 */
function withFrames({ data, layout }, rows) {
  let runs = runsOf(rows);
  for (let gap = 2; runs.length > MOST_FRAMES; gap *= 2) runs = runsOf(rows, gap);
  const line = { color: FRAME, width: 2 };
  const frames = runs.map(([first, last]) => {
    const low = first - 0.5, high = last + 0.5;
    return { type: "rect", x0: low, x1: high, y0: low, y1: high, line };
  });
  return { data, layout: { ...layout, shapes: [...(layout.shapes ?? []), ...frames] } };
}
