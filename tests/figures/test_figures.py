"""Figures: they show exactly the numbers they are given, in colours that have a dark partner, and no text is markup."""

from __future__ import annotations

import html
import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hfposemb as hpe
from hfposemb.analysis.positions.patches import PatchMaps, patch_maps
from hfposemb.analysis.projection.projecting import Projection
from hfposemb.analysis.projection.quality import PointTrust, Quality
from hfposemb.analysis.similarity.nearest_rows import Neighbours
from hfposemb.analysis.similarity.similarity_matrix import Distribution
from hfposemb.composition.variance_decomposition import Club
from hfposemb.errors import InputError
from hfposemb.figures import line_figures, matrix_figures, position_figures, style, token_figures, wave_figures
from hfposemb.figures.palette import CLASSES, PALETTE, POSITION, SHARE, SIMILARITY, SOURCES, dark_map
from hfposemb.figures.style import Axis, Series
from hfposemb.tables.encodings import Absolute, Grid
from hfposemb.tables.rotary import Wavelengths
from hfposemb.tables.table import TOKEN_CLASSES, Labels, Provenance, table_of

HOSTILE = (
    "<script>alert(1)</script>",
    "<b>bold</b>",
    "a & b",
    "$x^2$",
    "\u202eright to left",
    "\x00\x1b[31m",
    "&lt;",
    "#ffffff",
    "=cmd|' /C calc'!A0",
    "x" * 1_000_000,
    "",
    " ",
)
RNG = np.random.default_rng(0)


def cloud(points: np.ndarray, *, rows: np.ndarray | None = None) -> Projection:
    return Projection(
        coordinates=points.astype(np.float32),
        rows=np.arange(len(points)) if rows is None else rows,
        left_out=0,
        method="pca",
        dims=points.shape[1],
        seed=0,
        parameters={},
        explained_variance_ratio=np.full(points.shape[1], 0.2),
        quality=Quality(1.0, 1.0, 1.0, 10, len(points), len(points), "cosine"),
        name="test",
    )


def doubtful(dims: int) -> Projection:
    """Seventy points of noise, some of which were measured: every other one, with 0 to 10 of its nearest near it."""
    at = np.arange(0, 70, 2)
    kept = (np.arange(35) % 11) / 10
    return replace(cloud(RNG.normal(size=(70, dims))), trust=PointTrust(at, kept, kept, kept, 10, 70, "cosine"))


def by_period(name: str) -> Series:
    at = 90 / np.arange(45, 0, -1)
    return Series(name, np.linspace(0.1, 9, 45), at=at, marks=(44,))


def shifted(name: str) -> Series:
    values = np.array([1, 0.9, -3, 0.2])
    return Series(name, values, at=np.array([1, 2, 4, 8]), band=(values - 0.2, values + 0.1))


def helix(rows: int, dims: int) -> np.ndarray:
    angle = np.linspace(0, 6 * np.pi, rows)
    return np.stack([np.cos(angle), np.sin(angle), angle / 9], axis=1)[:, :dims]


def vocabulary(rows: int) -> Labels:
    texts = tuple(HOSTILE[row] if row < len(HOSTILE) else f"token{row}" for row in range(rows))
    return Labels(texts, texts, (np.arange(rows) % len(TOKEN_CLASSES)).astype(np.uint8))


NEIGHBOURS = Neighbours(
    query=HOSTILE[0],
    rows=np.arange(5, 5 + len(HOSTILE)),
    labels=HOSTILE,
    values=np.linspace(0.7, -0.1, len(HOSTILE)),
    metric="cosine",
    left_out=0,
)
DISTRIBUTION = Distribution(HOSTILE[0], np.arange(20), np.linspace(-1, 1, 21), 0.0, 0.1, "cosine", 0)
LINES = style.sources({HOSTILE[0]: np.cos(np.arange(60) / 9), "two": np.linspace(0.9, 0.1, 40)})
UPWARD = style.sources({HOSTILE[1]: np.linspace(0.1, 1, 60), "two": np.linspace(0.3, 1, 40)})
COSINES = np.corrcoef(RNG.normal(size=(len(HOSTILE), 8)))

