"""Tables seen in few dimensions: PCA and UMAP, with how far each picture can be trusted."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..progress import shown
from ..tables.encodings import PositionEncoding, table_in
from ..tables.html_repr import card
from ..tables.table import EmbeddingTable, all_rows
from .compiled_umap import umap_class
from .geometry import scatter
from .nearest_rows import all_neighbours
from .projection_quality import DOUBLE_ROWS, PointTrust, Quality, point_trust
from .row_values import Progress, usable
from .rows import finite_blocks

MOST_COMPONENTS = 50

EXACT_ROWS, EXACT_PRODUCTS = 64_000, 2.6e12
"""Rows, and rows² × width, up to which UMAP is given exact neighbours; beyond, it searches approximately itself.

50,257 × 1,024 is just within. Exact neighbours take half a minute of one processor there, which is what numba takes to
compile the other search, in every process anew.
"""


@dataclass(frozen=True)
class UMAPParameters:
    """Say how UMAP lays out; as in umap-learn, but for cosines and a start from PCA.

    ``epochs`` None is 500 up to 10,000 rows and 200 beyond. Started from "pca" or "spectral" the layouts keep
    neighbourhoods equally well; "pca" is quicker and keeps the arrangement of the whole alike between seeds.
    """

    neighbors: int = 15
    min_dist: float = 0.1
    metric: Literal["cosine", "euclidean"] = "cosine"
    epochs: int | None = None
    init: Literal["pca", "spectral", "random"] = "pca"

    def __post_init__(self) -> None:
        if self.neighbors < 2 or not 0 <= self.min_dist <= 1 or (self.epochs is not None and self.epochs < 1):
            raise InputError(
                f"UMAP takes 2 neighbors or more, min_dist from 0 to 1 and epochs of 1 or more; got {self}"
            )
        if self.metric not in ("cosine", "euclidean") or self.init not in ("pca", "spectral", "random"):
            raise InputError(
                f'UMAP takes the metric "cosine" or "euclidean", and init "pca", "spectral" or "random"; got {self}'
            )


T = TypeVar("T")


@dataclass(frozen=True)
class _Later(Generic[T]):
    """What a projection is told of itself when somebody first asks."""

    make: Callable[[Projection], T]


class _Lazy(Generic[T]):
    """A field that may be given as a ``_Later``, and holds what that makes once it has been read."""

    def __init__(self, *default: T) -> None:
        self.default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, owner: Projection | None, kind: type) -> T:
        if owner is None:  # the dataclass asks for the field's default
            if not self.default:
                raise AttributeError(self.name)
            return self.default[0]
        held: T | _Later[T] = vars(owner)[self.name]
        if isinstance(held, _Later):
            held = vars(owner)[self.name] = held.make(owner)
        return held

    def __set__(self, owner: Projection, value: T | _Later[T]) -> None:
        vars(owner)[self.name] = value


@dataclass(frozen=True, eq=False)
class Projection:
    """Hold a projection: ``coordinates`` [n, dims] in float32 of the table rows ``rows`` [n].

    ``left_out`` rows have no point: they hold NaN or Inf, or are zero where a cosine is taken.
    ``explained_variance_ratio`` [dims] is there for PCA only. ``trust`` says of single points what ``quality`` says of
    the picture: of all of them, or of a seeded sample of large tables. Both are measured when they are first read,
    which takes longer than PCA itself where a table is large; until then the projection keeps the table in memory.
    """

    coordinates: NDArray[np.float32]
    rows: NDArray[np.int64]
    left_out: int
    method: str
    dims: int
    seed: int
    parameters: Mapping[str, object]
    explained_variance_ratio: NDArray[np.float64] | None
    name: str
    quality: _Lazy[Quality] = _Lazy()
    trust: _Lazy[PointTrust | None] = _Lazy(None)

    @property
    def measured(self) -> bool:
        """Whether ``quality`` is known already, so that to read it takes no time."""
        return not isinstance(vars(self)["quality"], _Later) and self.quality.points > 0

    def __getstate__(self) -> dict[str, Any]:
        """Return everything, measured: a pickle does not carry the table."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    def take(self, places: NDArray[np.int64]) -> Projection:
        """Return the points at ``places`` [m] of the picture, in that order, with their rows and their trust.

        ``quality`` stays that of the whole picture. Raises ``InputError`` for places that it does not have, or has
        twice.
        """
        count, chosen = len(self.rows), np.asarray(places, np.int64)
        if chosen.ndim != 1 or len(np.unique(chosen)) < len(chosen) or not np.isin(chosen, np.arange(count)).all():
            raise InputError(f"take() needs distinct places in the picture, 0 to {count - 1:,}; got {places!r:.80}")

        def trust_of(_: Projection) -> PointTrust | None:
            found = None if self.trust is None else self.trust.take(chosen)
            return found if found is not None and len(found.points) else None

        # Not dataclasses.replace, which reads every field, and so would measure the picture.
        later = {"trust": _Later(trust_of), "quality": _Later(lambda _: self.quality)}
        kept = {"rows": self.rows[chosen], "coordinates": self.coordinates[chosen], **later}
        return Projection(**{**vars(self), **kept})

    def _repr_html_(self) -> str:
        quality, ratio = self.quality, self.explained_variance_ratio
        facts = {
            "points": f"{len(self.rows):,} in {self.dims}-D, {self.left_out:,} rows left out",
            "by": ", ".join([self.method, f"seed {self.seed}", *(f"{k} {v}" for k, v in self.parameters.items())]),
            "variance": "" if ratio is None else f"{ratio.sum():.1%}",
            "trustworthiness": f"{quality.trustworthiness:.3f}",
            "continuity": f"{quality.continuity:.3f}",
            "neighbours kept": f"{quality.neighbours_kept:.1%} of {quality.k}, by chance {quality.kept_by_chance:.1%}",
        }
        return card(f"Projection of {self.name}", [fact for fact in facts.items() if fact[1]])

    def __repr__(self) -> str:
        ratio = self.explained_variance_ratio
        variance = "" if ratio is None else f", {ratio.sum():.1%} of the variance"
        left_out = f", {self.left_out:,} rows left out" if self.left_out else ""
        return (
            f"Projection({self.method} of {self.name}: {len(self.rows):,} points in {self.dims}-D, seed {self.seed}"
            f"{variance}, trustworthiness {self.quality.trustworthiness:.3f}, "
            f"continuity {self.quality.continuity:.3f}, "
            f"{self.quality.neighbours_kept:.1%} of {self.quality.k} neighbours kept{left_out})"
        )


