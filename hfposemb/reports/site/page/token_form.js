// The part of the page about tokens: words whose rows are read alone, and neighbours, which need the whole table.

import { button, h, present } from "../../../figures/static/rows/elements.js";
import { plain } from "../../../figures/static/rows/text.js";
import { bytes } from "./source_slot.js";

/** The forms of words and of neighbours. */
export class TokenForm {
  #words = field("words", "king, queen, man, woman");
  #query = field("query", "king");
  #sizes = h("p", "about");
  #ask = h("div", "ask-size");
  #said = h("p", "said");

  /**
   * @param {object} does
   * @param {(words: string[]) => void} does.compare
   * @param {(query: string, isAgreed: boolean) => void} does.find
   */
  constructor({ compare, find }) {
    this.find = find;
    const words = h("form", "", labelled("Cosines of words", this.#words), submit("Compare"));
    const query = h("form", "", labelled("Neighbours of", this.#query), submit("Find"));
    words.onsubmit = (event) => {
      event.preventDefault();
      compare(this.#words.value.split(",").map((word) => word.trim()).filter(Boolean));
    };
    query.onsubmit = (event) => {
      event.preventDefault();
      find(this.#query.value.trim(), false);
    };
    this.#said.setAttribute("role", "status");
    this.#ask.hidden = true;
    this.node = h("div", "sheet token-form", words, query, this.#ask, this.#said, this.#sizes);
  }

  /**
   * State what reading costs.
   * @param {import("./source_slot.js").SourceSlot[]} slots with tokens
   */
  update(slots) {
    this.#sizes.replaceChildren(...slots.map(({ name, facts }) => h("span", "", `${plain(name, 60)}: ${present([
      facts?.vocabulary ? `vocabulary ${bytes(facts.vocabulary.bytes)}` : "no file names its tokens",
      facts?.token ? `table ${bytes(facts.token.bytes)}` : "",
    ]).join(", ")}. `)));
    this.#ask.hidden = true;
  }

  /**
   * Ask before whole tables are read.
   * @param {string} query
   * @param {number} size
   */
  ask(query, size) {
    const read = button("primary", `Read ${bytes(size)}`), not = button("", "Not now");
    read.onclick = () => {
      this.#ask.hidden = true;
      this.find(query, true);
    };
    not.onclick = () => { this.#ask.hidden = true; };
    this.#ask.replaceChildren(h("span", "", `Neighbours need every row of the token table: ${bytes(size)}.`), read, not);
    this.#ask.hidden = false;
    read.focus();
  }

  /** @param {string} query */
  show(query) {
    this.#query.value = query;
  }

  /** @param {string} text */
  say(text) {
    this.#said.textContent = plain(text, 400);
  }
}

/**
 * @param {string} id
 * @param {string} value
 */
function field(id, value) {
  return Object.assign(h("input", ""), { type: "text", id, value, autocomplete: "off", spellcheck: false });
}

/**
 * @param {string} text
 * @param {HTMLInputElement} input
 */
function labelled(text, input) {
  const label = h("label", "", text);
  label.htmlFor = input.id;
  return h("div", "labelled", label, input);
}

/** @param {string} text */
function submit(text) {
  return Object.assign(h("button", "primary", text), { type: "submit" });
}
