"""Rotary frequencies equal those of the model's own module."""

from __future__ import annotations

import importlib
import inspect
import json
import math
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.phimoe.modeling_phimoe import PhimoeRotaryEmbedding

from hfposemb.errors import InputError
from hfposemb.models.positions.rope import TYPES, rotary_encodings
from hfposemb.tables.encodings import Unmeasured
from hfposemb.tables.rotary import Rotary
from tests.architectures.survey import one

SCALED: dict[str, dict[str, Any]] = {
    "default": {},
    "default, a quarter": {"rope_type": "default", "partial_rotary_factor": 0.25},
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 4.0},
    "llama3": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 4096},
    "yarn, all": {
        **{
            "rope_type": "yarn",
            "factor": 40.0,
            "original_max_position_embeddings": 4096,
            "beta_fast": 16,
            "beta_slow": 2,
        },
        **{"mscale": 0.7, "mscale_all_dim": 1.0, "truncate": False},
    },
    "yarn, stated": {"rope_type": "yarn", "factor": 4.0, "attention_factor": 1.5},
    "longrope": {
        **{"short_factor": [1 + i / 10 for i in range(16)], "long_factor": [2.0] * 16},
        **{"original_max_position_embeddings": 4096},
    },
    "longrope, factor": {
        **{"rope_type": "longrope", "short_factor": [1.5] * 16, "long_factor": [2.0] * 16, "factor": 8.0},
        **{"original_max_position_embeddings": 4096},
    },
    "proportional": {"partial_rotary_factor": 0.5},
}


def stated(config: Any) -> dict[str, Any]:
    return json.loads(config.to_json_string(use_diff=False))


def rotary(config: dict[str, Any]) -> Rotary:
    """Return the positions of a configuration, which are rotary."""
    found = rotary_encodings(config, name="a model")["position"]
    assert isinstance(found, Rotary)
    return found


def same(encoding: object, frequencies: torch.Tensor, scaling: float) -> None:
    assert isinstance(encoding, Rotary), getattr(encoding, "reason", encoding)
    encoding = encoding.at(1)  # as after loading
    assert encoding.inv_freq.dtype == np.float64
    assert encoding.inv_freq.shape == tuple(frequencies.shape)
    assert np.abs(encoding.inv_freq - frequencies.double().numpy()).max() <= 2e-5
    assert encoding.attention_scaling == pytest.approx(scaling, abs=1e-12)


@pytest.mark.parametrize("name", SCALED)
def test_every_rope_type_equals_transformers(name: str) -> None:
    parameters = {"rope_type": name, "rope_theta": 500_000.0, **SCALED[name]}
    config = transformers.LlamaConfig(
        hidden_size=128, num_attention_heads=4, max_position_embeddings=32_768, rope_parameters=parameters
    )
    if "partial_rotary_factor" in parameters and parameters["rope_type"] == "default":
        config = transformers.StableLmConfig(
            hidden_size=128, num_attention_heads=4, max_position_embeddings=32_768, rope_parameters=parameters
        )
        module: Any = transformers.models.stablelm.modeling_stablelm.StableLmRotaryEmbedding(config)
    else:
        module = LlamaRotaryEmbedding(config)
    same(rotary(stated(config)), module.inv_freq, module.attention_scaling)


@pytest.mark.parametrize(("kind", "name"), [("dense", "dynamic"), ("moe", "dynamic"), ("dense", "xdrope")])
def test_hunyuan_grows_the_base_by_alpha(kind: str, name: str) -> None:
    """Whatever the length of the input, by the name ``dynamic``, or ``xdrope`` as its files have it."""
    parameters = {"rope_type": "dynamic", "rope_theta": 10_000.0, "alpha": 1000.0, "factor": 1.0}
    config = CONFIG_MAPPING[f"hunyuan_v1_{kind}"](head_dim=32, rope_parameters=parameters)
    module = importlib.import_module(f"transformers.models.hunyuan_v1_{kind}.modeling_hunyuan_v1_{kind}")
    made = next(one for key, one in vars(module).items() if key.endswith("RotaryEmbedding"))(config)
    values = stated(config) | {"rope_parameters": parameters | {"rope_type": name}}
    same(rotary(values), made.inv_freq, made.attention_scaling)


