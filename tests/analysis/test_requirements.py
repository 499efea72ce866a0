"""What a position scheme meets: what the discarded candidates are discarded for, in numbers."""

from __future__ import annotations

import json

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.analysis.positions.encoding_properties import CHECKS, LONGER, encoding_requirements, side_by_side
from hfposemb.analysis.positions.probes import extrapolation_probe
from hfposemb.cli.main import main
from hfposemb.tables.closed_forms import BUILTINS
from hfposemb.tables.embeddings import Embeddings
from hfposemb.tables.encodings import Absolute, Convolution, NoPositions, PositionEncoding, RelativeBias, RelativeTable


def holding(encoding: PositionEncoding) -> Embeddings:
    return Embeddings("made", {}, {"position": encoding})


NOT_MET = {
    "sinusoidal": {"extrapolates"},
    "rotary": {"extrapolates"},
    "alibi": {"bounded", "neighbours apart"},
    "relative-sinusoidal": {"extrapolates"},
    "random": {"extrapolates"},
    "counting": {"bounded", "neighbours apart"},
    "normalised": {"independent of length", "neighbours apart"},
    "sigmoid": {"unique", "neighbours apart", "extrapolates"},
    "single-sine": {"unique", "neighbours apart", "extrapolates"},
}


@pytest.mark.parametrize("name", BUILTINS)
def test_each_built_in_fails_what_it_is_known_for(name: str) -> None:
    found = encoding_requirements(hpe.extract(f"{name}:512x64"))
    assert [item.name for item in found.items] == list(CHECKS)
    assert {item.name for item in found.items if item.verdict != "met"} == NOT_MET[name]
    assert found.met == len(CHECKS) - len(NOT_MET[name])
    assert all(item.sentence.endswith(".") for item in found.items)


def test_the_numbers_are_what_they_say() -> None:
    found = encoding_requirements(hpe.extract("counting:100x4"))
    assert found["bounded"].value == 99
    assert f"{100 * LONGER - 1}" in found["bounded"].sentence
    # A step of (1, 1, 1, 1) over the mean length of (t, t, t, t).
    assert found["unique"].value == pytest.approx(1 / 49.5)
    assert found["neighbours apart"].value == pytest.approx(1 / 49.5)
    assert found["extrapolates"].value == 0
    squeezed = encoding_requirements(hpe.extract("normalised:100x4"))
    # The last row, 1, is 99 / 799 among eight times as many, and a typical one is .5.
    assert squeezed["independent of length"].value == pytest.approx((1 - 99 / 799) / 0.5, rel=1e-5)
    sines = hpe.sinusoidal(128, 16)
    assert encoding_requirements(sines)["extrapolates"].value == extrapolation_probe(sines.position)


def test_steps_that_shrink_are_not_apart() -> None:
    assert encoding_requirements(hpe.extract("counting:1000x4"))["neighbours apart"].verdict == "not met"


def test_a_learned_table_has_one_length() -> None:
    found = encoding_requirements(hpe.extract("sample:gpt2"))
    assert found["independent of length"].verdict == "not measured"
    assert found["independent of length"].value is None
    assert "only 256 rows" in found["bounded"].sentence
    # It reads on better than a guess, and still has nothing beyond its end.
    assert found["extrapolates"].value < 32  # type: ignore[operator]
    assert found["extrapolates"].verdict == "not met"


def test_two_equal_rows_are_named() -> None:
    rows = np.random.default_rng(0).normal(size=(30, 6))
    rows[21] = rows[4]
    found = encoding_requirements(hpe.from_arrays(position=rows))
    assert found["unique"].value == 0
    assert "positions 4 and 21, which are identical" in found["unique"].sentence


def test_biases_are_read_by_distance() -> None:
    """T5's last bucket holds every distance from 128 on: those are one and the same."""
    bias = np.random.default_rng(0).normal(size=(32, 4))
    found = encoding_requirements(holding(RelativeBias(bias, 512)))
    assert found.reads == "distance"
    assert found["bounded"].verdict == found["independent of length"].verdict == "met"
    assert found["unique"].value == 0
    assert "distances" in found["unique"].sentence
    rows = RelativeTable(np.random.default_rng(0).normal(size=(21, 8)), np.arange(-10, 11), 64, clipped=False)
    assert encoding_requirements(holding(rows))["unique"].verdict == "met", "distances without a row are left out"


