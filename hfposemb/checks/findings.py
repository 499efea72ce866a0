"""Findings of a check: what was found, how serious it is, why it matters and what corrects it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Severity: TypeAlias = Literal["wrong", "suspicious", "note"]
SEVERITIES: tuple[Severity, ...] = ("wrong", "suspicious", "note")
"""Severities, the most serious first."""

Number: TypeAlias = int | float | bool | str | None


@dataclass(frozen=True)
class Finding:
    """One finding about a source.

    Attributes:
        name: Name of the finding, a key of ``catalogue.RULES``.
        severity: ``wrong``: the files contradict each other or cannot work. ``suspicious``: probably a mistake.
            ``note``: worth knowing.
        message: What was found, on one line.
        numbers: The numbers that the message states, by name.
        why: Why it matters, in one sentence.
        fix: The line that corrects it, in Python, in a shell or in a file.
        file: File that the finding is about.
    """

    name: str
    severity: Severity
    message: str
    numbers: Mapping[str, Number]
    why: str
    fix: str
    file: str = "config.json"

    def __str__(self) -> str:
        """Write the finding on three lines."""
        return f"{self.severity}: {self.name}: {self.message}\n  why: {self.why}\n  fix: {self.fix}"


@dataclass(frozen=True)
class CheckReport:
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
        from .report_formats import to_json

        return to_json(self)

    def to_sarif(self) -> dict[str, Any]:
        """Return the report in SARIF 2.1.0, which GitHub shows next to the files of a repository."""
        from .report_formats import to_sarif

        return to_sarif((self,))
