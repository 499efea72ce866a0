"""How often the intervals of ``uncertainty`` hold the mean of a figure over made tables, which should be 95 %.

``python -m tests.calibration.intervals`` prints the table of ``docs/measures/index.md`` (minutes).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

import numpy as np

import hfposemb as hpe
from hfposemb.comparison.figure_intervals import BLOCKS, GROUPS

from .families import POSITIONS, TOKENS, Make, Rows
from .varying import VARYING

SHAPE = (256, 64)
FAMILIES: Mapping[str, Make] = {**POSITIONS, **VARYING}
STEADY = (
    "noise",
    "smooth, ℓ = 2",
    "smooth, ℓ = n/32",
    "smooth, ℓ = n/16",
    "smooth, ℓ = n/8",
    "rough, memory n/8",
    "smooth + noise",
    "mixture",
    "growing amplitude",
    "wavy amplitude",
    "falling speed",
    "wavy speed",
    "random walks",
    "fractional, H = .2",
)
"""Families of positions whose figures have one mean: those of others are drawn anew with each table."""


def far_tokens(count: int, width: int, rng: np.random.Generator) -> Rows:
    """Draw tokens about one mean that is as long as they are."""
    return np.asarray(rng.standard_normal((count, width)) + np.random.default_rng(0).standard_normal(width))


TOKEN_FAMILIES: Mapping[str, Make] = {
    "tokens: noise": TOKENS["tokens: noise"],
    "tokens: one far mean": far_tokens,
    "tokens: unequal lengths": TOKENS["tokens: unequal lengths"],
}


def held(make: Make, role: str, *, tables: int, seed: int = 0) -> dict[str, tuple[float, int]]:
    """Return the share of intervals that hold the figure's mean, and the number of tables that have one.

    Args:
        make: The family.
        role: ``"position"`` or ``"token"``.
        tables: Number of tables.
        seed: Random seed.
    """
    rng, names = np.random.default_rng(seed), BLOCKS if role == "position" else GROUPS
    drawn = [hpe.from_arrays(**{role: make(*SHAPE, rng).astype(np.float32)}) for _ in range(tables)]
    found = [{one.name: one for one in hpe.uncertainty(source, names=names).figures} for source in drawn]
    shares = {}
    for name in names:
        mean = np.mean([each[name].value for each in found])
        some = [each[name] for each in found if each[name].low is not None and each[name].high is not None]
        inside = sum((one.low or 0) <= mean <= (one.high or 0) for one in some)
        shares[name] = (inside / max(len(some), 1), len(some))
    return shares


def main() -> None:
    """Print the shares of all families, in percent."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=200)
    given = parser.parse_args()
    families = {name: (FAMILIES[name], "position") for name in STEADY}
    families |= {name: (make, "token") for name, make in TOKEN_FAMILIES.items()}
    for seed, (name, (make, role)) in enumerate(families.items()):
        shares = held(make, role, tables=given.tables, seed=seed).items()
        said = (f"{one} {100 * share:.0f} %" if count else f"{one} none" for one, (share, count) in shares)
        counts = {count for _, (_, count) in shares}
        print(f"| {name} | {' | '.join(said)} | {max(counts)} |", flush=True)


if __name__ == "__main__":
    main()
