"""The checkpoints made here are what they are made for: real shapes, real layouts, and values with structure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hfposemb as hpe
from tests.conftest import FULL

from .checkpoints import Stored, write_tensors
from .conftest import MODELS

SHAPES = {"gpt2": (50_257, 768), "gemma": (262_144, 640), "whisper": (51_865, 512)}
STORED = {"gpt2": "F16", "gemma": "BF16", "whisper": "F32"}


@pytest.mark.parametrize("name", [name for name in MODELS if name in SHAPES])
def test_a_checkpoint_has_its_size_and_every_row_a_name(name: str, real: dict[str, str]) -> None:
    found = hpe.extract(real[name])
    assert found.token.shape == SHAPES[name]
    assert found.token.provenance.stored_dtype == STORED[name]
    pieces = found.token.labels.pieces
    assert len(set(pieces)) == len(pieces) == SHAPES[name][0]
    file = (Path(real[name]) / "model.safetensors").stat()
    assert file.st_blocks * 512 < file.st_size, "the layers that nothing reads are holes"


def test_words_have_neighbours_and_positions_an_order(real: dict[str, str]) -> None:
    found = hpe.extract(real["gpt2"])
    assert {" king", " King"} & set(hpe.neighbours(found.token, "king", k=5).labels)
    table = found.position.table
    assert table is not None
    assert table.shape == (1_024, 768)
    rows = table.vectors / np.linalg.norm(table.vectors, axis=1, keepdims=True)
    near, far = (np.mean(np.sum(rows[1:-step] * rows[1 + step :], axis=1)[:-1]) for step in (1, 180))
    assert near > 0.98
    assert far < 0.7


def test_a_tensor_without_values_is_zeros(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    def blocks() -> object:
        yield np.arange(4, dtype=np.float32).reshape(2, 2)
        yield np.full((1, 2), 9, np.float32)

    path = tmp_path / "x.safetensors"
    write_tensors(path, {"hole": Stored((2, 3)), "full": Stored((3, 2), blocks), "end": Stored((5,))}, "F16")  # type: ignore[arg-type]
    found = load_file(path)
    assert found["full"].tolist() == [[0, 1], [2, 3], [9, 9]]
    assert not found["hole"].any()
    assert found["end"].shape == (5,)


@pytest.mark.skipif(not FULL, reason="loads whole models")
@pytest.mark.parametrize("name", [name for name in MODELS if name in SHAPES])
def test_transformers_loads_it(name: str, real: dict[str, str]) -> None:
    code = (
        f"import transformers; m = transformers.AutoModel.from_pretrained({real[name]!r}); print(m.config.model_type)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
