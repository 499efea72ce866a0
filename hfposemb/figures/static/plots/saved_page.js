// A panel as one HTML file, which draws it without a network: the figures, their words, and plotly, compressed.

import { labelOf } from "./traces.js";

const MOST_NAMED = 100_000; // points whose names are in the file
const POLICY = "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
  + "img-src data: blob:; base-uri 'none'; form-action 'none'";
const STYLE = `
body { margin: 0 auto; padding: 24px; max-width: 1200px; background: var(--panel); color: var(--ink);
  font: 15px/24px -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 22px; line-height: 30px; margin: 0; }
p { margin: 0 0 8px; }
footer, .caption { color: var(--subdued); }
.words { display: flex; flex-wrap: wrap; gap: 4px 24px; font-size: 14px; }
.disc { display: inline-block; width: 10px; height: 10px; border-radius: 50%; margin-inline-end: 6px; }
.strip { display: inline-block; width: 96px; height: 8px; border-radius: 4px; margin: 0 8px; }
.plot { height: min(80vh, 900px); min-height: 320px; }
.caption { text-align: center; }
footer { text-align: end; font-size: 13px; }`;

// What the file runs. It is put into the file as text.
const SCRIPT = `
  const bytes = (id) => Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
  const data = (id) => new Blob([bytes(id)]);
  const text = (id) => new Response(data(id).stream().pipeThrough(new DecompressionStream("gzip"))).text();
(async () => {
  const code = document.createElement("script");
  code.textContent = await text("plotly");
  document.head.append(code);
  const config = { responsive: true, displaylogo: false, scrollZoom: true };
  JSON.parse(await text("figures")).forEach(({ data, layout }, place) =>
    Plotly.newPlot(document.querySelectorAll(".plot")[place], data, layout, config));
})();`;

/**
 * Return the text of the file.
 * @param {object} page
 * @param {SavedFigure[]} page.figures
 * @param {ExportWords & { panel: string, captions: string[], foot: string }} page.words
 * @param {string} page.plotly code of plotly.js
 * @param {string} page.mark
 * @returns {Promise<string>}
 */
export async function savedPage({ figures, words, plotly, mark }) {
  const drawn = JSON.stringify(figures.map(withNames), (_, value) =>
    (ArrayBuffer.isView(value) ? rounded(value) : value));
  const title = escaped([words.source, words.title].filter(Boolean).join(": "));
  const colours = `:root { --ink: ${words.ink}; --subdued: ${words.subdued}; --panel: ${words.panel}; }`;
  const plots = figures.map((_, place) =>
    `<div class="plot"></div><p class="caption">${escaped(words.captions[place] ?? "")}</p>`);
  const [figureText, plotlyText] = await Promise.all([drawn, plotly].map(compressed));
  const [opens, ends] = ["<scr" + "ipt", "</scr" + "ipt>"]; // this is in such an element itself
  return `<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>${title}</title>
<style>${colours}${STYLE}</style></head><body>
<h1>${escaped(words.source || words.title)}</h1><p>${words.source ? escaped(words.title) : ""}</p>
<p class="words">${[...words.legend.map(legendLine), ...words.bars.map(bar)].join("")}</p>
${plots.join("\n")}<p class="caption">${escaped(words.foot)}</p><footer>${mark}</footer>
${opens} type="text/plain" id="figures">${figureText}${ends}
${opens} type="text/plain" id="plotly">${plotlyText}${ends}
${opens}>${SCRIPT}${ends}
</body></html>`;
}

/**
 * Return a figure with the names of its points where plotly shows them.
 * @param {SavedFigure} figure
 */
function withNames({ data, layout, traces }) {
  const shown = data.map((trace, place) => {
    const info = traces[place], rest = { ...trace, meta: undefined };
    if (!info?.own || trace.type === "heatmap") return { ...rest, hoverinfo: info?.own ? "x+y+z" : trace.hoverinfo };
    if (info.points > MOST_NAMED) return rest;
    const names = Array.from({ length: info.points }, (_, at) => {
      const row = info.ids ? info.ids[at] : info.first + at;
      return labelOf(info, at) || (info.group ? `${info.group} ${row}` : "");
    });
    return { ...rest, hovertext: names.map(escaped), hoverinfo: "text" + (info.group ? "" : "+x+y") };
  });
  return { data: shown, layout: { ...layout, width: undefined, height: undefined, autosize: true } };
}

/**
 * Return numbers with as many digits as a picture needs.
 * @param {any} array
 */
function rounded(array) {
  return Array.from(array, (one) => (Number.isFinite(one) ? Number(one.toPrecision(6)) : null));
}

/**
 * Return a text compressed, as letters.
 * @param {string} text
 * @returns {Promise<string>}
 */
async function compressed(text) {
  const packed = new Blob([text]).stream().pipeThrough(new CompressionStream("gzip"));
  const bytes = new Uint8Array(await new Response(packed).arrayBuffer());
  const parts = [];
  for (let at = 0; at < bytes.length; at += 32_768) parts.push(String.fromCharCode(...bytes.subarray(at, at + 32_768)));
  return btoa(parts.join(""));
}

/** @param {{ name: string, color: string }} item */
function legendLine({ name, color }) {
  return `<span><i class="disc" style="background: ${escaped(color)}"></i>${escaped(name)}</span>`;
}

/** @param {ScaleBarSpec} bar */
function bar({ low, high, title, colors }) {
  const ramp = `linear-gradient(to right, ${colors.map(escaped).join(", ")})`;
  const strip = `<i class="strip" style="background: ${ramp}"></i>`;
  return `<span>${escaped([title, low].filter(Boolean).join(" "))}${strip}${escaped(high)}</span>`;
}

/** @param {string} text */
function escaped(text) {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");
}
