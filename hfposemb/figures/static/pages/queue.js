// The order in which plots are painted: one at a time, and the page answers in between.

/**
 * Plots that wait to be painted. What is on the screen comes first, and there what needs no WebGL, since it takes a
 * fraction of the time; the rest is painted when nothing else is to do.
 */
export class PaintQueue {
  /** @type {Map<Paintable, PromiseWithResolvers<void>>} */
  #waiting = new Map();
  #running = false;
  /** @type {Promise<unknown>} */
  #held = Promise.resolve();

  /**
   * @param {object} page
   * @param {(plot: Paintable) => number} page.distance pixels from the window's top, Infinity for a hidden plot
   * @param {() => number} page.height of the window
   * @param {(near: boolean) => Promise<void>} page.pause lets the page answer before the next plot
   */
  constructor({ distance, height, pause }) {
    this.distance = distance;
    this.height = height;
    this.pause = pause;
  }

  /**
   * Paint a plot when it is its turn; the promise is settled as its painting is.
   * @param {Paintable} plot
   * @returns {Promise<void>}
   */
  add(plot) {
    const waiting = this.#waiting.get(plot) ?? deferred();
    this.#waiting.set(plot, waiting);
    if (!this.#running) void this.#run();
    return waiting.promise;
  }

  /**
   * Take a plot that has left the page from the queue.
   * @param {Paintable} plot
   */
  forget(plot) {
    this.#waiting.get(plot)?.resolve();
    this.#waiting.delete(plot);
  }

  /**
   * Paint nothing until something has happened, such as the page having learned what it is to show.
   * @param {Promise<unknown>} event
   */
  hold(event) {
    this.#held = Promise.all([this.#held, event]);
  }

  /** Paint everything at once: a page that is printed shows all its plots. */
  flush() {
    for (const plot of [...this.#waiting.keys()]) void this.#paint(plot);
  }

  // An error of one plot goes to those who wait for it. Whatever else fails goes to all who wait, and the next plot
  // that is added starts anew.
  async #run() {
    this.#running = true;
    try {
      for (let near = true; this.#waiting.size; near = this.#waiting.size > 0 && this.#next()[0] < this.height()) {
        await this.#held;
        await this.pause(near);
        if (this.#waiting.size) await this.#paint(this.#next()[1]);
      }
    } catch (error) {
      for (const { reject } of this.#waiting.values()) reject(error);
      this.#waiting.clear();
    } finally {
      this.#running = false;
    }
  }

  /** @param {Paintable} plot */
  async #paint(plot) {
    const waiting = this.#waiting.get(plot);
    this.#waiting.delete(plot);
    try {
      await plot.paint();
      waiting?.resolve();
    } catch (error) {
      waiting?.reject(error);
    }
  }

  /** @returns {[number, Paintable]} */
  #next() {
    /** @type {[number, Paintable][]} */
    const found = [...this.#waiting.keys()].map((plot) => [this.distance(plot), plot]);
    return found.reduce((best, one) => (isBefore(one, best, this.height()) ? one : best));
  }
}

/**
 * Return whether a plot is painted before another.
 * @param {[number, Paintable]} one
 * @param {[number, Paintable]} other
 * @param {number} height
 */
function isBefore([far, plot], [least, best], height) {
  return Math.max(far, least) < height && plot.flat !== best.flat ? plot.flat : far < least;
}

/**
 * Return a promise with the functions that settle it.
 * @returns {PromiseWithResolvers<void>}
 */
function deferred() {
  /** @type {any} */
  const found = {};
  found.promise = new Promise((resolve, reject) => Object.assign(found, { resolve, reject }));
  return found;
}
