"""Tensors of a live ``torch.nn.Module``, with the interface of a checkpoint. Does not import torch itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..tables.encoding_base import shortened
from .safetensors.checkpoint import TensorInfo

if TYPE_CHECKING:
    import torch

_STORED = {"torch.float64": "F64", "torch.float32": "F32", "torch.float16": "F16", "torch.bfloat16": "BF16"}


@dataclass(frozen=True, eq=False)
class LiveTensors:
    """A module's state as named tensors. Reads return copies, so later training does not change them.

    Attributes:
        name: Name of the module in messages.
        module: The module.
        state: Its tensors by name; those of layers that an adapter wraps have the names that they have without it.
        adapted: The layer of each weight that an adapter or a parametrization changes, by the same name.
    """

    name: str
    module: torch.nn.Module
    state: Mapping[str, Any]
    adapted: Mapping[str, Any] = field(default_factory=dict)

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
        return name in self.adapted or any(
            name == _plain(one) for one, _ in self.module.named_parameters(remove_duplicate=False)
        )

    def shares(self, first: str, second: str) -> bool:
        """Return whether two tensors are the same numbers in memory, as tied parameters are."""
        one, other = self._tensor(first), self._tensor(second)
        if self.adapted.get(first) is not self.adapted.get(second):
            return False
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
        """Return the transformers configuration of the module, or of all models in it; ``None`` if they differ."""
        within: dict[str, Any] = {}
        for name, module in self.module.named_modules():
            config: Any = getattr(module, "config", None)
            outer = any(one == "" or name.startswith(f"{one}.") for one in within)
            if not outer and hasattr(config, "to_dict"):
                within[name] = config.to_dict()
        first, *others = within.values() or (None,)
        return first if isinstance(first, dict) and all(one == first for one in others) else None

    def tokenizer(self) -> Any:
        """Return the tokenizer that the module has, as those of sentence-transformers; ``None`` if it has none."""
        held = getattr(self.module, "tokenizer", None)
        return held if hasattr(held, "save_pretrained") and hasattr(held, "get_vocab") else None

    def file_bytes(self, name: str) -> None:
        """Return ``None``: there is no file."""

    def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return rows ``[start, stop)`` of a tensor, F16 and BF16 widened to float32.

        Raises ``InputError`` for tensors on the meta device or of another than a floating-point dtype.
        """
        tensor = self._tensor(name).detach()
        if tensor.is_meta or not tensor.is_floating_point():
            raise InputError(
                f"{name} of the live model holds {tensor.dtype} on {tensor.device}; load it with real weights, not "
                "offloaded or quantised, or extract its checkpoint by name"
            )
        adapted = self.adapted.get(name)
        rows = (tensor[start:stop] if adapted is None else _looked_up(adapted, tensor, slice(start, stop))).cpu()
        found = np.array((rows if str(rows.dtype) == "torch.float64" else rows.float()).numpy())
        return shortened(found, self._attribute(name.rpartition(".")[0]))

    def modules_of(self, kind: str) -> tuple[str, ...]:
        """Return the names of the modules of class ``kind``, such as ``Embedding``, or of a subclass."""
        return tuple(
            _plain(name)
            for name, module in self.module.named_modules()
            if any(parent.__name__ == kind for parent in type(module).__mro__)
        )


def open_module(module: torch.nn.Module, *, name: str | None = None) -> LiveTensors:
    """Return the tensors of a live module; ``name`` defaults to that of its class."""
    state, adapted = _without_adapters(module)
    return LiveTensors(name or type(module).__name__, module, state, adapted)


_INNER = ("base_layer", "token_adapter", "original_module")
"""Where the wrapping layers of PEFT keep the layer that they wrap."""


def _plain(name: str) -> str:
    """Return the name that a tensor of PEFT's model has without it."""
    return name.removeprefix("base_model.model.")


def _wrapped(layer: Any) -> Any:
    """Return the layer that a layer of PEFT wraps, ``None`` if it wraps none."""
    return next((inner for name in _INNER if (inner := getattr(layer, name, None)) is not None), None)


def _is_computed(layer: Any) -> bool:
    """Return whether the weight of a layer is computed by a parametrization of torch."""
    return "weight" in getattr(layer, "parametrizations", ())


def _innermost(layer: Any) -> Any:
    while (inner := _wrapped(layer)) is not None:
        layer = inner
    return layer


def _without_adapters(module: torch.nn.Module) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the tensors of a module under the names they have without adapters, and the layer that wraps each."""
    outer: dict[str, Any] = {}
    for name, layer in module.named_modules():
        changed = _wrapped(layer) is not None or _is_computed(layer)
        if name and changed and not any(name.startswith(f"{one}.") for one in outer):
            outer[name] = layer
    state = {
        _plain(key): tensor
        for key, tensor in module.state_dict().items()
        if not any(key.startswith(f"{name}.") for name in outer)
    }
    adapted: dict[str, Any] = {}
    for name, layer in outer.items():
        if _is_computed(layer):
            state[f"{_plain(name)}.weight"] = layer.weight.detach()
            adapted[f"{_plain(name)}.weight"] = layer
            continue
        for key, tensor in _innermost(layer).state_dict().items():
            state[f"{_plain(name)}.{key}"] = tensor
            if key == "weight":
                adapted[f"{_plain(name)}.{key}"] = layer
    return state, adapted


def _looked_up(layer: Any, weight: Any, rows: slice) -> Any:
    """Return rows of a weight as an adapted layer uses it: those of an embedding are looked up."""
    if _is_computed(layer):
        return layer.weight.detach()[rows]
    inner, active = _innermost(layer), list(getattr(layer, "active_adapters", ()))
    if hasattr(inner, "num_embeddings"):
        ids = weight.new_tensor(range(*rows.indices(inner.num_embeddings))).long()
        return layer(ids).detach() / getattr(inner, "embed_scale", 1.0)
    if callable(merged := getattr(getattr(layer, "token_adapter", layer), "get_merged_weights", None)):
        return merged(active).detach()[rows]
    if hasattr(layer, "modules_to_save"):
        saved = [layer.modules_to_save[one] for one in active if one in layer.modules_to_save]
        return (saved[0].weight if saved else weight).detach()[rows]
    if hasattr(layer, "get_delta_weight") and not layer.merged and not layer.disable_adapters:
        weight = sum((layer.get_delta_weight(one) for one in active), weight)
    return weight.detach()[rows]
