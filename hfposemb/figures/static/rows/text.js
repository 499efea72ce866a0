// Text as a page shows it: whatever comes from Python reaches the page as text, never as markup.

const LONGEST = 160; // characters of a label that are shown
// eslint-disable-next-line no-control-regex -- control characters are what it looks for
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/**
 * Name control and bidirectional characters, and cut the text.
 * @param {string} text
 * @param {number} [longest]
 * @returns {string}
 */
export function plain(text, longest = LONGEST) {
  const cut = text.length > longest ? text.slice(0, longest) + "…" : text;
  return cut.replace(INVISIBLE, (character) =>
    `⟨U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/**
 * Cut words that no line has room for in their middle: they are names of sources, whose ends distinguish them.
 * @param {string} text
 * @returns {string}
 */
export function shortened(text) {
  return text.replace(/\S{37,}/gu, (name) => [...name].slice(0, 18).join("") + "…" + [...name].slice(-17).join(""));
}

/**
 * Format a number with three significant digits, or return other text as it is shown.
 * @param {unknown} value
 * @returns {string}
 */
export function number(value) {
  if (value === null || value === undefined || value === "") return "";
  const found = Number(value);
  if (!Number.isFinite(found)) return plain(String(value));
  const size = Math.abs(found);
  const text = Number.isInteger(found) ? size.toLocaleString("en")
    : size < 1 ? size.toFixed(3).replace(/^0/, "")
      : size < 100 ? size.toFixed(2) : Math.round(size).toLocaleString("en");
  return (found < 0 && /[1-9]/.test(text) ? "−" : "") + text;
}

/**
 * Return what the text of a figure stands for: it is written for plotly, which reads it as markup.
 * @param {string} text
 * @returns {string}
 */
export function unescaped(text) {
  return text.replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&#36;/g, "$").replace(/&amp;/g, "&");
}
