"""Similarity: exact to the tie, whatever the metric, and read against chance."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import hfposemb as hpe
from hfposemb.analysis.similarity.nearest_rows import all_neighbours, neighbours
from hfposemb.analysis.similarity.row_pairs import pair_similarities, random_pairs, similarity_percentile
from hfposemb.analysis.similarity.similarity_matrix import similarity, similarity_distribution
from hfposemb.errors import InputError
from hfposemb.models.extraction import extract
from hfposemb.tables.embeddings import Embeddings
from hfposemb.tables.encodings import Absolute
from hfposemb.tables.table import EmbeddingTable, Labels, Provenance, table_of
from tests.support.made_tables import noise as _noise
from tests.support.made_tables import streamed
from tests.support.processes.past_memory import within, write_large

Metric = Literal["cosine", "dot", "euclidean"]
METRICS: tuple[Metric, ...] = ("cosine", "dot", "euclidean")
Array = NDArray[np.float64]


def _table(vectors: NDArray[np.generic], labels: tuple[str, ...] = (), classes: tuple[int, ...] = ()) -> EmbeddingTable:
    named = Labels(labels, labels, np.array(classes or [0] * len(labels), np.uint8))
    return table_of(
        np.asarray(vectors), name="made", provenance=Provenance("test"), named=(lambda: named) if labels else None
    )


@pytest.fixture(scope="module")
def minilm(minilm_folder: Path) -> Embeddings:
    return extract(str(minilm_folder))


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("king", [("kings", 0.690), ("queen", 0.627), ("monarch", 0.494), ("prince", 0.463), ("monarchy", 0.447)]),
        ("queen", [("queens", 0.628), ("king", 0.627), ("monarch", 0.495)]),
        ("paris", [("parisian", 0.569), ("france", 0.509), ("london", 0.415)]),
    ],
)
def test_reference_neighbours(minilm: Embeddings, word: str, near: list[tuple[str, float]]) -> None:
    found = neighbours(minilm.token, word, k=len(near))
    assert list(zip(found.labels, np.round(found.values, 3), strict=True)) == near
    assert str(found).splitlines()[1].split() == [near[0][0], f"{near[0][1]:.3f}"]


def test_king_and_queen_against_chance(minilm: Embeddings) -> None:
    found = pair_similarities(minilm.token, ["king", "queen", "paris"])
    assert found.classes == ("word start",)
    assert found.percentiles[0, 1] >= 99.99
    assert found.percentiles[0, 1] == found.percentiles[1, 0]
    assert found.percentiles[0, 2] < 99
    assert np.isnan(np.diagonal(found.percentiles)).all()
    assert round(float(found.values[0, 1]), 3) == 0.627


def _brute(vectors: NDArray[np.generic], query: NDArray[np.generic], metric: Metric) -> Array:
    """Values by the definition; NaN where there is none. Sums of small whole numbers are exact in any order."""
    rows, asked = np.asarray(vectors, np.float64), np.asarray(query, np.float64)
    if metric == "euclidean":
        return np.asarray(np.sqrt(((rows - asked) ** 2).sum(axis=1)))
    product = (rows * asked).sum(axis=1)
    if metric == "dot":
        return np.asarray(product)
    with np.errstate(invalid="ignore"):
        return np.asarray(product / (np.sqrt((rows**2).sum(axis=1)) * np.sqrt((asked**2).sum())))


def _ranked(values: Array, metric: Metric, skip: int | None = None) -> list[int]:
    order = np.lexsort((np.arange(len(values)), values if metric == "euclidean" else -values))
    return [int(row) for row in order if row != skip and not np.isnan(values[row])]


whole_numbers = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(st.integers(-2, 2), min_size=width, max_size=width), min_size=2, max_size=30)
)


@settings(max_examples=150, deadline=None)
@given(rows=whole_numbers, k=st.integers(1, 40), metric=st.sampled_from(METRICS), data=st.data())
def test_neighbours_are_those_of_brute_force_ties_included(
    rows: list[list[int]], k: int, metric: Metric, data: st.DataObject
) -> None:
    vectors = np.array(rows, np.float32)
    query = data.draw(st.integers(0, len(rows) - 1))
    table = _table(vectors)
    if metric == "cosine" and not vectors[query].any():
        with pytest.raises(InputError, match="zero"):
            neighbours(table, query, metric=metric)
        return
    values = np.clip(_brute(vectors, vectors[query], metric), -1 if metric == "cosine" else None, None)
    values = np.clip(values, None, 1) if metric == "cosine" else values
    without, with_query = _ranked(values, metric, query)[:k], _ranked(values, metric)[:k]
    found = neighbours(table, query, k=k, metric=metric)
    assert found.rows.tolist() == without
    assert found.values.tolist() == values[without].tolist()
    assert found.left_out == (0 if metric != "cosine" else int((~vectors.any(axis=1)).sum()))
    assert neighbours(table, query, k=k, metric=metric, include_query=True).rows.tolist() == with_query
    assert neighbours(table, vectors[query], k=k, metric=metric).rows.tolist() == with_query


def test_distances_that_are_equal_in_float64_are_ties() -> None:
    vectors = _noise(1_000, 16) * np.float32(1e-20)
    found = neighbours(_table(vectors), np.ones(16), k=10, metric="euclidean")
    assert found.rows.tolist() == list(range(10))
    assert set(found.values) == {4.0}


@pytest.mark.parametrize("metric", METRICS)
def test_rows_in_memory_and_rows_read_in_chunks_give_the_same_neighbours(
    metric: Metric, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = _noise(3_000, 8)
    vectors[[3, 1_700]], vectors[5], vectors[2_999] = 0, np.nan, vectors[40]
    whole = neighbours(_table(vectors), 40, k=20, metric=metric)
    monkeypatch.setattr("hfposemb.tables.table.CHUNK_BYTES", 4_000)
    read = replace(_table(vectors), reader=lambda start, stop: vectors[start:stop])
    chunked = neighbours(read, 40, k=20, metric=metric)
    assert (
        whole.rows.tolist() == chunked.rows.tolist() == _ranked(_brute(vectors, vectors[40], metric), metric, 40)[:20]
    )
    assert whole.values.tolist() == chunked.values.tolist()
    assert whole.left_out == chunked.left_out == (3 if metric == "cosine" else 1)


@settings(max_examples=100, deadline=None)
@given(rows=whole_numbers, k=st.integers(1, 40), metric=st.sampled_from(METRICS))
def test_all_neighbours_are_those_of_each_row(rows: list[list[int]], k: int, metric: Metric) -> None:
    vectors = np.array(rows, np.float32)
    table = _table(vectors)
    usable = np.flatnonzero(vectors.any(axis=1) | (metric != "cosine"))
    if len(usable) < 2:
        with pytest.raises(InputError, match="neighbours need 2 rows"):
            all_neighbours(table, k=k, metric=metric)
        return
    found = all_neighbours(table, k=k, metric=metric)
    assert found.rows.tolist() == usable.tolist()
    assert found.left_out == len(rows) - len(usable)
    for row, indices, values in zip(found.rows, found.indices, found.values, strict=True):
        one = neighbours(table, int(row), k=min(k, len(usable) - 1), metric=metric)
        assert indices.tolist() == one.rows.tolist()
        np.testing.assert_array_equal(values, one.values)


@pytest.mark.parametrize("metric", METRICS)
def test_all_neighbours_of_real_rows_are_exact(minilm: Embeddings, metric: Metric) -> None:
    from sklearn.neighbors import NearestNeighbors

    vectors = minilm.token.rows(2000, 3500)
    found = all_neighbours(_table(vectors), k=15, metric=metric)
    if metric == "dot":
        scores = vectors.astype(np.float64) @ vectors.astype(np.float64).T
        np.fill_diagonal(scores, -np.inf)
        wanted = np.argsort(-scores, axis=1)[:, :15]
    else:
        brute = NearestNeighbors(n_neighbors=15, metric=metric, algorithm="brute").fit(vectors.astype(np.float64))
        wanted = brute.kneighbors(return_distance=False)
    assert (found.indices == wanted).all()


@pytest.mark.parametrize("scale", [1e-20, 1e-5, 1e10, 1e18])
@pytest.mark.parametrize("metric", METRICS)
def test_scale_changes_no_neighbour(metric: Metric, scale: float) -> None:
    vectors = _noise(300, 8).astype(np.float32)
    scaled = _table((vectors * scale).astype(np.float32))
    assert (
        all_neighbours(scaled, k=5, metric=metric).indices
        == all_neighbours(_table(vectors), k=5, metric=metric).indices
    ).mean() > 0.999
    assert (
        neighbours(scaled, 3, metric=metric).rows.tolist()
        == neighbours(_table(vectors), 3, metric=metric).rows.tolist()
    )


def test_rows_that_are_all_the_same_come_in_order() -> None:
    table = _table(np.ones((200, 3), np.float32))
    assert neighbours(table, 2, k=4).rows.tolist() == [0, 1, 3, 4]
    assert all_neighbours(table, k=4).indices[2].tolist() == [0, 1, 3, 4]
    assert (all_neighbours(table, k=4, metric="euclidean").values == 0).all()


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("alike", [0, 100, 250])
def test_blocks_of_rows_find_what_the_whole_does(metric: Metric, alike: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are all the same are more than a block keeps, and those are looked for a second time."""
    vectors = _noise(300, 8).astype(np.float32)
    vectors[np.random.default_rng(1).permutation(300)[:alike]] = vectors[0]
    table = _table(vectors)
    monkeypatch.setattr(sys.modules["hfposemb.analysis.similarity.nearest_rows"], "SCORE_BYTES", 4 * 70**2)
    found = all_neighbours(table, k=3, metric=metric)
    for row in range(300):
        one = neighbours(table, row, k=3, metric=metric)
        assert found.indices[row].tolist() == one.rows.tolist()
        np.testing.assert_array_equal(found.values[row], one.values)


