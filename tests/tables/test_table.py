"""Tables: read lazily, walked through by rows, labelled, hashed, and never changed."""

from __future__ import annotations

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.errors import InputError, MissingTableError
from hfposemb.tables.embeddings import LazyMapping
from hfposemb.tables.table import EmbeddingTable, Labels, Provenance, table_of


def make(vectors: object, **more: object) -> EmbeddingTable:
    return table_of(np.asarray(vectors), name="test", provenance=Provenance("test"), **more)


def test_nothing_is_read_before_it_is_asked_for() -> None:
    reads: list[tuple[int, int]] = []

    def reader(start: int, stop: int) -> np.ndarray:
        reads.append((start, stop))
        return np.zeros((stop - start, 3), np.float32)

    table = EmbeddingTable("lazy", (10, 3), np.dtype(np.float32), Provenance("x"), reader)
    assert reads == []
    table.rows(2, 5)
    assert reads == [(2, 5)]
    _ = table.vectors, table.vectors
    assert reads == [(2, 5), (0, 10)]


def test_chunks_cover_every_row_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hfposemb.tables.table.CHUNK_BYTES", 3 * 4 * 7)
    table = make(np.arange(60, dtype=np.float32).reshape(20, 3))
    parts = dict(table.chunks())
    assert list(parts) == [0, 7, 14]
    np.testing.assert_array_equal(np.concatenate(list(parts.values())), table.vectors)


def test_digest_names_the_numbers() -> None:
    one, two = np.ones((4, 3), np.float32), np.ones((3, 4), np.float32)
    assert make(one).digest == make(one.copy()).digest
    assert len({make(one).digest, make(two).digest, make(one * 2).digest, make(one.astype(np.float64)).digest}) == 4


def test_labels_by_text_and_by_piece() -> None:
    labels = Labels((" king", "##ing", "king"), ("Ġking", "##ing", "king"), np.zeros(3, np.uint8))
    table = make(np.zeros((3, 2)), named=lambda: labels)
    assert [table.row(key) for key in (" king", "Ġking", "king", "##ing", 1)] == [0, 0, 0, 1, 1]
    assert [labels.exact(key) for key in (" king", "king", "queen")] == [0, 2, None]
    assert labels.find("nothing") is None
    assert list(labels.take(np.array([2, 0]))) == ["king", " king"]
    with pytest.raises(InputError, match="no row named 'queen'"):
        table.row("queen")
    with pytest.raises(InputError, match="its rows are 0 to 2"):
        table.row(3)


def test_of_equal_texts_the_word_is_found_before_the_fragment() -> None:
    """GPT-1 stores ``king`` inside words and ``king</w>`` at their ends; both read ``king``."""
    labels = Labels(("king", "king", "king"), ("king", "king</w>", "x"), np.array([1, 0, 0], np.uint8))
    assert labels.find("king") == 1


def test_repr_is_short() -> None:
    assert repr(hpe.from_arrays(token=[[1.0]])) == "Embeddings('arrays', tables: token)"


@pytest.mark.parametrize("vectors", [[1.0, 2.0], [[]], np.zeros((0, 3)), np.zeros((2, 3, 4)), [["a", "b"]], [[1j, 2]]])
def test_what_is_no_table_is_refused(vectors: object) -> None:
    with pytest.raises(InputError):
        make(vectors)


def test_frames_and_back() -> None:
    words = hpe.extract("sample:bert").token
    again = hpe.from_arrays(token=words.to_frame()).token
    assert again.dtype == words.dtype
    assert np.array_equal(again.vectors, words.vectors)
    assert tuple(again.labels) == tuple(words.labels)


def test_lazy_mapping_makes_each_value_once() -> None:
    made: list[str] = []
    mapping = LazyMapping({"a": lambda: made.append("a") or 1, "b": lambda: made.append("b") or 2})
    assert (list(mapping), len(mapping), made) == (["a", "b"], 2, [])
    assert (mapping["a"], mapping["a"], made) == (1, 1, ["a"])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "token vectors, position vectors or both"),
        ({"token": [[1.0, 2.0]], "position": [[1.0]]}, "the same width"),
        ({"token": [[1.0], [2.0]], "labels": ["a"]}, "1 labels were given for 2"),
        ({"position": [[1.0]], "labels": ["a"]}, "1 labels were given for 0"),
        ({"token": [[1.0], [2.0, 3.0]]}, "rows of one length"),
        ({"token": [["a"]]}, "rows of one length"),
    ],
)
def test_from_arrays_refuses(arrays: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        hpe.from_arrays(**arrays)


def test_what_is_missing_says_why() -> None:
    embeddings = hpe.from_arrays(token=[[1.0, 2.0]])
    with pytest.raises(MissingTableError, match=r"no position encoding was found in .*: it was not given"):
        _ = embeddings.position
    with pytest.raises(MissingTableError, match="has no token type table"):
        _ = embeddings.token_type
