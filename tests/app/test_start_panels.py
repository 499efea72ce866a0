"""The panels of the tab Start: their sentences and titles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hfposemb as hpe
from app.findings import model_input
from app.session.opened import Opened


@pytest.fixture(scope="session")
def minilm(minilm_folder: Path) -> Opened:
    return Opened(str(minilm_folder), "MiniLM", "#0b6aa8", "solid", hpe.extract(minilm_folder))


def test_a_word_said_twice_goes_in_as_two_vectors(minilm: Opened) -> None:
    panel = model_input.input_panel([minilm], model_input.SENTENCE)
    assert panel.title == "The same word at two positions becomes two different inputs"
    assert minilm.embeddings is not None
    inputs = minilm.embeddings.inputs(model_input.SENTENCE)
    one, two = inputs.sum[1].astype(float), inputs.sum[4].astype(float)
    cosine = one @ two / np.linalg.norm(one) / np.linalg.norm(two)
    assert panel.message == (
        "Both “the” have the same token vector (cosine 1.00). At positions 1 and 4 their inputs differ "
        f"(cosine {cosine:.2f}).".replace("0.", ".")
    )
    assert panel.emphasis == "“the”"
    drawn = [np.asarray(trace.z) for trace in panel.drawings[0].figure.data]
    parts = (inputs.token, inputs.position, inputs.type, inputs.sum)
    for part, seen in zip(parts, drawn, strict=True):
        assert np.array_equal(seen, part[:, :64])
    assert np.allclose(sum(parts[:3]), inputs.sum, atol=1e-6), "what is drawn adds up"
    words = [note.text for note in panel.drawings[0].figure.layout.annotations]
    assert {"[CLS]", "<b>the</b>", "king", "1996", "2332"} <= set(words)


def test_no_word_twice_is_said_too(minilm: Opened) -> None:
    panel = model_input.input_panel([minilm], "a queen")
    assert panel.title == "The input of each piece is its token vector plus its position vector"
    assert panel.message.startswith("At position 1, the input of “a” has cosine .")
    assert "No piece occurs twice" in panel.message


def test_a_model_without_positions_says_so() -> None:
    words = hpe.from_arrays(token=np.eye(4))
    feedable = Opened("words", "words", "", "", words)
    inputs = words.inputs([1, 2, 1])
    title, said = model_input.sentence_finding(feedable, inputs, model_input.twice(feedable, inputs))
    assert "adds no positions" in title
    assert said


def test_sentences_that_cannot_be_fed(minilm: Opened) -> None:
    assert "Write a sentence" in model_input.input_panel([minilm], "  ").message
    untold = model_input.input_panel([Opened("x", "x", "", "", hpe.extract("sinusoidal:8x4"))], "the king")
    assert untold.tone == "error"
    assert "No input for this sentence" in untold.message
    assert model_input.input_panel([], "the king").message
    long = model_input.input_panel([minilm], "king " * 60)
    assert f"{model_input.PIECES} of 62 pieces" in long.foot
    far = model_input.input_panel([minilm], "king " * 600)
    assert "at most 300 characters" in far.message
