"""The named corpus of hostile ONNX files: each must be refused in one line, cheaply, with no table read from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from hfposemb.checkpoints.file_ranges import check_span
from hfposemb.checkpoints.onnx.checkpoint import OnnxCheckpoint, open_onnx
from hfposemb.errors import CheckpointError
from tests.support.checkpoints.onnx_files import field, looked_up, node, varint

Build = Callable[[], bytes]
VALUES = np.arange(24, dtype=np.float32).tobytes()
MANY = 500_000


def tensor(name: str = "table", **changes: bytes) -> bytes:
    """Return a tensor [6, 4] of float32 with some of its fields replaced, removed by b"" or added."""
    parts = {
        "dims": field(1, 6) + field(1, 4),
        "type": field(2, 1),
        "name": field(8, name.encode()),
        "data": field(9, VALUES),
        **changes,
    }
    return b"".join(parts.values())


def entry(key: str, value: str) -> bytes:
    return field(13, field(1, key.encode()) + field(2, value.encode()))


def external(location: str = "data", offset: str = "0", length: str = "96", **changes: bytes) -> bytes:
    entries = entry("location", location) + entry("offset", offset) + entry("length", length)
    return tensor(data=b"", external=entries + field(14, 1), **changes)


def nodes() -> bytes:
    return b"".join(field(1, one.SerializeToString()) for one in looked_up())


INPUT, OUTPUT = field(11, field(1, b"input_ids")), field(12, field(1, b"logits"))
HEAD = field(5, tensor("head", dims=field(1, 4) + field(1, 6)))


def graph(table: bytes | None = None, *, before: bytes | None = None, more: bytes = b"") -> bytes:
    stored = field(5, tensor() if table is None else table)
    return (nodes() if before is None else before) + stored + HEAD + INPUT + OUTPUT + more


def file(made: bytes | None = None, *, more: bytes = b"") -> bytes:
    return field(1, 10) + field(7, graph() if made is None else made) + field(8, field(2, 21)) + more


def over(field_number: int, length: int) -> bytes:
    """Return the start of a field that states more bytes than follow."""
    return varint(field_number << 3 | 2) + varint(length)


def nested(depth: int, *, number: int = 6) -> bytes:
    """Return a graph in a graph in a graph, as attributes of nodes."""
    made = b""
    for _ in range(depth):
        attribute = field(1, b"body") + field(number, made)
        made = field(1, field(4, b"If") + field(2, b"x") + field(5, attribute))
    return made


def deep_type(depth: int) -> bytes:
    made = b""
    for _ in range(depth):
        made = field(4, field(1, made))
    return made


def chain(count: int) -> bytes:
    """Return nodes that hand a value on."""
    return b"".join(
        field(1, field(1, f"n{at}".encode()) + field(2, f"n{at + 1}".encode()) + field(4, b"Cast"))
        for at in range(count)
    )


def with_table(**changes: bytes) -> bytes:
    return file(graph(tensor(**changes)))


def with_external(*given: str, **changes: bytes) -> bytes:
    return file(graph(external(*given, **changes)))


def with_node(content: bytes) -> bytes:
    return file(graph(more=field(1, content)))


def with_attributes(*attributes: bytes, operator: bytes = b"Cast") -> bytes:
    return with_node(field(4, operator) + field(2, b"z") + b"".join(field(5, one) for one in attributes))


def _structure() -> Iterator[tuple[str, Build]]:
    yield "empty", lambda: b""
    yield "text", lambda: b"version https://git-lfs.github.com/spec/v1\n"
    yield "page", lambda: b"<!DOCTYPE html><html></html>"
    yield "zip", lambda: b"PK\x03\x04" + bytes(40)
    yield "zeros", lambda: bytes(400)
    yield "no-graph", lambda: field(1, 10) + field(8, field(2, 21))
    yield "no-version", lambda: field(7, graph())
    yield "version-zero", lambda: field(1, 0) + field(7, graph())
    yield "two-graphs", lambda: file(more=field(7, graph()))
    yield "graph-is-a-number", lambda: field(1, 10) + field(7, 12)
    yield "graph-too-long", lambda: field(1, 10) + over(7, len(graph()) + 1) + graph()
    yield "graph-of-2-to-the-62", lambda: field(1, 10) + over(7, 2**62) + graph()
    yield "cut", lambda: file()[:-9]
    yield "field-zero", lambda: file(more=b"\x00\x01")
    yield "field-too-large", lambda: file(more=varint(2**29 << 3) + b"\x01")
    yield "group", lambda: file(more=varint(30 << 3 | 3) + varint(30 << 3 | 4))
    yield "wire-type-six", lambda: file(more=varint(30 << 3 | 6))
    yield "number-of-11-bytes", lambda: file(more=varint(30 << 3) + b"\xff" * 10 + b"\x01")
    yield "number-of-70-bits", lambda: file(more=varint(30 << 3) + b"\xff" * 9 + b"\x7f")
    yield "opset-broken", lambda: file(more=field(8, b"\x12\x7f"))
    yield "output-type-broken", lambda: file(graph(more=field(12, field(1, b"y") + field(2, b"\x0a\x7f"))))
    yield "input-unnamed", lambda: file(graph(more=field(11, b"")))
    yield "input-named-twice", lambda: file(graph(more=field(11, field(1, b"a") + field(1, b"b"))))
    yield "value-info-broken", lambda: file(graph(more=field(13, b"\x0a\x7f")))


def _tensors() -> Iterator[tuple[str, Build]]:
    yield "name-missing", lambda: file(graph(more=field(5, tensor("x").replace(field(8, b"x"), b""))))
    yield "name-twice", lambda: with_table(again=field(8, b"table"))
    yield "name-with-newline", lambda: file(graph(more=field(5, tensor("a\nb"))))
    yield "name-too-long", lambda: file(graph(more=field(5, tensor("n" * 1025))))
    yield "duplicate", lambda: file(graph(more=field(5, tensor())))
    yield "duplicate-of-a-node", lambda: with_node(field(4, b"Cast") + field(2, b"table"))
    yield "type-missing", lambda: with_table(type=b"")
    yield "type-zero", lambda: with_table(type=field(2, 0))
    yield "type-negative", lambda: with_table(type=field(2, 2**64 - 1))
    yield "type-twice", lambda: with_table(again=field(2, 1))
    yield "type-too-wide", lambda: with_table(type=field(2, 11))
    yield "type-too-narrow", lambda: with_table(type=field(2, 10))
    yield "dims-negative", lambda: with_table(dims=field(1, 2**64 - 6) + field(1, 4))
    yield "dims-too-many", lambda: with_table(dims=field(1, 1) * 9)
    yield "dims-packed-too-many", lambda: with_table(dims=field(1, b"\x01" * 9))
    yield "dims-overflow", lambda: with_table(dims=(field(1, 2**62) + field(1, 2**62)))
    yield "dims-overflow-to-zero", lambda: with_table(dims=field(1, 0) + field(1, 2**62) * 3)
    yield "dims-larger", lambda: with_table(dims=field(1, 7) + field(1, 4))
    yield "data-missing", lambda: with_table(data=b"")
    yield "data-twice", lambda: with_table(again=field(9, VALUES))
    yield "data-in-two-fields", lambda: with_table(again=field(4, VALUES))
    yield "data-too-long", lambda: with_table(data=over(9, 10_000) + VALUES)
    yield "data-is-a-number", lambda: with_table(data=field(9, 5))
    yield "floats-in-the-field-of-integers", lambda: with_table(data=field(5, bytes(24)))
    yield "bytes-in-the-field-of-long-integers", lambda: with_table(type=field(2, 3), data=field(7, bytes(24)))
    yield "doubles-of-a-float", lambda: with_table(data=field(10, VALUES))
    yield "integers-of-a-float", lambda: with_table(data=field(5, VALUES))
    yield "integers-unended", lambda: with_table(type=field(2, 10), data=field(5, b"\x81" * 24))
    yield "integers-too-large", lambda: with_table(type=field(2, 10), data=field(5, b"\xff\xff\x7f" * 24))
    yield "integers-negative", lambda: with_table(type=field(2, 10), data=field(5, (b"\xff" * 9 + b"\x01") * 24))
    yield "segment", lambda: with_table(segment=field(3, field(1, 0) + field(2, 6)))
    yield "entries-broken", lambda: with_table(metadata=field(16, b"\x0a\x7f"))


def _places() -> Iterator[tuple[str, Build]]:
    for name, location in (
        *(("parent", "../data"), ("absolute", "/etc/passwd"), ("folder", "a/data"), ("drive", "c:data")),
        *(("backslash", "..\\data"), ("empty", ""), ("dots", ".."), ("control", "da\tta"), ("missing", "absent")),
    ):
        yield f"location-{name}", partial(with_external, location)
    yield "offset-negative", partial(with_external, "data", "-1")
    yield "offset-huge", partial(with_external, "data", "999999999999999999")
    yield "offset-too-long", partial(with_external, "data", "9" * 400)
    yield "offset-not-ascii", partial(with_external, "data", "٣")
    yield "offset-past-the-end", partial(with_external, "data", "1")
    yield "length-wrong", partial(with_external, "data", "0", "95")
    yield "length-hexadecimal", partial(with_external, "data", "0", "0x60")
    yield "location-twice", lambda: with_external(again=entry("location", "data"))
    yield "location-and-data", lambda: with_external(again=field(9, VALUES))
    yield "location-unstated", lambda: with_table(data=b"", external=field(14, 1))
    yield "location-unused", lambda: with_table(external=entry("location", "data"))
    yield "location-99", lambda: with_table(external=field(14, 99))


def _nodes() -> Iterator[tuple[str, Build]]:
    yield "node-empty", lambda: with_node(b"")
    yield "node-two-operators", lambda: with_node(field(4, b"Cast") * 2 + field(2, b"z"))
    yield "node-operator-a-number", lambda: with_node(field(4, 7))
    yield "node-output-twice", lambda: with_node(field(4, b"Split") + field(2, b"z") * 2)
    yield "node-input-not-utf-8", lambda: with_node(field(4, b"Cast") + field(1, b"\xff") + field(2, b"z"))
    yield "attribute-unnamed", lambda: with_attributes(field(3, 1))
    yield "attribute-twice", lambda: with_attributes(field(1, b"to") + field(3, 1), field(1, b"to") + field(3, 1))
    yield "attribute-float-cut", lambda: with_attributes(field(1, b"to") + varint(2 << 3 | 5) + b"\x00")
    wrong = field(1, b"value") + field(5, tensor(dims=field(1, 7)))
    yield "attribute-tensor-wrong", lambda: with_attributes(wrong, operator=b"Constant")
    yield "graphs-too-deep", lambda: file(graph(more=nested(9)))
    yield "graphs-in-lists-too-deep", lambda: file(graph(more=nested(40, number=11)))
    yield "types-too-deep", lambda: file(graph(more=field(12, field(1, b"y") + field(2, deep_type(1000)))))


def _bulk() -> Iterator[tuple[str, Build]]:
    yield "bulk-fields", lambda: file(graph(more=field(2, b"") * MANY))
    yield "bulk-nodes", lambda: file(graph(more=field(1, field(4, b"A")) * 60_000))
    yield "bulk-values", lambda: with_node(field(4, b"A") + field(1, b"") * MANY)
    yield "bulk-inputs", lambda: with_node(field(4, b"A") + field(1, b"abc") * 200_000)
    yield "bulk-tensors", lambda: file(graph(more=b"".join(field(5, tensor(f"t{at}")) for at in range(51_000))))
    yield "bulk-outputs", lambda: file(graph(more=field(12, b"") * MANY))
    yield "bulk-names", lambda: file(graph(more=field(11, field(1, b"n" * 1000)) * 60_000) + b"\x00\x00")
    yield "bulk-attributes", lambda: with_node(field(4, b"A") + field(5, field(1, b"a") + field(3, 1)) * 100_000)
    three = b"".join(field(5, field(1, name) + field(3, 1)) for name in (b"a", b"b", b"c"))
    yield "bulk-nodes-with-attributes", lambda: file(graph(more=field(1, field(4, b"A") + three) * 49_000))
    yield (
        "bulk-integers",
        lambda: with_table(dims=field(1, 2**18) + field(1, 16), type=field(2, 10), data=field(5, b"\x01" * 2**22)),
    )
    yield "bulk-types", lambda: file(graph(more=field(13, field(2, field(1, field(2, field(1, b"") * MANY))))))


CASES: dict[str, Build] = {
    name: build for group in (_structure, _tensors, _places, _nodes, _bulk) for name, build in group()
}


def _long_chain() -> bytes:
    """Return a file whose row numbers come from a chain of nodes, looked up a thousand times."""
    lookups = b"".join(
        field(1, node("Gather", ["table", "n40000"], f"g{at}").SerializeToString()) for at in range(1_000)
    )
    return file(graph(before=chain(40_000) + lookups))


def _circle() -> bytes:
    """Return a file whose table and row numbers are made of themselves."""
    made = [node("Cast", ["a"], "b"), node("Cast", ["b"], "a"), node("Gather", ["a", "b"], "c")]
    made += [node("Gather", ["table", "b"], "d"), node("Add", ["logits", "bias"], "logits")]
    return file(graph(before=b"".join(field(1, one.SerializeToString()) for one in made)))


TANGLED: dict[str, Build] = {"long-chain": _long_chain, "circle": _circle}
"""Valid files without a table of tokens that would take long to follow."""


@dataclass(frozen=True)
class Held:
    """A file in memory, with the others of its folder."""

    content: bytes
    name: str = "model.onnx"
    others: Mapping[str, bytes] = dataclasses.field(default_factory=lambda: MappingProxyType({"data": VALUES}))

    @property
    def size(self) -> int:
        return len(self.content)

    def read(self, span: range, *, whole: range | None = None, name: str = "", own: bool = False) -> NDArray[np.uint8]:
        check_span(span, self)
        return np.frombuffer(self.content, np.uint8)[span.start : span.stop]

    def beside(self, name: str) -> Held:
        if name not in self.others:
            raise CheckpointError(f"{self.name}: {name} is missing")
        return Held(self.others[name], name)

    def listing(self) -> tuple[str, ...]:
        return (self.name, *self.others)


def opened(path: Path) -> object:
    """Read the tables of a file on disk."""
    return tables(path.read_bytes(), path.name)


def tables(content: bytes, name: str = "model.onnx") -> tuple[OnnxCheckpoint, dict[str, NDArray[np.float32]]]:
    """Return what is read of the tables of every role."""
    checkpoint = open_onnx(Held(content, name))
    return checkpoint, {name: checkpoint.read(name) for names in checkpoint.roles().tables.values() for name in names}
