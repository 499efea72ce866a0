"""The frame of a cloud, and the camera that fills its plot."""

from __future__ import annotations

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.figures import label_placement
from hfposemb.figures.cloud_frame import FILLED, CloudFrame, best_camera
from hfposemb.figures.position_figures import RATIO, projection
from tests.support.made_tables import table

TURNS = np.linspace(0, 20, 300)
HELIX = np.stack([np.cos(TURNS), np.sin(TURNS), TURNS / 8], axis=1)


def with_far_rows(*rows: int) -> np.ndarray:
    points = HELIX.copy()
    points[list(rows)] = [30.0, 5.0, 4.0]
    return points


def test_frame_is_that_of_the_other_points() -> None:
    whole, cut = CloudFrame.of(HELIX), CloudFrame.of(with_far_rows(0))
    assert not whole.outside.any()
    assert np.flatnonzero(cut.outside).tolist() == [0]
    assert np.allclose(cut.low, whole.low, atol=0.05)
    assert np.allclose(cut.high, whole.high, atol=0.05)
    assert (whole.low <= HELIX).all()
    assert (whole.high >= HELIX).all()
    normal = np.random.default_rng(0).normal(size=(2_000, 3))
    assert CloudFrame.of(normal).outside.mean() < 0.005


@pytest.mark.parametrize("points", [np.zeros((5, 3)), np.eye(3), np.stack([np.arange(9.0)] * 3, axis=1)])
def test_few_or_equal_points_have_a_frame(points: np.ndarray) -> None:
    frame = CloudFrame.of(points)
    assert not frame.outside.any()
    assert (frame.low < frame.high).all()


def test_path_leaves_the_frame_where_its_line_crosses_the_border() -> None:
    points = with_far_rows(0, 150, 151)
    frame = CloudFrame.of(points)
    assert frame.runs() == [(0, 0), (150, 151)]
    exits = frame.exits(points, joined=True)
    for index, place in zip((0, 150, 151), exits, strict=True):
        start = points[{0: 1, 150: 149, 151: 152}[index]]
        share = (place - start) / (points[index] - start)
        assert np.ptp(share) < 1e-9, "it lies on the segment"
        assert 0.45 < np.abs((place - frame.middle) / (frame.high - frame.low)).max() < 0.5, "and at the border"


@pytest.mark.parametrize("ratio", [0.8, 1.17, 3.0])
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 0.2, 0.2), (0.2, 0.2, 1)])
def test_cloud_fills_the_plot_and_stays_within_it(ratio: float, shape: tuple[float, ...]) -> None:
    points = (HELIX - HELIX.mean(axis=0)) / np.ptp(HELIX, axis=0) * shape
    camera = best_camera(points, ratio=ratio)
    size = (400 * ratio, 400.0)
    seen = label_placement.on_screen(points, eye=camera.eye(ratio), center=camera.center, size=size)
    assert np.ptp(seen, axis=0).max() > 0.6 * min(size)
    assert (np.ptp(seen, axis=0) / size).max() < FILLED + 0.05
    assert (seen > 0).all()
    assert (seen < size).all()


@pytest.mark.parametrize("dims", [2, 3])
def test_far_rows_are_labelled_stubs_and_all_numbers_stay(dims: int) -> None:
    found = hpe.project(table(with_far_rows(0, 150, 151).astype(np.float32)), dims=dims)
    figure = projection(found, named=[0, 299])
    path, stub = [trace for trace in figure.data if trace.meta]
    assert np.array_equal(np.stack([path.x, path.y], axis=1), np.float32(found.coordinates[:, :2]))
    assert path.meta["outside"].tolist() == [0, 150, 151]
    assert stub.meta["ids"].tolist() == [0, 150, 151]
    notes = figure.layout.annotations if dims == 2 else figure.layout.scene.annotations
    assert [note.text for note in notes] == ["299", "0, far outside", "150 to 151, far outside"]
    assert all(note.bgcolor for note in notes), "the curve does not hide them"


def test_labels_and_camera_are_of_one_plot() -> None:
    figure = projection(hpe.project(hpe.extract("sample:gpt2").position, dims=3), named=[0, 255])
    camera = figure.layout.scene.camera
    eye, center = (np.array([getattr(camera, end)[axis] for axis in "xyz"]) for end in ("eye", "center"))
    fit = figure.layout.meta["fit"]
    assert np.isclose(np.linalg.norm(eye - center), max(fit["up"], fit["across"] / RATIO))
    assert "0, far outside" in [note.text for note in figure.layout.scene.annotations]
