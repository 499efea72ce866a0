"""Small quantised checkpoints, each with what the library that wrote it decodes: ``python -m`` this module NAME FOLDER.

The folders in ``quantised/`` were written by it with mlx 0.32.4, torchao 0.18.0 and compressed-tensors 0.20.0, so that
the tests need none of these. Each has ``model.safetensors`` and ``config.json``, and the decoded tables in
``expected.safetensors``, in the dtype in which the library computes them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROWS, WIDTH = 3, 128
KINDS = ("float32", "float16", "bfloat16")


def vectors(seed: int) -> Any:
    """Return vectors [rows, width] with a row of zeros and a large number."""
    found = np.random.default_rng(seed).normal(size=(ROWS, WIDTH)).astype(np.float32)
    found[1, :64], found[2, 5] = 0, 300
    return found


def mlx(folder: Path) -> None:
    """Write tables that MLX quantised, in every mode; the settings of each table stand in the configuration."""
    import mlx.core as mx

    tensors, expected, settings = {}, {}, {}
    modes = [("affine", group, bits) for group in (32, 64, 128) for bits in (1, 2, 3, 4, 5, 6, 8)]
    for mode, group, bits in [*modes, ("mxfp4", 32, 4), ("nvfp4", 16, 4), ("mxfp8", 32, 8)]:
        for kind in KINDS if mode == "affine" and group == 64 else ("bfloat16",):
            module = f"{mode}_{group}_{bits}_{kind}"
            given = mx.array(vectors(bits)).astype(getattr(mx, kind))
            found = mx.quantize(given, group_size=group, bits=bits, mode=mode)
            tensors |= {f"{module}.{key}": one for key, one in zip(("weight", "scales", "biases"), found, strict=False)}
            expected[f"{module}.weight"] = mx.dequantize(*found, group_size=group, bits=bits, mode=mode)
            settings[module] = {"group_size": group, "bits": bits, "mode": mode}
    mx.save_safetensors(str(folder / "model.safetensors"), tensors)
    mx.save_safetensors(str(folder / "expected.safetensors"), expected)
    _write_config(folder, {"quantization": {"group_size": 64, "bits": 4, **settings}})


def torchao(folder: Path) -> None:
    """Write token tables and linear layers that torchao quantised."""
    import safetensors.torch
    import torch
    from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
    from torchao.quantization import Float8WeightOnlyConfig, Int8WeightOnlyConfig, IntxWeightOnlyConfig, quantize_
    from torchao.quantization.granularity import PerAxis, PerGroup

    configs = {
        "int2": IntxWeightOnlyConfig(weight_dtype=torch.int2, granularity=PerGroup(16)),
        "int4": IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32)),
        "int8": IntxWeightOnlyConfig(weight_dtype=torch.int8, granularity=PerAxis(0)),
        "rows": Int8WeightOnlyConfig(),
        "float": Float8WeightOnlyConfig(),
    }
    model = torch.nn.ModuleDict()
    for name, config in configs.items():
        for kind in KINDS:
            module = torch.nn.Linear(WIDTH, ROWS, bias=False) if name == "float" else torch.nn.Embedding(ROWS, WIDTH)
            module.weight = torch.nn.Parameter(torch.from_numpy(vectors(len(model))).to(getattr(torch, kind)))
            quantize_(module, config, filter_fn=lambda found, _: hasattr(found, "weight"))
            model[f"{name}_{kind}"] = module
    state = model.state_dict()
    expected = {name: tensor.dequantize() for name, tensor in state.items()}
    tensors, metadata = flatten_tensor_state_dict(state)
    safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata)
    safetensors.torch.save_file(expected, folder / "expected.safetensors")
    _write_config(folder, {"quantization_config": {"quant_method": "torchao"}})


def compressed_tensors(folder: Path) -> None:
    """Write linear layers that compressed-tensors compressed, in its formats."""
    import safetensors.torch
    import torch
    from compressed_tensors.compressors.mxfp4.base import MXFP4PackedCompressor
    from compressed_tensors.compressors.naive_quantized.base import NaiveQuantizationCompressor
    from compressed_tensors.compressors.nvfp4.base import NVFP4PackedCompressor
    from compressed_tensors.compressors.pack_quantized.base import PackedQuantizationCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    random = torch.Generator().manual_seed(0)

    def scales(groups: int, largest: float) -> Any:
        return (torch.rand((ROWS, groups), generator=random) + 0.01) * largest

    cases: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
        "nvfp4": (
            NVFP4PackedCompressor,
            {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16},
            {"weight_scale": scales(8, 300), "weight_global_scale": torch.tensor([700.0])},
        ),
        "mxfp4": (
            MXFP4PackedCompressor,
            {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32},
            {"weight_scale": 2.0 ** torch.arange(-5, 7).reshape(ROWS, 4)},
        ),
    }
    for kind in KINDS:
        rows = {"weight_scale": scales(1, 0.05).to(getattr(torch, kind))}
        channel = {"num_bits": 8, "strategy": "channel"}
        for bits in (2, 3, 4, 5, 6, 8):
            state = {"weight_scale": scales(4, 0.3).to(getattr(torch, kind))}
            args = {"num_bits": bits, "type": "int", "strategy": "group", "group_size": 32}
            cases[f"packed_{bits}_{kind}"] = (PackedQuantizationCompressor, args, state)
        args = {"num_bits": 4, "type": "int", "strategy": "channel"}
        cases[f"packed_rows_{kind}"] = (PackedQuantizationCompressor, args, rows)
        cases[f"int8_{kind}"] = (NaiveQuantizationCompressor, channel | {"type": "int"}, rows)
        shifted = rows | {"weight_zero_point": torch.tensor([[-20], [0], [13]], dtype=torch.int8)}
        cases[f"shifted_{kind}"] = (NaiveQuantizationCompressor, channel | {"type": "int", "symmetric": False}, shifted)
        cases[f"float8_{kind}"] = (NaiveQuantizationCompressor, channel | {"type": "float"}, rows)
    tensors, expected = {}, {}
    for seed, (module, (compressor, args, state)) in enumerate(cases.items()):
        scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**args))
        kept = compressor.compress({"weight": torch.from_numpy(vectors(seed))} | state, scheme)
        expected[f"{module}.weight"] = compressor.decompress(dict(kept), scheme)["weight"]
        tensors |= {f"{module}.{key}": one.clone() for key, one in kept.items()}
    safetensors.torch.save_file(tensors, folder / "model.safetensors")
    safetensors.torch.save_file(expected, folder / "expected.safetensors")
    _write_config(folder, {"quantization_config": {"quant_method": "compressed-tensors"}})


def _write_config(folder: Path, config: dict[str, Any]) -> None:
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")


WRITERS: dict[str, Callable[[Path], None]] = {"mlx": mlx, "torchao": torchao, "compressed_tensors": compressed_tensors}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=WRITERS)
    parser.add_argument("folder", type=Path)
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    WRITERS[chosen.name](chosen.folder)
