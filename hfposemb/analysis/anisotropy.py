"""Anisotropic tables, whose rows all point in much the same direction, so that every cosine is high.

Mu and Viswanath (ICLR 2018, "All-but-the-top") subtract the mean row before cosines are taken, and then some leading
components. Here rows are compared as they are unless ``centred=True`` asks for the first of these steps.
"""

from __future__ import annotations

from ..errors import InputError
from ..tables.encodings import PositionEncoding
from ..tables.table import EmbeddingTable
from .geometry import anisotropy
from .row_values import Metric

STRONG = 0.5
"""Mean cosine of two random rows from which on a table is called strongly anisotropic.

The mean cosine is the squared length of the mean of the unit rows, so it is the share of a unit row that is common to
all. From one half on, what all rows share outweighs what tells them apart.
"""


def mean_cosine(value: EmbeddingTable | PositionEncoding) -> float | None:
    """Return the exact mean cosine of two different rows; ``None`` for fewer than two rows that have one."""
    try:
        return anisotropy(value)
    except InputError:
        return None


def is_strong(value: EmbeddingTable | PositionEncoding) -> bool:
    """Tell whether a table is strongly anisotropic."""
    found = mean_cosine(value)
    return found is not None and found >= STRONG


def anisotropy_notes(
    value: EmbeddingTable | PositionEncoding, metric: Metric = "cosine", *, centred: bool = False
) -> tuple[str, ...]:
    """Return the note that belongs beside similarities of a strongly anisotropic table; none for other tables.

    Nor where the rows are centred already, or for distances, which do not depend on the mean.
    """
    found = mean_cosine(value) if metric != "euclidean" and not centred else None
    if found is None or found < STRONG:
        return ()
    return (
        f"this table is strongly anisotropic: two random rows have a mean cosine of {found:.2f}, so a high cosine "
        "means little; the option “centred” subtracts the mean row first",
    )
