"""The lessons: what they say is measured, and their links open what they are about."""

from __future__ import annotations

import html
import re
from pathlib import Path
from urllib.parse import parse_qs

import gradio as gr
import numpy as np
import pytest
from gradio.blocks import Block

import hfposemb as hpe
from app import TABS, panel
from app.findings.positions import probing, shifts
from app.lessons.card import CHOOSE, NUMBERS, link, revealed, told
from app.lessons.lessons import LESSONS, Lesson
from app.limits import MOST_SOURCES
from app.session import address
from app.session.opened import Opened
from app.session.source_names import FIRST, short_name
from app.session.state import Session
from hfposemb.analysis import geometry
from hfposemb.analysis.positions.encoding_properties import encoding_requirements
from hfposemb.composition.added_positions import add_positions
from hfposemb.composition.amplitude_sweep import sweep_amplitude
from hfposemb.errors import HfposembError
from hfposemb.surveys.published_findings import STUDIES
from hfposemb.tables.source_parser import parse_source
from hfposemb.tables.sources import HubSource
from tests.gallery import FINDINGS, Finding
from tests.support.app.sessions import open_session

NUMBERED = list(enumerate(LESSONS, 1))


@pytest.mark.parametrize(("number", "lesson"), NUMBERED)
def test_the_first_source_answers_the_question(number: int, lesson: Lesson) -> None:
    assert len(lesson.choices) == len(lesson.bounds) + 1
    assert list(lesson.bounds) == sorted(set(lesson.bounds))
    values = [lesson.measure(hpe.extract(source)) for source in lesson.models]
    assert np.isfinite(values).all()
    assert 0 <= lesson.right(values[0]) < len(lesson.choices)
    for source in re.findall(r"\w+:\w+(?:@step-\d+)?", lesson.exercise):
        assert parse_source(source)
        hpe.extract(source)


def test_choices_go_with_rising_values() -> None:
    lesson = LESSONS[6]
    assert [lesson.right(value) for value in (-1, 0.2, 0.21, 0.6, 0.61, 9)] == [0, 0, 1, 1, 2, 2]


def test_what_is_measured_is_what_the_words_say() -> None:
    """By hand, of the samples: no function of a lesson is asked about itself."""
    bert, gpt2 = hpe.extract("sample:bert"), hpe.extract("sample:gpt2")
    measures = [lesson.measure for lesson in LESSONS]
    apart, likeness, unchanged, _, fastest, _, invariance, both, unscaled, longer, from_words, by_place = measures[:12]
    tied, one_pair, alone = measures[12:]
    assert apart(bert) == 0
    rng = np.random.default_rng(5)
    table = gpt2.token.vectors / np.linalg.norm(gpt2.token.vectors, axis=1, keepdims=True)
    king, queen = (gpt2.token.row(word) for word in ("king", "queen"))
    left, right = rng.integers(len(table), size=(2, 20_000))
    less = np.einsum("ij,ij->i", table[left], table[right]) < table[king] @ table[queen]
    assert likeness(gpt2) == pytest.approx(100 * less.mean(), abs=3)  # among words of the same kind there
    assert unchanged(bert) == unchanged(gpt2) == 1
    assert invariance(hpe.extract("random:64x32")) < 0.1 < invariance(bert)
    assert 0.9 < both(bert) <= 1
    steps = [2 - 2 * np.cos(10_000 ** (-2 * pair / 6)) for pair in range(3)]
    assert fastest(hpe.extract("sinusoidal:256x6")) == pytest.approx(steps[0] / sum(steps), abs=1e-4)
    assert LESSONS[4].statement.endswith("(.909, −.416, .093, .996, .004, 1).")
    row = hpe.sinusoidal(3, 6).position.table.vectors[2]
    assert row == pytest.approx([0.909, -0.416, 0.093, 0.996, 0.004, 1], abs=5e-4)
    sums = bert.token.vectors + hpe.sinusoidal(256, 128).position.table.vectors[7]
    unit = bert.token.vectors / np.linalg.norm(bert.token.vectors, axis=1, keepdims=True)
    own = np.mean((sums @ unit.T).argmax(axis=1) == np.arange(len(sums)))
    assert unscaled(bert) < 0.05
    assert own < 0.05
    fed = bert.inputs("and the king saw her")
    stored, entering = (np.linalg.norm(one, axis=1) for one in (fed.sum, fed.normed))
    assert stored.max() / stored.min() - 1 == pytest.approx(0.29, abs=0.005)
    assert longer(bert) == pytest.approx(entering.max() / entering.min() - 1)
    words = [gpt2.token.vectors[gpt2.token.row(word)] for word in ("king", "queen", "bread", "water", "earth")]
    grid = np.stack(words)[:, None] + 4 * gpt2.position.table.vectors[1:9]
    grid /= np.linalg.norm(grid, axis=2, keepdims=True)
    total = np.square(grid - grid.mean((0, 1))).sum()
    of_words = 8 * np.square(grid.mean(1) - grid.mean((0, 1))).sum()
    assert from_words(gpt2) == pytest.approx(of_words / total, abs=1e-4)
    cosines = bert.position.matrix(128)
    by_hand = [cosines[place, place - 8] for place in range(8, 128)]
    assert by_place(bert) == pytest.approx(max(by_hand) - min(by_hand))
    swept = sweep_amplitude(add_positions(gpt2), amplitudes=(1.0,))
    assert tied(gpt2) == min(swept.words[0], swept.positions[0])
    circle = hpe.sinusoidal(256, 128).position.table.vectors[:, :2]
    far = np.linalg.norm(circle[:, None] - circle, axis=2) + 9 * np.eye(256)
    nearest = np.abs(far.argmin(axis=1) - np.arange(256))
    assert one_pair(hpe.extract("sinusoidal:256x128")) == np.mean(nearest == 1) == 0
    assert set(nearest) == {44}
    split = gpt2.logits("and the king saw her")
    alone_by_hand, whole = (
        np.where(split.visible, one - (one * split.visible).sum(-1, keepdims=True) / split.visible.sum(-1)[:, None], 0)
        for one in (split.term("position · position"), split.total)
    )
    shares = (alone_by_hand * whole).sum(axis=(1, 2)) / np.square(whole).sum(axis=(1, 2))
    assert alone(gpt2) == pytest.approx(shares.mean())


