"""Survey of many sources: each is measured on its own, on a given engine, and all figures with nulls form one table."""

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

from ..analysis.nulls.surrogates import DRAWS, on_one_core
from ..analysis.projection.cached_results import LIBRARIES, library_version
from ..analysis.row_values import Progress
from ..checkpoints.access import Access, local_path
from ..checkpoints.file_choice import locate
from ..comparison.head_sample import own_head
from ..comparison.metrics import MEASURES, SECTIONS, Measure, Section, Tables, measures_named
from ..comparison.row_fingerprints import ENDING, of_table
from ..comparison.side_by_side import figures_of
from ..errors import HfposembError, HubError, InputError, MissingTableError, one_line
from ..guesses import several
from ..models.extraction import extract
from ..progress import limited, watching
from ..tables.embeddings import Embeddings
from ..tables.source_parser import parse_source
from ..tables.sources import BuiltinSource, LocalSource, SampleSource
from ..tables.table import EmbeddingTable
from .survey_folder import FORMAT, Campaign, Row, check_out, opened
from .worker_pool import HERE, Engine, Lost, Permits, Pool, computing_turn

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Target:
    """One source of a survey.

    Attributes:
        source: The source as named by the user.
        read: The source as opened, independent of the working directory.
        stamp: Size and modification time of a local file, which identify its content. Not needed for the Hub, where
            rows record the commit.
    """

    source: str
    read: str
    stamp: str = ""


@dataclass(frozen=True)
class Plan:
    """What a survey will do. A job of it, as sent to a worker, is a plan with one target.

    Attributes:
        targets: Sources to measure.
        metrics: Names of the measures to compute.
        draws: Number of surrogates per null.
        seed: Random seed.
        allow_full_download: Whether whole files may be downloaded where parts cannot be read.
        fingerprints: Whether a fingerprint of each model's token table is kept beside its part.
    """

    targets: tuple[Target, ...]
    metrics: tuple[str, ...]
    draws: int
    seed: int = 0
    allow_full_download: bool = False
    fingerprints: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that determine the figures, as plain values for JSON."""
        return {"metrics": list(self.metrics), "draws": self.draws, "seed": self.seed}

    @property
    def target(self) -> Target:
        """The source of a job."""
        return self.targets[0]

    def job(self, target: Target) -> Plan:
        """Return the job that measures one source."""
        return replace(self, targets=(target,))

    def key(self, target: Target) -> str:
        """Return the key of a source's part: the same for the same source and settings."""
        said = json.dumps([FORMAT, self.settings, target.source, target.stamp])
        return hashlib.sha256(said.encode()).hexdigest()[:32]

    def open(self) -> Embeddings:
        """Open the source of a job without reading its tables."""
        return extract(self.target.read, allow_full_download=self.allow_full_download)

    def measures(self, section: Section) -> tuple[Measure, ...]:
        """Return the measures of a section."""
        return tuple(one for one in MEASURES if one.name in self.metrics and one.section == section)


@dataclass(frozen=True)
class Outcome:
    """Result of a survey run.

    Attributes:
        sources: Number of sources.
        before: Number of sources done before this run.
        failed: Sources that failed, with the reason.
    """

    sources: int
    before: int
    failed: Mapping[str, str]

    def __str__(self) -> str:
        kept = f", {self.before:,} of them from earlier runs" if self.before else ""
        failed = f"; {len(self.failed):,} failed" if self.failed else ""
        count = self.sources - len(self.failed)
        return f"{count:,} {'source' if count == 1 else 'sources'}{kept}{failed}"


