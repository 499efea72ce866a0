// The figures of the page, in the colours and the layout of the app.

import { number, plain } from "../../../figures/static/rows/text.js";
import { Grid } from "./sent_figures.js";
import { cloudCamera } from "./camera.js";

const COSINES = { tickvals: [-1, -0.5, 0, 0.5, 1], ticktext: ["−1", "−.5", "0", ".5", "1"] };
const CLEAR = "rgba(0,0,0,0)";
const FAR = 0.4; // beyond this part of the width of the middle 98 % a position is far outside: see cloud_frame.py
const THIN = 0.2;
const EDGE = 0.03;
const MOST_WRITTEN = 12; // words of a matrix with numbers in its cells
const MOST_LEVEL = 7; // column names that are written horizontally

/** Draws in the colours of the package, which are in the page. */
export class SiteFigures {
  /** @param {SiteColours} colours */
  constructor(colours) {
    this.colours = colours;
  }

  /**
   * Draw positions along their first axes.
   * @param {PositionNumbers} found
   * @returns {{ figure: { data: any[], layout: any }, outside: number }}
   */
  cloud({ coordinates, kept }) {
    const { ink, faint, panel, position } = this.colours, frame = frameOf(coordinates), dims = coordinates.length;
    const order = Float32Array.from(kept), last = kept.length - 1;
    const paint = { color: order, cmin: kept[0] ?? 0, cmax: kept[last] || 1, colorscale: stops(position), showscale: false };
    const [x, y = new Float32Array(x.length), z] = coordinates;
    const trace = { x, y, mode: "lines+markers", hoverinfo: "none", meta: { link: "position", ids: kept },
      marker: { size: dims === 3 ? 2.6 : 4.5, line: { width: 0 }, ...paint } };
    const ends = [...new Set([0, last])].filter((at) => !frame.isOutside(at));
    const notes = ends.map((at) => this.#note(String(kept[at]), { x: x[at], y: y[at], ...(z && { z: z[at] }) }, ink, panel));
    const look = { title: { text: "" }, showticklabels: false, ticks: "", nticks: 5, showgrid: true, gridcolor: faint,
      gridwidth: 1, zeroline: false, showline: false, showspikes: false, showbackground: false };
    const axes = frame.ranges.map((range) => ({ ...look, range }));
    const base = { height: 340, margin: { l: 0, r: 0, t: 0, b: 0 } };
    if (dims === 3) {
      const [xaxis, yaxis, zaxis] = axes, [a, b, c] = frame.sides, { camera, fit } = cloudCamera(frame.inUnits(coordinates));
      const scene = { xaxis, yaxis, zaxis, aspectmode: "manual", aspectratio: { x: a, y: b, z: c }, camera,
        bgcolor: CLEAR, dragmode: "turntable", annotations: notes };
      const line = { width: 4, ...paint };
      return { figure: this.#figure([{ ...trace, type: "scatter3d", z, line }], { ...base, scene, meta: { fit } }), outside: frame.outside };
    }
    const [xaxis, yaxis = xaxis] = axes, line = { width: 1, color: faint };
    const layout = { ...base, xaxis: { ...xaxis, constrain: "domain" }, yaxis: { ...yaxis, scaleanchor: "x" }, annotations: notes };
    return { figure: this.#figure([{ ...trace, type: "scatter", line }], layout), outside: frame.outside };
  }

  /**
   * Draw the cosine of each pair of positions as a square.
   * @param {PositionNumbers} found
   */
  matrix({ cells, side, step, rows }) {
    const axis = this.#axis("position", { tickvals: places(rows), range: [-0.5, rows - 0.5], constrain: "domain", showgrid: false });
    const trace = { ...this.#heat(new Grid(cells, side)), x0: (step - 1) / 2, dx: step, y0: (step - 1) / 2, dy: step,
      hoverinfo: "none", meta: { link: "position", first: 0, step } };
    const yaxis = { ...axis, range: [rows - 0.5, -0.5], scaleanchor: "x" };
    return this.#figure([trace], { margin: { l: 58, r: 22, t: 8, b: 44 }, xaxis: axis, yaxis });
  }

  /**
   * Draw the cosine of each pair of words as a square, with numbers in its cells if they are few.
   * @param {WordNumbers} found
   */
  words({ labels, cells }) {
    const { ink, panel } = this.colours, side = labels.length, names = labels.map((label) => plotlyText(plain(label, 16)));
    const text = names.map((name, row) => names.map((other, column) => `${name} – ${other}: ${number(cells[row * side + column])}`));
    const trace = { ...this.#heat(new Grid(cells, side)), xgap: 2, ygap: 2, text, hoverinfo: "none", meta: { range: [-1, 1] } };
    const longest = Math.round(6.6 * Math.max(...labels.map((label) => plain(label, 16).length)));
    const axis = this.#axis("", { tickvals: names.map((_, at) => at), ticktext: names, tickfont: { color: ink },
      range: [-0.5, side - 0.5], constrain: "domain", showgrid: false });
    const isSteep = side > MOST_LEVEL, margin = { l: 16 + longest, r: 16, t: isSteep ? 16 + longest : 32, b: 8 };
    const xaxis = { ...axis, side: "top", ...(isSteep && { tickangle: -90 }) };
    const yaxis = { ...axis, range: [side - 0.5, -0.5], scaleanchor: "x" };
    const notes = side > MOST_WRITTEN ? [] : Array.from(cells, (value, at) => ({ x: at % side, y: Math.floor(at / side),
      text: number(value), showarrow: false, font: { size: 12.5, color: Math.abs(value) > 0.72 ? panel : ink } }));
    return this.#figure([trace], { margin, xaxis, yaxis, annotations: notes });
  }

  /**
   * Draw a line for each source.
   * @param {{ place: number, name: string, x: ArrayLike<number>, y: Float64Array | number[] }[]} lines
   * @param {{ x: string, y: string, isLog?: boolean, link?: string }} axes
   */
  lines(lines, { x, y, isLog = false, link }) {
    const data = lines.map(({ place, name, x: at, y: values }) => {
      const { color, dash } = this.colours.sources[place];
      return { type: "scatter", mode: "lines", x: Float32Array.from(at), y: Float32Array.from(values), name: plotlyText(plain(name, 24)),
        line: { color, width: 2, dash }, hoverinfo: "none", ...(link && { meta: { link, first: 0 } }) };
    });
    const several = lines.length > 1 ? { showlegend: true, legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom",
      itemclick: false, itemdoubleclick: false, bgcolor: CLEAR, font: { color: this.colours.subdued, size: 12.5 } } } : {};
    const ticks = isLog ? logTicks(lines.map((line) => line.y)) : COSINES;
    const longest = Math.max(3, ...ticks.ticktext.map((text) => text.length));
    const margin = { l: Math.round(38 + 6.6 * longest), r: 16, t: several.legend ? 36 : 8, b: 44 };
    const yaxis = this.#axis(y, ticks);
    return this.#figure(data, { height: 300, margin, hovermode: "x", xaxis: this.#axis(x, { nticks: 6, showgrid: false }),
      yaxis, ...several });
  }

  /** @param {Grid} z */
  #heat(z) {
    return { type: "heatmap", z, zmin: -1, zmax: 1, colorscale: stops(this.colours.similarity), showscale: false };
  }

  /**
   * @param {string} title
   * @param {object} more
   */
  #axis(title, more) {
    const { faint, subdued } = this.colours;
    return { title: title ? { text: title, standoff: 8, font: { size: 12.5, color: subdued } } : { text: "" }, ticks: "outside",
      ticklen: 6, tickcolor: CLEAR, showgrid: true, gridcolor: faint, gridwidth: 1, zeroline: false, showline: false,
      automargin: false, separatethousands: true, exponentformat: "none", ...more };
  }

  /**
   * @param {string} text
   * @param {object} place
   * @param {string} ink
   * @param {string} panel
   */
  #note(text, place, ink, panel) {
    return { ...place, text, showarrow: true, arrowhead: 6, arrowsize: 1.2, arrowwidth: 1.5, arrowcolor: ink, ax: 18, ay: -18,
      bgcolor: panel, borderpad: 1, font: { size: 12.5, color: ink } };
  }

  /**
   * @param {any[]} data
   * @param {object} layout
   */
  #figure(data, layout) {
    return { data, layout: { template: "none", autosize: true, paper_bgcolor: CLEAR, plot_bgcolor: CLEAR, showlegend: false,
      font: { size: 12.5, color: this.colours.subdued }, hovermode: "closest", dragmode: false, ...layout } };
  }
}

