// Labels of the rows of a token table from tokenizer.json, else vocab.txt, else vocab.json: the rules of vocabulary.py.

import { decoded } from "./json_text.js";
import { Refusal, fault, quoted } from "./refusal.js";

export const VOCABULARIES = ["tokenizer.json", "vocab.txt", "vocab.json"];
const LARGEST_ID = 2 ** 31 - 1;
const BYTES = byteMap();

/** Labels by row, and rows by label. */
export class Vocabulary {
  /** @type {Map<string, number> | null} */
  #rows = null;

  /**
   * @param {Map<number, string>} pieces
   * @param {TokenStyle} style
   * @param {Map<number, string>} literal added tokens
   */
  constructor(pieces, style, literal) {
    this.pieces = pieces;
    this.style = style;
    this.literal = literal;
  }

  /**
   * Return the text of a row as it reads.
   * @param {number} row
   * @returns {string}
   */
  text(row) {
    const literal = this.literal.get(row), piece = literal ?? this.pieces.get(row);
    if (piece === undefined) return `(padding ${row})`;
    return (literal === undefined ? bare(piece, this.style) : piece) || "⟨empty⟩";
  }

  /**
   * Return the row of a word: its own piece, or that of the same word after a space, or with another case; −1 if there
   * is none.
   * @param {string} word
   * @param {number} count of the rows
   * @returns {number}
   */
  row(word, count) {
    if (!this.#rows) {
      this.#rows = new Map();
      for (let row = count - 1; row >= 0; row--) this.#rows.set(this.text(row), row);
    }
    const forms = [word, ` ${word}`, word.toLowerCase(), ` ${word.toLowerCase()}`];
    return forms.map((form) => this.#rows?.get(form)).find((row) => row !== undefined) ?? -1;
  }
}

/**
 * Return the vocabulary in one of the files.
 * @param {string} file
 * @param {Uint8Array} raw
 * @param {number} most values or lines, merges excluded
 * @returns {Vocabulary}
 */
export function readVocabulary(file, raw, most) {
  const name = file.split("/").at(-1) ?? file;
  let text;
  try {
    text = decoded(raw);
  } catch {
    throw fault(name, "is not UTF-8; download it again");
  }
  if (name === "vocab.txt") return fromLines(text, most);
  text = withoutMerges(text);
  if ((text.match(/[,[{]/g)?.length ?? 0) > most) throw fault(name, `exceeds the limit of ${most} values for a tokenizer file`);
  let data;
  try {
    data = JSON.parse(text);
  } catch {
    throw fault(name, "is not JSON; download it again");
  }
  return name === "vocab.json" ? fromVocabulary(data) : fromTokenizer(data);
}

/**
 * Return JSON with its first list named "merges" emptied: it is half of some files and labels no row.
 * @param {string} text
 */
function withoutMerges(text) {
  const name = /"merges"\s*:\s*(?=\[)/.exec(text);
  if (!name) return text;
  const start = name.index + name[0].length;
  for (let at = start, depth = 0; at < text.length; at++) {
    const character = text[at];
    if (character === '"') at = stringEnd(text, at);
    else if (character === "[") depth++;
    else if (character === "]" && --depth === 0) return `${text.slice(0, start)}[]${text.slice(at + 1)}`;
  }
  return text;
}

/**
 * Return the place of the quote that ends a string.
 * @param {string} text
 * @param {number} start place of the quote that begins it
 */
function stringEnd(text, start) {
  for (let end = text.indexOf('"', start + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let before = end;
    while (text[before - 1] === "\\") before--;
    if ((end - before) % 2 === 0) return end;
  }
  return text.length;
}

/** @param {any} data */
function fromTokenizer(data) {
  const model = data?.model, literal = new Map();
  if (model === null || typeof model !== "object") throw new Refusal("tokenizer.json: model must be an object; download it again");
  for (const { id, content } of Array.isArray(data.added_tokens) ? data.added_tokens : []) {
    if (typeof content === "string") literal.set(checkedId(id, content, "tokenizer.json"), content);
  }
  return new Vocabulary(byId(model.vocab, "tokenizer.json"), styleOf(data, model), literal);
}

/**
 * @param {string} text
 * @param {number} most
 */
function fromLines(text, most) {
  const lines = text.split(/\r\n|\r|\n/);
  if (lines.length > most) throw fault("vocab.txt", `exceeds the limit of ${most} lines for a tokenizer file`);
  if (lines.at(-1) === "") lines.pop();
  const prefix = lines.some((line) => line.startsWith("##")) ? "##" : "";
  return new Vocabulary(new Map(lines.map((line, row) => [row, line])), { ...NO_STYLE, prefix }, new Map());
}

/** @param {any} data */
function fromVocabulary(data) {
  if (data !== null && typeof data === "object" && !Array.isArray(data)) {
    const ids = Object.values(data);
    if (ids.length && !ids.some(Number.isInteger)) throw fault("vocab.json", "is no vocabulary: no text has a whole number as its id there");
  }
  const pieces = byId(data, "vocab.json"), known = new Set(pieces.values());
  const often = (/** @type {(piece: string) => boolean} */ test) =>
    [...known].filter(test).length >= Math.max(1, Math.floor(known.size / 20));
  const isByteLevel = [...BYTES.keys()].every((character) => known.has(character)) || often((piece) => piece[0] === "Ġ");
  const suffix = often((piece) => piece.endsWith("</w>")) ? "</w>" : "";
  const space = !isByteLevel && often((piece) => piece[0] === "▁") ? "▁" : "";
  return new Vocabulary(pieces, { isByteLevel, suffix, space, prefix: "" }, new Map());
}

const NO_STYLE = { isByteLevel: false, space: "", prefix: "", suffix: "" };

/**
 * @param {any} vocabulary {piece: id}, [[piece, score], …] or [piece, …]
 * @param {string} file
 * @returns {Map<number, string>}
 */
function byId(vocabulary, file) {
  if (Array.isArray(vocabulary)) {
    return new Map(vocabulary.map((entry, row) => {
      const piece = Array.isArray(entry) ? entry[0] : entry;
      if (typeof piece !== "string") throw fault(file, `piece ${row} must be a string; download it again`);
      return [row, piece];
    }));
  }
  if (vocabulary === null || typeof vocabulary !== "object") throw fault(file, "has no vocabulary; download it again");
  return new Map(Object.entries(vocabulary).map(([piece, row]) => [checkedId(row, piece, file), piece]));
}

/**
 * @param {any} id
 * @param {string} piece
 * @param {string} file
 */
function checkedId(id, piece, file) {
  if (Number.isInteger(id) && id >= 0 && id <= LARGEST_ID) return id;
  throw new Refusal(`the id of ${quoted(piece)} in ${file} must be a whole number from 0 to ${LARGEST_ID}; found ${quoted(String(id))}; download the file again`);
}

/**
 * @param {any} data
 * @param {any} model
 * @returns {TokenStyle}
 */
function styleOf(data, model) {
  const style = { ...NO_STYLE, prefix: sign(model.continuing_subword_prefix) };
  for (const part of ["normalizer", "pre_tokenizer", "decoder"].flatMap((name) => components(data[name]))) {
    const pattern = sign(part.pattern?.String);
    if (part.type === "ByteLevel") style.isByteLevel = true;
    else if (part.type === "Metaspace") style.space = sign(part.replacement ?? "▁");
    else if (part.type === "Replace" && part.content === " " && pattern === "▁") style.space ||= pattern;
    else if (part.type === "BPEDecoder") style.suffix = sign(part.suffix ?? "</w>");
  }
  return { ...style, suffix: sign(model.end_of_word_suffix) || style.suffix };
}

/**
 * Return the parts of a normalizer, pre-tokenizer or decoder, those of a sequence too.
 * @param {any} found
 * @returns {any[]}
 */
function components(found) {
  const waiting = [found], parts = [];
  while (waiting.length) {
    const part = waiting.pop();
    if (part === null || typeof part !== "object") continue;
    parts.push(part);
    for (const name of ["normalizers", "pretokenizers", "decoders"]) if (Array.isArray(part[name])) waiting.push(...part[name]);
  }
  return parts;
}

/** @param {unknown} value */
function sign(value) {
  return typeof value === "string" && value.length <= 16 ? value : "";
}

/**
 * Return a piece as it reads: its bytes decoded, and its marks for spaces and ends of words replaced.
 * @param {string} piece
 * @param {TokenStyle} style
 * @returns {string}
 */
function bare(piece, { isByteLevel, space, suffix }) {
  const text = suffix && piece.endsWith(suffix) ? piece.slice(0, -suffix.length) : piece;
  if (isByteLevel) {
    const bytes = [...text].map((character) => BYTES.get(character) ?? -1);
    return bytes.includes(-1) ? text : byCharacters(Uint8Array.from(bytes));
  }
  return space && !/^<0x[0-9A-Fa-f]{2}>$/.test(text) ? text.replaceAll(space, " ") : text;
}

/**
 * Decode UTF-8, with each run of bytes that form no character written as <0xE2 0x80>.
 * @param {Uint8Array} raw
 */
function byCharacters(raw) {
  let text = "", loose = /** @type {string[]} */ ([]);
  for (let at = 0; at < raw.length;) {
    const length = characterLength(raw, at);
    if (length && loose.length) {
      text += `<${loose.join(" ")}>`;
      loose = [];
    }
    if (length) text += decoded(raw.subarray(at, at + length));
    else loose.push(`0x${raw[at].toString(16).toUpperCase().padStart(2, "0")}`);
    at += length || 1;
  }
  return loose.length ? `${text}<${loose.join(" ")}>` : text;
}

/**
 * Return how many bytes the character at a place has; 0 if there is none.
 * @param {Uint8Array} raw
 * @param {number} at
 */
function characterLength(raw, at) {
  for (let length = 1; length <= 4 && at + length <= raw.length; length++) {
    try {
      decoded(raw.subarray(at, at + length));
      return length;
    } catch {
      // more bytes are needed, or there is no character
    }
  }
  return 0;
}

/** Return the byte that each character of a byte-level vocabulary stands for (Radford et al. 2019, encoder.py). */
function byteMap() {
  const found = /** @type {Map<string, number>} */ (new Map());
  const isVisible = (/** @type {number} */ byte) =>
    (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
  for (let byte = 0, hidden = 0; byte < 256; byte++) {
    found.set(String.fromCharCode(isVisible(byte) ? byte : 256 + hidden++), byte);
  }
  return found;
}
