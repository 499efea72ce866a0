"""Published claims: what is measured of which models, by which rule it agrees with what was published."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..tables.embeddings import Embeddings

Models = Mapping[str, Embeddings]

WALKS = 20
"""Number of random walks that are measured beside a claim; 7 where a measurement takes half a minute.

A claim whose rule agrees with a share q of all walks is confirmed for a walk with probability q · P(at most one in 20
agrees), at most 4.2 %, or q (1 − q)^7, at most 5 %, whatever q is.
"""


@dataclass(frozen=True)
class Measured:
    """Result of one measurement: the number, a sentence that compares it with a reference, and the verdict."""

    value: float | None
    words: str
    agrees: bool


@dataclass(frozen=True)
class Claim:
    """One claim of a study.

    Attributes:
        published: The claim as published.
        needs: Names of the models it takes.
        measure: Measures it.
        rule: When the measurement agrees with the claim.
        curves: Models whose learned positions are replaced by random walks, to see how often smoothness alone agrees.
        walks: Number of random walks.
    """

    published: str
    needs: tuple[str, ...]
    measure: Callable[[Models], Measured]
    rule: str
    curves: tuple[str, ...] = ()
    walks: int = WALKS


@dataclass(frozen=True)
class Study:
    """A published finding.

    Attributes:
        citation: Its citation.
        models: Default source of each model, by the study's name for it.
        claims: Its claims.
    """

    citation: str
    models: Mapping[str, str]
    claims: tuple[Claim, ...]
