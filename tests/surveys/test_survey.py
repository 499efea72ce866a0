"""Many sources: the figures of one comparison each, whatever fails, and whenever the survey is killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas
import psutil
import pytest
from safetensors.numpy import save

import hfposemb as hpe
from hfposemb.cli.main import main
from hfposemb.comparison.metrics import measures_named
from hfposemb.errors import HfposembError, InputError
from hfposemb.surveys import survey_folder
from hfposemb.surveys.cost_forecast import forecast
from hfposemb.surveys.source_figures import Plan, conduct, measured, plan
from hfposemb.surveys.survey_folder import COLUMNS, check_out
from hfposemb.surveys.worker_pool import Engine
from tests.conftest import FULL, Build
from tests.hub import FakeHub
from tests.hub.training import RUN, add_run
from tests.support.survey_models import at_once, same

ROOT = Path(__file__).parents[2]
CHECKPOINTS = 400 if FULL else 24
KILLS = 10 if FULL else 1
ONE = Engine(workers=1)
MODULE = import_module("hfposemb.surveys.source_figures")
QUICK = {"draws": 0, "engine": ONE}


def parts(out: Path) -> dict[str, int]:
    """Return the files of a survey, and when each was written."""
    return {path.name: path.stat().st_mtime_ns for path in out.iterdir()}


# --- what a row says --------------------------------------------------------------------------------------------------


def test_rows_are_the_figures_of_a_comparison() -> None:
    found = hpe.survey(["sample:gpt2"], draws=4, engine=ONE)
    (compared,) = hpe.compare(hpe.extract("sample:gpt2"), draws=4, pairs=False).sources
    assert list(found.columns) == list(COLUMNS)
    assert list(found.metric) == list(compared.metrics)
    for (_, row), figure in zip(found.iterrows(), compared.metrics.values(), strict=True):
        assert row.unit == figure.unit
        if figure.value is None:
            assert pandas.isna(row.value)
            assert row.error == figure.note
        else:
            assert row.value == pytest.approx(figure.value, rel=1e-9)
            assert pandas.isna(row.error)
        if (null := figure.null) is not None:
            assert (row.baseline, row.draws, row.seed) == (null.kind, 4, 0)
            wanted = (null.mean, null.low, null.high, null.p)
            assert (row.baseline_mean, row.baseline_low, row.baseline_high, row.p) == pytest.approx(wanted, rel=1e-9)
    tables = hpe.extract("sample:gpt2").tables
    by_table = found.groupby("table", sort=False).first()
    assert by_table.digest["position"] == tables["position"].digest
    assert by_table.tensor["token"] == tables["token"].provenance.tensor
    assert by_table.digest["token + position"] == f"{tables['token'].digest} + {tables['position'].digest}"
    assert (by_table.rows["token"], by_table.width["token"]) == tables["token"].shape
    assert (found.seconds > 0).all()
    assert set(json.loads(found.versions[0])) == {"hfposemb", "numpy", "scipy"}


def test_metrics_by_name_and_pattern() -> None:
    found = hpe.survey(
        ["sample:gpt2", "random:32x8"], metrics=["shift*", "translation invariance, inner products"], **QUICK
    )
    names = [one.name for one in measures_named(["shift*"])]
    assert len(names) == 6
    assert set(found.metric) == {*names, "translation invariance, inner products"}


def test_sources_that_fail_are_rows(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    add_run(hub, 1)
    sources = [f"{RUN}@step0", f"{RUN}@step99", "./nowhere", "rotary:16x8"]
    found = hpe.survey(sources, metrics=["mean norm"], **QUICK)
    assert list(found.source) == sources
    assert pandas.isna(found.error[0])
    assert found.commit[0] == hpe.extract(sources[0]).position.table.provenance.commit
    assert "has no revision 'step99'" in found.error[1]
    assert "does not exist" in found.error[2]
    assert pandas.isna(found.metric[1])
    assert found.metric[3] == "mean norm"
    assert "rotary positions have no vector" in found.error[3]

    def broken(*_: object) -> None:
        raise ZeroDivisionError("one\ntwo")

    monkeypatch.setattr(MODULE, "views", broken)
    assert list(hpe.survey(["random:8x4"], **QUICK).error) == ["ZeroDivisionError: one two"], "faults of ours, too"


# --- going on where it stopped ----------------------------------------------------------------------------------------


def test_nothing_is_computed_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []

    def counted(job: Plan, permits: Any) -> list[survey_folder.Row]:
        computed.append(job.target.source)
        return measured(job, permits)

    monkeypatch.setattr(MODULE, "measured", counted)
    sources = [f"random:32x8?seed={seed}" for seed in range(6)]
    out = tmp_path / "out"
    first = hpe.survey(sources[:4], out=out, **QUICK)
    before = parts(out)
    again = hpe.survey(sources, out=out, **QUICK)
    assert sorted(computed) == sorted(sources)
    assert {name: parts(out)[name] for name in before} == before
    pandas.testing.assert_frame_equal(again[again.source.isin(sources[:4])], first)
    assert len(pandas.read_parquet(out)) == len(again), "any reader of parquet takes the folder"


def test_sources_that_failed_are_tried_again(tmp_path: Path) -> None:
    folder, out = tmp_path / "model", tmp_path / "out"
    assert hpe.survey([folder], out=out, **QUICK).metric.isna().all()
    folder.symlink_to(ROOT / "hfposemb" / "samples" / "bert")
    assert hpe.survey([folder], out=out, **QUICK).metric.notna().all()


def test_a_file_that_changed_is_another_source(build: Build, tmp_path: Path) -> None:
    out = tmp_path / "out"
    build("gpt2").save_pretrained(tmp_path / "model")  # type: ignore[operator]
    first = hpe.survey([tmp_path / "model"], metrics=["mean norm"], out=out, **QUICK)
    build("gpt2", n_positions=24).save_pretrained(tmp_path / "model")  # type: ignore[operator]
    second = hpe.survey([tmp_path / "model"], metrics=["mean norm"], out=out, **QUICK)
    assert list(first.rows) + list(second.rows) == [20, 24]


DRIVER = """
import sys
import hfposemb as hpe
from hfposemb.surveys.worker_pool import Engine
if __name__ == "__main__":
    count, out = int(sys.argv[1]), sys.argv[2]
    sources = [f"random:64x16?seed={seed}" for seed in range(count)]
    print("works", flush=True)
    hpe.survey(sources, draws=5, engine=Engine(workers=2), out=out, progress=lambda *said: print(*said, flush=True))
