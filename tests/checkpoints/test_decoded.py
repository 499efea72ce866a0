"""Tables that are stored quantised: decoded by rows, equal to the bit to the library that wrote them."""

from __future__ import annotations

import json
import pickle
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from numpy.typing import NDArray
from transformers.integrations.finegrained_fp8 import Fp8Dequantize, FP8Embedding
from transformers.integrations.gemma_quant import QuantizedEmbedding, QuantizedLinear

import hfposemb as hpe
from hfposemb.checkpoints.pickles.checkpoint import open_pickled
from hfposemb.checkpoints.quantised.code_values import round_in_place
from hfposemb.checkpoints.quantised.decoded import Decoded
from hfposemb.checkpoints.safetensors.checkpoint import Checkpoint
from hfposemb.errors import MissingTableError
from tests.conftest import Build
from tests.hub import FakeHub
from tests.support.checkpoints.quantised import (
    KEPT,
    MLX,
    TOKENS,
    affine,
    any_codes,
    decoded_in,
    decodes,
    llama,
    of_codes,
    same_bits,
    saved,
)
from tests.support.checkpoints.repository import asked

# --- what other libraries decode --------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", [path.name for path in sorted(KEPT.iterdir())])
def test_decoded_tables_equal_what_their_library_decodes(library: str) -> None:
    expected = safetensors.torch.load_file(KEPT / library / "expected.safetensors")
    assert len(expected) > 10
    assert set(decoded_in(KEPT / library).names()) == set(expected)
    for name, wanted in expected.items():
        decodes(KEPT / library, name, wanted)


@pytest.mark.parametrize("mode", ["affine", "mxfp4", "nvfp4", "mxfp8"])
def test_tables_of_mlx_here(tmp_path: Path, mode: str) -> None:
    mx = pytest.importorskip("mlx.core")
    random = np.random.default_rng(0)
    known = {"affine": (64, 4), "mxfp4": (32, 4), "nvfp4": (16, 4), "mxfp8": (32, 8)}
    group, bits = known[mode]
    for dtype in (mx.float32, mx.float16, mx.bfloat16) if mode == "affine" else (mx.float32,):
        given = mx.array(random.normal(size=(50, 256)).astype(np.float32)).astype(dtype)
        found = mx.quantize(given, group_size=group, bits=bits, mode=mode)
        names = ("weight", "scales", "biases")
        tensors = {f"model.embed_tokens.{key}": one for key, one in zip(names, found, strict=False)}
        mx.save_safetensors(str(tmp_path / "model.safetensors"), tensors)
        config = {"quantization": {"group_size": group, "bits": bits, "mode": mode}}
        (tmp_path / "config.json").write_text(json.dumps(config))
        wanted = np.array(mx.dequantize(*found, group_size=group, bits=bits, mode=mode).astype(mx.float32))
        decodes(tmp_path, TOKENS, torch.from_numpy(wanted))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize(("width", "groups"), [(64, 1), (64, 4), (66, 1), (63, 1)])
def test_token_tables_of_gemma(tmp_path: Path, dtype: torch.dtype, bits: int, width: int, groups: int) -> None:
    module = QuantizedEmbedding(20, width, dtype, num_bits=bits)
    module.embedding_quantized.data = any_codes(module.embedding_quantized)
    module.embedding_scale.data = torch.rand(20, groups)
    config = {"dtype": str(dtype).removeprefix("torch."), "text_config": {"hidden_size": width}}
    state = {f"model.embed_tokens.{name}": tensor for name, tensor in module.state_dict().items()}
    decodes(saved(tmp_path, state, config), TOKENS, module.weight)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_heads_of_gemma(tmp_path: Path, bits: int) -> None:
    module = QuantizedLinear(64, 20, num_bits=bits)
    module.weight.data = any_codes(module.weight)
    module.weight_scale.data = torch.rand(20, 1)
    settings = {"quant_method": "gemma", "num_bits": 4, "module_quant_configs": {"(a+)+$": {"num_bits": bits}}}
    config = {"torch_dtype": "bfloat16", "hidden_size": 64, "quantization_config": settings}
    state = {f"lm_head.{name}": tensor for name, tensor in module.state_dict().items()}
    wanted = module._dequantize_weights(torch.bfloat16)
    decodes(saved(tmp_path, state, config), "lm_head.weight", wanted)


