"""Figures by name, for ``hfposemb export --figure`` and for one-liners in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..analysis.geometry import similarity_by_distance, spectrum
from ..analysis.projection.projecting import project
from ..analysis.rows import norms
from ..analysis.similarity.similarity_matrix import similarity
from ..errors import InputError
from ..figures import line_figures, matrix_figures, position_figures, style, token_figures
from ..guesses import did_you_mean, several
from ..tables.embeddings import Embeddings
from ..tables.encodings import PositionEncoding
from ..tables.rotary import Rotary
from ..tables.table import EmbeddingTable
from .graph_objects import require_plotly
from .style import Series, listed

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from ..analysis.row_values import Floats

KERNEL = 256
"""Number of positions drawn of a mechanism that has no rows."""


def view(name: str, *sources: Embeddings) -> go.Figure:
    """Draw the named view of one or more sources.

    Args:
        name: A key of ``VIEWS`` (one source) or ``SIDE_BY_SIDE`` (several).
        sources: The sources.

    Raises:
        InputError: If there is no such view or no source, or if there are several for a view of one.
        MissingExtraError: If plotly is not installed.
        HfposembError: If a source cannot be read or measured.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.figures.named_figures import view
        >>> figure = view("norms", hpe.sinusoidal(64, 16), hpe.extract("sample:bert"))
        >>> [trace.name for trace in figure.data if trace.mode == "lines"]
        ['sinusoidal:64x16', 'sample:bert']
    """
    opened = [one for part in sources for one in several(part)]
    if not opened:
        raise InputError(f"the view {name!r} needs a source")
    require_plotly()
    if name in SIDE_BY_SIDE:
        return SIDE_BY_SIDE[name](opened)
    if name not in VIEWS:
        known = [*VIEWS, *SIDE_BY_SIDE]
        raise InputError(f"unknown view {name!r}; the views are {', '.join(known)}{did_you_mean(name, known)}")
    if len(opened) > 1:
        raise InputError(f"the view {name!r} shows one source; {listed([*SIDE_BY_SIDE])} show several")
    return VIEWS[name](opened[0])


def is_mechanism(encoding: PositionEncoding) -> bool:
    """Return whether positions act within attention, instead of being rows added to the input.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.figures.named_figures import is_mechanism
        >>> is_mechanism(hpe.extract("alibi:64x4").position), is_mechanism(hpe.sinusoidal(64, 16).position)
        (True, False)
    """
    return not encoding.has_table or isinstance(encoding, Rotary)


def mean_cosine_by_distance(table: EmbeddingTable) -> Floats:
    """Return the mean cosine by distance [n // 2 + 1], up to half of the table, beyond which few pairs are left.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.figures.named_figures import mean_cosine_by_distance
        >>> mean_cosine_by_distance(hpe.sinusoidal(64, 16).position.table).round(2)[:4].tolist()
        [1.0, 0.94, 0.8, 0.69]
    """
    found = similarity_by_distance(table)
    return found[: max(2, len(found) // 2 + 1)]


def positive_norms(table: EmbeddingTable) -> Floats:
    """Return the norms of the rows [n] for a log axis: NaN for rows that are zero or not finite.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.figures.named_figures import positive_norms
        >>> positive_norms(hpe.sinusoidal(64, 16).position.table).round(3)[:3].tolist()
        [2.828, 2.828, 2.828]
    """
    found = norms(table)
    return np.where(found > 0, found, np.nan)


def _rows(source: Embeddings) -> EmbeddingTable:
    """Return the table with one row per position. Raises ``InputError`` if positions are not rows."""
    encoding = source.position
    if is_mechanism(encoding):
        raise InputError(
            f"{source.name} has {encoding.kind} positions, which are not added vectors; use the view similarity or "
            "distance"
        )
    return encoding.table


def _positions(source: Embeddings) -> go.Figure:
    table = _rows(source)
    return position_figures.projection(project(table, method="pca", dims=min(3, table.shape[1])), height=600)


def _similarity(source: Embeddings) -> go.Figure:
    encoding = source.position
    if not is_mechanism(encoding):
        return matrix_figures.similarity_matrix(similarity(_rows(source)).astype(np.float32))
    if encoding.unit == "none":
        raise InputError(f"{source.name} has no positions to compare ({encoding.kind})")
    return matrix_figures.similarity_matrix(
        encoding.matrix(kernel_length(encoding)).astype(np.float32), unit=encoding.unit
    )


def kernel_length(encoding: PositionEncoding) -> int:
    """Return how many positions are drawn of a mechanism: all, but at most ``KERNEL``.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.figures.named_figures import kernel_length
        >>> kernel_length(hpe.extract("alibi:64x4").position), kernel_length(hpe.extract("alibi:2048x4").position)
        (64, 256)
    """
    return int(min(getattr(encoding, "length", KERNEL), KERNEL))


def _table(source: Embeddings) -> go.Figure:
    return matrix_figures.table_image(_rows(source).vectors, height=600)


def _tokens(source: Embeddings) -> go.Figure:
    table = source.token
    return token_figures.token_map(project(table, method="pca", dims=2), table.labels)


def _distance(sources: Sequence[Embeddings]) -> go.Figure:
    """Draw similarity against distance; all sources must have the same unit."""
    encodings = [source.position for source in sources]
    units = [one.unit if is_mechanism(one) else "cosine" for one in encodings]
    if len(set(units)) > 1:
        of = listed([f"{source.name} in {unit}" for source, unit in zip(sources, units, strict=True)])
        raise InputError(f"the sources have different units, {of}; draw them one by one")
    if units[0] == "none":
        raise InputError(f"{sources[0].name} has no positions to compare ({encodings[0].kind})")

    def profile(source: Embeddings) -> Floats:
        one = source.position
        if is_mechanism(one):
            return one.profile(-np.arange(kernel_length(one)))
        return mean_cosine_by_distance(_rows(source))

    return line_figures.similarity_by_distance(_series(sources, profile), unit=units[0], height=500)


def _norms(sources: Sequence[Embeddings]) -> go.Figure:
    return line_figures.norms_by_position(_series(sources, lambda source: positive_norms(_rows(source))), height=500)


def _variance(sources: Sequence[Embeddings]) -> go.Figure:
    return line_figures.explained_variance(
        _series(sources, lambda source: spectrum(_rows(source)).cumulative, marks=(2,)), height=500
    )


def _series(sources: Sequence[Embeddings], values: Callable[[Embeddings], Floats], **more: Any) -> tuple[Series, ...]:
    return tuple(
        Series(source.name, values(source).astype(np.float32), *style.source_style(place), **more)
        for place, source in enumerate(sources)
    )


VIEWS: Mapping[str, Callable[[Embeddings], Any]] = {
    "positions": _positions,
    "similarity": _similarity,
    "table": _table,
    "tokens": _tokens,
}
"""Views of one source: positions by PCA, similarity of every two positions, the table as an image, tokens by PCA."""

SIDE_BY_SIDE: Mapping[str, Callable[[Sequence[Embeddings]], Any]] = {
    "distance": _distance,
    "norms": _norms,
    "variance": _variance,
}
"""Views of one or more sources in one plot: similarity by distance, norm by position, variance by component."""
