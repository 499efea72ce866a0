// Terms of the field in the texts of panels: a dotted line, and on request one sentence and a picture.

import { button, h, s } from "./elements.js";

const ARROWS = "M10 48H86M10 48L58 10M82 45l4 3-4 3M53 10.500l5-.5-1.500 4.800";

/**
 * What a term means, and the line of its picture in a frame of 96 × 56; `other` is drawn in a second colour.
 * @type {Record<string, { also?: string[], says: string, line: string, other?: string }>}
 */
export const TERMS = {
  cosine: {
    also: ["cosines"], line: ARROWS, other: "M30 48A20 20 0 0 0 25.500 35.500",
    says: "The cosine of the angle between two vectors: 1 for the same direction, 0 for a right angle. Lengths "
      + "do not count.",
  },
  norm: { also: ["norms"], line: "M12 46L78 14M72 14h6l-3 5", other: "M8 38L74 6", says: "The length of a vector." },
  CKA: {
    line: "M8 10h32v36h-32zM8 22h32M8 34h32M19 10v36M30 10v36",
    other: "M56 10h32v36h-32zM56 22h32M56 34h32M67 10v36M78 10v36",
    says: "Centred kernel alignment: how alike the similarity matrices of two tables are, 0 to 1. Rotating or "
      + "scaling a table "
      + "does not change it.",
  },
  RSA: {
    line: "M8 46L24 30L40 36L56 18L88 10", other: "M8 50L24 36L40 40L56 26L88 16",
    says: "Representational similarity analysis: the correlation between the similarities in one table and "
      + "those in another.",
  },
  surrogate: {
    also: ["surrogates"], line: "M6 28C16 4 26 4 36 28S56 52 66 28S82 8 90 20",
    other: "M6 36C20 52 28 12 42 20S60 46 72 40S84 26 90 34",
    says: "A made table that is as smooth as the real one and unrelated to the other: it shows what chance "
      + "alone gives.",
  },
  anisotropic: {
    also: ["anisotropy"], line: "M14 46L70 8M14 46L78 14M14 46L82 22M14 46L62 6", other: "M14 46L84 32",
    says: "All vectors point roughly the same way, so any two of them have a high cosine.",
  },
  PCA: {
    line: "M8 46L88 10M82 10h6l-3 5", other: "M24 30v.1M36 40v.1M40 24v.1M50 34v.1M58 16v.1M64 28v.1M74 12v.1M30 44v.1",
    says: "Principal component analysis: the view of a table that shows most of its variance. Straight lines "
      + "stay straight.",
  },
  variance: {
    line: "M8 46H88", other: "M48 46C30 46 40 10 48 10S66 46 88 46M48 46C30 46 26 46 8 46",
    says: "How far values are from their mean: the mean of the squared differences.",
  },
  helix: {
    also: ["helices"], line: "M10 40C10 10 40 10 36 34S58 52 56 28S84 8 84 34",
    says: "A curve that goes round at a steady rate, as the thread of a screw does.",
  },
  UMAP: {
    line: "M18 16v.1M24 12v.1M22 22v.1M30 18v.1M16 24v.1", other: "M66 38v.1M72 34v.1M78 40v.1M70 46v.1M62 44v.1",
    says: "A map that keeps close rows close. Distances between its islands mean little.",
  },
  Procrustes: {
    line: "M12 44L40 12L60 40Z", other: "M20 48L44 14L68 44Z",
    says: "The rotation, mirroring and scale that bring two sets of points closest together.",
  },
  trustworthiness: {
    also: ["trust"], line: "M26 28a20 20 0 1 0 40 0a20 20 0 1 0-40 0",
    other: "M46 28v.1M38 22v.1M52 20v.1M54 34v.1M40 38v.1",
    says: "Whether neighbours on a map are neighbours in the table: 1 if all are, about .5 on a random map.",
  },
  "R²": {
    line: "M8 46L88 10", other: "M16 44v.1M26 36v.1M36 36v.1M46 26v.1M56 28v.1M66 18v.1M76 18v.1",
    says: "The share of the variance that a prediction explains: 1 if it is perfect, 0 if it is no better than "
      + "the mean.",
  },
  logit: {
    also: ["logits"], line: "M14 46v-12M30 46v-26M46 46v-8M62 46v-36M78 46v-18", other: "M6 46h84",
    says: "An attention score before the softmax, which turns scores into shares.",
  },
  rotary: {
    also: ["RoPE"], line: "M48 28L80 28M74 24l6 4-6 4", other: "M70 28A22 22 0 0 0 59 9",
    says: "Positions that turn the queries and keys of attention by an angle, in place of a vector that is added.",
  },
  ALiBi: {
    line: "M8 10L88 46", other: "M8 10h80",
    says: "A penalty on attention that grows with distance, in place of a position vector.",
  },
  LayerNorm: {
    line: "M10 48L30 12M10 48L84 40", other: "M10 48m36 0A36 36 0 0 0 28 16.500",
    says: "A step that centres a vector and gives it a fixed length, then scales each of its columns.",
  },
  "p value": {
    also: ["p-value"], line: "M6 46C30 46 34 10 48 10S66 46 90 46", other: "M74 46v-20",
    says: "How often chance alone gives a value at least as extreme as the measured one.",
  },
};

