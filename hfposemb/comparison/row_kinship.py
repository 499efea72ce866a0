"""Whether one token table was made from another, told from a few hundred rows of both.

Two trainings that start apart choose their axes independently. The cosine of a token's two rows is then that of two
bases turned against each other at random, whatever both have learned about frequency or meaning, and its null is known
in closed form: the sum of the cosines is tr(M Q) for the cross-product M of the rows and a random rotation Q, with
mean 0 and variance ‖M‖² / d. Models of one family may share where their outlying columns lie, though: columns are first
brought to one variance, and Q turns only columns of about one scale into each other, so that the variance is the sum of
‖M‖² / d over these classes, or that of the columns' own sums, if it is larger. Geometry that no rotation changes is no
evidence of kinship below near equality, since independent models of one language share much of it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, SourceError
from ..lazy_attributes import lazy_attribute
from ..tables.embeddings import Embeddings
from ..tables.tabular import Facts
from ..text import number, percent
from .matched_rows import FEWEST, MOST_MATCHED, matched_columns
from .row_fingerprints import (
    ENDING,
    PRECISIONS,
    SKETCH,
    Fingerprint,
    Hashes,
    as_open,
    of_table,
    read_fingerprint,
    token_hashes,
)
from .table_side import directions

Verdict: TypeAlias = Literal[
    "same", "derived", "extended", "pruned", "rotated", "same tokenizer", "unrelated", "cannot tell"
]
Model: TypeAlias = "str | Path | Embeddings | Fingerprint"
Floats: TypeAlias = NDArray[np.float64]

DECISIVE, _DEVIATIONS = 1e-4, 3.719
"""Largest p at which rows are said to come from one start, and the standard deviations that it stands for."""

NARROWEST = 4
"""Fewest numbers in a row that is compared: fewer are fitted by a rotation of anything like them."""

ROTATED, SUSPECT = 0.98, 0.7
"""Cosines of held-out rows from which a rotation is said to be one, and from which it is not said to be none: rotated
models that were trained further lie between, and independent ones below."""

MEASURED = "independent models of the calibration up to .58"

POWER = 0.5
"""Largest cosine that p = ``DECISIVE`` may take for an absence to mean anything."""

INSIDE = 0.98
"""Share of a vocabulary from which it is said to be part of another."""

OVERLAP = 0.5
"""Share of the smaller vocabulary below which its rows may have been made anew for another tokenizer."""

SCREENED, ALIKE = 64, 0.5
"""Rows whose cosines are compared before a rotation is looked for in a search, and the correlation that allows one."""

BRIEF, SUGGESTED = 2**15, 0.02
"""Numbers of each table that a search compares first, at least 32 rows, and the p from which it compares all."""

UNKNOWABLE = (
    "rows of the token table alone: which model came first, and a model whose rows were made anew, are not seen"
)


@dataclass(frozen=True)
class Evidence:
    """One figure beside its null.

    Attributes:
        name: What was measured.
        value: The figure, 1 for a copy.
        null: Its mean for models that share a tokenizer and nothing else; ``None`` where no closed form is known.
        limit: The value from which it decides.
    """

    name: str
    value: float
    null: float | None
    limit: float


@dataclass(frozen=True)
class PairVerdict(Facts):
    """What is told of two models, and the figures that it follows from.

    Attributes:
        a: Name of the first source.
        b: Name of the second source.
        verdict: The answer.
        reason: What decided.
        evidence: The figures, each with its null.
        shared: Number of rows compared.
        notes: Remarks, with what rows cannot tell.
    """

    a: str
    b: str
    verdict: str
    reason: str
    evidence: tuple[Evidence, ...] = ()
    shared: int = 0
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the verdict, what decided, and the figures."""
        lines = [f"{self.a} and {self.b}: {self.verdict}", f"  {self.reason}"]
        for one in self.evidence:
            null = MEASURED if one.null is None else f"null {number(one.null)}"
            beside = f"({null}, decides from {number(one.limit)})"
            lines.append(f"  {one.name:<32}{number(one.value):>7}  {beside}")
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])


