"""Checkpoints with a PEFT adapter applied to their rows as they are read; nothing is merged or written.

The formulas are those of PEFT's ``merge_and_unload``: LoRA (Hu et al. 2021), rsLoRA (Kalajdzievski 2023), DoRA (Liu et
al. 2024), trainable tokens, and modules that are saved whole. Numbers are computed in float32, where PEFT computes in
the stored dtype.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import CheckpointError
from ...tables.table import CHUNK_BYTES
from ..formats import ReadTensors
from ..quantised.decoded import refusal
from ..safetensors.checkpoint import TensorInfo
from ..strict_json import shortened


@dataclass(frozen=True)
class ModuleChange:
    """How an adapter changes one tensor [rows, columns] of its base model; names are those of the adapter's tensors.

    Attributes:
        whole: Tensor that replaces the base model's.
        first: Factor A of a low-rank product.
        second: Factor B of a low-rank product.
        embedding: Whether the product is one of ``lora_embedding_A`` and ``lora_embedding_B``, which is transposed.
        turned: Whether other products are transposed, for layers that store [inputs, outputs]; shapes take precedence.
        scale: Factor of the product.
        magnitude: Magnitudes of DoRA.
        tokens: Rows of trained tokens.
        ids: Row numbers of the trained tokens.
        refused: Why the change cannot be applied, as the end of a sentence; "" if it can.
    """

    whole: str | None = None
    first: str | None = None
    second: str | None = None
    embedding: bool = False
    turned: bool = False
    scale: float = 1.0
    magnitude: str | None = None
    tokens: str | None = None
    ids: tuple[int, ...] = ()
    refused: str = ""


@dataclass(frozen=True, eq=False)
class Adapted:
    """Tensors of a base model, changed by an adapter as they are read.

    Attributes:
        base: Tensors of the base model.
        adapter: Tensors of the adapter.
        changes: How the adapter changes tensors, by their names in the base model.
    """

    base: ReadTensors
    adapter: ReadTensors
    changes: Mapping[str, ModuleChange]
    _kept: dict[str, NDArray[Any]] = field(default_factory=dict, repr=False)
    """Factors and scales that every row needs."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the locations of both checkpoints."""
        return Adapted, (self.base, self.adapter, dict(self.changes))

    @property
    def name(self) -> str:
        """Name in messages."""
        return self.base.name

    def names(self) -> tuple[str, ...]:
        """Return the names of the base model's tensors."""
        return self.base.names()

    def info(self, name: str) -> TensorInfo:
        """Return a tensor's dtype, shape and location; those of the adapter's own tensor if it is saved whole."""
        change = self.changes.get(name)
        if change is None or change.whole is None:
            return self.base.info(name)
        return replace(self.adapter.info(change.whole), name=name)

    def refusal(self, name: str) -> str:
        """Return why a tensor cannot be read as vectors, on one line; "" if it can."""
        change = self.changes.get(name)
        if change is None or change.whole is None:
            return refusal(self.base, name)
        return refusal(self.adapter, change.whole)

    def metadata(self) -> Mapping[str, str]:
        """Return the metadata of the base model's headers."""
        return self.base.metadata()

    def config(self) -> dict[str, Any] | None:
        """Return the configuration of the base model."""
        return self.base.config()

    def file_bytes(self, name: str) -> int | None:
        """Return the size of the file that holds a tensor."""
        change = self.changes.get(name)
        if change is None or change.whole is None:
            return self.base.file_bytes(name)
        return self.adapter.file_bytes(change.whole)

    def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return rows ``[start, stop)`` of a tensor as the adapter changes them, read-only."""
        change = self.changes.get(name)
        if change is None:
            return self.base.read(name, start, stop)
        if change.refused:
            raise CheckpointError(f"{shortened(name)} {change.refused}")
        if change.magnitude is not None:
            self._norms(name, change, self.info(name).shape)  # before other rows are in memory
        rows = self._unchanged(name, change, start, stop)
        stop = start + len(rows)
        if change.first is not None and change.second is not None:
            rows = self._low_rank(name, change, rows, start, stop)
        if change.tokens is not None:
            rows = self._replaced(change, rows, start, stop)
        rows.flags.writeable = False
        return rows

    def _unchanged(self, name: str, change: ModuleChange, start: int, stop: int | None) -> NDArray[Any]:
        if change.whole is not None:
            return self.adapter.read(change.whole, start, stop)
        return self.base.read(name, start, stop)

    def _low_rank(self, name: str, change: ModuleChange, rows: NDArray[Any], start: int, stop: int) -> NDArray[Any]:
        """Return rows plus the scaled low-rank product, with the magnitudes of DoRA where there are any."""
        total = self.info(name).shape
        left, right, by_row = self._factors(change, total)
        changed = _added(rows, left[start:stop], right, change.scale)
        if change.magnitude is None:
            return changed
        magnitude = self._whole(change.magnitude).reshape(-1)
        norms = self._norms(name, change, total)
        if magnitude.shape != norms.shape:
            found = f"{len(magnitude)} magnitudes for {len(norms)} vectors"
            raise CheckpointError(f"{shortened(change.magnitude)} has {found}; the adapter is for another model")
        factor = magnitude / norms
        factor = factor[start:stop, None] if by_row else factor[None, :]
        np.multiply(changed, factor, out=changed, casting="same_kind")
        return changed

    def _factors(self, change: ModuleChange, shape: tuple[int, ...]) -> tuple[NDArray[Any], NDArray[Any], bool]:
        """Return the factors [rows, r] and [r, columns] whose product is added to a tensor of ``shape``.

        The third value is whether a row is one output of the layer, so that DoRA has a magnitude for each row.
        """
        assert change.first is not None
        assert change.second is not None
        first, second = self._whole(change.first), self._whole(change.second)
        if first.ndim == second.ndim == 2:
            for turned in (True,) if change.embedding else (change.turned, not change.turned):
                left, right = (first.T, second.T) if turned else (second, first)
                if left.shape[1] == right.shape[0] and (left.shape[0], right.shape[1]) == shape:
                    return left, right, not turned
        found = f"{list(first.shape)} and {list(second.shape)}"
        raise CheckpointError(
            f"{shortened(change.first)} and its partner have the shapes {found}, which do not fit the base model's "
            f"{list(shape)}; the adapter is for another model, or for another size of its vocabulary"
        )

    def _norms(self, name: str, change: ModuleChange, shape: tuple[int, ...]) -> NDArray[Any]:
        """Return the norms of a whole changed tensor, by row or by column, as DoRA divides by them."""
        key = f"norms of {name}"
        if key not in self._kept:
            left, right, by_row = self._factors(change, shape)
            step = max(1, CHUNK_BYTES // (4 * max(shape[1], 1)))
            parts = []
            for start in range(0, shape[0], step):
                stop = min(start + step, shape[0])
                rows = _added(self._unchanged(name, change, start, stop), left[start:stop], right, change.scale)
                squares = "ij,ij->i" if by_row else "ij,ij->j"
                parts.append(np.einsum(squares, rows, rows, dtype=np.float64, casting="same_kind"))
                del rows
            total = np.concatenate(parts) if by_row else np.sum(parts, axis=0)
            self._kept[key] = np.sqrt(total)
        return self._kept[key]

    def _replaced(self, change: ModuleChange, rows: NDArray[Any], start: int, stop: int) -> NDArray[Any]:
        """Return rows with those of trained tokens replaced."""
        assert change.tokens is not None
        trained = self._whole(change.tokens)
        if len(trained) != len(change.ids) or trained.shape[1:] != rows.shape[1:]:
            found = f"{list(trained.shape)} for {len(change.ids)} tokens of width {rows.shape[-1]}"
            raise CheckpointError(f"{shortened(change.tokens)} has the shape {found}; the adapter is for another model")
        places = np.asarray(change.ids, np.int64)
        inside = (places >= start) & (places < stop)
        if not inside.any():
            return rows
        out = np.array(rows)
        out[places[inside] - start] = trained[inside]
        return out

    def _whole(self, name: str) -> NDArray[Any]:
        if name not in self._kept:
            self._kept[name] = self.adapter.read(name)
        return self._kept[name]


def _added(rows: NDArray[Any], left: NDArray[Any], right: NDArray[Any], scale: float) -> NDArray[Any]:
    """Return ``rows + scale · left @ right``, without memory for the product besides."""
    out: NDArray[Any] = left @ right
    out = out.astype(np.result_type(rows, out), copy=False)
    out *= scale
    out += rows
    return out


def scale_of(rank: int, alpha: float, *, root: bool) -> float:
    """Return the factor of a low-rank product: α / r, or α / √r for rsLoRA.

    >>> from hfposemb.checkpoints.adapters.adapted import scale_of
    >>> scale_of(4, 16, root=False), scale_of(4, 16, root=True)
    (4.0, 8.0)
    """
    return alpha / (math.sqrt(rank) if root else rank)
