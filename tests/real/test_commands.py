"""Every command on real models: it ends well, says something plausible, and what it writes its own reader opens."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file, save_file

import hfposemb as hpe
from hfposemb.cli.main import main
from hfposemb.cli.parser import parser
from tests.support.app.printed import decoded

SINUSOID = "sinusoidal:1024x768"

Run = Callable[..., str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command that must end well; return what it printed."""

    def go(*words: str | Path) -> str:
        capsys.readouterr()
        code = main([str(word) for word in words])
        said = capsys.readouterr()
        assert code == 0, f"{words}: {said.err}"
        assert "Traceback" not in said.err
        return said.out

    return go


# --- one model --------------------------------------------------------------------------------------------------------


def test_commands_that_look_at_one_model(real: dict[str, str], run: Run) -> None:
    source = real["minilm"]
    rows, width = hpe.extract(source).token.shape
    assert f"{rows:,} × {width:,}" in run("info", source)
    assert json.loads(run("info", source, "--json"))["tables"]["token"]["shape"] == [rows, width]
    nearest = run("neighbours", source, "king", "-k", "3", "--metric", "euclidean").splitlines()
    assert len([line for line in nearest[1:] if not line.startswith("note: ")]) == 3
    assert "king" in run("neighbours", source, "king").lower().partition("\n")[2]
    assert run("mixture", source, "king", "-k", "2").count(" + ") == 1
    assert "| Output head |" in run("card", source)
    assert len(run("similarity", source, "--rows", "king,queen,7").partition("\n\n")[0].splitlines()) == 4
    odd = json.loads(run("odd", source, "--json", "--count", "3"))
    assert any(isinstance(one, list) and one for one in odd.values())
    assert "unique" in run("info", source, "--requirements")
    assert ": 0 wrong, " in run("check", source).splitlines()[0]
    assert "One vocabulary: " in run("vocab", source, source).splitlines()[0]
    assert f"0 of {rows:,} rows" in run("changes", source, source)
    assert ": same\n" in run("kinship", source, source)
    assert ": keeps\n" in run("merge-preview", source, source)
    assert "0 of 50 tokens would become salient" in run("transplant", source, "sample:gpt2", "--tokens", "50")


def test_the_head_of_an_untied_model_is_compared(run: Run, tmp_path: Path) -> None:
    table = np.random.default_rng(0).normal(size=(3_000, 48)).astype(np.float32)
    names = {"model.embed_tokens.weight": table, "lm_head.weight": table[:, ::-1].copy()}
    save_file(names, tmp_path / "model.safetensors")
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "tie_word_embeddings": False}
    (tmp_path / "config.json").write_text(json.dumps(config))
    said = run("head", tmp_path)
    assert re.search(r"CKA +1\.0", said), said


def test_rotary_positions_are_reported(run: Run) -> None:
    assert "rotary, 64 pairs" in run("rope", "rotary:2048x128")


def test_a_projection_of_a_vocabulary(real: dict[str, str], run: Run, tmp_path: Path) -> None:
    run("project", real["gpt2"], "--dims", "3", "--out", tmp_path / "map.csv")  # the Projector finds it in the cache
    frame = pd.read_csv(tmp_path / "map.csv", keep_default_na=False)
    assert len(frame) == 50_257
    numbers = frame.select_dtypes("number")
    assert np.isfinite(numbers.to_numpy()).all()
    assert numbers.iloc[:, -1].nunique() > 1_000


def _csv(path: Path, separator: str) -> np.ndarray:
    frame = pd.read_csv(path, sep=separator, keep_default_na=False, quotechar='"')
    return frame.select_dtypes("number").to_numpy()


READERS: dict[str, Callable[[Path], np.ndarray]] = {
    "safetensors": lambda path: next(iter(load_file(path).values())),
    "npy": np.load,
    "npz": lambda path: np.load(path)["vectors"],
    "parquet": lambda path: np.stack(list(pd.read_parquet(path)["vector"])),
    "csv": lambda path: _csv(path, ","),
    "tsv": lambda path: np.loadtxt(path, delimiter="\t", ndmin=2),
}
"""What opens a file by its ending."""


