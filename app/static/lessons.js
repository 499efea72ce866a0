// The path through the lessons: what a visitor has revealed is remembered by the browser, and marked in the list.

import { followLinks } from "./links.js";
import { store, stored } from "./storage.js";

const DONE = "hfposemb-lesson";

/**
 * Return the numbers of the lessons that are done.
 * @returns {number[]}
 */
function done() {
  const found = stored().lessons;
  return Array.isArray(found) ? found.filter(Number.isInteger) : [];
}

/**
 * Follow the links of a result, and remember the lesson that it is of.
 * @param {GradioElement} host
 */
export function lessonResult(host) {
  followLinks(host);
  host.watch("value", () => requestAnimationFrame(() => {
    const number = Number(host.element.querySelector("[data-lesson]")?.getAttribute("data-lesson"));
    if (!number) return;
    store({ lessons: [...new Set([...done(), number])] });
    dispatchEvent(new Event(DONE));
  }));
}

/**
 * Mark in the list of lessons which are done and which one is next.
 * @param {GradioElement} host
 */
export function lessonPath(host) {
  followLinks(host);
  const items = [...host.element.querySelectorAll("li")];
  const show = () => {
    const known = new Set(done());
    const next = items.findIndex((_, place) => !known.has(place + 1));
    for (const [place, item] of items.entries()) {
      item.classList.toggle("done", known.has(place + 1));
      item.querySelector(".unseen")?.remove();
      if (known.has(place + 1)) item.append(hidden(", done"));
      if (place === next && known.size) item.setAttribute("aria-current", "step");
      else item.removeAttribute("aria-current");
    }
    const count = items.filter((_, place) => known.has(place + 1)).length;
    const line = host.element.querySelector(".progress");
    if (line) line.textContent = count ? `${count} of ${items.length} done` : "";
  };
  show();
  const follow = () => (host.element.isConnected ? show() : removeEventListener(DONE, follow));
  addEventListener(DONE, follow);
}

/** @param {string} text */
function hidden(text) {
  const span = document.createElement("span");
  span.className = "unseen";
  span.textContent = text;
  return span;
}
