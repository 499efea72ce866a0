// Values of config.json within bounds, and the parts of a model: the rules of config_values.py and families.py.

const MOST_NESTED = 3;

// Fields that name the kind of positions: the usual one, that of models of speech, and OpenLM's.
const KIND_FIELDS = ["position_embedding_type", "position_embeddings_type", "positional_embedding_type"];

/** What the configuration and the rules about architectures say of one model. */
export class ModelConfig {
  /**
   * @param {Record<string, any>} config
   * @param {SiteRules} rules
   */
  constructor(config, rules) {
    /** @type {Record<string, any>} */
    this.config = { ...config, ...extendedType(config, rules) };
    this.rules = rules;
  }

  /**
   * Return the configuration of a part of the model: the field named after it, at any depth, else the whole. A whole
   * that joins two models has no part of its own for the text, but one of the two.
   * @param {string} named
   * @returns {Record<string, any>}
   */
  part(named) {
    const tower = named === "" || named === "text" ? this.rules.joined[word(this.config.model_type)] ?? named : named;
    const { config } = this, all = nested(config), towerOf = (/** @type {string} */ name) => towerIn(name, this.rules);
    const inner = all.filter(([name, value]) => "model_type" in value || name === tower);
    if (tower !== "" && tower !== "text") {
      const found = inner.find(([name]) => towerOf(name) === tower);
      if (found || !["encoder", "decoder"].includes(tower)) return found?.[1] ?? config;
    }
    const texts = inner.filter(([name]) => towerOf(name) === "text").map(([, value]) => value);
    if ("vocab_size" in config && !texts.some((value) => "vocab_size" in value)) return config;
    texts.push(...inner.filter(([name]) => towerOf(name) === "decoder").map(([, value]) => value));
    texts.push(...inner.filter(([, value]) => "vocab_size" in value).map(([, value]) => value));
    return texts.find((value) => "vocab_size" in value) ?? texts[0] ?? config;
  }

  /**
   * Return the row of the rules for a part, or for the whole model.
   * @param {string} tower
   * @returns {FamilyRule}
   */
  family(tower) {
    const of = (/** @type {Record<string, any>} */ config) => this.rules.families.find(({ model_types: kinds }) =>
      kinds.includes(config.model_type));
    return of(this.part(tower)) ?? of(this.config) ?? this.rules.family;
  }

  /**
   * Return the first of several whole numbers that a part states, or null.
   * @param {string[]} names
   * @param {string} tower
   */
  stated(names, tower) {
    const config = this.part(tower), found = names.map((name) => wholeNumber(config, name, 1, 2 ** 24));
    return found.find((number) => number !== null) ?? null;
  }

  /** Return the sizes of all vocabularies, at any depth. */
  vocabularies() {
    const parts = [this.config, ...nested(this.config).map(([, value]) => value)];
    const sizes = parts.flatMap((part) => Object.keys(part).filter((name) => name.includes("vocab"))
      .map((name) => wholeNumber(part, name, 2))).filter((size) => size !== null);
    const multiple = wholeNumber(this.config, "pad_vocab_size_multiple", 1) ?? 1;  // Mamba's authors state it
    return new Set(sizes.flatMap((size) => [size, Math.ceil(size / multiple) * multiple]));
  }

  /**
   * Return how many leading rows of a position table are not positions.
   * @param {string} tower
   * @param {number} rows of the table
   */
  rowOffset(tower, rows) {
    if (tower === "vision" || tower === "audio") return 0;
    const family = this.family(tower), config = this.part(tower);
    if (family.leading !== null) return family.leading;
    if (family.counts_padding) {
      const padding = wholeNumber(config, "pad_token_id", 0, rows - 2);
      return padding === null ? (family.padding ?? 0) + 1 : padding + 1;
    }
    for (const name of ["max_position_embeddings", "n_positions"]) {
      const longest = wholeNumber(config, name);
      if (longest !== null) return rows === longest + 2 ? 2 : 0;
    }
    return 0;
  }

  /**
   * Return whether the output head is the token table, by its class, what is stated, or the default of the model type.
   * @returns {boolean}
   */
  isTied() {
    const { config, rules } = this, rule = this.#tieRule(), joined = rules.joined[word(config.model_type)] !== undefined;
    if (rule === "always" || rule === "never") return rule === "always";
    const text = this.part(joined ? "decoder" : "text");
    const places = rule === "text" ? [text] : rule === "whole" ? [config] : [config, text];
    const stated = places.map((one) => one.tie_word_embeddings).filter((one) => typeof one === "boolean");
    const byDefault = !rules.untied.includes(word((joined ? text : config).model_type));
    const whole = typeof config.tie_word_embeddings === "boolean" ? config.tie_word_embeddings : undefined;
    const said = (rule === "either" ? stated.includes(true) || whole : stated[0]) ?? byDefault;
    if (!["text", "either"].includes(rule ?? "") || !("model_type" in text) || text === config) return said;
    return new ModelConfig(text, rules).isTied() || (rule === "either" && said);
  }

