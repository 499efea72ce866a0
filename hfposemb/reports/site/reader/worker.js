// The worker of the page: it reads and measures, so that the page always answers. One call at a time for each source.

import { HubFiles } from "./hub_files.js";
import { LocalFiles } from "./local_files.js";
import { Model, positionNumbers } from "./model.js";
import { Refusal } from "./refusal.js";
import { sinusoids } from "./row_numbers.js";

const INTERVAL = 50; // ms between two reports of progress

/** A sinusoid of a given size, which answers like a model. */
class Sinusoid {
  files = { signal: /** @type {AbortSignal | null} */ (null), traffic: { requests: 0, bytes: 0 } };

  /**
   * @param {number} rows
   * @param {number} width
   */
  constructor(rows, width) {
    this.rows = rows;
    this.width = width;
  }

  /** @returns {Promise<ModelFacts>} */
  async open() {
    return { commit: "", kind: null, notes: [], type: "", tensors: 0, fileBytes: 0, positions: [""], token: null,
      noToken: "a sinusoid has no tokens", vocabulary: null };
  }

  /**
   * @param {string} _part
   * @param {Told} told
   */
  positions(_part, told) {
    const { rows, width } = this;
    return positionNumbers(sinusoids(rows, width), width, { whole: rows, tensor: "", offset: 0 }, told);
  }
}

const sources = /** @type {Map<number, { model: any, last: Promise<unknown> }>} */ (new Map());
const calls = /** @type {Map<number, AbortController>} */ (new Map());

/**
 * Return the source that is opened.
 * @param {SourceSpec} spec
 * @param {SiteRules} rules
 * @param {AbortSignal} signal
 */
function opened(spec, rules, signal) {
  if (spec.kind === "sinusoid") return new Sinusoid(spec.rows, spec.width);
  const files = spec.kind === "hub" ? new HubFiles(spec.repo, spec.revision, { rules, signal }) : new LocalFiles(spec.files, signal);
  return new Model(files, rules);
}

/**
 * Answer one call.
 * @param {WorkerCall} call
 * @param {AbortSignal} signal
 */
async function answer({ id, source, method, spec, rules, args }, signal) {
  if (method === "open" && spec && rules) sources.set(source, { model: opened(spec, rules, signal), last: Promise.resolve() });
  const found = sources.get(source);
  if (!found) throw new Refusal("this source is not open");
  await found.last.catch(() => {});
  signal.throwIfAborted();
  found.model.files.signal = signal;
  let at = 0;
  /** @type {Told} */
  const told = async (share, stage) => {
    if (performance.now() - at < INTERVAL) return;
    at = performance.now();
    postMessage({ id, share, stage, traffic: { ...found.model.files.traffic } });
    await new Promise((go) => void setTimeout(go)); // a cancellation arrives meanwhile
    signal.throwIfAborted();
  };
  const made = found.model[method](...args, told);
  found.last = made;
  return { result: await made, traffic: { ...found.model.files.traffic } };
}

/** @param {MessageEvent<WorkerCall & { cancel?: number }>} event */
async function received({ data }) {
  if (data.cancel !== undefined) return void calls.get(data.cancel)?.abort();
  const own = new AbortController();
  calls.set(data.id, own);
  try {
    postMessage({ id: data.id, ...await answer(data, own.signal) });
  } catch (error) {
    const { message } = /** @type {Error} */ (error), isPlain = error instanceof Refusal;
    const said = own.signal.aborted ? "" : isPlain ? message : `This is a bug of the page: ${String(message).slice(0, 300)}`;
    postMessage({ id: data.id, error: said });
  } finally {
    calls.delete(data.id);
  }
}

addEventListener("message", received);
