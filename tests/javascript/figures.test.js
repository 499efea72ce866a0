import assert from "node:assert/strict";
import { test } from "node:test";

import { fileName, framed, lines } from "../../hfposemb/figures/static/plots/export.js";
import { labelPlace, sampled } from "../../hfposemb/figures/static/plots/marks.js";
import { shape } from "../../hfposemb/figures/static/plots/lasso.js";
import { PlotlyStage } from "../../hfposemb/figures/static/plots/plotly_adapter.js";
import { recoloured } from "../../hfposemb/figures/static/plots/recolour.js";
import { rowsOf, withSelected } from "../../hfposemb/figures/static/plots/selection.js";
import { csv, tablesOf } from "../../hfposemb/figures/static/rows/table.js";
import { tooltip } from "../../hfposemb/figures/static/plots/tooltip.js";
import { describe, labelOf, patchesOf, placeOfRow, rowOf } from "../../hfposemb/figures/static/plots/traces.js";
import { isSlow, unroll } from "../../hfposemb/figures/static/plots/unroll.js";
import { unpack } from "../../hfposemb/figures/static/plots/unpack.js";

test("numbers and labels return to their places", async () => {
  const numbers = new ArrayBuffer(16);
  new Int16Array(numbers, 0, 4).set([0, 100, -100, -32768]);
  new Float32Array(numbers, 8, 2).set([1.5, 2.5]);
  const figure = {
    data: [{ z: { $bin: 0, dtype: "i2", shape: [2, 2], scale: 0.01, offset: 1 }, text: { $json: 3 } }],
    layout: { x: { $bin: 8, dtype: "f4", shape: [2] } },
  };
  const { data, layout } = await unpack(figure, numbers, async (place) => [`file ${place}`]);
  assert.deepEqual(data[0].z.map((row) => Array.from(row)), [[1, 2], [0, NaN]]);
  assert.deepEqual(Array.from(layout.x), [1.5, 2.5]);
  assert.deepEqual(data[0].text, ["file 3"]);
  await assert.rejects(unpack(figure, null, async () => []), /without its numbers/);
});

test("colours are replaced, words and numbers are not", () => {
  const partner = { "#aabbcc": "#112233" };
  const x = new Float32Array(2);
  const figure = { line: { color: "#AABBCC" }, fill: "rgba(170, 187, 204, 0.5)", text: ["#aabbcc"], x };
  const dark = recoloured(figure, partner);
  assert.equal(dark.line.color, "#112233");
  assert.equal(dark.fill, "rgba(17, 34, 51, 0.5)");
  assert.deepEqual(dark.text, ["#aabbcc"]);
  assert.equal(dark.x, x);
  assert.equal(recoloured("rgb(1, 2, 3)", partner), "rgb(1, 2, 3)");
});

test("a point is the row that its trace says", () => {
  const line = describe({ type: "scatter", y: [1, 2, 3], meta: { link: "position", first: 10 } });
  assert.equal(rowOf(line, { pointNumber: 2 }), 12);
  assert.equal(placeOfRow(line, 12), 2);
  assert.equal(placeOfRow(line, 9), null);
  assert.equal(placeOfRow(line, 13), null);
  const cloud = describe({ type: "scattergl", x: [0, 0], customdata: [7, 5], meta: { link: "token" } });
  assert.equal(rowOf(cloud, { pointNumber: 1 }), 5);
  assert.equal(placeOfRow(cloud, 7), 0);
  const matrix = describe({ type: "heatmap", z: [[1]], meta: { link: "position", first: 0, axes: "y" } });
  assert.equal(rowOf(matrix, { pointNumber: [3, 4], x: 4, y: 3 }), 3);
  assert.equal(rowOf(describe({ y: [1] }), { pointNumber: 0 }), null);
});

