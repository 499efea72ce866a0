"""How cost grows: an exponent for each main operation, fitted over four sizes, beside the one expected at most."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from .computing import as_table, decaying
from .cost import here
from .reading import touch


@dataclass(frozen=True)
class Growth:
    """Hold what an operation took at each size in seconds, in each of some rounds: cost ∝ size^exponent."""

    name: str
    of: str
    sizes: tuple[int, ...]
    rounds: tuple[tuple[float, ...], ...]
    expected: float

    @property
    def seconds(self) -> tuple[float, ...]:
        """The median at each size."""
        return tuple(median(taken) for taken in zip(*self.rounds, strict=True))

    @property
    def exponent(self) -> float:
        """The exponent of the medians."""
        return slope(self.sizes, self.seconds)

    @property
    def exponents(self) -> list[float]:
        """The exponent of each round."""
        return [slope(self.sizes, taken) for taken in self.rounds]


def slope(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Return the slope of log cost over log size, by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def growths() -> Iterator[Growth]:
    """Measure every main operation at four sizes, each the median of three runs after one that does not count."""
    import hfposemb
    from hfposemb.analysis import geometry
    from hfposemb.analysis.similarity.nearest_rows import all_neighbours
    from hfposemb.comparison.alignment import cka, procrustes, rsa

    def rows(count: int) -> Any:
        return as_table(decaying(count, 128))

    def both(count: int) -> Any:
        return tuple(decaying(count, 128, seed=seed).astype(np.float64) for seed in (0, 1))

    def half(count: int) -> str:
        return _write_half(Path(made) / str(count), count)

    def read(folder: str) -> float:
        return touch(hfposemb.extract(folder).token.vectors)

    with tempfile.TemporaryDirectory() as made:
        yield _growth("extract, BF16", "rows", (32_000, 64_000, 128_000, 256_000), half, read, 1)
    tokens, places = (8_000, 16_000, 32_000, 64_000), (512, 1_024, 2_048, 4_096)
    yield _growth("PCA", "rows", tokens, rows, lambda table: hfposemb.project(as_table(table.vectors)), 1)
    yield _growth("10 nearest of one row", "rows", tokens, rows, lambda table: hfposemb.neighbours(table, 0), 1)
    few = (2_000, 4_000, 8_000, 16_000)
    yield _growth("15 nearest of every row", "rows", few, rows, lambda table: all_neighbours(table, k=15), 2)
    yield _growth("UMAP", "rows", (1_000, 2_000, 4_000, 8_000), rows, lambda t: hfposemb.project(t, method="umap"), 1)
    yield _growth("CKA", "rows", tokens, both, lambda pair: cka(*pair), 1)
    yield _growth("Procrustes", "rows", tokens, both, lambda pair: procrustes(*pair), 1)
    yield _growth("RSA", "rows", places, both, lambda pair: rsa(*pair), 2)
    yield _growth("similarity matrix", "positions", places, rows, hfposemb.similarity, 2)
    yield _growth("similarity by distance", "positions", places, rows, geometry.similarity_by_distance, 1)
    widths = (128, 256, 512, 1_024)
    yield _growth("spectrum", "columns", widths, lambda width: as_table(decaying(4_096, width)), geometry.spectrum, 2)


def _write_half(folder: Path, rows: int) -> str:
    """Write a token table [rows, 128] of bfloat16, which has to be widened, and return its folder."""
    import torch
    from safetensors.torch import save_file

    folder.mkdir()
    made = torch.randn((rows, 128), generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    save_file({"wte.weight": made}, str(folder / "model.safetensors"))
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2", "vocab_size": rows}))
    return str(folder)


def _growth(
    name: str, of: str, sizes: tuple[int, ...], make: Callable[[int], Any], run: Callable[[Any], Any], expected: float
) -> Growth:
    timed = []
    for size in sizes:
        given = make(size)
        run_one = here(lambda given=given: run(given))
        run_one()
        timed.append([run_one().wall for _ in range(3)])
    return Growth(name, of, sizes, tuple(zip(*timed, strict=True)), expected)
