// The safetensors checkpoint among the files of a model: which files it has, their headers, and bytes of its tensors.

import { headerLength, parseHeader } from "./header.js";
import { parseJson } from "./json_text.js";
import { Refusal, fault, quoted } from "./refusal.js";

const MODEL = "model.safetensors";
const INDEX = "model.safetensors.index.json";
const SHARD = /-\d{5}-of-\d{5}\./;
const LEFTOVERS = /^(optimizer|scheduler|training_args|rng_state|random_states|scaler|events\.out)/;
const FIRST_BYTES = 100_000; // of the first request, which nearly always has the whole header
const WIDTHS = /** @type {Record<string, number>} */ ({ F64: 8, F32: 4, F16: 2, BF16: 2 });

/** A checkpoint; the header of a file is read when one of its tensors is first used. */
export class Checkpoint {
  /** @type {Map<string, string>} */
  #files = new Map(); // of each tensor
  /** @type {Map<string, Promise<Header>>} */
  #headers = new Map();
  folder = "";

  /**
   * @param {ModelFiles} files
   * @param {SiteRules} rules
   */
  constructor(files, rules) {
    this.files = files;
    this.rules = rules;
  }

  /** Find the file or the index. */
  async open() {
    const listed = [...this.files.listing.keys()];
    let chosen = chosenFile(listed);
    if (chosen === null) {
      this.folder = await this.#module(listed);
      const inside = listed.filter((name) => name.startsWith(this.folder)).map((name) => name.slice(this.folder.length));
      chosen = this.folder ? chosenFile(inside) : null;
    }
    if (chosen === null) {
      const others = listed.filter((name) => /\.(bin|pt|pth|ckpt|gguf|onnx|h5|msgpack)$/.test(name));
      const found = others.length ? `, only ${quoted(others.slice(0, 3).join(", "))}` : "";
      throw new Refusal(`there is no .safetensors file${found}; the Python package reads other formats`);
    }
    const path = this.folder + chosen;
    if (!chosen.endsWith(".json")) {
      const { tensors } = await this.header(path);
      this.#files = new Map([...tensors.keys()].map((name) => [name, path]));
      return;
    }
    const limit = this.rules.limits.header_bytes, raw = await this.files.whole(path, limit);
    const index = parseJson(raw, { file: chosen, limit, kind: "object", unique: true, rules: this.rules });
    this.#files = new Map(Object.entries(weightMap(index, chosen)).map(([name, file]) => [name, this.folder + file]));
  }

