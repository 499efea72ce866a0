"""Meta's own Llama checkpoints in parts, ``consolidated.00.pth`` and on: each part has a slice of every matrix.

Joined as ``convert_llama_weights_to_hf`` of transformers does: token tables of Llama 1 and 2 are split by columns,
those of Llama 3 by rows, as the length of the last norm tells; all projections by the axis that fairscale splits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import CheckpointError
from ...lazy_attributes import lazy_attribute
from ..limits import DEFAULT_LIMITS, Limits
from ..safetensors.checkpoint import CheckpointFile, TensorInfo, check_read

PART = r"consolidated\.(\d\d)\.pth"
_TOKENS, _NORM, _QUERIES = "tok_embeddings.weight", "norm.weight", "layers.0.attention.wq.weight"
_BY_COLUMNS = ("wo.weight", "w2.weight")
_ADVICE = "put all parts, consolidated.00.pth and on, in one folder and open the folder"


def parts_of(file: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the parts of the checkpoint that a file belongs to; () if it is no part of one.

    Args:
        file: Name of the file.
        names: Names of all files of its folder.

    Raises:
        CheckpointError: If a part is missing between others.

    Examples:
        >>> from hfposemb.checkpoints.pickles.joined_parts import parts_of
        >>> parts_of("consolidated.00.pth", ["consolidated.01.pth", "params.json", "consolidated.00.pth"])
        ('consolidated.00.pth', 'consolidated.01.pth')
    """
    if re.fullmatch(PART, file) is None:
        return ()
    found = sorted(name for name in {file, *names} if re.fullmatch(PART, name))
    wanted = [f"consolidated.{place:02d}.pth" for place in range(int(found[-1][-6:-4]) + 1)]
    if missing := [name for name in wanted if name not in found]:
        raise CheckpointError(f"{file}: is one of at least {len(wanted)} parts, but {missing[0]} is missing; {_ADVICE}")
    return tuple(found)


@dataclass(eq=False)
class JoinedParts:
    """Checkpoint whose matrices are joined from all parts as rows are read.

    Attributes:
        name: Name in messages.
        parts: The parts, in order.
        limits: Limits of what is read.
        settings: Content of params.json, if it is at hand.
    """

    name: str
    parts: Sequence[CheckpointFile]
    limits: Limits = DEFAULT_LIMITS
    settings: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        """Raise ``CheckpointError`` unless these are all parts."""
        if any(part.header.tensors.keys() != self.parts[0].header.tensors.keys() for part in self.parts):
            raise CheckpointError(f"{self.name}: its parts have different tensors; they are not of one checkpoint")
        if len(self.parts) > 1 and self._length(_NORM) is None:
            raise CheckpointError(
                f"{self.name}: its {len(self.parts)} parts lack {_NORM}, which tells how to join them"
            )
        self._check_whole(_TOKENS, 1, self._length(_NORM))
        self._check_whole(_QUERIES, 0, self._length(_NORM))
        stated = (self.settings or {}).get("vocab_size")
        if isinstance(stated, int) and stated > 0:
            self._check_whole(_TOKENS, 0, stated)

    def _length(self, vector: str) -> int | None:
        held = self.parts[0].header.tensors.get(vector)
        return None if held is None or len(held.shape) != 1 else held.shape[0]

    def _check_whole(self, matrix: str, axis: int, expected: int | None) -> None:
        if expected is None or matrix not in self.names():
            return
        found = self.info(matrix).shape
        if len(found) != 2 or found[axis] != expected:
            count = len(self.parts)
            held = f"the {count} parts here have" if count > 1 else "this part has"
            raise CheckpointError(
                f"{self.name}: {held} {list(found)} of {matrix}, whose {('rows', 'columns')[axis]} are {expected:,}: "
                f"each part has a slice of every table; {_ADVICE}"
            )

    def names(self) -> tuple[str, ...]:
        """Return the tensors' names."""
        return tuple(self.parts[0].header.tensors)

    def metadata(self) -> Mapping[str, str]:
        """Return the aliases of the first part."""
        return self.parts[0].metadata

    def file_bytes(self, name: str) -> int:
        """Return the size of all parts."""
        return sum(part.file_bytes for part in self.parts)

    def info(self, name: str) -> TensorInfo:
        """Return a tensor's dtype, its shape in all parts, and its size."""
        return self._joined(name)[0]

    def _joined(self, name: str) -> tuple[TensorInfo, int | None]:
        """Return a whole tensor and the axis by which it is split, ``None`` if every part has all of it."""
        held = [part.info(name) for part in self.parts]
        first, axis = held[0], self._axis(name, held[0].shape)
        if axis is None or len(held) == 1:
            return first, None
        other = [one.shape[1 - axis] for one in held if len(one.shape) == 2]
        if len(other) < len(held) or len({*other, first.shape[1 - axis]}) > 1 or len({one.dtype for one in held}) > 1:
            shapes = ", ".join(str(list(one.shape)) for one in held[:4])
            raise CheckpointError(f"{self.name}: the parts of {name} do not fit together: {shapes}")
        shape = list(first.shape)
        shape[axis] = sum(one.shape[axis] for one in held)
        nbytes = sum(one.nbytes for one in held)
        return TensorInfo(name, first.dtype, tuple(shape), 0, nbytes, f"{first.file} and {len(held) - 1} more"), axis

    def _axis(self, name: str, shape: tuple[int, ...]) -> int | None:
        if len(shape) != 2:
            return None
        if name == _TOKENS:
            return 0 if shape[1] == self._length(_NORM) else 1
        return 1 if name.endswith(_BY_COLUMNS) else 0

    def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return rows ``[start, stop)`` of a tensor, as ``Checkpoint.read``."""
        whole, axis = self._joined(name)
        if axis is None:
            return self.parts[0].read(name, start, stop)
        check_read(whole, start, stop, limits=self.limits)
        stop = whole.shape[0] if stop is None else stop
        if axis == 1:
            return np.concatenate([part.read(name, start, stop) for part in self.parts], axis=1)
        found, first = [], 0
        for part, rows in ((part, part.info(name).shape[0]) for part in self.parts):
            low, high = max(start - first, 0), min(stop - first, rows)
            found += [part.read(name, low, high)] if low < high else []
            first += rows
        return np.concatenate(found) if found else self.parts[0].read(name, 0, 0)

    @lazy_attribute
    def about(self) -> str:
        """Note about how the tables were joined; "" for a single part."""
        axis = self._joined(_TOKENS)[1] if _TOKENS in self.names() else None
        split = "" if axis is None else f", which split the token table by {('rows', 'columns')[axis]}"
        return "" if len(self.parts) == 1 else f"joined from {len(self.parts)} parts, consolidated.00.pth and on{split}"