@pytest.mark.parametrize("name", ["dynamic", "longrope", "longrope, factor"])
def test_inputs_beyond_the_trained_length_turn_as_the_live_module_turns_them(name: str) -> None:
    parameters = {"rope_type": name.split(",")[0], "rope_theta": 10_000.0, **SCALED[name]}
    parameters |= {"original_max_position_embeddings": 16} if "longrope" in name else {}
    config = transformers.LlamaConfig(
        hidden_size=128, num_attention_heads=4, max_position_embeddings=64, rope_parameters=parameters
    )
    module, found = LlamaRotaryEmbedding(config), rotary(stated(config))
    np.testing.assert_array_equal(found.at(64).inv_freq, found.inv_freq)
    moved = set()
    for times in (1, 2, 4, 8, 0.5):
        length = int(times * found.scaled.trained_length)
        theirs = torch.cat([part[0, :, :16] for part in module(torch.zeros(1, 1), torch.arange(length)[None])], dim=1)
        ours = found.at(length).table.vectors
        assert ours.shape == (length, 32)
        assert np.abs(ours - theirs.numpy()).max() <= 1e-5
        moved.add(found.at(length).inv_freq.tobytes())
    assert len(moved) == (4 if name == "dynamic" else 2)


@pytest.mark.parametrize("length", [0, -1, 1.5, "2"])
def test_an_impossible_length_is_refused(length: Any) -> None:
    with pytest.raises(InputError, match="whole number from 1"):
        Rotary(np.ones(4), 8).at(length)


@pytest.mark.parametrize("name", SCALED)
def test_what_scaling_moves(name: str) -> None:
    """The frequencies before scaling are those of the default type, and so is what it leaves alone."""
    rope_type = str(SCALED[name].get("rope_type", name))
    plain = {"hidden_size": 128, "num_attention_heads": 4, "max_position_embeddings": 32_768, "rope_theta": 5e5}
    parameters = {"rope_type": rope_type, **SCALED[name]}
    found = rotary({**plain, "rope_parameters": parameters})
    scaled, base = found.scaled, found.base_freq
    turning = base[base > 0]
    width = 128 // 4 if rope_type == "proportional" else 2 * len(base)
    np.testing.assert_allclose(turning, 5e5 ** (-2 * np.arange(len(turning)) / width))
    assert found.scaling == rope_type
    assert scaled.trained_length == parameters.get("original_max_position_embeddings", 32_768)
    untouched = rope_type in ("default", "mrope", "dynamic", "proportional")
    assert scaled.moved.any() == (not untouched), "rope types that scale move some pair"
    assert (scaled.after[~scaled.moved] == pytest.approx(scaled.before[~scaled.moved])) or untouched


def test_llama3_leaves_short_waves_alone() -> None:
    """Llama 3.1 8B: of 64 pairs 29 had no full turn in 8,192 positions, and 35 are moved."""
    config = {"head_dim": 128, "max_position_embeddings": 131_072, "rope_theta": 500_000.0}
    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    stated = {**config, "rope_scaling": {**scaling, "original_max_position_embeddings": 8192}}
    scaled = rotary(stated).scaled
    assert (len(scaled.before), scaled.trained_length) == (64, 8192)
    moved = scaled.before > 8192 / 4
    np.testing.assert_array_equal(scaled.moved, moved)
    np.testing.assert_allclose(scaled.after[scaled.before > 8192], 8 * scaled.before[scaled.before > 8192])
    assert (scaled.beyond.sum(), scaled.moved.sum()) == (29, 35)


def test_types_are_those_of_transformers() -> None:
    assert set(transformers.modeling_rope_utils.ROPE_INIT_FUNCTIONS) <= set(TYPES)


