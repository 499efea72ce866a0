"""Tiny models of every type that transformers has: its own configuration class, shrunk, and random weights."""

from __future__ import annotations

import importlib
import inspect
import math
import re
import signal
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

WIDTH, HEADS, KEYS, HEAD, LAYERS, VOCABULARY, LENGTH = 64, 4, 2, 16, 2, 99, 40

SIZES: Mapping[str, int] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "embedding_dim", "emb_dim"), WIDTH),
    **dict.fromkeys(("encoder_hidden_size", "decoder_hidden_size", "text_hidden_size", "vision_hidden_size"), WIDTH),
    **dict.fromkeys(
        ("embedding_size", "word_embed_proj_dim", "hidden_dim", "projection_dim", "out_hidden_size"), WIDTH
    ),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads"), HEADS),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads", "encoder_num_attention_heads"), HEADS),
    **dict.fromkeys(("decoder_num_attention_heads", "linear_num_key_heads", "linear_num_value_heads"), HEADS),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads"), KEYS),
    **dict.fromkeys(("encoder_num_key_value_heads", "decoder_num_key_value_heads"), KEYS),
    **dict.fromkeys(("head_dim", "d_kv", "v_head_dim", "qk_nope_head_dim", "kv_channels", "global_head_dim"), HEAD),
    **dict.fromkeys(("attention_head_dim", "linear_key_head_dim", "linear_value_head_dim"), HEAD),
    **dict.fromkeys(("qk_rope_head_dim",), HEAD // 2),
    **dict.fromkeys(
        ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers"), LAYERS
    ),
    **dict.fromkeys(("num_encoder_layers", "num_decoder_layers", "depth", "num_blocks"), LAYERS),
    **dict.fromkeys(("encoder_num_hidden_layers", "decoder_num_hidden_layers"), LAYERS),
    **dict.fromkeys(("intermediate_size", "moe_intermediate_size", "d_ff", "ffn_dim", "mlp_dim", "n_inner"), 48),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim", "ffn_hidden_size", "shared_expert_intermediate_size"), 48),
    **dict.fromkeys(("vocab_size", "vocab_size_per_layer_input", "text_vocab_size", "src_vocab_size"), VOCABULARY),
    **dict.fromkeys(("tgt_vocab_size", "decoder_vocab_size", "entity_vocab_size"), VOCABULARY),
    "unpadded_vocab_size": VOCABULARY,
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_source_positions", "max_target_positions"), LENGTH),
    **dict.fromkeys(("max_seq_len", "n_ctx", "max_2d_position_embeddings"), LENGTH),
    **dict.fromkeys(("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_topk", "moe_k", "num_selected_experts"), 2),
    **dict.fromkeys(("n_group", "topk_group", "first_k_dense_replace"), 1),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank"), HEAD),
    **dict.fromkeys(("num_queries", "num_query_tokens"), 6),
    **dict.fromkeys(("max_window_layers",), LAYERS),
    **dict.fromkeys(("sliding_window", "local_attention"), 8),
    **dict.fromkeys(("hidden_size_per_layer_input",), 8),
}
"""What a field of that name becomes, where it is larger."""


REMADE = frozenset(
    (
        *("layer_types", "mlp_layer_types", "no_rope_layers", "layers_block_type", "per_layer_config", "stage_names"),
        *("out_features", "out_indices", "_out_features", "_out_indices", "transformers_version", "architectures"),
    )
)
"""Fields that follow from others, and are left to the configuration's class."""


class CannotBuildError(Exception):
    """No attempt to make a tiny model succeeded."""


EXTRA: Mapping[str, Mapping[str, Any]] = {
    "autoformer": {"prediction_length": 8, "context_length": 16},
    "informer": {"prediction_length": 8, "context_length": 16},
    "time_series_transformer": {"prediction_length": 8, "context_length": 16},
    "bamba": {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 8},
    "granitemoehybrid": {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 8},
    "mamba2": {"num_heads": 8, "head_dim": 16, "state_size": 8, "n_groups": 1},
    "cohere_compass_text": {"layer_types": ["sliding_attention", "full_attention"]},
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1},
    "esm": {"vocab_size": 99, "pad_token_id": 1, "mask_token_id": 32},
    "ernie4_5_vl_moe_text": {"num_hidden_layers": 2},
    "gemma3n_text": {"num_kv_shared_layers": 0},
    "hunyuan_v1_dense": {"head_dim": HEAD},
    "hunyuan_v1_moe": {"head_dim": HEAD},
    "hunyuan_vl_text": {"head_dim": HEAD},
    "ministral": {"head_dim": HEAD},
    "nemotron": {"head_dim": HEAD, "num_key_value_heads": KEYS},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "lilt": {"hidden_size": 96, "channel_shrink_ratio": 4},
    "markuplm": {"hidden_size": 96},
    "zamba": {"num_hidden_layers": 3, "layers_block_type": ["mamba", "mamba", "hybrid"]},
    "zamba2": {"num_hidden_layers": 3, "layers_block_type": ["mamba", "mamba", "hybrid"]},
    "moonshine_streaming": {"num_key_value_heads": HEADS},
    "roc_bert": {"pronunciation_vocab_size": 50, "shape_vocab_size": 50},
    "squeezebert": {"embedding_size": WIDTH},
    "xmod": {"default_language": "en_XX"},
}
"""What single types need beside that, so that a small model of them is one that works."""


