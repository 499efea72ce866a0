// The page's side of the worker: calls, their progress, and their cancellation.

import { embedded, embeddedFile } from "../../../figures/static/pages/embedded.js";
import { CallError } from "./call_error.js";

/** Calls the worker. */
export class Engine {
  #calls = /** @type {Map<number, PendingCall>} */ (new Map());
  #last = 0;

  constructor() {
    const { url } = embeddedFile(embedded("worker"), "text/javascript");
    this.worker = new Worker(url);
    this.worker.addEventListener("message", ({ data }) => this.#hear(data));
    this.worker.addEventListener("error", (event) => this.#fail(event.message));
  }

  /**
   * Call a method of a source.
   * @param {number} source
   * @param {string} method
   * @param {object} [more]
   * @param {unknown[]} [more.args]
   * @param {SourceSpec} [more.spec]
   * @param {SiteRules} [more.rules]
   * @param {(told: CallProgress) => void} [more.progress]
   * @returns {{ done: Promise<any>, cancel: () => void }}
   */
  call(source, method, { args = [], progress = () => {}, ...more } = {}) {
    const id = ++this.#last;
    const done = new Promise((resolve, reject) => this.#calls.set(id, { resolve, reject, progress }));
    this.worker.postMessage({ id, source, method, args, ...more });
    return { done, cancel: () => this.worker.postMessage({ cancel: id }) };
  }

  /** @param {WorkerAnswer} answer */
  #hear({ id, share, stage = "", traffic, error, result }) {
    const call = this.#calls.get(id);
    if (!call) return;
    if (traffic) call.progress({ share: share ?? 1, stage, traffic });
    if (share !== undefined) return;
    this.#calls.delete(id);
    if (error === undefined) call.resolve(result);
    else call.reject(new CallError(error));
  }

  /** @param {string} message */
  #fail(message) {
    for (const { reject } of this.#calls.values()) reject(new CallError(`The page cannot work: ${message}`));
    this.#calls.clear();
  }
}
