"""Figures of positions and projections in two and three dimensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..comparison.table_side import rows_of
from ..errors import InputError
from ..text import tick
from . import label_placement
from .cloud_frame import CloudFrame, best_camera
from .graph_objects import go
from .palette import CLASSES, POSITION
from .style import (
    CLEAR,
    COIL,
    EYE,
    FAINT,
    INK,
    PANEL,
    RING,
    SVG_POINTS,
    Array,
    add_label,
    equal_axes,
    escape,
    finite_span,
    link_axis,
    new_figure,
)

if TYPE_CHECKING:
    from ..analysis.projection.projecting import Projection
    from ..comparison.aligned_maps import AlignedMaps
    from ..comparison.moved_words import Moves

RATIO = 1.17  # width of a plot relative to its height, where labels and the camera are chosen
LEADER = 16  # pixels from a point to its label
STUBS = 4  # runs of rows far outside that are labelled


def projection(
    p: Projection, *, joined: bool = True, named: Sequence[int] = (), trust: bool = False, height: int = 340
) -> go.Figure:
    """Draw every row of a projection as a dot in two or three dimensions, coloured by row order.

    The plot fits the 1st to 99th percentile. A row far outside of it is drawn as a labelled stub at its border.

    Args:
        p: The projection.
        joined: Whether to connect the dots in order.
        named: Rows that are labelled.
        trust: Whether to draw misplaced points hollow, and to state for every point how many of its neighbours are near
            it.
        height: Height in pixels.

    Raises:
        InputError: If the projection does not have 2 or 3 dimensions, or a named row is not in it.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.figures.position_figures import projection
        >>> figure = projection(hpe.project(hpe.sinusoidal(64, 16).position, method="pca", dims=3))
        >>> [trace.type for trace in figure.data]
        ['scatter3d']
    """
    points = cloud_of(p)
    order = np.asarray(p.rows, np.float32)
    low, high = finite_span([order])
    smooth = joined and _step(points) < COIL
    paint = {"cmin": low, "cmax": high if high > low else low + 1, "colorscale": POSITION.stops(), "showscale": False}
    kept = kept_rows(p) if trust else None
    common = {"hoverinfo": "none", **link_axis("position", np.asarray(p.rows), kept=kept)}
    hollow = np.zeros(len(points), bool)
    if trust and p.trust is not None:
        hollow[p.trust.points] = p.trust.wrong
    frame = CloudFrame.of(points)
    if frame.outside.any():
        common["meta"] = {**common["meta"], "outside": np.flatnonzero(frame.outside)}
    ends = [point_index(p, row) for row in named]
    named = tuple(place for place in ends if not frame.outside[place])
    rows = np.asarray(p.rows)
    cloud = _Cloud(points, order, rows, paint, common, joined, smooth, named, height, hollow, frame)
    return (_cloud_3d if points.shape[1] == 3 else _cloud_2d)(cloud)


@dataclass(frozen=True, eq=False)
class _Cloud:
    """Points [n, 2 or 3], their colours, properties shared by all traces, and their appearance."""

    points: Array
    order: Array
    rows: Array
    paint: Mapping[str, Any]
    common: Mapping[str, Any]
    joined: bool
    smooth: bool
    named: tuple[int, ...]  # indices of points that are labelled
    height: int
    hollow: Array
    frame: CloudFrame

    def stubs(self, draw: Any, size: float) -> tuple[list[Any], Array]:
        """Return a trace of a dot for each point far outside, where the path leaves the frame, and these places."""
        at = np.flatnonzero(self.frame.outside)
        exits = self.frame.exits(self.points, joined=self.joined)
        if not len(at):
            return [], exits
        marker = {"size": size, "symbol": "diamond", "color": self.order[at], "line": {"width": 0}, **self.paint}
        trace = draw(
            **dict(zip("xyz", exits.T, strict=False)),
            mode="markers",
            marker=marker,
            hoverinfo="none",
            meta={"link": "position", "ids": self.rows[at], "stub": True},
        )
        return [trace], exits

    def words(self) -> tuple[list[int], list[str]]:
        """Return the labels of the runs of rows far outside, and the place of the first of each among the stubs."""
        runs, places = self.frame.runs(), np.cumsum(self.frame.outside) - 1
        texts = []
        for first, last in runs:
            ends = [tick(self.rows[place]) for place in sorted({first, last})]
            texts.append(f"{' to '.join(ends)}, far outside")
        return [int(places[first]) for first, _ in runs][:STUBS], texts[:STUBS]

    def shape(self, size: float) -> dict[str, Any]:
        """Size and symbol of the dots: rings for misplaced points, larger so that they are visible."""
        if not self.hollow.any():
            return {"size": size}
        return {
            "size": np.where(self.hollow, size * RING[self.points.shape[1]], size).astype(np.float32),
            "symbol": np.where(self.hollow, "circle-open", "circle").tolist(),
        }


def kept_rows(p: Projection) -> tuple[Array, int] | None:
    """Return how many of each point's nearest rows are near it [n], −1 if not measured, and out of how many.

    ``None`` if the projection's trust has not been measured.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.figures.position_figures import kept_rows
        >>> kept, of = kept_rows(hpe.project(hpe.sinusoidal(64, 16).position, method="pca", dims=3))
        >>> kept.shape, of
        ((64,), 10)
    """
    if p.trust is None:
        return None
    kept = np.full(len(p.rows), -1, np.int8)
    kept[p.trust.points] = p.trust.counts
    return kept, p.trust.k


def cloud_of(p: Projection) -> Array:
    """Return the coordinates of a projection [n, 2 or 3]; raise ``InputError`` for any other number of dimensions."""
    points = np.asarray(p.coordinates)
    if points.ndim != 2 or points.shape[1] not in (2, 3):
        raise InputError(f"a cloud needs a projection to 2 or 3 dimensions; its shape is {list(points.shape)}")
    return points


def point_index(p: Projection, row: int) -> int:
    """Return the index of a table row among the points; raise ``InputError`` if it is not among them.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.figures.position_figures import point_index
        >>> point_index(hpe.project(hpe.sinusoidal(64, 16).position, method="pca", dims=3), 5)
        5
    """
    found = np.flatnonzero(np.asarray(p.rows) == row)
    if not len(found):
        raise InputError(f"row {row} is not among the {len(p.rows):,} rows of this projection")
    return int(found[0])


def _step(points: Array) -> float:
    """Return the median step between consecutive points, as a fraction of the cloud's largest extent."""
    extent = float(np.ptp(points, axis=0).max()) if len(points) > 1 else 0.0
    return float(np.median(np.linalg.norm(np.diff(points, axis=0), axis=1))) / extent if extent else 0.0


