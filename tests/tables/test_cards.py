"""What a notebook shows: facts, escaped, of every value that people print."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hfposemb as hpe
from hfposemb.tables.tabular import card, grid, in_html

HOSTILE = "<img src=x onerror=alert(1)>\u202e\n\x00"


class Read(HTMLParser):
    """The tags of a page, and its cells."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@given(st.text())
def test_no_text_is_markup(text: str) -> None:
    read = Read(card(text, [(text, text)]))
    assert set(read.tags) == {"div", "strong", "table", "tbody", "tr", "th", "td"}
    assert all(one.isprintable() for one in "".join(read.texts))


def test_long_texts_are_cut() -> None:
    assert len(in_html("x" * 10**6)) == 301


def test_a_row_of_one_cell_heads_what_follows() -> None:
    page = grid("title", ["", "a", "b"], [("head",), ("x", "1", "2")])
    assert '<th scope="row" colspan="3"' in page
    assert Read(page).texts == ["title", "a", "b", "head", "x", "1", "2"]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: hpe.extract("sample:bert"), ["sample:bert", "4,000 × 128 float32", "position is", "learned"]),
        (lambda: hpe.extract("sample:bert").token, ["sample:bert tokens", "stored as F16"]),
        (lambda: hpe.sinusoidal(8, 4).position.table, ["8 × 4", "computed"]),
        (lambda: hpe.project(hpe.sinusoidal(32, 8).position), ["32 in 2-D", "trustworthiness", "chance: "]),
        (
            lambda: hpe.compare(hpe.sinusoidal(32, 8), hpe.extract("random:32x8"), draws=19),
            ["random:32x8", "Positions", "mean norm", "CKA", "sinusoidal:32x8 and random:32x8: 32 positions"],
        ),
    ],
)
def test_values_show_themselves(make: Callable[[], object], says: list[str]) -> None:
    value = make()
    page = value._repr_html_()  # type: ignore[attr-defined]
    missing = [text for text in says if not any(text in said for said in Read(page).texts)]
    assert missing == []
    assert len(repr(value)) < 20_000


def test_other_peoples_names_are_text() -> None:
    made = hpe.from_arrays(token=np.eye(4), position=np.eye(4), name=HOSTILE)
    for page in (made._repr_html_(), made.token._repr_html_(), hpe.compare(made, draws=0)._repr_html_()):
        assert "img" not in Read(page).tags


def test_nothing_is_read_to_be_shown() -> None:
    bert = hpe.extract("sample:bert")
    bert._repr_html_(), bert.token._repr_html_(), repr(bert.token)
    assert "vectors" not in vars(bert.token)
    assert "labels" not in vars(bert.token)
    assert repr(bert.token) == (
        "EmbeddingTable('sample:bert tokens', 4,000 × 128 float32, "
        "bert.embeddings.word_embeddings.weight of model.safetensors, stored as F16)"
    )
