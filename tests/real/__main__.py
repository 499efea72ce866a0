"""Make all checkpoints: ``python -m tests.real FOLDER``."""

import sys
import time
from pathlib import Path

from .checkpoints import RECIPES, cache_folder, made

folder = Path(sys.argv[1]) if sys.argv[1:] else cache_folder()
for name in RECIPES:
    began = time.monotonic()
    found = made(name, folder)
    file = (found / "model.safetensors").stat()
    print(f"{found}: {file.st_size:,} bytes, {512 * file.st_blocks:,} on disk, {time.monotonic() - began:.1f} s")
