"""Configurations with a field removed, against what transformers makes of them.

``python -m tests.architectures.removed [TYPE …]`` prints what differs, of all types if none is named.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

import hfposemb as hpe
from hfposemb.errors import HfposembError
from hfposemb.tables.encodings import Absolute, Alibi
from hfposemb.tables.rotary import Rotary
from tests.architectures.defaults import FIELDS
from tests.architectures.survey import model_types
from tests.architectures.tiny import build, workplace

_ROPE = ("rope_parameters", "rope_theta", "partial_rotary_factor", "rope_type", "model_type")


NOT_FILLED_IN = {
    "deepseek_v4": ("head_dim",),  # the file states what follows from it, which the class makes anew
    "unlimited_ocr": ("text_config.hidden_size",),
    "unlimited_ocr_text": ("hidden_size",),
    "rag": ("question_encoder.model_type",),
}
"""Fields that are not optional, or from which the class makes others anew that a file states."""


def without(config: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a configuration without each field in turn that says something of positions, with the field's path."""
    for name, value in config.items():
        where = f"{path}.{name}".strip(".")
        if (name in FIELDS or name in _ROPE) and where != "model_type":
            yield where, {other: one for other, one in config.items() if other != name}
        if isinstance(value, dict) and (
            "model_type" in value or name.startswith("rope") or path.endswith("rope_parameters")
        ):
            for inner, changed in without(value, where):
                yield inner, {**config, name: changed}


def facts(found: hpe.Embeddings) -> dict[str, Any]:
    """Return what was read of positions and of the first layer's input, as plain values."""
    said: dict[str, Any] = {}
    for key, one in found.positions.items():
        values: list[Any] = [one.kind]
        if isinstance(one, Rotary):
            turning = one.at(one.length)
            values += [one.layout, one.length, turning.attention_scaling, *np.round(turning.inv_freq, 12)]
        elif isinstance(one, Absolute):
            values += [one.offset, one.table.shape, one.grid]
        elif isinstance(one, Alibi):
            values += [one.scale, *np.round(one.slopes, 9)]
        said[key] = values
    try:
        recipe = found.recipe() if found.recipe is not None else None
        said["inputs"] = [getattr(recipe, "scale", None), getattr(getattr(recipe, "norm", None), "eps", None)]
    except HfposembError as error:
        said["inputs"] = type(error).__name__
    return said


def read(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is read of a checkpoint with another configuration."""
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    try:
        return facts(hpe.extract(folder))
    except HfposembError as error:
        return {"error": str(error).replace(str(folder), "")}


def differences(model_type: str) -> list[str]:
    """Return the fields of a tiny model whose absence is read otherwise than transformers fills them in."""
    with workplace() as folder:
        build(model_type).save_pretrained(folder)
        written = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        kind, found = CONFIG_MAPPING[model_type], []
        for field, config in without(written):
            if field in NOT_FILLED_IN.get(model_type, ()):
                continue
            try:
                full = json.loads(kind.from_dict(json.loads(json.dumps(config))).to_json_string(use_diff=False))
            except Exception:  # noqa: BLE001 - transformers needs the field
                continue
            ours, theirs = read(folder, config), read(folder, full)
            if ours != theirs:
                found.append(f"{model_type}: without {field}: {ours} / {theirs}")
        return found


if __name__ == "__main__":
    for one in sys.argv[1:] or model_types():
        try:
            for line in differences(one):
                print(line[:700])
        except Exception as error:  # noqa: BLE001 - a type that cannot be built small is not compared
            print(f"{one}: not compared: {type(error).__name__}: {str(error)[:80]}", file=sys.stderr)
