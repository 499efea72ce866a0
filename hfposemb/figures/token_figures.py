"""Figures of vocabularies: token maps, neighbour lists and clouds of words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..errors import InputError
from ..tables.table import TOKEN_CLASSES, Labels
from . import label_placement
from .graph_objects import go
from .label_placement import Corner, wide
from .map_names import MAP_WIDTH, island_names, region_names, token_name
from .matrix_figures import as_matrix, heatmap
from .palette import CLASSES, GROUPS, POSITION, SHARE
from .position_figures import cloud_of, cube_axes, dots_3d, kept_rows, point_index, scene_3d
from .style import (
    ACCENT,
    BASELINE,
    CLASS_COLOURS,
    EYE,
    INK,
    PAGE,
    PANEL,
    SUBDUED,
    UNMEASURED,
    Array,
    add_label,
    bare_figure,
    decimal_places,
    equal_axes,
    escape,
    escaped,
    finite_span,
    link_axis,
    new_figure,
    plotly_scale,
)

if TYPE_CHECKING:
    from ..analysis.projection.map_regions import Region
    from ..analysis.projection.projecting import Projection
    from ..composition.variance_decomposition import Club


def class_counts(labels: Labels, *, rows: Sequence[int] | Array | None = None) -> dict[str, int]:
    """Return the number of tokens of each class, largest first; their colours are ``CLASS_COLOURS``.

    Args:
        labels: The vocabulary.
        rows: Rows to count, by default all.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.figures.token_figures import class_counts
        >>> class_counts(hpe.extract("sample:bert").token.labels)
        {'word start': 3052, 'continuation': 939, 'special': 5, 'unused': 4}
    """
    classes = labels.classes if rows is None else labels.classes[np.asarray(rows)]
    counts = np.bincount(classes, minlength=len(TOKEN_CLASSES))
    order = np.argsort(-counts, kind="stable")
    return {TOKEN_CLASSES[place]: int(counts[place]) for place in order if counts[place]}


def token_map(  # noqa: PLR0913 - keywords with defaults
    p: Projection,
    labels: Labels,
    *,
    color: Literal["class", "id", "trust"] | Array = "class",
    selected: int | None = None,
    neighbours: Sequence[int] = (),
    regions: Sequence[Region] = (),
    link: str | None = "token",
    height: int = 720,
) -> go.Figure:
    """Draw a whole vocabulary, one dot per token.

    In two dimensions, the surroundings of the selected token are enlarged in the emptiest corner.

    Args:
        p: Projection of the token table to 2 or 3 dimensions.
        labels: The vocabulary.
        color: Colour by class, by id, by numbers (one per label), or by trust: the share of a token's nearest that are
            near it on the map. Tokens without a number (NaN, or trust not measured) are faint.
        selected: Row that is marked and labelled, if any.
        neighbours: Further rows that are marked and labelled.
        regions: Regions that are named in two dimensions, as far as there is room; without any, islands apart from the
            others are named by their class.
        link: Group for linked hover, if any.
        height: Height in pixels.

    Raises:
        InputError: If labels, colours or rows do not match the projection, or its trust was not measured.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.figures.token_figures import token_map
        >>> table = hpe.extract("sample:bert").token
        >>> figure = token_map(hpe.project(table, method="pca", dims=2), table.labels)
        >>> [trace.name for trace in figure.data]
        ['word start', 'continuation', 'special', 'unused']
    """
    points, rows = cloud_of(p), np.asarray(p.rows)
    if len(rows) and int(rows.max()) >= len(labels):
        raise InputError(f"the projection has row {int(rows.max()):,}, but there are only {len(labels):,} labels")
    looked_at = isinstance(color, str) and color == "trust"
    kept = kept_rows(p) if p.measured or looked_at else None  # drawing a map does not trigger the measurement
    if isinstance(color, str) and color == "trust":
        if p.trust is None or kept is None:
            raise InputError(
                f"the quality of this projection of {p.name} was not measured; colour by class, id or numbers"
            )
        color = np.full(len(labels), np.nan, np.float32)
        color[rows[p.trust.points]] = p.trust.neighbours_kept
    layers = _layers(rows, labels, color)
    chosen = [point_index(p, row) for row in ([] if selected is None else [selected, *neighbours])]
    names = [escape(labels[int(rows[index])]).strip() or "(space)" for index in chosen]
    texts = escaped(labels)[rows]
    tokens = _Tokens(points, rows, texts, labels.classes[rows], layers, link, kept)
    if points.shape[1] == 3:
        return _token_map_3d(tokens, chosen, names, height)
    return _token_map_2d(tokens, chosen, names, height, regions)


@dataclass(frozen=True, eq=False)
class _Layer:
    """Dots of the same style: ``at`` are indices in the projection; later layers are drawn on top."""

    name: str
    at: Array
    marker: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class _Tokens:
    points: Array
    rows: Array
    texts: Array
    classes: Array
    layers: Sequence[_Layer]
    link: str | None
    kept: tuple[Array, int] | None

    def trace(self, kind: Any, layer: _Layer, size: float, **more: Any) -> Any:
        """Return a layer as a plotly trace; layers of few dots are drawn larger, so that they can be found."""
        few = len(layer.at) <= 50 < len(self.rows) and layer.marker["opacity"] > UNMEASURED
        names = dict(zip("xyz", self.points[layer.at].T, strict=False))
        part = isinstance(layer.marker["color"], np.ndarray) and len(layer.at) < len(self.rows)
        marker = {"line": {"width": 0}, **layer.marker, "size": 2.8 * size if few else 1.6 * size if part else size}
        if few:
            marker["opacity"] = 1
        opacity = {"opacity": marker.pop("opacity")} if kind is go.Scatter3d else {}
        return kind(
            **names,
            mode="markers",
            name=layer.name,
            marker=marker,
            text=self.texts[layer.at],
            hoverinfo="none",
            **opacity,
            **link_axis(self.link, self.rows[layer.at], kept=self.kept and (self.kept[0][layer.at], self.kept[1])),
            **more,
        )


def _layers(rows: Array, labels: Labels, color: Literal["class", "id"] | Array) -> list[_Layer]:
    if isinstance(color, str) and color == "class":
        classes, counts = labels.classes[rows], class_counts(labels, rows=rows)
        layers: list[_Layer] = []
        for name in counts:
            opacity = 0.4 if not layers else 0.65
            marker = {"color": CLASS_COLOURS[name], "opacity": opacity}
            layers.append(_Layer(name, np.flatnonzero(classes == TOKEN_CLASSES.index(name)), marker))
        return layers
    if isinstance(color, str) and color != "id":
        raise InputError(f'color must be "class", "id" or one number per token; got {color!r}')
    values = np.asarray(rows if isinstance(color, str) else np.asarray(color)[rows], np.float32)
    finite = values[np.isfinite(values)]
    low, high = np.quantile(finite, (0.01, 0.99)).tolist() if finite.size else (0.0, 1.0)
    scale = POSITION if isinstance(color, str) else SHARE
    paint = {"cmin": low, "cmax": high if high > low else low + 1, "colorscale": scale.stops(), "showscale": False}
    known = np.isfinite(values)
    without = [_Layer("no value", np.flatnonzero(~known), {"color": BASELINE, "opacity": UNMEASURED})]
    numbers = _Layer("tokens", np.flatnonzero(known), {"color": values[known], "opacity": 0.65, **paint})
    return [*([] if known.all() else without), numbers]


def _token_map_3d(tokens: _Tokens, chosen: Sequence[int], names: Sequence[str], height: int) -> go.Figure:
    points = tokens.points
    middle, half = cube_axes(points)
    traces = [tokens.trace(go.Scatter3d, layer, 1.8) for layer in tokens.layers]
    notes = []
    if chosen:
        at = points[list(chosen)]
        traces += [dots_3d(dots, ACCENT, size) for dots, size in ((at[1:], 5), (at[:1], 9)) if len(dots)]
        size = (float(height), float(height))
        anchors, crowd = (
            label_placement.on_screen((q - middle) / (2 * half), eye=EYE, size=size) for q in (at, points)
        )
        for index, offset in enumerate(label_placement.beside_dots(anchors, names, crowd, size=size)):
            place: dict[str, Any] = dict(zip("xyz", map(float, at[index]), strict=True))
            notes.append(token_name(names[index], chosen=index == 0, at=offset, bgcolor=PANEL, **place))
    return new_figure(traces, height=height, margin=dict.fromkeys("lrtb", 0), scene=scene_3d(middle, half, notes))


def _token_map_2d(
    tokens: _Tokens, chosen: Sequence[int], names: Sequence[str], height: int, regions: Sequence[Region]
) -> go.Figure:
    points = tokens.points.astype(np.float64)
    low, high = points.min(axis=0), points.max(axis=0)
    extent = np.where(high > low, high - low, 1.0)
    low, high, extent = low - 0.02 * extent, high + 0.02 * extent, 1.04 * extent
    corner = label_placement.empty_corner((points - low) / extent) if chosen else None
    if chosen and corner is None:
        low[0] -= 0.5 * extent[0]  # no corner is empty: make room on the left
        extent = high - low
        corner = (0.0, 0.3, 0.68, 1.0)
    traces = [tokens.trace(go.Scattergl, layer, 2.6) for layer in tokens.layers]
    layout: dict[str, Any] = {
        "xaxis": bare_figure(range=[float(low[0]), float(high[0])]),
        "yaxis": bare_figure(range=[float(low[1]), float(high[1])]),
    }
    if chosen and corner is not None:
        room = np.asarray([float(MAP_WIDTH), float(height)])
        spot = _Spot(tokens, (points - low) / extent, low, extent, chosen, names, corner, room)
        traces += spot.dots()
        layout |= spot.layout()
    notes = layout.get("annotations", ())
    if regions:
        frames = [shape for shape in layout.get("shapes", ()) if "xref" not in shape]
        more = region_names(regions, (points - low) / extent, low, extent, corner, height, [*notes, *frames])
    else:
        more = island_names(tokens.points, tokens.classes, low, extent, corner, height)
    layout["annotations"] = [*more, *notes]
    return new_figure(traces, height=height, margin=dict.fromkeys("lrtb", 0), **layout)


EDGE = 1.1  # width of the enlarged region, in that of its dots
TITLE = 24  # pixels of the line above them


@dataclass(frozen=True, eq=False)
class _Spot:
    """The selected token and its neighbours on the 2-D map, and the enlarged surroundings."""

    tokens: _Tokens
    unit: Array  # the points in the unit square
    low: Array
    extent: Array
    chosen: Sequence[int]
    names: Sequence[str]
    corner: Corner
    room: Array  # size of the map in pixels

    @property
    def half(self) -> float:
        """Half the width of the enlarged region, chosen to contain most neighbours that are close on the map."""
        away = self._away()
        near = away[1:][away[1:] < 0.06]
        return float(np.clip(1.3 * np.quantile(near, 0.75), 0.012, 0.075)) if len(near) else 0.03

    def _away(self) -> Array:
        return np.asarray(np.abs(self.unit[list(self.chosen)] - self.unit[self.chosen[0]]).max(axis=1))

    def _window(self) -> tuple[Array, Array]:
        """Return the corners of the enlarged region, which is a little wider than its dots, so that none is cut."""
        centre = self.unit[self.chosen[0]]
        return centre - EDGE * self.half, centre + EDGE * self.half

    @property
    def top(self) -> float:
        """The upper end of the enlarged dots, below the line that says whose they are."""
        return float(self.corner[3] - TITLE / self.room[1])

    def dots(self) -> list[Any]:
        """Return the marked dots, on the map and enlarged, and everything around them enlarged."""
        inside: Array = np.abs(self.unit - self.unit[self.chosen[0]]).max(axis=1) < self.half
        traces = []
        for layer in self.tokens.layers:
            at = layer.at[inside[layer.at]]
            if not len(at):
                continue
            color = layer.marker["color"]
            part = color if isinstance(color, str) else color[inside[layer.at]]
            marker = {**layer.marker, "color": part, "opacity": 0.9}
            traces.append(self.tokens.trace(go.Scattergl, _Layer(layer.name, at, marker), 6, xaxis="x2", yaxis="y2"))
            traces[-1].marker.size = 6
        chosen = np.asarray(self.chosen)
        for at, size, axes in (
            (chosen, 6, {}),
            (chosen[1:][inside[chosen[1:]]], 9, {"xaxis": "x2", "yaxis": "y2"}),
            (chosen[:1], 13, {"xaxis": "x2", "yaxis": "y2"}),
        ):
            if not len(at):
                continue
            x, y = self.tokens.points[at].T
            marker = {"size": size, "color": ACCENT, "opacity": 1, "line": {"width": 0}}
            traces.append(go.Scattergl(x=x, y=y, mode="markers", marker=marker, hoverinfo="skip", **axes))
        return traces

    def layout(self) -> dict[str, Any]:
        """Return the axes and background of the enlarged corner, the frame around its region, and all labels."""
        low, high = (self.low + edge * self.extent for edge in self._window())
        x0, x1, y0, y1 = self.corner
        ground = {"type": "rect", "xref": "paper", "yref": "paper", "x0": x0, "x1": x1, "y0": y0, "y1": y1}
        frame = {"type": "rect", "x0": low[0], "x1": high[0], "y0": low[1], "y1": high[1]}
        title = {"xref": "paper", "yref": "paper", "x": x0, "y": y1, "xanchor": "left", "yanchor": "top"}
        return {
            "xaxis2": bare_figure(range=[float(low[0]), float(high[0])], domain=[x0, x1], anchor="y2"),
            "yaxis2": bare_figure(range=[float(low[1]), float(high[1])], domain=[y0, self.top], anchor="x2"),
            "shapes": [
                {**ground, "fillcolor": PAGE, "line": {"width": 0}, "layer": "below"},
                {**frame, "line": {"color": ACCENT, "width": 1.5}},
            ],
            "annotations": [
                add_label(f"{self.names[0]}, enlarged", colour=SUBDUED, at=(8, -8), bgcolor=PAGE, **title),
                self._pointer(),
                *self._inside_names(),
                *self._far_names(),
            ],
        }

    def _pointer(self) -> dict[str, Any]:
        """Return the selected token's label next to its frame, with a leader line, where the map is emptiest."""
        crowd = self.unit * self.room
        edge = self.half * self.room
        spot = crowd[self.chosen[0]]
        best = label_placement.pointer(
            self.names[0], at=spot, edge=edge, crowd=crowd, room=self.room, inset=self.corner
        )
        at = self.low + self.unit[self.chosen[0]] * self.extent
        arrow = {
            "showarrow": True,
            "arrowhead": 0,
            "arrowwidth": 1.5,
            "arrowcolor": ACCENT,
            "standoff": float(edge.min()),
        }
        place = {"x": float(at[0]), "y": float(at[1]), "ax": best[0], "ay": -best[1]}
        return token_name(self.names[0], chosen=True, at=(0, 0), bgcolor=PANEL, **arrow, **place)

    def _inside_names(self) -> list[dict[str, Any]]:
        low, high = self._window()
        x0, x1, y0, _ = self.corner
        size = np.asarray([x1 - x0, self.top - y0]) * self.room
        inside = [place for place, away in enumerate(self._away()) if away < self.half]
        crowd = (self.unit - low) / (high - low) * size
        crowd = crowd[((crowd > 0) & (crowd < size)).all(axis=1)]
        anchors = (self.unit[[self.chosen[place] for place in inside]] - low) / (high - low) * size
        return self._beside(inside, anchors, crowd, size, bgcolor=PAGE, xref="x2", yref="y2")

    def _far_names(self) -> list[dict[str, Any]]:
        """Return labels of neighbours in the table that are elsewhere on the map."""
        far = [place for place, away in enumerate(self._away()) if away >= self.half][:6]
        crowd = self.unit * self.room
        anchors = crowd[[self.chosen[place] for place in far]]
        return self._beside(far, anchors, crowd, self.room, bgcolor=PANEL)

    def _beside(
        self, places: Sequence[int], anchors: Array, crowd: Array, size: Array, **more: str
    ) -> list[dict[str, Any]]:
        """Return labels next to the dots at ``anchors``, except those that would hide an earlier one."""
        names = [self.names[place] for place in places]
        offsets = label_placement.beside_dots(anchors, names, crowd, size=(float(size[0]), float(size[1])))
        kept = label_placement.unhidden(anchors, names, offsets)
        return [self._named(places[turn], offsets[turn], **more) for turn in kept]

    def _named(self, place: int, offset: tuple[float, float], **more: str) -> dict[str, Any]:
        """Return a label next to its dot, with an opaque background: text among dots is illegible."""
        at = self.tokens.points[self.chosen[place]]
        return token_name(self.names[place], chosen=place == 0, at=offset, x=float(at[0]), y=float(at[1]), **more)


