// The header of a safetensors file: the rules of checkpoints/safetensors/checkpoint.py, byte by byte.

import { decoded, unquoted } from "./json_text.js";
import { fault, foreign, quoted } from "./refusal.js";

const SPACE = new Set([0x20, 0x09, 0x0a, 0x0d]);
const [QUOTE, COMMA, COLON, OPEN, CLOSE, LIST, END, BACKSLASH] = [0x22, 0x2c, 0x3a, 0x7b, 0x7d, 0x5b, 0x5d, 0x5c];
const MOST_WHOLE = 19; // digits
const MOST_AXES = 100_000;
const SHAPE = "the header must be one object that maps names to dtype, shape and data_offsets of whole numbers";

/**
 * Return the length of a header in bytes.
 * @param {Uint8Array} start first eight bytes of the file
 * @param {number} fileBytes
 * @param {string} file its name in messages
 * @param {SiteRules} rules
 * @returns {number}
 */
export function headerLength(start, fileBytes, file, rules) {
  if (fileBytes === 0) throw fault(file, "the file is empty; download it again");
  const first = start.subarray(0, 8), limit = rules.limits.header_bytes;
  const length = first.reduceRight((sum, byte) => sum * 256n + BigInt(byte), 0n);
  let rule;
  if (fileBytes < 10 || first.length < 8) {
    rule = `a safetensors file has at least 10 bytes; this one has ${fileBytes}; download it again`;
  } else if (length < 2n) {
    rule = `the header must have at least 2 bytes; the file states ${length}`;
  } else if (length > BigInt(limit)) {
    rule = `the header may have at most ${limit} bytes; the file states ${length}`;
  } else if (length > BigInt(fileBytes - 8)) {
    rule = `the file states a header of ${length} bytes, but only ${fileBytes - 8} follow; download it again`;
  } else {
    return Number(length);
  }
  throw fault(file, foreign(first, rules.magic) || rule);
}

/**
 * Validate and parse a header without the eight bytes of its length.
 * @param {Uint8Array} text
 * @param {number} fileBytes
 * @param {string} file
 * @param {SiteRules} rules
 * @returns {Header}
 */
export function parseHeader(text, fileBytes, file, rules) {
  if (text[0] !== OPEN) {
    const kind = foreign(text.subarray(0, 8), rules.magic);
    throw fault(file, kind || `the header must begin with '{'; found ${quoted(text.subarray(0, 40))}`);
  }
  const { entries, metadata } = new HeaderScanner(text, file, rules.limits).whole();
  const tensors = tensorsOf(entries, text, file, rules);
  checkCover(tensors, fileBytes - 8 - text.length, file);
  const dataStart = 8 + text.length;
  return {
    tensors: new Map([...tensors].map(([name, { dtype, shape, begin, end }]) =>
      [name, { name, dtype, shape, start: dataStart + begin, stop: dataStart + end, file }])),
    metadata: metadataOf(metadata, text, file, rules), fileBytes,
  };
}

/** Reads the text of a header: where names, dtypes, shapes and offsets are. */
class HeaderScanner {
  #at = 1;
  /** @type {HeaderEntry[]} */
  #entries = [];
  /** @type {[number, number, number, number][] | null} */
  #metadata = null;
  #metadataBytes = 0;

  /**
   * @param {Uint8Array} text
   * @param {string} file
   * @param {SiteRules["limits"]} limits
   */
  constructor(text, file, limits) {
    this.text = text;
    this.file = file;
    this.limits = limits;
  }

