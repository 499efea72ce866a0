"""Side-by-side measurement of several sources, and their comparison in pairs."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Literal

from ..analysis.nulls.surrogates import DRAWS, FEWEST_DRAWS, Keep, compute_always
from ..analysis.projection.cached_results import keep_nulls
from ..analysis.row_values import Progress
from ..analysis.rows import breaks, directed, outliers, some_rows, without
from ..analysis.similarity.nearest_rows import neighbours
from ..cache import Cache
from ..errors import HfposembError, InputError, MissingExtraError
from ..guesses import several
from ..progress import shown
from ..tables.embeddings import Embeddings, stack
from ..tables.encodings import Absolute, PositionEncoding
from ..tables.null_comparison import holm
from ..tables.source_names import short_names
from ..tables.table import EmbeddingTable
from .alignment import MEASURES, Alignment, align
from .metrics import Extra, Measure, Tables, beside_noise, measures_of, references_of
from .moved_words import Moves, find_moved_words
from .results import Comparison, Figure, Neighbour, NotCompared, SourceFigures
from .row_fingerprints import as_open


@dataclass(frozen=True)
class Run:
    """Settings of a comparison run.

    Attributes:
        extras: Figures computed on request, "probes" and "sums".
        seed: Random seed.
        cache: Cache of nulls; ``None`` for none.
        progress: Callback for the share done, 0 to 1, and the stage. By default a bar is drawn in terminals and
            notebooks (``progress.shown``); ``False`` disables it.
    """

    extras: tuple[Extra, ...] = ()
    seed: int = 0
    cache: Cache | None = None
    progress: Progress | Literal[False] | None = None

    @property
    def keep(self) -> Keep:
        """The function that caches nulls, if there is a cache."""
        return compute_always if self.cache is None else keep_nulls(self.cache)

    def stage(self, number: int, stages: int, of: str) -> Progress | None:
        """Return a progress callback for one of several stages that reports to the overall progress."""
        if not (whole := self.progress):
            return None
        return lambda share, doing: whole((number + share) / stages, f"{of}: {doing}")


def _figure(tables: Tables, measure: Measure) -> Figure:
    try:
        value = measure.take(tables)
        deviation = None if measure.deviation is None else measure.deviation(tables)
    except MissingExtraError:
        raise
    except HfposembError as error:
        return Figure(measure.name, None, measure.unit, str(error))
    if not math.isfinite(value):
        why = "undefined: its rows are zero, hold NaN or Inf, or are left out"
        return Figure(measure.name, None, measure.unit, why)
    return Figure(measure.name, value, measure.unit, deviation=deviation)


POSITION_DRAWS = 1_999
"""Fewest surrogates of a pair of position tables, unless none are asked for: they cost next to nothing."""


def pair_draws(role: str, draws: int, tests: int) -> int:
    """Return how many surrogates a pair of tables gets, if this many pairs and roles are tested.

    For tokens half as many as asked for, but so many that p can be .05 after correction for the number of tests, unless
    fewer were asked for than p = .05 takes without.

    Examples:
        >>> [pair_draws("token", draws, 2) for draws in (200, 30, 10, 0)]
        [100, 40, 10, 0]
        >>> pair_draws("token", 200, 30), pair_draws("position", 200, 30)
        (600, 1999)
    """
    if role == "position":
        return max(draws, POSITION_DRAWS) if draws else 0
    return max((draws + 1) // 2, 20 * tests) if draws >= FEWEST_DRAWS else draws


def corrected(pairs: Sequence[Alignment]) -> tuple[Alignment, ...]:
    """Return the pairs of a comparison, with the p values of each measure corrected for all of them (``holm``)."""
    found: list[dict[str, float]] = [{} for _ in pairs]
    most = 1
    for name in MEASURES:
        tested = [place for place, pair in enumerate(pairs) if name in pair.measures]
        most = max(most, len(tested))
        for place, p in zip(tested, holm([pairs[place].measures[name].p for place in tested]), strict=True):
            found[place][name] = p
    return tuple(replace(pair, corrected=own, among=most) for pair, own in zip(pairs, found, strict=True))


def _beside_known(tables: Tables, figures: Mapping[str, Figure], *, draws: int, seed: int) -> dict[str, Figure]:
    """Attach the values of references to figures of positions, and a null to figures of tokens."""
    observed = {name: figure.value for name, figure in figures.items() if figure.value is not None}
    if draws < 1 or not observed:
        return dict(figures)
    nulls = beside_noise(tables, observed, draws=draws, seed=seed)
    known = references_of(tables, observed, seed=seed)
    return {
        name: replace(figure, null=nulls.get(name), references=known.get(name, {})) for name, figure in figures.items()
    }


def figures_of(tables: Tables, measures: Collection[Measure], *, draws: int, seed: int = 0) -> dict[str, Figure]:
    """Compute measures of a source, those of positions with references and those of tokens with a null.

    Args:
        tables: Tables of the source.
        measures: Measures to compute.
        draws: Number of values drawn from a null; 0 for neither nulls nor references.
        seed: Random seed.

    Returns:
        The figures by name.
    """
    figures = {measure.name: _figure(tables, measure) for measure in measures}
    return _beside_known(tables, figures, draws=draws, seed=seed)


def _flags(role: str, table: EmbeddingTable) -> list[str]:
    """Describe rows that affect averages: rows left out, positions of outlying norm, and breaks."""
    notes = []
    if missing := int((~table.finite).sum()):
        notes.append(f"{missing:,} of {table.shape[0]:,} {role} rows hold NaN or Inf and are left out")
    if role == "position":
        if len(rows := outliers(table)):
            notes.append(f"outlying norms: {some_rows(rows)} ({len(rows)} of {table.shape[0]:,} positions)")
        notes += [
            f"break between positions {found.before} and {found.after}: the cosine of neighbours falls from a median "
            f"of {found.typical:.3f} to {found.cosine:.3f} ({found.deviations:.0f} robust deviations)"
            for found in breaks(table)
        ]
    return notes


def _without_outliers(source: Embeddings) -> Embeddings:
    """Return a source without rows of outlying norm, with notes that list them."""
    tables, positions = dict(source.tables), dict(source.positions)
    notes = list(source.notes)
    with suppress(HfposembError):
        if isinstance(encoding := source.position, Absolute) and len(rows := outliers(encoding.table)):
            part = next(iter(source.positions))
            positions[part] = replace(encoding, table=without(encoding.table, rows))
            notes.append(f"positions left out for outlying norms: {some_rows(rows)} ({len(rows)})")
    with suppress(HfposembError):
        if len(rows := outliers(source.token)):
            tables["token"] = without(source.token, rows)
            notes.append(f"tokens left out for outlying norms: {len(rows):,} of {source.token.shape[0]:,}")
    return replace(source, tables=tables, positions=positions, notes=tuple(notes))


def _source_figures(source: Embeddings, words: Sequence[str], *, k: int, draws: int, run: Run) -> SourceFigures:
    tables = Tables(source)
    kind, notes = "none", list(source.notes)
    shapes: dict[str, tuple[int, int]] = {}
    if source.positions:
        kind = source.position.kind
        if len(parts := list(source.positions)) > 1:
            notes.append(f"positions of the part {parts[0]}; others: {', '.join(parts[1:])}")
    for role in ("position", "token"):
        try:
            table: EmbeddingTable = getattr(tables, role)
        except HfposembError as error:
            notes.append(str(error))
        else:
            shapes[role] = table.shape
            notes += _flags(role, table)
    near: dict[str, tuple[Neighbour, ...]] = {}
    if "token" in shapes:
        labels = tables.token.labels
        for word in words:
            if (row := labels.find(word)) is not None and directed(tables.token)[row]:
                found = neighbours(tables.token, row, k=k)
                near[word] = tuple(map(Neighbour, found.labels, found.values.tolist()))
        if absent := [word for word in words if word not in near]:
            notes.append(f"no neighbours for {', '.join(absent)}: no token is spelled so, or its row has no direction")
    return SourceFigures(
        source=source.name,
        kind=kind,
        position_shape=shapes.get("position"),
        token_shape=shapes.get("token"),
        metrics=figures_of(tables, measures_of(run.extras), draws=draws, seed=run.seed),
        neighbours=near,
        notes=tuple(dict.fromkeys(notes)),
        part=stack(source),
        head=_head(source),
    )


def _head(source: Embeddings) -> str:
    """Return the size of the output head, "tied", or "" if there is none; no row is read."""
    try:
        return f"{source.head.shape[0]:,} × {source.head.shape[1]:,}" if not source.head.tied else "tied"
    except HfposembError:
        return ""


def _open(source: str | Path | Embeddings) -> Embeddings:
    """Return an open source unchanged, and open one that is given by name."""
    if isinstance(source, (list, tuple)):
        raise InputError("compare() takes sources as separate arguments; write compare(*sources)")
    if isinstance(source, (EmbeddingTable, PositionEncoding)):
        raise InputError("compare() takes whole sources; give the Embeddings that holds this table, or its name")
    return as_open(source)


def of_parts(sources: Sequence[Embeddings], part: str | Sequence[str | None] | None) -> list[Embeddings]:
    """Return the sources with the chosen part of each (``Embeddings.part``).

    Args:
        sources: Open sources.
        part: A name for all sources with several parts, at least one of which must have it; or a sequence with one name
            per source, ``None`` for the part that the words enter.

    Raises:
        InputError: If no source has the part, or the sequence has another length.
    """
    if part is None:
        return list(sources)
    if isinstance(part, str):
        if not any(part in source.positions for source in sources):
            known = "; ".join(f"{source.name} has {', '.join(source.positions) or 'none'}" for source in sources)
            raise InputError(f"no source has a part {part!r}; {known}")
        return [source.part(part) if part in source.positions else source for source in sources]
    part = several(part)
    if len(part) != len(sources):
        raise InputError(f"part must have one entry per source; got {len(part)} for {len(sources)} sources")
    return [source if name is None else source.part(name) for source, name in zip(sources, part, strict=True)]


def compare(  # noqa: PLR0913 - keywords with defaults
    *sources: str | Path | Embeddings,
    words: Sequence[str] = ("king", "queen", "paris"),
    k: int = 10,
    pairs: bool = True,
    draws: int = DRAWS,
    fold_case: bool = False,
    leave_out: bool = False,
    part: str | Sequence[str | None] | None = None,
    run: Run = Run(),
) -> Comparison:
    """Measure sources side by side: their position tables, their token tables, and the neighbours of ``words``.

    Every figure is given with its null (``comparison.metrics``). A source without a table has no figures of it, and a
    note says why. For a model of several parts, such as encoder and decoder, the positions are those of the part that
    the words enter, unless ``part`` says otherwise. Rows before position 0 never count.

    Args:
        *sources: Open embeddings, or names and paths as in ``hpe.extract``.
        words: Words whose neighbours are given.
        k: Number of neighbours.
        pairs: Whether to compare the tables of every two sources too (``alignment.align``), with p corrected for all of
            them (``corrected``), and to list the words that moved most (``moved_words.moved``).
        draws: Number of surrogates per null; 0 for none, which is fast. Pairs of tables have others (``pair_draws``).
        fold_case: Whether tokens of two sources are matched regardless of case.
        leave_out: Whether to leave rows of outlying norm (``rows.outliers``) out of every figure.
        part: Part of the models, as one name or a sequence with one per source (``of_parts``).
        run: Extras, seed, cache and progress.

    Raises:
        InputError: If there are no sources, or a source does not have the part.
        MissingExtraError: If probes are requested and scikit-learn is not installed.
        SourceError: If a source cannot be opened.

    Examples:
        >>> import hfposemb as hpe
        >>> found = hpe.compare("sample:gpt2", hpe.sinusoidal(256, 128), words=["king"], draws=0)
        >>> [source.source for source in found.sources]
        ['sample:gpt2', 'sinusoidal:256x128']
    """
    if not sources:
        raise InputError('compare() needs at least one source, such as "gpt2" and sinusoidal(1024, 768)')
    if k < 1 or draws < 0:
        raise InputError(f"k must be at least 1 and draws at least 0; got k={k} and draws={draws}")
    chosen = of_parts([_open(one) for source in sources for one in several(source)], part)
    measured = [_without_outliers(source) for source in chosen] if leave_out else chosen
    with shown("comparing", run.progress) as told:
        run = replace(run, progress=told)
        return _compared(measured, several(words), k=k, pairs=pairs, draws=draws, fold_case=fold_case, run=run)


def _compared(
    measured: Sequence[Embeddings],
    words: Sequence[str],
    *,
    k: int,
    pairs: bool,
    draws: int,
    fold_case: bool,
    run: Run,
) -> Comparison:
    couples = list(combinations(measured, 2)) if pairs else []
    stages = len(measured) + 2 * len(couples)
    written = [source.name for source in measured]
    short = dict(zip(written, short_names(written), strict=True))
    figures = tuple(_source_figures(source, words, k=k, draws=draws, run=run) for source in measured)
    found: list[Alignment] = []
    moves: list[Moves] = []
    missing: list[NotCompared] = []
    for number, (left, right) in enumerate(couples):
        stage = len(measured) + 2 * number
        for place, role in enumerate(("position", "token")):
            try:
                found.append(
                    align(
                        left,
                        right,
                        role,
                        draws=pair_draws(role, draws, 2 * len(couples)),
                        seed=run.seed,
                        fold_case=fold_case,
                        keep=run.keep,
                        progress=run.stage(
                            stage + place, stages, f"{role}s of {short[left.name]} and {short[right.name]}"
                        ),
                    )
                )
                if role == "token":
                    moves.append(find_moved_words(left, right, k=k, seed=run.seed, fold_case=fold_case))
            except HfposembError as error:
                missing.append(NotCompared(role, left.name, right.name, str(error)))
    if run.progress:
        run.progress(1.0, "done")
    return Comparison(figures, tuple(words), corrected(found), tuple(missing), tuple(moves))
