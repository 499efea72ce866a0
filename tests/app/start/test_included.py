"""MiniLM on the page without a network: its maps are there at once, and the foot says what it is."""

from __future__ import annotations

import gradio as gr
import pytest
from hfposemb.app.findings.chosen_word import Word
from hfposemb.app.findings.tokens import token_map
from hfposemb.app.jobs.queue import LINE
from hfposemb.app.session.background_jobs import stored_map
from hfposemb.app.session.shown_positions import View
from hfposemb.app.session.source_names import PRESETS, choices
from hfposemb.app.session.state import Session
from hfposemb.app.tabs.positions import clouds, missing_umaps

from hfposemb import app
from tests.support.app.sessions import computed

MINILM = "sample:minilm"


def test_it_is_offered_by_its_name() -> None:
    assert MINILM in PRESETS
    assert choices([], [MINILM]) == [("MiniLM", MINILM)]


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("role", ["token", "position"])
def test_umap_is_known_at_once(session: Session, role: str, dims: int) -> None:
    assert computed(session, [[MINILM, role, dims]], session.jobs.layout) == []
    assert not len(LINE)
    table = session.library.open(MINILM).tables[role]
    found = session.projection(table, "umap", dims)
    assert found.measured
    assert (found.coordinates.shape, found.method, found.name) == ((table.shape[0], dims), "umap", table.name)
    assert session.projection(table, "umap", dims) is found, "it is read once"


@pytest.mark.parametrize("dims", ["2-D", "3-D"])
def test_tokens_are_drawn_by_umap_without_a_job(session: Session, dims: str) -> None:
    controls = token_map.MapControls(None, token_map.AUTOMATIC, dims, "Class", Word("king"))
    back, panels, wanted, _, shown = token_map.asked_map(session, session.open((MINILM,)), controls)
    assert wanted == []
    assert back == gr.skip()
    assert shown["value"] == "UMAP"
    assert "islands in MiniLM" in panels[0].title or dims == "3-D"
    assert "vectors before rounding, seed 0" in panels[0].help
    assert len(panels[0].foot) <= 60


def test_positions_are_drawn_by_umap_without_a_job(session: Session) -> None:
    opened = session.open((MINILM, "sample:bert"))
    for dims in (2, 3):
        assert missing_umaps(opened, dims, session) == [["sample:bert", "position", dims]]
    panel = clouds(opened[:1], View("umap", 2), session).panels[0]
    table = opened[0].position.table
    stored = stored_map(table, 2)
    kept = f"{stored.trust.neighbours_kept.mean():.0%}".replace("%", "\u00a0%")
    assert panel.foot.startswith(f"UMAP keeps {kept} of each point’s neighbours")
    assert "rounding" not in panel.foot, "positions are exact"


def test_foot_says_what_a_sample_is(session: Session) -> None:
    def foot(*texts: str) -> str:
        return app.provenance(session.open(texts))

    assert "all-MiniLM-L6-v2" in foot(MINILM)
    assert "rounded to 8 bits" in foot(MINILM)
    assert "embeddings.word_embeddings.weight 30,522 × 384 I8, one scale per row" in foot(MINILM)
    assert "trained on one book" not in foot(MINILM)
    assert "trained on one book" in foot("sample:gpt2@step-100")
    assert "all-MiniLM-L6-v2" not in foot("sample:bert")
    assert "trained on one book" in foot(MINILM, "sample:bert")
    assert "all-MiniLM-L6-v2" in foot(MINILM, "sample:bert")
    assert "trained on one book" not in foot("sinusoidal:8x4", "sample:bert@step-1")
