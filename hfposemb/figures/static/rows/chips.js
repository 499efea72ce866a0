// Words in a box that scrolls, each a button.

import { button, h } from "./elements.js";
import { plain } from "./text.js";

/**
 * Return the chips of a panel, or nothing.
 * @param {NeighbourSpec[]} rows
 * @param {string} title of the panel
 * @param {(row: NeighbourSpec) => void} choose
 */
export function chipBox(rows, title, choose) {
  if (!rows.length) return null;
  const list = h("ul", "chips", ...rows.map((row) => {
    const node = button("chip", h("bdi", "", plain(row.label)));
    node.onclick = () => choose(row);
    return h("li", "", node);
  }));
  list.setAttribute("aria-label", title);
  return list;
}
