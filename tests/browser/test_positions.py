"""The Positions tab: sentences that are true of any table, and the tab in a real browser."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gradio as gr
import numpy as np
import pytest
import torch
import transformers
from safetensors.numpy import save_file

import hfposemb as hpe
from app.findings import (
    image_patches,
    position_clouds,
    position_lines,
    position_tables,
    shifts,
)
from app.session import shown_positions
from app.session.library import Library
from app.session.opened import Opened
from app.session.state import Session
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
from hfposemb.tables.rotary import Rotary
from hfposemb.tables.table import Provenance, table_of

from . import waiting
from .waiting import accessible_everywhere, drawn, until

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    from tests.conftest import Build

SMALL = ("sinusoidal:64x16", "random:48x12")


# --- sentences -------------------------------------------------------------------------------------------------------


def table(vectors: Any) -> hpe.EmbeddingTable:
    found = hpe.from_arrays(position=np.asarray(vectors, np.float64)).position.table
    assert found is not None
    return found


def built_in(source: str) -> hpe.EmbeddingTable:
    found = hpe.extract(source).position.table
    assert found is not None
    return found


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
        (CIRCLE, "One smooth curve: three components explain 100\u00a0%"),
        (broken(), "a break at 100 ("),
        (np.zeros((40, 4)), "All positions are zero or not finite"),
        (np.full((40, 4), np.nan), "All positions are zero or not finite"),
        (np.ones((1, 4)), "Too few positions to compare"),
        (np.eye(2), "Too few positions to describe a shape"),
    ],
)
def test_finding_is_true_of_the_table(vectors: np.ndarray, said: str) -> None:
    assert said in position_findings.finding(position_findings.measure(table(vectors)))


def test_titles_tell_sources_apart() -> None:
    facts = {
        "Sinusoid": position_findings.measure(built_in("sinusoidal:256x64")),
        "Untrained": position_findings.measure(built_in("random:256x64")),
    }
    assert position_findings.heading(facts) == (
        "Share of similarity explained by distance alone: 100\u00a0% in Sinusoid and 1\u00a0% in Untrained"
    )
    assert position_findings.distance_title(facts) == (
        "Similarity stays above zero in Sinusoid, is near zero at all distances in Untrained"
    )
    assert position_findings.norm_title(facts) == "No outlying norms in Untrained; all norms are equal in Sinusoid"
    held = facts["Sinusoid"].held
    assert held is not None
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
    assert position_findings.winding({"Untrained": facts["Untrained"]}) == "No table winds evenly around an axis"
    assert position_findings.wave_title(facts) == (
        "Strongest period: 100 positions in Coil and the whole table in Sinusoid; no wave above noise in Untrained"
    )


def test_the_foot_counts_the_points_that_lie_wrongly() -> None:
    page = session()
    (source,) = shown(Absolute(built_in("random:64x16")))
    panel = position_clouds.source_panel(source, shown_positions.View(), page)
    trust = hpe.project(built_in("random:64x16"), dims=3).trust
    assert trust is not None
    wrong = int(trust.wrong.sum())
    assert f"hollow: {wrong} of 64 misplaced, with fewer than 3 of their 10 nearest nearby" in panel.foot
    dots = panel.drawings[0].figure.data[0]
    assert np.count_nonzero(np.asarray(dots.marker.symbol) == "circle-open") == wrong
    assert "by chance 16\u00a0%, .5" in panel.foot
    whole = position_clouds.source_panel(shown(LEARNED)[0], shown_positions.View(length=32), page)
    assert "by chance 32\u00a0%, .5" in whole.foot


def test_shifts_of_every_source_are_drawn_with_the_band_of_surrogates() -> None:
    page = session()
    opened = shown(Absolute(table(spiral(200, 40.0))), SINE, ROTARY, Absolute(table(np.ones((9, 4)))))
    drawn = shifts.shift_panels(opened, 0, "orthogonal", 4, page)
    random, end, planes = drawn.panels
    assert random.title.startswith("Of a shift by one position, a rotation explains 99\u00a0% in S0 and ")
    assert "beyond the fitted positions" in end.title
    assert "S2: rotary, so a shift rotates queries and keys by ω k by construction" in random.foot
    assert "S3: " in random.foot
    assert planes.title.startswith("Planes rotated by ω k in a shift by 4 positions: 1 of 1 in S0 and ")
    names = {trace.name for trace in random.drawings[0].figure.data if trace.mode == "lines" and trace.fill is None}
    assert names == {"S0", "S1", "closed form"}
    assert sum(trace.fill == "toself" for trace in random.drawings[0].figure.data) == 2
    (nothing,) = shifts.shift_panels(opened[3:], 0, "linear", 4, page).panels
    assert nothing.message.startswith("S3: ")
    (nothing,) = shifts.shift_panels(opened[2:3], 0, "linear", 4, page).panels
    assert "by construction" in nothing.message


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


def session() -> Session:
    with gr.Blocks():
        return Session(False, (), gr.State([]), gr.State(""), gr.Tabs(), library=Library())


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
    page = session()
    drawn = {panel.key: panel for panel in position_lines.lines(opened, 0, page).panels}
    assert list(drawn) == ["distance", "kernel", "bias", "norms", "waves", "variance", "wavelengths ./2"]
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
    panel = position_clouds.source_panel(source, shown_positions.View(dims=2, method="umap"), session())
    assert panel.source == ("S0", "512 of 131,072 rotary positions")
    kernel = panel.drawings[1].figure.data[0].z
    np.testing.assert_allclose(kernel, source.position.matrix(512), atol=1e-6)
    assert panel.drawings[1].caption == "expected rotary kernel of every pair of positions"
    assert panel.foot.startswith("UMAP needs vectors; shown instead: PCA")
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
        shown_positions.of_part(opened, "vision")[1], shown_positions.View(), session()
    )
    assert panel.source == ("S1", "64 computed positions · vision")


def test_patches_of_a_vision_part_are_drawn_whichever_part_is_chosen() -> None:
    table = table_of(RNG.normal(size=(13, 8)), name="patches", provenance=Provenance("test"))
    opened = shown(LEARNED, text=ROTARY, vision=Absolute(table, grid=Grid(3, 4, 1)))
    drawn = image_patches.patches(opened, {"./1": 3}, session())
    assert [panel.key for panel in drawn.panels] == ["./1 tiles", "./1 map"]
    tiles, large = drawn.panels
    assert tiles.source == ("S1", "3 × 4 patches · vision")
    assert tiles.title.startswith("Rows explain ")
    assert "shuffled patches: " in tiles.title
    assert large.drawings[0].caption == "row\u00a00, column\u00a03"
    assert not image_patches.patches(opened[:1], {}, session()).panels
    vast = table_of(np.ones((70 * 70, 2)), name="vast", provenance=Provenance("test"))
    (only,) = image_patches.patches(shown(Absolute(vast, grid=Grid(70, 70))), {}, session()).panels
    assert (only.drawings, only.message) == ((), "Too many patches to draw: 4,900, at most 4,096.")
    holes = table_of(np.full((12, 8), np.nan), name="holes", provenance=Provenance("test"))
    broken = image_patches.patches(shown(Absolute(holes, grid=Grid(3, 4))), {}, session())
    assert "12 of 12 patches hold NaN or Inf" in broken.panels[0].title


# --- in the browser --------------------------------------------------------------------------------------------------


def open_tab(page: Page, site: Callable[..., str], *sources: str) -> None:
    page.goto(site(*sources))
    waiting.open_tab(page, "Positions")


def panel_of(page: Page, source: str, row: int = 0) -> Locator:
    """The panel of a source in the row of clouds, or the one in the row of tables."""
    return page.locator(f'.panel[data-key="{source}"]:visible').nth(row)


def plot_of(page: Page, source: str, place: int = 0, row: int = 0) -> Locator:
    return panel_of(page, source, row).locator(".plot").nth(place)


def column(plot: Locator, index: int) -> float:
    """Where a heatmap has a column, in pixels of its box."""
    found: float = plot.evaluate(
        """(node, index) => { const { xaxis } = node.querySelector('.stage')._fullLayout;
        return xaxis._offset + xaxis.d2p(index); }""",
        index,
    )
    return found


def marked(page: Page, source: str, place: int) -> list[str]:
    found: list[str] = plot_of(page, source, place).evaluate(
        "(node) => [...new Set([...node.querySelectorAll('.overlay [data-index]')].map((one) => one.dataset.index))]"
    )
    return found


def wait_for_mark(page: Page, index: int, sources: tuple[str, ...] = SMALL) -> None:
    places = [(source, place) for source in sources for place in (0, 1)]
    until(page, lambda: [marked(page, *place) for place in places], [[str(index)]] * len(places))


def test_points_hover_click_and_slider(site: Callable[..., str], page: Page) -> None:
    open_tab(page, site, *SMALL)
    for source in SMALL:
        projection = hpe.project(built_in(source), dims=3)
        for dimension, axis in enumerate("xyz"):
            seen = plot_of(page, source).evaluate(
                "(node, axis) => Array.from(node.querySelector('.stage').data[0][axis])", axis
            )
            assert np.array_equal(np.float32(seen), projection.coordinates[:, dimension])
        z = plot_of(page, source, 1).evaluate(
            "(node) => node.querySelector('.stage').data[0].z.map((row) => Array.from(row))"
        )
        assert np.abs(np.asarray(z) - hpe.similarity(built_in(source))).max() < 1e-4
        ratio = projection.explained_variance_ratio
        assert ratio is not None
        assert f"axes show {100 * sum(ratio):.0f} % of the variance" in panel_of(page, source).inner_text()
        assert "of neighbours kept, trust" in panel_of(page, source).inner_text()

    heatmap = plot_of(page, SMALL[0], 1)
    heatmap.hover(position={"x": column(heatmap, 30), "y": 60})
    wait_for_mark(page, 30)

    cloud = plot_of(page, SMALL[1])
    wrong = hpe.project(built_in(SMALL[1]), dims=3).trust
    assert wrong is not None
    symbols = cloud.evaluate("(node) => node.querySelector('.stage').data[0].marker.symbol")
    assert [place for place, symbol in enumerate(symbols) if symbol == "circle-open"] == wrong.points[
        wrong.wrong
    ].tolist()

    page.mouse.down()
    page.mouse.up()
    for source in SMALL:
        rows = hpe.neighbours(built_in(source), 30, k=3).rows
        panel_of(page, source).get_by_text(f"Position 30 is closest to {rows[0]} (").wait_for()
        text = panel_of(page, source).inner_text()
        assert all(f"{row} (" in text for row in rows)
    drawn(page)
    page.mouse.move(2, 2)
    wait_for_mark(page, 30)

    calls: list[str] = []
    page.on("request", lambda asked: calls.append(asked.url))
    slider = page.locator("input[type=range]:visible")
    until(page, slider.input_value, "30")
    assert slider.get_attribute("max") == "63"
    slider.focus()
    slider.fill("12")
    wait_for_mark(page, 12)
    assert not calls, "dragging asks nobody"
    slider.dispatch_event("pointerup")
    for source in SMALL:
        panel_of(page, source).get_by_text("Position 12 is closest to").wait_for()


def test_two_dimensions_fewer_positions_and_waves(site: Callable[..., str], page: Page) -> None:
    open_tab(page, site, *SMALL)
    page.get_by_text("2-D", exact=True).locator("visible=true").click()
    page.wait_for_function("() => !document.querySelector('[data-key=\"sinusoidal:64x16\"] .stage').data[0].z")
    page.get_by_text("32", exact=True).locator("visible=true").first.click()
    panel_of(page, SMALL[0]).get_by_text("32 of 64 computed positions").wait_for()
    drawn(page)
    dots = "(node) => node.querySelector('.stage').data.at(-1).x.length"
    assert plot_of(page, SMALL[0]).evaluate(dots) == 32
    field = page.get_by_label("Dimensions drawn as waves")
    field.fill("1, 3, 99")
    field.press("Enter")
    panel_of(page, SMALL[0], 1).get_by_text("no dimension 99").wait_for()
    drawn(page)
    lines = plot_of(page, SMALL[0], 1, row=1).evaluate("(node) => node.querySelector('.stage').data.map((t) => t.name)")
    assert lines == ["dimension 1", "dimension 3"]
    field.fill("<b>")
    field.press("Enter")
    page.get_by_text("Enter 1 to 6 dimensions").wait_for()


def test_shifts_and_probes_are_computed_when_asked_for(own_site: Callable[..., str], page: Page) -> None:
    open_tab(page, own_site, *SMALL)
    assert page.locator(".panel[data-key=planes]").count() == 0
    page.get_by_role("button", name="Is a shift of the position a rotation?").click()
    planes = page.locator(".panel[data-key=planes]")
    planes.get_by_role("heading", name="in a shift by 4 positions").wait_for()
    page.get_by_role("radio", name="16").check(force=True)
    planes.get_by_role("heading", name="in a shift by 16 positions").wait_for()
    page.get_by_role("radio", name="Rotation").check(force=True)
    page.get_by_role("heading", name="Of a shift by one position, a rotation explains").wait_for()

    page.get_by_role("button", name="Can a linear model decode").click()
    page.get_by_text("Not measured yet").wait_for()
    run = page.get_by_role("button", name="Run the probes")
    run.click()
    page.get_by_role("button", name="Cancel").locator("visible=true").click()
    page.get_by_role("button", name="Cancel").locator("visible=true").wait_for(state="hidden")
    run.click()
    # The child steps back behind everybody else: minutes on a busy machine.
    page.get_by_role("heading", name="Decoded from 32 components, a position has").wait_for(timeout=600_000)
    cells = page.locator(".probes tbody td").all_inner_texts()
    assert len(cells) == 8
    assert cells[0].startswith(".0 ± .0"), "the sinusoid's positions are read exactly"
    assert all("noise" in cell for cell in cells)
    accessible_everywhere(page)


def test_umap_runs_and_can_be_cancelled(own_site: Callable[..., str], page: Page) -> None:
    sources = ("sinusoidal:150x8", "sinusoidal:4000x16")
    open_tab(page, own_site, *sources)
    page.get_by_text("UMAP", exact=True).locator("visible=true").click()
    cancel = page.get_by_role("button", name="Cancel")
    cancel.wait_for()
    assert "Position" in panel_of(page, sources[0]).inner_text()  # PCA stays until there is another picture
    cancel.click()
    cancel.wait_for(state="hidden")
    page.wait_for_function(
        """() => [...document.querySelectorAll('input[type=radio][value=pca]')].some((one) => one.checked)"""
    )
    panel_of(page, sources[0]).get_by_text("PCA · 3 of 8").wait_for()


def test_umap_is_drawn(  # umap-learn compiles itself when it is first used: two minutes on a busy machine
    site: Callable[..., str], page: Page
) -> None:
    sources = ("sinusoidal:150x8", "sinusoidal:12x8")
    open_tab(page, site, *sources)
    page.get_by_text("UMAP", exact=True).locator("visible=true").click()
    panel_of(page, sources[0]).get_by_text("UMAP · seed 0").wait_for(timeout=600_000)
    panel_of(page, sources[1]).get_by_text("UMAP needs more than 15 positions").wait_for()
    drawn(page)
    expected = hpe.project(built_in(sources[0]), method="umap", dims=3).coordinates
    seen = [
        plot_of(page, sources[0]).evaluate(
            "(node, axis) => Array.from(node.querySelector('.stage').data[0][axis])", axis
        )
        for axis in "xyz"
    ]
    assert np.allclose(np.float32(seen).T, expected, atol=1e-3)


def write(folder: Path, tensors: dict[str, np.ndarray], config: dict[str, Any] | None = None) -> str:
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors")
    if config:
        (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


def test_sources_that_have_no_cloud(site: Callable[..., str], page: Page, build: Build, tmp_path: Path) -> None:
    """Rotary positions, words only, holes in a table, and what cannot be read: each says so in its place."""
    build("llama").save_pretrained(tmp_path / "llama")  # type: ignore[operator]
    rng = np.random.default_rng(0)
    words = write(tmp_path / "words", {"embeddings.word_embeddings.weight": rng.normal(size=(30, 8)).astype("f4")})
    holes = rng.normal(size=(24, 8)).astype("f4")
    holes[3], holes[5, 0] = np.nan, np.inf
    holed = write(tmp_path / "holes", {"wpe.weight": holes})
    sources = (str(tmp_path / "llama"), words, holed, "sinusoidal:0x0")
    open_tab(page, site, *sources)

    llama = panel_of(page, sources[0])
    assert "20 rotary positions" in llama.inner_text()
    assert "expected rotary kernel of every pair of positions" in llama.inner_text()
    encoding = hpe.extract(sources[0]).position
    z = plot_of(page, sources[0], 1).evaluate(
        "(node) => node.querySelector('.stage').data[0].z.map((row) => Array.from(row))"
    )
    assert np.abs(np.asarray(z) - encoding.matrix(20)).max() < 1e-4
    assert "No positions to draw" in panel_of(page, words).inner_text()
    assert "2 rows with NaN or Inf left out" in panel_of(page, holed).inner_text()
    error = panel_of(page, sources[3])
    assert "error" in (error.get_attribute("class") or "")

    # No curve of another unit among the cosines.
    names = page.locator(".panel[data-key=distance] .stage").evaluate("(node) => node.data.map((trace) => trace.name)")
    assert names == ["holes"]
    names = page.locator(".panel[data-key=kernel] .stage").evaluate("(node) => node.data.map((trace) => trace.name)")
    assert names == ["llama"]


def test_units_are_never_mixed_and_parts_are_chosen(
    site: Callable[..., str], page: Page, build: Build, tmp_path: Path
) -> None:
    """A learned table with an encoder and a decoder, a rotary, an ALiBi and a T5 model on one page."""
    small = {"vocab_size": 61, "hidden_size": 16, "n_layer": 1, "n_head": 2}
    build("bart").save_pretrained(tmp_path / "bart")  # type: ignore[operator]
    build("llama").save_pretrained(tmp_path / "llama")  # type: ignore[operator]
    transformers.BloomModel(transformers.BloomConfig(**small)).save_pretrained(tmp_path / "bloom")
    widths = {"vocab_size": 61, "d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 1, "num_heads": 2}
    transformers.T5Model(transformers.T5Config(**widths)).save_pretrained(tmp_path / "t5")
    sources = tuple(str(tmp_path / name) for name in ("bart", "llama", "bloom", "t5"))
    open_tab(page, site, *sources)
    names = "(node) => node.data.filter((trace) => trace.mode === 'lines').map((trace) => trace.name)"
    found = {
        key: page.locator(f".panel[data-key={key}] .stage").evaluate(names) for key in ("distance", "kernel", "bias")
    }
    assert found == {"distance": ["bart"], "kernel": ["llama"], "bias": ["bloom", "t5"]}
    assert page.locator(".panel[data-state=failed]:visible, .panel.error:visible").count() == 0
    assert "rotate less than once in the 20 positions" in page.locator('.panel[data-key^="wavelengths"]').inner_text()

    assert "20 learned positions · encoder" in panel_of(page, sources[0]).inner_text()
    page.get_by_label("Part", exact=True).locator("visible=true").click()
    page.get_by_role("option", name="decoder").click()
    panel_of(page, sources[0]).get_by_text("20 learned positions · decoder").wait_for()
    panel_of(page, sources[3]).get_by_text("relative-bias positions · decoder").wait_for()
    until(page, page.locator(".pending .plot:visible").count, 0)
    drawn(page)
    decoder = hpe.extract(sources[0]).positions["decoder"]
    z = plot_of(page, sources[0], 1).evaluate(
        "(node) => node.querySelector('.stage').data[0].z.map((row) => Array.from(row))"
    )
    assert np.abs(np.asarray(z) - decoder.matrix()).max() < 1e-4


def test_patches_are_tiles_and_a_click_shows_one_large(site: Callable[..., str], page: Page, tmp_path: Path) -> None:
    config = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
    model = transformers.ViTModel(transformers.ViTConfig(image_size=(32, 48), patch_size=8, **config))
    torch.nn.init.normal_(model.embeddings.position_embeddings)
    model.save_pretrained(tmp_path / "vit")
    source = str(tmp_path / "vit")
    open_tab(page, site, source)
    cosines = hpe.extract(source).position.matrix()[1:, 1:].reshape(4, 6, 4, 6)
    tiles, large = (page.locator(f'.panel[data-key="{source} {key}"]') for key in ("tiles", "map"))
    assert "Rows explain" in tiles.inner_text()
    assert "4 × 6 patches" in tiles.inner_text()
    numbers = "(node) => node.querySelector('.stage').data[0].z.map((row) => Array.from(row))"
    z = np.array(tiles.locator(".plot").evaluate(numbers), np.float64)
    for row, column in ((0, 0), (2, 4), (3, 5)):
        tile = z[5 * row : 5 * row + 4, 7 * column : 7 * column + 6]
        assert np.abs(tile - cosines[row, column]).max() < 1e-5

    def drawn_large() -> list[list[float]]:
        found: list[list[float]] = large.locator(".plot").evaluate(numbers)
        return found

    def shows(row: int, column: int) -> None:
        until(page, drawn_large, lambda z: bool(np.abs(np.asarray(z) - cosines[row, column]).max() < 1e-5))

    shows(2, 3)
    plot = tiles.locator(".plot")
    plot.scroll_into_view_if_needed()
    x, y = waiting.point(
        page,
        plot,
        """(stage) => { const { xaxis, yaxis } = stage._fullLayout, { x, y } = stage.data[0];
        return [xaxis._offset + xaxis.d2p(x[7 * 5 + 2]), yaxis._offset + yaxis.d2p(y[5 * 1 + 2])]; }""",
    )
    page.mouse.move(x + 2, y + 2)
    plot.get_by_text("row 1, column 5 and row 2, column 2").wait_for()
    page.mouse.down()
    page.mouse.up()
    shows(1, 5)
    assert "row\u00a01, column\u00a05" in large.inner_text()
    waiting.accessible(page)


def test_tables_too_small_or_plain_for_a_picture(site: Callable[..., str], page: Page, tmp_path: Path) -> None:
    one = write(tmp_path / "one", {"wpe.weight": np.ones((1, 8), "f4")})
    zero = write(tmp_path / "zero", {"wpe.weight": np.zeros((20, 8), "f4")})
    thin = write(tmp_path / "thin", {"wpe.weight": np.arange(20, dtype="f4")[:, None]})
    open_tab(page, site, one, zero, thin)
    assert "found 1 in 1" in panel_of(page, one).inner_text()
    assert "All positions are zero or not finite" in panel_of(page, zero).inner_text()
    assert "one dimension" in panel_of(page, thin).inner_text()


def test_a_folder_with_positions_alone_opens_in_every_tab(site: Callable[..., str], page: Page, tmp_path: Path) -> None:
    """What there is is drawn; in place of what is missing a sentence says so."""
    rows = hpe.extract("sinusoidal:40x16").position.table
    assert rows is not None
    config = {"model_type": "gpt2", "n_positions": 40, "n_embd": 16}
    source = write(tmp_path / "places", {"wpe.weight": np.array(rows.vectors)}, config)
    open_tab(page, site, source)
    assert "40 learned positions" in panel_of(page, source).inner_text()
    assert plot_of(page, source).evaluate("(node) => node.querySelector('.stage').data[0].x.length") == 40
    waiting.open_tab(page, "Tokens")
    lone = page.locator(".panel[data-key=map]")
    assert "None of the sources has tokens" in lone.inner_text()
    assert "places has no tokens: " in lone.inner_text()
    waiting.open_tab(page, "Start")
    assert "No input for this sentence: " in page.locator(".panel[data-key=input]").inner_text()
    assert "it has no token table" in page.locator(".panel[data-key=input]").inner_text()
    assert "Neighbouring positions have cosine" in page.locator(".panel[data-key=picture]").inner_text()
    assert page.locator(".panel[data-state=failed]").count() == 0


def test_accessible_in_both_themes_and_on_a_phone(site: Callable[..., str], page: Page) -> None:
    open_tab(page, site, *SMALL)
    accessible_everywhere(page)
