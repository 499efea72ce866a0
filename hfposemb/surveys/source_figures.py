"""Many sources, each measured by itself: their figures beside chance in one table, on an engine that exists."""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..analysis.cached_results import LIBRARIES, library_version
from ..analysis.row_values import Progress
from ..analysis.surrogates import DRAWS, on_one_core
from ..cache import Cache
from ..checkpoints.locate import locate
from ..comparison.metrics import MEASURES, SECTIONS, Measure, Section, Tables, measures_named
from ..comparison.side_by_side import Run, figures_of
from ..errors import HfposembError, HubError, InputError, MissingTableError, one_line
from ..models.extraction import extract
from ..tables.embeddings import Embeddings
from ..tables.source_parser import parse_source
from ..tables.sources import BuiltinSource, LocalSource, SampleSource
from ..tables.table import EmbeddingTable
from ..transfers import limited, watching
from .survey_folder import FORMAT, Campaign, Row, check_out, opened
from .worker_pool import HERE, Engine, Lost, Permits, Pool

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Target:
    """One source of a survey: as it was named, and as it is read wherever that is done.

    ``stamp`` tells one content of a local file from another; a repository of the Hub is told by its rows' commit.
    """

    source: str
    read: str
    stamp: str = ""


@dataclass(frozen=True)
class Plan:
    """What a survey is to do: ``measures`` of each of ``targets``, beside ``draws`` of what chance gives."""

    targets: tuple[Target, ...]
    measures: tuple[Measure, ...]
    draws: int
    seed: int = 0
    allow_full_download: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """What decides the figures, ready for JSON."""
        return {"metrics": [measure.name for measure in self.measures], "draws": self.draws, "seed": self.seed}

    def job(self, target: Target) -> Job:
        """Return one source of it as work."""
        metrics = tuple(measure.name for measure in self.measures)
        return Job(target, metrics, self.draws, self.seed, self.allow_full_download)

    def key(self, target: Target) -> str:
        """Return what names a source's part: the same for the same source and settings."""
        said = json.dumps([FORMAT, self.settings, target.source, target.stamp])
        return hashlib.sha256(said.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Job:
    """One source of a plan, as it travels to a worker; a ``fresh`` one takes no chance that was computed before."""

    target: Target
    metrics: tuple[str, ...]
    draws: int
    seed: int
    allow_full_download: bool
    fresh: bool = False

    def open(self) -> Embeddings:
        """Open the source; nothing of its tables is read."""
        return extract(self.target.read, allow_full_download=self.allow_full_download)

    def measures(self, section: Section) -> tuple[Measure, ...]:
        """Return the measures of it that are of a section."""
        return tuple(one for one in MEASURES if one.name in self.metrics and one.section == section)


@dataclass(frozen=True)
class Outcome:
    """How a survey ended: how many sources were measured before and now, and which failed, with the reason."""

    sources: int
    before: int
    failed: Mapping[str, str]

    def __str__(self) -> str:
        kept = f", {self.before:,} of them before" if self.before else ""
        failed = f"; {len(self.failed):,} failed" if self.failed else ""
        count = self.sources - len(self.failed)
        return f"{count:,} {'source' if count == 1 else 'sources'}{kept}{failed}"


def survey(
    sources: Sequence[str | Path],
    *,
    metrics: Sequence[str] = (),
    draws: int = DRAWS,
    engine: Engine = HERE,
    out: str | Path | None = None,
    allow_full_download: bool = False,
    progress: Progress | None = None,
) -> pandas.DataFrame:
    """Measure many sources and return a row for each source, table and metric (``campaign.COLUMNS``).

    ``metrics`` are names of ``hpe.compare``'s figures, or patterns such as ``shift*``; all of them by default. Each
    stands beside ``draws`` of what chance gives for it. A source that fails is a row with the reason. ``engine`` is
    where the work is done (``engine.Engine``).

    With ``out``, a folder or any URL of fsspec, the rows are kept there, a parquet file for each source, as soon as a
    source is done; what is there already is not computed again, but for sources that failed. A branch of the Hub that
    moved since counts as the same source, and its rows name the commit. Needs the extra ``export``. Raises
    ``InputError`` for what is known to be wrong before any work.
    """
    asked = plan(sources, metrics=metrics, draws=draws, allow_full_download=allow_full_download)
    with tempfile.TemporaryDirectory(prefix="hfposemb-") as passing:
        campaign = check_out(str(passing if out is None else out), asked.settings)
        conduct(asked, campaign, engine=engine, progress=progress)
        found = campaign.frame([asked.key(target) for target in asked.targets])
    place = {target.source: number for number, target in enumerate(asked.targets)}
    return found.iloc[found["source"].map(place).argsort(kind="stable")].reset_index(drop=True)


def plan(
    sources: Sequence[str | Path],
    *,
    metrics: Sequence[str] = (),
    draws: int = DRAWS,
    allow_full_download: bool = False,
) -> Plan:
    """Return what ``survey`` is to do; raises ``InputError`` and ``SourceError`` for what cannot be done.

    Nothing is read, from the Hub or from disk, but that local files are looked for.
    """
    if isinstance(sources, (str, Path)) or isinstance(metrics, str):
        raise InputError('sources and metrics are lists; write ["sample:bert"] for one')
    if draws < 0:
        raise InputError(f"draws are counted from 0; got {draws}")
    for source in sources:
        if not isinstance(source, (str, Path)):
            raise InputError(
                f"survey() opens its sources itself, so it takes names and paths; got {type(source).__name__}; "
                "hpe.compare takes what is open"
            )
    targets = tuple(dict.fromkeys(target_of(str(source)) for source in sources))
    if not targets:
        raise InputError("a survey takes one source or more, such as sample:bert")
    measures = measures_named(metrics)
    if metrics:
        _refuse_useless(targets, measures)
    return Plan(targets, measures, draws, allow_full_download=allow_full_download)


def target_of(source: str) -> Target:
    """Return a source as a survey takes it; a local one is looked for, and nothing is read."""
    named = parse_source(source)
    if not isinstance(named, LocalSource):
        return Target(source.strip(), source.strip())
    path, stamp = named.path.absolute(), ""
    with suppress(HfposembError, OSError):  # its row says what is wrong
        status = locate(path).stat()
        stamp = f"{status.st_size} {status.st_mtime_ns}"
    return Target(source.strip(), str(path), stamp)


def _refuse_useless(targets: Sequence[Target], measures: Sequence[Measure]) -> None:
    """Raise ``InputError`` where sources that nothing need be read of have none of what a metric is taken from."""
    reasons: dict[Section, str] = {}
    useful: set[Section] = set()
    for target in targets:
        named = parse_source(target.read)
        if not isinstance(named, BuiltinSource) and not (isinstance(named, SampleSource) and named.step is not None):
            return
        tables = Tables(extract(target.read))
        for section in SECTIONS:
            try:
                _of_section(tables, section)
                useful.add(section)
            except HfposembError as error:
                reasons[section] = str(error)
    for measure in measures:
        if measure.section not in useful:
            raise InputError(
                f"{measure.name.strip()} is a figure of {SECTIONS[measure.section]}: {reasons[measure.section]}"
            )


def left(asked: Plan, campaign: Campaign) -> list[Target]:
    """Return the sources of a plan that have no part in the folder, or one that says that they failed."""
    keys = {asked.key(target): target for target in asked.targets}
    kept = campaign.kept() & set(keys)
    failed = campaign.failed(kept)
    return [target for key, target in keys.items() if key not in kept or target.source in failed]


def conduct(asked: Plan, campaign: Campaign, *, engine: Engine = HERE, progress: Progress | None = None) -> Outcome:
    """Measure what is not in the folder yet, and write each source's part as soon as it is done."""
    with engine.running() as pool, opened(campaign, asked.settings):
        jobs = [asked.job(target) for target in left(asked, campaign)]
        sources, failed = len(asked.targets), dict[str, str]()
        before = sources - len(jobs)

        def tell(done: int) -> None:
            if progress is not None:
                said = f", {len(failed):,} failed" if failed else ""
                progress(done / sources, f"{done:,} of {sources:,} sources{said}")

        tell(before)
        with closing(each(pool, jobs)) as results:
            for done, (target, rows) in enumerate(results, before + 1):
                campaign.write(asked.key(target), rows)
                if rows[0].get("metric") is None:
                    failed[target.source] = rows[0]["error"]
                tell(done)
    return Outcome(sources, before, failed)


def each(pool: Pool, jobs: Sequence[Job]) -> Generator[tuple[Target, list[Row]], None, None]:
    """Do each of some jobs; yield its target and its rows, whichever is done first."""
    with closing(pool.each(_named, jobs)) as results:
        for found in results:
            if isinstance(found, Lost):
                target: Target = found.item.target
                yield target, [failure(target, found.reason)]
            else:
                yield found


def _named(job: Job, permits: Permits) -> tuple[Target, list[Row]]:
    return job.target, measured(job, permits)


# --- on a worker ------------------------------------------------------------------------------------------------------


@contextmanager
def working(permits: Permits) -> Iterator[None]:
    """Work as one of several: on one core, with as many requests as are permitted, and silently."""
    with on_one_core(), limited(permits.open()), watching(lambda _: None):
        yield


def measured(job: Job, permits: Permits) -> list[Row]:
    """Return the rows of one source; where it fails a single one, which says why."""
    try:
        with working(permits):
            return [row for view in views(job.open()) for row in _rows(job, view)]
    except HfposembError as error:
        return [failure(job.target, str(error))]
    except (
        OSError,
        MemoryError,
        ValueError,
        TypeError,
        LookupError,
        ArithmeticError,
        AttributeError,
        RuntimeError,
    ) as error:
        # A fault of ours, or of this machine: the other sources have nothing to do with it.
        return [failure(job.target, f"{type(error).__name__}: {error}")]


def failure(target: Target, reason: str) -> Row:
    """Return the row of a source that failed."""
    return {"source": target.source, "versions": _versions(), "error": one_line(reason)}


@dataclass(frozen=True)
class View:
    """One table of a source, or its tokens and positions together, as figures of a ``section`` are taken of it."""

    name: str
    section: Section
    source: Embeddings

    def tables(self) -> tuple[EmbeddingTable, ...]:
        """Return the tables it is of. Raises ``MissingTableError`` where the source has none."""
        return _of_section(Tables(self.source), self.section)


def _of_section(tables: Tables, section: Section) -> tuple[EmbeddingTable, ...]:
    match section:
        case "position":
            return (tables.position,)
        case "token":
            return (tables.token,)
        case "both":
            return (tables.token, tables.position)


def views(source: Embeddings) -> Iterator[View]:
    """Yield every table of a source that figures are taken of: positions by part, tokens by part, and both.

    Of positions without rows there is one view, which says so.
    """
    parts = [
        View(
            "position" if part == "position" else f"{part}.position", "position", replace(source, positions={part: one})
        )
        for part, one in source.positions.items()
    ]
    having = [view for view in parts if _has_rows(view)]
    yield from having or [View("position", "position", source)]
    tokens = [role for role in source.tables if role == "token" or role.endswith(".token")]
    for role in tokens:
        yield View(role, "token", replace(source, tables={"token": source.tables[role]}))
    if not tokens:
        yield View("token", "token", source)
    yield View("token + position", "both", source)


def _has_rows(view: View) -> bool:
    try:
        view.tables()
    except MissingTableError:
        return False
    return True


def _rows(job: Job, view: View) -> Iterator[Row]:
    """Yield the rows of one table. Raises ``HubError`` where it cannot be read now, but could be later."""
    if not (measures := job.measures(view.section)):
        return
    began = time.perf_counter()
    same: Row = {"source": job.target.source, "table": view.name, "versions": _versions()}
    try:
        tables = view.tables()
        same |= _provenance(view, tables)  # which reads all of them
    except HubError:
        raise
    except HfposembError as error:
        seconds = time.perf_counter() - began
        reason = one_line(error)
        yield from (
            {**same, "metric": one.name, "unit": one.unit, "seconds": seconds, "error": reason} for one in measures
        )
        return
    run = Run(seed=job.seed, cache=None if job.fresh else Cache.default())
    figures = figures_of(Tables(view.source), measures, draws=job.draws, run=run)
    same["seconds"] = time.perf_counter() - began
    for figure in figures.values():
        row = {**same, "metric": figure.name, "value": figure.value, "unit": figure.unit, "deviation": figure.deviation}
        row["error"] = one_line(figure.note) or None
        if (null := figure.null) is not None:
            row |= {"baseline": null.kind, "draws": null.draws, "seed": null.seed, "p": null.p}
            row |= {f"baseline_{name}": getattr(null, name) for name in ("mean", "low", "high")}
        yield row


def _provenance(view: View, tables: Sequence[EmbeddingTable]) -> dict[str, Any]:
    """Return where tables came from and what is in them; of two each fact is that of the first + the second."""
    origins = [table.provenance for table in tables]

    def joined(texts: Sequence[str | None]) -> str | None:
        return " + ".join(dict.fromkeys(text for text in texts if text)) or None

    return {
        "commit": joined([origin.commit for origin in origins]),
        "kind": view.source.position.kind if view.section != "token" else None,
        "tensor": joined([origin.tensor for origin in origins]),
        "file": joined([origin.file for origin in origins]),
        "rows": tables[0].shape[0],
        "width": tables[0].shape[1],
        "digest": " + ".join(table.digest for table in tables),
    }


@cache
def _versions() -> str:
    """Return the versions that decide the figures, as JSON."""
    names = ("hfposemb", *LIBRARIES["pca"])
    return json.dumps({name: library_version(name) for name in names})
