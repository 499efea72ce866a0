"""Ids of two vocabularies matched by text: every number of small ones, counted by hand, and bytes beside characters."""

from __future__ import annotations

import time

import pytest

from hfposemb.vocabularies.matched_ids import matched_ids
from hfposemb.vocabularies.opened_tokenizer import OpenedTokenizer
from hfposemb.vocabularies.vocabulary_findings import findings_of


def vocabulary(
    pieces: dict[int, str], added: frozenset[int] = frozenset(), fallback: frozenset[int] = frozenset()
) -> OpenedTokenizer:
    texts = {row: piece.encode() for row, piece in pieces.items()}
    return OpenedTokenizer("made", "by hand", pieces, texts, fallback, added)


def test_every_number_is_that_of_a_count_by_hand() -> None:
    a = vocabulary({0: "<s>", 1: "a", 2: "b", 3: "c", 4: "x", 5: "d", 9: "q", 10: "c", 11: "c"}, frozenset({0}))
    b = vocabulary({0: "<s>", 1: "b", 2: "a", 3: "c", 5: "e", 6: "d", 7: "x", 8: "x", 10: "c"}, frozenset({0}))
    found = matched_ids(a, b)
    assert (found.same, found.conflicts, found.only_a, found.only_b) == (3, (1, 2, 5), (4, 9, 11), (6, 7, 8))
    assert found.moved == {1: 2, 2: 1, 5: 6, 4: 7, 11: 3}, "to the first of several ids"
    assert (found.missing, found.new, found.offset) == ((9,), (5,), None)
    assert (found.shared, found.of, found.repeated) == (6, 8, (3, 4))
    assert (found.kept, found.ordinary) == (pytest.approx(5 / 6), pytest.approx(2 / 11))
    assert (found.ids, found.share) == (12, pytest.approx(0.25))


def test_one_offset_and_nothing_ordinary() -> None:
    shifted = matched_ids(vocabulary({0: "a", 1: "b"}), vocabulary({2: "a", 3: "b"}))
    assert (shifted.offset, shifted.moved, shifted.ordinary, shifted.kept) == (2, {0: 2, 1: 3}, 0, 1)
    added = frozenset({0})
    bare = matched_ids(vocabulary({0: "<s>"}, added), vocabulary({0: "<s>"}, added))
    assert (bare.same, bare.ordinary, bare.kept, bare.repeated) == (1, 1, 0, (0, 0))
    nothing = matched_ids(vocabulary({}), vocabulary({}))
    assert (nothing.ids, nothing.share) == (0, 0)


def test_a_byte_of_a_fallback_is_the_character_only_where_no_id_is() -> None:
    byte, both = frozenset({0}), {0: "\n", 1: "\n"}
    alone = matched_ids(vocabulary({0: "\n"}, fallback=byte), vocabulary({0: "\n"}))
    assert (alone.same, alone.shared) == (1, 1), "one of them writes line breaks as a byte"
    beside = matched_ids(vocabulary(both, fallback=byte), vocabulary({1: "\n"}))
    assert (beside.same, beside.only_a, beside.missing, beside.repeated) == (1, (0,), (0,), (0, 0))
    apart = matched_ids(vocabulary({0: "\n"}, fallback=byte), vocabulary(both, fallback=frozenset({1})))
    assert (apart.conflicts, apart.moved) == ((0,), {0: 1}), "both have bytes"


def test_a_reserved_token_of_another_place_is_not_missing() -> None:
    a = vocabulary({0: "[unused0]", 1: "a", 2: "[unused1]", 3: "[unused2]"})
    b = vocabulary({0: "[unused1]", 1: "b", 2: "a", 3: "c"})
    found = matched_ids(a, b)
    assert (found.same, found.conflicts, found.moved) == (1, (1, 2, 3), {1: 2})
    assert (found.missing, found.new) == ((3,), (1, 3)), "[unused1] is in both, [unused2] is not"


def test_special_tokens_take_no_time_of_their_own() -> None:
    rows = range(20_000)
    a, b = (
        OpenedTokenizer(
            name,
            "by hand",
            {row: f"{row}" for row in rows},
            {row: b"%d" % row for row in rows},
            frozenset(range(0, 20_000, 2)),
            frozenset(rows),
            frozenset(range(start, 20_000, 2)),
        )
        for start, name in enumerate("ab")
    )
    start = time.process_time()
    found = [*findings_of(a, b, matched_ids(a, b))]
    assert time.process_time() - start < 2
    assert [(one.name, one.count) for one in found][:1] == [("special-in-one", 20_000)]
