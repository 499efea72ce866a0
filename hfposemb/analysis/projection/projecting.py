"""PCA and UMAP projections of tables, with measures of how faithful they are."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...guesses import several
from ...progress import shown
from ...tables.encodings import PositionEncoding, table_in
from ...tables.table import EmbeddingTable, all_rows
from ...tables.tabular import Columns, Tabular, card
from ..geometry import leading_eigenvectors, scatter
from ..row_values import Progress, usable
from ..rows import finite_blocks, fits_single
from ..similarity.nearest_rows import all_neighbours
from .compiled_umap import compiled_umap, require_umap
from .methods import Method, fitted, method_named
from .quality import DOUBLE_ROWS, NOT_MEASURED, PointTrust, Quality, point_trust

MOST_COMPONENTS = 50

EXACT_ROWS = 16_000
"""Number of rows up to which UMAP is given exact neighbours; beyond, umap-learn searches them, approximately."""

LEARN_EXACT_ROWS = 4_095
"""Number of rows up to which umap-learn's own search is exact."""

COARSE_ROWS = 64_000
"""Number of rows from which the layout of a sample is the initial layout, instead of PCA."""

COARSE_SAMPLE = 4_096
"""Number of rows in that sample."""

COARSE_JITTER = 0.06
"""Standard deviation of each coordinate about the row that a row is placed at, in a layout from −10 to 10."""

MEASURED_TO_SHOW = 4_000
"""Points up to which a projection measures its quality to be shown in a notebook or as text."""

NEAR_MEAN = 8
"""Length of the mean row, over the root mean square length of the rows about it, up to which it is subtracted last."""

PREVIEW_SECONDS = 4.0
"""Minimum time between two previews of a layout that is optimised."""

Preview: TypeAlias = Callable[[NDArray[np.int64], NDArray[np.float32]], None]
"""Callback for an unfinished layout: rows [m] and their coordinates [m, dims]."""


@dataclass(frozen=True)
class UMAPParameters:
    """Parameters of UMAP, with umap-learn's defaults except for cosine distances and initialisation from PCA.

    Attributes:
        n_neighbors: Number of neighbours, the row itself included, at least 2.
        min_dist: Minimum distance of points in the layout, 0 to 1.
        metric: Metric of the table's rows.
        n_epochs: Number of epochs; ``None`` means 500 up to 10,000 rows and 200 beyond. More are slower and better: of
            MiniLM's 30,522 words, the map keeps 13.5 % of the 10 nearest neighbours after 200 epochs, 15.4 % after 500.
        init: Initial layout. "pca" and "spectral" preserve neighbourhoods equally well: MiniLM's words differ less than
            between seeds. "pca" keeps the global arrangement similar across seeds. From 64,000 rows, it starts from
            UMAP of a sample of the rows, which starts from PCA.
        engine: "hfposemb" finds the neighbours on all processors, exactly up to 16,000 rows and by umap-learn's search
            beyond, and has umap-learn optimise the layout an epoch at a time; "umap-learn" runs that library's own
            ``UMAP``, without previews.

    Examples:
        >>> import hfposemb as hpe
        >>> hpe.UMAPParameters(n_neighbors=30).metric
        'cosine'
    """

    n_neighbors: int = 15
    min_dist: float = 0.1
    metric: Literal["cosine", "euclidean"] = "cosine"
    n_epochs: int | None = None
    init: Literal["pca", "spectral", "random"] = "pca"
    engine: Literal["hfposemb", "umap-learn"] = "hfposemb"

    def __post_init__(self) -> None:
        if self.n_neighbors < 2 or not 0 <= self.min_dist <= 1 or (self.n_epochs is not None and self.n_epochs < 1):
            raise InputError(
                f"UMAP needs n_neighbors of at least 2, min_dist from 0 to 1 and n_epochs of at least 1; got {self}"
            )
        if self.metric not in ("cosine", "euclidean") or self.init not in ("pca", "spectral", "random"):
            raise InputError(
                f'UMAP needs the metric "cosine" or "euclidean", and init "pca", "spectral" or "random"; got {self}'
            )
        if self.engine not in ("hfposemb", "umap-learn"):
            raise InputError(f'UMAP needs the engine "hfposemb" or "umap-learn"; got {self.engine!r}')


