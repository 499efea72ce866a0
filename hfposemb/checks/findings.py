"""Findings of a check: what was found, how serious it is, why it matters and what corrects it (``catalogue.toml``)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal, TypeAlias

from ..text import display

Severity: TypeAlias = Literal["wrong", "suspicious", "note"]
SEVERITIES: tuple[Severity, ...] = ("wrong", "suspicious", "note")
"""Severities, the most serious first."""

Number: TypeAlias = int | float | bool | str | None


@dataclass(frozen=True)
class Finding:
    """One finding about a source.

    Attributes:
        name: Name of the finding, a key of ``RULES``.
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
class Rule:
    """What a finding means.

    Attributes:
        severity: Its usual severity.
        about: What it says, for the list of findings.
        why: Why it matters, in one sentence.
        fix: The line that corrects it; ``{name}`` stands for a value of the finding.
        file: File that it is about.
    """

    severity: Severity
    about: str
    why: str
    fix: str
    file: str = "config.json"


def _read() -> dict[str, dict[str, Rule]]:
    """Return the rules of ``catalogue.toml``, by subject and name."""
    subjects = tomllib.loads(files(__package__).joinpath("catalogue.toml").read_text(encoding="utf-8"))
    return {subject: {name: Rule(**rule) for name, rule in rules.items()} for subject, rules in subjects.items()}


SUBJECTS: Mapping[str, Mapping[str, Rule]] = _read()
"""The findings by subject."""

RULES: Mapping[str, Rule] = {name: rule for rules in SUBJECTS.values() for name, rule in rules.items()}
"""Every finding by its name."""


def finding(
    name: str,
    message: str,
    *,
    sure: bool = True,
    file: str | None = None,
    fix: Mapping[str, object] | None = None,
    **numbers: Number,
) -> Finding:
    """Return a finding with the texts of its rule.

    Args:
        name: Name of the rule.
        message: What was found, on one line; it passes through ``text.display``.
        sure: Whether it has its usual severity; otherwise it is suspicious.
        file: File that it is about if it is not the usual one.
        fix: Further values of the rule's line, besides ``numbers``.
        numbers: The numbers that the message states.
    """
    rule = RULES[name]
    # What a configuration states may be anything.
    values: dict[str, Any] = {
        key: one if one is None or isinstance(one, int | float) else display(str(one), width=80)
        for key, one in {**numbers, **(fix or {})}.items()
    }
    return Finding(
        name,
        rule.severity if sure else "suspicious",
        display(message, width=400),
        {key: values[key] for key in numbers},
        rule.why,
        rule.fix.format(**values),
        file or rule.file,
    )
