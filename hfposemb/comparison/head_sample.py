"""Rows of a token table and of its output head, sampled in runs, and the figures that need no others.

Runs rather than single rows, so that a head on the Hub is read in a few requests.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..analysis.rows import norms
from ..analysis.tokens.first_direction import along, first_direction
from ..errors import InputError, MissingTableError
from ..lazy_attributes import lazy_attribute
from ..tables.embeddings import Embeddings
from ..tables.output_head import OutputHead
from ..tables.table import EmbeddingTable, Provenance, table_of
from .alignment import u_centred
from .table_side import mean_ranks

RUNS, RUN = 25, 80
"""Number of runs of consecutive rows, spread evenly over a table, and rows of each."""

DRAWS = 39
"""Most permutations of a null: with so many, interval and p agree in two-sided tests as well."""

FEWEST = 20
"""Fewest tokens that must have vectors in both tables."""

HeadFigure: TypeAlias = Literal["CKA", "norms", "first directions"]
Floats = NDArray[np.float64]


def spread_rows(count: int) -> NDArray[np.int64]:
    """Return the rows of a sample of a table: all, or 25 runs of 80 rows spread evenly over it.

    Args:
        count: Number of rows of the table.

    Examples:
        >>> len(spread_rows(500)), len(spread_rows(50_000)), spread_rows(50_000)[[79, 80]].tolist()
        (500, 2000, [79, 2080])
    """
    if count <= RUNS * RUN:
        return np.arange(count)
    starts = np.linspace(0, count - RUN, RUNS).astype(np.int64)
    return np.asarray((starts[:, None] + np.arange(RUN)).reshape(-1))


def own_head(source: Embeddings) -> tuple[EmbeddingTable, OutputHead]:
    """Return token table and output head of a source whose names and configuration do not tie them; nothing is read.

    Raises:
        MissingTableError: If the source has no head or no token table.
        InputError: If the head is the token table.
    """
    head = source.head
    if head.tied.how in ("absent", "alias", "same tensor"):
        raise InputError(f"tied: {head.tied.about}")
    if head.token is None:
        raise MissingTableError(f"{source.name} has a head but no token table", reason="there is no token table")
    return head.token, head


@dataclass(frozen=True, eq=False)
class HeadSample:
    """Rows of the tokens that have a direction in token table and output head.

    Attributes:
        token: Their rows of the token table [n, p].
        head: Their rows of the head [n, q].
        digest: SHA-256 of all rows that were read, those without a direction included.
    """

    token: EmbeddingTable
    head: EmbeddingTable
    digest: str

    @lazy_attribute
    def _kernels(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        left, right = (u_centred(table.vectors) for table in (self.token, self.head))
        lengths = np.linalg.norm(left), np.linalg.norm(right)
        if not min(lengths) > 0:
            raise InputError("CKA is undefined: all rows of one table are equal")
        return (left / lengths[0]).astype(np.float32), (right / lengths[1]).astype(np.float32)

    @lazy_attribute
    def _norms(self) -> tuple[Floats, Floats]:
        return unit_ranks(norms(self.token)), unit_ranks(norms(self.head))

    @lazy_attribute
    def _scores(self) -> tuple[Floats, Floats]:
        first, other = (unit_ranks(along(one, first_direction(one))) for one in (self.token, self.head))
        return first, other

    def figure(self, name: HeadFigure, order: NDArray[np.int64] | None = None) -> float:
        """Return a figure of the rows, or of a permutation of the rows of the head.

        Args:
            name: ``CKA``: unbiased linear CKA. ``norms``: Spearman correlation of the norms of a token's two vectors.
                ``first directions``: the same of their coordinates along each table's direction of largest variance, in
                magnitude.
            order: Permutation of the rows of the head [n].
        """
        if name == "CKA":
            left, right = self._kernels
            return float(np.vdot(left, right if order is None else right[order[:, None], order]))
        ours, theirs = self._norms if name == "norms" else self._scores
        found = float(ours @ (theirs if order is None else theirs[order]))
        return found if name == "norms" else abs(found)

    def permuted(self, name: HeadFigure, rng: np.random.Generator, draws: int) -> Floats:
        """Return a figure for permutations of the rows of the head [draws], at most 39, which take two seconds."""
        draws = min(draws, DRAWS)
        return np.array([self.figure(name, rng.permutation(len(self.head))) for _ in range(draws)])


def head_sample(source: Embeddings) -> HeadSample:
    """Read a sample of the rows of token table and output head (``spread_rows``).

    Raises:
        MissingTableError: If the source has no head or no token table.
        InputError: If the head is the token table, or fewer than 20 of the tokens have vectors in both.
    """
    token, head = own_head(source)
    rows = spread_rows(min(len(token), len(head)))
    ours, theirs = token.take(rows), head.take(rows)
    if np.array_equal(ours, theirs, equal_nan=True):
        raise InputError(f"tied: head and token table are equal in all {len(rows):,} rows that were compared")
    digest = hashlib.sha256(np.ascontiguousarray(ours).data)
    digest.update(np.ascontiguousarray(theirs).data)
    tables = [table_of(found, name=of.name, provenance=Provenance("")) for found, of in ((ours, token), (theirs, head))]
    usable = (norms(tables[0]) > 0) & (norms(tables[1]) > 0)
    if usable.sum() < FEWEST:
        said = f"{int(usable.sum())} of {len(rows):,} tokens with vectors in token table and head"
        raise InputError(f"{source.name} has {said}; a comparison needs at least {FEWEST}")
    if not usable.all():
        tables = [table_of(one.vectors[usable], name=one.name, provenance=Provenance("")) for one in tables]
    return HeadSample(tables[0], tables[1], digest.hexdigest())


def unit_ranks(values: Floats) -> Floats:
    """Return the ranks of values, centred and of length 1, so that an inner product is Spearman's correlation."""
    ranks = mean_ranks(values)
    ranks = ranks - ranks.mean()
    return np.asarray(ranks / (np.linalg.norm(ranks) or 1.0))
