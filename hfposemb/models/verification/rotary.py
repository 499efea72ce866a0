"""Comparison of rotary frequencies, layouts and ALiBi slopes with those that a live model computes."""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...tables.embeddings import Embeddings
from ...tables.encodings import Alibi
from ...tables.rotary import Rotary
from ..architectures.table_names import tower_of
from ..architectures.type_defaults import completed
from ..positions.rotary_parts import TOWERS_APART, part_frequencies
from .heads import CLOSE, Check, Verdict

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False)
class _Turned:
    """Frequencies that a rotary module of a model holds, with their scaling."""

    path: str
    module: torch.nn.Module
    buffer: str
    frequencies: NDArray[np.float64]
    scaling: float

    @property
    def name(self) -> str:
        return f"{self.path}.{self.buffer}"

    @property
    def prefix(self) -> str:
        return self.buffer.removesuffix("inv_freq")


def rotary_checks(embeddings: Embeddings, model: torch.nn.Module) -> Iterator[Check]:
    """Compare frequencies, scaling and layout with those of every rotary module of the text; equal ones once.

    Frequencies that change with the length of the input are also compared beyond the trained length. Of images and
    sound, the frequencies are compared.
    """
    if getattr(getattr(model, "config", None), "alibi", False) is True:
        return  # Falcon holds frequencies that it does not use then
    ours = {name: one for name in embeddings.positions if isinstance(one := embeddings.positions[name], Rotary)}
    text = {name: one for name, one in ours.items() if tower_of(name) not in TOWERS_APART}
    parts = [one.frequencies for one in part_frequencies(completed(embeddings.config))]
    done: set[tuple[bytes, float]] = set()
    for turned in _turned(model):
        if (key := (turned.frequencies.tobytes(), turned.scaling)) in done:
            continue
        done.add(key)
        known = "token" in embeddings.tables or _nearest(turned, text)[1] <= 2 * CLOSE
        if known and _is_text(turned.path, type(turned.module).__name__):
            yield from _text(model, turned, text)
        else:
            yield _part(turned, parts)


def _turned(model: torch.nn.Module) -> Iterator[_Turned]:
    for path, module in model.named_modules():
        for buffer, values in module.named_buffers(recurse=False):
            if buffer.endswith("inv_freq") and "original" not in buffer and values.numel():
                frequencies = values.double().numpy()
                yield _Turned(path, module, buffer, frequencies, _scaling(module, buffer.removesuffix("inv_freq")))


def _scaling(module: torch.nn.Module, prefix: str) -> float:
    """Return the factor of cosines, measured at the first position; if that is not possible, as the module states."""
    import torch

    kind = {"layer_type": prefix.removesuffix("_")} if prefix else {}
    with suppress(Exception), torch.no_grad():
        cosines, _ = module(torch.zeros(1, 1, 1), torch.zeros(1, 1, dtype=torch.long), **kind)
        if (least := float(cosines.min())) == float(cosines.max()) > 0:
            return least
    return float(getattr(module, f"{prefix}attention_scaling", None) or 1.0)


def _part(one: _Turned, parts: Sequence[NDArray[np.float64]]) -> Check:
    """Compare the frequencies of a module for images or sound with those of the parts of the configuration."""
    near = [float(np.abs(ours - one.frequencies).max()) for ours in parts if ours.shape == one.frequencies.shape]
    if not near or min(near) > 2 * CLOSE:
        return Check("rotary frequencies", "not compared", "", f"{one.name} belongs to no part whose own are known")
    return Check("rotary frequencies", "equal", "part", one.name, min(near))


def _nearest(one: _Turned, ours: Mapping[str, Rotary]) -> tuple[str, float]:
    """Return the encoding whose frequencies are nearest to those of a module, and how far they are; "" and infinity."""
    near = {
        key: float(np.abs(encoding.inv_freq - one.frequencies).max())
        for key, encoding in ((key, encoding.at(1)) for key, encoding in ours.items())
        if encoding.inv_freq.shape == one.frequencies.shape and abs(encoding.attention_scaling - one.scaling) < 1e-6
    }
    return min(near.items(), key=lambda item: item[1], default=("", math.inf))


def _text(model: torch.nn.Module, one: _Turned, ours: Mapping[str, Rotary]) -> Iterator[Check]:
    key, far = _nearest(one, ours)
    if far > 2 * CLOSE:
        verdict: Verdict = "different" if ours else "missing"
        yield Check("rotary frequencies", verdict, ", ".join(ours) or "none", one.name, far if key else None)
        return
    yield Check("rotary frequencies", "equal", key, one.name, far)
    if ours[key].by_length is not None:
        yield from _beyond(ours[key], one.module, one.prefix, key, one.name)
    if (layout := _layout(model, one.module, one.prefix.rstrip("_"), len(one.frequencies))) is not None:
        same: Verdict = "equal" if layout == ours[key].layout else "different"
        yield Check("rotary layout", same, ours[key].layout, layout)


