"""Reports of a check as text, JSON and SARIF."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import __version__
from ..tables.documents import plain
from ..tables.tabular import Columns, Tabular, columns_of
from ..text import counted
from .findings import RULES, SEVERITIES, Finding, Severity

FORMAT = "hfposemb.check/1"
"""Format of the JSON; the number rises with every change that a reader has to know."""

_LEVELS: dict[Severity, str] = {"wrong": "error", "suspicious": "warning", "note": "note"}
_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"


@dataclass(frozen=True)
class CheckReport(Tabular):
    """Findings about one source, the most serious first.

    Attributes:
        source: Name of the source.
        findings: The findings.
        checked: What was examined, in a few words each.
        not_checked: What was not examined, with the reason.
        commit: Commit on the Hub.
        requests: Requests that the check sent, redirects included.
        received: Bytes that it received.
    """

    _document = ("source", "passed", "findings", "checked", "not_checked", "commit", "requests", "received")
    source: str
    findings: tuple[Finding, ...]
    checked: tuple[str, ...] = ()
    not_checked: tuple[str, ...] = ()
    commit: str | None = None
    requests: int = field(default=0, compare=False)
    received: int = field(default=0, compare=False)

    def __getitem__(self, name: str) -> Finding:
        """Return the first finding of a name; raises ``KeyError`` if there is none."""
        found = next((one for one in self.findings if one.name == name), None)
        if found is None:
            raise KeyError(name)
        return found

    def __contains__(self, name: object) -> bool:
        """Return whether there is a finding of a name."""
        return any(one.name == name for one in self.findings)

    def of(self, severity: Severity) -> tuple[Finding, ...]:
        """Return the findings of one severity."""
        return tuple(one for one in self.findings if one.severity == severity)

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong; what is suspicious does not count."""
        return not self.of("wrong")

    @property
    def summary(self) -> str:
        """Number of findings of each severity, as text."""
        counts = {severity: len(self.of(severity)) for severity in SEVERITIES}
        return f"{counts['wrong']} wrong, {counts['suspicious']} suspicious, {counted(counts['note'], 'note')}"

    def __str__(self) -> str:
        """List the findings, and what was not examined."""
        lines = [f"{self.source}: {self.summary}"]
        for one in self.findings:
            lines += ["", *(f"  {line}" for line in str(one).split("\n"))]
        lines += [""] * bool(self.findings)
        lines += [f"  checked: {'; '.join(self.checked)}"] * bool(self.checked)
        lines += [f"  not checked: {reason}" for reason in self.not_checked]
        return "\n".join(lines)

    def to_sarif(self) -> dict[str, Any]:
        """Return the report in SARIF 2.1.0, which GitHub shows next to the files of a repository."""
        return to_sarif((self,))

    def columns(self) -> Columns:
        """Return one row per finding: ``name``, ``severity``, ``message``, ``fix`` and ``file``."""
        return columns_of(self.findings, "name", "severity", "message", "fix", "file")


def document(reports: Sequence[CheckReport]) -> dict[str, Any]:
    """Return what ``hfposemb check --json`` prints, described by ``--schema``."""
    return {"format": FORMAT, "version": __version__, "reports": plain(reports)}


def to_sarif(reports: Sequence[CheckReport]) -> dict[str, Any]:
    """Return reports as one SARIF 2.1.0 log (OASIS 2020), with a result for each finding.

    A finding is placed in its file below the source's folder if the source is a relative path, which GitHub resolves in
    the repository.
    """
    used = {one.name for report in reports for one in report.findings}
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
    results = [_result(report.source, one, names.index(one.name)) for report in reports for one in report.findings]
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
        "properties": {"numbers": plain(one.numbers)},
    }