test("a row is found in a trace whose rows are in order, and in one whose rows are not", () => {
  for (const ids of [new Int32Array([2, 3, 7, 11, 40]), [11, 2, 40, 3, 7]]) {
    const cloud = describe({ x: [0, 0, 0, 0, 0], meta: { link: "token", ids } });
    for (const [place, row] of ids.entries()) assert.equal(placeOfRow(cloud, row), place);
    for (const row of [-1, 0, 4, 12, 41]) assert.equal(placeOfRow(cloud, row), null);
  }
  assert.equal(placeOfRow(describe({ x: [], meta: { link: "token", ids: [] } }), 0), null);
});

test("labels of plotly are unescaped, ours are shown as they are", () => {
  assert.equal(labelOf(describe({ text: ["&lt;b&gt;"], x: [1] }), 0), "<b>");
  assert.equal(labelOf(describe({ x: [1], meta: { link: "token", labels: ["&lt;b&gt;"] } }), 0), "&lt;b&gt;");
  assert.equal(labelOf(describe({ type: "heatmap", text: [["a", "b"]] }), [0, 1]), "b");
});

test("a cell of a map of maps is two patches", () => {
  const trace = describe({ type: "heatmap", meta: { grid: [2, 3], tiles: [[0, 1], [0, 2]] } });
  assert.deepEqual(patchesOf(trace, { pointNumber: [4, 5] }), [{ row: 1, column: 2 }, { row: 1, column: 1 }]);
  assert.equal(patchesOf(trace, { pointNumber: 3 }), null);
});

test("a tooltip says the label, the row and what was kept", () => {
  const meta = { link: "token", first: 0, labels: ["a", "king"], kept: [0, 3], of: 5 };
  const trace = describe({ x: [1, 2], y: [1, 2], meta });
  const point = { curveNumber: 0, pointNumber: 1, x: 2, y: 2, data: {} };
  assert.deepEqual(tooltip([point], [trace]), ["king", "token 1", "3 of its 5 nearest are near it here"]);
});

test("a tooltip of a matrix says its row and column", () => {
  const trace = describe({ type: "heatmap", z: [[1]] });
  const title = (text) => ({ title: { text } });
  const point = { curveNumber: 0, pointNumber: [3, 4], x: 4, y: 3, z: 0.25, data: {} };
  assert.deepEqual(tooltip([{ ...point, xaxis: title("position"), yaxis: title("position") }], [trace]),
    ["position 3 and 4", ".250"]);
  assert.deepEqual(tooltip([{ ...point, xaxis: title("head"), yaxis: title("layer &lt;1&gt;") }], [trace]),
    ["layer <1> 3, head 4", ".250"]);
});

test("a tooltip of lines names at most six", () => {
  const traces = Array.from({ length: 8 }, () => describe({ x: [0], y: [1] }));
  const point = { pointNumber: 0, x: 0, y: 1, data: { name: "a" }, xaxis: {} };
  const points = traces.map((_, curveNumber) => ({ ...point, curveNumber }));
  assert.equal(tooltip(points, traces).length, 7);
});

test("tables have the numbers of a figure", () => {
  const data = [
    { type: "heatmap", z: [[1, 2], [3, 4]], y: ["a", "b"] },
    { x: [1, 2], y: [3, 4], name: "one", meta: { link: "position", first: 5 } },
    { x: [7], y: [8], name: "<b>two</b>" },
  ];
  const layout = { xaxis: { title: { text: "step" } } };
  const [matrix, points, ...none] = tablesOf({ data, layout }, data.map(describe));
  assert.deepEqual(none, []);
  assert.deepEqual([matrix.header, matrix.row(1)], [["row", 0, 1], ["b", 3, 4]]);
  assert.deepEqual(points.header, ["series", "position", "step", "y"]);
  assert.deepEqual([0, 1, 2].map(points.row), [["one", 5, 1, 3], ["one", 6, 2, 4], ["two", "", 7, 8]]);
});

test("a spreadsheet runs no text of a table", () => {
  const row = (at) => [["=1+1", 0.123456789], ['a, "b"', NaN], ["plain", null]][at];
  assert.equal(csv({ name: "", header: ["label", "x"], rows: 3, row }),
    'label,x\r\n"\'=1+1",0.1234568\r\n"a, ""b""",\r\nplain,\r\n');
});

