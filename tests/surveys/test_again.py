"""A survey measured again: the same figures from the same commits and tables, and whatever differs is told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas
import pytest
from safetensors.numpy import save, save_file

import hfposemb as hpe
from hfposemb.cache import Cache
from hfposemb.cli.main import main
from hfposemb.errors import HfposembError, InputError
from hfposemb.surveys.remeasure import OF_FIGURE, OF_TABLE, Again, again
from hfposemb.surveys.survey_folder import COLUMNS, rows_of
from hfposemb.surveys.worker_pool import Engine
from tests.hub import FakeHub
from tests.hub.training import RUN, add_run

ONE = Engine(workers=1)
METRICS = ["IsoScore", "mean norm", "token mean norm"]
OFFLINE = ("sample:bert", "sample:gpt2", "sample:gpt2@step-500", "sinusoidal:64x16", "random:64x16", "counting:64x16")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A file with a table of positions."""
    return write(tmp_path / "model.safetensors", seed=0)


def write(path: Path, *, seed: int) -> Path:
    save_file({"wpe.weight": np.random.default_rng(seed).standard_normal((32, 8)).astype(np.float32)}, path)
    return path


@pytest.fixture(scope="module")
def measured() -> pandas.DataFrame:
    """The rows of a survey of one small source."""
    return hpe.survey(["random:32x8"], metrics=METRICS, draws=2, engine=ONE)


def verdicts(found: Again) -> dict[str, str]:
    return {one.source: one.verdict for one in found.sources}


def texts(found: Again) -> list[str]:
    """Return what differs, in words."""
    return [str(difference) for one in found.sources for difference in one.differences]


# --- the same ---------------------------------------------------------------------------------------------------------


