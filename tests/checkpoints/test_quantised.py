"""Quantised checkpoints: embeddings that were left alone are read, codes are refused in one line, never shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

import hfposemb as hpe
from hfposemb.errors import MissingTableError, SourceError
from tests.conftest import Build
from tests.hub import FakeHub

EMBEDDED = "embed_tokens.weight"


def quantised(model: Any, folder: Path, method: str) -> None:
    """Save a model whose linear layers are stored as a method of quantisation stores them, with made-up codes."""
    model.save_pretrained(folder)
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    for name in [name for name in tensors if name.endswith("_proj.weight")]:
        module = name.removesuffix(".weight")
        out, width = tensors.pop(name).shape
        codes = torch.ones((max(width // 8, 1), out), dtype=torch.int32)
        scales = torch.ones((1, out), dtype=torch.float16)
        tensors |= {
            "gptq": {f"{module}.qweight": codes, f"{module}.qzeros": codes, f"{module}.scales": scales}
            | {f"{module}.g_idx": torch.zeros(width, dtype=torch.int32)},
            "awq": {f"{module}.qweight": codes.T.contiguous(), f"{module}.qzeros": codes, f"{module}.scales": scales},
            "bitsandbytes": {
                name: torch.ones((out * width // 2, 1), dtype=torch.uint8),
                f"{name}.absmax": torch.ones(4),
                f"{name}.quant_map": torch.ones(16),
                f"{name}.quant_state.bitsandbytes__nf4": torch.ones(9, dtype=torch.uint8),
            },
            "mxfp4": {
                f"{module}_blocks": torch.ones((out, 1, 16), dtype=torch.uint8),
                f"{module}_scales": torch.ones((out, 1), dtype=torch.uint8),
            },
            "fp8": {
                name: torch.ones((out, width)).to(torch.float8_e4m3fn),
                f"{name}_scale_inv": torch.ones((1, 1)),
            },
        }[method]
    apart = {name: tensor.clone() for name, tensor in tensors.items()}
    safetensors.torch.save_file(apart, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": method, "bits": 4, "modules_to_not_convert": ["lm_head"]}
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("method", ["gptq", "awq", "bitsandbytes", "mxfp4", "fp8"])
@pytest.mark.parametrize("where", ["folder", "hub"])
def test_embeddings_that_are_left_alone(build: Build, hub: FakeHub, tmp_path: Path, method: str, where: str) -> None:
    model: Any = build("llama").to(torch.bfloat16)
    quantised(model, tmp_path / "model", method)
    hub.add("a/quantised", {path.name: path for path in (tmp_path / "model").iterdir()})
    found = hpe.extract(tmp_path / "model" if where == "folder" else "a/quantised")
    table = model.get_input_embeddings().weight.detach().float().numpy()
    np.testing.assert_array_equal(found.token.vectors, table)
    assert found.position.kind == "rotary"
    np.testing.assert_array_equal(found.inputs([5, 3, 9]).normed, table[[5, 3, 9]])


INTEGERS = torch.ones((61, 16), dtype=torch.int8)
EIGHT = torch.ones((61, 16)).to(torch.float8_e4m3fn)
CODED: dict[str, dict[str, torch.Tensor]] = {
    "I8": {EMBEDDED: INTEGERS},
    "I8 with embed_tokens.SCB": {EMBEDDED: INTEGERS, "embed_tokens.SCB": torch.ones(61)},
    "U8 with embed_tokens.weight.absmax": {
        EMBEDDED: torch.ones((61 * 8, 1), dtype=torch.uint8),
        f"{EMBEDDED}.absmax": torch.ones(61),
    },
    "F8_E4M3": {EMBEDDED: EIGHT},
    "F8_E4M3 with embed_tokens.weight_scale": {EMBEDDED: EIGHT, f"{EMBEDDED}_scale": torch.ones(1)},
    "F8_E4M3 with embed_tokens.weight_scale_inv": {EMBEDDED: EIGHT, f"{EMBEDDED}_scale_inv": torch.ones(1, 1)},
    "BF16 with embed_tokens.weight_scale_inv": {
        EMBEDDED: torch.ones((61, 16), dtype=torch.bfloat16),
        f"{EMBEDDED}_scale_inv": torch.ones(1, 1),
    },
    "U32 with embed_tokens.scales": {
        EMBEDDED: torch.ones((61, 2), dtype=torch.uint32),
        "embed_tokens.scales": torch.ones((61, 1), dtype=torch.float16),
        "embed_tokens.biases": torch.ones((61, 1), dtype=torch.float16),
    },
    "I32 with embed_tokens.scales": {
        "embed_tokens.qweight": torch.ones((61, 2), dtype=torch.int32),
        "embed_tokens.scales": torch.ones((61, 1), dtype=torch.float16),
    },
    "I32 with embed_tokens.weight_scale": {
        "embed_tokens.weight_packed": torch.ones((61, 2), dtype=torch.int32),
        "embed_tokens.weight_scale": torch.ones((61, 1), dtype=torch.float16),
        "embed_tokens.weight_shape": torch.tensor([61, 16]),
    },
}


@pytest.mark.parametrize("stored", CODED)
@pytest.mark.parametrize("config", [True, False])
@pytest.mark.parametrize("where", ["folder", "hub"])
def test_codes_are_refused(
    build: Build, hub: FakeHub, tmp_path: Path, stored: str, *, config: bool, where: str
) -> None:
    folder = tmp_path / "model"
    build("llama").save_pretrained(folder)  # type: ignore[operator]
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    del tensors[EMBEDDED]
    safetensors.torch.save_file(tensors | CODED[stored], folder / "model.safetensors", {"format": "pt"})
    if not config:
        (folder / "config.json").unlink()
    hub.add("a/coded", {path.name: path for path in folder.iterdir()})
    found = hpe.extract(folder if where == "folder" else "a/coded")
    assert "token" not in found.tables
    for ask in (lambda: found.token, lambda: found.inputs([1])):
        with pytest.raises(MissingTableError) as caught:
            ask()
        assert str(caught.value).isprintable()
    with pytest.raises(MissingTableError) as caught:
        _ = found.token
    assert f"is stored as {stored}" in str(caught.value)
    assert "use the full-precision checkpoint" in str(caught.value)
    assert any(f"is stored as {stored}" in note for note in found.notes), "hfposemb info prints notes"
    if config:
        assert found.position.kind == "rotary"


def test_codes_of_a_live_model() -> None:
    module = torch.nn.Module()
    module.embed_tokens = torch.nn.Module()
    module.embed_tokens.register_buffer("weight", INTEGERS)
    with pytest.raises(SourceError, match="is stored as int8, not as plain vectors"):
        hpe.extract(module)
