"""The notebooks of the documentation, run from top to bottom by a real kernel: their answers are the library's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

import hfposemb as hpe
from app.lessons.lessons import LESSONS, Lesson
from hfposemb.analysis import geometry, rows
from hfposemb.analysis.positions import shift_operator
from hfposemb.analysis.similarity.row_pairs import pair_similarities
from tests.conftest import FULL, in_full
from tests.notebooks import PLOTLY, run, sources

DOCS = Path(__file__).parents[2] / "docs"


NOTEBOOKS = sorted(path.name for path in DOCS.glob("*.ipynb"))


RUN = [name for name in NOTEBOOKS if FULL or name != "lessons.ipynb"]
"""Those that `make test` runs: what lessons measure is in tests/app/start/test_lessons.py."""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Notebooks, run; each asserts what it says, so that a run that ends well is one in which it is so."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HFPOSEMB_CACHE", str(tmp_path_factory.mktemp("cache")))
        for name in RUN:
            found[name] = run(sources(name), tmp_path_factory.mktemp("elsewhere"))
    return found


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebooks_are_stored_as_they_are_written(name: str) -> None:
    notebook = nbformat.read(DOCS / name, as_version=4)
    nbformat.validate(notebook)
    assert (DOCS / name).stat().st_size <= 300_000
    assert [cell.source for cell in notebook.cells] == [cell.source for cell in sources(name).cells], AGAIN


@pytest.fixture(scope="module")
def outputs(ran: dict[str, Any]) -> list[Any]:
    return [output for cell in ran["questions.ipynb"].cells for output in cell.get("outputs", ())]


@pytest.mark.parametrize("name", RUN)
def test_notebooks_are_stored_with_their_outputs(name: str, ran: dict[str, Any]) -> None:
    """What the cells give now is stored, but for digits that another processor rounds otherwise."""
    notebook = nbformat.read(DOCS / name, as_version=4)
    for stored, now in zip(notebook.cells, ran[name].cells, strict=True):
        assert (stored.source, stored.get("execution_count")) == (now.source, now.get("execution_count")), AGAIN
        kinds, words, numbers = zip(*map(_said, (stored, now)), strict=True)
        assert kinds[0] == kinds[1], AGAIN
        assert words[0] == words[1], AGAIN
        assert np.allclose(*numbers, rtol=0.05, atol=0.02), AGAIN


AGAIN = "run: python -m tests.notebooks"
NUMBER = r"-?\d[\d,]*\.?\d*(?:e[-+]\d+)?"


def _said(cell: Any) -> tuple[list[set[str]], str, list[float]]:
    """Return the kinds of a cell's outputs, their text without its numbers, and these."""
    kinds, text = [], ""
    for output in cell.get("outputs", ()):
        if output.get("name") == "stderr":  # progress, of slow runs
            continue
        data = output.get("data", {})
        kinds.append({"image/png"} if {PLOTLY, "image/png"} & set(data) else set(data))
        text += output.get("text", "") + ("" if "image/png" in data or PLOTLY in data else data.get("text/plain", ""))
    return kinds, re.sub(NUMBER, "#", text), [float(one.replace(",", "")) for one in re.findall(NUMBER, text)]


@in_full
@pytest.mark.parametrize(("number", "lesson"), list(enumerate(LESSONS, 1)))
def test_each_lesson_asserts_one_number(number: int, lesson: Lesson, ran: dict[str, Any]) -> None:
    """Its cells say and print what the app does, of every source."""
    cells = ran["lessons.ipynb"].cells
    head = next(place for place, cell in enumerate(cells) if cell.source.startswith(f"## {number}. {lesson.title}"))
    asked, _, measured, after = cells[head : head + 4]
    assert lesson.question in asked.source
    assert lesson.exercise in after.source
    assert len(re.findall("^assert ", measured.source, flags=re.M)) == 1
    said = "".join(output.get("text", "") for output in measured.outputs).splitlines()
    assert said == [
        lesson.reveal.format(name=source, value=lesson.measure(hpe.extract(source))) for source in lesson.models
    ]


def test_an_assertion_that_does_not_hold_stops_a_notebook() -> None:
    notebook = nbformat.read(DOCS / "lessons.ipynb", as_version=4)
    first = next(cell for cell in notebook.cells if "assert" in cell.source)
    first.source = "assert 1 <= 0"
    notebook.cells = [first]
    with pytest.raises(CellExecutionError, match="AssertionError"):
        NotebookClient(notebook, timeout=60, kernel_name="python3").execute()


def test_six_questions_are_answered_with_the_numbers_of_the_library(outputs: list[Any]) -> None:
    said = "".join(output.get("text", "") for output in outputs)
    bert, sines = hpe.extract("sample:bert"), hpe.sinusoidal(256, 128)
    fed = bert.inputs("the king saw the queen")
    alike = hpe.similarity(hpe.from_arrays(token=fed.normed).token)[1, 4]
    king = pair_similarities(bert.token, ["king", "queen", "bread"])
    for answer in (
        f"{geometry.spectrum(bert.position).cumulative[2]:.0%} of sample:bert",
        f"distance alone explains {geometry.translation_invariance(bert.position):.0%}",
        f"sinusoidal:256x128: a shift by 4 is linear to R² {shift_operator.fit_shift(sines.position, 4).linear:.3f}",
        f"king and queen: cosine {king.values[0, 1]:.2f}, above {king.percentiles[0, 1]:.0f} % of random pairs",
        f"a word has length {float(rows.norms(bert.token).mean()):.2f}",
        "positions × 0: 100% of the neighbours stay",
        "token vectors of both “the” equal: True",
        f"has cosine {alike:.2f}",
    ):
        assert answer in said


def test_figures_and_values_show_themselves(outputs: list[Any]) -> None:
    shown = [output.data for output in outputs if output.output_type in ("display_data", "execute_result")]
    figures = [data for data in shown if "application/vnd.plotly.v1+json" in data]
    tables = [data["text/html"] for data in shown if "<table" in data.get("text/html", "")]
    assert len(figures) == 3
    assert any("4,000 × 128 float32" in table for table in tables)
    assert any("translation invariance" in table for table in tables)
