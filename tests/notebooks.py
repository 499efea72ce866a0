"""Run the notebooks of docs/ and store their outputs: ``python -m tests.notebooks NAME …``, all without a name.

Text is stored as it is, tables as HTML, and figures as small PNG pictures: as data of plotly each would take megabytes.
"""

from __future__ import annotations

import os
import sys
from base64 import b64encode
from io import BytesIO
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from tests.lessons import notebook

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
