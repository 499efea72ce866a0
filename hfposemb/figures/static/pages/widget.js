// A widget of a notebook: its panels, whose numbers come from the kernel, and the selection that both share.

import { button, h } from "../rows/elements.js";
import { inflated } from "./inflate.js";
import { page } from "./page.js";
import { drawRow } from "../rows/row.js";
import { changedSelection, rowsOf, textOf } from "../plots/selection.js";

const ROW_NAMES = ["_maps", "_matrices"];
const RESERVED = "380px";
const PATIENCE = 60_000; // ms until a kernel that does not send plotly.js is given up

/**
 * Draw a widget. The function that is returned takes it from the page.
 * @param {{ model: WidgetModel, el: HTMLElement }} place
 */
function renderWidget({ model, el }) {
  const scope = model.get("_scope"), group = model.get("_group");
  const rows = ROW_NAMES.map(rowElement), chosen = chosenLine(model);
  const root = h("div", "hfposemb-widget", ...rows, chosen.line);
  root.dataset.lmSuppressShortcuts = "true"; // keys that are pressed here are none of JupyterLab's
  root.classList.toggle("single", model.get("_sources") === 1);
  const paint = () => root.classList.toggle("dark", page.isDark());
  const select = () => page.select(scope, group, model.get("_selected"));
  let adds = false; // whether the pointer was pressed with a key that adds to the selection
  root.addEventListener("pointerdown", (event) => { adds = event.shiftKey || event.ctrlKey || event.metaKey; }, true);
  page.links.addEventListener("theme", paint);
  paint();
  /** @type {Trigger} */
  const trigger = (_, told, view) => {
    const found = view?.chosen(told ?? {});
    if (found) send(model, changedSelection(rowsOf(model.get("_selected")), found, adds));
  };
  const stops = ROW_NAMES.map((name, place) => keepDrawn(model, name, rows[place], trigger));
  model.on("change:_selected", select);
  select();
  el.append(root);
  return () => {
    page.links.removeEventListener("theme", paint);
    model.off("change:_selected", select);
    model.off("change:_selected", chosen.write);
    stops.forEach((stop) => stop());
    root.remove();
  };
}

/** Return the place of a row of panels, in about the height that it will have. */
function rowElement() {
  const row = document.createElement("hfposemb-row");
  row.style.minHeight = RESERVED;
  return h("div", "rows", row);
}

/**
 * Select rows, here and in the kernel.
 * @param {WidgetModel} model
 * @param {Set<number>} rows
 */
function send(model, rows) {
  model.set("_selected", textOf(rows));
  model.save_changes();
}

/**
 * Draw a row of panels, and draw it anew when the kernel sends another. Return how to stop.
 * @param {WidgetModel} model
 * @param {string} name
 * @param {HTMLElement} element
 * @param {Trigger} trigger
 */
function keepDrawn(model, name, element, trigger) {
  const props = { value: /** @type {RowValue | null} */ (null) };
  /** @type {string[]} */
  let addresses = [];
  let turn = 0, changed = () => {};
  const release = () => addresses.splice(0).forEach((url) => URL.revokeObjectURL(url));
  const update = async () => {
    const own = ++turn, { row, files } = model.get(name);
    try {
      const plotly = await page.library(() => libraryOf(model)), sent = await Promise.all(files.map(inflated));
      if (own !== turn) return; // another has come meanwhile, or the widget has left
      release();
      addresses = sent.map((part) => URL.createObjectURL(new Blob([part])));
      const scope = model.get("_scope"), places = addresses.map((url) => ({ url }));
      props.value = { ...JSON.parse(row), scope, plotly, files: places };
      changed();
    } catch (error) {
      element.replaceChildren(h("p", "failed", error instanceof Error ? error.message : String(error)));
    }
  };
  drawRow({ element, trigger, props, watch: (_, then) => { changed = then; } });
  model.on(`change:${name}`, update);
  void update();
  return () => {
    turn++;
    model.off(`change:${name}`, update);
    release();
  };
}

/**
 * Return plotly.js as the kernel has sent it: once for all widgets, as a model of its own. Where a notebook knows no
 * other models than the widget's, the kernel sends it on request.
 * @param {WidgetModel} model
 * @returns {Promise<ArrayBuffer>}
 */
async function libraryOf(model) {
  try {
    const shared = await model.widget_manager.get_model(model.get("_library"));
    return await inflated(shared.get("content"));
  } catch {
    return new Promise((resolve, reject) => {
      const missing = "The plot library did not come from the kernel. Run the cell again.";
      const late = setTimeout(() => reject(new Error(missing)), PATIENCE);
      const receive = (/** @type {any} */ content, /** @type {DataView[]} */ buffers) => {
        if (content?.kind !== "library") return;
        clearTimeout(late);
        model.off("msg:custom", receive);
        inflated(buffers[0]).then(resolve, reject);
      };
      model.on("msg:custom", receive);
      model.send({ kind: "library" });
    });
  }
}

/**
 * Return the line that says how many rows are selected, with the button that clears them, and how to write it anew.
 * @param {WidgetModel} model
 */
function chosenLine(model) {
  const words = h("span", ""), clear = button("action", "Clear selection");
  const line = h("p", "chosen", words, clear), kind = model.get("_group");
  const write = () => {
    const count = rowsOf(model.get("_selected")).size;
    const said = `${count.toLocaleString("en")} ${kind}${count > 1 ? "s" : ""} selected`;
    words.textContent = count ? said : model.get("_hint");
    clear.hidden = !count;
  };
  words.setAttribute("role", "status");
  clear.onclick = () => send(model, new Set());
  model.on("change:_selected", write);
  write();
  return { line, write };
}

export default { render: renderWidget };
