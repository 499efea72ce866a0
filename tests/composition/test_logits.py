"""The first layer's logits, held against what transformers' own layers give to their softmax."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.numpy import save
from torch.overrides import TorchFunctionMode

import hfposemb as hpe
from hfposemb.composition.attention_logits import (
    centred_logits,
    identical_word_logits,
    logit_shares,
    logits_by_distance,
    mean_by_distance,
    softmax,
)
from hfposemb.errors import CheckpointError, InputError, MissingTableError
from hfposemb.models.attention_rules import ATTENTION, NO_LOGITS
from hfposemb.tables.attention import PAIRS, Attention, HeadMap, LogitSplit, frozen, turned
from hfposemb.tables.encodings import Alibi, RelativeBias
from hfposemb.tables.inputs import InputRecipe, LayerNorm, RootMeanSquareNorm
from hfposemb.tables.rotary import Rotary
from tests.architectures.tiny import build as tiny
from tests.checks.planted import edit
from tests.conftest import Build
from tests.hub import FakeHub

IDS = [5, 17, 3, 60, 3, 22, 9, 8, 41, 40, 7, 33]
CHANGES: dict[str, dict[str, object]] = {"gptj": {"rotary_dim": 8}}
"""What a tiny model of a type needs so that it runs."""


def own_logits(model: Any, ids: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return what the first softmax of a model is given, mask included, and what it makes of it [heads, n, n]."""
    seen: list[list[np.ndarray]] = []

    class Watch(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            if getattr(func, "__name__", "") == "softmax" and not seen:
                seen.append([one.detach().double().numpy().reshape(-1, len(ids), len(ids)) for one in (args[0], out)])
            return out

    model.config._attn_implementation = "eager"
    fed = {"input_ids": torch.tensor([ids])}
    if model.config.is_encoder_decoder:
        fed["decoder_input_ids"] = torch.tensor([[1]])
    with torch.no_grad(), Watch():
        model(**fed)
    return seen[0][0], seen[0][1]


def assert_own(split: LogitSplit, model: Any) -> None:
    """Check that the terms add up to a model's own logits within 1e-5 of the largest, and that the same are seen."""
    logits, attention = own_logits(model, split.ids.tolist())
    seen = np.broadcast_to(split.visible, logits.shape)
    assert split.total.shape == logits.shape
    assert np.abs(split.total - logits)[seen].max() <= 1e-5 * np.abs(logits[seen]).max()
    np.testing.assert_allclose(sum(term for _, term in split.terms()), split.total, atol=1e-9)
    np.testing.assert_allclose(softmax(split.total, split.visible), attention, atol=1e-4)


@pytest.mark.parametrize("model_type", ATTENTION)
def test_the_terms_add_up_to_the_models_own(model_type: str) -> None:
    model = tiny(model_type, changes=CHANGES.get(model_type))
    model.set_attn_implementation("eager")
    assert_own(hpe.extract(model).logits(IDS), model)


@pytest.mark.parametrize("model_type", ["gpt2", "opt", "albert", "mbart", "llama", "gemma"])
def test_of_a_checkpoint_on_disk(build: Build, tmp_path: Path, model_type: str) -> None:
    model: Any = build(model_type)
    model.save_pretrained(tmp_path)
    assert_own(hpe.extract(tmp_path).logits(IDS), model)


@pytest.mark.parametrize(
    ("model_type", "changes"),
    [
        ("opt", {"do_layer_norm_before": False}),
        ("falcon", {"multi_query": False, "num_kv_heads": 4, "bias": True}),
        ("llama", {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0}}),
        ("qwen2", {"use_sliding_window": True, "sliding_window": 3, "layer_types": ["sliding_attention"] * 2}),
        ("bert", {"is_decoder": True}),
        ("gemma3_text", {"use_bidirectional_attention": True, "layer_types": ["full_attention"] * 2}),
        ("gpt2", {"n_head": 1}),
    ],
)
def test_variants(model_type: str, changes: dict[str, object]) -> None:
    model = tiny(model_type, changes=changes)
    assert_own(hpe.extract(model).logits(IDS), model)


