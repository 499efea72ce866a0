// The address of the page, which holds what is shown.

import { page } from "../../hfposemb/figures/static/pages/page.js";
import { addressWith, tellSpaces } from "./query.js";
import { onceReady } from "./ready.js";

const TOGETHER = 1500; // ms: changes that are closer share an entry of the history
const LONGEST_QUERY = 9000;
const UNFOLDED = "unfolded";
const SETTLED = 30_000; // ms: until the panels above have their heights
const LONGEST_HOLD = 10_000; // ms: then what there is is painted, whatever the server does

const LONGEST_COPY = 4000; // ms: then the address is taken as it is

/** @type {() => void} */
let ask = () => {};
/** @type {(() => void)[]} */
const asked = [];

/** Wait until the address says all that has been chosen by now, or for a while. */
export function addressNow() {
  return new Promise((settle) => {
    asked.push(() => settle(null));
    setTimeout(settle, LONGEST_COPY);
    ask();
  });
}

/**
 * Bring the fold that an address opens into view, unless a lesson stands above it.
 * @param {URLSearchParams} query
 */
function bringFold(query) {
  const name = [...query.keys()].find((key) => query.get(key) === UNFOLDED);
  if (!name || new URLSearchParams(location.search).has("lesson")) return;
  // Its tab may not be drawn yet, and panels above grow while they are drawn; whoever scrolls goes where they want.
  const moved = new AbortController(), fold = `.fold-${CSS.escape(name)}`;
  const grown = new ResizeObserver(() => document.querySelector(fold)?.scrollIntoView({ block: "start" }));
  const stop = () => { grown.disconnect(); moved.abort(); };
  for (const name of ["wheel", "touchstart", "pointerdown", "keydown"]) addEventListener(name, stop, moved);
  setTimeout(stop, SETTLED);
  grown.observe(document.body);
}

/**
 * Write what is shown into the address, and show what an address holds. While one is being restored, earlier values of
 * the page are ignored.
 * @param {GradioElement} host
 * @param {{ names: string[] }} options
 */
export function followAddress({ element, trigger, props, watch }, { names }) {
  let moved = 0, reading = false, restored = "";
  let shown = () => {};
  ask = () => trigger("submit", {});
  const show = () => {
    reading = true;
    trigger("select", { query: location.search.slice(0, LONGEST_QUERY) });
  };
  watch("value", () => {
    const said = JSON.parse(props.value);
    if (said.asked) queueMicrotask(() => asked.splice(0).forEach((settle) => settle()));
    if (reading && said.restored === restored) return;
    if (said.restored !== restored) moved = Date.now();
    reading = false;
    restored = said.restored;
    if (restored) {
      shown();
      bringFold(new URLSearchParams(said.query));
    }
    const address = addressWith(location, said.query, names);
    if (address === null) return;
    history[Date.now() - moved < TOGETHER ? "replaceState" : "pushState"](history.state, "", address);
    tellSpaces(window, location);
    moved = Date.now();
  });
  window.addEventListener("popstate", function step() {
    if (element.isConnected) show();
    else window.removeEventListener("popstate", step);
  });
  if (!names.some((name) => new URLSearchParams(location.search).has(name))) return;
  // The first tab is not painted while the page is on its way to another.
  page.queue.hold(new Promise((release) => {
    shown = () => release(null);
    setTimeout(shown, LONGEST_HOLD);
  }));
  onceReady(show);
}
