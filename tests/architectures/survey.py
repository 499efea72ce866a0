"""Every model type of transformers, built small, saved, extracted and compared with the model itself."""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

import hfposemb as hpe
from hfposemb.checkpoints.access import Access
from hfposemb.models.extraction import of_opened
from hfposemb.models.opening import open_here
from hfposemb.models.summary import describe
from hfposemb.models.verification.heads import Check, Verdict, head_differences, output_module
from hfposemb.models.verification.verifying import compare
from hfposemb.tables.embeddings import Embeddings
from hfposemb.tables.rotary import Rotary
from hfposemb.tables.sources import LocalSource
from tests.architectures.tiny import CannotBuildError, _classes, build, configurations, randomise, workplace

LARGEST = 300_000_000
"""Largest number of parameters of a model that is built."""


@dataclass(frozen=True)
class HeadRow:
    """What one class gave: its head's tensor, how it is tied, and what differs from transformers ("" if nothing)."""

    built: str
    tensor: str = ""
    tied: str = ""
    bias: str = ""
    wrong: str = ""
    scope: str = ""
    """Why the head is not a table, such as one head for each codebook; such classes are not judged."""

    def __str__(self) -> str:
        """Name the head's tensor and how it is tied."""
        if self.scope or not self.tensor:
            return self.scope or "none found"
        tied = {"absent": "tied: not stored", "own tensor": "untied", "configuration": "own tensor though tied"}
        bias = f" + `{self.bias}`" if self.bias else ""
        return f"`{self.tensor}`{bias}, {tied.get(self.tied, self.tied)}"


def with_heads(model_type: str) -> Iterator[transformers.PreTrainedModel]:
    """Yield a small random model of each class of a type that has an output head."""
    seen: set[type] = set()
    for config in configurations(model_type):
        for kind in _classes(config):
            # A stack is a part of a model, and is not saved alone.
            if kind in seen or kind.__name__.endswith("Stack") or (model := _built(kind, config, seen)) is None:
                continue
            seen.add(kind)
            yield model


def _built(kind: Any, config: Any, seen: set[type]) -> transformers.PreTrainedModel | None:
    try:
        with torch.device("meta"):
            empty = kind(config)
        if empty.get_output_embeddings() is None:
            seen.add(kind)
            return None
        if sum(math.prod(p.shape) for p in empty.parameters()) > LARGEST:
            return None
        torch.manual_seed(0)
        model = kind(config).eval()
    except Exception:  # noqa: BLE001 - whatever a constructor says; a larger configuration follows
        return None
    randomise(model)
    built: transformers.PreTrainedModel = model
    return built


def heads_of(model_type: str, *, classes: int | None = None) -> tuple[HeadRow, ...]:
    """Build, save and extract each class of a type that has a head, or the first ``classes``, and compare."""
    rows = []
    for model in islice(with_heads(model_type), classes):
        with tempfile.TemporaryDirectory(prefix="heads-") as folder:
            model.save_pretrained(folder)
            rows.append(compared_head(model, Path(folder)))
    return tuple(rows)


def checks_of(
    rows: tuple[HeadRow, ...], base: transformers.PreTrainedModel, found: hpe.Embeddings
) -> tuple[Check, ...]:
    """Return one check per class with a head, and one of a class without: that none was found.

    Args:
        rows: What the classes with a head gave.
        base: The model of the survey, mostly without a head.
        found: What was extracted from it.
    """
    checks = []
    for row in rows:
        verdict: Verdict = "not compared" if row.scope else "different" if row.wrong else "equal"
        checks.append(Check("output head", verdict, row.tensor or row.scope, f"{row.built}: {row.wrong or row.tied}"))
    if output_module(base) is None:
        listed, name = ", ".join(found.heads) or "none", type(base).__name__
        theirs = [weight.detach().float().numpy() for weight in heads_of_parts(base)]
        inside = [any(np.array_equal(one.vectors, weight) for weight in theirs) for one in found.heads.values()]
        what = "output head of a part" if inside and all(inside) else "no output head"
        checks.append(Check(what, "equal" if all(inside) else "different", listed, name))
    return tuple(checks)


def heads_of_parts(model: transformers.PreTrainedModel) -> Iterator[torch.Tensor]:
    """Yield the weights of the heads of a model's parts, such as Qwen2.5-Omni's thinker, where the whole names none."""
    for name, module in model.named_modules():
        if name.endswith(("lm_head", "codec_head")) and isinstance(module, torch.nn.Linear):
            yield module.weight