CLUB_COLOURS = tuple(colour.light for colour in (*GROUPS, CLASSES["special"]))
"""Colours of words in a cloud, by index."""


def club(
    found: Club, names: Sequence[str], *, by: Literal["word", "position"] = "word", height: int = 300
) -> go.Figure:
    """Draw a cloud of words, each at all places, in two dimensions.

    Args:
        found: The cloud.
        names: Names of its words.
        by: Whether to colour by word or by position.
        height: Height in pixels.

    Raises:
        InputError: If the number of names differs from the number of words.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.composition.added_positions import add_positions
        >>> from hfposemb.composition.variance_decomposition import sum_cloud
        >>> from hfposemb.figures.token_figures import club
        >>> bert = hpe.extract("sample:bert")
        >>> words = ["king", "queen"]
        >>> rows = [bert.token.labels.find(word) for word in words]
        >>> found = sum_cloud(add_positions(bert), bert, rows, [1, 2, 3]).club(amplitude=1.0)
        >>> [trace.name for trace in club(found, words).data]
        ['king', 'queen']
    """
    words, places = found.points.shape[:2]
    if len(names) != words:
        raise InputError(f"names must have one entry per word; got {len(names)} for {words} words")
    size = 5 if words * places < 600 else 4
    shown = [escape(name, width=24) for name in names]
    traces = []
    for word, name in enumerate(shown):
        x, y = found.points[word].T.astype(np.float32)
        paint: dict[str, Any] = {"color": CLUB_COLOURS[word % len(CLUB_COLOURS)]}
        if by == "position":
            low, high = finite_span([found.places])
            paint = {"color": found.places, "cmin": low, "cmax": high, "colorscale": POSITION.stops()}
        marker = {"size": size, "line": {"width": 0}, "opacity": 0.85, **paint}
        text = [f"{name} at position {place}" for place in found.places]
        traces.append(go.Scatter(x=x, y=y, mode="markers", marker=marker, text=text, name=name, hoverinfo="none"))
    middle, half = cube_axes(found.points.reshape(-1, 2))
    half *= 1.08
    return new_figure(traces, height=height, **equal_axes(middle - half, middle + half))


