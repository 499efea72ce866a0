"""What averaging two models' token tables would do to their rows, told from those that kinship compares.

A merge averages rows in the axes that they have. Two trainings that start apart choose their axes independently, so
the null is the merge with one table turned at random: it keeps what that table is, and takes what it shares with the
other. Neighbours alone do not tell, since a sum of two unlike tables keeps some neighbours of both.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from ..tables.embeddings import Embeddings
from ..tables.null_comparison import beside
from ..tables.tabular import Columns, Tabular, columns_of
from ..text import number, percent
from ..vocabularies.comparing import difference_of
from ..vocabularies.opened_tokenizer import of_labels
from ..vocabularies.vocabulary_answers import VocabularyAnswer
from .row_fingerprints import as_open
from .row_kinship import DECISIVE, Evidence, Floats, Kinship, PairVerdict, RowPair, row_pairs
from .table_side import NEIGHBOURS, directions
from .transplants import ten_nearest

Outcome: TypeAlias = Literal["keeps", "blurs", "destroys", "impossible", "cannot tell"]
Method: TypeAlias = Literal["linear", "slerp"]

WEIGHTS = tuple(step / 10 for step in range(1, 10))
"""Weights of the second table; the verdict is on the middle one."""

DRAWS = 19
"""Random turns of the second table, the fewest that allow p ≤ .05."""

HALF = 0.5
"""Share of each parent's neighbours that a merge must keep to keep both models, and of the length that a merge with an
unrelated table loses, which it must not lose."""

FIGURES = {"length": "length of a merged row", "kept_a": "neighbours of A kept", "kept_b": "neighbours of B kept"}
"""What is measured of a merge."""

ROWS = {
    "yes": "rows can be averaged by id",
    "with a map": "rows can be averaged with a map of ids",
    "no": "rows cannot be averaged",
    "cannot tell": "whether rows can be averaged cannot be told",
}
"""What the vocabularies answer."""

COLINEAR = 0.9995
"""Cosine of two tables from which mergekit's slerp averages them as they are."""

UNKNOWABLE = "rows of the token tables alone: what becomes of the other weights is not seen"


@dataclass(frozen=True)
class MergeStep:
    """Rows merged with one weight.

    Attributes:
        method: ``"linear"``, or ``"slerp"`` as mergekit has it: between the whole tables, so that all rows are combined
            with the same two numbers.
        weight: Weight of the second table.
        length: Mean length of the merged rows, divided by the weighted mean of their parents'.
        kept_a: Share of the ten nearest rows in the first table that are those in the merged one.
        kept_b: The same of the second table.
    """

    method: Method
    weight: float
    length: float
    kept_a: float
    kept_b: float


@dataclass(frozen=True)
class MergePreview(Tabular, PairVerdict):
    """What a merge of two token tables would do.

    Attributes:
        verdict: ``"keeps"``: both models' neighbours and lengths of rows; ``"blurs"`` them; ``"destroys"``: no
            more in the same axes than a table turned at random; ``"impossible"``, if rows cannot be averaged; ``"cannot
            tell"``.
        rows: Whether rows can be averaged: ``yes`` by id, ``with a map`` of ids, ``no`` or ``cannot tell``, and why.
        overlap: Share of all tokens that both have; ``None`` if it cannot be told.
        origin: Their kinship.
        steps: The merges by method and weight.
    """

    verdict: Outcome
    rows: VocabularyAnswer = field(kw_only=True)
    overlap: float | None = field(kw_only=True)
    origin: Kinship = field(kw_only=True)
    steps: tuple[MergeStep, ...] = ()

    def columns(self) -> Columns:
        """Return a row per merge: ``method``, ``weight`` of the second, ``length``, ``kept_a`` and ``kept_b``."""
        return columns_of(self.steps, *(part.name for part in fields(MergeStep)))

    def __str__(self) -> str:
        """State the verdict, what decided, whether rows can be averaged, the figures, and the merges by weight."""
        told, *rest = PairVerdict.__str__(self).split("\n  ")
        lines = [told, rest[0], f"{ROWS[self.rows.answer]}: {self.rows.because}", *rest[1:]]
        return "\n  ".join([*lines, *self._by_weight()])

    def _by_weight(self) -> Iterator[str]:
        """Yield the merges as lines of a table, a column per weight."""
        for method in get_args(Method) if self.steps else ():
            some = [one for one in self.steps if one.method == method]
            for name, write in (("weight", _one), ("length", number), ("kept_a", percent), ("kept_b", percent)):
                head = f"{method}, weight of B" if name == "weight" else f"  {FIGURES[name]}"
                yield f"{head:<26}" + "".join(f"{write(getattr(one, name)):>7}" for one in some)


def _one(weight: float) -> str:
    return number(weight, digits=1)


