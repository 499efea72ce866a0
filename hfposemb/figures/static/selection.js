// Selected rows of a group, which stand out in a plot while the others fade.

const FADED = 0.06;
const STANDS_OUT = 6; // px: dots of a selection of few
const FEW = 400;
const WIDER = 2; // lines of a selection, as a multiple
const FRAME = "#b8175c"; // the accent, readable on the colours of a matrix in both themes

/**
 * Return the rows that a text names: steps from one to the next in base 36, a run as its first and its length. See
 * token_selection.py.
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
 * Return a figure in which some rows of a group stand out: their dots are drawn once more, above all others.
 * @param {{ data: any[], layout: any }} figure
 * @param {TraceInfo[]} traces
 * @param {Set<number>} rows
 */
export function withSelected({ data, layout }, traces, rows) {
  if (!rows.size) return { data, layout };
  if (traces.some(({ group }, place) => group && isMatrix(data[place]))) return withBand({ data, layout }, rows);
  const above = data.flatMap((trace, place) => selectedDots(trace, traces[place], rows));
  const below = data.map((trace, place) => (traces[place].group ? faded(trace) : trace));
  const own = below.filter((_, place) => traces[place].group), marks = below.filter((_, place) => !traces[place].group);
  return { data: [...own, ...above, ...marks], layout };
}

/** @param {any} trace */
function faded(trace) {
  if (isLine(trace)) return trace;
  if (trace.type === "scatter3d") return { ...trace, opacity: FADED };
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
 * Return a matrix whose selected rows and columns are framed.
 * @param {{ data: any[], layout: any }} figure
 * @param {Set<number>} rows
 */
function withBand({ data, layout }, rows) {
  const first = Math.min(...rows) - 0.5, last = Math.max(...rows) + 0.5;
  const line = { color: FRAME, width: 2 };
  const frame = { type: "rect", x0: first, x1: last, y0: first, y1: last, line };
  return { data, layout: { ...layout, shapes: [...(layout.shapes ?? []), frame] } };
}
