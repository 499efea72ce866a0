// Selected rows of a group, which stand out in a plot while the others fade.

const FADED = 0.06;
const STANDS_OUT = 6; // px: dots of a selection of few
const FEW = 400;

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
  const above = data.flatMap((trace, place) => selectedDots(trace, traces[place], rows));
  const below = data.map((trace, place) => (traces[place].group ? faded(trace) : trace));
  const own = below.filter((_, place) => traces[place].group), marks = below.filter((_, place) => !traces[place].group);
  return { data: [...own, ...above, ...marks], layout };
}

/** @param {any} trace */
function faded(trace) {
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
  const part = (values) => (values?.length === undefined ? values : at.map((place) => values[place]));
  const { color, size } = trace.marker, colours = typeof color === "string" ? color : part(color);
  const larger = rows.size > FEW ? 1.5 * size : Math.max(size, STANDS_OUT);
  const marker = { ...trace.marker, color: colours, opacity: 1, size: larger };
  const { type, mode, xaxis, yaxis, x, y, z } = trace;
  const places = { x: part(x), y: part(y), ...(z && { z: part(z) }), ...(xaxis && { xaxis }), ...(yaxis && { yaxis }) };
  return [{ type, mode, marker, ...places, hoverinfo: "skip", showlegend: false }];
}
