// What all rows of a page share: files, plotly, marks and the order of painting. It is the global object "hfposemb".

import { clearByEscape } from "../rows/escape.js";
import { followPrinting } from "../plots/print.js";
import { Contexts } from "./contexts.js";
import { PaintQueue } from "./queue.js";
import { defineRow } from "../rows/row_element.js";
import { isDarkPage, THEME_ATTRIBUTES } from "./theme.js";

const MOST_FILES = 48; // kept decoded

/** The page that rows draw on. */
class Page {
  #files = /** @type {Map<string, Promise<any>>} */ (new Map()); // url → decoded content, oldest first
  #styles = /** @type {Map<string, Promise<void>>} */ (new Map());
  contexts = new Contexts();
  links = new EventTarget();
  selections = /** @type {Map<string, string>} */ (new Map());
  marks = /** @type {Map<string, Mark>} */ (new Map());
  plotly = /** @type {Promise<PlotlyLibrary> | null} */ (null);
  #library = /** @type {Promise<SentFile> | null} */ (null);

  constructor() {
    this.queue = new PaintQueue({ distance: below, height: () => innerHeight, pause: (near) => this.#pause(near) });
    window.addEventListener("beforeprint", () => this.queue.flush());
    followPrinting();
    window.addEventListener("keydown", clearByEscape);
    let dark = this.isDark();
    const themes = new MutationObserver(() => {
      if (dark === this.isDark()) return;
      dark = this.isDark();
      this.links.dispatchEvent(new Event("theme"));
    });
    for (const node of [document.documentElement, document.body]) {
      themes.observe(node, { attributes: true, attributeFilter: THEME_ATTRIBUTES });
    }
    defineRow();
  }

  /**
   * Fetch and decode a file once.
   * @param {string} url
   * @param {"json" | "arrayBuffer"} kind
   * @returns {Promise<any>}
   */
  read(url, kind) {
    const known = this.#files.get(url) ?? fetch(url).then((answer) => {
      if (!answer.ok) throw new Error("This view is no longer on the server. Reload the page.");
      return answer[kind]();
    });
    this.#files.delete(url);
    this.#files.set(url, known);
    const [oldest] = this.#files.keys();
    if (this.#files.size > MOST_FILES) this.#files.delete(oldest);
    known.catch(() => this.#files.delete(url));
    return known;
  }

  /**
   * Load the plotly.js of this package. Gradio has another one for gr.Plot under the same global name, which is
   * put back.
   * @param {string} url
   * @returns {Promise<PlotlyLibrary>}
   */
  load(url) {
    this.plotly ??= loadPlotly(url).catch((error) => {
      this.plotly = null;
      throw error;
    });
    return this.plotly;
  }

  /**
   * Return an address of plotly.js where it is no file beside the page: it is read once for all widgets of a notebook.
   * @param {() => Promise<ArrayBuffer>} read
   * @returns {Promise<SentFile>}
   */
  library(read) {
    this.#library ??= read().then(
      (script) => ({ url: URL.createObjectURL(new Blob([script], { type: "text/javascript" })) }),
      (error) => {
        this.#library = null;
        throw error;
      },
    );
    return this.#library;
  }

  /**
   * Load a style sheet once.
   * @param {string | undefined} url
   * @returns {Promise<void>}
   */
  style(url) {
    if (!url) return Promise.resolve();
    const known = this.#styles.get(url) ?? loadStyle(url);
    this.#styles.set(url, known);
    known.catch(() => this.#styles.delete(url));
    return known;
  }

  /**
   * Mark a row of a group, which stays marked.
   * @param {string} scope
   * @param {string} group
   * @param {number | null} index
   */
  mark(scope, group, index) {
    this.#set("marked", scope, group, index);
  }

  /**
   * Mark the row of a group that is under the pointer, which is shown in place of the marked one.
   * @param {string} scope
   * @param {string} group
   * @param {number | null} index
   */
  hover(scope, group, index) {
    this.#set("hovered", scope, group, index);
  }

  /**
   * Select rows of a group, as a text of encoded_rows.py; an empty one selects nothing.
   * @param {string} scope
   * @param {string} group
   * @param {string} rows
   */
  select(scope, group, rows) {
    const name = `${scope}/${group}`;
    if ((this.selections.get(name) ?? "") === rows) return;
    this.selections.set(name, rows);
    this.links.dispatchEvent(new CustomEvent("selection", { detail: { scope, group } }));
  }

  /**
   * Return the row of a group that is marked now.
   * @param {string} scope
   * @param {string} group
   * @returns {number | null}
   */
  current(scope, group) {
    const mark = this.marks.get(`${scope}/${group}`);
    return mark?.hovered ?? mark?.marked ?? null;
  }

  /**
   * Run something when nothing else is to do.
   * @param {() => void} go
   */
  later(go) {
    if ("requestIdleCallback" in window) requestIdleCallback(go, { timeout: 1000 });
    else setTimeout(go); // Safari has none
  }

  /**
   * Copy the text of an element. Where a page may not write to the clipboard, the text is selected, to be copied by
   * hand.
   * @param {HTMLElement} control
   * @param {HTMLElement} source
   */
  async copy(control, source) {
    try {
      await navigator.clipboard.writeText(source.textContent ?? "");
      control.textContent = "Copied";
    } catch {
      getSelection()?.selectAllChildren(source);
      control.textContent = "Selected";
    }
    setTimeout(() => { control.textContent = "Copy"; }, 1500);
  }

  /** @returns {boolean} */
  isDark() {
    return isDarkPage([document.documentElement, document.body]);
  }

  /**
   * @param {"marked" | "hovered"} role
   * @param {string} scope
   * @param {string} group
   * @param {number | null} index
   */
  #set(role, scope, group, index) {
    const name = `${scope}/${group}`;
    const mark = this.marks.get(name) ?? { marked: null, hovered: null };
    if (mark[role] === index) return;
    mark[role] = index;
    this.marks.set(name, mark);
    this.links.dispatchEvent(new CustomEvent("mark", { detail: { scope, group } }));
  }

  // A macrotask lets the page answer: a click is handled before the next plot.
  /**
   * @param {boolean} near
   * @returns {Promise<void>}
   */
  #pause(near) {
    return new Promise((go) => (near ? void setTimeout(go) : this.later(go)));
  }
}

/**
 * Return how far a plot is below the window's top.
 * @param {Paintable} plot
 */
function below(plot) {
  const { top, bottom, left, width } = plot.box.getBoundingClientRect();
  if (!width) return Infinity;
  return bottom < 0 ? innerHeight - bottom : left > innerWidth ? innerHeight + top : Math.max(top, 0);
}

/**
 * @param {string} url
 * @returns {Promise<PlotlyLibrary>}
 */
function loadPlotly(url) {
  return new Promise((resolve, reject) => {
    const before = window.Plotly;
    const script = document.createElement("script");
    script.src = url;
    script.onload = () => {
      const ours = window.Plotly;
      if (before) window.Plotly = before;
      if (ours) resolve(ours);
    };
    script.onerror = () => reject(new Error("The plot library could not be loaded. Reload the page."));
    document.head.append(script);
  });
}

/**
 * @param {string} url
 * @returns {Promise<void>}
 */
function loadStyle(url) {
  return new Promise((resolve, reject) => {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = url;
    link.onload = () => resolve();
    link.onerror = () => {
      link.remove();
      reject(new Error("The style of the panels could not be loaded. Reload the page."));
    };
    document.head.append(link);
  });
}

/** @type {Page} */
export const page = (window.hfposemb ??= new Page());
