"""One table over its training: ordered by step, every map turned onto the last, figures beside them."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save, save_file

import hfposemb as hpe
from hfposemb.checkpoints.limits import PUBLIC_LIMITS
from hfposemb.cli.main import main
from hfposemb.comparison.alignment import cka, every_cka
from hfposemb.errors import InputError
from hfposemb.figures.position_figures import trajectory_map
from hfposemb.surveys.source_lists import evenly_spaced, revisions
from hfposemb.surveys.training_run import trajectory
from hfposemb.surveys.worker_pool import Engine
from hfposemb.tables.table import EmbeddingTable
from tests.hub import FakeHub
from tests.hub.training import RUN, add_run

ONE = Engine(workers=1)


def build_gpt2(folder: Path, positions: np.ndarray) -> None:
    folder.mkdir()
    config = {"model_type": "gpt2", "n_positions": len(positions), "n_embd": positions.shape[1]}
    (folder / "config.json").write_text(json.dumps(config))
    save_file({"wpe.weight": positions}, folder / "model.safetensors")


def from_rows(rows: np.ndarray) -> EmbeddingTable:
    return hpe.from_arrays(position=rows).position.table


def test_a_sample_over_its_training() -> None:
    sources = revisions("sample:gpt2", "step-*")
    found = trajectory(sources[::-1], metrics=["IsoScore", "mean norm"], engine=ONE)
    assert not found.missing
    assert found.sources == tuple(sources)
    assert list(found.steps) == sorted(found.steps)
    rows = [hpe.extract(source).position.table.vectors.astype(np.float64) for source in sources]
    assert found.likeness[0, -1] == pytest.approx(cka(rows[0], rows[-1]))
    np.testing.assert_array_equal(found.likeness, found.likeness.T)
    assert found.likeness[-2, -1] > found.likeness[0, -1], "it comes nearer"
    assert found.disparity[-1] == pytest.approx(0, abs=1e-9)
    assert found.frames.shape == (len(sources), len(rows[0]), 2)
    np.testing.assert_allclose(found.frames[-1], hpe.project(hpe.extract(sources[-1]).position).coordinates, atol=1e-5)
    assert list(found.courses) == ["IsoScore", "mean norm"]
    norms = found.courses["mean norm"].values
    np.testing.assert_allclose(norms, [np.linalg.norm(table, axis=1).mean() for table in rows])
    np.testing.assert_array_equal(found.to_frame().loc[list(found.steps), "mean norm"], norms)
    assert str(found).splitlines()[0].split() == ["step", *(f"{step:,}" for step in found.steps)]
    assert "CKA with the last" in str(found)
    for table, cosines in zip(rows, found.cosines, strict=True):
        np.testing.assert_allclose(
            cosines, hpe.similarity(from_rows(table))[np.ix_(found.shown, found.shown)], atol=1e-6
        )


def test_turning_a_checkpoint_changes_nothing(hub: FakeHub) -> None:
    """Maps are turned onto the last: tables that differ by a rotation and scale have the same map."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((64, 16)) * np.linspace(4, 0.1, 16)
    turn = np.linalg.qr(rng.standard_normal((16, 16)))[0]
    for step, table in ((1, 3 * rows @ turn), (2, rows)):
        config = json.dumps({"model_type": "gpt2", "n_positions": 64, "n_embd": 16})
        hub.add(RUN, {"config.json": config, "model.safetensors": save({"wpe.weight": table})}, branch=f"step{step}")
    found = trajectory([f"{RUN}@step1", f"{RUN}@step2"], metrics=["IsoScore"], engine=ONE)
    np.testing.assert_allclose(found.frames[0], found.frames[1], atol=1e-4)
    assert found.likeness[0, 1] == pytest.approx(1)


def test_tokens_over_training(hub: FakeHub) -> None:
    found = trajectory(add_run(hub, 3), role="token", metrics=["token mean norm"], engine=ONE)
    assert found.likeness == pytest.approx(np.ones((3, 3))), "they grow, and do not change"
    assert (np.diff(found.courses["token mean norm"].values) > 0).all()


def test_every_figure_beside_chance(hub: FakeHub) -> None:
    sources = add_run(hub, 2)
    found = trajectory(sources, role="token", metrics=["token IsoScore", "token mean norm"], draws=5, engine=ONE)
    spread = found.courses["token IsoScore"]
    assert (spread.low < spread.high).all()
    last = hpe.survey([found.sources[-1]], metrics=["token IsoScore"], draws=5, engine=ONE).iloc[0]
    assert (spread.values[-1], spread.low[-1]) == (last["value"], last["baseline_low"])
    without = trajectory(sources, role="token", metrics=["token IsoScore"], engine=ONE).courses["token IsoScore"]
    assert np.isnan(without.low).all()
    assert list(without.values) == list(spread.values)


