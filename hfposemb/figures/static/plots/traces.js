// What a point of a trace stands for.

import { unescaped } from "../rows/text.js";

/**
 * Return what the pointer needs to know of a trace: see plot.py for its meta.
 * @param {any} trace
 * @returns {TraceInfo}
 */
export function describe(trace) {
  const meta = trace.meta && typeof trace.meta === "object" && !Array.isArray(trace.meta) ? trace.meta : {};
  const isMatrix = trace.type === "heatmap";
  const labels = meta.labels ?? (Array.isArray(trace.text) ? trace.text : null);
  const points = isMatrix ? 0 : Math.max(trace.x?.length ?? 0, trace.y?.length ?? 0);
  const linked = meta.link && meta.first === undefined && !isMatrix;
  const ids = meta.ids ?? (linked ? trace.customdata : null) ?? null;
  const places = ids && new Places(ids);
  return {
    group: meta.link ?? null, first: meta.first ?? 0, ids, places, labels, escaped: !meta.labels, points,
    axes: meta.axes ?? "xy", grid: meta.grid ?? null, tiles: meta.tiles ?? null, kept: meta.kept ?? null,
    of: meta.of ?? 0, outside: meta.outside ? new Set(meta.outside) : null, stub: Boolean(meta.stub),
    numbers: meta.numbers ?? null,
    own: trace.hoverinfo !== "skip" && (Boolean(meta.link || labels) || !trace.hovertemplate),
  };
}

/** The place of each row in a trace. A large map has its rows in order, and needs no index as large as itself. */
class Places {
  /** @type {Map<number, number> | null} */
  #index = null;
  /** @type {boolean | null} */
  #sorted = null;

  /** @param {ArrayLike<number>} ids rows, by their place */
  constructor(ids) {
    this.ids = ids;
  }

  /**
   * @param {number} row
   * @returns {number | undefined}
   */
  get(row) {
    this.#sorted ??= isAscending(this.ids);
    if (this.#sorted) return foundAt(this.ids, row);
    this.#index ??= new Map(Array.from(this.ids, (id, place) => [id, place]));
    return this.#index.get(row);
  }
}

/** @param {ArrayLike<number>} ids */
function isAscending(ids) {
  for (let place = 1; place < ids.length; place++) if (!(ids[place - 1] < ids[place])) return false;
  return true;
}

/**
 * @param {ArrayLike<number>} ids in ascending order
 * @param {number} row
 * @returns {number | undefined}
 */
function foundAt(ids, row) {
  let low = 0, high = ids.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ids[middle] < row) low = middle + 1;
    else high = middle;
  }
  return ids[low] === row ? low : undefined;
}

/**
 * Return the place of a point in its trace: a number, or the row and column of a matrix.
 * @param {PlotPoint} point
 * @returns {number | [number, number]}
 */
export function placeOf(point) {
  return point.pointNumber ?? point.pointIndex;
}

/**
 * Return the row of the linked group that a point stands for.
 * @param {TraceInfo | undefined} trace
 * @param {PlotPoint} point
 * @returns {number | null}
 */
export function rowOf(trace, point) {
  if (!trace?.group) return null;
  const place = placeOf(point);
  if (Array.isArray(place)) {
    const at = Math.round(trace.axes === "y" ? point.y : point.x);
    return trace.ids ? trace.ids[at] ?? null : at;
  }
  return trace.ids ? trace.ids[place] : place + trace.first;
}

/**
 * Return the label at a place of a trace, or nothing.
 * @param {TraceInfo | undefined} trace
 * @param {number | [number, number]} place
 * @returns {string}
 */
export function labelOf(trace, place) {
  if (!trace) return "";
  const { labels, escaped } = trace;
  const label = String((Array.isArray(place) ? labels?.[place[0]]?.[place[1]] : labels?.[place]) ?? "");
  return escaped ? unescaped(label) : label;
}

/**
 * Return the patches of an image that a cell of a map stands for: the one whose map it is in, if there are several, and
 * its own.
 * @param {TraceInfo | undefined} trace
 * @param {PlotPoint} point
 * @returns {Patch[] | null}
 */
export function patchesOf(trace, point) {
  const { grid = null, tiles = null } = trace ?? {}, place = placeOf(point);
  if (!grid || !Array.isArray(place)) return null;
  const [rows, columns] = grid, [down, across] = place;
  if (!tiles) return [{ row: down, column: across }];
  const row = Math.floor(down / (rows + 1)), column = Math.floor(across / (columns + 1));
  return [
    { row: tiles[0][row], column: tiles[1][column] },
    { row: down % (rows + 1), column: across % (columns + 1) },
  ];
}

/**
 * Return the place in a trace of a row of its group, or null. A row outside of the plot is in the trace of its stub.
 * @param {TraceInfo} trace
 * @param {number} row
 * @returns {number | null}
 */
export function placeOfRow(trace, row) {
  const at = trace.places ? trace.places.get(row) : row - trace.first;
  return at === undefined || at < 0 || at >= trace.points || trace.outside?.has(at) ? null : at;
}
