"""Messages written by hand, field by field: what is read of them, and what is refused at the very byte."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hfposemb.checkpoints.file_ranges import LocalRanges
from hfposemb.checkpoints.protobuf import MessageReader, unpacked
from hfposemb.errors import CheckpointError
from tests.support.checkpoints.onnx_files import field, varint


def reader(folder: Path, content: bytes, **given: int) -> MessageReader:
    (folder / "message").write_bytes(content)
    return MessageReader(LocalRanges.open(folder / "message"), **given)


def test_numbers_are_read_packed_and_one_by_one(tmp_path: Path) -> None:
    packed = field(1, b"".join(map(varint, (3, 300, 2**64 - 1))))
    found = reader(tmp_path, packed + field(1, 2**63) + field(2, b""), most_fields=3)
    listed, one, empty = found.fields(0, found.file.size)
    assert found.integers(listed, most=3) == (3, 300, -1)
    assert found.integers(one, most=1) == (-(2**63),)
    assert (found.integers(empty, most=1), found.text(empty)) == ((), "")
    with pytest.raises(CheckpointError, match="must list at most 1 numbers"):
        found.integers(listed, most=1)


@pytest.mark.parametrize("inner", [b"\x08", b"\x08\x80", b"\x08" + b"\xff" * 9 + b"\x02"])
@pytest.mark.parametrize("after", [b"", field(2, 1)])
def test_a_number_ends_within_its_message_and_64_bits(tmp_path: Path, inner: bytes, after: bytes) -> None:
    found = reader(tmp_path, field(1, inner) + after)
    start, stop = found.message(next(found.fields(0, found.file.size)))
    with pytest.raises(CheckpointError, match=r"(within a|the) number at byte"):
        list(found.fields(start, stop))
    assert unpacked(np.frombuffer(inner[1:], np.uint8)) is None or len(inner) == 1


def test_one_field_more_than_the_most_is_refused(tmp_path: Path) -> None:
    found = reader(tmp_path, 4 * field(1, 1), most_fields=3)
    with pytest.raises(CheckpointError, match="more than 3 fields"):
        list(found.fields(0, found.file.size))
