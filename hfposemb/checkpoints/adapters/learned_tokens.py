"""Textual inversion: the vectors of a few learned tokens, without the model that they belong to."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...lazy_attributes import lazy_attribute
from ..formats import ReadTensors, WrappedTensors
from ..safetensors.checkpoint import PLAIN, TensorInfo
from ..stated_roles import StatedRoles

if TYPE_CHECKING:
    from ...tables.table import Labels

_FILE = re.compile(r"learned_embeds.*\.(safetensors|bin|pt)")
_PLACEHOLDER = "string_to_param."
"""Start of the names in files of the Stable Diffusion web UI; the token is named by the file."""

_OTHERS = (_PLACEHOLDER, "string_to_token.")

_ENCODERS = ("emb_params", "clip_l", "clip_g", "t5xxl")
"""Names of tensors by the text encoder that they are for."""

_MOST = 64


JOINED = "learned_embeds"
"""Name of the table with the vectors of several tokens, each of which is a tensor of its own."""


@dataclass(frozen=True)
class LearnedTokens(WrappedTensors):
    """Checkpoint of learned tokens: one table of all that are named after tokens, or one for each text encoder.

    Attributes:
        stored: The checkpoint as it is stored; see ``are_learned_tokens``.
    """

    stored: ReadTensors

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the location of the files."""
        return LearnedTokens, (self.stored,)

    @lazy_attribute
    def _parts(self) -> dict[str, tuple[str, ...]]:
        """Stored tensors of each table."""
        names = _vectors(self.stored.names())
        if not names:
            return {JOINED: self.stored.names()} if len(self.stored.names()) > 1 else {self.stored.names()[0]: ()}
        return dict.fromkeys(sorted(names, key=_order), ())

    def names(self) -> tuple[str, ...]:
        """Return the names of the tables."""
        return tuple(self._parts)

    def info(self, name: str) -> TensorInfo:
        """Return dtype, shape [rows, width] and location of a table."""
        infos = [self.stored.info(part) for part in self._parts.get(name) or (name,)]
        rows = sum(info.shape[0] if len(info.shape) == 2 else 1 for info in infos)
        dtype = infos[0].dtype if len({info.dtype for info in infos}) == 1 else "F32"
        stop = infos[0].start + sum(info.nbytes for info in infos)
        return replace(infos[0], name=name, dtype=dtype, shape=(rows, infos[0].shape[-1]), stop=stop)

    def roles(self) -> StatedRoles:
        """Return the tables as those of tokens."""
        return StatedRoles({"token": self.names()})

    def labels(self, rows: int) -> Labels | None:
        """Return the names of the tokens, as diffusers numbers the vectors of one; ``None`` if they are not stored."""
        from ...tables.table import Labels

        if _vectors(self.stored.names()):
            return None
        texts = []
        for name in self.stored.names():
            shape = self.stored.info(name).shape
            texts += [name if row == 0 else f"{name}_{row}" for row in range(shape[0] if len(shape) == 2 else 1)]
        return Labels(tuple(texts), tuple(texts), np.zeros(rows, np.uint8)) if len(texts) == rows else None

    def file_bytes(self, name: str) -> int | None:
        """Return the size of the file that holds a table."""
        return self.stored.file_bytes((self._parts.get(name) or (name,))[0])

    def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return rows ``[start, stop)`` of a table, read-only."""
        whole = self.info(name)
        stop = whole.shape[0] if stop is None else stop
        parts, first = [np.empty((0, whole.shape[1]), np.float64 if whole.dtype == "F64" else np.float32)], 0
        for part in self._parts.get(name) or (name,):
            shape = self.stored.info(part).shape
            end = first + (shape[0] if len(shape) == 2 else 1)
            if max(start, first) < min(stop, end):
                inside = (max(start, first) - first, min(stop, end) - first) if len(shape) == 2 else (0, None)
                parts.append(np.atleast_2d(self.stored.read(part, *inside)))
            first = end
        with np.errstate(invalid="ignore"):
            found: NDArray[Any] = parts[1] if len(parts) == 2 else np.concatenate(parts)
        found.flags.writeable = False
        return found


def are_learned_tokens(tensors: ReadTensors, file: str) -> bool:
    """Return whether a checkpoint holds learned tokens: few tensors of vectors, known by their names or the file's.

    Args:
        tensors: The checkpoint.
        file: Name of its file.
    """
    names = tensors.names()
    if not 0 < len(names) <= _MOST:
        return False
    vectors = _vectors(names)
    if not vectors and not _FILE.fullmatch(file):
        return False
    infos = [tensors.info(name) for name in vectors or names]
    if any(len(info.shape) not in (1, 2) or info.dtype not in PLAIN or 0 in info.shape for info in infos):
        return False
    return bool(vectors) or len({info.shape[-1] for info in infos}) == 1


def _vectors(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the tensors that are named after text encoders, or after a placeholder, if that is all there is."""
    placed = tuple(name for name in names if name.startswith(_PLACEHOLDER))
    if placed and all(name.startswith(_OTHERS) for name in names):
        return placed
    return names if all(name in _ENCODERS for name in names) else ()


def _order(name: str) -> int:
    return _ENCODERS.index(name) if name in _ENCODERS else len(_ENCODERS)
