"""Tables that are made, not trained."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import hfposemb as hpe
from hfposemb.tables.table import EmbeddingTable, Provenance, table_of


def made(*, width: int = 24, rows: int = 400, positions: int = 30, scale: float = 1.0, seed: int = 0) -> hpe.Embeddings:
    """Return an untrained model: random tokens, random positions."""
    rng = np.random.default_rng(seed)
    token, position = rng.standard_normal((rows, width)), scale * rng.standard_normal((positions, width))
    return hpe.from_arrays(token=token, position=position, name="made")


ROWS, WIDTH = 300, 12


WORDS = [f"word{row}" for row in range(ROWS)]


def noise(rows: int, width: int, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).standard_normal((rows, width))


def table(vectors: NDArray[np.generic]) -> EmbeddingTable:
    return table_of(np.asarray(vectors), name="made", provenance=Provenance("test"))


def streamed(vectors: NDArray[np.floating]) -> tuple[EmbeddingTable, list[int]]:
    """Return a table that is not in memory, and a list that gets the number of rows of each of its reads."""
    asked: list[int] = []

    def read(start: int, stop: int) -> NDArray[np.floating]:
        asked.append(stop - start)
        return vectors[start:stop]

    return EmbeddingTable("streamed", vectors.shape, vectors.dtype, Provenance("test"), read), asked


def turned(rows: NDArray[np.float64], *, width: int, seed: int = 5) -> NDArray[np.float64]:
    """Return rows in another frame, of another size and somewhere else."""
    return 7.5 * rows @ np.linalg.qr(noise(width, width, seed))[0][: rows.shape[1]] + 3


def source(rows: NDArray[np.float64], name: str, labels: list[str] | None = None) -> hpe.Embeddings:
    return hpe.from_arrays(token=rows, labels=labels or WORDS, name=name)
