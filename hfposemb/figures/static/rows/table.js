// The numbers behind a figure as tables: on the page, and as files.

import { h } from "./elements.js";
import { number, plain, unescaped } from "./text.js";

const ROWS = 100; // of a table that are shown; the file has all
const COLUMNS = 12;
const FORMULA = /^[=+\-@\t\r']/;

/**
 * Return the tables of a figure: of each matrix its own, of all points one, with a row for each.
 * @param {{ data: any[], layout: any }} figure
 * @param {TraceInfo[]} traces
 * @returns {Table[]}
 */
export function tablesOf({ data, layout }, traces) {
  const found = data.filter((trace) => trace.type === "heatmap").map((trace) => matrixTable(trace, layout));
  const shown = data.map((trace, place) => ({ ...traces[place], trace }))
    .filter(({ points, stub, trace }) => points && !stub && trace.hoverinfo !== "skip");
  return shown.length ? [...found, pointTable(shown, layout)] : found;
}

/**
 * @param {any} trace
 * @param {any} layout
 * @returns {Table}
 */
function matrixTable({ x, y, z, name = "" }, layout) {
  const columns = Array.from({ length: z[0]?.length ?? 0 }, (_, at) => x?.[at] ?? at);
  const header = [unmarked(layout.yaxis?.title?.text || "row"), ...columns];
  return { name, header, rows: z.length, row: (at) => [y?.[at] ?? at, ...z[at]] };
}

/**
 * @param {(TraceInfo & { trace: any })[]} shown
 * @param {any} layout
 * @returns {Table}
 */
function pointTable(shown, layout) {
  const columns = columnsOf(shown, layout);
  /** @type {number[]} */
  const ends = [];
  for (const { points } of shown) ends.push((ends.at(-1) ?? 0) + points);
  return {
    name: "", header: columns.map(([name]) => name), rows: ends.at(-1) ?? 0,
    row: (at) => {
      const place = ends.findIndex((end) => at < end);
      return columns.map(([, cell]) => cell(shown[place], at - (ends[place - 1] ?? 0)));
    },
  };
}

/**
 * @param {(TraceInfo & { trace: any })[]} shown
 * @param {any} layout
 * @returns {[string, (one: TraceInfo & { trace: any }, at: number) => unknown][]}
 */
function columnsOf(shown, layout) {
  const deep = shown.some(({ trace }) => trace.z);
  const grouped = shown.find(({ group }) => group);
  /** @type {[string, (one: TraceInfo & { trace: any }, at: number) => unknown][]} */
  const columns = [];
  if (shown.length > 1 && shown.some(({ trace }) => trace.name)) {
    columns.push(["series", ({ trace }) => unmarked(trace.name ?? "")]);
  }
  if (grouped?.group) {
    columns.push([grouped.group, ({ group, ids, first }, at) => (!group ? "" : ids ? ids[at] : first + at)]);
  }
  if (shown.some(({ labels }) => labels)) {
    columns.push(["label", ({ labels, escaped }, at) => (escaped ? unmarked(labels?.[at] ?? "") : labels?.[at] ?? "")]);
  }
  for (const axis of ["x", "y", ...(deep ? ["z"] : [])]) {
    const title = (deep ? layout.scene?.[`${axis}axis`] : layout[`${axis}axis`])?.title?.text;
    columns.push([unmarked(title || axis), ({ trace }, at) => trace[axis]?.[at] ?? at]);
  }
  return columns;
}

/**
 * Return the text of plotly's markup.
 * @param {unknown} text
 */
function unmarked(text) {
  return unescaped(String(text).replace(/<[^>]*>/g, ""));
}

/**
 * Return a table to be read, with its first row and column as headings.
 * @param {Table} table
 * @param {string} title
 * @returns {HTMLElement}
 */
export function tableElement({ name, header, rows, row }, title) {
  const shown = Math.min(rows, ROWS), across = Math.min(header.length, COLUMNS);
  /** @type {(value: unknown) => string} */
  const cell = (value) => (typeof value === "number" ? number(value) : plain(String(value ?? ""), 60));
  /** @type {(scope: string, value: unknown) => HTMLElement} */
  const heading = (scope, value) => {
    const node = h("th", "", cell(value));
    node.scope = scope;
    return node;
  };
  /** @type {(at: number) => HTMLElement[]} */
  const cells = (at) => row(at).slice(0, across).map((value, place) =>
    (place ? h("td", "", cell(value)) : heading("row", value)));
  const part = [
    shown < rows ? `the first ${shown} of ${rows.toLocaleString("en")} rows` : "",
    across < header.length ? `${across - 1} of ${header.length - 1} columns` : "",
  ].filter(Boolean).join(", ");
  const caption = [plain(name), part].filter(Boolean).join(": ") || title;
  const box = h("div", "sheet", h("table", "", h("caption", "", caption),
    h("thead", "", h("tr", "", ...header.slice(0, across).map((value) => heading("col", value)))),
    h("tbody", "", ...Array.from({ length: shown }, (_, at) => h("tr", "", ...cells(at))))));
  box.tabIndex = 0; // it scrolls
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", `Table: ${title}`);
  return box;
}

/**
 * Return a table as CSV. A spreadsheet must not run a text as a formula: those that look like one begin with an
 * apostrophe.
 * @param {Table} table
 * @returns {string}
 */
export function csv({ header, rows, row }) {
  const lines = [header, ...Array.from({ length: rows }, (_, at) => row(at))];
  return lines.map((cells) => cells.map(csvCell).join(",") + "\r\n").join("");
}

/** @param {unknown} value */
function csvCell(value) {
  if (typeof value === "number") return Number.isFinite(value) ? String(Number(value.toPrecision(7))) : "";
  const text = String(value ?? ""), formula = FORMULA.test(text);
  return formula || /[",\r\n]/.test(text) ? `"${(formula ? "'" : "") + text.replace(/"/g, '""')}"` : text;
}
