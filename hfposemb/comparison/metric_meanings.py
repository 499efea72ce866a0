"""What each figure of a comparison means, in a sentence, and its unit in words."""

from __future__ import annotations

from collections.abc import Mapping

from .metrics import Measure

UNITS: Mapping[str, str] = {
    "": "a plain number",
    "%": "percent",
    "components": "principal components",
    "cosine": "cosine, −1 to 1",
    "norm": "length of a vector, in the units of the table",
    "position": "index of a position",
    "positions": "number of positions",
}
"""Units of figures, in words."""


def meaning(measure: Measure) -> str:
    """Return what a figure means.

    Examples:
        >>> from hfposemb.comparison.metric_meanings import meaning
        >>> from hfposemb.comparison.metrics import measures_named
        >>> meaning(measures_named(["mean norm"])[0])
        'Mean length of the position vectors.'
    """
    return _MEANINGS[measure.name.strip()]


_VARIANCE = "Share of the variance of the position vectors on their first {} principal components."
_COMPONENTS = "Number of principal components that hold {} % of the variance of the position vectors."
_COSINE = "Mean cosine of position vectors that are {} apart."
_SHIFT = (
    "R² of one linear map from the vector of each position to that {} further on, on {}; 1 if the map is exact, 0 if "
    "it is no better than the mean."
)
_RANDOM, _LAST = "random positions left out of the fit", "the last quarter of the positions, left out of the fit"
_ERROR = "Mean error of a linear regression from a vector{} to its position, on positions left out of the fit."
_ORDER = "Error rate of a logistic regression that predicts which of two positions comes later, {}."
_KEPT = "Share of a word's nearest neighbours that it keeps when positions are added: {}."

_MEANINGS: Mapping[str, str] = {
    **{f"variance of {count} components": _VARIANCE.format(count) for count in (2, 3, 5)},
    **{f"components for {share} %": _COMPONENTS.format(share) for share in (90, 95, 99)},
    "effective rank": "Exponential of the entropy of the variances along principal components: how many dimensions the "
    "position vectors use.",
    "participation ratio": "Squared sum of the variances along principal components, divided by the sum of their "
    "squares: how many dimensions hold most of the variance.",
    "IsoScore": "How evenly the position vectors use all dimensions: 1 if the variance is equal in every direction, 0 "
    "if there is only one.",
    "IsoScore of noise": "IsoScore of normal noise with as many rows and columns, the largest to expect of a table of "
    "this shape.",
    **{f"mean cosine at distance {distance}": _COSINE.format(distance) for distance in (1, 2, 4, 8, 16)},
    "translation invariance": "Share of the variance of the cosines of two positions that their distance alone "
    "explains.",
    "translation invariance, inner products": "Share of the variance of the inner products of two positions that "
    "their distance alone explains.",
    "monotonicity up to 128": "How often, of two positions up to 128 away, the nearer one is the more similar: 1 if "
    "always, .5 for noise.",
    **{f"shift R² by {far}, random rows": _SHIFT.format(far, _RANDOM) for far in (1, 4, 16)},
    **{f"shift R² by {far}, last quarter": _SHIFT.format(far, _LAST) for far in (1, 4, 16)},
    "helix period": "Number of positions in one turn of the helix that the positions follow on their leading "
    "components.",
    "helix evenness": "Share of the steps from one position to the next that turn in the direction of the whole helix; "
    ".5 for noise.",
    "largest drop between neighbours": "How abruptly the positions change at most: how far the lowest cosine "
    "of two neighbouring positions is below the median.",
    "break at position": "First position after the deepest break: an outlying drop of the cosine of neighbours.",
    "norm of position 0": "Length of the first position vector.",
    "mean norm": "Mean length of the position vectors.",
    "norm of the last position": "Length of the last position vector.",
    "absolute probe, error": _ERROR.format(""),
    "on 32 components": _ERROR.format("’s first 32 principal components"),
    "relative probe, error": _ORDER.format("from both vectors"),
    "standardised": _ORDER.format("from both vectors with standardised columns"),
    "extrapolation probe, error": "Mean error, on the second half of the positions, of a linear regression fitted on "
    "the first half.",
    "token mean norm": "Mean length of the token vectors.",
    "token anisotropy": "Mean cosine of two different token vectors: 0 if they point in all directions alike.",
    "token IsoScore": "How evenly the token vectors use all dimensions: 1 if the variance is equal in every direction.",
    "token IsoScore of noise": "IsoScore of normal noise with as many rows and columns as the token table.",
    "token norm / position norm": "Mean length of the token vectors divided by that of the position vectors, as they "
    "are added.",
    "neighbours kept, query placed": _KEPT.format("the word at a random position, the others without one"),
    "neighbours kept, all placed": _KEPT.format("the word and all others at random positions of their own"),
    "neighbours kept, all at 5": _KEPT.format("all words at position 5"),
    "neighbours kept, query at 0": _KEPT.format("the word at position 0, the others without one"),
    "words recovered": "Share of sums of a word and a position whose nearest token is the word.",
    "positions recovered": "Share of sums of a word and a position in which a linear discriminant finds the position.",
    "token variance among positions": "Share of the variance of the token vectors in the directions that the position "
    "vectors use.",
    "head and tokens, CKA": "Centred kernel alignment of the output head with the token table: 1 if both relate the "
    "tokens in the same way.",
    "head and tokens, norms": "Rank correlation of the lengths of a token's vectors in the head and in the "
    "token table.",
    "head and tokens, first directions": "Rank correlation, in magnitude, of the coordinates of a token along the "
    "direction of largest variance of each table.",
}
