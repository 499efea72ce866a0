"""The folds of two models without a browser: what they compute, and what they show."""

from __future__ import annotations

import html
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import hfposemb as hpe
from app.findings.compare.pair_questions import (
    MERGE,
    ORIGIN,
    QUESTIONS,
    VOCABULARY,
    PairQuestion,
    answer_request,
    pair_key,
    pair_page,
    pair_recipe,
    sides_of,
)
from hfposemb.text import number, one_line, sentence_case
from tests.support.app.models import MANY, checkpoint
from tests.support.app.sessions import computed, open_session
from tests.support.app.views import run

EVIL = "<img src=x onerror=alert(1)>"


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda one: one.name)
def test_a_fold_shows_what_the_function_returns(
    question: PairQuestion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HFPOSEMB_CACHE", str(tmp_path / "cache"))
    rows = np.random.default_rng(0).normal(size=(len(MANY), 16)).astype(np.float32)
    noise = np.random.default_rng(1).normal(0, 0.1, rows.shape).astype(np.float32)
    texts = [checkpoint(tmp_path / EVIL, MANY, rows), checkpoint(tmp_path / "tuned", MANY, rows + noise)]
    session = open_session(*texts)
    sides = sides_of(session.open(session.first), None, session)
    assert sides is not None
    assert question.reading in pair_page(question, sides, None, stopped=False)
    assert "stopped" in pair_page(question, sides, None, stopped=True)
    computed(session, [texts], partial(answer_request, session, question))
    found = session.library.results.get(pair_key(question.name, *texts, public=False))
    page = pair_page(question, sides, found, stopped=False)
    assert EVIL not in page
    for value in run(pair_recipe(question, sides).python).values():
        assert (value.capitalize() if isinstance(value, str) else f"<td>{number(value)}</td>") in page
    if question is VOCABULARY:
        assert question.answer(found) == hpe.vocabulary_difference(*texts).to_dict()["headline"]
    else:
        expected = hpe.merge_preview(*texts) if question is MERGE else hpe.kinship(*texts)
        answer = {MERGE: "keeps", ORIGIN: "derived"}[question]
        assert (question.answer(found), expected.verdict) == (answer.capitalize(), answer)
        assert html.escape(sentence_case(one_line(expected.reason))) in page
        assert f"{expected.shared:,} rows of the same tokens were compared" in page
        assert f"<td>{number(expected.evidence[1].value)}</td>" in page


def test_a_fold_is_for_two_models_with_files() -> None:
    session = open_session("sample:bert", "sinusoidal:16x128")
    assert sides_of(session.open(session.first), None, session) is None


@pytest.mark.parametrize("question", [ORIGIN, MERGE], ids=lambda one: one.name)
def test_a_fold_says_of_rows_that_were_not_compared_only_why(question: PairQuestion) -> None:
    found = getattr(hpe, question.name)("sample:minilm", "sample:gpt2").to_dict()
    card = question.card(found, ("MiniLM", "GPT-2"))
    assert "were compared" not in card
    assert "Evidence" not in card
    assert "Their rows have 384 and 128 numbers; only rows of one width are compared." in card
