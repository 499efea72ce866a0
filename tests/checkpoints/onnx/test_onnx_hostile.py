"""Hostile ONNX files: one line and less than 150 MB, and no table that onnx itself would not read."""

from __future__ import annotations

import random
from pathlib import Path

import onnx
import pytest
from onnx import numpy_helper

from hfposemb.errors import CheckpointError
from tests.conftest import FULL
from tests.support.checkpoints.hostile_onnx import CASES, TANGLED, tables
from tests.support.checkpoints.malformed import Case
from tests.support.checkpoints.onnx_files import looked_up, model, random_table
from tests.support.checkpoints.refusals import assert_one_line, assert_refused

MUTATIONS = 100_000 if FULL else 6_000
FILES = tuple(Case(name, build, suffix=".onnx") for name, build in CASES.items())


def test_hostile_files_are_refused_in_one_line_and_150_megabytes(tmp_path: Path) -> None:
    assert_refused(FILES, tmp_path, reader="tests.support.checkpoints.hostile_onnx:opened")


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
            assert_one_line(Path("model.onnx"), str(error))
            continue
        theirs = {one.name: one for one in onnx.load_model_from_string(changed).graph.initializer}
        for name, ours in found.items():
            wanted = numpy_helper.to_array(theirs[name])
            wanted = wanted.T if checkpoint.info(name).shape != wanted.shape else wanted
            assert ours.tobytes() in (wanted.astype(ours.dtype).tobytes(), wanted.T.astype(ours.dtype).tobytes())
        read += len(found)
    assert read > MUTATIONS // 10
