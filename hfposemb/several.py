"""One rule for arguments that take one value or several."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any


def several(given: Any) -> Sequence[Any]:
    """Return one value or several as a sequence.

    A text, a path, a number, and a source, table, encoding or model are one; anything else that can be iterated is
    several.

    Args:
        given: One value, or several as a list, an array, a generator or another iterable.

    >>> from hfposemb.several import several
    >>> several("king"), several(word for word in ("king", "queen"))
    (['king'], ['king', 'queen'])
    """
    if isinstance(given, (list, tuple, range)) or getattr(given, "ndim", 0) == 1:
        return given  # type: ignore[no-any-return]  # also long arrays, which lists would slow down
    if isinstance(given, (str, bytes, os.PathLike)) or hasattr(type(given), "_is_one") or hasattr(given, "state_dict"):
        return [given]
    try:
        each = iter(given)
    except TypeError:
        return [given]
    return list(each)
