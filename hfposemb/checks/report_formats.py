"""Check reports as JSON with a schema, and as SARIF for GitHub."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import __version__
from .catalogue import RULES
from .findings import SEVERITIES, CheckReport, Finding, Severity

FORMAT = "hfposemb.check/1"
"""Format of the JSON; the number rises with every change that a reader has to know."""

_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}
_FINDING = {
    "type": "object",
    "required": ["name", "severity", "message", "numbers", "why", "fix", "file"],
    "additionalProperties": False,
    "properties": {
        "name": {"enum": sorted(RULES)},
        "severity": {"enum": list(SEVERITIES)},
        "message": _TEXT,
        "numbers": {"type": "object", "additionalProperties": {"type": ["number", "string", "boolean", "null"]}},
        "why": _TEXT,
        "fix": _TEXT,
        "file": _TEXT,
    },
}
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "hfposemb check",
    "type": "object",
    "required": ["format", "version", "reports"],
    "additionalProperties": False,
    "properties": {
        "format": {"const": FORMAT},
        "version": _TEXT,
        "reports": {
            "type": "array",
            "items": {
                "type": "object",
                "required": [
                    "source",
                    "passed",
                    "findings",
                    "checked",
                    "not_checked",
                    "commit",
                    "requests",
                    "received",
                ],
                "additionalProperties": False,
                "properties": {
                    "source": _TEXT,
                    "passed": {"type": "boolean"},
                    "findings": {"type": "array", "items": _FINDING},
                    "checked": {"type": "array", "items": _TEXT},
                    "not_checked": {"type": "array", "items": _TEXT},
                    "commit": {"type": ["string", "null"]},
                    "requests": _COUNT,
                    "received": _COUNT,
                },
            },
        },
    },
}
"""JSON Schema of ``hfposemb check --json``."""

_LEVELS: dict[Severity, str] = {"wrong": "error", "suspicious": "warning", "note": "note"}
_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
_PAGE = "https://github.com/hfposemb/hfposemb/blob/main/docs/check.md"


def to_json(report: CheckReport) -> dict[str, Any]:
    """Return a report as plain values, one of the ``reports`` of ``SCHEMA``."""
    return {
        "source": report.source,
        "passed": report.passed,
        "findings": [_plain(one) for one in report.findings],
        "checked": list(report.checked),
        "not_checked": list(report.not_checked),
        "commit": report.commit,
        "requests": report.requests,
        "received": report.received,
    }


def document(reports: Sequence[CheckReport]) -> dict[str, Any]:
    """Return what ``hfposemb check --json`` prints, described by ``SCHEMA``."""
    return {"format": FORMAT, "version": __version__, "reports": [to_json(one) for one in reports]}


def _plain(one: Finding) -> dict[str, Any]:
    return {
        "name": one.name,
        "severity": one.severity,
        "message": one.message,
        "numbers": dict(one.numbers),
        "why": one.why,
        "fix": one.fix,
        "file": one.file,
    }


def to_sarif(reports: Sequence[CheckReport]) -> dict[str, Any]:
    """Return reports as one SARIF 2.1.0 log (OASIS 2020), with a result for each finding.

    Args:
        reports: The reports. A finding is placed in its file below the source's folder if the source is a relative
            path, which GitHub resolves in the repository.
    """
    used = {one.name for report in reports for one in report.findings}
    names = [name for name in RULES if name in used]
    rules = [
        {
            "id": name,
            "shortDescription": {"text": RULES[name].about},
            "fullDescription": {"text": RULES[name].why},
            "helpUri": f"{_PAGE}#{name}",
            "defaultConfiguration": {"level": _LEVELS[RULES[name].severity]},
        }
        for name in names
    ]
    results = [_result(report, one, names.index(one.name)) for report in reports for one in report.findings]
    driver = {"name": "hfposemb", "version": __version__, "informationUri": _PAGE, "rules": rules}
    return {"$schema": _SARIF, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _result(report: CheckReport, one: Finding, rule: int) -> dict[str, Any]:
    place = report.source.removeprefix("./").rstrip("/")
    if place.endswith(".safetensors"):
        place = place.rpartition("/")[0]
    uri = f"{place}/{one.file}" if place not in ("", ".") else one.file
    location: dict[str, Any] = {"artifactLocation": {"uri": uri.lstrip("/")}, "region": {"startLine": 1}}
    return {
        "ruleId": one.name,
        "ruleIndex": rule,
        "level": _LEVELS[one.severity],
        "message": {"text": f"{one.message}. {one.why} Fix: {one.fix}"},
        "locations": [{"physicalLocation": location}],
        "properties": {"numbers": dict(one.numbers)},
    }
