"""Static embeddings, as model2vec and sentence-transformers save them: a table with weights and a mapping of tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..tables.scattered_rows import read_scattered
from .formats import WrappedTensors
from .quantised.decoded import Stored
from .safetensors.checkpoint import TensorInfo
from .stated_roles import StatedRoles
from .strict_json import fault, shortened

_TABLES = ("embeddings", "embedding.weight", "emb_layer.weight")
_WEIGHTS, _MAPPING = "weights", "mapping"
_INTEGERS = ("I8", "I32", "I64")
_DTYPES = {"I8": "i1", "I32": "i4", "I64": "i8", "F64": "f8"}
"""Data types as which rows are read; all others are read as float32."""


def is_static(names: tuple[str, ...]) -> bool:
    """Return whether tensor names are those of static embeddings.

    >>> from hfposemb.checkpoints.static_embeddings import is_static
    >>> is_static(("embeddings", "weights")), is_static(("embeddings", "encoder.weight"))
    (True, False)
    """
    if len(names) > len((*_TABLES, _WEIGHTS, _MAPPING)):
        return False
    tables = [name for name in names if name in _TABLES]
    return len(tables) == 1 and set(names) <= {tables[0], _WEIGHTS, _MAPPING}


@dataclass(frozen=True)
class StaticEmbeddings(WrappedTensors):
    """Checkpoint whose row for token i is ``embeddings[mapping[i]] · weights[i]``.

    Without ``mapping`` row i is used, and without ``weights`` it is used as it is. All errors are ``CheckpointError``,
    except ``InputError`` for rows that do not exist.

    Attributes:
        stored: The checkpoint as it is stored; see ``is_static``.
    """

    stored: Stored

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the location of the files."""
        return StaticEmbeddings, (self.stored,)

    def _has(self, name: str) -> bool:
        return name in self.stored.names()

    def names(self) -> tuple[str, ...]:
        """Return the name of the table."""
        return tuple(name for name in self.stored.names() if name in _TABLES)

    def info(self, name: str) -> TensorInfo:
        """Return dtype, shape and location of the table, with a row for each token."""
        found = self.stored.info(name)
        if len(found.shape) != 2:
            raise fault(found.file, f"{shortened(name)} must have the axes [rows, width]; found {list(found.shape)}")
        rows = self._length(_MAPPING) if self._has(_MAPPING) else found.shape[0]
        if self._has(_WEIGHTS) and (weights := self._length(_WEIGHTS)) != rows:
            raise fault(found.file, f"must have a weight for each of the {rows} tokens; found {weights}")
        shape = (rows, found.shape[1])
        if not self._has(_WEIGHTS) and found.dtype not in _INTEGERS:
            return replace(found, shape=shape)
        return replace(found, dtype=f"{found.dtype}, one scale per row", shape=shape, decoded=True)

    def roles(self) -> StatedRoles:
        """Return the table as that of the tokens."""
        return StatedRoles({"token": self.names()})

    def file_bytes(self, name: str) -> int | None:
        """Return the size of the file that holds a tensor."""
        return self.stored.file_bytes(name)

    def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return the vectors of tokens ``[start, stop)``, read-only; float32 unless the table is float64."""
        stop = self.info(name).shape[0] if stop is None else stop
        read = self.stored.codes if self.stored.info(name).dtype in _INTEGERS else self.stored.read
        if self._has(_MAPPING):
            if (kind := self.stored.info(_MAPPING).dtype) not in _INTEGERS:
                raise fault(self.stored.info(_MAPPING).file, f"{_MAPPING} must hold whole numbers; found {kind}")
            places = self.stored.codes(_MAPPING, start, stop)
            count, width = self.stored.info(name).shape
            if len(places) and not 0 <= places.min() <= places.max() < count:
                rule = f"{_MAPPING} must name rows 0 to {count - 1}; found {places.min()} to {places.max()}"
                raise fault(self.stored.info(name).file, rule)
            dtype = np.dtype(_DTYPES.get(self.stored.info(name).dtype, "f4"))
            found: NDArray[Any] = read_scattered(partial(read, name), places, width, dtype, most=None)
        else:
            found = read(name, start, stop)
        if self._has(_WEIGHTS):
            weights = self.stored.read(_WEIGHTS, start, stop)[:, None]
            dtype = np.dtype(np.float64 if found.dtype == np.float64 else np.float32)
            out = found if found.flags.writeable and found.dtype == dtype else None
            with np.errstate(over="ignore", invalid="ignore"):
                found = np.multiply(found, weights, dtype=dtype, out=out)
        found = found.astype(np.float32) if found.dtype.kind == "i" else found
        found.flags.writeable = False
        return found

    def _length(self, name: str) -> int:
        info = self.stored.info(name)
        if len(info.shape) != 1:
            raise fault(info.file, f"{name} must have one axis; found the shape {list(info.shape)}")
        return info.shape[0]