@pytest.mark.parametrize(
    ("model_type", "older"),
    [
        ("gemma3_text", {"rope_theta": 1e6, "rope_local_base_freq": 1e4, "sliding_window_pattern": 6}),
        ("modernbert", {"global_rope_theta": 160_000.0, "local_rope_theta": 1e4, "global_attn_every_n_layers": 3}),
    ],
)
def test_older_configurations_of_two_kinds_of_layers(tmp_path: Path, model_type: str, older: dict[str, Any]) -> None:
    model = tiny(model_type, changes=older)
    model.set_attn_implementation("eager")
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    for name in ("layer_types", "rope_parameters"):
        del config[name]
    (tmp_path / "config.json").write_text(json.dumps(config | older))
    assert_own(hpe.extract(tmp_path).logits(IDS), model)


@pytest.mark.parametrize("model_type", ["gemma3", "llava", "paligemma", "qwen2_audio"])
def test_the_language_model_inside_a_larger_one(model_type: str) -> None:
    model: Any = tiny(model_type)
    text = model.language_model
    text.set_attn_implementation("eager")
    assert_own(hpe.extract(model).logits(IDS), text)


def test_minilm(minilm_folder: Path) -> None:
    found = hpe.extract(minilm_folder)
    split = found.logits("A long winter had passed before the two brothers met again at the harbour.")
    assert_own(split, transformers.AutoModel.from_pretrained(minilm_folder, dtype=torch.float32).eval())
    measured = logit_shares(split)
    # Without the normalisation, word and position explain next to nothing.
    assert measured.unnormed < 0.1
    np.testing.assert_allclose(measured.values.sum(axis=0), 1)
    by_name = dict(zip(measured.names, measured.mean, strict=True))
    assert by_name["position · position"] > 0.15
    near = identical_word_logits(found, "king")
    back = near.distances == -1
    assert near.mean.mean(axis=0)[back] > 3 * near.high_mean[back]


# --- the parts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "norm",
    [
        LayerNorm(np.linspace(0.5, 2, 6), np.linspace(-1, 1, 6), 1e-5),
        LayerNorm(np.linspace(0.5, 2, 6), None, None),
        RootMeanSquareNorm(np.linspace(0.5, 2, 6), 1e-6),
        RootMeanSquareNorm(None, 1e-6),
    ],
)
def test_frozen_parts_add_up_to_the_norm(norm: LayerNorm | RootMeanSquareNorm) -> None:
    parts = np.random.default_rng(0).standard_normal((3, 5, 6))
    np.testing.assert_allclose(frozen(norm, parts).sum(axis=0), norm(parts.sum(axis=0)), atol=1e-12)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_turned_vectors_meet_by_distance_alone(layout: Any) -> None:
    rng = np.random.default_rng(1)
    turning = Rotary(np.array([1.0, 0.1]), 99, layout=layout)
    query, key = rng.standard_normal((2, 1, 6))
    at = [turned(query, np.array([i]), turning) @ turned(key, np.array([i + 3]), turning).T for i in (0, 7, 40)]
    np.testing.assert_allclose(at[1:], [at[0], at[0]])
    assert not np.allclose(at[0], query @ key.T)
    np.testing.assert_array_equal(turned(query, np.array([9]), turning)[:, 4:], query[:, 4:])


def test_a_term_is_named_and_zero_without_positions_that_are_added(gpt2: LogitSplit) -> None:
    assert gpt2.names == PAIRS
    assert gpt2.term("word · rest").shape == (2, 12, 12)
    with pytest.raises(InputError, match="unknown term 'bias'; the terms are word · word"):
        gpt2.term("bias")
    assert "terms word · word, word · position" in repr(gpt2)
    biased = hpe.extract(tiny("t5")).logits(IDS)
    assert biased.names == (*PAIRS, "bias")
    assert all((biased.term(name) == 0).all() == ("position" in name or "rest" in name) for name in PAIRS)


# --- shares ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def gpt2(build: Build) -> LogitSplit:
    """The logits of a tiny GPT-2, of twelve pieces."""
    return hpe.extract(build("gpt2")).logits(IDS)


