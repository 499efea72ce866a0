"""How often ``helix`` finds a helix in tables without one, and in helices with noise.

``python -m tests.calibration.helices`` prints the table of ``docs/measures/positions.md`` (minutes).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial

import numpy as np

import hfposemb as hpe

from .families import POSITIONS, Make, Rows
from .varying import VARYING

WITHOUT: Mapping[str, Make] = {name: make for name, make in (POSITIONS | VARYING).items() if "ARMA" not in name}
"""Families that have no wave of a single period with both phases, which is a helix."""


def wound(
    count: int,
    width: int,
    rng: np.random.Generator,
    *,
    turns: float,
    noise: float,
    drift: float = 0.0,
    minor: float = 1.0,
) -> Rows:
    """Draw an ellipse run through some times, in a random plane, with noise of some norm per row and a straight drift.

    Its longer radius is 1. The drift runs over some length in all, in a direction of its own.
    """
    places = np.arange(count) / count
    angles = 2 * np.pi * turns * places + 2 * np.pi * rng.random() * bool(drift)
    axes = np.linalg.qr(rng.standard_normal((width, 3)))[0].T
    circle = np.stack([np.cos(angles), minor * np.sin(angles), drift * places], axis=1) @ axes
    return np.asarray(circle + noise / np.sqrt(width) * rng.standard_normal((count, width)))


HELICES: Mapping[str, Make] = {
    f"{turns} turns, noise {noise}": partial(wound, turns=turns, noise=noise)
    for turns, noise in ((2, 0.3), (2, 0.5), (3, 0.5), (6, 0.5), (6, 1.0), (20, 1.0))
}
"""Helices by their number of turns, with noise of some norm per row."""

DRIFTING: Mapping[str, Make] = {
    f"2 turns, noise 0.3, minor axis {minor}, drift {drift}": partial(
        wound, turns=2, noise=0.3, drift=drift, minor=minor
    )
    for minor, drift in ((1.0, 3.0), (1.0, 20.0), (0.5, 2.0), (0.5, 6.0))
}
"""Helices beside a straight drift that is longer than they are wide."""


def found(make: Make, shape: tuple[int, int], *, tables: int, seed: int = 0) -> int:
    """Return in how many tables of a family a helix is found.

    Args:
        make: The family.
        shape: Number of positions and of columns.
        tables: Number of tables.
        seed: Random seed.
    """
    rng = np.random.default_rng((seed, *shape))
    drawn = (make(*shape, rng).astype(np.float32) for _ in range(tables))
    return sum(hpe.helix(hpe.from_arrays(position=rows).position).winds for rows in drawn)


def main() -> None:
    """Print the shares of all families, in percent."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=200)
    given = parser.parse_args()
    shapes = ((64, 64), (128, 256), (512, 384))
    print("| tables | " + " | ".join(f"{n} × {d}" for n, d in shapes) + " |\n|---" + "|---" * len(shapes) + "|")
    for name, make in {**HELICES, **DRIFTING, **WITHOUT}.items():
        shares = (100 * found(make, shape, tables=given.tables) / given.tables for shape in shapes)
        print(f"| {name} | " + " | ".join(f"{share:.1f} %" for share in shares) + " |", flush=True)


if __name__ == "__main__":
    main()