"""


def test_a_driver_killed_again_and_again_ends_with_the_same_rows(tmp_path: Path) -> None:
    script, out = tmp_path / "driver.py", tmp_path / "out"
    script.write_text(DRIVER)
    command = [sys.executable, str(script), str(CHECKPOINTS), str(out)]
    written: dict[str, int] = {}
    chance = random.Random(0)
    for _ in range(KILLS):
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as driver:
            # After some sources, and then at any moment.
            for _line in range(3 + chance.randrange(CHECKPOINTS // (KILLS + 1) - 2)):
                driver.stdout.readline()
            time.sleep(chance.uniform(0, 0.03))
            driver.kill()
            driver.communicate()
        now = {name: at for name, at in parts(out).items() if name.endswith(".parquet") and not name.startswith(".")}
        assert {name: now[name] for name in written} == written, "what was done is done again"
        assert len(pandas.read_parquet(out).groupby("source")) == len(now), "a part is not whole"
        written = now
    assert 0 < len(written) < CHECKPOINTS, "the kills came too late"
    assert subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=False).returncode == 0
    assert {name: parts(out)[name] for name in written} == written
    assert sorted(name.partition("-")[0] for name in parts(out)) == ["_survey.json", *["part"] * CHECKPOINTS]
    sources = [f"random:64x16?seed={seed}" for seed in range(CHECKPOINTS)]
    found = pandas.read_parquet(out)
    assert not found.duplicated(["source", "table", "metric"]).any()
    same(found, hpe.survey(sources, draws=5, engine=ONE).astype(found.dtypes))


# --- the folder -------------------------------------------------------------------------------------------------------


def test_any_file_system_of_fsspec(tmp_path: Path) -> None:
    import fsspec

    out = f"memory://{tmp_path.name}/survey"
    first = hpe.survey(["random:32x8", "./nowhere"], out=out, **QUICK)
    names = {Path(name).name for name in fsspec.filesystem("memory").ls(f"/{tmp_path.name}/survey", detail=False)}
    assert len(names) == 3
    assert not any(name.startswith(".") for name in names)
    same(first, hpe.survey(["random:32x8", "./nowhere"], out=out, **QUICK))
    with pytest.raises(InputError, match=r"other settings \(draws is 0 there, 1 here\)"):
        hpe.survey(["random:32x8"], out=out, draws=1, engine=ONE)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is closed to this user")
def test_a_folder_that_cannot_be_written_is_known_before_any_work(tmp_path: Path) -> None:
    out = tmp_path / "out"
    hpe.survey(["random:8x4"], out=out, **QUICK)
    out.chmod(0o500)
    with pytest.raises(HfposembError, match="is not writable; choose another folder"):
        hpe.survey(["random:9x4"], out=out, **QUICK, progress=lambda *_: pytest.fail("work was begun"))


@pytest.mark.parametrize("system", ["POSIX", "Windows"])
def test_two_surveys_do_not_write_into_one_folder(system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows by a file in the folder; Linux stands in for msvcrt here, with the error that Windows raises."""
    if system == "Windows" and os.name == "posix":
        import fcntl

        def locking(handle: int, mode: int, size: int) -> None:
            assert (mode, size) == (2, 1), "without waiting, of a byte"
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise PermissionError(13, "Permission denied") from error

        monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(locking=locking, LK_NBLCK=2))
        monkeypatch.setitem(sys.modules, "fcntl", None)
    asked = plan(["random:8x4"], draws=0)
    one = check_out(str(tmp_path / "out"), asked.settings)
    with (
        survey_folder.opened(one, asked.settings),
        pytest.raises(HfposembError, match="another survey is writing to"),
    ):
        conduct(asked, one, engine=ONE)
    assert conduct(asked, one, engine=ONE).sources == 1