def _beyond(ours: Rotary, module: torch.nn.Module, prefix: str, key: str, name: str) -> Iterator[Check]:
    """Compare frequencies after inputs of twice to eight times the trained length, then return to a short input."""
    import torch

    kind = {"layer_type": prefix.removesuffix("_")} if prefix else {}
    trained = ours.scaled.trained_length

    def rotate(length: int) -> None:
        with torch.no_grad():  # one position is enough: the module looks at the largest
            module(torch.zeros(1, 1, 1), position_ids=torch.tensor([[length - 1]]), **kind)

    for times in (2, 4, 8):
        what = f"rotary frequencies at {times} × {trained:,} positions"
        try:
            rotate(times * trained)
            theirs = getattr(module, f"{prefix}inv_freq").double().numpy()
        except Exception as error:  # noqa: BLE001 - modules of other models have other signatures
            yield Check(what, "not compared", key, f"{name}: {type(error).__name__}")
            continue
        far = float(np.abs(ours.at(times * trained).inv_freq - theirs).max())
        yield Check(what, "equal" if far <= CLOSE else "different", key, name, far)
    with suppress(Exception):
        rotate(1)


_OTHER_ROTARY = re.compile(
    r"protein|pos_emb$|time_emb|token2wav|bbox|encode_pos|rel_bias|speech|compress", re.IGNORECASE
)


def _is_text(path: str, kind: str) -> bool:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind).lower()
    others = (*TOWERS_APART, "talker", "action", "qformer")
    return not (tower_of(path) in others or tower_of(words) in others or _OTHER_ROTARY.search(path))


_ROTATES = re.compile(r"\b(_?apply_\w*rot\w*)\(")


def _rotation(model: torch.nn.Module, rotary: torch.nn.Module) -> Callable[..., Any] | None:
    """Return the function with which the attention over a text rotates; an indexer beside it may have another."""
    functions = vars(sys.modules[type(rotary).__module__])
    for path, module in model.named_modules():
        kind = type(module)
        if kind.__module__ != type(rotary).__module__ or not re.search(r"Attention|MLA", kind.__name__):
            continue
        used = {name for name in _ROTATES.findall(inspect.getsource(kind.forward)) if name in functions}
        if not used or not _is_text(path, kind.__name__):
            continue
        flag = getattr(getattr(rotary, "config", None), "rope_interleave", None)
        chosen = {name for name in used if name.endswith("_interleave") == bool(flag)} or used
        return functions[min(chosen)] if len(chosen) == 1 else None
    return functions.get("apply_rotary_pos_emb") or functions.get("apply_rotary_pos_emb_interleave")


def _layout(model: torch.nn.Module, module: torch.nn.Module, kind: str, pairs: int) -> str | None:
    """Return the layout of rotated pairs, measured with the model's own function; ``None`` if that is not possible."""
    import torch

    if (turn := _rotation(model, module)) is None:
        return None
    width = 2 * pairs
    # One head for each unit vector; two of them form a pair if they are rotated into the same two dimensions.
    heads_first = torch.eye(width)[None, :, None, :].expand(1, width, 2, width).contiguous()
    places = torch.tensor([[0, 1]])
    extra = {"layer_type": kind} if "layer_type" in inspect.signature(module.forward).parameters else {}
    alone = "cos" in list(inspect.signature(turn).parameters)[:2]  # one tensor is rotated, or query and key
    # Modules for several axes want places on each, and some functions want positions before heads.
    for query, where in product((heads_first, heads_first.transpose(1, 2)), (places, places.expand(3, 1, 2))):
        with suppress(Exception):
            angles = module(query, where, **extra)
            turned = turn(*[query] * (1 if alone else 2), *(angles if isinstance(angles, tuple) else (angles,)))
            turned = (turned[0] if isinstance(turned, tuple) else turned)[0]
            ends = (turned[:, 1] if query is heads_first else turned[1]).abs().gt(1e-6)
            same = [head for head in range(1, width) if torch.equal(ends[head], ends[0])]
            if ends.shape == (width, width):
                return {1: "interleaved", pairs: "half"}.get(same[0]) if len(same) == 1 and pairs > 1 else None
    return None


def alibi_checks(embeddings: Embeddings, model: torch.nn.Module) -> Iterator[Check]:
    """Compare slopes with those of the biases that the model's own function computes."""
    import torch

    ours = next((one for name in embeddings.positions if isinstance(one := embeddings.positions[name], Alibi)), None)
    module = sys.modules[type(model).__module__]
    build = next((one for name, one in vars(module).items() if re.fullmatch(r"build\w*_alibi_tensor", name)), None)
    if build is None or (ours is None and not getattr(getattr(model, "config", None), "alibi", True)):
        return
    if ours is None:
        yield Check("ALiBi slopes", "missing", "none", build.__name__)
        return
    heads, length = len(ours.slopes), 9
    if len(inspect.signature(build).parameters) == 3 and "attention_mask" in inspect.signature(build).parameters:
        bias = build(torch.ones(1, length), heads, torch.float32).reshape(heads, length)
    else:
        bias = build(heads, length).reshape(heads, length)
    slopes = (bias[:, -1] - bias[:, 0]).double().numpy() / (length - 1)
    difference = float(np.abs(slopes - ours.slopes).max())
    # Falcon rounds its biases to bfloat16, which has 8 bits.
    verdict: Verdict = "equal" if difference <= (2**-8 if ours.rounded else 1e-6) else "different"
    yield Check("ALiBi slopes", verdict, f"{heads} slopes", build.__name__, difference)
