"""Reports of a check as text, JSON and SARIF."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import __version__
from ..tables.tabular import Columns, Tabular
from .findings import SEVERITIES, Finding, Severity
from .report_formats import FORMAT, plain, sarif


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
        notes = f"{counts['note']} {'note' if counts['note'] == 1 else 'notes'}"
        return f"{counts['wrong']} wrong, {counts['suspicious']} suspicious, {notes}"

    def __str__(self) -> str:
        """List the findings, and what was not examined."""
        lines = [f"{self.source}: {self.summary}"]
        for one in self.findings:
            lines += ["", *(f"  {line}" for line in str(one).split("\n"))]
        lines += [""] * bool(self.findings)
        lines += [f"  checked: {'; '.join(self.checked)}"] * bool(self.checked)
        lines += [f"  not checked: {reason}" for reason in self.not_checked]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain values, described by ``report_formats.SCHEMA``."""
        return {
            "source": self.source,
            "passed": self.passed,
            "findings": [plain(one) for one in self.findings],
            "checked": list(self.checked),
            "not_checked": list(self.not_checked),
            "commit": self.commit,
            "requests": self.requests,
            "received": self.received,
        }

    def to_sarif(self) -> dict[str, Any]:
        """Return the report in SARIF 2.1.0, which GitHub shows next to the files of a repository."""
        return to_sarif((self,))

    def columns(self) -> Columns:
        """Return one row per finding: ``name``, ``severity``, ``message``, ``fix`` and ``file``."""
        names = ("name", "severity", "message", "fix", "file")
        return {name: [getattr(one, name) for one in self.findings] for name in names}


def document(reports: Sequence[CheckReport]) -> dict[str, Any]:
    """Return what ``hfposemb check --json`` prints, described by ``report_formats.SCHEMA``."""
    return {"format": FORMAT, "version": __version__, "reports": [one.to_json() for one in reports]}


def to_sarif(reports: Sequence[CheckReport]) -> dict[str, Any]:
    """Return reports as one SARIF 2.1.0 log (OASIS 2020), with a result for each finding."""
    return sarif([(one.source, one.findings) for one in reports])
