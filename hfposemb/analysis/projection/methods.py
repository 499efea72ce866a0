"""Methods of a projection: those by name, and estimators of scikit-learn and of libraries that follow it."""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...guesses import unknown_choice
from ...tables.table import EmbeddingTable

METHODS: tuple[Literal["pca", "umap"], ...] = ("pca", "umap")


class Estimator(Protocol):
    """What projects rows: an object with ``fit_transform``, such as scikit-learn's ``TSNE()``."""

    def fit_transform(self, X: Any, /) -> Any:
        """Return coordinates [n, dims] of the rows ``X`` [n, d]."""


Method: TypeAlias = Literal["pca", "umap", "PCA", "UMAP"] | Estimator


def method_named(given: object) -> Literal["pca", "umap"]:
    """Return a method by its name, in any case. Raises ``InputError`` for others."""
    for one in METHODS:
        if isinstance(given, str) and given.lower() == one:
            return one
    said = unknown_choice("method", given, METHODS)
    raise InputError(f"{said}; project() takes estimators too, such as sklearn.manifold.TSNE()")


def fitted(estimator: Estimator, table: EmbeddingTable) -> tuple[NDArray[np.int64], NDArray[np.floating]]:
    """Return the finite rows of a table [n] and the coordinates [n, dims] that an estimator gives them.

    Raises:
        InputError: If the estimator does not return a point for each row.
    """
    if isinstance(estimator, type):
        raise InputError(f"method must be an estimator, not its class; write method={estimator.__name__}()")
    rows = np.flatnonzero(table.finite)
    made = np.asarray(estimator.fit_transform(np.asarray(table.take(rows))))
    if made.ndim != 2 or len(made) != len(rows):
        raise InputError(
            f"{type(estimator).__name__} must return a point for each of {len(rows):,} rows; its array has the shape "
            f"{list(made.shape)}"
        )
    return rows, made
