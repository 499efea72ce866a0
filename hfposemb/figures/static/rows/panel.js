// A panel: its words, its figures, and what its drawer shows.

import { chipBox } from "./chips.js";
import { Drawer } from "./drawer.js";
import { button, emphasised, h, present } from "./elements.js";
import { EXPORT_MARK, fileName } from "../plots/export.js";
import { toolButtons } from "../plots/lasso.js";
import { menu } from "./menu.js";
import { exportWords, recipeParts, saveText, tablePart } from "./parts.js";
import { help, legend, neighbourList, numbers, panelNames, presentButton, scaleBars } from "./parts.js";
import { Plot } from "../plots/plot.js";
import { discharge, enlist, isPresented, togglePresent } from "./present.js";
import { savedPage } from "../plots/saved_page.js";
import { plain } from "./text.js";

const FILES = ["PNG", "SVG", "HTML"];

let panels = 0;

/** A panel of a row. It keeps its element, and its plots keep theirs, while its value changes. */
export class PanelView {
  /** @type {Plot[]} */
  plots = [];
  /** @type {Sheet[]} */
  #sheets = [];
  #id = `hfposemb-help-${Math.random().toString(36).slice(2)}-${panels++}`;
  #head = h("div", "head");
  #drawings = h("div", "drawings");
  #tail = h("div", "tail");

  /**
   * @param {string} key
   * @param {Trigger} trigger
   */
  constructor(key, trigger) {
    this.key = key;
    this.trigger = trigger;
    this.node = h("section", "panel", this.#head, this.#drawings, this.#tail);
    this.node.dataset.key = key;
    this.drawer = new Drawer(this.node, `${this.#id}-drawer`, () => this.#writeDrawer());
    enlist(this);
  }

  /** Return whether this has the whole window. */
  presented() {
    return isPresented(this);
  }

  /** Return whether there is something to show in the whole window. */
  hasPictures() {
    return this.plots.length > 0;
  }

  /** Draw the figures anew, in the size that they have now. */
  redraw() {
    this.drawer.close(false);
    this.write();
    this.plots.forEach((plot) => plot.redraw());
  }

  /** Move the focus to the button that gives this the window, or takes it back. */
  focus() {
    /** @type {HTMLElement | null} */ (this.node.querySelector(".present, .more"))?.focus({ preventScroll: true });
  }

  /**
   * Write the words of a value, and make room for its figures.
   * @param {PanelSpec} spec
   * @param {RowValue} value
   */
  prepare(spec, value) {
    this.spec = spec;
    this.value = value;
    this.node.style.setProperty("--span", String(spec.span));
    this.node.classList.toggle("error", spec.tone === "error");
    this.node.dataset.state = "loading";
    this.write();
    while (this.plots.length > spec.drawings.length) this.plots.pop()?.dispose();
    while (this.plots.length < spec.drawings.length) {
      const plot = new Plot(this);
      this.plots.push(plot);
      this.#drawings.append(plot.box, plot.caption);
    }
    spec.drawings.forEach((drawing, place) => {
      const { caption } = this.plots[place];
      caption.replaceChildren(...emphasised(drawing.caption, spec.emphasis));
      caption.hidden = !drawing.caption;
    });
  }

  /** Draw the figures. */
  show() {
    const { spec, value } = this;
    if (!spec || !value) return;
    const drawn = spec.drawings.map((drawing, place) => {
      const words = [spec.source[0], spec.title, spec.subtitle, drawing.caption].filter(Boolean);
      return this.plots[place].show(drawing, value, plain(words.join(". "), 400));
    });
    Promise.all(drawn).then(() => this.settle(), (error) => this.fail(error));
  }

  /** Say that everything is drawn; tests and people who script the page wait for it. */
  settle() {
    if (!this.plots.every((plot) => plot.drawn)) return;
    const traces = this.plots.flatMap((plot) => plot.traces).filter((trace) => !trace.stub);
    this.node.dataset.points = String(traces.reduce((sum, trace) => sum + trace.points, 0));
    if (this.drawer.name === "Table") this.#writeDrawer();
    this.node.dataset.state = "drawn";
  }

  /**
   * Say why a figure was not drawn.
   * @param {Error} error
   */
  fail(error) {
    this.node.dataset.state = "failed";
    this.node.classList.add("error");
    this.#tail.prepend(h("p", "message", plain(error.message, 300)));
  }

  /** Write the words; what is pressed and has the focus keeps it. */
  write() {
    const { spec, value } = this;
    if (!spec || !value) return;
    const buttons = () => [.../** @type {NodeListOf<HTMLElement>} */ (
      this.node.querySelectorAll("button, [role=option]"))];
    const focused = buttons().findIndex((node) => node === document.activeElement);
    const aside = present([
      this.presented() ? presentButton(() => togglePresent(this)) : null,
      spec.help ? help(spec.help, this.#title(), this.#id) : null,
    ]);
    this.#head.replaceChildren(...present([
      h("div", "top", panelNames(spec, value), ...aside), numbers(spec), this.#keys(spec, value),
    ]));
    this.#writeTail(spec, value);
    if (focused >= 0) buttons()[focused]?.focus({ preventScroll: true });
  }