@pytest.mark.parametrize("encoding", [Convolution(5), NoPositions()])
def test_what_has_no_numbers_says_so(encoding: PositionEncoding) -> None:
    found = encoding_requirements(holding(encoding))
    assert {item.verdict for item in found.items} == {"not measured"}
    assert found.notes
    assert found.notes[0] in found.items[0].sentence


@pytest.mark.parametrize("rows", [np.zeros((20, 3)), np.full((20, 3), np.nan)])
def test_empty_tables_say_so(rows: np.ndarray) -> None:
    found = encoding_requirements(hpe.from_arrays(position=rows))
    assert {item.verdict for item in found.items} == {"not measured"}
    assert "zero or not finite" in found.notes[0]


@pytest.mark.parametrize("rows", [1, 2, 3, 9])
def test_few_rows_are_measured_as_far_as_they_go(rows: int) -> None:
    found = encoding_requirements(hpe.from_arrays(position=np.arange(1.0, rows + 1)[:, None] * np.ones(4)))
    assert found["bounded"].value == rows
    assert found["extrapolates"].verdict == "not measured"
    assert (found["unique"].verdict == "not measured") == (rows == 1)


def test_a_row_that_is_not_finite_is_passed_over() -> None:
    rows = np.array(hpe.sinusoidal(64, 8).position.table.vectors)  # type: ignore[union-attr]
    rows[10] = np.inf
    found = encoding_requirements(hpe.from_arrays(position=rows))
    assert found["bounded"].value == 1
    assert found["neighbours apart"].verdict == "met"
    assert all(item.value is None or np.isfinite(item.value) for item in found.items)
    assert "inf" not in str(found)


def test_rows_without_a_finite_neighbour_are_still_unique() -> None:
    rows = np.array(hpe.sinusoidal(40, 8).position.table.vectors)  # type: ignore[union-attr]
    rows[1::2] = np.nan
    found = encoding_requirements(hpe.from_arrays(position=rows))
    assert found["unique"].verdict == "met"
    assert found["neighbours apart"].verdict == "not measured"


def test_long_tables_are_looked_at_in_part() -> None:
    found = encoding_requirements(hpe.extract("sinusoidal:5000x8"))
    assert found.rows == 2048
    assert found.notes == ("the first 2,048 of 5,000 positions",)


def test_a_part_is_chosen_by_name() -> None:
    rows = hpe.sinusoidal(64, 8).position.table
    assert rows is not None
    both = Embeddings("two", {}, {"encoder": Convolution(3), "decoder": Absolute(rows)})
    assert encoding_requirements(both).items[0].verdict == "not measured"
    assert encoding_requirements(both, part="decoder").items[0].verdict == "met"
    with pytest.raises(hpe.HfposembError, match="its parts: encoder, decoder"):
        encoding_requirements(both, part="vision")


def test_side_by_side() -> None:
    lines = side_by_side(
        [encoding_requirements(hpe.extract(f"{name}:64x8")) for name in ("counting", "sigmoid")]
    ).splitlines()
    assert lines[0].split() == ["counting:64x8", "sigmoid:64x8"]
    assert lines[1].split() == ["bounded", "63", "no", "1", "yes"]
    assert lines[-1].split() == ["met", "4", "of", "5", "2", "of", "5"]


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "counting:64x8", "sinusoidal:64x8", "alibi:64x4", "--requirements", "--resolution"]) == 0
    printed = capsys.readouterr().out
    assert "counting:64x8: 4 of 5 requirements met" in printed
    assert "frequency pairs" in printed
    assert printed.splitlines()[-1].split() == ["met", "4", "of", "5", "5", "of", "5", "4", "of", "5"]
    assert "note: alibi positions have no vector for a position" in printed
    assert main(["info", "sample:bert", "alibi:64x4", "--requirements", "--resolution", "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["sources"]
    assert first["requirements"]["met"] == encoding_requirements(hpe.extract("sample:bert")).met
    assert first["resolution"]["guess"] == 64
    assert second["resolution"] is None
    assert main(["info", "sample:bert", "./nowhere", "--requirements"]) == 1
    assert capsys.readouterr().err.count("\n") == 1