@pytest.mark.parametrize("stated", [2, 4])
def test_gemmas_bits_without_a_width_are_those_of_its_settings(tmp_path: Path, stated: int) -> None:
    tensors = {
        "e.embedding_quantized": any_codes(torch.zeros(5, 8, dtype=torch.uint8)),
        "e.embedding_scale": torch.ones(5, 1),
    }
    found = decoded_in(saved(tmp_path, tensors, {"quantization_config": {"num_bits": stated}}))
    assert found.info("e.weight").shape == (5, 64 // stated)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tables_of_8_bit_floats(tmp_path: Path, dtype: torch.dtype) -> None:
    module = FP8Embedding(20, 64)
    module.weight.data = torch.randn(20, 64).to(torch.float8_e4m3fn)
    module.weight_scale.data = torch.rand(1).to(dtype)
    state = {f"model.embed_tokens.{name}": tensor for name, tensor in module.state_dict().items()}
    decodes(saved(tmp_path / "one", state), TOKENS, module(torch.arange(20)))
    one = {name: tensor.reshape(()) if tensor.numel() == 1 else tensor for name, tensor in state.items()}
    decodes(saved(tmp_path / "scalar", one), TOKENS, module(torch.arange(20)))
    codes, scales = torch.randn(64, 96).to(torch.float8_e4m3fn), torch.rand(4, 3).to(dtype)
    config = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [16, 32]}}
    folder = saved(tmp_path / "blocks", {"lm_head.weight": codes, "lm_head.weight_scale_inv": scales}, config)
    wanted = Fp8Dequantize(None)._dequantize_one(codes, scales)
    decodes(folder, "lm_head.weight", wanted, ((0, None), (3, 7), (15, 40), (63, 64)))


def test_blocks_that_end_outside_a_table(tmp_path: Path) -> None:
    codes, scales = torch.randn(40, 50).to(torch.float8_e4m3fn), torch.rand(3, 2)
    config = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [16, 32]}}
    wanted = codes.float() * scales.repeat_interleave(16, 0)[:40].repeat_interleave(32, 1)[:, :50]
    tensors = {"lm_head.weight": codes, "lm_head.weight_scale_inv": scales}
    decodes(saved(tmp_path, tensors, config), "lm_head.weight", wanted, ((0, None), (17, 39), (39, 40)))


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_every_8_bit_float_without_scales(tmp_path: Path, dtype: torch.dtype) -> None:
    codes = torch.arange(256).to(torch.uint8).view(dtype).reshape(4, 64)
    found = decoded_in(saved(tmp_path, {"shared.weight": codes}))
    np.testing.assert_array_equal(found.read("shared.weight"), codes.float().numpy())


@pytest.mark.parametrize(("precision", "dtype"), [("F16", torch.float16), ("BF16", torch.bfloat16)])
def test_rounding_equals_torchs(precision: Any, dtype: torch.dtype) -> None:
    bits = np.arange(0, 2**32, 4093, dtype=np.uint64).astype(np.uint32)
    edges = np.array([0, 2**-14, 2**-15, 65504, 65519.99, 65520, np.inf, 6e-8, 3e-8, 2.9e-8], np.float32)
    values = np.concatenate([bits.view(np.float32), edges, -edges])
    values = values[~np.isnan(values)]
    wanted = torch.from_numpy(values).to(dtype)
    round_in_place(values, precision)
    same_bits(values, wanted)


# --- checkpoints with made codes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["folder", "hub"])
def test_a_quantised_model_is_read_whole(build: Build, hub: FakeHub, tmp_path: Path, where: str) -> None:
    folder, token, head = llama(build, tmp_path / "model")
    hub.add("a/model", {path.name: path for path in folder.iterdir()})
    found = hpe.extract(folder if where == "folder" else "a/model")
    same_bits(found.token.vectors, token)
    same_bits(found.head.vectors, head)
    assert found.token.provenance.stored_dtype == "4 bits, groups of 64 (MLX)"
    assert found.head.provenance.stored_dtype == "8 bits, groups of 32 (MLX)"
    parts = safetensors.torch.load_file(folder / "model.safetensors")
    stored = sum(part.numel() * part.element_size() for name, part in parts.items() if "embed_tokens" in name)
    assert found.token.provenance.nbytes == stored
    assert f"{TOKENS} is stored as 4 bits, groups of 64 (MLX); its rows are decoded" in found.notes
    assert not found.head.tied.tied
    np.testing.assert_allclose(found.inputs([5, 3, 9]).normed, token[[5, 3, 9]], rtol=1e-6)
    again = pickle.loads(pickle.dumps(found))
    assert np.array_equal(again.token.vectors, found.token.vectors)
    assert len(pickle.dumps(found.token)) < 20_000, "the location is pickled, not the rows"


