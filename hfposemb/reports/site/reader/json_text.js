// Bounded and strict reading of JSON from untrusted sources: the rules of strict_json.py.

import { fault, foreign, quoted } from "./refusal.js";

const DEEPEST = 900;
const MOST_DIGITS = 4300;
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?/y;
const TEXT = /[^"\\\u0000-\u001f]*/y; // eslint-disable-line no-control-regex -- no control character is in a string
const ESCAPES = { '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };
const WORDS = { true: true, false: false, null: null, NaN, Infinity, "-Infinity": -Infinity };

/**
 * Parse JSON. A whole number that is written as a fraction, such as 14.0, becomes a boxed Number, which no test for
 * whole numbers accepts. Objects have no prototype.
 * @param {Uint8Array} raw
 * @param {object} rules
 * @param {string} rules.file
 * @param {number} rules.limit largest size in bytes; a quarter of it for text that is not ASCII
 * @param {"object" | "array"} rules.kind of the value
 * @param {boolean} [rules.unique] whether a key may stand once only in an object
 * @param {number} [rules.values] largest number of values
 * @param {SiteRules} rules.rules
 * @returns {any}
 */
export function parseJson(raw, { file, limit, kind, unique = false, values, rules }) {
  const isPlain = !raw.some((byte) => byte > 127);
  if (raw.length > (isPlain ? limit : limit / 4)) {
    throw fault(file, `has ${raw.length} bytes; the limit is ${limit}, or a quarter of that for text that is not ASCII`);
  }
  const most = values ?? rules.limits.json_values;
  if (separated(raw) > most) throw fault(file, `has more than ${most} values`);
  let found;
  try {
    found = new JsonReader(decoded(raw), unique).whole();
  } catch (error) {
    const { message } = /** @type {Error} */ (error);
    throw fault(file, foreign(raw.subarray(0, 8), rules.magic) || `is not JSON: ${message}`);
  }
  const isList = Array.isArray(found), isObject = found !== null && typeof found === "object" && !isBoxed(found);
  if (kind === "array" ? !isList : isList || !isObject) throw fault(file, `must be a JSON ${kind}`);
  return found;
}

/**
 * Return the number of separators outside strings.
 * @param {Uint8Array} raw
 */
function separated(raw) {
  let count = 0, inside = false;
  for (let at = 0; at < raw.length; at++) {
    if (raw[at] === 0x22) inside = !inside;
    else if (inside) at += raw[at] === 0x5c ? 1 : 0;
    else if (raw[at] === 0x2c || raw[at] === 0x5b || raw[at] === 0x7b) count++;
  }
  return count;
}

/**
 * Decode UTF-8; throws where it is none.
 * @param {Uint8Array} raw
 * @returns {string}
 */
export function decoded(raw) {
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(raw);
}

/**
 * Return whether a text has no half of a character.
 * @param {string} text
 */
function isWhole(text) {
  return !/[\ud800-\udfff]/u.test(text);
}

/** @param {unknown} value */
function isBoxed(value) {
  return value instanceof Number;
}

/** Reads one text. */
class JsonReader {
  #at = 0;

  /**
   * @param {string} text
   * @param {boolean} unique
   */
  constructor(text, unique) {
    this.text = text;
    this.unique = unique;
  }

  /** @returns {any} */
  whole() {
    this.#space();
    const found = this.#value(0);
    this.#space();
    if (this.#at < this.text.length) throw this.#wrong("the end");
    return found;
  }

  /**
   * @param {number} depth
   * @returns {any}
   */
  #value(depth) {
    if (depth > DEEPEST) throw new Error("it is nested too deeply");
    const character = this.text[this.#at];
    if (character === "{") return this.#object(depth);
    if (character === "[") return this.#list(depth);
    if (character === '"') return this.#string();
    for (const [word, value] of Object.entries(WORDS)) {
      if (!this.text.startsWith(word, this.#at)) continue;
      this.#at += word.length;
      return value;
    }
    return this.#number();
  }

  /** @param {number} depth */
  #object(depth) {
    const made = Object.create(null);
    for (let first = true; !this.#closes("}", first); first = false) {
      if (this.text[this.#at] !== '"') throw this.#wrong("a key");
      const key = this.#string();
      this.#space();
      this.#expect(":");
      this.#space();
      if (this.unique && key in made) throw new Error(`has the key ${quoted(key)} twice in an object`);
      made[key] = this.#value(depth + 1);
    }
    return made;
  }

  /** @param {number} depth */
  #list(depth) {
    const made = [];
    for (let first = true; !this.#closes("]", first); first = false) made.push(this.#value(depth + 1));
    return made;
  }

  // Step over an opening bracket or a comma, and tell whether the closing one follows.
  /**
   * @param {string} end
   * @param {boolean} first
   */
  #closes(end, first) {
    if (first) this.#at++;
    this.#space();
    if (this.text[this.#at] === end) {
      this.#at++;
      return true;
    }
    if (!first) {
      this.#expect(",");
      this.#space();
    }
    return false;
  }

  #string() {
    this.#at++;
    let made = "";
    for (;;) {
      TEXT.lastIndex = this.#at;
      const [plain] = TEXT.exec(this.text) ?? [""];
      made += plain;
      this.#at += plain.length;
      const character = this.text[this.#at++];
      if (character === '"') break;
      if (character !== "\\") throw this.#wrong("the end of a string");
      made += this.#escape();
    }
    if (!isWhole(made)) throw new Error("it has half a character");
    return made;
  }

  #escape() {
    const character = this.text[this.#at++];
    if (character !== "u") {
      const found = ESCAPES[/** @type {keyof ESCAPES} */ (character)];
      if (found === undefined) throw this.#wrong("an escape");
      return found;
    }
    const digits = this.text.slice(this.#at, this.#at + 4);
    if (!/^[0-9a-fA-F]{4}$/.test(digits)) throw this.#wrong("four digits");
    this.#at += 4;
    return String.fromCharCode(parseInt(digits, 16));
  }

  #number() {
    NUMBER.lastIndex = this.#at;
    const found = NUMBER.exec(this.text);
    if (!found) throw this.#wrong("a value");
    this.#at += found[0].length;
    const value = Number(found[0]), isFraction = Boolean(found[1] || found[2]);
    if (!isFraction && found[0].length > MOST_DIGITS) throw new Error("it has a number of too many digits");
    return isFraction && Number.isInteger(value) ? Object(value) : value;
  }

  #space() {
    while (/[ \t\n\r]/.test(this.text[this.#at] ?? "")) this.#at++;
  }

  /** @param {string} character */
  #expect(character) {
    if (this.text[this.#at] !== character) throw this.#wrong(`'${character}'`);
    this.#at++;
  }

  /** @param {string} what */
  #wrong(what) {
    return new Error(`expected ${what} at character ${this.#at}`);
  }
}