def test_shares_add_up_and_less_mean_has_none(gpt2: LogitSplit, build: Build) -> None:
    found = logit_shares(gpt2)
    assert found.values.shape == (9, 2)
    np.testing.assert_allclose(found.values.sum(axis=0), 1)
    np.testing.assert_allclose(found.mean, found.values.mean(axis=1))
    rest = centred_logits(gpt2)
    assert (np.isnan(rest) == ~gpt2.visible).all()
    np.testing.assert_allclose(np.nansum(rest, axis=-1), 0, atol=1e-9)
    with pytest.raises(InputError, match="shares are undefined"):
        logit_shares(hpe.extract(build("gpt2")).logits([4]))


def test_four_products_of_words_and_positions_and_a_rest() -> None:
    found = logit_shares(hpe.extract("sample:bert").logits("the king saw the queen"))
    products = found.products
    assert list(products) == [
        "word · word",
        "word · position",
        "position · word",
        "position · position",
        "rest",
    ]
    assert sum(products.values()) == pytest.approx(1)
    assert products["position · position"] == pytest.approx(found.mean[found.names.index("position · position")])
    assert products["rest"] == pytest.approx(sum(found.mean[i] for i, n in enumerate(found.names) if "rest" in n))


def test_the_share_of_turning(gpt2: LogitSplit) -> None:
    split = hpe.extract(tiny("llama")).logits(IDS)
    found = logit_shares(split)
    assert found.turning is not None
    alone = replace(split, queries=0 * split.queries, bias=split.total - split.unturned)
    whole, part = centred_logits(split), centred_logits(alone)
    np.testing.assert_allclose(found.turning, np.nansum(whole * part, (1, 2)) / np.nansum(whole**2, (1, 2)))
    # The first piece meets itself at position 0, where nothing turns.
    np.testing.assert_allclose(split.unturned[:, 0, 0], split.total[:, 0, 0])
    assert gpt2.unturned is None
    assert logit_shares(gpt2).turning is None


def test_what_is_the_same_for_all_keys_and_a_head_that_sees_no_difference_have_no_share(gpt2: LogitSplit) -> None:
    same = np.broadcast_to(np.arange(12.0)[None, :, None], (2, 12, 12))
    with_bias = logit_shares(replace(gpt2, bias=np.array(same)))
    np.testing.assert_allclose(with_bias.values[-1], 0, atol=1e-12)
    np.testing.assert_allclose(with_bias.values[:-1], logit_shares(gpt2).values, atol=1e-12)
    blind = gpt2.queries.copy()
    blind[:, 1] = 0
    found = logit_shares(replace(gpt2, queries=blind))
    assert np.isnan(found.values[:, 1]).all()
    np.testing.assert_allclose(found.mean, found.values[:, 0])


# --- by distance -----------------------------------------------------------------------------------------------------


def test_biases_by_distance_are_those_of_the_mechanism() -> None:
    bloom = logits_by_distance(hpe.extract(tiny("bloom")), longest=9, tokens=64)
    assert bloom.kinds == ("bias",)
    assert bloom.distances.tolist() == list(range(-9, 1))
    slopes = hpe.extract("alibi:16x4").position.slopes
    np.testing.assert_allclose(bloom.positional, slopes[:, None] * bloom.distances)
    np.testing.assert_allclose(bloom.change[:, bloom.distances == -1], 0)
    t5 = hpe.extract(tiny("t5"))
    found = logits_by_distance(t5, longest=9, tokens=64)
    assert found.distances.tolist() == list(range(-9, 10))
    np.testing.assert_allclose(found.positional, t5.position.bias_at(found.distances).T)
    np.testing.assert_array_equal(mean_by_distance(np.arange(9.0).reshape(3, 3), np.array([-2, 0, 1])), [6, 4, 3])


