"""What a live model does with a few tokens: the rows that it looks up, and the inputs of its layers."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

PIECES = 11
"""Number of tokens fed to a model to observe its lookups."""


@dataclass(frozen=True, eq=False)
class Lookup:
    """Rows that a model read from a table: ``rows`` are the indices, in the shape in which they were requested."""

    name: str
    weight: NDArray[np.float32]
    rows: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Observed:
    """What a model did with ``ids``: its lookups, and the input of the first layer of each list of layers."""

    ids: NDArray[np.int64]
    lookups: tuple[Lookup, ...]
    layers: Mapping[str, NDArray[np.float32]]


def observe(model: torch.nn.Module) -> Observed:
    """Run a model on a few tokens, or noise for images and sounds; record its lookups and layer inputs.

    If it fails, other inputs and then its parts are tried; what was recorded before a failure counts.
    """
    import torch

    ids = _ids(model)
    names = {
        tensor.data_ptr(): name
        for name, tensor in (*model.named_buffers(remove_duplicate=False), *model.named_parameters())
    }
    lookups: list[Lookup] = []
    layers: dict[str, NDArray[np.float32]] = {}
    for part, arguments in _attempts(model, torch.from_numpy(ids)[None]):
        found, fed = _run(part, arguments, names)
        lookups += found
        if fed and any(np.array_equal(one.rows.reshape(-1), ids) for one in found):
            layers = fed
            break
    return Observed(ids, tuple(lookups), layers)


def _ids(model: torch.nn.Module) -> NDArray[np.int64]:
    """Return ids in random order without the first few, which are often special; tiny vocabularies repeat ids."""
    table = input_embeddings(model)
    most = min(int(table.weight.shape[0]), 60) if table is not None else 36
    rng = np.random.default_rng(1)
    if most < 2 * PIECES:
        padding = getattr(getattr(model, "config", None), "pad_token_id", None)
        return np.resize([one for one in rng.permutation(most) if one != padding], PIECES).astype(np.int64)
    return np.asarray(rng.permutation(max(most - 8, PIECES))[:PIECES] + min(5, max(most - PIECES, 0)), np.int64)


def input_embeddings(model: torch.nn.Module) -> Any:
    """Return the ``nn.Embedding`` that a model's ``get_input_embeddings()`` names; ``None`` if there is none."""
    import torch

    try:
        found = model.get_input_embeddings()  # type: ignore[operator]
    except (AttributeError, NotImplementedError, TypeError, KeyError):
        return None
    return found if isinstance(found, torch.nn.Embedding) and found.weight.shape[0] > 1 else None


def _run(
    part: torch.nn.Module, arguments: Mapping[str, torch.Tensor], names: Mapping[int, str]
) -> tuple[list[Lookup], dict[str, NDArray[np.float32]]]:
    import torch
    from torch.overrides import TorchFunctionMode

    lookups: list[Lookup] = []
    fed: dict[str, NDArray[np.float32]] = {}

    class Watch(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if func is torch.nn.functional.embedding:
                rows, weight = [*args, *(kwargs[name] for name in ("input", "weight") if name in kwargs)][:2]
                name = names.get(weight.data_ptr(), "")
                lookups.append(Lookup(name, weight.detach().float().numpy(), rows.detach().numpy().copy()))
            return func(*args, **kwargs)

    def hook(name: str) -> Any:
        def record(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            values = [one for one in (*args, *kwargs.values()) if isinstance(one, torch.Tensor)]
            vectors = [one for one in values if one.is_floating_point() and one.ndim >= 2]
            if vectors:
                fed.setdefault(name, vectors[0].detach().float().numpy().copy())

        return record

    lists = [(name, one) for name, one in part.named_modules() if isinstance(one, torch.nn.ModuleList) and len(one)]
    hooks = [one[0].register_forward_pre_hook(hook(name), with_kwargs=True) for name, one in lists]
    try:
        with torch.no_grad(), Watch():
            part(**arguments)
    except Exception:  # noqa: BLE001 - a model may reject made-up inputs in any way; what was recorded still counts
        return lookups, fed
    finally:
        for one in hooks:
            one.remove()
    return lookups, fed


_PARTS = ("language_model", "text_model", "text_encoder", "decoder", "model", "thinker", "transformer", "encoder")


def _attempts(model: torch.nn.Module, ids: torch.Tensor) -> Iterator[tuple[torch.nn.Module, dict[str, torch.Tensor]]]:
    """Yield parts of a model with arguments to try: tokens, tokens with an image or a sound, and either alone."""
    import torch

    generator = torch.Generator().manual_seed(0)
    names = inspect.signature(model.forward).parameters
    words = _words(model, ids)
    if words:
        yield model, words
    if "pixel_values" in names:
        image = torch.randn(1, *_image(getattr(model, "config", None)), generator=generator)
        yield model, {**words, "pixel_values": image}
        yield model, {"pixel_values": image}
    if "input_values" in names:
        yield model, {"input_values": torch.randn(1, 4000, generator=generator)}
    if "input_features" in names:
        config = getattr(model, "config", None)
        mels, frames = getattr(config, "num_mel_bins", 80), 2 * getattr(config, "max_source_positions", 40)
        rest = {name: value for name, value in words.items() if name != "input_ids"}
        yield model, {**rest, "input_features": torch.randn(1, mels, frames, generator=generator)}
    for name in _PARTS:
        part = getattr(model, name, None)
        if isinstance(part, torch.nn.Module) and (words := _words(part, ids)):
            yield part, words


def _words(part: torch.nn.Module, ids: torch.Tensor) -> dict[str, Any]:
    names = inspect.signature(part.forward).parameters
    words: dict[str, Any] = {name: ids for name in ("input_ids", "decoder_input_ids") if name in names}
    if not words:
        return {}
    open_ended = any(one.kind is one.VAR_KEYWORD for one in names.values())
    if "use_cache" in names or open_ended:
        words["use_cache"] = False
    if "bbox" in names and names["bbox"].default is inspect.Parameter.empty:
        words["bbox"] = ids.new_zeros(*ids.shape, 4)
    return words


def _image(config: Any) -> tuple[int, int, int]:
    """Return channels, height and width of the images in a configuration."""
    for one in (config, *(getattr(config, name, None) for name in ("vision_config", "image_config", "encoder"))):
        size, channels = getattr(one, "image_size", None), getattr(one, "num_channels", 3)
        if isinstance(size, int):
            size = (size, size)
        if isinstance(size, list | tuple) and len(size) == 2:
            return (channels if isinstance(channels, int) else 3, int(size[0]), int(size[1]))
    return 3, 224, 224
