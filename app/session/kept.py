"""Bounded cache of values by key, each of which is computed once."""

from __future__ import annotations

import gc
import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from dataclasses import fields, is_dataclass
from threading import Lock
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, TypeVar

import numpy as np

from hfposemb.errors import HfposembError, SourceError
from hfposemb.tables.embeddings import Embeddings
from hfposemb.tables.table import EmbeddingTable

T = TypeVar("T")

ENTRIES = 512
"""Limit on the number of entries of each cache, whatever their size."""


class Kept:
    """Thread-safe LRU cache with a limit in bytes; concurrent requests for a key compute its value once.

    Failures are not cached: all concurrent waiters get the same error, and later requests try again.
    """

    def __init__(self, limit: int, *, entries: int = ENTRIES) -> None:
        self.limit, self.entries = limit, entries
        self._values: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._making: dict[Hashable, Future[Any]] = {}
        self._lock = Lock()

    @property
    def nbytes(self) -> int:
        """Number of bytes held at present."""
        return sum(size for _, size in self._values.values())

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Hashable) -> Any:
        """Return the value stored under ``key``, or ``None``."""
        with self._lock:
            return self._find(key)

    def put(self, key: Hashable, value: Any) -> None:
        """Store a value that was computed elsewhere."""
        size = size_of(value)
        with self._lock:
            self._keep(key, value, size)

    def measure(self, key: Hashable) -> None:
        """Measure a value again, of which more was read since it was stored."""
        if (value := self.get(key)) is not None:
            self.put(key, value)

    def make(self, key: Hashable, maker: Callable[[], T]) -> T:
        """Return the value stored under ``key``, computed by ``maker`` if missing."""
        with self._lock:
            if (found := self._find(key)) is not None:
                return found  # type: ignore[no-any-return]
            mine = key not in self._making
            making = self._making.setdefault(key, Future())
        if not mine:
            if (error := making.exception()) is None or isinstance(error, HfposembError):
                return making.result()  # type: ignore[no-any-return]
            raise SourceError("a result that this view needs could not be computed; try again") from error
        try:
            value = maker()
            size = size_of(value)  # may fail, too: it is that of tables which are made for it
            with self._lock:
                self._keep(key, value, size)
                del self._making[key]
        except BaseException as error:
            with self._lock:
                self._making.pop(key, None)
            making.set_exception(error)
            raise
        making.set_result(value)
        return value

    def _find(self, key: Hashable) -> Any:
        if key not in self._values:
            return None
        self._values.move_to_end(key)
        return self._values[key][0]

    def _keep(self, key: Hashable, value: Any, size: int) -> None:
        self._values[key] = (value, size)
        self._values.move_to_end(key)
        while len(self._values) > 1 and (self.nbytes > self.limit or len(self._values) > self.entries):
            self._values.popitem(last=False)


def size_of(value: Any) -> int:
    """Estimate the size in bytes of a result, or of an ``Embeddings`` with all its tables read."""
    if type(value) in _LEAVES:
        return sys.getsizeof(value)
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, Embeddings):
        heads = sum(not tying.tied for tying in value.ties.values())  # each has the size of the token table
        tables = sum(size_of(table) * (1 + heads * (role == "token")) for role, table in value.tables.items())
        return tables + _objects_of(value)
    if isinstance(value, EmbeddingTable):
        return value.shape[0] * value.shape[1] * value.dtype.itemsize
    if is_dataclass(value) and not isinstance(value, type):
        return sum(size_of(vars(value).get(part.name)) for part in fields(value))  # computes nothing
    if isinstance(value, Mapping):
        return sum(size_of(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return sum(size_of(item) for item in value)
    return sys.getsizeof(value, 64)


_LEAVES = frozenset((str, bytes, int, float, bool, type(None)))
_APART = (type, ModuleType, FunctionType, BuiltinFunctionType, np.ndarray)
"""What others have as well, and numbers, which are counted by the tables that hold them."""


def _objects_of(value: Any) -> int:
    """Return the size in bytes of what an object refers to, such as names of tensors, labels and configurations."""
    total, seen, left = 0, {id(value)}, [value]
    while left:
        for one in gc.get_referents(left.pop()):
            if type(one) in _LEAVES:
                total += sys.getsizeof(one)
            elif id(one) not in seen and not isinstance(one, _APART):
                total += sys.getsizeof(one, 64)
                seen.add(id(one))
                left.append(one)
    return total


class Layered(Kept):
    """A cache over a shared one: values of the shared one are found as well, and nothing is added to it."""

    def __init__(self, shared: Kept, limit: int, *, entries: int = ENTRIES) -> None:
        super().__init__(limit, entries=entries)
        self._shared = shared

    def _find(self, key: Hashable) -> Any:
        found = super()._find(key)
        return self._shared.get(key) if found is None else found
