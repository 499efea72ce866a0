"""Figures by name: they show the numbers that the functions give."""

from __future__ import annotations

import re

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.cli.parser import parser
from hfposemb.errors import InputError
from hfposemb.figures.named_figures import SIDE_BY_SIDE, VIEWS, view

SOURCES = ("sinusoidal:64x16", "random:32x8")


@pytest.mark.parametrize("name", [*VIEWS, *SIDE_BY_SIDE])
def test_views_of_one_source_and_of_several(name: str) -> None:
    figure = view(name, *map(hpe.extract, SOURCES if name in SIDE_BY_SIDE else ["sample:gpt2"]))
    assert figure.data
    assert name in VIEWS or {trace.name for trace in figure.data} >= set(SOURCES)


def test_numbers_are_those_of_the_functions() -> None:
    sines, drawn = hpe.extract(SOURCES[0]), hpe.extract(SOURCES[1])
    matrix = np.asarray(view("similarity", sines).data[0].z)
    np.testing.assert_allclose(matrix, hpe.similarity(sines.position.table), atol=1e-6)
    np.testing.assert_array_equal(np.asarray(view("table", sines).data[0].z), sines.position.table.vectors)
    cloud = view("positions", sines).data[0]
    np.testing.assert_allclose(np.asarray(cloud.x), hpe.project(sines.position, dims=3).coordinates[:, 0], rtol=1e-6)
    lines = {trace.name: np.asarray(trace.y) for trace in view("norms", sines, drawn).data}
    np.testing.assert_allclose(lines[SOURCES[0]], np.sqrt(8), rtol=1e-6)
    np.testing.assert_allclose(lines[SOURCES[1]], np.linalg.norm(drawn.position.table.vectors, axis=1), rtol=1e-6)


@pytest.mark.parametrize(("source", "unit"), [("rotary:64x16", "kernel"), ("alibi:64x8", "bias")])
def test_mechanisms_are_drawn_in_their_unit(source: str, unit: str) -> None:
    assert view("similarity", hpe.extract(source)).data
    assert unit in view("distance", hpe.extract(source)).layout.yaxis.title.text


def test_help_of_the_command_names_every_view() -> None:
    (commands,) = (one for one in parser()._actions if isinstance(one.choices, dict))
    said = commands.choices["export"]._option_string_actions["--figure"].help
    assert {*VIEWS, *SIDE_BY_SIDE} <= set(re.findall(r"\w+", said))


@pytest.mark.parametrize(
    ("name", "sources", "said"),
    [
        ("cloud", SOURCES[:1], "unknown view 'cloud'; the views are positions, similarity"),
        ("positions", SOURCES, "'positions' shows one source"),
        ("positions", (), "needs a source"),
        ("norms", ("rotary:64x16",), "rotary positions, which are not added vectors"),
        ("distance", (SOURCES[0], "rotary:64x16"), "different units, sinusoidal:64x16 in cosine and rotary:64x16 in"),
    ],
)
def test_refusals(name: str, sources: tuple[str, ...], said: str) -> None:
    with pytest.raises(InputError, match=said):
        view(name, *map(hpe.extract, sources))