def share_rows(shares: Array, labels: Sequence[str]) -> go.Figure:
    """Draw shares from 0 to 1 as coloured strips, one per label, such as the neighbours a word keeps at every position.

    Args:
        shares: Shares [labels, n].
        labels: Names of the strips.

    Raises:
        InputError: If the number of labels differs from the number of strips.

    Examples:
        >>> import numpy as np
        >>> from hfposemb.figures.token_figures import share_rows
        >>> figure = share_rows(np.array([[1.0, 0.5], [0.2, 0.0]]), ["king", "queen"])
        >>> figure.layout.yaxis.ticktext
        ('king', 'queen')
    """
    shares = as_matrix(shares).astype(np.float32)
    if len(shares) != len(labels):
        raise InputError(f"labels must have one entry per row; got {len(labels)} for {list(shares.shape)}")
    count, width = shares.shape
    names = [escape(label, width=16) for label in labels]
    heat = heatmap(shares, SHARE, (0.0, 1.0), ygap=4, meta={"link": "position", "axes": "x"})
    heat.update(y0=(heat.dy - 1) / 2)
    rows = {**plotly_scale("", range(count), grid=False), "ticktext": names, "tickfont": {"color": INK}}
    return new_figure(
        [heat],
        height=34 * count + 60,
        margin={"l": 22 + int(max(map(wide, names))), "r": 22, "t": 8, "b": 44},
        xaxis={**plotly_scale("position", decimal_places(width), grid=False), "range": [-0.5, width - 0.5]},
        yaxis={**rows, "range": [count - 0.5, -0.5]},
    )
