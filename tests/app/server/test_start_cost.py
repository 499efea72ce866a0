"""What the start of the app does without: stub files of Gradio's components, and packages that are used later."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import gradio
import pytest
from hfposemb.app.server import gradio_patches
from hfposemb.app.server.gradio_patches import STREAMS, SWITCH, mended_scripts
from starlette.testclient import TestClient


def printed(code: str, **variables: str) -> list[str]:
    """Return the lines that some code prints in a process of its own."""
    there = {**os.environ, **variables}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=there)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


IMPORTED = """
import ast, sys
from hfposemb.app.server import gradio_patches
parsed, parse = [], ast.get_source_segment
ast.get_source_segment = lambda *args, **options: parsed.append(args) or parse(*args, **options)
finders = list(sys.meta_path)
gradio_patches.import_gradio()
writer = sys.modules["gradio.component_meta"].create_or_modify_pyi
print("parsed" if parsed else "not parsed", [name for name in ("pandas",) if name in sys.modules])
print(writer.__module__, writer.__name__, sys.meta_path == finders)
import gradio
with gradio.Blocks():
    gradio.Button().click(lambda: None)
from gradio.caching import pd
import pandas
print(pd.DataFrame is pandas.DataFrame)
"""


def test_gradio_is_imported_without_stubs_and_pandas_and_left_as_it_is() -> None:
    """Afterwards its function is its own again, and pandas is imported where it is used."""
    assert printed(IMPORTED, **{SWITCH: "1"}) == [
        "not parsed []",
        "gradio.component_meta create_or_modify_pyi True",
        "True",
    ]


def test_a_gradio_that_is_built_differently_is_imported_as_it_is() -> None:
    code = IMPORTED.replace("finders =", "gradio_patches.PANDAS = 'no'\nfinders =")
    assert printed(code)[0] == "parsed ['pandas']"


def test_the_mend_of_streams_fits_the_gradio_that_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its script has the expression once, and is served with the other, ahead of Gradio's own."""
    before, after = STREAMS
    (route,) = mended_scripts()
    script = (Path(gradio.__file__).parent / "templates" / "frontend" / route.path[1:]).read_bytes()
    answer = TestClient(route).get(route.path)  # type: ignore[arg-type]
    assert answer.content == script.replace(before, after)
    assert answer.headers["content-type"].startswith("text/javascript")
    monkeypatch.setattr(gradio_patches, "STREAMS", (b"not there", b""))
    assert mended_scripts() == []
    monkeypatch.undo()
    monkeypatch.setenv(SWITCH, "0")
    assert mended_scripts() == []


LAUNCHED = """
import sys
from hfposemb.app import launch
from hfposemb.app.server.gradio_patches import import_gradio
import_gradio()
import hfposemb.analysis.projection.projecting as projection
from hfposemb.tables import closed_forms
judged, judge = [], projection.trust_of
projection.trust_of = lambda *args: judged.append(args) or judge(*args)
waves, sines = [], closed_forms.sine_rows
closed_forms.sine_rows = lambda *args, **options: waves.append(args) or sines(*args, **options)
blocks = launch(("sample:bert", "sinusoidal:64x32"), warm=False, quiet=True, prevent_thread_lock=True)
from gradio_client import Client
client = Client(blocks.local_url, verbose=False)
blocks._queue.events_recorded = 10**6  # after ever so many events nothing is summed up, either
for _ in range(3):  # what follows an answer is done before the next but one
    client.predict(source="sample:bert", api_name="/info")
late = ("numba", "pandas", "scipy", "sklearn", "torch", "transformers", "umap")
print(len(judged), "projections judged, sinusoid computed once or twice:", 1 <= len(waves) <= 2)
print([name for name in late if name in sys.modules])
"""


def test_the_app_imports_no_package_that_its_first_page_does_not_need() -> None:
    """Nor does it judge a picture before that is seen."""
    assert printed(LAUNCHED) == ["0 projections judged, sinusoid computed once or twice: True", "[]"]