def bad(tmp_path: Path) -> dict[str, tuple[dict[str, Any], str]]:
    (tmp_path / "file").write_text("")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "notes.txt").write_text("")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "_survey.json").write_text("[")
    hpe.survey(["random:8x4"], metrics=["IsoScore"], out=tmp_path / "other", **QUICK)
    return {
        "metric": ({"metrics": ["token anisotropi"]}, "unknown metric 'token anisotropi'; did you mean token ani"),
        "useless": (
            {"sources": ["sinusoidal:8x4"], "metrics": ["token*"]},
            "token mean norm is a metric of tokens, but ",
        ),
        "rotary": (
            {"sources": ["rotary:8x4"], "metrics": ["IsoScore"]},
            "IsoScore is a metric of positions, but rotary",
        ),
        "settings": ({"out": tmp_path / "other"}, "has a survey with other settings (metrics is 'IsoScore' there, "),
        "file": ({"out": tmp_path / "file"}, "is a file; a survey needs its own folder"),
        "foreign": ({"out": tmp_path / "foreign"}, "has 'notes.txt' but no survey; choose a new folder"),
        "broken": ({"out": tmp_path / "broken"}, "was not written by a survey"),
        "protocol": ({"out": "nothing://x"}, "is not a writable folder: Protocol not known"),
        "archive": ({"out": f"zip://{tmp_path}/none.zip"}, "is not a writable folder: [Errno 21] Is a dir"),
        "no one there": ({"out": "ftp://127.0.0.1:1/x"}, "is not a writable folder: [Errno 111] Connection"),
        "no name": ({"out": " "}, "the name of the folder for the survey is empty"),
        "nothing": ({"sources": []}, "needs at least one source"),
        "no source": ({"sources": ["a b c"]}, "'a b c' is not a source"),
        "draws": ({"draws": -1}, "draws must be at least 0"),
    }


