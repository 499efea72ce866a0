"""Comparison of an output head with ``get_output_embeddings()`` of a live model: vectors, bias, tying."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...errors import HfposembError
from ...tables.embeddings import Embeddings
from ...tables.output_head import OutputHead

if TYPE_CHECKING:
    import torch

Verdict = Literal["equal", "different", "missing", "not compared"]

CLOSE = 1e-5
"""Tolerance of float32 comparisons: of the first layer's input, and doubled of frequencies."""


@dataclass(frozen=True)
class Check:
    """One comparison between ``ours`` and ``theirs``; ``difference`` is the largest absolute difference."""

    what: str
    verdict: Verdict
    ours: str
    theirs: str
    difference: float | None = None


def differ(ours: NDArray[Any], theirs: NDArray[Any]) -> float | None:
    """Return the largest difference, 0.0 only if all values are bitwise equal; ``None`` if the shapes differ."""
    if ours.shape != theirs.shape:
        return None
    if np.array_equal(ours, theirs, equal_nan=True):
        return 0.0
    return float(max(np.nanmax(np.abs(ours.astype(np.float64) - theirs)), np.finfo(np.float32).tiny))


def nearest(what: str, theirs: str, values: NDArray[Any], ours: Mapping[str, NDArray[Any]]) -> Check:
    """Compare values of the model with the nearest of ours."""
    found = {name: difference for name, one in ours.items() if (difference := differ(one, values)) is not None}
    if not found:
        return Check(what, "missing", ", ".join(ours)[:80] or "none", f"{theirs} {list(values.shape)}")
    name = min(found, key=lambda name: found[name])
    return Check(what, "equal" if found[name] == 0.0 else "different", name, theirs, found[name])


MULTIPLIED = {"fsmt": "decoder.output_projection"}
"""The module whose product is the logits, by model type, where ``get_output_embeddings()`` returns another.

FSMT returns the decoder's input table, which is the same parameter only if the configuration ties both.
"""


def head_checks(embeddings: Embeddings, model: torch.nn.Module) -> Iterator[Check]:
    """Yield the check of the output head of a source; none if neither has one.

    Args:
        embeddings: What was extracted.
        model: The model of the class that was saved, with its head.
    """
    import torch

    theirs, name = output_module(model), type(model).__name__
    if theirs is None:
        yield from (Check("output head", "missing", key, name) for key in list(embeddings.heads)[:1])
        return
    if not isinstance(getattr(theirs, "weight", None), torch.Tensor):
        what = f"{type(theirs).__name__} of {sum(1 for _ in theirs.parameters())} heads"
        yield Check("output head", "not compared", ", ".join(embeddings.heads) or "none", what)
        return
    try:
        head = embeddings.head
    except HfposembError as error:
        # A head that the checkpoint lacks has random numbers once it is loaded, which nothing can equal.
        incomplete = any(note.startswith("head: ") for note in embeddings.notes)
        verdict: Verdict = "not compared" if incomplete else "missing"
        why = getattr(error, "reason", None) or str(error)
        yield Check("output head", verdict, why[:160], f"{name} {list(theirs.weight.shape)}")
        return
    wrong = head_differences(head, model, theirs)
    difference = differ(head.vectors, theirs.weight.detach().float().numpy())
    ours = f"{head.provenance.tensor}, {'tied' if head.tied else 'untied'}"
    yield Check("output head", "different" if wrong else "equal", ours, "; ".join(wrong) or name, difference)


def head_differences(head: OutputHead, model: torch.nn.Module, theirs: Any) -> list[str]:
    """Return what differs between a head and the module that is a live model's: vectors, bias, tying.

    Args:
        head: The head.
        model: The live model.
        theirs: Its ``output_module``.
    """
    tied = head.tied_by_bytes if head.tied.how == "configuration" else head.tied
    bias = _bias_of(model, theirs)
    wrong = []
    if not np.array_equal(head.vectors, theirs.weight.detach().float().numpy()):
        wrong.append(f"vectors of {head.provenance.tensor} {list(head.shape)}, not {list(theirs.weight.shape)}")
    if (bias is None) != (head.bias is None):
        wrong.append(f"bias {head.bias_tensor}")
    elif bias is not None and head.bias is not None and not np.array_equal(head.bias, bias.detach().float().numpy()):
        wrong.append(f"numbers of the bias {head.bias_tensor}")
    if tied.tied != _is_shared(model, theirs.weight):
        wrong.append(f"said to be {tied}")
    return wrong


def output_module(model: torch.nn.Module) -> Any:
    """Return the module whose product with the final vectors is the logits; ``None`` if there is none."""
    ending = MULTIPLIED.get(getattr(getattr(model, "config", None), "model_type", ""))
    named = (module for name, module in model.named_modules() if ending and f".{name}".endswith(f".{ending}"))
    if (found := next(named, None)) is not None:
        return found
    with suppress(AttributeError, NotImplementedError, TypeError):
        asked: Any = model.get_output_embeddings
        return asked()
    return None


def _bias_of(model: torch.nn.Module, head: Any) -> torch.Tensor | None:
    """Return the bias of a head, or that of the module around it, which ESM and Reformer add to its product."""
    import torch

    around = next((module for module in model.modules() if head in module.children()), None)
    for bias in (getattr(head, "bias", None), getattr(around, "bias", None)):
        if isinstance(bias, torch.Tensor) and len(bias) == len(head.weight):
            return bias
    return None


def _is_shared(model: torch.nn.Module, weight: torch.Tensor) -> bool:
    """Return whether a head's weight is the weight of an ``nn.Embedding`` of the model too."""
    import torch

    tables = [getattr(module, "weight", None) for module in model.modules() if "Embedding" in type(module).__name__]
    return any(isinstance(table, torch.Tensor) and table.data_ptr() == weight.data_ptr() for table in tables)
