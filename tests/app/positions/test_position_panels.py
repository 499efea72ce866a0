"""The panels of the tab Positions: what is drawn, and whether their titles are true of the tables."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hfposemb.app.findings.positions import image_patches, position_clouds, position_lines, position_tables, shifts
from hfposemb.app.session import shown_positions
from hfposemb.app.session.opened import Opened
from hfposemb.app.tabs import positions

import hfposemb as hpe
from hfposemb.reports import position_findings
from hfposemb.tables.embeddings import Embeddings
from hfposemb.tables.encodings import (
    Absolute,
    Alibi,
    Convolution,
    Grid,
    NoPositions,
    RelativeBias,
    RelativeTable,
    alibi_slopes,
)
from hfposemb.tables.rotary import DynamicScaling, LongFactors, Rotary
from hfposemb.tables.table import Provenance, table_of
from tests.support.app.sessions import open_session

# --- sentences -------------------------------------------------------------------------------------------------------


def table(vectors: Any) -> hpe.EmbeddingTable:
    return hpe.from_arrays(position=np.asarray(vectors, np.float64)).position.table


def built_in(source: str) -> hpe.EmbeddingTable:
    return hpe.extract(source).position.table


def broken() -> np.ndarray:
    """Neighbours that are alike, but for one place."""
    sine = np.array(built_in("sinusoidal:200x32").vectors)
    sine[100:] = sine[:100] @ np.linalg.qr(np.random.default_rng(0).normal(size=(32, 32)))[0]
    return sine + np.random.default_rng(1).normal(scale=0.05, size=sine.shape)


CIRCLE = np.stack([np.cos(np.linspace(0, 4, 90)), np.sin(np.linspace(0, 4, 90)), np.linspace(0, 1.5, 90) ** 2], axis=1)


@pytest.mark.parametrize(
    ("vectors", "said"),
    [
        (built_in("sinusoidal:256x64").vectors, "Similarity depends on distance alone"),
        (built_in("random:256x64").vectors, "No order: cosine"),
        (built_in("counting:64x8").vectors, "All positions have the same direction"),
        (CIRCLE, "One smooth curve: cosine 1.00"),
        (CIRCLE @ np.ones((3, 4)) + CIRCLE[:, [0, 1, 2, 0]], "One smooth curve: three components explain 100\u00a0%"),
        (CIRCLE[:, :1], "A single column has no shape: its cosines are all ±1"),
        (broken(), "a break at 100 ("),
        (np.zeros((40, 4)), "All positions are zero or not finite"),
        (np.full((40, 4), np.nan), "All positions are zero or not finite"),
        (np.ones((1, 4)), "Too few positions to compare"),
        (np.eye(2), "Too few positions for a shape: it takes 16"),
    ],
)
def test_finding_is_true_of_the_table(vectors: np.ndarray, said: str) -> None:
    assert said in position_findings.finding(position_findings.measure(table(vectors)))


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 8, 15])
@pytest.mark.parametrize("make", [np.random.default_rng(0).standard_normal, np.zeros, np.ones])
def test_few_positions_have_no_shape(make: Any, rows: int) -> None:
    """Three positions on a walk are a smooth curve, and two distances explain most of three pairs."""
    for vectors in (make((rows, width)).cumsum(axis=0) for width in (1, 2, 3, 64)):
        facts = position_findings.measure(table(vectors))
        assert position_findings.shape(facts) in ("no shape", "too few positions for a shape")
        said = [position_findings.finding(facts)]
        for name in ("heading", "winding", "wave_title", "distance_title", "norm_title", "variance_title"):
            said.append(getattr(position_findings, name)({"x": facts}))
        assert not re.search(r"[0-9]\u00a0%|curve|alone|Neighbours|order|above|below|times|No outlying", " ".join(said))


def test_titles_tell_sources_apart() -> None:
    facts = {
        "Sinusoid": position_findings.measure(built_in("sinusoidal:256x64")),
        "Untrained": position_findings.measure(built_in("random:256x64")),
    }
    assert position_findings.heading(facts) == (
        "Share of similarity explained by distance alone: 100\u00a0% in Sinusoid and 1\u00a0% in Untrained"
    )
    assert position_findings.distance_title(facts) == (
        "Similarity stays above zero in Sinusoid and is near zero at all distances in Untrained"
    )
    assert position_findings.norm_title(facts) == "No outlying norms in Untrained; all norms are equal in Sinusoid"
    held = facts["Sinusoid"].held
    assert f"{round(100 * held)}\u00a0% in Sinusoid" in position_findings.variance_title(facts)
    long = np.array(built_in("random:256x64").vectors)
    long[0] *= 9
    assert (
        position_findings.norm_title({"A": position_findings.measure(table(long))})
        == "Position 0 has the largest norm in A"
    )


def spiral(rows: int, period: float) -> np.ndarray:
    """A helix with a third component that rises evenly."""
    t = np.arange(rows)
    turns = 2 * np.pi * t / period
    return np.stack([np.cos(turns), np.sin(turns), t / rows], axis=1) @ RNG.normal(size=(3, 12))


def test_helices_and_waves_are_told() -> None:
    facts = {
        "Coil": position_findings.measure(table(spiral(400, 100.0))),
        "Sinusoid": position_findings.measure(built_in("sinusoidal:256x64")),
        "Untrained": position_findings.measure(built_in("random:256x64")),
    }
    assert facts["Coil"].winds is not None
    assert position_findings.finding(facts["Coil"]).startswith("One slow helix: 3.9")
    assert "turns, one per 10" in position_findings.finding(facts["Coil"])
    assert position_findings.winding(facts).startswith("Coil is a helix: ")
    assert "Sinusoid" not in position_findings.winding(facts)
    assert position_findings.winding({"Untrained": facts["Untrained"]}) == "No helix of 1.5 turns or more was found"
    assert position_findings.wave_title(facts) == (
        "Strongest period: 100 positions in Coil; slow trends are strongest in Sinusoid; "
        "no wave above noise in Untrained"
    )
    hidden = position_findings.measure(hpe.extract("sample:minilm").position.table)
    assert hidden.waves.peak is None
    assert position_findings.wave_title({"MiniLM": hidden}) == (
        "Slow trends are strongest in MiniLM; MiniLM is a helix with a turn per 5.9 positions"
    )


def test_the_foot_counts_the_points_that_lie_wrongly() -> None:
    page = open_session()
    (source,) = shown(Absolute(built_in("random:64x16")))
    panel = position_clouds.source_panel(source, shown_positions.View(), page)
    trust = hpe.project(built_in("random:64x16"), dims=3).trust
    wrong = int(trust.wrong.sum())
    assert f"{wrong} of 64 dots are hollow." in panel.help
    dots = panel.drawings[0].figure.data[0]
    assert np.count_nonzero(np.asarray(dots.marker.symbol) == "circle-open") == wrong
    assert "neighbours (chance: 16\u00a0%)" in panel.foot
    assert ", by chance .5" in panel.help
    whole = position_clouds.source_panel(shown(LEARNED)[0], shown_positions.View(length=32), page)
    assert "neighbours (chance: 32\u00a0%)" in whole.foot


def test_shifts_of_every_source_are_drawn_with_the_band_of_surrogates() -> None:
    page = open_session()
    opened = shown(Absolute(table(spiral(200, 40.0))), SINE, ROTARY, Absolute(table(np.ones((9, 4)))))
    drawn = shifts.shift_panels(opened, 0, "orthogonal", 4, page)
    random, end, planes, turned = drawn.panels
    assert random.title.startswith("Of a shift by one position, a fitted rotation explains 99\u00a0% in S0 and ")
    assert "beyond the fitted positions" in end.title
    assert "S2: rotary, so a shift rotates queries and keys by ω k by construction" in random.foot
    assert "S3: " in random.foot
    assert planes.title.startswith("Planes rotated by ω k in a shift by 4 positions: 1 of 1 in S0 and ")
    assert turned.title.startswith("A shift by 4 positions turns the sinusoid’s first pair by 229°")
    rows, columns = (np.asarray(one.figure.data[0].z) for one in turned.drawings)
    np.testing.assert_allclose(rows, columns.T)
    np.testing.assert_allclose(columns[:2, :2], [[np.cos(4), np.sin(4)], [-np.sin(4), np.cos(4)]], atol=1e-6)
    names = {trace.name for trace in random.drawings[0].figure.data if trace.mode == "lines" and trace.fill is None}
    assert names == {"S0", "S1", "closed form"}
    assert sum(trace.fill == "toself" for trace in random.drawings[0].figure.data) == 2
    (nothing,) = shifts.shift_panels(opened[3:], 0, "linear", 4, page).panels
    assert nothing.message.startswith("S3: ")
    (nothing,) = shifts.shift_panels(opened[2:3], 0, "linear", 4, page).panels
    assert "by construction" in nothing.message


def test_a_sinusoid_is_drawn_as_its_frequencies_are_added() -> None:
    page = open_session()
    panel = position_lines.spectra(page.open(["sinusoidal:256x128"]), 0, page).panels[-1]
    assert panel.title == (
        "With one pair of sine and cosine, 0\u00a0% of positions are nearest to a neighbour; with 8, 100\u00a0%"
    )
    circle = np.stack([panel.drawings[0].figure.data[-1][axis] for axis in "xy"], axis=1)
    assert np.ptp(np.linalg.norm(circle - circle.mean(axis=0), axis=1)) < 0.1
    assert [drawing.caption.partition(",")[0] for drawing in panel.drawings] == [
        "1 pair",
        "2 pairs",
        "8 pairs",
        "64 pairs",
        "Position 0 points up; at position 44 these hands are turned from it by so many degrees",
    ]
    clock = panel.drawings[-1].figure
    assert clock.layout.annotations[0].text == "pair 1: 1°"  # seven turns of the fastest hand
    ends = np.array([[hand.x[1], hand.y[1]] for hand in clock.data[2::4]])
    angles = 44.0 / 10_000 ** (np.array([0, 1, 7, 63]) / 64)
    np.testing.assert_allclose(ends, np.stack([np.sin(angles), np.cos(angles)], axis=1), atol=1e-5)
    learned = position_lines.spectra(shown(LEARNED), 0, page)
    assert not any(one.key == "buildup" for one in learned.panels)


@pytest.mark.parametrize("asked", [64, 31, 10**6])
def test_a_mark_beyond_the_end_is_the_last_position(asked: int) -> None:
    page = open_session()
    drawn, *_ = positions.draw_sources(page.open(["sinusoidal:32x8"]), "pca", 2, 0, asked, {}, session=page)
    (panel,) = drawn.panels
    said = " ".join([panel.emphasis, *(drawing.caption for drawing in panel.drawings)])
    assert "Position 31" in said
    assert "No position" not in said


def test_titles_of_nothing_are_sentences() -> None:
    nothing = {"A": position_findings.measure(table(np.zeros((3, 2))))}
    titles = (
        position_findings.heading,
        position_findings.distance_title,
        position_findings.norm_title,
        position_findings.variance_title,
    )
    for title in (*titles, position_findings.winding, position_findings.wave_title):
        for facts in ({}, nothing):
            assert title(facts)


def test_widest_dimension() -> None:
    assert "of 64 dimensions range from −1.00 to 1.00" in position_findings.widest_title(built_in("sinusoidal:256x64"))
    spiked = np.zeros((5, 9))
    spiked[2, 7] = -3
    assert position_findings.widest_title(table(spiked)) == "Dimension 7 has the widest range, from −3.00 to .00"


@pytest.mark.parametrize(
    ("share", "written"), [(1.0, "100"), (0.9993, "99"), (0.345, "34"), (0.006, "1"), (0.004, "under 1"), (0.0, "0")]
)
def test_percent_rounds_to_no_untruth(share: float, written: str) -> None:
    assert position_findings.percent(share) == f"{written}\u00a0%"


def test_nearest_are_the_exact_neighbours() -> None:
    wave = built_in("sinusoidal:64x16")
    found = hpe.neighbours(wave, 20, k=3)
    said = position_findings.nearest(wave, 20)
    assert said.startswith("Position 20 is closest to ")
    assert all(f"{row} (" in said for row in found.rows)
    assert "the table ends at 63" in position_findings.nearest(wave, 64)
    assert "zero" in position_findings.nearest(table(np.zeros((3, 2))), 1)


@pytest.mark.parametrize(("text", "read"), [("0, 1", (0, 1)), ("7;7 8", (7, 8)), ("dims 3 and 4", (3, 4))])
def test_dimensions_are_read_from_what_people_type(text: str, read: tuple[int, ...]) -> None:
    assert position_tables.read_dimensions(text) == read


@pytest.mark.parametrize("text", ["", "none", "1 2 3 4 5 6 7", "9999999999"])
def test_dimensions_that_cannot_be_drawn(text: str) -> None:
    with pytest.raises(hpe.HfposembError, match="enter 1 to 6 dimensions"):
        position_tables.read_dimensions(text)


# --- mechanisms side by side -----------------------------------------------------------------------------------------


def shown(*encodings: Any, **parts: Any) -> tuple[Opened, ...]:
    """Sources with these positions, and one more with several ``parts``."""
    found = [{"position": encoding} for encoding in encodings] + ([parts] if parts else [])
    return tuple(
        Opened(f"./{place}", f"S{place}", "#0b6aa8", "solid", Embeddings(f"S{place}", {}, positions))
        for place, positions in enumerate(found)
    )


RNG = np.random.default_rng(0)
ROTARY = Rotary(10000.0 ** (-np.arange(8) / 8), 200, base_freq=np.full(8, 0.5), trained_length=64, scaling="yarn")
T5 = RelativeBias(RNG.normal(size=(32, 4)), 512)
T5_DECODER = RelativeBias(RNG.normal(size=(32, 4)), 512, bidirectional=False)
LEARNED = Absolute(table_of(RNG.normal(size=(64, 16)), name="learned", provenance=Provenance("test")))
SINE = hpe.sinusoidal(64, 16).position
SHAW = RelativeTable(RNG.normal(size=(21, 8)), np.arange(-10, 11), 50)


def test_every_mechanism_stands_in_the_plot_of_its_unit() -> None:
    opened = shown(
        LEARNED, SINE, ROTARY, Alibi(alibi_slopes(8), 512), T5, SHAW, T5_DECODER, Convolution(9), NoPositions()
    )
    page = open_session()
    drawn = {panel.key: panel for panel in position_lines.lines(opened, 0, page).panels}
    assert list(drawn) == ["distance", "kernel", "bias", "norms", "variance"]
    assert [panel.key for panel in position_lines.spectra(opened, 0, page).panels] == ["waves", "wavelengths ./2"]
    lines = {
        key: {trace.name: trace for trace in drawn[key].drawings[0].figure.data if trace.mode == "lines"}
        for key in ("distance", "kernel", "bias", "norms", "variance")
    }
    assert {key: list(found) for key, found in lines.items()} == {
        "distance": ["S0", "S1", "S5"],
        "kernel": ["S2"],
        "bias": ["S3", "S4", "S6"],
        "norms": ["S0", "S1"],
        "variance": ["S0", "S1", "Untrained"],
    }
    units = [drawn[key].drawings[0].figure.layout.yaxis.title.text for key in ("distance", "kernel", "bias")]
    assert units == ["mean cosine", "expected rotary kernel", "additive bias"]
    for name, encoding in (("S3", opened[3].position), ("S4", T5), ("S6", T5_DECODER)):
        line = lines["bias"][name]
        np.testing.assert_allclose(line.y, encoding.profile(line.x.astype(int)), rtol=1e-5)
    assert lines["bias"]["S6"].x.max() == 0, "a decoder looks back only"
    assert (lines["bias"]["S4"].x.min(), lines["bias"]["S4"].x.max()) == (-127, 127)
    np.testing.assert_allclose(lines["kernel"]["S2"].y, ROTARY.profile(np.arange(200)), atol=1e-6)
    sine = lines["distance"]["S1"]
    np.testing.assert_allclose(sine.y, SINE.profile(sine.x.astype(int)), atol=1e-5)
    assert "S5: cosine with the vector of distance 0 · not shown: S7 and S8 (no numbers" in drawn["distance"].foot
    assert "16 positions back, the bias is " in drawn["bias"].title
    panels = position_clouds.clouds(opened, shown_positions.View(), page).panels
    assert all(panel.tone == "normal" for panel in panels)
    assert [len(panel.drawings) for panel in panels] == [2, 2, 2, 2, 2, 2, 2, 0, 0]
    assert "convolution of width 9" in panels[7].message
    assert "no position encoding" in panels[8].message


def test_rotary_rows_have_a_cloud_and_a_kernel_of_their_own() -> None:
    (source,) = shown(Rotary(10000.0 ** (-np.arange(8) / 8), 131_072))
    panel = position_clouds.source_panel(source, shown_positions.View(dims=2, method="umap"), open_session())
    assert panel.source == ("S0", "512 of 131,072 rotary positions")
    kernel = panel.drawings[1].figure.data[0].z
    np.testing.assert_allclose(kernel, source.position.matrix(512), atol=1e-6)
    assert panel.drawings[1].caption == "expected rotary kernel of every pair of positions"
    assert panel.foot.startswith("UMAP needs vectors. PCA keeps ")
    first = int(np.flatnonzero(source.position.profile(np.arange(512)) < 0.5)[0])
    assert panel.title == f"Its kernel falls below .5 at distance {first}"


def test_the_sentence_about_wavelengths_counts_pairs() -> None:
    assert position_lines.wavelength_title(ROTARY) == (
        "0 of 8 pairs rotate less than once in the 64 positions it was trained on; scaling by yarn changes 8 pairs"
    )
    plain = Rotary(np.array([1.0, 1e-3, 0.0]), 100)
    assert position_lines.wavelength_title(plain) == (
        "2 of 3 pairs rotate less than once in the 100 positions it was trained on; none is scaled"
    )
    assert "1 without rotation" in position_lines.still(plain)
    dynamic = Rotary(np.ones(3), 64, base_freq=np.ones(3), by_length=DynamicScaling(10_000.0, 6, 2.0, 64))
    assert position_lines.wavelength_title(dynamic).endswith("; inputs of more than 64 positions slow them down")
    long = Rotary(
        np.full(3, 0.5),
        *(256, 1.0, "half", np.ones(3), 64, "longrope"),
        LongFactors(np.ones(3), np.full(3, 0.5), 64),
    )
    assert position_lines.wavelength_title(long).endswith(
        "; scaling by longrope changes 3 pairs for inputs of more than 64 positions"
    )


def test_a_part_is_chosen_where_a_source_has_it() -> None:
    opened = shown(LEARNED, text=ROTARY, vision=SINE)
    assert shown_positions.parts_of(opened) == ["text", "vision"]
    assert shown_positions.parts_of(opened[:1]) == []
    for part, kinds in (
        ("vision", ["learned", "sinusoidal"]),
        ("", ["learned", "rotary"]),
        ("x", ["learned", "rotary"]),
    ):
        assert [source.position.kind for source in shown_positions.of_part(opened, part)] == kinds
    panel = position_clouds.source_panel(
        shown_positions.of_part(opened, "vision")[1], shown_positions.View(), open_session()
    )
    assert panel.source == ("S1", "64 computed positions · vision")


def test_patches_of_a_vision_part_are_drawn_whichever_part_is_chosen() -> None:
    table = table_of(RNG.normal(size=(13, 8)), name="patches", provenance=Provenance("test"))
    opened = shown(LEARNED, text=ROTARY, vision=Absolute(table, grid=Grid(3, 4, 1)))
    drawn = image_patches.patches(opened, {"./1": 3}, open_session())
    assert [panel.key for panel in drawn.panels] == ["./1 tiles", "./1 map"]
    tiles, large = drawn.panels
    assert tiles.source == ("S1", "3 × 4 patches · vision")
    assert tiles.title.startswith("Rows explain ")
    assert "shuffled patches: " in tiles.title
    assert large.drawings[0].caption == "row\u00a00, column\u00a03"
    assert not image_patches.patches(opened[:1], {}, open_session()).panels
    vast = table_of(np.ones((70 * 70, 2)), name="vast", provenance=Provenance("test"))
    (only,) = image_patches.patches(shown(Absolute(vast, grid=Grid(70, 70))), {}, open_session()).panels
    assert (only.drawings, only.message) == ((), "Too many patches to draw: 4,900, at most 4,096.")
    holes = table_of(np.full((12, 8), np.nan), name="holes", provenance=Provenance("test"))
    broken = image_patches.patches(shown(Absolute(holes, grid=Grid(3, 4))), {}, open_session())
    assert "12 of 12 patches hold NaN or Inf" in broken.panels[0].title
