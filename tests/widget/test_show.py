"""What ``hpe.show`` sends to a notebook, and the selection that both sides share."""

from __future__ import annotations

import base64
import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.errors import InputError, MissingExtraError
from hfposemb.figures.assets import plotly_js
from hfposemb.tables.embeddings import Embeddings
from hfposemb.widget import notebook_view, panels, shown_sources
from hfposemb.widget.notebook_view import NotebookView, picture, shared_library

BERT, GPT2 = "sample:bert", "sample:gpt2"


@pytest.fixture(scope="module")
def positions() -> NotebookView:
    return hpe.show(BERT, GPT2, progress=False)


@pytest.fixture(scope="module")
def tokens() -> NotebookView:
    return hpe.show(BERT, GPT2, role="token", progress=False)


def panels_of(sent: dict[str, Any]) -> list[dict[str, Any]]:
    return json.loads(sent["row"])["panels"]


def sent_bytes(view: NotebookView) -> int:
    """Count all that a notebook is sent for a widget, besides its script and style, which are the same for all."""
    rows = [view._maps, view._matrices]
    return sum(len(row["row"].encode()) + sum(map(len, row["files"])) for row in rows)


def test_each_source_has_a_map_and_a_matrix(positions: NotebookView) -> None:
    assert [one["key"] for one in panels_of(positions._maps)] == ["map-0", "map-1"]
    assert [one["source"][0] for one in panels_of(positions._matrices)] == [BERT, GPT2]
    assert all(one["selects"] for one in panels_of(positions._maps) + panels_of(positions._matrices))
    assert [one["tools"] for one in panels_of(positions._matrices)] == [["Range"], ["Range"]]
    assert [one["drawings"][0]["figure"]["data"][0]["type"] for one in panels_of(positions._maps)] == ["scatter3d"] * 2
    flat = hpe.show(BERT, dims=2, progress=False)
    assert panels_of(flat._maps)[0]["drawings"][0]["figure"]["data"][0]["type"] == "scatter"


def test_the_matrix_has_the_cosines_of_the_table(positions: NotebookView) -> None:
    (heat,) = panels_of(positions._matrices)[0]["drawings"][0]["figure"]["data"]
    packed = np.frombuffer(gzip.decompress(positions._matrices["files"][0]), "<i2")
    cells = packed.reshape(heat["z"]["shape"]) * heat["z"]["scale"] + heat["z"]["offset"]
    assert np.abs(cells - hpe.similarity(hpe.extract(BERT).position)).max() < 1e-4


def test_what_a_page_sends_is_the_selection(positions: NotebookView) -> None:
    heard: list[Any] = []

    def hear(change: dict[str, Any]) -> None:
        heard.append(change["new"])

    positions.observe(hear, "selection")
    positions.set_state({"_selected": "3.7~2"})
    assert positions.selection[BERT].tolist() == positions.selection[GPT2].tolist() == [3, 10, 11, 12]
    assert [one.text for one in heard] == ["3.7~2"]
    positions.set_state({"_selected": "zzzzz"})
    assert len(positions.selection) == 0
    positions.set_state({"_selected": "<script>"})
    assert len(positions.selection) == 0
    positions.unobserve(hear, "selection")


