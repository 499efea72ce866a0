"""Graphs of ONNX files: nodes, and where the tensors are; reads no tensor.

The format: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto. Only what locates tables is kept; every field that
is kept is validated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...errors import CheckpointError
from ..file_ranges import FileRanges, check_plain
from ..limits import DEFAULT_LIMITS, Limits
from ..protobuf import MessageReader, Nested, Span
from ..strict_json import foreign, shortened

# Messages that are not needed: which of their fields are messages, so that all of a file is well-formed.
_PLAIN: Nested = {}
_SHAPE: Nested = {1: _PLAIN}
_TENSOR_TYPE: Nested = {2: _SHAPE}
_TYPE: dict[int, Nested] = {1: _TENSOR_TYPE, 7: _PLAIN, 8: _TENSOR_TYPE}
_TYPE |= {4: {1: _TYPE}, 5: {2: _TYPE}, 9: {1: _TYPE}}
VALUE: Nested = {2: _TYPE, 4: _PLAIN}
_TENSOR: Nested = {3: _PLAIN, 13: _PLAIN, 16: _PLAIN}
_SPARSE: Nested = {1: _TENSOR, 2: _TENSOR}
_SHARDING: Nested = {2: {3: _PLAIN, 4: {2: _PLAIN}}}
_GRAPH: dict[int, Nested] = {}
_ATTRIBUTE: Nested = {
    **{5: _TENSOR, 6: _GRAPH, 10: _TENSOR, 11: _GRAPH},
    **{14: _TYPE, 15: _TYPE, 22: _SPARSE, 23: _SPARSE},
}
_NODE: Nested = {5: _ATTRIBUTE, 9: _PLAIN, 10: _SHARDING}
_GRAPH |= {1: _NODE, 5: _TENSOR, 11: VALUE, 12: VALUE, 13: VALUE, 14: {2: _PLAIN}, 15: _SPARSE, 16: _PLAIN}
_FUNCTION: Nested = {7: _NODE, 9: _PLAIN, 11: _ATTRIBUTE, 12: VALUE, 14: _PLAIN}

OF_MODEL: Nested = {
    **{8: _PLAIN, 14: _PLAIN, 20: {1: _GRAPH, 2: _GRAPH, 3: _PLAIN, 4: _PLAIN}},
    **{25: _FUNCTION, 26: _PLAIN},
}
"""Messages of a model other than its graph, by field."""

OF_GRAPH: Nested = {number: inner for number, inner in _GRAPH.items() if number not in (1, 5, 11, 12)}
OF_NODE: Nested = {number: inner for number, inner in _NODE.items() if number != 5}
OF_ATTRIBUTE: Nested = {number: inner for number, inner in _ATTRIBUTE.items() if number in (10, 14, 15, 22, 23)}
OF_TENSOR: Nested = {16: _PLAIN}

DTYPES: Mapping[int, tuple[str, int]] = {
    **{1: ("F32", 32), 2: ("U8", 8), 3: ("I8", 8), 4: ("U16", 16), 5: ("I16", 16), 6: ("I32", 32), 7: ("I64", 64)},
    **{8: ("STRING", 0), 9: ("BOOL", 8), 10: ("F16", 16), 11: ("F64", 64), 12: ("U32", 32), 13: ("U64", 64)},
    **{14: ("C64", 64), 15: ("C128", 128), 16: ("BF16", 16), 17: ("F8_E4M3", 8), 18: ("F8_E4M3FNUZ", 8)},
    **{19: ("F8_E5M2", 8), 20: ("F8_E5M2FNUZ", 8), 21: ("U4", 4), 22: ("I4", 4), 23: ("F4", 4), 24: ("F8_E8M0", 8)},
    **{25: ("U2", 2), 26: ("I2", 2), 27: ("F6_E2M3", 6), 28: ("F6_E3M2", 6)},
}
"""Name and number of bits of each data type, by its number in ONNX."""

_FLOATS, _INTS, _STRINGS, _LONGS, _RAW, _DOUBLES, _UNSIGNED, _EXTERNAL = 4, 5, 6, 7, 9, 10, 11, 13
_FIXED = {_FLOATS: {"F32", "C64"}, _DOUBLES: {"F64", "C128"}}
_VARINTS = {
    _INTS: {"U8", "I8", "U16", "I16", "I32", "BOOL", "F16", "BF16", "U4", "I4", "U2", "I2", "F4"}
    | {name for name, bits in DTYPES.values() if name.startswith(("F8", "F6"))},
    _LONGS: {"I64"},
    _UNSIGNED: {"U32", "U64"},
}
"""Fields that hold a tensor's elements as numbers, with the data types that they hold."""