T = TypeVar("T")


@dataclass(frozen=True)
class _Later(Generic[T]):
    """A value of a projection that is computed on first access."""

    make: Callable[[Projection], T]


class _Lazy(Generic[T]):
    """Descriptor for a field that may be set to a ``_Later``, which is replaced by its result on first access."""

    def __init__(self, *default: T) -> None:
        self.default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, owner: Projection | None, kind: type) -> T:
        if owner is None:  # the dataclass reads the field's default
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
class Projection(Tabular):
    """A projection of a table's rows to a few dimensions.

    NumPy takes it as its ``coordinates``. ``quality`` and ``trust`` are measured on first access, which takes longer
    than PCA itself for a large table; until then the projection keeps the table in memory.

    Attributes:
        coordinates: Points [n, dims] in float32.
        rows: Their table rows [n].
        left_out: Number of rows without a point: rows with NaN or Inf, and zero rows where cosines are used.
        method: ``"pca"``, ``"umap"`` or the class of an estimator.
        dims: Number of dimensions.
        seed: Random seed.
        parameters: Parameters of the method.
        explained_variance_ratio: Share of variance of each dimension [dims]; ``None`` unless the method is PCA.
        name: Name of the table.
        quality: How well neighbourhoods survive, averaged over points.
        trust: The same for single points: all of them, or a seeded sample of a large table.

    Examples:
        >>> import hfposemb as hpe
        >>> hpe.project(hpe.sinusoidal(64, 16).position, dims=3).coordinates.shape
        (64, 3)
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

    def __len__(self) -> int:
        """Return the number of points."""
        return len(self.coordinates)

    def __iter__(self) -> Iterator[NDArray[np.float32]]:
        """Yield the coordinates of every point [dims]."""
        return iter(self.coordinates)

    def __getitem__(self, key: Any) -> Any:
        """Return ``coordinates[key]``."""
        return self.coordinates[key]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the coordinates for NumPy, a copy if ``copy`` is true."""
        return np.asarray(np.array(self.coordinates, dtype) if copy else np.asarray(self.coordinates, dtype))

    @property
    def measured(self) -> bool:
        """Whether ``quality`` is known already, so that reading it is instant."""
        return not isinstance(vars(self)["quality"], _Later) and self.quality.points > 0

    def __getstate__(self) -> dict[str, Any]:
        """Return all fields, measured, since a pickle does not contain the table."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    def take(self, places: NDArray[np.int64]) -> Projection:
        """Return a projection of the points at ``places`` [m], in that order, with their rows and trust.

        ``quality`` remains that of the whole projection.

        Raises:
            InputError: If a place does not exist or occurs twice.
        """
        count, chosen = len(self.rows), np.asarray(several(places), np.int64)
        if chosen.ndim != 1 or len(np.unique(chosen)) < len(chosen) or not np.isin(chosen, np.arange(count)).all():
            raise InputError(f"take() needs distinct indices from 0 to {count - 1:,}; got {places!r:.80}")

        def trust_of(_: Projection) -> PointTrust | None:
            found = None if self.trust is None else self.trust.take(chosen)
            return found if found is not None and len(found.points) else None

        # Not dataclasses.replace, which reads every field and so would trigger the measurement.
        later = {"trust": _Later(trust_of), "quality": _Later(lambda _: self.quality)}
        kept = {"rows": self.rows[chosen], "coordinates": self.coordinates[chosen], **later}
        return Projection(**{**vars(self), **kept})

    def columns(self) -> Columns:
        """Return one row per point: ``row`` of the table, ``x``, ``y`` and, in three dimensions, ``z``."""
        return {"row": self.rows, **dict(zip("xyz", self.coordinates.T, strict=False))}

    @property
    def _known_quality(self) -> Quality | None:
        """The quality if it is known or known soon; of a large table it is not measured for being shown."""
        return self.quality if self.measured or len(self.rows) <= MEASURED_TO_SHOW else None

    def _repr_html_(self) -> str:
        ratio = self.explained_variance_ratio
        facts = {
            "points": f"{len(self.rows):,} in {self.dims}-D, {self.left_out:,} rows left out",
            "method": ", ".join([self.method, f"seed {self.seed}", *(f"{k} {v}" for k, v in self.parameters.items())]),
            "variance": "" if ratio is None else f"{ratio.sum():.1%}",
        }
        if (quality := self._known_quality) is None:
            facts["quality"] = "not measured yet; .quality measures it"
        else:
            kept = f"{quality.neighbours_kept:.1%} of {quality.k} (chance: {quality.kept_by_chance:.1%})"
            facts |= {"trustworthiness": f"{quality.trustworthiness:.3f}", "continuity": f"{quality.continuity:.3f}"}
            facts["neighbours kept"] = kept
        return card(f"Projection of {self.name}", [fact for fact in facts.items() if fact[1]])

    def __repr__(self) -> str:
        ratio = self.explained_variance_ratio
        variance = "" if ratio is None else f", {ratio.sum():.1%} of the variance"
        left_out = f", {self.left_out:,} rows left out" if self.left_out else ""
        quality = ""
        if (found := self._known_quality) is not None:
            quality = f", trustworthiness {found.trustworthiness:.3f}, continuity {found.continuity:.3f}"
            quality += f", {found.neighbours_kept:.1%} of {found.k} neighbours kept"
        by = " by umap-learn" if self.parameters.get("engine") == "umap-learn" else ""
        return (
            f"Projection({self.method}{by} of {self.name}: {len(self.rows):,} points in {self.dims}-D, seed {self.seed}"
            f"{variance}{quality}{left_out})"
        )


@dataclass(frozen=True, eq=False)
class Layout:
    """Coordinates of ``rows`` and, for PCA, the share of variance along each dimension."""

    rows: NDArray[np.int64]
    coordinates: NDArray[np.floating]
    ratio: NDArray[np.float64] | None = None


def pca(table: EmbeddingTable, dims: int, *, progress: Progress | None = None) -> Layout:
    """Project a table onto the leading eigenvectors of its scatter matrix, reading it in blocks and sampling nothing.

    The sign of a component makes its loading of largest magnitude positive. Coordinates along directions without
    variance are 0.

    Args:
        table: Table [n, d].
        dims: Number of components.
        progress: Callback for the share done, 0 to 1, and the stage.
    """
    single = table.shape[0] > DOUBLE_ROWS
    found = scatter(table, single=single, progress=progress)
    rows, ratio = np.flatnonzero(table.finite), np.zeros(dims)
    coordinates = np.zeros((len(rows), dims), np.float32)
    side = len(found.matrix)
    count = min(dims, side)
    total = found.total
    eigenvalues, vectors = leading_eigenvectors(found.matrix, count)
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
    # Loadings that differ only by rounding count as equal; the first of them determines the sign.
    decisive = (size >= size.max(axis=0) * (1 - 1e-9)).argmax(axis=0)
    components = components * np.sign(components[decisive, np.arange(count)])
    # Rounding grows with the length of the rows, so the mean may stay in them if it is not much longer than they are
    # without it; reading and writing all of them to subtract it takes as long as the product.
    late = single and float(found.mean @ found.mean) <= NEAR_MEAN**2 * total / found.rows
    _project_onto(components, table, found.mean, single=single, late=late, out=coordinates[:, :count])
    return Layout(rows, coordinates, ratio)


def _project_onto(
    components: NDArray[np.float64],
    table: EmbeddingTable,
    mean: NDArray[np.float64],
    *,
    single: bool,
    late: bool,
    out: NDArray[np.float32],
) -> None:
    """Write the coordinates [n, k] of a table's finite rows about their mean along components [d, k].

    The mean is subtracted from the rows, or if ``late`` from their coordinates.
    """
    dtype = table.dtype if single else np.dtype(np.float64)
    centre, onto, shift = mean.astype(dtype), components.astype(dtype), (mean @ components).astype(dtype)
    room = np.empty((0, table.shape[1]), dtype)  # buffer shared by all centred blocks
    start = 0
    for _, block in finite_blocks(table, single=single):
        part = out[start : start + len(block)]
        if late:
            np.subtract(block @ onto, shift, out=part, casting="same_kind")
        else:
            room = room if len(room) >= len(block) else np.empty(block.shape, dtype)
            part[:] = np.subtract(block, centre, out=room[: len(block)]) @ onto
        start += len(block)


def _start(
    table: EmbeddingTable, rows: NDArray[np.int64], graph: Any, dims: int, seed: int, parameters: UMAPParameters
) -> NDArray[np.float64]:
    """Return umap-learn's initial layout [n, dims], within ±10 and with a little noise, with exact PCA for "pca"."""
    generator = np.random.default_rng(seed)
    if parameters.init == "random":
        return generator.uniform(-10, 10, size=(len(rows), dims))
    known = np.zeros((len(rows), dims))
    if parameters.init == "pca":
        layout = pca(table, min(dims, table.shape[1]))
        found = layout.coordinates[np.isin(layout.rows, rows)]
    else:
        from umap.spectral import spectral_layout

        vectors = np.asarray(_vectors(table, rows), np.float32)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # where it does not converge, it falls back to a random layout
            found = spectral_layout(vectors, graph, dims, np.random.RandomState(seed), metric=parameters.metric)
    known[:, : found.shape[1]] = found * (10 / (np.abs(found).max() or 1))
    return known + generator.normal(scale=1e-4, size=known.shape)