@dataclass(frozen=True, eq=False)
class Layout:
    """Coordinates of ``rows``, and the share of the variance along each where there is such a thing."""

    rows: NDArray[np.int64]
    coordinates: NDArray[np.floating]
    ratio: NDArray[np.float64] | None = None


def pca(table: EmbeddingTable, dims: int, *, progress: Progress | None = None) -> Layout:
    """Project onto the leading eigenvectors of the scatter matrix, read by blocks; nothing is sampled.

    The sign of a component makes its loading of largest magnitude positive. Directions without variance are 0.
    """
    import scipy.linalg
    from threadpoolctl import threadpool_limits

    single = table.shape[0] > DOUBLE_ROWS
    found = scatter(table, single=single, progress=progress)
    rows, ratio = np.flatnonzero(table.finite), np.zeros(dims)
    coordinates = np.zeros((len(rows), dims), np.float32)
    side = len(found.matrix)
    count = min(dims, side)
    total = found.total
    # In one thread: scipy has threads of its own, which would wait for work at the cost of numpy's, before and after.
    with threadpool_limits(1):
        # Symmetric, so its transpose is the same matrix in the order that LAPACK overwrites without a copy.
        eigenvalues, vectors = scipy.linalg.eigh(
            found.matrix.T, subset_by_index=(side - count, side - 1), overwrite_a=True
        )
    eigenvalues, vectors = eigenvalues[::-1], vectors[:, ::-1]
    real = eigenvalues > max(found.rows, table.shape[1]) * np.finfo(float).eps * max(eigenvalues[0], 0)
    count = int(real.sum()) if total else 0
    if count == 0:
        return Layout(rows, coordinates, ratio)
    ratio[:count] = eigenvalues[:count] / total
    components = vectors[:, :count]
    if found.dual:
        centred = np.concatenate([block - found.mean for _, block in finite_blocks(table)])
        components = centred.T @ components / np.sqrt(eigenvalues[:count])
    size = np.abs(components)
    # Loadings that differ by rounding only are one magnitude: the first of them decides.
    decisive = (size >= size.max(axis=0) * (1 - 1e-9)).argmax(axis=0)
    components = components * np.sign(components[decisive, np.arange(count)])
    start, dtype = 0, table.dtype if single else np.dtype(np.float64)
    mean, onto = found.mean.astype(dtype), components.astype(dtype)
    room = np.empty((0, table.shape[1]), dtype)  # which blocks that are centred in it share
    for _, block in finite_blocks(table, single=single):
        room = room if len(room) >= len(block) else np.empty(block.shape, dtype)
        coordinates[start : start + len(block), :count] = np.subtract(block, mean, out=room[: len(block)]) @ onto
        start += len(block)
    return Layout(rows, coordinates, ratio)


