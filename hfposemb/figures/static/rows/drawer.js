// What stands behind a panel, its table or its code, at the side of the window, so that nothing on the page moves.

import { button, h } from "./elements.js";

/** @type {Drawer | null} */
let opened = null; // a page shows one at a time

/** The drawer of a panel. */
export class Drawer {
  #heading = h("h3", "drawer-title");
  #body = h("div", "");
  /** @type {() => HTMLElement | null} */
  #opener = () => null;
  name = ""; // of what it shows, empty while it is closed

  /**
   * @param {HTMLElement} panel
   * @param {string} id
   * @param {() => void} changed is called when it has opened or closed
   */
  constructor(panel, id, changed) {
    this.panel = panel;
    this.changed = changed;
    const close = button("action", "Close");
    close.onclick = () => this.close();
    this.#heading.id = `${id}-title`;
    this.#heading.tabIndex = -1;
    this.node = h("div", "drawer", h("div", "top", this.#heading, close), this.#body);
    this.node.id = id;
    this.node.popover = "manual";
    this.node.setAttribute("role", "dialog");
    this.node.setAttribute("aria-labelledby", this.#heading.id);
  }

  /** @param {KeyboardEvent} event */
  #onKey = (event) => {
    if (event.key !== "Escape" || event.defaultPrevented) return;
    event.preventDefault(); // it closes this alone, not what this is in
    this.close();
  };

  /**
   * Open, and move the focus there.
   * @param {string} name
   * @param {string} title
   * @param {() => HTMLElement | null} opener is where the focus returns to
   */
  open(name, title, opener) {
    if (opened !== this) opened?.close(false);
    opened = this;
    this.name = name;
    this.#opener = opener;
    this.#heading.textContent = `${name}: ${title}`;
    this.panel.append(this.node);
    this.node.showPopover();
    document.addEventListener("keydown", this.#onKey);
    this.changed();
    this.#heading.focus({ preventScroll: true });
  }

  /**
   * Write what is in it.
   * @param {string} className
   * @param {HTMLElement[]} parts
   */
  write(className, parts) {
    this.#body.className = className;
    this.#body.replaceChildren(...parts);
  }

  /** @param {boolean} [back] whether the focus returns to the button that opened it */
  close(back = true) {
    if (!this.name) return;
    this.name = "";
    if (opened === this) opened = null;
    document.removeEventListener("keydown", this.#onKey);
    this.node.remove();
    this.#body.replaceChildren();
    this.changed();
    if (back) this.#opener()?.focus({ preventScroll: true });
  }
}
