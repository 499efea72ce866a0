"""Blocks of GGUF are decoded as gguf-py decodes them, to the bit."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from gguf import quants
from numpy.typing import NDArray

from hfposemb.checkpoints.gguf.blocks import DECODERS
from hfposemb.checkpoints.gguf.header import BY_NAME, DECODED
from hfposemb.checkpoints.limits import Limits
from hfposemb.errors import CheckpointError, InputError
from tests.support.checkpoints.malformed_gguf import finished, opened

ROWS, BLOCKS = 40, 3


def drawn(name: str, *, rows: int = ROWS, seed: int = 0) -> NDArray[np.uint8]:
    """Return rows of random bytes, whose scales include NaN and infinities."""
    return np.random.default_rng(seed).integers(0, 256, (rows, BLOCKS * BY_NAME[name].size), dtype=np.uint8)


def reference(name: str, raw: NDArray[np.uint8]) -> NDArray[Any]:
    """Return what gguf-py decodes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return quants.dequantize(raw, gguf.GGMLQuantizationType[name])


def bits(values: NDArray[Any]) -> NDArray[np.unsignedinteger[Any]]:
    """Return numbers as the integers of their bits."""
    return values.view(f"u{values.itemsize}")


def saved(folder: Path, **tensors: tuple[str, NDArray[Any]]) -> Path:
    """Write a file of tensors, given by name as their type and their bytes or numbers."""
    path = folder / "a.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    for name, (kind, values) in tensors.items():
        writer.add_tensor(name, values, raw_dtype=gguf.GGMLQuantizationType[kind])
    finished(writer)
    return path


def test_every_type_of_the_reference_is_decoded() -> None:
    reference_types = {kind.name for kind in quants._type_traits} - {"BF16"}
    assert set(DECODERS) == DECODED == reference_types


@pytest.mark.parametrize("name", sorted(DECODERS))
def test_any_rows_are_read_alone(name: str, tmp_path: Path) -> None:
    raw = drawn(name)
    checkpoint = opened(saved(tmp_path, table=(name, raw)))
    info, expected = checkpoint.info("table"), reference(name, raw)
    assert (info.dtype, info.shape, info.nbytes) == (name, expected.shape, raw.nbytes)
    for start, stop in ((0, None), (0, 0), (7, 8), (3, 31), (ROWS - 1, ROWS), (ROWS, ROWS)):
        found = checkpoint.read("table", start, stop)
        assert not found.flags.writeable
        np.testing.assert_array_equal(bits(found), bits(expected[start:stop]))


@pytest.mark.parametrize(("name", "dtype"), [("F32", "f4"), ("F16", "f2"), ("BF16", "u2"), ("F64", "f8")])
def test_plain_numbers_are_read(name: str, dtype: str, tmp_path: Path) -> None:
    raw = np.random.default_rng(1).integers(0, 256, (5, 24), dtype=np.uint8).view(dtype)
    values = raw.view(np.uint8) if name == "BF16" else raw
    found = opened(saved(tmp_path, table=(name, values))).read("table", 1, 4)
    expected = raw if name == "F64" else quants.dequantize(raw.view(np.uint8), gguf.GGMLQuantizationType[name])
    np.testing.assert_array_equal(bits(found), bits(expected[1:4]))


def test_what_is_no_table_is_refused_in_one_line(tmp_path: Path) -> None:
    integers = np.zeros((2, 8), np.int32)
    vector = np.zeros(34, np.uint8)
    path = saved(tmp_path, table=("I32", integers), vector=("Q8_0", vector), rows=("Q8_0", drawn("Q8_0")))
    checkpoint = opened(path)
    with pytest.raises(CheckpointError, match="'table' is stored as I32, which cannot be read"):
        checkpoint.read("table")
    with pytest.raises(CheckpointError, match="'vector' is a vector stored as Q8_0"):
        checkpoint.read("vector")
    with pytest.raises(CheckpointError, match="has no tensor 'absent' among its 3 tensors"):
        checkpoint.read("absent")
    with pytest.raises(InputError, match="it has rows 0 to 40"):
        checkpoint.read("rows", 0, 41)


def test_limits_hold_for_stored_and_for_decoded_bytes(tmp_path: Path) -> None:
    path = saved(tmp_path, table=("TQ2_0", drawn("TQ2_0")))
    checkpoint = opened(path)
    numbers, stored = ROWS * BLOCKS * 256, ROWS * BLOCKS * 66
    for limit, message in ((stored - 1, "have 7920 bytes"), (2 * numbers - 1, f"have {numbers} numbers")):
        limited = type(checkpoint)(checkpoint.files, checkpoint.headers, Limits(table_bytes=limit))
        with pytest.raises(CheckpointError, match=message):
            limited.read("table")
    limited = type(checkpoint)(checkpoint.files, checkpoint.headers, Limits(table_bytes=2 * numbers))
    assert limited.read("table").size == numbers