@pytest.mark.parametrize("spelling", ["type", "rope_type"])
def test_older_configurations(spelling: str) -> None:
    older = {"hidden_size": 128, "num_attention_heads": 4, "max_position_embeddings": 4096, "rope_theta": 10_000.0}
    scaled = rotary({**older, "rope_scaling": {spelling: "linear", "factor": 2.0}})
    assert np.allclose(rotary(older).inv_freq / 2, scaled.inv_freq)
    neox = {"model_type": "gpt_neox", "rotary_pct": 0.25, "rotary_emb_base": 10_000, **older}
    assert rotary(neox).inv_freq.shape == (4,)


@pytest.mark.parametrize("mixed", [None, 0.6])
def test_gte_scales_as_its_code_does(mixed: float | None) -> None:
    sizes = {"hidden_size": 128, "num_attention_heads": 4, "max_position_embeddings": 8192, "rope_theta": 160_000}
    scaling = {"type": "ntk", "factor": 2.0} | ({} if mixed is None else {"mixed_b": mixed})
    base = 160_000 * (2.0 if mixed is None else 1)
    expected = base ** (-np.arange(16) / 16)
    if mixed is None:
        expected /= 2.0 ** (2 / 32)
    else:
        expected /= np.exp(math.log(2.0) / 16**mixed * np.arange(1, 17) ** mixed)
    found = rotary({"model_type": "new", **sizes, "rope_scaling": scaling})
    np.testing.assert_allclose(found.inv_freq, expected)
    unknown = rotary_encodings({"model_type": "llama", **sizes, "rope_scaling": scaling}, name="a model")["position"]
    assert isinstance(unknown, Unmeasured)


KNOWN = [
    "llama",
    "mistral",
    "mixtral",
    "gemma",
    "gemma3_text",
    "phi",
    "phi3",
    "gpt_neox",
    "stablelm",
    "falcon",
    "deepseek_v3",
    "modernbert",
    "nemotron",
    "mistral4",
    "deepseek_v4",
]


def rotary_modules(model_type: str) -> tuple[dict[str, Any], list[tuple[str, NDArray[Any], float]]]:
    """Return a type's default configuration, and its rotary module's frequencies and scaling by kind of layer."""
    config = CONFIG_MAPPING[model_type]()
    module = importlib.import_module(type(config).__module__.replace("configuration_", "modeling_"))
    for name, kind in vars(module).items():
        if inspect.isclass(kind) and name.endswith("RotaryEmbedding") and kind.__module__ == module.__name__:
            try:
                made = kind(config)
            except Exception:  # noqa: BLE001 - of the several rotary modules of a file, others want another part's configuration
                continue
            found = []
            for buffer, values in made.named_buffers():
                if buffer.endswith("inv_freq") and "original" not in buffer:
                    part = buffer.removesuffix("inv_freq").removesuffix("_") or "position"
                    prefix = "" if part == "position" else f"{part}_"
                    found.append((part, values.float(), getattr(made, f"{prefix}attention_scaling", 1.0)))
            if found:
                return stated(config), found
    return stated(config), []


@pytest.mark.parametrize("model_type", KNOWN)
def test_default_of_every_known_type(model_type: str) -> None:
    values, modules = rotary_modules(model_type)
    assert modules
    found = rotary_encodings(values, name=model_type)
    for part, frequencies, scaling in modules:
        encoding = found.get(part) or (next(iter(found.values())) if len(found) == 1 else None)
        same(encoding, frequencies, scaling)