/**
 * Return a text that plotly shows as it is.
 * @param {string} text
 */
function plotlyText(text) {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/\$/g, "&#36;");
}

/**
 * @param {string[]} colours
 * @returns {[number, string][]}
 */
function stops(colours) {
  return colours.map((colour, at) => [at / (colours.length - 1), colour]);
}

/**
 * Return up to five ticks for rows, the first and the last among them.
 * @param {number} count
 */
function places(count) {
  if (count <= 5) return Array.from({ length: count }, (_, at) => at);
  return [0, 1, 2, 3].map((part) => Math.floor(part * count / 4)).concat(count - 1);
}

/**
 * Return a few round numbers for a logarithmic axis.
 * @param {ArrayLike<number>[]} lines
 */
function logTicks(lines) {
  const values = lines.flatMap((line) => Array.from(line).filter((one) => one > 0 && Number.isFinite(one)));
  const [low, high] = [values.reduce((one, other) => Math.min(one, other), Infinity), values.reduce((one, other) => Math.max(one, other), 0)];
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
  const steps = [[1, 2, 3, 5], [1, 3], [1]].map((heads) => Array.from({ length: last - first + 1 }, (_, at) =>
    heads.map((head) => Number(`${head}e${first + at}`))).flat().filter((one) => one >= low * 0.999 && one <= high * 1.001));
  const tickvals = steps.find((step) => step.length <= 5) ?? steps[2].filter((_, at) => at % Math.ceil(steps[2].length / 5) === 0);
  const ticktext = tickvals.map((tick) => tick.toLocaleString("en", { maximumSignificantDigits: 3 }).replace(/^0\./, "."));
  return { type: "log", tickvals, ticktext };
}

