// A figure as a file: with the words above its panel, which stand outside of the plot on the page.

const EXPORT_SIDE = 16; // pixels between words and the edges
const LINE_HEIGHT = 20;
const SCALE_WIDTH = 96; // width of a colour scale
const SCALE_STEPS = 24; // colours of a strip
export const EXPORT_MARK = "hfposemb";

/**
 * Break a text into lines between words.
 * @param {string} text
 * @param {number} width
 * @param {(text: string) => number} measure
 * @returns {string[]}
 */
export function lines(text, width, measure) {
  /** @type {string[]} */
  const found = [];
  for (const word of text.split(/\s+/).filter(Boolean)) {
    const last = found.at(-1), longer = `${last} ${word}`;
    if (last !== undefined && measure(longer) <= width) found[found.length - 1] = longer;
    else found.push(word);
  }
  return found;
}

/**
 * Return a name for a file, cut between words.
 * @param {string} text
 * @param {number} [longest]
 * @returns {string}
 */
export function fileName(text, longest = 80) {
  const name = text.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
  if (name.length <= longest) return name;
  return name.slice(0, longest + 1).replace(/-[^-]*$/, "").slice(0, longest);
}

/**
 * Return a figure with its source, title, legend and colour scales above it, and a small mark below.
 * @param {{ data: any[], layout: any }} figure
 * @param {Size & { left: number, top: number, bottom: number, right: number }} box of the figure and its margins
 * @param {ExportWords} words
 * @param {(text: string) => number} measure
 * @returns {{ data: any[], layout: any, width: number, height: number }}
 */
export function framed({ data, layout }, box, words, measure) {
  const { width, height } = box, room = width - 2 * EXPORT_SIDE;
  const head = [
    ...lines(words.source, room, measure).map((text) => `<b>${markup(text)}</b>`),
    ...lines(words.title, room, measure).map(markup),
    ...(words.legend.length ? [words.legend.map(legendEntry).join("   ")] : []),
  ];
  const above = EXPORT_SIDE + LINE_HEIGHT * (head.length + words.bars.length), below = LINE_HEIGHT;
  /** @type {(text: string, x: number, y: number) => any} */
  const note = (text, x, y) => ({
    text, x: 0, y: 1, xref: "paper", yref: "paper", xanchor: "left", yanchor: "middle", showarrow: false,
    align: "left", xshift: x - box.left, yshift: box.top + y, font: { size: 13, color: words.ink },
  });
  const top = (/** @type {number} */ row) => above - EXPORT_SIDE / 2 - LINE_HEIGHT * (row + 0.5);
  const notes = head.map((text, row) => note(text, EXPORT_SIDE, top(row)));
  /** @type {any[]} */
  const strips = [];
  words.bars.forEach((bar, turn) => {
    const y = top(head.length + turn), low = [bar.title, bar.low].filter(Boolean).join(" ");
    const start = EXPORT_SIDE + measure(low) + 10;
    notes.push(note(markup(low), EXPORT_SIDE, y), note(markup(bar.high), start + SCALE_WIDTH + 8, y));
    strips.push(...strip(bar.colors, start - box.left, box.top + y));
  });
  notes.push({ ...note(EXPORT_MARK, 0, 0), x: 1, y: 0, xanchor: "right", xshift: box.right - 8, yshift: -box.bottom - 4,
    font: { size: 11, color: words.subdued } });
  const margin = { l: box.left, r: box.right, t: box.top + above, b: box.bottom + below };
  return {
    data, width, height: height + above + below,
    layout: {
      ...layout, margin, width, height: height + above + below,
      annotations: [...(layout.annotations ?? []), ...notes], shapes: [...(layout.shapes ?? []), ...strips],
    },
  };
}

/**
 * @param {string[]} colors
 * @param {number} x
 * @param {number} y
 */
function strip(colors, x, y) {
  const wide = SCALE_WIDTH / SCALE_STEPS;
  return Array.from({ length: SCALE_STEPS }, (_, step) => ({
    type: "rect", xref: "paper", yref: "paper", xsizemode: "pixel", ysizemode: "pixel", xanchor: 0, yanchor: 1,
    x0: x + step * wide, x1: x + (step + 1) * wide, y0: y - 4, y1: y + 4, line: { width: 0 },
    fillcolor: between(colors, step / (SCALE_STEPS - 1)),
  }));
}

/**
 * Return the colour at a share of a scale, whose colours are evenly spaced.
 * @param {string[]} colors as #rrggbb
 * @param {number} share
 */
function between(colors, share) {
  const at = share * (colors.length - 1), from = Math.min(Math.floor(at), Math.max(colors.length - 2, 0));
  const ends = [colors[from], colors[from + 1] ?? colors[from]];
  const [low, high] = ends.map((colour) => [1, 3, 5].map((place) => parseInt(colour.slice(place, place + 2), 16)));
  return `rgb(${low.map((part, channel) => Math.round(part + (at - from) * (high[channel] - part))).join(", ")})`;
}

/** @param {{ name: string, color: string }} item */
function legendEntry({ name, color }) {
  return `<span style="color:${color}">●</span> ${markup(name)}`;
}

/** @param {string} text */
function markup(text) {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/\$/g, "&#36;");
}
