"""How new rows were made: each way is recognised in made tables, and its test keeps its level."""

from __future__ import annotations

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.analysis.geometry import scatter
from hfposemb.analysis.rows import without
from hfposemb.analysis.tokens.new_rows import components, of_old_covariance, row_origin
from hfposemb.tables.table import EmbeddingTable

ROWS, WIDTH, NEW = 1200, 16, 40


def made(way: str, seed: int = 0) -> EmbeddingTable:
    """Return a table of vectors of unequal lengths whose last rows were made in one of the ways."""
    rng = np.random.default_rng(seed)
    mixed = rng.standard_normal((WIDTH, WIDTH)) * np.linspace(0.1, 1, WIDTH)
    rows = (rng.standard_normal((ROWS, WIDTH)) * np.exp(0.5 * rng.standard_normal((ROWS, 1)))) @ mixed + 0.2
    old = rows[:-NEW]
    mean, covariance = old.mean(axis=0), np.cov(old.T)
    match way:
        case "zeros":
            rows[-NEW:] = 0
        case "copies":
            rows[-NEW:] = rows[17]
        case "mean":
            rows[-NEW:] = rng.multivariate_normal(mean, 1e-9 * covariance, NEW)
        case "old covariance":
            rows[-NEW:] = rng.multivariate_normal(mean, covariance, NEW)
        case "one normal":
            rows[-NEW:] = 0.02 * rng.standard_normal((NEW, WIDTH))
    return hpe.from_arrays(token=rows.astype(np.float32)).token


@pytest.mark.parametrize("way", ["zeros", "copies", "mean", "old covariance", "one normal", "trained"])
def test_each_way_is_recognised(way: str) -> None:
    found = [row_origin(made(way, seed), range(ROWS - NEW, ROWS)) for seed in range(4)]
    assert {one.made for one in found} == {way}
    exact = [test for test in found[0].tests if test.origin == way and way in ("zeros", "copies", "mean")]
    assert all(test.p < 0.01 and len(test.rows) == NEW for test in exact)


def test_normal_of_the_old_covariance_is_refused_at_the_level() -> None:
    p = []
    for seed in range(30):
        table = made("old covariance", seed)
        old = without(table, np.arange(ROWS - NEW, ROWS))
        within = components(old)
        assert within is not None
        drawn = of_old_covariance(old, scatter(old, single=True), within, NEW, np.random.default_rng(seed))
        p.append(drawn.p(within.figures(table.rows(ROWS - NEW, ROWS))))
    # Of 30 tests at the level .05, more than 5 refuse the truth in fewer than 1 of 200 cases.
    assert sum(one <= 0.05 for one in p) <= 5
    assert np.mean(p) > 0.35


def test_uniform_numbers_are_not_called_normal() -> None:
    rows = made("trained").rows(0, ROWS).copy()
    rows[-10:] = np.random.default_rng(0).uniform(-0.05, 0.05, (10, WIDTH))
    assert row_origin(hpe.from_arrays(token=rows).token, range(ROWS - 10, ROWS)).made == "one distribution"


def test_rows_that_several_ways_explain_are_called_drawn() -> None:
    """Without correlations, a normal of the old covariance is one drawn column by column."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((ROWS, WIDTH)) * np.exp(0.5 * rng.standard_normal((ROWS, 1)))
    rows[-NEW:] = rows[:-NEW].std(axis=0) * rng.standard_normal((NEW, WIDTH))
    assert row_origin(hpe.from_arrays(token=rows).token, range(ROWS - NEW, ROWS)).made == "drawn"


@pytest.mark.parametrize(("rows", "new", "said"), [(20, 1, "cannot tell"), (24, 2, "means"), (300, 6, "means")])
def test_means_are_looked_for_in_a_small_table(rows: int, new: int, said: str) -> None:
    table = np.random.default_rng(0).standard_normal((rows, 32))
    table[-new:] = (table[:new] + table[new : 2 * new]) / 2
    assert row_origin(hpe.from_arrays(token=table).token, range(rows - new, rows)).made == said


def test_few_rows_cannot_tell() -> None:
    found = row_origin(made("trained"), [3, 4])
    assert found.made == "cannot tell"
    assert any("too few to test a distribution" in note for note in found.notes)
    small = hpe.from_arrays(token=np.random.default_rng(0).standard_normal((30, 16))).token
    assert any("too few to compare" in note for note in row_origin(small, range(20, 30)).notes)


def test_rows_of_a_table_of_initial_values_cannot_tell() -> None:
    """There, "like the other rows" and "like initial values" are the same."""
    assert row_origin(hpe.extract("random:800x32").position, range(760, 800)).made == "cannot tell"


def test_sentence_says_how_many_rows_agree() -> None:
    rows = made("zeros").rows(0, ROWS).copy()
    rows[-5:] = 1
    rows[-3:] = np.arange(3 * WIDTH).reshape(3, WIDTH)
    found = row_origin(hpe.from_arrays(token=rows).token, range(ROWS - NEW, ROWS))
    assert found.sentence == f"zeros ({NEW - 5} of them)"


def test_text_names_the_way_and_its_p() -> None:
    lines = str(row_origin(made("mean"), range(ROWS - NEW, ROWS))).split("\n")
    assert lines[0] == f"{NEW} new rows of arrays tokens: the mean of the old rows"
    assert "p .0009" in lines[3]


def test_wrong_rows_are_refused() -> None:
    with pytest.raises(hpe.HfposembError, match="got none"):
        row_origin(made("mean"), [])
    with pytest.raises(hpe.HfposembError, match="has no row 1200"):
        row_origin(made("mean"), [1200])
