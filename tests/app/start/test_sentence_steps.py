"""A sentence on its way into the first layer: every number is the model's, and says where it comes from."""

from __future__ import annotations

import html
import re

import numpy as np
import pytest

import hfposemb as hpe
from app.findings.start.sentence_steps import NUMBERS, by_hand, sentence_steps
from app.session.opened import Opened
from hfposemb.text import number


def rows_of(page: str) -> dict[str, dict[str, list[tuple[str, str]]]]:
    """Return the numbers of each piece's parts with what is said of each."""
    found: dict[str, dict[str, list[tuple[str, str]]]] = {}
    for caption, body in re.findall(r"<caption>(.*?):.*?</caption>.*?<tbody>(.*?)</tbody>", page):
        parts = re.findall(r"<th scope='row'>(.*?)</th>(.*?)</tr>", body)
        cell = r"<summary>(.*?)</summary><p>(.*?)</p>"
        found[html.unescape(caption)] = {html.unescape(name): re.findall(cell, cells) for name, cells in parts}
    return found


def test_numbers_are_those_of_the_model(minilm: Opened) -> None:
    page = sentence_steps([minilm], "I love NLP", "model")
    inputs = minilm.embeddings.inputs("I love NLP")
    found = rows_of(page)
    assert list(found) == [piece.strip() for piece in inputs.pieces] == ["[CLS]", "i", "love", "nl", "##p", "[SEP]"]
    for place, parts in enumerate(found.values()):
        vectors = (inputs.token, inputs.type, inputs.position, inputs.sum, inputs.normed)
        for vector, cells in zip(vectors, parts.values(), strict=True):
            assert [value for value, _ in cells] == [number(float(one)) for one in vector[place, :NUMBERS]]
    assert "WordPiece" in page
    assert "(batch, length, d) = (1, 6, 384)" in page
    assert re.search(r'id="step-3" aria-label="nl" checked', page), "the last word is open"


def test_a_sum_and_a_normalised_number_can_be_worked_out(minilm: Opened) -> None:
    """Each line of arithmetic gives what it says, up to the rounding of what is shown."""
    parts = rows_of(sentence_steps([minilm], "I love NLP", "model"))["love"]
    for name in ("= sum", "→ LayerNorm"):
        for value, said in parts[name]:
            left, right = said.replace("−", "-").replace("×", "*").split(" = ")
            assert right == value.replace("−", "-")
            assert eval(re.sub(r"(?<![\d.])\.", "0.", left)) == pytest.approx(float(right), abs=0.02)


def test_sine_and_cosine_by_hand() -> None:
    parts = rows_of(sentence_steps([], "", "six"))["NLP"]
    assert [value for value, _ in parts["+ P, position 2"]] == [".909", "−.416", ".093", ".996", ".004", "1.000"]
    said = re.sub("<.*?>", "", parts["+ P, position 2"][1][1])
    assert said == "pos = 2, i = 0: angle 2 / 100002·0/6 = 2.0000, cos 2.0000 = −.416."
    parts = rows_of(sentence_steps([], "", "sum"))["love"]
    assert [value for value, _ in parts["= sum"]] == [".110", ".320", ".430"]
    assert "no formula" in parts["+ P, position 0"][0][1]


def test_the_formula_is_recognised_however_sines_and_cosines_stand() -> None:
    for layout, kind in (("in turn", "in turn"), ("halves", "halves"), ("noise", "")):
        rows = hpe.sinusoidal(16, 8).position.table.vectors
        if layout == "halves":
            rows = np.concatenate([rows[:, ::2], rows[:, 1::2]], axis=1)
        if layout == "noise":
            rows = np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32)
        made = by_hand("six")
        source = hpe.from_arrays(token=np.eye(8, dtype=np.float32), position=rows)
        assert type(made)("x", source, source.inputs([1, 2, 3, 4])).layout == kind


@pytest.mark.parametrize(
    ("text", "said"),
    [(" ", "Write a sentence, such as “I love NLP”."), ("x" * 3_000, "A sentence can have at most"), ("", "Write")],
)
def test_what_cannot_be_followed_is_said(minilm: Opened, text: str, said: str) -> None:
    assert sentence_steps([minilm], text, "model").startswith(f'<p class="said">{said}')
    assert "no source is selected" in sentence_steps([], "a", "model").lower()


def test_text_stays_text(minilm: Opened) -> None:
    page = sentence_steps([minilm], "<img src=x onerror=alert(1)> \u202e", "model")
    assert "<img" not in page
    assert "\u202e" not in page


def test_other_families() -> None:
    """GPT-2 adds no segment and normalises nothing; rotary models add nothing at all."""
    gpt = Opened("sample:gpt2", "Demo GPT-2", "#0b6aa8", "solid", hpe.extract("sample:gpt2"))
    parts = rows_of(sentence_steps([gpt], "the king", "model"))["king"]
    assert [name.split(",")[0] for name in parts] == ["E", "+ P", "= sum"]
    assert "byte-level BPE" in sentence_steps([gpt], "the king", "model")
