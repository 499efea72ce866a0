// The words of a tooltip.

import { number, plain, unescaped } from "../rows/text.js";
import { labelOf, patchesOf, placeOf, rowOf } from "./traces.js";

const MOST_LINES = 6; // of a figure with many lines

/**
 * Return the lines of the tooltip of a point; the first is set in bold.
 * @param {PlotPoint[]} points under the pointer, the nearest first
 * @param {TraceInfo[]} traces
 * @returns {string[]}
 */
export function tooltip(points, traces) {
  const point = points[0], trace = traces[point.curveNumber], place = placeOf(point);
  const lines = subject(points, traces);
  const kept = Array.isArray(place) ? -1 : trace?.kept?.[place] ?? -1; // -1: not measured
  if (kept >= 0) lines.push(`${kept} of its ${trace.of} nearest are near it here`);
  if (trace?.stub) lines.push("far outside of this picture");
  return lines;
}

/**
 * @param {PlotPoint[]} points
 * @param {TraceInfo[]} traces
 * @returns {string[]}
 */
function subject(points, traces) {
  const point = points[0], trace = traces[point.curveNumber], patches = patchesOf(trace, point);
  const place = placeOf(point), own = Array.isArray(place) ? null : trace?.numbers?.[place];
  const named = trace?.group ? `${plain(trace.group)} ${number(own ?? rowOf(trace, point))}` : "";
  const label = labelOf(trace, place);
  if (patches) {
    return [patches.map(({ row, column }) => `row ${row}, column ${column}`).join(" and "), number(point.z)];
  }
  if (Array.isArray(place) && !label) return [cell(point), number(point.z)];
  if (label) return [plain(label), ...(named ? [named] : [])];
  if (named && point.xaxis?.showticklabels === false) return [named]; // a map, whose axes have no meaning
  if (point.z !== undefined) return [named || `${number(point.x)}, ${number(point.y)}, ${number(point.z)}`];
  const shown = points.slice(0, MOST_LINES);
  return [
    `${plain(titleOf(point.xaxis))} ${number(point.x)}`,
    ...shown.map(({ data, y }) => `${plain(unescaped(data.name ?? ""))} ${number(y)}`),
  ];
}

/** @param {PlotPoint} point */
function cell(point) {
  const across = plain(titleOf(point.xaxis)), down = plain(titleOf(point.yaxis));
  if (across === down) return `${down} ${number(point.y)} and ${number(point.x)}`;
  return `${down} ${number(point.y)}, ${across} ${number(point.x)}`;
}

/** @param {{ title?: { text?: string } } | undefined} axis */
function titleOf(axis) {
  return unescaped(axis?.title?.text ?? "");
}
