"""The Positions tab: sentences that are true of any table, and the tab in a real browser."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import app
import hfposemb as hpe
from app import positions, theme

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
        (built_in("counting:64x8").vectors, "All positions point the same way"),
        (CIRCLE, "One smooth curve: three dimensions hold 100\u00a0%"),
        (broken(), "a break at 100 ("),
        (np.zeros((40, 4)), "No row has a direction"),
        (np.full((40, 4), np.nan), "No row has a direction"),
        (np.ones((1, 4)), "Too few positions to compare"),
        (np.eye(2), "Too few positions for a shape"),
    ],
)
def test_finding_is_true_of_the_table(vectors: np.ndarray, said: str) -> None:
    assert said in positions.finding(positions.measure(table(vectors)))


def test_titles_tell_sources_apart() -> None:
    facts = {
        "Sinusoid": positions.measure(built_in("sinusoidal:256x64")),
        "Untrained": positions.measure(built_in("random:256x64")),
    }
    assert positions.heading(facts) == (
        "Distance alone explains how alike two positions are: 100\u00a0% in Sinusoid and 1\u00a0% in Untrained"
    )
    assert positions.distance_title(facts) == (
        "Similarity stays above zero in Sinusoid, is near zero throughout in Untrained"
    )
    assert positions.norm_title(facts) == "None stands out in Untrained; all are equally long in Sinusoid"
    held = facts["Sinusoid"].held
    assert held is not None
    assert f"{round(100 * held)}\u00a0% of Sinusoid" in positions.variance_title(facts)
    long = np.array(built_in("random:256x64").vectors)
    long[0] *= 9
    assert positions.norm_title({"A": positions.measure(table(long))}) == "Position 0 is longest in A"


def test_titles_of_nothing_are_sentences() -> None:
    nothing = {"A": positions.measure(table(np.zeros((3, 2))))}
    for title in (positions.heading, positions.distance_title, positions.norm_title, positions.variance_title):
        for facts in ({}, nothing):
            assert title(facts)


def test_widest_dimension() -> None:
    assert "of 64 dimensions range from −1.00 to 1.00" in positions.widest_title(built_in("sinusoidal:256x64"))
    spiked = np.zeros((5, 9))
    spiked[2, 7] = -3
    assert positions.widest_title(table(spiked)) == "Dimension 7 ranges widest, from −3.00 to .00"


@pytest.mark.parametrize(
    ("share", "written"), [(1.0, "100"), (0.9993, "99"), (0.345, "34"), (0.006, "1"), (0.004, "under 1"), (0.0, "0")]
)
def test_percent_rounds_to_no_untruth(share: float, written: str) -> None:
    assert positions.percent(share) == f"{written}\u00a0%"


def test_nearest_are_the_exact_neighbours() -> None:
    wave = built_in("sinusoidal:64x16")
    found = hpe.neighbours(wave, 20, k=3)
    said = positions.nearest(wave, 20)
    assert said.startswith("Position 20 is most like ")
    assert all(f"{row} (" in said for row in found.rows)
    assert "beyond its end at 63" in positions.nearest(wave, 64)
    assert "zero" in positions.nearest(table(np.zeros((3, 2))), 1)


@pytest.mark.parametrize(("text", "read"), [("0, 1", (0, 1)), ("7;7 8", (7, 8)), ("dims 3 and 4", (3, 4))])
def test_dimensions_are_read_from_what_people_type(text: str, read: tuple[int, ...]) -> None:
    assert positions.read_dimensions(text) == read


@pytest.mark.parametrize("text", ["", "none", "1 2 3 4 5 6 7", "9999999999"])
def test_dimensions_that_cannot_be_drawn(text: str) -> None:
    with pytest.raises(hpe.HfposembError, match="write 1 to 6 dimensions"):
        positions.read_dimensions(text)


# --- in the browser --------------------------------------------------------------------------------------------------


def open_tab(page: Page, serve: Callable[..., str], *sources: str) -> None:
    blocks = app.build(sources=sources)
    page.goto(serve(blocks, theme=theme.theme(), css=theme.css()))
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


def test_points_hover_click_and_slider(serve: Callable[..., str], page: Page) -> None:
    open_tab(page, serve, *SMALL)
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
        assert f"axes hold {100 * ratio[0]:.0f}" in panel_of(page, source).inner_text()
        assert "of neighbours kept, trust" in panel_of(page, source).inner_text()

    heatmap = plot_of(page, SMALL[0], 1)
    heatmap.hover(position={"x": column(heatmap, 30), "y": 60})
    wait_for_mark(page, 30)

    page.mouse.down()
    page.mouse.up()
    for source in SMALL:
        rows = hpe.neighbours(built_in(source), 30, k=3).rows
        panel_of(page, source).get_by_text(f"Position 30 is most like {rows[0]} (").wait_for()
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
        panel_of(page, source).get_by_text("Position 12 is most like").wait_for()


def test_two_dimensions_fewer_positions_and_waves(serve: Callable[..., str], page: Page) -> None:
    open_tab(page, serve, *SMALL)
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
    page.get_by_text("Write 1 to 6 dimensions").wait_for()


def test_umap_runs_and_can_be_cancelled(serve: Callable[..., str], page: Page) -> None:
    sources = ("sinusoidal:150x8", "sinusoidal:4000x16")
    open_tab(page, serve, *sources)
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
    serve: Callable[..., str], page: Page
) -> None:
    sources = ("sinusoidal:150x8", "sinusoidal:12x8")
    open_tab(page, serve, *sources)
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


def test_sources_that_have_no_cloud(serve: Callable[..., str], page: Page, build: Build, tmp_path: Path) -> None:
    """Rotary positions, words only, holes in a table, and what cannot be read: each says so in its place."""
    build("llama").save_pretrained(tmp_path / "llama")  # type: ignore[operator]
    rng = np.random.default_rng(0)
    words = write(tmp_path / "words", {"embeddings.word_embeddings.weight": rng.normal(size=(30, 8)).astype("f4")})
    holes = rng.normal(size=(24, 8)).astype("f4")
    holes[3], holes[5, 0] = np.nan, np.inf
    holed = write(tmp_path / "holes", {"wpe.weight": holes})
    sources = (str(tmp_path / "llama"), words, holed, "sinusoidal:0x0")
    open_tab(page, serve, *sources)

    llama = panel_of(page, sources[0])
    assert "no vectors, so no cloud" in llama.inner_text()
    assert "expected rotary kernel by distance" in llama.inner_text()
    encoding = hpe.extract(sources[0]).position
    z = plot_of(page, sources[0], 1).evaluate(
        "(node) => node.querySelector('.stage').data[0].z.map((row) => Array.from(row))"
    )
    assert np.abs(np.asarray(z) - encoding.matrix(20)).max() < 1e-4
    assert "There are no positions to draw" in panel_of(page, words).inner_text()
    assert "2 rows with NaN or Inf left out" in panel_of(page, holed).inner_text()
    error = panel_of(page, sources[3])
    assert "error" in (error.get_attribute("class") or "")

    # No curve of another unit among the cosines.
    names = page.locator(".panel[data-key=distance] .stage").evaluate("(node) => node.data.map((trace) => trace.name)")
    assert names == ["holes"]


def test_tables_too_small_or_plain_for_a_picture(serve: Callable[..., str], page: Page, tmp_path: Path) -> None:
    one = write(tmp_path / "one", {"wpe.weight": np.ones((1, 8), "f4")})
    zero = write(tmp_path / "zero", {"wpe.weight": np.zeros((20, 8), "f4")})
    thin = write(tmp_path / "thin", {"wpe.weight": np.arange(20, dtype="f4")[:, None]})
    open_tab(page, serve, one, zero, thin)
    assert "There is its only row" in panel_of(page, one).inner_text()
    assert "No row has a direction" in panel_of(page, zero).inner_text()
    assert "one dimension" in panel_of(page, thin).inner_text()


def test_a_folder_with_positions_alone_opens_in_every_tab(
    serve: Callable[..., str], page: Page, tmp_path: Path
) -> None:
    """What there is is drawn; in place of what is missing a sentence says so."""
    rows = hpe.extract("sinusoidal:40x16").position.table
    assert rows is not None
    config = {"model_type": "gpt2", "n_positions": 40, "n_embd": 16}
    source = write(tmp_path / "places", {"wpe.weight": np.array(rows.vectors)}, config)
    open_tab(page, serve, source)
    assert "40 learned positions" in panel_of(page, source).inner_text()
    assert plot_of(page, source).evaluate("(node) => node.querySelector('.stage').data[0].x.length") == 40
    waiting.open_tab(page, "Tokens")
    lone = page.locator(".panel[data-key=map]")
    assert "No source here has tokens" in lone.inner_text()
    assert "places has no tokens: " in lone.inner_text()
    waiting.open_tab(page, "Start")
    assert "This sentence cannot be fed: " in page.locator(".panel[data-key=input]").inner_text()
    assert "it has no token table" in page.locator(".panel[data-key=input]").inner_text()
    assert "Neighbouring positions have cosine" in page.locator(".panel[data-key=picture]").inner_text()
    assert page.locator(".panel[data-state=failed]").count() == 0


def test_accessible_in_both_themes_and_on_a_phone(serve: Callable[..., str], page: Page) -> None:
    open_tab(page, serve, *SMALL)
    accessible_everywhere(page)
