// Mean cosines by distance, exactly and for every distance: sums along the diagonals are an autocorrelation.

import { norms } from "./row_numbers.js";

/**
 * Return the mean cosine of two rows at each distance, up to the last one that has at least two pairs. Rows without a
 * direction are left out.
 * @param {Float32Array} table
 * @param {number} width
 * @param {(share: number) => Promise<void>} told
 * @returns {Promise<Float64Array>}
 */
export async function meanByDistance(table, width, told) {
  const rows = table.length / width, lengths = norms(table, width), size = 2 ** Math.ceil(Math.log2(2 * rows));
  const has = lengths.map((length) => Number(length > 0 && Number.isFinite(length)));
  const power = new Float64Array(size), kept = new Float64Array(size), fourier = new Fourier(size);
  // Two columns at once, one as the real and one as the imaginary part.
  for (let column = 0; column < width; column += 2) {
    if (column % 32 === 0) await told(column / width);
    const [real, imaginary] = [new Float64Array(size), new Float64Array(size)];
    for (let row = 0; row < rows; row++) {
      if (!has[row]) continue;
      real[row] = table[row * width + column] / lengths[row];
      if (column + 1 < width) imaginary[row] = table[row * width + column + 1] / lengths[row];
    }
    fourier.addPower(real, imaginary, power);
  }
  const mask = new Float64Array(size);
  mask.set(has);
  fourier.addPower(mask, new Float64Array(size), kept);
  const sums = fourier.correlation(power), counts = fourier.correlation(kept);
  return Float64Array.from({ length: Math.max(rows - 1, 1) }, (_, distance) => {
    const pairs = Math.round(counts[distance]);
    return pairs ? sums[distance] / pairs : NaN;
  });
}

/** Fourier transforms of one length, a power of two. */
class Fourier {
  /** @param {number} size */
  constructor(size) {
    this.size = size;
    this.cosines = Float64Array.from({ length: size / 2 }, (_, at) => Math.cos(2 * Math.PI * at / size));
    this.sines = Float64Array.from({ length: size / 2 }, (_, at) => Math.sin(2 * Math.PI * at / size));
  }

  /**
   * Add the squared magnitudes of the transform of a complex sequence, which is overwritten.
   * @param {Float64Array} real
   * @param {Float64Array} imaginary
   * @param {Float64Array} power
   */
  addPower(real, imaginary, power) {
    this.#transform(real, imaginary);
    for (let at = 0; at < this.size; at++) power[at] += real[at] ** 2 + imaginary[at] ** 2;
  }

  /**
   * Return the autocorrelation of sequences with a sum of squared magnitudes.
   * @param {Float64Array} power
   */
  correlation(power) {
    const real = power.slice();
    this.#transform(real, new Float64Array(this.size));
    return real.map((one) => one / this.size);
  }

  /**
   * @param {Float64Array} real
   * @param {Float64Array} imaginary
   */
  #transform(real, imaginary) {
    const { size } = this;
    for (let at = 1, turned = 0; at < size; at++) {
      let bit = size >> 1;
      for (; turned & bit; bit >>= 1) turned ^= bit;
      turned ^= bit;
      if (at >= turned) continue;
      [real[at], real[turned]] = [real[turned], real[at]];
      [imaginary[at], imaginary[turned]] = [imaginary[turned], imaginary[at]];
    }
    for (let length = 2; length <= size; length *= 2) this.#merge(real, imaginary, length);
  }

  /**
   * @param {Float64Array} real
   * @param {Float64Array} imaginary
   * @param {number} length
   */
  #merge(real, imaginary, length) {
    const half = length / 2, step = this.size / length;
    for (let start = 0; start < this.size; start += length) {
      for (let at = 0; at < half; at++) {
        const one = start + at, other = one + half, c = this.cosines[at * step], s = this.sines[at * step];
        const re = real[other] * c + imaginary[other] * s, im = imaginary[other] * c - real[other] * s;
        real[other] = real[one] - re;
        imaginary[other] = imaginary[one] - im;
        real[one] += re;
        imaginary[one] += im;
      }
    }
  }
}
