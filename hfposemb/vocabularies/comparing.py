"""Two vocabularies compared: a verdict, the answers that follow, and the evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..checkpoints.access import Visitor
from ..checkpoints.limits import DEFAULT_LIMITS, Limits
from ..errors import HfposembError, RefusedError
from ..tables.documents import plain
from ..tables.embeddings import Embeddings
from ..tables.sources import Source
from ..tables.tabular import Columns, Tabular
from .matched_ids import MatchedIds, matched_ids
from .opened_tokenizer import OpenedTokenizer, open_tokenizer
from .vocabulary_answers import Verdict, VocabularyAnswer, answers_of, unknown, verdict_of
from .vocabulary_findings import VocabularyFinding, findings_of

if TYPE_CHECKING:
    from ..models.given_labels import Tokenizer

FORMAT = "hfposemb.vocab/1"
"""Format of the JSON; the number rises with every change that a reader has to know."""

LISTED = 20
"""Tokens that are listed."""


@dataclass(frozen=True, eq=False)
class VocabularyDifference(Tabular):
    """What differs between two vocabularies, and what may be done with their models.

    Attributes:
        a: The first vocabulary.
        b: The second vocabulary.
        verdict: ``same``; ``same ids``, which are used otherwise; ``extended``, if one has further ids; ``moved``, if
            nearly all texts are in both, but some ids name others; ``different``; ``cannot tell``, if one states no
            vocabulary.
        answers: Answers by question: ``merge``, ``draft`` and ``distil``.
        findings: What differs.
        ids: The matched ids; ``None`` if one side states no vocabulary.
    """

    a: OpenedTokenizer
    b: OpenedTokenizer
    verdict: Verdict
    answers: Mapping[str, VocabularyAnswer]
    findings: tuple[VocabularyFinding, ...]
    ids: MatchedIds | None

    @property
    def exit_code(self) -> int:
        """0 if the vocabularies are the same, 1 if a difference matters, 2 if it cannot be told."""
        return {"same": 0, "cannot tell": 2}.get(self.verdict, 1)

    def __str__(self) -> str:
        """State the verdict, the answers and the findings, a line each."""
        lines = [headline(self)]
        lines += [f"  {letter}: {described(one)}" for letter, one in (("A", self.a), ("B", self.b))]
        lines += [f"  {name}: {one.answer}: {one.because}" for name, one in self.answers.items()]
        lines += [f"  {'differs' if one.matters else 'note'}: {one.message}" for one in self.findings]
        return "\n".join(lines)

    def columns(self) -> Columns:
        """Return a row per differing id: ``id``, the tokens ``a`` and ``b``, and ``moved_to``, the id of ``a`` in B."""
        found = self.ids
        rows = [] if found is None else sorted({*found.conflicts, *found.only_a, *found.only_b})
        moved: Mapping[int, int] = {} if found is None else found.moved
        return {
            "id": rows,
            "a": [self.a.pieces.get(row) for row in rows],
            "b": [self.b.pieces.get(row) for row in rows],
            "moved_to": [moved.get(row, -1) for row in rows],
        }

    def to_dict(self, count: int = LISTED) -> dict[str, Any]:
        """Return plain values that can be serialised as JSON, with the first ``count`` ids that differ."""
        found = self.ids
        return {
            "format": FORMAT,
            "version": __version__,
            "verdict": self.verdict,
            "headline": headline(self),
            "exit_code": self.exit_code,
            "sources": {"a": _side(self.a), "b": _side(self.b)},
            "answers": plain(self.answers),
            "findings": plain(self.findings),
            "ids": None
            if found is None
            else {
                "same": found.same,
                "of": found.ids,
                "share": found.share,
                "conflicts": len(found.conflicts),
                "moved": len(found.moved),
                "missing": len(found.missing),
                "added": len(found.new),
                "offset": found.offset,
                "shared_texts": found.shared,
                "texts": found.of,
            },
            "differing": self.records(count),
        }


def vocabulary_difference(
    a: str | Path | Source | Embeddings | Tokenizer,
    b: str | Path | Source | Embeddings | Tokenizer,
    *,
    token: str | bool | Visitor | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> VocabularyDifference:
    """Compare the vocabularies of two models, and say whether they can be merged, draft for each other or be distilled.

    Only the files of the tokenizers, the configurations and the heads of the checkpoints are read, no row of a table.
    Tokens are compared by the bytes of text that they stand for, so that tokenizer.json, SentencePiece, tiktoken,
    Tekken and GGUF files of one vocabulary are the same.

    Args:
        a: What ``extract`` takes, what it returned, a folder with a tokenizer alone, one file of a tokenizer, or a
            tokenizer of transformers or tokenizers.
        b: The same of the second model.
        token: Token for the Hub; ``None`` for the user's own, ``False`` for none, a ``Visitor`` for somebody else's.
        limits: Limits of what is read.

    Returns:
        The verdict, the answers and what differs.

    Raises:
        SourceError: If a source cannot be read, or a file of its tokenizer violates its format.
        InputError: If a source can have no vocabulary, as a formula.

    Examples:
        >>> import hfposemb as hpe
        >>> found = hpe.vocabulary_difference("sample:bert", "sample:gpt2")
        >>> found.verdict, found.answers["merge"].answer
        ('different', 'no')
    """
    first, second = (open_tokenizer(one, token=token, limits=limits) for one in (a, b))
    return difference_of(first, second)


def difference_of(first: OpenedTokenizer, second: OpenedTokenizer) -> VocabularyDifference:
    """Compare two vocabularies that are open."""
    without = [(letter, one) for letter, one in (("A", first), ("B", second)) if one.reason]
    if without:
        said = "; ".join(f"{letter}, {one.name}: {one.reason}" for letter, one in without)
        return VocabularyDifference(first, second, "cannot tell", unknown(said), (), None)
    ids = matched_ids(first, second)
    found = tuple(findings_of(first, second, ids))
    verdict = verdict_of(first, second, ids, found)
    return VocabularyDifference(first, second, verdict, answers_of(first, second, ids, verdict, found), found, ids)


def vocabulary_pairs(
    models: Sequence[Embeddings],
    *,
    token: str | bool | Visitor | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> list[VocabularyDifference]:
    """Compare the vocabularies of each pair of opened models; those that were read from no file are left out.

    Args:
        models: The models.
        token: Token for the Hub, as for ``vocabulary_difference``.
        limits: Limits of what is read.

    Raises:
        RefusedError: If a repository may not be read with this token.
    """
    opened = []
    for model in models:
        try:
            opened.append(open_tokenizer(model, token=token, limits=limits))
        except RefusedError:
            raise
        except HfposembError:
            continue
    return [difference_of(first, second) for first, second in combinations(opened, 2)]


def headline(found: VocabularyDifference) -> str:
    """Return the verdict with the number that decides it, in one sentence."""
    ids = found.ids
    if ids is None:
        return f"Whether the vocabularies are the same cannot be told: {found.answers['merge'].because}"
    agree = f"{ids.same:,} of {ids.ids:,} ids name the same text"
    matters = next((one.message for one in found.findings if one.matters), "")
    return {
        "same": f"One vocabulary: all {ids.ids:,} ids name the same text",
        "same ids": f"One vocabulary, used otherwise: all {ids.ids:,} ids name the same text, but {matters}",
        "extended": f"One vocabulary, extended: {agree}, and no id names another",
        "moved": (
            f"{'The same texts under other ids' if ids.moved else 'Common texts have the same ids'}: {agree}; "
            f"{ids.shared:,} of {ids.of:,} texts are in both"
        ),
        "different": f"Two vocabularies: {agree}; {ids.shared:,} of {ids.of:,} texts are in both",
    }[found.verdict]


def described(one: OpenedTokenizer) -> str:
    """Return name, file, tokens and rows of a vocabulary on one line."""
    rows = "" if one.rows is None else f", {one.rows:,} rows"
    return (
        f"{one.name}: {one.reason}{rows}"
        if one.reason
        else f"{one.name}: {len(one.texts):,} tokens in {one.file}{rows}"
    )


def _side(one: OpenedTokenizer) -> dict[str, Any]:
    return {
        "source": one.name,
        "file": one.file or None,
        "tokens": len(one.texts),
        "rows": one.rows,
        "added": len(one.added),
        "special": dict(one.roles),
        "chat_template": bool(one.template),
        "model": one.rules.model,
        "reason": one.reason or None,
    }
