// What is said of a file or an answer that is refused: one line, in which untrusted text is quoted and cut.

const SHOWN = 80;

/** An error that the reader can act on; anything else is a bug. */
export class Refusal extends Error {
  name = "Refusal";
}

/**
 * Return an error that names a file and the rule that it violates.
 * @param {string} file
 * @param {string} rule
 * @returns {Refusal}
 */
export function fault(file, rule) {
  return new Refusal(`${file.length <= SHOWN ? file : quoted(file)}: ${rule}`);
}

/**
 * Quote untrusted text.
 * @param {string | Uint8Array} value
 * @returns {string}
 */
export function quoted(value) {
  const text = typeof value === "string" ? value : String.fromCharCode(...value.subarray(0, SHOWN + 1));
  const shown = JSON.stringify(text.slice(0, SHOWN + 1));
  return shown.length <= SHOWN ? shown : shown.slice(0, SHOWN - 1) + "…";
}

/**
 * Name another kind of file by its first bytes, as strict_json.py does; "" if it is unknown, or if the first eight bytes
 * are a length below 4 GB.
 * @param {Uint8Array} start first eight bytes, or more of a text
 * @param {[string, string][]} kinds first characters and what they are
 * @returns {string}
 */
export function foreign(start, kinds) {
  const first = String.fromCharCode(...start.subarray(0, SHOWN)), isGzip = first.startsWith("\x1f\x8b\x08");
  if (start.length === 8 && !start.subarray(4).some(Boolean) && !isGzip) return "";
  const text = first.replace(/^\xef\xbb\xbf/, "").replace(/^[ \t\n\r\v\f]+/, "");
  return kinds.find(([magic]) => text.startsWith(magic))?.[1] ?? "";
}
