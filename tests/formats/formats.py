"""What a format is to its tests and to ``docs/formats.md``: how to name it, what is read, and how to make one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROWS, WIDTH = 6000, 128
"""Shape of the tables: larger than what is fetched with a header."""

YES = "yes"
WHOLE = "no: the file is read whole"
LEADING = "no: a table of three axes is read whole"
NORMS = "no: the norms need the whole table"
AGREED = "with `--allow-full-download`"
NONE = "–"


@dataclass(frozen=True)
class Made:
    """A file or folder that was made: its source below the folder, and its token table [rows, width]."""

    expected: NDArray[np.float32] | None = None
    inside: str = ""
    query: str = ""
    """Query of the source; ``{root}`` stands for the folder or repository."""
    atol: float = 0
    """Largest difference that the order of sums may make."""

    def source(self, root: object) -> str:
        """Return the source's name in a folder or repository."""
        return f"{root}{self.inside and '/'}{self.inside}{self.query.format(root=root)}"


@dataclass(frozen=True)
class Format:
    """A row of the table: cells are ``YES``, another of the words above, or the line of a refusal.

    In such a line, "SOURCE" stands for the name of the source.
    """

    name: str
    source: str
    read: str
    make: Callable[[Path], Made]
    here: str = YES
    hub: str = YES
    rows: str = YES


def random_rows(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    """Return random numbers; a table [rows, width] without a shape."""
    return np.random.default_rng(seed).standard_normal(shape or (ROWS, WIDTH), np.float32)


def write(folder: Path, files: Mapping[str, bytes | str]) -> None:
    """Write files, whose names may have folders."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def read_files(root: Path) -> dict[str, Any]:
    """Return all files below a folder by their relative paths, as a repository has them."""
    return {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