def test_rotary_by_distance_is_the_mean_query_turned_against_the_mean_key() -> None:
    model: Any = tiny("llama")
    with torch.no_grad():
        model.embed_tokens.weight[:] = model.embed_tokens.weight[:1].clone()  # so that every mean is that of one word
    found = hpe.extract(model)
    measured = logits_by_distance(found, longest=9, tokens=80)
    assert measured.kinds == ("rotary",)
    assert measured.tokens == 80
    attention = found._attention
    word = attention.norm(found.token.rows(0, 1))[0]
    query = np.einsum("hwi,i->hw", attention.query.weight, word)
    key = np.repeat(np.einsum("hwi,i->hw", attention.key.weight, word), 2, axis=0)
    for place, distance in enumerate(measured.distances):
        there = turned(key[:, None], np.array([distance]), found.position)[:, 0]
        np.testing.assert_allclose(measured.positional[:, place], attention.scale * (query * there).sum(1), rtol=1e-4)


@pytest.mark.parametrize("model_type", ["qwen3", "olmo2"])
def test_normalised_queries_are_averaged_after_they_are_normalised(model_type: str) -> None:
    found = hpe.extract(tiny(model_type))
    measured = logits_by_distance(found, longest=3, tokens=8)
    assert np.isfinite(measured.values).all()
    assert np.ptp(measured.positional) > 0


def test_added_positions_by_distance(build: Build) -> None:
    found = hpe.extract(build("gpt2"))
    measured = logits_by_distance(found, longest=9, tokens=500, seed=3)
    assert measured.kinds == ("added",)
    assert measured.values.shape == (9, 2, 10)
    again = logits_by_distance(found, longest=9, tokens=500, seed=3)
    np.testing.assert_array_equal(measured.values, again.values)
    # The mean of what single texts have, position · position alone.
    rng = np.random.default_rng(0)
    single = [found.logits(rng.integers(0, 61, 10)).term("position · position") for _ in range(300)]
    expected = mean_by_distance(np.mean(single, axis=0), measured.distances[:-1])
    scale = np.abs(expected).max()
    assert np.abs(measured.positional[:, :-1] - expected).max() < 0.2 * scale
    assert logits_by_distance(found, tokens=20).distances.tolist() == list(range(-19, 1)), "they end with the table"
    for knobs in ({"longest": 0}, {"tokens": 0}):
        with pytest.raises(InputError, match="longest and tokens must be at least 1"):
            logits_by_distance(found, **knobs)


def test_a_bias_without_a_model_is_what_it_adds() -> None:
    alibi = hpe.extract("alibi:64x4")
    found = logits_by_distance(alibi, longest=2)
    assert (found.names, found.kinds, found.tokens) == (("bias",), ("bias",), 0)
    np.testing.assert_allclose(found.change, np.outer(alibi.position.slopes, [-1, 0, 1, 0, -1]))
    with pytest.raises(MissingTableError, match="no computable first-layer input"):
        logits_by_distance(hpe.extract("rotary:64x16"))


# --- identical words -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model_type", ["bert", "gpt2", "llama", "bloom", "t5"])
def test_attention_of_identical_words_is_the_models_own(model_type: str) -> None:
    model = tiny(model_type)
    model.set_attn_implementation("eager")
    found = identical_word_logits(hpe.extract(model), 7, length=12, draws=20)
    _, own = own_logits(model, [7] * 12)
    np.testing.assert_allclose(found.attention, own, atol=1e-4)
    np.testing.assert_allclose(found.attention.sum(axis=-1), 1)
    assert found.mean.shape == found.low.shape == (4, len(found.distances))
    assert (found.low <= found.high).all()


def test_without_positions_attention_to_identical_words_is_even() -> None:
    found = hpe.extract(tiny("t5"))
    attention = replace(found._attention, bias=None)
    same = replace(found, attention=lambda: attention)
    measured = identical_word_logits(same, 7, length=8, draws=5)
    np.testing.assert_allclose(measured.mean, np.tile(measured.uniform, (4, 1)))
    np.testing.assert_allclose(measured.uniform, 1 / 8)
    assert measured.p == 1


