"""Every command, run as a person runs it; what it prints is what the functions return."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import hfposemb as hpe
from hfposemb.cache import Cache
from hfposemb.cli.main import main
from hfposemb.cli.parser import LISTED, parser
from hfposemb.samples import folder
from tests.hub import FakeHub

(CHOICES,) = [action.choices for action in parser()._actions if action.dest != "help" and action.choices]
COMMANDS = tuple(CHOICES)


pytestmark = pytest.mark.usefixtures("cache_folder")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: hfposemb {command}")


def test_help_describes_eight_commands_and_names_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    described, named = capsys.readouterr().out.partition("COMMAND\n")[2].split("more commands: ")
    assert re.findall(r"^    (\w+)", described, flags=re.M) == [name for name in COMMANDS if name in LISTED]
    others = ", ".join(sorted(set(COMMANDS) - set(LISTED)))
    assert " ".join(named.split()) == f"{others}; hfposemb COMMAND --help describes each"


def test_info(minilm_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(minilm_folder), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["model_type"] == "bert"
    assert facts["tables"]["token"]["shape"] == [30522, 384]
    assert facts["tables"]["position"]["tensor"] == "embeddings.position_embeddings.weight"
    assert facts["positions"]["position"]["kind"] == "learned"
    assert main(["info", str(minilm_folder)]) == 0
    assert "30,522 × 384" in capsys.readouterr().out


def test_project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["project", "sinusoidal:64x16", "--dims", "3"]) == 0
    head, *rows = csv.reader(io.StringIO(capsys.readouterr().out))
    expected = hpe.project(hpe.sinusoidal(64, 16).position, dims=3).coordinates
    assert head == ["label", "x", "y", "z"]
    np.testing.assert_allclose(np.array([row[1:] for row in rows], float), expected, rtol=1e-4, atol=1e-5)
    out = tmp_path / "p.csv"
    assert main(["project", "sinusoidal:64x16", "--out", str(out)]) == 0
    assert len(out.read_text().splitlines()) == 65


def test_export_writes_what_the_ending_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, points, page, rows = (tmp_path / name for name in ("p.npz", "w.csv", "f.html", "p.npy"))
    assert main(["extract", "sample:gpt2", "--table", "position", "--out", str(rows)]) == 0
    np.testing.assert_array_equal(np.load(rows), hpe.extract("sample:gpt2").position.table.vectors)
    capsys.readouterr()
    assert main(["export", "sample:bert", "--table", "position", "--out", str(table)]) == 0
    assert f"wrote {table}: sample:bert positions, 256 × 128 float32" in capsys.readouterr().out
    np.testing.assert_array_equal(np.load(table)["vectors"], hpe.extract("sample:bert").position.table.vectors)
    assert main(["export", "sinusoidal:32x8", "--projection", "pca", "--dims", "3", "--out", str(points)]) == 0
    assert points.read_text().startswith("label,x,y,z\n")
    assert main(["export", "sinusoidal:32x8", "random:32x8", "--figure", "distance", "--out", str(page)]) == 0
    assert "sinusoidal:32x8" in page.read_text()
    capsys.readouterr()
    assert main(["export", "sinusoidal:32x8", "random:32x8", "--out", str(tmp_path / "c.zip")]) == 0
    assert "the comparison of sinusoidal:32x8, random:32x8" in capsys.readouterr().out
    assert (tmp_path / "c.zip").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--out", "t.xlsx"], "t.xlsx must end in .safetensors"),
        (["--out", "t.npy", "--figure", "positions"], "t.npy must end in .html"),
        (["random:8x4", "--out", "t.npy"], "export them one by one"),
        (["--figure", "table", "--projection", "pca", "--out", "t.svg"], "leave it out for a figure"),
        (["--figure", "no", "--out", "t.html"], "unknown view 'no'; the views are positions"),
        (["random:8x4", "--figure", "table", "--out", "t.html"], "shows one source; distance, norms and variance"),
        (["--out", "no/t.npy"], "its folder does not exist"),
    ],
)
def test_export_says_what_it_cannot_write(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["export", "sinusoidal:8x4", *arguments]) == 1
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_similarity(minilm_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["similarity", str(minilm_folder), "--rows", "king,queen,paris"]) == 0
    printed = capsys.readouterr().out
    assert ".627" in printed
    assert "king – queen: 99.99; queen is king’s 2nd nearest (99.99), king is queen’s 2nd nearest (99.99)" in printed
    assert main(["similarity", str(minilm_folder), "--rows", "king,queen", "--centred", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["centred"]
    assert facts["ranks"] == [[None, 2], [1, None]]
    assert facts["others"] == 30_521


def test_neighbours(minilm_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["neighbours", str(minilm_folder), "king", "-k", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split() for line in lines] == [["kings", "0.690"], ["queen", "0.627"], ["monarch", "0.494"]]
    assert main(["neighbours", str(minilm_folder), "king", "queen", "-k", "1"]) == 0
    several = capsys.readouterr().out
    assert several == "nearest to 'king' by cosine\n  kings  0.690\n\nnearest to 'queen' by cosine\n  queens  0.628\n"
    assert main(["neighbours", str(minilm_folder), "king", "queen", "-k", "1", "--centred", "--json"]) == 0
    found = [one["neighbours"][0]["label"] for one in json.loads(capsys.readouterr().out)["results"]]
    assert found == ["kings", "king"]


def test_neighbours_of_a_table_whose_rows_point_one_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = np.random.default_rng(0).normal(size=(500, 16)) + 9 * np.eye(16)[0]
    folder = tmp_path / "model"
    folder.mkdir()
    save_file({"wte.weight": rows.astype(np.float32)}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2", "n_embd": 16, "vocab_size": 500}))
    assert main(["neighbours", str(folder), "7", "-k", "2"]) == 0
    assert "two random rows have a mean cosine of 0.8" in capsys.readouterr().out
    assert main(["neighbours", str(folder), "7", "-k", "2", "--centred"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("nearest to '7' by cosine, centred\n")
    assert "random rows" not in printed


def test_compare_json(minilm_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command of the README: a real BERT, a sample and a sinusoid, with MiniLM's published figures."""
    assert main(["compare", str(minilm_folder), "sample:bert", "sinusoidal:512x384", "--json", "--draws", "1"]) == 0
    printed = capsys.readouterr().out
    result = json.loads(printed)
    assert [source["source"] for source in result["sources"]] == [
        str(minilm_folder),
        "sample:bert",
        "sinusoidal:512x384",
    ]
    assert main(["compare", str(minilm_folder), "--draws", "0"]) == 0
    table = capsys.readouterr().out
    assert [figure for figure in ("24.51", "34.53", "51.61") if figure not in table] == []


