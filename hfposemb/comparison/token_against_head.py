"""Token table against output head of an untied model: what reading and writing a token have in common.

Rows correspond by token, so the null of everything that compares rows is a permutation of the rows of the head. The
directions of largest variance are compared with directions drawn at random, which a permutation would not move.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..analysis.rows import norms
from ..analysis.tokens.first_direction import along, first_direction
from ..errors import InputError
from ..progress import Report, shown
from ..tables.embeddings import Embeddings
from ..tables.null_comparison import Null, beside, chance_columns
from ..tables.output_head import OutputHead, Tying
from ..tables.table import EmbeddingTable
from ..tables.tabular import Columns, Tabular, columns_of
from ..text import number
from .alignment import TablePair, beside_permutations, cka, procrustes
from .head_sample import DRAWS, spread_rows, unit_ranks
from .moved_words import Move, moved_between
from .table_side import TableSide

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class HeadMeasure:
    """One figure of a token table against its head.

    Attributes:
        name: Name of the figure.
        null: The value with its null.
        about: What it says, in one line.
    """

    name: str
    null: Null
    about: str


@dataclass(frozen=True)
class HeadComparison(Tabular):
    """Token table and output head of one model.

    Attributes:
        name: Name of the source.
        tied: Whether they are one table, by their bytes.
        token: Shape of the token table (rows, width).
        head: Shape of the head (rows, width).
        rows: Number of tokens compared: those with finite, nonzero vectors in both.
        sampled: Number of them that CKA and Procrustes were computed from.
        measures: The figures.
        most: Tokens whose vectors differ most after the best rotation, as in ``find_moved_words``; ``left`` are the
            neighbours in the token table, ``right`` those in the head.
        least: Tokens whose vectors differ least.
        notes: Remarks on rows left out and sampled.
    """

    name: str
    tied: Tying
    token: tuple[int, int]
    head: tuple[int, int]
    rows: int
    sampled: int
    measures: tuple[HeadMeasure, ...]
    most: tuple[Move, ...]
    least: tuple[Move, ...]
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Null:
        """Return the figure of a name, with its null."""
        found = {one.name: one.null for one in self.measures}
        if name not in found:
            raise InputError(f"there is no figure {name!r:.40} of token against head; there are {', '.join(found)}")
        return found[name]

    def __str__(self) -> str:
        """List the figures with their nulls, and the tokens that differ most and least."""
        token, head = (f"{rows:,} × {width:,}" for rows, width in (self.token, self.head))
        lines = [f"{self.name}: token table {token} against head {head}, {self.rows:,} tokens", f"  {self.tied}"]
        for one in self.measures:
            null = one.null
            chance = f"chance {number(null.mean)}, {number(null.low)} to {number(null.high)}; p {number(null.p)}"
            lines.append(f"  {one.name:<32}{number(null.observed):>8}  ({chance})")
        for title, moves in (("differ most", self.most), ("differ least", self.least)):
            lines += [f"  {title}:", *map(str, moves)]
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])

    def columns(self) -> Columns:
        """Return one row per figure.

        ``measure`` and ``value``; ``chance_low``, ``chance_high``, ``p`` and ``draws`` of its null; and ``about``.
        """
        nulls = [one.null for one in self.measures]
        values = {"measure": [one.name for one in self.measures], "value": [null.observed for null in nulls]}
        return {**values, **chance_columns(nulls), **columns_of(self.measures, "about")}


def compare_head(
    source: Embeddings,
    *,
    count: int = 20,
    k: int = 10,
    draws: int = DRAWS,
    seed: int = 0,
    progress: Report | None = None,
) -> HeadComparison:
    """Compare the token table of an untied model with its output head.

    - *CKA*, *Procrustes fit*: similarity of the whole tables (``alignment.cka``, ``1 − alignment.procrustes``).
    - *norms*: Spearman correlation of the lengths of a token's two vectors.
    - *first directions, scores*: the same of their coordinates along each table's direction of largest variance, which
      mostly follows frequency (Cho et al., COLING 2025), in magnitude.
    - *first directions, cosine*: magnitude of the cosine of both directions, compared with random directions; only if
      the tables are of one width.
    - *distance*: mean relative distance of a token from itself after the best rotation, 0 to √2; its null is one-sided
      towards small values.

    Args:
        source: A source with a token table and an untied head.
        count: Number of tokens listed of each kind.
        k: Number of neighbours of each of them.
        draws: Number of surrogates, at least 19.
        seed: Random seed of surrogates.
        progress: Callback for the share done, 0 to 1, and the stage.

    Raises:
        MissingTableError: If the source has no token table or no head.
        InputError: If the head is the token table, or fewer than 20 tokens have vectors in both.

    >>> import numpy as np
    >>> import hfposemb as hpe
    >>> token = hpe.extract("sample:gpt2").token.vectors
    >>> turned = token[:, ::-1] + 0.01 * np.random.default_rng(0).standard_normal(token.shape)
    >>> found = hpe.compare_head(hpe.from_arrays(token=token, head=turned), count=3)
    >>> bool(found["CKA"].observed > 0.9), found["CKA"].p
    (True, 0.025)
    """
    if draws < 19:
        raise InputError(f"draws must be at least 19, so that p can be .05; got {draws}")
    head = source.head
    token = source.token if head.token is None else head.token
    tied = _untied(source.name, head)
    with shown(f"token against head of {source.name}", progress) as report:
        return _compared(source.name, token, head, tied, count, k, draws, seed, report)


def _untied(name: str, head: OutputHead) -> Tying:
    """Return how head and token table differ. Raises ``InputError`` if they are one table."""
    tied = head.tied if head.tied.how in ("absent", "alias", "same tensor") else head.tied_by_bytes
    if tied:
        raise InputError(
            f"{name}: the head is the token table ({tied.about}), so there is nothing to compare; give an untied model"
        )
    return tied


def _compared(  # noqa: PLR0913 - what one comparison needs
    name: str,
    token: EmbeddingTable,
    head: EmbeddingTable,
    tied: Tying,
    count: int,
    k: int,
    draws: int,
    seed: int,
    report: Report,
) -> HeadComparison:
    rows = _usable(name, token, head)
    sample = rows[spread_rows(len(rows))]
    notes = []
    if len(sample) < len(rows):
        notes.append(f"CKA and Procrustes from {len(sample):,} of {len(rows):,} tokens, in runs spread over the table")
    if left := max(len(token), len(head)) - len(rows):
        notes.append(f"{left:,} rows are left out, as they are zero, not finite or in one table only")
    report(0.05, "similarity of the tables")
    measures = [*_whole(token, head, sample, draws=draws, seed=seed)]
    report(0.5, "norms and first directions")
    measures += _by_row(token, head, rows, draws=draws, seed=seed)
    report(0.7, "tokens that differ")
    pairs = np.stack([rows, rows], axis=1)
    moves = moved_between((token, head), pairs, (f"{name} token", f"{name} head"), count=count, k=k, seed=seed)
    measures.append(HeadMeasure("distance", moves.null, "mean relative distance of a token's two vectors"))
    notes += moves.notes
    sizes = (token.shape, head.shape, len(rows), len(sample))
    return HeadComparison(name, tied, *sizes, tuple(measures), moves.most, moves.least, tuple(notes))


def _usable(name: str, token: EmbeddingTable, head: EmbeddingTable) -> NDArray[np.int64]:
    """Return the tokens that have a direction in both tables. Raises ``InputError`` if they are too few."""
    shared = min(len(token), len(head))
    rows = np.flatnonzero((norms(token)[:shared] > 0) & (norms(head)[:shared] > 0))
    if len(rows) < 20:
        raise InputError(f"{name} has {len(rows)} tokens with vectors in both tables; a comparison needs at least 20")
    return rows


def _whole(
    token: EmbeddingTable, head: EmbeddingTable, rows: NDArray[np.int64], *, draws: int, seed: int
) -> list[HeadMeasure]:
    """Return CKA and Procrustes fit of the tables with permuted rows as null."""
    x, y = (np.asarray(table.take(rows), np.float64) for table in (token, head))
    observed = {"CKA": cka(x, y), "Procrustes fit": 1 - procrustes(x, y)}
    nulls = beside_permutations(TablePair(TableSide(x), TableSide(y)), observed, draws=draws, seed=seed)
    about = {
        "CKA": "similarity of both tables' inner products, 0 to 1",
        "Procrustes fit": "share of the variance that the best rotation explains",
    }
    return [HeadMeasure(name, nulls[name], about[name]) for name in observed]


def _by_row(
    token: EmbeddingTable, head: EmbeddingTable, rows: NDArray[np.int64], *, draws: int, seed: int
) -> list[HeadMeasure]:
    """Return the figures of single numbers of each token, and of the first directions."""
    first = [first_direction(table, seed=seed) for table in (token, head)]
    lengths = [norms(table)[rows] for table in (token, head)]
    scores = [along(table, direction)[rows] for table, direction in zip((token, head), first, strict=True)]
    found = [
        HeadMeasure(
            "norms", _correlation(lengths, draws, seed, signed=True), "rank correlation of the lengths of both vectors"
        ),
        HeadMeasure(
            "first directions, scores",
            _correlation(scores, draws, seed, signed=False),
            "rank correlation along the first directions, in magnitude",
        ),
    ]
    if len(first[0]) == len(first[1]):
        drawn = np.random.default_rng(seed).standard_normal((draws, len(first[0])))
        cosines = np.abs(drawn @ first[0]) / np.linalg.norm(drawn, axis=1)
        null = beside(abs(float(first[0] @ first[1])), cosines, seed=seed, kind="random")
        found.append(HeadMeasure("first directions, cosine", null, "cosine of the first directions, in magnitude"))
    return found


def _correlation(values: list[Floats], draws: int, seed: int, *, signed: bool) -> Null:
    """Return the Spearman correlation of two numbers of each token, with permuted tokens as null.

    Args:
        values: The numbers, by table [rows] each.
        draws: Number of permutations.
        seed: Random seed.
        signed: Whether its sign counts, and the test has two sides; otherwise its magnitude is taken.
    """
    one, other = (unit_ranks(found) for found in values)
    rng = np.random.default_rng(seed)
    drawn = np.array([float(one @ other[rng.permutation(len(other))]) for _ in range(draws)])
    observed = float(one @ other)
    if not signed:
        return beside(abs(observed), np.abs(drawn), seed=seed, kind="permutation")
    return beside(observed, drawn, seed=seed, kind="permutation", side="both")
