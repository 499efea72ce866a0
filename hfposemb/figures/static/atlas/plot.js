// The scatter plot of an atlas: a dot for each model that has both figures.

import { h, s } from "../rows/elements.js";
import { embedded, embeddedFile } from "../pages/embedded.js";
import { number } from "../rows/text.js";

const MOST_SVG = 2_000; // more dots are drawn with WebGL
const SHAPES = ["circle", "diamond", "square", "triangle-up", "cross", "star", "hexagon", "circle-open"];
/** @type {Record<string, string>} */
const PATHS = {
  circle: "M6 1a5 5 0 1 0 .1 0z", diamond: "M6 0l6 6-6 6-6-6z", square: "M1 1h10v10h-10z",
  "triangle-up": "M6 1l6 10h-12z", cross: "M4 0h4v4h4v4h-4v4h-4v-4h-4v-4h4z",
  star: "M6 0l1.800 4h4.200l-3.400 2.600 1.300 4.400-3.900-2.600-3.900 2.600 1.300-4.400-3.400-2.600h4.200z",
  hexagon: "M3 1h6l3 5-3 5h-6l-3-5z", "circle-open": "M6 1a5 5 0 1 0 .1 0zm0 2a3 3 0 1 1-.1 0z",
};
const CONFIG = { displayModeBar: false, responsive: true, scrollZoom: false, showTips: false };

/** @type {Promise<PlotlyLibrary> | null} */
let library = null;

/**
 * Return the names of groups, the most frequent first.
 * @param {string[]} groups
 */
export function mostFrequent(groups) {
  const counts = /** @type {Map<string, number>} */ (new Map());
  for (const name of groups) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].sort(([a, many], [b, more]) => more - many || a.localeCompare(b, "en")).map(([name]) => name);
}

/**
 * Return the colour and shape of each group; those beyond the colours share the last ones.
 * @param {AtlasData} data
 * @param {string[]} groups
 * @param {boolean} dark
 */
export function keyOf(data, groups, dark) {
  const pick = (/** @type {string[]} */ pair) => pair[Number(dark)];
  return new Map(mostFrequent(groups).map((name, place) => [name, place < data.colours.length
    ? { color: pick(data.colours[place]), symbol: SHAPES[place] }
    : { color: pick(data.other), symbol: SHAPES[SHAPES.length - 1] }]));
}

/**
 * Draw two figures of all models that are shown.
 * @param {HTMLElement} node
 * @param {AtlasData} data
 * @param {AtlasView} view
 */
export async function drawScatter(node, data, view) {
  library ??= loaded();
  const plotly = await library;
  const [x, y] = [data.figures[view.x], data.figures[view.y]];
  const groups = data.groups[view.group], key = keyOf(data, groups, view.dark);
  const role = (/** @type {string} */ name) => data.roles[name][Number(view.dark)];
  const drawn = data.names.map((_, at) => at).filter((at) => view.shown(at)
    && isDrawn(x.values[at], view.log.x) && isDrawn(y.values[at], view.log.y));
  const style = (/** @type {number} */ at) => key.get(groups[at]) ?? { color: role("subdued"), symbol: "circle" };
  const trace = {
    type: drawn.length > MOST_SVG ? "scattergl" : "scatter", mode: "markers", ids: drawn.map(String),
    x: drawn.map((at) => x.values[at]), y: drawn.map((at) => y.values[at]), customdata: drawn,
    text: drawn.map((at) => hovered(data, view, at)), hoverinfo: "text",
    hoverlabel: { align: "left", bgcolor: role("faint"), bordercolor: "rgba(0,0,0,0)", font: { color: role("ink") } },
    marker: {
      color: drawn.map((at) => style(at).color), symbol: drawn.map((at) => style(at).symbol), opacity: 0.85,
      size: drawn.map((at) => (view.chosen.has(at) ? 16 : 9)),
      line: { color: role("accent"), width: drawn.map((at) => (view.chosen.has(at) ? 3 : 0)) },
    },
  };
  const axis = (/** @type {AtlasFigure} */ one, /** @type {boolean} */ log) => ({
    title: { text: titled(one), font: { color: role("subdued"), size: 13 } }, type: log ? "log" : "linear",
    gridcolor: role("faint"), zeroline: false, tickfont: { color: role("subdued") }, automargin: true,
  });
  await plotly.react(node, [trace], {
    template: "none", autosize: true, margin: { l: 64, r: 24, t: 16, b: 52 }, hovermode: "closest", showlegend: false,
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", dragmode: "zoom",
    font: { family: data.font, size: 12.5, color: role("subdued") },
    xaxis: axis(x, view.log.x), yaxis: axis(y, view.log.y),
    uirevision: [view.x, view.y, view.log.x, view.log.y].join(),
  }, CONFIG);
  listen(/** @type {any} */ (node), view);
  describe(data, view, { key, groups, drawn: drawn.length });
}