def test_rows_without_a_value_are_left_out() -> None:
    vectors = _noise(20, 4)
    vectors[3], vectors[5, 1], vectors[9] = np.nan, np.inf, 0
    table = _table(vectors)
    for metric, absent in (("cosine", {3, 5, 9}), ("dot", {3, 5}), ("euclidean", {3, 5})):
        found = neighbours(table, 0, k=50, metric=metric)
        assert set(found.rows.tolist()) == set(range(1, 20)) - absent
        assert found.left_out == len(absent)
        everyone = all_neighbours(table, k=50, metric=metric)
        assert set(everyone.rows.tolist()) == set(range(20)) - absent
        assert not set(everyone.indices.ravel().tolist()) & absent
        matrix = similarity(table, metric=metric)
        assert set(np.flatnonzero(np.isnan(np.diagonal(matrix))).tolist()) == absent
        assert np.isfinite(np.delete(np.delete(matrix, list(absent), 0), list(absent), 1)).all()
    assert similarity_distribution(table, 0).counts.sum() == 16


def test_streaming_a_large_table_finds_the_same() -> None:
    vectors = _noise(140_000, 64).astype(np.float32)
    vectors[[5, 139_999]] = vectors[70_000]
    table, asked = streamed(vectors)
    for metric in METRICS:
        found = neighbours(table, 70_000, k=10, metric=metric)
        wanted = _ranked(_brute(vectors, vectors[70_000], metric), metric, 70_000)[:10]
        assert found.rows.tolist() == wanted
        assert metric == "dot" or found.rows[:2].tolist() == [5, 139_999]
    assert similarity_distribution(table, 70_000).counts.sum() == 139_999
    assert max(asked) < len(vectors)


