// Writes hfposemb/figures/bundle/plotly.min.js: plotly.js as its own build makes it, without the traces that are not drawn.
// The bytes depend on package-lock.json only, not on the folder that they are built in.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const require = createRequire(import.meta.url);
const { environmentPlugin } = require("esbuild-plugin-environment");
const { glsl } = require("esbuild-plugin-glsl");
const library = new URL("node_modules/plotly.js/", import.meta.url);
const { version } = JSON.parse(readFileSync(new URL("package.json", library), "utf8"));
const licence = readFileSync(new URL("LICENSE", library), "utf8").trim();

// A style sheet as a script that adds it to the page once: it is known by its content. (The plugin of plotly.js' own build
// knows it by its path on the machine that builds it.)
function asScript(/** @type {string} */ css) {
  const id = JSON.stringify(createHash("sha256").update(css).digest("hex"));
  return `if (!document.getElementById(${id})) {
    var e = document.createElement("style");
    e.id = ${id};
    e.textContent = ${JSON.stringify(css)};
    document.head.appendChild(e);
  }`;
}

/** @type {import("esbuild").Plugin} */
const inlineCss = {
  name: "inline-css",
  setup: (build) => build.onLoad({ filter: /\.css$/ }, ({ path }) => ({ contents: asScript(readFileSync(path, "utf8")), loader: "js" })),
};

// The options of plotly.js' own esbuild-config.js.
const { outputFiles } = await build({
  absWorkingDir: import.meta.dirname,
  tsconfigRaw: "{}", // else that of any folder above is read
  entryPoints: ["traces.cjs"],
  format: "iife",
  globalName: "Plotly",
  bundle: true,
  minify: true,
  write: false,
  charset: "ascii",
  legalComments: "eof",
  banner: { js: `/*!\nplotly.js v${version} with the traces bar, heatmap, scatter, scatter3d and scattergl\n\n${licence}\n*/` },
  plugins: [inlineCss, glsl({ minify: true }), environmentPlugin({ NODE_DEBUG: false })],
  alias: { regl: "@plotly/regl", stream: "stream-browserify" },
  define: { global: "window", "define.amd": "false" },
  target: "es2016",
});
const script = outputFiles[0].contents, path = fileURLToPath(new URL("../../../hfposemb/figures/bundle/plotly.min.js", import.meta.url));
writeFileSync(path, script);