FIGURES: Mapping[str, Callable[[], go.Figure]] = {
    "projection": lambda: position_figures.projection(cloud(helix(400, 3)), named=(0, 200, 399)),
    "projection, flat": lambda: position_figures.projection(cloud(helix(400, 2)), named=(0, 399)),
    "projection, coil": lambda: position_figures.projection(cloud(RNG.normal(size=(90, 3)))),
    "projection, flat coil": lambda: position_figures.projection(cloud(RNG.normal(size=(90, 2)))),
    "projection, not joined": lambda: position_figures.projection(cloud(helix(40, 3)), joined=False),
    "projection, trust": lambda: position_figures.projection(doubtful(3), trust=True),
    "projection, flat trust": lambda: position_figures.projection(doubtful(2), trust=True),
    "projection, one point": lambda: position_figures.projection(cloud(np.zeros((1, 3)))),
    "projection, large": lambda: position_figures.projection(cloud(helix(3_000, 2))),
    "similarity_matrix": lambda: matrix_figures.similarity_matrix(np.eye(70)),
    "similarity_matrix, large": lambda: matrix_figures.similarity_matrix(np.ones((1_500, 1_500))),
    "similarity_matrix, named": lambda: matrix_figures.similarity_matrix(
        COSINES, labels=HOSTILE, percentiles=100 * COSINES**2
    ),
    "similarity_matrix, biases": lambda: matrix_figures.similarity_matrix(-np.ones((7, 7)), unit="additive bias"),
    "similarity_matrix, distances": lambda: matrix_figures.similarity_matrix(np.ones((7, 7)), unit="euclidean"),
    "table_image": lambda: matrix_figures.table_image(RNG.normal(size=(50, 20))),
    "waves": lambda: wave_figures.waves(RNG.normal(size=(50, 20)), (0, 3, 19)),
    "curves": lambda: line_figures.curves(LINES, x=Axis("<b>"), y=Axis("y"), labels="end", marked=3),
    "curves, band": lambda: line_figures.curves([banded()], x=Axis(), y=Axis(share=True)),
    "curves, no room": lambda: line_figures.curves(crowded(), x=Axis(), y=Axis()),
    "similarity_by_distance": lambda: line_figures.similarity_by_distance(LINES),
    "similarity_by_distance, signed": lambda: line_figures.similarity_by_distance(
        [Series("bias", np.arange(-9.0, 10), at=np.arange(-9, 10))], unit="additive bias"
    ),
    "similarity_by_distance, one distance": lambda: line_figures.similarity_by_distance(
        [Series("two positions", np.ones(1), at=np.ones(1))]
    ),
    "norms_by_position": lambda: line_figures.norms_by_position([marked(s) for s in UPWARD]),
    "waves_by_period": lambda: wave_figures.waves_by_period(
        [by_period(HOSTILE[0]), by_period("two")], noise=(0.8, 1.2)
    ),
    "shift_by_distance": lambda: line_figures.shift_by_distance([shifted(HOSTILE[0]), shifted("two")]),
    "turned_planes": lambda: line_figures.turned_planes(style.sources({HOSTILE[0]: np.array([3.0, 90.0]), "two": [1]})),
    "clock": lambda: line_figures.clock(np.array([[0.6, 0.8], [-1.0, 0.0]]), named=[HOSTILE[0], "two"]),
    "explained_variance": lambda: line_figures.explained_variance([marked(s) for s in UPWARD]),
    "token_map": lambda: token_figures.token_map(cloud(RNG.normal(size=(300, 2))), vocabulary(300)),
    "token_map, selected": lambda: token_figures.token_map(
        cloud(RNG.normal(size=(300, 2))), vocabulary(300), selected=0, neighbours=range(1, len(HOSTILE))
    ),
    "token_map, 3-D": lambda: token_figures.token_map(
        cloud(RNG.normal(size=(300, 3))), vocabulary(300), selected=0, neighbours=range(1, len(HOSTILE))
    ),
    "token_map, by id": lambda: token_figures.token_map(cloud(RNG.normal(size=(300, 2))), vocabulary(300), color="id"),
    "token_map, by number": lambda: token_figures.token_map(
        cloud(RNG.normal(size=(300, 2))), vocabulary(300), color=RNG.normal(size=300), selected=3
    ),
    "token_map, by trust": lambda: token_figures.token_map(doubtful(2), vocabulary(70), color="trust", selected=3),
    "token_map, by trust in 3-D": lambda: token_figures.token_map(doubtful(3), vocabulary(70), color="trust"),
    "distribution": lambda: line_figures.distribution(DISTRIBUTION, neighbours=NEIGHBOURS),
    "stripes": lambda: wave_figures.stripes(
        {"token": np.ones((len(HOSTILE), 9)), "<i>": np.zeros((len(HOSTILE), 9))}, HOSTILE, accented=(1,)
    ),
    "patch_tiles": lambda: matrix_figures.patch_tiles(patches(3, 5), chosen=7),
    "patch_tiles, some": lambda: matrix_figures.patch_tiles(patches(30, 20)),
    "patch_map": lambda: matrix_figures.patch_map(np.linspace(-1, 1, 15).reshape(3, 5), 7),
    "wavelengths": lambda: wave_figures.wavelengths(
        turns(), series=Series(HOSTILE[0], np.zeros(0), *style.source_style(0))
    ),
    "wavelengths, unscaled": lambda: wave_figures.wavelengths(turns(1.0), series=Series(HOSTILE[0], np.zeros(0))),
    "club": lambda: token_figures.club(gathering(), HOSTILE),
    "club, by position": lambda: token_figures.club(gathering(), HOSTILE, by="position"),
    "aligned_map": lambda: beside_another(named=range(3)),
    "aligned_map, joined": lambda: beside_another(order=np.arange(len(HOSTILE))),
    "trajectory_map": lambda: trained(joined=False),
    "trajectory_map, joined": lambda: trained(joined=True),
    "share_rows": lambda: token_figures.share_rows(RNG.random((len(HOSTILE), 30)), HOSTILE),
}
every_figure = pytest.mark.parametrize("make", FIGURES.values(), ids=FIGURES)


def marked(s: Series) -> Series:
    return Series(s.name, s.values, s.colour, s.dash, marks=(0, len(s.values) - 1))