def survey(  # noqa: PLR0913 - keywords with defaults
    sources: Sequence[str | Path],
    *,
    metrics: Sequence[str] = (),
    draws: int = DRAWS,
    engine: Engine = HERE,
    out: str | Path | None = None,
    allow_full_download: bool = False,
    fingerprints: bool = False,
    progress: Progress | None = None,
) -> pandas.DataFrame:
    """Measure many sources and return one row per source, table and metric.

    Every figure is given with its null. A source that fails gives a single row with the reason.

    Args:
        sources: Names or paths of sources.
        metrics: Names of figures of ``hpe.compare``, or patterns such as ``shift*``; by default those that it computes
            without extras.
        draws: Number of surrogates per null.
        engine: Where the work is done (``worker_pool.Engine``).
        out: Folder, or any URL of fsspec, in which rows are kept: one parquet file per source, written when the source
            is done. Sources found there are not measured again unless they failed. A branch of the Hub that has moved
            counts as the same source; its rows record the commit.
        allow_full_download: Whether whole files may be downloaded where parts cannot be read.
        fingerprints: Whether a fingerprint of each model is kept in the folder too, which
            ``hfposemb kinship MODEL --against FOLDER`` searches.
        progress: Callback for the share of sources done, 0 to 1, and a description.

    Returns:
        Data frame with the columns ``survey_folder.COLUMNS``.

    Raises:
        InputError: If the arguments are known to be wrong before any work.
        SourceError: If a name is not a source.
        MissingExtraError: If the extra ``export`` is not installed.

    Examples:
        >>> import hfposemb as hpe
        >>> rows = hpe.survey(["sample:bert"], metrics=["mean norm"], draws=0)
        >>> rows[["table", "metric", "value"]].round(3).values.tolist()
        [['position', 'mean norm', 0.168]]
    """
    given: dict[str, Any] = {"allow_full_download": allow_full_download, "fingerprints": fingerprints}
    asked = plan(sources, metrics=metrics, draws=draws, **given)
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
    fingerprints: bool = False,
) -> Plan:
    """Return the plan of a survey.

    Nothing is read from the Hub or from disk, except that local files are located.

    Args:
        sources: Names or paths of sources.
        metrics: Names of figures, or patterns.
        draws: Number of surrogates per null.
        allow_full_download: Whether whole files may be downloaded where parts cannot be read.
        fingerprints: Whether a fingerprint of each model is kept.

    Raises:
        InputError: If the plan cannot be carried out.
        SourceError: If a name is not a source.
    """
    sources = several(sources)
    if draws < 0:
        raise InputError(f"draws must be at least 0; got {draws}")
    for source in sources:
        if not isinstance(source, (str, Path)):
            raise InputError(
                f"survey() takes names and paths; got {type(source).__name__}; use hpe.compare for open sources"
            )
    targets = tuple(dict.fromkeys(target_of(str(source)) for source in sources))
    if not targets:
        raise InputError("a survey needs at least one source, such as sample:bert")
    measures = measures_named(metrics)
    if metrics:
        _refuse_useless(targets, measures)
    names = tuple(measure.name for measure in measures)
    return Plan(targets, names, draws, allow_full_download=allow_full_download, fingerprints=fingerprints)


def target_of(source: str) -> Target:
    """Return a source as a survey target; a local source is located but not read."""
    named = parse_source(source)
    if not isinstance(named, LocalSource):
        return Target(source.strip(), source.strip())
    path, stamp = local_path(named, Access()).absolute(), ""
    with suppress(HfposembError, OSError):  # reported later, in the source's row
        status = locate(path).stat()
        stamp = f"{status.st_size} {status.st_mtime_ns}"
    return Target(source.strip(), str(replace(named, path=path, in_home=False)), stamp)


def _refuse_useless(targets: Sequence[Target], measures: Sequence[Measure]) -> None:
    """Raise ``InputError`` if no source has the table that a metric needs, as far as is known without reading."""
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
                f"{measure.name.strip()} is a metric of {SECTIONS[measure.section]}, but {reasons[measure.section]}"
            )


def left(asked: Plan, campaign: Campaign) -> list[Target]:
    """Return the sources of a plan that have no part in the folder yet, or whose part records a failure."""
    keys = {asked.key(target): target for target in asked.targets}
    kept = campaign.kept() & set(keys)
    failed = campaign.failed(kept)
    if asked.fingerprints:
        printed = campaign.kept(ENDING)
        formulas = {key for key, one in keys.items() if isinstance(parse_source(one.read), BuiltinSource)}
        kept &= printed | formulas
    return [target for key, target in keys.items() if key not in kept or target.source in failed]


def conduct(asked: Plan, campaign: Campaign, *, engine: Engine = HERE, progress: Progress | None = None) -> Outcome:
    """Measure the sources that are not in the folder yet, and write each part as soon as its source is done.

    Args:
        asked: Plan of the survey.
        campaign: Folder of the survey.
        engine: Where the work is done.
        progress: Callback for the share of sources done, 0 to 1, and a description.
    """
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
                if (kept := rows[0].pop(PRINT, None)) is not None:
                    campaign.put(asked.key(target), kept, ENDING)
                campaign.write(asked.key(target), rows)
                if rows[0].get("metric") is None:
                    failed[target.source] = rows[0]["error"]
                tell(done)
    return Outcome(sources, before, failed)


def each(pool: Pool, jobs: Sequence[Plan]) -> Generator[tuple[Target, list[Row]], None, None]:
    """Run the jobs and yield the target and rows of each, in order of completion."""
    with closing(pool.each(_named, jobs, reading=True)) as results:
        for found in results:
            if isinstance(found, Lost):
                target: Target = found.item.target
                yield target, [failure(target, found.reason)]
            else:
                yield found


def _named(job: Plan, permits: Permits) -> tuple[Target, list[Row]]:
    return job.target, measured(job, permits)


PRINT = "fingerprint"
"""Where the first row of a source has its fingerprint on the way from a worker, as the bytes of its file."""


# --- on a worker ------------------------------------------------------------------------------------------------------


