"""Configurations by the thousand: model types inside model types, with tensors that fit them and numbers that do not.

``python -m tests.support.checkpoints.configurations 20000`` reads as many and prints what raised
anything but an error of ours.
"""

from __future__ import annotations

import json
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

import hfposemb as hpe
from hfposemb.models.architectures.families import EPSILONS, FAMILIES, RELATIVE, known_types
from hfposemb.models.architectures.table_names import LOOSE_TOKEN_ENDINGS, TOKEN_ENDINGS
from hfposemb.models.attention_rules import ATTENTION
from hfposemb.models.summary import describe

PLACES = ("encoder", "decoder", "text_config", "vision_config")
"""Fields that hold the configuration of a part."""

RULED = sorted({kind for family in FAMILIES for kind in family.model_types} | set(ATTENTION))
WORDS, WIDTH, ROWS, HEADS = 11, 8, 12, 2
_SIZES = {
    "vocab_size": WORDS,
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embedding_size", "word_embed_proj_dim"), WIDTH),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_source_positions"), ROWS),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "encoder_attention_heads"), HEADS),
    **dict.fromkeys(EPSILONS, 1e-5),
    "head_dim": WIDTH // HEADS,
    "pad_token_id": 0,
    "image_size": 4,
    "patch_size": 2,
}
_ROPE: list[Any] = [
    {"rope_type": "default", "rope_theta": 1e4},
    {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 6},
    {"rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    | {"original_max_position_embeddings": 6},
    {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0, 1.0], "long_factor": [2.0, 2.0]},
    {"full_attention": {"rope_type": "default", "rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}},
    {"rope_type": "linear", "factor": 2.0},
    {"mrope_section": [1, 1], "rope_type": "default", "rope_theta": 1e4},
    {"rope_type": []},
]
_ODD: dict[str, list[Any]] = {
    "rope_parameters": _ROPE,
    "rope_scaling": _ROPE,
    "rope_theta": [1e4, 0, -1, 1e300, "x"],
    "position_embedding_type": ["rotary", "rope", "nope", "absolute", "relative_key", 3],
    "alibi": [True, False, None],
    "partial_rotary_factor": [0.5, 0, 1e-9, 7, "x"],
    "rotary_dim": [2, 4, 3, 0, 10**9],
    "qk_rope_head_dim": [2, 3, -2],
    "tie_word_embeddings": [True, False, None, "yes"],
    "scale_embedding": [True, 2.0, "x"],
    "embedding_multiplier": [2, 1e-300, True],
    "position_buckets": [4, 6, 0, 10**7],
    "max_relative_positions": [1, 2, 3, 4, 6, 20, 0],
    "relative_attention_max_distance": [1, 2, 20],
    "left_max_position_embeddings": [0, 3, 99],
    "layer_types": [["full_attention"], ["sliding_attention", "full_attention"], [], 3, [None]],
    "sliding_window": [2, 0, None, "x"],
    "attn_config": [{"alibi": True, "alibi_bias_max": 8}, {"rope": True, "rope_theta": 1e4}, []],
    "trigram_input": [True],
    "normalization_type": ["no_norm"],
    "sinusoidal_pos_embds": [True],
    "sinusoidal_embeddings": [True],
    "position_biased_input": [False],
    "num_key_value_heads": [1, 2, 3, 0],
    "attention_head_size": [4, 3],
    "is_encoder_decoder": [True, False],
    "auto_map": [{"AutoModel": "x.Y"}],
    "quantization_config": [{"quant_method": "gptq"}, 3],
}
_SHAPES: dict[str, tuple[int, ...]] = {
    **dict.fromkeys((*TOKEN_ENDINGS, *LOOSE_TOKEN_ENDINGS, "lm_head.weight"), (WORDS, WIDTH)),
    **dict.fromkeys(("wpe.weight", "position_embeddings.weight", "embed_positions.weight", "pos_embed"), (ROWS, WIDTH)),
    **{f"{axis}_position_embeddings.weight": (ROWS, WIDTH) for axis in "xyhw"},
    **dict.fromkeys(("row_embeddings.weight", "column_embeddings.weight", "temporal_embed.weight"), (ROWS, WIDTH)),
    "position_embedding_table": (2, ROWS, WIDTH),
    "positional_embedding": (WIDTH, 3, 3),
    **dict.fromkeys(("token_type_embeddings.weight", "token_type_embeddings_1.weight"), (2, WIDTH)),
    **{f"encoder.layer.0.{rule.ending}": (9, HEADS) for rule in RELATIVE},
    "pos_conv_embed.conv.weight": (WIDTH, 4, 3),
    **dict.fromkeys(("embeddings.LayerNorm.weight", "embeddings.LayerNorm.bias", "layernorm_embedding.weight"), (8,)),
    **dict.fromkeys(("project_in.weight", "embedding_transformation.weight", "embeddings_project.weight"), (8, 8)),
}
_PREFIXES = ("", "model.", "bert.", "encoder.", "decoder.", "model.decoder.", "text_model.", "vision_model.embeddings.")


@dataclass(frozen=True)
class Made:
    """A made configuration with its tensors."""

    config: dict[str, Any]
    tensors: dict[str, NDArray[np.float32]]

    def write(self, folder: Path) -> Path:
        """Write both as a checkpoint."""
        (folder / "config.json").write_text(json.dumps(self.config))
        (folder / "model.safetensors").write_bytes(save(self.tensors))
        return folder


def made(seed: int) -> Iterator[Made]:
    """Yield configurations without end: every known type in turn, with another type in each place in turn."""
    draw = np.random.default_rng(seed)

    def some(values: Any, share: float) -> list[Any]:
        return [value for value in values if draw.random() < share]

    def fields(kind: str) -> dict[str, Any]:
        sizes = {name: _SIZES[name] for name in some(_SIZES, draw.choice((0.5, 0.95)))}
        odd = {name: values[draw.integers(len(values))] for name, values in _ODD.items() if draw.random() < 0.07}
        return {"model_type": kind, **sizes, **odd}

    def layer(kind: str) -> dict[str, tuple[int, ...]]:
        if (rule := ATTENTION.get(kind)) is None:
            return {}
        width = (3 if rule.fused else 1) * WIDTH
        names = {f"{rule.layer}.{module}.weight": (width, WIDTH) for module in (rule.query, rule.key) if module}
        biases = {name.replace(".weight", ".bias"): (width,) for name in some(names, 0.5)}
        return {**names, **biases, **({f"{rule.layer}.{rule.norm}.weight": (WIDTH,)} if rule.norm else {})}

    kinds, layered = (*RULED, *sorted(known_types())), sorted(ATTENTION)
    while True:
        for outer in kinds:
            for place in PLACES:
                inner = str(draw.choice((RULED, layered, kinds)[int(draw.integers(3))]))
                config = fields(outer) | {place: fields(inner)}
                if draw.random() < 0.2:
                    config |= {str(draw.choice(PLACES)): fields(str(draw.choice(RULED)))}
                prefixes = some(_PREFIXES, 0.25) or [""]
                shapes = {p + name: shape for p in prefixes for name, shape in _SHAPES.items() if draw.random() < 0.12}
                shapes |= {prefixes[0] + name: shape for kind in (outer, inner) for name, shape in layer(kind).items()}
                first = str(draw.choice(list(_SHAPES)[:8]))
                shapes |= {prefixes[-1] + first: _SHAPES[first]}
                odd = draw.choice((0.0, 0.1, 0.5))
                shapes = {name: _other(shape, draw) if draw.random() < odd else shape for name, shape in shapes.items()}
                yield Made(config, {name: np.full(shape, 0.5, np.float32) for name, shape in shapes.items()})


def _other(shape: tuple[int, ...], draw: np.random.Generator) -> tuple[int, ...]:
    """Return a shape that differs from what is expected, in its lengths or in its rank."""
    lengths = (0, 1, 2, 3, 4, 8, 9, 12, 25)
    rank = int(draw.integers(0, 5)) if draw.random() < 0.3 else len(shape)
    kept = [*shape, 1, 1, 1, 1][:rank]
    return tuple(int(draw.choice(lengths)) if draw.random() < 0.5 else length for length in kept)


def use(folder: Path) -> Counter[str]:
    """Do all that one may do with a checkpoint; return how often each step ended in a result, or an error of ours."""
    seen: Counter[str] = Counter()

    def attempt(step: str, work: Callable[[], object]) -> Any:
        try:
            made = work()
        except hpe.HfposembError:
            seen[f"{step}: refused"] += 1
            return None
        seen[step] += 1
        return made

    found: hpe.Embeddings | None = attempt("extract", lambda: hpe.extract(folder))
    if found is None:
        return seen
    attempt("facts", partial(describe, found))
    for role in found.tables:
        attempt("table", lambda role=role: found.tables[role].vectors.sum())
    for key in found.positions:
        attempt("matrix", lambda key=key: found.positions[key].matrix(6))
        attempt("profile", lambda key=key: found.positions[key].profile(np.arange(-3, 4)))
    attempt("inputs", lambda: found.inputs([[1, 2, 3], [4]]))
    attempt("logits", lambda: found.logits([1, 2, 3]).total)
    return seen


def raw_errors(count: int, *, seed: int, seen: Counter[str]) -> dict[str, str]:
    """Use so many configurations; return what raised anything but our errors: where, and the first to do so."""
    raised: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for one in islice(made(seed), count):
            try:
                seen.update(use(one.write(Path(folder))))
            except Exception as error:  # noqa: BLE001 - whatever is raised is what is looked for
                at = traceback.extract_tb(error.__traceback__)[-1]
                where = f"{type(error).__name__} at {Path(at.filename).name}:{at.lineno}, as in: {error}"
                where = next((known for known in raised if known.split(",")[0] == where.split(",")[0]), where)
                seen["raw"] += 1
                raised.setdefault(where, json.dumps(one.config) + " " + ", ".join(one.tensors))
    return raised


if __name__ == "__main__":
    counted: Counter[str] = Counter()
    for where, config in raw_errors(int(sys.argv[1]), seed=int((sys.argv[2:] or ["0"])[0]), seen=counted).items():
        print(where, "\n   ", config[:1500])
    print(dict(sorted(counted.items())))
