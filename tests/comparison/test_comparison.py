"""Comparison: each figure is the metric's own, and what cannot be had says why."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path

import numpy as np
import pytest

from hfposemb.cache import Cache
from hfposemb.comparison.aligned_maps import align_maps
from hfposemb.comparison.alignment import MEASURES, align
from hfposemb.comparison.metrics import MEASURES as METRICS
from hfposemb.comparison.metrics import measures_of
from hfposemb.comparison.moved_words import find_moved_words
from hfposemb.comparison.results import Comparison
from hfposemb.comparison.side_by_side import Run, compare
from hfposemb.errors import HfposembError, InputError
from hfposemb.models.extraction import extract
from hfposemb.tables.closed_forms import sinusoidal
from hfposemb.tables.embeddings import Embeddings, from_arrays
from hfposemb.tables.encodings import Absolute
from hfposemb.tables.rotary import Rotary
from hfposemb.tables.table import EmbeddingTable, Provenance, table_of
from tests.support.made_tables import noise


def _table(vectors: np.ndarray, name: str = "made") -> EmbeddingTable:
    return table_of(vectors, name=name, provenance=Provenance("test"))


def _source(name: str, *, position: np.ndarray | None = None, token: np.ndarray | None = None) -> Embeddings:
    tables = {part: _table(made, name) for part, made in (("position", position), ("token", token)) if made is not None}
    return Embeddings(name, tables, {"": Absolute(tables["position"])} if "position" in tables else {})


@pytest.fixture(scope="module")
def compared(minilm_folder: Path) -> Comparison:
    rotary = Embeddings("turning", {}, {"text": Rotary(np.ones(4), 16)})
    sources = extract(str(minilm_folder)), sinusoidal(512, 384), rotary
    return compare(*sources, words=("king", "zzzq"), k=2, pairs=False, draws=0)


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
    "translation invariance, inner products": (".477", "1.000", "–"),
    "monotonicity up to 128": (".648", ".986", "–"),
    "shift R² by 1, random rows": (".990", "1.000", "–"),
    "shift R² by 4, random rows": (".933", ".998", "–"),
    "shift R² by 16, random rows": (".450", ".985", "–"),
    "shift R² by 1, last quarter": (".965", ".808", "–"),
    "shift R² by 4, last quarter": (".935", "-3.309", "–"),
    "shift R² by 16, last quarter": (".731", "-60.38", "–"),
    "helix period": ("5.858", "677.41", "–"),
    "helix evenness": ("1.000", ".965", "–"),
    "largest drop between neighbours": (".413", ".0000", "–"),
    "break at position": ("127", "–", "–"),
    "norm of position 0": ("2.362", "13.856", "–"),
    "mean norm": (".474", "13.856", "–"),
    "norm of the last position": (".970", "13.856", "–"),
    "token mean norm": ("1.066", "–", "–"),
    "token anisotropy": (".0181", "–", "–"),
    "token IsoScore": (".532", "–", "–"),
    "token IsoScore of noise": (".988", "–", "–"),
    "token norm / position norm": ("2.248", "–", "–"),
    "head and tokens, CKA": ("–", "–", "–"),
    "head and tokens, norms": ("–", "–", "–"),
    "head and tokens, first directions": ("–", "–", "–"),
}


def test_reference_figures(compared: Comparison) -> None:
    assert list(REFERENCE) == [measure.name for measure in measures_of()]
    for name, values in REFERENCE.items():
        assert tuple(str(source.metrics[name]) for source in compared.sources) == values
    minilm = compared.sources[0]
    assert (minilm.kind, minilm.position_shape, minilm.token_shape) == ("learned", (512, 384), (30522, 384))
    assert [(label, round(value, 3)) for label, value in minilm.neighbours["king"]] == [
        ("kings", 0.690),
        ("queen", 0.627),
    ]
    assert "outlying norms: 0, 127, 510, 511 (4 of 512 positions)" in minilm.notes
    assert any(
        note.startswith("break between positions 126 and 128: the cosine") and " to 0.439 (" in note
        for note in minilm.notes
    )


def test_what_a_source_has_not_says_why_and_is_null_in_json(compared: Comparison) -> None:
    minilm, computed, rotary = compared.sources
    assert "no neighbours for zzzq: no token is spelled so, or its row has no direction" in minilm.notes
    assert "zzzq" not in minilm.neighbours
    assert "has no token table" in computed.metrics["token anisotropy"].note
    assert rotary.kind == "rotary"
    assert rotary.position_shape is None
    assert "rotary positions have no vector" in rotary.metrics["translation invariance"].note
    assert all(figure.note for source in compared.sources for figure in source.metrics.values() if figure.value is None)
    plain = json.loads(json.dumps(compared.to_dict(), allow_nan=False))
    assert plain["words"] == ["king", "zzzq"]
    words, sines, _ = plain["sources"]
    assert words["metrics"]["translation invariance"]["value"] == pytest.approx(0.491, abs=5e-4)
    assert sines["metrics"]["token mean norm"]["value"] is None
    assert sines["metrics"]["token mean norm"]["note"]
    assert words["neighbours"]["king"][0]["label"] == "kings"
    assert (sines["position_shape"], sines["token_shape"]) == ([512, 384], None)


def test_the_text_is_a_table_with_a_column_for_each_source(compared: Comparison) -> None:
    lines = str(compared).splitlines()
    assert max(map(len, lines[:50])) <= 120
    assert [line for line in lines if line in ("Positions", "Tokens", "Tokens and positions")] == [
        "Positions",
        "Tokens",
        "Tokens and positions",
    ]
    assert "translation invariance" in repr(compared)
    row = next(line for line in lines if line.startswith("translation invariance"))
    assert row.split()[-3:] == [".491", "1.000", "–"]
    assert any(line.startswith("variance of 2 components, %") for line in lines)
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
        draws=3,
    )
    assert found.pairs == found.moves == ()
    assert len(found.missing) == 12
    short_figures, with_gaps, same, bare = found.sources
    assert short_figures.metrics["mean cosine at distance 4"].value is not None
    assert short_figures.metrics["mean cosine at distance 8"].note == "short has only 5 positions, so none are 8 apart"
    assert "1 of 5 position rows hold NaN or Inf and are left out" in with_gaps.notes
    assert with_gaps.metrics["norm of position 0"].value is None
    assert with_gaps.metrics["mean norm"].value == pytest.approx(np.linalg.norm(short[1:], axis=1).mean())
    assert "are the same" in same.metrics["IsoScore"].note
    assert "equally similar" in same.metrics["translation invariance"].note
    assert same.metrics["token anisotropy"].value is None
    assert (bare.kind, bare.position_shape) == ("none", None)
    assert all(figure.value is None for figure in bare.metrics.values())
    json.dumps(found.to_dict(), allow_nan=False)


def test_the_null_has_the_figures_of_noise() -> None:
    figures = compare(_source("noise", position=0.02 * noise(512, 384)), draws=0).sources[0].metrics
    assert figures["translation invariance"].value == pytest.approx(0.004, abs=5e-4)
    assert figures["mean cosine at distance 1"].value == pytest.approx(0, abs=0.01)
    assert figures["IsoScore"].value == pytest.approx(figures["IsoScore of noise"].value, abs=0.005)
    assert figures["norm of position 0"].value == pytest.approx(0.39, abs=0.005)


def test_the_same_source_twice_has_the_same_figures_and_several_parts_are_named() -> None:
    table = _table(noise(20, 4))
    source = Embeddings("pair", {}, {"encoder": Absolute(table), "decoder": Absolute(table)})
    first, second = compare(source, source, draws=5).sources
    assert first == second
    assert "positions of the part encoder; others: decoder" in first.notes


def test_pairs_stand_beside_chance() -> None:
    found = compare(extract("sample:bert"), extract("sample:gpt2"), sinusoidal(64, 32), words=(), pairs=True, draws=9)
    assert [(pair.role, pair.rows) for pair in found.pairs[:1]] == [("position", 256)]
    assert {pair.role for pair in found.pairs} == {"position", "token"}
    assert len(found.pairs) == 4
    assert len(found.missing) == 2
    assert "has no vocabulary" in found.missing[0].reason
    text = str(found)
    assert "CKA" in text
    assert re.search(r"CKA +[.\d]+ +by chance [-.\d]+ to [-.\d]+, p [.\d]+", text)
    assert "of the smaller vocabulary shared" in text
    positions, tokens = (found.to_dict()["pairs"][place]["measures"] for place in (0, 1))  # type: ignore[index]
    assert not positions, "both tables drift straight"
    assert set(tokens) == set(MEASURES)
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["pairs"][0]["rows"] == 256
    (moves,) = found.moves
    assert f"{moves.shared:,} shared, mean distance" in text
    assert moves.most[0].label.strip() in text


def test_figures_stand_beside_chance_where_it_is_drawn() -> None:
    source = extract("sample:gpt2")
    whole = compare(source, words=(), draws=12)
    found = whole.sources[0].metrics
    kinds = {name: None if figure.null is None else figure.null.kind for name, figure in found.items()}
    assert {name for name, kind in kinds.items() if kind} == {"token mean norm", "token anisotropy", "token IsoScore"}
    assert set(found["effective rank"].references) == {"untrained", "sinusoid"}
    positions = {measure.name for measure in METRICS if measure.section == "position" and measure.extra is None}
    assert {name for name in positions if not found[name].references} == {"IsoScore of noise", "break at position"}
    for figure in found.values():
        if figure.null is not None:
            assert figure.null.observed == figure.value
            assert figure.null.low <= figure.null.mean <= figure.null.high
            assert (figure.null.draws, figure.null.seed) == (12, 0)
    text = str(whole)
    assert re.search(r"effective rank +[\d.]+ \[[\d.]+ \| [\d.]+\]\n", text)
    assert re.search(r"token IsoScore +[\d.]+ \[[\d.]+, [\d.]+\]", text)
    assert "of an untrained table and of a sinusoid" in text
    without = compare(extract("sample:bert"), source, words=(), draws=0)
    assert all(figure.null is None for one in without.sources for figure in one.metrics.values())
    assert [dict(pair.measures) for pair in without.pairs] == [{}, {}]
    assert all(set(pair.observed) == set(MEASURES) for pair in without.pairs)
    assert "In brackets" not in str(without)


def test_nulls_are_kept(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sources = [_source(name, token=rng.normal(size=(48, 8))) for name in ("one", "other")]
    cache = Cache(tmp_path)
    told: list[str] = []
    run = Run(cache=cache, progress=lambda share, doing: told.append(doing))
    first = compare(*sources, draws=6, run=run)
    assert any("surrogate 18 of 18" in doing for doing in told)
    assert [entry.key[0] for entry in cache.entries()] == ["null"]
    told.clear()
    assert compare(*sources, draws=6, run=run) == first
    assert told == ["done"]
    assert compare(*sources, draws=6).to_dict() == first.to_dict()
    compare(*sources, draws=7, run=run)
    assert len(cache.entries()) == 2


def test_rows_that_stand_out_are_left_out() -> None:
    rows = np.random.default_rng(0).normal(size=(60, 6))
    loud = rows.copy()
    loud[0] *= 40
    words = np.random.default_rng(1).normal(size=(50, 6))
    found = compare(_source("loud", position=loud, token=words), words=(), draws=4, leave_out=True).sources[0]
    quiet = rows.copy()
    quiet[0] = np.nan
    same = compare(_source("loud", position=quiet, token=words), words=(), draws=4).sources[0]
    assert found.metrics["effective rank"] == same.metrics["effective rank"]
    assert found.metrics["norm of position 0"].value is None
    assert "left out" in found.metrics["norm of position 0"].note
    assert "positions left out for outlying norms: 0 (1)" in found.notes


def test_figures_on_request() -> None:
    source = _source("both", position=sinusoidal(14, 4).position.table.vectors, token=noise(60, 4))  # type: ignore[union-attr]
    found = compare(source, words=(), draws=3, run=Run(extras=("probes", "sums"))).sources[0].metrics
    probe = found["absolute probe, error"]
    assert probe.value is not None
    assert probe.deviation is not None
    assert found["neighbours kept, all placed"].null is not None
    assert found["words recovered"].value is not None
    assert "absolute probe, error" not in compare(source, words=(), draws=0).sources[0].metrics
    with pytest.raises(InputError, match="probes, sums; got magic"):
        compare(source, run=Run(extras=("magic",)))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="at least one source"):
        compare()


THIRD = np.isin(np.arange(30), [2, 5])[:, None]
BAD = {
    "one row": (noise(1, 4), "share 1 positions"),
    "constant rows": (np.ones((30, 4)), "the same"),
    "zero rows": (np.where(THIRD, 0, noise(30, 4)), ""),
    "all zero": (np.zeros((30, 4)), "share 0 positions"),
    "NaN rows": (np.where(THIRD, np.nan, noise(30, 4)), "NaN"),
    "all NaN": (np.full((30, 4), np.nan), "NaN"),
    "wider than long": (noise(25, 60), ""),
    "another length": (noise(200, 4), ""),
    "one column": (noise(30, 1), ""),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_tables_are_compared_or_say_what_is_missing(name: str) -> None:
    bad, said = BAD[name]
    labels = [f"w{row}" for row in range(len(bad))]
    odd = from_arrays(position=bad, token=bad, labels=labels, name="odd")
    good = from_arrays(position=noise(40, 6, 1), token=noise(40, 6, 2), labels=[f"w{row}" for row in range(40)])
    found = compare(odd, good, words=("w1",), draws=4, leave_out=name == "zero rows")
    kept = json.dumps(found.to_dict(), allow_nan=False)
    text = str(found)
    assert said in text
    assert said in kept
    assert "nan" not in re.sub("NaN or Inf", "", text).lower()
    for source in found.sources:
        assert all(figure.value is not None or figure.note for figure in source.metrics.values())
    assert len(found.pairs) + len(found.missing) >= 2
    for call in (
        lambda: align(odd, good, "token", draws=3),
        lambda: align(odd, good, "position", draws=3),
        lambda: find_moved_words(odd, good, count=3),
        lambda: align_maps(odd, good, "token", dims=1),
        lambda: align_maps(odd, good, "position"),
    ):
        try:
            answer = call()
        except HfposembError as error:
            lines = str(error).splitlines()
        else:
            lines = [""]
            _finite(answer)
        assert len(lines) == 1


def _finite(value: object) -> None:
    """Look for NaN and Inf in all that a result holds."""
    if isinstance(value, float):
        assert np.isfinite(value)
    elif isinstance(value, np.ndarray):
        assert np.isfinite(value).all()
    elif is_dataclass(value):
        for one in fields(value):
            _finite(getattr(value, one.name))
    elif isinstance(value, dict):
        _finite(tuple(value.values()))
    elif isinstance(value, tuple):
        for one in value:
            _finite(one)


MEMORY = """
import numpy as np, scipy.linalg, scipy.sparse.linalg, threadpoolctl
import hfposemb as hpe, hfposemb.tables.closed_forms, hfposemb.tables.source_parser, hfposemb.comparison.side_by_side
def status(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name)) * 1024
np.linalg.eigvalsh(np.eye(400) @ np.eye(400))
base = status("VmRSS")
def made(rows, first):
    vectors = np.random.default_rng(first).standard_normal((rows, 256), dtype=np.float32)
    return hpe.from_arrays(token=vectors, labels=[f"w{row + first}" for row in range(rows)], name=str(first))
one, other = made(40_000, 0), made(24_000, 38_000)
open("/proc/self/clear_refs", "w").write("5")
hpe.compare(one, other, words=("w38100",), draws=3)
print(status("VmHWM") - base, 64_000 * 256 * 4)
"""
FLOOR = 27 * 2**20
"""What labels and ranks take beyond half of tables this small: both are the same whatever the width.

Of 50,257 × 768 and 30,522 × 768 half the tables is more than all that is added, and there is no floor.
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="reads the peak from /proc")
def test_vocabularies_are_compared_in_little_memory() -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True, env=environment)
    peak, tables = map(int, done.stdout.split())
    assert peak < 1.5 * tables + FLOOR
