"""Figures by name: what ``hfposemb export --figure`` writes, and a notebook draws in one line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..analysis.geometry import similarity_by_distance, spectrum
from ..analysis.projection import project
from ..analysis.rows import norms
from ..analysis.similarity_matrix import similarity
from ..errors import InputError
from ..tables.embeddings import Embeddings
from ..tables.encodings import PositionEncoding, Rotary
from ..tables.table import EmbeddingTable
from . import line_figures, matrix_figures, position_figures, style, token_figures
from .style import Series, listed

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from ..analysis.row_values import Floats

KERNEL = 256
"""Positions drawn of a mechanism that has no rows."""


def view(name: str, *sources: Embeddings) -> go.Figure:
    """Draw one or more sources as the view of a name does: see ``VIEWS`` and ``SIDE_BY_SIDE``.

    Raises ``InputError`` for a name that is not one, or for several sources where a view shows one, and what reading
    and measuring raise.
    """
    if not sources:
        raise InputError(f"the view {name!r} needs a source")
    if name in SIDE_BY_SIDE:
        return SIDE_BY_SIDE[name](sources)
    if name not in VIEWS:
        raise InputError(f"there is no view {name!r}; there are {listed([*VIEWS, *SIDE_BY_SIDE])}")
    if len(sources) > 1:
        raise InputError(f"the view {name!r} shows one source; {listed(list(SIDE_BY_SIDE))} show several")
    return VIEWS[name](sources[0])


def is_mechanism(encoding: PositionEncoding) -> bool:
    """Tell whether positions act on attention, and are no rows that are added to words."""
    return not encoding.has_table or isinstance(encoding, Rotary)


def likeness(table: EmbeddingTable) -> Floats:
    """Return the mean cosine by distance as far as it is drawn: half of the table, beyond which few pairs are left."""
    found = similarity_by_distance(table)
    return found[: max(2, len(found) // 2 + 1)]


def lengths(table: EmbeddingTable) -> Floats:
    """Return the norms of the rows as a log axis takes them: NaN for those that have none."""
    found = norms(table)
    return np.where(found > 0, found, np.nan)


def _rows(source: Embeddings) -> EmbeddingTable:
    """Return one row for each position. Raises ``InputError`` where positions are not rows."""
    encoding = source.position
    if is_mechanism(encoding):
        raise InputError(
            f"{source.name} has {encoding.kind} positions, which are no rows that are added; the views similarity and "
            "distance show what they do"
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
        raise InputError(f"{source.name} has no positions to compare: {encoding.kind}")
    return matrix_figures.similarity_matrix(
        encoding.matrix(kernel_length(encoding)).astype(np.float32), unit=encoding.unit
    )


def kernel_length(encoding: PositionEncoding) -> int:
    """Return how many positions are drawn of a mechanism."""
    return int(min(getattr(encoding, "length", KERNEL), KERNEL))


def _table(source: Embeddings) -> go.Figure:
    return matrix_figures.table_image(_rows(source).vectors, height=600)


def _tokens(source: Embeddings) -> go.Figure:
    table = source.token
    return token_figures.token_map(project(table, method="pca", dims=2), table.labels)


def _distance(sources: Sequence[Embeddings]) -> go.Figure:
    """Draw likeness against distance; all sources must have it in one unit."""
    encodings = [source.position for source in sources]
    units = [one.unit if is_mechanism(one) else "cosine" for one in encodings]
    if len(set(units)) > 1:
        of = listed([f"{source.name} in {unit}" for source, unit in zip(sources, units, strict=True)])
        raise InputError(f"one plot has one unit; these have several: {of}; draw them one by one")
    if units[0] == "none":
        raise InputError(f"{sources[0].name} has no positions to compare: {encodings[0].kind}")

    def profile(source: Embeddings) -> Floats:
        one = source.position
        if is_mechanism(one):
            return one.profile(-np.arange(kernel_length(one)))
        return likeness(_rows(source))

    return line_figures.similarity_by_distance(_series(sources, profile), unit=units[0], height=500)


def _norms(sources: Sequence[Embeddings]) -> go.Figure:
    return line_figures.norms_by_position(_series(sources, lambda source: lengths(_rows(source))), height=500)


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
"""Views of one source: its positions by PCA, how alike every two are, the table as an image, all tokens by PCA."""

SIDE_BY_SIDE: Mapping[str, Callable[[Sequence[Embeddings]], Any]] = {
    "distance": _distance,
    "norms": _norms,
    "variance": _variance,
}
"""Views of one or more sources in one plot: likeness by distance, norm by position, variance by component."""
