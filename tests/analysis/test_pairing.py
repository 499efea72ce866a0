"""Chosen pairs: their ranks and percentiles are those of brute force, ties included, and are told in words."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hfposemb as hpe
from hfposemb.analysis.row_values import Metric
from hfposemb.analysis.similarity.nearest_rows import neighbours
from hfposemb.analysis.similarity.row_pairs import nearest, pair_similarities

whole_numbers = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(st.integers(-2, 2), min_size=width, max_size=width), min_size=4, max_size=30)
)


@settings(max_examples=80, deadline=None)
@given(rows=whole_numbers, metric=st.sampled_from(["cosine", "dot", "euclidean"]), centred=st.booleans())
def test_ranks_are_the_places_among_the_neighbours(rows: list[list[int]], metric: Metric, centred: bool) -> None:
    from hfposemb.errors import InputError

    table = hpe.from_arrays(token=np.array(rows, np.float32)).token
    chosen = [0, 1, 3, 1]
    try:
        found = pair_similarities(table, chosen, metric=metric, centred=centred, sample=10)
    except InputError:  # fewer than two rows have a cosine
        return
    for i, row in enumerate(chosen):
        try:
            near = neighbours(table, row, k=len(rows), metric=metric, centred=centred)
        except InputError:
            assert not found.ranks[i].any()
            continue
        places = {other: place for place, other in enumerate(near.rows.tolist(), 1)}
        assert found.ranks[i].tolist() == [places.get(other, 0) for other in chosen]
        assert found.others == len(near.rows)
        for j, other in enumerate(chosen):
            if other in places:
                value = near.values[places[other] - 1]
                farther = near.values > value if metric == "euclidean" else near.values < value
                share = 100 * (farther.sum() + (near.values == value).sum() / 2) / len(near.rows)
                assert found.row_percentiles[i, j] == pytest.approx(share)
            else:
                assert np.isnan(found.row_percentiles[i, j])


def test_ranks_of_many_rows_by_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hfposemb.tables.table.CHUNK_BYTES", 24 * 4 * 700)
    vectors = np.random.default_rng(0).normal(size=(5_000, 24)).astype(np.float32)
    vectors[4_000] = vectors[30]
    table = hpe.from_arrays(token=vectors).token
    found = pair_similarities(table, [7, 30, 4_000, 4_999])
    for i, row in enumerate(found.rows):
        order = neighbours(table, int(row), k=4_999).rows.tolist()
        assert found.ranks[i].tolist() == [order.index(one) + 1 if one != row else 0 for one in found.rows.tolist()]
    assert (found.ranks[1, 2], found.ranks[2, 1]) == (1, 1)


def test_queen_is_the_sixth_of_the_sample() -> None:
    """Among random pairs the pair is common, among the neighbours of king it is not: both are told."""
    found = pair_similarities(hpe.extract("sample:bert").token, ["king", "queen"])
    assert round(float(found.percentiles[0, 1])) == 66
    assert found.ranks[0, 1] == 6
    assert found.row_percentiles[0, 1] == pytest.approx(99.86, abs=0.01)
    assert "king – queen: 66.19; queen is king’s 6th nearest (99.86), king is queen’s" in str(found)
    facts = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert facts["ranks"][0] == [None, 6]
    assert facts["percentiles"][0][0] is None


@pytest.mark.parametrize(
    ("rank", "said"),
    [
        *((1, "nearest"), (2, "2nd nearest"), (3, "3rd nearest"), (4, "4th nearest"), (11, "11th nearest")),
        *((12, "12th nearest"), (13, "13th nearest"), (21, "21st nearest"), (1_112, "1,112th nearest")),
    ],
)
def test_ranks_in_words(rank: int, said: str) -> None:
    assert nearest(rank) == said
