"""Repetition of a survey: its sources at the recorded commits, compared with the recorded hashes and figures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from ..analysis.row_values import Progress
from ..comparison.metrics import REFERENCES, measures_named
from ..errors import InputError
from ..tables.source_parser import parse_source
from ..tables.sources import HubSource
from ..tables.tabular import Columns, Tabular, columns_of
from .source_figures import Plan, each, target_of
from .survey_folder import Row
from .worker_pool import HERE, Engine

if TYPE_CHECKING:
    import pandas

Verdict = Literal["same", "differs", "fails now", "failed before"]

RELATIVE = 1e-6
"""Relative tolerance of a number."""

ABSOLUTE = 1e-12
"""Absolute tolerance, for rounding error around zero, which differs between processors."""

OF_TABLE = ("commit", "kind", "architecture", "tensor", "file", "rows", "width")
OF_FIGURE = (
    *("value", "unit", "deviation", "p", "draws", "seed"),
    *("baseline", "baseline_mean", "baseline_low", "baseline_high"),
    *REFERENCES,
)
"""Columns that must be unchanged, in addition to the hash; the text that explains a missing figure need not be."""

_MOST_SHOWN = 6
_DIGITS = 12
"""Number of digits of a hash that are shown."""


@dataclass(frozen=True)
class Difference:
    """One column that differs: of a figure, of a whole ``table``, or of the library versions.

    Attributes:
        column: Name of the column.
        was: Recorded value.
        now: Current value.
        table: Table it is about; "" for the versions.
        metric: Figure it is about; "" for a whole table and for the versions.
    """

    column: str
    was: Any
    now: Any
    table: str = ""
    metric: str = ""

    def __str__(self) -> str:
        """Describe the difference on one line."""
        of = ", ".join(part for part in (self.table, self.metric.strip()) if part)
        if self.column == "digest":
            was, now = _shortened(self.was), _shortened(self.now)
            advice = "the table has changed; repeat the survey, or restore the table"
            return f"{of}: its hash was {was}, is {now}; {advice}"
        return f"{of + ': ' if of else ''}{self.column} was {_said(self.was)}, is {_said(self.now)}"


def _said(value: Any) -> str:
    return "none" if value is None else f"{value:.9g}" if isinstance(value, float) else f"{value!r:.200}"


def _shortened(digest: str | None) -> str:
    """Return the beginning of a hash, or of each of two joined ones."""
    return "none" if digest is None else " + ".join(f"{part:.{_DIGITS}}" for part in digest.split(" + "))


@dataclass(frozen=True)
class Repeated:
    """Result of measuring one source again.

    Attributes:
        source: Name of the source.
        verdict: Whether it is the same.
        figures: Number of figures the survey has of it.
        differences: Columns that differ.
        reason: Why it has no figures, now or in the survey.
    """

    source: str
    verdict: Verdict
    figures: int = 0
    differences: tuple[Difference, ...] = ()
    reason: str = ""

    def __str__(self) -> str:
        """Return the verdict, followed by the differences."""
        of = {"same": f", {self.figures:,} {'metric' if self.figures == 1 else 'metrics'}"}
        lines = [f"{self.source}: {self.verdict}{of.get(self.verdict, '')}{': ' if self.reason else ''}{self.reason}"]
        lines += [f"  {one}" for one in self.differences[:_MOST_SHOWN]]
        if (more := len(self.differences) - _MOST_SHOWN) > 0:
            lines.append(f"  and {more:,} more")
        return "\n".join(lines)


@dataclass(frozen=True)
class Again(Tabular):
    """Results for all requested sources, in the order of the survey's rows."""

    sources: tuple[Repeated, ...]

    @property
    def same(self) -> bool:
        """Whether everything that the survey measured is unchanged; sources that failed in the survey do not count."""
        return all(one.verdict in ("same", "failed before") for one in self.sources)

    def __str__(self) -> str:
        """List the sources."""
        return "\n".join(map(str, self.sources))

    def columns(self) -> Columns:
        """Return one row per source: ``source``, ``verdict``, number of ``figures`` and ``differences``, ``reason``."""
        found = columns_of(self.sources, "source", "verdict", "figures", "differences", "reason")
        return found | {"differences": list(map(len, found["differences"]))}


