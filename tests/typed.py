"""The first lines that a user writes; `make check` has mypy --strict read them, and tests run them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_type

import numpy as np
from numpy.typing import NDArray

import hfposemb as hpe
from hfposemb.tables.table import Vectors

if TYPE_CHECKING:
    import gradio as gr
    from hfposemb.app.session.plugged import Plugged

bert = hpe.extract("sample:bert")
vectors: Vectors = bert.position.table.vectors
shape: tuple[int, int] = bert.position.table.shape
row: Vectors = bert.token["king"]
rows: Vectors = bert.token[["king", 3, -1]]
masked: Vectors = bert.token[bert.token.finite]
array = np.asarray(bert.token)
count: int = len(bert.token)
known: bool = bert.position.has_table

assert_type(bert, hpe.Embeddings)
assert_type(bert.token, hpe.EmbeddingTable)
assert_type(bert.token.vectors, NDArray[np.floating[Any]])
assert_type(hpe.sinusoidal(256, 128), hpe.Embeddings)
assert_type(hpe.from_arrays(token=np.eye(4)), hpe.Embeddings)
assert_type(hpe.norms(bert.token), NDArray[np.float64])
assert_type(hpe.similarity(bert.position), NDArray[np.floating[Any]])
found = hpe.project(bert.position, method="pca", dims=3)
assert_type(found, hpe.Projection)
assert_type(found.coordinates, NDArray[np.float32])
assert_type(found.explained_variance_ratio, NDArray[np.float64] | None)
near = hpe.neighbours(bert.token, "king", k=5)
lists = hpe.neighbours(bert.token, ["king", "queen"], k=5)
assert_type(near.labels, tuple[str, ...])
assert_type(lists["king"].rows, NDArray[np.int64])


def compared() -> hpe.Comparison:
    """Mix names, paths and what is open."""
    return hpe.compare("sample:bert", Path("./folder"), bert)


def refused() -> None:
    """What a type checker must refuse: mypy reports an ignored line that is right."""
    hpe.exctract("sample:bert")  # type: ignore[attr-defined]
    hpe.project(bert.position, method="tsne")  # type: ignore[arg-type]
    hpe.extract("sample:bert", revison="main")  # type: ignore[call-arg]


def embedded(host: gr.Blocks) -> Plugged:
    """Draw the app into a page."""
    from hfposemb.app import panel

    with host:
        return panel(sources=["sample:bert", bert], tabs=("positions",))
