"""Packing of figures for the page's script: a JSON skeleton, with numbers in a separate binary file.

A figure of 50,000 points takes 1 MB packed; as JSON lists it takes 2.6 MB and five times as long to draw. Labels are
packed as separate JSON files. The app sends the packed files, the report embeds them.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import plotly.graph_objects as go

Array: TypeAlias = NDArray[Any]

LARGE = 256  # from this many numbers or strings on, a file is smaller than JSON
MATRIX = 65_536  # from this many cells on, a matrix is stored as int16, in invisible steps of 1/65,534 of its range
LONGEST_LABEL = 400
LONGEST_TEXT = 8_000

Put: TypeAlias = Callable[[bytes, str], dict[str, Any]]
"""Stores content under a name, and returns the entry by which the page finds it: a dict with ``url``."""


def sendable(value: Any) -> Any:
    """Truncate long texts, and replace what JSON cannot represent: lone surrogates, NaN and Inf."""
    if isinstance(value, str):
        return value[:LONGEST_TEXT].encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {name: sendable(item) for name, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return [sendable(item) for item in value] if isinstance(value, list) else value


class Packer:
    """Packs the figures of one view: numbers of a figure in one ``.bin``, each long list of strings in a ``.json``.

    ``listed`` holds the entries returned by ``put``, once per content; skeletons refer to them by index.
    """

    def __init__(self, put: Put) -> None:
        self.listed: list[dict[str, Any]] = []
        self._put = put
        self._places: dict[bytes, int] = {}
        self._buffer = bytearray()

    def figure(self, figure: go.Figure) -> dict[str, Any]:
        """Return ``{"figure": skeleton, "bin": index of its numbers in ``listed``, or None}``."""
        self._buffer = bytearray()
        # Read the figure's own dicts, without modifying them: `to_plotly_json` would base64-encode every array.
        skeleton = self._reduce({"data": list(figure._data), "layout": figure._layout}, "")
        place = self._add(bytes(self._buffer), "numbers.bin") if self._buffer else None
        return {"figure": skeleton, "bin": place}

    def _add(self, content: bytes, name: str) -> int:
        digest = hashlib.blake2b(content + name.encode(), digest_size=16).digest()
        if digest not in self._places:
            self._places[digest] = len(self.listed)
            self.listed.append(self._put(content, name))
        return self._places[digest]

    def _reduce(self, value: Any, key: str) -> Any:
        if isinstance(value, Mapping):
            return {str(name): self._reduce(item, str(name)) for name, item in value.items()}
        if isinstance(value, np.ndarray):
            return self._array(value, key)
        if isinstance(value, (list, tuple)):
            return self._list(value, key)
        if isinstance(value, np.generic):
            value = value.item()
        return sendable(value)

    def _list(self, value: Sequence[Any], key: str) -> Any:
        if key == "z" and value and isinstance(value[0], (list, tuple, np.ndarray)):
            return self._array(np.asarray(value, dtype=np.float32), key)
        if len(value) >= LARGE:
            if set(map(type, value)) == {str}:
                cut = list(value)
                if max(map(len, cut)) > LONGEST_LABEL:
                    cut = [item if len(item) <= LONGEST_LABEL else item[:LONGEST_LABEL] + "…" for item in value]
                content = json.dumps(cut, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
                return {"$json": self._add(content, "labels.json")}
            if all(item is None or isinstance(item, (int, float, np.number)) for item in value):
                return self._array(np.array([np.nan if item is None else item for item in value]), key)
        return [self._reduce(item, key) for item in value]

    def _array(self, array: Array, key: str) -> Any:
        if array.dtype.kind not in "iufb" or array.size < LARGE:
            return self._list(array.tolist(), "")
        scale, offset = 1.0, 0.0
        if array.dtype.kind in "iub":
            low, high = array.min(), array.max()
            signed = np.promote_types(np.min_scalar_type(low), np.min_scalar_type(-int(high) - 1))
            array = array.astype(np.min_scalar_type(high) if low >= 0 else signed)
            if array.dtype.itemsize > 4:
                array = array.astype(np.float64)
        elif key == "z" and array.ndim == 2 and array.size >= MATRIX:
            array, scale, offset = _quantised(array)
        else:
            array = array.astype(np.float32)
        array = np.ascontiguousarray(array)
        self._buffer.extend(b"\0" * (-len(self._buffer) % 8))
        at = len(self._buffer)
        self._buffer.extend(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
        reference = {"$bin": at, "dtype": f"{array.dtype.kind}{array.dtype.itemsize}", "shape": list(array.shape)}
        return reference | ({"scale": scale, "offset": offset} if (scale, offset) != (1.0, 0.0) else {})


def _quantised(array: Array) -> tuple[Array, float, float]:
    finite = array[np.isfinite(array)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    offset, scale = (low + high) / 2, (high - low) / 65_534 or 1.0
    steps = np.nan_to_num(np.rint((array - offset) / scale), nan=-32_768, posinf=-32_768, neginf=-32_768)
    return steps.astype(np.int16), scale, offset
