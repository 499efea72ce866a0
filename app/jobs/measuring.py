"""What jobs compute, each in a child process that reads what it needs, of a Hub model from the local cache.

This module imports nothing heavy. In public mode each function reads within ``PUBLIC_LIMITS``, without this machine's
token.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from hfposemb.checkpoints.limits import DEFAULT_LIMITS, PUBLIC_LIMITS
from hfposemb.progress import watching

from .children import Report, Reporter
from .fetching import cache_of_results, extract, megabytes, publicly, table_of
from .first_pictures import draft_of, first_picture, quickly_measured

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from hfposemb.analysis.positions.probes import Probe
    from hfposemb.analysis.projection.projecting import Projection
    from hfposemb.analysis.projection.quality import PointTrust
    from hfposemb.analysis.tokens.undertrained import UndertrainedTokens
    from hfposemb.checks.check_report import CheckReport
    from hfposemb.comparison.aligned_maps import AlignedMaps
    from hfposemb.comparison.quantisation import QuantisationDamage
    from hfposemb.comparison.results import Comparison
    from hfposemb.comparison.token_against_head import HeadComparison
    from hfposemb.surveys.training_run import Role, Trajectory
    from hfposemb.tables.embeddings import Embeddings
    from hfposemb.tables.table import EmbeddingTable

T = TypeVar("T")

WORDS = ("king", "queen", "paris")
"""Words for which a report lists the nearest neighbours."""


# --- files ------------------------------------------------------------------------------------------------------------


def check(source: str, report: Report, *, public: bool = False) -> CheckReport:
    """Check a source's files."""
    from hfposemb.checks.running import check as run

    return _read_with(partial(run, source), "reading the files", report, public=public)


def vocabulary(a: str, b: str, report: Report, *, public: bool = False) -> dict[str, Any]:
    """Compare the vocabularies of two sources; return its JSON."""
    from hfposemb.vocabularies.comparing import vocabulary_difference as run

    return _read_with(partial(run, a, b), "reading the tokenizers", report, public=public).to_dict()


def _read_with(call: Callable[..., T], doing: str, report: Report, *, public: bool) -> T:
    """Call what reads with a token and limits, and report how many bytes have come."""
    report(0.0, doing)
    with watching(lambda progress: report(0.5, f"{doing}, {megabytes(progress.done)}")):
        if public:
            return publicly(lambda reader: call(token=reader, limits=PUBLIC_LIMITS))
        return call(limits=DEFAULT_LIMITS)


def of_rows(function: str, a: str, b: str, report: Report, *, public: bool = False) -> dict[str, Any]:
    """Answer a question on rows of two sources; return its JSON.

    Args:
        function: The function of ``hfposemb`` that answers, such as ``kinship``.
        a: The first source.
        b: The second source.
        report: Told what is done.
        public: Whether strangers ask.
    """
    import hfposemb

    report(0.0, "reading rows of both models")
    answer: dict[str, Any] = getattr(hfposemb, function)(*(extract(one, public=public) for one in (a, b))).to_dict()
    return answer


# --- comparisons and runs ---------------------------------------------------------------------------------------------


def comparison(
    sources: Sequence[str], draws: int, report: Report, *, part: str = "", public: bool = False
) -> Comparison:
    """Measure sources and compare them pairwise, in the child; chance levels shared by several are computed once.

    ``part`` selects a part of those models that have it.
    """
    return _compared(opened(sources, report, part=part, public=public), draws, report, public=public)


def _compared(opened: Sequence[Embeddings], draws: int, report: Report, *, public: bool) -> Comparison:
    from hfposemb.comparison.side_by_side import Run, compare

    run = Run(cache=cache_of_results(public=public), progress=report)
    return compare(*opened, words=WORDS, draws=draws, run=run)


def maps(
    sources: Sequence[str], role: str, method: str, report: Report, *, part: str = "", public: bool = False
) -> AlignedMaps:
    """Compute aligned maps of what two sources share, in the child."""
    from hfposemb.comparison.aligned_maps import align_maps

    left, right = opened(sources, report, part=part, public=public)
    report(0.1, "computing a joint layout")
    return align_maps(left, right, role, method="umap" if method == "umap" else "pca")


def page(
    sources: Sequence[str],
    known: Comparison | None,
    draws: int,
    report: Report,
    *,
    part: str = "",
    public: bool = False,
) -> tuple[Comparison, str]:
    """Return the comparison of sources, computed unless ``known``, and the report about it; runs in the child."""
    from hfposemb.reports.report import report as write
    from hfposemb.vocabularies.comparing import vocabulary_pairs

    models = opened(sources, report, part=part, public=public)
    before = 0.0 if known is not None else 0.8
    if known is None:
        known = _compared(models, draws, lambda share, doing: report(before * share, doing), public=public)

    def then(share: float, doing: str) -> None:
        report(before + (1 - before) * share, doing)

    pairs = publicly(lambda reader: vocabulary_pairs(models, token=reader, limits=PUBLIC_LIMITS)) if public else None
    return known, write(*models, comparison=known, vocabularies=pairs, progress=then)


