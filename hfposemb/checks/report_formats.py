"""Findings as JSON with a schema, and as SARIF for GitHub."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from .. import __version__
from .catalogue import RULES
from .findings import SEVERITIES, Finding, Number, Severity

FORMAT = "hfposemb.check/1"
"""Format of the JSON; the number rises with every change that a reader has to know."""

_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}


def _object(**properties: Any) -> dict[str, Any]:
    required = list(properties)
    return {"type": "object", "required": required, "additionalProperties": False, "properties": properties}


_FINDING = _object(
    name={"enum": sorted(RULES)},
    severity={"enum": list(SEVERITIES)},
    message=_TEXT,
    numbers={"type": "object", "additionalProperties": {"type": ["number", "string", "boolean", "null"]}},
    why=_TEXT,
    fix=_TEXT,
    file=_TEXT,
)
_REPORT = _object(
    source=_TEXT,
    passed={"type": "boolean"},
    findings={"type": "array", "items": _FINDING},
    checked={"type": "array", "items": _TEXT},
    not_checked={"type": "array", "items": _TEXT},
    commit={"type": ["string", "null"]},
    requests=_COUNT,
    received=_COUNT,
)
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "hfposemb check",
    **_object(format={"const": FORMAT}, version=_TEXT, reports={"type": "array", "items": _REPORT}),
}
"""JSON Schema of ``hfposemb check --json``."""

_LEVELS: dict[Severity, str] = {"wrong": "error", "suspicious": "warning", "note": "note"}
_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"


def plain(one: Finding) -> dict[str, Any]:
    """Return a finding as plain values, one of the ``findings`` of ``SCHEMA``."""
    return {**asdict(one), "numbers": _finite(one)}


def _finite(one: Finding) -> dict[str, Number]:
    """Return the numbers of a finding, with null for NaN and infinite ones, which JSON does not have."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in one.numbers.items()
    }


def sarif(found: Sequence[tuple[str, Sequence[Finding]]]) -> dict[str, Any]:
    """Return the findings of some sources as one SARIF 2.1.0 log (OASIS 2020).

    Args:
        found: Name and findings of each source. A finding is placed in its file below the source's folder if the source
            is a relative path, which GitHub resolves in the repository.
    """
    used = {one.name for _, findings in found for one in findings}
    names = [name for name in RULES if name in used]
    rules = [
        {
            "id": name,
            "shortDescription": {"text": RULES[name].about},
            "fullDescription": {"text": RULES[name].why},
            "help": {"text": f"{RULES[name].about}. {RULES[name].why} docs/check.md lists all findings."},
            "defaultConfiguration": {"level": _LEVELS[RULES[name].severity]},
        }
        for name in names
    ]
    results = [_result(source, one, names.index(one.name)) for source, findings in found for one in findings]
    driver = {"name": "hfposemb", "version": __version__, "rules": rules}
    return {"$schema": _SARIF, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _result(source: str, one: Finding, rule: int) -> dict[str, Any]:
    place = source.removeprefix("./").rstrip("/")
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
        "properties": {"numbers": _finite(one)},
    }
