"""Tables whose rows all point one way: they are told apart, and centring finds the neighbours that cosines lose."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import hfposemb as hpe
from hfposemb.analysis.geometry import anisotropy
from hfposemb.analysis.similarity.anisotropy import STRONG, anisotropy_notes, is_strong, mean_cosine
from hfposemb.analysis.similarity.nearest_rows import neighbours
from hfposemb.analysis.similarity.row_pairs import pair_similarities, random_pairs
from hfposemb.analysis.similarity.similarity_matrix import similarity, similarity_distribution
from hfposemb.errors import InputError
from hfposemb.tables.table import EmbeddingTable

Array = NDArray[np.float64]

WORDS, PLANTED, HUBS = 3_000, 12, 40
COMMON = 0.83
"""Mean cosine of two random rows of the made table, as Whisper's tokens have it."""


def made(width: int = 256, seed: int = 0) -> EmbeddingTable:
    """Make rows of which 83 % is one vector; the first ``PLANTED`` are alike in the rest, and ``HUBS`` have little.

    The last rows are hubs: nearly the common vector itself, and so near to everything by plain cosines.
    """
    rng = np.random.default_rng(seed)
    common, theme = (vector / np.linalg.norm(vector) for vector in rng.normal(size=(2, width)))
    own = rng.normal(size=(WORDS, width))
    own /= np.linalg.norm(own, axis=1, keepdims=True)
    own[:PLANTED] = 0.6 * theme + 0.8 * own[:PLANTED]
    rows = np.sqrt(COMMON) * common + np.sqrt(1 - COMMON) * own
    rows[-HUBS:] = common + 0.05 * own[-HUBS:]
    return hpe.from_arrays(token=(3 * rows).astype(np.float32)).token


@pytest.fixture(scope="module")
def table() -> EmbeddingTable:
    return made()


def centred_rows(table: EmbeddingTable) -> Array:
    """Return the rows less their mean, in float64, by the definition."""
    rows = np.asarray(table.vectors, np.float64)
    return np.asarray(rows - rows.mean(axis=0))


def cosines_with(rows: Array, query: Array) -> Array:
    return np.asarray(rows @ query / np.linalg.norm(rows, axis=1) / np.linalg.norm(query))


def test_the_made_table_is_as_anisotropic_as_it_should_be(table: EmbeddingTable) -> None:
    assert mean_cosine(table) == anisotropy(table) == pytest.approx(COMMON, abs=0.005)
    assert is_strong(table)
    unit = table.vectors / np.linalg.norm(table.vectors, axis=1, keepdims=True)
    assert np.linalg.norm(unit.mean(axis=0)) ** 2 == pytest.approx(COMMON, abs=0.005), "the share that is common"


def test_centring_recovers_neighbours_that_plain_cosines_lose(table: EmbeddingTable) -> None:
    others = set(range(1, PLANTED))
    plain = neighbours(table, 0, k=PLANTED - 1)
    assert not others & set(plain.rows.tolist())
    assert (plain.rows >= WORDS - HUBS).all(), "the hubs are nearest to everything"
    assert set(neighbours(table, 0, k=PLANTED - 1, centred=True).rows.tolist()) == others


@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_centred_neighbours_are_those_of_brute_force(table: EmbeddingTable, minilm_folder: Path, metric: str) -> None:
    real = hpe.extract(str(minilm_folder)).token
    for one, queries in ((table, (0, 7, WORDS - 1)), (real, (2332, 100, 30_000))):
        rows = centred_rows(one)
        for query in queries:
            values = cosines_with(rows, rows[query]) if metric == "cosine" else rows @ rows[query]
            order = [row for row in np.argsort(-values, kind="stable") if row != query][:20]
            found = neighbours(one, query, k=20, metric=metric, centred=True)  # type: ignore[call-overload]
            assert found.rows.tolist() == order
            np.testing.assert_allclose(found.values, values[order], atol=1e-12)
            assert found.centred


