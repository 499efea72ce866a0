"""What the start of the app does without: stub files of Gradio's components, and packages that are used later."""

from __future__ import annotations

import subprocess
import sys

import pytest

IMPORTED = """
import ast, sys
from hfposemb.app.server.gradio_import import import_gradio
parsed, parse = [], ast.get_source_segment
ast.get_source_segment = lambda *args, **options: parsed.append(args) or parse(*args, **options)
finders = list(sys.meta_path)
import_gradio()
writer = sys.modules["gradio.component_meta"].create_or_modify_pyi
print(len(parsed), "of the stubs' classes parsed")
print(writer.__module__, writer.__name__, sys.meta_path == finders)
"""


def test_gradio_is_imported_without_stubs_and_left_as_it_is() -> None:
    """No class is parsed during the import; afterwards Gradio's function is its own again, and parses."""
    printed = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == [
        "0 of the stubs' classes parsed",
        "gradio.component_meta create_or_modify_pyi True",
    ]


LATER = """
import sys
from hfposemb.app.server.gradio_import import import_gradio
import_gradio()
import gradio
print([name for name in ("pandas", "mcp", "IPython") if name in sys.modules])
print(gradio.Button.click.__doc__.partition(".")[0].strip())
import pandas
from gradio.caching import pd
print(pd.DataFrame is pandas.DataFrame)
with gradio.Blocks() as blocks:
    gradio.Button().click(lambda: None)
from gradio.mcp import GradioMCPServer
from mcp.server import Server
print(isinstance(GradioMCPServer(blocks).mcp_server, Server))
"""


def test_packages_that_gradio_need_not_have_yet_are_imported_where_it_uses_them() -> None:
    """That is so of pandas to hash, and of the MCP SDK by Gradio's own server."""
    pytest.importorskip("mcp")
    printed = subprocess.run([sys.executable, "-c", LATER], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == ["[]", "Triggered when the Button is clicked", "True", "True"]


LAUNCHED = """
import sys
from hfposemb.app import launch
from hfposemb.app.server.gradio_import import import_gradio
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
late = ("matplotlib.pyplot", "numba", "pandas", "scipy", "sklearn", "torch", "transformers", "umap")
print(len(judged), "projections judged, sinusoid computed once or twice:", 1 <= len(waves) <= 2)
print([name for name in late if name in sys.modules])

import matplotlib.pyplot
from gradio.utils import MatplotlibBackendMananger
matplotlib.use("svg")
with MatplotlibBackendMananger():
    print(matplotlib.get_backend())
print(matplotlib.get_backend())
"""


def test_the_app_imports_no_package_that_its_first_page_does_not_need() -> None:
    """Nor does it judge a picture before that is seen. Gradio still sets the backend of matplotlib where imported."""
    pytest.importorskip("matplotlib")
    printed = subprocess.run([sys.executable, "-c", LAUNCHED], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == [
        "0 projections judged, sinusoid computed once or twice: True",
        "[]",
        "agg",
        "svg",
    ]
