"""Figures of a source and their chance: those of real draws, with real noise behind every closed form."""

from __future__ import annotations

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.comparison.metrics import MEASURES, Tables, beside_noise, measures_of, references_of
from tests.support.made_tables import noise


def observed(tables: Tables, section: str) -> dict[str, float]:
    return {measure.name: measure.take(tables) for measure in measures_of() if measure.section == section}


@pytest.mark.parametrize("name", ["token mean norm", "token anisotropy", "token IsoScore"])
@pytest.mark.parametrize(("rows", "width"), [(400, 24), (60, 90)])
def test_chance_of_tokens_is_that_of_noise(name: str, rows: int, width: int) -> None:
    """The closed forms against tables that are really drawn."""
    tables = Tables(hpe.from_arrays(token=0.3 * noise(rows, width)))
    null = beside_noise(tables, observed(tables, "token"), draws=4000)[name]
    measure = next(one for one in MEASURES if one.name == name)
    scale = float(np.sqrt(np.square(tables.token.vectors).mean()))
    drawn = np.array(
        [measure.take(Tables(hpe.from_arrays(token=scale * noise(rows, width, seed + 1)))) for seed in range(150)]
    )
    spread = drawn.std(ddof=1)
    assert null.mean == pytest.approx(drawn.mean(), abs=0.5 * spread)
    # Their norms vary a little more, since their scale does.
    assert null.high - null.low == pytest.approx(4 * spread, rel=0.5)
    assert null.kind == "random"


def test_references_are_the_figures_of_known_tables() -> None:
    source = hpe.sinusoidal(96, 8)
    names = (
        "translation invariance",
        "effective rank",
        "mean cosine at distance 2",
        "token IsoScore",
        "break at position",
    )
    found = references_of(Tables(source), names)
    assert set(found) == set(names[:3])
    for measure in MEASURES:
        if measure.name in found:
            assert found[measure.name]["sinusoid"] == pytest.approx(measure.take(Tables(source)), abs=1e-5)
    assert found["translation invariance"]["untrained"] < 0.1
    assert abs(found["mean cosine at distance 2"]["untrained"]) < 0.15
    assert found == references_of(Tables(source), names)
    assert found != references_of(Tables(source), names, seed=1)


def test_references_have_the_shape_of_the_table() -> None:
    """Rows that are left out do not count; without positions there is nothing to refer to."""
    holes = noise(40, 6)
    holes[3] = np.nan
    (found,) = references_of(Tables(hpe.from_arrays(position=holes)), ["norm of the last position"]).values()
    assert found["sinusoid"] == pytest.approx(np.sqrt(3))
    assert found["untrained"] == pytest.approx(0.02 * np.linalg.norm(noise(39, 6)[-1]), rel=1e-5)
    assert references_of(Tables(hpe.from_arrays(token=noise(40, 6))), ["token mean norm"]) == {}