def banded() -> Series:
    values = np.linspace(0, 1, 30)
    return Series("<u>band</u>", values, *style.source_style(1), band=(values - 0.1, values + 0.1))


def gathering() -> Club:
    count = len(HOSTILE)
    points = RNG.normal(size=(count, 9, 2))
    return Club(np.arange(count), np.arange(9), points, (0.5, 0.2), 1.0, "none")


def beside_another(**more: Any) -> go.Figure:
    left, right = RNG.normal(size=(2, len(HOSTILE), 2))
    return position_figures.aligned_map(
        left, HOSTILE, frame=position_figures.MapFrame.of(left, right), link="map", **more
    )


def patches(rows: int, columns: int) -> PatchMaps:
    vectors = np.random.default_rng(3).normal(size=(rows * columns + 1, 6))
    table = table_of(vectors, name="made", provenance=Provenance("test"))
    return patch_maps(Absolute(table, grid=Grid(rows, columns, 1)))


def turns(factor: float = 8.0) -> Wavelengths:
    """The wavelengths of a small head, the last pair standing still."""
    before = np.append(2 * np.pi * 10_000 ** (np.arange(15) / 16), np.inf)
    return Wavelengths(before, np.where(before > 1000, factor * before, before), 4096)


def crowded() -> list[Series]:
    return [Series(f"line {i}", np.sin(np.arange(300) + i), *style.source_style(i)) for i in range(4)]


