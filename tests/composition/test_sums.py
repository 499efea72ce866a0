"""Words and positions in one sum: reference values of the real table, closed cases, and chance."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.composition.neighbour_retention import PROTOCOLS, neighbours_kept, recovered, subspace_overlap
from tests.support.made_tables import made


def test_neighbours_kept_meet_the_reference(minilm_folder: Path) -> None:
    """METRICS: .83, .443, .796, .270 and, after type and LayerNorm, .436; they depend on the draw."""
    minilm = hpe.extract(minilm_folder)
    for protocol, normed, expected, few in (
        ("query", False, 0.83, {}),
        ("both", False, 0.443, {"queries": 300}),
        ("same", False, 0.796, {"queries": 300}),
        ("first", False, 0.270, {"queries": 300}),
        ("both", True, 0.436, {"queries": 300}),
    ):
        found = neighbours_kept(minilm, protocol=protocol, normed=normed, **few)  # type: ignore[arg-type]
        assert found.share == pytest.approx(expected, abs=0.03), protocol
        assert found.low < found.share < found.high
        assert found.queries == few.get("queries", 1000)
        assert found.chance < 0.001


def test_word_and_position_are_both_in_the_sum(minilm_folder: Path) -> None:
    """METRICS: MiniLM, unseen tokens: 100 % and 100 %."""
    found = recovered(hpe.extract(minilm_folder))
    assert found.word > 0.97
    assert found.position > 0.9
    drowned = recovered(hpe.extract(minilm_folder), amplitude=4.0)
    assert drowned.word < found.word


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nothing_added_keeps_everything(protocol: str) -> None:
    assert neighbours_kept(made(), protocol=protocol, amplitude=0.0).share == 1.0  # type: ignore[arg-type]
    far = neighbours_kept(made(scale=100.0), protocol=protocol)  # type: ignore[arg-type]
    # The same position for all moves them together, and leaves an order among them.
    assert far.share < (0.7 if protocol == "same" else 0.35)


@pytest.mark.parametrize(("protocol", "place"), [("first", 0), ("same", 5)])
def test_shares_are_those_of_plain_counting(protocol: str, place: int) -> None:
    model = made()
    words = model.token.vectors.astype(float)
    moved = words + model.position.table.vectors[place]

    def nearest(asked: np.ndarray, among: np.ndarray) -> np.ndarray:
        cosines = asked @ among.T / np.linalg.norm(among, axis=1)
        np.fill_diagonal(cosines, -np.inf)
        return np.argsort(-cosines, axis=1)[:, :10]

    pairs = zip(nearest(words, words), nearest(moved, moved if protocol == "same" else words), strict=True)
    expected = np.mean([len({*before} & {*after}) / 10 for before, after in pairs])
    for normed in (False, True):  # the model has no norm
        found = neighbours_kept(model, protocol=protocol, normed=normed)  # type: ignore[arg-type]
        assert found.share == pytest.approx(expected, abs=1e-3)


def test_nothing_added_says_nothing_of_positions() -> None:
    found = recovered(made(), amplitude=0.0)
    assert (found.word, found.tokens, found.word_by_chance, found.position_by_chance) == (1.0, 200, 1 / 400, 1 / 28)
    assert found.position < 4 * found.position_by_chance
    loud = recovered(made(), amplitude=50.0)
    assert loud.position == 1.0
    assert loud.word < 0.1


def test_directions_are_shared_where_they_are() -> None:
    rng = np.random.default_rng(2)
    axes = np.linalg.qr(rng.standard_normal((24, 24)))[0]
    words = rng.standard_normal((500, 4)) @ axes[:4]
    along = hpe.from_arrays(token=words, position=rng.standard_normal((40, 4)) @ axes[:4])
    across = hpe.from_arrays(token=words, position=rng.standard_normal((40, 4)) @ axes[4:8])
    assert subspace_overlap(along, components=3).share > 0.5
    assert subspace_overlap(across, components=3).share == pytest.approx(0.0, abs=1e-9)
    found = subspace_overlap(made(), components=6)
    assert found.flat == 0.25
    assert found.share == pytest.approx(0.25, abs=0.03)
    assert found.low < found.high


@pytest.mark.parametrize("rows", [45, 400])
def test_the_shared_variance_is_that_of_the_covariance(rows: int) -> None:
    """With fewer tokens than dimensions too."""
    model = made(rows=rows, width=60, positions=70)
    axes = np.linalg.svd(model.position.table.vectors - model.position.table.vectors.mean(axis=0))[2]
    covariance = np.cov(model.token.vectors.T)
    for count in (1, 5):
        expected = np.trace(axes[:count] @ covariance @ axes[:count].T) / np.trace(covariance)
        assert subspace_overlap(model, components=count, draws=5).share == pytest.approx(expected, abs=1e-6)


def test_subspaces_are_drawn_with_the_covariance_of_the_tokens() -> None:
    rng, scales = np.random.default_rng(3), np.exp(-np.arange(24) / 4)
    model = hpe.from_arrays(token=rng.standard_normal((4000, 24)) * scales, position=rng.standard_normal((30, 24)))
    axes = np.linalg.qr((rng.standard_normal((200, 3, 24)) * scales).transpose(0, 2, 1))[0]
    expected = np.einsum("nij,i->n", axes**2, scales**2).mean() / (scales**2).sum()
    assert np.mean(subspace_overlap(model, components=3).drawn) == pytest.approx(expected, abs=0.03)


def test_what_is_not_added_is_an_error() -> None:
    alike = hpe.from_arrays(token=np.ones((50, 24)), position=made().position.table.vectors)
    for measure, model, said in (
        (recovered, made(positions=2), "0 inner positions"),
        (recovered, made(rows=39, positions=3), "39 tokens and 1 inner positions; at least 40 and 2"),
        (partial(subspace_overlap, components=24), made(), "components must be from 1 to 23 for"),
        (neighbours_kept, made(rows=9), "more than"),
        (subspace_overlap, alike, "are equal"),
    ):
        with pytest.raises(hpe.HfposembError, match=said):
            measure(model)  # type: ignore[operator]
    assert recovered(made(rows=40, positions=4)).tokens == 20
