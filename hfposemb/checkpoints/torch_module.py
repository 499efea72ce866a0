"""Tensors of a live ``torch.nn.Module``, with the interface of a checkpoint. Does not import torch itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .safetensors.checkpoint import TensorInfo

if TYPE_CHECKING:
    import torch

_STORED = {"torch.float64": "F64", "torch.float32": "F32", "torch.float16": "F16", "torch.bfloat16": "BF16"}


@dataclass(frozen=True, eq=False)
class LiveTensors:
    """A module's state as named tensors. Reads return copies, so later training does not change them."""

    name: str
    module: torch.nn.Module
    state: Mapping[str, Any]

    def names(self) -> tuple[str, ...]:
        """Return the names of all tensors in ``state_dict()``."""
        return tuple(self.state)

    def tensors(self) -> tuple[str, ...]:
        """Return the names of all parameters and buffers, including those that ``state_dict()`` leaves out."""
        buffers = (name for name, _ in self.module.named_buffers(remove_duplicate=False))
        return tuple(dict.fromkeys((*self.state, *buffers)))

    def has(self, name: str) -> bool:
        """Return whether ``name`` is a tensor, in the state or as an attribute of a module."""
        return name in self.state or hasattr(self._attribute(name), "is_meta")

    def trained(self, name: str) -> bool:
        """Return whether a tensor is a trainable parameter rather than a buffer."""
        return any(name == one for one, _ in self.module.named_parameters(remove_duplicate=False))

    def shares(self, first: str, second: str) -> bool:
        """Return whether two tensors are the same numbers in memory, as tied parameters are."""
        one, other = self._tensor(first), self._tensor(second)
        return bool(one is other or (one.data_ptr() == other.data_ptr() != 0 and one.shape == other.shape))

    def _attribute(self, name: str) -> Any:
        found: Any = self.module
        for part in name.split("."):
            found = getattr(found, part, None)
        return found

    def _tensor(self, name: str) -> Any:
        return self.state[name] if name in self.state else self._attribute(name)

    def info(self, name: str) -> TensorInfo:
        """Return a tensor's dtype and shape."""
        tensor = self._tensor(name)
        dtype = _STORED.get(str(tensor.dtype), str(tensor.dtype).removeprefix("torch."))
        return TensorInfo(name, dtype, tuple(tensor.shape), 0, tensor.numel() * tensor.element_size(), "")

    def metadata(self) -> Mapping[str, str]:
        """Return an empty mapping: a live module has no header."""
        return {}

    def config(self) -> dict[str, Any] | None:
        """Return the module's transformers configuration, or ``None`` if it has none."""
        config: Any = getattr(self.module, "config", None)
        values = config.to_dict() if hasattr(config, "to_dict") else None
        return values if isinstance(values, dict) else None

    def file_bytes(self, name: str) -> None:
        """Return ``None``: there is no file."""

    def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return rows ``[start, stop)`` of a tensor, F16 and BF16 widened to float32.

        Raises ``InputError`` for tensors on the meta device or of another than a floating-point dtype.
        """
        tensor = self._tensor(name).detach()
        if tensor.is_meta or not tensor.is_floating_point():
            raise InputError(
                f"{name} of the live model holds {tensor.dtype} on {tensor.device}; load it with real weights"
            )
        rows = tensor[start:stop].cpu()
        return np.array((rows if str(rows.dtype) == "torch.float64" else rows.float()).numpy())

    def modules_of(self, kind: str) -> tuple[str, ...]:
        """Return the names of the modules of class ``kind``, such as ``Embedding``, or of a subclass."""
        return tuple(
            name
            for name, module in self.module.named_modules()
            if any(parent.__name__ == kind for parent in type(module).__mro__)
        )


def open_module(module: torch.nn.Module, *, name: str | None = None) -> LiveTensors:
    """Return the tensors of a live module; ``name`` defaults to that of its class."""
    return LiveTensors(name or type(module).__name__, module, module.state_dict())
