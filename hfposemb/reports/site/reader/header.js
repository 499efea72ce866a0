// The header of a safetensors file: the rules of checkpoints/safetensors/checkpoint.py.

import { decoded, parseJson } from "./json_text.js";
import { fault, foreign, quoted } from "./refusal.js";

const [OPEN, CLOSE, SPACE, BACKSLASH] = [0x7b, 0x7d, 0x20, 0x5c];
const FIELDS = ["dtype", "shape", "data_offsets"];

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
  const last = text.findLast((byte) => byte !== SPACE);
  if (last !== CLOSE) throw fault(file, `the header must end with '}'; found ${quoted(text.subarray(-40))}`);
  const { header_bytes: most, tensors: count, metadata_keys: keys } = rules.limits;
  const limit = text.includes(BACKSLASH) ? most / 2 : most, values = 8 * count + keys;
  const { __metadata__: metadata, ...found } = parseJson(text, { file, limit, kind: "object", unique: true, values, rules });
  if (Object.keys(found).length > count) throw fault(file, `a file may list at most ${count} tensors`);
  const tensors = new Map(Object.entries(found).map(([name, entry]) => [name, placed(name, entry, file, rules)]));
  const plain = decoded(text);
  if (FIELDS.some((field) => plain.split(`"${field}"`).length <= tensors.size)) {
    throw fault(file, "dtype, shape and data_offsets must be written without escapes");
  }
  checkCover(tensors, fileBytes - 8 - text.length, file);
  const dataStart = 8 + text.length;
  return {
    tensors: new Map([...tensors].map(([name, { dtype, shape, begin, end }]) =>
      [name, { name, dtype, shape, start: dataStart + begin, stop: dataStart + end, file }])),
    metadata: metadataOf(metadata, file, rules), fileBytes,
  };
}

/**
 * Return what the header says of a tensor, or refuse it.
 * @param {string} name
 * @param {any} entry
 * @param {string} file
 * @param {SiteRules} rules
 */
function placed(name, entry, file, rules) {
  /** @param {string} rule */
  const wrong = (rule) => fault(file, `${quoted(name)} ${rule}`);
  const { rank, name_bytes: longest } = rules.limits;
  if (!name || /[\p{C}\p{Z}]/u.test(name.replaceAll(" ", ""))) throw wrong("is not a valid tensor name; it must be printable");
  if (new TextEncoder().encode(name).length > longest) throw wrong(`is too long; a tensor's name may have at most ${longest} bytes`);
  if (entry === null || typeof entry !== "object" || Object.keys(entry).sort().join() !== [...FIELDS].sort().join()) {
    throw wrong("must have dtype, shape and data_offsets, and nothing else");
  }
  const { dtype, shape, data_offsets: offsets } = entry;
  if (!areWhole(shape) || !areWhole(offsets)) throw wrong("must have lists of whole numbers as shape and data_offsets");
  const bits = typeof dtype === "string" && Object.hasOwn(rules.bits, dtype) ? rules.bits[dtype] : 0;
  if (!bits) throw wrong(`has the dtype ${quoted(String(dtype))}, which is not a safetensors dtype`);
  if (shape.length > rank) throw wrong(`has ${shape.length} axes, the limit is ${rank}`);
  const product = shape.filter(Boolean).reduce((all, length) => all * BigInt(length), BigInt(bits));
  if (product >= 2n ** 63n) throw wrong(`has a shape that overflows: ${quoted(shape.join(","))}`);
  const size = shape.every(Boolean) ? Number(product) / 8 : 0, [begin, end] = offsets;
  if (offsets.length !== 2 || size !== end - begin) {
    throw wrong(`needs ${size} bytes, but has the data_offsets ${quoted(offsets.join(",").slice(0, 60))}`);
  }
  return { dtype, shape, begin, end };
}

/**
 * @param {unknown} list
 * @returns {list is number[]}
 */
function areWhole(list) {
  return Array.isArray(list) && list.every((one) => Number.isInteger(one) && one >= 0 && !Object.is(one, -0));
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
 * @param {any} found null where MLX has none
 * @param {string} file
 * @param {SiteRules} rules
 * @returns {Map<string, string>}
 */
function metadataOf(found, file, rules) {
  const { metadata_bytes: most, metadata_keys: keys } = rules.limits, pairs = Object.entries(found ?? {});
  if (typeof (found ?? {}) !== "object" || Array.isArray(found) || pairs.some(([, value]) => typeof value !== "string")) {
    throw fault(file, "__metadata__ must map strings to strings");
  }
  const bytes = new TextEncoder().encode(pairs.flat().join("")).length;
  if (bytes > most || pairs.length > keys) {
    throw fault(file, `__metadata__ may have at most ${most} bytes and ${keys} keys; found ${bytes} and ${pairs.length}`);
  }
  return new Map(pairs);
}