def test_rows_far_from_the_origin_are_still_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product in float32 cannot tell such rows apart: what rounding may hide is computed again."""
    monkeypatch.setattr("hfposemb.tables.table.CHUNK_BYTES", 16 * 4 * 300)
    rng = np.random.default_rng(1)
    rows = (rng.normal(size=(1_000, 16)) + 5_000 * rng.normal(size=16)).astype(np.float32)
    table = hpe.from_arrays(token=rows).token
    centred = centred_rows(table)
    for query in (3, 999):
        values = cosines_with(centred, centred[query])
        order = [row for row in np.argsort(-values, kind="stable") if row != query][:10]
        assert neighbours(table, query, centred=True).rows.tolist() == order


def test_a_vector_is_centred_too(table: EmbeddingTable) -> None:
    found = neighbours(table, table.vectors[5], k=8, centred=True, include_query=True)
    assert found.rows.tolist() == neighbours(table, 5, k=8, centred=True, include_query=True).rows.tolist()
    assert found.rows[0] == 5


def test_matrices_pairs_and_histograms_are_centred(table: EmbeddingTable) -> None:
    centred = centred_rows(table)
    unit = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    chosen = [0, 1, 50, WORDS - 1]
    cosines = (unit @ unit.T)[np.ix_(chosen, chosen)]
    np.testing.assert_allclose(similarity(table, rows=chosen, centred=True), cosines, atol=1e-12)
    np.testing.assert_allclose(similarity(table, centred=True)[np.ix_(chosen, chosen)], cosines, atol=1e-6)
    found = pair_similarities(table, chosen, centred=True)
    np.testing.assert_allclose(found.values, cosines, atol=1e-12)
    assert found.percentiles[0, 1] > 99.9
    assert pair_similarities(table, chosen).percentiles[0, 1] < 99
    assert random_pairs(table, centred=True).mean() == pytest.approx(0, abs=0.005)
    assert random_pairs(table).mean() == pytest.approx(COMMON, abs=0.005)
    plain, moved = similarity_distribution(table, 50), similarity_distribution(table, 50, centred=True)
    assert (plain.centred, moved.centred) == (False, True)
    assert plain.mean == pytest.approx(COMMON, abs=0.03)
    assert moved.mean == pytest.approx(np.delete(unit @ unit[50], 50).mean())


def test_distances_do_not_depend_on_the_mean(table: EmbeddingTable) -> None:
    plain = neighbours(table, 4, metric="euclidean")
    moved = neighbours(table, 4, metric="euclidean", centred=True)
    assert not moved.centred
    assert plain.rows.tolist() == moved.rows.tolist()
    np.testing.assert_array_equal(plain.values, moved.values)
    np.testing.assert_array_equal(
        similarity(table, rows=[1, 2], metric="euclidean"),
        similarity(table, rows=[1, 2], metric="euclidean", centred=True),
    )


def test_a_note_says_how_anisotropic_a_table_is(table: EmbeddingTable, minilm_folder: Path) -> None:
    found = neighbours(table, 0)
    (note,) = found.notes
    assert "two random rows have a mean cosine of 0.83" in note
    assert str(found).endswith(f"note: {note}")
    assert pair_similarities(table, [0, 1]).notes == (note,)
    assert neighbours(table, 0, centred=True).notes == neighbours(table, 0, metric="euclidean").notes == ()
    assert str(neighbours(table, 0, centred=True)).startswith("nearest to '0' by cosine, centred\n")
    real = neighbours(hpe.extract(str(minilm_folder)).token, "king")
    assert real.notes == ()
    assert real.anisotropy == pytest.approx(0.018, abs=0.001)


def test_the_threshold_is_where_half_of_a_row_is_common() -> None:
    rng = np.random.default_rng(2)
    for share in (STRONG - 0.02, STRONG + 0.02):
        own = rng.normal(size=(2_000, 200)) / np.sqrt(199)
        own[:, 0] = 0
        rows = np.sqrt(1 - share) * own
        rows[:, 0] = np.sqrt(share)
        table = hpe.from_arrays(token=rows).token
        assert mean_cosine(table) == pytest.approx(share, abs=0.01)
        assert bool(anisotropy_notes(table)) == is_strong(table) == (share > STRONG)


def test_rows_that_are_not_finite_or_at_the_mean_have_no_centred_cosine() -> None:
    rows = np.array([[1.0, 1], [3, 1], [2, 4], [2, 2], [np.nan, 0], [0, 0], [4, 4]])  # row 3 is the mean
    table = hpe.from_arrays(token=rows).token
    found = neighbours(table, 0, k=9, centred=True)
    assert set(found.rows.tolist()) == {1, 2, 5, 6}
    assert found.left_out == 2
    with pytest.raises(InputError, match="row 3 of arrays tokens is the mean row and has no cosine"):
        neighbours(table, 3, centred=True)
    assert mean_cosine(hpe.from_arrays(token=[[1.0, 2.0]]).token) is None
