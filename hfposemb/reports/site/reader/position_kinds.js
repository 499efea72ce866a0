// Positions without a stored table: what config.json and the names of the tensors say of them.

import { realNumber, wholeNumber, word } from "./config.js";

const LENGTHS = ["max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "seq_length"];
const STATED_WIDTHS = ["hidden_size", "d_model", "n_embd", "dim", "emb_dim", "embed_dim"];
const HEADS = ["num_attention_heads", "n_head", "n_heads"];
const DRAWN = 512; // positions, if no longest input is stated
const KINDS = /** @type {Record<string, string>} */ ({
  alibi: "Its positions are ALiBi: a bias of each head that grows with distance, so there are no vectors to draw.",
  none: "It has no position encoding.",
  relative: "Its positions are relative: a bias or vector for each distance, which this page does not draw.",
  convolution: "Its positions come from a convolution over its input, so there are no vectors to draw.",
  "": "No table of positions was found by the names of its tensors, and config.json states no other kind.",
});

/**
 * Return how a model without a stored table of positions tells them apart.
 * @param {import("./config.js").ModelConfig} config
 * @param {string[]} names of the tensors
 * @returns {PositionKind}
 */
export function positionKind(config, names) {
  const { rules } = config, family = config.family("text"), stated = config.textKind();
  if (stated === "rotary") return rotary(config);
  if (stated) return { kind: stated, text: KINDS[stated] ?? KINDS[""] };
  if (family.waves) return waves(config, family);
  const isRelative = rules.relative_endings.some((ending) => names.some((name) => name.endsWith(ending)));
  const kind = isRelative ? "relative" : names.some((name) => name.includes(rules.convolution)) ? "convolution" : "";
  return { kind, text: KINDS[kind] };
}

/**
 * @param {import("./config.js").ModelConfig} config
 * @param {FamilyRule} family
 * @returns {PositionKind}
 */
function waves(config, family) {
  const width = config.stated(STATED_WIDTHS, "text"), text = "Its positions are sinusoids that it computes and does not store.";
  if (width === null) return { kind: "sinusoidal", text };
  const rows = config.stated(LENGTHS, "text") ?? DRAWN;
  const first = family.counts_padding ? config.rowOffset("text", rows + 2) : family.first;
  const scale = family.waves_scaled ? 1 / Math.sqrt(width) : 1;
  return { kind: "sinusoidal", text, form: { rows, width, layout: family.waves, first, scale } };
}

/**
 * Return the wavelengths of plain rotary positions; of scaled ones only the name of the scaling.
 * @param {import("./config.js").ModelConfig} config
 * @returns {PositionKind}
 */
function rotary(config) {
  const text = config.part("text"), given = text.rope_parameters, scaling = text.rope_scaling ?? given;
  const filled = config.rules.rotary_defaults[word(text.model_type ?? config.config.model_type)];
  const said = "Its positions are rotary: queries and keys are turned by angles, so there are no vectors to draw.";
  const type = scaling?.rope_type ?? scaling?.type ?? "default";
  const isNested = given && Object.values(given).some((value) => value !== null && typeof value === "object" && "rope_theta" in value);
  if (isNested || typeof type !== "string" || type !== "default") {
    const how = isNested ? "Its kinds of layers have angles of their own" : `Its angles are scaled (${word(type).slice(0, 20) || "not by a name"})`;
    return { kind: "rotary", text: `${said} ${how}, which the Python package computes.` };
  }
  if (filled && filled.rope_theta === undefined && !scaling)
    return { kind: "rotary", text: `${said} Its angles follow from defaults, which the Python package computes.` };
  const theta = [given ?? {}, text].map((one) => realNumber(one, "rope_theta", 1e-3, 1e12)).find((one) => one !== null)
    ?? realNumber(text, "rotary_emb_base", 1e-3, 1e12) ?? filled?.rope_theta ?? 10_000;
  const heads = config.stated(HEADS, "text"), width = config.stated(STATED_WIDTHS, "text");
  const head = wholeNumber(text, "head_dim", 2, 4096) ?? (heads && width ? Math.floor(width / heads) : null);
  if (head === null) return { kind: "rotary", text: said };
  const share = filled && !filled.partial ? 1
    : ["partial_rotary_factor", "rotary_pct"].map((name) => realNumber({ ...text, ...given }, name, 0, 1))
      .find((one) => one !== null) ?? filled?.partial_rotary_factor ?? 1;
  const turned = wholeNumber(text, "rotary_dim", 2, head) ?? 2 * Math.floor(Math.round(share * head) / 2);
  const waves = Array.from({ length: turned / 2 }, (_, pair) => 2 * Math.PI * theta ** (2 * pair / turned));
  return { kind: "rotary", text: said, wavelengths: waves, base: theta, longest: config.stated(LENGTHS, "text") };
}
