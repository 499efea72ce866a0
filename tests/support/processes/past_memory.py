"""Tables larger than the memory that a child process may take."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np

ROWS, WIDTH = 100_000, 512
"""Of a table that has 102 MB as bfloat16 and 205 MB widened."""

ALLOWED = 150 * 2**20
"""What a child may take beyond its imports, as the system counts it: less than the table widened."""

CHILD = """
import resource, sys
import numpy as np, scipy.linalg, scipy.spatial
from importlib import import_module
from hfposemb.models.extraction import extract
from hfposemb.analysis.projection.projecting import project
from hfposemb.analysis.similarity.nearest_rows import neighbours
from hfposemb.analysis.similarity.row_pairs import pair_similarities
from hfposemb.analysis.similarity.similarity_matrix import similarity
np.linalg.eigvalsh(np.eye(400) @ np.eye(400))
import_module("hfposemb.analysis.similarity.row_pairs").WHOLE_BYTES = 2**26
data = next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmData"))
resource.setrlimit(resource.RLIMIT_DATA, (data + int(sys.argv[2]),) * 2)
table = extract(sys.argv[1]).token
"""


def write_large(folder: Path) -> Path:
    """Write a checkpoint whose token table is stored as bfloat16."""
    header = {"wte.weight": {"dtype": "BF16", "shape": [ROWS, WIDTH], "data_offsets": [0, 2 * ROWS * WIDTH]}}
    head = json.dumps(header).encode()
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2", "n_embd": WIDTH, "vocab_size": ROWS}))
    rng = np.random.default_rng(0)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(head)) + head)
        for _ in range(10):
            # Any sign and mantissa, exponents of 2⁻⁴ to 2⁻¹: numbers without NaN.
            drawn = rng.integers(0x3D80, 0x3F7F, ROWS * WIDTH // 10, dtype=np.uint16)
            file.write((drawn | rng.integers(2, size=drawn.size, dtype=np.uint16) << 15).tobytes())
    return folder


def within(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run code that has the large ``table`` in a child whose own memory is bounded; mapped files do not count."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-c", CHILD + code, str(folder), str(ALLOWED)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