def test_the_selection_may_be_set(positions: NotebookView) -> None:
    positions.selection = range(4, 8)
    assert positions._selected == "4~3"
    assert len(positions.selection) == 8
    positions.selection = {GPT2: [255]}
    assert positions.selection.labels == {BERT: ["255"], GPT2: ["255"]}
    assert positions.selection.vectors[BERT].tolist() == hpe.extract(BERT).position[[255]].tolist()
    positions.selection = hpe.norms(hpe.extract(BERT).position) > 0
    assert len(positions.selection[BERT]) == 256
    positions.selection = [row == 7 for row in range(256)]
    assert positions.selection[BERT].tolist() == [7]
    positions.selection = (row for row in (3, 5))
    assert positions.selection[BERT].tolist() == [3, 5]
    positions.selection = {GPT2: map(int, "46")}
    assert positions.selection[BERT].tolist() == [4, 6]
    positions.selection = {GPT2: [255]}
    again = positions.selection
    positions.selection = None
    assert positions._selected == ""
    positions.selection = again
    assert positions.selection == again
    for wrong, said in (
        ([256], "positions 0 to 255; got 256"), (["king"], "king"), ({"other": [1]}, "no source 'other' is shown"),
        (np.ones(3, bool), "the mask has the shape .3., but sample:bert has 256 positions"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=said):
            positions.selection = wrong
    assert positions.selection == again


def test_tokens_are_linked_by_their_text(tokens: NotebookView) -> None:
    tokens.selection = "king"
    bert, gpt2 = (hpe.extract(name).token for name in (BERT, GPT2))
    assert {name: rows.tolist() for name, rows in tokens.selection.rows.items()} == {
        BERT: [bert.row("king")], GPT2: [gpt2.row(" king")],
    }  # fmt: skip
    frame = tokens.selection.to_frame()
    assert frame.values.tolist() == [[BERT, bert.row("king"), "king"], [GPT2, gpt2.row("king"), " king"]]
    alone = next(row for row, label in enumerate(bert.labels) if label == "[unused0]")
    tokens.selection = [alone]
    assert [len(rows) for rows in tokens.selection.rows.values()] == [1, 0]


def test_dots_of_a_map_have_the_numbers_that_are_selected(tokens: NotebookView) -> None:
    """The page selects by these numbers; decoded as it does, each stands for the row whose text the dot has."""
    files = tokens._maps["files"]
    drawing = panels_of(tokens._maps)[1]["drawings"][0]
    buffer, found = gzip.decompress(files[drawing["bin"]]), {}

    def numbers(packed: Any) -> list[int]:
        if isinstance(packed, list):
            return packed
        return np.frombuffer(buffer, f"<{packed['dtype']}", packed["shape"][0], packed["$bin"]).tolist()

    for trace in drawing["figure"]["data"]:
        texts = trace["text"]
        labels = texts if isinstance(texts, list) else json.loads(gzip.decompress(files[texts["$json"]]))
        found |= dict(zip(labels, zip(numbers(trace["meta"]["ids"]), numbers(trace["meta"]["numbers"]), strict=True),
                          strict=True))  # fmt: skip
    shared, row = found[" king"]
    tokens.selection = "king"
    assert tokens.selection[GPT2].tolist() == [row]
    assert tokens._selected == np.base_repr(shared, 36).lower()


def test_the_matrix_follows_the_selected_tokens(tokens: NotebookView) -> None:
    tokens.selection = None
    assert {one["title"] for one in panels_of(tokens._matrices)} == {"Cosines of some words"}
    maps = tokens._maps
    tokens.selection = ["king", "queen", "man"]
    assert {one["title"] for one in panels_of(tokens._matrices)} == {"Cosines of the 3 selected tokens"}
    names = [one["drawings"][0]["figure"]["layout"]["xaxis"]["ticktext"] for one in panels_of(tokens._matrices)]
    assert names[0] == names[1]
    tokens.selection = range(1000)
    assert f"the first {panels.MOST_WORDS} of 1,000" in panels_of(tokens._matrices)[0]["title"]
    assert tokens._maps is maps, "maps are sent once"


def test_roles_are_chosen_by_what_there_is() -> None:
    words = hpe.from_arrays(token=np.eye(30, 8, dtype=np.float32) + 1, name="words")
    assert hpe.show(words, progress=False)._group == "token"
    both = hpe.show(words, hpe.sinusoidal(64, 16), progress=False)
    assert both._group == "position"
    assert "Left out: no position encoding was found in words" in json.loads(both._maps["row"])["subheading"]
    assert hpe.show(hpe.extract(BERT).token, progress=False)._group == "token"
    assert hpe.show(hpe.extract(BERT).position, progress=False)._group == "position"
    twice = hpe.show(BERT, BERT, "alibi:64x4", progress=False)
    assert list(twice.selection.rows) == [BERT, f"{BERT} (2)", "alibi:64x4"]
    twice.selection = [3]
    assert twice.selection.labels["alibi:64x4"] == ["3"]
    assert list(twice.selection.vectors) == [BERT, f"{BERT} (2)"]


@pytest.mark.parametrize(
    ("given", "options", "said"),
    [
        ((), {}, "needs a source"),
        ((np.eye(4),), {}, r"make a table of an array first: hpe.from_arrays\(token=vectors\); got ndarray"),
        ((BERT,), {"role": "words"}, "role must be"),
        ((BERT,), {"method": "tsne"}, "method must be"),
        ((BERT,), {"dims": 4}, "dims must be 2 or 3"),
        (("sinusoidal:64x16",), {"role": "token"}, "no source has tokens to show"),
        ((BERT,) * 5, {"role": "token"}, "up to 4 sources; got 5"),
    ],
)
def test_wrong_arguments_say_what_is_right(given: Any, options: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        hpe.show(*given, progress=False, **options)


def test_large_tables_are_sent_small(minilm_folder: Path) -> None:
    """A dot costs eight bytes, compressed; labels of a vocabulary cost some more, those of numbered rows nothing."""
    rows = np.random.default_rng(0).normal(size=(50_000, 768)).astype(np.float32)
    made = hpe.show(hpe.from_arrays(token=rows, name="made"), progress=False)
    assert sent_bytes(made) < 450_000
    assert len(made._maps["row"]) < 10_000
    assert "$json" not in made._maps["row"]
    real = hpe.show(hpe.extract(str(minilm_folder)), role="token", progress=False)
    assert sent_bytes(real) < 600_000
    made.selection = range(0, 50_000, 2)
    assert len(made.selection) == 25_000


def test_long_tables_are_cut_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown_sources, "POSITIONS", 40)
    view = hpe.show(hpe.sinusoidal(64, 16), progress=False)
    assert panels_of(view._maps)[0]["source"][1] == "40 of 64 positions"
    with pytest.raises(InputError, match="positions 0 to 39; got 50"):
        view.selection = [50]


def test_plotly_is_sent_once_per_kernel(positions: NotebookView, tokens: NotebookView) -> None:
    library = shared_library()
    assert positions._library == tokens._library == library.model_id
    assert gzip.decompress(library.content).decode() == plotly_js()
    assert "plotly.js v" in plotly_js()
    assert "plotly.js v" not in str(positions.get_state())
    library.close()
    assert shared_library() is not library
    sent: list[Any] = []
    positions.send = lambda content, buffers=None: sent.append((content, buffers))
    positions._handle_custom_msg({"kind": "library"}, [])
    positions._handle_custom_msg({"kind": "else"}, [])
    positions._handle_custom_msg("library", [])
    assert sent == [({"kind": "library"}, [library_bytes()])]


def library_bytes() -> bytes:
    return notebook_view._compressed_library()


def test_where_no_widget_can_run_there_are_pictures(positions: NotebookView) -> None:
    bundle, _ = positions._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html", "application/vnd.jupyter.widget-view+json"}
    found = re.findall(
        r'alt="([^"]+)" width="240" height="240" src="data:image/png;base64,([^"]+)"', bundle["text/html"]
    )
    assert [name.partition(":")[0] for name, _ in found] == ["sample"] * 4
    assert all(base64.b64decode(content).startswith(b"\x89PNG") for _, content in found)
    assert len(bundle["text/html"]) < 300_000
    figure = hpe.view("similarity", hpe.extract(BERT))
    image = picture(figure)
    assert image is not None
    assert image[0, 0].tolist() != image[0, -1].tolist(), "a corner of equal positions, and one of distant ones"


def test_names_of_sources_are_text(tmp_path: Path) -> None:
    source = hpe.from_arrays(token=np.random.default_rng(0).normal(size=(40, 8)), name="<img src=x onerror=alert(1)>")
    assert isinstance(source, Embeddings)
    view = hpe.show(source, progress=False)
    assert "<img src=x" not in view._repr_mimebundle_()[0]["text/html"]


def test_without_anywidget_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "hfposemb.widget.notebook_view")
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(
        MissingExtraError, match=r"show\(\) needs the package anywidget: pip install 'hfposemb\[widget\]'"
    ):
        hpe.show(BERT)
