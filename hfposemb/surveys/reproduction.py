"""Measure published findings again and compare the results with the published values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ..errors import HfposembError, InputError, SourceError
from ..models.extraction import extract
from ..progress import Report, shown
from ..tables.embeddings import Embeddings
from ..tables.encodings import Absolute
from ..tables.null_comparison import LEVEL
from ..tables.table import Provenance, table_of
from ..tables.tabular import Columns, Tabular, columns_of
from .published_findings import STUDIES, Claim, Models

Verdict = Literal["agrees", "differs", "cannot tell", "not measured"]


@dataclass(frozen=True)
class Outcome:
    """Result of one claim.

    Attributes:
        published: The claim as published.
        measured: What was measured, or why nothing was.
        value: The measured number.
        verdict: Whether the two agree; "cannot tell" if they do and random walks of the same shape do so as well.
        rule: When they agree.
    """

    published: str
    measured: str
    value: float | None
    verdict: Verdict
    rule: str


@dataclass(frozen=True)
class Reproduction(Tabular):
    """Result of reproducing one study.

    Attributes:
        name: Name of the study.
        citation: Its citation.
        sources: Sources that were read, by the study's names for them.
        missing: Models that could not be read, with the reason.
        outcomes: Result of each claim.
    """

    name: str
    citation: str
    sources: Mapping[str, str]
    missing: Mapping[str, str]
    outcomes: tuple[Outcome, ...]

    @property
    def measured(self) -> bool:
        """Whether anything was measured."""
        return any(outcome.verdict != "not measured" for outcome in self.outcomes)

    def __str__(self) -> str:
        """List every claim with what was published, what was measured, and the verdict."""
        lines = [f"{self.name}: {self.citation}"]
        lines += [f"  {key} is {source}" for key, source in self.sources.items()]
        for outcome in self.outcomes:
            told = {"published": outcome.published, "measured": outcome.measured}
            told[outcome.verdict] = f"(rule: {outcome.rule})"
            lines += ["", *(f"  {label:<14}{text}" for label, text in told.items())]
        if self.missing:
            keys = ", ".join(self.missing)
            example = f"--model {next(iter(self.missing))}=./folder"
            reason = next(iter(self.missing.values()))
            lines += ["", f"  not available: {keys} ({reason}); give a folder or another source: {example}"]
        return "\n".join(lines)

    def columns(self) -> Columns:
        """Return one row per finding: ``published``, ``measured``, ``value``, ``verdict`` and ``rule``."""
        return columns_of(self.outcomes, "published", "measured", "value", "verdict", "rule")


def reproduce(name: str, *, models: Mapping[str, str] | None = None, allow_full_download: bool = False) -> Reproduction:
    """Reproduce one study of ``STUDIES``, with its own models from the Hub or with given ones.

    Default models that cannot be read are reported as missing, and the claims that need them are not measured.

    Args:
        name: Name of the study.
        models: Sources by the study's name for them, e.g. ``{"gpt2": "./folder"}``.
        allow_full_download: Whether whole files may be downloaded where parts cannot be read.

    Raises:
        InputError: If there is no such study, or it has no such model.
        SourceError: If a given source cannot be read.

    Examples:
        >>> from hfposemb.surveys.reproduction import reproduce
        >>> [outcome.verdict for outcome in reproduce("sinusoid-rotation").outcomes]
        ['agrees', 'agrees']
    """
    if name not in STUDIES:
        raise InputError(f"unknown study {name!r}; the studies are {', '.join(STUDIES)}")
    study, given = STUDIES[name], dict(models or {})
    if unknown := [key for key in given if key not in study.models]:
        raise InputError(f"{name} has no model {unknown[0]!r}; its models are {', '.join(study.models)}")
    sources = {**study.models, **given}
    found: dict[str, Embeddings] = {}
    missing: dict[str, str] = {}
    for key, source in sources.items():
        try:
            found[key] = extract(source, allow_full_download=allow_full_download)
        except HfposembError as error:
            if key in given:
                raise
            missing[key] = str(error)
    outcomes = tuple(outcome(claim, found) for claim in study.claims)
    return Reproduction(name, study.citation, {key: sources[key] for key in found}, missing, outcomes)


def reproduce_all(
    names: Sequence[str] = (),
    *,
    models: Mapping[str, str] | None = None,
    allow_full_download: bool = False,
    progress: Report | Literal[False] | None = None,
) -> tuple[Reproduction, ...]:
    """Reproduce several studies, by default all, each with those of the given models that it takes.

    Args:
        names: Names of the studies.
        models: Sources by the studies' names for them.
        allow_full_download: Whether whole files may be downloaded where parts cannot be read.
        progress: Callback for the share done, 0 to 1, and the study. By default a bar is drawn (``progress.shown``);
            ``False`` disables it.

    Raises:
        InputError: As ``reproduce`` does, or if no study takes a given model.
        SourceError: As ``reproduce`` does, or if nothing could be measured.
    """
    chosen, given = tuple(dict.fromkeys(names)) or tuple(STUDIES), dict(models or {})
    if unknown := [name for name in chosen if name not in STUDIES]:
        raise InputError(f"unknown study {unknown[0]!r}; the studies are {', '.join(STUDIES)}")
    taken = {name: {key: source for key, source in given.items() if key in STUDIES[name].models} for name in chosen}
    if unused := [key for key in given if not any(key in own for own in taken.values())]:
        known = dict.fromkeys(key for name in chosen for key in STUDIES[name].models)
        raise InputError(f"unknown model {unused[0]!r}; write KEY=SOURCE with one of these keys: {', '.join(known)}")
    measured = []
    with shown(f"study {chosen[0]}", progress) as told:
        for number, name in enumerate(chosen):
            told(number / len(chosen), f"study {name}")
            measured.append(reproduce(name, models=taken[name], allow_full_download=allow_full_download))
    found = tuple(measured)
    if not any(one.measured for one in found):
        reasons = [f"{key}: {why}" for one in found for key, why in one.missing.items()]
        reasons += [outcome.measured for one in found for outcome in one.outcomes]
        raise SourceError(f"nothing could be measured ({reasons[0]}); give another source with --model KEY=./folder")
    return found


def outcome(claim: Claim, found: Models) -> Outcome:
    """Measure a claim on models by name, and beside it random walks in place of those whose positions it is about."""
    try:
        if absent := [key for key in claim.needs if key not in found]:
            raise SourceError(f"{', '.join(absent)} is not available")
        result = claim.measure(found)
    except HfposembError as error:
        return Outcome(claim.published, f"nothing: {error}", None, "not measured", claim.rule)
    verdict: Verdict = "agrees" if result.agrees else "differs"
    words = result.words
    if result.agrees and claim.curves:
        rng, agreeing, drawn = np.random.default_rng(0), 0, 0
        while drawn < claim.walks and agreeing <= LEVEL * claim.walks:  # until too many agree
            models = {**found, **{key: _walk_like(found[key], rng) for key in claim.curves}}
            agreeing, drawn = agreeing + claim.measure(models).agrees, drawn + 1
        words += f"; {agreeing} of {drawn} random walks agree as well"
        verdict = "cannot tell" if agreeing > LEVEL * claim.walks else "agrees"
    return Outcome(claim.published, words, result.value, verdict, claim.rule)


def _walk_like(embeddings: Embeddings, rng: np.random.Generator) -> Embeddings:
    """Return random walks in place of learned positions, with the same shapes and grids."""
    positions = {}
    for key, one in embeddings.positions.items():
        if isinstance(one, Absolute):
            walk = np.cumsum(rng.standard_normal(one.table.shape), axis=0)
            positions[key] = replace(one, table=table_of(walk, name=key, provenance=Provenance("drawn")))
    tables = {key: one.table for key, one in positions.items()}
    return Embeddings(embeddings.name, tables, positions)
