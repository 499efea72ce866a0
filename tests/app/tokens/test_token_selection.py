"""Selected tokens: how a link names them, what is within a shape, and what their panel, file and snippet say."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hfposemb.app import limits
from hfposemb.app.findings.chosen_word import Word
from hfposemb.app.findings.tokens import token_map, token_selection
from hfposemb.app.findings.tokens.token_search import NOT_SEARCHED
from hfposemb.app.findings.tokens.token_selection import Selection
from hypothesis import given, settings
from hypothesis import strategies as st

import hfposemb as hpe
from hfposemb.figures.encoded_rows import decoded, encoded
from hfposemb.tables.table import TOKEN_CLASSES
from tests.support.app.models import HOSTILE, WORDS, checkpoint
from tests.support.app.sessions import open_session

BERT = "sample:bert"


@given(st.lists(st.integers(0, 300_000), max_size=60))
@settings(max_examples=60, deadline=None)
def test_rows_are_read_as_they_were_written(rows: list[int]) -> None:
    assert decoded(encoded(rows), 300_001).tolist() == sorted(set(rows))
    assert decoded(encoded(rows), 100).tolist() == sorted(row for row in set(rows) if row < 100)


def test_a_run_is_short() -> None:
    assert encoded([3, 10, 11, 12, 50]) == "3.7~2.12"
    assert len(encoded(np.arange(30_000))) < 8


@pytest.mark.parametrize("state", [["class", "unused", ""], ["ids", "3.7~2", BERT], ["area", "pca." + "0a1" * 6, BERT]])
def test_a_selection_in_a_link_is_read_again(state: list[str]) -> None:
    chosen = Selection(*state)
    assert token_selection.read_selection(token_selection.write_selection(chosen)) == chosen


@pytest.mark.parametrize(
    "text", ["", "class:none", "class:unused@x", "ids:3.7", "ids:<b>@x", "ids:" + "1." * 3000 + "1@x", "area:pca.0@x"]
)
def test_what_no_selection_can_be_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        token_selection.read_selection(text)


def test_a_shape_selects_the_dots_within_it(monkeypatch: pytest.MonkeyPatch) -> None:
    session = open_session(BERT)
    (source,) = session.open((BERT,))
    table = source.embeddings.token  # type: ignore[union-attr]
    found = session.projection(table, "pca", 2)
    (x0, y0), (x1, y1) = np.quantile(found.coordinates, (0.2, 0.6), axis=0).tolist()
    box = {"x": [x0, x1, x1, x0], "y": [y0, y0, y1, y1]}
    x, y = found.coordinates.T
    wanted = found.rows[(x > x0) & (x < x1) & (y > y0) & (y < y1)]
    chosen = token_selection.outlined(box, found, source)
    rows = token_selection.selected_rows(session, source, chosen)
    assert len(np.setxor1d(rows, wanted)) <= 2, "corners are rounded to a step of the map"
    monkeypatch.setattr(token_selection, "LONGEST_IDS", 10)
    large = token_selection.outlined(box, found, source)
    assert large.kind == "area"
    assert token_selection.selected_rows(session, source, large).tolist() == rows.tolist()
    assert token_selection.read_selection(token_selection.write_selection(large)) == large
    assert not len(token_selection.selected_rows(session, source, Selection("ids", "1", "sample:gpt2")))


@pytest.mark.parametrize(
    "area", [None, {}, {"x": [1, 2], "y": [1, 2]}, {"x": ["a"] * 3, "y": [1] * 3}, {"x": [1, 2, 3]}]
)
def test_what_is_no_shape_selects_nothing(area: object) -> None:
    session = open_session(BERT)
    (source,) = session.open((BERT,))
    found = session.projection(source.embeddings.token, "pca", 2)  # type: ignore[union-attr]
    assert found is not None
    assert token_selection.outlined(area, found, source) is None


def test_panel_counts_lists_and_reproduces_a_class() -> None:
    session = open_session(BERT)
    opened = session.open((BERT,))
    table = opened[0].embeddings.token  # type: ignore[union-attr]
    wanted = np.flatnonzero(table.labels.classes == TOKEN_CLASSES.index("continuation"))
    row = token_selection.found_tokens(session, opened, opened[0], NOT_SEARCHED, Selection("class", "continuation"))
    (panel,) = row.panels
    assert decoded(row.selected["token"], table.shape[0]).tolist() == wanted.tolist()
    assert panel.title == f"{len(wanted):,} tokens of Demo BERT selected: continuation"
    assert [chip.id for chip in panel.chips] == wanted[: token_selection.MOST_CHIPS].tolist()
    assert f"{len(wanted) - token_selection.MOST_CHIPS:,} more" in panel.foot
    for chosen, kind in ((wanted, "continuation"), (wanted[:7], "")):
        recipe = token_selection.selected_panel(opened[0], chosen, Selection("class" if kind else "ids", kind)).recipe
        seen: dict[str, Any] = {}
        exec(recipe.python, seen)
        assert seen["shown"] == [(table.labels[row], hpe.norms(table)[row]) for row in chosen]


def test_a_search_selects_its_matches_and_nothing_selects_nothing() -> None:
    session = open_session(BERT, "sample:gpt2")
    opened = session.open((BERT, "sample:gpt2"))
    row = token_selection.found_tokens(session, opened, opened[1], ["410", False], Selection())
    table = opened[1].embeddings.token  # type: ignore[union-attr]
    assert 410 in decoded(row.selected["token"], table.shape[0])
    assert row.panels[0].subtitle.startswith("Token 410 is “")
    assert row.panels[0].subtitle.endswith("“king” in Demo GPT-2")
    assert token_selection.found_tokens(session, opened, opened[1], NOT_SEARCHED, Selection()) is None


def test_file_has_id_token_and_norm_and_no_formula(tmp_path: Path) -> None:
    source = checkpoint(tmp_path / "hostile", (*HOSTILE, *WORDS))
    table = hpe.extract(source).token
    text = token_selection.table_of(table, range(table.shape[0])).decode()
    header, *rows = csv.reader(io.StringIO(text))
    assert header == ["id", "token", "norm"]
    assert [int(row[0]) for row in rows] == list(range(table.shape[0]))
    assert not [row for row in rows if row[1].startswith("=")]
    assert float(rows[-1][2]) == pytest.approx(float(hpe.norms(table)[-1]), rel=1e-6)
    assert token_selection.words_of(table, range(table.shape[0]), 12).count(",") == 11


def test_umap_comes_by_itself_only_where_it_is_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    session = open_session("random:300x8")
    opened = session.open(("random:300x8",))

    def asked(method: str = token_map.AUTOMATIC) -> list[object]:
        controls = token_map.MapControls(None, method, "2-D", "Class", Word("5"))
        return token_map.asked_map(session, opened, controls)

    _, panels, wanted, _, shown = asked()
    assert wanted == [["random:300x8", "token", 2]]
    assert shown["value"] == "UMAP"  # type: ignore[index]
    assert panels[0].title.startswith("PCA shows"), "PCA is drawn meanwhile"  # type: ignore[index]
    assert asked("PCA")[2] == [], "who chooses PCA keeps it"
    monkeypatch.setattr(limits, "UMAP_UNASKED", 100)
    _, _, wanted, _, shown = asked()
    assert wanted == []
    assert shown["value"] == "PCA"  # type: ignore[index]
    assert asked("UMAP")[2] == [["random:300x8", "token", 2]], "a large one is computed on request"
