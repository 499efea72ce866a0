"""Findings about rotary positions: unknown types, scalings that do nothing or count twice, the base, stored buffers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from ..analysis.positions.base_bound import lowest_sum
from ..models.architectures.config_values import in_gguf, real_number, whole_number
from ..models.positions.rope import TYPES, scaling_rule
from ..tables.encodings import Unmeasured
from ..tables.rotary import DynamicScaling, LongFactors, Rotary
from ..text import written
from .checked_source import CheckedSource, as_json
from .findings import Finding, finding

_LENGTHS = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length", "max_seq_len")
_NO_SCALING = ("", "default", "mrope", "proportional")
_PARAMETER = re.compile(r"cannot be computed: its (\w+) ")
_OF_IMAGES = ("axial",)
"""Rope types that transformers uses for the patches of images only."""

_FARTHEST = 2**17
"""Longest context for which the base is compared with the bound."""

_ROUNDING = {"F32": 1e-3, "F64": 1e-3}


def stated_scalings(config: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the rotary parameters of a configuration by kind of layer, "" for all layers."""
    stated = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(stated, dict):
        return {}
    nested: dict[str, Mapping[str, Any]] = {part: own for part, own in stated.items() if isinstance(own, dict)}
    return nested or {"": stated}


def type_of(stated: Mapping[str, Any]) -> str:
    """Return the stated rope type, ``default`` if there is none."""
    kind = stated.get("rope_type", stated.get("type", "default"))
    return kind if isinstance(kind, str) else str(kind)


def check_rope(source: CheckedSource) -> Iterator[Finding]:
    """Yield findings about rotary positions of the text."""
    for part, stated in stated_scalings(source.text).items():
        yield from _unknown(source, part, stated)
        yield from _twice(source.text, stated)
    yield from _stated_twice(source.text)
    positions = source.embeddings.positions
    encodings = {part: source.readable(f"positions of {part}", partial(positions.get, part)) for part in positions}
    turning = {part: one for part, one in encodings.items() if isinstance(one, Rotary)}
    for part, one in encodings.items():
        if isinstance(one, Unmeasured) and (match := _PARAMETER.search(one.reason)):
            kind = next((type_of(own) for own in stated_scalings(source.text).values()), "default")
            yield finding("rope-parameter", one.reason, fix={"rope_type": kind}, parameter=match[1], part=part)
    for part, one in turning.items():
        yield from _no_effect(part, one)
    if turning:
        yield from _stored(source, next(iter(turning.values())))
        yield from _base(source, next(iter(turning.values())))


def _unknown(source: CheckedSource, part: str, stated: Mapping[str, Any]) -> Iterator[Finding]:
    kind = type_of(stated)
    if scaling_rule(kind, source.text.get("model_type")) or kind in _OF_IMAGES:
        return
    where = f" of {part if part.isprintable() else written(part)}" if part else ""
    said = f"the rotary positions{where} are scaled by the unknown type {kind!r}; known are {', '.join(TYPES)}"
    # Code that comes with a model may know it.
    unsure = source.config.get("auto_map") or in_gguf(source.config)
    yield finding("rope-unknown-type", said, sure=not unsure, rope_type=kind)


def _twice(config: Mapping[str, Any], stated: Mapping[str, Any]) -> Iterator[Finding]:
    kind, factor = type_of(stated), real_number(stated, "factor", low=1.000001, high=1e6)
    length = next((found for name in _LENGTHS if (found := whole_number(config, name, low=1)) is not None), None)
    original = whole_number(stated, "original_max_position_embeddings", low=1) or whole_number(
        config, "original_max_position_embeddings", low=1
    )
    if kind not in ("yarn", "dynamic", "llama3") or factor is None or length is None:
        return
    if kind == "dynamic" and original is not None and original < length:
        said = f"dynamic scaling grows from max_position_embeddings {length:,} on, which already includes the factor "
        said += f"{factor:g}: the trained length is stated as {original:,}"
    elif kind == "yarn" and original is None:
        said = (
            f"{kind} with the factor {factor:g} states no trained length, so it is {length:,}, and the frequencies are "
        )
        said += f"those of {factor * length:,.0f} positions"
    elif kind != "dynamic" and original is not None and original > length:
        said = f"{kind} states the trained length {original:,}, which exceeds max_position_embeddings {length:,}"
    else:
        return
    fix = {"original": original or max(1, int(length / factor))}
    yield finding("rope-counted-twice", said, fix=fix, factor=factor, length=length, original_stated=original)