  /** @returns {{ entries: HeaderEntry[], metadata: { pairs: [number, number, number, number][], bytes: number } }} */
  whole() {
    this.#space();
    if (this.text[this.#at] !== CLOSE) {
      do {
        this.#space();
        this.#entry();
        this.#space();
      } while (this.text[this.#at] === COMMA && ++this.#at);
    }
    this.#expect(CLOSE);
    while (this.text[this.#at] === 0x20) this.#at++;
    if (this.#at < this.text.length) throw this.#wrong();
    return { entries: this.#entries, metadata: { pairs: this.#metadata ?? [], bytes: this.#metadataBytes } };
  }

  #entry() {
    const name = this.#string();
    this.#colon();
    if (this.#is(name, '"__metadata__"')) return this.#metadataValue();
    this.#expect(OPEN);
    this.#space();
    if (this.text[this.#at] === COMMA) throw this.#wrong();
    /** @type {HeaderEntry} */
    const entry = { name, dtype: "", shape: null, offsets: null };
    for (let turn = 0; turn < 3; turn++) {
      if (turn) this.#expect(COMMA);
      this.#space();
      this.#field(entry);
      this.#space();
    }
    this.#expect(CLOSE);
    this.#entries.push(entry);
    if (this.#entries.length > this.limits.tensors) {
      throw fault(this.file, `a file may list at most ${this.limits.tensors} tensors`);
    }
  }

  /** @param {HeaderEntry} entry */
  #field(entry) {
    const key = this.#string();
    this.#colon();
    if (this.#is(key, '"dtype"')) entry.dtype = this.#word();
    else if (this.#is(key, '"shape"')) entry.shape = this.#wholes(MOST_AXES + 1);
    else if (this.#is(key, '"data_offsets"')) entry.offsets = this.#wholes(2);
    else throw this.#wrong();
    if (entry.offsets && entry.offsets.length !== 2) throw this.#wrong();
  }

  #metadataValue() {
    if (this.#metadata) throw fault(this.file, "__metadata__ must be unique; found it twice");
    const begin = this.#at, pairs = this.#metadata = /** @type {[number, number, number, number][]} */ ([]);
    if (String.fromCharCode(...this.text.subarray(begin, begin + 4)) === "null") {
      this.#at += 4;
      return;
    }
    this.#expect(OPEN);
    this.#space();
    while (this.text[this.#at] !== CLOSE) {
      if (pairs.length) {
        this.#expect(COMMA);
        this.#space();
      }
      const key = this.#string();
      this.#colon();
      pairs.push([...key, ...this.#string()]);
      if (pairs.length > this.limits.metadata_keys) {
        throw fault(this.file, `__metadata__ may have at most ${this.limits.metadata_keys} keys`);
      }
      this.#space();
    }
    this.#at++;
    this.#metadataBytes = this.#at - begin;
  }

  /** @returns {[number, number]} */
  #string() {
    const begin = this.#at;
    this.#expect(QUOTE);
    for (;;) {
      const byte = this.text[this.#at];
      if (byte === QUOTE) break;
      if (byte === BACKSLASH) this.#at++;
      if (!(this.text[this.#at] >= 0x20) && !(byte === BACKSLASH && this.text[this.#at] !== 0x0a)) throw this.#wrong();
      if (this.#at >= this.text.length) throw this.#wrong();
      this.#at++;
    }
    this.#at++;
    return [begin, this.#at];
  }

  #word() {
    const [begin, end] = this.#string();
    const word = String.fromCharCode(...this.text.subarray(begin + 1, Math.min(end - 1, begin + 100)));
    if (!/^\w+$/.test(word)) throw this.#wrong();
    return word;
  }

  /**
   * @param {number} most
   * @returns {string[]}
   */
  #wholes(most) {
    const found = /** @type {string[]} */ ([]);
    this.#expect(LIST);
    this.#space();
    while (this.text[this.#at] !== END) {
      if (found.length) {
        this.#expect(COMMA);
        this.#space();
      }
      const begin = this.#at;
      while (this.text[this.#at] >= 0x30 && this.text[this.#at] <= 0x39) this.#at++;
      const digits = this.text.subarray(begin, this.#at);
      const isLong = digits.length > MOST_WHOLE || found.length === most;
      if (!digits.length || isLong || (digits.length > 1 && digits[0] === 0x30)) throw this.#wrong();
      found.push(String.fromCharCode(...digits));
      this.#space();
    }
    this.#at++;
    return found;
  }

  /**
   * @param {[number, number]} span
   * @param {string} text
   */
  #is([begin, end], text) {
    return end - begin === text.length && String.fromCharCode(...this.text.subarray(begin, end)) === text;
  }

  #colon() {
    this.#space();
    this.#expect(COLON);
    this.#space();
  }

  #space() {
    while (SPACE.has(this.text[this.#at])) this.#at++;
  }

  /** @param {number} byte */
  #expect(byte) {
    if (this.text[this.#at] !== byte) throw this.#wrong();
    this.#at++;
  }

  #wrong() {
    const rest = quoted(this.text.subarray(this.#at, this.#at + 60));
    return fault(this.file, `${SHAPE}; byte ${8 + this.#at} reads ${rest}`);
  }
}

/**
 * Decode a string of the header.
 * @param {Uint8Array} raw with its quotes
 * @param {string} file
 * @returns {string}
 */
function textOf(raw, file) {
  let text = null;
  try {
    text = unquoted(decoded(raw));
  } catch {
    // it is not UTF-8
  }
  if (text === null) throw fault(file, `text in the header must be UTF-8; found ${quoted(raw.subarray(0, 60))}`);
  return text;
}

/**
 * @param {HeaderEntry[]} entries
 * @param {Uint8Array} text
 * @param {string} file
 * @param {SiteRules} rules
 * @returns {Map<string, { dtype: string, shape: number[], begin: number, end: number }>}
 */
function tensorsOf(entries, text, file, rules) {
  const found = new Map();
  for (const { name: [begin, end], dtype, shape, offsets } of entries) {
    if (end - begin > rules.limits.name_bytes + 2) {
      throw fault(file, `a tensor's name may have at most ${rules.limits.name_bytes} bytes`);
    }
    const name = textOf(text.subarray(begin, end), file);
    if (!name || /[\p{C}\p{Z}]/u.test(name.replaceAll(" ", ""))) {
      throw fault(file, `${quoted(name)} is not a valid tensor name; it must be printable`);
    }
    if (name === "__metadata__") throw fault(file, "__metadata__ must map strings to strings; found a tensor of this name");
    if (found.has(name)) throw fault(file, `tensor names must be unique; found ${quoted(name)} twice`);
    if (!dtype || !shape || !offsets) {
      throw fault(file, `${quoted(name)} must have dtype, shape and data_offsets, each once`);
    }
    found.set(name, placed(name, dtype, shape, offsets, { file, rules }));
  }
  return found;
}

/**
 * @param {string} name
 * @param {string} dtype
 * @param {string[]} axes
 * @param {string[]} offsets
 * @param {{ file: string, rules: SiteRules }} context
 */
function placed(name, dtype, axes, offsets, { file, rules }) {
  const bits = rules.bits[dtype], { rank } = rules.limits;
  if (bits === undefined) throw fault(file, `${quoted(name)} has the dtype ${quoted(dtype)}, which is not a safetensors dtype`);
  if (axes.length > rank) throw fault(file, `${quoted(name)} has ${axes.length} axes, the limit is ${rank}`);
  const lengths = axes.map(BigInt), [begin, end] = offsets.map(BigInt);
  const product = lengths.filter(Boolean).reduce((all, length) => all * length, BigInt(bits));
  if (product >= 2n ** 63n) throw fault(file, `${quoted(name)} has a shape that overflows: ${quoted(axes.join(","))}`);
  const size = lengths.some((length) => !length) ? 0n : product;
  if (size !== 8n * (end - begin)) {
    const where = `${dtype} of shape [${axes.join(", ").slice(0, 60)}] from byte ${begin} to ${end} of the data`;
    throw fault(file, `${quoted(name)} has ${where}, but needs ${Number(size) / 8} bytes`);
  }
  return { dtype, shape: lengths.map(Number), begin: Number(begin), end: Number(end) };
}

/**
 * Require that the tensors cover the data without gaps or overlaps, up to the last byte of the file.
 * @param {Map<string, { begin: number, end: number }>} tensors
 * @param {number} dataBytes
 * @param {string} file
 */
function checkCover(tensors, dataBytes, file) {
  let reached = 0;
  const sorted = [...tensors].sort(([, one], [, other]) => one.begin - other.begin || one.end - other.end);
  for (const [name, { begin, end }] of sorted) {
    if (begin !== reached) {
      const kind = begin < reached ? "overlaps another tensor" : "leaves a gap before it";
      throw fault(file, `${quoted(name)} ${kind}: it begins at byte ${begin} of the data, not at ${reached}`);
    }
    reached = end;
  }
  if (reached !== dataBytes) {
    throw fault(file, `the tensors take ${reached} bytes, but the file has ${dataBytes} for them; download it again`);
  }
}

/**
 * @param {{ pairs: [number, number, number, number][], bytes: number }} metadata
 * @param {Uint8Array} text
 * @param {string} file
 * @param {SiteRules} rules
 * @returns {Map<string, string>}
 */
function metadataOf({ pairs, bytes }, text, file, rules) {
  const { metadata_bytes: most, metadata_keys: keys } = rules.limits, found = new Map();
  if (bytes > most) throw fault(file, `__metadata__ may have at most ${most} bytes; found ${bytes}`);
  for (const [begin, end, from, to] of pairs) {
    const key = textOf(text.subarray(begin, end), file);
    if (found.has(key) || found.size === keys) {
      throw fault(file, `__metadata__ may have at most ${keys} different keys; found ${quoted(key)} after ${found.size}`);
    }
    found.set(key, textOf(text.subarray(from, to), file));
  }
  return found;
}
