"""What may be done with two models, by their vocabularies: merge them, let one draft for the other, distil."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..text import percent
from .matched_ids import ENOUGH, MatchedIds
from .opened_tokenizer import OpenedTokenizer
from .vocabulary_findings import VocabularyFinding, token

Verdict: TypeAlias = Literal["same", "same ids", "extended", "moved", "different", "cannot tell"]
Reply: TypeAlias = Literal["yes", "with a map", "no", "cannot tell"]

QUESTIONS: Mapping[str, str] = {
    "merge": "Can their weights be merged?",
    "draft": "Can one draft for the other in speculative decoding?",
    "distil": "Can one learn from the other's logits?",
}
"""The questions that are answered, by name."""

_CUTS = (
    *("normaliser", "pre-tokenizer", "settings", "options", "merges", "scores", "model", "added-flags", "added-before"),
    "tokens-around",
)
"""Findings about how a text is cut into the same tokens."""

_HALF = 0.5


@dataclass(frozen=True)
class VocabularyAnswer:
    """The answer to one question.

    Attributes:
        answer: ``yes``, ``with a map`` of ids, ``no`` or ``cannot tell``.
        because: The finding that decides it, in one sentence.
    """

    answer: Reply
    because: str


def verdict_of(a: OpenedTokenizer, b: OpenedTokenizer, ids: MatchedIds, found: Sequence[VocabularyFinding]) -> Verdict:
    """Return what two vocabularies are to each other."""
    if a.continued != b.continued:
        return "different"
    if not ids.conflicts and not (ids.only_a and ids.only_b):
        if ids.ids == ids.same:
            return "same ids" if any(one.matters for one in found) else "same"
        return "extended" if ids.same else "different"
    return "moved" if ids.kept >= ENOUGH else "different"


def answers_of(
    a: OpenedTokenizer, b: OpenedTokenizer, ids: MatchedIds, verdict: Verdict, found: Sequence[VocabularyFinding]
) -> dict[str, VocabularyAnswer]:
    """Return the answers by question."""
    cuts = _cuts(found)
    if a.continued != b.continued:
        said = next(one.message for one in found if one.name == "notation")
        return dict.fromkeys(QUESTIONS, VocabularyAnswer("no", f"{said}: the same spelling stands for other texts"))
    return {
        "merge": _merge(a, b, ids, verdict, cuts),
        "draft": _draft(a, b, ids, cuts, found),
        "distil": _distil(ids, verdict, cuts),
    }


def unknown(reason: str) -> dict[str, VocabularyAnswer]:
    """Return the answers if one side has no vocabulary."""
    return dict.fromkeys(QUESTIONS, VocabularyAnswer("cannot tell", reason))


def _cuts(found: Sequence[VocabularyFinding]) -> str:
    names = [one.name for one in found if one.name in _CUTS]
    return f"; the tokenizers differ in {' and '.join(names)}, so keep one for both" if names else ""


def _rows(a: OpenedTokenizer, b: OpenedTokenizer) -> int | None:
    """Return how many rows both tables have, or ``None`` if they are equally long or not known."""
    return None if a.rows is None or b.rows is None or a.rows == b.rows else min(a.rows, b.rows)


def _agree(ids: MatchedIds) -> str:
    return f"{ids.same:,} of {ids.ids:,} ids name the same text"


def _merge(a: OpenedTokenizer, b: OpenedTokenizer, ids: MatchedIds, verdict: Verdict, cuts: str) -> VocabularyAnswer:
    if verdict in ("same", "same ids"):
        said = f"all {ids.ids:,} ids name the same text"
        rows = _rows(a, b)
        if rows is not None:
            said += f"; cut both tables to {f'{a.size:,} to ' if a.size < rows else ''}{rows:,} rows"
            said += f", which leaves {a.size - rows:,} of them without a row" if rows < a.size else ""
        return VocabularyAnswer("yes", said + cuts)
    if verdict == "extended":
        more, letter = (ids.only_a, "A") if ids.only_a else (ids.only_b, "B")
        return VocabularyAnswer("with a map", f"{_agree(ids)}, and only {letter} has the other {len(more):,}{cuts}")
    if verdict == "moved":
        said = f"{percent(ids.kept)} of the smaller vocabulary's ordinary tokens are in the other"
        if ids.conflicts:
            row = ids.conflicts[0]
            said += f", but id {row:,} is {token(a, row)} in A and {token(b, row)} in B"
        return VocabularyAnswer("with a map", f"{said}{cuts}")
    said = f"only {percent(ids.kept)} of the smaller vocabulary's ordinary tokens are in the other; below "
    return VocabularyAnswer("no", f"{said}{percent(ENOUGH)} too many rows would have no partner")


def _draft(
    a: OpenedTokenizer, b: OpenedTokenizer, ids: MatchedIds, cuts: str, found: Sequence[VocabularyFinding]
) -> VocabularyAnswer:
    if ids.conflicts:
        row = ids.conflicts[0]
        said = f"{_agree(ids)}, but id {row:,} is {token(a, row)} in A and {token(b, row)} in B"
        return VocabularyAnswer("no", f"{said}; a draft would have to be decoded and cut again")
    if ids.ordinary < _HALF:
        return VocabularyAnswer("no", f"{_agree(ids)}; fewer than half of the ordinary ids can be accepted")
    said = f"{_agree(ids)}, and no id names another"
    if ids.only_a or ids.only_b:
        lacking = len(ids.only_a) + len(ids.only_b)
        said += f"; mask the {f'{lacking:,} ids' if lacking > 1 else 'id'} that one of them lacks"
    elif (rows := _rows(a, b)) is not None:
        said += f"; mask the ids from {min(a.size, rows):,} on, since engines compare the numbers of rows"
    if any(one.name == "special-role" for one in found):
        said += "; the declared special tokens differ, for which llama.cpp refuses a draft"
    return VocabularyAnswer("yes", said + cuts)


def _distil(ids: MatchedIds, verdict: Verdict, cuts: str) -> VocabularyAnswer:
    if verdict in ("same", "same ids"):
        return VocabularyAnswer("yes", f"all {ids.ids:,} ids name the same text{cuts}")
    if verdict in ("extended", "moved"):
        return VocabularyAnswer("with a map", f"compare the logits of the {ids.shared:,} texts that both have{cuts}")
    said = f"only {ids.shared:,} of {ids.of:,} texts are in both, so that logits have no common ids"
    return VocabularyAnswer("no", f"{said}; learn from written texts instead")
