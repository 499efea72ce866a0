"""The notebook of the documentation, run from top to bottom by a real kernel: its answers are the library's numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import hfposemb as hpe
from hfposemb import geometry, shift
from hfposemb.similarity import pairs

DOCS = Path(__file__).parent.parent / "docs"


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HFPOSEMB_CACHE", str(tmp_path_factory.mktemp("cache")))
        notebook = nbformat.read(DOCS / "questions.ipynb", as_version=4)
        nbformat.validate(notebook)
        assert not any(cell.get("outputs") for cell in notebook.cells), "commit it without outputs"
        folder = {"metadata": {"path": str(tmp_path_factory.mktemp("elsewhere"))}}
        ran = NotebookClient(notebook, timeout=300, kernel_name="python3", resources=folder).execute()
    return [output for cell in ran.cells if cell.cell_type == "code" for output in cell.outputs]


def test_six_questions_are_answered_with_the_numbers_of_the_library(outputs: list[Any]) -> None:
    said = "".join(output.get("text", "") for output in outputs)
    bert, sines = hpe.extract("sample:bert"), hpe.sinusoidal(256, 128)
    fed = bert.inputs("the king saw the queen")
    alike = hpe.similarity(hpe.from_arrays(token=fed.normed).token)[1, 4]
    king = pairs(bert.token, ["king", "queen", "bread"])
    for answer in (
        f"{geometry.spectrum(bert.position).cumulative[2]:.0%} of sample:bert",
        f"distance alone explains {geometry.translation_invariance(bert.position):.0%}",
        f"sinusoidal:256x128: a shift by 4 is linear to R² {shift.shift(sines.position, 4).linear:.3f}",
        f"king and queen: cosine {king.values[0, 1]:.2f}, above {king.percentiles[0, 1]:.0f} % of random pairs",
        f"a word has length {float(geometry.norms(bert.token).mean()):.2f}",
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
