// What the static page reads of files, for the tests in Python: tasks come as JSON, answers leave as JSON.

import { readFileSync, readdirSync, openAsBlob, statSync } from "node:fs";
import { join } from "node:path";

import { headerLength, parseHeader } from "../../hfposemb/reports/site/reader/header.js";
import { parseJson } from "../../hfposemb/reports/site/reader/json_text.js";
import { HubFiles } from "../../hfposemb/reports/site/reader/hub_files.js";
import { LocalFiles } from "../../hfposemb/reports/site/reader/local_files.js";
import { Model, positionNumbers } from "../../hfposemb/reports/site/reader/model.js";
import { Refusal } from "../../hfposemb/reports/site/reader/refusal.js";
import { cosines, norms, sinusoids } from "../../hfposemb/reports/site/reader/row_numbers.js";
import { readVocabulary } from "../../hfposemb/reports/site/reader/vocabulary.js";

const task = JSON.parse(readFileSync(process.argv[2], "utf-8"));
const quiet = async () => {};

/** Return what something answers, or the line that refuses it; any other error ends the program. */
async function tried(go) {
  try {
    return { found: await go() };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { refused: error.message };
  }
}

/** Return the tensors of a header that are in memory, with the number of bytes after it. */
function header({ text, size }) {
  const raw = new Uint8Array(Buffer.from(text, "base64"));
  return Object.fromEntries([...parseHeader(raw, size, "x", task.rules).tensors.values()]
    .map(({ name, dtype, shape, start, stop }) => [name, [dtype, shape, start, stop]]));
}

/** Return the names of the tensors of a file. */
function file(path) {
  const raw = new Uint8Array(readFileSync(path)), length = headerLength(raw.subarray(0, 8), raw.length, "x", task.rules);
  return [...parseHeader(raw.subarray(8, 8 + length), raw.length, "x", task.rules).tensors.keys()];
}

/** Return a model of a folder. */
async function opened(folder) {
  const files = [];
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    if (statSync(path).isFile()) files.push(Object.assign(await openAsBlob(path), { name }));
  }
  return new Model(new LocalFiles(files, new AbortController().signal), task.rules);
}

/** Return where the tables of a folder are, and what its positions measure. */
async function model(folder) {
  const found = await opened(folder), facts = await found.open();
  const parts = await Promise.all(facts.positions.map((part) => found.positions(part, quiet)));
  return { kind: facts.kind?.kind ?? null, waves: facts.kind?.wavelengths ?? null, token: facts.token?.tensor ?? null,
    positions: parts.map(({ tensor, offset, rows, norms: lengths }) => ({ tensor, offset, rows, norms: [...lengths] })) };
}

/** Return what is read of a model on the Hub, and what that took. */
async function hub({ repo, revision = "main" }) {
  const files = new HubFiles(repo, revision, { rules: task.rules, signal: new AbortController().signal });
  const found = new Model(files, task.rules), facts = await found.open();
  const { norms: lengths } = await found.positions(facts.positions[0], quiet);
  return { commit: facts.commit, norms: [...lengths], traffic: files.traffic };
}

/** Return everything that is drawn of a folder, and the neighbours and cosines of words. */
async function numbers({ folder, words, query }) {
  const found = await opened(folder), facts = await found.open();
  const { kept, coordinates, shares, cells, norms: lengths, byDistance } = await found.positions(facts.positions[0], quiet);
  const alike = await found.words(words, quiet), near = await found.neighbours(query, quiet);
  return { kept: [...kept], coordinates: coordinates.map((axis) => [...axis]), shares, cells: [...cells],
    norms: [...lengths], byDistance: [...byDistance], words: [...alike.cells], rows: alike.rows, near: near.found };
}

/** Return the texts of some rows. */
function labels({ path, rows }) {
  const vocabulary = readVocabulary(path, new Uint8Array(readFileSync(path)), task.rules.limits.tokenizer_values);
  return rows.map((row) => vocabulary.text(row));
}

/** Return the numbers of a sinusoid, and of its rows. */
async function waves({ rows, width, layout, first }) {
  const table = sinusoids(rows, width, { layout, first });
  const { shares } = await positionNumbers(table, width, { whole: rows, tensor: "", offset: 0 }, quiet);
  const { cells } = await cosines(table, width, 4, quiet);
  return { table: [...table], shares, blocks: [...cells], norms: [...norms(table, width)] };
}

const kinds = { header, file, hub, model, numbers, labels, waves,
  config: (text) => parseJson(new Uint8Array(Buffer.from(text, "base64")),
    { file: "config.json", limit: task.rules.limits.config_bytes, kind: "object", rules: task.rules }) };
const answers = [];
for (const one of task.items) answers.push(await tried(() => kinds[task.kind](one)));
process.stdout.write(JSON.stringify(answers));