  /**
   * Return the rows of a group that an event of this panel is about: those within a shape, or that of a point.
   * @param {{ area?: Corners, group?: string | null, index?: number }} told
   * @returns {Set<number> | null}
   */
  chosen({ area, group, index }) {
    if (area) return this.plots[0]?.rowsWithin(area) ?? null;
    return group && index !== undefined ? new Set([index]) : null;
  }

  /** Whether rows that are selected stand out in its plots. */
  get selects() {
    return Boolean(this.spec?.selects);
  }

  /**
   * Return what the colours mean, with the tools of the plot, or nothing.
   * @param {PanelSpec} spec
   * @param {RowValue} value
   */
  #keys(spec, value) {
    const names = legend(spec, value, (name) => this.trigger("select", { panel: this.key, legend: name }));
    const bars = scaleBars(this.#bars(spec, value), value);
    const flat = !spec.drawings.some(({ figure }) => figure.layout.scene);
    const tools = toolButtons((flat && spec.tools) || [], () => this.plots[0],
      (area) => this.trigger("select", { panel: this.key, area }, this));
    if (!tools) return names ?? bars;
    return names || bars ? h("div", "keys", h("div", "", names, bars), tools) : h("div", "keys alone", tools);
  }

  /** Leave the page. */
  dispose() {
    discharge(this);
    this.drawer.close(false);
    this.plots.forEach((plot) => plot.dispose());
    this.node.remove();
  }