/**
 * @param {number | null} value
 * @param {boolean} log
 */
function isDrawn(value, log) {
  return value !== null && (!log || value > 0);
}

/** @param {AtlasFigure} figure */
function titled({ name, unit }) {
  return unit && !name.includes(unit) ? `${name}, ${unit}` : name;
}

/**
 * @param {AtlasData} data
 * @param {AtlasView} view
 * @param {number} at
 */
function hovered(data, view, at) {
  const lines = [...new Set([view.x, view.y])].map((place) => {
    const { name, unit, values, chance } = data.figures[place];
    return `${name}: ${number(values[at])}${unit === "%" ? " %" : ""}${chance[at] ? ` (${chance[at]})` : ""}`;
  });
  return [`<b>${data.hover[at]}</b>`, ...lines].join("<br>");
}

/**
 * Let a click choose a model. The listener of an earlier drawing is replaced.
 * @param {any} node
 * @param {AtlasView} view
 */
function listen(node, view) {
  node.removeAllListeners("plotly_click");
  node.on("plotly_click", (/** @type {{ points: { customdata: number }[] }} */ { points }) =>
    view.click(points[0].customdata));
}

/**
 * Write below the plot what it shows, and above it what its colours mean.
 * @param {AtlasData} data
 * @param {AtlasView} view
 * @param {{ key: Map<string, { color: string, symbol: string }>, groups: string[], drawn: number }} found
 */
function describe(data, view, { key, groups, drawn }) {
  const shown = groups.filter((_, at) => view.shown(at)), rare = shown.length - drawn;
  const why = `without a value for both${view.log.x || view.log.y ? ", or not above 0," : ""}`;
  const left = rare ? ` ${rare} ${why} ${rare === 1 ? "is" : "are"} left out.` : "";
  part("plot-foot").textContent = `${drawn} ${drawn === 1 ? "model" : "models"}.${left} `
    + "Click a dot to choose it; drag to enlarge, double-click to go back.";
  const meanings = [...new Set([view.x, view.y])].map((place) => data.figures[place]);
  part("plot-meanings").replaceChildren(
    ...meanings.flatMap(({ name, about }) => [h("dt", "", name), h("dd", "", about)]));
  const present = new Set(shown), named = [...key].filter(([name]) => present.has(name));
  part("legend").replaceChildren(...named.map(([name, style]) => h("span", "", dot(style), name)));
}

/** @param {{ color: string, symbol: string }} style */
function dot({ color, symbol }) {
  const picture = s("svg", { viewBox: "0 0 12 12", "aria-hidden": "true" });
  picture.append(s("path", { d: PATHS[symbol], fill: color, "fill-rule": "evenodd" }));
  return picture;
}

/** @param {string} id */
function part(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

/** @returns {Promise<PlotlyLibrary>} */
function loaded() {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = embeddedFile(embedded("plotly"), "text/javascript").url;
    script.onload = () => (window.Plotly ? resolve(window.Plotly) : reject(new Error("plotly.js did not load")));
    script.onerror = () => reject(new Error("plotly.js could not be loaded"));
    document.head.append(script);
  });
}