@pytest.mark.parametrize(
    ("model_type", "older"),
    [
        ("gemma3_text", {"rope_theta": 1e6, "rope_local_base_freq": 1e4, "rope_scaling": {"factor": 8.0}}),
        ("modernbert", {"global_rope_theta": 160_000.0, "local_rope_theta": 1e4}),
    ],
)
def test_older_spellings_of_two_kinds_of_layers(model_type: str, older: dict[str, Any]) -> None:
    scaling = {"rope_scaling": {**older["rope_scaling"], "rope_type": "linear"}} if "rope_scaling" in older else {}
    told = older | scaling
    newer = transformers.AutoConfig.for_model(model_type, **told).to_dict()
    sizes = {name: newer[name] for name in ("hidden_size", "num_attention_heads", "max_position_embeddings")}
    sizes |= {"head_dim": newer["head_dim"]} if "head_dim" in newer else {}
    found = rotary_encodings({"model_type": model_type, **sizes, **told}, name="older")
    expected = rotary_encodings(newer, name="newer")
    assert set(found) == set(expected) == {"sliding_attention", "full_attention"}
    for kind, encoding in expected.items():
        assert isinstance(encoding, Rotary)
        np.testing.assert_allclose(found[kind].inv_freq, encoding.inv_freq)


def test_layout() -> None:
    base = {"hidden_size": 64, "num_attention_heads": 2, "max_position_embeddings": 64, "rope_theta": 1e4}
    for values, layout in (
        ({"model_type": "llama"}, "half"),
        ({"model_type": "cohere"}, "interleaved"),
        ({"model_type": "glm4"}, "interleaved"),
        ({"model_type": "deepseek_v3", "rope_interleave": True}, "interleaved"),
        ({"model_type": "deepseek_v3", "rope_interleave": False}, "half"),
        ({"model_type": "deepseek_v2", "use_mla": False, "qk_rope_head_dim": 0}, "half"),
    ):
        assert rotary({**base, **values}).layout == layout


@pytest.mark.parametrize("model_type", ["axk2", "deepseek_v32", "longcat_flash", "llama4_text", "cohere"])
def test_layout_is_that_of_the_function_which_the_attention_calls(model_type: str) -> None:
    """An indexer beside the attention may call another."""
    row = one(model_type, classes=0)
    assert row.layouts == ("interleaved",)
    assert row.verdicts("rotary layout") == ["equal"]


def test_phi_moe_scales_short_and_long_inputs_by_what_it_states() -> None:
    parameters = {"rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 16}
    parameters |= {"short_factor": [1.0] * 16, "long_factor": [1.0] * 16, "short_mscale": 1.25, "long_mscale": 1.5}
    config = transformers.PhimoeConfig(
        hidden_size=128, num_attention_heads=4, max_position_embeddings=64, rope_parameters=parameters
    )
    module, found = PhimoeRotaryEmbedding(config), rotary(stated(config))
    assert found.attention_scaling == 1.5
    assert "short_mscale 1.25 and long_mscale 1.5 are stated" in found.attention_rule
    for length in (8, 64):
        theirs = torch.cat([part[0, :, :16] for part in module(torch.zeros(1, 1), torch.arange(length)[None])], dim=1)
        np.testing.assert_allclose(found.at(length).table.vectors, theirs.numpy(), atol=1e-5)


def test_recurrent_gemma_states_no_longest_input() -> None:
    values = {"model_type": "recurrent_gemma", "hidden_size": 64, "num_attention_heads": 2, "attention_window_size": 32}
    assert rotary(values).length == 32


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(
        st.sampled_from(["rope_theta", "head_dim", "hidden_size", "num_attention_heads", "rope_scaling", "rotary_dim"])
        | st.sampled_from(["max_position_embeddings", "partial_rotary_factor", "rope_parameters", "model_type"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from([*TYPES, "rope_type", "factor", "short_factor", "long_factor", "beta_fast"]),
                    inner,
                    max_size=4,
                )
            ),
            max_leaves=8,
        ),
    )
)
def test_any_configuration_gives_numbers_or_a_reason(config: dict[str, Any]) -> None:
    for encoding in rotary_encodings(config, name="hostile").values():
        if isinstance(encoding, Rotary):
            assert np.isfinite(encoding.inv_freq).all()
            assert np.isfinite(encoding.at(8 * encoding.length).inv_freq).all()
            assert math.isfinite(encoding.attention_scaling)
        else:
            assert isinstance(encoding, Unmeasured)
            assert 10 < len(encoding.reason) < 300