def _umap(
    table: EmbeddingTable,
    dims: int,
    seed: int,
    parameters: UMAPParameters,
    progress: Progress,
    preview: Preview | None = None,
) -> Layout:
    rows = np.flatnonzero(usable(table, parameters.metric))
    if len(rows) <= parameters.n_neighbors:
        fewer = f", or umap=UMAPParameters(n_neighbors={len(rows) - 1})" if len(rows) > 2 else ""
        raise InputError(
            f"UMAP with {parameters.n_neighbors} neighbours needs more than {parameters.n_neighbors} rows; "
            f"{table.name} has {len(rows)}: use method='pca'{fewer}"
        )
    progress(0.0, "preparing UMAP")
    umap = compiled_umap()
    if parameters.engine == "umap-learn":
        progress(0.0, "umap-learn")
        return Layout(rows, _by_umap_learn(umap, _vectors(table, rows), dims, seed, parameters))
    from .umap_layout import optimised_layout

    curve = umap.umap_.find_ab_params(1.0, parameters.min_dist)
    start = None
    if _is_coarse(len(rows), parameters):
        progress(0.0, "first layout")
        start = _coarse(table, rows, dims, seed, parameters)
        if preview is not None:
            preview(rows, start.astype(np.float32))
    graph = _graph(*_nearest(table, rows, parameters, seed, progress), parameters, seed)
    progress(0.3, "graph")
    if start is None:
        start = _start(table, rows, graph, dims, seed, parameters)
    epochs = parameters.n_epochs or (500 if len(rows) <= 10_000 else 200)
    shown_at = time.monotonic()

    def report(epoch: int, points: NDArray[np.float32]) -> None:
        nonlocal shown_at
        progress(0.4 + 0.6 * epoch / epochs, f"layout, epoch {epoch} of {epochs}")
        if preview is not None and time.monotonic() - shown_at >= PREVIEW_SECONDS:
            preview(rows, points.copy())
            shown_at = time.monotonic()

    return Layout(rows, optimised_layout(graph, start, epochs=epochs, curve=curve, seed=seed, each=report))


