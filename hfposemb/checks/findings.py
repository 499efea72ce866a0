"""A finding of a check: what was found, how serious it is, why it matters and what corrects it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

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
