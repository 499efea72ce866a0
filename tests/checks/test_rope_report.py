"""The report of rotary positions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.analysis.positions.base_bound import lowest_sum
from hfposemb.checks.rope_report import SCALINGS, rope_report
from hfposemb.cli.main import main
from hfposemb.errors import InputError, MissingTableError
from hfposemb.models.positions.rope import rotary_encodings
from tests.checks.planted import change, llama

HALF = 8


def stated(folder: Path, **values: Any) -> hpe.Embeddings:
    change(llama(folder), max_position_embeddings=64, rope_theta=10_000.0, **values)
    return hpe.extract(folder)


def test_wavelengths_and_pairs_that_never_turned(tmp_path: Path) -> None:
    found = rope_report(stated(tmp_path))
    assert (found.theta, found.pairs, found.trained_length, found.length) == (10_000.0, HALF, 64, 64)
    expected = 2 * np.pi * 10_000.0 ** (np.arange(HALF) / HALF)
    np.testing.assert_allclose(found.wavelengths.before, expected)
    assert found.never_turned == (expected > 64).sum() == 5
    assert found.base is not None
    assert found.base.holds
    assert found.base.bound == pytest.approx(1706.1, rel=1e-4)
    assert lowest_sum(1700.0, 2 * HALF, 64) < 0


def test_scalings_side_by_side(tmp_path: Path) -> None:
    """Plain angles leave the trained range, those of a factor as large as the extension do not."""
    found = rope_report(stated(tmp_path), factor=8.0)
    by = {(one.scaling, one.multiple): one for one in found.effects}
    assert {one.scaling for one in found.effects} == set(SCALINGS) - {"longrope"}
    assert "configuration has none" in found.absent["longrope"]
    for multiple in (1, 2, 4, 8):
        plain, linear = by["none", multiple], by["linear", multiple]
        assert plain.length == 64 * multiple
        assert plain.unseen == (found.never_turned if multiple > 1 else 0)
        assert linear.unseen == 0
        assert plain.near == 0.0
        assert linear.near > by["yarn", multiple].near > 0
        expected = np.cos(2 * np.pi / found.wavelengths.before).mean()
        np.testing.assert_allclose(plain.kernel[plain.distances == 1], expected, atol=1e-12)
    assert by["dynamic", 1].near == 0.0
    assert by["dynamic", 8].near > 0


def test_the_lowest_value_is_that_of_all_distances_not_of_samples() -> None:
    (found,) = [
        one for one in rope_report(hpe.extract("rotary:4096x64")).effects if (one.scaling, one.multiple) == ("none", 8)
    ]
    every = np.cos(np.multiply.outer(np.arange(32_768), 10_000.0 ** (-np.arange(32) / 32))).mean(axis=1)
    assert (found.lowest, found.sampled) == (pytest.approx(every.min(), abs=1e-9), False)
    assert (every.argmin(), found.lowest) == (17_156, pytest.approx(-0.417, abs=5e-4))
    longest = rope_report(hpe.extract("rotary:262144x16"), search=1).effects[3]
    assert (longest.length, longest.sampled) == (2**21, True)


@pytest.mark.parametrize("scaling", ["linear", "dynamic", "yarn", "llama3"])
def test_scalings_are_those_of_the_library(tmp_path: Path, scaling: str) -> None:
    """What is compared equals what the library computes for a configuration that states it."""
    given: dict[str, Any] = {"rope_type": scaling, "factor": 4.0, "original_max_position_embeddings": 64}
    given |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    length = 64 if scaling in ("linear", "dynamic") else 256
    config = {"head_dim": 16, "max_position_embeddings": length, "rope_theta": 10_000.0, "rope_scaling": given}
    one = rotary_encodings(config, name="stated")["position"]
    found = rope_report(stated(tmp_path), factor=4.0)
    (effect,) = [each for each in found.effects if (each.scaling, each.multiple) == (scaling, 4)]
    np.testing.assert_allclose(effect.kernel, one.at(256).profile(effect.distances), atol=1e-12)  # type: ignore[union-attr]


def test_declared_against_plain_by_position(tmp_path: Path) -> None:
    scaling = {"rope_type": "linear", "factor": 4.0}
    found = rope_report(stated(tmp_path, rope_scaling=scaling))
    assert found.scaling == "linear"
    assert found.agreement[0] == 1.0
    frequencies = 10_000.0 ** -(np.arange(HALF) / HALF)
    assert found.agreement[32] == pytest.approx(np.cos(32 * 0.75 * frequencies).mean())
    assert min(found.agreement.values()) < 0.9
    assert {one.scaling for one in found.effects} >= {"declared", "none", "linear"}


def test_longrope_is_compared_where_the_configuration_has_its_factors(tmp_path: Path) -> None:
    factors = {"short_factor": [1.0] * HALF, "long_factor": [2.0] * HALF, "original_max_position_embeddings": 32}
    found = rope_report(stated(tmp_path, rope_scaling={"rope_type": "longrope", **factors}))
    assert "longrope" in {one.scaling for one in found.effects}
    assert found.trained_length == 32


def test_unknown_types_are_not_taken_for_none(tmp_path: Path) -> None:
    opened = stated(tmp_path, rope_scaling={"rope_type": "telechat3-yarn", "factor": 4.0})
    with pytest.raises(MissingTableError, match=r"unknown type 'telechat3-yarn'; it is not taken for unscaled"):
        rope_report(opened)


@pytest.mark.parametrize(("source", "part", "factor"), [("rotary:64x16", "decoder", 8.0), ("rotary:64x16", None, 0.5)])
def test_impossible_arguments_are_refused(source: str, part: str | None, factor: float) -> None:
    with pytest.raises(InputError, match=r"parts: position|factor must be from 1"):
        rope_report(hpe.extract(source), part=part, factor=factor)


def test_other_positions_are_named() -> None:
    with pytest.raises(MissingTableError, match="no rotary positions; its positions are learned"):
        rope_report(hpe.extract("sample:bert"))


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rope", "rotary:512x32"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("rotary:512x32 position: rotary, 16 pairs, base 10,000, not scaled")
    assert "longrope: its factors are searched" in said
    assert main(["rope", "rotary:512x32", "--json", "--factor", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["base"]["holds"] is False
    assert len(found["wavelengths"]["before"]) == 16
    assert {one["multiple"] for one in found["scalings"]} == {1, 2, 4, 8}
    assert main(["rope", "sample:bert"]) == 1
    assert "no rotary positions" in capsys.readouterr().err
