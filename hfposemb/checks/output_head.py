"""Findings about the output head: is it tied to the token table, as the configuration says?

Tensors and configuration are compared; what transformers does with them when it loads a model is not repeated here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ..checkpoints.safetensors import PLAIN
from ..errors import HfposembError
from ..models.families import is_known
from ..models.table_names import outside_layers
from .catalogue import finding
from .checked_source import CheckedSource
from .findings import Finding, Severity
from .tied_types import HEADLESS, NEVER_TIED, UNTIED

HEADS = (
    *("lm_head.weight", "cls.predictions.decoder.weight", "predictions.decoder.weight", "generator_lm_head.weight"),
    *("lm_head.decoder.weight", "embed_out.weight"),
)
"""Ends of the names of output heads."""

_OTHER_PARTS = re.compile(r"(^|[._])(talker|audio|speech|depth|vision|visual|mtp|token2wav|code_predictor)([._]|$)")
_HEADED = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
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
        equal: Whether it is equal to the token table; ``None`` if there is no head, or it was not read.
        tied: Whether the configuration ties it, by what it states or by the default of its model type; ``None`` if
            that is not known.
        stated: Whether the configuration states it.
        differing: Number of rows that differ, of those that were compared.
        compared: Number of rows that were compared.
        largest: Largest absolute difference.
    """

    tensor: str | None
    equal: bool | None
    tied: bool | None
    stated: bool
    differing: int = 0
    compared: int = 0
    largest: float = 0.0

    @property
    def matches(self) -> bool:
        """Whether file and configuration agree: a head is stored exactly if it is not tied."""
        return self.tied is None or (self.tensor is None) == self.tied


def head_facts(source: CheckedSource) -> HeadFacts:
    """Return what is stored of the output head of a source, and what its configuration says."""
    tensor = head_tensor(source)
    stated = _stated(source, tensor)
    tied = stated
    kind = source.model_type
    if tied is None and is_known(source.config):
        tied = kind not in UNTIED
    if _class(source) in NEVER_TIED or kind in HEADLESS:
        tied = None
    table = source.table("token")
    if tensor is None or table is None or table.provenance.tensor == tensor:
        return HeadFacts(tensor, None, tied, stated is not None)
    info = source.infos.get(tensor)
    kept = table.provenance.stored_dtype
    if info is not None and _apart(info.dtype, kept):
        source.skipped(f"whether {tensor}, stored as {info.dtype}, equals the token table, stored as {kept}")
        return HeadFacts(tensor, None, tied, stated is not None)
    if info is None or not info.readable or (source.remote and not source.full):
        source.skipped(f"whether {tensor} equals the token table; --full compares them")
        return HeadFacts(tensor, None, tied, stated is not None)
    if info.shape != table.shape:
        return HeadFacts(tensor, False, tied, stated is not None)
    try:
        differing, compared, largest = _compare(source, tensor, table.provenance.row_offset)
    except HfposembError as error:
        source.skipped(f"whether {tensor} equals the token table: {error}")
        return HeadFacts(tensor, None, tied, stated is not None)
    return HeadFacts(tensor, differing == 0, tied, stated is not None, differing, compared, largest)


def _apart(head: str, table: str) -> bool:
    """Return whether dtypes are those of tables of which at least one is quantised, and not as the other."""
    return head != table and not {head, table} <= PLAIN


def head_tensor(source: CheckedSource) -> str | None:
    """Return the name of the output head's tensor, ``None`` if none is stored."""
    table = source.table("token")
    inside = "" if table is None else str(table.provenance.tensor)
    ends = [name for name in outside_layers(source.names) if name.endswith(HEADS) and not _OTHER_PARTS.search(name)]
    # The head belongs to the part of the model that holds the table, not to another language model beside it.
    known = ((name, head) for name in ends for head in HEADS if name == head or name.endswith(f".{head}"))
    own = [name for name, head in known if inside.startswith(name.removesuffix(head))]
    return min(own, key=lambda name: (name.count("."), name), default=None)


