// A panel: its words, its figures, and what is folded away below them.

import { button, emphasised, h, present } from "./elements.js";
import { fileName } from "./export.js";
import { exportWords, recipeParts, tablePart } from "./parts.js";
import { help, legend, neighbourList, numbers, panelNames, scaleBars } from "./parts.js";
import { Plot } from "./plot.js";
import { plain } from "./text.js";

let panels = 0;

/** A panel of a row. It keeps its element, and its plots keep theirs, while its value changes. */
export class PanelView {
  /** @type {Plot[]} */
  plots = [];
  /** @type {Fold[]} */
  #folds = [];
  #unfolded = new Set();
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
    this.#folds.filter(({ name }) => name === "Table").forEach((fold) => fold.show());
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

  /** Write the words; a button that has the focus keeps it. */
  write() {
    const { spec, value } = this;
    if (!spec || !value) return;
    const buttons = () => [...this.node.querySelectorAll("button")];
    const focused = buttons().findIndex((node) => node === document.activeElement);
    this.#head.replaceChildren(...present([
      h("div", "top", panelNames(spec, value), spec.help ? help(spec.help, this.#title(), this.#id) : null),
      numbers(spec), legend(spec, value), scaleBars(spec.scale_bars, value),
    ]));
    this.#writeTail(spec, value);
    if (focused >= 0) buttons()[focused]?.focus({ preventScroll: true });
  }

  /** Leave the page. */
  dispose() {
    this.plots.forEach((plot) => plot.dispose());
    this.node.remove();
  }

  /**
   * @param {PanelSpec} spec
   * @param {RowValue} value
   */
  #writeTail(spec, value) {
    const { recipe } = spec;
    const actions = spec.actions.map((action) => {
      const node = button("action", plain(action));
      node.onclick = () => this.#act(action);
      return node;
    });
    this.#folds = [];
    if (spec.drawings.length) this.#folds.push(this.#fold("Table", "sheets", () => this.#tables(spec)));
    if (recipe) this.#folds.push(this.#fold("Python", "recipe", () => recipeParts(recipe, this.#title())));
    actions.push(...this.#folds.map((fold) => fold.button));
    const lists = spec.lists.map((list, place) => neighbourList(list, value, ({ id, label }) =>
      this.trigger("select", { panel: this.key, list: place, id, label })));
    const foot = spec.foot || actions.length;
    this.#tail.replaceChildren(...present([
      spec.message ? h("p", "message", ...emphasised(spec.message, spec.emphasis)) : null,
      lists.length ? h("div", "lists", ...lists) : null,
      foot ? h("div", "foot", h("span", "", plain(spec.foot, 400)), h("span", "actions", ...actions)) : null,
      ...this.#folds.map((fold) => fold.body),
    ]));
  }

  /**
   * Return something folded away below the panel until it is asked for; it stays open while the panel is drawn anew.
   * @param {string} name
   * @param {string} className
   * @param {() => HTMLElement[]} build
   * @returns {Fold}
   */
  #fold(name, className, build) {
    const body = h("div", className), control = button("action", name);
    body.id = `${this.#id}-${className}`;
    control.setAttribute("aria-controls", body.id);
    const show = () => {
      const open = this.#unfolded.has(name);
      body.hidden = !open;
      control.setAttribute("aria-expanded", String(open));
      body.replaceChildren(...(open ? build() : []));
    };
    control.onclick = () => {
      if (!this.#unfolded.delete(name)) this.#unfolded.add(name);
      show();
    };
    body.onkeydown = (event) => {
      if (event.key !== "Escape") return;
      this.#unfolded.delete(name);
      show();
      control.focus();
    };
    show();
    return { name, button: control, body, show };
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

  #title() {
    return plain(this.spec?.title || this.spec?.source[0] || "this panel");
  }

  // What a file of this panel is called.
  #filename() {
    return fileName(this.spec?.source[0] ?? this.spec?.title ?? "", 60) || this.key;
  }

  /** @param {string} action */
  #act(action) {
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
