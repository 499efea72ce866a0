"""Tables without variance, or of numbers at the ends of float32 and float64, get an answer or one line; no warning."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import hfposemb as hpe

RNG = np.random.default_rng(0)
DOUBLE = "1e300 in float64"
TABLES = {
    "zeros": np.zeros((40, 8)),
    "constant": np.ones((40, 8)),
    "one row": np.ones((1, 8)),
    "two equal rows": np.ones((2, 8)),
    "3e38": RNG.choice([-3e38, 3e38], (40, 8)),
    "1e-40": 1e-40 * RNG.standard_normal((40, 8)),
    DOUBLE: 1e300 * RNG.standard_normal((40, 8)),
    "one NaN": np.where(np.arange(320).reshape(40, 8) == 26, np.nan, RNG.standard_normal((40, 8))),
    "one infinity": np.where(np.arange(320).reshape(40, 8) == 26, np.inf, RNG.standard_normal((40, 8))),
}
ELSEWHERE = {"reproduce"}
"""Functions that need more than tables."""


def taking(*kinds: str) -> Iterator[str]:
    """Yield the public functions whose first argument is of one of some classes."""
    for name in sorted(set(hpe.__all__) - ELSEWHERE):
        made = getattr(hpe, name)
        if not inspect.isroutine(made) or not (given := [*inspect.signature(made).parameters.values()]):
            continue
        if any(kind in str(given[0].annotation) for kind in kinds):
            yield name


def called(function: Callable[..., Any], first: Any, table: Any) -> str:
    """Call a function with its first argument, and with simple ones for the others; return the error of its own."""
    more: list[Any] = []
    for one in [*inspect.signature(function).parameters.values()][1:]:
        if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD:
            kind = str(one.annotation)
            rows = [0] if "Sequence" in kind or "Rows" in kind else 1
            more.append(
                rows if "int" in kind or "Rows" in kind else np.ones((len(table), 2)) if "Array" in kind else first
            )
    try:
        function(first, *more)
    except hpe.HfposembError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", TABLES)
def test_hostile_tables_get_an_answer_or_one_line(name: str) -> None:
    rows = TABLES[name] if name == DOUBLE else TABLES[name].astype(np.float32)
    model = hpe.from_arrays(position=rows, token=rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for function in taking("EmbeddingTable", "PositionEncoding"):
            assert "\n" not in called(getattr(hpe, function), model.position, rows), function
        try:
            hpe.uncertainty(model)
            words = hpe.add_positions(model)
        except hpe.HfposembError:
            return
        for function in taking("AddedPositions"):
            assert "\n" not in called(getattr(hpe, function), words, rows), function


@pytest.mark.parametrize(
    "given", ["a name", [1, 2], None, 5, hpe.sinusoidal(16, 8)], ids=lambda one: type(one).__name__
)
def test_a_wrong_first_argument_is_named(given: Any) -> None:
    for name in taking("AddedPositions", "LogitSplit", "PositionEncoding", "Inputs"):
        if isinstance(given, hpe.Embeddings) and "Embeddings" in str(inspect.signature(getattr(hpe, name))):
            continue
        assert "got " in called(getattr(hpe, name), given, np.eye(2)), name
