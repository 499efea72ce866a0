"""Forecast of what a survey will read and how long it will take, from the headers of its sources alone."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from ..analysis.nulls.surrogates import on_one_core
from ..analysis.row_values import Progress
from ..comparison.head_sample import RUNS, spread_rows
from ..comparison.metrics import Section, Tables
from ..comparison.side_by_side import figures_of
from ..errors import HfposembError, one_line
from ..tables.embeddings import from_arrays
from ..tables.table import EmbeddingTable
from ..tables.tabular import Facts
from .source_figures import Plan, View, left, views, working
from .survey_folder import Campaign
from .worker_pool import HERE, Engine, Lost, Permits

_ROWS = 1_024
"""Maximum number of rows of the table that is timed; times are scaled up to longer tables."""

_RATE = 20e6
"""Assumed transfer rate of the Hub in bytes per second; headers are too small to measure it."""


@dataclass(frozen=True)
class Need:
    """Requirements of one source.

    Attributes:
        source: Name of the source.
        nbytes: Bytes to read.
        fetched: Bytes to fetch from the Hub.
        requests: Number of requests to the Hub.
        wait: Seconds per request, as measured on its header.
        tables: Section and shape of each table measured.
        error: Why the source cannot be opened; "" if it can.
    """

    source: str
    nbytes: int = 0
    fetched: int = 0
    requests: int = 0
    wait: float = 0.0
    tables: tuple[tuple[Section, tuple[int, int]], ...] = ()
    error: str = ""

    @property
    def seconds(self) -> float:
        """Approximate time for reading, in seconds."""
        return self.requests * self.wait + self.fetched / _RATE


@dataclass(frozen=True)
class Forecast(Facts):
    """Requirements of a survey.

    Attributes:
        sources: Number of sources.
        before: Number of them that are done already.
        nbytes: Bytes to read.
        fetched: Bytes to fetch from the Hub.
        requests: Number of requests to the Hub.
        seconds: Approximate time in seconds.
        failed: Sources that cannot be opened, with the reason.
    """

    sources: int
    before: int
    nbytes: int
    fetched: int
    requests: int
    seconds: float
    failed: Mapping[str, str]

    def __str__(self) -> str:
        """Summarise the forecast in a few lines."""
        done = f", {self.before:,} of them already done" if self.before else ""
        lines = [
            f"{self.sources:,} {'source' if self.sources == 1 else 'sources'}{done}",
            f"{self.nbytes / 1e6:,.1f} MB to read, {self.fetched / 1e6:,.1f} MB of it from the Hub in "
            f"{self.requests:,} requests",
            f"about {_duration(self.seconds)}",
        ]
        return "\n".join([*lines, *(f"  {source}: {reason}" for source, reason in self.failed.items())])


def _duration(seconds: float) -> str:
    for unit, size in (("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{math.ceil(seconds)} s"


def forecast(asked: Plan, campaign: Campaign, *, engine: Engine = HERE, progress: Progress | None = None) -> Forecast:
    """Open every source that is not done yet and estimate the cost of measuring it, without reading any table.

    The headers are cached, so the survey does not fetch them again. Computation is timed on noise of the same width, on
    this machine.

    Args:
        asked: Plan of the survey.
        campaign: Folder of the survey.
        engine: Where sources are opened.
        progress: Callback for the share of sources opened, 0 to 1, and a description.
    """
    jobs = [asked.job(target) for target in left(asked, campaign)]
    needs: list[Need] = []
    with engine.running() as pool:
        for found in pool.each(needed, jobs):  # one at a time, so that waiting is timed
            if isinstance(found, Lost):
                found = Need(found.item.target.source, error=found.reason)
            needs.append(found)
            if progress is not None:
                progress(len(needs) / len(jobs), f"{len(needs):,} of {len(jobs):,} headers")
        workers, readers = (max(1, min(count, len(jobs))) for count in (pool.workers, pool.readers))
    computing = cache(partial(_seconds, asked))
    reading = sum(need.seconds for need in needs) / readers
    measuring = sum(computing(*table) for need in needs for table in need.tables) / workers
    return Forecast(
        sources=len(asked.targets),
        before=len(asked.targets) - len(jobs),
        nbytes=sum(need.nbytes for need in needs),
        fetched=sum(need.fetched for need in needs),
        requests=sum(need.requests for need in needs),
        seconds=reading + measuring,
        failed={need.source: need.error for need in needs if need.error},
    )


def needed(job: Plan, permits: Permits) -> Need:
    """Return the requirements of one source. Runs on a worker."""
    began = time.perf_counter()
    try:
        with working(permits):
            source = job.open()
            waited = time.perf_counter() - began
            found = [(view.section, _tables(view)) for view in views(source) if job.measures(view.section)]
    except (HfposembError, OSError) as error:
        return Need(job.target.source, error=one_line(error))
    whole = {table.name: table for section, of in found for table in of if section != "head"}
    sampled = {table.name: table for _, of in found for table in of if table.name not in whole}
    tables = [one.provenance for one in (*whole.values(), *sampled.values())]
    nbytes = sum(one.provenance.nbytes for one in whole.values()) + sum(
        one.provenance.nbytes * len(spread_rows(len(one))) // len(one) for one in sampled.values()
    )
    shapes = tuple((section, of[0].shape) for section, of in found if of)
    if (traffic := source.traffic) is None:
        return Need(job.target.source, nbytes, tables=shapes)
    # One request to resolve the revision, one to locate each file, and one for each table or run of rows.
    requests = 1 + len({one.file for one in tables}) + len(whole) + sum(_runs(len(one)) for one in sampled.values())
    return Need(job.target.source, nbytes, nbytes, requests, waited / max(1, traffic.requests), shapes)


def _runs(rows: int) -> int:
    return 1 if len(spread_rows(rows)) == rows else RUNS


def _tables(view: View) -> tuple[EmbeddingTable, ...]:
    try:
        return view.tables()
    except HfposembError:
        return ()


def _seconds(asked: Plan, section: Section, shape: tuple[int, int]) -> float:
    """Return the time in seconds that the measures of a section take for a table of this shape, measured on noise."""
    measures = [one for one in asked.measures(section) if one.extra is None]
    noise = np.random.default_rng(0).standard_normal((min(shape[0], _ROWS), shape[1])).astype(np.float32)
    match section:
        case "position":
            drawn = from_arrays(position=noise)
        case "head":
            drawn = from_arrays(token=noise, head=noise[::-1])
        case _:
            drawn = from_arrays(token=noise)
    began = time.perf_counter()
    with on_one_core():
        figures_of(Tables(drawn), measures, draws=asked.draws)
    rows = len(spread_rows(shape[0])) if section == "head" else shape[0]
    return (time.perf_counter() - began) * (rows / len(noise))