def merge_preview(a: str | Path | Embeddings, b: str | Path | Embeddings) -> MergePreview:
    """Tell what averaging the token tables of two models would do, from at most 256 rows of each.

    Rows of shared tokens are averaged as mergekit's ``linear`` and ``slerp`` do, with every tenth as weight. The
    verdict is on the mean: how much shorter than their parents its rows are, and how many of the ten nearest neighbours
    in each parent it keeps among these rows, beside a merge with the second table turned at random.

    Args:
        a: An open source, or a name or path as in ``hpe.extract``.
        b: The same.

    Raises:
        SourceError: If a source cannot be opened.
        MissingTableError: If it has no token table.

    Examples:
        >>> import numpy as np
        >>> import hfposemb as hpe
        >>> a = hpe.extract("sample:gpt2")
        >>> noise = np.random.default_rng(0).normal(0, 0.02, a.token.shape)
        >>> b = hpe.from_arrays(token=a.token.vectors + noise, labels=a.token.labels.texts)
        >>> hpe.merge_preview(a, b).verdict
        'keeps'
    """
    models = [as_open(one) for one in (a, b)]
    (pair,) = row_pairs(models)
    words = difference_of(*map(of_labels, models))
    names, answer = (pair.a.name, pair.b.name), words.answers["merge"]
    overlap = None if words.ids is None else words.ids.shared / words.ids.of
    if pair.a.width != pair.b.width:
        answer = VocabularyAnswer("no", pair.untested())
    told: dict[str, Any] = {"rows": answer, "overlap": overlap, "origin": pair.kinship(), "notes": (UNKNOWABLE,)}
    if reason := pair.untested():
        verdict: Outcome = "impossible" if answer.answer == "no" else "cannot tell"
        return MergePreview(*names, verdict, answer.because if answer.answer == "no" else reason, **told)
    steps = tuple(_steps(pair))
    evidence = _evidence(pair, next(one for one in steps if one.weight == HALF))
    verdict, reason = _judged(pair, evidence)
    if answer.answer == "no":
        verdict, reason = "impossible", answer.because
    return MergePreview(*names, verdict, reason, evidence, pair.count, **told, steps=steps)


def _steps(pair: RowPair) -> Iterator[MergeStep]:
    """Yield the merges by method and weight."""
    x, y = pair.vectors
    near = _near(x), _near(y)
    cosine = float(np.vdot(x, y) / (np.linalg.norm(x) * np.linalg.norm(y)))
    angle = math.acos(max(-1.0, min(1.0, cosine)))
    for weight in WEIGHTS:
        yield MergeStep("linear", weight, *_figures(x, y, near, (1 - weight, weight), weight))
    for weight in WEIGHTS:
        parts = 1 - weight, weight
        if abs(cosine) <= COLINEAR:
            parts = (math.sin((1 - weight) * angle) / math.sin(angle), math.sin(weight * angle) / math.sin(angle))
        yield MergeStep("slerp", weight, *_figures(x, y, near, parts, weight))


def _near(rows: Floats) -> NDArray[np.bool_]:
    units = directions(rows).astype(np.float32)
    cosines = units @ units.T
    np.fill_diagonal(cosines, -np.inf)
    return ten_nearest(cosines)


def _figures(
    x: Floats, y: Floats, near: tuple[NDArray[np.bool_], NDArray[np.bool_]], parts: tuple[float, float], weight: float
) -> tuple[float, float, float]:
    """Return the length of merged rows relative to their parents', and the shares of neighbours kept of each."""
    merged = parts[0] * x + parts[1] * y
    parents = (1 - weight) * np.linalg.norm(x, axis=1) + weight * np.linalg.norm(y, axis=1)
    found = _near(merged)
    kept = (float(np.count_nonzero(found & one)) / (NEIGHBOURS * len(x)) for one in near)
    return float(np.mean(np.linalg.norm(merged, axis=1) / parents)), *kept  # type: ignore[return-value]


def _evidence(pair: RowPair, mean: MergeStep) -> tuple[Evidence, ...]:
    """Return the figures of the mean, each beside its null and with what it must reach for both models to be kept."""
    x, y = pair.vectors
    near, rng = (_near(x), _near(y)), np.random.default_rng(0)
    drawn = np.array([_figures(x, turned, near, (HALF, HALF), HALF) for turned in _turned(y, rng)])
    length, *kept = (
        beside(getattr(mean, name), values, seed=0, kind="random")
        for name, values in zip(FIGURES, drawn.T, strict=True)
    )
    limits = 1 - HALF * (1 - length.mean), *(max(HALF, one.high) for one in kept)
    figures = zip(FIGURES.values(), (length, *kept), limits, strict=True)
    return pair.in_the_same_axes, *(Evidence(name, one.observed, one.mean, limit) for name, one, limit in figures)


def _turned(rows: Floats, rng: np.random.Generator) -> Iterator[Floats]:
    """Yield rows turned by random orthogonal matrices, drawn in the space of the rows where that is smaller."""
    width = rows.shape[1]
    inside = np.linalg.qr(rows.T)[1].T if len(rows) < width else rows
    for _ in range(DRAWS):
        basis, upper = np.linalg.qr(rng.standard_normal((width, inside.shape[1]), np.float32))
        yield inside @ (basis * np.sign(np.diagonal(upper))).T


def _judged(pair: RowPair, evidence: tuple[Evidence, ...]) -> tuple[Outcome, str]:
    """Return the verdict and what decided it."""
    axes, length, *kept = evidence
    shares = " and ".join(
        f"{percent(one.value)} of the neighbours in {name} (chance {percent(one.null or 0)})"
        for name, one in zip("AB", kept, strict=True)
    )
    lengths = f"{number(length.value)} as long as their parents (chance {number(length.null or 0)})"
    said = f"merged rows are {lengths} and keep {shares}"
    if pair.p <= DECISIVE:
        return "keeps" if all(one.value >= one.limit for one in evidence) else "blurs", said
    if pair.too_few:
        return "cannot tell", pair.too_few
    said = f"cosine {number(axes.value)} in the same axes, below the {number(axes.limit)} that decides: {said}"
    origin = pair.kinship()
    return "destroys", f"{said}; align them first: {origin.reason}" if origin.verdict == "rotated" else said
