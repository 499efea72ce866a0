"""The drawing component in a real browser: what is drawn, linked, clicked, recoloured, and never executed."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gradio as gr
import numpy as np
import plotly.graph_objects as go
import pytest
from playwright.sync_api import Browser, Locator, Page

import hfposemb as hpe
from app.components import files, theme
from app.components.plot import Drawing, LegendItem, NeighbourList, NeighbourRow, Panel, PanelRow, Panels, ScaleBar
from hfposemb.figures import matrix_figures, position_figures
from hfposemb.figures.palette import CLASSES, PALETTE, POSITION, SIMILARITY, SOURCES
from hfposemb.tables.table import Provenance, table_of
from tests.browser.conftest import faultless, launched
from tests.browser.waiting import accessible, cell, drawn, held, no_sideways_page, point, until

RNG = np.random.default_rng(0)
TURNS = np.linspace(0, 12, 300)
HELIX = np.stack([np.cos(TURNS), np.sin(TURNS), TURNS / 6], axis=1).astype(np.float32)
COSINES = (HELIX @ HELIX.T / np.linalg.norm(HELIX, axis=1)[:, None] / np.linalg.norm(HELIX, axis=1)).astype(np.float32)
CLOUD = RNG.normal(size=(5_000, 2)).astype(np.float32)
CLEAR = "rgba(0,0,0,0)"
HOSTILE = (
    "<img src=x onerror=\"document.title='owned'\">",
    "<script>document.title='owned'</script>",
    "$\\alpha$ [a](javascript:alert(1)) <a href='http://example.org/'>a</a>",
    "abc\u202edef\u2066\x00\x1b\ud800",
    "x" * 1_000_000,
)


def _layout(**more: Any) -> dict[str, Any]:
    clear = {"template": "none", "paper_bgcolor": CLEAR, "plot_bgcolor": CLEAR, "height": 260, "showlegend": False}
    return {**clear, "font": {"color": PALETTE["subdued"].light}, **more}


def helix() -> go.Figure:
    x, y, z = HELIX.T
    paint = {"color": np.arange(len(HELIX)), "colorscale": POSITION.stops()}
    trace = go.Scatter3d(x=x, y=y, z=z, mode="lines+markers", marker={"size": 3, **paint}, line={"width": 4, **paint})
    trace.update(meta={"link": "position", "first": 0})
    return go.Figure(trace, _layout(margin=dict.fromkeys("lrtb", 0)))


def cosines() -> go.Figure:
    trace = go.Heatmap(z=COSINES, zmin=-1, zmax=1, colorscale=SIMILARITY.stops(), showscale=False, hoverinfo="none")
    trace.update(meta={"link": "position", "first": 0})
    layout = _layout(
        xaxis={"title": {"text": "position"}}, yaxis={"title": {"text": "position"}, "autorange": "reversed"}
    )
    return go.Figure(trace, layout)


def norms() -> go.Figure:
    line = {"color": SOURCES[0].colour.light, "width": 2}
    trace = go.Scatter(x=np.arange(10, 310), y=np.linalg.norm(HELIX, axis=1), mode="lines", line=line, name="a")
    trace.update(meta={"link": "position", "first": 10})
    return go.Figure(trace, _layout())


def cloud(labels: list[str] | None = None) -> go.Figure:
    ids = np.arange(len(CLOUD))[::-1]  # the order of the points is not the order of the rows
    marker = {"size": 4, "color": CLASSES["word start"].light}
    trace = go.Scattergl(x=CLOUD[:, 0], y=CLOUD[:, 1], mode="markers", marker=marker, customdata=ids.astype(np.int32))
    trace.update(meta={"link": "token", **({"labels": labels} if labels else {})})
    return go.Figure(trace, _layout())


def panel(key: str, *figures: go.Figure, **more: Any) -> Panel:
    return Panel(**{"key": key, "title": f"Panel {key}", "drawings": tuple(map(Drawing, figures)), **more})


def full_row() -> Panels:
    """A row that uses everything a panel can show."""
    rows = tuple(NeighbourRow(f"word {i}", 0.9 - i / 10, i % 2 == 0, i) for i in range(4))
    neighbours = (
        NeighbourList("GPT-2", SOURCES[0].colour.light, rows),
        NeighbourList("BERT", SOURCES[1].colour.light, rows),
    )
    more = {"help": "How to read it.\n\nA paper.", "foot": "PCA", "actions": ("PNG", "SVG", "Data")}
    return Panels(
        (
            panel("a", helix(), cosines(), source=("GPT-2", "300 positions"), color=SOURCES[0].colour.light, **more),
            panel("b", norms(), subtitle="grey", legend=(LegendItem("line", SOURCES[0].colour.light, "1"),), **more),
            Panel(
                "c", "For word 1, all are near", lists=neighbours, numbers=(("77 %", "of words"),), emphasis="word 1"
            ),
            Panel("d", "No cloud", message="There is no table of rows to draw."),
            Panel("e", "Not read", message="The Hub did not answer. Try again.", tone="error"),
        ),
        heading="A helix",
        subheading="Every position is a dot.",
        scale_bars=(ScaleBar("first", "last", POSITION.light), ScaleBar("−1", "+1", SIMILARITY.light, "cosine")),
        marked={"position": 64},
        columns=3,
    )


def show(serve: Callable[..., str], page: Page, value: Any, **options: Any) -> None:
    with gr.Blocks() as blocks:
        gr.Markdown("# Page")
        PanelRow(value, **options)
    page.goto(serve(blocks, theme=theme.theme(), css=theme.css()))
    drawn(page)


def box(page: Page, key: str, place: int = 0) -> Locator:
    return page.locator(f"[data-key={key}] .plot").nth(place)


def marks(page: Page) -> list[list[str]]:
    """The marked rows, plot by plot."""
    return page.evaluate(
        """() => [...document.querySelectorAll('hfposemb-row .plot')].map((plot) =>
        [...new Set([...plot.querySelectorAll('.overlay [data-index]')].map((node) => node.dataset.index))])"""
    )


def wait_for_marks(page: Page, expected: list[list[str]]) -> None:
    until(page, lambda: marks(page), expected)


LONG = "a-model-with-a-name-that-no-line-has-room-for-v2"
RARE = np.array([[np.nan, 98.26], [98.26, np.nan]])
PAIR = matrix_figures.similarity_matrix(np.array([[1, 0.5], [0.5, 1]]), labels=["king", "<b>queen"], percentiles=RARE)


@pytest.fixture(scope="module")
def shown(browser: Browser) -> Iterator[Page]:
    """A page that tests look at without changing it."""
    with gr.Blocks() as blocks:
        PanelRow(
            (
                panel("a", norms(), cosines(), source=(LONG, "")),
                Panel("b", f"Tokens of {LONG} are alike", message="-"),
                panel("c", PAIR),
                panel("d", norms(), actions=("PNG", "SVG")),
            )
        )
    with faultless(browser) as page:
        page.goto(launched(blocks, theme=theme.theme(), css=theme.css()))
        drawn(page)
        yield page
    blocks.close(verbose=False)


def test_points_are_the_array_and_travel_in_binary(serve: Callable[..., str], page: Page) -> None:
    replies: list[tuple[str, int]] = []
    page.on("response", lambda reply: replies.append((reply.url, int(reply.headers.get("content-length", 0)))))
    labels = ["=1+1", 'a, "b"', "<b>", *(f"token {i}" for i in range(3, len(CLOUD)))]
    show(serve, page, (panel("a", helix(), cosines()), panel("b", cloud(labels))))

    read = "(node, axis) => Array.from(node.querySelector('.stage').data[0][axis])"
    for place, axis in enumerate("xyz"):
        assert np.array_equal(np.float32(box(page, "a").evaluate(read, axis)), HELIX[:, place])
    for place, axis in enumerate("xy"):
        assert np.array_equal(np.float32(box(page, "b").evaluate(read, axis)), CLOUD[:, place])
    z = box(page, "a", 1).evaluate("(node) => node.querySelector('.stage').data[0].z.map((row) => Array.from(row))")
    assert np.abs(np.asarray(z) - COSINES).max() < 2 / 65_534  # half a step of the int16 it travels as, and float32
    assert page.locator("[data-key=a]").get_attribute("data-points") == str(len(HELIX))
    assert page.locator("[data-key=b]").get_attribute("data-points") == str(len(CLOUD))

    binary = [size for url, size in replies if url.endswith("numbers.bin")]
    assert len(binary) == 3
    assert sum(binary) < 4 * HELIX.size + 2 * COSINES.size + 4 * CLOUD.size + 2 * len(CLOUD) + 8 * 2 * len(HELIX) + 512
    assert sum(url.endswith("labels.json") for url, _ in replies) == 1
    value = PanelRow(render=False).postprocess((panel("a", helix(), cosines(), cloud()),))
    assert len(json.dumps(value)) < 12_000, "it holds no long list"
    a_table_stands_behind_every_plot(page, labels)


def read_csv(page: Page, button: Locator) -> list[list[str]]:
    with page.expect_download() as download:
        button.click()
    assert download.value.suggested_filename.endswith(".csv")
    return list(csv.reader(download.value.path().read_text(encoding="utf-8").splitlines()))


def a_table_stands_behind_every_plot(page: Page, labels: list[str]) -> None:
    """Check the tables of a cloud with these labels and of a helix beside its cosines."""
    cloudy = page.locator("[data-key=b]")
    assert not cloudy.locator("table").count()
    held(cloudy, "Table").press("Enter")
    assert cloudy.get_by_role("columnheader").all_inner_texts() == ["token", "label", "x", "y"]
    first = cloudy.get_by_role("row").nth(1)
    assert first.get_by_role("rowheader").inner_text() == f"{len(CLOUD) - 1:,}"
    assert first.get_by_role("cell").first.inner_text() == "=1+1"
    assert cloudy.get_by_role("row").count() == 101
    assert "the first 100 of 5,000 rows" in cloudy.locator("caption").inner_text()

    _, *rows = read_csv(page, cloudy.get_by_role("button", name="CSV"))
    assert [int(row[0]) for row in rows] == list(range(len(CLOUD)))[::-1]
    assert [row[1] for row in rows] == ["'=1+1", *labels[1:]]
    assert np.allclose([[float(cell) for cell in row[2:]] for row in rows], CLOUD, rtol=1e-6)

    cloudy.locator(".sheet").press("Escape")
    assert not cloudy.locator("table").count()
    assert cloudy.locator(".more").evaluate("(node) => node === document.activeElement")

    held(page.locator("[data-key=a]"), "Table").click()
    files = page.locator("[data-key=a]").get_by_role("button", name="CSV")
    header, *rows = read_csv(page, files.nth(0))
    assert header == ["position", "x", "y", "z"]
    assert np.allclose([[float(cell) for cell in row[1:]] for row in rows], HELIX, rtol=1e-6)
    header, *rows = read_csv(page, files.nth(1))
    assert header == ["position", *map(str, range(len(HELIX)))]
    assert np.abs(np.array([row[1:] for row in rows], float) - COSINES).max() < 2 / 65_534


def test_what_is_on_the_screen_is_drawn_first(serve: Callable[..., str], page: Page) -> None:
    keys = [f"p{number}" for number in range(8)]
    with gr.Blocks() as blocks:
        rows = [PanelRow() for _ in keys]
        draw = gr.Button("Draw")
        draw.click(lambda: [(panel(key, norms(), actions=("SVG",)),) for key in keys], None, rows)
    page.goto(serve(blocks))
    rows_shown = page.locator("hfposemb-row.late")
    until(page, rows_shown.count, len(keys))
    assert all(node.bounding_box()["height"] > 500 for node in rows_shown.all()), "room is kept for what is to come"  # type: ignore[index]
    page.evaluate(
        """() => {
        window.order = [];
        new MutationObserver((changes) => changes.forEach(({ target }) => {
          const { state, key } = target.dataset;
          if (state === 'drawn' && !window.order.includes(key)) window.order.push(key);
        })).observe(document.body, { attributes: true, attributeFilter: ['data-state'], subtree: true });
      }"""
    )
    button = page.get_by_role("button", name="Draw")
    button.scroll_into_view_if_needed()
    button.press("Enter")
    drawn(page)
    order = page.evaluate("window.order")
    assert sorted(order) == keys
    assert order[0] != keys[0], f"the window shows the end of the page, but {order} was the order"
    assert order[-1] == keys[0]


def test_hover_marks_the_same_row_everywhere_and_returns(serve: Callable[..., str], page: Page) -> None:
    with gr.Blocks() as blocks:
        PanelRow(Panels((panel("a", helix(), cosines()), panel("b", norms())), marked={"position": 64}), scope="one")
        PanelRow(Panels((panel("c", norms()),), marked={"position": 20}), scope="two")
    page.goto(serve(blocks))
    drawn(page)
    wait_for_marks(page, [["64"], ["64"], ["64"], ["20"]])

    # The mark of a 3-D plot lies on its point, so the pointer over it finds that point.
    centre = box(page, "a").locator("circle.mark").bounding_box()
    page.mouse.move(centre["x"] + 2, centre["y"] + 2)
    page.mouse.move(centre["x"] + centre["width"] / 2, centre["y"] + centre["height"] / 2, steps=4)
    tip = box(page, "a").locator(".tip")
    tip.wait_for(state="visible")
    until(page, tip.inner_text, lambda text: re.fullmatch(r"position 6[345]", text) is not None)

    heatmap = box(page, "a", 1)
    column = heatmap.evaluate(
        """(node) => { const { xaxis } = node.querySelector('.stage')._fullLayout;
        return xaxis._offset + xaxis.d2p(200); }"""
    )
    heatmap.hover(position={"x": column, "y": 100})
    wait_for_marks(page, [["200"], ["200"], ["200"], ["20"]])
    until(page, heatmap.locator(".cross").count, 2)
    until(page, heatmap.locator(".tip").inner_text, lambda text: "200" in text)

    page.mouse.move(2, 2)
    wait_for_marks(page, [["64"], ["64"], ["64"], ["20"]])
    page.evaluate("window.hfposemb.mark('one', 'position', 30)")
    wait_for_marks(page, [["30"], ["30"], ["30"], ["20"]])
    page.evaluate("window.hfposemb.mark('one', 'position', 5)")  # the line begins at row 10
    wait_for_marks(page, [["5"], ["5"], [], ["20"]])


def test_a_row_far_outside_is_found_at_the_border(serve: Callable[..., str], page: Page) -> None:
    points = HELIX.copy()
    points[0] = [9, 1, 1]
    table = table_of(points, name="made", provenance=Provenance("test"))
    figures = [position_figures.projection(hpe.project(table, dims=dims)) for dims in (3, 2)]
    marked = Panels((panel("a", figures[0]), panel("b", figures[1])), marked={"position": 0}, columns=2)
    show(serve, page, marked)
    wait_for_marks(page, [["0"], ["0"]])
    assert page.locator("[data-key=a]").get_attribute("data-points") == str(len(HELIX)), "each is counted once"
    for key in "ab":
        spot, plot = box(page, key).locator("circle.mark").bounding_box(), box(page, key).bounding_box()
        assert plot["x"] <= spot["x"] <= plot["x"] + plot["width"] - spot["width"], "it is marked at the border"
        page.mouse.move(2, 2)
        page.mouse.move(spot["x"] + spot["width"] / 2 + 2, spot["y"] + spot["height"] / 2)
        page.mouse.move(spot["x"] + spot["width"] / 2, spot["y"] + spot["height"] / 2, steps=3)
        tip = box(page, key).locator(".tip")
        until(page, tip.inner_text, "position 0\nfar outside of this picture")


def test_a_labelled_matrix_says_the_pair_and_how_rare_it_is(shown: Page) -> None:
    x, y = point(shown, box(shown, "c"), cell(1, 0))
    shown.mouse.move(x - 1, y)
    shown.mouse.move(x, y)
    tip = box(shown, "c").locator(".tip")
    tip.wait_for(state="visible")
    until(shown, tip.inner_text, "king – <b>queen: .500, above 98.2\u00a0% of random pairs")


def test_a_long_name_is_cut_in_its_middle_and_whole_on_hover(shown: Page) -> None:
    head, title = shown.locator("[data-key=a] .source strong"), shown.locator("[data-key=b] .title")
    assert re.fullmatch("a-model-with.*….*for-v2", head.inner_text())
    assert head.inner_text() in title.inner_text()
    assert head.get_attribute("title") == LONG
    assert title.get_attribute("title") == f"Tokens of {LONG} are alike"


def test_clicks_reach_python(serve: Callable[..., str], page: Page) -> None:
    heard: list[dict[str, Any]] = []

    def listen(event: gr.EventData) -> None:
        heard.append(event._data)

    def wait_for(count: int) -> dict[str, Any]:
        return until(page, lambda: list(heard), lambda all_heard: len(all_heard) == count)[-1]

    with gr.Blocks() as blocks:
        rows = (NeighbourRow("kings", 0.69, True, 17),)
        panels = (
            panel("a", cloud([f"token {i}" for i in range(len(CLOUD))]), actions=("Data",)),
            Panel("b", "Near", lists=(NeighbourList("", "", rows),)),
        )
        PanelRow(panels).select(listen, show_progress="hidden", trigger_mode="multiple")
    page.goto(serve(blocks))
    drawn(page)

    far = int(np.argmax(np.linalg.norm(CLOUD, axis=1)))
    x, y = box(page, "a").evaluate(
        """(node, at) => { const { _fullLayout: { xaxis, yaxis }, data } = node.querySelector('.stage');
        return [xaxis._offset + xaxis.d2p(data[0].x[at]), yaxis._offset + yaxis.d2p(data[0].y[at])]; }""",
        far,
    )
    box(page, "a").hover(position={"x": x, "y": y})
    box(page, "a").locator(".tip").wait_for(state="visible")
    page.mouse.down()
    page.mouse.up()
    clicked = wait_for(1)
    assert {name: clicked[name] for name in ("panel", "group", "index", "text")} == {
        "panel": "a", "group": "token", "index": len(CLOUD) - 1 - far, "text": f"token {far}",
    }  # fmt: skip

    page.locator("[data-key=b] .neighbour").focus()
    page.keyboard.press("Enter")
    assert wait_for(2) == {"panel": "b", "list": 0, "id": 17, "label": "kings"}
    page.get_by_role("button", name="Data").click()
    assert wait_for(3) == {"panel": "a", "action": "Data"}


def test_dark_page_recolours_and_returns(shown: Page) -> None:
    stage = """(node) => { const { data, layout } = node.querySelector('.stage');
        return [data[0].line?.color, layout.font.color, data[0].colorscale?.map((stop) => stop[1])]; }"""
    light = [box(shown, "a", place).evaluate(stage) for place in (0, 1)]

    def recoloured() -> list[list[Any]]:
        return [box(shown, "a", place).evaluate(stage) for place in (0, 1)]

    shown.evaluate("document.body.classList.add('dark')")
    ink = PALETTE["subdued"].dark
    line, matrix = until(shown, recoloured, lambda both: [found[1] for found in both] == [ink, ink])
    assert line[0] == SOURCES[0].colour.dark
    assert matrix[2] == list(SIMILARITY.dark)
    shown.evaluate("document.body.classList.remove('dark')")
    until(shown, recoloured, light)


def test_updates_keep_the_element_and_leak_no_context(serve: Callable[..., str], page: Page) -> None:
    states: list[Callable[[], tuple[Panel, ...]]] = [
        lambda: (panel("a", helix(), cosines()), panel("b", cloud())),
        lambda: (panel("b", cloud()), panel("a", norms(), cosines())),
        lambda: (panel("a", helix()), panel("c", cloud())),
    ]
    with gr.Blocks() as blocks:
        turn = gr.State(0)
        button = gr.Button("Next")
        row = PanelRow(states[0]())
        button.click(lambda n: (n + 1, states[(n + 1) % 3]()), turn, [turn, row])
    page.goto(serve(blocks))
    drawn(page)
    root = page.locator("hfposemb-row").element_handle()
    canvases = page.locator("canvas").count()

    def keys() -> tuple[str, ...]:
        return tuple(page.locator(".panel").evaluate_all("(nodes) => nodes.map((node) => node.dataset.key)"))

    for turn_number in range(1, 7):
        page.get_by_role("button", name="Next").click()
        until(page, keys, [("a", "b"), ("b", "a"), ("a", "c")][turn_number % 3])
        drawn(page)
    assert page.evaluate("(node) => node === document.querySelector('hfposemb-row')", root)
    until(page, page.locator("canvas").count, canvases)


def test_hidden_tab_keeps_its_contexts_until_others_need_them_and_takes_new_colours(
    serve: Callable[..., str], page: Page
) -> None:
    with gr.Blocks() as blocks, gr.Tabs():
        with gr.Tab("One"):
            PanelRow((panel("a", helix()), panel("b", cloud())))
        with gr.Tab("Two"):
            gr.Markdown("nothing")
        with gr.Tab("Three"):
            PanelRow((panel("c", cloud()), panel("d", cloud())))
    page.goto(serve(blocks))
    drawn(page)
    before = page.locator("canvas").count()
    assert before > 0
    page.get_by_role("tab", name="Two").click()
    page.get_by_text("nothing").wait_for()
    page.get_by_role("tab", name="One").click()
    drawn(page)
    assert page.locator("canvas").count() == before, "nobody needed them"
    page.get_by_role("tab", name="Three").click()
    drawn(page)
    until(page, box(page, "a").locator("canvas").count, 0)
    page.get_by_role("tab", name="One").click()
    until(page, box(page, "a").locator("canvas").count, 1)
    drawn(page)
    assert np.array_equal(
        np.float32(box(page, "a").evaluate("(node) => Array.from(node.querySelector('.stage').data[0].x)")), HELIX[:, 0]
    )

    # Colours that change while it is hidden are those of its plots afterwards.
    colour = "(node) => node.querySelector('.stage')._fullLayout.font.color"
    light = box(page, "a").evaluate(colour)
    page.get_by_role("tab", name="Two").click()
    page.get_by_text("nothing").wait_for()
    page.evaluate("document.body.classList.add('dark')")
    page.get_by_role("tab", name="One").click()
    until(page, lambda: box(page, "a").evaluate(colour) != light, True)
    drawn(page)


def test_hostile_strings_are_shown_and_nothing_else(serve: Callable[..., str], page: Page) -> None:
    labels = [HOSTILE[i % len(HOSTILE)] for i in range(len(CLOUD))]
    rows = tuple(NeighbourRow(text, 0.5, False, i) for i, text in enumerate(HOSTILE))
    panels = [panel("cloud", cloud(labels)), Panel("lists", "Lists", lists=(NeighbourList(HOSTILE[0], "", rows),))]
    for i, text in enumerate(HOSTILE):
        words = dict.fromkeys(("title", "subtitle", "help", "foot", "emphasis"), text)
        panels.append(
            panel(f"h{i}", norms(), source=(text, text), actions=(text,), numbers=((text, text),), **words,
                  legend=(LegendItem(text, "red", text),), scale_bars=(ScaleBar(text, text, ("red", "blue")),))
        )  # fmt: skip
    show(serve, page, Panels(tuple(panels), heading=HOSTILE[0], subheading=HOSTILE[1], columns=4))

    for at in range(5):
        page.mouse.move(2, 2)
        box(page, "cloud").locator(".tip").wait_for(state="hidden")
        x, y = box(page, "cloud").evaluate(
            """(node, at) => { const { _fullLayout: { xaxis, yaxis }, data } = node.querySelector('.stage');
            const far = Array.from(data[0].x, (x, i) => [Math.hypot(x, data[0].y[i]), i])
              .filter(([, i]) => i % 5 === at).sort((a, b) => b[0] - a[0])[0][1];
            return [xaxis._offset + xaxis.d2p(data[0].x[far]), yaxis._offset + yaxis.d2p(data[0].y[far])]; }""",
            at,
        )
        box(page, "cloud").hover(position={"x": x, "y": y})
        box(page, "cloud").locator(".tip").wait_for(state="visible")
        assert len(box(page, "cloud").locator(".tip").inner_text()) < 250
    page.locator(".ask").nth(0).click()

    assert page.title() != "owned"
    assert page.locator("hfposemb-row :is(img, script, a, iframe)").count() == 0
    shown = page.locator("[data-key=h0] .title").text_content()
    assert shown == HOSTILE[0]
    assert "⟨U+202E⟩" in (page.locator("[data-key=h3] .title").text_content() or "")
    assert max(map(len, page.locator("hfposemb-row .panel").all_text_contents())) < 10_000
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.parametrize(("mode", "themed"), [("light", False), ("dark", True)])
def test_accessible(serve: Callable[..., str], page: Page, mode: str, themed: bool) -> None:
    with gr.Blocks(title="Panels") as blocks:
        if themed:
            theme.header("Copy link", "Theme")
        with gr.Tabs(), gr.Tab("Positions"):
            gr.Markdown("# Page")
            if themed:
                with gr.Row(elem_classes="controls"):
                    gr.Radio(
                        ["PCA", "UMAP"], value="PCA", label="Projection", interactive=True, elem_classes="segmented"
                    )
                    gr.Textbox("gpt2", label="Model", interactive=True)
                    gr.Button("Show", variant="primary")
            PanelRow(full_row(), swipe=True)
    look = {"theme": theme.theme(), "css": theme.css()} if themed else {}
    page.goto(f"{serve(blocks, **look)}?__theme={mode}")
    drawn(page)
    page.locator(".ask").first.click()
    assert page.locator(".ask").first.get_attribute("aria-expanded") == "true"
    assert page.locator(".help").first.is_visible()
    page.keyboard.press("Escape")
    assert not page.locator(".help").first.is_visible()
    assert box(page, "a").get_attribute("role") == "img"
    assert "Panel a" in (box(page, "a").get_attribute("aria-label") or "")
    held(page.locator(".panel").first, "Table").click()
    accessible(page, None if themed else "hfposemb-row")


def test_phone_has_no_sideways_page(serve: Callable[..., str], page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 780})
    show(serve, page, full_row(), swipe=True)
    held(page.locator(".panel").first, "Table").click()
    no_sideways_page(page)
    first, second = (page.locator(".panel").nth(place).bounding_box() for place in (0, 1))
    assert first["y"] == second["y"]
    assert second["x"] < 360  # the next panel peeps in
    page.set_viewport_size({"width": 1440, "height": 900})
    page.wait_for_function("() => document.querySelector('.plot .stage').layout.width > 360")
    drawn(page)


def test_png_is_written_in_the_browser(shown: Page) -> None:
    for name, start in (("PNG", b"\x89PNG"), ("SVG", b"<svg")):
        with shown.expect_download() as download:
            held(shown.locator("[data-key=d]"), name).click()
        assert download.value.suggested_filename == f"panel-d.{name.lower()}"
        assert download.value.path().read_bytes().startswith(start)


def test_files_are_shared_and_bounded() -> None:
    store = files.Store(1_000)
    first = store.put(b"a" * 600, "numbers.bin")
    assert store.put(b"a" * 600, "numbers.bin") == first
    second = store.put(b"b" * 600, "numbers.bin")
    assert not Path(first["path"]).exists()
    assert Path(second["path"]).read_bytes() == b"b" * 600
