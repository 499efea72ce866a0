"""The panels of what scaling changes of rotary positions: what they say is what the report says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hfposemb.app.findings.positions import rotary_scaling
from hfposemb.app.findings.positions.rotary_scaling import scaling_panels

import hfposemb as hpe
from hfposemb.checks.rope_report import MULTIPLES, rope_report
from hfposemb.text import number
from tests.checks.planted import change, llama
from tests.support.app.sessions import open_session

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0} | {
    "original_max_position_embeddings": 128
}


@pytest.mark.parametrize(("scaling", "length"), [(YARN, 1024), (LLAMA3, 1024)])
def test_declared_scaling_is_compared_with_plain(tmp_path: Path, scaling: dict[str, Any], length: int) -> None:
    folder = llama(tmp_path)
    change(folder, head_dim=32, rope_theta=10_000.0, max_position_embeddings=length, rope_scaling=scaling)
    session = open_session(str(folder))
    *kernels, last = scaling_panels(session.open(session.first), session).panels
    report = rope_report(hpe.extract(folder))
    assert len(kernels) == len(MULTIPLES)
    for panel, multiple in zip(kernels, MULTIPLES, strict=True):
        found = {one.scaling: one for one in report.effects if one.multiple == multiple}
        drawn = {trace.name: trace for trace in panel.drawings[0].figure.data if trace.mode == "lines"}
        assert set(drawn) == set(found) >= {"declared", "none", "linear"}
        for name, one in found.items():
            trace = drawn[name]
            assert trace.y[0] == pytest.approx(one.kernel[0], abs=1e-6), "near distances are drawn singly"
            assert trace.x[0] == 1
            assert min(trace.y) >= one.lowest - 1e-6
        if multiple > 1:
            assert panel.title.startswith(f"Unscaled, {found['none'].unseen} of {report.pairs} pairs reach new angles")
            assert panel.title.endswith(f"as declared, {found['declared'].unseen or 'none'}")
    position, cosine = list(report.agreement.items())[-1]
    assert last.title == f"Declared and plain have cosine {number(cosine)} at position {position:,}"
    (line,) = [trace for trace in last.drawings[0].figure.data if trace.mode == "lines"]
    assert np.allclose(line.y, list(report.agreement.values()))
    assert last.numbers[0][0] == str(report.never_turned)
    assert last.numbers[3][0] == number(report.base.lowest, digits=2)
    assert all(reason in last.message for reason in report.absent.values())


def test_plain_positions_are_compared_with_every_scaling() -> None:
    session = open_session("rotary:256x16", "sinusoidal:8x4", "./nowhere")
    row = scaling_panels(session.open(session.first), session)
    assert len(row.panels) == 5
    report = rope_report(hpe.extract("rotary:256x16"))
    verdict = "stays above 0" if report.base.holds else f"falls to {number(report.base.lowest, digits=2)}"
    assert row.panels[-1].title == f"With base 10,000, the sum of cosines {verdict} within 256 positions"
    assert not row.panels[-1].drawings
    linear = max((one for one in report.effects if one.multiple == 1), key=lambda one: one.near)
    assert row.panels[0].title == f"Near words change most by {linear.scaling}: {number(linear.near)}"
    assert "LongRoPE is not compared" in row.panels[-1].message


def test_sources_without_rotary_positions_take_no_room() -> None:
    session = open_session("sinusoidal:8x4", "alibi:8x2", "./nowhere")
    assert scaling_panels(session.open(session.first), session).panels == ()


def test_what_takes_long_is_left_to_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotary_scaling, "SEARCHED", 10)
    session = open_session("rotary:64x16")
    last = scaling_panels(session.open(session.first), session).panels[-1]
    assert last.numbers[2][0] == "–"
    assert "search=0" in last.recipe.python
    monkeypatch.setattr(rotary_scaling, "MOST_PAIRS", 4)
    (panel,) = scaling_panels(session.open(session.first), session).panels
    assert panel.message.endswith("hfposemb rope rotary:64x16")