@dataclass(frozen=True)
class Kinship(PairVerdict):
    """Whether a table ``b`` was made from a table ``a``.

    Attributes:
        verdict: ``"same"``, ``"derived"`` (from the other or from one start), ``"extended"`` and ``"pruned"`` (b has
            more or fewer tokens), ``"rotated"`` (the columns too), ``"same tokenizer"`` and ``"unrelated"`` (no kinship
            in these rows), or ``"cannot tell"``.
        score: The strongest evidence of kinship, from 0 for what chance gives to 1 for a copy; ``None`` if it cannot be
            told.
        p: Probability of so large a cosine in the same axes for independent trainings; ``None`` if it was not tested.
    """

    verdict: Verdict
    score: float | None = None
    p: float | None = None

    @property
    def kin(self) -> bool:
        """Whether the rows of one come from those of the other, or both from one start."""
        return self.verdict in ("same", "derived", "extended", "pruned", "rotated")


def kinship(a: Model, b: Model) -> Kinship:
    """Tell from token rows whether model ``b`` was made from model ``a``, or both from one start.

    At most 256 rows of each are read, those of shared tokens of smallest hash. Their mean cosine in the same axes has a
    null in closed form: bases of independent trainings, turned against each other at random. A rotated copy is told by
    its held-out rows after a rotation, or after a permutation of columns with signs, fitted to the others.

    Args:
        a: An open source, a name or path as in ``hpe.extract``, or a fingerprint.
        b: The same; a path that ends in ``.kinship.safetensors`` is a fingerprint.

    Raises:
        SourceError: If a source cannot be opened.
        MissingTableError: If it has no token table.

    >>> import numpy as np
    >>> import hfposemb as hpe
    >>> a = hpe.extract("sample:gpt2")
    >>> noise = np.random.default_rng(0).normal(0, 0.05, a.token.shape)
    >>> b = hpe.from_arrays(token=a.token.vectors + noise, labels=a.token.labels.texts)
    >>> hpe.kinship(a, b).verdict
    'derived'
    """
    return all_pairs((a, b))[0]


def opened_or_kept(model: Model) -> Embeddings | Fingerprint:
    """Return an open source or a fingerprint as it is, and open anything else."""
    if isinstance(model, Fingerprint):
        return model
    if not isinstance(model, Embeddings) and str(model).endswith(ENDING):
        return read_fingerprint(model)
    return as_open(model)


def _hashed(model: Embeddings | Fingerprint) -> tuple[Embeddings | Fingerprint, Hashes]:
    return model, model.anchors if isinstance(model, Fingerprint) else token_hashes(model.token)


def row_pairs(models: Sequence[Embeddings | Fingerprint]) -> tuple[RowPair, ...]:
    """Read the rows that every two models share, of open ones from tokens that both have by their hashes.

    Raises:
        MissingTableError: If a model has no token table.
    """
    return tuple(
        RowPair(
            *(
                one if isinstance(one, Fingerprint) else of_table(one, among=pair[1 - place][1], hashes=own)
                for place, (one, own) in enumerate(pair)
            )
        )
        for pair in combinations(map(_hashed, models), 2)
    )


def all_pairs(models: Sequence[Model]) -> tuple[Kinship, ...]:
    """Compare every two of several models.

    Args:
        models: At least two, as in ``kinship``.

    Raises:
        InputError: If there are fewer than two.
        SourceError: If a source cannot be opened.
        MissingTableError: If it has no token table.
    """
    if len(models) < 2:
        raise InputError(f"kinship is a matter of two models or more; got {len(models)}")
    return tuple(pair.kinship() for pair in row_pairs([opened_or_kept(one) for one in models]))


