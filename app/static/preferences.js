// The visitor's own sources, which the browser remembers.

import { onceReady } from "./ready.js";
import { store, stored } from "./storage.js";

/**
 * Return the sources that are remembered, newest first.
 * @param {number} most
 * @returns {unknown[]}
 */
function known(most) {
  const { sources } = stored();
  return Array.isArray(sources) ? sources.slice(0, most) : [];
}

/**
 * Remember the sources of a page, and send those of earlier visits to the server.
 * @param {GradioElement} host
 * @param {{ most: number }} options
 */
export function rememberSources({ trigger, props, watch }, { most }) {
  watch("value", () => {
    const chosen = JSON.parse(props.value || "[]");
    if (chosen.length) store({ sources: [...new Set([...chosen, ...known(most)])].slice(0, most) });
  });
  if (known(most).length) onceReady(() => trigger("select", { sources: known(most) }));
}
