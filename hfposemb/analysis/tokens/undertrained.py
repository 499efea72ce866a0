"""Odd tokens: rows near the mean, of outlying length, duplicated or never used, among which glitch tokens are found.

A token that training hardly saw keeps its initial vector, moved only by what moves all rows. It therefore lies near the
mean of the table (Rumbelow & Watkins 2023, on " SolidGoldMagikarp"; in the largest GPT-2 it lies far from it), and near
the mean of rows known to be unused once the direction common to all rows is removed (Land & Bartolo, EMNLP 2024).
Listed tokens are candidates only: whether a model cannot produce a token must be tested on the model.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...guesses import several
from ...progress import Report, shown
from ...tables.embeddings import Embeddings
from ...tables.table import CHUNK_BYTES, TOKEN_CLASSES, EmbeddingTable, Vectors
from ...tables.tabular import Columns, Tabular
from ..geometry import Isotropy, anisotropy, scatter
from ..row_values import PAIR_BYTES
from ..rows import directed, finite_blocks, norms, outliers
from .first_direction import first_direction
from .new_rows import RowOrigin, row_origin
from .unused_rows import FEWEST, MOST, cosine_to_other_unused, distance_to_unused, limit_of, separate_head

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

COUNT = 20
"""Number of tokens listed of each kind."""

NEVER = ("unused", "padding")
"""Token classes that no text produces."""

NEAR = 0.1
"""Maximum distance of two near duplicates, relative to the root mean square distance of a row from the mean."""

HASHES, BITS = 8, 20
"""Number of locality-sensitive hashes, and of random planes in each."""

CANDIDATES = 4
"""Number of rows each row is compared with in its bucket: the next ones along the first principal direction."""

COLUMNS = 64
"""Number of columns in which candidates are compared first, so that distant rows need not be read in full."""

TWINS = 5
"""Number of labels of duplicates listed with a token."""

PAIRS = 2_000
"""Number of random pairs that the distance of near duplicates is compared with."""


@dataclass(frozen=True)
class UndertrainedToken:
    """One odd token.

    Attributes:
        row: Row number.
        label: Label of the token.
        kind: Token class.
        value: The number it is listed for.
        z: Modified z-score of the number among all tokens, .6745 (x − median) / MAD.
        percentile: Percentage of tokens, or of random pairs, that are less extreme.
        twins: Labels of other rows it resembles.
        marks: Its roles in the tokenizer: reserved, added, chat template.
    """

    row: int
    label: str
    kind: str
    value: float
    z: float | None
    percentile: float
    twins: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class TokenGroup:
    """Tokens that are odd in one respect, the most extreme first.

    Attributes:
        name: Name of the list.
        about: What makes its tokens odd.
        unit: Unit of their numbers.
        rows: The tokens listed.
        found: Number of tokens found, if the list is not a ranking of all tokens.
        expected: Modified z-score expected of the most extreme of as many normal numbers.
        note: Why the list is empty.
    """

    name: str
    about: str
    unit: str
    rows: tuple[UndertrainedToken, ...]
    found: int | None = None
    expected: float | None = None
    note: str = ""

    @property
    def beyond(self) -> int:
        """How many listed tokens are more extreme than the most extreme of as many normal numbers is expected to be."""
        if self.expected is None:
            return 0
        return sum(row.z is not None and abs(row.z) > self.expected for row in self.rows)


@dataclass(frozen=True)
class UndertrainedTokens(Tabular):
    """Odd tokens of one table, and how evenly the table fills its space.

    Attributes:
        table: Name of the table.
        shape: Its shape (rows, width).
        lists: One list for each kind of oddity; also available by name, as in ``found["same"]``.
        unused: Number of unused rows that the first list is measured from.
        anisotropy: Mean cosine of two rows.
        isoscore: IsoScore of the table; ``None`` if it is undefined.
        isoscore_of_noise: IsoScore of isotropic noise of the same shape; ``None`` if it is undefined.
        notes: Remarks on rows left out.
        head: Name of the untied output head that was measured too; "" if there is none.
        origin: How the rows of added tokens were made; ``None`` if there are none.
    """

    table: str
    shape: tuple[int, int]
    lists: tuple[TokenGroup, ...]
    unused: int
    anisotropy: float | None
    isoscore: float | None
    isoscore_of_noise: float | None
    notes: tuple[str, ...] = ()
    head: str = ""
    origin: RowOrigin | None = None

    def __getitem__(self, name: str) -> TokenGroup:
        return next(one for one in self.lists if one.name == name)

    def __str__(self) -> str:
        """List the tokens of every kind with their numbers."""
        rows, width = self.shape
        lines = [f"{self.table}: {rows:,} × {width:,}"]
        if self.isoscore is not None:
            lines.append(
                f"  anisotropy {self.anisotropy:.4f} (noise 0), IsoScore {self.isoscore:.4f} "
                f"(noise {self.isoscore_of_noise:.4f})"
            )
        lines += [f"  note: {note}" for note in self.notes]
        lines += [f"  {line}" for line in str(self.origin).split("\n")] if self.origin is not None else []
        for one in self.lists:
            lines += ["", f"{one.name}: {one.about}"]
            if one.rows:
                beyond = (
                    f"{one.beyond} of {len(one.rows)} beyond z ±{one.expected or 0:.1f}, the extreme of as many normal"
                )
                lines.append(f"  {one.unit}, " + (f"z, percentile; {beyond} numbers" if one.expected else "percentile"))
            if one.note:
                lines.append(f"  {one.note}")
            for odd in one.rows:
                z = f"  z {odd.z:>7.1f}" if odd.z is not None else ""
                twins = f"  like {', '.join(repr(twin) for twin in odd.twins)}" if odd.twins else ""
                twins += f"  [{', '.join(odd.marks)}]" if odd.marks else ""
                share = f"{np.floor(100 * odd.percentile) / 100:>6.2f} %"  # round down, never up
                lines.append(f"  {odd.row:>7}  {odd.label!r:<28} {odd.value:>9.4g}{z}  {share}{twins}")
            if one.found is not None and one.found > len(one.rows):
                lines.append(f"  … and {one.found - len(one.rows):,} more")
        return "\n".join(lines)

    def columns(self) -> Columns:
        """Return one row per token of each list.

        ``list``, its name, and ``row``, ``label``, ``kind``, ``value``, ``z`` and ``percentile`` of the token.
        """
        pairs = [(group.name, token) for group in self.lists for token in group.rows]
        names = ("row", "label", "kind", "value", "z", "percentile")
        of_tokens = {name: [getattr(token, name) for _, token in pairs] for name in names}
        return {"list": [group for group, _ in pairs], **of_tokens}


def undertrained_tokens(
    source: EmbeddingTable | Embeddings,
    *,
    count: int = COUNT,
    unused: Sequence[int] = (),
    seed: int = 0,
    progress: Report | None = None,
) -> UndertrainedTokens:
    """Return the odd tokens of a token table or a whole source, ``count`` of each kind.

    - *untrained*: rows as near to the unused ones as these are to each other, by the indicator of the next list, or for
      an untied model by that of the head. The only list with a decision: the limit is meant to find 99.5 % of the rows
      that were made like the unused ones.
    - *near unused in the head*: of untied models, Euclidean distance to the mean of the head's unused rows, the
      indicator of Land & Bartolo for them.
    - *near unused*: cosine distance to the mean of the unused rows, after removing the first principal direction from
      both (Land & Bartolo 2024). Unused rows are those labelled as unused, padding, and those listed in ``unused``.
    - *near the mean*, *far from the mean*: Euclidean distance to the mean of all rows.
    - *short*, *long*: rows of outlying length (``rows.outliers``).
    - *same*: bit-identical rows, one per group, the largest group first.
    - *nearly the same*: rows whose nearest different row is within a tenth of the typical distance from the mean. One
      of each group of identical rows is examined. Pairs are searched among rows on the same side of random planes
      through the mean (Charikar 2002), which finds 99 in 100 pairs at that distance and all that are much nearer.
    - *unused*: rows that no text produces, by row.

    The table is processed in blocks and never widened as a whole. For a source, tokens are marked that the tokenizer
    reserves, that were added to it and that its chat template writes, and ``row_origin`` says how the rows of added
    tokens were made. The head is measured if it is stored separately.

    Args:
        source: Token table [n, d], or a source with one.
        count: Number of tokens listed of each kind.
        unused: Further rows known to be unused.
        seed: Random seed of the planes and random pairs.
        progress: Callback for the share done, 0 to 1, and the stage.

    Raises:
        InputError: If fewer than three rows have a direction, ``count`` < 1, or ``unused`` names a row that does not
            exist.
    """
    table = source.token if isinstance(source, Embeddings) else source
    if count < 1:
        raise InputError(f"count must be at least 1; got {count}")
    unused = several(unused)
    if wrong := [row for row in unused if not 0 <= row < table.shape[0]]:
        raise InputError(f"{table.name} has no row {wrong[0]}; its rows are 0 to {table.shape[0] - 1:,}")
    usable = directed(table)
    if usable.sum() < 3:
        raise InputError(f"{table.name} has {usable.sum()} finite nonzero rows; outliers need at least 3")
    with shown(f"odd tokens of {table.name}", progress) as report:
        head = separate_head(source) if isinstance(source, Embeddings) else None
        found = _listed(table, head, usable, count, unused, seed, report)
        return _marked(found, source) if isinstance(source, Embeddings) else found


def _marked(found: UndertrainedTokens, source: Embeddings) -> UndertrainedTokens:
    """Return the result with marks of tokens and the origin of added rows."""
    marks = source.token_marks
    lists = tuple(
        replace(group, rows=tuple(replace(row, marks=marks.of(row.row)) for row in group.rows)) for group in found.lists
    )
    added = sorted(marks.added)
    origin = row_origin(source.token, added) if added and len(added) < source.token.shape[0] - 1 else None
    return replace(found, lists=lists, origin=origin)


def _listed(
    table: EmbeddingTable,
    head: EmbeddingTable | None,
    usable: NDArray[np.bool_],
    count: int,
    unused: Sequence[int],
    seed: int,
    report: Report,
) -> UndertrainedTokens:
    never = np.isin(table.labels.classes, [TOKEN_CLASSES.index(name) for name in NEVER])
    never[list(unused)] = True
    reference = never & usable
    report(0.05, "reading the table")
    walk = _Walk.of(table, reference, seed=seed)
    report(0.5, "ranking the rows")
    rank = partial(_ranked, table, count=count)
    mean = "the mean of all tokens"
    near_mean = TokenGroup("near the mean", f"closest to {mean}, like the glitch tokens of GPT-2", "distance", ())
    far_from_mean = TokenGroup(
        "far from the mean", f"farthest from {mean}, like the glitch tokens of GPT-2 XL", "distance", ()
    )
    ranked = (
        *_separated(walk, head, reference, usable, count),
        _near_unused(walk, rank, reference),
        rank(near_mean, walk.from_mean, usable),
        rank(far_from_mean, walk.from_mean, usable, -1),
        *_lengths(rank, table, usable),
    )
    report(0.6, "searching for identical rows")
    lists = (*ranked, *_twins(walk, usable, count=count, seed=seed), _unused(table, never, count=count))
    notes = [table.labels.remark] if table.labels.remark else []
    if left := int((~usable).sum()):
        zero = int((norms(table) == 0).sum())
        notes.append(f"{left:,} rows are left out: {zero:,} are zero, {left - zero:,} hold NaN or Inf")
    spread = walk.isotropy
    return UndertrainedTokens(
        table.name,
        table.shape,
        lists,
        int(reference.sum()),
        anisotropy(table),
        None if spread is None else spread.isoscore,
        None if spread is None else spread.isoscore_of_noise,
        tuple(notes),
        "" if head is None else head.name,
    )


# --- one walk through the table ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Walk:
    """Per-row numbers [n] that all lists need, computed in one pass; NaN for rows that are not finite.

    Attributes:
        table: The table.
        from_mean: Distance from the mean.
        from_unused: Cosine distance to the mean of the unused rows, without the first principal direction.
        along: Coordinate along the first principal direction.
        columns: Some of the row's own coordinates [n, k].
        sides: Sides of the random planes it lies on, as bits [n, hashes].
        typical: Root mean square of ``from_mean``.
        isotropy: Isotropy of the table; ``None`` if all rows are equal.
        first: First principal direction [d].
    """

    table: EmbeddingTable
    from_mean: Floats
    from_unused: Floats
    along: NDArray[np.float32]
    columns: NDArray[np.float32]
    sides: NDArray[np.uint32]
    typical: float
    isotropy: Isotropy | None
    first: Floats

    @classmethod
    def of(cls, table: EmbeddingTable, reference: NDArray[np.bool_], *, seed: int) -> _Walk:
        """Read the table once; ``reference`` marks the unused rows."""
        found = scatter(table, single=True)
        first = first_direction(table, found=found, seed=seed)
        rng = np.random.default_rng(seed)
        planes = rng.standard_normal((table.shape[1], HASHES * BITS)).astype(table.dtype)
        unused = _sum_of(table, np.flatnonzero(reference))
        unused -= (first @ unused) * first
        unused /= np.linalg.norm(unused) or 1.0
        along_both = np.stack([first, unused], axis=1)
        from_mean, from_unused = (np.full(table.shape[0], np.nan) for _ in range(2))
        picked = np.unique(np.linspace(0, table.shape[1] - 1, COLUMNS).astype(np.int64))
        along, columns = np.zeros(table.shape[0], np.float32), np.zeros((table.shape[0], len(picked)), np.float32)
        sides = np.zeros((table.shape[0], HASHES), np.uint32)
        for rows, vectors in finite_blocks(table):
            shared, own = (vectors @ along_both).T
            # Squared length of a row without the first direction; the mean of the unused is orthogonal to it.
            squares = np.einsum("ij,ij->i", vectors, vectors)
            left = squares - shared**2
            length = np.sqrt(np.where(left > 1e-12 * squares, left, 0))
            from_unused[rows] = 1 - np.divide(own, length, out=np.zeros_like(length), where=length > 0)
            centred = vectors - found.mean
            from_mean[rows] = np.sqrt(np.einsum("ij,ij->i", centred, centred))
            along[rows], columns[rows] = centred @ first, centred[:, picked]
            above = (centred.astype(table.dtype) @ planes > 0).reshape(len(rows), HASHES, BITS)
            sides[rows] = above @ (1 << np.arange(BITS, dtype=np.uint32))
        typical = float(np.sqrt(np.nanmean(from_mean**2)))
        isotropy = found.isotropy if found.total and table.shape[1] > 1 else None
        return cls(table, from_mean, from_unused, along, columns, sides, typical, isotropy, first)


def _some_rows(table: EmbeddingTable, rows: Rows) -> Iterator[tuple[Rows, Vectors]]:
    """Yield the given rows of a table in chunks, in order, reading no others."""
    step = max(1, CHUNK_BYTES // (table.shape[1] * table.dtype.itemsize))
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        yield part, table.take(part)


def _sum_of(table: EmbeddingTable, rows: Rows) -> Floats:
    total = np.zeros(table.shape[1])
    for _, vectors in _some_rows(table, rows):
        total += vectors.sum(axis=0, dtype=np.float64)
    return total


# --- the lists --------------------------------------------------------------------------------------------------------


def _odd(
    table: EmbeddingTable, row: int, value: float, z: float | None, percentile: float, twins: Sequence[int] = ()
) -> UndertrainedToken:
    labels = table.labels
    kind = TOKEN_CLASSES[int(labels.classes[row])]
    return UndertrainedToken(row, labels[row], kind, value, z, percentile, tuple(labels[twin] for twin in twins))


def _ranked(
    table: EmbeddingTable,
    group: TokenGroup,
    values: Floats,
    among: NDArray[np.bool_],
    sign: int = 1,
    *,
    count: int,
) -> TokenGroup:
    """Fill a group with the rows marked in ``among`` by ascending value, or by descending value if ``sign`` is −1."""
    rows = np.flatnonzero(among)
    ordered = np.sort(sign * values[rows])
    median = float(np.median(values[rows]))
    spread = float(np.median(np.abs(values[rows] - median)))
    odd = []
    for row in rows[np.argsort(sign * values[rows], kind="stable")][:count]:
        z = 0.6745 * (float(values[row]) - median) / spread if spread > 0 else None
        farther = int(np.searchsorted(ordered, sign * values[row], "right"))
        odd.append(_odd(table, int(row), float(values[row]), z, 100 * (1 - farther / len(rows))))
    return replace(group, rows=tuple(odd), expected=NormalDist().inv_cdf(1 - 1 / max(len(rows), 3)))


def _near_unused(walk: _Walk, rank: Callable[..., TokenGroup], reference: NDArray[np.bool_]) -> TokenGroup:
    about = "closest to the mean of the unused rows, after removing the first principal direction"
    empty = TokenGroup("near unused", about, "cosine distance", ())
    if not reference.any():
        return replace(empty, note="no row is known to be unused; give the ids of unused tokens")
    among = directed(walk.table) & ~reference
    if not among.any():
        return replace(empty, note="every row is known to be unused")
    return rank(empty, walk.from_unused, among)


def _separated(
    walk: _Walk, head: EmbeddingTable | None, reference: NDArray[np.bool_], usable: NDArray[np.bool_], count: int
) -> Iterator[TokenGroup]:
    """Yield the tokens that are as near as unused rows are to each other, and the ranking by an untied head."""
    table = walk.table
    where = "without the first direction" if head is None else "in the head"
    empty = TokenGroup("untrained", f"as near to the unused rows {where} as these are to each other", "distance", ())
    if head is None:
        values, known = walk.from_unused, cosine_to_other_unused(table, reference, walk.first)
    else:
        values = distance_to_unused(head, reference)
        known = values[reference & np.isfinite(values)]
    among = usable & ~reference & np.isfinite(values)
    if len(known) < FEWEST or not among.any():
        yield replace(empty, found=0, note=f"fewer than {FEWEST} rows are known to be unused; give the ids of some")
    else:
        limit = limit_of(known)
        low = int((values[among] <= limit).sum())
        note = f"{int((known <= limit).sum()):,} of {len(known):,} rows known to be unused are below the limit too"
        if low > MOST * among.sum():
            low, note = 0, f"the {len(known):,} rows known to be unused lie among the others, so none is separated"
        rows = _ranked(table, empty, values, among, count=min(count, low)) if low else empty
        yield replace(rows, found=low, note=note)
    if head is not None and among.any() and len(known):
        about = f"closest to the mean of the unused rows of {head.name}"
        yield _ranked(table, TokenGroup("near unused in the head", about, "distance", ()), values, among, count=count)


def _lengths(rank: Callable[..., TokenGroup], table: EmbeddingTable, usable: NDArray[np.bool_]) -> Iterator[TokenGroup]:
    """Yield the lists of outlying lengths, ranked among all rows with a direction."""
    length = norms(table)
    out = np.zeros(table.shape[0], bool)
    out[outliers(table)] = True
    median = float(np.median(length[usable]))
    for name, sign in (("short", 1), ("long", -1)):
        found = out & usable & ((length < median) if sign > 0 else (length > median))
        listed = rank(TokenGroup(name, f"much {name}er than the other vectors", "norm", ()), length, usable, sign)
        kept = tuple(row for row in listed.rows if found[row.row])
        note = "" if kept else f"no outliers: no token is {name}er by a quarter than the median and by more than noise"
        yield replace(listed, rows=kept, found=int(found.sum()), note=note)


def _groups(table: EmbeddingTable) -> list[list[int]]:
    """Return the groups of two or more identical finite rows, largest first.

    Identical rows have bit-identical norms, which few others share, so few rows are read.
    """
    length, finite = norms(table), np.flatnonzero(table.finite)
    _, place, count = np.unique(length[finite], return_inverse=True, return_counts=True)
    seen: defaultdict[bytes, list[int]] = defaultdict(list)
    for rows, vectors in _some_rows(table, finite[count[place] > 1]):
        for row, vector in zip(rows.tolist(), np.ascontiguousarray(vectors), strict=True):
            seen[hashlib.blake2b(vector.data, digest_size=16).digest()].append(row)
    return sorted((rows for rows in seen.values() if len(rows) > 1), key=lambda rows: (-len(rows), rows[0]))


def _twins(walk: _Walk, usable: NDArray[np.bool_], *, count: int, seed: int) -> Iterator[TokenGroup]:
    """Yield the lists of identical rows and of nearly identical ones."""
    table, groups = walk.table, _groups(walk.table)
    alone = 100 * (1 - sum(map(len, groups)) / table.shape[0])
    equal = tuple(_odd(table, rows[0], len(rows), None, alone, rows[1 : 1 + TWINS]) for rows in groups[:count])
    yield TokenGroup(
        "same",
        "bit-identical to other tokens",
        "tokens",
        equal,
        found=len(groups),
        note="" if equal else "no two tokens have the same vector",
    )
    once = usable.copy()
    once[[row for rows in groups for row in rows[1:]]] = False
    near = _nearest(walk, np.flatnonzero(once))
    chance = _random_distances(table, np.flatnonzero(usable), seed=seed)
    odd = [
        _odd(table, row, distance, None, 100 * float((chance > distance * walk.typical).mean()), (twin,))
        for distance, row, twin in near[:count]
    ]
    yield TokenGroup(
        "nearly the same",
        f"closer to another token than {NEAR:g} × the typical distance from the mean",
        "relative distance",
        tuple(odd),
        found=len(near),
        note="" if odd else "no two different vectors are that close",
    )


def _nearest(walk: _Walk, rows: Rows) -> list[tuple[float, int, int]]:
    """Return (relative distance, row, other row) of near pairs, nearest first, without repetition."""
    if len(rows) < 2 or not walk.typical > 0:
        return []
    found = []
    for sides in walk.sides.T:
        ordered = rows[np.lexsort((walk.along[rows], sides[rows]))]
        for step in range(1, min(CANDIDATES, len(rows) - 1) + 1):
            pairs = np.stack([ordered[:-step], ordered[step:]], axis=1)
            found.append(_close(walk, pairs[sides[pairs[:, 0]] == sides[pairs[:, 1]]]))
    pairs = np.unique(np.sort(np.concatenate(found), axis=1), axis=0)
    distance = _distances(walk.table, pairs) / walk.typical
    near: dict[int, tuple[float, int, int]] = {}
    for at in np.argsort(distance, kind="stable"):
        first, second = (int(row) for row in pairs[at])
        if distance[at] <= NEAR and not (first in near and second in near):
            near[first] = near[second] = (float(distance[at]), first, second)
    return sorted(set(near.values()))


def _close(walk: _Walk, pairs: Rows) -> Rows:
    """Return the pairs that can be near: the distance in a subset of columns never exceeds the full distance."""
    apart = walk.columns[pairs[:, 0]] - walk.columns[pairs[:, 1]]
    # Slightly more than NEAR, to allow for the rounding of the columns.
    return np.asarray(pairs[np.einsum("ij,ij->i", apart, apart) <= (1.01 * NEAR * walk.typical) ** 2])


def _distances(table: EmbeddingTable, pairs: Rows) -> Floats:
    """Return the distance of each pair of rows, widening a few at a time."""
    out, step = np.empty(len(pairs)), max(1, PAIR_BYTES // (8 * table.shape[1]))
    for start in range(0, len(pairs), step):
        first, second = (table.take(pairs[start : start + step, side]) for side in (0, 1))
        out[start : start + step] = np.linalg.norm(np.asarray(first, np.float64) - second, axis=1)
    return out


def _random_distances(table: EmbeddingTable, rows: Rows, *, seed: int) -> Floats:
    random = np.random.default_rng(seed)
    first = random.integers(len(rows), size=PAIRS)
    second = (first + random.integers(1, len(rows), size=PAIRS)) % len(rows)
    return _distances(table, np.stack([rows[first], rows[second]], axis=1))


def _unused(table: EmbeddingTable, never: NDArray[np.bool_], *, count: int) -> TokenGroup:
    length, rows = norms(table), np.flatnonzero(never)
    known = np.sort(length[np.isfinite(length)])
    odd = [
        _odd(table, int(row), float(length[row]), None, 100 * float(np.searchsorted(known, length[row]) / len(known)))
        for row in rows[:count]
        if np.isfinite(length[row])
    ]
    note = "" if len(rows) else "no row is an unused slot or padding"
    return TokenGroup("unused", "unused slots and padding, by id", "norm", tuple(odd), found=len(rows), note=note)
