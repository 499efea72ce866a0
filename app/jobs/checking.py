"""Checks of a source's files and of two vocabularies, in a child process: see ``children``. Imports nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