@pytest.mark.parametrize("ending", READERS)
def test_every_format_is_opened_by_its_reader(ending: str, real: dict[str, str], run: Run, tmp_path: Path) -> None:
    role = "position" if ending in ("csv", "tsv", "parquet") else "token"  # a vocabulary as text takes a minute
    path = tmp_path / f"table.{ending}"
    run("extract", real["gpt2"], "--table", role, "--out", path)
    table = hpe.extract(real["gpt2"]).tables[role]
    read = READERS[ending](path)[:, -table.shape[1] :]
    assert read.shape == table.shape
    rows = [0, 1, table.shape[0] // 2, table.shape[0] - 1]
    expected = np.stack([table.rows(row, row + 1)[0] for row in rows])
    np.testing.assert_allclose(read[rows].astype(np.float32), expected, rtol=1e-5, atol=1e-7)


def test_the_embedding_projector_reads_a_vocabulary(real: dict[str, str], run: Run, tmp_path: Path) -> None:
    """A tab-separated file of vectors has one row a line, and the labels stand beside it, as many."""
    run("export", real["gpt2"], "--projection", "pca", "--dims", "3", "--out", tmp_path / "map.tsv")
    vectors = np.loadtxt(tmp_path / "map.tsv", delimiter="\t")
    (labels,) = [path for path in tmp_path.glob("*.tsv") if path.name != "map.tsv"]
    lines = labels.read_text("utf-8").split("\n")
    lines = lines[:-1] if not lines[-1] else lines
    assert vectors.shape == (50_257, 3)
    assert len(lines) - ("\t" in lines[0]) == 50_257, lines[:3]


# --- figures ----------------------------------------------------------------------------------------------------------

FIGURES = ("positions", "similarity", "table", "tokens", "distance", "norms", "variance")


@pytest.mark.parametrize("figure", FIGURES)
def test_figures_are_json_with_something_to_see(figure: str, real: dict[str, str], run: Run, tmp_path: Path) -> None:
    out = tmp_path / "figure.json"
    run("export", real["gpt2"], "--figure", figure, "--out", out)
    traces = json.loads(out.read_text("utf-8"))["data"]
    sizes = [np.size(decoded(trace[axis])) for trace in traces for axis in "yz" if axis in trace]
    assert max(sizes) > 200


@pytest.mark.browser
def test_a_figure_is_a_picture(real: dict[str, str], run: Run, tmp_path: Path) -> None:
    from PIL import Image

    out = tmp_path / "figure.png"
    run("export", real["gpt2"], "--figure", "similarity", "--out", out)
    with Image.open(out) as image:
        assert image.width > 400
        assert len(image.convert("RGB").getcolors(1 << 24)) > 50


# --- several ----------------------------------------------------------------------------------------------------------


def test_the_comparison_as_json(real: dict[str, str], run: Run) -> None:
    document = json.loads(
        run("compare", real["minilm"], real["gpt2"], SINUSOID, "--json", "--draws", "0", "--no-pairs")
    )
    assert len(document["sources"]) == 3
    values = [one["value"] for source in document["sources"] for one in source["metrics"].values()]
    assert sum(value is not None for value in values) > 60


def test_the_comparison_as_a_page(real: dict[str, str], run: Run, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    run("compare", real["minilm"], SINUSOID, "--no-pairs", "--draws", "0", "--out", out)
    assert out.read_bytes().startswith(b"<!doctype html>")
    assert out.stat().st_size < 30e6


def test_a_survey_and_the_same_again(real: dict[str, str], run: Run, tmp_path: Path) -> None:
    few = ("--metric", "mean norm", "--draws", "0", "--workers", "1")
    run("survey", real["minilm"], real["gpt2"], *few, "--out", tmp_path / "survey")
    frame = pd.concat(pd.read_parquet(path) for path in (tmp_path / "survey").rglob("*.parquet"))
    assert frame["source"].nunique() == 2
    again = run("survey", "--again", tmp_path / "survey", "--workers", "1")
    assert "minilm" in again.lower() or real["minilm"] in again


def test_findings_are_measured_on_a_model_of_ones_own(real: dict[str, str], run: Run) -> None:
    found: Any = json.loads(run("reproduce", "--model", f"gpt2={real['gpt2']}", "--json", "gpt2-helix"))
    assert "helix" in json.dumps(found)


def test_no_command_is_left_out() -> None:
    """A new command stands here, or is of those that have no model."""
    (choices,) = [action.choices for action in parser()._actions if action.dest != "help" and action.choices]
    written = Path(__file__).read_text("utf-8")
    # The walk; what needs the Hub; those without a model; those of a survey or of checkpoints.
    elsewhere = {"app", "space", "cache", "skill", "atlas", "trajectory", "verify"}
    assert {
        name for name in choices if f'run("{name}"' not in written and f'"{name}", real' not in written
    } <= elsewhere