def cube_axes(points: Array) -> tuple[Array, float]:
    """Return the centre of the cloud and half the width of a cube around it; equal scales preserve distances.

    Examples:
        >>> import numpy as np
        >>> from hfposemb.figures.position_figures import cube_axes
        >>> middle, half = cube_axes(np.array([[0.0, 0.0], [4.0, 2.0]]))
        >>> middle.tolist(), half
        ([2.0, 1.0], 2.08)
    """
    low, high = points.min(axis=0).astype(np.float64), points.max(axis=0).astype(np.float64)
    return (low + high) / 2, (float((high - low).max()) / 2 or 1.0) * 1.04


def _cloud_3d(cloud: _Cloud) -> go.Figure:
    frame = cloud.frame
    marker = {"color": cloud.order, "line": {"width": 0}, **cloud.paint, **cloud.shape(2.6 if cloud.smooth else 2.2)}
    line = {"width": 5 if cloud.smooth else 1.5, "color": cloud.order, **cloud.paint}
    x, y, z = cloud.points.T
    path = go.Scatter3d(
        x=x, y=y, z=z,
        mode="lines+markers" if cloud.joined else "markers",
        marker=marker,
        line=line if cloud.joined else None,
        opacity=1 if cloud.smooth else 0.8,
        **cloud.common,
    )  # fmt: skip
    stubs, exits = cloud.stubs(go.Scatter3d, 4)
    size = (RATIO * cloud.height, float(cloud.height))
    shown = np.concatenate([frame.unit(cloud.points[~frame.outside]), frame.unit(exits)])
    camera = best_camera(shown, ratio=RATIO)

    def seen(points: Array) -> Array:
        eye = camera.eye(RATIO)
        return label_placement.on_screen(frame.unit(points), eye=eye, center=camera.center, size=size)

    notes = _labels(cloud, exits, seen, size)
    scene = scene_3d(frame.middle, frame.longest / 2, notes)
    for name, low, high in zip("xyz", frame.low, frame.high, strict=True):
        scene[f"{name}axis"]["range"] = [float(low), float(high)]
    scene |= {"aspectmode": "manual", "aspectratio": dict(zip("xyz", frame.sides.tolist(), strict=True))}
    scene["camera"] = camera.layout(RATIO)
    meta = {"fit": {"up": camera.up, "across": camera.across}}
    return new_figure([path, *stubs], height=cloud.height, margin=dict.fromkeys("lrtb", 0), scene=scene, meta=meta)