def _shrunk(values: Mapping[str, Any], *, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Return a configuration's fields with small numbers; lists with an entry for each layer are left to be remade."""
    layers = {v for k, v in values.items() if isinstance(v, int) and sizes.get(k) == LAYERS and v > LAYERS}
    head = sizes.get("head_dim", HEAD)
    out: dict[str, Any] = {"use_cache": False} if "num_hidden_layers" in values else {}
    for name, value in values.items():
        if name == "attention_types":
            out[name] = [[["global"], LAYERS]]
        elif name in REMADE:
            continue
        elif isinstance(value, dict):
            out[name] = _shrunk(value, sizes=sizes)
        elif name == "mrope_section":
            total = sum(value)
            out[name] = [max(1, one * (head // 2) // total) for one in value]
            out[name][-1] += head // 2 - sum(out[name])
        elif isinstance(value, bool) or value is None:
            out[name] = value
        elif isinstance(value, int) and name in sizes:
            out[name] = min(value, sizes[name]) if value > 0 else value
        elif (
            isinstance(value, int)
            and isinstance(name, str)
            and re.search(r"token_(id|index)$", name)
            and value >= VOCABULARY
        ):
            out[name] = VOCABULARY - 1 - value % 9
        elif isinstance(value, list) and len(value) in layers and name not in ("depths", "hidden_sizes"):
            continue
        else:
            out[name] = value
    if values.get("head_dim") is not None and values.get("head_dim") == values.get("qk_rope_head_dim"):
        out["head_dim"] = out["qk_rope_head_dim"]
    return {**out, **EXTRA.get(str(values.get("model_type")), {})}


def _add_sections(values: dict[str, Any]) -> None:
    """State how the turning pairs are shared among time, height and width, where only the code does."""
    for value in [*values.values()]:
        if isinstance(value, dict):
            _add_sections(value)
    stated = values.get("rope_parameters")
    if isinstance(stated, dict):
        half = int((values.get("head_dim") or HEAD) * stated.get("partial_rotary_factor", 1.0)) // 2
        stated.setdefault("mrope_section", [half - 2 * (half // 3), half // 3, half // 3])


def modelling(kind: type) -> Any:
    """Return the module with the models of a configuration's class; its own where the models stand in another's."""
    try:
        return importlib.import_module(kind.__module__.replace("configuration_", "modeling_"))
    except ModuleNotFoundError:
        return importlib.import_module(kind.__module__)


def configurations(model_type: str, changes: Mapping[str, Any] | None = None) -> Iterator[Any]:
    """Yield configurations of a type from small to large, with ``changes`` to some fields."""
    kind = CONFIG_MAPPING[model_type]
    default = kind().to_dict()
    sections = "mrope_section" in inspect.getsource(modelling(kind))
    equal = {**SIZES, **dict.fromkeys((name for name, size in SIZES.items() if size == KEYS and "key" in name), HEADS)}
    few = {name: size for name, size in SIZES.items() if size in (LAYERS, VOCABULARY)}
    for sizes in (SIZES, equal, {k: v for k, v in SIZES.items() if v != LENGTH}, few):
        values = _shrunk({"model_type": model_type, **default}, sizes=sizes)
        _add_sections(values if sections else {})
        values |= changes or {}
        try:
            yield kind(**values)
        except Exception:  # noqa: BLE001 - a larger one follows
            continue


def _classes(config: Any) -> Iterator[type]:
    mappings = [m for name, m in vars(modeling_auto).items() if name.startswith("MODEL_") and name.endswith("MAPPING")]
    mappings.sort(key=lambda mapping: mapping is not modeling_auto.MODEL_MAPPING)
    seen = set()
    for mapping in mappings:
        try:
            found = mapping[type(config)]
        except (KeyError, AttributeError, ValueError, ImportError):
            continue
        for one in found if isinstance(found, tuple) else (found,):
            if one not in seen:
                seen.add(one)
                yield one
    module = modelling(type(config))
    for one in vars(module).values():
        if (
            inspect.isclass(one)
            and issubclass(one, transformers.PreTrainedModel)
            and one.config_class is type(config)
            and one not in seen
            and one.__module__ == module.__name__
            and not one.__name__.endswith("PreTrainedModel")
        ):
            seen.add(one)
            yield one


def randomise(model: torch.nn.Module) -> None:
    """Draw every floating parameter of a model at random."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point():
                parameter.copy_(torch.randn_like(parameter) * 0.3)


def build(
    model_type: str, *, largest: int = 150_000_000, changes: Mapping[str, Any] | None = None
) -> transformers.PreTrainedModel:
    """Return a tiny model of a type in evaluation mode, every floating parameter random.

    Raises ``CannotBuildError`` with every attempt's reason.
    """
    reasons = []
    for config in configurations(model_type, changes):
        for kind in _classes(config):
            try:
                with torch.device("meta"):
                    size = sum(math.prod(p.shape) for p in kind(config).parameters())
                if not 0 < size <= largest:
                    reasons.append(f"{kind.__name__}: {size:,} parameters")
                    continue
                torch.manual_seed(0)
                model = kind(config).eval()
            except Exception as error:  # noqa: BLE001 - whatever a constructor says of a configuration it does not like
                reasons.append(f"{kind.__name__}: {type(error).__name__}: {str(error)[:150]}")
                continue
            randomise(model)
            return model
    raise CannotBuildError("; ".join(dict.fromkeys(reasons))[:600] or "no configuration could be made")


@contextmanager
def workplace(seconds: int = 0) -> Iterator[Path]:
    """Yield a folder that goes afterwards, with silent libraries in one thread; ``TimeoutError`` after some seconds."""

    def too_long(*_: object) -> None:
        raise TimeoutError(f"took more than {seconds} seconds")

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(prefix="architecture-", ignore_cleanup_errors=True) as folder:
        signal.signal(signal.SIGALRM, too_long)
        signal.alarm(seconds)
        try:
            yield Path(folder)
        finally:
            signal.alarm(0)
