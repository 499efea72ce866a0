"""The coverage of ``uncertainty`` in small, where it abstains, and figures without outlying ends."""

from __future__ import annotations

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.comparison import figure_intervals
from hfposemb.errors import InputError

from .intervals import FAMILIES, TOKEN_FAMILIES, held


@pytest.mark.parametrize("family", ["noise", "smooth, ℓ = n/32", "wavy amplitude"])
def test_intervals_of_positions_hold_the_mean(family: str) -> None:
    """At a coverage of .95, fewer than 52 of 60 do in fewer than 1 of 100 runs."""
    for share, count in held(FAMILIES[family], "position", tables=60).values():
        assert count >= 40
        assert share >= 52 / 60


@pytest.mark.parametrize("family", TOKEN_FAMILIES)
def test_intervals_of_tokens_hold_the_mean(family: str) -> None:
    for share, count in held(TOKEN_FAMILIES[family], "token", tables=60).values():
        assert count == 60
        assert share >= 52 / 60


@pytest.mark.parametrize("family", ["random walks", "smooth, ℓ = n/8", "mixture"])
def test_tables_of_few_independent_rows_have_no_interval(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {count for _, count in held(FAMILIES[family], "position", tables=10).values()} == {0}
    if family == "mixture":
        monkeypatch.setattr(figure_intervals, "DEPENDENT", 9.0)
        assert held(FAMILIES[family], "position", tables=60)["mean cosine at distance 1"][0] < 52 / 60


def test_figures_stand_beside_those_without_outlying_ends() -> None:
    rows = np.random.default_rng(0).standard_normal((128, 32)).astype(np.float32)
    long = rows.copy()
    long[[0, 1, 60, 127]] *= 40
    found = hpe.uncertainty(hpe.from_arrays(position=long), names=["mean norm", "norm of position 0", "mean cosine*"])
    assert found.ends == (0, 1, 127), "an inner row stays"
    each = {one.name: one for one in found.figures}
    bare = np.linalg.norm(long[2:127], axis=1).mean()
    assert each["mean norm"].without_ends == pytest.approx(bare)
    assert each["mean norm"].value > 1.5 * bare
    assert each["norm of position 0"].without_ends is None
    assert each["mean cosine at distance 1"].note == ""
    assert each["mean norm"].note.startswith("no interval: ")
    assert len(found.columns()["figure"]) == len(each)


def test_sources_without_such_figures_are_refused() -> None:
    with pytest.raises(InputError, match="arrays has none of these figures"):
        hpe.uncertainty(hpe.from_arrays(position=np.eye(30)), names=["token anisotropy"])
