"""Stored matrices of an ONNX graph, through the operators that leave a row of them what it is."""

from __future__ import annotations

import math
from dataclasses import replace

from ..safetensors.checkpoint import PLAIN
from .graph import Initialiser, Node
from .scopes import MOST_HOPS, Scope
from .tables import CODED, Scales, StoredTable

_SAME = frozenset(("Identity", "Cast"))


def stored_table(scope: Scope, name: str, *, turned: bool = False) -> StoredTable | None:
    """Return the stored matrix that a value is, through casts, transpositions and scales.

    Args:
        scope: Scope of the value.
        name: Name of the value.
        turned: Whether the value's columns are the rows of the table.

    Returns:
        The table; ``None`` if the value is computed otherwise.
    """
    scaled = None
    for _ in range(MOST_HOPS):
        if (tensor := scope.tensor(name)) is not None:
            return _table_of(scope, tensor, turned, scaled)
        made = scope.maker(name)
        if made is None or not made[1].inputs:
            return None
        scope, node = made
        if node.op == "Transpose" and node.lists.get("perm", (1, 0)) == (1, 0):
            turned = not turned
        elif node.op == "DequantizeLinear" and scaled is None:
            scaled = (scope, node, turned)
        elif node.op not in _SAME:
            return None
        name = node.inputs[0]
    return None


def _table_of(
    scope: Scope, tensor: Initialiser, turned: bool, scaled: tuple[Scope, Node, bool] | None
) -> StoredTable | None:
    if len(tensor.shape) != 2 or 0 in tensor.shape or tensor.dtype not in (*PLAIN, *CODED):
        return None
    rows, width = reversed(tensor.shape) if turned else tensor.shape
    table = StoredTable(tensor, rows, width, turned)
    if scaled is None:
        return table
    holder, node, turned_after = scaled
    return dequantised(holder, node, table, swapped=turned_after)


def dequantised(
    scope: Scope, node: Node, table: StoredTable, *, swapped: bool = False, looked_up: bool = False
) -> StoredTable | None:
    """Return a table of codes with the scales of a DequantizeLinear.

    Args:
        scope: Scope of the node.
        node: The node.
        table: The table of codes.
        swapped: Whether the table's axes are swapped after the node.
        looked_up: Whether the node follows the lookup; its axes are those of the rows, the last of which is the
            table's.
    """
    scales = scope.tensor(node.inputs[1]) if len(node.inputs) > 1 else None
    zeros = scope.tensor(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] else None
    if scales is None or (zeros is None and len(node.inputs) > 2 and node.inputs[2]):
        return None
    count, block = math.prod(scales.shape), node.numbers.get("block_size", 0)
    axis = node.numbers.get("axis", 1)
    columns = axis != 0 if looked_up else axis in (1, -1)
    per: Scales = "table" if count == 1 and not block else "column" if columns != swapped else "row"
    if block:
        per = "block"
        if not columns or swapped or table.turned or looked_up:
            return None
    made = replace(table, per=per, block=block, scales=scales, zeros=zeros)
    return made if scales_fit(made) else None


def scales_fit(table: StoredTable) -> bool:
    """Return whether a table has as many scales and zero points as it needs, of dtypes that can be read."""
    wanted = {"table": 1, "row": table.rows, "column": table.width, "block": table.rows * table.blocks}[table.per]
    scales, zeros = table.scales, table.zeros
    if scales is None or scales.dtype not in PLAIN or math.prod(scales.shape) != wanted or table.block < 0:
        return False
    if zeros is None:
        return table.codes.dtype in CODED
    packed = table.bits and zeros.dtype == "U8"
    if packed:
        wanted = table.rows * -(-table.blocks * table.bits // 8)
    return zeros.dtype in (*CODED, *PLAIN) and math.prod(zeros.shape) == wanted and table.codes.dtype in CODED
