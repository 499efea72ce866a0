// One opened model: where its tables are, and the numbers of their rows.

import { Checkpoint, matrixOf } from "./checkpoint.js";
import { ModelConfig, word } from "./config.js";
import { meanByDistance } from "./distances.js";
import { parseJson } from "./json_text.js";
import { positionKind } from "./position_kinds.js";
import { pca } from "./principal_axes.js";
import { Refusal, quoted } from "./refusal.js";
import { cosines, nearest, norms, sinusoids, widened } from "./row_numbers.js";
import { candidates, looseNames, partsFed, tablesByPart } from "./table_names.js";
import { VOCABULARIES, readVocabulary } from "./vocabulary.js";

const MOST_POSITIONS = 8192; // that are measured
const MOST_CELLS = 1024; // of a drawn matrix in a direction
const NEIGHBOURS = 10;
const MOST_WORDS = 24;

/** A model among some files. Its tables are read when they are first needed. */
export class Model {
  notes = /** @type {string[]} */ ([]);
  /** @type {Map<string, PositionTable>} */
  #positions = new Map();
  /** @type {TensorPlace | null} */
  #token = null;
  /** @type {StoredRows | null} */
  #table = null;
  /** @type {import("./vocabulary.js").Vocabulary | null} */
  #vocabulary = null;
  #refused = /** @type {Record<string, string>} */ ({});

  /**
   * @param {ModelFiles} files
   * @param {SiteRules} rules
   */
  constructor(files, rules) {
    this.files = files;
    this.rules = bare(rules);
    this.checkpoint = new Checkpoint(files, this.rules);
    this.config = new ModelConfig({}, this.rules);
  }

