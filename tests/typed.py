"""The first lines that a user writes; `make check` has mypy --strict read them, and a test runs them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import hfposemb as hpe
from hfposemb.tables.table import Vectors

bert = hpe.extract("sample:bert")
vectors: Vectors = bert.position.table.vectors
shape: tuple[int, int] = bert.position.table.shape
row: Vectors = bert.token["king"]
rows: Vectors = bert.token[["king", 3, -1]]
masked: Vectors = bert.token[bert.token.finite]
array = np.asarray(bert.token)
count: int = len(bert.token)
known: bool = bert.position.has_table


def compared() -> hpe.Comparison:
    """Mix names, paths and what is open."""
    return hpe.compare("sample:bert", Path("./folder"), bert)
