"""Heads of GGUF files: read as gguf-py reads them, or refused in one line at little cost."""

from __future__ import annotations

import random
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from hfposemb.checkpoints.file_ranges import LocalRanges
from hfposemb.checkpoints.gguf.header import TYPES, Texts, read_header
from hfposemb.errors import CheckpointError
from tests.conftest import FULL
from tests.support.checkpoints import malformed_gguf as made
from tests.support.checkpoints.malformed_gguf import CASES, finished
from tests.support.checkpoints.refusals import LINUX, assert_one_line, assert_refused

GENERATED = 100_000 if FULL else 10_000
"""Processor time of one refusal; tests that run at the same time take a part of the caches."""


def test_types_are_those_of_the_reference() -> None:
    assert {number: (name.name, *sizes) for name, sizes in gguf.GGML_QUANT_SIZES.items() for number in [int(name)]} == {
        number: tuple(kind) for number, kind in TYPES.items()
    }


def test_malformed_files_are_refused_in_one_line_and_150_megabytes(tmp_path: Path) -> None:
    assert_refused(CASES, tmp_path, reader="tests.support.checkpoints.malformed_gguf:opened")


def written(path: Path, tensors: Mapping[str, np.ndarray[Any, Any]]) -> gguf.GGUFWriter:
    """Return the writer of a file with every type of value, before its tensors."""
    writer = gguf.GGUFWriter(path, "llama")
    for kind, value in (("uint8", 255), ("int8", -1), ("uint16", 2**16 - 1), ("int16", -2), ("int32", -3)):
        getattr(writer, f"add_{kind}")(f"a.{kind}", value)
    for kind, value in (("uint64", 2**64 - 1), ("int64", -(2**63))):
        getattr(writer, f"add_{kind}")(f"a.{kind}", value)
    writer.add_float32("a.float32", 0.1)
    writer.add_float64("a.float64", 0.1)
    writer.add_bool("a.bool", True)
    writer.add_string("a.string", "naïve 🙂")
    writer.add_array("a.numbers", [1, 2, 3])
    writer.add_array("a.strings", ["", "x" * 300, "é"])
    writer.add_token_list(["Ġa", "b" * 255, "c" * 256, "", "d" * 70_000, "e"])
    writer.add_token_merges(["a b", "c d"])
    for name, values in tensors.items():
        writer.add_tensor(name, values)
    return writer


def test_every_type_of_value_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    rows = np.arange(6, dtype=np.float32).reshape(3, 2)
    finished(written(path, {"token_embd.weight": rows, "b.weight": np.ones(5, np.float16)}))
    header, reference = read_header(LocalRanges.open(path)), gguf.GGUFReader(path)
    assert header.values["a.float64"] == 0.1
    for key, field in reference.fields.items():
        if key.startswith("GGUF.") or key == "a.strings":
            assert key not in header.values, "they label no row"
            continue
        value, expected = header.values[key], field.contents()
        if isinstance(value, Texts):
            assert value.decoded() == expected
        elif isinstance(value, np.ndarray):
            assert value.tolist() == expected
        else:
            assert value == expected
            assert type(value) is type(expected)
    found = {
        name: (info.dtype, info.shape, info.start, info.nbytes, info.file) for name, info in header.tensors.items()
    }
    assert found == {
        one.name: (
            one.tensor_type.name,
            tuple(int(size) for size in one.shape[::-1]),
            int(one.data_offset),
            one.n_bytes,
            "a.gguf",
        )
        for one in reference.tensors
    }


def test_version_2_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(made.file(version=2))
    checkpoint = made.opened(path)
    assert checkpoint.read("token_embd.weight").tobytes() == made.DATA[:32]
    assert checkpoint.info("output.weight").dtype == "Q4_0"


OPENED = """
import sys
from pathlib import Path
from hfposemb.checkpoints.formats import open_format
from hfposemb.checkpoints.file_ranges import LocalRanges
from hfposemb.checkpoints.limits import DEFAULT_LIMITS
import hfposemb.checkpoints.gguf.checkpoint

def peak():
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))

base, file = peak(), LocalRanges.open(Path(sys.argv[1]))
found = open_format(file, DEFAULT_LIMITS)
print(peak() - base, found.labels(128_256).texts[128_255])
"""