def _by_umap_learn(
    umap: Any, vectors: NDArray[np.floating], dims: int, seed: int, parameters: UMAPParameters
) -> NDArray[np.floating]:
    """Return the layout [n, dims] of umap-learn's own ``UMAP``."""
    chosen = asdict(parameters)
    del chosen["engine"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where a start does not converge, it falls back to a random layout
        model = umap.UMAP(n_components=dims, random_state=seed, n_jobs=1, **chosen)
        found: NDArray[np.floating] = model.fit_transform(np.asarray(vectors, np.float32))
    return found


def _is_coarse(rows: int, parameters: UMAPParameters) -> bool:
    return rows >= COARSE_ROWS and parameters.init == "pca" and parameters.engine == "hfposemb"


def _coarse(
    table: EmbeddingTable, rows: NDArray[np.int64], dims: int, seed: int, parameters: UMAPParameters
) -> NDArray[np.float64]:
    """Return the layout of a sample of rows, with each other row at the most similar of them [n, dims], within ±10."""
    from sklearn.metrics import pairwise_distances_argmin

    generator = np.random.default_rng(seed)
    chosen = np.sort(generator.choice(len(rows), COARSE_SAMPLE, replace=False))
    sample = _umap(table.pick(rows[chosen]), dims, seed, replace(parameters, n_epochs=200), lambda *_: None)
    points = sample.coordinates - sample.coordinates.mean(axis=0, dtype=np.float64)
    layout = pca(table, min(MOST_COMPONENTS, table.shape[1]))
    along = layout.coordinates[np.isin(layout.rows, rows)]
    found = points[pairwise_distances_argmin(along, along[chosen])] * (10 / np.abs(points).max())
    placed: NDArray[np.float64] = found + generator.normal(scale=COARSE_JITTER, size=found.shape)
    return placed


def _graph(indices: NDArray[np.int32], distances: NDArray[np.float32], parameters: UMAPParameters, seed: int) -> Any:
    """Return UMAP's fuzzy simplicial set, a sparse matrix [n, n], from neighbours and their distances [n, k]."""
    found = compiled_umap().umap_.fuzzy_simplicial_set(
        indices, parameters.n_neighbors, np.random.RandomState(seed), parameters.metric, {}, indices, distances
    )
    return found[0]


def _vectors(table: EmbeddingTable, rows: NDArray[np.int64]) -> NDArray[np.floating]:
    return all_rows(table) if len(rows) == table.shape[0] else all_rows(table)[rows]


def _nearest(
    table: EmbeddingTable, rows: NDArray[np.int64], parameters: UMAPParameters, seed: int, progress: Progress
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return the places of the neighbours of ``rows`` and their distances [n, k], each row itself first."""
    metric, k = parameters.metric, parameters.n_neighbors
    if len(rows) > EXACT_ROWS:
        progress(0.0, "neighbours")
        near = compiled_umap().umap_.nearest_neighbors
        vectors, random = np.asarray(_vectors(table, rows), np.float32), np.random.RandomState(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of rows for which fewer are found, as where many are equal
            indices, distances, _ = near(vectors, k, metric, {}, metric == "cosine", random)
        return indices, distances

    def report(share: float, stage: str) -> None:
        progress(0.3 * share, stage)

    exact = all_neighbours(table, k=k - 1, metric=metric, progress=report)
    distances = exact.values if metric == "euclidean" else np.maximum(1 - exact.values, 0)
    own = np.arange(len(rows))[:, None]
    return (
        np.hstack([own, np.searchsorted(rows, exact.indices)]).astype(np.int32),
        np.hstack([np.zeros(own.shape), distances]).astype(np.float32),
    )


def project(  # noqa: PLR0913 - keywords with defaults
    value: EmbeddingTable | PositionEncoding,
    method: Method = "pca",
    dims: int = 2,
    *,
    rows: Sequence[int | str] | NDArray[np.integer] | None = None,
    seed: int = 0,
    umap: UMAPParameters | None = None,
    progress: Progress | Literal[False] | None = None,
    preview: Preview | None = None,
) -> Projection:
    """Project a table to ``dims`` dimensions by PCA or UMAP.

    PCA is exact and does not depend on the seed. UMAP is reproducible for a given seed on a given machine. Quality is
    measured by Euclidean distance for PCA, and by UMAP's own metric for UMAP.

    Args:
        value: Table or position encoding [n, d].
        method: ``"pca"`` or ``"umap"``; or an estimator with ``fit_transform``, such as scikit-learn's ``TSNE()``.
        dims: Number of dimensions: 1 to 50 for PCA, 2 or 3 for UMAP. An estimator has its own.
        rows: Rows to project, by number or label; all by default.
        seed: Random seed.
        umap: UMAP parameters; defaults if ``None``.
        progress: Callback for the share done, 0 to 1, and the stage. By default a bar is drawn in terminals and
            notebooks (``progress.shown``); ``False`` disables it.
        preview: Callback for the rows [m] and the coordinates [m, dims] of an unfinished layout of UMAP, called every
            few seconds. The result does not depend on it.

    Raises:
        InputError: If the method or ``dims`` is not supported, or the table is too small.
        MissingExtraError: If the method is ``"umap"`` and umap-learn is not installed.

    Examples:
        >>> import hfposemb as hpe
        >>> found = hpe.project(hpe.sinusoidal(64, 16).position, dims=3)
        >>> found.explained_variance_ratio.round(3).tolist()
        [0.221, 0.18, 0.152]
    """
    table = table_in(value)
    if rows is not None:
        places = np.array([table.row(one) for one in several(rows)], np.int64)
        options: dict[str, Any] = {"seed": seed, "umap": umap, "progress": progress, "preview": preview}
        found = project(table.pick(places), method, dims, **options)
        return Projection(**{**vars(found), "rows": places[found.rows]})
    if not isinstance(method, str) and hasattr(method, "fit_transform"):
        with shown(f"{type(method).__name__} of {table.name}", progress) as told:
            return _made(table, Layout(*fitted(method, table)), type(method).__name__, seed, {"estimator": str(method)})
    method = method_named(method)
    if method == "umap" and dims not in (2, 3):
        raise InputError(f"UMAP needs dims 2 or 3; got {dims}")
    if method == "pca" and not 1 <= dims <= min(MOST_COMPONENTS, table.shape[1]):
        most = min(MOST_COMPONENTS, table.shape[1])
        raise InputError(f"PCA of {table.name} needs dims from 1 to {most}; got {dims}")
    fits_single(table)
    if method == "umap":
        if not 0 <= seed < 2**32:
            raise InputError(f"UMAP needs a seed from 0 to 4,294,967,295; got {seed}")
        require_umap()
    with shown(f"{method.upper()} of {table.name}", progress) as told:
        return _projected(table, method, dims, seed, umap or UMAPParameters(), told, preview)


def _projected(
    table: EmbeddingTable,
    method: Literal["pca", "umap"],
    dims: int,
    seed: int,
    chosen: UMAPParameters,
    progress: Progress,
    preview: Preview | None,
) -> Projection:
    parameters: dict[str, object]
    if method == "pca":
        progress(0.0, "components")
        parameters, layout = {"solver": "covariance_eigh"}, pca(table, dims, progress=progress)
    else:
        layout = _umap(table, dims, seed, chosen, progress, preview)
        exact = LEARN_EXACT_ROWS if chosen.engine == "umap-learn" else EXACT_ROWS
        search = "exact" if len(layout.rows) <= exact else "approximate"
        parameters = {**asdict(chosen), "neighbour_search": search}
        if _is_coarse(len(layout.rows), chosen):
            parameters["init"] = "layout of a sample"

    progress(1.0, "done")
    return _made(table, layout, method, seed, parameters)


def _made(table: EmbeddingTable, layout: Layout, method: str, seed: int, parameters: dict[str, object]) -> Projection:
    found = Projection(
        coordinates=np.ascontiguousarray(layout.coordinates, np.float32),
        rows=layout.rows,
        left_out=table.shape[0] - len(layout.rows),
        method=method,
        dims=layout.coordinates.shape[1],
        seed=seed,
        parameters=parameters,
        explained_variance_ratio=layout.ratio,
        quality=NOT_MEASURED,
        name=table.name,
    )
    return measured_by(found, lambda: trust_of(found, table))


def measured_by(found: Projection, measure: Callable[[], PointTrust]) -> Projection:
    """Return the same projection with quality and trust measured by a function when they are first read."""
    later = {"trust": _Later(lambda _: measure()), "quality": _Later(_quality)}
    return Projection(**{**vars(found), **later})


def trust_of(found: Projection, table: EmbeddingTable) -> PointTrust:
    """Measure a projection of a table: by Euclidean distance for PCA, and by UMAP's own metric for UMAP."""
    metric: Literal["cosine", "euclidean"] = "euclidean"
    if found.method == "umap" and found.parameters["metric"] == "cosine":
        metric = "cosine"
    return point_trust(table, found.coordinates, rows=found.rows, metric=metric, seed=found.seed)


def _quality(found: Projection) -> Quality:
    assert found.trust is not None
    return found.trust.quality
