// Figures as figure_packing.py sends them: a skeleton of JSON, and files with the numbers and labels.

const ARRAYS = {
  f4: Float32Array, f8: Float64Array, i1: Int8Array, i2: Int16Array, i4: Int32Array,
  u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, b1: Uint8Array,
};
const MISSING = -32768; // among the steps of a scaled array

/**
 * Put the numbers and labels of a figure back in their places.
 * @param {any} value
 * @param {ArrayBuffer | null} numbers
 * @param {(place: number) => Promise<any>} labels reads the file at a place
 * @returns {Promise<any>}
 */
export async function unpack(value, numbers, labels) {
  if (Array.isArray(value)) return Promise.all(value.map((item) => unpack(item, numbers, labels)));
  if (value === null || typeof value !== "object") return value;
  if ("$json" in value) return labels(value.$json);
  if ("$bin" in value) {
    if (!numbers) throw new Error("A figure came without its numbers. Reload the page.");
    return arrayOf(value, numbers);
  }
  const entries = Object.entries(value).map(async ([name, item]) => [name, await unpack(item, numbers, labels)]);
  return Object.fromEntries(await Promise.all(entries));
}

/**
 * @param {PackedArray} packed
 * @param {ArrayBuffer} numbers
 */
function arrayOf(packed, numbers) {
  const [rows, width = null] = packed.shape, { scale, offset = 0 } = packed;
  const stored = new ARRAYS[packed.dtype](numbers, packed.$bin, rows * (width ?? 1));
  const array = scale === undefined ? stored
    : Float32Array.from(stored, (step) => (step === MISSING ? NaN : step * scale + offset));
  if (width === null) return array;
  return Array.from({ length: rows }, (_, row) => array.subarray(row * width, (row + 1) * width));
}