def _labels(
    cloud: _Cloud, exits: Array, seen: Callable[[Array], Array], size: tuple[float, float]
) -> list[dict[str, Any]]:
    """Return the labels of the named points, each with its dot, and of the stubs, over whatever is behind them."""
    stubs, words = cloud.words()
    named = list(cloud.named)
    at = np.concatenate([cloud.points[named], exits[stubs]])
    texts = [*(tick(cloud.rows[place]) for place in named), *words]
    if not texts:
        return []
    crowd = seen(label_placement.dense(cloud.points[~cloud.frame.outside]))
    offsets = label_placement.beside_dots(seen(at), texts, crowd, size=size, leader=LEADER)
    notes = []
    for turn, (where, text, (dx, dy)) in enumerate(zip(at, texts, offsets, strict=True)):
        place: dict[str, Any] = dict(zip("xyz", map(float, where), strict=False))
        head = {"arrowhead": 6, "arrowsize": 1.2} if turn < len(named) else {"arrowhead": 0}
        note = add_label(text, bgcolor=PANEL, borderpad=1, **place)
        notes.append({**note, "showarrow": True, "ax": dx, "ay": -dy, "arrowwidth": 1.5, "arrowcolor": INK, **head})
        notes[-1] |= {"xshift": 0, "yshift": 0}
    return notes