  /** @returns {string[]} */
  names() {
    return [...this.#files.keys()];
  }

  /** Return the text values of the headers read so far. */
  async metadata() {
    const read = await Promise.all(this.#headers.values());
    return new Map(read.flatMap(({ metadata }) => [...metadata]));
  }

  /**
   * @param {string} file
   * @returns {Promise<Header>}
   */
  header(file) {
    const known = this.#headers.get(file) ?? this.#readHeader(file);
    this.#headers.set(file, known);
    known.catch(() => this.#headers.delete(file)); // it may have been cancelled
    return known;
  }

  /**
   * @param {string} name
   * @returns {Promise<TensorPlace>}
   */
  async info(name) {
    const file = this.#files.get(name) ?? "";
    const found = (await this.header(file)).tensors.get(name);
    if (!found) throw fault(file, `the index says that ${quoted(name)} is in this shard, but its header does not list it`);
    return found;
  }

  /** @param {string} name */
  fileBytes(name) {
    return this.files.size(this.#files.get(name) ?? "");
  }

  /**
   * Return the stored bytes of some rows of a table, as they are in the file.
   * @param {TensorPlace} info
   * @param {number} start
   * @param {number} stop
   * @param {(done: number, of: number) => void} [progress]
   * @returns {Promise<StoredRows>}
   */
  async rows(info, start, stop, progress = () => {}) {
    const { name, dtype, file } = info, [rows, width] = matrixOf(info), bytes = width * (WIDTHS[dtype] ?? 0);
    const { rows: mostRows, columns, table_bytes: most } = this.rules.limits;
    if (!bytes) throw fault(file, `${quoted(name)} is stored as ${dtype}; this page reads F32, F16, BF16 and F64`);
    if (stop - start > mostRows || width > columns) {
      throw fault(file, `${quoted(name)} has ${rows} rows of ${width}; the limit is ${mostRows} rows of ${columns}`);
    }
    const [first, last] = [info.start + start * bytes, info.start + stop * bytes];
    if (last - first > most) throw fault(file, `${quoted(name)} takes ${last - first} bytes; the limit is ${most}`);
    const raw = await this.files.range(file, first, last, (done) => progress(done, last - first));
    return { raw, dtype, rows: stop - start, width };
  }

  /** @param {string} file */
  async #readHeader(file) {
    const size = this.files.size(file), { rules } = this, name = file.split("/").at(-1) ?? file;
    let start = await this.files.range(file, 0, Math.min(FIRST_BYTES, size));
    const length = headerLength(start, size, name, rules);
    if (start.length < 8 + length) {
      const rest = await this.files.range(file, start.length, 8 + length);
      start = new Uint8Array(await new Blob([start, rest]).arrayBuffer());
    }
    const header = parseHeader(start.subarray(8, 8 + length), size, name, rules);
    for (const tensor of header.tensors.values()) tensor.file = file;
    return header;
  }

  // The folder of the model in a repository of sentence-transformers, with a slash at its end.
  /**
   * @param {string[]} listed
   * @returns {Promise<string>}
   */
  async #module(listed) {
    if (!listed.includes("modules.json")) return listed.some((name) => name.startsWith("0_Transformer/")) ? "0_Transformer/" : "";
    const limit = this.rules.limits.config_bytes, raw = await this.files.whole("modules.json", limit);
    const modules = parseJson(raw, { file: "modules.json", limit, kind: "array", rules: this.rules });
    const objects = modules.filter((/** @type {any} */ one) => one !== null && typeof one === "object");
    const chosen = objects.find((/** @type {any} */ one) => String(one.type).endsWith(".Transformer")) ?? objects[0];
    const path = chosen?.path;
    if (path === "") return "";
    if (!isPlain(path)) throw fault("modules.json", "must name a folder next to it as the path of the model");
    return `${path}/`;
  }
}

/**
 * Return the rows and columns of a tensor without its axes of length 1.
 * @param {TensorPlace} info
 * @returns {[number, number]}
 */
export function matrixOf({ name, shape, file }) {
  const long = shape.slice(0, -1).filter((length) => length !== 1);
  if (shape.length < 2 || long.length > 1) {
    throw fault(file, `${quoted(name)} must have two axes [rows, width]; its shape is [${shape.join(", ")}]`);
  }
  return [long[0] ?? 1, shape.at(-1) ?? 0];
}

/**
 * Choose the checkpoint of a folder: a .safetensors file, or the index of several; null if there is neither.
 * @param {string[]} listed
 * @returns {string | null}
 */
export function chosenFile(listed) {
  const names = listed.filter((name) => !name.includes("/"));
  const stored = names.filter((name) => name.endsWith(".safetensors") && !LEFTOVERS.test(name));
  const indexes = names.filter((name) => /\.safetensors\.index(\.\w+)?\.json$/.test(name));
  for (const wanted of [MODEL, INDEX]) if (names.includes(wanted)) return wanted;
  if (names.includes("model_index.json")) return null;
  for (const found of [indexes, stored]) if (found.length === 1) return found[0];
  const several = quoted((indexes.length ? indexes : stored).join(", "));
  if (indexes.length || !stored.every((name) => SHARD.test(name))) {
    throw new Refusal(`there are several checkpoints, ${several}; this page opens a model that has one`);
  }
  if (stored.length) throw new Refusal(`there are shards, ${several}, but not their index, ${INDEX}`);
  return null;
}

/**
 * Return the file of each tensor from an index.
 * @param {any} index
 * @param {string} file
 * @returns {Record<string, string>}
 */
export function weightMap(index, file) {
  const map = index.weight_map, isMap = map !== null && typeof map === "object" && !Array.isArray(map);
  if (!isMap || !Object.keys(map).length) throw fault(file, "must have a weight_map that names the file of each tensor");
  for (const [name, shard] of Object.entries(map)) {
    if (isPrintable(name) && isPlain(shard) && shard.endsWith(".safetensors")) continue;
    throw fault(file, `weight_map must name .safetensors files of this folder; found ${quoted(name)} in ${quoted(String(shard))}`);
  }
  return map;
}

/**
 * Return whether a value names something directly inside a folder.
 * @param {unknown} name
 * @returns {name is string}
 */
function isPlain(name) {
  return typeof name === "string" && isPrintable(name) && !["", ".", ".."].includes(name) && !/[/\\:]/.test(name);
}

/** @param {string} text */
function isPrintable(text) {
  return !/[\p{C}\p{Z}]/u.test(text.replaceAll(" ", ""));
}
