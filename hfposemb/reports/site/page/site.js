// The script of the static page: two sources, their positions side by side, and their tokens.

import { h } from "../../../figures/static/rows/elements.js";
import { embedded, embeddedFile } from "../../../figures/static/pages/embedded.js";
import { followSystemColours } from "../../../figures/static/pages/system_colours.js";
import { plain } from "../../../figures/static/rows/text.js";
import { CallError } from "./call_error.js";
import { Engine } from "./engine.js";
import { SiteFigures } from "./figures.js";
import { SitePanels } from "./panels.js";
import { SiteRow } from "./row.js";
import { SourceSlot, specOf } from "./source_slot.js";
import { TokenForm } from "./token_form.js";

const PARAMETERS = ["model", "with"];

/** The page. */
class Site {
  #engine = new Engine();
  #sources = /** @type {(number | null)[]} */ ([null, null]);
  #last = 0;
  #results = { words: /** @type {any[]} */ ([]), neighbours: /** @type {any[]} */ ([]) };

  /** @param {{ rules: SiteRules, colours: SiteColours }} data */
  constructor({ rules, colours }) {
    this.rules = rules;
    this.panels = new SitePanels(new SiteFigures(colours), colours);
    const labels = ["Model", "Compare with (optional)"], hints = ["owner/name or owner/name@revision", "owner/name or sinusoidal"];
    this.slots = labels.map((label, place) => new SourceSlot(place, label, hints[place], (files) => void this.#openFiles(place, files)));
    this.tokens = new TokenForm({ compare: (words) => void this.#compare(words), find: (query, isAgreed) => void this.#find(query, isAgreed) });
    const shared = { scope: "site", dark: colours.dark, plotly: embeddedFile(embedded("plotly"), "text/javascript") };
    const row = (/** @type {string} */ id) => new SiteRow(id, shared, (event, told) => this.#chosen(event, told));
    this.rows = { positions: row("positions"), lines: row("lines"), tokens: row("token-results") };
    this.bars = [{ title: "", low: "position 0", high: "last", colors: colours.position },
      { title: "", low: "cosine −1", high: "+1", colors: colours.similarity }];
  }

  /** Fill the form, take files that are dropped, and open what the address names. */
  start() {
    const form = /** @type {HTMLFormElement} */ (document.getElementById("open"));
    form.prepend(...this.slots.map(({ node }) => node));
    form.onsubmit = (event) => {
      event.preventDefault();
      void this.#openAll();
    };
    document.getElementById("token-form")?.append(this.tokens.node);
    addEventListener("dragover", (event) => event.preventDefault());
    addEventListener("drop", (event) => {
      event.preventDefault();
      const files = [...event.dataTransfer?.files ?? []], place = Number(Boolean(this.slots[0].facts && !this.slots[1].facts));
      if (files.length) void this.#openFiles(place, files);
    });
    const asked = new URLSearchParams(location.search);
    this.slots.forEach(({ input }, place) => { input.value = asked.get(PARAMETERS[place]) ?? ""; });
    if (this.slots.some(({ input }) => input.value)) void this.#openAll();
    document.body.dataset.ready = "true";
  }

  // A sinusoid without a size gets that of the other source, which is opened first.
  async #openAll() {
    this.#address();
    const [first, second] = this.slots.map(({ input }) => input.value.trim()), isSine = first.startsWith("sinusoidal");
    for (const place of isSine && second ? [1, 0] : [0, 1]) {
      const slot = this.slots[place], text = [first, second][place], { facts, numbers } = slot;
      if (text === slot.name && facts && (numbers || !facts.positions.length)) continue;
      if (!text) this.#close(slot);
      else await this.#openName(slot, text);
    }
  }

  /**
   * @param {SourceSlot} slot
   * @param {string} text
   */
  async #openName(slot, text) {
    const beside = this.slots[1 - slot.place].numbers, spec = specOf(text, beside && { rows: beside.rows, width: beside.width });
    if (typeof spec !== "string") return this.#open(slot, text, spec);
    this.#close(slot);
    return void slot.say(spec);
  }

  /**
   * @param {number} place
   * @param {File[]} files
   */
  async #openFiles(place, files) {
    const chosen = files.find(({ name }) => /\.safetensors(\.index\.json)?$/.test(name)) ?? files[0];
    this.slots[place].input.value = "";
    await this.#open(this.slots[place], chosen.name, { kind: "files", files });
  }

  /**
   * @param {SourceSlot} slot
   * @param {string} name
   * @param {SourceSpec} spec
   */
  async #open(slot, name, spec) {
    this.#close(slot);
    const source = this.#sources[slot.place] = ++this.#last;
    try {
      const facts = await slot.run(this.#call(slot, "open", [], { spec, rules: this.rules }));
      if (this.#sources[slot.place] !== source) return;
      Object.assign(slot, { facts, name, part: facts.positions[0] ?? "" });
      slot.input.value ||= spec.kind === "files" ? "" : name;
      this.#draw();
      await this.#measure(slot);
    } catch (error) {
      if (!(error instanceof CallError)) throw error;
    }
  }

  /** @param {SourceSlot} slot */
  async #measure(slot) {
    if (!slot.facts?.positions.length) return;
    const source = this.#sources[slot.place];
    const numbers = await slot.run(this.#call(slot, "positions", [slot.part]));
    if (this.#sources[slot.place] !== source) return;
    slot.numbers = numbers;
    this.#draw();
  }

  /** @param {SourceSlot} slot */
  #close(slot) {
    slot.cancel();
    slot.say("");
    this.#sources[slot.place] = null;
    Object.assign(slot, { facts: null, numbers: null, name: "", part: "", traffic: { requests: 0, bytes: 0 } });
    this.#results = { words: [], neighbours: [] };
    this.#draw();
  }

  /**
   * @param {SourceSlot} slot
   * @param {string} method
   * @param {unknown[]} args
   * @param {{ spec?: SourceSpec, rules?: SiteRules }} [more]
   */
  #call(slot, method, args, more = {}) {
    const source = this.#sources[slot.place] ?? 0;
    return this.#engine.call(source, method, { args, ...more, progress: (told) => {
      if (this.#sources[slot.place] !== source) return;
      slot.told(told);
    } });
  }

