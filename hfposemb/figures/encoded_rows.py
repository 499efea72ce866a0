"""Row numbers as short text, for links and for what a page and Python share; ``selection.js`` reads the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

RUN = re.compile(r"([0-9a-z]{1,6})(?:~([0-9a-z]{1,6}))?")
"""A run of rows: its step from the row before, and if it has several rows, their number beyond the first."""


def encoded(rows: Sequence[int] | NDArray[np.integer]) -> str:
    """Return sorted row numbers as steps from one to the next in base 36; a run of neighbours is its first and length.

    Examples:
        >>> from hfposemb.figures.encoded_rows import encoded
        >>> encoded([3, 10, 11, 12, 50])
        '3.7~2.12'
    """
    return ".".join(_runs(np.unique(np.asarray(rows, np.int64))))


def decoded(text: str, count: int) -> NDArray[np.int64]:
    """Return the rows [m] of a table of ``count`` rows that a text of ``encoded`` names; others are left out.

    Examples:
        >>> from hfposemb.figures.encoded_rows import decoded
        >>> decoded("3.7~2.12", 40).tolist()
        [3, 10, 11, 12]
    """
    out, last = [np.empty(0, np.int64)], 0
    for found in map(RUN.fullmatch, text.split(".")):
        if found is None:
            break
        first = last + int(found[1], 36)
        last = first + int(found[2] or "0", 36)
        if first < count:
            out.append(np.arange(first, min(last + 1, count)))
    return np.unique(np.concatenate(out))


def base36(value: int, digits: int = 1) -> str:
    """Return a number in base 36, with leading zeros up to ``digits``.

    Examples:
        >>> from hfposemb.figures.encoded_rows import base36
        >>> base36(37), base36(37, 3)
        ('11', '011')
    """
    return np.base_repr(value, 36).lower().zfill(digits)


def _runs(rows: NDArray[np.int64]) -> Iterator[str]:
    last = 0
    for run in np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1) if len(rows) else ():
        more = f"~{base36(len(run) - 1)}" if len(run) > 1 else ""
        yield f"{base36(int(run[0]) - last)}{more}"
        last = int(run[-1])
