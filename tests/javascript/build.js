// Bundles the scripts of the pages from their modules, with esbuild: `make js`. With --check it writes nothing, and fails if
// what is committed is not what would be written. The bytes depend on the modules and on package-lock.json only.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, relative, resolve } from "node:path";
import { build } from "esbuild";

const root = resolve(import.meta.dirname, "../..");
const figures = "hfposemb/figures", site = "hfposemb/reports/site";

// The script of each page, and the module that it begins with.
const pages = {
  [`${figures}/bundle/report.js`]: `${figures}/static/pages/report.js`,
  [`${figures}/bundle/widget.js`]: `${figures}/static/pages/widget.js`,
  [`${figures}/bundle/atlas.js`]: `${figures}/static/atlas/atlas.js`,
  [`${site}/bundle/site.js`]: `${site}/page/site.js`,
  [`${site}/bundle/worker.js`]: `${site}/reader/worker.js`,
  "app/static/bundle/app.js": "app/static/app.js",
};

/**
 * Return a page's script and its source map, by path. The script ends with the hash of its modules, in the order of the map,
 * so that a stale one is found without node.
 * @param {string} entry
 * @param {string} path
 * @returns {Promise<[string, Buffer][]>}
 */
async function bundled(entry, path) {
  const { outputFiles } = await build({
    absWorkingDir: root,
    entryPoints: [entry],
    outfile: path,
    bundle: true,
    minify: true,
    write: false,
    format: "esm",
    charset: "utf8",
    target: "es2022",
    sourcemap: "external", // no page asks for it
    sourcesContent: false,
    tsconfigRaw: "{}", // else that of any folder above is read
  });
  const map = outputFiles.find((file) => file.path.endsWith(".map")), script = outputFiles.find((file) => file !== map);
  const hash = createHash("sha256");
  for (const source of JSON.parse(map.text).sources) hash.update(readFileSync(resolve(dirname(map.path), source)));
  return [[script.path, Buffer.from(`${script.text}// modules: ${hash.digest("hex")}\n`)], [map.path, Buffer.from(map.contents)]];
}

const check = process.argv.includes("--check"), stale = [];
for (const [page, entry] of Object.entries(pages)) {
  for (const [path, contents] of await bundled(entry, page)) {
    if (existsSync(path) && contents.equals(readFileSync(path))) continue;
    stale.push(relative(root, path));
    if (check) continue;
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, contents);
  }
}
if (check && stale.length) {
  console.error(`not current: ${stale.join(", ")}; run make js`);
  process.exit(1);
}