def check_head(source: CheckedSource) -> Iterator[Finding]:
    """Yield findings about the output head, and about copies of the token table."""
    facts, table = head_facts(source), source.table("token")
    yield from _copies(source)
    if table is None:
        return
    yield from _stated_twice(source, facts)
    name, rows = table.provenance.tensor, table.shape[0]
    if facts.tensor is None or facts.tensor == name:
        yield from _missing(source, facts)
        return
    info = source.infos.get(facts.tensor)
    if facts.tied and facts.stated and info is not None and info.shape != table.shape:
        said = f"config.json ties the output head, but {facts.tensor} has the shape {list(info.shape)} and {name} "
        said += f"{list(table.shape)}"
        yield finding("head-shape", said, fix={"rows": rows}, head=str(list(info.shape)), table=str(list(table.shape)))
    elif facts.tied and facts.equal is False:
        said = (
            f"config.json ties the output head, but {facts.differing:,} of {facts.compared:,} rows of {facts.tensor} "
        )
        said += f"differ from {name}, by up to {facts.largest:.4g}"
        severity: Severity | None = None if facts.stated else "suspicious"
        yield finding(
            "head-differs",
            said,
            severity=severity,
            differing=facts.differing,
            compared=facts.compared,
            largest=facts.largest,
        )
    elif facts.tied and facts.equal:
        said = f"{facts.tensor} is an equal copy of {name}, to which config.json ties it"
        yield finding("head-stored-twice", said, compared=facts.compared)
    elif facts.tied is False and facts.equal:
        said = f"config.json does not tie the output head, but {facts.tensor} is equal to {name} in all "
        said += f"{facts.compared:,} rows that were compared"
        yield finding("head-equal-untied", said, compared=facts.compared)


def _class(source: CheckedSource) -> str:
    """Return the class of transformers that a checkpoint was saved from, "" if it is not stated."""
    classes = source.config.get("architectures")
    return classes[0] if isinstance(classes, list) and classes and isinstance(classes[0], str) else ""


def _stated(source: CheckedSource, tensor: str | None) -> bool | None:
    """Return what is stated about the part that has the head: ``thinker_config`` for ``thinker.lm_head.weight``."""
    part = source.config.get(f"{(tensor or '').partition('.')[0]}_config")
    for config in (part, source.config, source.text):
        if isinstance(config, Mapping) and isinstance(stated := config.get("tie_word_embeddings"), bool):
            return stated
    return None


def _stated_twice(source: CheckedSource, facts: HeadFacts) -> Iterator[Finding]:
    outer, inner = source.config.get("tie_word_embeddings"), source.text.get("tie_word_embeddings")
    if source.text is source.config or not isinstance(outer, bool) or not isinstance(inner, bool) or outer == inner:
        return
    if facts.matches or not _class(source).endswith(_HEADED):
        return  # what transformers 5 reads is right, or the class has no head
    said = f"config.json states tie_word_embeddings {str(outer).lower()}, and its text part {str(inner).lower()}; "
    said += f"{'no head is stored' if facts.tensor is None else f'{facts.tensor} is stored'}"
    fix = {"stored": str(facts.tensor is None).lower()}
    yield finding("tie-stated-twice", said, fix=fix, outer=outer, inner=inner)


def _missing(source: CheckedSource, facts: HeadFacts) -> Iterator[Finding]:
    """Yield a finding if the class of the model has a head that is neither tied nor stored."""
    kind = _class(source)
    if not kind.endswith(_HEADED) or facts.tied is not False or facts.tensor is not None:
        return
    if not is_known(source.config):
        return
    if any(_ANY_HEAD.search(name) for name in outside_layers(source.names)):
        return
    how = "does not tie" if facts.stated else "does not state that it ties"
    said = f"config.json {how} the output head of {kind}, and none of the {len(source.names):,} tensors is a head"
    yield finding("head-missing", said, tensors=len(source.names))


def _compare(source: CheckedSource, tensor: str, offset: int) -> tuple[int, int, float]:
    """Return the number of differing rows, of compared rows, and the largest difference from the token table."""
    table = source.table("token")
    assert table is not None
    rows, differing, compared, largest = table.shape[0], 0, 0, 0.0
    whole = source.full or source.infos[tensor].nbytes <= 256_000_000
    starts = range(0, rows, _ROWS) if whole else sorted({rows * part // 4 for part in range(4)})
    for start in starts:
        stop = min(start + _ROWS, rows)
        ours, theirs = table.rows(start, stop), source.tensors.read(tensor, start + offset, stop + offset)
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