test("a label stands where it hides no points and is within the plot", () => {
  const size = { width: 400, height: 200 };
  const right = Array.from({ length: 50 }, (_, at) => ({ x: 205 + at, y: 60 + 2 * at }));
  const free = labelPlace({ x: 200, y: 100 }, 60, size, right);
  assert.ok(free.leftwards);
  assert.equal(labelPlace({ x: 10, y: 100 }, 60, size, []).leftwards, false);
  assert.equal(labelPlace({ x: 10, y: 100 }, 600, size, []), null);
  assert.equal(sampled((at) => ({ x: at, y: 0 }), 1000).length, 333);
});

test("points are found in plotly's pixels, on a plane and in a scene", () => {
  const axis = (start) => ({ _offset: start, _length: 100, d2p: (value) => 10 * value });
  const unit = [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1];
  const scene = {
    glplot: { cameraParams: { model: unit, view: unit, projection: unit } }, dataScale: [1, 1, 1],
    fullSceneLayout: { domain: { x: [0, 1], y: [0, 1] } },
  };
  const stage = new PlotlyStage({
    _fullLayout: { xaxis: axis(5), yaxis2: axis(7), scene: { _scene: scene }, _size: { w: 200, h: 100, l: 10, t: 20 } },
    _fullData: [{ visible: true }, { visible: "legendonly" }],
  });
  const line = { type: "scatter", x0: 1, dx: 2, y: [0, 3], yaxis: "y2" };
  assert.deepEqual(stage.projector(line)(1), { x: 35, y: 37 });
  assert.equal(stage.projector({ type: "scatter", xaxis: "x9" }), null);
  assert.deepEqual(stage.projector({ type: "scatter3d", x: [0, 0.5], y: [0, 1], z: [0, 0] })(1), { x: 160, y: 20 });
  assert.deepEqual([stage.trace(0), stage.trace(1), stage.trace(2)], [{ visible: true }, null, null]);
});

test("the path of a scene is shown in part, and whole in the end", () => {
  const linePlot = { vertexCount: 100 }, scatterPlot = { vertexCount: 60 };
  let frames = 0;
  const scene = { glplot: { redraw: () => { frames++; } }, traces: { a: { linePlot, scatterPlot } } };
  const stage = new PlotlyStage({ _fullLayout: { scene: { _scene: scene } }, _fullData: [{ uid: "a" }] });
  const counts = (/** @type {number} */ share) => {
    stage.reveal(share);
    return [linePlot.vertexCount, scatterPlot.vertexCount];
  };
  assert.deepEqual([counts(0), counts(0.5), counts(1)], [[0, 0], [48, 30], [100, 60]]);
  counts(0.5);
  linePlot.vertexCount = 40; // another figure
  assert.deepEqual(counts(1), [40, 60]);
  assert.equal(frames, 5);
});