  /**
   * Find the tables; no row is read.
   * @returns {Promise<ModelFacts>}
   */
  async open() {
    await this.files.open();
    await this.checkpoint.open();
    this.config = new ModelConfig(await this.#readConfig(), this.rules);
    const names = this.checkpoint.names(), { config } = this;
    const token = await this.#find("token", names), position = await this.#find("position", names);
    this.#token = await this.#tokenTable(token, names);
    const isRotary = config.family("text").kind === "rotary"; // a stored table has angles then
    const parts = isRotary ? new Map() : tablesByPart(position), fed = partsFed([...parts.keys()], token[0]?.part ?? "");
    const order = [...parts.keys()].sort((one, other) => Number(!fed.includes(one)) - Number(!fed.includes(other)));
    for (const part of order) await this.#addPositions(part, parts.get(part) ?? "");
    const kind = this.#positions.size ? null : positionKind(config, names);
    if (kind?.form) this.#positions.set("", { part: "", form: kind.form, offset: 0, rows: kind.form.rows });
    const found = VOCABULARIES.map((file) => this.checkpoint.folder + file).find((file) => this.files.listing.has(file));
    return {
      commit: this.files.commit, kind, notes: this.notes,
      type: word(config.config.model_type),
      tensors: names.length, fileBytes: names.length ? this.checkpoint.fileBytes(this.#token?.name ?? names[0]) : 0,
      positions: [...this.#positions.keys()],
      token: this.#token && { tensor: this.#token.name, dtype: this.#token.dtype, bytes: this.#token.stop - this.#token.start,
        rows: matrixOf(this.#token)[0], width: matrixOf(this.#token)[1] },
      noToken: this.#refused.token ?? "no tensor has the name of a token table",
      vocabulary: found ? { file: found, bytes: this.files.size(found) } : null,
    };
  }

  /**
   * Return the numbers of the positions of a part.
   * @param {string} part
   * @param {Told} told
   * @returns {Promise<PositionNumbers>}
   */
  async positions(part, told) {
    const found = this.#positions.get(part);
    if (!found) throw new Refusal("there are no positions to measure");
    const { info, form, offset, rows } = found, count = Math.min(rows, MOST_POSITIONS);
    if (form) return positionNumbers(sinusoids(count, form.width, form), form.width, { whole: rows, tensor: "", offset }, told);
    if (!info) throw new Refusal("there are no positions to measure");
    const stored = await this.checkpoint.rows(info, offset, offset + count, (done, of) => report(told, done / of, "reading positions"));
    return positionNumbers(widened(stored), stored.width, { whole: rows, tensor: info.name, dtype: info.dtype, offset }, told);
  }

  /**
   * Return the cosines of some words, whose rows are read alone unless the whole table is there.
   * @param {string[]} words
   * @param {Told} told
   * @returns {Promise<WordNumbers>}
   */
  async words(words, told) {
    const { info, vocabulary } = await this.#tokens(told);
    const rows = words.slice(0, MOST_WORDS).map((word) => this.#row(word, info, vocabulary));
    const width = matrixOf(info)[1], table = new Float32Array(rows.length * width);
    for (const [place, row] of rows.entries()) {
      await told(place / rows.length, "reading words");
      const stored = this.#table ?? await this.checkpoint.rows(info, row, row + 1);
      table.set(this.#table ? widened(stored, row, row + 1) : widened(stored), place * width);
    }
    const { cells } = await cosines(table, width, MOST_WORDS, () => Promise.resolve());
    return { rows, labels: rows.map((row) => vocabulary.text(row)), cells, norms: Array.from(norms(table, width)) };
  }

  /**
   * Read the whole token table.
   * @param {Told} told
   */
  async table(told) {
    const { info } = await this.#tokens(told), [rows] = matrixOf(info);
    this.#table ??= await this.checkpoint.rows(info, 0, rows, (done, of) => report(told, done / of, "reading the token table"));
  }

  /**
   * Return the nearest tokens of a word.
   * @param {string} word or the number of a row after "#"
   * @param {Told} told
   * @returns {Promise<NeighbourNumbers>}
   */
  async neighbours(word, told) {
    const { info, vocabulary } = await this.#tokens(told), row = this.#row(word, info, vocabulary);
    await this.table(told);
    if (!this.#table) throw new Refusal("the token table was not read");
    const found = await nearest(this.#table, row, NEIGHBOURS, (share) => told(share, "comparing tokens"));
    return { row, label: vocabulary.text(row), found: found.map((one) => ({ ...one, label: vocabulary.text(one.row) })) };
  }

  async #readConfig() {
    const file = `${this.checkpoint.folder}config.json`, limit = this.rules.limits.config_bytes;
    const name = this.files.listing.has(file) ? file : "config.json";
    if (this.files.listing.has(name)) {
      return parseJson(await this.files.whole(name, limit), { file: "config.json", limit, kind: "object", rules: this.rules });
    }
    this.notes.push("there is no config.json: tables were found by tensor name, and positions start at row 0");
    return {};
  }

  /**
   * Return the tables of a role; names that stand for a stored tensor are replaced by it.
   * @param {"token" | "position"} role
   * @param {string[]} stored
   * @returns {Promise<TableName[]>}
   */
  async #find(role, stored) {
    const metadata = await this.checkpoint.metadata(), sizes = this.config.vocabularies(), there = new Set(stored);
    const aliases = new Map([...metadata].filter(([alias, kept]) => there.has(kept) && !there.has(alias)));
    const names = [...stored, ...aliases.keys()], rows = /** @type {Map<string, number>} */ (new Map());
    for (const name of role === "token" ? looseNames(names, this.rules) : []) {
      rows.set(name, (await this.checkpoint.info(aliases.get(name) ?? name)).shape.at(-2) ?? 0);
    }
    const found = candidates(names, role, this.rules, (name) => sizes.has(rows.get(name) ?? -1), sizes.size > 0);
    const kept = /** @type {TableName[]} */ ([]);
    for (const { name, part } of found) {
      const tensor = aliases.get(name) ?? name;
      if (await this.#isTable(role, tensor)) kept.push({ name: tensor, part });
    }
    return kept;
  }

  /**
   * @param {"token" | "position"} role
   * @param {string} tensor
   */
  async #isTable(role, tensor) {
    const { shape, dtype } = await this.checkpoint.info(tensor), long = shape.slice(0, -1).filter((length) => length !== 1);
    if (shape.length < 2 || long.length > 2 || (role === "token" && (shape.at(-1) ?? 0) < 2)) return false;
    if (this.rules.plain.includes(dtype)) return true;
    this.#refused[role] = `${quoted(tensor)} is stored as ${dtype}, which the Python package decodes and this page does not`;
    return false;
  }

  /**
   * @param {TableName[]} found
   * @param {string[]} names
   */
  async #tokenTable(found, names) {
    if (found.length) return this.checkpoint.info(found[0].name);
    const { heads } = this.rules, isTied = Object.keys(this.config.config).length > 0 && this.config.isTied();
    const head = names.find((name) => heads.some((ending) => name === ending || name.endsWith(`.${ending}`)));
    if (!isTied || !head || !await this.#isTable("token", head)) return null;
    this.notes.push(`the token table is ${head}, the output head tied to it by the configuration`);
    return this.checkpoint.info(head);
  }

  /**
   * @param {string} part
   * @param {string} tensor
   */
  async #addPositions(part, tensor) {
    const info = await this.checkpoint.info(tensor);
    if (info.shape.slice(0, -1).filter((length) => length !== 1).length > 1) {
      return void this.notes.push(`${tensor} is a grid of ${info.shape.join(" × ")}, which this page does not draw`);
    }
    const [stored] = matrixOf(info), [outer] = part.split(".");
    const tower = this.rules.towers.some(([name]) => name === outer) ? outer : "";
    const offset = this.config.rowOffset(tower, stored), rows = stored - offset;
    if (rows > 0 && info.shape.at(-1)) this.#positions.set(part, { part, info, offset, rows });
  }

  /** @param {Told} told */
  async #tokens(told) {
    if (!this.#token) throw new Refusal(this.#refused.token ?? "this model has no token table");
    const file = VOCABULARIES.map((name) => this.checkpoint.folder + name).find((name) => this.files.listing.has(name));
    if (!file) throw new Refusal(`there is no ${VOCABULARIES.join(", ")} that names its tokens`);
    if (!this.#vocabulary) {
      const size = this.files.size(file);
      const raw = await this.files.whole(file, this.rules.limits.tokenizer_bytes, (done) =>
        report(told, done / size, `reading ${file}`));
      this.#vocabulary = readVocabulary(file, raw, this.rules.limits.tokenizer_values);
    }
    return { info: this.#token, vocabulary: this.#vocabulary };
  }

  /**
   * @param {string} word
   * @param {TensorPlace} info
   * @param {import("./vocabulary.js").Vocabulary} vocabulary
   */
  #row(word, info, vocabulary) {
    const [rows] = matrixOf(info), numbered = /^#(\d{1,9})$/.exec(word);
    const row = numbered ? Number(numbered[1]) : vocabulary.row(word, rows);
    if (row < 0 || row >= rows) throw new Refusal(`${quoted(word)} is not a token of this model; try a shorter word`);
    return row;
  }
}

/**
 * Report progress of what does not wait for it; a cancellation ends that by itself.
 * @param {Told} told
 * @param {number} share
 * @param {string} stage
 */
function report(told, share, stage) {
  told(share, stage).catch(() => {});
}

/**
 * Return what is drawn of a table of positions.
 * @param {Float32Array} table
 * @param {number} width
 * @param {{ whole: number, tensor: string, dtype?: string, offset: number }} about
 * @param {Told} told
 * @returns {Promise<PositionNumbers>}
 */
export async function positionNumbers(table, width, about, told) {
  const rows = table.length / width, kept = finiteRows(table, width);
  const finite = kept.length === rows ? table
    : Float32Array.from({ length: kept.length * width }, (_, at) => table[kept[Math.floor(at / width)] * width + at % width]);
  const dims = Math.min(3, width, Math.max(kept.length - 1, 1));
  const { coordinates, shares } = await pca(finite, width, dims, (share) => told(share, "finding the axes"));
  const { cells, side, step } = await cosines(table, width, MOST_CELLS, (share) => told(share, "comparing positions"));
  const byDistance = await meanByDistance(table, width, (share) => told(share, "comparing distances"));
  return { ...about, rows, width, kept, coordinates, shares, cells, side, step, norms: norms(table, width), byDistance };
}

/**
 * @param {Float32Array} table
 * @param {number} width
 */
function finiteRows(table, width) {
  const rows = Array.from({ length: table.length / width }, (_, row) => row);
  return Int32Array.from(rows.filter((row) => table.subarray(row * width, (row + 1) * width).every(Number.isFinite)));
}

/**
 * Return values without what every object inherits, since a file may state "constructor" as a name.
 * @template T
 * @param {T} values
 * @returns {T}
 */
function bare(values) {
  if (values === null || typeof values !== "object" || Array.isArray(values)) return values;
  return Object.assign(Object.create(null), ...Object.entries(values).map(([name, value]) => ({ [name]: bare(value) })));
}