@pytest.mark.parametrize("metric", METRICS)
def test_rows_taken_some_at_a_time_give_the_same(metric: Metric, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = _noise(60, 8)
    rows[7] = np.nan
    table = table_of(rows.astype(np.float32), name="made", provenance=Provenance("test", stored_dtype="BF16"))
    whole = similarity(table, metric=metric), random_pairs(table, metric=metric, sample=500)
    monkeypatch.setattr(import_module("hfposemb.analysis.similarity.similarity_matrix"), "MATRIX_BYTES", 8 * 8 * 7)
    pairing = import_module("hfposemb.analysis.similarity.row_pairs")
    monkeypatch.setattr(pairing, "WHOLE_BYTES", 0)
    monkeypatch.setattr(pairing, "READ_BYTES", 4 * 8 * 9)
    np.testing.assert_allclose(similarity(table, metric=metric), whole[0], rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(random_pairs(table, metric=metric, sample=500), whole[1])
    chosen = [3, 50, 7, 20, 3, 0, 59, 11, 12, 13]
    np.testing.assert_allclose(
        similarity(table, metric=metric, rows=chosen)[:, 0], whole[0][chosen, 3], rtol=1e-12, atol=1e-14
    )


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not hold a process to RLIMIT_DATA")
def test_neighbours_and_chosen_rows_of_a_table_past_memory(tmp_path: Path) -> None:
    folder = write_large(tmp_path)
    done = within(
        folder,
        "neighbours(table, 5); similarity(table, rows=range(0, 100_000, 2_000))\n"
        "pair_similarities(table, [1, 2], sample=2_000)\n"
        "neighbours(table, [5, 6], centred=True); pair_similarities(table, [1, 2], sample=2_000, centred=True)",
    )
    assert done.returncode == 0, done.stderr
    whole = within(folder, "table.vectors")
    assert "ArrayMemoryError" in whole.stderr


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 12), width=st.integers(1, 6))
def test_matrices_follow_their_definition(seed: int, rows: int, width: int) -> None:
    vectors = _noise(rows, width, seed)
    for metric in METRICS:
        matrix = similarity(_table(vectors), metric=metric)
        np.testing.assert_array_equal(matrix, matrix.T)
        wanted = np.array([_brute(vectors, vector, metric) for vector in vectors])
        np.testing.assert_allclose(matrix, wanted, atol=1e-7)
    turned = vectors @ np.linalg.qr(_noise(width, width, seed))[0] * 3
    np.testing.assert_allclose(similarity(_table(turned)), similarity(_table(vectors)), atol=1e-9)
    assert (np.diagonal(similarity(_table(vectors))) == 1).all()


