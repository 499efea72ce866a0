"""Arrays that NumPy saved: what we write opens again to the last bit, and a file that lies is refused in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import hfposemb as hpe


@pytest.mark.parametrize("kind", ["<f2", "<f4", "<f8"])
def test_arrays_of_others_open(tmp_path: Path, kind: str) -> None:
    rows = np.random.default_rng(0).standard_normal((50, 8)).astype(kind)
    np.save(tmp_path / "rows.npy", rows)
    np.savez(tmp_path / "one.npz", weights=rows, steps=np.arange(5))
    np.savez(tmp_path / "two.npz", token=rows, position=rows[:20])
    save_file({"token": rows, "position": rows[:20].copy()}, tmp_path / "two.safetensors")
    for name in ("rows.npy", "one.npz", "two.npz", "two.safetensors"):
        found = hpe.extract(tmp_path / name)
        assert np.array_equal(found.token.vectors, rows.astype("f4") if kind == "<f2" else rows), name
        if name.startswith("two"):
            assert np.array_equal(found.position.table.vectors, found.token.vectors[:20])


def _header(said: str) -> bytes:
    text = said.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def _saved(make: Callable[[Path], object], ending: str) -> Callable[[Path], Path]:
    def at(folder: Path) -> Path:
        make(path := folder / f"file.{ending}")
        return path

    return at


HOSTILE = {
    "holds Python objects": _saved(lambda p: np.save(p, np.array([{}, 1], object), allow_pickle=True), "npy"),
    "is compressed": _saved(lambda p: np.savez_compressed(p, a=np.eye(3)), "npz"),
    "in Fortran order": _saved(lambda p: np.save(p, np.asfortranarray(np.eye(4))), "npy"),
    "<i8 [4, 4]": _saved(lambda p: np.save(p, np.eye(4, dtype=np.int64)), "npy"),
    ">f4 [4, 4]": _saved(lambda p: np.save(p, np.eye(4, dtype=">f4")), "npy"),
    "F64 [3]": _saved(lambda p: np.save(p, np.arange(3.0)), "npy"),
    "it has no arrays": _saved(lambda p: np.savez(p), "npz"),
    "the file is incomplete": _saved(
        lambda p: p.write_bytes(_header("{'descr': '<f4', 'fortran_order': False, 'shape': (999999, 99999)}")), "npy"
    ),
    "states the shape": _saved(
        lambda p: p.write_bytes(_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 4)}")), "npy"
    ),
    "no header that NumPy writes": _saved(lambda p: p.write_bytes(b"\x93NUMPY\x01\x00\x02\x00[["), "npy"),
    "no header that": _saved(lambda p: p.write_bytes(b""), "npy"),
    "is not a complete": _saved(lambda p: p.write_bytes(b"PK\x03\x04" + b"x" * 100), "npz"),
}


@pytest.mark.parametrize("said", HOSTILE)
def test_a_file_that_is_no_table_is_refused_in_one_line(tmp_path: Path, said: str) -> None:
    with pytest.raises(hpe.HfposembError) as error:
        hpe.extract(HOSTILE[said](tmp_path))
    assert said in str(error.value)
    assert "\n" not in str(error.value)
