// Files that the reader chose on this machine. They are read in slices by the browser; nothing of them is sent anywhere.

import { Refusal, fault, quoted } from "./refusal.js";

/** Some files of one folder. */
export class LocalFiles {
  commit = "";
  traffic = { requests: 0, bytes: 0 };

  /**
   * @param {File[]} files
   * @param {AbortSignal} signal
   */
  constructor(files, signal) {
    this.files = new Map(files.map((file) => [file.name, file]));
    this.signal = signal;
  }

  get listing() {
    return new Map([...this.files].map(([name, { size }]) => [name, { size, oid: "" }]));
  }

  /** Nothing is asked of a server. */
  async open() {}

  /** @param {string} name */
  size(name) {
    return this.#file(name).size;
  }

  /**
   * @param {string} name
   * @param {number} limit
   * @param {(done: number) => void} [progress]
   */
  async whole(name, limit, progress) {
    const { size } = this.#file(name);
    if (size > limit) throw fault(name, `has ${size} bytes; the limit is ${limit}`);
    return this.range(name, 0, size, progress);
  }

  /**
   * @param {string} name
   * @param {number} start
   * @param {number} stop
   * @param {(done: number) => void} [progress]
   * @returns {Promise<Uint8Array<ArrayBuffer>>}
   */
  async range(name, start, stop, progress = () => {}) {
    const file = this.#file(name), found = new Uint8Array(stop - start), reader = file.slice(start, stop).stream().getReader();
    let done = 0;
    this.traffic.requests++;
    try {
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        this.signal.throwIfAborted();
        found.set(part.value, done);
        done += part.value.length;
        this.traffic.bytes += part.value.length;
        progress(done);
      }
    } catch (error) {
      this.signal.throwIfAborted();
      throw fault(name, `cannot be read, perhaps because it changed; choose it again (${String(error).slice(0, 80)})`);
    }
    if (done < found.length) throw fault(name, `has ended after ${done} of ${found.length} bytes; choose it again`);
    return found;
  }

  /** @param {string} name */
  #file(name) {
    const found = this.files.get(name);
    if (!found) throw new Refusal(`the file ${quoted(name)} was not chosen; choose it together with the others`);
    return found;
  }
}