def again(
    rows: pandas.DataFrame,
    *,
    sources: Sequence[str] = (),
    engine: Engine = HERE,
    allow_full_download: bool = False,
    progress: Progress | None = None,
) -> Again:
    """Measure the sources of a survey again and compare every figure with the recorded one.

    Metrics, draws and seed are taken from the rows, Hub models are read at the recorded commit, and nulls are computed
    anew. Hashes and texts must be equal, numbers equal within a relative tolerance of 1e-6. Sources that failed in the
    survey are listed as such.

    Args:
        rows: Rows of a survey, from ``hpe.survey`` or ``survey_folder.rows_of``.
        sources: Sources to measure; all by default.
        engine: Where they are measured.
        allow_full_download: Whether whole files may be downloaded where parts cannot be read.
        progress: Callback for the share of sources done, 0 to 1, and a description.

    Raises:
        InputError: If the survey has no such source, or no source that it could measure.
    """
    kept = _by_source(rows)
    if unknown := [source for source in sources if source not in kept]:
        raise InputError(f"the survey has no source {unknown[0]!r:.80}; it has {', '.join(list(kept)[:_MOST_SHOWN])}")
    was = {source: kept[source] for source in dict.fromkeys(sources or kept)}
    found = {
        source: Repeated(source, "failed before", reason=figures[0]["error"] or "no reason recorded")
        for source, figures in was.items()
        if figures[0]["metric"] is None
    }
    jobs = [_job(source, figures, allow_full_download) for source, figures in was.items() if source not in found]
    if not jobs:
        first = next(iter(found.values()))
        raise InputError(
            f"all sources failed in the survey, such as {first.source}: {first.reason}; there is nothing to compare"
        )
    with engine.running() as pool:
        for done, (target, now) in enumerate(each(pool, jobs), 1):
            found[target.source] = _repeated(target.source, was[target.source], now)
            if progress is not None:
                progress(done / len(jobs), f"{done:,} of {len(jobs):,} sources")
    return Again(tuple(found[source] for source in was))


def _by_source(rows: pandas.DataFrame) -> Mapping[str, list[Row]]:
    """Return the rows of each source; rows of failed attempts only if every attempt failed, and then the last one.

    Null values become ``None``.
    """
    found: dict[str, list[Row]] = {}
    for row in rows.astype(object).where(rows.notna(), None).to_dict("records"):
        found.setdefault(row["source"], []).append(row)
    return {
        source: [row for row in those if row["metric"] is not None] or those[-1:] for source, those in found.items()
    }


def _job(source: str, rows: Sequence[Row], allow_full_download: bool) -> Plan:
    """Return the job that measures a source as in the survey, at the commit in its rows."""
    metrics = tuple(one.name for one in measures_named(dict.fromkeys(row["metric"] for row in rows)))
    draws = max(row["draws"] or 0 for row in rows)
    seed = next((row["seed"] for row in rows if row["seed"] is not None), 0)
    target, named = target_of(source), parse_source(source)
    commit = next((row["commit"] for row in rows if row["commit"]), None)
    if commit is not None and isinstance(named, HubSource):  # others are identified by their hash alone
        target = replace(target, read=str(named.at(commit)))
    return Plan((target,), metrics, draws, seed, allow_full_download)


def _repeated(source: str, was: Sequence[Row], now: Sequence[Row]) -> Repeated:
    if now[0].get("metric") is None:
        return Repeated(source, "fails now", reason=now[0]["error"])
    by_figure = {(row["table"], row["metric"]): row for row in now}
    pairs = [(row, by_figure.get((row["table"], row["metric"]), {})) for row in was]
    # Every row of a table repeats what is true of the table.
    differing = dict.fromkeys(one for before, after in pairs for one in _differences(before, after))
    if differing and was[0]["versions"] != now[0]["versions"]:
        differing[Difference("versions", was[0]["versions"], now[0]["versions"])] = None
    figures = sum(row["value"] is not None for row in was)
    return Repeated(source, "differs" if differing else "same", figures, tuple(differing))


def _differences(was: Row, now: Row) -> Iterator[Difference]:
    """Yield the differences of a row; if the table itself differs only that, since all its figures then differ too."""
    if was["digest"] != now.get("digest"):
        yield Difference("digest", was["digest"], now.get("digest"), was["table"])
        return
    for columns, metric in ((OF_TABLE, ""), (OF_FIGURE, was["metric"])):
        for name in columns:
            if not _same(was[name], now.get(name)):
                yield Difference(name, was[name], now.get(name), was["table"], metric)


def _same(was: Any, now: Any) -> bool:
    if isinstance(was, str) or isinstance(now, str):
        return (was or "") == (now or "")  # equal in a CSV file
    before, after = (math.nan if value is None else float(value) for value in (was, now))
    if math.isnan(before) or math.isnan(after):
        return math.isnan(before) and math.isnan(after)
    return math.isclose(before, after, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
