"""Tests of the selected range of positions."""

from __future__ import annotations

import numpy as np
import pytest

import hfposemb as hpe
from app.findings.positions.position_range import Range, dragged, range_panels, read_range
from hfposemb.text import number
from tests.support.app.sessions import open_session

SOURCES = ("sample:minilm", "sinusoidal:64x16")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("100-163", Range(100, 163)), (" 163 – 100 ", Range(100, 163)), ("3:7", Range(3, 7)), ("3 to 7", Range(3, 7)),
        ("5", None), ("5-5", None), ("", None), ("king", None), ("-3-7", None), ("1-99999999999", None),
    ],
)  # fmt: skip
def test_ranges_as_people_write_them(text: str, found: Range | None) -> None:
    assert read_range(text) == found


@pytest.mark.parametrize(
    ("area", "text"),
    [
        ({"x": [10.2, 40.9, 40.9, 10.2], "y": [0, 0, 1, 1]}, "11-40"), ({"x": [-8, 3.5]}, "0-3"),
        ({"x": [3.1, 3.9]}, ""), ({"x": []}, ""), ({"x": "12"}, ""), ({"x": [float("nan"), 3]}, ""), (None, ""),
    ],
)  # fmt: skip
def test_a_range_is_what_lies_within_a_drawn_shape(area: object, text: str) -> None:
    assert dragged(area) == text


def test_a_range_is_measured_beside_all_ranges_of_its_length() -> None:
    session = open_session(*SOURCES)
    found = range_panels(session.open(SOURCES), 0, "100-163", session)
    (panel,) = found.panels
    cosines = hpe.similarity(hpe.extract(SOURCES[0]).position)
    inside = cosines[100:164, 100:164]
    mean = (inside.sum() - 64) / (64 * 63)
    assert panel.title == f"Positions 100 to 163 have a mean cosine of {number(mean, digits=2)} in MiniLM"
    every = [(cosines[at : at + 64, at : at + 64].sum() - 64) / (64 * 63) for at in range(512 - 63)]
    assert f": {number(np.mean(every), digits=2)} in MiniLM (90\u00a0%: " in panel.subtitle
    assert found.selected == {"position": "2s~1r"}  # base 36: 100, and 63 more


def test_a_range_that_no_source_has_says_where_they_end() -> None:
    session = open_session(*SOURCES)
    (panel,) = range_panels(session.open(SOURCES), 0, "600-700", session).panels
    assert panel.message == "No source has position 700: MiniLM ends at 511 and Sinusoid ends at 63."
    (panel,) = range_panels(session.open(SOURCES), 0, "600", session).panels
    assert panel.message == "Found “600”; write the first and the last position, such as 100-163."
    assert range_panels(session.open(SOURCES), 0, "", session).panels == ()
