// Colours of a dark page.

// Words are left alone, and so are arrays of numbers.
const WORDS = new Set(["text", "labels", "name", "ticktext", "customdata", "meta", "hovertext", "hovertemplate"]);

/**
 * Replace every colour of a figure by its partner on a dark page.
 * @param {any} value
 * @param {Record<string, string>} partner
 * @returns {any}
 */
export function recoloured(value, partner) {
  if (typeof value === "string") return recolouredText(value, partner);
  if (Array.isArray(value)) {
    return ArrayBuffer.isView(value[0]) ? value : value.map((item) => recoloured(item, partner));
  }
  if (value === null || typeof value !== "object" || ArrayBuffer.isView(value)) return value;
  const entries = Object.entries(value);
  return Object.fromEntries(entries.map(([name, item]) => [name, WORDS.has(name) ? item : recoloured(item, partner)]));
}

/**
 * @param {string} value
 * @param {Record<string, string>} partner
 */
function recolouredText(value, partner) {
  if (value.startsWith("#")) return partner[value.toLowerCase()] ?? value;
  const rgb = /^rgba?\((\d+), *(\d+), *(\d+)(.*)\)$/.exec(value);
  if (!rgb) return value;
  const hex = partner["#" + rgb.slice(1, 4).map((part) => Number(part).toString(16).padStart(2, "0")).join("")];
  if (!hex) return value;
  return `rgba(${[1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)).join(", ")}${rgb[4] || ", 1"})`;
}
