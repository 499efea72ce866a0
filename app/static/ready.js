// Calls what a page asks of the server on its own only once the server knows the first tab; the answer to the first tab
// would overwrite it otherwise.

/** @type {() => void} */
let answered = () => {};
/** @type {Promise<void>} */
const ready = new Promise((resolve) => { answered = resolve; });

/**
 * Call a function once the server knows the first tab.
 * @param {() => void} what
 */
export function onceReady(what) {
  void ready.then(what);
}

/**
 * Announce the server's answer to the first tab, which fills the component.
 * @param {GradioElement} host
 */
export function announceReady({ props, watch }) {
  const say = () => {
    if (props.value) answered();
  };
  watch("value", say);
  say(); // the answer may have come before this script
}

/**
 * Ask for a tab whenever the place that it is to be drawn in is seen, until it is drawn: the style sheet then hides it.
 * @param {GradioElement} host
 */
export function openTab({ element, trigger }) {
  const seen = new IntersectionObserver((entries) => {
    if (entries.some((one) => one.isIntersecting)) trigger("submit", {});
  });
  seen.observe(element);
}
