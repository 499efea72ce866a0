"""Commands that look for faults in files and report rotary positions."""

from __future__ import annotations

import argparse
import json
import sys

from ..errors import HfposembError
from .options import byte_size, opened_source, print_json, print_result

WRONG, NOT_CHECKED = 1, 2
"""Exit codes of ``check`` if something is wrong, and if a source could not be checked."""


def run_check(given: argparse.Namespace) -> int:
    """Print what is wrong with some sources; return 0 if nothing is, 1 if something is, 2 if one cannot be checked."""
    from ..checks.check_report import document, to_sarif
    from ..checks.running import check
    from ..files import check_place, complete_file

    if given.sarif is not None:
        check_place(given.sarif)
    reports, unread = [], False
    for source in given.sources:
        try:
            reports.append(check(source, full=given.full))
        except HfposembError as error:
            if given.debug:
                raise
            print(f"hfposemb: {error}", file=sys.stderr)
            unread = True
    if given.json:
        print_json(document(reports))
    else:
        for report in reports:
            print(report)
            if report.commit is not None:
                asked = f"{report.requests} {'request' if report.requests == 1 else 'requests'}"
                print(f"  commit {report.commit[:8]}; read {byte_size(report.received)}, {asked}")
    if given.sarif is not None:
        with complete_file(given.sarif) as file:
            file.write(json.dumps(to_sarif(reports), indent=2, ensure_ascii=False).encode() + b"\n")
    return NOT_CHECKED if unread else WRONG if any(not report.passed for report in reports) else 0


def run_rope(given: argparse.Namespace) -> None:
    """Print the report of a source's rotary positions."""
    from ..checks.rope_report import rope_report

    found = rope_report(opened_source(given), part=given.part, factor=given.factor)
    print_result(found, found.to_dict(), given)
