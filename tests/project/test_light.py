"""The base install: what runs where no extra is installed, and the line that every function prints that needs one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packaging.requirements import Requirement

from tests.hub import FakeHub
from tests.support.base_commands import REFUSED, RUNNER, RUNS
from tests.support.checkpoints.gguf_models import Model
from tests.support.checkpoints.onnx_files import looked_up, model, random_table
from tests.support.checkpoints.onnx_files import save as save_onnx

ABSENT = (
    *("numba", "llvmlite", "umap", "pynndescent", "sklearn", "plotly", "narwhals", "kaleido", "pandas", "pyarrow"),
    *("gradio", "gradio_client", "starlette", "fastapi", "brotli", "mcp", "torch", "transformers", "safetensors"),
    *("dask", "distributed", "gguf", "onnx"),
)
"""Modules that only the extras bring."""

WITHOUT = f"import sys\nsys.modules.update(dict.fromkeys({ABSENT!r}))\n"
"""What Python runs at its start, in child processes as well: to import these modules fails, as if they were absent."""


IN_PYTHON = """
import json, sys
import hfposemb as hpe
from hfposemb.analysis.projection.compiled_umap import compiled_umap
from hfposemb.analysis.positions.shift_curves import shift_null
from hfposemb.app import build, launch, panel
from hfposemb.figures.line_figures import norms_by_position
from hfposemb.figures.style import Series
from hfposemb.reports.report import report

waves = hpe.sinusoidal(64, 16)
table = waves.position.table
calls = {
    "umap": lambda: hpe.project(table, method="umap"),
    "umap of two": lambda: hpe.align_maps(waves, waves, "position", method="umap"),
    "umap-learn itself": compiled_umap,
    "view": lambda: hpe.view("norms", waves),
    "figure": lambda: norms_by_position([Series("norms", hpe.norms(table), "#000000")]),
    "report": lambda: report(waves),
    "probes": lambda: hpe.position_probes(table),
    "shift_null": lambda: shift_null(table, draws=1),
    "panel": panel,
    "build": build,
    "launch": launch,
    "to_torch": table.to_torch,
    "to_frame": table.to_frame,
}
said = {}
for name, call in calls.items():
    try:
        call()
    except hpe.HfposembError as error:
        said[name] = [type(error).__name__, str(error)]
json.dump(said, sys.stdout)
"""

LINES = {
    "umap": "UMAP needs the package umap-learn: pip install 'hfposemb[umap]'",
    "umap of two": "UMAP needs the package umap-learn: pip install 'hfposemb[umap]'",
    "umap-learn itself": "UMAP needs the package umap-learn: pip install 'hfposemb[umap]'",
    "view": "a figure needs the package plotly: pip install 'hfposemb[plot]'",
    "figure": "a figure needs the package plotly: pip install 'hfposemb[plot]'",
    "report": "a report needs the package plotly: pip install 'hfposemb[plot]'",
    "probes": "a probe needs the package scikit-learn: pip install 'hfposemb[probes]'",
    "shift_null": "shift_null() needs the package scikit-learn: pip install 'hfposemb[probes]'",
    "panel": "the app needs the package gradio: pip install 'hfposemb[app]'",
    "build": "the app needs the package gradio: pip install 'hfposemb[app]'",
    "launch": "the app needs the package gradio: pip install 'hfposemb[app]'",
    "to_torch": "to_torch() needs the package torch: pip install 'hfposemb[torch]'",
    "to_frame": "to_frame() needs the package pandas: pip install 'hfposemb[export]'",
}


@pytest.fixture
def light(tmp_path: Path) -> Any:
    """Runs code in a process in which no extra can be imported; returns what it prints as JSON."""
    (tmp_path / "start").mkdir()
    (tmp_path / "start" / "sitecustomize.py").write_text(WITHOUT)
    place = {"PYTHONPATH": str(tmp_path / "start"), "HFPOSEMB_CACHE": str(tmp_path / "cache")}

    def run(code: str, *arguments: str) -> Any:
        command = [sys.executable, "-c", code, *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=os.environ | place, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def test_the_modules_are_absent(light: Any) -> None:
    code = "import json\nfound = []\n"
    for name in (*ABSENT, "numba.core.dispatcher", "plotly.graph_objects"):
        code += f"try:\n    import {name}\n    found.append({name!r})\nexcept ModuleNotFoundError: pass\n"
    assert light(f"{code}print(json.dumps(found))") == []


def test_commands_run_without_extras(light: Any, hub: FakeHub, minilm_folder: Path, tmp_path: Path) -> None:
    files = ("config.json", "tokenizer.json", "vocab.txt", "model.safetensors")
    hub.add("owner/model", {name: minilm_folder / name for name in files})
    table = np.random.default_rng(0).standard_normal((61, 16)).astype(np.float32)
    Model("bert", {"embedding_length": 16}, {"token_embd.weight": table, "position_embd.weight": table[:20]}).write(
        tmp_path / "model.gguf"
    )
    words = "embeddings.word_embeddings.weight"
    save_onnx(tmp_path, model(looked_up(words), {words: random_table(61, 16)}))
    results = light(RUNNER, json.dumps([line.split() for line in RUNS]))
    failed = {line: err for line, (code, _, err) in zip(RUNS, results, strict=True) if code}
    assert failed == {}
    assert np.load(tmp_path / "rows.npy").shape == (512, 384)


def test_commands_name_the_extra_on_one_line(light: Any) -> None:
    results = light(RUNNER, json.dumps([line.split() for line in REFUSED]))
    said = {line: (code, out, err) for line, (code, out, err) in zip(REFUSED, results, strict=True)}
    assert said == {line: (1, "", f"hfposemb: {message}\n") for line, message in REFUSED.items()}


def test_functions_name_the_extra(light: Any) -> None:
    assert light(IN_PYTHON) == {name: ["MissingExtraError", line] for name, line in LINES.items()}


@pytest.mark.parametrize("extra", ["umap", "plot", "probes"])
def test_the_app_brings_the_extras_that_it_draws_with(extra: str) -> None:
    brought = [one for one in map(Requirement, requires("hfposemb") or ()) if one.name == "hfposemb"]
    of_app = [one for one in brought if one.marker is not None and one.marker.evaluate({"extra": "app"})]
    assert extra in set().union(*(one.extras for one in of_app))
