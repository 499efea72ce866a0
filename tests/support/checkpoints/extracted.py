"""Checkpoints of given tables, opened."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

import hfposemb as hpe


def extracted(folder: Path, tables: Mapping[str, Any], config: Mapping[str, Any]) -> hpe.Embeddings:
    """Write arrays or tensors and a configuration into a folder, and return what is extracted from it."""
    folder.mkdir(exist_ok=True)
    tensors = {name: torch.as_tensor(values).clone() for name, values in tables.items()}
    safetensors.torch.save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return hpe.extract(folder)
