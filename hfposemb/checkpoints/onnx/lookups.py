"""Tables of an ONNX graph by their use: lookups of tokens, token types and positions, and the output head."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from ..safetensors.checkpoint import PLAIN
from ..stated_roles import StatedRoles
from ..strict_json import shortened
from .graph import Graph, Initialiser, Node
from .tables import CODED, Scales, StoredTable

_PLACES_ONLY = frozenset(("Shape", "Size", "ConstantOfShape"))
"""Operators whose result depends on the shape of their input alone, or on nothing but a shape."""

_MOST_STEPS = 100_000

MOST_HOPS = 32
"""Largest number of nodes between a stored matrix and its use."""


@dataclass(frozen=True, eq=False)
class Scope:
    """Names of a graph, and of the graphs around it.

    Attributes:
        graph: The graph.
        outer: The scope of the graph whose node holds it.
        steps: Count of values looked at, which all scopes of a file share.
    """

    graph: Graph
    outer: Scope | None = None
    steps: list[int] = field(default_factory=lambda: [_MOST_STEPS])
    makers: Mapping[str, Node] = field(init=False)
    users: Mapping[str, list[Node]] = field(init=False)

    def __post_init__(self) -> None:
        users: dict[str, list[Node]] = {}
        for node in self.graph.nodes:
            for name in node.inputs:
                users.setdefault(name, []).append(node)
        object.__setattr__(self, "makers", {name: node for node in self.graph.nodes for name in node.outputs if name})
        object.__setattr__(self, "users", users)

    def tensor(self, name: str) -> Initialiser | None:
        """Return the stored tensor of a name; ``None`` if it is computed or given."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.graph.tensors:
                return scope.graph.tensors[name]
            if name in scope.makers:
                return None
            scope = scope.outer
        return None

    def maker(self, name: str) -> tuple[Scope, Node] | None:
        """Return the node that makes a value, and its scope; ``None`` for tensors and inputs.

        ``None`` also once too many values were looked at, which no graph of a model needs.
        """
        self.steps[0] -= 1
        scope: Scope | None = self
        while scope is not None and self.steps[0] > 0:
            if name in scope.makers:
                return scope, scope.makers[name]
            if name in scope.graph.tensors:
                return None
            scope = scope.outer
        return None

    def inner(self, node: Node) -> Iterator[Scope]:
        """Yield the scopes of the graphs of a node."""
        for graph in node.graphs:
            yield Scope(graph, self, self.steps)

    def origins(self, name: str) -> tuple[frozenset[str], bool]:
        """Return the inputs of the model whose contents a value depends on, and whether it counts along them.

        Counting is a cumulative sum, by which positions are made from token ids or a mask.
        """
        found: set[str] = set()
        counts, seen, waiting = False, {(id(self.graph), name)}, [(self, name)]
        while waiting:
            scope, value = waiting.pop()
            made = scope.maker(value)
            if made is None:
                found |= {value} & set(scope.outermost.graph.inputs)
                continue
            holder, node = made
            counts |= node.op == "CumSum"
            for one in () if node.op in _PLACES_ONLY else node.inputs:
                if one and (id(holder.graph), one) not in seen:
                    seen.add((id(holder.graph), one))
                    waiting.append((holder, one))
        return frozenset(found), counts

    @property
    def outermost(self) -> Scope:
        """The scope of the model's own graph."""
        return self if self.outer is None else self.outer.outermost


def scopes(graph: Graph) -> Iterator[Scope]:
    """Yield the scope of a graph and those of all graphs nested in it."""
    waiting = [Scope(graph)]
    while waiting:
        scope = waiting.pop(0)
        yield scope
        waiting += [inner for node in scope.graph.nodes for inner in scope.inner(node)]


# --- output head ------------------------------------------------------------------------------------------------------

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
            return _stored(_codes(scope, *(*node.inputs[1:], "", "", "")[:3]), node, (*node.inputs, *[""] * 5)[4])
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


def _codes(scope: Scope, codes: str, scale: str, zero: str) -> StoredTable | None:
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
        return _stored(_codes(holder, product.inputs[1], scale, zero), product, "")
    return None


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
            return _table_of(tensor, turned, scaled)
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


def _table_of(tensor: Initialiser, turned: bool, scaled: tuple[Scope, Node, bool] | None) -> StoredTable | None:
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


_MOST_TABLES = 1_000
_MOST_TYPES = 4
_LISTED = 5


@dataclass(frozen=True, slots=True)
class Lookup:
    """Table that rows are taken from, and what its row numbers are made of."""

    table: StoredTable
    inputs: frozenset[str]
    counts: bool


def find_tables(graph: Graph) -> tuple[dict[str, StoredTable], StatedRoles]:
    """Find the tables of a graph by their use, since exporters often drop the names of tensors.

    Returns:
        Every table by the name of its tensor, and the roles of these tensors.
    """
    tables: dict[str, StoredTable] = {}
    roles: dict[str, tuple[str, ...]] = {}
    biases: dict[str, str] = {}
    absent: dict[str, str] = {}

    def add(role: str, table: StoredTable) -> None:
        name = table.codes.name
        tables.setdefault(name, table)
        if name not in roles.get(role, ()):
            roles[role] = (*roles.get(role, ()), name)

    levels = list(scopes(graph))
    lookups = [one for scope in levels for one in _lookups(scope)]
    for lookup in lookups:
        if _role(lookup) == "token":
            add("token", lookup.table)
    tokens = [tables[name] for name in roles.get("token", ())]
    if not tokens and (offered := [_offer(one) for one in lookups if _role(one) == ""]):
        absent["token"] = f"the graph looks up {', '.join(offered[:_LISTED])}, inputs whose names do not say token ids"
    widths = {one.width for one in tokens}
    for lookup in lookups:
        role = _role(lookup)
        if role in ("position", "token_type") and lookup.table.width in widths:
            add(role, lookup.table)
    head = find_head(levels[0], frozenset(one.rows for one in tokens)) if tokens else None
    if head is not None and head.table is not None:
        add("head", head.table)
        biases = {head.table.codes.name: head.bias} if head.bias else {}
    elif head is not None:
        absent["head"] = head.reason
    return tables, StatedRoles(roles, biases, absent, "by use in the graph")


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


def _offer(lookup: Lookup) -> str:
    table = lookup.table
    return (
        f"{shortened(table.codes.name)} [{table.rows}, {table.width}] by {shortened(', '.join(sorted(lookup.inputs)))}"
    )


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
