"""Hostile ONNX files: one line and less than 150 MB, and no table that onnx itself would not read."""

from __future__ import annotations

import json
import random
import subprocess
import sys

import onnx
import pytest
from onnx import numpy_helper

from hfposemb.errors import CheckpointError
from tests.conftest import FULL
from tests.support.checkpoints.hostile_onnx import CASES, TANGLED, tables
from tests.support.checkpoints.onnx_files import looked_up, model, random_table
from tests.support.checkpoints.refusals import LINUX

MEMORY = 150_000_000
MUTATIONS = 100_000 if FULL else 6_000
BULK = [name for name in CASES if name.startswith("bulk")] if LINUX else []
"""Cases that are built once, where their peak memory is measured."""


def assert_one_line(message: str) -> None:
    assert message.startswith("model.onnx: ")
    assert message.isprintable()
    assert len(message) <= 300


@pytest.mark.parametrize("name", [name for name in CASES if name not in BULK])
def test_a_hostile_file_is_refused_in_one_line(name: str) -> None:
    content = CASES[name]()
    with pytest.raises(CheckpointError) as caught:
        tables(content)
    assert_one_line(str(caught.value))


CHILD = """
import gc, json, sys
from hfposemb.errors import CheckpointError
from tests.support.checkpoints.hostile_onnx import CASES, tables

def status(key):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(key))

peaks = {}
for name in sys.argv[1:]:
    content = CASES[name]()
    gc.collect()
    open("/proc/self/clear_refs", "w").write("5")
    base = status("VmRSS")
    try:
        tables(content)
    except CheckpointError as error:
        peaks[name] = status("VmHWM") - base, str(error)
print(json.dumps(peaks))
"""


@pytest.mark.skipif(not LINUX, reason="peak memory is read from /proc")
def test_no_hostile_file_takes_150_megabytes() -> None:
    said = subprocess.run([sys.executable, "-c", CHILD, *BULK], capture_output=True, text=True, check=True).stdout
    found = json.loads(said)
    assert list(found) == BULK
    for _, message in found.values():
        assert_one_line(message)
    peaks = {name: peak for name, (peak, _) in found.items()}
    assert max(peaks.values()) < MEMORY, peaks
    assert max(peaks.values()) > 1_000_000  # it does measure


@pytest.mark.parametrize("name", TANGLED)
def test_a_tangled_graph_has_no_table_of_tokens(name: str) -> None:
    checkpoint, _ = tables(TANGLED[name]())
    assert "token" not in checkpoint.roles().tables


def mutated(draw: random.Random, content: bytes) -> bytes:
    """Return a file with one to three changes: bits, bytes, pieces, its end."""
    made = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        if not made:
            break
        place, how = draw.randrange(len(made)), draw.randrange(6)
        if how == 0:
            made[place] ^= 1 << draw.randrange(8)
        elif how == 1:
            made[place] = draw.choice((0, 1, 127, 128, 255, 8, 10, 18, 58))
        elif how == 2:
            del made[place]
        elif how == 3:
            made.insert(place, draw.randrange(256))
        elif how == 4:
            del made[place + 1 :]
        else:
            start = draw.randrange(len(made))
            made[place:place] = made[start : start + draw.randrange(1, 20)]
    return bytes(made)


def test_what_is_read_of_mutated_files_is_what_onnx_reads() -> None:
    draw, table = random.Random(0), random_table(6, 4)
    content = model(looked_up(), {"table": table, "head": table.T.copy()}).SerializeToString()
    read = 0
    for _ in range(MUTATIONS):
        changed = mutated(draw, content)
        try:
            checkpoint, found = tables(changed)
        except CheckpointError as error:
            assert_one_line(str(error))
            continue
        theirs = {one.name: one for one in onnx.load_model_from_string(changed).graph.initializer}
        for name, ours in found.items():
            wanted = numpy_helper.to_array(theirs[name])
            wanted = wanted.T if checkpoint.info(name).shape != wanted.shape else wanted
            assert ours.tobytes() in (wanted.astype(ours.dtype).tobytes(), wanted.T.astype(ours.dtype).tobytes())
        read += len(found)
    assert read > MUTATIONS // 10
