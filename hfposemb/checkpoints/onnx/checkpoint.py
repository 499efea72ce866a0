"""ONNX files as checkpoints: tables by their use in the graph, read by ranges of bytes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from ...lazy_attributes import lazy_attribute
from ..file_ranges import FileRanges
from ..limits import DEFAULT_LIMITS, Limits
from ..safetensors.checkpoint import PLAIN, TensorInfo, check_read
from ..stated_roles import StatedRoles
from ..strict_json import fault, shortened
from .graph import Graph, Initialiser, read_graph, walk
from .lookups import find_tables
from .tables import StoredTable, TableRows, TensorFile

if TYPE_CHECKING:
    from ...tables.table import Labels


@dataclass(frozen=True, eq=False)
class OnnxCheckpoint:
    """Tensors of an ONNX file, with what the graph says of their use.

    Tensors keep their names. A table that the graph stores by columns, as most heads are, is read by rows, and one of
    codes is read with its scales. All errors are ``CheckpointError``, except ``InputError`` for rows that do not exist.

    Attributes:
        file: The file.
        tensors: Its tensors by name.
        tables: Its tables by the names of their tensors.
        stated: Their roles, by their use in the graph.
        limits: Limits of what is read.
    """

    file: FileRanges
    tensors: Mapping[str, Initialiser] = field(repr=False)
    tables: Mapping[str, StoredTable] = field(repr=False)
    stated: StatedRoles = field(repr=False)
    limits: Limits = DEFAULT_LIMITS

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the location of the file, which another process opens again."""
        return open_onnx, (self.file, self.limits)

    @property
    def name(self) -> str:
        """Name in messages."""
        return self.file.name

    @lazy_attribute
    def _tensor_file(self) -> TensorFile:
        return TensorFile(self.file, self.limits)

    def names(self) -> tuple[str, ...]:
        """Return the names of the tensors that may hold weights, without the scales and zero points of tables."""
        parts = {one.name for table in self.tables.values() for one in (table.scales, table.zeros) if one is not None}
        others = ("I64", "I32", "BOOL", "STRING")
        stored = self.tensors.items()
        return tuple(name for name, one in stored if name not in parts and one.shape and one.dtype not in others)

    def info(self, name: str) -> TensorInfo:
        """Return a tensor's dtype, shape and location; the shape of a table is [rows, width]."""
        tensor = self._tensor(name)
        shape, dtype = tensor.shape, tensor.dtype
        if (table := self.tables.get(name)) is not None:
            shape, dtype = (table.rows, table.width), table.dtype
        decoded = table is not None and table.per != "" and dtype not in PLAIN
        return TensorInfo(name, dtype, shape, tensor.start, tensor.stop, tensor.file or self.file.name, decoded)

    def metadata(self) -> Mapping[str, str]:
        """Return nothing: aliases of tensors are not stated in ONNX files."""
        return MappingProxyType({})

    def roles(self) -> StatedRoles:
        """Return the tables of each role, by their use in the graph."""
        return self.stated

    def labels(self, rows: int) -> Labels | None:
        """Return ``None``: the graph states no tokens."""
        return None

    def file_bytes(self, name: str) -> int:
        """Return the size of the file that holds a tensor's data."""
        return self._tensor_file.opened(self._tensor(name)).size

    def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return rows ``[start, stop)`` of a tensor, read-only: F64 as float64, all others as float32."""
        tensor, table = self._tensor(name), self.tables.get(name)
        if table is not None:
            return TableRows(self._tensor_file, table).read(start, table.rows if stop is None else stop)
        info = self.info(name)
        check_read(info, start, stop, limits=self.limits)
        stop = tensor.shape[0] if stop is None else stop
        width = math.prod(tensor.shape[1:])
        found = self._tensor_file.elements(tensor, start * width, stop * width)
        found = found.reshape(stop - start, *tensor.shape[1:])
        found.flags.writeable = False
        return found

    def _tensor(self, name: str) -> Initialiser:
        if name not in self.tensors:
            raise fault(self.name, f"has no tensor {shortened(name)} among its {len(self.tensors)} tensors")
        return self.tensors[name]


def open_onnx(file: FileRanges, limits: Limits = DEFAULT_LIMITS) -> OnnxCheckpoint:
    """Open an ONNX file: reads its graph, but no tensor.

    Args:
        file: The file.
        limits: Limits of what is read.

    Raises:
        CheckpointError: If the file violates the format or a limit.
    """
    graph = read_graph(file, limits)
    return OnnxCheckpoint(file, _tensors_of(graph), *find_tables(graph), limits)


def _tensors_of(graph: Graph) -> dict[str, Initialiser]:
    """Return the tensors of a graph and those nested in it, of which the outer ones take precedence."""
    found: dict[str, Initialiser] = {}
    for level in walk(graph):
        for name, tensor in level.tensors.items():
            found.setdefault(name, tensor)
    return found