def strings(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every string in a figure, with the way to it."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from strings(item, (*path, str(key)))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from strings(item, path)


def arrays(value: Any) -> Iterator[np.ndarray]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from arrays(item)


def whole(figure: go.Figure) -> list[dict[str, Any]]:
    """The figure as plotly holds it, before any encoding."""
    return [trace.to_plotly_json() for trace in figure.data] + [figure.layout.to_plotly_json()]


def trained(*, joined: bool) -> go.Figure:
    frames = np.random.default_rng(0).normal(size=(3, len(HOSTILE), 2))
    return position_figures.trajectory_map(frames, (0, 500, 1_500), HOSTILE, joined=joined)


def colours(figure: go.Figure) -> set[str]:
    wording = {"text", "name", "ticktext", "meta", "hovertext"}
    found = (
        text for part in whole(figure) for path, text in strings(part) if not wording & set(path) or path[-1] == "color"
    )
    return {text.lower() for text in found if re.fullmatch("#[0-9a-fA-F]{3,8}", text)}


def light_colours() -> set[str]:
    colour_pairs = (*PALETTE.values(), *CLASSES.values(), *(source.colour for source in SOURCES))
    return {pair.light for pair in colour_pairs} | {*POSITION.light, *SIMILARITY.light, *SHARE.light}


@pytest.mark.parametrize("dims", [2, 3])
def test_points_that_lie_wrongly_are_hollow_and_say_so(dims: int) -> None:
    p = doubtful(dims)
    figure = position_figures.projection(p, trust=True)
    dots = next(trace for trace in figure.data if trace.meta)
    wrong = p.trust.points[p.trust.counts < 3]
    hollow = np.flatnonzero(np.asarray(dots.marker.symbol) == "circle-open")
    assert hollow.tolist() == wrong.tolist()
    assert min(dots.marker.size[hollow]) > dots.marker.size[1]
    assert (dots.meta["of"], dots.meta["kept"][[0, 1, 2]].tolist()) == (10, [0, -1, 1])
    plain = next(trace for trace in position_figures.projection(p).data if trace.meta)
    assert "kept" not in plain.meta
    assert plain.marker.symbol is None


def test_tokens_by_trust_are_those_measured_and_the_rest_is_faint() -> None:
    p = doubtful(2)
    faint, measured = token_figures.token_map(p, vocabulary(70), color="trust").data
    assert (len(faint.x), len(measured.x)) == (35, 35)
    assert measured.marker.color == pytest.approx(p.trust.neighbours_kept)
    assert measured.meta["kept"].tolist() == p.trust.counts.tolist()
    assert set(faint.meta["kept"]) == {-1}
    assert faint.marker.opacity < measured.marker.opacity
    with pytest.raises(InputError, match="was not measured"):
        token_figures.token_map(replace(p, trust=None), vocabulary(70), color="trust")


def test_every_public_function_that_returns_a_figure_is_tested() -> None:
    makers = {
        name
        for module in (line_figures, matrix_figures, position_figures, token_figures, wave_figures)
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
        if inspect.signature(function).return_annotation == "go.Figure"
    }
    assert makers - {"dark"} == {name.split(",")[0] for name in FIGURES}


@every_figure
def test_figures_follow_the_template_with_arrays_encoded_in_binary(make: Callable[[], go.Figure]) -> None:
    figure = make()
    assert figure.layout.paper_bgcolor == figure.layout.plot_bgcolor == "rgba(0,0,0,0)"
    assert figure.layout.font.size == 12.5
    assert figure.layout.title.text is None
    assert colours(figure) <= light_colours()
    json.loads(figure.to_json())
    for trace, encoded in zip(figure.data, figure.to_plotly_json()["data"], strict=True):
        assert trace.hoverinfo in ("none", "skip")
        own = trace.to_plotly_json()
        for name in [name for name in "xyz" if own.get(name) is not None]:
            assert isinstance(own[name], np.ndarray)
            assert "bdata" in encoded[name]
    for axis in axes(figure):
        assert np.isfinite(axis.range).all()
        assert axis.range[0] != axis.range[1]
        assert len(axis.tickvals or ()) <= 5 or axis.ticktext[0] in names_of(HOSTILE)


def names_of(labels: tuple[str, ...]) -> set[str]:
    return {style.escape(label, width=16) for label in labels}


def axes(figure: go.Figure) -> Iterator[Any]:
    for name, axis in figure.layout.to_plotly_json().items():
        if re.fullmatch("[xy]axis[0-9]*", name) and axis:
            yield figure.layout[name]
    if figure.layout.scene.xaxis.range:
        yield from (figure.layout.scene.xaxis, figure.layout.scene.yaxis, figure.layout.scene.zaxis)


@every_figure
def test_no_text_is_markup(make: Callable[[], go.Figure]) -> None:
    """Only the tags this package writes itself may be left: the bold of a chosen name."""
    for part in whole(make()):
        for path, text in strings(part):
            if path[-1] not in ("text", "name", "ticktext"):
                continue
            bare = re.sub("^<b>(.*)</b>$", r"\1", text)
            if path[-2:] != ("title", "text"):
                assert "<" not in bare, (path, text)
                assert ">" not in bare, (path, text)
                assert not re.search("&(?!(amp|lt|gt|#36);)", text), (path, text)
                assert "$" not in text, (path, text)
            assert text.replace("\u00a0", " ").isprintable(), (path, text)
            assert len(text) < 300


@every_figure
def test_dark_changes_the_colours_and_nothing_else(make: Callable[[], go.Figure]) -> None:
    light = make()
    dark = style.dark(light)
    partners = dark_map()
    assert colours(dark) == {partners.get(colour, colour) for colour in colours(light)}
    back = {dark: light for light, dark in partners.items()}
    assert {back.get(colour, colour) for colour in colours(dark)} == colours(light)
    for before, after in zip(whole(light), whole(dark), strict=True):
        for one, other in zip(arrays(before), arrays(after), strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
        wording = [(path, text) for path, text in strings(before) if path[-1] in ("text", "name", "ticktext")]
        assert wording == [(path, text) for path, text in strings(after) if path[-1] in ("text", "name", "ticktext")]
    assert colours(light) <= light_colours(), "dark() must not write into the figure it is given"


def test_every_light_colour_has_one_dark_partner_and_back() -> None:
    partners = dark_map()
    assert len(set(partners.values())) == len(partners)
    assert not set(partners) & set(partners.values())
    for pair in (*PALETTE.values(), *CLASSES.values(), *(source.colour for source in SOURCES)):
        assert partners.get(pair.light, pair.light) == pair.dark
    for scale in (POSITION, SIMILARITY):
        assert [partners.get(colour, colour) for colour in scale.light] == list(scale.dark)


@pytest.mark.parametrize(
    ("draw", "said"),
    [
        (lambda: position_figures.projection(cloud(np.zeros((5, 4)))), "2 or 3 dimensions"),
        (lambda: matrix_figures.similarity_matrix(np.eye(2), unit="metres"), "unknown unit 'metres'"),  # type: ignore[arg-type]
        (lambda: line_figures.curves([], x=Axis(), y=Axis()), "series is empty"),
        (lambda: token_figures.token_map(cloud(np.eye(30)[:, :2]), vocabulary(20)), "only 20 labels"),
        (lambda: token_figures.token_map(cloud(np.eye(9)[:, :2]), vocabulary(9), color="norm"), "color must be"),  # type: ignore[arg-type]
        (lambda: token_figures.token_map(cloud(np.eye(9)[:, :2]), vocabulary(9), selected=99), "row 99 is not among"),
        *(
            (partial(draw, np.zeros(shape)), "a non-empty matrix")
            for draw in (matrix_figures.similarity_matrix, matrix_figures.table_image, matrix_figures.block_reduce)
            for shape in [(3,), (0, 3), (2, 2, 2)]
        ),
    ],
)
def test_what_cannot_be_drawn_says_why(draw: Callable[[], Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        draw()


# --- words and numbers


@given(st.text())
def test_escaped_text_reads_as_itself(text: str) -> None:
    escaped = style.escape(text)
    assert not set("<>$") & set(escaped)
    shown = html.unescape(escaped)
    assert len(shown) <= 40
    if text.isprintable() and len(text) <= 40:
        assert shown == text


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_are_few_and_within(low: float, width: float) -> None:
    ticks = style.nice_ticks(low, low + width)
    assert 1 <= len(ticks) <= 5
    assert all(low - 1e-6 * width <= tick <= low + width + 1e-6 * width for tick in ticks)


@given(st.floats(-9, 6), st.floats(0.1, 12))
def test_logarithmic_ticks_are_few_and_within(low: float, width: float) -> None:
    ticks = style.decade_ticks(10**low, 10 ** (low + width))
    assert 2 <= len(ticks) <= 5
    assert all(0.99 * 10**low <= tick <= 1.01 * 10 ** (low + width) for tick in ticks)


@given(st.integers(1, 5000), st.integers(0, 100))
def test_places_hold_the_first_and_the_last(count: int, first: int) -> None:
    places = style.decimal_places(count, first)
    assert places[0] == first
    assert places[-1] == first + count - 1
    assert len(places) <= 5
    assert sorted(set(places)) == places


# --- clouds


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("shape", ["helix", "noise"])
def test_a_cloud_shows_every_row_once_in_its_place(dims: int, shape: str) -> None:
    points = helix(300, dims) if shape == "helix" else np.random.default_rng(0).normal(size=(300, dims))
    p = cloud(points)
    trace = next(trace for trace in position_figures.projection(p).data if trace.meta)
    np.testing.assert_array_equal(np.stack([trace[name] for name in "xyz"[:dims]], axis=1), p.coordinates)
    assert trace.x.dtype == np.float32
    assert trace.meta == {"link": "position", "first": 0}
    np.testing.assert_array_equal(trace.marker.color, np.arange(300))
    assert (trace.marker.cmin, trace.marker.cmax) == (0, 299)
    if dims == 3:
        np.testing.assert_array_equal(trace.line.color, np.arange(300))
        assert (trace.line.width, trace.marker.size) == ((5, 2.6) if shape == "helix" else (1.5, 2.2))


@pytest.mark.parametrize("dims", [2, 3])
def test_rows_left_out_leave_no_point_pointing_at_the_wrong_row(dims: int) -> None:
    rows = np.delete(np.arange(50), [0, 20])
    figure = position_figures.projection(cloud(helix(48, dims), rows=rows), named=(21,))
    trace = next(trace for trace in figure.data if trace.meta)
    np.testing.assert_array_equal(trace.meta["ids"], rows)
    assert trace.meta["ids"].dtype == np.int32
    notes = figure.layout.scene.annotations if dims == 3 else figure.layout.annotations
    assert [note.text for note in notes] == ["21"]
    with pytest.raises(InputError, match="row 20 is not among the 48 rows"):
        position_figures.projection(cloud(helix(48, dims), rows=rows), named=(20,))


@pytest.mark.parametrize("dims", [2, 3])
def test_all_axes_of_a_cloud_have_one_scale(dims: int) -> None:
    figure = position_figures.projection(cloud(RNG.normal(size=(60, dims)) * np.arange(1, dims + 1)))
    if dims == 2:
        assert figure.layout.yaxis.scaleanchor == "x"
        return
    sides = [figure.layout.scene.aspectratio[axis] for axis in "xyz"]
    scales = {round((axis.range[1] - axis.range[0]) / side, 6) for axis, side in zip(axes(figure), sides, strict=True)}
    assert figure.layout.scene.aspectmode == "manual"
    assert len(scales) == 1


def test_the_pieces_of_a_flat_line_join() -> None:
    points = helix(100, 2)
    pieces = [trace for trace in position_figures.projection(cloud(points)).data if trace.mode == "lines"]
    for one, other in pairwise(pieces):
        assert (one.x[-1], one.y[-1]) == (other.x[0], other.y[0])
    assert sum(len(piece.x) - 1 for piece in pieces) == 99


# --- matrices


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 20))
def test_blocks_are_means(rows: int, columns: int, limit: int) -> None:
    matrix = np.random.default_rng(rows * 41 + columns).normal(size=(rows, columns))
    reduced, (down, across) = matrix_figures.block_reduce(matrix, limit=limit)
    assert reduced.dtype == np.float32
    assert max(reduced.shape) <= limit
    for i in range(reduced.shape[0]):
        for j in range(reduced.shape[1]):
            block = matrix[i * down : (i + 1) * down, j * across : (j + 1) * across]
            assert reduced[i, j] == pytest.approx(block.mean(), abs=1e-5)


def test_a_matrix_is_drawn_as_it_is() -> None:
    matrix = np.cos(np.subtract.outer(np.arange(70), np.arange(70)) / 9).astype(np.float32)
    figure = matrix_figures.similarity_matrix(matrix, first=2)
    heat = figure.data[0]
    np.testing.assert_array_equal(heat.z, matrix)
    assert (heat.zmin, heat.zmax) == (-1, 1)
    assert (heat.x0, heat.dx, heat.y0, heat.dy) == (2, 1, 2, 1)
    assert heat.meta == {"link": "position", "first": 2, "step": 1}
    assert figure.layout.yaxis.range == (71.5, 1.5)
    assert figure.layout.xaxis.tickvals[-1] == 71
    assert figure.layout.height is None


def test_a_large_matrix_keeps_its_coordinates() -> None:
    figure = matrix_figures.similarity_matrix(np.zeros((2500, 2500)))
    heat = figure.data[0]
    assert max(heat.z.shape) <= 1024
    assert heat.meta["step"] == heat.dx == 3
    assert heat.x0 == 1
    assert figure.layout.xaxis.range == (-0.5, 2499.5)
    assert figure.layout.xaxis.ticktext[-1] == "2,499"


@pytest.mark.parametrize(
    ("unit", "limits"),
    [
        ("cosine", (-1, 1)),
        ("expected rotary kernel", (-1, 1)),
        ("share", (0, 1)),
        ("euclidean", (0, 8)),
        ("dot", (-8, 8)),
        ("additive bias", (-8, 8)),
    ],
)
def test_the_range_of_colours_is_fixed_by_the_unit(unit: Any, limits: tuple[float, float]) -> None:
    heat = matrix_figures.similarity_matrix(np.array([[0.5, -8.0], [np.nan, 0.1]]), unit=unit).data[0]
    assert (heat.zmin, heat.zmax) == limits
    both = [matrix_figures.similarity_matrix(np.eye(2) * scale, unit="dot", limit=5).data[0] for scale in (1, 9)]
    assert {(heat.zmin, heat.zmax) for heat in both} == {(-5, 5)}, "one limit holds for panels side by side"


def test_numbers_are_written_in_the_cells_of_a_small_matrix() -> None:
    matrix = np.array([[1, 0.627], [0.627, 1]])
    percentiles = np.array([[np.nan, 99.99], [99.99, np.nan]])
    figure = matrix_figures.similarity_matrix(matrix, labels=["king", "queen"], percentiles=percentiles)
    assert [note.text for note in figure.layout.annotations] == ["1.00", ".63", ".63", "1.00"]
    assert figure.data[0].text[0][1] == "king – queen: .627, above 99.9\u00a0% of random pairs"
    strong, weak = (figure.layout.annotations[place].font.color for place in (0, 1))
    assert (strong, weak) == (PALETTE["panel"].light, PALETTE["ink"].light)
    with pytest.raises(InputError, match="needs a label per row and column; got 3"):
        matrix_figures.similarity_matrix(matrix, labels=["a", "b", "c"])


def test_symmetric_ranges_are_shared_and_stated() -> None:
    parts = {"token": RNG.normal(size=(3, 100)), "position": RNG.normal(size=(3, 100)) / 9, "input": np.ones((3, 100))}
    figure = wave_figures.stripes(parts, ["a", "b", "a"], dimensions=64)
    ends = {tuple(heat.meta["range"]) for heat in figure.data}
    assert ends == {(-figure.data[0].zmax, figure.data[0].zmax)}
    for heat, part in zip(figure.data, parts.values(), strict=True):
        np.testing.assert_array_equal(heat.z, part[:, :64].astype(np.float32))
        assert (heat.zmin, heat.zmax) == tuple(heat.meta["range"])
    assert sum(note.text == "+" for note in figure.layout.annotations) == 3
    assert sum(note.text == "=" for note in figure.layout.annotations) == 3
    with pytest.raises(InputError, match="one row for each of the 2 pieces"):
        wave_figures.stripes(parts, ["a", "b"])


def test_a_robust_limit_ignores_one_outlier() -> None:
    values = np.append(np.linspace(-1, 1, 999), 1e6)
    assert style.robust_limit(values) == pytest.approx(1.0, abs=0.02)
    assert style.robust_limit(np.zeros(3)) == 1
    assert style.robust_limit(np.array([np.nan, 2.0])) == 2


def test_a_table_is_drawn_as_it_is() -> None:
    vectors = RNG.normal(size=(50, 20)).astype(np.float32)
    heat = matrix_figures.table_image(vectors).data[0]
    np.testing.assert_array_equal(heat.z, vectors)
    assert heat.zmin == -heat.zmax == heat.meta["range"][0]
    assert heat.meta["axes"] == "y"


def test_waves_share_one_range() -> None:
    vectors = hpe.sinusoidal(100, 16).position.table.vectors
    figure = wave_figures.waves(vectors, (0, 1, 15))
    for trace, dimension in zip(figure.data, (0, 1, 15), strict=True):
        np.testing.assert_array_equal(trace.y, vectors[:, dimension])
    assert len({figure.layout[name].range for name in ("yaxis", "yaxis2", "yaxis3")}) == 1
    with pytest.raises(InputError, match="dimensions must be from 0 to 15"):
        wave_figures.waves(vectors, (16,))


# --- lines


def test_a_line_is_its_values_and_a_source_keeps_its_colour_and_dash() -> None:
    values = {"a": RNG.random(30), "b": RNG.random(20), "c": RNG.random(10)}
    for draw in (line_figures.similarity_by_distance, line_figures.norms_by_position, line_figures.explained_variance):
        lines = [trace for trace in draw(style.sources(values)).data if trace.mode == "lines"]
        for place, (line, array) in enumerate(zip(lines, values.values(), strict=True)):
            np.testing.assert_array_equal(line.y, array)
            assert (line.line.color, line.line.dash) == style.source_style(place)


def test_the_chosen_line_is_thicker_and_a_baseline_is_dotted_grey() -> None:
    series = [Series("a", np.arange(9.0), chosen=True), Series("b", 9 - np.arange(9.0))]
    assert [line.line.width for line in line_figures.curves(series, x=Axis(), y=Axis()).data] == [3, 2]
    line = line_figures.explained_variance([Series("Untrained", np.linspace(0.1, 1, 9))]).data[0].line
    assert (line.color, line.dash) == (PALETTE["baseline"].light, "dot")


def test_names_on_lines_stay_within_the_plot_and_off_the_lines() -> None:
    figure = line_figures.curves(LINES, x=Axis(), y=Axis())
    assert not figure.layout.showlegend
    (low, high), (bottom, top) = figure.layout.xaxis.range, figure.layout.yaxis.range
    assert len(figure.layout.annotations) == len(LINES)
    for note, line in zip(figure.layout.annotations, LINES, strict=True):
        assert low <= note.x <= high
        assert bottom <= note.y <= top
        assert note.font.color == line.colour
        assert (note.xshift, note.yshift) != (0, 0)
    without_room = line_figures.curves(crowded(), x=Axis(), y=Axis()).layout
    assert (without_room.showlegend, without_room.legend.orientation, len(without_room.annotations)) == (True, "h", 0)


def test_end_labels_are_pushed_apart() -> None:
    series = [Series(f"line {i}", np.linspace(1, 0.5 + i / 1000, 9), *style.source_style(i)) for i in range(4)]
    figure = line_figures.curves(series, x=Axis(), y=Axis(span=(0, 1)), labels="end", height=300)
    pixels = (300 - 8 - 44) * np.array([note.y for note in figure.layout.annotations])
    pixels += [note.yshift for note in figure.layout.annotations]
    assert np.diff(np.sort(pixels)).min() >= 15.9
    assert all((note.xref, note.x) == ("paper", 1.015) for note in figure.layout.annotations)
    assert figure.layout.margin.r == 120


def test_the_marked_values_of_a_log_axis_are_written_where_they_are() -> None:
    figure = line_figures.norms_by_position([Series("a", np.array([10.0, 1, 1, 0.1]), marks=(0, 3))])
    written = {note.text: note.y for note in figure.layout.annotations}
    assert written["10.00"] == pytest.approx(1)
    assert written[".10"] == pytest.approx(-1)
    assert figure.data[0].meta == {"link": "position", "first": 0}
    with_zero = line_figures.norms_by_position([Series("a", np.array([0.0, np.nan, 1, 5]))])
    assert np.isfinite(with_zero.layout.yaxis.range).all(), "a row that is zero breaks no axis"


def test_distances_keep_their_sign_and_cosines_alone_have_a_zero_line() -> None:
    signed = FIGURES["similarity_by_distance, signed"]().layout
    assert (signed.xaxis.range, bool(signed.yaxis.zeroline)) == ((-9, 9), False)
    assert line_figures.similarity_by_distance(LINES).layout.yaxis.zeroline
    shifts = line_figures.shift_by_distance([shifted("one")])
    assert next(trace for trace in shifts.data if trace.name == "one").y.tolist() == [1, 0.9, 0, 0.2]
    assert min(shifts.data[0].y) == 0, "shifts and their bands are drawn from nothing on"


def test_every_patch_has_its_map_in_its_place() -> None:
    maps = patches(3, 5)
    heat = matrix_figures.patch_tiles(maps, chosen=7).data[0]
    assert heat.z.shape == (3 * 4 - 1, 5 * 6 - 1)
    assert (len(heat.x), len(heat.y)) == (heat.z.shape[1] + 1, heat.z.shape[0] + 1)
    for row in range(3):
        for column in range(5):
            tile = heat.z[4 * row : 4 * row + 3, 6 * column : 6 * column + 5]
            np.testing.assert_array_equal(tile, maps.maps[row, column])
    assert np.isnan(heat.z[3]).all()
    assert np.isnan(heat.z[:, 5]).all()
    assert heat.meta == {"grid": [3, 5], "tiles": [[0, 1, 2], [0, 1, 2, 3, 4]]}
    assert (heat.zmin, heat.zmax) == (-1, 1)


@pytest.mark.parametrize(("chosen", "frames"), [(None, 0), (7, 1), (14, 1)])
def test_the_chosen_patch_is_framed(chosen: int | None, frames: int) -> None:
    figure = matrix_figures.patch_tiles(patches(3, 5), chosen=chosen)
    assert len(figure.layout.shapes) == frames
    for shape in figure.layout.shapes:
        row, column = divmod(chosen or 0, 5)
        edges = figure.data[0].x[6 * column], figure.data[0].y[4 * row]
        assert (shape.x0, shape.y0) == pytest.approx(edges, abs=0.5)


def test_of_a_large_grid_some_patches_have_maps() -> None:
    maps = patches(30, 20)
    assert maps.rows.tolist() == list(range(1, 30, 3))
    assert maps.columns.tolist() == list(range(0, 20, 2))
    assert not matrix_figures.patch_tiles(maps, chosen=0).layout.shapes, "patch 0 has no tile to frame"
    with pytest.raises(InputError, match=r"from 0 to 599 on a grid of .*; got 600"):
        matrix_figures.patch_map(maps.maps[0, 0], 600)


def test_wavelengths_are_drawn_before_and_after_scaling() -> None:
    found = turns()
    figure = wave_figures.wavelengths(found, series=Series("A", np.zeros(0), "#0b6aa8", "solid"), scaled="after llama3")
    before, after, dots = figure.data
    np.testing.assert_array_equal(before.y[:-1], found.before[:-1])
    np.testing.assert_array_equal(after.y[:-1], found.after[:-1])
    assert np.isnan(before.y[-1]), "a pair that stands still has no wavelength"
    assert (before.name, after.name, after.line.color) == ("before scaling", "after llama3", "#0b6aa8")
    assert dots.x.tolist() == [12, 13, 14]
    assert len(dots.x) == found.beyond.sum() - 1
    assert figure.layout.shapes[0].y0 == 4096
    assert "4,096" in figure.layout.annotations[-1].text
    assert len(wave_figures.wavelengths(turns(1.0), series=Series("A", np.zeros(0))).data) == 2


# --- words


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("selected", [None, 4])
def test_a_map_shows_every_token_once(dims: int, selected: int | None) -> None:
    p, labels = cloud(RNG.normal(size=(300, dims))), vocabulary(300)
    figure = token_figures.token_map(p, labels, selected=selected, neighbours=(5, 6), link="token:test")
    seen: dict[int, tuple[float, ...]] = {}
    for trace in figure.data:
        if not trace.meta or trace.to_plotly_json().get("xaxis") == "x2":
            continue
        rows = trace.meta.get("ids", np.arange(len(trace.x)) + trace.meta.get("first", 0))
        assert trace.meta["link"] == "token:test"
        assert {TOKEN_CLASSES[labels.classes[row]] for row in rows} == {trace.name}
        for place, row in enumerate(rows):
            assert int(row) not in seen
            seen[int(row)] = tuple(trace[name][place] for name in "xyz"[:dims])
            assert trace.text[place] == style.escape(labels[int(row)])
    assert len(seen) == 300
    np.testing.assert_array_equal([seen[row] for row in range(300)], p.coordinates)


def test_the_mass_is_drawn_first_and_fainter() -> None:
    labels = Labels(("a",) * 900, ("a",) * 900, np.repeat([1, 0, 4], [600, 200, 100]).astype(np.uint8))
    figure = token_figures.token_map(cloud(RNG.normal(size=(900, 2))), labels)
    assert [trace.name for trace in figure.data] == ["continuation", "word start", "unused"]
    assert [trace.marker.opacity for trace in figure.data] == [0.4, 0.65, 0.65]
    assert token_figures.class_counts(labels) == {"continuation": 600, "word start": 200, "unused": 100}
    assert all(trace.type == "scattergl" and trace.marker.size == 2.6 for trace in figure.data)


@pytest.mark.parametrize("points", [RNG.normal(size=(3000, 2)), RNG.random((3000, 2)), np.zeros((3000, 2))])
def test_the_enlarged_corner_hides_next_to_nothing(points: np.ndarray) -> None:
    figure = token_figures.token_map(cloud(points), vocabulary(3000), selected=20, neighbours=(21, 22))
    inset = [*figure.layout.xaxis2.domain, *figure.layout.yaxis2.domain]
    assert all(0 <= edge <= 1 for edge in inset)
    unit = []
    for axis, values in zip((figure.layout.xaxis, figure.layout.yaxis), points.T, strict=True):
        assert axis.range[0] <= values.min()
        assert axis.range[1] >= values.max()
        unit.append((values - axis.range[0]) / (axis.range[1] - axis.range[0]))
    hidden = (unit[0] > inset[0]) & (unit[0] < inset[1]) & (unit[1] > inset[2]) & (unit[1] < inset[3])
    assert hidden.mean() < 0.002


def test_islands_are_named_and_the_mainland_is_not() -> None:
    points = np.concatenate([RNG.normal(size=(900, 2)), RNG.normal(size=(90, 2)) / 9 + 12])
    classes = np.repeat([0, 2], [900, 90]).astype(np.uint8)
    labels = Labels(("a",) * 990, ("a",) * 990, classes)
    figure = token_figures.token_map(cloud(points), labels)
    assert [note.text for note in figure.layout.annotations] == ["numbers"]


def test_a_distribution_shows_its_counts_and_the_nearest() -> None:
    figure = line_figures.distribution(DISTRIBUTION, neighbours=NEIGHBOURS)
    np.testing.assert_array_equal(figure.data[0].y, DISTRIBUTION.counts)
    np.testing.assert_array_equal(figure.data[1].x, NEIGHBOURS.values.astype(np.float32))
    assert figure.layout.yaxis.type == "log"
    assert len(figure.layout.annotations) == 2


@pytest.mark.parametrize("dims", [2, 3])
def test_the_helix_of_real_positions_is_smooth_and_noise_is_a_coil(dims: int) -> None:
    smooth = hpe.project(hpe.sinusoidal(256, 64).position.table, dims=dims)
    assert position_figures._step(smooth.coordinates) < style.COIL
    assert position_figures._step(RNG.normal(size=(256, dims))) > style.COIL


def test_no_line_leaves_a_map_for_a_dot_that_is_not_drawn() -> None:
    points = np.array([[0.0, 0.0], [0.1, 0.1], [9.0, 9.0], [0.2, 0.1], [0.1, -0.1]])
    frame = position_figures.MapFrame(np.zeros(2), 1.0)
    figure = position_figures.aligned_map(points, list("abcde"), frame=frame, link="map", order=np.arange(5))
    line, dots = figure.data[:2]
    assert line.mode == "lines"
    assert np.isnan([line.x[2], line.y[2]]).all()
    assert np.array_equal(np.delete(np.array([line.x, line.y]).T, 2, axis=0), np.delete(points, 2, axis=0))
    assert np.array_equal(np.array([dots.x, dots.y]).T, points)
    assert frame.left_out(frame.outside(points)) == "1 dot outside the map"
    assert frame.left_out(frame.outside(points[:2]), frame.outside(points[:2])) == ""
