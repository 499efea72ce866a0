// Which tensors are tables, by the endings and patterns of table_names.py, which are in the rules of the page.

import { towerIn } from "./config.js";

const BEST_MODULES = ["wpe", "embed_positions", "positions_embed", "position_embeddings"];

/**
 * Return the tensors that can be a table of a role by their names, the best first within each part.
 * @param {string[]} names
 * @param {"token" | "position"} role
 * @param {SiteRules} rules
 * @param {(name: string) => boolean} fits whether a name with a loose ending has as many rows as a vocabulary
 * @param {boolean} hasVocabulary whether the configuration states one
 * @returns {TableName[]}
 */
export function candidates(names, role, rules, fits, hasVocabulary) {
  const found = outsideLayers(names, rules).flatMap((name) => {
    const rank = role === "position" ? positionRank(name, rules) : tokenRank(name, rules, fits, hasVocabulary);
    if (rank === null) return [];
    const tower = towerIn(name, rules), part = role === "position" ? positionPart(name, tower, rules) : tower;
    const order = rules.part_order[tower] ?? 4;
    return [{ name, part, order: [rank, role === "token" ? [0, 0, 0, 1, 2][order] : order, name.split(".").length] }];
  });
  found.sort((one, other) => compared([...one.order, one.name], [...other.order, other.name]));
  return found.map(({ name, part }) => ({ name, part }));
}

/**
 * Return the names outside of numbered layers.
 * @param {string[]} names
 * @param {SiteRules} rules
 */
function outsideLayers(names, rules) {
  const numbered = new RegExp(rules.numbered), next = rules.numbered_token.replace("0", "1");
  const kept = names.some((name) => name.endsWith(next)) ? "" : rules.numbered_token;
  return names.filter((name) => !numbered.test(`.${kept && name.endsWith(kept) ? name.slice(0, -kept.length) : name}.`));
}

/**
 * Return the names whose ending is that of a token table only where the number of rows is that of a vocabulary.
 * @param {string[]} names
 * @param {SiteRules} rules
 */
export function looseNames(names, rules) {
  const no = new RegExp(rules.no_tokens);
  return outsideLayers(names, rules).filter((name) =>
    !no.test(name) && rules.loose_token_endings.some((ending) => ends(name, ending)));
}

/**
 * @param {string} name
 * @param {SiteRules} rules
 * @param {(name: string) => boolean} fits
 * @param {boolean} hasVocabulary
 * @returns {number | null}
 */
function tokenRank(name, rules, fits, hasVocabulary) {
  const endings = rules.token_endings;
  const rank = new RegExp(rules.no_tokens).test(name) ? -1 : endings.findIndex((ending) => ends(name, ending));
  if (rank >= 0) return rank;
  if (looseNames([name], rules).length && fits(name)) return endings.length;
  return rules.whole_token_names.includes(name) && !hasVocabulary ? endings.length + 1 : null;
}

/**
 * @param {string} name
 * @param {SiteRules} rules
 * @returns {number | null}
 */
function positionRank(name, rules) {
  if (new RegExp(rules.no_positions).test(name) || /[._]bias$/.test(name)) return null;
  const told = positionEnding(name, rules);
  if (!told) return null;
  return told.axis || told.kind || told.line ? 2 : Number(!BEST_MODULES.includes(moduleOf(name)));
}

/**
 * Return the key of a position table: its tower, and the axis of its rows if the name has one.
 * @param {string} name
 * @param {string} tower
 * @param {SiteRules} rules
 */
function positionPart(name, tower, rules) {
  const told = positionEnding(name, rules);
  const parent = name.replace(/\.weight$/, "").split(".").at(-2) ?? "";
  const inName = told?.axis || told?.line || (told?.kind === "window" ? "window" : "");
  const word = inName || ["spatial", "temporal"].find((one) => parent.startsWith(`${one}_`)) || "";
  const axis = rules.axes[word] ?? word;
  const inner = name.split(".").find((one) => one === "encoder" || one === "decoder") ?? "";
  return [tower === axis ? "" : tower, tower === "text" ? inner : "", axis].filter(Boolean).join(".");
}

/**
 * @param {string} name
 * @param {SiteRules} rules
 */
function positionEnding(name, rules) {
  return new RegExp(`^(?:${rules.position_ending})$`).exec(moduleOf(name))?.groups;
}

/**
 * Return the last part of a name without "weight".
 * @param {string} name
 */
function moduleOf(name) {
  return name.replace(/\.weight$/, "").replace(/\.embedding$/, "").split(".").at(-1) ?? "";
}

/**
 * @param {string} name
 * @param {string} ending
 */
function ends(name, ending) {
  return name === ending || name.endsWith(`.${ending}`);
}

/**
 * Return the keys of the position tables, each with its tensor: the best one of a part has the part's name, another one
 * is named after its module.
 * @param {TableName[]} found
 * @returns {Map<string, string>}
 */
export function tablesByPart(found) {
  const chosen = /** @type {Map<string, string>} */ (new Map());
  for (const { name, part } of found) {
    if (!chosen.has(part)) chosen.set(part, name);
    else if (![...chosen.values()].includes(name)) {
      const holder = name.replace(/\.weight$/, "").split(".");
      const depths = [...Array.from({ length: Math.max(holder.length - 1, 0) }, (_, at) => at + 2), 1];
      const key = depths.map((depth) => `${part}.${holder.at(-depth)}`.replace(/^\./, "")).find((one) => !chosen.has(one));
      if (key !== undefined) chosen.set(key, name);
    }
  }
  return chosen;
}

/**
 * Return the parts with positions that the token vectors enter, that of their first layer first.
 * @param {string[]} parts
 * @param {string} tower of the token table
 */
export function partsFed(parts, tower) {
  const towers = tower === "" ? ["", "text", "encoder", "decoder"] : [tower, ""];
  return towers.flatMap((one) => [one, `${one}.encoder`, `${one}.decoder`]).filter((key) => parts.includes(key));
}

/**
 * Compare two lists, item by item.
 * @param {(string | number)[]} one
 * @param {(string | number)[]} other
 */
function compared(one, other) {
  const at = one.findIndex((item, place) => item !== other[place]);
  return at < 0 ? 0 : one[at] < other[at] ? -1 : 1;
}
