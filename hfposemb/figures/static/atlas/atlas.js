// The script of an atlas: it sorts and filters the table of models, draws two figures, and compares chosen models.

import { h } from "../rows/elements.js";
import { drawScatter, mostFrequent } from "./plot.js";
import { embedded } from "../pages/embedded.js";
import { compareCommand, comparisonAddress, orderOf } from "./table.js";

const MOST_IN_APP = 4; // sources that the app opens

/** Make the page work: without this script it is a table. */
function openAtlas() {
  const data = /** @type {AtlasData} */ (JSON.parse(embedded("views")));
  const chosen = /** @type {Set<number>} */ (new Set());
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const rows = /** @type {HTMLTableRowElement[]} */ ([...document.querySelectorAll("tr[data-row]")]);
  const boxes = rows.map((row, at) => addBox(row, data.names[at], () => toggle(at)));
  const draw = () => drawScatter(byId("scatter"), data, {
    x: Number(chooser("x").value), y: Number(chooser("y").value), group: chooser("colour").value,
    log: { x: box("log-x").checked, y: box("log-y").checked },
    dark: dark.matches, chosen, shown: (at) => !rows[at].hidden, click: toggle,
  });

  /** @param {number} at */
  function toggle(at) {
    if (!chosen.delete(at)) chosen.add(at);
    update();
  }

  /** Show which models are chosen, in the table, in the plot and as a command. */
  function update() {
    rows.forEach((row, at) => row.classList.toggle("marked", chosen.has(at)));
    boxes.forEach((one, at) => { one.checked = chosen.has(at); });
    const sources = [...new Set([...chosen].map((at) => data.sources[at]))];
    byId("chosen-count").textContent = sources.length
      ? `${sources.length} chosen${sources.length > MOST_IN_APP ? `; the app opens at most ${MOST_IN_APP}` : ""}`
      : "Choose models in the plot or the table to compare them.";
    byId("chosen-ways").hidden = !sources.length;
    byId("chosen-command").textContent = compareCommand(sources);
    const link = /** @type {HTMLAnchorElement} */ (byId("chosen-link"));
    link.hidden = sources.length > MOST_IN_APP;
    link.href = comparisonAddress(data.app, sources);
    link.title = `In the app at ${data.app}, which the command "hfposemb app" starts`;
    draw();
  }

  addSorting(data, rows);
  addFilters(data, rows, draw);
  for (const id of ["x", "y", "colour", "log-x", "log-y"]) byId(id).addEventListener("change", draw);
  dark.addEventListener("change", draw);
  byId("chosen-copy").onclick = () => navigator.clipboard?.writeText(byId("chosen-command").textContent ?? "");
  byId("chosen-clear").onclick = () => { chosen.clear(); update(); };
  for (const id of ["plot", "chosen", "filters"]) byId(id).hidden = false;
  update();
}

/**
 * Put a box before the name of a model.
 * @param {HTMLTableRowElement} row
 * @param {string} name
 * @param {() => void} change
 */
function addBox(row, name, change) {
  const [head] = row.cells, one = document.createElement("input");
  one.type = "checkbox";
  one.setAttribute("aria-label", `Choose ${name}`);
  one.addEventListener("change", change);
  const label = h("label", "", one);
  label.append(...head.childNodes);
  head.append(label);
  return one;
}

/**
 * Let the heads of the table sort it: first falling, for figures, and then rising.
 * @param {AtlasData} data
 * @param {HTMLTableRowElement[]} rows
 */
function addSorting(data, rows) {
  const heads = /** @type {HTMLTableCellElement[]} */ ([...document.querySelectorAll("th[aria-sort]")]);
  heads.forEach((head, column) => {
    const ask = h("button", "");
    ask.type = "button";
    ask.append(...head.childNodes);
    head.append(ask);
    ask.addEventListener("click", () => {
      const first = head.dataset.figure === undefined ? "ascending" : "descending";
      const other = first === "ascending" ? "descending" : "ascending";
      const way = head.getAttribute("aria-sort") === first ? other : first;
      for (const each of heads) each.setAttribute("aria-sort", each === head ? way : "none");
      const values = head.dataset.figure === undefined
        ? rows.map((row) => row.cells[column].textContent ?? "") : data.figures[Number(head.dataset.figure)].values;
      rows[0].parentElement?.append(...orderOf(values, way === "descending").map((at) => rows[at]));
    });
  });
}

/**
 * Let the fields above the table choose its rows and columns.
 * @param {AtlasData} data
 * @param {HTMLTableRowElement[]} rows
 * @param {() => void} changed
 */
function addFilters(data, rows, changed) {
  const search = box("search"), section = chooser("section");
  const only = /** @type {HTMLSelectElement[]} */ ([...document.querySelectorAll("select.only")]);
  for (const one of only) one.append(...mostFrequent(groupOf(one)).map((name) => new Option(name, name)));

  /** @param {HTMLSelectElement} one */
  function groupOf(one) {
    return data.groups[one.dataset.group ?? ""];
  }

  /** Hide what is not wanted. */
  function filter() {
    const wanted = search.value.trim().toLowerCase();
    rows.forEach((row, at) => {
      row.hidden = !(data.sources[at] + data.names[at]).toLowerCase().includes(wanted)
        || only.some((one) => one.value !== "" && groupOf(one)[at] !== one.value);
    });
    const shown = rows.filter((row) => !row.hidden).length;
    byId("count").textContent = `${shown.toLocaleString("en")} of ${rows.length.toLocaleString("en")} models`;
    changed();
  }

  /** Show the columns of a section. */
  function columns() {
    const heads = /** @type {HTMLTableCellElement[]} */ ([...document.querySelectorAll("th[data-section]")]);
    for (const head of heads) {
      const hidden = section.value !== "" && head.dataset.section !== section.value;
      head.hidden = hidden;
      for (const row of rows) row.cells[head.cellIndex].hidden = hidden;
    }
  }

  search.addEventListener("input", filter);
  for (const one of only) one.addEventListener("change", filter);
  section.addEventListener("change", columns);
  filter();
}

/** @param {string} id */
function byId(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

/** @param {string} id */
function chooser(id) {
  return /** @type {HTMLSelectElement} */ (byId(id));
}

/** @param {string} id */
function box(id) {
  return /** @type {HTMLInputElement} */ (byId(id));
}

openAtlas();
