"""Formats whose token table is stored as codes: GGUF, MLX, ONNX and the quantised tables of checkpoints."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import onnx
import safetensors.torch
import torch
from gguf import quants
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from safetensors import safe_open
from transformers.integrations.finegrained_fp8 import FP8Embedding
from transformers.integrations.gemma_quant import QuantizedEmbedding

from tests.formats.formats import ROWS, WIDTH, Format, Made, random_rows
from tests.support.checkpoints.gguf_models import Model
from tests.support.checkpoints.onnx_files import looked_up, model, node, packed
from tests.support.checkpoints.onnx_files import save as save_onnx
from tests.support.checkpoints.quantised import KEPT, TOKENS, any_codes, saved

TABLE = random_rows()
BLOCKS = 2
"""Blocks of 256 numbers in each row of a K-quantised table."""


def floats(tensor: torch.Tensor) -> NDArray[np.float32]:
    """Return a tensor's numbers as float32."""
    return tensor.detach().float().numpy()


# --- GGUF -------------------------------------------------------------------------------------------------------------


def blocks(kind: str) -> NDArray[np.uint8]:
    """Return random blocks of a type [rows, bytes], with scales that are no NaN."""
    width, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    return np.random.default_rng(0).integers(0, 60, (ROWS, BLOCKS * 256 // width * size), dtype=np.uint8)


def in_gguf(kind: str, *, splits: int = 0) -> Callable[[Path], Made]:
    """Return a maker of a GGUF file whose token table has a type."""

    def make(root: Path) -> Made:
        known = gguf.GGMLQuantizationType[kind]
        raw: NDArray[Any] = TABLE.astype(np.float16) if kind == "F16" else blocks(kind)
        expected = raw.astype(np.float32) if kind == "F16" else quants.dequantize(raw, known)
        norm = np.ones(expected.shape[1], np.float32)
        keys = {"embedding_length": expected.shape[1], "block_count": 1, "attention.head_count": 2}
        tensors = {"output_norm.weight": norm, "token_embd.weight": (kind, raw)}
        Model("llama", keys, tensors).write(root / "model.gguf", most_tensors=splits)
        return Made(expected)

    return make


# --- what other libraries wrote ---------------------------------------------------------------------------------------


def of_library(library: str, module: str) -> Callable[[Path], Made]:
    """Return a maker of a table that a library quantised: three rows of it, again and again."""

    def make(root: Path) -> Made:
        times = ROWS // 3
        with safe_open(KEPT / library / "model.safetensors", "pt") as file:
            metadata = dict(file.metadata() or {})
            parts = {name: file.get_tensor(name) for name in file.keys() if name.startswith(f"{module}.")}  # noqa: SIM118
        expected = safetensors.torch.load_file(KEPT / library / "expected.safetensors")[f"{module}.weight"]
        config = json.loads((KEPT / library / "config.json").read_text())
        tensors = {_table(name, module): _repeated(part, times) for name, part in parts.items()}
        stated = {_table(name, module): text for name, text in metadata.items() if name.startswith(f"{module}.")}
        if library == "torchao":
            stated["tensor_names"] = json.dumps([*stated])
        quantisation = config.get("quantization", {})
        if module in quantisation:
            config = {"quantization": quantisation[module]}
        safetensors.torch.save_file(tensors, root / "model.safetensors", stated)
        (root / "config.json").write_text(json.dumps(config))
        return Made(np.tile(floats(expected), (times, 1)))

    return make


def _table(name: str, module: str) -> str:
    return TOKENS.removesuffix(".weight") + name.removeprefix(module)


def _repeated(part: torch.Tensor, times: int) -> torch.Tensor:
    """Return a part of three rows, or the shape of a table, for more rows."""
    if part.ndim == 1 and part.tolist() == [3, WIDTH]:
        return torch.tensor([3 * times, WIDTH])
    return part.repeat(times, 1) if part.ndim == 2 else part


# --- Gemma and FP8 ----------------------------------------------------------------------------------------------------


def gemma(bits: int) -> Callable[[Path], Made]:
    """Return a maker of a table as Gemma's quantised checkpoints store it."""

    def make(root: Path) -> Made:
        module = QuantizedEmbedding(ROWS, WIDTH, torch.float32, num_bits=bits)
        module.embedding_quantized.data = any_codes(module.embedding_quantized)
        module.embedding_scale.data = torch.rand(ROWS, 1)
        state = {f"model.embed_tokens.{name}": tensor for name, tensor in module.state_dict().items()}
        saved(root, state, {"dtype": "float32", "hidden_size": WIDTH})
        return Made(floats(module.weight))

    return make


def fp8(root: Path) -> Made:
    """Write a table of 8-bit floats with one scale."""
    module = FP8Embedding(ROWS, WIDTH)
    module.weight.data = torch.from_numpy(TABLE).to(torch.float8_e4m3fn)
    module.weight_scale.data = torch.full((1,), 0.37)
    saved(root, {f"model.embed_tokens.{name}": tensor for name, tensor in module.state_dict().items()})
    return Made(floats(module(torch.arange(ROWS))))


def modelopt(root: Path) -> Made:
    """Write a table of 4-bit floats with scales of blocks, and one of the table."""
    four = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    codes = any_codes(torch.zeros(ROWS, WIDTH // 2, dtype=torch.uint8))
    scales, overall = torch.rand(ROWS, WIDTH // 16).to(torch.float8_e4m3fn), torch.tensor(0.013)
    numbers = torch.cat([four, -four])[torch.stack([codes & 15, codes >> 4], -1).reshape(ROWS, WIDTH).long()]
    saved(root, {TOKENS: codes, f"{TOKENS}_scale": scales, f"{TOKENS}_scale_2": overall})
    return Made(floats(numbers * (scales.float() * overall).repeat_interleave(16, 1)))


# --- methods that leave the token table alone -------------------------------------------------------------------------

LAYER = "model.layers.0.self_attn.q_proj"
CODES, SCALES = torch.ones((16, 16), dtype=torch.int32), torch.ones((1, 16), dtype=torch.float16)
LINEAR: Mapping[str, Mapping[str, torch.Tensor]] = {
    "gptq": {"qweight": CODES, "qzeros": CODES, "scales": SCALES, "g_idx": torch.zeros(16, dtype=torch.int32)},
    "awq": {"qweight": CODES, "qzeros": CODES, "scales": SCALES},
    "bitsandbytes": {
        "weight": torch.ones((128, 1), dtype=torch.uint8),
        "weight.absmax": torch.ones(4),
        "weight.quant_map": torch.ones(16),
        "weight.quant_state.bitsandbytes__nf4": torch.ones(9, dtype=torch.uint8),
    },
    "hqq": {"W_q": torch.ones((8, 16), dtype=torch.uint8), "scale": SCALES, "zero": SCALES},
    "aqlm": {"codes": torch.ones((16, 2, 1), dtype=torch.int16), "codebooks": torch.ones((1, 256, 1, 8)),
             "scales": torch.ones((16, 1, 1, 1))},
    "fp8": {"weight": torch.ones((16, 16)).to(torch.float8_e4m3fn), "weight_scale_inv": torch.ones((1, 1))},
}  # fmt: skip


def left_alone(method: str) -> Callable[[Path], Made]:
    """Return a maker of a checkpoint whose linear layers and head are quantised, and whose token table is not."""

    def make(root: Path) -> Made:
        table = torch.from_numpy(TABLE).to(torch.bfloat16)
        tensors = {f"{module}.{name}": part for module in (LAYER, "lm_head") for name, part in LINEAR[method].items()}
        config = {"model_type": "llama", "vocab_size": ROWS, "hidden_size": WIDTH, "num_attention_heads": 2}
        config |= {"architectures": ["LlamaForCausalLM"], "tie_word_embeddings": False}
        saved(root, {TOKENS: table, **tensors}, {**config, "quantization_config": {"quant_method": method}})
        return Made(floats(table))

    return make


# --- ONNX -------------------------------------------------------------------------------------------------------------


def onnx_inline(root: Path) -> Made:
    """Write a model with its tensors inside."""
    save_onnx(root, model(looked_up(), {"table": TABLE, "head": TABLE.T.copy()}))
    return Made(TABLE)


def onnx_external(root: Path) -> Made:
    """Write a model with its tensors in a file of their own."""
    made = model(looked_up(), {"table": TABLE, "head": TABLE.T.copy()})
    options: dict[str, Any] = {"location": "model.onnx_data", "size_threshold": 0}
    onnx.save_model(made, root / "model.onnx", save_as_external_data=True, **options)
    return Made(TABLE)


def onnx_blocks(root: Path) -> Made:
    """Write a model whose table is looked up in packed blocks of 4 bits."""
    draw = np.random.default_rng(0)
    values = draw.integers(16, size=(ROWS, WIDTH), dtype=np.uint8)
    scales = np.abs(random_rows(ROWS, WIDTH // 32, seed=1))
    options = {"bits": 4, "block_size": 32, "gather_axis": 0, "quantize_axis": 1}
    lookup = node("GatherBlockQuantized", ["codes", "input_ids", "scales"], "hidden", **options)
    save_onnx(root, model([lookup], {"codes": packed(values, 4), "scales": scales}, outputs=["hidden"]))
    return Made((values.astype(np.float32) - 8) * np.repeat(scales, 32, axis=1))


def onnx_codes(root: Path) -> Made:
    """Write a model whose table has 8 bits, one scale and a zero point."""
    values = np.random.default_rng(0).integers(256, size=(ROWS, WIDTH), dtype=np.uint8)
    zero = helper.make_tensor("zero", TensorProto.UINT8, [], [131])
    tensors = {"codes": numpy_helper.from_array(values), "scale": np.asarray(0.02, np.float32), "zero": zero}
    nodes = [
        node("DequantizeLinear", ["codes", "scale", "zero"], "table"),
        node("Gather", ["table", "input_ids"], "hidden"),
    ]
    save_onnx(root, model(nodes, tensors, outputs=["hidden"]))
    return Made((values.astype(np.float32) - 131) * np.float32(0.02))


HUB_OR_FILE = "`owner/name`, `./folder`"
GGUF_FILE = "`owner/name/model.gguf`, `./model.gguf`"
ONNX_FILE = "`owner/name`, `owner/name/onnx/model.onnx`, `./model.onnx`"
ALONE = "the token table as stored; a quantised head is refused with its name and type"

QUANTISED = (
    Format("GGUF, F16", GGUF_FILE, "as stored", in_gguf("F16")),
    *(
        Format(f"GGUF, {kind}", GGUF_FILE, "decoded as `gguf` does, to the bit", in_gguf(kind))
        for kind in ("Q8_0", "Q4_K", "Q6_K")
    ),
    Format("GGUF, split", "`./model-00001-of-00002.gguf`, `./folder`", "one model", in_gguf("Q8_0", splits=1)),
    Format(
        "MLX, 4 bits", HUB_OR_FILE, "codes × scales + biases, 1 to 8 bits", of_library("mlx", "affine_64_4_bfloat16")
    ),
    Format("MLX, mxfp4", HUB_OR_FILE, "codes × scales; nvfp4 and mxfp8 too", of_library("mlx", "mxfp4_32_4_bfloat16")),
    Format("Gemma, 8 bits", HUB_OR_FILE, "codes × scales of rows or blocks", gemma(8)),
    Format("Gemma, 4 bits", HUB_OR_FILE, "the same; 2 bits too", gemma(4)),
    Format("FP8", HUB_OR_FILE, "8-bit floats × the scale of the table, its rows or blocks", fp8),
    Format("torchao", HUB_OR_FILE, "integers and 8-bit floats × scales", of_library("torchao", "int4_bfloat16")),
    Format(
        "compressed-tensors",
        HUB_OR_FILE,
        "packed integers, 8-bit integers and floats, mxfp4 and nvfp4 × scales; asymmetric codes are not read",
        of_library("compressed_tensors", "packed_4_bfloat16"),
    ),
    Format("ModelOpt, NVFP4", HUB_OR_FILE, "4-bit floats × scales of blocks × the scale of the table", modelopt),
    *(
        Format(name, HUB_OR_FILE, ALONE, left_alone(name.lower()))
        for name in ("bitsandbytes", "GPTQ", "AWQ", "HQQ", "AQLM")
    ),
    Format("ONNX", ONNX_FILE, "the tensors that the graph looks up", onnx_inline),
    Format("ONNX, external data", ONNX_FILE, "the same, from the file that has them", onnx_external),
    Format("ONNX, blocks", ONNX_FILE, "`GatherBlockQuantized`: (code − zero point) × scale", onnx_blocks),
    Format("ONNX, 8 bits", ONNX_FILE, "`DequantizeLinear`: (code − zero point) × scale", onnx_codes),
)
"""Rows of the table."""
