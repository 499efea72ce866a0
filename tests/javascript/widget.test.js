import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";

import { inflated } from "../../hfposemb/figures/static/pages/inflate.js";
import {
  changedSelection, rowsOf, rowsWithin, runsOf, textOf, withSelected,
} from "../../hfposemb/figures/static/plots/selection.js";
import { isDarkPage } from "../../hfposemb/figures/static/pages/theme.js";
import { tooltip } from "../../hfposemb/figures/static/plots/tooltip.js";
import { describe, placeOfRow, rowOf } from "../../hfposemb/figures/static/plots/traces.js";

const SQUARE = { x: [0, 2, 2, 0], y: [0, 0, 2, 2] };

test("rows are read as they were written, in the format of encoded_rows.py", () => {
  assert.equal(textOf([50, 12, 3, 11, 10, 10]), "3.7~2.12");
  assert.equal(textOf([]), "");
  for (const rows of [[], [0], [0, 1, 2], [5, 35, 36, 37, 1295, 30_521], Array.from({ length: 900 }, (_, at) => 3 * at)]) {
    assert.deepEqual([...rowsOf(textOf(rows))], rows);
  }
});

test("runs are neighbours, or as far apart as is allowed", () => {
  assert.deepEqual(runsOf([9, 1, 2, 4]), [[1, 2], [4, 4], [9, 9]]);
  assert.deepEqual(runsOf([9, 1, 2, 4], 2), [[1, 4], [9, 9]]);
});

test("a chosen row replaces the selection, is added to it, or leaves it", () => {
  const before = new Set([1, 2]);
  assert.deepEqual([...changedSelection(before, new Set([7]), false)], [7]);
  assert.deepEqual([...changedSelection(before, new Set([7]), true)], [1, 2, 7]);
  assert.deepEqual([...changedSelection(before, new Set([2]), true)], [1]);
  assert.deepEqual([...changedSelection(before, new Set([2, 3]), true)], [1, 2, 3]);
});

test("the dots within a shape are its rows, by their numbers in the group", () => {
  const data = [
    { type: "scattergl", x: [1, 3, 1.5], y: [1, 1, 1.5], meta: { link: "token", ids: [40, 41, 42] } },
    { type: "scatter", x: [1, 1, 9], y: [1, 5, 1], meta: { link: "token", first: 100 } },
    { type: "scatter", x: [1], y: [1], meta: { link: "token", ids: [7], stub: true } },
    { type: "scatter", x: [1], y: [1] },
  ];
  assert.deepEqual([...rowsWithin(data, data.map(describe), SQUARE)], [40, 42, 100]);
  const far = [{ type: "scatter", x: [1, 1], y: [1, 1], meta: { link: "position", first: 0, outside: [0] } }];
  assert.deepEqual([...rowsWithin(far, far.map(describe), SQUARE)], [1], "a dot outside of the frame is not where it is");
});

test("a shape that is not convex leaves its notch out", () => {
  const data = [{ type: "scatter", x: [1, 1, 3], y: [1, 3, 1], meta: { link: "token", first: 0 } }];
  const corner = { x: [0, 4, 4, 2, 2, 0], y: [0, 0, 2, 2, 4, 4] };
  assert.deepEqual([...rowsWithin(data, data.map(describe), corner)], [0, 1, 2]);
  data[0].x[1] = data[0].y[1] = 3;
  assert.deepEqual([...rowsWithin(data, data.map(describe), corner)], [0, 2]);
});

test("a range of a matrix is its columns, none beyond its ends", () => {
  const z = Array.from({ length: 4 }, () => new Float32Array(4));
  const range = (trace, from, to) => {
    const data = [{ type: "heatmap", z, ...trace }];
    return [...rowsWithin(data, data.map(describe), { x: [from, to, to, from], y: [0, 0, 1, 1] })];
  };
  assert.deepEqual(range({ meta: { link: "position", first: 0 } }, 0.4, 2.2), [1, 2]);
  assert.deepEqual(range({ meta: { link: "position", first: 0 } }, -9, 99), [0, 1, 2, 3]);
  assert.deepEqual(range({ x0: 0.5, dx: 2, meta: { link: "position", first: 0 } }, -9, 99), [0, 1, 2, 3, 4, 5, 6, 7]);
  assert.deepEqual(range({ meta: { link: "token", ids: [9, 8, 7, 6] } }, 0.6, 3), [8, 7, 6]);
});

test("a matrix of some rows links them by their numbers", () => {
  const trace = describe({ type: "heatmap", z: [[1]], meta: { link: "token", ids: [9, 8] } });
  assert.equal(rowOf(trace, { pointNumber: [0, 1], x: 1, y: 0 }), 8);
  assert.equal(rowOf(trace, { pointNumber: [0, 1], x: 5, y: 0 }), null);
  assert.equal(trace.places.get(8), 1);
  assert.equal(placeOfRow(trace, 3), null);
});

test("every run of selected rows is framed in a matrix, many runs in fewer frames", () => {
  const layout = { shapes: [{ type: "line" }] }, data = [{ type: "heatmap", z: [[1]], meta: { link: "position" } }];
  const frames = (rows, own = data) => withSelected({ data: own, layout }, own.map(describe), new Set(rows)).layout.shapes;
  assert.deepEqual(frames([4, 5, 9]).slice(1).map(({ x0, x1, y0, y1 }) => [x0, x1, y0, y1]),
    [[3.5, 5.5, 3.5, 5.5], [8.5, 9.5, 8.5, 9.5]]);
  assert.ok(frames(Array.from({ length: 500 }, (_, at) => 2 * at)).length <= 61);
  const some = [{ type: "heatmap", z: [[1]], meta: { link: "token", ids: [9, 8] } }];
  assert.deepEqual(frames([8, 1000], some).slice(1).map(({ x0 }) => x0), [0.5]);
});

test("a tooltip says the row of the dot's own table", () => {
  const trace = { type: "scattergl", x: [0], y: [0], text: ["king"], meta: { link: "token", ids: [70], numbers: [3] } };
  assert.deepEqual(tooltip([{ curveNumber: 0, pointNumber: 0, x: 0, y: 0, data: {} }], [describe(trace)]), ["king", "token 3"]);
});

test("the theme is what the page of a notebook says", () => {
  const page = (...all) => isDarkPage(all.map((own) => ({ getAttribute: (name) => own[name] ?? null })));
  assert.equal(page({}, {}), false);
  assert.equal(page({}, { class: "gradio dark" }), true);
  assert.equal(page({}, { class: "darkish" }), false);
  assert.equal(page({}, { "data-jp-theme-light": "false" }), true);
  assert.equal(page({}, { "data-jp-theme-light": "true" }), false);
  assert.equal(page({}, { class: "vscode-dark" }), true);
  assert.equal(page({}, { class: "vscode-high-contrast" }), true);
  assert.equal(page({}, { class: "vscode-high-contrast vscode-high-contrast-light" }), false);
  assert.equal(page({ theme: "dark" }, {}), true);
  assert.equal(page({}, { class: "light light-theme", "data-theme": "light" }), false);
  assert.equal(page({}, { class: "dark dark-theme", "data-theme": "dark" }), true);
});

test("bytes are inflated", async () => {
  const sent = gzipSync(Buffer.from("words"));
  const view = new DataView(sent.buffer, sent.byteOffset, sent.byteLength);
  assert.equal(new TextDecoder().decode(await inflated(view)), "words");
});
