"""GGUF files written as llama.cpp's ``convert_hf_to_gguf.py`` writes them, for small models of transformers."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


@dataclass(frozen=True)
class Tokens:
    """Tokens with their types, as a converter lists them."""

    model: str
    texts: Sequence[str]
    types: Sequence[int]
    roles: Mapping[str, int] = field(default_factory=dict)
    template: str = ""
    merges: Sequence[str] = ()


@dataclass(frozen=True)
class Model:
    """A model to write; ``tensors`` are numbers, or a type and its raw bytes."""

    arch: str
    keys: Mapping[str, Any] = field(default_factory=dict)
    tensors: Mapping[str, NDArray[Any] | tuple[str, NDArray[np.uint8]]] = field(default_factory=dict)
    tokens: Tokens | None = None

    def write(self, path: Path, *, most_tensors: int = 0) -> Path:
        """Write the model, in splits of at most ``most_tensors`` if it is not 0."""
        writer = gguf.GGUFWriter(path, self.arch, split_max_tensors=most_tensors)
        for key, value in self.keys.items():
            _add(writer, f"{self.arch}.{key}", value)
        if self.tokens is not None:
            _add_tokens(writer, self.tokens)
        for name, values in self.tensors.items():
            kind, raw = values if isinstance(values, tuple) else (None, values)
            writer.add_tensor(name, raw, raw_dtype=None if kind is None else gguf.GGMLQuantizationType[kind])
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path


def _add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    match value:
        case bool():
            writer.add_bool(key, value)
        case int():
            writer.add_uint32(key, value)
        case float():
            writer.add_float32(key, value)
        case str():
            writer.add_string(key, value)
        case _:
            writer.add_array(key, value)


def _add_tokens(writer: gguf.GGUFWriter, tokens: Tokens) -> None:
    writer.add_tokenizer_model(tokens.model)
    writer.add_token_list(list(tokens.texts))
    writer.add_token_scores([0.0] * len(tokens.texts))
    writer.add_token_types(list(tokens.types))
    for role, row in tokens.roles.items():
        writer.add_uint32(f"tokenizer.ggml.{role}_token_id", row)
    if tokens.template:
        writer.add_chat_template(tokens.template)
    if tokens.merges:
        writer.add_token_merges(list(tokens.merges))


def keys_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a configuration of transformers, as ``TextModel.set_gguf_parameters`` does."""
    rope = dict(config.get("rope_parameters") or {})
    keys: dict[str, Any] = {
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "block_count": config["num_hidden_layers"],
        "attention.head_count": config["num_attention_heads"],
        "vocab_size": config["vocab_size"],
    }
    optional = {
        "attention.key_length": config.get("head_dim"),
        "attention.layer_norm_rms_epsilon": config.get("rms_norm_eps"),
        "attention.layer_norm_epsilon": config.get("layer_norm_eps"),
        "rope.freq_base": rope.get("rope_theta"),
    }
    keys |= {key: value for key, value in optional.items() if value is not None}
    kind = rope.get("rope_type", "default")
    if kind in ("linear", "yarn"):
        keys |= {"rope.scaling.type": kind, "rope.scaling.factor": float(rope["factor"])}
    if kind == "yarn":
        keys["rope.scaling.original_context_length"] = rope["original_max_position_embeddings"]
        for name in ("beta_fast", "beta_slow"):
            if name in rope:
                keys[f"rope.scaling.yarn_{name}"] = float(rope[name])
        if "attention_factor" in rope:
            keys["rope.scaling.yarn_attn_factor"] = rope["attention_factor"]
    if kind == "longrope":
        original = config["original_max_position_embeddings"]
        scale = config["max_position_embeddings"] / original
        attention = math.sqrt(1 + math.log(scale) / math.log(original)) if scale > 1 else 1.0
        keys |= {"rope.scaling.type": "longrope", "rope.scaling.attn_factor": attention}
        keys["rope.scaling.original_context_length"] = original
    return keys


def llama3_factors(rope: Mapping[str, Any], width: int) -> NDArray[np.float32]:
    """Return the tensor ``rope_freqs.weight``, as ``LlamaModel.generate_extra_tensors`` computes it."""
    frequencies = rope["rope_theta"] ** -(np.arange(0, width, 2, dtype=np.float32) / width)
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    length, factor = rope["original_max_position_embeddings"], rope["factor"]
    factors = []
    for frequency in frequencies:
        wave = 2 * math.pi / frequency
        if wave < length / high:
            factors.append(1.0)
        elif wave > length / low:
            factors.append(factor)
        else:
            smooth = (length / wave - low) / (high - low)
            factors.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(factors, np.float32)


def byte_level(folder: Path, *, rows: int) -> Tokens:
    """Return the tokens of a byte-level tokenizer.json, as ``get_vocab_base`` does."""
    data = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    texts = [f"[PAD{row}]" for row in range(rows)]
    types = [UNUSED] * rows
    for text, row in data["model"]["vocab"].items():
        texts[row], types[row] = text, NORMAL
    for token in data.get("added_tokens", []):
        texts[token["id"]] = token["content"]
        types[token["id"]] = CONTROL if token["special"] else USER_DEFINED
    return Tokens("gpt2", texts, types)


def word_piece(folder: Path, *, rows: int) -> Tokens:
    """Return the tokens of a WordPiece tokenizer.json, as ``BertModel.set_vocab`` does."""
    base = byte_level(folder, rows=rows)

    def phantom(text: str, kind: int) -> str:
        if kind == CONTROL:
            return text
        return text[2:] if text.startswith("##") else f"▁{text}"

    texts = [phantom(text, kind) for text, kind in zip(base.texts, base.types, strict=True)]
    return Tokens("bert", texts, base.types)