  /** Return what decides whether the head is tied: the whole, its text part, either, always or never. */
  #tieRule() {
    const { types, classes } = this.rules.ties, named = this.config.architectures?.[0];
    return "auto_map" in this.config ? undefined : classes[word(named)] ?? types[word(this.config.model_type)];
  }

  /**
   * Return the kind of positions of the text that the model type has or the configuration states: rotary, alibi, none,
   * or "".
   * @returns {string}
   */
  textKind() {
    const part = this.part("text"), { kind, waves } = this.family("text"), ownCode = "auto_map" in this.config;
    if (kind && part.attn_config?.alibi !== false) return kind;  // MPT's own code reads the flag
    if (waves && !ownCode) return "";
    const stated = this.statedKind(part), read = ownCode && ["alibi", "none"].includes(stated);
    return this.rules.rotary_types.includes(word(part.model_type)) && !read ? "rotary" : stated;
  }

  /**
   * @param {Record<string, any>} part
   * @returns {string}
   */
  statedKind(part) {
    const type = word(part.model_type), filled = type in this.rules.rotary_defaults, inner = part.attn_config ?? {};
    const own = "auto_map" in this.config ? undefined : this.rules.own_switches[type];
    /** @type {Record<string, any>} */
    const config = Object.fromEntries(Object.entries({ ...this.rules.kind_defaults[type], ...part })
      .filter(([name]) => !own || own.includes(name) || !this.rules.switches.includes(name)));
    const stated = KIND_FIELDS.map((name) => config[name]).find((one) => typeof one === "string");
    if (config.use_mem_rope === false) return "none";
    if (type === "baichuan" && isLargeBaichuan(config)) return "alibi";
    const biased = ["alibi", "use_alibi"].some((name) => config[name] === true || inner[name] === true);
    if (biased || stated === "alibi" || wholeNumber(config, "alibi_starting_size", 1) !== null) return "alibi";
    if (stated === "rope" || stated === "rotary" || config.rope === true || inner.rope === true) return "rotary";
    if (stated === "nope") return "none";
    if (stated === "absolute") return "";
    return filled || this.rules.rotary_fields.some((name) => (config[name] ?? null) !== null) ? "rotary" : "";
  }
}

/**
 * Return a name that a file states, "" for what is none.
 * @param {unknown} value
 */
export function word(value) {
  return typeof value === "string" ? value : "";
}

/**
 * Return the model type that other code stands for: of the decoder that its class extends, as LLaVA's do, if any.
 * @param {Record<string, any>} config
 * @param {SiteRules} rules
 * @returns {{ model_type?: string }}
 */
function extendedType(config, { decoders, rotary_types: known }) {
  if (config.model_type === "glm" && "block_position_encoding" in config) return { model_type: "glm-10b" };
  const name = word(config.architectures?.[0]).match(/^(\w{1,89})ForCausalLM$/)?.[1] ?? "";
  if (!("vocab_size" in config) || known.includes(word(config.model_type)) || decoders[name.toLowerCase()]) return {};
  const endings = [...name.matchAll(/[A-Z]/g)].map(({ index }) => name.slice(index).toLowerCase());
  const found = endings.map((ending) => decoders[ending]).find((type) => type !== undefined);
  return found === undefined ? {} : { model_type: found };
}

/**
 * Return whether a configuration is that of Baichuan's 13B, which has ALiBi; the 7B, of the same type, rotates.
 * @param {Record<string, any>} config
 */
function isLargeBaichuan(config) {
  return !("max_position_embeddings" in config) || config.num_hidden_layers === 40;
}

/**
 * Return the pairs of field and value of nested configurations, outer ones first.
 * @param {Record<string, any>} config
 * @param {number} [depth]
 * @returns {[string, Record<string, any>][]}
 */
function nested(config, depth = MOST_NESTED) {
  const level = /** @type {[string, Record<string, any>][]} */ (Object.entries(config).filter(([, value]) =>
    value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof Number)));
  return depth > 1 ? [...level, ...level.flatMap(([, value]) => nested(value, depth - 1))] : level;
}

/**
 * Return the part of the model that a module or field belongs to, judged by its name; "" if unknown.
 * @param {string} name
 * @param {SiteRules} rules
 * @returns {string}
 */
export function towerIn(name, rules) {
  const found = name.split(".").flatMap((part) => {
    const words = rules.whole.includes(part) ? [] : (rules.short[part] ?? part).toLowerCase().split("_");
    return rules.towers.filter(([, told]) => told.some((word) => words.includes(word))).map(([tower]) => tower);
  });
  return found.find((tower) => tower !== "encoder" && tower !== "decoder") ?? found[0] ?? "";
}

/**
 * Return a whole number within bounds, else null.
 * @param {Record<string, any>} config
 * @param {string} name
 * @param {number} [low]
 * @param {number} [high]
 * @returns {number | null}
 */
export function wholeNumber(config, name, low = 0, high = 10_000_000) {
  const value = config[name];
  return Number.isInteger(value) && low <= value && value <= high ? value : null;
}

/**
 * Return a number within bounds, else null.
 * @param {Record<string, any>} config
 * @param {string} name
 * @param {number} low
 * @param {number} high
 * @returns {number | null}
 */
export function realNumber(config, name, low, high) {
  const value = config[name];
  const found = typeof value === "number" || value instanceof Number ? Number(value) : NaN;
  return low <= found && found <= high ? found : null;
}
