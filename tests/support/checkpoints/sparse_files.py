"""Checkpoints of many gigabytes as sparse files: true headers, and holes for all rows but a few."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def sparse(
    folder: Path, shapes: Mapping[str, Sequence[int]], files: int, config: Mapping[str, Any]
) -> dict[str, bytes | str | Path]:
    """Write tensors of BF16 in so many files, with an index if there are several; return what to put on the Hub."""
    made: dict[str, bytes | str | Path] = {"config.json": json.dumps(config)}
    where: dict[str, str] = {}
    names = list(shapes)
    each = -(-len(names) // files)
    for place in range(files):
        file = f"model-{place + 1:05}-of-{files:05}.safetensors" if files > 1 else "model.safetensors"
        header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
        at = 0
        for name in names[each * place : each * (place + 1)]:
            size = 2 * int(np.prod(shapes[name]))
            header[name] = {"dtype": "BF16", "shape": shapes[name], "data_offsets": [at, at + size]}
            where[name], at = file, at + size
        text = json.dumps(header).encode()
        with (folder / file).open("wb") as out:
            out.write(struct.pack("<Q", len(text)) + text)
            out.truncate(8 + len(text) + at)
        made[file] = folder / file
    if files > 1:
        made["model.safetensors.index.json"] = json.dumps({"metadata": {}, "weight_map": where})
    return made


def write_rows(path: Path, name: str, first: int, rows: NDArray[np.floating]) -> None:
    """Write rows [m, width] of a tensor of BF16 from row ``first`` on."""
    with path.open("r+b") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        start = json.loads(file.read(length))[name]["data_offsets"][0]
        file.seek(8 + length + start + 2 * first * rows.shape[1])
        file.write((rows.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes())