_DATA = frozenset((_STRINGS, _RAW, *_FIXED, *_VARINTS))
_MOST_NESTED = 8
_MOST_NODES = 50_000
_MOST_LISTED = 64  # numbers of an attribute
_MOST_NAMED = 4096  # inputs or outputs of a node


@dataclass(frozen=True, slots=True)
class Initialiser:
    """Stored tensor: dtype, shape and location.

    Attributes:
        name: Its name in the graph.
        dtype: Name of its data type, see ``DTYPES``.
        shape: Its shape.
        start: Offset of its first byte in ``file``.
        stop: End of its bytes; -1 for external data whose length is not stated.
        file: File of the same folder that holds the data; "" for the model's own.
        varints: Whether the elements are stored as protobuf's numbers of variable length.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int = 0
    stop: int = 0
    file: str = ""
    varints: bool = False


@dataclass(slots=True)
class Node:
    """Operation of a graph, with the attributes that are numbers, tensors or graphs."""

    op: str = ""
    domain: str = ""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    numbers: dict[str, int] = field(default_factory=dict)
    lists: dict[str, tuple[int, ...]] = field(default_factory=dict)
    floats: dict[str, float] = field(default_factory=dict)
    tensors: dict[str, Initialiser] = field(default_factory=dict)
    graphs: list[Graph] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes, tensors by name (constants too), and names of inputs and outputs."""

    nodes: tuple[Node, ...]
    tensors: Mapping[str, Initialiser]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def read_graph(file: FileRanges, limits: Limits = DEFAULT_LIMITS) -> Graph:
    """Read the graph of an ONNX file.

    Args:
        file: The file.
        limits: Limits of what is read.

    Raises:
        CheckpointError: Names the first violated rule.
    """
    reader = MessageReader(file, limits)
    if file.size < 2:
        raise reader.fault("the file is empty; download it again")
    if kind := foreign(file.read(range(min(8, file.size))).tobytes()):
        raise reader.fault(kind)
    parser = _Parser(reader, limits)
    graph, version = None, 0
    for span in reader.fields(0, file.size):
        if span.number == 1:
            version = reader.integer(span)
        elif span.number == 7:
            if graph is not None:
                raise reader.fault("must have one graph; found a second one")
            graph = parser.graph(*reader.message(span), depth=0)
        else:
            reader.check(span, OF_MODEL.get(span.number))
    if graph is None or version < 1:
        raise reader.fault("is not an ONNX model: it has no graph or states no version of the format")
    return graph


def walk(graph: Graph) -> Iterator[Graph]:
    """Yield a graph and the graphs nested in its nodes, such as the branches of an ``If``."""
    yield graph
    for node in graph.nodes:
        for inner in node.graphs:
            yield from walk(inner)


@dataclass
class _Parts:
    """Fields of a tensor that have been read."""

    name: str = ""
    dims: list[int] = field(default_factory=list)
    code: int = 0
    data: list[Span] = field(default_factory=list)
    external: dict[str, str] = field(default_factory=dict)
    location: int = 0
    seen: set[int] = field(default_factory=set)