def scene_3d(middle: Array, half: float, notes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the layout of a 3-D scene: the cube around ``middle`` [3] with half width ``half``, and annotations."""
    axes = {f"{name}axis": _side(float(mid), half) for name, mid in zip("xyz", middle, strict=True)}
    camera = {"eye": dict(zip("xyz", EYE, strict=True))}
    scene = {"aspectmode": "cube", "camera": camera, "bgcolor": CLEAR, "dragmode": "turntable"}
    return {**axes, **scene, "annotations": list(notes)}


def _side(middle: float, half: float) -> dict[str, Any]:
    return {
        "range": [middle - half, middle + half],
        "title": {"text": ""},
        "showticklabels": False,
        "ticks": "",
        "nticks": 5,
        "showgrid": True,
        "gridcolor": FAINT,
        "gridwidth": 1,
        "zeroline": False,
        "showline": False,
        "showspikes": False,
        "showbackground": False,
    }


def dots_3d(points: Array, colour: str, size: float) -> go.Scatter3d:
    """Return a 3-D trace of dots [n, 3] without tooltips."""
    x, y, z = points.T
    marker = {"size": size, "color": colour, "line": {"width": 0}}
    return go.Scatter3d(x=x, y=y, z=z, mode="markers", marker=marker, hoverinfo="skip")


def _cloud_2d(cloud: _Cloud) -> go.Figure:
    x, y = cloud.points.T
    scatter = go.Scatter if len(cloud.points) <= SVG_POINTS else go.Scattergl
    traces = []
    if cloud.joined:
        # A 2-D line has one colour, so it is drawn in as many pieces as the scale has stops.
        stops = POSITION.light
        ends = np.linspace(0, len(cloud.points) - 1, len(stops) + 1).astype(int)
        for colour, start, stop in zip(stops, ends[:-1], ends[1:] + 1, strict=True):
            line = {"color": colour, "width": 3 if cloud.smooth else 1}
            piece = {"x": x[start:stop], "y": y[start:stop], "mode": "lines", "line": line}
            traces.append(scatter(**piece, opacity=0.8 if cloud.smooth else 0.45, hoverinfo="skip"))
    shape = cloud.shape(4.5 if cloud.smooth else 4)
    marker = {"color": cloud.order, "line": {"width": 0}, "opacity": 1, **cloud.paint, **shape}
    traces.append(scatter(x=x, y=y, mode="markers", marker=marker, **cloud.common))
    stubs, exits = cloud.stubs(go.Scatter, 8)
    frame, side = cloud.frame, cloud.height - 16.0
    scale = side / max(frame.longest * float(frame.sides[1]), frame.longest / RATIO)
    size = (RATIO * side, side)

    def seen(points: Array) -> Array:
        return np.asarray((points - frame.middle) * scale + np.asarray(size) / 2)

    notes = _labels(cloud, exits, seen, size)
    axes = equal_axes(frame.low, frame.high, constrain="domain")
    return new_figure([*traces, *stubs], height=cloud.height, annotations=notes, **axes)


@dataclass(frozen=True, eq=False)
class MapFrame:
    """The square shared by maps side by side, so that a point has the same place in all of them."""

    middle: Array
    half: float

    @classmethod
    def of(cls, *maps: Array) -> MapFrame:
        """Return the square around the points of some maps [n, 2], ignoring the outermost 2 % of them."""
        points = np.concatenate([np.asarray(points)[:, :2] for points in maps])
        away = np.abs(points - np.median(points, axis=0)).max(axis=1)
        return cls(*cube_axes(points[away <= np.quantile(away, 0.98)]))

    def outside(self, points: Array) -> Array:
        """Return which of the points [n, 2] lie outside of the square, as booleans [n]."""
        inside: Array = (np.abs(np.asarray(points)[:, :2] - self.middle) <= self.half).all(axis=1)
        return ~inside

    @staticmethod
    def left_out(*outside: Array) -> str:
        """State how many points of some maps lie outside of the square; empty if none does."""
        count = sum(int(one.sum()) for one in outside)
        where = "map" if len(outside) == 1 else "maps"
        return f"{count:,} {'dot' if count == 1 else 'dots'} outside the {where}" if count else ""


def aligned_map(
    points: Array,
    labels: Sequence[str],
    *,
    frame: MapFrame,
    link: str,
    order: Array | None = None,
    named: Sequence[int] = (),
    height: int = 420,
) -> go.Figure:
    """Draw one of several maps of the same rows in their common frame.

    Args:
        points: The map [n, 2].
        labels: Names of the points [n].
        frame: The common frame.
        link: Group for linked hover; a point's row in it is its index.
        order: Numbers [n] to colour by; the points are then joined, as positions are.
        named: Indices of points that are labelled.
        height: Height in pixels.

    Examples:
        >>> import numpy as np
        >>> from hfposemb.figures.position_figures import MapFrame, aligned_map
        >>> points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> figure = aligned_map(points, ["king", "queen", "bread"], frame=MapFrame.of(points), link="words")
        >>> figure.data[0].text
        ('king', 'queen', 'bread')
    """
    points = np.asarray(points)[:, :2]
    shown = [escape(label) for label in labels]
    x, y = points.T
    scatter = go.Scatter if len(points) <= SVG_POINTS else go.Scattergl
    common = {"text": shown, "hoverinfo": "none", "meta": {"link": link, "first": 0}}
    traces: list[Any] = []
    if order is None:
        marker = {"size": 4, "color": CLASSES["word start"].light, "opacity": 0.6, "line": {"width": 0}}
    else:
        low, high = finite_span([np.asarray(order)])
        paint = {"cmin": low, "cmax": high if high > low else low + 1, "colorscale": POSITION.stops()}
        marker = {"size": 4.5, "color": np.asarray(order, np.float32), "line": {"width": 0}, **paint}
        # A gap at each dot that is not drawn, since a line to it would end nowhere.
        path = np.where(frame.outside(points)[:, None], np.nan, points).T
        line = {"color": FAINT, "width": 1.5}
        traces.append(scatter(x=path[0], y=path[1], mode="lines", line=line, connectgaps=False, hoverinfo="skip"))
    traces.append(scatter(x=x, y=y, mode="markers", marker=marker, **common))
    notes = []
    if len(named):
        named = [place for place in named if not frame.outside(points[[place]]).any()]
        at = points[named]
        spot = {"size": 8, "color": INK, "line": {"width": 0}}
        traces.append(scatter(x=at[:, 0], y=at[:, 1], mode="markers", marker=spot, hoverinfo="skip"))
        side = height - 16.0
        parts = (at, points if order is None else label_placement.dense(points))
        anchors, crowd = (((part - frame.middle) / (2 * frame.half) + 0.5) * side for part in parts)
        texts = [shown[place].strip() or "(space)" for place in named]
        offsets = label_placement.beside_dots(anchors, texts, crowd, size=(side, side))
        for where, text, offset in zip(at, texts, offsets, strict=True):
            notes.append(add_label(text, at=offset, x=float(where[0]), y=float(where[1]), bgcolor=PANEL))
    axes = equal_axes(frame.middle - frame.half, frame.middle + frame.half)
    return new_figure(traces, height=height, annotations=notes, **axes)


def trajectory_map(frames: Array, steps: Sequence[int], labels: Sequence[str], *, joined: bool) -> go.Figure:
    """Draw the maps of one table during training, one at a time, with a slider over the steps.

    Args:
        frames: Maps [steps, n, 2].
        steps: Training steps [steps].
        labels: Names of the points [n].
        joined: Whether to join the points and colour them by order, as for positions.

    Examples:
        >>> import numpy as np
        >>> from hfposemb.figures.position_figures import trajectory_map
        >>> maps = np.random.default_rng(0).normal(size=(3, 4, 2))
        >>> figure = trajectory_map(maps, [0, 100, 200], ["0", "1", "2", "3"], joined=True)
        >>> [frame.name for frame in figure.frames]
        ['0', '100', '200']
    """
    whole = MapFrame.of(*frames)
    order = np.arange(len(labels)) if joined else None
    shown = [aligned_map(one, labels, frame=whole, link="trajectory", order=order) for one in frames]
    figure = go.Figure(shown[-1])
    figure.frames = [go.Frame(data=one.data, name=f"{step}") for step, one in zip(steps, shown, strict=True)]
    at_once = {"mode": "immediate", "frame": {"duration": 0, "redraw": False}, "transition": {"duration": 0}}
    figure.update_layout(
        height=520,
        margin={"l": 8, "r": 8, "t": 8, "b": 70},
        sliders=[
            {
                "active": len(steps) - 1,
                "currentvalue": {"prefix": "step "},
                "steps": [
                    {"label": f"{step:,}", "method": "animate", "args": [[f"{step}"], at_once]} for step in steps
                ],
            }
        ],
    )
    return figure


POINTS = 1_500
"""Maximum number of points drawn of each map; larger maps are sampled with a seed."""

NAMED = 6
"""Number of moved words that are labelled on both maps."""

SEED = 0


@dataclass(frozen=True, eq=False)
class Beside:
    """The ``left`` and ``right`` figure, and a text that states what is ``drawn`` in both."""

    left: Any
    right: Any
    drawn: str


def beside(found: AlignedMaps, moves: Sequence[Moves] = (), *, link: str = "aligned", most: int = POINTS) -> Beside:
    """Draw two maps of the rows that two tables share.

    Args:
        found: The aligned maps. Points with the same index are the same row.
        moves: Words that moved; those that moved most between these two sources are always drawn, and labelled.
        link: Group for linked hover of both figures.
        most: Maximum number of points per map.
    """
    count = len(found.labels)
    chosen, moved = np.arange(count), _places(found, moves)
    drawn = f"{count:,} shared {rows_of(found.role, found.parts)}"
    if count > most:
        sample = np.random.default_rng(SEED).choice(count, most, replace=False)
        chosen = np.union1d(sample, moved)
        drawn = f"{len(chosen):,} of {drawn}, sampled with seed {SEED}" + (
            ", plus those that moved most" if len(moved) else ""
        )
    sides = [points[chosen, :2] for points in (found.coordinates_left, found.coordinates_right)]
    frame = MapFrame.of(*sides)
    if far := frame.left_out(*map(frame.outside, sides)):
        drawn += f" · {far}"
    order = found.rows[chosen, 0] if found.role == "position" else None
    labels = [found.labels[row] for row in chosen]
    named = np.searchsorted(chosen, moved).tolist()
    left, right = (aligned_map(points, labels, frame=frame, link=link, order=order, named=named) for points in sides)
    return Beside(left, right, drawn)


def _places(found: AlignedMaps, moves: Sequence[Moves]) -> NDArray[np.int64]:
    """Return the indices, in the maps, of the words that moved most."""
    words = [
        move.label
        for one in moves
        if found.role == "token" and (one.left, one.right) == (found.left, found.right)
        for move in one.most[:NAMED]
    ]
    places = {label: place for place, label in reversed(list(enumerate(found.labels)))}
    return np.array(sorted(places[word] for word in words if word in places), np.int64)