def test_the_null_keeps_nothing_of_the_order() -> None:
    """ALiBi draws attention to near keys: far beyond what permuted positions do."""
    measured = identical_word_logits(hpe.extract(tiny("bloom", changes={"hidden_size": 64})), 7, length=32, draws=50)
    assert measured.distances.tolist() == list(range(-31, 1))
    near = measured.distances == 0
    assert measured.each_p[near] == measured.p
    assert measured.each_p[0] > 0.5
    assert (measured.mean[0, near] > measured.high[0, near]).all()
    np.testing.assert_allclose(measured.uniform[near], np.mean(1 / np.arange(1, 33)))
    assert measured.p == 1 / 51


def test_positions_in_random_order_seldom_prefer_a_distance() -> None:
    """Of 47 distances, one is nearly always beyond its own interval; the largest of them all is not, however few draws.

    At most 7 of 60 are at a level of .05 in 98 of 100 cases.
    """
    model, found = tiny("bert"), []
    torch.manual_seed(0)
    for _ in range(60):
        torch.nn.init.normal_(model.embeddings.position_embeddings.weight, std=2.0)
        for name in ("query", "key"):
            torch.nn.init.normal_(getattr(model.encoder.layer[0].attention.self, name).weight)
        found.append(identical_word_logits(hpe.extract(model), 7, length=24, draws=19))
    assert np.mean([(one.mean.mean(axis=0) > one.high_mean).any() for one in found]) > 0.3
    assert np.sum([one.p <= 0.05 for one in found]) <= 7


def test_bad_words(build: Build) -> None:
    found = hpe.extract(build("gpt2"))
    with pytest.raises(InputError, match="no row named 'king'"):
        identical_word_logits(found, "king")
    with pytest.raises(InputError, match="length must be at least 2"):
        identical_word_logits(found, 3, length=1)
    assert identical_word_logits(found, 3, draws=3).attention.shape == (2, 20, 20)


# --- what is read, and what is not known -----------------------------------------------------------------------------


def test_of_the_hub_only_the_first_layer_is_read(hub: FakeHub) -> None:
    draw = np.random.default_rng(5)
    width, rows = 64, 200
    shapes: dict[str, tuple[int, ...]] = {"wte.weight": (rows, width), "wpe.weight": (64, width)}
    for layer in (0, 1):
        shapes |= {f"h.{layer}.ln_1.weight": (width,), f"h.{layer}.ln_1.bias": (width,)}
        shapes |= {f"h.{layer}.attn.c_attn.weight": (width, 3 * width), f"h.{layer}.attn.c_attn.bias": (3 * width,)}
        shapes |= {f"h.{layer}.mlp.c_fc.weight": (width, 100 * width)}
    tensors = {name: draw.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    config = {"model_type": "gpt2", "n_positions": 64, "n_head": 4, "layer_norm_epsilon": 1e-5, "vocab_size": rows}
    hub.add("a/gpt", {"config.json": json.dumps(config).encode(), "model.safetensors": save(tensors)})
    found = hpe.extract("a/gpt")
    found.inputs([1, 2])
    before = found.traffic.received
    split = found.logits([1, 2])
    assert split.total.shape == (4, 2, 2)
    needed = sum(tensors[name].nbytes for name in shapes if name.startswith("h.0.") and "mlp" not in name)
    rows_again = 4 * 4 * width  # of two tokens and two positions
    assert found.traffic.received - before <= needed + rows_again
    assert found.traffic.received < 0.5 * sum(one.nbytes for one in tensors.values())


@pytest.mark.parametrize(
    ("model_type", "changes", "message"),
    [
        *((kind, {}, NO_LOGITS[kind]) for kind in ("gemma2", "deberta-v2", "mobilebert", "convbert")),
        ("prophetnet", {}, "the names of its query and key projections are unknown"),
        ("gpt2", {"scale_attn_weights": False}, "its scale_attn_weights is False"),
        ("mpt", {"attn_config": {"clip_qkv": 6.0}}, r"its attn_config\.clip_qkv is 6\.0"),
        ("falcon", {"alibi": True}, "rounded"),
    ],
)
def test_models_that_are_not_split_say_why(model_type: str, changes: dict[str, object], message: str) -> None:
    with pytest.raises(MissingTableError, match=message) as caught:
        hpe.extract(tiny(model_type, changes=changes)).logits(IDS)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("n_head", None, "does not state the number of heads"),
        ("n_head", 3, "rows cannot be split into 3 heads"),
        ("n_head", 10**6, "rows cannot be split into 1000000 heads"),
    ],
)
def test_configurations_that_do_not_fit(build: Build, tmp_path: Path, field: str, value: Any, message: str) -> None:
    build("gpt2").save_pretrained(tmp_path)  # type: ignore[operator]
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {field: value}))
    found = hpe.extract(tmp_path)
    with pytest.raises(CheckpointError, match=message):
        found.logits(IDS)
    assert found.inputs(IDS).normed.shape == (12, 16)


