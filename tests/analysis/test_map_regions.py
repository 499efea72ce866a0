"""Named regions of a map: made data whose regions are known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.analysis.projection.map_regions import named_regions
from hfposemb.analysis.projection.projecting import Projection
from hfposemb.figures.map_names import region_name
from hfposemb.figures.token_figures import token_map
from hfposemb.tables.table import EmbeddingTable
from tests.support.app.models import checkpoint

COUNT = 120


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Projection, EmbeddingTable]:
    """Unused slots, words with a direction in common, and words without one, each in a place of their own."""
    random = np.random.default_rng(0)
    letters = [f"{a}{b}{c}ody" for a in "bcdfg" for b in "aeiou" for c in "klmnpr"][:COUNT]
    others = [f"{a}{b}{c}ist" for a in "hjkmn" for b in "aeiou" for c in "klmnpr"][:COUNT]
    words = (*(f"[unused{number}]" for number in range(COUNT)), *letters, *others)
    vectors = random.normal(size=(len(words), 16))
    vectors[COUNT : 2 * COUNT] += 2 * random.normal(size=16)
    folder: Path = tmp_path_factory.mktemp("regions")
    table = hpe.extract(checkpoint(folder / "made", words, vectors.astype(np.float32))).token
    middles = np.repeat([[0, 0], [10, 0], [0, 10]], COUNT, axis=0)
    points = (middles + random.normal(size=(len(words), 2)) / 40).astype(np.float32)
    return replace(hpe.project(table, method="pca", dims=2), coordinates=points), table


def test_regions_are_named_by_what_they_have_in_common(made: tuple[Projection, EmbeddingTable]) -> None:
    projection, table = made
    unused, alike = sorted(named_regions(projection, table, most=2), key=lambda region: region.x)
    assert (unused.kind, region_name(unused)) == ("unused", "unused slots")
    assert (alike.kind, len(alike.words)) == ("", 2)
    assert all(word.endswith("ody") for word in alike.words)
    assert alike.x == pytest.approx(10, abs=0.2)
    found = named_regions(projection, table)
    assert not [region for region in found if region.y > 5], "words that have nothing in common get no name"
    assert sum(region.kind == "unused" for region in found) == 1, "each class once"


def test_the_table_is_read_three_times_whatever_the_number_of_regions(made: tuple[Projection, EmbeddingTable]) -> None:
    """Once for the lengths, for the mean of every region, and for the tokens nearest to it."""
    projection, table = made
    rows, asked = table.vectors, list[int]()
    order = np.random.default_rng(1).permutation(len(rows))

    def read(start: int, stop: int) -> np.ndarray:
        asked.append(stop - start)
        return rows[order][start:stop]

    spread = replace(table, reader=read, named=lambda: table.labels.take(order))
    moved = replace(projection, coordinates=projection.coordinates[order])
    found, expected = named_regions(moved, spread), named_regions(projection, table)
    assert sum(asked) == 3 * len(rows)
    assert {(one.kind, one.words, one.rows) for one in found} == {(one.kind, one.words, one.rows) for one in expected}


def test_names_of_regions_never_overlap(made: tuple[Projection, EmbeddingTable]) -> None:
    projection, table = made
    unused, *_ = named_regions(projection, table)
    crowded = [replace(unused, x=4 + 0.01 * place, y=4.0) for place in range(40)]
    figure = token_map(projection, table.labels, regions=crowded, height=400)
    places = {(round(note.x, 3), note.xshift, note.yshift) for note in figure.layout.annotations}
    assert 0 < len(places) < 12
    boxes = [(note.x / 10.4 * 640 + note.xshift, note.yshift) for note in figure.layout.annotations]
    wide = 6.6 * len("unused slots")
    for place, (x, y) in enumerate(boxes):
        assert all(abs(x - u) >= wide or abs(y - v) >= 16 for u, v in boxes[:place])
