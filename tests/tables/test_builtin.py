"""Closed forms agree with transformers' own, read the same by rows as whole, and refuse what they cannot be."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfposemb.errors import InputError, MissingTableError, SourceError
from hfposemb.tables.closed_forms import BUILTINS, LAYOUTS, Choice, Number, from_source, sine_rows, sinusoidal
from hfposemb.tables.embeddings import Embeddings
from hfposemb.tables.encodings import Alibi
from hfposemb.tables.rotary import Rotary
from hfposemb.tables.source_parser import parse_source
from hfposemb.tables.sources import BuiltinSource

EVERY = sorted(BUILTINS)
ROWED = [name for name in EVERY if BUILTINS[name].rows is not None]


def made(text: str) -> Embeddings:
    source = parse_source(text)
    assert isinstance(source, BuiltinSource)
    return from_source(source)


def test_the_textbook_example() -> None:
    row = sinusoidal(8, 6).position.table.vectors[2]
    np.testing.assert_allclose(row[:2], [0.909, -0.416], atol=5e-4)


@pytest.mark.parametrize("width", [6, 7, 64])
def test_marian_and_roformer_are_the_concatenated_layout(width: int) -> None:
    pytest.importorskip("torch")
    from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding
    from transformers.models.roformer.modeling_roformer import RoFormerSinusoidalPositionalEmbedding

    ours = sinusoidal(512, width, layout="concatenated").position.table.vectors
    for module in (MarianSinusoidalPositionalEmbedding, RoFormerSinusoidalPositionalEmbedding):
        np.testing.assert_allclose(ours, module(512, width).create_weight().numpy(), atol=1e-6)


@pytest.mark.parametrize("width", [6, 7, 64])
def test_distilbert_is_the_interleaved_layout(width: int) -> None:
    torch = pytest.importorskip("torch")
    from transformers.models.distilbert.modeling_distilbert import create_sinusoidal_embeddings

    theirs = torch.zeros(512, width)
    create_sinusoidal_embeddings(512, width, theirs)
    np.testing.assert_allclose(sinusoidal(512, width).position.table.vectors, theirs.numpy(), atol=1e-6)


def float32_angles(length: int) -> np.ndarray:
    """How far apart the sine of an angle and that of the angle in float32 can be, by position, beyond 1e-6.

    fairseq's kind computes ω_i and ω_i·t in float32, with one rounding each and one in the exponent before.
    """
    return (1e-6 + np.arange(length) * 4 * 2.0**-24 * np.log(10000))[:, None]


@pytest.mark.parametrize("width", [6, 7, 64])
def test_m2m100_and_xglm_are_tensor2tensor_from_their_third_row(width: int) -> None:
    pytest.importorskip("torch")
    from transformers.models.m2m_100.modeling_m2m_100 import M2M100SinusoidalPositionalEmbedding
    from transformers.models.xglm.modeling_xglm import XGLMSinusoidalPositionalEmbedding

    encoding = sinusoidal(512, width, layout="tensor2tensor", offset=2).position
    assert encoding.offset == encoding.table.provenance.row_offset == 2
    for module in (M2M100SinusoidalPositionalEmbedding, XGLMSinusoidalPositionalEmbedding):
        stored = module(512, width, padding_idx=1).weights.numpy()
        assert not stored[1].any()
        difference = np.abs(encoding.table.vectors - stored[2:])
        assert difference[:16].max() < 1e-6
        assert (difference < float32_angles(514)[2:]).all()


def test_whisper_is_tensor2tensor_without_offset() -> None:
    torch = pytest.importorskip("torch")
    from transformers.models.whisper.modeling_whisper import sinusoids

    ours = sinusoidal(1500, 64, layout="tensor2tensor").position.table.vectors
    assert (np.abs(ours - sinusoids(1500, 64).numpy()) < float32_angles(1500)).all()
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        exactly = sinusoids(1500, 64).numpy()
    finally:
        torch.set_default_dtype(before)
    np.testing.assert_allclose(ours, exactly, atol=1e-6)


@given(
    st.integers(0, 4000),
    st.integers(-500, 500),
    st.integers(1, 64).map(lambda pairs: 2 * pairs),
    st.sampled_from(LAYOUTS),
    st.sampled_from([100.0, 10000.0, 500000.0]),
)
def test_a_shift_is_a_rotation_of_every_pair(start: int, shift: int, width: int, layout: str, base: float) -> None:
    shift = max(shift, -start)
    here, there = (sine_rows(at, at + 1, width, base=base, layout=layout)[0] for at in (start, start + shift))
    turn = sine_rows(abs(shift), abs(shift) + 1, width, base=base, layout=layout)[0]

    def pairs(row: np.ndarray) -> np.ndarray:
        sines, cosines = (row[0::2], row[1::2]) if layout == "interleaved" else np.split(row, 2)
        return cosines + 1j * sines

    rotation = pairs(turn) if shift >= 0 else pairs(turn).conj()
    np.testing.assert_allclose(pairs(there), pairs(here) * rotation, atol=1e-9)
    np.testing.assert_allclose(np.abs(pairs(here)), 1, atol=1e-12)


@pytest.mark.parametrize("name", ROWED)
@pytest.mark.parametrize(("rows", "width"), [(1, 1), (1, 7), (700, 193), (3, 65_536)])
def test_rows_are_those_of_the_whole(name: str, rows: int, width: int) -> None:
    embeddings = made(f"{name}:{rows}x{width}")
    for table in embeddings.tables.values():
        whole = table.vectors
        assert whole.shape == table.shape == (rows, width)
        assert whole.dtype == table.dtype == np.float32
        assert np.isfinite(whole).all()
        for start, stop in {(0, rows), (rows // 2, rows), (rows // 3, rows // 3 + 1), (rows, rows), (0, 1)}:
            np.testing.assert_array_equal(table.rows(start, stop), whole[start:stop])
        walked = np.concatenate([vectors for _, vectors in table.chunks()])
        np.testing.assert_array_equal(walked, whole)


def spelt(name: str) -> tuple[str, ...]:
    """Return a source without its options, and with them as they are by default."""
    options = "&".join(f"{option}={rule.default}" for option, rule in BUILTINS[name].options.items())
    return (f"{name}:12x4", f"{name}:12x4?{options}") if options else (f"{name}:12x4",)


@pytest.mark.parametrize("name", ROWED)
def test_a_name_says_again_what_was_asked_for(name: str) -> None:
    for text in spelt(name):
        embeddings = made(text)
        table = embeddings.position.table
        assert embeddings.name == table.provenance.source == text
        assert table.provenance.file is None
        assert embeddings.position.kind == BUILTINS[name].kind
        assert made(embeddings.name).position.table.digest == table.digest
        assert embeddings.notes[0] == BUILTINS[name].formula
    assert len(made(f"{name}:12x4").position.table.labels) == 12


@pytest.mark.parametrize("name", EVERY)
def test_only_what_has_tokens_gives_them(name: str) -> None:
    embeddings = made(f"{name}:12x4")
    if "token" in BUILTINS[name].roles:
        assert embeddings.token.shape == (12, 4)
    else:
        with pytest.raises(MissingTableError, match="random:"):
            _ = embeddings.token
    with pytest.raises(MissingTableError, match="not a model"):
        embeddings.inputs("text")


def test_a_million_positions_cost_what_is_read() -> None:
    table = made("sinusoidal:1000000x512").position.table
    np.testing.assert_array_equal(table.rows(999_999, 1_000_000)[0], sine_rows(999_999, 1_000_000, 512)[0].astype("f4"))


def test_random_is_normal_seeded_and_two_draws() -> None:
    random = made("random:2000x100?std=.5&seed=7")
    position, token = random.position.table.vectors, random.token.vectors
    assert abs(position.std() - 0.5) < 0.01
    assert abs(position.mean()) < 0.01
    assert abs(np.corrcoef(position.ravel(), token.ravel())[0, 1]) < 0.02
    assert abs(np.corrcoef(position[0], position[655])[0, 1]) < 0.5
    assert len(np.unique(position, axis=0)) == 2000
    np.testing.assert_array_equal(position, made("random:2000x100?std=.5&seed=7").position.table.vectors)
    np.testing.assert_array_equal(position[:30], made("random:30x100?std=.5&seed=7").position.table.vectors)
    assert (position != made("random:2000x100?std=.5&seed=8").position.table.vectors).any(axis=1).all()


def test_what_textbooks_discard_is_what_they_say() -> None:
    def rows(text: str) -> np.ndarray:
        vectors = made(text).position.table.vectors
        assert (vectors == vectors[:, :1]).all()
        return vectors[:, 0]

    t = np.arange(40)
    np.testing.assert_array_equal(rows("counting:40x3"), t)
    np.testing.assert_allclose(rows("normalised:40x3"), t / 39, rtol=1e-6)
    assert rows("normalised:1x3") == [0]
    sigmoid = rows("sigmoid:40x3")
    np.testing.assert_allclose(sigmoid, 1 / (1 + np.exp(-t)), rtol=1e-6)
    assert (np.diff(sigmoid[:18]) > 0).all()
    assert (np.diff(sigmoid[18:]) == 0).all()
    np.testing.assert_allclose(rows("single-sine:40x3"), np.sin(t), atol=1e-6)
    np.testing.assert_allclose(rows("single-sine:40x3?omega=.25"), np.sin(t / 4), atol=1e-6)


@pytest.mark.parametrize("name", sorted(set(EVERY) - set(ROWED)))
def test_what_has_no_rows_says_so(name: str) -> None:
    for text in spelt(name):
        embeddings = made(text)
        assert embeddings.name == text
        assert embeddings.position.kind == {"relative-sinusoidal": "relative-table"}.get(name, name)
        assert embeddings.position.length == 12
        assert not embeddings.tables
        assert embeddings.notes == (BUILTINS[name].formula, BUILTINS[name].about)
        assert embeddings.position.matrix(5).shape == (5, 5)
    with pytest.raises(MissingTableError, match=r"no vector for a position|\.position\.table has their cos and sin"):
        embeddings._table("position")


@pytest.mark.parametrize("width", [16, 64])
def test_relative_sinusoids_depend_on_the_distance_alone(width: int) -> None:
    """Its rows are what Transformer-XL computes of query − key: all sines, then all cosines."""
    encoding = made(f"relative-sinusoidal:96x{width}").position
    angles = np.arange(-20, 21)[:, None] * 10000.0 ** (-np.arange(0, width, 2) / width)
    rows = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    np.testing.assert_allclose(encoding.rows[encoding.row_of(-np.arange(-20, 21))], rows, atol=1e-6)
    matrix = encoding.matrix(40)
    for distance in range(-39, 40):
        assert np.ptp(np.diagonal(matrix, distance)) == 0
    assert np.ptp([sinusoidal(96, width).position.matrix(40)[t, t - 8] for t in range(8, 40)]) < 1e-6


@pytest.mark.parametrize("theta", [10000, 500000])
@pytest.mark.parametrize("factor", [1, 4])
def test_rotary_is_llamas(theta: int, factor: int) -> None:
    pytest.importorskip("torch")
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    stated = {"rope_type": "linear", "factor": float(factor), "rope_theta": float(theta)}
    config = LlamaConfig(head_dim=64, max_position_embeddings=2048, rope_parameters=stated)
    position = made(f"rotary:2048x64?theta={theta}&factor={factor}").position
    assert isinstance(position, Rotary)
    assert (position.length, position.layout, position.attention_scaling) == (2048, "half", 1.0)
    assert position.inv_freq.shape == (32,)
    np.testing.assert_allclose(position.inv_freq, LlamaRotaryEmbedding(config).inv_freq.numpy(), rtol=1e-6)
    assert made("rotary:8x4?layout=interleaved").position.layout == "interleaved"


def test_alibi_is_blooms() -> None:
    pytest.importorskip("torch")
    import torch
    from transformers.models.bloom.modeling_bloom import _get_alibi_slopes

    position = made("alibi:2048x12").position
    assert isinstance(position, Alibi)
    assert position.length == 2048
    np.testing.assert_allclose(position.slopes, _get_alibi_slopes(12, torch.device("cpu")).numpy(), rtol=1e-6)


WRONG = {
    "rotary:2048x63": "needs an even number of dimensions, as it rotates pairs; got 63",
    "rotary:2048x64?factor=0": "a number from 1e-06",
    "rotary:2048x64?layout=concatenated": "half or interleaved",
    "rotary:0x64": "1 to 1,000,000 rows",
    "alibi:2048x0": "width 1",
    "relative-sinusoidal:1000000x512": "at most 4,194,304 numbers",
    "alibi:2048x12?theta=3": "its options are none",
    "sinusoidal:1000000x768": "699,050 rows",
    "sinusoidal:1000001x1": "1 to 1,000,000 rows",
    "sinusoidal:1x65537": "width 1 to 65,536",
    "sinusoidal:4x4?bass=2": "base, layout, offset",
    "sinusoidal:4x4?layout=spiral": "interleaved or concatenated or tensor2tensor",
    "sinusoidal:4x1?layout=tensor2tensor": "at least 2",
    "sinusoidal:4x4?offset=1.5": "whole number from 0",
    "random:4x4?seed=-1": "whole number from 0",
    "random:4x4?std=-1": "a number from",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_cannot_be_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(SourceError) as error:
        made(text)
    assert WRONG[text] in str(error.value)
    assert "\n" not in str(error.value)


RULES = [(name, option) for name in EVERY for option in BUILTINS[name].options]


@pytest.mark.parametrize(("name", "option"), RULES)
@pytest.mark.parametrize("value", ["", "nan", "inf", "-inf", "1e999", "9" * 50, "1_0", "٣", "x" * 5000, "0x10", "None"])
def test_no_option_takes_nonsense(name: str, option: str, value: str) -> None:
    with pytest.raises(SourceError) as error:
        from_source(BuiltinSource(name, 4, 4, {option: value}))
    assert BUILTINS[name].options[option].allowed in str(error.value)
    assert len(str(error.value)) < 200


@pytest.mark.parametrize(("name", "option"), RULES)
def test_every_option_takes_what_it_allows(name: str, option: str) -> None:
    rule = BUILTINS[name].options[option]
    values = rule.names if isinstance(rule, Choice) else (rule.low, rule.default, rule.high)
    for value in values:
        text = str(int(value)) if isinstance(rule, Number) and rule.whole else str(value)
        assert from_source(BuiltinSource(name, 2, 4, {option: text})).config[option] == value


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(SourceError, match="single-sine"):
        from_source(BuiltinSource("triangle", 4, 4))


@pytest.mark.parametrize(
    "arguments",
    [
        {"length": 4.0},
        {"length": True},
        {"width": "4"},
        {"length": 0},
        {"base": float("nan")},
        {"base": None},
        {"offset": -1},
        {"layout": ["interleaved"]},
    ],
)
def test_wrong_arguments_are_one_line(arguments: dict[str, object]) -> None:
    with pytest.raises(InputError) as error:
        sinusoidal(**{"length": 4, "width": 4} | arguments)
    assert "\n" not in str(error.value)


def test_the_function_and_the_source_are_the_same() -> None:
    ours = sinusoidal(np.int64(9), 4, base=500, layout="concatenated", offset=2)
    assert ours.name == "sinusoidal:9x4?base=500&layout=concatenated&offset=2"
    assert made(ours.name).position.table.digest == ours.position.table.digest
    assert sinusoidal(9, 4).name == "sinusoidal:9x4"
