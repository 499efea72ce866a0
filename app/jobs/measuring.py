"""Checks of files and measurements of large tables, which take seconds, run in a child process: see ``children``.

This module imports nothing heavy. ``JobRunner.compute`` runs these functions; each reads the table itself, from the
local cache if it is a Hub model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .children import Report, opened

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from hfposemb.analysis.projection.projecting import Projection
    from hfposemb.analysis.projection.quality import PointTrust
    from hfposemb.analysis.tokens.undertrained import UndertrainedTokens
    from hfposemb.checks.check_report import CheckReport
    from hfposemb.comparison.quantisation import QuantisationDamage
    from hfposemb.comparison.token_against_head import HeadComparison
    from hfposemb.tables.table import EmbeddingTable


def check(source: str, report: Report, *, public: bool = False) -> CheckReport:
    """Check a source's files, in the child; in public mode within ``PUBLIC_LIMITS``, without this machine's token."""
    from hfposemb.checkpoints.limits import DEFAULT_LIMITS, PUBLIC_LIMITS
    from hfposemb.checks.running import check as run
    from hfposemb.progress import watching

    from .fetching import megabytes, publicly

    report(0.0, "reading the files")
    with watching(lambda progress: report(0.5, f"reading the files, {megabytes(progress.done)}")):
        if public:
            return publicly(lambda reader: run(source, token=reader, limits=PUBLIC_LIMITS))
        return run(source, limits=DEFAULT_LIMITS)


def vocabulary(a: str, b: str, report: Report, *, public: bool = False) -> dict[str, Any]:
    """Compare the vocabularies of two sources, in the child, within the same limits; return its JSON."""
    from hfposemb.checkpoints.limits import DEFAULT_LIMITS, PUBLIC_LIMITS
    from hfposemb.progress import watching
    from hfposemb.vocabularies.comparing import vocabulary_difference as run

    from .fetching import megabytes, publicly

    report(0.0, "reading the tokenizers")
    with watching(lambda progress: report(0.5, f"reading the tokenizers, {megabytes(progress.done)}")):
        if public:
            return publicly(lambda reader: run(a, b, token=reader, limits=PUBLIC_LIMITS)).to_dict()
        return run(a, b, limits=DEFAULT_LIMITS).to_dict()


def of_rows(function: str, a: str, b: str, report: Report, *, public: bool = False) -> dict[str, Any]:
    """Answer a question on rows of two sources, in the child, within the same limits; return its JSON.

    Args:
        function: The function of ``hfposemb`` that answers, such as ``kinship``.
        a: The first source.
        b: The second source.
        report: Told what is done.
        public: Whether strangers ask.
    """
    import hfposemb

    from .fetching import extract

    report(0.0, "reading rows of both models")
    answer: dict[str, Any] = getattr(hfposemb, function)(*(extract(one, public=public) for one in (a, b))).to_dict()
    return answer


READING = 0.05
"""Share of the progress bar for starting the child and reading the table."""


def _table(source: str, role: str, report: Report, *, public: bool) -> EmbeddingTable:
    from .fetching import extract, table_of

    report(0.0, "reading the table")
    table = table_of(extract(source, public=public), role)
    report(READING, "reading the table")
    return table


def _rest(report: Report, doing: str) -> Report:
    """Return a ``Report`` that covers the rest of the bar after reading."""
    return lambda share, _: report(READING + (1 - READING) * share, doing)


def pca(source: str, role: str, dims: int, report: Report, *, public: bool = False) -> Projection:
    """Project a table by PCA, without measuring the projection's quality, which is a separate job."""
    from .first_pictures import first_picture

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
