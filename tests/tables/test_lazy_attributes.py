"""Attributes that are computed when they are first read."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier

import numpy as np
import pytest

from hfposemb.lazy_attributes import lazy_attribute
from hfposemb.tables.table import EmbeddingTable, Provenance, table_of


@dataclass(frozen=True)
class Counted:
    """Counts how often its attribute is computed."""

    calls: list[int]

    @lazy_attribute
    def value(self) -> int:
        """How often it was computed."""
        self.calls.append(0)
        return len(self.calls)


def test_it_is_computed_once_and_pickled_like_any_attribute() -> None:
    one = Counted([])
    assert "value" not in vars(one)
    assert [one.value, one.value] == [1, 1]
    assert pickle.loads(pickle.dumps(one)).value == 1
    assert Counted.value.__doc__ == "How often it was computed."


def test_an_error_is_not_kept() -> None:
    class Failing:
        tries = 0

        @lazy_attribute
        def value(self) -> int:
            self.tries += 1
            if self.tries == 1:
                raise ValueError("the first try fails")
            return self.tries

    one = Failing()
    with pytest.raises(ValueError, match="first try"):
        _ = one.value
    assert one.value == 2


def test_tables_are_read_by_several_threads_at_once() -> None:
    together = Barrier(2, timeout=20)  # both readers wait here, so it is passed only if they run at the same time
    rows = np.ones((4, 2), np.float32)

    def read(start: int, stop: int) -> np.ndarray:
        together.wait()
        return rows[start:stop]

    made = table_of(rows, name="made", provenance=Provenance("made"))
    tables = [EmbeddingTable(f"table {n}", (4, 2), rows.dtype, made.provenance, read) for n in range(2)]
    with ThreadPoolExecutor(2) as pool:
        digests = list(pool.map(lambda table: table.digest, tables))
    assert digests == [made.digest, made.digest]