@contextmanager
def working(permits: Permits) -> Iterator[None]:
    """Run as one of several workers: on one core, with a limited number of requests, and without progress output."""
    with on_one_core(), limited(permits.open()), watching(lambda _: None):
        yield


def measured(job: Plan, permits: Permits) -> list[Row]:
    """Return the rows of one source; if it fails, a single row with the reason."""
    try:
        with working(permits):
            source = job.open()
            rows = [row for view in views(source) for row in _rows(job, view)]
            if job.fingerprints:
                with suppress(HfposembError):  # it has no tokens
                    rows[0][PRINT] = of_table(source).to_bytes()
            return rows
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
        # A bug or a fault of this machine; the other sources are not affected.
        return [failure(job.target, f"{type(error).__name__}: {error}")]


def failure(target: Target, reason: str) -> Row:
    """Return the row of a source that failed."""
    return {"source": target.source, "versions": _versions(), "error": one_line(reason)}


@dataclass(frozen=True)
class View:
    """One table of a source, or two of them together, for the figures of a ``section``."""

    name: str
    section: Section
    source: Embeddings

    def tables(self) -> tuple[EmbeddingTable, ...]:
        """Return its tables. Raises ``MissingTableError`` if the source has none."""
        return _of_section(Tables(self.source), self.section)


def _of_section(tables: Tables, section: Section) -> tuple[EmbeddingTable, ...]:
    match section:
        case "position":
            return (tables.position,)
        case "token":
            return (tables.token,)
        case "both":
            return (tables.token, tables.position)
        case "head":
            return own_head(tables.source)


def views(source: Embeddings) -> Iterator[View]:
    """Yield every table of a source that has figures: positions by part, tokens by part, both together, and the head.

    If no part has a position table, there is one view of positions, which gives the reason.
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
    yield View("token + head", "head", source)


def _has_rows(view: View) -> bool:
    try:
        view.tables()
    except MissingTableError:
        return False
    return True


def _rows(job: Plan, view: View) -> Iterator[Row]:
    """Yield the rows of one table. Raises ``HubError`` if reading it failed in a way that may be temporary."""
    if not (measures := job.measures(view.section)):
        return
    began = time.perf_counter()
    same: Row = {"source": job.target.source, "table": view.name, "versions": _versions(), **_model(view)}
    try:
        shared = Tables(view.source)
        tables = view.tables()
        same |= _provenance(view, tables, shared)  # reads all tables
    except HubError:
        raise
    except HfposembError as error:
        seconds = time.perf_counter() - began
        reason = one_line(error)
        yield from (
            {**same, "metric": one.name, "unit": one.unit, "seconds": seconds, "error": reason} for one in measures
        )
        return
    with computing_turn():  # all is read
        figures = figures_of(shared, measures, draws=job.draws, seed=job.seed)
    same["seconds"] = time.perf_counter() - began
    for figure in figures.values():
        row = {**same, "metric": figure.name, "value": figure.value, "unit": figure.unit, "deviation": figure.deviation}
        row["error"] = one_line(figure.note) or None
        if (null := figure.null) is not None:
            row |= {"baseline": null.kind, "draws": null.draws, "seed": null.seed, "p": null.p}
            row |= {f"baseline_{name}": getattr(null, name) for name in ("mean", "low", "high")}
        if figure.references:
            row |= {**figure.references, "draws": job.draws, "seed": job.seed}
        yield row


def _model(view: View) -> Row:
    """Return the model type, and the kind of positions if the view is of positions; both are known without reading."""
    model_type, found = view.source.config.get("model_type"), {}
    if view.section in ("position", "both"):
        with suppress(HfposembError):  # it has no positions, for the reason in "error"
            found["kind"] = view.source.position.kind
    return found | {"architecture": model_type if isinstance(model_type, str) else None}


def _provenance(view: View, tables: Sequence[EmbeddingTable], shared: Tables) -> dict[str, Any]:
    """Return origin and content of the tables; for two tables, values are joined with " + "."""
    origins = [table.provenance for table in tables]
    # Of a head only a sample is read, whose hash is that of the figures.
    read = [shared.head_sample.digest] if view.section == "head" else [table.digest for table in tables]

    def joined(texts: Sequence[str | None]) -> str | None:
        return " + ".join(dict.fromkeys(text for text in texts if text)) or None

    return {
        "commit": joined([origin.commit for origin in origins]),
        "tensor": joined([origin.tensor for origin in origins]),
        "file": joined([origin.file for origin in origins]),
        "rows": tables[0].shape[0],
        "width": tables[0].shape[1],
        "digest": " + ".join(read),
    }


@cache
def _versions() -> str:
    """Return the library versions that determine the figures, as JSON."""
    names = ("hfposemb", *LIBRARIES["pca"])
    return json.dumps({name: library_version(name) for name in names})
