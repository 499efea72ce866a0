// PCA: the leading eigenvectors of the scatter matrix, or of the matrix of products if a table has fewer rows than columns.

import { product, products } from "./row_numbers.js";

const BESIDE = 8; // further vectors that are iterated, which makes the wanted ones settle sooner
const MOST_TURNS = 1000;
const LONGEST_FILTER = 10; // products with the matrix between two looks at how far it is
const DIGITS = 14; // that the filter may cost vectors whose eigenvalues are far apart
const SETTLED = 1e-11;
const DECISIVE = 1 - 1e-9;

/**
 * Return the coordinates of the rows along the axes of largest variance, and the share of the variance along each. The
 * loading of largest magnitude of each axis is positive, as in projection.py. Rows with a NaN are not allowed.
 * @param {Float32Array} table
 * @param {number} width
 * @param {number} dims
 * @param {(share: number) => Promise<void>} told
 * @returns {Promise<{ coordinates: Float32Array[], shares: number[] }>}
 */
export async function pca(table, width, dims, told) {
  const rows = table.length / width, centred = centredRows(table, width), isDual = rows < width;
  const vectors = isDual ? centred : transposed(centred, width);
  const side = Math.min(rows, width), length = Math.max(rows, width);
  const scatter = await products(vectors, side, length, told);
  let total = 0;
  for (let at = 0; at < side; at++) total += scatter[at * side + at];
  const { values, axes } = await leading(scatter, side, Math.min(dims, side), told);
  const real = values.filter((value) => total > 0 && value > length * Number.EPSILON * values[0]);
  const coordinates = Array.from({ length: dims }, () => new Float32Array(rows));
  real.forEach((value, dim) => {
    const loadings = isDual ? weighted(centred, width, axes[dim], Math.sqrt(value)) : axes[dim];
    const sign = signOf(loadings);
    for (let row = 0; row < rows; row++) {
      coordinates[dim][row] = sign * product(centred, row * width, loadings, 0, width);
    }
  });
  return { coordinates, shares: Array.from({ length: dims }, (_, dim) => (dim < real.length ? real[dim] / total : 0)) };
}

/**
 * @param {Float32Array} table
 * @param {number} width
 */
function centredRows(table, width) {
  const rows = table.length / width, mean = new Float64Array(width);
  for (let at = 0; at < table.length; at++) mean[at % width] += table[at] / rows;
  return Float64Array.from(table, (value, at) => value - mean[at % width]);
}

/**
 * @param {Float64Array} matrix
 * @param {number} width
 */
function transposed(matrix, width) {
  const rows = matrix.length / width, found = new Float64Array(matrix.length);
  for (let row = 0; row < rows; row++) for (let at = 0; at < width; at++) found[at * rows + row] = matrix[row * width + at];
  return found;
}

/**
 * Return the sum of the rows with some weights, divided by a number.
 * @param {Float64Array} matrix
 * @param {number} width
 * @param {Float64Array} weights
 * @param {number} by
 */
function weighted(matrix, width, weights, by) {
  const found = new Float64Array(width);
  for (let at = 0; at < matrix.length; at++) found[at % width] += matrix[at] * weights[Math.floor(at / width)] / by;
  return found;
}

/** @param {Float64Array} loadings */
function signOf(loadings) {
  const most = loadings.reduce((size, one) => Math.max(size, Math.abs(one)), 0);
  return (loadings.find((one) => Math.abs(one) >= most * DECISIVE) ?? 1) < 0 ? -1 : 1;
}

/**
 * Return the largest eigenvalues of a symmetric matrix without negative ones, and their vectors, by subspace iteration
 * with Chebyshev's polynomials (Zhou, Saad et al. 2006), which settles soon also where eigenvalues are close.
 * @param {Float64Array} matrix
 * @param {number} side
 * @param {number} count
 * @param {(share: number) => Promise<void>} told
 * @returns {Promise<{ values: number[], axes: Float64Array[] }>}
 */
async function leading(matrix, side, count, told) {
  const size = Math.min(side, count + BESIDE);
  let basis = orthonormal(Array.from({ length: size }, (_, turn) =>
    Float64Array.from({ length: side }, (_, at) => Math.sin((turn + 1) * (at + 1) * 0.7390851 + turn))));
  for (let turn = 0; ; turn++) {
    await told(1);
    const images = applied(matrix, side, basis);
    const small = Float64Array.from({ length: size * size }, (_, at) =>
      product(basis[Math.floor(at / size)], 0, images[at % size], 0, side));
    const { values, vectors } = jacobi(small, size);
    const ritz = mixed(basis, vectors, side), moved = mixed(images, vectors, side);
    const isSettled = values.slice(0, count).every((value, dim) =>
      Math.sqrt(moved[dim].reduce((sum, one, at) => sum + (one - value * ritz[dim][at]) ** 2, 0)) <= SETTLED * values[0]);
    if (isSettled || turn === MOST_TURNS || !(values[0] > 0)) {
      return { values: values.slice(0, count), axes: ritz.slice(0, count) };
    }
    basis = orthonormal(filtered(matrix, side, ritz, moved, values));
  }
}

