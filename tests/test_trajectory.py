"""One table over its training: ordered by step, every map turned onto the last, figures beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.alignment import cka
from hfposemb.cli import main
from hfposemb.engine import Engine
from hfposemb.errors import InputError
from hfposemb.figures import trajectory_map
from hfposemb.listing import revisions
from hfposemb.trajectory import trajectory
from tests.hub import FakeHub
from tests.hub.training import RUN, add_run

ONE = Engine(workers=1)


def test_a_sample_over_its_training() -> None:
    sources = revisions("sample:gpt2", "step-*")
    found = trajectory(sources[::-1], metrics=["IsoScore", "mean norm"], engine=ONE)
    assert found.sources == tuple(sources)
    assert list(found.steps) == sorted(found.steps)
    rows = [hpe.extract(source).position.table.vectors.astype(np.float64) for source in sources]
    assert found.likeness[0, -1] == pytest.approx(cka(rows[0], rows[-1]))
    np.testing.assert_array_equal(found.likeness, found.likeness.T)
    assert found.likeness[-2, -1] > found.likeness[0, -1], "it comes nearer"
    assert found.disparity[-1] == pytest.approx(0, abs=1e-9)
    assert found.frames.shape == (len(sources), len(rows[0]), 2)
    np.testing.assert_allclose(found.frames[-1], hpe.project(hpe.extract(sources[-1]).position).coordinates, atol=1e-5)
    one = found.metrics[found.metrics.metric == "mean norm"]
    assert list(one.step) == list(found.steps)
    np.testing.assert_allclose(one.value, [np.linalg.norm(table, axis=1).mean() for table in rows])
    assert "CKA with the last" in str(found)


def test_turning_a_checkpoint_changes_nothing(hub: FakeHub) -> None:
    """Maps are turned onto the last: tables that differ by a rotation and scale have the same map."""
    import json

    from safetensors.numpy import save

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
    assert found.metrics.value.is_monotonic_increasing


def test_too_few_checkpoints() -> None:
    with pytest.raises(InputError, match="two checkpoints or more; got sample:gpt2"):
        trajectory(["sample:gpt2"])


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
    assert "has no revision that matches 'no*'" in capsys.readouterr().err
