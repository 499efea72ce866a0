"""Comparison of one thing that was extracted with the same of a live model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Verdict = Literal["equal", "different", "missing", "not compared"]

CLOSE = 1e-5
"""Tolerance of float32 comparisons: of the first layer's input, and doubled of frequencies."""


@dataclass(frozen=True)
class Check:
    """One comparison between ``ours`` and ``theirs``; ``difference`` is the largest absolute difference."""

    what: str
    verdict: Verdict
    ours: str
    theirs: str
    difference: float | None = None


def differ(ours: NDArray[Any], theirs: NDArray[Any]) -> float | None:
    """Return the largest difference, 0.0 only if all values are bitwise equal; ``None`` if the shapes differ."""
    if ours.shape != theirs.shape:
        return None
    if np.array_equal(ours, theirs, equal_nan=True):
        return 0.0
    return float(max(np.nanmax(np.abs(ours.astype(np.float64) - theirs)), np.finfo(np.float32).tiny))


def nearest(what: str, theirs: str, values: NDArray[Any], ours: Mapping[str, NDArray[Any]]) -> Check:
    """Compare values of the model with the nearest of ours."""
    found = {name: difference for name, one in ours.items() if (difference := differ(one, values)) is not None}
    if not found:
        return Check(what, "missing", ", ".join(ours)[:80] or "none", f"{theirs} {list(values.shape)}")
    name = min(found, key=lambda name: found[name])
    return Check(what, "equal" if found[name] == 0.0 else "different", name, theirs, found[name])
