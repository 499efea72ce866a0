"""A sinusoid built up from its fastest pair, and its shift written for rows and for columns."""

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.errors import InputError


def test_positions_come_apart_as_frequencies_are_added() -> None:
    found = hpe.frequency_buildup(256, 128)
    assert found.pairs == (1, 2, 4, 8, 16, 32, 64)
    assert found.periods[0] == pytest.approx(2 * np.pi)
    # 44 positions are seven turns of the fastest pair and .018 radians, so no neighbour, a radian away, is nearest.
    assert found.neighbours[0] == 0
    rows = hpe.sinusoidal(256, 128).position.table.vectors[:, :2]
    step = np.linalg.norm(rows[1] - rows[0])
    assert found.separation[0] == pytest.approx(np.linalg.norm(rows[44] - rows[0]) / step, rel=1e-3)
    assert (np.diff(found.separation) >= -1e-9).all()
    assert found.neighbours[-1] == found.separation[-1].round(6) == 1


@pytest.mark.parametrize("distance", [1, 4, -7])
@pytest.mark.parametrize("width", [2, 6, 64])
def test_both_forms_of_the_rotation_shift_the_table(distance: int, width: int) -> None:
    found = hpe.shift_rotation(distance, width)
    table = hpe.sinusoidal(64, width).position.table.vectors.astype(np.float64)
    here, there = table[20:30], table[20 + distance : 30 + distance]
    np.testing.assert_allclose(here @ found.for_rows, there, atol=1e-6)
    np.testing.assert_allclose(found.for_columns @ here.T, there.T, atol=1e-6)
    cosine, sine = np.cos(distance), np.sin(distance)
    np.testing.assert_allclose(found.for_columns[:2, :2], [[cosine, sine], [-sine, cosine]])
    assert found.error < 1e-9
    assert not np.allclose(here @ found.for_columns, there, atol=1e-3)


def test_what_cannot_be_built_is_refused() -> None:
    for asked in ({"length": 2}, {"pairs": [65]}, {"pairs": [0]}, {"length": 10**6}):
        with pytest.raises(InputError, match="length must be 3 to 4,096 and pairs from 1 to 64"):
            hpe.frequency_buildup(**asked)
    with pytest.raises(InputError, match="width must be even"):
        hpe.shift_rotation(1, 5)
    with pytest.raises(InputError, match="base positive; got width 6, base -1"):
        hpe.shift_rotation(1, base=-1)
    with pytest.raises(InputError, match="width must be up to 4,096"):
        hpe.frequency_buildup(64, 10**9)