def test_ten_sources_give_the_same_figures_though_the_branches_moved_on(
    hub: FakeHub, tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sources, out = [*OFFLINE, str(model), *add_run(hub, 3)], tmp_path / "out"
    was = hpe.survey(sources, metrics=METRICS, draws=2, engine=ONE, out=out)
    assert was.source.nunique() == 10
    waves = np.sin(np.outer(np.arange(64), np.arange(1, 17))).astype(np.float32)
    for step in range(3):
        hub.add(RUN, {"model.safetensors": save({"wpe.weight": waves, "wte.weight": waves})}, branch=f"step{step}")
    Cache.default().clear()
    (now,) = hpe.survey([f"{RUN}@step1"], metrics=["mean norm"], draws=0, engine=ONE).digest
    assert now not in set(was.digest), "the branch did not move"
    before = len(hub.requests)
    assert main(["survey", "--again", str(out), "--workers", "1"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert sorted(line.partition(":")[0] for line in said) == sorted(source.partition(":")[0] for source in sources)
    assert all(": same, " in line for line in said)
    asked = {one.path for one in hub.requests[before:] if one.host == "hub"}
    commits = set(was.commit.dropna())
    assert asked
    assert len(commits) == 3
    assert all(any(commit in path for commit in commits) for path in asked), "a branch was asked for"


def test_a_csv_file_of_the_rows_is_as_good_as_the_folder(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    sources = ["sample:gpt2", "rotary:32x8", "./nowhere"]
    was = hpe.survey(sources, draws=2, engine=ONE, out=tmp_path / "out")
    was.to_csv(path, index=False)
    pandas.testing.assert_frame_equal(rows_of(str(path)).fillna({"unit": ""}), was.fillna({"unit": ""}))
    by_file, by_folder = (again(rows_of(str(one)), engine=ONE) for one in (path, tmp_path / "out"))
    assert verdicts(by_file) == {"sample:gpt2": "same", "rotary:32x8": "same", "./nowhere": "failed before"}
    assert verdicts(by_file) == verdicts(by_folder)
    assert [one.figures for one in by_file.sources] == [was.value.notna().sum(), 0, 0]
    was.drop(columns="seconds").astype({"rows": float, "draws": float}).to_csv(path, index=False)
    assert again(rows_of(str(path)), engine=ONE) == by_file, "seconds are no figure, and 256.0 is 256"


def test_some_of_the_sources(tmp_path: Path) -> None:
    was = hpe.survey(["random:8x4", "./nowhere", "random:16x4"], metrics=["mean norm"], draws=0, engine=ONE)
    assert list(verdicts(again(was, sources=["random:16x4"], engine=ONE))) == ["random:16x4"]
    found = again(was, sources=["./nowhere", "random:8x4"], engine=ONE)
    assert verdicts(found) == {"./nowhere": "failed before", "random:8x4": "same"}
    assert found.same
    assert "./nowhere: failed before: " in str(found)
    assert "does not exist" in str(found)
    assert "random:8x4: same, 1 metric\n" in str(found) + "\n"


def test_a_source_that_was_tried_again_did_not_fail(tmp_path: Path) -> None:
    model, out = tmp_path / "model.safetensors", tmp_path / "out"
    for _ in range(2):  # it fails, and then it is there
        hpe.survey([model], metrics=["mean norm"], draws=0, engine=ONE, out=out)
        write(model, seed=0)
    found = rows_of(str(out))
    assert found.metric.isna().any()
    assert verdicts(again(found, engine=ONE)) == {str(model): "same"}


# --- what differs -----------------------------------------------------------------------------------------------------


def test_a_table_that_changed_under_its_name_is_told(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out")
    was = hpe.survey([model, "random:32x8"], metrics=METRICS, draws=2, engine=ONE, out=out)
    write(model, seed=1)
    assert main(["survey", "--again", out, "--workers", "1"]) == 1
    said = capsys.readouterr()
    before, now = was.digest[0], hpe.extract(model).position.table.digest
    assert before != now
    assert f"  position: its hash was {before[:12]}, is {now[:12]}; the table has changed; " in said.out
    assert said.out.count("\n") == 3, "its figures are others too, which is no news"
    assert "random:32x8: same" in said.out
    assert said.err.startswith(f"hfposemb: 1 of 2 sources differ from {out}, the first is {model}; ")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("column", ["digest", *OF_TABLE, *OF_FIGURE])
def test_whatever_is_changed_in_the_rows_is_noticed(measured: pandas.DataFrame, column: str) -> None:
    """By 1e-5 of it where it is a number; a hundredth of that is what rounding may do."""
    changed, rounded = measured.copy(), measured.copy()
    if COLUMNS[column] == "float64":
        row = measured[column].first_valid_index()
        changed.loc[row or 0, column] = 0.5 if row is None else measured.loc[row, column] * (1 + 1e-5)
        rounded[column] *= 1 + 1e-7
    else:
        changed[column] = "x" if COLUMNS[column] == "string" else measured[column] + 1
    if column not in ("draws", "seed"):  # which it is measured with
        found = again(changed, engine=ONE)
        assert verdicts(found) == {"random:32x8": "differs"}
        assert f"{'its hash' if column == 'digest' else column} was " in texts(found)[0]
        assert len(texts(found)) == (1 if COLUMNS[column] == "float64" else 3 if column in OF_FIGURE else 2)
    else:
        assert not again(changed, engine=ONE).same
    assert again(rounded, engine=ONE).same


def test_other_versions_are_told_beside_other_figures_alone(measured: pandas.DataFrame) -> None:
    older = measured.assign(versions='{"hfposemb": "0.0.1"}')
    assert again(older, engine=ONE).same
    older.loc[1, "value"] += 1
    assert texts(again(older, engine=ONE))[1].startswith("""versions was '{"hfposemb": "0.0.1"}', is '{""")


def test_a_table_or_source_that_is_gone_is_told(hub: FakeHub, measured: pandas.DataFrame) -> None:
    add_run(hub, 1)
    was = hpe.survey([f"{RUN}@step0"], metrics=["mean norm"], draws=0, engine=ONE)
    hub.remove(RUN)
    Cache.default().clear()
    found = again(pandas.concat([was, measured], ignore_index=True), engine=ONE)
    assert verdicts(found) == {f"{RUN}@step0": "fails now", "random:32x8": "same"}
    assert not found.same
    assert RUN in found.sources[0].reason
    other = again(measured.assign(table="decoder.position"), engine=ONE)
    assert texts(other)[0].startswith(f"decoder.position: its hash was {measured.digest[0][:12]}, is none; ")


# --- what is no survey ------------------------------------------------------------------------------------------------


def test_what_is_no_survey_is_one_line(tmp_path: Path, measured: pandas.DataFrame) -> None:
    for name in ("empty", "begun", "broken", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "begun" / "_survey.json").write_text('{"format": 3}')
    (tmp_path / "other" / "_survey.json").write_text('{"format": 1}')
    (tmp_path / "broken" / "_survey.json").write_text('{"format": 3}')
    (tmp_path / "broken" / "part-0.parquet").write_bytes(b"PAR1")
    (tmp_path / "notes").write_text("a,b\n1,2\n")
    (tmp_path / "bytes").write_bytes(bytes(range(256)))
    (tmp_path / "nothing").write_text("")
    measured.head(0).to_csv(tmp_path / "head.csv", index=False)
    measured.assign(draws="many").to_csv(tmp_path / "words.csv", index=False)
    said = {
        "absent": "does not exist; give the folder of a survey",
        "empty": "has no survey; give the folder of a survey",
        "begun": "has a survey without results",
        "other": "other settings (format is 1 there, 3 here)",
        "broken": "has a file that is not parquet of a survey",
        "notes": "has no rows of a survey: the column source is missing",
        "bytes": "is not a CSV file of a survey's rows: ",
        "nothing": "is not a CSV file of a survey's rows: ",
        "head.csv": "has no row",
        "words.csv": "is not a CSV file of a survey's rows: ",
    }
    for name, text in said.items():
        with pytest.raises(InputError) as error:
            rows_of(str(tmp_path / name))
        assert str(error.value).startswith(f"{tmp_path / name} ")
        assert text in str(error.value)
        assert "\n" not in str(error.value)


def test_rows_with_nothing_to_measure_are_one_line(
    measured: pandas.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = hpe.survey(["./nowhere"], draws=0, engine=ONE)
    cases = {
        "the survey has no source 'random:8x4'; it has random:32x8": (measured, ["random:8x4"]),
        "all sources failed in the survey, such as ./nowhere: ": (failed, []),
        "unknown metric 'mean nrm'; did you mean ": (measured.assign(metric="mean nrm"), []),
        "'a b' is not a source": (measured.assign(source="a b"), []),
    }
    for said, (rows, sources) in cases.items():
        with pytest.raises(HfposembError) as error:
            again(rows, sources=sources, engine=ONE)
        assert said in str(error.value)
        assert "\n" not in str(error.value)
    assert main(["survey", "--again", str(tmp_path)]) == 1
    assert capsys.readouterr().err == (
        f"hfposemb: {tmp_path} has no survey; give the folder of a survey, or a CSV or parquet file of its rows\n"
    )


def test_a_repetition_takes_no_option_of_a_new_survey(capsys: pytest.CaptureFixture[str]) -> None:
    for option in (["--out", "new"], ["--draws", "3"], ["--metric", "IsoScore"], ["--dry-run"], ["--limit", "9"]):
        assert main(["survey", "--again", "old", *option]) == 1
        said = f"--again repeats what old has measured, and writes nothing; leave out {option[0]}"
        assert capsys.readouterr().err == f"hfposemb: {said}\n"
