// The address of the page, which holds what is shown.

import { onceReady } from "./ready.js";

const TOGETHER = 1500; // ms: changes that are closer share an entry of the history
const LONGEST_QUERY = 9000;

/**
 * Return an address with other values of our parameters, or null if it has them already. Other parameters stay.
 * @param {{ pathname: string, search: string, hash: string }} at
 * @param {string} query
 * @param {string[]} names of our parameters
 * @returns {string | null}
 */
export function addressWith({ pathname, search, hash }, query, names) {
  const wanted = new URLSearchParams(query), all = new URLSearchParams(search);
  const ours = new URLSearchParams([...all].filter(([name]) => names.includes(name)));
  if (wanted.toString() === ours.toString()) return null;
  for (const name of names) all.delete(name);
  for (const [name, value] of wanted) all.append(name, value);
  const text = all.toString();
  return pathname + (text && "?" + text) + hash;
}

/**
 * Write what is shown into the address, and show what an address holds. While one is being restored, earlier values of
 * the page are ignored.
 * @param {GradioElement} host
 * @param {{ names: string[] }} options
 */
export function followAddress({ element, trigger, props, watch }, { names }) {
  let moved = 0, reading = false, restored = "";
  const show = () => {
    reading = true;
    trigger("select", { query: location.search.slice(0, LONGEST_QUERY) });
  };
  watch("value", () => {
    const said = JSON.parse(props.value);
    if (reading && said.restored === restored) return;
    if (said.restored !== restored) moved = Date.now();
    reading = false;
    restored = said.restored;
    const address = addressWith(location, said.query, names);
    if (address === null) return;
    history[Date.now() - moved < TOGETHER ? "replaceState" : "pushState"](history.state, "", address);
    moved = Date.now();
  });
  window.addEventListener("popstate", function step() {
    if (element.isConnected) show();
    else window.removeEventListener("popstate", step);
  });
  if (names.some((name) => new URLSearchParams(location.search).has(name))) onceReady(show);
}
