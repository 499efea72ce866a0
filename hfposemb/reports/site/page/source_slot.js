// One of the two sources of the page: what was asked for, what was found, and what is being done.

import { button, h } from "../../../figures/static/rows/elements.js";
import { plain, shortened } from "../../../figures/static/rows/text.js";

const HUB_NAME = "[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?";
const HUB = new RegExp(`^(${HUB_NAME}(?:/${HUB_NAME})?)(?:@([A-Za-z0-9][A-Za-z0-9._/-]{0,254}))?$`);
const SINUSOID = /^sinusoidal(?::([1-9]\d{0,4})x([1-9]\d{0,4}))?$/;
const MOST_SINES = 2 ** 24; // numbers of a sinusoid

/** A source, with its element of the form. */
export class SourceSlot {
  /** @type {ModelFacts | null} */
  facts = null;
  /** @type {PositionNumbers | null} */
  numbers = null;
  part = "";
  name = "";
  /** @type {Traffic} */
  traffic = { requests: 0, bytes: 0 };
  /** @type {(() => void) | null} */
  #cancel = null;
  #bar = h("progress", "");
  #stage = h("span", "");
  #doing = h("p", "doing");
  #error = h("p", "said");

  /**
   * @param {number} place
   * @param {string} label
   * @param {string} hint
   * @param {(files: File[]) => void} choose
   */
  constructor(place, label, hint, choose) {
    this.place = place;
    this.input = h("input", "");
    Object.assign(this.input, { type: "text", placeholder: hint, autocomplete: "off", spellcheck: false, id: `source-${place}` });
    this.input.setAttribute("aria-describedby", `said-${place}`);
    const words = h("label", "", label), files = h("input", ""), open = button("file", "Files…");
    words.htmlFor = this.input.id;
    Object.assign(files, { type: "file", multiple: true, hidden: true, accept: ".safetensors,.json,.txt" });
    files.setAttribute("aria-label", `Files of: ${label}`);
    files.onchange = () => {
      if (files.files?.length) choose([...files.files]);
      files.value = "";
    };
    open.title = "model.safetensors with config.json and tokenizer.json, from this machine; nothing is uploaded";
    open.onclick = () => files.click();
    const stop = button("stop", "Cancel");
    stop.onclick = () => this.#cancel?.();
    this.#doing.append(this.#bar, this.#stage, stop);
    this.#doing.hidden = true;
    this.#error.id = `said-${place}`;
    this.#error.setAttribute("role", "status");
    this.node = h("div", "source-slot", words, h("div", "entry", this.input, open, files), this.#doing, this.#error);
  }

  /**
   * Run something of this source, and show how far it is; what fails is said below the name.
   * @template T
   * @param {{ done: Promise<T>, cancel: () => void }} call
   * @returns {Promise<T>}
   */
  async run({ done, cancel }) {
    this.#cancel = cancel;
    this.#error.textContent = "";
    this.node.classList.remove("failed");
    this.told({ share: 0, stage: "working", traffic: this.traffic });
    this.#doing.hidden = false;
    try {
      return await done;
    } catch (error) {
      this.say(/** @type {Error} */ (error).message || "Cancelled.");
      throw error;
    } finally {
      if (this.#cancel === cancel) {
        this.#cancel = null;
        this.#doing.hidden = true;
      }
    }
  }

  /** Stop what is being done. */
  cancel() {
    this.#cancel?.();
  }

  /** @param {CallProgress} progress */
  told({ share, stage, traffic }) {
    this.traffic = traffic;
    if (share > 0) this.#bar.value = Math.min(share, 1);
    else this.#bar.removeAttribute("value");
    this.#stage.textContent = [stage, traffic.bytes ? bytes(traffic.bytes) : ""].filter(Boolean).join(" · ");
  }

  /** @param {string} text */
  say(text) {
    this.node.classList.toggle("failed", Boolean(text));
    this.#error.textContent = plain(text, 400);
  }

  /** Return the name as a plot has room for it. */
  get title() {
    return shortened(this.name);
  }

  /** Return what was found, as pairs of a heading and words. */
  get lines() {
    const { facts, numbers, traffic } = this;
    if (!facts) return [];
    const table = numbers && `${numbers.whole.toLocaleString("en")} × ${numbers.width.toLocaleString("en")}`;
    const start = numbers?.offset ? `, position 0 in row ${numbers.offset}` : "";
    const { token } = facts, tokens = token && `${token.rows.toLocaleString("en")} × ${token.width.toLocaleString("en")}`;
    const positions = numbers && [table, numbers.dtype, numbers.tensor || "computed"].filter(Boolean).join(", ") + start;
    return /** @type {[string, string][]} */ ([
      ["Architecture", facts.type], ["Commit", facts.commit.slice(0, 12)],
      ["Positions", positions ?? facts.kind?.text ?? ""],
      ["Tokens", token ? `${tokens}, ${token.dtype}, ${token.tensor}` : facts.tensors ? facts.noToken : ""],
      ["Read", facts.fileBytes ? `${bytes(traffic.bytes)} in ${traffic.requests} requests; the file has ${bytes(facts.fileBytes)}` : ""],
      ...facts.notes.map((note) => ["Note", note]),
    ].filter(([, words]) => words));
  }
}

/**
 * Return what a name stands for, or the line that says why it stands for nothing.
 * @param {string} text
 * @param {{ rows: number, width: number } | null} beside size of the other source
 * @returns {SourceSpec | string}
 */
export function specOf(text, beside) {
  const sine = SINUSOID.exec(text);
  if (sine) {
    const rows = Number(sine[1] ?? beside?.rows ?? 512), width = Number(sine[2] ?? beside?.width ?? 128);
    if (rows * width > MOST_SINES) return `${rows} × ${width} is too large for a sinusoid in this page`;
    return { kind: "sinusoid", rows, width };
  }
  const hub = HUB.exec(text);
  if (!hub || text.includes("..") || hub[1].includes("--") || hub[1].endsWith(".git")) {
    return `${JSON.stringify(plain(text, 80))} is not a source; write owner/name, owner/name@revision or sinusoidal:1024x768`;
  }
  return { kind: "hub", repo: hub[1], revision: hub[2] ?? "main" };
}

/**
 * Return a size as people write it.
 * @param {number} count
 * @returns {string}
 */
export function bytes(count) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let size = count, turn = 0;
  while (size >= 999.5 && turn < units.length - 1) [size, turn] = [size / 1000, turn + 1];
  return `${turn && size < 99.5 ? size.toPrecision(size < 9.95 ? 2 : 3) : Math.round(size)} ${units[turn]}`;
}
