"""The check of a source's files, run in a child process: see ``children``. This module imports nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hfposemb.checks.check_report import CheckReport

    from .children import Report


def check(source: str, report: Report, *, public: bool = False) -> CheckReport:
    """Check a source's files, in the child; in public mode within ``PUBLIC_LIMITS`` and without any token."""
    from hfposemb.checkpoints.limits import DEFAULT_LIMITS, PUBLIC_LIMITS
    from hfposemb.checks.running import check as run
    from hfposemb.transfers import watching

    from .fetching import megabytes

    report(0.0, "reading the files")
    with watching(lambda progress: report(0.5, f"reading the files, {megabytes(progress.done)}")):
        return run(source, token=False if public else None, limits=PUBLIC_LIMITS if public else DEFAULT_LIMITS)