def test_what_lessons_say_of_minilm(minilm_folder: Path) -> None:
    minilm, sinusoid = hpe.extract(minilm_folder), hpe.sinusoidal(512, 384).position
    assert geometry.translation_invariance(minilm.position) == pytest.approx(0.49, abs=0.005)
    words, rows = np.asarray(minilm.token.vectors), sinusoid.table.vectors
    times = np.median(np.linalg.norm(rows, axis=1)) / np.median(np.linalg.norm(words, axis=1))
    assert times == pytest.approx(12, abs=0.6)

    def recovered(model: hpe.Embeddings) -> tuple[float, float]:
        found = sweep_amplitude(add_positions(model), amplitudes=(1.0,))
        return float(found.words[0]), float(found.positions[0])

    assert recovered(minilm) == (1.0, 1.0)
    assert recovered(hpe.from_arrays(token=words, position=rows))[0] < 0.01
    assert recovered(hpe.from_arrays(token=words * np.sqrt(384), position=rows))[0] > 0.99


@pytest.mark.parametrize(("number", "lesson"), NUMBERED)
def test_a_link_holds_the_sources_the_tab_and_the_lesson(number: int, lesson: Lesson) -> None:
    found = address.read(link(number))
    assert tuple(found.pop("models")) == lesson.models
    assert len(lesson.models) <= MOST_SOURCES
    assert found.pop("lesson") == [str(number)]
    assert found.pop("tab", ["start"]) == [lesson.tab]
    assert lesson.tab in TABS
    assert {name: values[0] for name, values in found.items()} == dict(lesson.controls)


@pytest.fixture(scope="module")
def components() -> list[Block]:
    """The components of a page that follows its address."""
    with gr.Blocks() as blocks:
        panel(address=True)
    return list(blocks.blocks.values())


@pytest.fixture(scope="module")
def kept(components: list[Block]) -> set[str]:
    """The names that an address of the app may hold."""
    written = (str(getattr(one, "js_on_load", "")) for one in components)
    line = next(code for code in written if "followAddress" in code)
    return set(re.findall(r'"([\w-]+)"', line.partition('"names": [')[2]))


@pytest.fixture(scope="module")
def labels(components: list[Block]) -> set[str]:
    """Labels of controls, and headings of what is folded away."""
    shown = {str(getattr(one, name, "")) for one in components for name in ("label", "value")}
    return shown | {shifts.QUESTION, probing.QUESTION}