test("a file of a figure has the words of its panel, and the plot its size", () => {
  const measure = (/** @type {string} */ text) => 7 * text.length;
  const figure = { data: [{ y: [1] }], layout: { annotations: [{ text: "own" }], shapes: [] } };
  const words = {
    source: "bert", title: "Neighbours are similar: a < b", ink: "#000", subdued: "#555",
    bars: [{ low: "cosine −1", high: "+1", title: "", colors: ["#0000ff", "#ffffff", "#ff0000"] }],
    legend: [{ name: "word start", color: "#123456" }],
  };
  const box = { width: 400, height: 300, left: 48, right: 16, top: 8, bottom: 44 };
  const { layout, height } = framed(figure, box, words, measure);
  const texts = layout.annotations.map((note) => note.text);
  assert.deepEqual(texts.slice(0, 3), ["own", "<b>bert</b>", "Neighbours are similar: a &lt; b"]);
  assert.match(texts[3], /#123456.*word start/);
  assert.deepEqual(texts.slice(-3), ["cosine −1", "+1", "hfposemb"]);
  assert.deepEqual([layout.shapes[0].fillcolor, layout.shapes.at(-1).fillcolor], ["rgb(0, 0, 255)", "rgb(255, 0, 0)"]);
  assert.equal(layout.shapes[6].fillcolor, "rgb(133, 133, 255)");
  assert.equal(height - layout.margin.t - layout.margin.b, 300 - 8 - 44);
  assert.ok(layout.annotations.slice(1, -1).every((note) => note.yshift > 8), "above the plot");
});

test("lines and file names end between words", () => {
  assert.deepEqual(lines("one two three", 8, (text) => text.length), ["one two", "three"]);
  assert.deepEqual(lines("", 8, (text) => text.length), []);
  assert.equal(fileName("Google-BERT/bert base", 12), "google-bert");
  assert.equal(fileName("a".repeat(90), 60), "a".repeat(60));
  assert.equal(fileName(" Ünï Demo "), "n-demo");
});

test("selected rows stand out, in their own colours, and are not in the table", () => {
  assert.deepEqual([...rowsOf("3.7~2.12")], [3, 10, 11, 12, 50]);
  assert.equal(rowsOf("").size, 0);
  const dots = { type: "scattergl", mode: "markers", x: [1, 2, 3], y: [4, 5, 6], meta: { link: "token", first: 10 },
    marker: { color: [7, 8, 9], opacity: 0.4, size: 2 }, text: ["a", "b", "c"] };
  const marks = { type: "scattergl", x: [1], y: [1], marker: {}, hoverinfo: "skip" };
  const figure = { data: [dots, marks], layout: {} }, traces = figure.data.map(describe);
  assert.deepEqual(withSelected(figure, traces, new Set()).data, figure.data);
  const [faded, above, last] = withSelected(figure, traces, new Set([10, 12, 99])).data;
  assert.ok(faded.marker.opacity < 0.1);
  assert.deepEqual([above.x, above.y, above.marker.color, above.marker.opacity], [[1, 3], [4, 6], [7, 9], 1]);
  assert.equal(last, marks);
  const shown = withSelected(figure, traces, new Set([10]));
  assert.equal(tablesOf(shown, shown.data.map(describe))[0].rows, 3);
});

test("a range covers the height of the plot", () => {
  assert.deepEqual(shape([{ x: 2, y: 4 }, { x: 5, y: 3 }], "Range", 9).map(({ y }) => y), [0, 0, 9, 9]);
});

test("a box is made of its first and last corner", () => {
  const path = [{ x: 0, y: 0 }, { x: 5, y: 1 }, { x: 4, y: 3 }];
  assert.deepEqual(shape(path, "Box", 9), [{ x: 0, y: 0 }, { x: 4, y: 0 }, { x: 4, y: 3 }, { x: 0, y: 3 }]);
  assert.equal(shape(path, "Lasso", 9), path);
});

test("a picture draws itself to its end, and at once where frames are slow", () => {
  assert.equal(isSlow([16, 16, 400, 16]), false);
  assert.equal(isSlow([16, 400, 16, 400, 16]), false);
  assert.equal(isSlow([16, 120, 120, 120, 16, 120]), true);
  const shown = (/** @type {number} */ gap) => {
    /** @type {number[]} */
    const shares = [];
    const clock = { playState: "running", currentTime: 0, finish() { this.playState = "finished"; } };
    const box = { offsetWidth: 1, animate: () => clock };
    /** @type {((now: number) => void)[]} */
    const frames = [];
    Object.assign(globalThis, { document: { hidden: false }, requestAnimationFrame: (step) => frames.push(step) });
    unroll(box, (share) => shares.push(share));
    for (let now = 1000; frames.length; now += gap) {
      clock.currentTime = now - 1000;
      if (clock.currentTime >= 1500) clock.finish();
      frames.shift()(now);
    }
    return shares;
  };
  const even = shown(50);
  assert.equal(even[0], 0);
  assert.equal(even.length, 32);
  assert.deepEqual(even, [...even].sort((one, other) => one - other));
  assert.equal(even.at(-1), 1);
  assert.equal(shown(200).length, 7, "five gaps are enough to see that it is slow");
});