/** @type {Map<string, string>} */
const NAMES = new Map(Object.entries(TERMS).flatMap(([term, { also = [] }]) =>
  [term, ...also].map((name) => /** @type {[string, string]} */ ([name.toLowerCase(), term]))));
const ANY = [...NAMES.keys()].sort((a, b) => b.length - a.length).join("|");
const FOUND = new RegExp(`(?<![\\p{L}\\d.])(?:${ANY})(?![\\p{L}\\d])`, "giu");

let made = 0;

/**
 * Return a text with the first use of each of its terms explained.
 * @param {string} text
 * @param {Set<string>} [known] terms that are explained already; those of the text are added
 * @returns {(Node | string)[]}
 */
export function explained(text, known = new Set()) {
  /** @type {(Node | string)[]} */
  const parts = [];
  let from = 0;
  for (const { 0: name, index } of text.matchAll(FOUND)) {
    const term = NAMES.get(name.toLowerCase()) ?? name;
    if (known.has(term)) continue;
    known.add(term);
    parts.push(text.slice(from, index), ...entry(name, term));
    from = index + name.length;
  }
  return [...parts, text.slice(from)].filter((part) => part !== "");
}

/**
 * @param {string} name as it is written
 * @param {string} term
 */
function entry(name, term) {
  const { says, line, other = "" } = TERMS[term];
  const picture = s("svg", { viewBox: "0 0 96 56", "aria-hidden": "true" });
  picture.append(s("path", { d: line, class: dots(line) }), s("path", { d: other, class: `other ${dots(other)}` }));
  const card = h("span", "meaning", picture, h("span", "", h("strong", "", term), ` ${says}`));
  card.id = `meaning-${++made}`;
  card.setAttribute("popover", "");
  const ask = button("term", name);
  ask.popoverTargetElement = card;
  ask.setAttribute("aria-describedby", card.id);
  card.addEventListener("toggle", () => place(card, ask));
  return [ask, card];
}

/**
 * Return the class of a line that consists of dots.
 * @param {string} line
 */
function dots(line) {
  return /^(?:M[\d. ]+v\.1)+$/.test(line) ? "dots" : "";
}

/**
 * Put a card below its button, or above it where there is no room, within the window.
 * @param {HTMLElement} card
 * @param {HTMLElement} ask
 */
export function place(card, ask) {
  const { left, top, bottom } = ask.getBoundingClientRect();
  const below = bottom + 8 + card.offsetHeight < innerHeight;
  card.style.left = `${Math.max(8, Math.min(left, innerWidth - card.offsetWidth - 8))}px`;
  card.style.top = `${below ? bottom + 6 : Math.max(8, top - 6 - card.offsetHeight)}px`;
}
