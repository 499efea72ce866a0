// Elements of a page, whose content is text or other elements.

import { plain, shortened } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";

/**
 * Create an element; children that are null or empty are left out.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {string} className
 * @param {...(Node | string | null)} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function h(tag, className, ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...present(children));
  return node;
}

/**
 * Return the children that are there.
 * @param {(Node | string | null)[]} children
 * @returns {(Node | string)[]}
 */
export function present(children) {
  return children.filter((child) => child !== null).filter((child) => child !== "");
}

/**
 * Create a button that does not submit.
 * @param {string} className
 * @param {...(Node | string)} children
 * @returns {HTMLButtonElement}
 */
export function button(className, ...children) {
  const node = h("button", className, ...children);
  node.type = "button";
  return node;
}

/**
 * Create an element of SVG.
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, string | number>} attributes
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function s(tag, attributes) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  return /** @type {SVGElementTagNameMap[Tag]} */ (node);
}

/**
 * Show the whole of a text that was shortened on hover.
 * @template {HTMLElement} Element
 * @param {Element} node
 * @param {string} text
 * @returns {Element}
 */
export function whole(node, text) {
  if (shortened(text) !== text) node.title = plain(text, 600);
  return node;
}

/**
 * Return a text in which the given words, if any, are in the accent colour.
 * @param {string} text
 * @param {string} words
 * @returns {(Node | string)[]}
 */
export function emphasised(text, words) {
  const shown = plain(text, 600), at = words ? shown.indexOf(plain(words)) : -1;
  if (at < 0) return [shown];
  return [shown.slice(0, at), h("strong", "accent", plain(words)), shown.slice(at + plain(words).length)];
}