@pytest.mark.parametrize("last", ["named", "numbered"])
def test_a_checkpoint_without_its_tokenizer_goes_by_number(last: str) -> None:
    rows, labels = from_rows(np.random.default_rng(0).standard_normal((40, 8))), [str(39 - row) for row in range(40)]

    def read(source: str) -> hpe.Embeddings:
        return hpe.from_arrays(token=rows.vectors, labels=labels if source.startswith("named") else None)

    steps = ["named/1", "numbered/2", f"{last}/3"]
    found = trajectory(steps, role="token", metrics=None, engine=ONE, read=read)
    np.testing.assert_allclose(found.frames[0], found.frames[1], atol=1e-6)


def test_too_few_checkpoints_and_a_figure_of_the_other_table_are_refused() -> None:
    with pytest.raises(InputError, match="at least 2 checkpoints; got sample:gpt2"):
        trajectory(["sample:gpt2"])
    with pytest.raises(InputError, match=r"only 1 of 2 checkpoints could be measured: \./no1: "):
        trajectory(["./no1", "sample:gpt2"], engine=ONE)
    with pytest.raises(InputError, match="token mean norm is a metric of tokens, not of positions"):
        trajectory(["sample:gpt2@step-100", "sample:gpt2"], metrics=["token mean norm"])


def test_a_checkpoint_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    """By a reader of one's own, in other processes."""
    sources = ["sample:gpt2@step-100", "sample:gpt2@step-200", f"{tmp_path}/step-150"]
    read = partial(hpe.extract, limits=PUBLIC_LIMITS)
    found = trajectory(sources, metrics=None, engine=Engine(workers=2), read=read)
    assert found.steps == (100, 200)
    assert list(found.missing) == [f"{tmp_path}/step-150"]
    assert f"left out: {tmp_path}/step-150: " in str(found)
    assert not found.courses


def test_before_training_all_rows_may_be_the_same(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).standard_normal((40, 8)).astype(np.float32)
    for step, table in ((0, np.ones((40, 8), np.float32)), (1, rows), (2, rows)):
        build_gpt2(tmp_path / f"checkpoint-{step}", table)
    found = trajectory(revisions(str(tmp_path), "checkpoint-*"), metrics=["IsoScore"], engine=ONE)
    assert list(found.disparity) == pytest.approx([1, 0, 0], abs=1e-6)
    np.testing.assert_array_equal(np.isnan(found.likeness), np.array([[1, 1, 1], [1, 0, 0], [1, 0, 0]], bool))
    np.testing.assert_allclose(found.frames[0], np.broadcast_to(found.frames[2].mean(axis=0), (40, 2)), atol=1e-6)


def test_tables_that_grew(tmp_path: Path) -> None:
    """Rows that only later checkpoints have are not followed."""
    rows = np.random.default_rng(0).standard_normal((60, 8)).astype(np.float32)
    build_gpt2(tmp_path / "checkpoint-1", rows[:30])
    build_gpt2(tmp_path / "checkpoint-2", rows)
    found = trajectory(revisions(str(tmp_path), "*"), metrics=None, engine=ONE)
    np.testing.assert_array_equal(found.rows, np.arange(30))
    assert found.frames.shape == (2, 30, 2)
    assert found.likeness[0, 1] == pytest.approx(1)


@given(st.integers(4, 40), st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_cka_of_every_two(rows: int, width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    tables = [rng.standard_normal((rows, size)) for size in (width, width, 7)]
    found = every_cka([*tables, np.ones((rows, 3))])
    assert np.isnan(found[3]).all()
    for left, right in ((0, 1), (0, 2), (1, 2)):
        try:
            expected = cka(tables[left], tables[right])
        except InputError:
            continue
        assert found[left, right] == pytest.approx(expected, abs=2e-5)


def test_as_many_as_wanted() -> None:
    names = [f"step{place}" for place in range(154)]
    found = evenly_spaced(names, 40)
    assert (len(found), found[0], found[-1]) == (40, "step0", "step153")
    assert len(set(np.diff([int(name[4:]) for name in found]))) <= 2
    assert evenly_spaced(names[:3], 40) == names[:3]
    with pytest.raises(InputError, match="at least 2 checkpoints are needed, the first and the last; got 1"):
        evenly_spaced(names, 1)


def test_the_slider_has_a_step_for_every_checkpoint() -> None:
    frames = np.random.default_rng(0).standard_normal((3, 30, 2))
    drawn = trajectory_map(frames, (0, 10, 20), [str(row) for row in range(30)], joined=True)
    assert [one.name for one in drawn.frames] == ["0", "10", "20"]
    assert [step.args[0] for step in drawn.layout.sliders[0].steps] == [("0",), ("10",), ("20",)]
    np.testing.assert_allclose(drawn.frames[1].data[1].x, frames[1, :, 0])
    np.testing.assert_allclose(drawn.data[1].x, frames[-1, :, 0])


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run.html"
    given = ["trajectory", "sample:gpt2", "--revisions", "step-?00", "--metric", "IsoScore", "--workers", "1"]
    assert main([*given, "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "IsoScore" in printed
    assert "500" in printed
    assert "slider" in out.read_text(encoding="utf-8")
    assert main([*given, "--out", str(tmp_path / "run.png")]) == 1
    assert "must end in .html" in capsys.readouterr().err
    assert main(["trajectory", "sample:gpt2", "--revisions", "no*"]) == 1
    assert "has no revision matching 'no*'" in capsys.readouterr().err
