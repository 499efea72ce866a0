"""Run the notebooks of docs/ and store their outputs: ``python -m tests.notebooks NAME …``, all without a name.

Text is stored as it is, tables as HTML, and figures as small PNG pictures: as data of plotly each would take megabytes.
"""

from __future__ import annotations

import inspect
import math
import os
import sys
from base64 import b64encode
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

import hfposemb as hpe
from app.lessons.lessons import FEW, LESSONS, REPEATED, SENTENCE, Lesson

OPENING = """# Fifteen lessons about words and positions

Each lesson has a textbook statement, a question to answer before you run the cell below it, a measurement, and an
exercise. Everything runs on the models included with the package, without a network; replace them with any other
source, such as `google-bert/bert-base-uncased` or a folder `./my-model`. The app has the same lessons, at the bottom of
its first tab."""

IMPORTS = f"""import numpy as np

import hfposemb as hpe
from hfposemb import Embeddings
from hfposemb.analysis import geometry
from hfposemb.analysis.positions.encoding_properties import encoding_requirements
from hfposemb.analysis.positions.shift_operator import fit_shift
from hfposemb.analysis.similarity.row_pairs import pair_similarities
from hfposemb.composition.added_positions import PositionAddition, add_positions
from hfposemb.composition.amplitude_sweep import sweep_amplitude
from hfposemb.composition.attention_logits import logit_shares
from hfposemb.composition.sum_and_concatenation import compare_sum_with_concatenation
from hfposemb.composition.variance_decomposition import sum_cloud
from hfposemb.composition.word_order import reorder_words, reverse_tokens
from hfposemb.errors import InputError
from hfposemb.tables.table import TOKEN_CLASSES

REPEATED = "{REPEATED}"
SENTENCE = "{SENTENCE}"
FEW = {FEW}""".replace("'", '"')


def notebook() -> str:
    """Return the notebook, without outputs."""
    cells = [_text(OPENING), _code(IMPORTS)]
    for number, lesson in enumerate(LESSONS, 1):
        cells += _cells(number, lesson)
    for place, cell in enumerate(cells):
        cell["id"] = f"cell-{place:02}"
    made = nbformat.v4.new_notebook(cells=cells)
    made.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return str(nbformat.writes(made, version=4)) + "\n"


def _cells(number: int, lesson: Lesson) -> Iterator[nbformat.NotebookNode]:
    choices = "\n".join(f"- {choice}" for choice in lesson.choices)
    yield _text(f"## {number}. {lesson.title}\n\n{lesson.statement}\n\n**{lesson.question}**\n\n{choices}")
    yield _code(inspect.getsource(lesson.measure).strip())
    name = lesson.measure.__name__
    yield _code(
        f"sources = {_listed(lesson.models)}\n"
        f"found = {{name: {name}(hpe.extract(name)) for name in sources}}\n"
        "for name, value in found.items():\n"
        f'    print(f"{lesson.reveal}")\n'
        f"assert {_held(lesson)}"
    )
    yield _text(f"{lesson.why}\n\n**Try it:** {lesson.exercise}")


def _listed(models: tuple[str, ...]) -> str:
    """Write the sources as ruff lays out a list with a comma at its end."""
    return "[\n" + "".join(f'    "{name}",\n' for name in models) + "]"


def _held(lesson: Lesson) -> str:
    """Return what is so of the first source: between which bounds its value lies."""
    first = lesson.models[0]
    right = lesson.right(lesson.measure(hpe.extract(first)))
    low, high = (-math.inf, *lesson.bounds)[right], (*lesson.bounds, math.inf)[right]
    value = f'found["{first}"]'
    if high == math.inf:
        return f"{value} > {low:g}"
    return f"{value} <= {high:g}" if low == -math.inf else f"{low:g} < {value} <= {high:g}"


def _text(source: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_markdown_cell(source)


def _code(source: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_code_cell(source)


DOCS = Path(__file__).parent.parent / "docs"
PLOTLY = "application/vnd.plotly.v1+json"
COLOURS = 64


def sources(name: str) -> Any:
    """Return a notebook without outputs: the lessons as they are written from the app, any other as it is stored."""
    found = nbformat.reads(notebook(), 4) if name == "lessons.ipynb" else nbformat.read(DOCS / name, 4)
    for cell in found.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
            cell.metadata.pop("execution", None)
    return found


def run(found: Any, folder: Path) -> Any:
    """Run a notebook from top to bottom in a folder, and return it with its outputs."""
    resources = {"metadata": {"path": str(folder)}}
    return NotebookClient(
        found, timeout=300, kernel_name="python3", resources=resources, record_timing=False, coalesce_streams=True
    ).execute(env={**os.environ, "HFPOSEMB_PROGRESS": "0"})


def compact(found: Any) -> Any:
    """Replace the figures in a notebook's outputs by pictures, and leave out what depends on the machine."""
    for cell in found.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]  # progress, of slow runs
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if PLOTLY in data:
                output.data = {"image/png": _picture(data[PLOTLY]), "text/plain": "Figure"}
    found.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return found


def _picture(figure: Any) -> str:
    """Return a figure as a PNG of few colours, in base64."""
    import plotly.graph_objects as go
    from PIL import Image

    drawn = go.Figure({"data": figure["data"], "layout": figure["layout"]})
    drawn.update_layout(paper_bgcolor="white", plot_bgcolor="white")
    whole = Image.open(BytesIO(drawn.to_image("png", width=800, height=420, scale=1.5)))
    small = BytesIO()
    whole.convert("RGB").quantize(COLOURS).save(small, "PNG", optimize=True)
    return b64encode(small.getvalue()).decode()


if __name__ == "__main__":
    import tempfile

    for name in sys.argv[1:] or ("lessons.ipynb", "questions.ipynb", "stranger.ipynb"):
        with tempfile.TemporaryDirectory() as folder:
            done = compact(run(sources(name), Path(folder)))
        (DOCS / name).write_text(nbformat.writes(done, version=4) + "\n", encoding="utf-8")
        print(DOCS / name)
