"""The check of a source's files, run in a child process: see ``children``. This module imports nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hfposemb.checks.check_report import CheckReport

    from .children import Report


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
