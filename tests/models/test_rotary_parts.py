"""Frequencies of images, sound and proteins equal those of transformers' modules."""

from __future__ import annotations

import importlib
import json
from typing import Any

import numpy as np
import pytest
import torch

from hfposemb.models.positions.rotary_parts import part_frequencies, tower_encodings
from tests.architectures.tiny import build

SOME = [
    *(
        "dinov3_vit",
        "eomt_dinov3",
        "evolla",
        "glmasr",
        "kimi_k25",
        "lfm3_vl",
        "minimax_m3_vl",
        "muse_glimmer",
        "pixtral",
    ),
    *("qwen2_vl", "sam2_video", "sam3", "sapiens2", "step3p7", "t5gemma", "t5gemma2", "voxtral_realtime", "xcodec2"),
]
SINUSOIDS = ("RelPositionalEncoding", "TimeEmbedding", "PositionalEmbedding1D", "PositionRelationEmbedding")
"""Ends of the names of modules whose buffers are called inv_freq, but are frequencies of added sinusoids."""


def buffers(model: Any) -> dict[str, np.ndarray]:
    """Return the frequencies that the rotary modules of a model hold, by name."""
    found = {}
    for name, values in model.named_buffers():
        if name.endswith("inv_freq") and "original" not in name and values.numel():
            kind = type(model.get_submodule(name.rpartition(".")[0])).__name__
            if not kind.endswith(SINUSOIDS):
                found[name] = values.double().numpy()
    return found


def missed(model_type: str) -> list[str]:
    """Return the buffers of a type that no part's frequencies equal within 2e-5."""
    model: Any = build(model_type)
    ours = [one.frequencies for one in part_frequencies(json.loads(model.config.to_json_string(use_diff=False)))]
    return [
        name
        for name, theirs in buffers(model).items()
        if not any(one.shape == theirs.shape and np.abs(one - theirs).max() <= 2e-5 for one in ours)
    ]


@pytest.mark.parametrize("model_type", SOME)
def test_frequencies_of_all_parts_equal_the_modules(model_type: str) -> None:
    assert missed(model_type) == []


def test_axes_are_named() -> None:
    values = {"hidden_size": 64, "num_heads": 4, "rope_parameters": {"rope_type": "axial", "rope_theta": 100.0}}
    (one,) = part_frequencies({"vision_config": values})
    assert (one.part, one.kind, one.axes) == ("vision_config", "axial", ("row", "column"))
    np.testing.assert_allclose(one.frequencies, 100.0 ** -(np.arange(4) / 4))
    (three,) = part_frequencies({**values, "model_type": "minimax_m3_vl_vision"})
    assert three.axes == ("time", "row", "column")


@pytest.mark.parametrize(
    ("model_type", "turn"),
    [("sam3_vit_model", "sam3.apply_rotary_pos_emb_2d"), ("qwen2_vl_vision", "qwen2_vl.apply_rotary_pos_emb_vision")],
)
def test_layout_of_images_is_that_of_the_function_that_turns_them(model_type: str, turn: str) -> None:
    values = {"hidden_size": 64, "num_heads": 4, "rope_parameters": {"rope_type": "axial"}, "model_type": model_type}
    made = tower_encodings(part_frequencies(values)[0], values)
    package, name = turn.split(".")
    function = getattr(importlib.import_module(f"transformers.models.{package}.modeling_{package}"), name)
    angles = torch.arange(1.0, 9.0)
    both = angles.repeat_interleave(2) if package == "sam3" else angles.repeat(2)
    turned = function(torch.eye(16)[None, None, 0:1], torch.zeros(1, 1, 1, 16), both.cos()[None], both.sin()[None])[0]
    other = {1: "interleaved", 8: "half"}[int(turned.flatten()[1:].abs().argmax()) + 1]
    assert {one.layout for one in made.values()} == {other}


def test_what_states_no_rotary_positions_has_none() -> None:
    assert part_frequencies({}) == ()
    assert part_frequencies({"rope_parameters": [1], "text_config": {"rope_parameters": "x"}}) == ()
    assert part_frequencies({"rope_parameters": {"rope_type": "axial"}}) == ()
