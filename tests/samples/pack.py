"""Make the sample ``minilm`` from the folder of all-MiniLM-L6-v2: ``python -m tests.samples.pack FOLDER``.

README.md in hfposemb/samples/minilm describes the source and the results. The maps take minutes and depend on the
versions of NumPy and umap-learn; all other files are the same on every machine.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.session.background_jobs import FILE, key_of
from hfposemb.checkpoints.quantised.decoded import Decoded
from hfposemb.checkpoints.safetensors.checkpoint import Checkpoint
from hfposemb.models.extraction import extract
from hfposemb.samples import folder as sample_folder
from hfposemb.tables.table import EmbeddingTable, Provenance, table_of

WORDS = "embeddings.word_embeddings.weight"
ATTENTION = "encoder.layer.0.attention.self"
EXACT = (
    "embeddings.position_embeddings.weight",
    "embeddings.token_type_embeddings.weight",
    "embeddings.LayerNorm.weight",
    "embeddings.LayerNorm.bias",
    *(f"{ATTENTION}.{name}" for name in ("query.weight", "query.bias", "key.weight", "key.bias")),
)
"""Tensors that are kept as they are, in float32."""

COPIED = ("config.json", "tokenizer.json", "tokenizer_config.json")
_NAMES = {np.dtype("<f4"): "F32", np.dtype("<f2"): "F16", np.dtype("i1"): "I8"}
_LEVELS = 127
SCALE = "_scale"
"""Ending of the tensor [rows, 1] with the scales of a table, after the table's own name."""


def rounded(words: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float16]]:
    """Round rows to 8 bits: return codes [rows, width] from −127 to 127, and the scale of each row [rows, 1].

    Scales in float32 would hardly make the error smaller: what counts is the distance between two codes.

    Args:
        words: Vectors [rows, width], none of them zero.
    """
    wide = words.astype(np.float64)
    scales = (np.abs(wide).max(axis=1, keepdims=True) / _LEVELS).astype(np.float16)
    codes = np.rint(wide / scales.astype(np.float64)).clip(-_LEVELS, _LEVELS)
    return codes.astype(np.int8), scales


def write_tensors(tensors: Mapping[str, NDArray[Any]], path: Path) -> None:
    """Write a safetensors file with its tensors in the given order."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, values in tensors.items():
        start, end = end, end + values.nbytes
        header[name] = {"dtype": _NAMES[values.dtype], "shape": list(values.shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    data = b"".join(values.tobytes() for values in tensors.values())
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def pack(folder: Path, out: Path) -> None:
    """Write the weights, the configuration and the tokenizer of a checkpoint to ``out``, words rounded."""
    checkpoint = Checkpoint.open(folder)
    tensors = {name: np.ascontiguousarray(checkpoint.read(name)) for name in EXACT}
    codes, scales = rounded(checkpoint.read(WORDS))
    out.mkdir(parents=True, exist_ok=True)
    write_tensors(tensors | {f"{WORDS}{SCALE}": scales, WORDS: codes}, out / "model.safetensors")
    for name in COPIED:
        shutil.copyfile(folder / name, out / name)


def decoded(out: Path) -> EmbeddingTable:
    """Return the words of a packed checkpoint as a table."""
    words = Decoded(Checkpoint.open(out)).read(WORDS)
    return table_of(words, name="words", provenance=Provenance("words"))


def lay_out(folder: Path, out: Path) -> None:
    """Write the UMAP projections of a checkpoint's words and positions, with their trust, to ``out``.

    They are computed on the original vectors; their trust is that of the rounded points in the tables that are packed.
    """
    from threadpoolctl import threadpool_limits

    from hfposemb.analysis.projection.projecting import project
    from hfposemb.analysis.projection.quality import point_trust

    found, values = extract(folder), dict[str, NDArray[Any]]()
    positions, words = found.position.table, found.token
    with threadpool_limits(1):  # sums are in the same order whatever the number of processors
        for table, packed, dtype, more in (
            (positions, positions, np.float32, {}),
            (words, decoded(out), np.float16, {"vectors": "before rounding"}),
        ):
            for dims in (2, 3):
                made = project(table, method="umap", dims=dims)
                points = made.coordinates.astype(dtype)
                trust = point_trust(packed, points.astype(np.float32), metric="cosine")
                shares = np.stack([trust.neighbours_kept, trust.trustworthiness, trust.continuity])
                stored: dict[str, NDArray[Any]] = {
                    "points": points,
                    "measured": trust.points.astype(np.int32),
                    "trust": shares,
                    "parameters": np.array(json.dumps({**made.parameters, **more})),
                }
                values |= {key_of(packed.digest, dims, name): array for name, array in stored.items()}
    np.savez(out / FILE, allow_pickle=False, **values)


def main() -> None:
    """Parse the command line, write the files and print their digests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="checkpoint of all-MiniLM-L6-v2")
    parser.add_argument("--out", type=Path, default=sample_folder("minilm"), help="output folder")
    parser.add_argument("--maps", action=argparse.BooleanOptionalAction, default=True, help="compute the maps too")
    arguments = parser.parse_args()
    pack(arguments.folder, arguments.out)
    if arguments.maps:
        lay_out(arguments.folder, arguments.out)
    for name in ("model.safetensors", *COPIED, *([FILE] if arguments.maps else [])):
        path = arguments.out / name
        print(hashlib.sha256(path.read_bytes()).hexdigest(), f"{path.stat().st_size:>11,}", name)


if __name__ == "__main__":
    main()