def search(model: Model, folder: str | Path) -> tuple[tuple[Kinship, ...], tuple[str, ...]]:
    """Compare a model with every fingerprint of a folder, the closest first, and those that cannot be told last.

    Args:
        model: As in ``kinship``.
        folder: Folder with files that end in ``.kinship.safetensors``.

    Returns:
        What was found, and an error line for each file that is no fingerprint.

    Raises:
        InputError: If the folder has no fingerprints.
        SourceError: If the model cannot be opened.
    """
    given = Path(folder)
    files = sorted(given.glob(f"*{ENDING}"))
    if not files:
        raise InputError(
            f"{given} has no files that end in {ENDING}; kinship --save FOLDER and survey --fingerprints write them"
        )
    opened = opened_or_kept(model)
    one = opened if isinstance(opened, Fingerprint) else of_table(opened)
    found, wrong = [], []
    for file in files:
        try:
            other = read_fingerprint(file)
        except SourceError as error:
            wrong.append(str(error))
            continue
        told = RowPair(one, other, brief=True).kinship()
        suggested = told.kin or len(told.evidence) > 2 or (told.p is not None and told.p <= SUGGESTED)
        found.append(RowPair(one, other).kinship() if suggested else told)
    found.sort(key=lambda pair: (pair.score is None, -pair.kin, -(pair.score or 0)))
    return tuple(found), tuple(wrong)


