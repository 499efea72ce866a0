// The panels of the page, from the numbers of its sources.

import { number } from "../../../figures/static/rows/text.js";
import { drawing } from "./sent_figures.js";

/** @type {Omit<PanelSpec, "key">} */
const NONE = { color: "", subtitle: "", help: "", foot: "", message: "", emphasis: "", source: [], numbers: [], legend: [],
  scale_bars: [], lists: [], span: 1, tone: "normal", actions: [], drawings: [], title: "" };
const CLOUD = "Each dot is a position, and neighbouring positions are joined. The axes are those along which the vectors vary "
  + "most (PCA); distances in the picture are smaller than those between the vectors.";
const MATRIX = "Each cell of the matrix is the cosine between the vectors of two positions.";

/** Makes panels of sources. */
export class SitePanels {
  /**
   * @param {import("./figures.js").SiteFigures} figures
   * @param {SiteColours} colours
   */
  constructor(figures, colours) {
    this.figures = figures;
    this.colours = colours;
  }

  /**
   * Return a panel of every source with its positions.
   * @param {import("./source_slot.js").SourceSlot[]} slots
   * @param {SentFile[]} files
   * @returns {PanelSpec[]}
   */
  positions(slots, files) {
    return slots.flatMap((slot) => {
      const { facts, numbers, place } = slot;
      if (!facts) return [];
      const own = { ...NONE, key: `positions-${place}`, ...this.#owner(slot, numbers ? rowsOfTable(numbers) : "") };
      if (numbers) return this.#cloud(own, numbers, files, slots.length === 1);
      const { kind } = facts;
      if (!kind?.wavelengths) return [{ ...own, message: kind?.text ?? "" }];
      const line = { place, name: slot.title, x: counted(kind.wavelengths.length), y: kind.wavelengths };
      const drawn = drawing(this.figures.lines([line], { x: "pair of dimensions", y: "wavelength in positions", isLog: true }),
        "positions of one full turn", files);
      const longest = kind.longest ? `; its longest input is ${kind.longest.toLocaleString("en")} positions` : "";
      return [{ ...own, subtitle: `${kind.text} The base is ${kind.base?.toLocaleString("en")}${longest}.`, drawings: [drawn], actions: ["PNG", "SVG"] }];
    });
  }

  /**
   * Return the panels with a line for each source.
   * @param {import("./source_slot.js").SourceSlot[]} slots
   * @param {SentFile[]} files
   * @returns {PanelSpec[]}
   */
  lines(slots, files) {
    const having = slots.flatMap((slot) => (slot.numbers ? [{ slot, numbers: slot.numbers }] : []));
    if (!having.length) return [];
    const all = { ...NONE, actions: ["PNG", "SVG"] };
    const norms = having.map(({ slot, numbers }) => ({ ...lineOf(slot), x: counted(numbers.norms.length), y: numbers.norms }));
    const curves = having.map(({ slot, numbers: { byDistance } }) =>
      ({ ...lineOf(slot), x: counted(byDistance.length), y: byDistance }));
    const said = (/** @type {(found: PositionNumbers) => number} */ value) => having.map(({ slot, numbers }) =>
      `${number(value(numbers))} in ${slot.title}`).join(" and ");
    return [
      { ...all, key: "norms", title: `Mean norm: ${said(({ norms: found }) => mean(found))}`,
        foot: "Length of the vector of each position, log scale",
        drawings: [drawing(this.figures.lines(norms, { x: "position", y: "norm", isLog: true, link: "position" }), "", files)] },
      { ...all, key: "distance", title: `Cosine of neighbouring positions: ${said(({ byDistance }) => byDistance[1])}`,
        foot: "Mean cosine of two positions by their distance",
        drawings: [drawing(this.figures.lines(curves, { x: "distance", y: "mean cosine" }), "", files)] },
    ];
  }

  /**
   * Return a panel of every source with the cosines of words.
   * @param {{ slot: import("./source_slot.js").SourceSlot, found: WordNumbers }[]} results
   * @param {SentFile[]} files
   * @returns {PanelSpec[]}
   */
  words(results, files) {
    return results.map(({ slot, found }) => ({ ...NONE, key: `words-${slot.place}`, ...this.#owner(slot, "cosine of each pair"),
      actions: ["PNG", "SVG"], drawings: [drawing(this.figures.words(found), "", files)],
      foot: `norms: ${found.labels.map((label, at) => `${label.trim()} ${number(found.norms[at])}`).join(", ")}` }));
  }

  /**
   * Return a panel of every source with the neighbours of a token.
   * @param {{ slot: import("./source_slot.js").SourceSlot, found: NeighbourNumbers }[]} results
   * @returns {PanelSpec[]}
   */
  neighbours(results) {
    const shared = (/** @type {string} */ label) => results.length > 1
      && results.every(({ found }) => found.found.some((one) => one.label.trim() === label.trim()));
    return results.map(({ slot, found: { row, label, found } }) => ({ ...NONE, key: `neighbours-${slot.place}`,
      ...this.#owner(slot, `nearest to ${label.trim()}, row ${row.toLocaleString("en")}`), foot: "cosine",
      lists: [{ name: "", color: "", rows: found.map(({ row: id, label: text, value }) =>
        ({ id, label: text, value, shared: shared(text) })) }] }));
  }

  /**
   * Return the cloud and the matrix of a source: in one panel, or side by side where there is no other source.
   * @param {PanelSpec} own
   * @param {PositionNumbers} numbers
   * @param {SentFile[]} files
   * @param {boolean} isAlone
   * @returns {PanelSpec[]}
   */
  #cloud(own, numbers, files, isAlone) {
    const { figure, outside } = this.figures.cloud(numbers), dims = numbers.shares.length;
    const share = numbers.shares.reduce((sum, one) => sum + one, 0);
    const beyond = outside ? `; ${outside} far outside` : "", lost = numbers.rows - numbers.kept.length;
    const blocks = numbers.step > 1 ? `matrix averaged in blocks of ${numbers.step}` : "";
    const absent = lost ? `${lost} rows with NaN or Inf left out` : "";
    const foot = [`PCA · ${dims} of ${numbers.width.toLocaleString("en")} dimensions`, absent].filter(Boolean).join(" · ");
    const cloud = drawing(figure, `The ${dims === 3 ? "three" : dims} axes show ${Math.round(100 * share)} % of the variance${beyond}`, files);
    const matrix = drawing(this.figures.matrix(numbers), "cosine of each pair of positions", files);
    const actions = ["PNG", "SVG"];
    if (!isAlone) {
      const both = [foot, blocks].filter(Boolean).join(" · ");
      return [{ ...own, help: `${CLOUD}\n\n${MATRIX}`, actions, foot: both, drawings: [cloud, matrix] }];
    }
    const [name] = own.source;
    return [{ ...own, help: CLOUD, actions, foot, drawings: [cloud] },
      { ...own, key: `matrix-${own.key.at(-1)}`, source: [name, "each pair of positions"], help: MATRIX, actions, foot: blocks,
        drawings: [matrix] }];
  }

  /**
   * @param {import("./source_slot.js").SourceSlot} slot
   * @param {string} about
   */
  #owner({ name, place }, about) {
    return { source: [name, about], color: this.colours.sources[place].color };
  }
}

/** @param {PositionNumbers} numbers */
function rowsOfTable({ rows, whole }) {
  return `${rows < whole ? `${rows.toLocaleString("en")} of ` : ""}${whole.toLocaleString("en")} positions`;
}

/** @param {import("./source_slot.js").SourceSlot} slot */
function lineOf({ place, title }) {
  return { place, name: title };
}

/**
 * Return whole numbers from 0 on.
 * @param {number} count
 */
function counted(count) {
  return Array.from({ length: count }, (_, at) => at);
}

/** @param {Float64Array} values */
function mean(values) {
  const finite = values.filter(Number.isFinite);
  return finite.reduce((sum, one) => sum + one, 0) / finite.length;
}
