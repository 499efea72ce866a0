"""Checkpoints with tables rounded to 8 bits, which are decoded as they are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .quantization import ROUNDED
from .safetensors import Checkpoint, TensorInfo

SCALE = "_scale"
"""Ending of the tensor [rows, 1] with the scales of a table, after the table's own name."""


@dataclass(frozen=True)
class Rounded:
    """Local checkpoint whose I8 tables are multiplied by one scale per row as they are read.

    Attributes:
        stored: The checkpoint as it is stored.
    """

    stored: Checkpoint

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the location of the files, as ``Checkpoint`` does."""
        return Rounded, (self.stored,)

    @property
    def name(self) -> str:
        """Name in messages."""
        return self.stored.name

    @property
    def folder(self) -> Path:
        """Folder of the files."""
        return self.stored.folder

    @property
    def rounded(self) -> tuple[str, ...]:
        """Names of the tables that are decoded."""
        names = self.stored.names()
        beside = [name.removesuffix(SCALE) for name in names if name.endswith(SCALE)]
        return tuple(name for name in beside if name in names and self.stored.info(name).dtype == "I8")

    def names(self) -> tuple[str, ...]:
        """Return the tensors' names, without the scales."""
        scales = {f"{name}{SCALE}" for name in self.rounded}
        return tuple(name for name in self.stored.names() if name not in scales)

    def info(self, name: str) -> TensorInfo:
        """Return a tensor's dtype, shape and location; the dtype of a decoded table is ``ROUNDED``."""
        found = self.stored.info(name)
        return replace(found, dtype=ROUNDED) if name in self.rounded else found

    def metadata(self) -> Mapping[str, str]:
        """Return the metadata of the headers."""
        return self.stored.metadata()

    def config(self) -> dict[str, Any] | None:
        """Return config.json next to the checkpoint, or ``None`` if there is none."""
        return self.stored.config()

    def file_bytes(self, name: str) -> int:
        """Return the size of the file that holds a tensor."""
        return self.stored.file_bytes(name)

    def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return rows ``[start, stop)`` of a tensor, read-only; those of a decoded table as float32.

        A code of at most 8 bits times a scale of at most 11 is exact in float32, so every machine decodes the same
        numbers.
        """
        if name not in self.rounded:
            return self.stored.read(name, start, stop)
        codes, scales = self.stored.integers(name, start, stop), self.stored.read(f"{name}{SCALE}", start, stop)
        rows: NDArray[np.float32] = np.multiply(codes, scales, dtype=np.float32)
        rows.flags.writeable = False
        return rows
