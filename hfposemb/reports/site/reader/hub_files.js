// The files of a public model on the Hub, by ranges of one commit. Every answer is checked as the Python client does.

import { parseJson } from "./json_text.js";
import { Passing } from "./passing.js";
import { Refusal, fault, quoted } from "./refusal.js";

const TRIES = 4; // of a request that failed for a reason that may pass
const LONGEST_PAUSE = 10_000; // ms that a server may ask to wait
const BUSY = [408, 425, 429, 500, 502, 503, 504];

/** The files of one repository at one commit. */
export class HubFiles {
  /** @type {Map<string, { size: number, oid: string }>} */
  listing = new Map();
  commit = "";
  traffic = { requests: 0, bytes: 0 };
  /** @type {Map<string, string>} */
  #tags = new Map();

  /**
   * @param {string} repo
   * @param {string} revision
   * @param {object} site
   * @param {SiteRules} site.rules
   * @param {AbortSignal} site.signal cancels all requests
   */
  constructor(repo, revision, { rules, signal }) {
    this.repo = repo;
    this.revision = revision;
    this.rules = rules;
    this.signal = signal;
  }

  /** Ask for the commit of the revision and the files that it has. */
  async open() {
    const path = `/api/models/${this.repo}/revision/${encodeURIComponent(this.revision)}?blobs=true`;
    const { rules } = this, limit = rules.limits.listing_bytes;
    const raw = await this.#retried(path, async () => {
      const answer = await this.#ask(rules.endpoint + path, {}, "no-store");
      if (answer.status !== 200) throw this.#refused(answer, "its files");
      return this.#body(answer, limit, null, () => {});
    });
    const found = parseJson(raw, { file: "the answer of the Hub", limit, kind: "object", rules });
    if (!/^[0-9a-f]{40}$/.test(found.sha)) throw new Refusal(`${this.repo}: the Hub names no commit; try again`);
    this.commit = found.sha;
    for (const { rfilename: name, size, blobId, lfs } of Array.isArray(found.siblings) ? found.siblings : []) {
      if (typeof name !== "string" || !Number.isSafeInteger(size) || size < 0) continue;
      this.listing.set(name, { size, oid: String(lfs?.sha256 ?? blobId ?? "") });
    }
  }

  /** @param {string} name */
  size(name) {
    const found = this.listing.get(name);
    if (!found) throw new Refusal(`${this.repo} has no file ${quoted(name)} at ${this.commit.slice(0, 8)}`);
    return found.size;
  }

  /**
   * Return a whole small file.
   * @param {string} name
   * @param {number} limit
   * @param {(done: number) => void} [progress]
   * @returns {Promise<Uint8Array<ArrayBuffer>>}
   */
  async whole(name, limit, progress = () => {}) {
    const size = this.size(name);
    if (size > limit) throw fault(name, `has ${size} bytes; the limit is ${limit}`);
    return this.#retried(name, async () => {
      const answer = await this.#ask(this.#url(name), {}, "default");
      this.#checkHost(answer, name);
      if (answer.status !== 200) throw this.#refused(answer, name);
      this.#checkVersion(answer, name);
      return this.#body(answer, size, size, progress);
    });
  }

  /**
   * Return the bytes of a file from `start` up to `stop`; what was interrupted is resumed.
   * @param {string} name
   * @param {number} start
   * @param {number} stop
   * @param {(done: number) => void} [progress]
   * @returns {Promise<Uint8Array<ArrayBuffer>>}
   */
  async range(name, start, stop, progress = () => {}) {
    const size = this.size(name), found = new Uint8Array(stop - start);
    if (!(start >= 0 && start <= stop && stop <= size)) throw fault(name, `has no bytes ${start} to ${stop}`);
    let done = 0;
    await this.#retried(name, async () => {
      if (done === found.length) return;
      const [first, last] = [start + done, stop - 1];
      const answer = await this.#ask(this.#url(name), { Range: `bytes=${first}-${last}` }, "default");
      this.#checkPart(answer, name, first, last, size);
      await this.#pour(answer, (chunk) => {
        if (done + chunk.length > found.length) throw new Passing("the answer is longer than the range");
        found.set(chunk, done);
        done += chunk.length;
        progress(done);
      });
      if (done < found.length) throw new Passing(`the answer ended after ${done} of ${found.length} bytes`);
    });
    return found;
  }

  /** @param {string} name */
  #url(name) {
    const path = name.split("/").map(encodeURIComponent).join("/");
    return `${this.rules.endpoint}/${this.repo}/resolve/${this.commit}/${path}`;
  }

  /**
   * @param {string} url
   * @param {Record<string, string>} headers
   * @param {RequestCache} cache
   */
  async #ask(url, headers, cache) {
    this.traffic.requests++;
    const own = new AbortController(), cancel = () => own.abort(this.signal.reason);
    this.signal.throwIfAborted();
    this.signal.addEventListener("abort", cancel);
    let response;
    try {
      const options = { credentials: /** @type {const} */ ("omit"), referrerPolicy: /** @type {const} */ ("no-referrer") };
      response = await fetch(url, { headers, cache, ...options, signal: own.signal });
    } catch (error) {
      this.signal.throwIfAborted();
      throw error instanceof TypeError ? new Passing("the Hub cannot be reached, or it answers to its own pages alone") : error;
    }
    const { status, headers: got, url: address } = response;
    return { response, status, headers: got, address, abort: () => own.abort() };
  }

  /**
   * Check an answer that is to be a part of a file, before anything of its body is read.
   * @param {HubAnswer} answer
   * @param {string} name
   * @param {number} first
   * @param {number} last
   * @param {number} size of the file, as the Hub lists it
   */
  #checkPart(answer, name, first, last, size) {
    const { status, headers } = answer;
    this.#checkHost(answer, name);
    if (status === 200) {
      answer.abort();
      const [needed, all] = [last - first + 1, size].map((count) => count.toLocaleString("en"));
      const found = `the server ignores ranges: ${needed} bytes are needed, but it sends all ${all}`;
      throw fault(name, `${found}; it was stopped. Download the file and open it from disk`);
    }
    if (status !== 206) throw this.#refused(answer, name);
    this.#checkVersion(answer, name);
    const stated = headers.get("content-range") ?? "", wanted = `bytes ${first}-${last}/${size}`;
    if (stated.trim() !== wanted) {
      answer.abort();
      throw new Passing(`the answer has the range ${quoted(stated)}; ${quoted(wanted)} is needed`);
    }
    const length = headers.get("content-length");
    if (length !== null && length !== String(last - first + 1)) {
      answer.abort();
      throw new Passing(`the answer has ${quoted(length)} bytes; ${last - first + 1} are needed`);
    }
  }

  /**
   * Check that an answer is of the Hub or one of its hosts. The policy of the page says the same to the browser.
   * @param {HubAnswer} answer
   * @param {string} name
   */
  #checkHost(answer, name) {
    const { protocol, hostname } = new URL(answer.address), { hosts, domains, endpoint } = this.rules;
    const isKnown = hosts.includes(hostname) || domains.some((domain) => `.${hostname}`.endsWith(`.${domain}`));
    if (isKnown && (protocol === "https:" || endpoint.startsWith(`${protocol}//`))) return;
    answer.abort();
    throw fault(name, `the Hub redirects to ${quoted(hostname)}, which is not one of its hosts`);
  }

  /**
   * Check that an answer is of the commit, and of the version that the other parts of the file have.
   * @param {HubAnswer} answer
   * @param {string} name
   */
  #checkVersion(answer, name) {
    const wrong = (/** @type {string} */ rule) => {
      answer.abort();
      return fault(name, rule);
    };
    const { headers } = answer;
    const commit = headers.get("x-repo-commit"), tag = headers.get("etag") ?? "";
    if (commit !== null && commit !== this.commit) throw wrong("the answer is of another commit; open the model again");
    if (/^(text\/html|multipart\/)/i.test(headers.get("content-type") ?? "")) {
      throw wrong(`the answer is ${quoted(headers.get("content-type") ?? "")}, not the file`);
    }
    const known = this.#tags.get(name);
    if (tag.startsWith("W/") || (known !== undefined && known !== tag)) {
      throw wrong(known === undefined ? "the answer has only a weak ETag" : "the file changed between two reads; open it again");
    }
    if (!tag) throw wrong("the answer has no ETag, so its parts could come from two versions of the file");
    this.#tags.set(name, tag);
  }

  /**
   * Read a whole body.
   * @param {HubAnswer} answer
   * @param {number} limit
   * @param {number | null} size that it must have
   * @param {(done: number) => void} progress
   * @returns {Promise<Uint8Array<ArrayBuffer>>}
   */
  async #body(answer, limit, size, progress) {
    const chunks = /** @type {Uint8Array<ArrayBuffer>[]} */ ([]);
    let done = 0;
    await this.#pour(answer, (chunk) => {
      done += chunk.length;
      if (done > limit) throw new Refusal(`${this.repo}: an answer exceeds its limit of ${limit} bytes`);
      chunks.push(chunk);
      progress(done);
    });
    if (size !== null && done !== size) throw new Passing(`the answer has ${done} bytes; the file has ${size}`);
    return new Uint8Array(await new Blob(chunks).arrayBuffer());
  }

  /**
   * Pass on a body as it arrives; an error in `take` ends the connection.
   * @param {HubAnswer} answer
   * @param {(chunk: Uint8Array<ArrayBuffer>) => void} take
   */
  async #pour({ response, abort }, take) {
    const reader = response.body?.getReader();
    try {
      for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
        this.traffic.bytes += part.value.length;
        take(part.value);
      }
    } catch (error) {
      abort();
      this.signal.throwIfAborted();
      if (error instanceof TypeError) throw new Passing("the connection broke");
      throw error;
    }
  }

  /**
   * Return the error for an answer that is not the file, with what to do.
   * @param {HubAnswer} answer
   * @param {string} what
   */
  #refused(answer, what) {
    const { status, headers } = answer, code = headers.get("x-error-code");
    answer.abort();
    const asked = Number(headers.get("retry-after") ?? NaN);
    if (BUSY.includes(status)) return new Passing(`the Hub returned status ${status}`, 1000 * (asked || 0));
    if (code === "GatedRepo") {
      return new Refusal(`${this.repo} is gated; this page reads public models only. The app opens gated ones with your token`);
    }
    if (code === "RevisionNotFound") return new Refusal(`${this.repo} has no revision ${quoted(this.revision)}`);
    if (code === "EntryNotFound") return new Refusal(`${this.repo} has no file ${quoted(what)}`);
    if (status === 401 || status === 404) {
      return new Refusal(`${this.repo} is not a public model on the Hub; check its name`);
    }
    return new Refusal(`${this.repo}: the Hub returned status ${status} for ${what}; try again`);
  }

  /**
   * @template T
   * @param {string} what
   * @param {() => Promise<T>} attempt
   * @returns {Promise<T>}
   */
  async #retried(what, attempt) {
    for (let turn = 1; ; turn++) {
      try {
        return await attempt();
      } catch (error) {
        if (!(error instanceof Passing)) throw error;
        const pause = error.wait || this.rules.limits.retry_pause * 2 ** (turn - 1);
        if (turn === TRIES || pause > LONGEST_PAUSE) {
          const asked = error.wait ? ` and asks to wait ${Math.round(error.wait / 1000)} s` : "";
          throw new Refusal(`${this.repo} ${what}: ${error.message}${asked}; try again later`);
        }
        await new Promise((go) => void setTimeout(go, pause));
        this.signal.throwIfAborted();
      }
    }
  }
}
