import assert from "node:assert/strict";
import { test } from "node:test";

import { chosenFile, weightMap } from "../../hfposemb/reports/site/reader/checkpoint.js";
import { meanByDistance } from "../../hfposemb/reports/site/reader/distances.js";
import { pca } from "../../hfposemb/reports/site/reader/principal_axes.js";
import { quoted } from "../../hfposemb/reports/site/reader/refusal.js";
import { cosines, nearest, widened } from "../../hfposemb/reports/site/reader/row_numbers.js";
import { Grid, drawing } from "../../hfposemb/reports/site/page/sent_figures.js";
import { frameOf } from "../../hfposemb/reports/site/page/figures.js";
import { bytes, specOf } from "../../hfposemb/reports/site/page/source_slot.js";
import { readVocabulary } from "../../hfposemb/reports/site/reader/vocabulary.js";

const quiet = async () => {};
const text = (value) => new TextEncoder().encode(typeof value === "string" ? value : JSON.stringify(value));

test("names are repositories, revisions or sinusoids", () => {
  assert.deepEqual(specOf("openai-community/gpt2", null), { kind: "hub", repo: "openai-community/gpt2", revision: "main" });
  assert.deepEqual(specOf("gpt2@refs/pr/1", null), { kind: "hub", repo: "gpt2", revision: "refs/pr/1" });
  assert.deepEqual(specOf("sinusoidal", { rows: 7, width: 4 }), { kind: "sinusoid", rows: 7, width: 4 });
  assert.deepEqual(specOf("sinusoidal:12x6", { rows: 7, width: 4 }), { kind: "sinusoid", rows: 12, width: 6 });
  for (const wrong of ["a/b/c", "../x", "a--b/c", "x.git", "./folder", "a b", "<img>", "sinusoidal:99999x99999", "sinusoidal:0x4"]) {
    assert.equal(typeof specOf(wrong, null), "string", wrong);
  }
});

test("sizes are written as people read them", () => {
  assert.deepEqual([0, 999, 1000, 46_881_792, 154_389_504, 999_999].map(bytes),
    ["0 bytes", "999 bytes", "1.0 kB", "46.9 MB", "154 MB", "1.0 MB"]);
});

test("axes are those of largest variance, also of equal ones and of fewer rows than columns", async () => {
  const circle = Float32Array.from({ length: 64 * 3 }, (_, at) =>
    [Math.cos, Math.sin, () => 0][at % 3](2 * Math.PI * Math.floor(at / 3) / 64));
  const found = await pca(circle, 3, 3, quiet);
  assert.ok(Math.abs(found.shares[0] - 0.5) < 1e-9 && Math.abs(found.shares[1] - 0.5) < 1e-9);
  assert.equal(found.shares[2], 0);
  assert.ok(found.coordinates[2].every((one) => one === 0));
  const radii = found.coordinates[0].map((one, at) => Math.hypot(one, found.coordinates[1][at]));
  assert.ok(radii.every((one) => Math.abs(one - 1) < 1e-6));
  const wide = await pca(Float32Array.of(1, 0, 0, 0, 0, 1, 0, 0), 4, 2, quiet);
  assert.ok(Math.abs(wide.shares[0] - 1) < 1e-12);
  assert.deepEqual((await pca(new Float32Array(12), 3, 2, quiet)).shares, [0, 0]);
});

test("cosines of blocks are means, and rows without a direction are nowhere", async () => {
  const table = Float32Array.of(1, 0, 0, 2, 0, 0, 3, 0);
  const whole = await cosines(table, 2, 10, quiet);
  assert.deepEqual([...whole.cells], [1, 0, NaN, 1, 0, 1, NaN, 0, NaN, NaN, NaN, NaN, 1, 0, NaN, 1]);
  const means = await meanByDistance(table, 2, quiet);
  assert.deepEqual([...means].map((one) => Math.round(1e12 * one) / 1e12 + 0), [1, 0, 0]);
  const blocks = await cosines(Float32Array.of(1, 0, 0, 1, 1, 0), 2, 2, quiet);
  assert.deepEqual([...blocks.cells], [0.5, 0.5, 0.5, 1]);
});