class _Epochs:
    """Stand where umap-learn's progress bar writes, and hand its counts on."""

    def __init__(self, progress: Progress, start: float) -> None:
        self.progress, self.start = progress, start

    def write(self, text: str) -> None:
        done, _, total = text.strip().partition("/")
        if done.isdigit() and total.isdigit():
            share = int(done) / max(1, int(total))
            self.progress(self.start + (1 - self.start) * share, f"layout, epoch {done} of {total}")

    def flush(self) -> None: ...


def _bar(progress: Progress | None, start: float) -> dict[str, Any]:
    from tqdm.auto import tqdm
    from tqdm.std import tqdm as terminal

    # In a notebook tqdm draws a widget whatever file it is given: there only the stages are reported.
    if progress is None or tqdm.status_printer is not terminal.status_printer:
        return {"disable": True}
    return {"disable": False, "file": _Epochs(progress, start), "bar_format": "{n_fmt}/{total_fmt}", "mininterval": 0.2}


def _exact(rows: int, width: int) -> bool:
    return rows <= EXACT_ROWS and rows**2 * width <= EXACT_PRODUCTS


def _start(table: EmbeddingTable, rows: NDArray[np.int64], dims: int, seed: int) -> NDArray[np.float32]:
    """Return umap-learn's start from PCA, [n, dims] within ±10 and a little noise, of our exact components."""
    layout = pca(table, min(dims, table.shape[1]))
    known = layout.coordinates[np.isin(layout.rows, rows)]
    start = np.zeros((len(rows), dims))
    start[:, : known.shape[1]] = known * (10 / (np.abs(known).max() or 1))
    return (start + np.random.default_rng(seed).normal(scale=1e-4, size=start.shape)).astype(np.float32)


