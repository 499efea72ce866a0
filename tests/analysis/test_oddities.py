"""Odd tokens: what was planted is found, noise has none, and MiniLM's are those that its vocabulary hardly uses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import hfposemb as hpe
from hfposemb.analysis import rows as rows_module
from hfposemb.analysis.geometry import anisotropy, spectrum
from hfposemb.analysis.tokens.undertrained import NEAR, UndertrainedTokens, undertrained_tokens
from hfposemb.cli.main import main
from hfposemb.tables.table import TOKEN_CLASSES, EmbeddingTable, Labels
from tests.support.made_tables import streamed


def of(rows: NDArray[np.floating], *, classes: dict[int, str] | None = None) -> EmbeddingTable:
    """Return a token table of these rows, named w0, w1, …, some of them of other classes."""
    names = tuple(f"w{row}" for row in range(len(rows)))
    kinds = np.zeros(len(rows), np.uint8)
    for row, name in (classes or {}).items():
        kinds[row] = TOKEN_CLASSES.index(name)
    return replace(hpe.from_arrays(token=rows).token, named=lambda: Labels(names, names, kinds))


def noise(rows: int = 300, width: int = 24, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(size=(rows, width))


def listed(found: UndertrainedTokens, name: str) -> list[int]:
    return [odd.row for odd in found[name].rows]


def odd(table: EmbeddingTable, *, count: int = 20, unused: Sequence[int] = ()) -> UndertrainedTokens:
    return undertrained_tokens(table, count=count, unused=unused)


def test_what_is_planted_is_found() -> None:
    rows = noise() + 2.0
    rows[7] = rows.mean(axis=0)  # near the mean, and so short
    rows[8] += 40.0  # far, and long
    rows[20] = rows[30] = rows[40]
    rows[50] = rows[60] + 1e-3
    found = odd(of(rows))
    assert listed(found, "near the mean")[0] == 7
    assert listed(found, "far from the mean")[0] == listed(found, "long")[0] == 8
    assert found["far from the mean"].rows[0].z > found["far from the mean"].expected  # type: ignore[operator]
    assert found["far from the mean"].beyond >= 1
    (same,) = found["same"].rows
    assert (same.row, same.value, same.twins) == (20, 3, ("w30", "w40"))
    (near,) = found["nearly the same"].rows
    assert (near.row, near.twins) == (50, ("w60",))
    assert near.percentile == 100
    typical = np.sqrt(((rows - rows.mean(axis=0)) ** 2).sum(axis=1).mean())
    assert near.value == pytest.approx(1e-3 * np.sqrt(24) / typical, rel=1e-6)
    assert near.value < NEAR


def test_undertrained_tokens_are_near_the_unused_ones() -> None:
    """Trained rows leave where they began, by a direction all share and one of their own; untrained only by the first.

    Land & Bartolo take the shared direction out, without which every row is near every other.
    """
    rng = np.random.default_rng(1)
    shared, begin = 5 * rng.normal(size=32), rng.normal(size=32)
    rows = begin + rng.normal(size=(400, 1)) * shared + 2 * rng.normal(size=(400, 32))
    never, rare = range(10), [100, 200, 300]
    for row in (*never, *rare):
        rows[row] = begin + rng.normal() * shared + 0.05 * rng.normal(size=32)
    table = of(rows, classes=dict.fromkeys(never, "unused"))
    found = odd(table)
    assert sorted(listed(found, "near unused")[:3]) == rare
    assert found.unused == found["unused"].found == 10
    assert not set(listed(found, "near unused")) & set(never)
    assert sorted(listed(odd(of(rows), unused=list(never)), "near unused")[:3]) == rare


def test_the_distance_to_the_unused_is_that_of_the_paper() -> None:
    """Against the formula written out: both sides without the first principal direction, cosine distance to a mean."""
    rows = noise(200, 80) * np.linspace(3, 1, 80) + 0.5
    unused = [3, 5, 7]
    first = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)[2][0]
    without = rows - np.outer(rows @ first, first)
    mean = without[unused].mean(axis=0)
    expected = 1 - without @ mean / np.linalg.norm(without, axis=1) / np.linalg.norm(mean)
    for entry in odd(of(rows), unused=unused)["near unused"].rows:
        assert entry.value == pytest.approx(expected[entry.row], abs=1e-6)


def test_isotropy_is_the_table_s_own() -> None:
    for rows, width in ((300, 24), (100, 90), (20, 50)):
        table = of(noise(rows, width))
        found, whole = odd(table), spectrum(table)
        assert found.anisotropy == anisotropy(table)
        assert found.isoscore == pytest.approx(whole.isoscore, rel=1e-6)
        assert found.isoscore_of_noise == whole.isoscore_of_noise


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 10_000))
def test_noise_has_no_odd_tokens(seed: int) -> None:
    found = odd(of(noise(300, 320, seed)))
    for name in ("short", "long", "same", "nearly the same", "unused", "near unused"):
        assert not found[name].rows, name
        assert found[name].note
    assert found["near the mean"].beyond < 10
    assert found.notes == ()


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.1, 50))
def test_rotation_and_scale_change_no_list(seed: int, scale: float) -> None:
    rows = noise(120, 20, seed)
    rows[5] = rows[9] + 1e-3
    turned = scale * rows @ np.linalg.qr(noise(20, 20, seed + 1))[0]
    one, two = (odd(of(part), unused=[1, 2], count=5) for part in (rows, turned))
    for name in ("near unused", "near the mean", "far from the mean", "nearly the same"):
        assert listed(one, name) == listed(two, name), name


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = noise(257, 70)
    rows[200] = rows[3]
    whole = odd(of(rows), unused=[4])
    monkeypatch.setattr(rows_module, "BLOCK_BYTES", 70 * 8 * 10)
    assert str(odd(of(rows), unused=[4])) == str(whole)


def test_the_table_is_never_asked_for_as_a_whole() -> None:
    """A large one is read by blocks: no read is of more rows than a chunk has."""
    table, asked = streamed(noise(3_000, 40))
    chunk = 500 * 40 * 8
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hfposemb.tables.table.CHUNK_BYTES", chunk)
        patch.setattr("hfposemb.analysis.geometry.LEAST_ROWS", 500)
        odd(table)
    assert max(asked) == 500
    assert "vectors" not in vars(table)


def test_rows_without_a_direction_are_counted_and_left_out() -> None:
    rows = noise()
    rows[3] = rows[4] = 0
    rows[5] = np.nan
    found = odd(of(rows))
    assert found.notes == ("3 rows are left out: 2 are zero, 1 hold NaN or Inf",)
    assert found["same"].rows[0].row == 3
    for name in ("near the mean", "far from the mean", "short", "nearly the same"):
        assert not set(listed(found, name)) & {3, 4, 5}, name
    json.dumps(asdict(found), allow_nan=False)


def test_rows_that_are_all_the_same() -> None:
    found = odd(of(np.ones((30, 4))))
    assert found.isoscore is None
    assert found["same"].rows[0].value == 30
    assert not found["nearly the same"].rows
    json.dumps(asdict(found), allow_nan=False)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (noise(2), {}, "outliers need at least 3"),
        (noise(), {"count": 0}, "count must be at least 1; got 0"),
        (noise(), {"unused": [300]}, "no row 300; its rows are 0 to 299"),
    ],
)
def test_what_cannot_be_asked(rows: NDArray[np.float64], options: dict[str, object], message: str) -> None:
    with pytest.raises(hpe.HfposembError, match=message):
        odd(of(rows), **options)  # type: ignore[arg-type]


def test_minilm(minilm_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its vocabulary is BERT's, with 994 slots never used; nearest to them are signs and scripts that English lacks."""
    assert main(["odd", str(minilm_folder), "--count", "10", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    lists = {one["name"]: one for one in found["lists"]}
    assert found["anisotropy"] == pytest.approx(0.01806, abs=5e-6)
    assert found["isoscore"] == pytest.approx(0.532, abs=5e-4)
    assert found["unused"] == lists["unused"]["found"] == 994
    near = lists["near unused"]["rows"]
    assert len(near) == 10
    assert not [entry for entry in near if entry["label"].isascii()]
    assert lists["near the mean"]["rows"][0]["label"] == "[MASK]"
    assert not lists["same"]["rows"]


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["odd", "sample:bert", "--count", "3", "--unused", "7, 9"]) == 0
    printed = capsys.readouterr().out
    assert "near the mean: closest to the mean of all tokens" in printed
    assert "[unused0]" in printed
    for arguments in (["--unused", "7,x"], ["--count", "0"], ["--unused", "99999"]):
        assert main(["odd", "sample:bert", *arguments]) == 1
        assert capsys.readouterr().err.count("\n") == 1
    assert main(["odd", "sinusoidal:8x4"]) == 1


def test_near_pairs_are_found_in_noise_too() -> None:
    """Where no direction stands out: 200 pairs just near enough, of which 99 in 100 are promised."""
    rows = noise(4_000, 128)
    step = noise(200, 128, 1)
    typical = np.sqrt(128)
    rows[2_000:2_200] = rows[:200] + 0.97 * NEAR * typical * step / np.linalg.norm(step, axis=1, keepdims=True)
    rows[3_000] = rows[3_500] + 1e-4
    found = odd(of(rows), count=300)["nearly the same"]
    assert found.found is not None
    assert 198 <= found.found <= 201
    assert (found.rows[0].row, found.rows[0].twins) == (3_000, ("w3500",))
    assert all(odd.twins == (f"w{odd.row + 2_000}",) for odd in found.rows[1:])
