"""What a panel shows as arrays, and whether some numbers are these: what a snippet or a command gave, say."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from hfposemb.app.components.plot import Panel
from numpy.typing import NDArray

from hfposemb.figures.palette import PALETTE

Numbers = NDArray[np.float64]

ROUNDED = 1e-4
"""Of the largest number: figures are in float32, and what is computed again differs by as much."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """Numbers of a panel: a line [n], points [n, dims] or a matrix.

    A reference line is not ``needed``, and neither is a colour: what gives the panel's numbers need not give it.
    """

    kind: Literal["line", "points", "matrix", "list"]
    what: str
    values: Numbers
    needed: bool = True


def drawn(panel: Panel) -> Iterator[Drawn]:
    """Yield what a panel draws and lists."""
    for drawing in panel.drawings:
        for place, trace in enumerate(drawing.figure.data):
            yield from _of_trace(trace, f"{panel.key}, trace {place} {trace.name or ''}")
    for neighbours in panel.lists:
        values = np.array([row.value for row in neighbours.rows], np.float64)
        yield Drawn("list", f"{panel.key}, list {neighbours.name}", values, needed=bool(len(values)))


def _of_trace(trace: Any, what: str) -> Iterator[Drawn]:
    if trace.type == "heatmap":
        yield Drawn("matrix", what, np.asarray(trace.z, np.float64))
        return
    reference = trace.hoverinfo == "skip" or trace.name == "rotation" or bool((trace.meta or {}).get("stub"))
    colours = [getattr(getattr(trace, part, None), "color", None) for part in ("line", "marker")]
    reference |= PALETTE["baseline"].light in [colour for colour in colours if isinstance(colour, str)]
    if trace.type == "bar" or (trace.type == "scatter" and trace.mode == "lines"):
        yield Drawn("line", what, np.asarray(trace.y, np.float64), needed=not reference)
        return
    columns = [np.asarray(trace[axis], np.float64) for axis in "xyz" if trace.type == "scatter3d" or axis != "z"]
    columns = [column for column in columns if len(np.unique(column)) > 1 or len(column) < 2] or columns[:1]
    points = np.stack(columns, axis=1)
    if len(columns) > 1:
        yield Drawn("points", what, points, needed=not reference)
    else:
        yield Drawn("line", what, points[:, 0], needed=not reference)
    if len(colours) > 1 and not isinstance(colours[1], str) and colours[1] is not None:
        yield Drawn("line", f"{what}, colour", np.asarray(colours[1], np.float64), needed=False)


def arrays(given: Any) -> Iterator[Numbers]:
    """Yield every array of numbers in what a snippet or a document gives."""
    if isinstance(given, Mapping):
        scalars = [one for one in given.values() if one is None or np.isscalar(one)]
        if len(scalars) == len(given) and not any(isinstance(one, str) for one in scalars):
            yield np.array([np.nan if one is None else one for one in scalars], np.float64)
            return
        for one in given.values():
            yield from arrays(one)
        return
    if isinstance(given, (list, tuple)):
        if given and all(isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str) for one in given):
            given = [value for _, value in given]  # a list of words with their numbers
        if given and all(isinstance(one, Mapping) and "value" in one for one in given):  # a list of named numbers
            given = [one["value"] for one in given]
        if all(one is None or (np.isscalar(one) and not isinstance(one, str)) for one in given):
            yield np.array([np.nan if one is None else one for one in given], np.float64)
            return
        rows = [np.stack(found) for found in ([*arrays(one)] for one in given) if len(found) == 1]
        if len(rows) == len(given) > 1 and len({row.shape for row in rows}) == 1 and isinstance(given[0], list):
            yield np.concatenate(rows)  # a matrix, as JSON has it
            return
        for one in given:
            yield from arrays(one)
        return
    if isinstance(given, (int, float, np.number, np.ndarray)) and not isinstance(given, bool):
        yield np.atleast_1d(np.asarray(given, np.float64))


def missing(panel: Panel, given: Any) -> list[str]:
    """Return what a panel shows and ``given`` does not hold, and what it holds and the panel does not show."""
    return [*not_given(panel, given), *not_shown(panel, given)]


def not_given(panel: Panel, given: Any, *, kinds: Collection[str] = (), rounded: float = ROUNDED) -> list[str]:
    """Return what a panel shows, of some ``kinds`` or of all, and ``given`` does not hold."""
    found, shown = list(arrays(given)), list(drawn(panel))
    if not found:
        return ["it gives no numbers"]
    wanted = [one for one in shown if one.needed and (not kinds or one.kind in kinds)]
    said = [f"not given: {one.what}" for one in wanted if not any(same(one, other, rounded) for other in found)]
    scalars = [one for array in found for one in array.ravel().tolist()]
    written = [figure for figure, _ in panel.numbers if re.search(r"\d", figure)]
    said += [f"not given: {figure}" for figure in written if not any(reads(figure, one) for one in scalars)]
    if not shown and not written:  # it says its numbers in words
        words = re.findall(r"[\d,.]+ %|\d*\.?\d+", f"{panel.title} {panel.subtitle}".replace("\u00a0", " "))
        said += [f"not in words: {one}" for one in scalars if not any(reads(word, one) for word in words)]
    return said


def not_shown(panel: Panel, given: Any) -> list[str]:
    """Return what ``given`` holds and a panel does not show."""
    said, shown = [], list(drawn(panel))
    for place, array in enumerate(arrays(given)):
        if shown and not any(same(one, array) for one in shown) and not (panel.numbers and array.ndim == 1):
            said.append(f"not shown: array {place} {list(array.shape)}")
    return said


def same(one: Drawn, other: Numbers, rounded: float = ROUNDED) -> bool:
    """Tell whether what is drawn is an array, a row or a column of it, or points of it."""
    compare = _points if one.kind == "points" else _equal
    return any(compare(one.values, two, rounded) for two in _views(one, other))


def _views(one: Drawn, other: Numbers) -> Iterator[Numbers]:
    if one.kind == "points":
        dims = one.values.shape[-1]
        if other.ndim > 1 and other.shape[-1] == dims:
            yield other.reshape(-1, dims)
        elif other.ndim == 2 and len(other) == dims:
            yield other.T
        return
    if one.values.ndim == 2 and other.ndim == 4:  # maps of patches beside each other
        yield other.transpose(0, 2, 1, 3).reshape(other.shape[0] * other.shape[2], -1)
    elif one.values.ndim == 1 and other.ndim == 2:
        yield from (*other, *other.T)
    else:
        yield other
        if other.ndim == 1 and len(other):  # one that is alike both ways is drawn both ways beside one that is not
            yield np.r_[other[:0:-1], other]


def _equal(one: Numbers, other: Numbers, rounded: float) -> bool:
    if one.ndim == 2:
        # Gaps between maps, and places without a vector, are drawn as nothing.
        held = np.isfinite(one)
        one = one[held.any(axis=1)][:, held.any(axis=0)]
    one, other = (np.where(np.isfinite(part), part, np.nan) for part in (one, other))
    return one.shape == other.shape and np.allclose(
        one, other, rtol=rounded, atol=_room(other, rounded), equal_nan=True
    )


def _points(one: Numbers, other: Numbers, rounded: float) -> bool:
    from scipy.spatial import cKDTree

    if one.shape == other.shape:
        return _equal(one, other, rounded)
    away, _ = cKDTree(other[np.isfinite(other).all(axis=1)]).query(np.atleast_2d(one))
    return bool((away <= _room(other, rounded)).all())


def _room(values: Numbers, rounded: float) -> float:
    finite = np.abs(values[np.isfinite(values)])
    return rounded * float(finite.max(initial=1e-12))


def reads(written: str, value: float) -> bool:
    """Tell whether a number is written as a text says it: 4 % for .0432, 1,024 or .69."""
    text = written.replace("\u00a0", " ").replace(",", "").replace("−", "-").strip()
    share = text.endswith("%")
    found = re.fullmatch(r"-?\d*\.?\d+", text.removesuffix("%").removeprefix("under ").strip())
    if found is None or not np.isfinite(value):
        return False
    step = 10.0 ** -len(found[0].partition(".")[2])
    return abs(float(found[0]) - (100 * value if share else value)) <= (1.0 if share else 0.51) * step