  /**
   * @param {PanelSpec} spec
   * @param {RowValue} value
   */
  #writeTail(spec, value) {
    const { recipe } = spec;
    const kinds = spec.actions.flatMap((action) => (action === "SVG" ? [action, "HTML"] : [action]));
    const actions = kinds.map((action) => {
      const node = button("action", plain(action));
      node.dataset.action = action;
      node.onclick = () => this.#act(action);
      return node;
    });
    this.#sheets = [
      ...(spec.drawings.length ? [{ name: "Table", className: "sheets", build: () => this.#tables(spec) }] : []),
      ...(recipe ? [{ name: "Python", className: "recipe", build: () => recipeParts(recipe, this.#title()) }] : []),
    ];
    const whole = button("action", "Present");
    whole.title = "In the whole window (p)";
    whole.onclick = () => togglePresent(this);
    const isFile = (/** @type {HTMLElement} */ { dataset }) => FILES.includes(dataset.action ?? "");
    const own = actions.filter((node) => !isFile(node));
    const kept = [...actions.filter(isFile), ...this.#sheets.map(({ name }) => this.#opener(name))];
    if (spec.drawings.length && !this.presented()) kept.push(whole);
    const lists = spec.lists.map((list, place) => neighbourList(list, value, ({ id, label }) =>
      this.trigger("select", { panel: this.key, list: place, id, label })));
    const foot = spec.foot || own.length + kept.length;
    this.#tail.replaceChildren(...present([
      spec.message ? h("p", "message", ...emphasised(spec.message, spec.emphasis)) : null,
      lists.length ? h("div", "lists", ...lists) : null,
      chipBox(spec.chips ?? [], this.#title(), ({ id, label }) =>
        this.trigger("select", { panel: this.key, list: 0, id, label })),
      foot ? h("div", "foot", h("span", "", plain(spec.foot, 400)),
        h("span", "actions", ...own, ...menu(this.#title(), kept))) : null,
    ]));
    this.#writeDrawer();
  }

  /**
   * Return the button that opens and closes the drawer.
   * @param {string} name
   */
  #opener(name) {
    const control = button("action", name);
    control.dataset.sheet = name;
    control.setAttribute("aria-haspopup", "dialog");
    control.setAttribute("aria-controls", this.drawer.node.id);
    control.onclick = () => {
      if (this.drawer.name === name) this.drawer.close();
      else this.drawer.open(name, this.#title(), () => this.node.querySelector(".more") ?? control);
    };
    return control;
  }

  // The drawer stays open while the panel is drawn anew, and shows what is drawn then.
  #writeDrawer() {
    for (const node of /** @type {NodeListOf<HTMLElement>} */ (this.node.querySelectorAll("[data-sheet]"))) {
      node.setAttribute("aria-expanded", String(node.dataset.sheet === this.drawer.name));
    }
    const sheet = this.#sheets.find(({ name }) => name === this.drawer.name);
    if (sheet) this.drawer.write(sheet.className, sheet.build());
    else if (this.drawer.name) this.drawer.close(false);
  }

  /**
   * Return the numbers of every plot as they are drawn, for who does not see it, or wants them elsewhere.
   * @param {PanelSpec} spec
   */
  #tables(spec) {
    return this.plots.flatMap((plot, place) => plot.tables().map((table, turn) => {
      const words = plain(spec.drawings[place]?.caption ?? "", 120) || this.#title();
      const numbered = [this.#filename(), place ? place + 1 : "", turn ? turn + 1 : ""].filter(Boolean);
      return tablePart(table, words, `${numbered.join("-")}.csv`);
    }));
  }

  // In the whole window the scales that a row shares are not seen above it.
  /**
   * @param {PanelSpec} spec
   * @param {RowValue} value
   */
  #bars(spec, value) {
    return this.presented() && !spec.scale_bars.length ? value.scale_bars : spec.scale_bars;
  }

  #title() {
    return plain(this.spec?.title || this.spec?.source[0] || "this panel");
  }

  // What a file of this panel is called.
  #filename() {
    return fileName(this.spec?.source[0] ?? this.spec?.title ?? "", 60) || this.key;
  }

  // Save the panel as a page that draws it without a network.
  async #save() {
    const { spec, value } = this;
    if (!spec || !value) return;
    const plotly = await (await fetch(value.plotly.url)).text();
    const { backgroundColor, color } = getComputedStyle(this.node);
    const subdued = getComputedStyle(this.plots[0].caption).color;
    const captions = spec.drawings.map(({ caption }) => plain(caption, 400));
    const words = { ...exportWords(spec, value, ""), ink: color, subdued, panel: backgroundColor, captions,
      foot: plain(spec.foot, 400) };
    const figures = this.plots.map((plot) => plot.saved()).filter((figure) => figure !== null);
    const text = await savedPage({ figures, words, plotly, mark: EXPORT_MARK });
    saveText(text, "text/html", `${this.#filename()}.html`);
  }

  /** @param {string} action */
  #act(action) {
    if (action === "HTML") return void this.#save().catch((error) => this.fail(error));
    if (action !== "PNG" && action !== "SVG") return void this.trigger("select", { panel: this.key, action });
    const name = this.#filename(), { spec, value } = this;
    if (!spec || !value) return;
    this.plots.forEach((plot, place) => {
      const file = place ? `${name}-${place + 1}` : name;
      const words = exportWords(spec, value, spec.drawings[place].caption);
      plot.download(action.toLowerCase(), file, words).catch((error) => this.fail(error));
    });
  }
}