test("neighbours leave the word itself out, and keep ties in order", async () => {
  const table = Float32Array.of(1, 0, 0, 1, 2, 0, 0, 0, 3, 0);
  const stored = { raw: new Uint8Array(table.buffer), dtype: "F32", rows: 5, width: 2 };
  assert.deepEqual(await nearest(stored, 0, 3, quiet), [{ row: 2, value: 1 }, { row: 4, value: 1 }, { row: 1, value: 0 }]);
});

test("halves are widened exactly", () => {
  const halves = Uint16Array.of(0x3c00, 0x0001, 0x7bff, 0xfc00, 0x8000, 0x3555);
  const found = widened({ raw: new Uint8Array(halves.buffer), dtype: "F16", rows: 2, width: 3 });
  assert.deepEqual([...found], [1, 2 ** -24, 65_504, -Infinity, -0, Math.fround(0.333251953125)]);
  const brain = Uint16Array.of(0x3f80, 0xc049);
  assert.deepEqual([...widened({ raw: new Uint8Array(brain.buffer), dtype: "BF16", rows: 1, width: 2 })], [1, -3.140625]);
});

test("a folder has one checkpoint", () => {
  assert.equal(chosenFile(["model.safetensors", "x.safetensors"]), "model.safetensors");
  assert.equal(chosenFile(["a.safetensors", "optimizer.safetensors", "b/c.safetensors"]), "a.safetensors");
  assert.equal(chosenFile(["pytorch_model.bin"]), null);
  assert.throws(() => chosenFile(["a.safetensors", "b.safetensors"]), /several/);
  assert.throws(() => weightMap({ weight_map: { t: "../x.safetensors" } }, "x"), /of this folder/);
});

test("pieces of every notation read as text", () => {
  const bpe = { model: { vocab: { "Ġking": 0, "Ã©": 1, "Ã": 2 } }, decoder: { type: "ByteLevel" }, added_tokens: [{ id: 3, content: "<s>" }] };
  const found = readVocabulary("tokenizer.json", text(bpe), 99);
  assert.deepEqual([0, 1, 2, 3, 4].map((row) => found.text(row)), [" king", "é", "<0xC3>", "<s>", "(padding 4)"]);
  assert.equal(found.row("king", 5), 0);
  assert.equal(found.row("queen", 5), -1);
  const lines = readVocabulary("folder/vocab.txt", text("[UNK]\r\nthe\n##s\n"), 99);
  assert.deepEqual([0, 1, 2].map((row) => lines.text(row)), ["[UNK]", "the", "##s"]);
  const merged = { model: { vocab: { a: 0 }, merges: [["]", "\"["], ["b", "c"]] }, added_tokens: [] };
  assert.equal(readVocabulary("tokenizer.json", text(merged), 7).text(0), "a");
  assert.throws(() => readVocabulary("tokenizer.json", text(merged), 6), /exceeds the limit/);
  assert.throws(() => readVocabulary("vocab.json", text({ a: -1 }), 99), /"a" in vocab\.json must be a whole number/);
  assert.throws(() => readVocabulary("vocab.json", text({ tokens: ["a"] }), 99), /vocab\.json.* is no vocabulary/);
  assert.throws(() => readVocabulary("vocab.txt", Uint8Array.of(0xff), 99), /UTF-8/);
});

test("untrusted text is quoted on one line", () => {
  assert.equal(quoted("a\n\u0000\"b"), '"a\\n\\u0000\\"b"');
  assert.equal(quoted("x".repeat(500)).length, 80);
});

test("positions far outside do not widen the frame", () => {
  const axis = Float32Array.from({ length: 200 }, (_, at) => (at ? at / 200 : 900));
  const { ranges, outside, isOutside } = frameOf([axis, axis]);
  assert.equal(outside, 1);
  assert.ok(isOutside(0) && ranges[0][1] < 2);
});

test("numbers travel beside a figure, matrices by rows", () => {
  const files = [];
  const made = drawing({ data: [{ x: Float32Array.of(1, 2, 3), z: new Grid(new Float32Array(6), 3), text: ["a"] }], layout: {} }, "words", files);
  assert.equal(files.length, 1);
  assert.deepEqual(made.figure.data[0], { x: { $bin: 0, dtype: "f4", shape: [3] }, z: { $bin: 16, dtype: "f4", shape: [2, 3] }, text: ["a"] });
});