def _stated_twice(config: Mapping[str, Any]) -> Iterator[Finding]:
    newer, older = config.get("rope_parameters"), config.get("rope_scaling")
    if not isinstance(newer, dict) or any(isinstance(one, dict) for one in newer.values()):
        return
    pairs = [("rope_theta", newer.get("rope_theta"), config.get("rope_theta"))]
    if isinstance(older, dict) and older != newer:
        pairs += [(name, newer.get(name), older.get(name)) for name in ("factor", "rope_theta")]
        pairs.append(("rope_type", type_of(newer), type_of(older)))
    for name, inner, outer in pairs:
        if inner is not None and outer is not None and inner != outer:
            said = f"rope_parameters state {name} {as_json(inner)}, other fields of config.json {as_json(outer)}"
            fix = {"theta": as_json(newer.get("rope_theta"))}
            yield finding("rope-stated-twice", said, fix=fix, field=name, newer=inner, older=outer)
            return


def _no_effect(part: str, one: Rotary) -> Iterator[Finding]:
    if one.scaling in _NO_SCALING:
        return
    if isinstance(one.by_length, DynamicScaling):
        idle = one.by_length.factor == 1.0
    elif isinstance(one.by_length, LongFactors):
        idle = np.allclose(one.by_length.short, one.by_length.long) and not one.scaled.moved.any()
    else:
        idle = not one.scaled.moved.any()
    if idle:
        said = f"{one.scaling} scaling is stated, but all {len(one.inv_freq)} frequencies are those without it"
        yield finding("rope-no-effect", said, rope_type=one.scaling, pairs=len(one.inv_freq), part=part)


def _stored(source: CheckedSource, one: Rotary) -> Iterator[Finding]:
    """Yield a finding if the first layer's stored frequencies are neither the plain nor the scaled ones."""
    names = sorted(name for name in source.names if name.endswith("rotary_emb.inv_freq"))
    if not names:
        return
    if source.remote and not source.full:
        source.skipped(f"{names[0]}; --full compares it with the configuration")
        return
    info = source.infos.get(names[0])
    if info is None or info.shape != one.inv_freq.shape:
        return
    if (read := source.readable(names[0], lambda: source.tensors.read(names[0]))) is None:
        return
    stored, plain = np.asarray(read, np.float64), one.plain
    known = [plain, one.inv_freq, one.at(1).inv_freq]
    rounding = _ROUNDING.get(info.dtype, 2e-2)
    apart = min(float(np.abs(stored / np.where(each > 0, each, 1) - 1)[each > 0].max(initial=0)) for each in known)
    if apart > rounding and len(stored) > 1 and stored[1] > 0:
        width = 2 * len(stored)
        theta = (stored[0] / stored[1]) ** (width / 2)
        ours = (plain[0] / plain[1]) ** (width / 2) if plain[1] > 0 else math.nan
        said = (
            f"{names[0]} differs from the configuration by up to {apart:.3g} of a frequency; its base is {theta:,.0f}, "
        )
        said += f"that of the configuration {ours:,.0f}"
        values: dict[str, Any] = {"largest": apart, "stored_theta": round(theta, 1), "config_theta": round(ours, 1)}
        yield finding("rope-stored-differs", said, file=info.file or None, fix={"theta": f"{theta:.1f}"}, **values)


def _base(source: CheckedSource, one: Rotary) -> Iterator[Finding]:
    """Yield a note if the base fails the bound of Men et al. (2024) for the stated length, unless it is scaled."""
    length, pairs = one.length, len(one.inv_freq)
    if one.scaling not in ("", "default") or pairs < 2 or not 64 <= length <= _FARTHEST:
        return
    theta = float((one.inv_freq[0] / one.inv_freq[1]) ** pairs) if one.inv_freq[1] > 0 else 0.0
    expected = theta ** -(np.arange(pairs) / pairs) if theta > 1 else np.zeros(pairs)
    if not np.allclose(expected, one.inv_freq, rtol=1e-6):
        return
    lowest = lowest_sum(theta, 2 * pairs, length)
    if lowest < 0:
        said = f"with the base {theta:,.0f}, the sum of cosines falls to {lowest:.3g} within {length:,} positions"
        yield finding(
            "rope-base", said, fix={"source": source.name}, theta=theta, length=length, lowest=lowest, width=2 * pairs
        )
