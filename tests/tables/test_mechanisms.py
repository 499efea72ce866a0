"""Which row stands for which distance, against the functions with which models choose theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import hfposemb as hpe
from hfposemb.models.positions.position_mechanisms import keys
from hfposemb.tables.encodings import Absolute, Convolution, NoPositions, RelativeBias, RelativeTable
from tests.architectures.tiny import build

FAR = np.arange(-39, 40)
"""Signed distances, key − query, that a model with 40 positions has."""


def saved(model_type: str, folder: Path, **changes: object) -> Any:
    """Return a tiny model that is saved in a folder."""
    model: Any = build(model_type, changes=changes)
    model.save_pretrained(folder)
    return model


@pytest.mark.parametrize(("buckets", "farthest"), [(-1, -1), (8, 40), (4, -1)])
def test_debertas_rows_are_those_its_attention_gathers(tmp_path: Path, buckets: int, farthest: int) -> None:
    from transformers.models.deberta_v2.modeling_deberta_v2 import build_relative_position

    changes = {"relative_attention": True, "position_buckets": buckets, "max_relative_positions": farthest}
    saved("deberta-v2", tmp_path, **changes)
    found = hpe.extract(tmp_path).positions["relative"]
    assert isinstance(found, RelativeTable)
    stored = hpe.extract(tmp_path)
    table = next(
        value
        for name, value in load_file(tmp_path / "model.safetensors").items()
        if name.endswith("rel_embeddings.weight")
    )
    longest = farthest if farthest > 0 else 40
    span = buckets if buckets > 0 else longest
    queries = torch.zeros(1, 40, 4)
    chosen = build_relative_position(queries, queries, bucket_size=buckets, max_position=longest).reshape(40, 40)
    theirs = table[torch.clamp(chosen + span, 0, 2 * span - 1)].numpy()
    distances = np.arange(40)[None, :] - np.arange(40)[:, None]
    assert np.array_equal(np.asarray(found.rows, np.float32)[found.row_of(distances)], theirs)
    assert stored.position.kind == "learned"


def test_xlnets_distances_are_its_sinusoids(tmp_path: Path) -> None:
    model = saved("xlnet", tmp_path)
    found = hpe.extract(tmp_path).position
    assert isinstance(found, RelativeTable)
    theirs = model.relative_positional_encoding(40, 40)[:, 0].detach().numpy()  # queries − keys from 40 to −39
    ours = np.asarray(found.rows)[found.row_of(-np.arange(39, -40, -1))]
    assert np.abs(ours - theirs[1:]).max() < 1e-5
    assert found.profile(np.array([0]))[0] == pytest.approx(1.0)


def test_sams_rows_and_columns_are_those_its_attention_adds(tmp_path: Path) -> None:
    model = saved("sam_vision_model", tmp_path)
    found = hpe.extract(tmp_path)
    attention = model.vision_encoder.layers[0].attn if hasattr(model, "vision_encoder") else model.layers[0].attn
    for axis, table in (("row", attention.rel_pos_h), ("column", attention.rel_pos_w)):
        encoding = next(encoding for key, encoding in found.positions.items() if key.endswith(axis))
        assert isinstance(encoding, RelativeTable)
        size = (len(table) + 1) // 2
        theirs = attention.get_rel_pos(size, size, table).detach().numpy()
        distances = np.arange(size)[None, :] - np.arange(size)[:, None]
        assert np.array_equal(np.asarray(encoding.rows, np.float32)[encoding.row_of(distances)], theirs)
        assert np.isnan(encoding.profile(np.array([size]))).all()


@pytest.mark.parametrize("model_type", ["mpnet", "wavlm", "longt5", "speecht5", "wav2vec2-bert", "granite_speech"])
def test_relative_positions_have_numbers_for_every_distance(tmp_path: Path, model_type: str) -> None:
    saved(model_type, tmp_path)
    found = hpe.extract(tmp_path)
    relative = [one for one in found.positions.values() if isinstance(one, RelativeBias | RelativeTable)]
    assert relative
    for encoding in relative:
        assert np.isfinite(encoding.profile(FAR[30:50])).any()
        assert encoding.matrix(12).shape == (12, 12)


def test_convolutions_state_their_kernel(tmp_path: Path) -> None:
    model = saved("wav2vec2", tmp_path)
    found = hpe.extract(tmp_path).position
    assert isinstance(found, Convolution)
    own = model.encoder.pos_conv_embed.conv
    assert (found.width, found.groups) == (own.kernel_size[0], own.groups)


def test_recurrent_models_say_what_carries_the_order(tmp_path: Path) -> None:
    saved("mamba", tmp_path)
    found = hpe.extract(tmp_path).position
    assert isinstance(found, NoPositions)
    assert "recurrence" in found.reason


@pytest.mark.parametrize(
    ("model_type", "first"), [("marian", 0), ("m2m_100", 2), ("xglm", 2), ("ctrl", 0), ("kosmos_2_text_model", 2)]
)
def test_computed_sinusoids_equal_the_models_own(tmp_path: Path, model_type: str, first: int) -> None:
    model = saved(model_type, tmp_path)
    found = hpe.extract(tmp_path).position
    assert isinstance(found, Absolute)
    assert found.kind == "sinusoidal"
    assert found.offset == first
    own = next((m for n, m in model.named_modules() if n.endswith("embed_positions")), None)
    weights = model.pos_encoding if own is None else getattr(own, "weights", getattr(own, "weight", None))
    theirs = weights.detach().float().numpy()[first:]
    rows = min(len(theirs), found.table.shape[0])
    assert rows >= 20
    assert np.abs(found.table.vectors[:rows] - theirs[:rows]).max() < 1e-5


@pytest.mark.parametrize(
    ("model_type", "kinds"),
    [
        ("pegasus", {"encoder": "sinusoidal", "decoder": "sinusoidal"}),
        ("whisper", {"encoder": "sinusoidal", "decoder": "learned"}),
        ("bart", {"encoder": "learned", "decoder": "learned"}),
        ("roformer", {"position": "rotary"}),
    ],
)
def test_sinusoids_that_are_stored_are_called_so(tmp_path: Path, model_type: str, kinds: dict[str, str]) -> None:
    saved(model_type, tmp_path)
    assert {key: one.kind for key, one in hpe.extract(tmp_path).positions.items()} == kinds


def test_keys_tell_towers_and_axes_apart() -> None:
    assert keys([("", "")]) == ["position"]
    assert keys([("vision", "")]) == ["position"]
    assert keys([("encoder", ""), ("decoder", "")]) == ["encoder", "decoder"]
    assert keys([("", ""), ("vision", "")]) == ["text", "vision"]
    assert keys([("", ""), ("", "x"), ("", "y")]) == ["position", "x", "y"]
    assert keys([("vision", "row"), ("text", "full_attention")]) == ["vision.row", "text.full_attention"]
    assert keys([("", ""), ("", "")]) == ["position", "position 2"]