def test_bad_input_is_one_line_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = bad(tmp_path)
    monkeypatch.setattr(MODULE, "measured", lambda *_: pytest.fail("work was begun"))
    before = sorted(tmp_path.rglob("*"))
    for changes, said in cases.values():
        with pytest.raises(HfposembError) as error:
            hpe.survey(**{"sources": ["random:8x4"], "draws": 0, "engine": ONE, **changes})
        assert said in str(error.value)
        assert "\n" not in str(error.value)
    assert sorted(tmp_path.rglob("*")) == before


# --- the Hub ----------------------------------------------------------------------------------------------------------


def test_requests_are_limited_for_all_processes_together(hub: FakeHub) -> None:
    sources = add_run(hub, 6)
    hub.shape(delay=0.1)
    hpe.survey(sources, metrics=["mean norm", "token mean norm"], draws=0, engine=Engine(workers=2, requests=2))
    assert at_once(hub, 0.1) == 2


def test_waiting_for_a_turn_is_no_fault_of_the_hub(hub: FakeHub) -> None:
    """Ten readers with one permit wait longer than a read may take."""
    from hfposemb.checkpoints.limits import Limits
    from hfposemb.progress import limited

    sources = add_run(hub, 8)
    hub.shape(delay=0.1)
    gate, failed = threading.BoundedSemaphore(1), []

    def read(source: str) -> None:
        try:
            with limited(gate):
                assert hpe.extract(source, limits=Limits(seconds=0.6)).position.table.vectors.any()
        except HfposembError as error:
            failed.append(error)

    threads = [threading.Thread(target=read, args=(source,)) for source in sources]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert at_once(hub, 0.1) == 1


def test_a_forecast_reads_headers_alone_and_is_right(hub: FakeHub, tmp_path: Path) -> None:
    sources = add_run(hub, 3, positions=512, tokens=4000)
    asked = plan([*sources, "./nowhere", "sample:bert"], draws=1)
    out = check_out(str(tmp_path / "out"), asked.settings)
    said = forecast(asked, out, engine=ONE)
    assert not (tmp_path / "out").exists()
    tables = (512 + 4000) * 16 * 4
    before = hub.requests
    assert max(one.body_bytes for one in before) <= 100_000
    assert said.fetched == 3 * tables
    bert = hpe.extract("sample:bert").tables
    assert said.nbytes == said.fetched + sum(bert[role].provenance.nbytes for role in ("token", "position"))
    assert list(said.failed) == ["./nowhere"]
    assert conduct(asked, out, engine=ONE).failed.keys() == said.failed.keys()
    after = hub.requests[len(before) :]
    assert len(after) == said.requests
    assert sum(one.body_bytes for one in after if one.host == "cdn") == said.fetched
    assert forecast(asked, out, engine=ONE) == replace(said, before=4, nbytes=0, fetched=0, requests=0, seconds=0.0), (
        "what is done needs nothing"
    )