def test_chosen_rows_are_named_by_number_or_label() -> None:
    vectors = _noise(6, 3)
    table = _table(vectors, labels=tuple("abcdef"))
    matrix = similarity(table, rows=["e", 0, "c", 0])
    np.testing.assert_allclose(matrix, similarity(table)[np.ix_([4, 0, 2, 0], [4, 0, 2, 0])])
    np.testing.assert_array_equal(table.take(np.array([4, 0, 2, 0])), vectors[[4, 0, 2, 0]])
    np.testing.assert_array_equal(similarity(Absolute(table)), similarity(table))
    assert neighbours(table, "b", k=1).query == "b"
    with pytest.raises(InputError, match="no row named 'z'"):
        similarity(table, rows=["z"])


def test_larger_matrices_are_in_float32_and_too_large_ones_refused() -> None:
    vectors = _noise(5_001, 4).astype(np.float32)
    matrix = similarity(_table(vectors))
    assert matrix.dtype == np.float32
    np.testing.assert_allclose(matrix[7], _brute(vectors, vectors[7], "cosine"), atol=1e-6)
    with pytest.raises(InputError, match=r"20,001 rows is too large; choose up to 20,000 rows with rows="):
        similarity(_table(np.ones((20_001, 1))))


@pytest.mark.parametrize(
    ("query", "knobs", "says"),
    [
        (0, {"k": 0}, "at least 1"),
        (0, {"metric": "manhattan"}, "euclidean"),
        (9, {}, "no row 9"),
        ("q", {}, "no row named"),
        (np.ones(4), {}, r"a vector \[3\]"),
        (np.zeros(3), {}, "zero"),
        (np.full(3, np.nan), {}, "not finite"),
    ],
)
def test_queries_that_cannot_be_answered_say_so(query: int, knobs: dict[str, int], says: str) -> None:
    with pytest.raises(InputError, match=says):
        neighbours(_table(_noise(5, 3)), query, **knobs)


@pytest.mark.parametrize("metric", METRICS)
def test_percentiles_of_chance_are_even(metric: Metric) -> None:
    table = _table(_noise(500, 16))
    drawn = random_pairs(table, metric=metric, seed=1, sample=20_000)
    found = similarity_percentile(table, drawn, metric=metric, seed=2, sample=20_000)
    assert found.mean() == pytest.approx(50, abs=1)
    assert np.percentile(found, [10, 90]) == pytest.approx([10, 90], abs=1.5)
    closest = 0.0 if metric == "euclidean" else 1e9
    assert similarity_percentile(table, closest, metric=metric) == 100
    np.testing.assert_array_equal(drawn, random_pairs(table, metric=metric, seed=1, sample=20_000))


