// A row of panels in an element of a page, as Gradio hands it to the script of a component.

import { h, present, whole } from "./elements.js";
import { page } from "../pages/page.js";
import { PanelView } from "./panel.js";
import { scaleBars } from "./parts.js";
import { placeOfPanel } from "./present.js";
import { plain, shortened } from "./text.js";

/**
 * Draw a row, and draw it anew when its value changes.
 * @param {GradioElement} host
 */
export function drawRow({ element, trigger, props, watch }) {
  const root = element.querySelector("hfposemb-row");
  if (!root) return;
  const row = new Row(/** @type {HTMLElement} */ (root), trigger, () => received(props.value));
  watch("value", () => row.update());
  if (root.isConnected) row.enter(); // it may have left before this was loaded
}

/**
 * Return a row as it was sent: one text, the files beside it, and the script, next to which plotly.js is served. A
 * report has it as it is.
 * @param {any} sent
 * @returns {RowValue | null}
 */
export function received(sent) {
  if (typeof sent?.row !== "string") return sent;
  const { row, script, files } = JSON.parse(JSON.stringify(sent)); // once through Gradio's proxies
  return { ...JSON.parse(row), files, plotly: { url: new URL("plotly.min.js", script.url).href } };
}

/** The panels of a row, in the element of the page that it has. */
class Row {
  #heading = h("div", "heading");
  #grid = h("div", "grid");
  #bones = h("div", "grid bones"); // stand for the panels until there is a value
  /** @type {Map<string, PanelView>} */
  #views = new Map();
  /** @type {RowValue | null} */
  #shown = null;
  #marked = "";
  /** @type {string[]} */
  #selected = []; // groups
  #present = false;
  #repaint = () => this.#draw();

  /**
   * @param {HTMLElement} root
   * @param {Trigger} trigger
   * @param {() => RowValue | null} read
   */
  constructor(root, trigger, read) {
    this.root = root;
    this.trigger = trigger;
    this.read = read;
    root.append(this.#heading, this.#grid);
    root.addEventListener("entered", () => this.enter());
    root.addEventListener("left", () => this.#leave());
  }

  /** Draw, once the element is on the page. */
  enter() {
    if (this.#present) return;
    this.#present = true;
    page.links.addEventListener("theme", this.#repaint);
    this.update();
  }

  /** Draw the value as it is now. */
  update() {
    if (!this.#present) return;
    const value = this.#shown = this.read();
    this.root.classList.toggle("late", !value?.panels);
    if (!value?.panels) return this.#wait();
    this.#bones.remove();
    this.root.style.removeProperty("min-height");
    this.#writeHeading(value);
    this.#grid.style.setProperty("--wanted", String(value.columns));
    this.#grid.classList.toggle("swipe", value.swipe);
    this.#grid.classList.toggle("many", value.columns > 2);
    this.#prepare(value);
    this.#select(value);
    this.#views.forEach((view) => view.show());
    if (this.#marked === JSON.stringify(value.marked)) return;
    this.#marked = JSON.stringify(value.marked);
    for (const [group, index] of Object.entries(value.marked)) page.mark(value.scope, group, index);
  }

  // Show where panels will be; a row that has had a value keeps what it showed last.
  #wait() {
    if (this.#views.size) return;
    const count = Number(this.root.dataset.panels) || 1;
    this.#bones.style.setProperty("--wanted", String(count));
    this.#bones.setAttribute("aria-hidden", "true");
    this.#bones.replaceChildren(...Array.from({ length: count }, () =>
      h("div", "bone", h("span", ""), h("span", ""), h("span", ""))));
    this.root.append(this.#bones);
  }

  /** @param {RowValue} value */
  #select({ scope, selected = {} }) {
    for (const group of this.#selected) if (!(group in selected)) page.select(scope, group, "");
    this.#selected = Object.keys(selected);
    for (const group of this.#selected) page.select(scope, group, selected[group]);
  }

  /** @param {RowValue} value */
  #prepare(value) {
    const keys = new Set(value.panels.map((panel) => panel.key));
    for (const [key, view] of this.#views) {
      if (keys.has(key)) continue;
      view.dispose();
      this.#views.delete(key);
    }
    const views = value.panels.map((spec, place) => {
      const view = this.#views.get(spec.key) ?? new PanelView(spec.key, this.trigger);
      this.#views.set(spec.key, view);
      const there = this.#grid.children[place] ?? null, node = placeOfPanel(view);
      if (there !== node) this.#grid.insertBefore(node, there);
      view.prepare(spec, value);
      return view;
    });
    // All widths before any height: whatever is read after it was written is laid out anew.
    const boxes = value.panels.flatMap((spec, at) => spec.drawings.map((drawing, place) =>
      ({ plot: views[at].plots[place], layout: drawing.figure.layout })));
    const widths = boxes.map(({ plot }) => plot.box.clientWidth);
    boxes.forEach(({ plot, layout }, place) => plot.reserve(layout, widths[place]));
  }

  /** @param {RowValue} value */
  #writeHeading(value) {
    const bars = scaleBars(value.scale_bars, value);
    const under = value.subheading || bars
      ? h("div", "under", h("p", "subtitle", plain(value.subheading, 600)), bars ?? h("p", "scale-bars")) : null;
    const title = value.heading
      ? whole(h("h2", "", plain(shortened(value.heading), 600)), value.heading) : null;
    this.#heading.hidden = !title && !under;
    this.#heading.replaceChildren(...present([title, under]));
  }

  // Write the words in the colours of the page; the plots do so themselves.
  #draw() {
    if (!this.#present || !this.#shown?.panels) return;
    this.#writeHeading(this.#shown);
    this.#views.forEach((view) => view.write());
  }

  #leave() {
    this.#present = false;
    page.links.removeEventListener("theme", this.#repaint);
    if (this.#shown?.panels) this.#select({ ...this.#shown, selected: {} });
    this.#views.forEach((view) => view.dispose());
    this.#views.clear();
  }
}
