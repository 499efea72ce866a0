"""The tables that a source has beside its word table, found by name, with what looks their rows up."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from ...checkpoints.limits import DEFAULT_LIMITS
from ...checkpoints.safetensors.checkpoint import TensorInfo
from ...errors import CheckpointError
from ...tables.inputs import Pieces
from ...tables.lookups.lookup_table import LookupTable, RowLookup, numbered
from ...tables.table import EmbeddingTable, Vectors
from ..opened_model import Opened, labels_of, table_in_tensor
from .names import Named, tables_named
from .rules import Expected, expected

MOST_TABLES = 100
"""Most tables that are listed: on the Hub, each may need the header of a file of its own."""

_SAID = {"per_layer": "per-layer embeddings", "ngram": "n-grams", "codes": "codes of audio"}
_KINDS = re.compile("|".join(_SAID))


def find_lookups(opened: Opened) -> dict[str, Callable[[], LookupTable]]:
    """Return how to make each table that a model looks up beside its word table, by key; nothing is read."""
    found = tables_named(opened.tensors.names())
    if len(found) > MOST_TABLES:
        opened.notes.append(f"the first {MOST_TABLES} of {len(found):,} tables beside the word table are listed")
        found = found[:MOST_TABLES]
    if len(found) > 1 and found[0].layer is not None:
        others = ", ".join(f"{one.key} is {one.title}" for one in found[1:])
        opened.notes.append(f"{found[0].key}: {found[0].title}, the first layer's; {others[:200]}")
    return {named.key: partial(_table, opened, named) for named in found}


def _table(opened: Opened, named: Named) -> LookupTable:
    """Return a table; what the configuration says of it counts only if the file agrees. Raises ``CheckpointError``."""
    if named.missing is not None:
        raise CheckpointError(f"{named.title} of {opened.name} lacks its part {named.missing}, so rows have no numbers")
    stated = _agreed(opened, named, expected(opened, named))
    base = table_in_tensor(opened, "", named.tensors[0])
    if len(named.tensors) > 1:
        base = _joined(opened, named, stated.sizes, base)
    rows = base.shape[0]
    labels = partial(labels_of, opened, rows) if stated.layers > 1 else partial(numbered, rows)
    return LookupTable(
        f"{opened.name} {_KINDS.sub(lambda kind: _SAID[kind[0]], named.key)}",
        base.shape,
        base.dtype,
        base.provenance,
        base.reader,
        labels,
        lookup=stated.lookup,
        layers=stated.layers,
    )


def _agreed(opened: Opened, named: Named, stated: Expected) -> Expected:
    """Return what the configuration says if the tensors whose headers are at hand have that shape, else why not."""
    opened.tensors.info(named.tensors[0])
    for at, name in enumerate(named.tensors):
        if not opened.at_hand(name):
            continue
        shape = opened.tensors.info(name).shape
        wanted = [None if stated.sizes is None else stated.sizes[at], stated.width]
        if len(shape) != 2 or any(w not in (None, s) for w, s in zip(wanted, shape, strict=True)):
            if stated.lookup.unknown:
                return replace(stated, sizes=None, width=None, layers=1)
            sides = " × ".join("any" if one is None else f"{one:,}" for one in wanted)
            reason = f"{name} has the shape {list(shape)}, and config.json states {sides}"
            return Expected(RowLookup(unknown=reason))
    return stated


def _joined(opened: Opened, named: Named, sizes: Sequence[int] | None, first: EmbeddingTable) -> EmbeddingTable:
    """Return the table whose rows follow each other in several tensors.

    Their headers are read only if the configuration does not say how many rows each has.
    """
    width = first.shape[1]
    if sizes is None:
        sizes, fetched = [], 0
        for name in named.tensors:
            fetched += not opened.at_hand(name)
            if fetched > MOST_TABLES:
                many = f"{named.title} of {opened.name} lies in more than {MOST_TABLES} files"
                raise CheckpointError(f"{many}, and config.json does not say how many rows each has; read its parts")
            sizes.append(_info(opened, name, width).shape[0])
    read = _Parts(opened, named.tensors, tuple(accumulate(sizes, initial=0)), width)
    stored = first.provenance.nbytes // max(1, first.shape[0])
    provenance = replace(
        first.provenance,
        tensor=named.title,
        nbytes=stored * sum(sizes),
        notes=(f"{len(named.tensors):,} tensors, whose rows follow each other",),
    )
    return replace(first, shape=(sum(sizes), width), provenance=provenance, reader=read, named=None)


def _info(opened: Opened, name: str, width: int, rows: int | None = None) -> TensorInfo:
    """Return a part's header. Raises ``CheckpointError`` if its shape is not that of a part."""
    info = opened.tensors.info(name)
    if len(info.shape) != 2 or info.shape[1] != width or rows not in (None, info.shape[0]):
        wanted = f"[{'rows' if rows is None else rows}, {width}]"
        raise CheckpointError(f"{name} of {opened.name} has the shape {list(info.shape)}; its table needs {wanted}")
    return info


@dataclass(frozen=True, eq=False)
class _Parts:
    """Reader of rows that follow each other in several tensors; ``starts`` has the first row of each, and the end."""

    opened: Opened
    tensors: tuple[str, ...]
    starts: tuple[int, ...]
    width: int

    def __call__(self, start: int, stop: int) -> Vectors:
        """Return rows ``[start, stop)``. Raises ``CheckpointError`` for more than may be read at once."""
        limit = getattr(self.opened.tensors, "limits", DEFAULT_LIMITS).table_bytes
        if (size := 4 * (stop - start) * self.width) > 2 * limit:
            what = f"{stop - start:,} rows of {self.opened.name} take {size:,} bytes"
            raise CheckpointError(f"{what}; the limit is {2 * limit:,}; read fewer rows at a time")
        found: list[NDArray[np.floating]] = []
        first = int(np.searchsorted(self.starts, start, side="right")) - 1
        for at in range(first, len(self.tensors)):
            begin, end = self.starts[at], self.starts[at + 1]
            if begin >= stop:
                break
            _info(self.opened, self.tensors[at], self.width, end - begin)
            part = table_in_tensor(self.opened, "", self.tensors[at])
            found.append(part.rows(max(start, begin) - begin, min(stop, end) - begin))
        return np.concatenate(found) if len(found) != 1 else found[0]


def tokenizer(opened: Opened) -> Callable[[str], Pieces] | None:
    """Return what cuts a text into tokens, ``None`` if the source has no tokenizer."""
    from ...checkpoints.tokenizers.loading import load_tokenizer
    from ...checkpoints.tokenizers.worker import Cutter

    folder = opened.folder()
    return None if folder is None else (load_tokenizer if opened.ours else Cutter)(folder)
