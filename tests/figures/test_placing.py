"""Placing labels: they stay within the plot and off each other where there is room, and move as little as they must."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hfposemb.figures import label_placement
from hfposemb.figures.label_placement import Frame, wide

RNG = np.random.default_rng(0)
SIZE = (400.0, 300.0)
DOTS = st.lists(st.tuples(st.floats(0, SIZE[0]), st.floats(0, SIZE[1])), min_size=1, max_size=6)


def boxes(points: np.ndarray, texts: list[str], offsets: list[label_placement.Offset]) -> np.ndarray:
    """Return left, right, bottom and top of each label [n, 4]."""
    middles = points + np.array(offsets)
    halves = np.array([(wide(text) / 2, label_placement.LINE / 2) for text in texts])
    low, high = middles - halves, middles + halves
    return np.stack([low[:, 0], high[:, 0], low[:, 1], high[:, 1]], axis=1)


@given(DOTS)
@example([(0.0, 0.0)] * 5)
def test_labels_beside_dots_stay_within_the_plot(dots: list[tuple[float, float]]) -> None:
    points, texts = np.array(dots), [f"name {i}" for i in range(len(dots))]
    offsets = label_placement.beside_dots(points, texts, points, size=SIZE)
    left, right, bottom, top = boxes(points, texts, offsets).T
    assert left.min() >= 0
    assert bottom.min() >= 0
    assert right.max() <= SIZE[0]
    assert top.max() <= SIZE[1]


def test_labels_of_dots_close_together_do_not_cover_each_other() -> None:
    points, texts = np.array([[200.0, 150.0], [204.0, 150.0], [200.0, 154.0]]), ["first", "second", "third"]
    found = boxes(points, texts, label_placement.beside_dots(points, texts, points, size=SIZE))
    for i in range(3):
        for j in range(i):
            a, b = found[i], found[j]
            assert a[1] <= b[0] or b[1] <= a[0] or a[3] <= b[2] or b[3] <= a[2]


@given(st.integers(1, 30))
def test_labels_that_are_kept_cover_no_other_and_the_first_is_kept(count: int) -> None:
    """In a crowd there is not room for all; those that are left out would each cover an earlier one."""
    points, texts = np.full((count, 2), 150.0), [f"name {i}" for i in range(count)]
    offsets = label_placement.beside_dots(points, texts, points, size=SIZE)
    kept = label_placement.unhidden(points, texts, offsets)
    assert kept[0] == 0
    assert kept == sorted(set(kept))
    found = boxes(points, texts, offsets)

    def covers(i: int, j: int) -> bool:
        a, b = found[i], found[j]
        return bool(a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3])

    for place in range(count):
        assert any(covers(place, other) for other in kept if other < place) != (place in kept)


def test_a_label_goes_where_the_crowd_is_not() -> None:
    point = np.array([[200.0, 150.0]])
    crowd = RNG.uniform((200, 0), (400, 300), size=(5_000, 2))  # right of the dot, where labels stand by default
    ((dx, _),) = label_placement.beside_dots(point, ["word"], crowd, size=SIZE)
    assert dx < 0
    ((dx, _),) = label_placement.beside_dots(point, ["word"], np.empty((0, 2)), size=SIZE)
    assert dx > 0
    assert wide("a &lt;b&gt;") == wide("a (b)"), "an escaped text is as wide as what is seen"


def test_the_camera_keeps_the_middle_in_the_middle_and_up_upwards() -> None:
    seen = label_placement.on_screen(np.array([[0, 0, 0], [0, 0, 0.5], [0, 0, -0.5]]), eye=(1.2, 1.1, 0.7), size=SIZE)
    np.testing.assert_allclose(seen[0], (200, 150))
    assert seen[1, 1] > seen[0, 1] > seen[2, 1]
    np.testing.assert_allclose(seen[:, 0], 200, atol=1e-9)


def test_a_frame_takes_values_to_pixels_and_back() -> None:
    frame = Frame((False, True), ((0.0, 10.0), (-1.0, 3.0)), SIZE)
    pixels = frame.pixels(np.array([5.0, 0.0]), np.array([10.0, 0.1]))
    np.testing.assert_allclose(pixels, [[200, 150], [0, 0]], atol=1e-9)
    np.testing.assert_allclose(frame.at(pixels[0]), [5, 1])


def test_names_on_lines_touch_no_line() -> None:
    frame = Frame((False, False), ((0.0, 1.0), (0.0, 1.0)), SIZE)
    x = np.linspace(0, 1, 50)
    trails = [frame.trail(x, height + 0 * x) for height in (0.2, 0.5, 0.8)]
    texts = ["low", "middle", "high"]
    places = label_placement.on_lines(texts, trails, size=SIZE, taken=[])
    assert places is not None
    for text, place in zip(texts, places, strict=True):
        box = place.box(text)
        for trail in trails:
            near = (np.abs(trail[:, 0] - box[0]) < box[2]) & (np.abs(trail[:, 1] - box[1]) < box[3])
            assert not near.any()
    trails = [frame.trail(x, height + 0 * x) for height in np.linspace(0, 1, 40)]
    assert label_placement.on_lines(["name"] * 40, trails, size=SIZE, taken=[]) is None, "there is no room"


@given(st.lists(st.floats(0, 100), min_size=1, max_size=8))
def test_pushing_apart_keeps_order_and_gap(heights: list[float]) -> None:
    before = np.array(heights)
    after = label_placement.apart(before)
    order = np.argsort(before, kind="stable")
    assert (np.diff(after[order]) >= 16 - 1e-6).all()
    assert after.mean() == pytest.approx(before.mean())
    if len(before) == 1 or np.diff(before[order]).min() >= 16:
        np.testing.assert_allclose(after, before)


@pytest.mark.parametrize(("empty", "x", "y"), [((0, 1), 0, 1), ((1, 0), 1, 0)])
def test_the_empty_corner_is_found(empty: tuple[int, int], x: int, y: int) -> None:
    points = RNG.uniform(size=(4_000, 2))
    away = np.abs(points - np.array(empty)).max(axis=1) > 0.5
    corner = label_placement.empty_corner(points[away])
    assert corner[0 if x == 0 else 1] == x
    assert corner[2 if y == 0 else 3] == y
    assert label_placement.empty_corner(points) is None


def test_islands_are_patches_by_size() -> None:
    points = np.concatenate([RNG.uniform(0.0, 0.4, size=(900, 2)), RNG.uniform(0.8, 0.95, size=(90, 2))])
    found = label_placement.islands(points)
    assert set(found[:900]) == {0}
    assert set(found[900:]) == {1}