class RowPair:
    """The rows that two fingerprints share, and what is measured on them, each computed once.

    Args:
        a: The first.
        b: The second.
        brief: Whether to compare a few rows only, and to try no rotation where their cosines differ too much for one.
    """

    def __init__(self, a: Fingerprint, b: Fingerprint, *, brief: bool = False) -> None:
        self.a, self.b, self.brief = a, b, brief
        _, left, right = np.intersect1d(a.anchors, b.anchors, assume_unique=True, return_indices=True)
        if brief:
            few = max(SCREENED // 2, min(4 * SCREENED, BRIEF // a.width))
            left, right = left[:few], right[:few]
        self.all = left, right
        if a.width == b.width:
            usable = [np.isfinite(one).all(axis=1) & one.any(axis=1) for one in (a.vectors[left], b.vectors[right])]
            left, right = left[usable[0] & usable[1]], right[usable[0] & usable[1]]
        self.left, self.right = left, right

    @property
    def count(self) -> int:
        """Number of shared rows."""
        return len(self.left)

    def kinship(self) -> Kinship:
        """Return whether one was made from the other."""
        if reason := self.untested():
            return Kinship(self.a.name, self.b.name, "cannot tell", reason, shared=self.count, notes=(UNKNOWABLE,))
        verdict, reason = self.judged()
        moved = self.moved if verdict == "rotated" else 0.0
        score = None if verdict == "cannot tell" else min(1.0, max(0.0, self.equal, self.cosine, moved))
        told = (tuple(self.evidence()), self.count, self.notes())
        return Kinship(self.a.name, self.b.name, verdict, reason, *told, score=score, p=self.p)

    def untested(self) -> str:
        """Return why nothing can be told; "" if rows can be compared."""
        a, b = self.a, self.b
        if a.width != b.width:
            return f"their rows have {a.width:,} and {b.width:,} numbers; only rows of one width are compared"
        if a.width < NARROWEST:
            return f"their rows have {a.width} number{'s' * (a.width > 1)}; at least {NARROWEST} are needed"
        if bool(a.words) != bool(b.words):
            return f"the rows of {(b if a.words else a).name} have no tokens, only numbers; name them to compare"
        if not a.words and a.rows != b.rows:
            return f"rows without tokens are matched by number, but there are {a.rows:,} and {b.rows:,}"
        if self.count < FEWEST:
            return f"{self.count} rows of shared tokens can be compared; at least {FEWEST} are needed"
        return ""

    @property
    def vectors(self) -> tuple[Floats, Floats]:
        """The shared rows as they are [n, d]."""
        x, y = self.a.vectors[self.left], self.b.vectors[self.right]
        return x.astype(np.float64), y.astype(np.float64)

    @lazy_attribute
    def rows(self) -> tuple[Floats, Floats]:
        """The shared rows minus their mean, of length 1 [n, d]."""
        x, y = (directions(one - one.mean(axis=0)) for one in self.vectors)
        return x, y

    @lazy_attribute
    def products(self) -> tuple[Floats, Floats]:
        """Cosines between the shared rows of each [n, n]."""
        x, y = self.rows
        return x @ x.T, y @ y.T

    @lazy_attribute
    def exact(self) -> NDArray[np.bool_]:
        """Whether rows are equal to the bit, in the coarser of both precisions; without those of equal numbers in both.

        A row of zeros in one table alone is not equal.
        """
        x, y = self._digests
        told = (x > 0) | (y > 0)
        return np.asarray((x == y)[told])

    @lazy_attribute
    def _digests(self) -> tuple[Hashes, Hashes]:
        """The hashes of the shared rows of each."""
        place = max(PRECISIONS.index(one.exact) for one in (self.a, self.b))
        x, y = (one.digests[rows, place] for one, rows in zip((self.a, self.b), self.all, strict=True))
        return x, y

    @property
    def equal_by_kin(self) -> bool:
        """Whether rows are equal that occur once in either table: those of few possible rows are equal by chance."""
        x, y = self._digests
        return bool(((x == y) & (x > 0) & _once(x) & _once(y)).any())

    @property
    def equal(self) -> float:
        """Share of these rows."""
        return float(self.exact.mean()) if len(self.exact) else 0.0

    @lazy_attribute
    def scaled(self) -> tuple[Floats, Floats]:
        """The shared rows minus their mean, columns of one variance, of length 1 [n, d]."""
        x, y = (directions(each / np.where(scale > 0, scale, 1)) for each, scale in self._centred)
        if self._shares_sign(x, y):
            x, y = (directions(each - each.mean(axis=1, keepdims=True)) for each in (x, y))
        return x, y

    def _shares_sign(self, x: Floats, y: Floats) -> bool:
        """Return whether what rows share is that all of their numbers grow together, as positive numbers do.

        The sum of the cosines is then that along one direction, the same in all models, which no turn at random has.
        """
        width = self.a.width
        turned = y.T @ x.sum(axis=1) / math.sqrt(width)
        along = float(turned.sum()) / math.sqrt(width)
        marked = along > _DEVIATIONS * float(np.linalg.norm(turned)) / math.sqrt(width)
        return marked and along > float(np.vdot(x, y)) / 2

    @lazy_attribute
    def _centred(self) -> list[tuple[Floats, Floats]]:
        """The shared rows of each minus their mean [n, d], and the deviations of their columns [d]."""
        return [(each, each.std(axis=0)) for each in (one - one.mean(axis=0) for one in self.vectors)]

    @lazy_attribute
    def classes(self) -> list[NDArray[np.intp]]:
        """Columns of about one scale: the same doubling of the mean of both deviations, relative to their medians."""
        kinds = np.zeros(self.a.width)
        for _, scale in self._centred:
            some = scale[scale > 0]
            kinds += np.log2(np.maximum(scale, 1e-9 * scale.max()) / np.median(some)) / 2 if len(some) else 0
        kinds = np.rint(kinds)
        return [np.flatnonzero(kinds == one) for one in np.unique(kinds)]

    @lazy_attribute
    def cosine(self) -> float:
        """Mean cosine of the rows in the same axes, columns of one variance."""
        x, y = self.scaled
        return float(np.einsum("ij,ij->", x, y) / self.count)

    @lazy_attribute
    def spread(self) -> float:
        """Standard deviation of that cosine for axes of one turned at random within the classes of columns."""
        x, y = self.scaled
        squares = 0.0
        for columns in self.classes:
            one, other = x[:, columns], y[:, columns]
            # ‖XᵀY‖² = ⟨XXᵀ, YYᵀ⟩
            found = np.vdot(one @ one.T, other @ other.T) if len(x) < len(columns) else np.square(one.T @ other).sum()
            squares += float(found) / len(columns)
        each = np.einsum("ij,ij->j", x, y)
        # Axes in the order of their variance are the same for all but their signs. Of others a few may mean the same in
        # all models: how far columns differ is then more than any turn of them allows.
        apart = each if self.sorted_axes else (each - each.mean()) * math.sqrt(len(each) / max(len(each) - 1, 1))
        squares = max(squares, float(np.square(apart).sum()))
        return math.sqrt(max(squares, 0)) / self.count

    @lazy_attribute
    def sorted_axes(self) -> bool:
        """Whether both tables stand in principal axes: the variance of their columns falls throughout."""
        return all(_falls(scale) for _, scale in self._centred)

    @lazy_attribute
    def p(self) -> float:
        """Probability of so large a cosine for independent axes."""
        return max(0.5 * math.erfc(self.cosine / (self.spread or math.inf) / math.sqrt(2)), sys.float_info.min)

    @property
    def needed(self) -> float:
        """The cosine from which p is at most ``DECISIVE``; 1 for rows that do not differ from each other."""
        return _DEVIATIONS * self.spread or 1.0

    @lazy_attribute
    def turned(self) -> float:
        """Mean cosine of held-out rows after the best rotation of the others."""
        x, y = self.rows
        sides = []
        for rows in (x, y):
            fitted = rows[::2]
            basis = np.linalg.qr(fitted.T)[0] if len(fitted) < rows.shape[1] else np.eye(rows.shape[1])
            sides.append((fitted @ basis, rows[1::2] @ basis))
        (first, held), (second, other) = sides
        left, _, right = np.linalg.svd(first.T @ second, full_matrices=False)
        return _mean_cosine(held @ (left @ right), other)

    @lazy_attribute
    def permuted(self) -> float:
        """Mean cosine of held-out rows after matching the columns of the others, with signs; 0 if none match."""
        x, y = self.rows
        if x.shape[1] > MOST_MATCHED:
            return 0.0
        places, signs = matched_columns(x[::2], y[::2])
        if np.count_nonzero(places >= 0) < 0.5 * len(places):
            return 0.0
        some = np.flatnonzero(places >= 0)
        return _mean_cosine(x[1::2][:, some] * signs[some], y[1::2][:, places[some]])

    def evidence(self) -> list[Evidence]:
        """Return the figures with their nulls."""
        found = [
            Evidence("rows equal to the bit", self.equal, 0.0, 1 / max(len(self.exact), 1)),
            self.in_the_same_axes,
        ]
        if self.rotations:
            found += [
                Evidence("cosine after a rotation", self.turned, None, ROTATED),
                Evidence("cosine after permuting columns", self.permuted, None, ROTATED),
            ]
        return found

    @property
    def in_the_same_axes(self) -> Evidence:
        """The cosine in the same axes beside its null."""
        return Evidence("cosine in the same axes", self.cosine, 0.0, self.needed)

    @lazy_attribute
    def rotations(self) -> bool:
        """Whether a rotation is looked for; no rotation changes cosines between rows."""
        if self.in_place or not self.brief:
            return not self.in_place
        apart = np.triu_indices(min(SCREENED, self.count), 1)
        x, y = (each[apart] for each in self.products)
        with np.errstate(invalid="ignore", divide="ignore"):
            return float(np.corrcoef(x, y)[0, 1]) > ALIKE

    @property
    def moved(self) -> float:
        """The larger of the cosines after a rotation and after permuting columns; 0 if neither is looked for."""
        return max(self.turned, self.permuted) if self.rotations else 0.0

    @property
    def in_place(self) -> bool:
        """Whether rows are kin in the axes that they have."""
        return self.equal_by_kin or self.p <= DECISIVE

    @property
    def too_few(self) -> str:
        """Why an absence means nothing; "" if it means something."""
        if self.needed <= POWER:
            return ""
        why = f"chance alone gives these {self.count} rows a cosine of {number(self.needed)}"
        return f"{why}; there are too few of them, or of their directions"

    @lazy_attribute
    def shares(self) -> tuple[float, float]:
        """The shares of both vocabularies that are in the other, from their smallest hashes."""
        a, b = self.a.sketch, self.b.sketch
        if not len(a) or not len(b):
            return 0.0, 0.0
        full = [one[-1] if len(one) == SKETCH else np.uint64(2**64 - 1) for one in (a, b)]
        most = min(full)
        a, b = a[a <= most], b[b <= most]
        both = len(np.intersect1d(a, b, assume_unique=True))
        return both / max(len(a), 1), both / max(len(b), 1)

    def judged(self) -> tuple[Verdict, str]:
        """Return the verdict and what decided it."""
        same_words = self.a.vocabulary == self.b.vocabulary
        if self.in_place:
            said = f"{percent(self.equal)} of {len(self.exact)} rows are equal to the bit"
            if self.equal < 1:
                said += f"; cosine {number(self.cosine)} in the same axes, chance {number(self.needed)}"
            if same_words:
                return ("same" if self.equal == 1 else "derived"), said
            return self._resized(), said
        if self.moved >= SUSPECT:
            how = "a permutation of columns with signs" if self.permuted >= min(ROTATED, self.turned) else "a rotation"
            said = f"cosine {number(self.moved)} of held-out rows after {how}"
            if self.moved >= ROTATED:
                return "rotated", said
            between = f"below the {number(ROTATED)} that decides, but above the {number(SUSPECT)}"
            return "cannot tell", f"{said}, {between} under which independent models of the calibration stay"
        if self.too_few:
            return "cannot tell", self.too_few
        said = f"cosine {number(self.cosine)} in the same axes, below the {number(self.needed)} that decides"
        said += f" (p {number(self.p)})"
        if not self.a.words:
            return "cannot tell", f"{said}, but rows were matched by number: their tokens may be others"
        if same_words:
            return "same tokenizer", said
        if max(self.shares) < OVERLAP:
            return "cannot tell", f"{said}, but the tokenizers share less than half: rows may have been made anew"
        return "unrelated", said

    def _resized(self) -> Verdict:
        ours, theirs = self.shares
        if ours >= INSIDE and self.b.words > self.a.words:
            return "extended"
        if theirs >= INSIDE and self.b.words < self.a.words:
            return "pruned"
        return "derived"

    def notes(self) -> tuple[str, ...]:
        """Return what a reader must know beside the verdict."""
        a, b = self.a, self.b
        found = [UNKNOWABLE]
        if self.sorted_axes:
            found.append("both stand in principal axes, which independent models share up to signs; p allows for it")
        if not a.words:
            found.append("rows have no tokens and were matched by number")
        if self.equal and a.exact != b.exact:
            found.append(f"exact in {a.exact} and {b.exact}: rows were compared rounded to the coarser of both")
        for one, rows in zip((a, b), self.all, strict=True) if a.width == b.width else ():
            if zeros := int(np.count_nonzero(~one.vectors[rows].any(axis=1))):
                found.append(f"{zeros:,} of the {len(rows):,} rows of {one.name} are zeros, which have no direction")
        if a.words and a.vocabulary == b.vocabulary and a.rows != b.rows:
            found.append(f"{a.rows:,} and {b.rows:,} rows, of which the further ones have no tokens")
        if a.words == b.words and a.vocabulary != b.vocabulary and min(self.shares) == 1:
            found.append("the same tokens, under other ids")
        return tuple(found)


def _once(hashes: Hashes) -> NDArray[np.bool_]:
    """Return which hashes occur once."""
    _, places, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    return np.asarray(counts[places] == 1)


def _falls(variances: Floats) -> bool:
    ranks = np.argsort(np.argsort(variances))
    return len(ranks) > 2 and float(np.corrcoef(ranks, np.arange(len(ranks)))[0, 1]) < -0.9


def _mean_cosine(left: Floats, right: Floats) -> float:
    return float(np.einsum("ij,ij->i", directions(left), directions(right)).mean()) if len(left) else 0.0
