"""Comparison: each figure is the metric's own, and what cannot be had says why."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hfposemb.builtin import sinusoidal
from hfposemb.comparison import MEASURES, Comparison, compare
from hfposemb.embeddings import Embeddings
from hfposemb.errors import InputError
from hfposemb.extract import extract
from hfposemb.position import Absolute, Rotary
from hfposemb.table import EmbeddingTable, Provenance, table_of


def _table(vectors: np.ndarray, name: str = "made") -> EmbeddingTable:
    return table_of(vectors, name=name, provenance=Provenance("test"))


def _source(name: str, *, position: np.ndarray | None = None, token: np.ndarray | None = None) -> Embeddings:
    tables = {part: _table(made, name) for part, made in (("position", position), ("token", token)) if made is not None}
    return Embeddings(name, tables, {"": Absolute(tables["position"])} if "position" in tables else {})


@pytest.fixture(scope="module")
def compared(minilm_folder: Path) -> Comparison:
    rotary = Embeddings("turning", {}, {"text": Rotary(np.ones(4), 16)})
    return compare(extract(str(minilm_folder)), sinusoidal(512, 384), rotary, words=("king", "zzzq"), k=2)


REFERENCE = {
    "variance of 2 components": ("24.51", "23.18", "–"),
    "variance of 3 components": ("34.53", "28.92", "–"),
    "variance of 5 components": ("51.61", "36.92", "–"),
    "components for 90 %": ("11", "72", "–"),
    "components for 95 %": ("12", "84", "–"),
    "components for 99 %": ("77", "96", "–"),
    "effective rank": ("94.27", "89.52", "–"),
    "participation ratio": ("11.70", "23.94", "–"),
    "IsoScore": (".0279", ".0599", "–"),
    "IsoScore of noise": (".569", ".569", "–"),
    "mean cosine at distance 1": (".851", ".973", "–"),
    "mean cosine at distance 2": (".592", ".904", "–"),
    "mean cosine at distance 4": (".504", ".767", "–"),
    "mean cosine at distance 8": (".294", ".722", "–"),
    "mean cosine at distance 16": (".432", ".630", "–"),
    "translation invariance": (".491", "1.000", "–"),
    "norm of position 0": ("2.362", "13.856", "–"),
    "mean norm": (".474", "13.856", "–"),
    "norm of the last position": (".970", "13.856", "–"),
    "token mean norm": ("1.066", "–", "–"),
    "token norm / position norm": ("2.248", "–", "–"),
    "token anisotropy": (".0181", "–", "–"),
    "token IsoScore": (".532", "–", "–"),
    "token IsoScore of noise": (".988", "–", "–"),
}


def test_reference_figures(compared: Comparison) -> None:
    assert list(REFERENCE) == [measure.name for measure in MEASURES]
    for name, values in REFERENCE.items():
        assert tuple(str(source.metrics[name]) for source in compared.sources) == values
    minilm = compared.sources[0]
    assert (minilm.kind, minilm.position_shape, minilm.token_shape) == ("learned", (512, 384), (30522, 384))
    assert [(label, round(value, 3)) for label, value in minilm.neighbours["king"]] == [
        ("kings", 0.690),
        ("queen", 0.627),
    ]
    assert "norms that stand out: 0, 127, 510, 511 (4 of 512 positions)" in minilm.notes


def test_what_a_source_has_not_says_why(compared: Comparison) -> None:
    minilm, computed, rotary = compared.sources
    assert "no single token is named zzzq: no neighbours of it" in minilm.notes
    assert "zzzq" not in minilm.neighbours
    assert "has no token table" in computed.metrics["token anisotropy"].note
    assert rotary.kind == "rotary"
    assert rotary.position_shape is None
    assert "rotary positions have no row for each position" in rotary.metrics["translation invariance"].note
    assert all(figure.note for source in compared.sources for figure in source.metrics.values() if figure.value is None)


def test_json_has_null_for_what_cannot_be_had(compared: Comparison) -> None:
    found = json.loads(json.dumps(compared.to_dict(), allow_nan=False))
    assert found["words"] == ["king", "zzzq"]
    minilm, computed, _ = found["sources"]
    assert minilm["metrics"]["translation invariance"]["value"] == pytest.approx(0.491, abs=5e-4)
    assert computed["metrics"]["token mean norm"]["value"] is None
    assert computed["metrics"]["token mean norm"]["note"]
    assert minilm["neighbours"]["king"][0]["label"] == "kings"
    assert computed["position_shape"] == [512, 384]
    assert computed["token_shape"] is None


def test_the_text_is_a_table_with_a_column_for_each_source(compared: Comparison) -> None:
    lines = str(compared).splitlines()
    table = lines[: lines.index("")]
    assert len(table) == 4 + len(MEASURES)
    assert len({len(line) for line in table}) == 1
    assert "translation invariance" in repr(compared)
    row = next(line for line in table if line.startswith("translation invariance"))
    assert row.split()[-3:] == [".491", "1.000", "–"]
    assert any(line.startswith("variance of 2 components, %") for line in table)
    assert any(line.endswith("kings 0.690, queen 0.627") for line in lines)


def test_tables_too_small_or_without_answer_have_notes() -> None:
    short = np.random.default_rng(0).normal(size=(5, 4))
    gaps = short.copy()
    gaps[0] = np.nan
    found = compare(
        _source("short", position=short, token=short),
        _source("gaps", position=gaps),
        _source("same", position=np.ones((20, 4)), token=np.zeros((3, 4))),
        _source("bare"),
        words=(),
    )
    short_figures, with_gaps, same, bare = found.sources
    assert short_figures.metrics["mean cosine at distance 4"].value is not None
    assert short_figures.metrics["mean cosine at distance 8"].note == "short has 5 positions, none 8 apart"
    assert "1 of 5 position rows hold NaN or Inf and are left out" in with_gaps.notes
    assert with_gaps.metrics["norm of position 0"].value is None
    assert with_gaps.metrics["mean norm"].value == pytest.approx(np.linalg.norm(short[1:], axis=1).mean())
    assert "are the same" in same.metrics["IsoScore"].note
    assert "equally alike" in same.metrics["translation invariance"].note
    assert same.metrics["token anisotropy"].value is None
    assert (bare.kind, bare.position_shape) == ("none", None)
    assert all(figure.value is None for figure in bare.metrics.values())
    json.dumps(found.to_dict(), allow_nan=False)


def test_the_null_has_the_figures_of_noise() -> None:
    noise = np.random.default_rng(0).normal(0, 0.02, (512, 384))
    figures = compare(_source("noise", position=noise)).sources[0].metrics
    assert figures["translation invariance"].value == pytest.approx(0.004, abs=5e-4)
    assert figures["mean cosine at distance 1"].value == pytest.approx(0, abs=0.01)
    assert figures["IsoScore"].value == pytest.approx(figures["IsoScore of noise"].value, abs=0.005)
    assert figures["norm of position 0"].value == pytest.approx(0.39, abs=0.005)


def test_the_same_source_twice_has_the_same_figures() -> None:
    source = _source("twin", position=np.random.default_rng(0).normal(size=(20, 4)))
    first, second = compare(source, source).sources
    assert first == second


def test_several_parts_are_named() -> None:
    table = _table(np.random.default_rng(0).normal(size=(20, 4)))
    source = Embeddings("pair", {}, {"encoder": Absolute(table), "decoder": Absolute(table)})
    assert "the figures are of encoder; it also has positions of decoder" in compare(source).sources[0].notes


def test_wrong_calls_say_what_is_right() -> None:
    with pytest.raises(InputError, match="one source or more"):
        compare()
    with pytest.raises(InputError, match=r"words=\['king'\]"):
        compare(_source("bare"), words="king")


def test_pairs_stand_beside_chance() -> None:
    found = compare(extract("sample:bert"), extract("sample:gpt2"), sinusoidal(64, 32), words=(), pairs=True, draws=9)
    assert [(pair.role, pair.rows) for pair in found.pairs[:1]] == [("position", 256)]
    assert {pair.role for pair in found.pairs} == {"position", "token"}
    assert len(found.pairs) == 4
    assert len(found.missing) == 2
    assert "has no vocabulary" in found.missing[0]
    text = str(found)
    assert "CKA" in text
    assert "impostor" in text
    assert "permutation" in text
    assert "of the smaller vocabulary shared" in text
    measures = found.to_dict()["pairs"][0]["measures"]  # type: ignore[index]
    assert set(measures) == {"CKA", "RSA", "Procrustes fit", "shared neighbours"}
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["pairs"][0]["rows"] == 256