@pytest.mark.skipif(not LINUX, reason="peak memory is read from /proc")
def test_a_vocabulary_of_128256_with_merges_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(made.vocabulary(128_256, 280_147))
    run = subprocess.run([sys.executable, "-c", OPENED, path], capture_output=True, text=True, check=True)
    memory, *last = run.stdout.split()
    assert int(memory) < 60_000_000
    assert last == ["word128255"]


# --- generated files -------------------------------------------------------------------------------------------------


def plainly(raw: bytes) -> dict[str, tuple[int, tuple[int, ...], int]]:
    """Return type, dimensions and offset of every tensor, read without any check."""
    at = 24
    tensors, keys = struct.unpack_from("<QQ", raw, 8)

    def number(code: str) -> int:
        nonlocal at
        (found,) = struct.unpack_from(f"<{code}", raw, at)
        at += struct.calcsize(f"<{code}")
        return int(found)

    def string() -> bytes:
        nonlocal at
        size = number("Q")
        at += size
        return raw[at - size : at]

    sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
    for _ in range(keys):
        string()
        kind, count = number("I"), 1
        if kind == made.ARRAY:
            kind, count = number("I"), number("Q")
        for _ in range(count if kind == made.STRING else 0):
            string()
        at += 0 if kind == made.STRING else sizes[kind] * count
    found = {}
    for _ in range(tensors):
        name = string().decode()
        dims = tuple(number("Q") for _ in range(number("I")))
        found[name] = (number("I"), dims, number("Q"))
    return found


EXTREMES = [0, 1, 2, 3, 4, 8, 9, 31, 33, 255, 256, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**61, 2**63, 2**64 - 1]


def mutated(raw: bytes, draw: random.Random) -> bytes:
    """Return a file with up to three bytes, numbers or stretches changed."""
    content = bytearray(raw)
    for _ in range(draw.randint(1, 3)):
        place = draw.randrange(max(len(content), 1))
        match draw.randrange(6):
            case 0:
                content[place : place + 1] = bytes(byte ^ 1 << draw.randrange(8) for byte in content[place : place + 1])
            case 1:
                content[place : place + 1] = bytes([draw.randrange(256)])
            case 2:
                content[place : place + 8] = struct.pack("<Q", draw.choice(EXTREMES))
            case 3:
                content[place : place + 4] = struct.pack("<I", draw.choice(EXTREMES) % 2**32)
            case 4:
                stop = min(place + draw.randrange(40), len(content))
                content[place:stop] = content[place:stop] * draw.choice([0, 2])
            case _:
                del content[max(place, 1) :]
    return bytes(content)


class Memory:
    """A file in memory."""

    name = "a.gguf"

    def __init__(self, raw: bytes) -> None:
        self.raw, self.size = raw, len(raw)

    def read(
        self, span: range, *, whole: range | None = None, name: str = "", own: bool = False
    ) -> np.ndarray[Any, np.dtype[np.uint8]]:
        assert 0 <= span.start <= span.stop <= self.size, "read outside the file"
        return np.frombuffer(self.raw, np.uint8, len(span), span.start)

    def beside(self, name: str) -> Memory:
        raise CheckpointError(f"{name}: the file is missing")

    def listing(self) -> tuple[str, ...]:
        return (self.name,)


def assert_sound(raw: bytes) -> bool:
    """Require that a file is refused in one line, or that its tensors are inside it and as a plain reader finds them.

    Returns whether it was read.
    """
    try:
        header = read_header(Memory(raw))
    except CheckpointError as error:
        assert_one_line(Path("a.gguf"), str(error))
        return False
    plain = plainly(raw)
    assert list(plain) == list(header.tensors)
    reached = 0
    for name, info in sorted(header.tensors.items(), key=lambda one: (one[1].start, one[1].stop)):
        number, dims, _ = plain[name]
        kind = TYPES[number]
        assert (info.dtype, info.shape) == (kind.name, dims[::-1])
        assert info.nbytes * kind.elements == int(np.prod(dims, dtype=object)) * kind.size
        assert reached <= info.start <= info.stop <= len(raw)
        reached = info.stop
    return True


def test_generated_files_are_read_as_they_are_or_refused() -> None:
    draw, raw = random.Random(1), made.file()
    assert assert_sound(raw)
    read = sum(assert_sound(mutated(raw, draw)) for _ in range(GENERATED))
    assert read > GENERATED / 1_000, "changes of a token or a number of the data leave a file valid"
