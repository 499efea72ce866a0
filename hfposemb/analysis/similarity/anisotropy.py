"""Detection of anisotropic tables, in which all rows point in much the same direction and every cosine is high.

Mu and Viswanath (ICLR 2018, "All-but-the-top") subtract the mean row and then some leading components before taking
cosines. Here rows are compared unchanged unless ``centred=True`` requests the first of these steps.
"""

from __future__ import annotations

from ...errors import InputError
from ...tables.encodings import PositionEncoding
from ...tables.table import EmbeddingTable
from ..geometry import anisotropy
from ..row_values import Metric

STRONG = 0.5
"""Mean cosine of two random rows at which a table counts as strongly anisotropic.

The mean cosine equals the squared length of the mean unit row, i.e. the share of a unit row that all rows have in
common. From one half on, the common part outweighs the differences.
"""


def mean_cosine(value: EmbeddingTable | PositionEncoding) -> float | None:
    """Return the exact mean cosine of two different rows; ``None`` if fewer than two rows have a direction."""
    try:
        return anisotropy(value)
    except InputError:
        return None


def is_strong(value: EmbeddingTable | PositionEncoding) -> bool:
    """Return whether a table is strongly anisotropic, i.e. whether its mean cosine is at least ``STRONG``."""
    found = mean_cosine(value)
    return found is not None and found >= STRONG


def anisotropy_notes(
    value: EmbeddingTable | PositionEncoding, metric: Metric = "cosine", *, centred: bool = False
) -> tuple[str, ...]:
    """Return a warning to show with the similarities of a strongly anisotropic table.

    The result is empty for other tables, for centred rows, and for Euclidean distances, which do not depend on the
    mean.
    """
    found = mean_cosine(value) if metric != "euclidean" and not centred else None
    if found is None or found < STRONG:
        return ()
    return (
        f"this table is strongly anisotropic: two random rows have a mean cosine of {found:.2f}, so a high cosine "
        "means little; use the option “centred” to subtract the mean row",
    )