def test_weights_that_are_not_finite(build: Build) -> None:
    model: Any = build("gpt2")
    with torch.no_grad():
        model.h[0].attn.c_attn.weight[0, 0] = torch.nan
    found = hpe.extract(model)
    assert np.isnan(logit_shares(found.logits(IDS)).values[:, 0]).all(), "the other head is whole"
    for measure in (lambda: logits_by_distance(found), lambda: identical_word_logits(found, 3)):
        with pytest.raises(InputError, match="are not finite"):
            measure()


def test_quantised_weights_are_refused_and_the_tables_still_read(build: Build, tmp_path: Path) -> None:
    build("gpt2").save_pretrained(tmp_path)  # type: ignore[operator]
    edit(tmp_path, lambda tensors: tensors.update({"h.0.attn.c_attn.weight_scale": np.ones(1, np.float32)}))
    found = hpe.extract(tmp_path)
    with pytest.raises(MissingTableError, match=r"with .*weight_scale"):
        found.logits(IDS)
    assert found.inputs(IDS).normed.shape == (12, 16)


@pytest.mark.parametrize("shape", [(0, 48), (16, 0), (48,), (16, 47), (2, 16, 24)])
def test_weights_of_other_shapes(build: Build, tmp_path: Path, shape: tuple[int, ...]) -> None:
    build("gpt2").save_pretrained(tmp_path)  # type: ignore[operator]
    edit(tmp_path, lambda tensors: tensors.update({"h.0.attn.c_attn.weight": np.ones(shape, np.float32)}))
    with pytest.raises((CheckpointError, InputError)):
        hpe.extract(tmp_path).logits(IDS)


def test_vectors_without_a_layer_a_batch_and_a_long_text_are_refused() -> None:
    for source in ("sinusoidal:64x16", "sample:gpt2@step-1500"):
        with pytest.raises(MissingTableError, match="no computable first-layer input"):
            hpe.extract(source).logits([1])
    with pytest.raises(MissingTableError, match="no first-layer logits"):
        hpe.from_arrays(token=np.eye(3), position=np.eye(3)).logits([0, 1])
    attention = Attention(*[HeadMap(np.zeros((64, 1, 2)))] * 2, 1.0)
    found = replace(
        hpe.from_arrays(token=np.eye(2)),
        recipe=lambda: InputRecipe(hpe.from_arrays(token=np.eye(2)).token),
        attention=lambda: attention,
    )
    with pytest.raises(InputError, match="one text at a time"):
        found.logits([[0, 1], [1, 0]])
    with pytest.raises(InputError, match="with 64 heads, at most 256"):
        found.logits([0] * 257)


def test_biases_are_added_as_each_layer_counts() -> None:
    maps = [HeadMap(np.zeros((2, 1, 2)))] * 2
    alibi = Alibi(np.array([0.5, 0.25]), 8)
    first, last = (Attention(*maps, 1.0, bias=alibi, counts=one).added(3) for one in ("first", "last"))
    np.testing.assert_allclose(first[0, 1], [0, 0.5, 1])
    np.testing.assert_allclose(last[0, 1], [-1, -0.5, 0])
    bias = RelativeBias(np.arange(10.0).reshape(5, 2), 8, zero=2)
    np.testing.assert_allclose(Attention(*maps, 1.0, bias=bias).added(3)[1, 0], [5, 7, 9])
