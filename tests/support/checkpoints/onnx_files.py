"""ONNX files made for tests: graphs as exporters write them, and large files with their tensors inline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Array = NDArray[Any]
IDS = ("input_ids", "token_type_ids", "position_ids", "attention_mask")


def model(
    nodes: Sequence[onnx.NodeProto],
    tensors: Mapping[str, Array | onnx.TensorProto],
    *,
    inputs: Sequence[str] = ("input_ids",),
    outputs: Sequence[str] = ("logits",),
) -> onnx.ModelProto:
    """Return a model of nodes and stored tensors; its inputs are row numbers."""
    made = [
        named(one, name) if isinstance(one, onnx.TensorProto) else numpy_helper.from_array(np.asarray(one), name)
        for name, one in tensors.items()
    ]
    graph = helper.make_graph(
        list(nodes),
        "main",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"]) for name in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        made,
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def named(tensor: onnx.TensorProto, name: str) -> onnx.TensorProto:
    tensor.name = name
    return tensor


def node(op: str, inputs: Sequence[str], *outputs: str, **attributes: Any) -> onnx.NodeProto:
    """Return a node; operators that are not ONNX's own are those of onnxruntime."""
    own = op in ("GatherBlockQuantized", "MatMulNBits", "DynamicQuantizeMatMul", "FusedMatMul")
    return helper.make_node(op, list(inputs), list(outputs), domain="com.microsoft" if own else None, **attributes)


def looked_up(table: str = "table", *, head: str = "head") -> list[onnx.NodeProto]:
    """Return the nodes of the smallest language model: a lookup and a product."""
    return [node("Gather", [table, "input_ids"], "hidden"), node("MatMul", ["hidden", head], "logits")]


def save(folder: Path, made: onnx.ModelProto, name: str = "model.onnx") -> Path:
    path = folder / name
    path.write_bytes(made.SerializeToString())
    return path


def random_table(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, np.float32).astype(dtype)


# --- files larger than memory -----------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    """Return a number as protobuf writes it."""
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes((*found, value))


def field(number: int, content: bytes | int) -> bytes:
    """Return a field of a message: a number, or bytes with their length."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def write_inline(path: Path, made: onnx.ModelProto, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Write a model with further float32 tensors inline, which are holes of zeros in the file."""
    heads, holes = [], []
    for name, shape in shapes.items():
        size = 4 * int(np.prod(shape))
        head = b"".join(field(1, length) for length in shape) + field(2, 1) + field(8, name.encode())
        head += varint(9 << 3 | 2) + varint(size)
        heads.append(varint(5 << 3 | 2) + varint(len(head) + size) + head)
        holes.append(size)
    graph = made.graph
    before = b"".join(field(1, one.SerializeToString()) for one in graph.node) + field(2, graph.name.encode())
    before += b"".join(field(5, one.SerializeToString()) for one in graph.initializer)
    after = b"".join(field(11, one.SerializeToString()) for one in graph.input)
    after += b"".join(field(12, one.SerializeToString()) for one in graph.output)
    whole = len(before) + sum(map(len, heads)) + sum(holes) + len(after)
    with path.open("wb") as file:
        file.write(field(1, 10) + varint(7 << 3 | 2) + varint(whole) + before)
        for head, size in zip(heads, holes, strict=True):
            file.write(head)
            file.seek(size, 1)
        file.write(after + field(8, field(1, b"") + field(2, 21)))


def packed(values: Array, bits: int) -> Array:
    """Pack the last axis of numbers, the lowest bits first, by the definition."""
    count = 8 // bits
    wide = -(-values.shape[-1] // count) * count
    padded = np.zeros((*values.shape[:-1], wide), np.uint8)
    padded[..., : values.shape[-1]] = values
    places = padded.reshape(*values.shape[:-1], wide // count, count) << (np.arange(count, dtype=np.uint8) * bits)
    return np.bitwise_or.reduce(places, axis=-1)