/**
 * Return the box around the points that are not far from the others, and how many are outside.
 * @param {Float32Array[]} coordinates
 */
export function frameOf(coordinates) {
  const spans = coordinates.map((axis) => {
    const sorted = axis.slice().sort(), at = (/** @type {number} */ share) => sorted[Math.round(share * (sorted.length - 1))];
    return [at(0.01), at(0.99)];
  });
  const slack = FAR * Math.max(...spans.map(([low, high]) => high - low));
  const isOutside = (/** @type {number} */ at) => slack > 0 && coordinates.some((axis, dim) =>
    axis[at] < spans[dim][0] - slack || axis[at] > spans[dim][1] + slack);
  const inside = Array.from(coordinates[0].keys()).filter((at) => !isOutside(at));
  const ends = coordinates.map((axis) => inside.reduce(([low, high], at) => [Math.min(low, axis[at]), Math.max(high, axis[at])],
    [Infinity, -Infinity]));
  const longest = Math.max(...ends.map(([low, high]) => high - low)) || 1;
  const ranges = ends.map(([low, high]) => {
    const half = Math.max((high - low) / 2, THIN / 2 * longest) + EDGE * longest;
    return [(low + high) / 2 - half, (low + high) / 2 + half];
  });
  const widest = Math.max(...ranges.map(([low, high]) => high - low));
  const inUnits = (/** @type {Float32Array[]} */ axes) => inside.map((at) =>
    axes.map((axis, dim) => (axis[at] - (ranges[dim][0] + ranges[dim][1]) / 2) / widest));
  return { ranges, sides: ranges.map(([low, high]) => (high - low) / widest), isOutside, inUnits,
    outside: coordinates[0].length - inside.length };
}
