"""The neighbours of UMAP's graph: those that share neighbours with a row come first."""

from __future__ import annotations

import numpy as np
import pytest

from hfposemb.analysis.projection.projecting import UMAPParameters, project
from hfposemb.analysis.projection.shared_neighbours import LEAST, candidates, choose_neighbours
from hfposemb.analysis.similarity.nearest_rows import all_neighbours
from hfposemb.tables.table import EmbeddingTable, Provenance, table_of


def table(rows: int, width: int) -> EmbeddingTable:
    """Return rows without structure, of which many pairs share no neighbour."""
    vectors = np.random.default_rng(0).standard_normal((rows, width), dtype=np.float32)
    return table_of(vectors, name="noise", provenance=Provenance("made"))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have neighbours of small tables chosen too."""
    monkeypatch.setattr("hfposemb.analysis.projection.shared_neighbours.SMALL", 0)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("k", [1, 5, 14])
def test_candidates_that_share_neighbours_come_first(k: int) -> None:
    wide = candidates(k, 400)
    found = all_neighbours(table(400, 12), k=wide)
    indices, values = choose_neighbours(found.indices, found.values, k)
    assert indices.shape == values.shape == (400, k)
    near = [set(row[:k]) for row in found.indices.tolist()]
    for row, given in enumerate(found.indices.tolist()):
        shared = [place for place, other in enumerate(given) if len(near[row] & near[other]) >= LEAST]
        others = [place for place in range(wide) if place not in shared]
        places = sorted((shared + others)[:k])
        assert indices[row].tolist() == [given[place] for place in places]
        assert values[row].tolist() == found.values[row, places].tolist()


@pytest.mark.usefixtures("small")
def test_no_more_candidates_than_there_are_other_rows() -> None:
    assert candidates(14, 30_522) == 21
    assert candidates(14, 16) == 15
    assert candidates(1, 3) == 2
    found = all_neighbours(table(16, 4), k=15)
    assert (choose_neighbours(found.indices, found.values, 15)[0] == found.indices).all()


def test_neighbours_of_a_small_table_are_the_nearest() -> None:
    assert candidates(14, 4_095) == 14
    assert candidates(14, 4_096) == 21


def test_pairs_across_two_groups_are_fewer() -> None:
    """Hubs between two groups are near to rows of both, whose own neighbours are in one."""
    random = np.random.default_rng(1)
    left, right = (0.35 * random.standard_normal((60, 16)) + sign * np.eye(16)[0] for sign in (1, -1))
    hubs = 0.1 * random.standard_normal((4, 16))
    made = table_of(np.concatenate([left, right, hubs]).astype(np.float32), name="two", provenance=Provenance("made"))
    found = all_neighbours(made, k=15, metric="euclidean")
    group = np.repeat([0, 1, 2], [60, 60, 4])
    chosen, _ = choose_neighbours(found.indices, found.values, 10)
    across, before = ((group[one] != group[:, None])[:120].mean() for one in (chosen, found.indices[:, :10]))
    assert 0 < across < before


def test_umap_of_a_table_that_is_not_small_takes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    made, short = table(300, 12), UMAPParameters(n_neighbors=6, n_epochs=5)
    nearest = project(made, method="umap", umap=short).coordinates
    monkeypatch.setattr("hfposemb.analysis.projection.shared_neighbours.SMALL", 0)
    assert (project(made, method="umap", umap=short).coordinates != nearest).any()
