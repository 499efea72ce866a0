// Numbers of the rows of a table: norms, cosines, neighbours, and the sinusoid.

const BLOCK = 512; // rows between two reports of progress

/**
 * Widen stored numbers to float32: exactly, but for F64.
 * @param {StoredRows} stored
 * @param {number} [start] first row
 * @param {number} [stop]
 * @returns {Float32Array<ArrayBuffer>}
 */
export function widened({ raw, dtype, rows, width }, start = 0, stop = rows) {
  const count = (stop - start) * width, first = start * width;
  const part = (/** @type {number} */ bytes) => raw.slice(first * bytes, (first + count) * bytes).buffer;
  if (dtype === "F32") return new Float32Array(part(4));
  if (dtype === "F64") return Float32Array.from(new Float64Array(part(8)));
  const halves = new Uint16Array(part(2));
  if (dtype === "BF16") return new Float32Array(Uint32Array.from(halves, (half) => half << 16).buffer);
  const found = new Float32Array(count);
  for (let at = 0; at < count; at++) found[at] = HALVES[halves[at]];
  return found;
}

const HALVES = Float32Array.from({ length: 65_536 }, (_, half) => {
  const sign = half >> 15 ? -1 : 1, exponent = half >> 10 & 31, fraction = half & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -24 * fraction);
});

/**
 * Return the length of every row.
 * @param {Float32Array} table
 * @param {number} width
 * @returns {Float64Array}
 */
export function norms(table, width) {
  const rows = table.length / width, found = new Float64Array(rows);
  for (let row = 0; row < rows; row++) {
    let sum = 0;
    for (let at = row * width; at < (row + 1) * width; at++) sum += table[at] * table[at];
    found[row] = Math.sqrt(sum);
  }
  return found;
}

/**
 * Return the cosine of every pair of rows; of a larger table the mean of each block of pairs, which is the product of the
 * means of their unit rows. Rows without a direction have NaN.
 * @param {Float32Array} table
 * @param {number} width
 * @param {number} most cells in a direction
 * @param {(share: number) => Promise<void>} told
 * @returns {Promise<{ cells: Float32Array, side: number, step: number }>}
 */
export async function cosines(table, width, most, told) {
  const rows = table.length / width, step = Math.ceil(rows / most), side = Math.ceil(rows / step);
  const lengths = norms(table, width), units = new Float64Array(side * width);
  for (let row = 0; row < rows; row++) {
    const to = Math.floor(row / step) * width, size = Math.min(step, rows - step * Math.floor(row / step));
    for (let at = 0; at < width; at++) units[to + at] += table[row * width + at] / lengths[row] / size;
  }
  const cells = Float32Array.from(await products(units, side, width, told));
  return { cells, side, step };
}

/**
 * Return the scalar products of all rows [side, side]. Two rows and two columns are taken at a time, which reads each
 * number half as often.
 * @param {Float64Array} rows
 * @param {number} side
 * @param {number} width
 * @param {(share: number) => Promise<void>} told
 * @returns {Promise<Float64Array>}
 */
export async function products(rows, side, width, told) {
  const found = new Float64Array(side * side);
  for (let row = 0; row < side; row += 2) {
    if (row % 32 === 0) await told(row * row / (side * side));
    for (let column = 0; column <= row; column += 2) square(rows, side, width, row, column, found);
  }
  return found;
}

/**
 * Write the products of two rows with two others, where they are there.
 * @param {Float64Array} rows
 * @param {number} side
 * @param {number} width
 * @param {number} row
 * @param {number} column
 * @param {Float64Array} found
 */
function square(rows, side, width, row, column, found) {
  const down = Math.min(row + 1, side - 1), across = Math.min(column + 1, side - 1);
  const [a, b, c, d] = [row * width, down * width, column * width, across * width];
  let ac = 0, ad = 0, bc = 0, bd = 0;
  for (let at = 0; at < width; at++) {
    const one = rows[a + at], two = rows[b + at], three = rows[c + at], four = rows[d + at];
    ac += one * three;
    ad += one * four;
    bc += two * three;
    bd += two * four;
  }
  found[row * side + column] = found[column * side + row] = ac;
  found[row * side + across] = found[across * side + row] = ad;
  found[down * side + column] = found[column * side + down] = bc;
  found[down * side + across] = found[across * side + down] = bd;
}

/**
 * Return the scalar product of two rows.
 * @param {ArrayLike<number>} one
 * @param {number} from
 * @param {ArrayLike<number>} other
 * @param {number} at
 * @param {number} width
 */
export function product(one, from, other, at, width) {
  let sum = 0;
  for (let place = 0; place < width; place++) sum += one[from + place] * other[at + place];
  return sum;
}

/**
 * Return the rows of the largest cosines with a row, which is not among them; ties by row number.
 * @param {StoredRows} stored
 * @param {number} query
 * @param {number} count
 * @param {(share: number) => Promise<void>} told
 * @returns {Promise<{ row: number, value: number }[]>}
 */
export async function nearest(stored, query, count, told) {
  const { rows, width } = stored, own = widened(stored, query, query + 1);
  const [length] = norms(own, width);
  let best = /** @type {{ row: number, value: number }[]} */ ([]);
  for (let start = 0; start < rows; start += BLOCK) {
    if (start % (32 * BLOCK) === 0) await told(start / rows);
    const stop = Math.min(start + BLOCK, rows), block = widened(stored, start, stop), lengths = norms(block, width);
    for (let row = start; row < stop; row++) {
      const value = product(own, 0, block, (row - start) * width, width) / (length * lengths[row - start]);
      if (row === query || !(best.length < count || value > best[best.length - 1].value)) continue;
      if (Number.isNaN(value)) continue;
      const place = best.findIndex((one) => value > one.value);
      best.splice(place < 0 ? best.length : place, 0, { row, value });
      best = best.slice(0, count);
    }
  }
  return best;
}

/**
 * Return the sinusoids of positions, as closed_forms.sine_rows computes them.
 * @param {number} rows
 * @param {number} width
 * @param {{ layout?: string, first?: number, scale?: number }} [form]
 * @returns {Float32Array<ArrayBuffer>}
 */
export function sinusoids(rows, width, { layout = "interleaved", first = 0, scale = 1 } = {}) {
  const isOld = layout === "tensor2tensor", half = isOld ? Math.floor(width / 2) : Math.ceil(width / 2);
  const found = new Float32Array(rows * width);
  for (let row = 0; row < rows; row++) {
    for (let at = 0; at < half; at++) {
      const angle = (row + first) * 10_000 ** -(isOld ? at / Math.max(half - 1, 1) : 2 * at / width);
      const [sine, cosine] = layout === "interleaved" ? [2 * at, 2 * at + 1] : [at, half + at];
      found[row * width + sine] = scale * Math.sin(angle);
      if (at < Math.floor(width / 2)) found[row * width + cosine] = scale * Math.cos(angle);
    }
  }
  return found;
}
