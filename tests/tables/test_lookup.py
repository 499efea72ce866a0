"""What a person types becomes a row: the word before the piece, and the result says which it was."""

from __future__ import annotations

import numpy as np
import pytest

from hfposemb.analysis.similarity.nearest_rows import neighbours
from hfposemb.analysis.similarity.row_pairs import pair_similarities
from hfposemb.errors import InputError
from hfposemb.tables.row_lookup import named, reading, spellings, spelt, typed
from hfposemb.tables.table import EmbeddingTable, Labels, Provenance, table_of

TEXTS = ("king", " king", "ing", " queen", "2", " 2", ",", "мир", " мир")
"""A byte-level vocabulary has both; its classes are those that ``vocabulary`` gives."""

CLASSES = (1, 0, 1, 0, 2, 2, 0, 3, 3)


@pytest.fixture
def table() -> EmbeddingTable:
    pieces = tuple(text.replace(" ", "Ġ") for text in TEXTS)
    labels = Labels(TEXTS, pieces, np.array(CLASSES, np.uint8))
    vectors = np.random.default_rng(0).normal(size=(len(TEXTS), 4))
    return table_of(vectors, name="made", provenance=Provenance("test"), named=lambda: labels)


@pytest.mark.parametrize(
    ("text", "row"),
    [("king", 1), (" king", 1), ("Ġking", 1), ("ing", 2), ("queen", 3), ("2", 4), (" 2", 5), (",", 6), ("мир", 8)],
)
def test_a_word_without_its_space_is_the_word(table: EmbeddingTable, text: str, row: int) -> None:
    assert table.row(text) == named(table, text).row == row


def test_the_result_says_which_token_was_used(table: EmbeddingTable) -> None:
    note = "“king” refers to the token “ king” (word start); the piece “king” is row 0"
    assert named(table, "king").note == note
    assert neighbours(table, "king", k=2).notes == (note,)
    assert neighbours(table, "king", k=2).query == " king"
    assert f"note: {note}" in str(neighbours(table, "king", k=2))
    assert pair_similarities(table, ["king", "queen"]).notes == (note,)
    assert reading(table.labels, "мир") == "“мир” refers to the token “ мир”; the piece “мир” is row 7"


@pytest.mark.parametrize("text", ["queen", " king", "ing", "2", "nothing"])
def test_nothing_is_said_where_nothing_else_could_be_meant(table: EmbeddingTable, text: str) -> None:
    assert reading(table.labels, text) == ""


def test_rows_are_named_by_number_too(table: EmbeddingTable) -> None:
    assert (typed("0"), typed("king"), typed(" 2"), typed("²"), typed("9" * 12)) == (0, "king", " 2", "²", "9" * 12)
    assert named(table, 0).row == 0
    with pytest.raises(InputError, match="no row named 'knig'"):
        named(table, "knig")


def test_other_vocabularies_may_spell_a_word_otherwise(table: EmbeddingTable) -> None:
    assert spellings("##ing") == ("##ing", "ing")
    assert spellings("King")[:2] == (" King", "King")
    assert (spelt(table.labels, "King"), spelt(table.labels, "##ing"), spelt(table.labels, "nothing")) == (1, 2, None)