def _umap(table: EmbeddingTable, dims: int, seed: int, parameters: UMAPParameters, progress: Progress | None) -> Layout:
    rows = np.flatnonzero(usable(table, parameters.metric))
    if len(rows) <= parameters.neighbors:
        fewer = f", or umap=UMAPParameters(neighbors={len(rows) - 1})" if len(rows) > 2 else ""
        raise InputError(
            f"UMAP with {parameters.neighbors} neighbours needs more than {parameters.neighbors} rows; "
            f"{table.name} has {len(rows)}: use method='pca'{fewer}"
        )

    def report(share: float, doing: str) -> None:
        if progress is not None:
            progress(share, doing)

    report(0.0, "loading umap-learn")
    fitting = umap_class()
    extra: dict[str, Any] = {}
    if _exact(len(rows), table.shape[1]):
        found = all_neighbours(
            table,
            k=parameters.neighbors - 1,
            metric=parameters.metric,
            progress=lambda share, doing: report(0.3 * share, doing),
        )
        near = found.values if parameters.metric == "euclidean" else np.maximum(1 - found.values, 0)
        own = np.arange(len(rows))[:, None]
        extra["precomputed_knn"] = (
            np.hstack([own, np.searchsorted(rows, found.indices)]).astype(np.int32),
            np.hstack([np.zeros(own.shape), near]).astype(np.float32),
        )
    report(0.3, "graph")
    fit = fitting(
        n_components=dims,
        n_neighbors=parameters.neighbors,
        min_dist=parameters.min_dist,
        metric=parameters.metric,
        n_epochs=parameters.epochs,
        init=_start(table, rows, dims, seed) if parameters.init == "pca" else parameters.init,
        random_state=seed,
        n_jobs=1,
        tqdm_kwds=_bar(progress, 0.4),
        **extra,
    )
    vectors = all_rows(table) if len(rows) == table.shape[0] else all_rows(table)[rows]
    with warnings.catch_warnings():
        # Of the neighbours given to it umap-learn warns that new rows cannot be added; none will be.
        warnings.filterwarnings("ignore", message="precomputed_knn\\[2\\]")
        coordinates = fit.fit_transform(np.asarray(vectors, np.float32))
    return Layout(rows, coordinates)


def project(
    value: EmbeddingTable | PositionEncoding,
    *,
    method: Literal["pca", "umap"] = "pca",
    dims: int = 2,
    seed: int = 0,
    umap: UMAPParameters | None = None,
    progress: Progress | Literal[False] | None = None,
) -> Projection:
    """Project a table to ``dims`` dimensions: 1 to 50 by PCA, 2 or 3 by UMAP.

    PCA is exact and the same for every seed. UMAP is the same for the same seed on the same machine. The quality of PCA
    is by Euclidean distances, which it keeps, and that of UMAP by the metric it was given. ``progress`` is called with
    the share done and the stage; without one a bar is drawn in terminals and notebooks (``progress.shown``), and with
    ``False`` none. Raises ``InputError`` where the table is too small for what is asked.
    """
    table = table_in(value)
    if method not in ("pca", "umap"):
        raise InputError(f'the method is "pca" or "umap"; got {method!r}')
    if method == "umap" and dims not in (2, 3):
        raise InputError(f"UMAP is drawn in 2 or 3 dimensions; got {dims}")
    if method == "pca" and not 1 <= dims <= min(MOST_COMPONENTS, table.shape[1]):
        most = min(MOST_COMPONENTS, table.shape[1])
        raise InputError(f"{table.name} can be projected to 1 to {most} dimensions by PCA; got {dims}")
    with shown(f"{method.upper()} of {table.name}", progress) as told:
        return _projected(table, method, dims, seed, umap or UMAPParameters(), told)


def _projected(
    table: EmbeddingTable,
    method: Literal["pca", "umap"],
    dims: int,
    seed: int,
    chosen: UMAPParameters,
    progress: Progress,
) -> Projection:
    metric: Literal["cosine", "euclidean"]
    parameters: dict[str, object]
    if method == "pca":
        progress(0.0, "components")
        metric, parameters, layout = "euclidean", {"solver": "covariance_eigh"}, pca(table, dims, progress=progress)
    else:
        metric, layout = chosen.metric, _umap(table, dims, seed, chosen, progress)
        search = "exact" if _exact(len(layout.rows), table.shape[1]) else "approximate"
        parameters = {**asdict(chosen), "neighbour_search": search}

    def measure(found: Projection) -> PointTrust | None:
        return point_trust(table, found.coordinates, rows=found.rows, metric=metric, seed=seed)

    progress(1.0, "done")
    return Projection(
        coordinates=np.ascontiguousarray(layout.coordinates, np.float32),
        rows=layout.rows,
        left_out=table.shape[0] - len(layout.rows),
        method=method,
        dims=dims,
        seed=seed,
        parameters=parameters,
        explained_variance_ratio=layout.ratio,
        quality=_Later(_quality),
        name=table.name,
        trust=_Later(measure),
    )


def _quality(found: Projection) -> Quality:
    assert found.trust is not None
    return found.trust.quality