def compared_head(model: transformers.PreTrainedModel, folder: Path) -> HeadRow:
    """Compare the head of a saved model with that of the live one: vectors, bias, and whether it is tied."""
    name, theirs = type(model).__name__, output_module(model)
    if not isinstance(getattr(theirs, "weight", None), torch.Tensor):
        return HeadRow(name, scope=f"{type(theirs).__name__} of {sum(1 for _ in theirs.parameters())} heads")
    try:
        head = hpe.extract(folder).head
    except hpe.HfposembError as error:
        return HeadRow(name, wrong=str(error).replace(str(folder), name)[:200])
    wrong = "; ".join(head_differences(head, model, theirs)).replace("\n", " ")
    return HeadRow(name, str(head.provenance.tensor), head.tied.how, head.bias_tensor or "", wrong)


SECONDS = 240
"""Longest that building and comparing one type may take."""


@dataclass(frozen=True)
class Row:
    """What one model type gave: mechanisms by part, tensors with offsets, checks; or why it was not built."""

    model_type: str
    built: str = ""
    reason: str = ""
    mechanisms: tuple[str, ...] = ()
    token: str = ""
    positions: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    heads: tuple[str, ...] = ()
    info_ms: float = 0.0

    def verdicts(self, what: str) -> list[str]:
        """Return the verdicts of one kind of check."""
        return [check.verdict for check in self.checks if check.what.startswith(what)]


def one(model_type: str, *, classes: int | None = None) -> Row:
    """Build, save, extract and compare one type.

    Args:
        model_type: The type.
        classes: Number of classes with an output head that are compared; ``None`` for all.
    """
    try:
        with workplace(SECONDS) as folder:
            return _row(model_type, folder, classes)
    except CannotBuildError as error:
        return Row(model_type, reason=" ".join(str(error).split())[:160])
    except Exception as error:  # noqa: BLE001 - a type that fails is a row of the survey, never its end
        return Row(model_type, reason=f"{type(error).__name__}: {' '.join(str(error).split())[:160]}")


def _row(model_type: str, folder: Path, classes: int | None) -> Row:
    model = build(model_type)
    model.save_pretrained(folder)
    found = _from_disk(folder)
    took = min(_milliseconds(folder) for _ in range(3))
    # The folder's name is another one each time.
    checks = tuple(
        replace(check, ours=check.ours.replace(str(folder), model_type)) for check in compare(found, model).checks
    )
    heads = heads_of(model_type, classes=classes)
    checks += checks_of(heads, model, found)
    stored = (table.provenance for key, table in found.tables.items() if "token" not in key)
    rotary = [encoding for encoding in found.positions.values() if isinstance(encoding, Rotary)]
    return Row(
        model_type,
        built=type(model).__name__,
        mechanisms=tuple(f"{key}: {encoding.kind}" for key, encoding in found.positions.items()),
        token=str(found.token.provenance.tensor) if "token" in found.tables else "",
        positions=tuple(f"{one.tensor} from row {one.row_offset}" for one in stored),
        layouts=tuple(dict.fromkeys(encoding.layout for encoding in rotary)),
        checks=checks,
        heads=tuple(dict.fromkeys(str(head) for head in heads)),
        info_ms=took,
    )


def _from_disk(folder: Path) -> Embeddings:
    source, access = LocalSource(folder), Access()
    return of_opened(open_here(source, access), source, access)


def _milliseconds(folder: Path) -> float:
    """Return what it takes to say which tables and positions a checkpoint has, its header in memory or at hand."""
    started = time.perf_counter()
    describe(_from_disk(folder))
    return 1000 * (time.perf_counter() - started)


def model_types() -> list[str]:
    """Return every model type that transformers has a configuration for."""
    return sorted(CONFIG_MAPPING)


def survey(types: Sequence[str], *, workers: int | None = None) -> Iterator[Row]:
    """Yield the row of each type, in order, from child processes."""
    count = workers or os.cpu_count() or 1
    with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
        yield from pool.map(one, types)


def share(rows: Iterable[Row], what: str) -> tuple[int, int]:
    """Return how many types have all checks of a kind equal, and how many have any that was compared."""
    judged = [
        [verdict for verdict in row.verdicts(what) if verdict != "not compared"] for row in rows if row.verdicts(what)
    ]
    judged = [verdicts for verdicts in judged if verdicts]
    return sum(set(verdicts) == {"equal"} for verdicts in judged), len(judged)
