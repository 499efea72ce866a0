// Links to lessons, which stay on the page: the URL determines the open lesson.

/**
 * Follow the links of an element, after which the address is read as after a step back.
 * @param {GradioElement} host
 */
export function followLinks({ element }) {
  element.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a[href^='?']") : null;
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    const closes = link.hasAttribute("data-close");
    const query = new URLSearchParams(closes ? location.search : link.getAttribute("href") ?? "");
    if (closes) query.delete("lesson");
    const text = query.toString();
    history.pushState(history.state, "", location.pathname + (text ? "?" + text : ""));
    dispatchEvent(new PopStateEvent("popstate"));
  });
}

/**
 * Follow the questions of Start: links to views, and, where the page has no address of its own, buttons that open a
 * tab.
 * @param {GradioElement} host
 */
export function followQuestions(host) {
  followLinks(host);
  host.element.addEventListener("click", (event) => {
    const chosen = event.target instanceof Element ? event.target.closest("button") : null;
    if (chosen) host.trigger("select", { tab: chosen.dataset.tab });
    else if (event.defaultPrevented) scrollTo(0, 0); // a view was opened: it is read from its beginning
  });
}

/**
 * Follow the links of a lesson's card, and move the focus to it when it opens, for sighted visitors and screen readers
 * alike.
 * @param {GradioElement} host
 */
export function openCard(host) {
  followLinks(host);
  const bring = () => requestAnimationFrame(() => host.element.querySelector("h2")?.focus());
  host.watch("value", bring);
  bring();
}
