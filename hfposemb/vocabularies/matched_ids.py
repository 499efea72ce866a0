"""The ids of two vocabularies matched: which name the same text, which another one, which moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..checkpoints.tokenizers.vocabulary import is_reserved
from .opened_tokenizer import OpenedTokenizer

ENOUGH = 0.9
"""Share of the smaller vocabulary's ordinary tokens that the other must have, for a map of ids to be worth making."""


@dataclass(frozen=True, eq=False)
class MatchedIds:
    """The ids of two vocabularies matched by the text that they stand for.

    Attributes:
        same: Number of ids that name the same text in both.
        conflicts: Ids that name another text in the other vocabulary, in order.
        only_a: Ids that only the first vocabulary has, in order.
        only_b: Ids that only the second vocabulary has, in order.
        moved: Ids in the second vocabulary by the ids in the first, of texts whose ids differ.
        missing: Ids of the first whose text the second lacks, in order.
        new: Ids of the second whose text the first lacks, in order.
        offset: What is added to every moved id, ``None`` if it is not one number.
        shared: Number of different texts that both have.
        of: Number of different texts that at least one has.
        kept: Share of the smaller vocabulary's ordinary tokens, neither added nor bytes, that the other has too.
        ordinary: Share of the ordinary ids, of either vocabulary, that name the same text in both.
        repeated: Number of ids whose text another id of the same vocabulary has too, in each.
    """

    same: int
    conflicts: tuple[int, ...]
    only_a: tuple[int, ...]
    only_b: tuple[int, ...]
    moved: Mapping[int, int]
    missing: tuple[int, ...]
    new: tuple[int, ...]
    offset: int | None
    shared: int
    of: int
    kept: float
    ordinary: float
    repeated: tuple[int, int]

    @property
    def ids(self) -> int:
        """Number of ids that at least one of them has."""
        return self.same + len(self.conflicts) + len(self.only_a) + len(self.only_b)

    @property
    def share(self) -> float:
        """Share of these ids that name the same text in both."""
        return self.same / self.ids if self.ids else 0.0


def matched_ids(a: OpenedTokenizer, b: OpenedTokenizer) -> MatchedIds:
    """Match the ids of two vocabularies."""
    apart = bool(a.fallback) and bool(b.fallback)
    ours, theirs = (_keys(one, apart) for one in (a, b))
    both = ours.keys() & theirs.keys()
    conflicts = sorted(row for row in both if ours[row] != theirs[row])
    only_a, only_b = sorted(ours.keys() - both), sorted(theirs.keys() - both)
    wrong = set(conflicts)
    at: dict[bytes, int] = {}
    for row in (*sorted(both - wrong, reverse=True), *reversed(only_b), *reversed(conflicts)):
        at[theirs[row]] = row
    known = set(ours.values())
    moved = {row: at[ours[row]] for row in (*conflicts, *only_a) if ours[row] in at}
    apart_by = {there - here for here, there in moved.items()}
    ordinary_a, ordinary_b = _ordinary(a, ours), _ordinary(b, theirs)
    few, many = sorted(({*ordinary_a.values()}, {*ordinary_b.values()}), key=len)
    everywhere = ordinary_a.keys() | ordinary_b.keys()
    agreed = sum(row in both and row not in wrong for row in everywhere)
    shared = len(known & at.keys())
    return MatchedIds(
        len(both) - len(conflicts),
        tuple(conflicts),
        tuple(only_a),
        tuple(only_b),
        moved,
        _lacked((row for row in (*conflicts, *only_a) if ours[row] not in at), a, b),
        _lacked(sorted(row for row in (*conflicts, *only_b) if theirs[row] not in known), b, a),
        apart_by.pop() if len(apart_by) == 1 else None,
        shared,
        len(known) + len(at) - shared,
        len(few & many) / len(few) if few else 0.0,
        agreed / len(everywhere) if everywhere else 1.0,
        (_repeated(ours), _repeated(theirs)),
    )


def _keys(one: OpenedTokenizer, apart: bool) -> Mapping[int, bytes]:
    """Return what the ids stand for; bytes of a fallback are told from the character that is the same byte.

    They are not if the vocabulary has no such character and the other vocabulary no such bytes (``apart``): then
    ``<0x0A>`` of one is the line break of the other.
    """
    # What a reserved id is called does not matter, only that both keep it.
    reserved = {row: b"\xfe%d" % row for row, piece in one.pieces.items() if is_reserved(piece)}
    written = {text for row, text in one.texts.items() if row not in one.fallback}
    return {
        row: b"\xff" + text if row in one.fallback and (apart or text in written) else text
        for row, text in one.texts.items()
    } | reserved


def _lacked(rows: Iterable[int], one: OpenedTokenizer, other: OpenedTokenizer) -> tuple[int, ...]:
    """Return the ids without those of reserved tokens, matched by their place, that the other has in another place."""
    rows = tuple(rows)
    known = {*other.pieces.values()} if any(is_reserved(one.pieces[row]) for row in rows) else set()
    return tuple(row for row in rows if one.pieces[row] not in known or not is_reserved(one.pieces[row]))


def _ordinary(one: OpenedTokenizer, keys: Mapping[int, bytes]) -> Mapping[int, bytes]:
    apart = one.added | one.fallback
    return {row: text for row, text in keys.items() if row not in apart}


def _repeated(keys: Mapping[int, bytes]) -> int:
    counted = Counter(keys.values())
    return len(keys) - sum(number == 1 for number in counted.values())