def test_project_is_kept(cache_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for _ in range(2):
        assert main(["project", "sinusoidal:64x16"]) == 0
        printed.append(capsys.readouterr())
    assert printed[0] == printed[1]
    (entry,) = [one for one in Cache(cache_folder).entries() if one.key[-1] != "trust"]
    kept = Cache(cache_folder).find(entry.key)
    other = io.BytesIO()
    with np.load(io.BytesIO(kept.bytes())) as arrays:
        np.savez(other, **{**arrays, "coordinates": np.full((64, 2), 7.0, np.float32)})
    Cache(cache_folder).put(entry.key, other.getvalue())
    assert main(["project", "sinusoidal:64x16"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "0,7,7", "it was computed, not found"


def test_cache(cache_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache = Cache(cache_folder)
    cache.put(
        ("table", "openai-community/gpt2", "607a30d783dfa663", "model.safetensors", "wpe.weight"), bytes(3_145_728)
    )
    cache.put(("file", "openai-community/gpt2", "607a30d783dfa663", "config.json"), bytes(665))
    cache.put(("commit", "openai-community/gpt2", "main"), b"0" * 40)
    cache.put(("header", "a/b", "607a30d783dfa663", "\x1b[31m.safetensors"), b"")
    cache.put(("projection", "0123456789", "pca", "3", "0", "{}"), bytes(2000))
    assert main(["cache"]) == 0
    printed = capsys.readouterr().out
    for line in (
        f"{cache_folder}: 3.1 MB of 10.0 GB",
        "  table            1 entry       3.1 MB",
        "  table openai-community/gpt2@607a30d7 wpe.weight 3.1 MB",
        "  file openai-community/gpt2@607a30d7 config.json 665 bytes",
        "  commit openai-community/gpt2@main 40 bytes",
        "  projection pca in 3-D of the table 01234567, seed 0 2.0 kB",
    ):
        assert line in printed.splitlines()
    assert "\x1b" not in printed
    assert main(["cache", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["folder"] == str(cache_folder)
    assert facts["limit"] == 10_000_000_000
    assert facts["kinds"]["table"] == {"entries": 1, "bytes": 3_145_728}
    assert [entry["key"][0] for entry in facts["entries"]] == ["projection", "header", "commit", "file", "table"]


def test_cache_clear(cache_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, said in ((["--clear"], "freed 5.0 MB\n"), (["--clear", "--json"], '"freed": 5000')):
        Cache(cache_folder).put(("file", "a/b", "0" * 40, "x"), bytes(5_000_000))
        assert main(["cache", *arguments]) == 0
        assert said in capsys.readouterr().out
        assert Cache(cache_folder).entries() == ()
    assert main(["cache"]) == 0
    assert capsys.readouterr().out.startswith(f"{cache_folder}: 0 bytes of 10.0 GB\n")


def test_a_limit_that_is_no_number(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HFPOSEMB_CACHE_BYTES", "10 GB")
    for arguments in (["cache"], ["project", "sinusoidal:64x16"]):
        assert main(arguments) == 1
        assert capsys.readouterr().err == (
            "hfposemb: HFPOSEMB_CACHE_BYTES must be a whole number of bytes; found '10 GB'\n"
        )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("info ./nowhere", ""),
        ("info ./nowhere --json", ""),
        ("info gpt2", ""),
        ("info sample:bert sample:gpt2 --revision main", "--revision and --base need exactly one source; got 2\n"),
        ("extract sinusoidal:8x4 --table token --out x.npy", ""),
        ("extract sinusoidal:8x4 --out x.docx", ""),
        ("project sinusoidal:3x4 --method umap", ""),
        ("neighbours sample:bert xyzzy", ""),
        ("similarity sample:bert --rows king,xyzzy", ""),
        ("compare nonsense:3x4", ""),
        ("card sample:bert --dark", ""),
        ("project sample:bert --method umap --seed -1", ""),
        (f"export sample:bert --projection umap --seed {2**32} --out x.npy", ""),
        (f"app{' random:8x4' * 9}", "9 sources given; the app shows at most 8 at once\n"),
    ],
)
def test_errors_are_one_line(arguments: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments.split()) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"hfposemb: {said}")
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [[], ["nonsense"], ["extract", "sample:bert"], ["project", "x", "--dims", "9"]],
)
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "usage: hfposemb" in capsys.readouterr().err


def test_as_a_process() -> None:
    run = [sys.executable, "-m", "hfposemb"]
    assert (
        subprocess.run([*run, "--version"], capture_output=True, text=True, check=True).stdout
        == f"hfposemb {hpe.__version__}\n"
    )
    failed = subprocess.run([*run, "info", "./nowhere"], capture_output=True, text=True, check=False)
    assert failed.returncode == 1
    assert "Traceback" not in failed.stderr


@pytest.mark.parametrize("command", ["project sinusoidal:5000x8", "compare --schema"])
def test_a_reader_that_stops_reading(command: str) -> None:
    done = subprocess.run(
        f"{sys.executable} -m hfposemb {command} | head -c 1 >/dev/null",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Traceback" not in done.stderr


def test_info_of_a_hub_model_reads_headers_alone(hub: FakeHub, capsys: pytest.CaptureFixture[str]) -> None:
    hub.add("a/model", {path.name: path for path in folder("gpt2").iterdir()})
    assert main(["info", "a/model"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"commit [0-9a-f]{8}; read 100\.\d kB of 2\.7 MB, 4 requests", printed), printed
    assert main(["info", "a/model", "--json", "--revision", "main"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["tables"]["position"]["commit"] == facts["commit"]
    assert facts["requests"] == 1
    assert not [one for one in hub.requests if "tokenizer" in one.path]
    assert main(["info", "a/nothing"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("hfposemb: a/nothing is not a public model on the Hub")
    assert said.count("\n") == 1


def test_progress_of_a_download_is_shown_on_a_terminal(hub: FakeHub, tmp_path: Path) -> None:
    """On a terminal of its own, the only place where there is a bar."""
    hub.add("a/model", {path.name: path for path in folder("gpt2").iterdir()})
    hub.shape(rate=500_000)
    leader, follower = os.openpty()
    termios.tcsetwinsize(follower, (24, 100))
    command = [sys.executable, "-m", "hfposemb", "extract", "a/model", "--out", str(tmp_path / "out.npy")]
    with subprocess.Popen(command, stderr=follower, stdout=subprocess.DEVNULL) as process:
        os.close(follower)
        shown = b""
        with suppress(OSError):  # which is how a terminal ends
            while part := os.read(leader, 4096):
                shown += part
    os.close(leader)
    assert process.returncode == 0
    assert re.search(rb"a/model model\.safetensors:.*%.*1\.02M.*B/s", shown), shown[-300:]
    assert np.load(tmp_path / "out.npy").shape == (4000, 128)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("similarity sample:bert --rows king queen", "--rows takes several values with commas: --rows king,queen"),
        ("similarity sample:bert --rows king king", "--rows takes several values with commas: --rows king,king"),
        ("info sample:minilm --ids 101 102 103", "--ids takes several values with commas: --ids 101,102,103"),
        ("mixture sample:bert king --positions 1 5", "--positions takes several values with commas: --positions 1,5"),
    ],
)
def test_values_without_commas_are_answered_with_commas(
    given: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(given.split())
    assert capsys.readouterr().err.strip().endswith(said)
    with pytest.raises(SystemExit):
        main(["neighbours", "sample:bert", "king", "queen", "--metric", "dot", "bread"])
    assert "commas" not in capsys.readouterr().err, "it is no list"