@dataclass
class _Parser:
    reader: MessageReader
    limits: Limits
    nodes: int = 0
    tensors: int = 0

    # --- graphs -------------------------------------------------------------------------------------------------------

    def graph(self, start: int, stop: int, *, depth: int) -> Graph:
        if depth > _MOST_NESTED:
            raise self.reader.fault(f"nests graphs more than {_MOST_NESTED} deep")
        nodes: list[Node] = []
        tensors: dict[str, Initialiser] = {}
        ends: dict[int, list[str]] = {11: [], 12: []}
        for span in self.reader.fields(start, stop):
            if span.number == 1:
                nodes.append(self._node(span, depth))
                if nodes[-1].op == "Constant":
                    self._constant(nodes.pop(), tensors)
            elif span.number == 5:
                self._add(tensors, self._tensor(span))
            elif span.number in ends:
                ends[span.number].append(self._value_name(span))
            else:
                self.reader.check(span, OF_GRAPH.get(span.number))
        self._check_unique([*tensors, *(name for node in nodes for name in node.outputs if name)])
        inputs = tuple(name for name in ends[11] if name not in tensors)  # old versions list initialisers as inputs too
        return Graph(tuple(nodes), tensors, inputs, tuple(ends[12]))

    def _add(self, tensors: dict[str, Initialiser], made: Initialiser) -> None:
        if not made.name:
            raise self.reader.fault("a tensor of the graph must have a name")
        if made.name in tensors:
            raise self.reader.fault(f"names of tensors must be unique; found {shortened(made.name)} twice")
        tensors[made.name] = made

    def _constant(self, node: Node, tensors: dict[str, Initialiser]) -> None:
        """Add the tensor of a Constant under the name of its output."""
        value = node.tensors.get("value")
        if value is not None and len(node.outputs) == 1:
            self._add(tensors, replace(value, name=node.outputs[0]))

    def _check_unique(self, names: list[str]) -> None:
        if len(set(names)) != len(names):
            seen: set[str] = set()
            twice = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            raise self.reader.fault(f"names of values and attributes must be unique; found {shortened(twice)} twice")

    def _value_name(self, span: Span) -> str:
        names = []
        for one in self.reader.fields(*self.reader.message(span)):
            if one.number == 1:
                names.append(self.reader.text(one))
            else:
                self.reader.check(one, VALUE.get(one.number))
        if len(names) != 1 or not names[0]:
            raise self.reader.fault(f"an input or output of the graph must have one name; found {len(names)}")
        return names[0]

    # --- nodes --------------------------------------------------------------------------------------------------------

    def _node(self, span: Span, depth: int) -> Node:
        self.nodes += 1
        if self.nodes > _MOST_NODES:
            raise self.reader.fault(f"has more than {_MOST_NODES} nodes")
        texts: dict[int, list[str]] = {1: [], 2: [], 4: [], 7: []}
        node, attributes = Node(), list[str]()
        for one in self.reader.fields(*self.reader.message(span)):
            if one.number in texts:
                texts[one.number].append(self.reader.text(one))
            elif one.number == 5:
                attributes.append(self._attribute(one, depth, node))
            else:
                self.reader.check(one, OF_NODE.get(one.number))
        inputs, outputs, ops, domains = texts.values()
        if (
            len(ops) != 1
            or not ops[0]
            or len(domains) > 1
            or max(len(inputs), len(outputs), len(attributes)) > _MOST_NAMED
        ):
            rule = f"a node must have one operator, one domain and at most {_MOST_NAMED} inputs, outputs or attributes"
            found = ", ".join(str(len(listed)) for listed in (ops, domains, inputs, outputs, attributes))
            raise self.reader.fault(f"{rule}; found {found} at byte {span.start}")
        self._check_unique(attributes)
        node.op, node.domain = ops[0], domains[0] if domains else ""
        node.inputs, node.outputs = tuple(inputs), tuple(outputs)
        return node

    def _attribute(self, span: Span, depth: int, node: Node) -> str:
        """Add the value of an attribute to its node, and return its name."""
        reader, names = self.reader, []
        values: list[tuple[dict[str, Any], Any]] = []
        listed: list[int] = []
        for one in reader.fields(*reader.message(span)):
            match one.number:
                case 1:
                    names.append(reader.text(one))
                case 2:
                    values.append((node.floats, reader.floating(one)))
                case 3:
                    values.append((node.numbers, reader.integer(one)))
                case 5:
                    values.append((node.tensors, self._tensor(one)))
                case 6 | 11:
                    node.graphs.append(self.graph(*reader.message(one), depth=depth + 1))
                case 8 if len(listed) <= _MOST_LISTED and one.stop - one.start <= _MOST_LISTED:
                    listed += reader.integers(one, most=_MOST_LISTED)
                case _:
                    reader.check(one, OF_ATTRIBUTE.get(one.number))
        if len(names) != 1 or not names[0]:
            raise reader.fault(f"an attribute must have one name; found {len(names)} at byte {span.start}")
        for kind, value in [*values, *([(node.lists, tuple(listed))] if listed else [])]:
            kind[names[0]] = value
        return names[0]

    # --- tensors ------------------------------------------------------------------------------------------------------

    def _tensor(self, span: Span) -> Initialiser:
        self.tensors += 1
        if self.tensors > self.limits.tensors:
            raise self.reader.fault(f"a file may have at most {self.limits.tensors} tensors")
        parts = _Parts()
        for one in self.reader.fields(*self.reader.message(span)):
            self._read_part(parts, one)
        if parts.code not in DTYPES:
            raise self._bad(parts, f"has the data type {parts.code}, which is not one of ONNX")
        dtype, bits = DTYPES[parts.code]
        shape = tuple(parts.dims)
        if len(shape) > self.limits.rank or any(not 0 <= one < 2**63 for one in shape):
            raise self._bad(parts, f"must have at most {self.limits.rank} axes of 0 or more; found {shape[:10]}")
        if math.prod(filter(None, shape)) * bits >= 2**63:
            raise self._bad(parts, f"has a shape that overflows: {shape}")
        return self._placed(parts, dtype, shape, -(-math.prod(shape) * bits // 8))

    def _read_part(self, parts: _Parts, span: Span) -> None:
        """Read a field of a tensor; each but its dimensions, strings and entries on external data occurs once."""
        reader = self.reader
        if span.number not in (1, _STRINGS, _EXTERNAL):
            if span.number in parts.seen:
                raise self._bad(parts, f"has field {span.number} twice")
            parts.seen.add(span.number)
        match span.number:
            case 1:
                parts.dims += reader.integers(span, most=self.limits.rank)
            case 2:
                parts.code = reader.integer(span)
            case 3:
                raise self._bad(parts, "is a segment of a tensor, which cannot be read")
            case 8:
                parts.name = reader.text(span)
            case 14:
                parts.location = reader.integer(span)
            case _ if span.number == _EXTERNAL:
                self._read_entry(parts, span)
            case _ if span.number in _DATA and (span.number != _STRINGS or not parts.data):
                reader.message(span)
                parts.data.append(span)
            case _:
                reader.check(span, OF_TENSOR.get(span.number))

    def _read_entry(self, parts: _Parts, span: Span) -> None:
        """Read an entry on external data, a key and a value."""
        texts = {1: "", 2: ""}
        for one in self.reader.fields(*self.reader.message(span)):
            if one.number in texts:
                texts[one.number] = self.reader.text(one)
        key, value = texts.values()
        if key in parts.external or len(parts.external) > 8:
            raise self._bad(parts, f"states {shortened(key)} of its external data twice")
        parts.external[key] = value

    def _placed(self, parts: _Parts, dtype: str, shape: tuple[int, ...], size: int) -> Initialiser:
        """Return a tensor whose data has the size that its shape requires."""
        if parts.location not in (0, 1) or (parts.location == 1) != bool(parts.external):
            raise self._bad(parts, "must state either external data with its location, or data of its own")
        if len(parts.data) + parts.location > 1:
            raise self._bad(parts, f"must have its data in one place; found {len(parts.data) + parts.location}")
        if parts.location == 1:
            return self._external(parts, dtype, shape, size)
        data = parts.data[0] if parts.data else Span(_RAW, 2, 0, 0, 0)
        taken = data.stop - data.start
        if data.number == _STRINGS or dtype == "STRING":
            return Initialiser(parts.name, "STRING", shape)
        fixed = data.number == _RAW or dtype in _FIXED.get(data.number, ())
        if not fixed and dtype not in _VARINTS.get(data.number, ()):
            raise self._bad(parts, f"has the data type {dtype}, which field {data.number} does not hold")
        count = size if DTYPES[parts.code][1] < 8 else math.prod(shape)
        if taken != size if fixed else not count <= taken <= 10 * count:
            raise self._bad(parts, f"has {dtype} of shape {list(shape)}, which needs {size} bytes; found {taken}")
        return Initialiser(parts.name, dtype, shape, data.start, data.stop, varints=not fixed)

    def _external(self, parts: _Parts, dtype: str, shape: tuple[int, ...], size: int) -> Initialiser:
        location, offset, length = (parts.external.get(key, "") for key in ("location", "offset", "length"))
        check_plain(location, of=self.reader.file.name)
        start, stated = _whole(offset or "0"), _whole(length or str(size))
        if start is None or stated is None:
            found = f"{shortened(offset)} and {shortened(length)}"
            raise self._bad(parts, f"must state offset and length of its data in whole numbers; found {found}")
        if dtype == "STRING" or stated != size:
            raise self._bad(parts, f"has {dtype} of shape {list(shape)}, which needs {size} bytes; stated are {stated}")
        return Initialiser(parts.name, dtype, shape, start, start + size, location)

    def _bad(self, parts: _Parts, rule: str) -> CheckpointError:
        return self.reader.fault(f"{shortened(parts.name) if parts.name else 'a tensor'} {rule}")


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else None