@pytest.mark.parametrize(("number", "lesson"), NUMBERED)
def test_an_exercise_names_what_is_on_the_page(labels: set[str], number: int, lesson: Lesson) -> None:
    for named in re.findall(r"“([A-Z][^”]+)”", lesson.exercise):
        assert any(label.startswith(named) for label in labels), (number, named)


def test_every_control_of_a_link_is_kept(kept: set[str]) -> None:
    assert {name for lesson in LESSONS for name in lesson.controls} | {"lesson", "models", "tab"} <= kept


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda finding: finding.title)
def test_findings_of_the_gallery_lead_into_the_app(finding: Finding, kept: set[str]) -> None:
    found = address.read(finding.query)
    assert set(found) <= kept
    assert found.get("tab", ["start"])[0] in TABS
    assert [isinstance(parse_source(text), HubSource) for text in found["models"]] == [
        finding.study == "vit-fig7" for _ in found["models"]
    ]
    assert bool(finding.study) != bool(finding.lesson)
    assert set(finding.given) <= set(STUDIES[finding.study].models if finding.study else ())


def test_every_study_is_in_the_gallery() -> None:
    assert {finding.study for finding in FINDINGS} - {""} == set(STUDIES)


# --- what the card says -----------------------------------------------------------------------------------------------


def opened(*texts: str) -> list[Opened]:
    found = []
    for text in texts:
        try:
            found.append(Opened(text, short_name(text), "", "", hpe.extract(text)))
        except HfposembError as error:
            found.append(Opened(text, text, "", "", None, str(error)))
    return found


@pytest.fixture(scope="module")
def session() -> Session:
    return open_session(*FIRST)


def test_a_guess_comes_first(session: Session) -> None:
    assert CHOOSE in revealed(4, None, opened("counting:64x8"), session)
    assert CHOOSE in revealed(4, "<script>", opened("counting:64x8"), session)
    assert "of 5" not in revealed(4, "All of them", opened("counting:64x8"), session)


def test_what_is_on_the_page_is_measured(session: Session) -> None:
    said = revealed(4, LESSONS[3].choices[0], opened("sigmoid:65x8", "./none", "counting:65x8"), session)
    assert "Not quite. Measured: Two or three." in said
    assert "Sigmoid: 2 of 5 met" in said
    assert f"Counting: {encoding_requirements(hpe.extract('counting:65x8')).met} of 5 met" in said
    assert "./none: " in said
    assert "Next: Slow and fast" in said
    assert "Next:" not in revealed(15, LESSONS[14].choices[0], opened("alibi:40x4"), session)
    assert "Correct: Not at all." in revealed(12, LESSONS[11].choices[0], opened("alibi:40x4"), session)


MEASURED = (
    "0 apart",
    "97 of 100",
    "1 of the pieces",
    "3 of 5",
    "99.8\u00a0%",
    "R² .98",
    "84\u00a0%",
    "98\u00a0%",
    ".4\u00a0%",
    "2\u00a0%",
    "81\u00a0%",
    ".74",
    "100\u00a0%",
    "0\u00a0%",
    "26\u00a0%",
)
"""What is measured of the first source of each lesson; the samples do not change."""


@pytest.mark.parametrize(("number", "lesson"), NUMBERED)
def test_a_right_guess_is_said_to_be_right(session: Session, number: int, lesson: Lesson) -> None:
    said = revealed(number, lesson.choices[RIGHT[number - 1]], opened(*lesson.models), session)
    assert f"Correct: {lesson.choices[RIGHT[number - 1]]}." in said
    first = html.unescape(said).partition("<li>")[2].partition("</li>")[0]
    assert MEASURED[number - 1] in first
    assert html.escape(lesson.exercise) in said


RIGHT = (0, 2, 1, 1, 2, 2, 2, 2, 0, 0, 2, 2, 2, 0, 1)


def test_names_of_sources_stay_text(session: Session) -> None:
    source = Opened("x", "<img src=x>", "", "", None, "<b>it is gone</b>")
    said = revealed(7, LESSONS[6].choices[0], [source], session)
    assert "<img" not in said
    assert "<b>" not in said
    assert "None of the sources can show this" in said


def test_the_head_names_the_lesson() -> None:
    assert list(NUMBERS) == ["", *map(str, range(1, 16))]
    for number, lesson in NUMBERED:
        assert f"Lesson {number} of 15" in told(number)
        assert lesson.title in told(number)
    assert parse_qs(link(15)[1:])["lesson"] == ["15"]
