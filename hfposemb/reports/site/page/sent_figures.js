// Figures as panels take them: words and small lists as they are, arrays of numbers in a file beside them.

import { embeddedFile } from "../../../figures/static/pages/embedded.js";

const KINDS = /** @type {Record<string, string>} */ ({ Float32Array: "f4", Float64Array: "f8", Int32Array: "i4" });

/**
 * Return a drawing of a panel, and add its numbers to the files of the row.
 * @param {{ data: any[], layout: any }} figure
 * @param {string} caption
 * @param {SentFile[]} files
 * @returns {DrawingSpec}
 */
export function drawing(figure, caption, files) {
  const parts = /** @type {Uint8Array<ArrayBuffer>[]} */ ([]);
  let length = 0;
  const packed = replaced(figure, (array, shape) => {
    const bytes = new Uint8Array(array.byteLength + (8 - array.byteLength % 8) % 8);
    bytes.set(new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
    parts.push(bytes);
    length += bytes.length;
    return { $bin: length - bytes.length, dtype: KINDS[array.constructor.name], shape };
  });
  if (parts.length) files.push(embeddedFile(new Blob(parts)));
  return { caption, figure: packed, bin: parts.length ? files.length - 1 : null };
}

/** A matrix whose rows follow one another. */
export class Grid {
  /**
   * @param {Float32Array} cells
   * @param {number} width
   */
  constructor(cells, width) {
    this.cells = cells;
    this.width = width;
  }
}

/**
 * @param {any} value
 * @param {(array: Float32Array, shape: number[]) => object} pack
 * @returns {any}
 */
function replaced(value, pack) {
  if (value instanceof Grid) return pack(value.cells, [value.cells.length / value.width, value.width]);
  if (ArrayBuffer.isView(value)) {
    const array = /** @type {Float32Array} */ (value);
    return pack(array, [array.length]);
  }
  if (Array.isArray(value)) return value.map((item) => replaced(item, pack));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, replaced(item, pack)]));
}

/**
 * Forget the files of a row that is drawn anew.
 * @param {SentFile[]} files
 */
export function forget(files) {
  for (const { url } of files) URL.revokeObjectURL(url);
}
