"""Findings about the output head: is it tied to the token table, as the configuration says?

Tensors and configuration are compared; what transformers does with them when it loads a model is not repeated here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..checkpoints.safetensors.checkpoint import PLAIN
from ..models.architectures.config_values import class_of
from ..models.architectures.families import is_known
from ..models.architectures.head_names import is_headed, other_outputs
from ..models.architectures.table_names import outside_layers
from ..models.architectures.tied_types import is_tied, stated_tie, tie_rule
from ..tables.output_head import UNTIED, OutputHead, Tying
from ..tables.table import EmbeddingTable
from .checked_source import CheckedSource
from .findings import Finding, finding
from .table_rows import LOCAL, SEPARATE

_ANY_HEAD = re.compile(
    r"head|embed_out|output|logit|proj_out|final_proj|predictions|generator|classifier|decoder\.weight"
)
_ROWS = 512
"""Rows compared in each of four blocks of a large table."""


@dataclass(frozen=True)
class HeadFacts:
    """What is stored of the output head, and what the configuration says.

    Attributes:
        tensor: Name of the head's tensor, ``None`` if none is stored.
        equal: Whether it is equal to the token table, or another name of it; ``None`` if there is no head, or it was
            not read.
        tied: Whether the configuration ties it, by what it states or by the default of its model type; ``None`` if
            that is not known.
        stated: Whether the configuration states it.
        role: Role of the token table that it belongs to.
        differing: Number of rows that differ, of those that were compared.
        compared: Number of rows that were compared.
        largest: Largest absolute difference.
    """

    tensor: str | None
    equal: bool | None
    tied: bool | None
    stated: bool
    role: str = "token"
    differing: int = 0
    compared: int = 0
    largest: float = 0.0

    @property
    def matches(self) -> bool:
        """Whether file and configuration agree: a head is stored exactly if it is not tied."""
        return self.tied is None or (self.tensor is None) == self.tied


def head_facts(source: CheckedSource) -> HeadFacts:
    """Return what is stored of the output head of a source, and what its configuration says."""
    key, tie = _main(source)
    tensor = tie.tensor if tie.tensor in source.names and tie.how in SEPARATE else None
    decoder = key == "decoder.head"
    stated = stated_tie(source.config, tensor=tensor or "", decoder=decoder)
    known = stated is not None or is_known(source.config)
    if tensor is None and tie_rule(source.config) == "never":
        known = False  # nothing that could be stated helps
    tied = is_tied(source.config, tensor=tensor or "", decoder=decoder) if known else None
    facts = HeadFacts(tensor, True if tie.how == "alias" else None, tied, stated is not None, tie.token)
    table = source.table(tie.token)
    if tensor is None or table is None:
        return facts
    info = source.infos.get(tensor)
    kept = table.provenance.stored_dtype
    if info is not None and _apart(info.dtype, kept):
        source.skipped(f"whether {tensor}, stored as {info.dtype}, equals the token table, stored as {kept}")
        return HeadFacts(tensor, None, tied, stated is not None)
    if info is None or not info.readable or (source.remote and not source.full):
        source.skipped(f"whether {tensor} equals the token table; --full compares them")
        return facts
    if info.shape != table.shape:
        return replace(facts, equal=False)
    whole = source.full or info.nbytes <= LOCAL
    compare = partial(_compare, source.embeddings.heads[key], table, whole=whole)
    if (found := source.readable(f"whether {tensor} equals the token table", compare)) is None:
        return facts
    differing, compared, largest = found
    return replace(facts, equal=differing == 0, differing=differing, compared=compared, largest=largest)


def _apart(head: str, table: str) -> bool:
    """Return whether dtypes are those of tables of which at least one is quantised, and not as the other."""
    return head != table and not {head, table} <= PLAIN


def _main(source: CheckedSource) -> tuple[str, Tying]:
    """Return key and tying of the head of the text, those of no head if there is none."""
    ties = source.embeddings.ties
    return next(((key, ties[key]) for key in ("head", "decoder.head") if key in ties), ("head", UNTIED))


def check_head(source: CheckedSource) -> Iterator[Finding]:
    """Yield findings about the output head, and about copies of the token table."""
    facts = head_facts(source)
    yield from _copies(source)
    table = source.table(facts.role)
    if table is None:
        return
    yield from _stated_twice(source, facts)
    info = None if facts.tensor is None else source.infos.get(facts.tensor)
    if facts.tensor is None:
        yield from _missing(source, facts)
    elif facts.tied and info is not None and info.shape != table.shape:
        yield _other_shape(facts, table, info.shape)
    elif facts.tied and facts.equal is False:
        said = f"config.json ties the output head, but {facts.differing:,} of {facts.compared:,} rows of "
        said += f"{facts.tensor} differ from {table.provenance.tensor}, by up to {facts.largest:.4g}"
        numbers: dict[str, Any] = {one: getattr(facts, one) for one in ("differing", "compared", "largest")}
        yield finding("head-differs", said, sure=facts.stated, **numbers)
    elif facts.tied and facts.equal:
        said = f"{facts.tensor} is an equal copy of {table.provenance.tensor}, to which config.json ties it"
        yield finding("head-stored-twice", said, compared=facts.compared)
    elif facts.tied is False and facts.equal:
        said = f"config.json does not tie the output head, but {facts.tensor} is equal to {table.provenance.tensor} "
        said += f"in all {facts.compared:,} rows that were compared"
        yield finding("head-equal-untied", said, compared=facts.compared)


def _other_shape(facts: HeadFacts, table: EmbeddingTable, shape: tuple[int, ...]) -> Finding:
    ours, theirs = str(list(table.shape)), str(list(shape))
    said = f"config.json ties the output head, but {facts.tensor} has the shape {theirs} and "
    said += f"{table.provenance.tensor} {ours}"
    return finding("head-shape", said, sure=facts.stated, fix={"rows": table.shape[0]}, head=theirs, table=ours)


def _stated_twice(source: CheckedSource, facts: HeadFacts) -> Iterator[Finding]:
    outer, inner = source.config.get("tie_word_embeddings"), source.text.get("tie_word_embeddings")
    if source.text is source.config or not isinstance(outer, bool) or not isinstance(inner, bool) or outer == inner:
        return
    if facts.matches or not is_headed(class_of(source.config)):
        return  # what transformers 5 reads is right, or the class has no head
    said = f"config.json states tie_word_embeddings {str(outer).lower()}, and its text part {str(inner).lower()}; "
    said += f"{'no head is stored' if facts.tensor is None else f'{facts.tensor} is stored'}"
    fix = {"stored": str(facts.tensor is None).lower()}
    yield finding("tie-stated-twice", said, fix=fix, outer=outer, inner=inner)


def _missing(source: CheckedSource, facts: HeadFacts) -> Iterator[Finding]:
    """Yield a finding for a head that is neither tied nor stored, or tied in the file only."""
    if facts.equal and facts.tied is False:
        said = "config.json does not tie the output head, but in the file it is another name of the token table"
        yield finding("head-equal-untied", said)
        return
    kind = class_of(source.config)
    if not is_headed(kind) or facts.tied is not False or facts.tensor is not None:
        return
    if not is_known(source.config) or other_outputs(source.tensors.names()) is not None:
        return
    if any(_ANY_HEAD.search(name) for name in outside_layers(source.names)):
        return
    how = "does not tie" if facts.stated else "does not state that it ties"
    said = f"config.json {how} the output head of {kind}, and none of the {len(source.names):,} tensors is a head"
    yield finding("head-missing", said, tensors=len(source.names))


def _compare(head: OutputHead, table: EmbeddingTable, *, whole: bool) -> tuple[int, int, float]:
    """Return the number of differing rows, of compared rows, and the largest difference from the token table."""
    rows, differing, compared, largest = table.shape[0], 0, 0, 0.0
    starts = range(0, rows, _ROWS) if whole else sorted({rows * part // 4 for part in range(4)})
    for start in starts:
        stop = min(start + _ROWS, rows)
        ours, theirs = table.rows(start, stop), head.rows(start, stop)
        same = np.equal(ours, theirs) | (np.isnan(ours) & np.isnan(theirs))
        differing += int((~same.all(axis=1)).sum())
        compared += stop - start
        if not same.all():
            apart = np.abs(np.subtract(ours, theirs, dtype=np.float64))[~same]
            largest = max(largest, float(np.nanmax(apart, initial=0.0)))
    return differing, compared, largest


_SHARED = "shared.weight"
_COPIES = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")


def _copies(source: CheckedSource) -> Iterator[Finding]:
    """Yield findings for copies of a shared table, as in T5 and BART, that hold other values."""
    kept = next((name for name in sorted(source.names) if name == _SHARED or name.endswith(f".{_SHARED}")), None)
    if kept is None or (source.remote and not source.full):
        return
    prefix = kept.removesuffix(_SHARED)
    for copy in (prefix + one for one in _COPIES):
        if copy not in source.infos or kept not in source.infos or not source.infos[copy].readable:
            continue
        shapes = source.infos[copy].shape, source.infos[kept].shape
        if shapes[0] == shapes[1]:
            one, other = source.tensors.read(copy), source.tensors.read(kept)
            differing = int((~np.equal(one, other).all(axis=-1)).sum())
            sizes = [float(np.nanmax(np.abs(part), initial=0.0)) for part in (one, other)]
            if differing:
                said = f"{copy} and {kept} differ in {differing:,} of {shapes[0][0]:,} rows; their largest numbers are "
                said += f"{sizes[0]:.4g} and {sizes[1]:.4g}"
                fix = {"copy": copy, "kept": kept}
                yield finding("copies-differ", said, fix=fix, differing=differing, rows=shapes[0][0])
