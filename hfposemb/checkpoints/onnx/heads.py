"""Output head of an ONNX graph: the stored matrix of the last product before the logits."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ..strict_json import shortened
from .graph import Node
from .matrices import scales_fit, stored_table
from .scopes import MOST_HOPS, Scope
from .tables import StoredTable

_AFTER = frozenset(("Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Tanh", "Slice"))
"""Operators between a head and the logits that keep one number per token in the same order."""

_WITH_NUMBER = frozenset(("Add", "Mul", "Div"))


@dataclass(frozen=True, slots=True)
class Head:
    """Output head of a graph.

    Attributes:
        table: Its vectors; ``None`` if there is none that can be read.
        bias: Tensor of its bias; "" if there is none.
        reason: Why there is no table.
    """

    table: StoredTable | None
    bias: str = ""
    reason: str = ""


def find_head(scope: Scope, rows: frozenset[int]) -> Head:
    """Return the head that makes the logits.

    Args:
        scope: The scope of the model's own graph.
        rows: Numbers of rows of the token tables, one of which a head must have.
    """
    outputs = sorted(scope.graph.outputs, key=lambda name: "logits" not in name.lower())
    found = [_head_of(scope, output, rows) for output in outputs[:1]]
    if found and (found[0].table is not None or "logits" in outputs[0].lower()):
        return found[0]
    listed = ", ".join(map(shortened, outputs[:3])) or "none"
    return Head(None, reason=f"the graph computes no logits; its outputs are {listed}")


def _head_of(scope: Scope, output: str, rows: frozenset[int]) -> Head:
    """Return the head that makes one of the outputs."""
    name, bias = output, ""
    for _ in range(MOST_HOPS):
        made = scope.maker(name)
        if made is None:
            break
        scope, node = made
        if inner := next(scope.inner(node), None):
            place = node.outputs.index(name)
            if place >= len(inner.graph.outputs):
                break
            scope, name = inner, inner.graph.outputs[place]
            continue
        if (head := _product(scope, node)) is not None:
            return _checked(replace(head, bias=head.bias or bias), output, rows)
        step = _before(scope, node, rows)
        if step is None:
            return Head(None, reason=f"{output} comes from {node.op}, not from a product with a stored matrix")
        name, bias = step[0], step[1] or bias
    return Head(None, reason=f"{output} does not come from a product with a stored matrix")


def _checked(head: Head, output: str, rows: frozenset[int]) -> Head:
    if head.table is not None and head.table.rows not in rows:
        given = f"the last product before {output} gives {head.table.rows} numbers"
        return Head(None, reason=f"{given}, not one for each of the {max(rows)} tokens")
    return head


def _before(scope: Scope, node: Node, rows: frozenset[int]) -> tuple[str, str] | None:
    """Return the value that a node changes only by numbers per token or for all, and the tensor of a bias."""
    if node.op in _AFTER and node.inputs:
        return node.inputs[0], ""
    if node.op not in _WITH_NUMBER or len(node.inputs) != 2:
        return None
    for one, other in (node.inputs, node.inputs[::-1]):
        tensor = scope.tensor(one)
        size = 0 if tensor is None else math.prod(tensor.shape)
        if size == 1 or (node.op == "Add" and size in rows):
            return other, one if size > 1 else ""
    return None


def _product(scope: Scope, node: Node) -> Head | None:
    """Return the head of a node that is a product with a matrix; ``None`` if it is no product."""
    if len(node.inputs) < 2:
        return None
    match node.op:
        case "MatMul" | "FusedMatMul" | "Gemm":
            flips = node.numbers.get("transB", 0) == 1
            scale = node.floats.get("alpha", 1.0)
            table = stored_table(scope, node.inputs[1], turned=not flips) if scale == 1.0 else None
            bias = (*node.inputs, "", "")[2] if node.op == "Gemm" else ""
            return _stored(table, node, bias if bias and scope.tensor(bias) else "")
        case "MatMulNBits":
            return _stored(_packed(scope, node), node, (*node.inputs, *[""] * 6)[5])
        case "DynamicQuantizeMatMul":
            return _stored(_codes(scope, node, *(*node.inputs[1:], "", "", "")[:3]), node, (*node.inputs, *[""] * 5)[4])
        case "Mul":
            return _integers(scope, node)
    return None


def _stored(table: StoredTable | None, node: Node, bias: str) -> Head:
    if table is None:
        return Head(None, reason=f"the last {node.op} has no stored matrix that can be read by rows")
    return Head(table, bias)


def _packed(scope: Scope, node: Node) -> StoredTable | None:
    """Return the matrix of a MatMulNBits, whose rows are blocks of packed codes."""
    data, scales, zeros, order = (scope.tensor(name) if name else None for name in (*node.inputs[1:], *[""] * 4)[:4])
    number = node.numbers
    bits, block, width, rows = (number.get(name, 0) for name in ("bits", "block_size", "K", "N"))
    bits = bits or 4
    if data is None or scales is None or order is not None or data.dtype != "U8" or bits not in (2, 4, 8):
        return None
    if block < 16 or width < 1 or rows < 1 or (len(node.inputs) > 3 and node.inputs[3] and zeros is None):
        return None
    table = StoredTable(data, rows, width, bits=bits, per="block", block=block, scales=scales, zeros=zeros)
    table = replace(table, zero=2 ** (bits - 1))
    whole = rows * table.blocks * block * bits == 8 * math.prod(data.shape)
    return table if whole and scales_fit(table) else None


def _codes(scope: Scope, node: Node, codes: str, scale: str, zero: str) -> StoredTable | None:
    """Return the matrix of an integer product, [width, rows], with one scale for all or for each of its columns."""
    table = stored_table(scope, codes, turned=True)
    scales, zeros = scope.tensor(scale), scope.tensor(zero) if zero else None
    if table is None or table.per or scales is None or (zero and zeros is None):
        return None
    one = math.prod(scales.shape) == 1
    if zeros is not None and one != (math.prod(zeros.shape) == 1):
        return None
    table = replace(table, per="table" if one else "row", scales=scales, zeros=zeros)
    return table if scales_fit(table) else None


def _integers(scope: Scope, node: Node) -> Head | None:
    """Return the head of a MatMulInteger, whose result is cast and multiplied by both scales."""
    for one, other in (node.inputs, node.inputs[::-1]):
        made = scope.maker(one)
        if made is not None and made[1].op == "Cast" and made[1].inputs:
            made = made[0].maker(made[1].inputs[0])
        if made is None or made[1].op != "MatMulInteger" or len(made[1].inputs) < 2:
            continue
        holder, product = made
        scaling = scope.maker(other)
        names = scaling[1].inputs if scaling is not None and scaling[1].op == "Mul" else (other,)
        scale = next((name for name in names if scope.tensor(name) is not None), "")
        zero = (*product.inputs, "", "")[3]
        return _stored(_codes(holder, product, product.inputs[1], scale, zero), product, "")
    return None
