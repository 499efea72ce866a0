// Writes hfposemb/figures/bundle/plotly.min.js: plotly.js as its own build makes it, without the traces that are not drawn;
// and the same compressed, which takes too long to be done at every start of the app.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { brotliCompressSync, constants } from "node:zlib";
import { build } from "esbuild";

const require = createRequire(import.meta.url);
const { environmentPlugin } = require("esbuild-plugin-environment");
const { glsl } = require("esbuild-plugin-glsl");
const inlineCss = require("esbuild-plugin-inline-css");
const library = new URL("node_modules/plotly.js/", import.meta.url);
const { version } = JSON.parse(readFileSync(new URL("package.json", library), "utf8"));
const licence = readFileSync(new URL("LICENSE", library), "utf8").trim();

// The options of plotly.js' own esbuild-config.js.
const { outputFiles } = await build({
  absWorkingDir: new URL(".", import.meta.url).pathname,
  entryPoints: ["traces.cjs"],
  format: "iife",
  globalName: "Plotly",
  bundle: true,
  minify: true,
  write: false,
  charset: "ascii",
  legalComments: "eof",
  banner: { js: `/*!\nplotly.js v${version} with the traces bar, heatmap, scatter, scatter3d and scattergl\n\n${licence}\n*/` },
  plugins: [(inlineCss.default ?? inlineCss)(), glsl({ minify: true }), environmentPlugin({ NODE_DEBUG: false })],
  alias: { regl: "@plotly/regl", stream: "stream-browserify" },
  define: { global: "window", "define.amd": "false" },
  target: "es2016",
});
const script = outputFiles[0].contents, path = new URL("../../../hfposemb/figures/bundle/plotly.min.js", import.meta.url);
writeFileSync(path, script);
writeFileSync(`${path.pathname}.br`, brotliCompressSync(script, { params: { [constants.BROTLI_PARAM_SIZE_HINT]: script.length } }));
