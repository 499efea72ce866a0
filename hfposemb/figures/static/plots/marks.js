// The marks that lie over a plot: a dot with its label, or a cross over a matrix.

import { s } from "../rows/elements.js";

const AROUND = 12; // directions that are tried for a label
const LOOKED_AT = 300; // points that may be in the way

/**
 * Return the cross of a row of a matrix.
 * @param {{ x: PixelAxis, y: PixelAxis }} axes
 * @param {string} along "x", "y" or both
 * @param {number} index
 * @returns {SVGElement[]}
 */
export function cross({ x, y }, along, index) {
  const across = x.pixel(index), down = y.pixel(index);
  /** @type {(x1: number, y1: number, x2: number, y2: number) => SVGElement} */
  const line = (x1, y1, x2, y2) => s("line", { class: "cross", "data-index": index, x1, y1, x2, y2 });
  const lines = [];
  if (along.includes("x") && across >= 0 && across <= x.length) {
    lines.push(line(x.start + across, y.start, x.start + across, y.start + y.length));
  }
  if (along.includes("y") && down >= 0 && down <= y.length) {
    lines.push(line(x.start, y.start + down, x.start + x.length, y.start + down));
  }
  return lines;
}

/**
 * Return a dot, and its label where the fewest points are in the way.
 * @param {Spot} spot
 * @param {number} index
 * @param {string} words
 * @param {Size} size of the plot
 * @param {Spot[]} crowd points of the trace
 * @returns {SVGElement[]}
 */
export function dot({ x, y }, index, words, size, crowd) {
  const mark = s("circle", { class: "mark", "data-index": index, cx: x, cy: y, r: 6 });
  const found = words ? labelPlace({ x, y }, 8 * words.length + 8, size, crowd) : null;
  if (!found) return [mark];
  const { end, leftwards } = found;
  const place = { x: end.x + (leftwards ? -4 : 4), y: end.y, "text-anchor": leftwards ? "end" : "start" };
  const label = s("text", { class: "mark-label", ...place });
  label.textContent = words;
  return [s("line", { class: "leader", x1: x, y1: y, x2: end.x, y2: end.y }), mark, label];
}

/**
 * Return the end of the leader to a label, where it is within the plot and hides the fewest points.
 * @param {Spot} spot
 * @param {number} long width of the label in pixels
 * @param {Size} size
 * @param {Spot[]} crowd
 * @returns {{ end: Spot, leftwards: boolean } | null}
 */
export function labelPlace({ x, y }, long, { width, height }, crowd) {
  const close = crowd.filter((point) => Math.abs(point.x - x) < 60 + long && Math.abs(point.y - y) < 60);
  let best = null, least = Infinity;
  for (let turn = 0; turn < AROUND; turn++) {
    const angle = turn * 2 * Math.PI / AROUND + 0.4, dx = Math.cos(angle), dy = Math.sin(angle);
    const end = { x: x + 32 * dx, y: y + 32 * dy }, from = dx < 0 ? end.x - long : end.x;
    if (from < 0 || from + long > width || end.y < 10 || end.y > height - 10) continue;
    /** @type {(point: Spot) => boolean} */
    const hides = ({ x: px, y: py }) => px > from - 4 && px < from + long + 4 && Math.abs(py - end.y) < 12;
    const outward = (dx * (x - width / 2) + dy * (y - height / 2)) / (width + height);
    const cost = close.filter(hides).length - outward;
    if (best && cost >= least) continue;
    best = { end, leftwards: dx < 0 };
    least = cost;
  }
  return best;
}

/**
 * Return where some of the points of a trace are, evenly chosen.
 * @param {(at: number) => Spot} where
 * @param {number} points
 * @returns {Spot[]}
 */
export function sampled(where, points) {
  const step = Math.max(1, Math.floor(points / LOOKED_AT));
  return Array.from({ length: Math.floor(points / step) }, (_, turn) => where(turn * step));
}
