"""Tables of an ONNX graph by their use: lookups of tokens, token types and positions, and the output head."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ..safetensors.checkpoint import PLAIN
from .graph import Graph, Node
from .heads import find_head
from .matrices import dequantised, scales_fit, stored_table
from .scopes import Scope, scopes
from .tables import StoredTable

_MOST_TABLES = 1_000
_MOST_TYPES = 4


@dataclass(frozen=True, slots=True)
class Lookup:
    """Table that rows are taken from, and what its row numbers are made of."""

    table: StoredTable
    inputs: frozenset[str]
    counts: bool


@dataclass
class FoundTables:
    """Tables of a graph by their use.

    Attributes:
        tables: Every table by the name of its tensor.
        roles: Tensors of each role: ``token``, ``token_type``, ``position`` and ``head``.
        biases: Bias of each head.
        absent: Why a role has no table, where the graph has something in its place.
    """

    tables: dict[str, StoredTable] = field(default_factory=dict)
    roles: dict[str, tuple[str, ...]] = field(default_factory=dict)
    biases: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)

    def add(self, role: str, table: StoredTable) -> None:
        """Record a table of a role, once."""
        name = table.codes.name
        self.tables.setdefault(name, table)
        if name not in self.roles.get(role, ()):
            self.roles[role] = (*self.roles.get(role, ()), name)


def find_tables(graph: Graph) -> FoundTables:
    """Find the tables of a graph by their use, since exporters often drop the names of tensors."""
    found = FoundTables()
    levels = list(scopes(graph))
    lookups = [one for scope in levels for one in _lookups(scope)]
    for lookup in lookups:
        if _role(lookup) == "token":
            found.add("token", lookup.table)
    widths = {found.tables[name].width for name in found.roles.get("token", ())}
    for lookup in lookups:
        role = _role(lookup)
        if role in ("position", "token_type") and lookup.table.width in widths:
            found.add(role, lookup.table)
    if widths:
        _add_head(found, levels[0])
    return found


def _add_head(found: FoundTables, scope: Scope) -> None:
    rows = frozenset(found.tables[name].rows for name in found.roles["token"])
    head = find_head(scope, rows)
    if head.table is None:
        found.absent["head"] = head.reason
        return
    found.add("head", head.table)
    if head.bias:
        found.biases[head.table.codes.name] = head.bias


# --- lookups ---------------------------------------------------------------------------------------------------------


def _lookups(scope: Scope) -> Iterator[Lookup]:
    """Yield the lookups of one graph: nodes that take rows from a stored matrix."""
    seen = 0
    for node in scope.graph.nodes:
        if len(node.inputs) < 2 or seen > _MOST_TABLES:
            continue
        if node.op == "Gather" and node.numbers.get("axis", 0) == 0:
            table = _with_scales(scope, node, stored_table(scope, node.inputs[0]))
        elif node.op == "GatherBlockQuantized":
            table = _blocks_of_lookup(scope, node)
        else:
            continue
        if table is not None and table.width > 1:
            seen += 1
            yield Lookup(table, *scope.origins(node.inputs[1]))


def _role(lookup: Lookup) -> str:
    """Return the role of a looked-up table, by what its row numbers are made of; "" if unknown."""
    inputs = " ".join(sorted(lookup.inputs)).lower()
    # Where token types are not given, all are row 0 of a few, by a constant as long as the positions.
    positions = "position" if lookup.table.rows > _MOST_TYPES else "token_type"
    if lookup.counts or "position" in inputs:
        return positions
    if "type" in inputs or "segment" in inputs:
        return "token_type"
    if "ids" in inputs or any(word in inputs for word in ("token", "input", "text")):
        return "token"
    return positions if not inputs or "mask" in inputs else ""


def _with_scales(scope: Scope, node: Node, table: StoredTable | None) -> StoredTable | None:
    """Return the looked-up table with the scales that are applied after the lookup, if it holds codes."""
    if table is None or table.per or table.codes.dtype in PLAIN:
        return table
    for user in scope.users.get(node.outputs[0], ()) if node.outputs else ():
        if user.op == "DequantizeLinear" and user.inputs[0] == node.outputs[0]:
            return dequantised(scope, user, table, looked_up=True)
    return None


def _blocks_of_lookup(scope: Scope, node: Node) -> StoredTable | None:
    """Return the table of a GatherBlockQuantized."""
    data, scales = (scope.tensor(name) for name in (node.inputs[0], (*node.inputs, "", "")[2]))
    zeros = scope.tensor(node.inputs[3]) if len(node.inputs) > 3 and node.inputs[3] else None
    if data is None or len(data.shape) != 2 or data.dtype not in ("U8", "U4", "I4"):
        return None
    if node.numbers.get("gather_axis", 0) != 0 or node.numbers.get("quantize_axis", 1) not in (1, -1):
        return None
    bits = node.numbers.get("bits", 4) if data.dtype == "U8" else 0
    block = node.numbers.get("block_size", 128)
    if bits not in (0, 2, 4, 8) or block < 16:
        return None
    width = data.shape[1] * (8 // bits if bits else 1)
    table = StoredTable(data, data.shape[0], width, bits=bits, per="block", block=block, scales=scales, zeros=zeros)
    table = replace(table, zero=2 ** (bits - 1) if bits else 0)
    return table if scales_fit(table) else None