/**
 * Return vectors in which the eigenvectors of small eigenvalues, from 0 to the least of the given ones, are damped.
 * @param {Float64Array} matrix
 * @param {number} side
 * @param {Float64Array[]} vectors
 * @param {Float64Array[]} images of the vectors
 * @param {number[]} values their eigenvalues, the largest first
 */
function filtered(matrix, side, vectors, images, values) {
  const half = (values.at(-1) ?? 0) / 2, ratio = values[0] / (2 * half);
  const degree = half > 0 ? Math.min(LONGEST_FILTER, Math.floor(DIGITS / Math.log10(4 * ratio))) : 1;
  if (!(degree > 1)) return images;
  const combined = (/** @type {Float64Array[]} */ moved, /** @type {Float64Array[]} */ middle, /** @type {Float64Array[]} */ older) =>
    moved.map((image, turn) => image.map((one, at) => 2 * (one / half - middle[turn][at]) - older[turn][at]));
  let before = vectors, last = vectors.map((vector, turn) => vector.map((one, at) => images[turn][at] / half - one));
  for (let power = 2; power <= degree; power++) {
    [before, last] = [last, combined(applied(matrix, side, last), last, before)];
  }
  return last;
}

/**
 * Return the products of a matrix with some vectors; each row is read once for all of them.
 * @param {Float64Array} matrix
 * @param {number} side
 * @param {Float64Array[]} vectors
 */
function applied(matrix, side, vectors) {
  const found = vectors.map(() => new Float64Array(side));
  for (let row = 0; row < side; row++) {
    for (let turn = 0; turn < vectors.length; turn++) {
      found[turn][row] = product(matrix, row * side, vectors[turn], 0, side);
    }
  }
  return found;
}

/**
 * Return the combinations of vectors whose weights are columns of a matrix.
 * @param {Float64Array[]} vectors
 * @param {number[][]} columns
 * @param {number} side
 */
function mixed(vectors, columns, side) {
  return columns.map((weights) => {
    const found = new Float64Array(side);
    weights.forEach((weight, turn) => {
      for (let at = 0; at < side; at++) found[at] += weight * vectors[turn][at];
    });
    return found;
  });
}

/**
 * Return an orthonormal basis of the space of some vectors, in place.
 * @param {Float64Array[]} vectors
 */
function orthonormal(vectors) {
  const side = vectors[0].length;
  vectors.forEach((vector, turn) => {
    for (let again = 0; again < 2; again++) {
      for (let before = 0; before < turn; before++) {
        const share = product(vector, 0, vectors[before], 0, side);
        for (let at = 0; at < side; at++) vector[at] -= share * vectors[before][at];
      }
      const length = Math.sqrt(product(vector, 0, vector, 0, side));
      // A vector without anything of its own is replaced by an axis, which is made orthogonal in the second turn.
      for (let at = 0; at < side; at++) vector[at] = length > 1e-290 ? vector[at] / length : Number(at === turn);
    }
  });
  return vectors;
}

/**
 * Return the eigenvalues of a small symmetric matrix, the largest first, and their vectors, by Jacobi's rotations.
 * @param {Float64Array} matrix
 * @param {number} size
 * @returns {{ values: number[], vectors: number[][] }}
 */
function jacobi(matrix, size) {
  const a = Float64Array.from(matrix), v = Float64Array.from({ length: size * size }, (_, at) => Number(at % (size + 1) === 0));
  for (let sweep = 0; sweep < 30; sweep++) {
    let off = 0;
    for (let p = 0; p < size; p++) for (let q = p + 1; q < size; q++) off += a[p * size + q] ** 2;
    if (off <= 1e-40 * a.reduce((sum, one) => sum + one * one, 0)) break;
    for (let p = 0; p < size; p++) for (let q = p + 1; q < size; q++) rotate(a, v, size, p, q);
  }
  const order = Array.from({ length: size }, (_, at) => at).sort((one, other) => a[other * (size + 1)] - a[one * (size + 1)]);
  const vectors = order.map((column) => Array.from({ length: size }, (_, row) => v[row * size + column]));
  return { values: order.map((at) => a[at * (size + 1)]), vectors };
}

/**
 * Make an element of a symmetric matrix zero by a rotation, which is collected in `v`.
 * @param {Float64Array} a
 * @param {Float64Array} v
 * @param {number} size
 * @param {number} p
 * @param {number} q
 */
function rotate(a, v, size, p, q) {
  const apart = a[p * size + q];
  if (!apart) return;
  const theta = (a[q * size + q] - a[p * size + p]) / (2 * apart);
  const t = (theta < 0 ? -1 : 1) / (Math.abs(theta) + Math.hypot(theta, 1)), c = 1 / Math.hypot(t, 1), s = t * c;
  const turn = (/** @type {Float64Array} */ m, /** @type {number} */ at, /** @type {number} */ to) => {
    [m[at], m[to]] = [c * m[at] - s * m[to], s * m[at] + c * m[to]];
  };
  for (let k = 0; k < size; k++) turn(a, k * size + p, k * size + q);
  for (let k = 0; k < size; k++) turn(a, p * size + k, q * size + k);
  for (let k = 0; k < size; k++) turn(v, k * size + p, k * size + q);
}
