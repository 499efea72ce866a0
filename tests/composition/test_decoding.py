"""Reading a position out of a sum."""

from __future__ import annotations

import numpy as np
import pytest

from hfposemb.composition.position_decoder import PositionDecoder

RNG = np.random.default_rng(0)
WORDS, PLACES = RNG.standard_normal((600, 12)), RNG.standard_normal((7, 12))


def test_it_is_the_linear_discriminant() -> None:
    """Oracle: scikit-learn's, whose classes have one covariance and equal priors, on many tokens at every place."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    decoder = PositionDecoder.fit(WORDS[:400], PLACES)
    sums = (WORDS[:400, None] + PLACES).reshape(-1, 12)
    oracle = LinearDiscriminantAnalysis().fit(sums, np.tile(np.arange(7), 400))
    at = np.arange(200) % 7
    named = decoder.named(decoder.evidence(WORDS[400:]), at)
    assert (named == oracle.predict(WORDS[400:] + PLACES[at])).mean() > 0.97


@pytest.mark.parametrize(("amplitude", "low", "high"), [(0.0, 0.0, 0.35), (20.0, 1.0, 1.0), (-20.0, 1.0, 1.0)])
def test_the_louder_the_surer(amplitude: float, low: float, high: float) -> None:
    decoder = PositionDecoder.fit(WORDS[:400], PLACES)
    at = np.arange(200) % 7
    share = (decoder.named(decoder.evidence(WORDS[400:]), at, amplitude) == at).mean()
    assert low <= share <= high
    assert np.isfinite(PositionDecoder.fit(WORDS[:5], PLACES).weights).all(), "few tokens are shrunk, not inverted"
