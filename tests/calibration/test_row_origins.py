"""The rates of ``row_origin`` in small: ordinary rows are not called made, and made ones are named."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.analysis.tokens import new_rows
from hfposemb.analysis.tokens.new_rows import Origin, OriginTest

from .families import Rows
from .row_origins import MADE, ORDINARY, WAYS, answers


@pytest.fixture(scope="module")
def trained() -> Rows:
    return np.asarray(hpe.extract("sample:bert").token.vectors, np.float64)


@pytest.mark.parametrize("count", [5, 30])
@pytest.mark.parametrize("kind", ORDINARY)
def test_ordinary_rows_are_rarely_called_made(trained: Rows, kind: str, count: int) -> None:
    found = answers(trained, kind, count, sets=3)
    assert sum(found[origin] for origin in MADE) == 0, found


@pytest.mark.parametrize("kind", WAYS)
def test_rows_that_were_made_are_named(trained: Rows, kind: str) -> None:
    found = answers(trained, kind, 30, sets=2)
    assert found[WAYS[kind][0]] == 2, found


def test_a_rule_that_takes_not_refuted_for_found_shows(trained: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    def first_left(exact: Sequence[OriginTest], drawn: Sequence[OriginTest], count: int) -> Origin:
        return next((test.origin for test in drawn if test.p > new_rows.LEVEL), "other")

    monkeypatch.setattr(new_rows, "_made", first_left)
    found = answers(trained, "ordinary, at random", 5, sets=10)
    assert sum(found[origin] for origin in MADE) >= 2, found