def test_a_head_on_the_hub_is_sampled(hub: FakeHub, tmp_path: Path) -> None:
    """Figures of a head of its own read 25 runs of its rows and of the token table, and say what they are of."""
    rng = np.random.default_rng(0)
    tables = {name: rng.standard_normal((30_000, 64), np.float32) for name in ("wte.weight", "lm_head.weight")}
    config = {"model_type": "gpt2", "tie_word_embeddings": False, "vocab_size": 30_000, "n_embd": 64}
    hub.add("a/headed", {"config.json": json.dumps(config).encode(), "model.safetensors": save(tables)})
    asked = plan(["a/headed"], metrics=["head*"], draws=19)
    said = forecast(asked, check_out(str(tmp_path / "out"), asked.settings), engine=ONE)
    before = len(hub.requests)
    found = hpe.survey(["a/headed"], metrics=["head*"], draws=19, engine=ONE)
    fetched = sum(one.body_bytes for one in hub.requests[before:] if one.host == "cdn")
    assert fetched == said.fetched == 2 * 2_000 * 64 * 4
    # Several at once are each redirected until the first redirect is known.
    assert sum(one.host == "cdn" for one in hub.requests[before:]) <= said.requests
    assert list(found.metric) == ["head and tokens, CKA", "head and tokens, norms", "head and tokens, first directions"]
    assert found.value.abs().max() < 0.1
    assert set(found.table) == {"token + head"}
    assert set(found.tensor) == {"wte.weight + lm_head.weight"}
    (tied,) = set(hpe.survey(["sample:gpt2"], metrics=["head*CKA"], **QUICK).error)
    assert tied.startswith("tied: no head is stored")


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_surveys_the_revisions_of_a_repository(
    hub: FakeHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sources, out = add_run(hub, 3), tmp_path / "out"
    given = ["survey", RUN, "--revisions", "step*", "--metric", "IsoScore", "--draws", "2", "--workers", "1"]
    assert main([*given, "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith("3 sources\n")
    assert main([*given, "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"wrote {out}: 3 sources\n"
    same(
        pandas.read_parquet(out),
        hpe.survey(sources, metrics=["IsoScore"], draws=2, engine=ONE).astype(pandas.read_parquet(out).dtypes),
    )
    assert main([*given, "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"wrote {out}: 3 sources, 3 of them from earlier runs\n"


@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_is_stopped_says_how_to_go_on(way: signal.Signals, tmp_path: Path) -> None:
    """Ctrl-C of a terminal reaches the processes of the work too, as does a batch system's end."""
    out, listed = tmp_path / "out", tmp_path / "sources.txt"
    sources = [f"random:256x64?seed={seed}" for seed in range(300)]
    listed.write_text("\n".join(sources))
    given = ["survey", "--file", str(listed), "--metric", "IsoScore", "--draws", "20", "--workers", "2"]
    command = [sys.executable, "-m", "hfposemb", *given, "--out", str(out)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as driver:
        while not list(out.glob("part-*")):
            assert driver.poll() is None
            time.sleep(0.01)
        started = psutil.Process(driver.pid).children(recursive=True)
        os.killpg(driver.pid, way)
        said, error = driver.communicate()
    kept = len(pandas.read_parquet(out).source)
    assert 0 < kept < len(sources), "it was stopped too late"
    assert said == ""
    assert error == f"hfposemb: stopped; {kept} of {len(sources)} sources are saved; run the same command to continue\n"
    assert driver.returncode == 128 + way
    assert len(started) >= 2
    assert psutil.wait_procs(started, timeout=20)[1] == [], "processes were left alone"
    assert sorted(name.partition("-")[0] for name in parts(out)) == ["_survey.json", *["part"] * kept]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["sample:gpt2"], "give --out FOLDER"),
        (["--dry-run"], "needs at least one source"),
        (
            ["sample:gpt2", "--dry-run", "--revisions", "stp*"],
            "has no revision matching 'stp*'; its revisions are step-0",
        ),
        (["sample:gpt2", "sample:bert", "--dry-run", "--revisions", "*"], "needs exactly one source; got 2"),
        (["sample:gpt2", "--dry-run", "--engine", "dask"], "the engine dask needs a scheduler"),
        (["sample:gpt2", "--dry-run", "--scheduler", "tcp://x:1"], "the engine dask needs a scheduler"),
        (["sample:gpt2", "--dry-run", "--workers", "0"], "must be at least 1; got 8 and 0"),
        (["sample:gpt2", "--dry-run", "--file", "./none"], "cannot be read as a list of sources"),
    ],
)
def test_the_command_says_what_is_wrong(given: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["survey", *given]) == 1
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
