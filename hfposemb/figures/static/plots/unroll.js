// The first picture of a visit draws itself, row by row, by a clock of the browser, which also ends it.

const LASTS = 1500; // ms
const SLOW = 90; // ms between two frames, with which nothing would be seen to move
const FRAMES = 5; // of which the one in the middle counts, since the next plot is painted meanwhile
const PAINTED = 300; // ms that a picture takes at most where the next ones are painted without a stop
const DRAWN = "hfposemb-drawn";
/** @type {boolean | null} */
let first = null;

/**
 * Return whether pictures may draw themselves: on the first page of a visit, if it is seen, until something is done.
 * @param {number} took ms that the picture took to paint; one that is slow means that none draws itself
 */
export function mayUnroll(took) {
  if (first === null) {
    first = isFirst();
    for (const act of ["pointerdown", "keydown"]) addEventListener(act, () => { first = false; }, { capture: true });
  }
  if (took > PAINTED) first = false;
  return first && !document.hidden && !matchMedia("(prefers-reduced-motion: reduce)").matches;
}

/**
 * Show the rows of a picture one after the other; without any call of ``show`` all of it is seen.
 * @param {HTMLElement} box
 * @param {(share: number) => void} show
 */
export function unroll(box, show) {
  const clock = box.animate({ outlineOffset: ["0px", "0px"] }, { duration: LASTS });
  /** @type {number[]} */
  const gaps = [];
  let before = 0;
  const step = (/** @type {number} */ now) => {
    if (before) gaps.push(now - before);
    before = now;
    if (document.hidden || !box.offsetWidth || isSlow(gaps)) clock.finish();
    const share = clock.playState === "finished" ? 1 : Number(clock.currentTime ?? 0) / LASTS;
    show(Math.min(share, 1));
    if (share < 1) requestAnimationFrame(step);
  };
  step(0);
  clock.onfinish = () => show(1); // a hidden page has no frames
}

/**
 * Return whether frames come too seldom.
 * @param {number[]} gaps
 */
export function isSlow(gaps) {
  const last = gaps.slice(-FRAMES);
  return last.length === FRAMES && last.sort((one, other) => one - other)[FRAMES >> 1] > SLOW;
}

// A page that may store nothing counts as the first of its visit.
function isFirst() {
  try {
    const known = sessionStorage.getItem(DRAWN);
    sessionStorage.setItem(DRAWN, "1");
    return !known;
  } catch {
    return true;
  }
}
