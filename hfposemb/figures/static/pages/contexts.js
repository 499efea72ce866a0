// WebGL contexts, of which a browser has about sixteen. A plot in a hidden tab keeps its own until others need them, so
// that the tab is there at once when it is shown again.

const MOST = 8;

/** The plots of a page that hold contexts. */
export class Contexts {
  /** @type {Map<ContextHolder, number>} */
  #held = new Map();
  /** @type {Set<ContextHolder>} */
  #hidden = new Set(); // the longest hidden first

  /**
   * Note that a plot is on the screen and holds so many contexts.
   * @param {ContextHolder} plot
   * @param {number} count
   */
  hold(plot, count) {
    this.#hidden.delete(plot);
    if (count) this.#held.set(plot, count);
    else this.#held.delete(plot);
    this.#spare();
  }

  /**
   * Note that a plot is hidden.
   * @param {ContextHolder} plot
   */
  hide(plot) {
    if (this.#held.has(plot)) this.#hidden.add(plot);
  }

  // Free plots that are hidden while too many contexts are held.
  #spare() {
    for (const plot of [...this.#hidden]) {
      if ([...this.#held.values()].reduce((sum, count) => sum + count, 0) <= MOST) return;
      plot.free();
    }
  }
}
