// A row of panels of the static page.

import { drawRow } from "../../../figures/static/rows/row.js";
import { forget } from "./sent_figures.js";

/** A row of panels that is drawn anew when what it shows has changed. */
export class SiteRow {
  #files = /** @type {SentFile[][]} */ ([]); // of the last two drawings, since the one before may still be read
  #shown = /** @type {unknown[] | null} */ (null);
  #changed = () => {};
  #props = { value: /** @type {any} */ (null) };
  #isDrawn = false;

  /**
   * @param {string} id
   * @param {object} shared by all rows
   * @param {Trigger} trigger
   */
  constructor(id, shared, trigger) {
    this.element = /** @type {HTMLElement} */ (document.getElementById(id));
    this.shared = shared;
    this.trigger = trigger;
  }

  /**
   * Draw some panels.
   * @param {unknown[]} shown what they show
   * @param {(files: SentFile[]) => PanelSpec[]} make
   * @param {object} [words] of the row
   */
  draw(shown, make, words = {}) {
    if (this.#shown?.length === shown.length && shown.every((one, at) => one === this.#shown?.[at])) return;
    this.#shown = shown;
    const files = /** @type {SentFile[]} */ ([]), panels = make(files);
    this.#files.push(files);
    if (this.#files.length > 2) forget(this.#files.shift() ?? []);
    this.element.hidden = !panels.length;
    const none = { heading: "", subheading: "", scale_bars: [], marked: {}, swipe: false, columns: panels.length || 1 };
    this.#props.value = { ...none, ...words, ...this.shared, panels, files };
    if (!panels.length && !this.#isDrawn) return;
    if (this.#isDrawn) this.#changed();
    else drawRow({ element: this.element, trigger: this.trigger, props: this.#props, watch: (_, changed) => { this.#changed = changed; } });
    this.#isDrawn = true;
  }
}