def test_a_layer_that_is_quantised_is_decoded_for_its_logits(build: Build, tmp_path: Path) -> None:
    folder, _, _ = llama(build, tmp_path / "model")
    plain = safetensors.torch.load_file(folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    layer = {name for name in plain if ".0." in name and name.endswith(("q_proj.weight", "k_proj.weight"))}
    parts = {name: affine(plain[name].numpy()) for name in layer}
    quantised = {name: one for name, one in plain.items() if name not in layer}
    for name, codes in parts.items():
        quantised |= {name.replace("weight", key): part for key, part in codes.items()}
    exact = plain | {name: of_codes(codes) for name, codes in parts.items()}
    one = hpe.extract(saved(tmp_path / "quantised", quantised, config))
    other = hpe.extract(saved(tmp_path / "exact", exact, config))
    ids = [5, 3, 9, 2]
    assert np.array_equal(one.logits(ids).total, other.logits(ids).total)


def test_an_adapter_is_applied_to_a_quantised_base(build: Build, tmp_path: Path) -> None:
    base, token, _ = llama(build, tmp_path / "base")
    first, second = torch.randn(2, len(token)), torch.randn(token.shape[1], 2)
    factors = {"lora_embedding_A": first, "lora_embedding_B": second}
    tensors = {f"base_model.model.model.embed_tokens.{name}": one for name, one in factors.items()}
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    safetensors.torch.save_file(tensors, adapter / "adapter_model.safetensors")
    stated = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["embed_tokens"]}
    (adapter / "adapter_config.json").write_text(json.dumps(stated))
    found = hpe.extract(adapter, base=base).token.vectors
    np.testing.assert_allclose(found, token + 2 * (second @ first).T, rtol=1e-4, atol=1e-5)
    config = json.loads((base / "config.json").read_text())
    config["quantization"]["model.embed_tokens"] = False
    (base / "config.json").write_text(json.dumps(config))
    with pytest.raises(MissingTableError, match="is not quantised, but it is stored with scales"):
        _ = hpe.extract(adapter, base=base).token


def test_pickled_codes_are_decoded_too(tmp_path: Path, forked: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HFPOSEMB_CACHE", str(tmp_path / "cache"))
    codes, scales = any_codes(torch.zeros(30, 16, dtype=torch.int8)), torch.rand(30, 1)
    torch.save({TOKENS: codes, f"{TOKENS}_scale": scales}, tmp_path / "pytorch_model.bin")
    (tmp_path / "config.json").write_text("{}")
    same_bits(Decoded(open_pickled(tmp_path / "pytorch_model.bin")).read(TOKENS, 3, 9), (codes * scales)[3:9])
    found = hpe.extract(tmp_path)
    same_bits(found.token.vectors, codes * scales)
    assert np.array_equal(pickle.loads(pickle.dumps(found.token)).vectors, found.token.vectors)


def test_sixty_four_rows_cost_sixty_four_rows(hub: FakeHub, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).standard_normal((8192, 768)).astype(np.float32)
    parts = affine(rows)
    folder = saved(tmp_path / "m", {f"model.embed_tokens.{name}": one for name, one in parts.items()}, MLX)
    hub.add("a/large", {path.name: path for path in folder.iterdir()})
    found = hpe.extract("a/large").token
    before = len(asked(hub, "cdn"))
    same_bits(found.rows(4000, 4064), of_codes(parts)[4000:4064])
    fetched = asked(hub, "cdn")[before:]
    assert sorted(fetched) == [64 * 12 * 4, 64 * 12 * 4, 64 * 96 * 4], "codes, scales and biases of these rows"
    asked_here: list[int] = []
    local = Checkpoint.open(folder)

    class Counting(Checkpoint):
        def codes(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
            read = local.codes(name, start, stop)
            asked_here.append(read.nbytes)
            return read

    here = Decoded(Counting(local.name, local.files, local.open_file), config=MLX)
    same_bits(here.read(TOKENS, 4000, 4064), of_codes(parts)[4000:4064])
    assert sum(asked_here) == sum(fetched)
    same_bits(found.vectors, of_codes(parts))


@pytest.mark.parametrize("bits", [3, 4])
def test_decoding_takes_little_more_memory_than_it_returns(tmp_path: Path, bits: int) -> None:
    rows = np.random.default_rng(0).standard_normal((20_000, 768)).astype(np.float32)
    tensors = {f"model.embed_tokens.{name}": one for name, one in affine(rows, bits=bits).items()}
    config = {"quantization": {"group_size": 64, "bits": bits}}
    found = decoded_in(saved(tmp_path, tensors, config))
    found.info(TOKENS)
    tracemalloc.start()
    table = found.read(TOKENS)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert table.nbytes < peak < 1.2 * table.nbytes