  /**
   * Ask every source with tokens the same.
   * @param {string} method
   * @param {unknown[]} args
   */
  async #askAll(method, args) {
    this.tokens.say("");
    const asked = await Promise.allSettled(this.#withTokens().map(async (slot) =>
      ({ slot, found: await slot.run(this.#call(slot, method, args)) })));
    this.#facts();
    return asked.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
  }

  /** @param {string[]} words */
  async #compare(words) {
    if (words.length < 2) return this.tokens.say("Write two or more words, separated by commas.");
    this.#results.words = await this.#askAll("words", [words]);
    this.#draw();
  }

  /**
   * @param {string} query
   * @param {boolean} isAgreed
   */
  async #find(query, isAgreed) {
    if (!query) return this.tokens.say("Write a word.");
    const missing = this.#withTokens().filter((slot) => !this.#whole.has(this.#sources[slot.place]));
    const size = missing.reduce((sum, { facts }) => sum + (facts?.token?.bytes ?? 0), 0);
    if (size && !isAgreed) return this.tokens.ask(query, size);
    const results = await this.#askAll("neighbours", [query]);
    for (const { slot } of results) this.#whole.add(this.#sources[slot.place]);
    this.#results.neighbours = results;
    this.tokens.show(query);
    this.#draw();
  }

  #whole = /** @type {Set<number | null>} */ (new Set()); // sources whose token table was read

  #withTokens() {
    return this.slots.filter(({ facts }) => facts?.token && facts.vocabulary);
  }

  /**
   * @param {string} event
   * @param {any} told
   */
  #chosen(event, told) {
    if (event === "select" && told?.list !== undefined) void this.#find(String(told.label).trim() || `#${told.id}`, true);
  }

  #draw() {
    const { slots, panels, rows } = this, opened = slots.filter(({ facts }) => facts), hasNumbers = slots.some(({ numbers }) => numbers);
    this.#facts();
    const heading = { heading: "Positions", subheading: hasNumbers ? "Hover over or tap a position to mark it in all plots." : "" };
    const measured = slots.map((slot) => slot.numbers), { words, neighbours } = this.#results;
    rows.positions.draw([...slots.map((slot) => slot.facts), ...measured], (files) => panels.positions(opened, files), { ...heading, scale_bars: hasNumbers ? this.bars : [] });
    rows.lines.draw(measured, (files) => panels.lines(slots, files));
    const tokens = document.getElementById("tokens");
    if (tokens) tokens.hidden = !opened.some(({ facts }) => facts?.tensors);
    this.tokens.update(opened.filter(({ facts }) => facts?.token));
    rows.tokens.draw([...words, null, ...neighbours], (files) =>
      [...panels.words(words, files), ...panels.neighbours(neighbours)], { columns: 2 });
  }

  #facts() {
    const cards = this.slots.filter(({ facts }) => facts).map((slot) => {
      const terms = slot.lines.flatMap(([name, words]) => [h("dt", "", name), h("dd", "", plain(words, 300))]);
      const parts = slot.facts?.positions ?? [];
      const select = parts.length < 2 ? null : h("select", "", ...parts.map((part) =>
        Object.assign(h("option", "", part || "text"), { value: part, selected: part === slot.part })));
      if (select) {
        select.setAttribute("aria-label", `Positions of ${slot.name}`);
        select.onchange = () => {
          slot.part = select.value;
          this.#measure(slot).catch(() => {});
        };
      }
      return h("section", "sheet facts", h("h2", "", plain(slot.name)), select, h("dl", "", ...terms));
    });
    document.getElementById("sources")?.replaceChildren(...cards);
  }

  // A page from disk may not be able to change its address.
  #address() {
    const url = new URL(location.href);
    this.slots.forEach(({ input }, place) => {
      if (input.value.trim()) url.searchParams.set(PARAMETERS[place], input.value.trim());
      else url.searchParams.delete(PARAMETERS[place]);
    });
    try {
      history.replaceState(null, "", url);
    } catch {
      // the address stays
    }
  }
}

followSystemColours();
new Site(JSON.parse(embedded("site"))).start();
