"""Checkpoints whose quantised tables are decoded by rows as they are read, whatever holds their tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

from numpy.typing import NDArray

from ...errors import CheckpointError, InputError
from ...lazy_attributes import lazy_attribute
from ..formats import ReadTensors, WrappedTensors
from ..limits import DEFAULT_LIMITS, Limits
from ..safetensors.checkpoint import TensorInfo
from ..strict_json import fault, shortened
from .parts import FLOAT8, READ, QuantisedParts, beside, grouped

if TYPE_CHECKING:
    from .scaled_codes import ScaledCodes


class Stored(ReadTensors, Protocol):
    """Interface of ``Checkpoint``, ``HubCheckpoint`` and ``PickledCheckpoint``."""

    def codes(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return rows ``[start, stop)`` of a tensor as they are stored."""
        ...


@dataclass(frozen=True, eq=False)
class Decoded(WrappedTensors):
    """Checkpoint whose quantised tables are decoded as they are read; all other tensors are read as they are.

    The parts of a quantised table are listed as one tensor, under the name that it has without quantisation. Its dtype
    describes how it is stored. A table that cannot be decoded is listed too, with the dtype and shape of its codes.

    Attributes:
        stored: The checkpoint as it is stored.
        limits: Limits of what is read.
        config: Configuration of the model, which may say how tables are quantised.
    """

    stored: Stored
    limits: Limits = DEFAULT_LIMITS
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    _layouts: dict[str, ScaledCodes | CheckpointError | None] = field(default_factory=dict, repr=False)
    _infos: dict[str, TensorInfo] = field(default_factory=dict, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what the checkpoint is pickled as."""
        return Decoded, (self.stored, self.limits, self.config)

    def names(self) -> tuple[str, ...]:
        """Return the tensors' names; a quantised table has one, and its parts have none."""
        return self._names

    def info(self, name: str) -> TensorInfo:
        """Return a tensor's dtype, shape and location; those of the codes if they cannot be decoded."""
        if name not in self._infos:
            layout = self._layout(name)
            if layout is None or isinstance(layout, CheckpointError):
                self._infos[name] = self.stored_info(name)
            else:
                self._infos[name] = layout.info(name)
        return self._infos[name]

    def stored_info(self, name: str) -> TensorInfo:
        """Return a tensor as it is stored; the codes of a quantised table."""
        return self.stored.info(self.parts_of(name)[0])

    def parts_of(self, name: str) -> tuple[str, ...]:
        """Return the names of the stored tensors that hold a tensor, the codes of a quantised table first."""
        return tuple(self._groups[name].values()) if name in self._groups else (name,)

    def refusal(self, name: str) -> str:
        """Return why a tensor cannot be read as vectors, on one line; "" if it can."""
        layout = self._layout(name)
        return str(layout) if isinstance(layout, CheckpointError) else ""

    def file_bytes(self, name: str) -> int | None:
        """Return the size of the file that holds a tensor or its codes."""
        return self.stored.file_bytes(self.parts_of(name)[0])

    def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return rows ``[start, stop)`` of a tensor, read-only; those of a quantised table as float32.

        Of every part of the table, the rows that are needed are read and no others. The numbers equal those of the
        reference implementation, in the precision in which it computes.

        Raises:
            CheckpointError: If the table cannot be decoded or exceeds a limit.
            InputError: If the rows do not exist.
        """
        layout = self._layout(name)
        if layout is None:
            return self.stored.read(name, start, stop)
        if isinstance(layout, CheckpointError):
            raise CheckpointError(str(layout))
        rows = layout.shape[0]
        stop = rows if stop is None else stop
        if not 0 <= start <= stop <= rows:
            raise InputError(f"rows {start} to {stop} of {shortened(name)} do not exist; it has rows 0 to {rows}")
        found = layout.read(self.stored.codes, start, stop, limits=self.limits)
        found.flags.writeable = False
        return found

    @lazy_attribute
    def _groups(self) -> Mapping[str, Mapping[str, str]]:
        return grouped(self._stored_names)

    @lazy_attribute
    def _stored_names(self) -> tuple[str, ...]:
        return tuple(self.stored.names())

    @lazy_attribute
    def _names(self) -> tuple[str, ...]:
        if not self._groups:
            return self._stored_names
        parts = {part: table for table, group in self._groups.items() for part in group.values()}
        return tuple(dict.fromkeys(parts.get(name, name) for name in self._stored_names))

    def _layout(self, name: str) -> ScaledCodes | CheckpointError | None:
        """Return how a table is decoded, why it cannot be, or ``None`` for a tensor that is read as it is."""
        if name not in self._layouts:
            self._layouts[name] = self._found(name)
        return self._layouts[name]

    def _found(self, name: str) -> ScaledCodes | CheckpointError | None:
        group = self._groups.get(name)
        if group is None and (found := self.stored.info(name)).dtype not in FLOAT8:
            reason = _not_plain(found)
            return CheckpointError(reason) if reason else None
        from .layouts import layout_of

        stored = beside(name, self._stored_names) if group is None else group
        infos = {last: self.stored.info(part) for last, part in stored.items()}
        try:
            layout = layout_of(QuantisedParts(name, infos, self.config, self.stored.metadata(), self.stored.codes))
            self._check_width(layout)
        except CheckpointError as error:
            return error
        return layout

    def _check_width(self, layout: ScaledCodes) -> None:
        width, most = layout.shape[1], self.limits.columns
        if width > most:
            what = f"{shortened(layout.codes.name)} has rows of {width} numbers"
            raise fault(layout.codes.file, f"{what}; the limit is {most}")


def decoded(tensors: ReadTensors, limits: Limits, config: Mapping[str, Any]) -> ReadTensors:
    """Return a checkpoint whose quantised tables are decoded; the same one if the reader of its format decodes them.

    Args:
        tensors: The opened checkpoint.
        limits: Limits of what is read.
        config: Configuration of the model.
    """
    if not hasattr(tensors, "codes") or not getattr(tensors, "stores_codes", True):
        return tensors
    # The rest of a configuration may be long, and is not pickled with every table.
    return Decoded(cast(Stored, tensors), limits, {name: config[name] for name in READ if name in config})


def as_stored(tensors: ReadTensors, name: str) -> TensorInfo:
    """Return a tensor as it is stored; the codes of a quantised table."""
    return tensors.stored_info(name) if isinstance(tensors, Decoded) else tensors.info(name)


def at_hand(tensors: ReadTensors, name: str) -> bool:
    """Return whether dtype and shape of a tensor are known without a request."""
    stored, parts = (tensors.stored, tensors.parts_of(name)) if isinstance(tensors, Decoded) else (tensors, (name,))
    known = getattr(stored, "at_hand", None)
    return known is None or all(known(part) for part in parts)


def refusal(tensors: ReadTensors, name: str) -> str:
    """Return why a tensor of a checkpoint or live model cannot be read as vectors, on one line; "" if it can."""
    own = getattr(tensors, "refusal", None)
    return str(own(name)) if own is not None else _not_plain(tensors.info(name))


def table_refusal(tensors: ReadTensors, name: str) -> str:
    """Return why a tensor cannot be read as a table: its ``refusal``, or that it has no numbers; "" if it can."""
    info = tensors.info(name)
    if (said := refusal(tensors, name)) or 0 not in info.shape:
        return said
    return (
        f"{info.name} is empty, of the shape {list(info.shape)}; if DeepSpeed's ZeRO-3 split the model, save the model "
        "gathered, with zero_to_fp32.py or trainer.save_model, and open that"
    )


def _not_plain(info: TensorInfo) -> str:
    if info.readable:
        return ""
    return (
        f"{info.name} is stored as {info.dtype}, not as plain vectors; use the full-precision checkpoint of this model"
    )
