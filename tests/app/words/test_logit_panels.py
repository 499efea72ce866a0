"""The panels of the first layer's logits: what they say, and that drawing them asks no network."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from app.findings.positions.logits import NEEDS, distance_panel, distance_title, logit_panels
from app.session.opened import Opened
from app.session.state import Session
from hfposemb.composition.attention_logits import logit_shares, logits_by_distance
from hfposemb.errors import InputError
from tests.architectures.tiny import build as tiny
from tests.hub import FakeHub
from tests.support.app.sessions import open_session, taken

SENTENCE = "the king saw the queen"


def opened(source: str) -> tuple[Session, Opened]:
    session = open_session(source)
    return session, session.open([source])[0]


def test_three_panels_of_a_sentence() -> None:
    session, source = opened("sample:gpt2")
    split = source.embeddings.logits(SENTENCE)
    share, drawn, identical = logit_panels(source, SENTENCE, session)
    largest = float(logit_shares(split).mean.max())
    assert share.title.startswith(f"Word · word contributes {100 * largest:.0f}\u00a0% of the first layer's logits")
    alone = logit_shares(split).products["position · position"]
    assert f"position · position {100 * alone:.0f}\u00a0%, rest " in share.subtitle
    cells = np.asarray(share.drawings[0].figure.data[0].z)
    np.testing.assert_allclose(cells.ravel(), logit_shares(split).mean, atol=1e-6)
    assert "mean over 4 heads" in share.foot
    matrix = np.asarray(drawn.drawings[0].figure.data[0].z)
    assert (np.isnan(matrix) == ~split.visible).all()
    assert "Largest logit: query “" in drawn.title
    assert identical.title.startswith("With one word repeated, the word itself gets ")
    assert {trace.name for trace in identical.drawings[0].figure.data} >= {"Demo GPT-2", "uniform"}


def test_one_term_of_one_head() -> None:
    session, source = opened("sample:bert")
    drawn = logit_panels(source, SENTENCE, session, term="position · position", head=2)[1]
    term = source.embeddings.logits(SENTENCE).term("position · position")[2]
    cells = np.asarray(drawn.drawings[0].figure.data[0].z)
    np.testing.assert_allclose(cells, term - term.mean(axis=1, keepdims=True), atol=1e-4)
    assert "position · position · head 2 of 4" in drawn.foot
    assert "has no head 9" in logit_panels(source, SENTENCE, session, head=9)[1].message


def test_a_bias_is_told_beside_the_nine(tmp_path: Path) -> None:
    tiny("bloom").save_pretrained(tmp_path)
    session, source = opened(str(tmp_path))
    (panel,) = logit_panels(source, SENTENCE, session)
    assert "has no supported tokenizer" in panel.message
    found = distance_panel([source], session)
    assert "changes the logit by −" in found.title


@pytest.mark.parametrize(
    ("source", "said"), [("sinusoidal:64x16", "a built-in is not a model"), ("./absent", "does not exist")]
)
def test_sources_without_logits_say_why(source: str, said: str) -> None:
    session, found = opened(source)
    (panel,) = logit_panels(found, SENTENCE, session)
    assert said in panel.message
    assert not panel.drawings
    far = distance_panel([found], session)
    assert not far.drawings
    assert "None of the sources has a first layer" in far.message


def test_a_text_of_one_piece_has_no_shares() -> None:
    session, source = opened("sample:gpt2")
    share, drawn, identical = logit_panels(source, "a", session)
    assert "shares are undefined" in share.message
    assert drawn.drawings
    assert identical.drawings


def test_all_kinds_in_one_unit() -> None:
    texts = ("sample:bert", "sample:gpt2", "alibi:64x4", "sinusoidal:64x16")
    session = open_session(*texts)
    panel = distance_panel(session.open(texts), session)
    names = [trace.name for trace in panel.drawings[0].figure.data]
    assert names == ["Demo BERT", "Demo GPT-2", "ALiBi"]
    assert "not shown: Sinusoid (a built-in is not a model)" in panel.foot
    gpt2 = session.open(texts)[1].embeddings
    measured = logits_by_distance(gpt2, longest=64)
    change = measured.change.mean(axis=0)[measured.distances == -16][0]
    assert f"−{abs(change):.2f} in Demo GPT-2" in panel.title


def test_the_title_says_how_far_back_each_source_is_measured() -> None:
    session = open_session("sample:gpt2", "alibi:64x4")
    gpt2, alibi = session.open(["sample:gpt2", "alibi:64x4"])
    far = logits_by_distance(gpt2.embeddings, longest=64)
    near = logits_by_distance(alibi.embeddings, longest=7)
    change = f"{near.change.mean(axis=0)[0]:.2f}".replace("-0.", "−.")
    looking = "positions instead of 1 changes the logit by"
    assert distance_title({alibi: near}) == f"Looking back 7 {looking} {change} in ALiBi"
    both = distance_title({gpt2: far, alibi: near})
    assert both.startswith(f"Looking back 16 {looking}")
    assert both.endswith(f"{change} in ALiBi (7 back)")


def test_the_network_is_never_asked_by_what_draws(hub: FakeHub) -> None:
    draw = np.random.default_rng(5)
    shapes = {"wte.weight": (200, 16), "wpe.weight": (64, 16), "h.0.ln_1.weight": (16,), "h.0.ln_1.bias": (16,)}
    shapes |= {"h.0.attn.c_attn.weight": (16, 48), "h.0.attn.c_attn.bias": (48,)}
    tensors = {name: draw.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    config = {"model_type": "gpt2", "n_positions": 64, "n_head": 4, "layer_norm_epsilon": 1e-5, "vocab_size": 200}
    hub.add("a/gpt", {"config.json": json.dumps(config), "model.safetensors": save(tensors)})
    session = open_session("a/gpt")
    few, all_of_it = session.at("positions", ("position",)), session.at("words", NEEDS)

    def fetch(session: Session) -> None:
        wanted = session.wanted(session.open(["a/gpt"]))
        asyncio.run(taken(session.library.fetches.follow("page", ["a/gpt"], wanted)))

    fetch(few)
    before = len(hub.requests)
    panel = distance_panel(few.open(["a/gpt"]), few)
    assert "not shown: gpt (its first layer has not been read from the Hub)" in panel.foot
    assert len(hub.requests) == before
    fetch(all_of_it)
    before = len(hub.requests)
    panel = distance_panel(few.open(["a/gpt"]), few)
    assert panel.drawings
    assert len(hub.requests) == before


def test_results_are_computed_once() -> None:
    session, source = opened("sample:gpt2")
    first = distance_panel([source], session)
    kept = len(session.library.results)
    again = distance_panel([source], session)
    assert first.title == again.title
    assert len(session.library.results) == kept == 1


def test_a_term_that_there_is_not() -> None:
    _, source = opened("sample:gpt2")
    with pytest.raises(InputError, match="unknown term"):
        source.embeddings.logits(SENTENCE).term("words")
