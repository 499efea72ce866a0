// A figure with larger letters, dots and lines, for a projector.

const SHIFTS = ["xshift", "yshift", "ax", "ay", "standoff", "l", "r", "t", "b"];
const STROKES = 0.6; // dots and lines grow by this part of what letters grow by

/**
 * Return a figure whose letters, and the distances that they need, are larger.
 * @param {{ data: any[], layout: any }} figure
 * @param {number} factor
 * @returns {{ data: any[], layout: any }}
 */
export function enlarged({ data, layout }, factor) {
  if (factor === 1) return { data, layout };
  const stroke = 1 + STROKES * (factor - 1);
  const traces = data.map((trace) => ({
    ...trace,
    ...(trace.marker && { marker: { ...trace.marker, size: multiplied(trace.marker.size, stroke) } }),
    ...(trace.line && { line: { ...trace.line, width: multiplied(trace.line.width, stroke) } }),
    ...(trace.textfont && { textfont: grown(trace.textfont, factor, "textfont") }),
  }));
  return { data: traces, layout: grown(layout, factor, "") };
}

/**
 * @param {any} value
 * @param {number} factor
 * @param {string} key
 * @returns {any}
 */
function grown(value, factor, key) {
  if (Array.isArray(value)) return typeof value[0] === "object" ? value.map((item) => grown(item, factor, key)) : value;
  if (typeof value === "number") return SHIFTS.includes(key) || key === "font size" ? value * factor : value;
  if (value === null || typeof value !== "object" || ArrayBuffer.isView(value)) return value;
  const inFont = /font$/.test(key);
  return Object.fromEntries(Object.entries(value).map(([name, item]) =>
    [name, grown(item, factor, inFont && name === "size" ? "font size" : name)]));
}

/**
 * @param {any} value
 * @param {number} factor
 */
function multiplied(value, factor) {
  if (typeof value === "number") return value * factor;
  return value?.length ? Array.from(value, (one) => one * factor) : value;
}