@dataclass(frozen=True)
class Training:
    """A training run that was followed; ``total`` is the number of checkpoints it has."""

    run: Trajectory
    total: int


def training(
    source: str, role: Role, pattern: str, most: int, draws: int, report: Report, *, public: bool = False
) -> Training:
    """Follow a table through the revisions of a source, in the child, which reads each of them."""
    from hfposemb.surveys.source_lists import evenly_spaced, revisions
    from hfposemb.surveys.training_run import trajectory
    from hfposemb.surveys.worker_pool import Engine

    report(0.0, "looking for checkpoints")
    named = partial(revisions, source, pattern)
    found = publicly(lambda reader: named(token=reader)) if public else named()
    read = partial(extract, public=public)
    run = trajectory(
        evenly_spaced(found, most), role=role, draws=draws, engine=Engine(workers=1), progress=report, read=read
    )
    return Training(run, len(found))


def opened(sources: Sequence[str], report: Report, *, part: str = "", public: bool) -> list[Embeddings]:
    """Open sources, in the child, reduced to a part if they have it."""
    report(0.0, "reading the tables")
    found = [extract(source, public=public) for source in sources]
    return [source.part(part) if part and part in source.positions else source for source in found]


# --- one table --------------------------------------------------------------------------------------------------------


READING = 0.05
"""Share of the progress bar for starting the child and reading the table."""


def _table(source: str, role: str, report: Report, *, public: bool) -> EmbeddingTable:
    report(0.0, "reading the table")
    table = table_of(extract(source, public=public), role)
    report(READING, "reading the table")
    return table


def _rest(report: Report, doing: str) -> Report:
    """Return a ``Report`` that covers the rest of the bar after reading."""
    return lambda share, _: report(READING + (1 - READING) * share, doing)


def umap(source: str, role: str, dims: int, report: Report, *, public: bool = False) -> Projection:
    """Compute UMAP of a source's table, in the child, which reads the table itself; cached on disk.

    The quality of a large one is not measured here, since the picture would have to wait for it.
    """
    from hfposemb.analysis.projection.cached_results import cached_projection

    table = table_of(extract(source, public=public), role)
    cache = cache_of_results(public=public)

    def preview(rows: NDArray[np.int64], points: NDArray[np.float32]) -> None:
        if isinstance(report, Reporter):
            report.draft(draft_of(table, rows, points))

    found = cached_projection(cache, table, method="umap", dims=dims, seed=0, progress=report, preview=preview)
    return quickly_measured(found, table)


def probes(source: str, role: str, report: Report, *, public: bool = False) -> dict[str, tuple[Probe, Probe]]:
    """Probe a source's positions and noise of the same size, in the child; return both errors by probe name."""
    from hfposemb.analysis.positions.probes import noise_like
    from hfposemb.analysis.positions.probes import position_probes as run

    report(0.0, "reading the table")
    table = extract(source, public=public).tables[role]
    found = run(table, progress=lambda share, doing: report(0.7 * share, doing))
    noise = run(noise_like(table), seeds=range(2), progress=lambda share, doing: report(0.7 + 0.3 * share, doing))
    return {name: (found[name], noise[name]) for name in found}


def pca(source: str, role: str, dims: int, report: Report, *, public: bool = False) -> Projection:
    """Project a table by PCA, without measuring the projection's quality, which is a separate job."""
    return first_picture(_table(source, role, report, public=public), dims, _rest(report, "PCA"))


@dataclass(frozen=True)
class DrawnRows:
    """Rows of a table on a map: where each is drawn, its number in the table, and the metric that judges the map."""

    coordinates: NDArray[np.float32]
    rows: NDArray[np.int64]
    metric: Any


def trust(source: str, role: str, drawn: DrawnRows, points: int, report: Report, *, public: bool = False) -> PointTrust:
    """Measure the quality of a projection at some of its points."""
    from hfposemb.analysis.projection.quality import point_trust

    table = _table(source, role, report, public=public)
    progress = _rest(report, f"comparing the neighbours of {min(points, len(drawn.rows)):,} points")
    return point_trust(table, drawn.coordinates, rows=drawn.rows, metric=drawn.metric, points=points, progress=progress)


def head(source: str, count: int, report: Report, *, public: bool = False) -> HeadComparison:
    """Compare the token table of a source with its output head."""
    from hfposemb.comparison.token_against_head import compare_head

    (found,) = opened([source], report, public=public)
    return compare_head(found, count=count, progress=_rest(report, "comparing token table and head"))


def quantised(sources: Sequence[str], count: int, report: Report, *, public: bool = False) -> QuantisationDamage:
    """Compare the token tables of a source and its quantised form."""
    from hfposemb.comparison.quantisation import compare_quantised

    original, other = opened(sources, report, public=public)
    return compare_quantised(original, other, count=count, progress=_rest(report, "comparing with random errors"))


def odd(source: str, count: int, report: Report, *, public: bool = False) -> UndertrainedTokens:
    """Search a source for odd tokens."""
    from hfposemb.analysis.tokens.undertrained import undertrained_tokens

    (found,) = opened([source], report, public=public)
    return undertrained_tokens(found, count=count, progress=_rest(report, "searching for odd tokens"))
