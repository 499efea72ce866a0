"""Disk cache for projections and nulls, which are slow to compute."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...cache import Cache, Key
from ...logs import LOG
from ...tables.null_comparison import Null
from ...tables.table import EmbeddingTable
from ..nulls.surrogates import Keep
from ..row_values import Progress
from .projecting import Preview, Projection, UMAPParameters, measured_by, project, trust_of
from .quality import NOT_MEASURED, PointTrust

T = TypeVar("T")

FORMAT = 8
"""Cache format of projections; increase it when computation or serialisation changes, to invalidate old entries."""

NULL_FORMAT = 3
"""Cache format of nulls; increase it when the computation of a figure or of its surrogates changes."""

LIBRARIES = {
    "pca": ("numpy", "scipy"),
    "umap": ("numpy", "scipy", "scikit-learn", "numba", "pynndescent", "umap-learn"),
}
"""Libraries that affect the numerical result of each method; their versions are part of the cache key."""

POINTS = ("points", "neighbours_kept", "trustworthiness", "continuity")
"""Array fields of a projection's ``PointTrust``."""

BROKEN = (ValueError, TypeError, LookupError, AttributeError, EOFError, zipfile.BadZipFile)
"""What reading a damaged entry raises."""


def cached_projection(  # noqa: PLR0913 - keywords with defaults
    cache: Cache,
    table: EmbeddingTable,
    *,
    method: Literal["pca", "umap"],
    dims: int,
    seed: int,
    umap: UMAPParameters | None = None,
    progress: Progress | None = None,
    preview: Preview | None = None,
) -> Projection:
    """Return the result of ``project``, from the cache if it was computed before.

    A cached result is used only for equal numbers in the table, equal arguments and equal versions of the libraries
    involved. Its quality is measured when it is first read, and cached as well.

    Args:
        cache: Cache to read from and write to.
        table: Table [n, d] to project.
        method: ``"pca"`` or ``"umap"``.
        dims: Number of dimensions of the projection.
        seed: Random seed.
        umap: UMAP parameters; defaults if ``None``.
        progress: Callback for the share done, 0 to 1, and the current stage.
        preview: Callback for the rows and coordinates of an unfinished layout; see ``project``.
    """
    key = projection_key(table, method=method, dims=dims, seed=seed, umap=umap)
    found = _kept(cache, key, partial(_unpack, name=table.name))
    if found is not None:
        LOG.debug("%s: projection found in the cache", table.name)
        if progress is not None:
            progress(1.0, "done")
    else:
        found = project(table, method=method, dims=dims, seed=seed, umap=umap, progress=progress, preview=preview)
        cache.put(key, _pack(found))
    return measured_by(found, lambda: _trust(found, table, cache, key))


def _trust(found: Projection, table: EmbeddingTable, cache: Cache, key: Key) -> PointTrust:
    """Return how faithful the points are, from the cache if it was measured before."""
    key = (*key, "trust")
    if (kept := _kept(cache, key, _read_trust)) is not None:
        return kept
    trust = trust_of(found, table)
    arrays = {name: getattr(trust, name) for name in POINTS}
    cache.put(key, _packed({"k": trust.k, "rows": trust.rows, "metric": trust.metric}, arrays))
    return trust


def _read_trust(payload: bytes) -> PointTrust:
    facts, arrays = _parts(payload)
    return PointTrust(**arrays, **facts)


def _kept(cache: Cache, key: Key, read: Callable[[bytes], T]) -> T | None:
    """Return what is read of an entry; ``None`` if there is none, or it is damaged."""
    entry = cache.find(key)
    try:
        return None if entry is None else read(entry.bytes())
    except BROKEN:
        return None


def keep_nulls(cache: Cache) -> Keep:
    """Return a function that caches nulls: each key is computed once per version of the libraries."""

    def keep(key: tuple[str, ...], compute: Callable[[], Mapping[str, Null]]) -> Mapping[str, Null]:
        versions = {name: library_version(name) for name in LIBRARIES["pca"]}
        whole: Key = ("null", *key, json.dumps(versions, sort_keys=True), str(NULL_FORMAT))
        if (kept := _kept(cache, whole, _read_nulls)) is not None:
            return kept
        found = compute()
        cache.put(whole, json.dumps({name: asdict(null) for name, null in found.items()}).encode())
        return found

    return keep


def _read_nulls(payload: bytes) -> dict[str, Null]:
    return {name: Null(**null) for name, null in json.loads(payload).items()}


def projection_key(
    table: EmbeddingTable, *, method: str, dims: int, seed: int, umap: UMAPParameters | None = None
) -> Key:
    """Return the cache key of a projection. Reads the whole table once, for its digest."""
    parameters = asdict(umap or UMAPParameters()) if method == "umap" else {}
    versions = {name: library_version(name) for name in LIBRARIES.get(method, ())}
    facts = [json.dumps(value, sort_keys=True) for value in (parameters, versions, FORMAT)]
    return ("projection", table.digest, method, str(dims), str(seed), *facts)


def library_version(library: str) -> str:
    """Return the version of an installed library, or "unknown" if it is not installed."""
    try:
        return version(library)
    except PackageNotFoundError:
        return "unknown"


def _packed(facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, facts=np.frombuffer(json.dumps(facts).encode(), np.uint8), **arrays)
    return file.getvalue()


def _parts(payload: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    with np.load(io.BytesIO(payload), allow_pickle=False) as packed:
        arrays = dict(packed)
    return json.loads(arrays.pop("facts").tobytes()), arrays


def _pack(found: Projection) -> bytes:
    facts = {name: getattr(found, name) for name in ("left_out", "method", "dims", "seed")}
    arrays: dict[str, NDArray[Any]] = {"coordinates": found.coordinates, "rows": found.rows}
    if found.explained_variance_ratio is not None:
        arrays["explained_variance_ratio"] = found.explained_variance_ratio
    return _packed({**facts, "parameters": dict(found.parameters)}, arrays)


def _unpack(payload: bytes, *, name: str) -> Projection:
    """Return a stored projection of a table of this name, which is not stored: another may hold the same numbers."""
    facts, arrays = _parts(payload)
    stored: dict[str, Any] = {"explained_variance_ratio": None, **facts, **arrays}
    return Projection(**stored, name=name, quality=NOT_MEASURED)