def test_chance_is_that_of_the_same_classes() -> None:
    vectors = np.concatenate([_noise(100, 8), np.ones((100, 8))])
    table = _table(vectors, labels=tuple(f"t{row}" for row in range(200)), classes=(0,) * 100 + (4,) * 100)
    words, unused = pair_similarities(table, [0, 1]), pair_similarities(table, [100, 101])
    assert (words.classes, unused.classes) == (("word start",), ("unused",))
    assert unused.percentiles[0, 1] == pytest.approx(50)
    assert pair_similarities(table, [0, 150]).classes == ("word start", "unused")
    with pytest.raises(InputError, match="1 to 1,000"):
        pair_similarities(table, [])


def test_the_distribution_of_a_query(minilm: Embeddings) -> None:
    found = similarity_distribution(minilm.token, "king")
    assert found.counts.sum() == minilm.token.shape[0] - 1
    assert (found.edges[0], found.edges[-1], len(found.counts)) == (-1, 1, 100)
    everyone = neighbours(minilm.token, "king", k=40_000)
    assert found.mean == pytest.approx(everyone.values.mean())
    assert found.deviation == pytest.approx(everyone.values.std())
    noise = similarity_distribution(_table(_noise(5000, 64)), 0)
    assert noise.mean == pytest.approx(0, abs=0.01)
    assert noise.deviation == pytest.approx(1 / 8, abs=0.01)
    distances = similarity_distribution(_table(_noise(50, 4)), 0, metric="euclidean", bins=7)
    assert len(distances.counts) == 7
    assert distances.edges[0] > 0
    with pytest.raises(InputError, match="0 other rows"):
        similarity_distribution(_table(np.ones((1, 3))), 0)


def test_several_queries_give_one_result_each(minilm: Embeddings) -> None:
    table = minilm.token
    found = neighbours(table, ["king", "queen", 7, table.vectors[9]], k=4)  # type: ignore[list-item]
    for one, query in zip(found, ("king", "queen", 7, table.vectors[9]), strict=True):
        alone = neighbours(table, query, k=4)
        assert one.rows.tolist() == alone.rows.tolist()
        np.testing.assert_array_equal(one.values, alone.values)
    assert len(found) == 4
    assert found["queen"] is found[1]
    assert found[:2] == (found[0], found[1])
    assert [line for line in str(found).splitlines() if "nearest to" in line][1] == "nearest to 'queen' by cosine"
    frame = found.to_frame()
    assert list(frame.columns) == ["query", "rank", "row", "label", "cosine"]
    assert frame.query("query == 'king'")["label"].tolist() == list(found[0].labels)
    assert found[0].to_frame()["rank"].tolist() == [1, 2, 3, 4]
    assert neighbours(table, [5, 6]).each[1].rows.tolist() == neighbours(table, 6).rows.tolist()
    with pytest.raises(InputError, match="'kings' is not one of the queries: 'king', 'queen'"):
        found["kings"]


def test_a_vector_is_a_query(minilm: Embeddings) -> None:
    table = minilm.token
    king, man, woman = (np.asarray(table.vectors[table.row(word)], np.float64) for word in ("king", "man", "woman"))
    found = neighbours(table, king - man + woman, k=3)
    assert found.labels[:2] == ("king", "queen")
    assert neighbours(table, (king - man + woman).tolist(), k=3).rows.tolist() == found.rows.tolist()


@pytest.mark.parametrize(
    ("queries", "says"),
    [
        ([], "the list of queries is empty"),
        (["a", "z"], "no row named 'z'"),
    ],
)
def test_several_queries_that_cannot_be_answered_say_so(queries: list[str], says: str) -> None:
    with pytest.raises(InputError, match=says):
        neighbours(_table(_noise(3, 3), labels=("a", "b", "c")), queries)


@pytest.mark.parametrize("query", [{1.0, 2.0}, {"a": 1}, object(), b"x", [[1.0], [1.0, 2.0]], iter([1.0])])
def test_what_is_no_vector_is_refused_in_one_line(query: object) -> None:
    table = hpe.extract("sample:gpt2").token
    with pytest.raises(InputError, match="a query must be a row number, a label or a vector"):
        hpe.similarity_distribution(table, query)  # type: ignore[arg-type]
