"""Report of rotary positions: wavelengths, scalings side by side, and the bound of the base."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..analysis.positions.base_bound import base_bound, lowest_of, lowest_sum
from ..errors import InputError, MissingTableError
from ..models.architectures.type_defaults import completed
from ..models.positions.rope import rotary_encodings
from ..models.positions.rotary_parts import PartFrequencies, part_frequencies
from ..tables.documents import plain
from ..tables.embeddings import Embeddings
from ..tables.encodings import PositionEncoding, Unmeasured
from ..tables.rotary import LongFactors, PairAxes, Rotary, Wavelengths
from ..tables.tabular import Columns, Tabular, columns_of
from ..text import display, number, percent

MULTIPLES = (1, 2, 4, 8)
"""Lengths at which scalings are compared, in trained lengths."""

SCALINGS = ("none", "linear", "dynamic", "yarn", "longrope", "llama3")
_LOCAL = 64
"""Distances up to here count as near: those of neighbouring words."""

_SAMPLES = 2048
_EVERY = 2**20
"""Distances up to here are all looked at; of those beyond, samples."""

_SEARCHED = 2**15
"""Longest context for which the bound of the base is searched; beyond, it is said only whether the base holds."""


@dataclass(frozen=True, eq=False)
class ScalingEffect:
    """What a scaling does to the kernel of an input of some length.

    Attributes:
        scaling: Name of the rope type; ``none`` for plain frequencies, ``declared`` for those of the configuration.
        multiple: Length of the input in trained lengths.
        length: Length of the input in positions.
        unseen: Number of pairs that reach angles which never occurred in training.
        near: Largest change of the kernel at distances up to 64, from that of plain frequencies.
        lowest: Smallest value of the kernel at any distance within the length.
        sampled: Whether of distances beyond 1,048,576 only samples were looked at for ``lowest``.
        kernel: The kernel at ``distances``.
        distances: Distances at which the kernel is given, in positions.
    """

    _document = ("scaling", "multiple", "length", "unseen", "near", "lowest", "sampled")
    scaling: str
    multiple: int
    length: int
    unseen: int
    near: float
    lowest: float
    sampled: bool
    kernel: NDArray[np.float64] = field(repr=False)
    distances: NDArray[np.int64] = field(repr=False)


@dataclass(frozen=True)
class BaseCheck:
    """The base of the frequencies against the bound of Men et al. (2024).

    Attributes:
        theta: The base.
        length: Number of positions.
        lowest: Smallest Σ_i cos(m·θ_i) for m < length; negative if the base is below the bound.
        bound: Smallest base for the length; ``None`` if it was not searched.
    """

    _document = ("theta", "length", "lowest", "bound", "holds")
    theta: float
    length: int
    lowest: float
    bound: float | None

    @property
    def holds(self) -> bool:
        """Whether similar tokens are preferred at every distance."""
        return self.lowest >= 0


@dataclass(frozen=True, eq=False)
class RopeReport(Tabular):
    """Rotary positions of a source.

    Attributes:
        source: Name of the source.
        part: Part or kind of layer.
        scaling: Stated rope type, "" for none.
        theta: Base of the frequencies; ``None`` if they are no geometric sequence.
        pairs: Number of rotated pairs of dimensions.
        layout: Which dimensions form a pair.
        trained_length: Number of positions in training, before scaling.
        length: Longest stated input.
        attention_scaling: Factor of cosines and sines.
        wavelengths: Positions per full turn of each pair, before and after scaling.
        agreement: Cosine between a vector rotated as declared and rotated plainly, with equal energy in every pair, by
            position.
        effects: Scalings side by side.
        absent: Scalings that cannot be compared, with the reason.
        base: The base against its bound; ``None`` if there is no base.
        parts: Frequencies of all parts whose configuration states rotary positions, images and sound included.
        attention_rule: What gives ``attention_scaling``: the formula with its numbers, "" for a type without one.
        axes: Which of several positions turns each pair; ``None`` if all turn with one.
    """

    _document = (
        *("source", "part", "scaling", "theta", "pairs", "layout", "trained_length", "length", "attention_scaling"),
        *("attention_rule", "axes", "never_turned", "wavelengths", "agreement", "absent", "parts", "base"),
    )
    source: str
    part: str
    scaling: str
    theta: float | None
    pairs: int
    layout: str
    trained_length: int
    length: int
    attention_scaling: float
    wavelengths: Wavelengths
    agreement: Mapping[int, float]
    effects: tuple[ScalingEffect, ...]
    absent: Mapping[str, str]
    base: BaseCheck | None
    parts: tuple[PartFrequencies, ...] = ()
    attention_rule: str = ""
    axes: PairAxes | None = None

    @property
    def never_turned(self) -> int:
        """Number of pairs that did not make one full turn in training."""
        return int(self.wavelengths.beyond.sum())

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, with ``null`` for wavelengths of pairs that do not turn."""
        return {**super().to_dict(), "scalings": plain(self.effects)}

    def __str__(self) -> str:
        """Write the report as text."""
        return "\n".join(_lines(self))

    def columns(self) -> Columns:
        """Return one row per scaling and length.

        ``scaling``, ``multiple``, ``length``, ``unseen``, ``near``, ``lowest`` and ``sampled`` as in ``ScalingEffect``.
        """
        return columns_of(self.effects, *ScalingEffect._document)


def rope_report(
    embeddings: Embeddings, *, part: str | None = None, factor: float = 8.0, search: int = _SEARCHED
) -> RopeReport:
    """Report the rotary positions of a source: wavelengths, scalings side by side, the bound of the base.

    Args:
        embeddings: The source.
        part: Part or kind of layer; ``None`` for the first one with rotary positions.
        factor: Factor of the scalings that are compared.
        search: Longest context for which the bound of the base is searched, in positions.

    Returns:
        The report.

    Raises:
        InputError: If there is no such part, or the factor is below 1.
        MissingTableError: If the positions are not rotary, or of an unknown type.

    Examples:
        >>> import hfposemb as hpe
        >>> found = rope_report(hpe.extract("rotary:1024x64"))
        >>> found.pairs, found.never_turned, found.theta
        (32, 14, 10000.0)
    """
    if not 1 <= factor <= 1e6:
        raise InputError(f"factor must be from 1 to 1,000,000; got {factor:g}")
    name, one = chosen_part(embeddings, part)
    trained, plain = one.trained_length or one.length, one.plain
    theta = _base_of(plain)
    makers = _scalings(one, theta, trained, factor)
    effects, absent = [], {}
    for scaling in ("declared", *SCALINGS):
        made = makers.get(scaling)
        if isinstance(made, str):
            absent[scaling] = made
        elif made is not None:
            effects += [_effect(scaling, made, plain, trained, multiple) for multiple in MULTIPLES]
    base = None
    if theta is not None and theta > 1:
        width = 2 * len(plain)
        bound = base_bound(width, trained) if trained <= search else None
        base = BaseCheck(theta, trained, lowest_sum(theta, width, min(trained, _EVERY)), bound)
    return RopeReport(
        embeddings.name,
        name,
        "" if one.scaling == "default" else one.scaling,
        theta,
        len(plain),
        one.layout,
        trained,
        one.length,
        one.attention_scaling,
        one.scaled,
        _agreement(one, plain),
        tuple(effects),
        absent,
        base,
        part_frequencies(completed(embeddings.config)),
        one.attention_rule,
        one.axes,
    )


def chosen_part(embeddings: Embeddings, part: str | None) -> tuple[str, Rotary]:
    """Return the name and the encoding of a part, the first one with rotary positions if none is named.

    Raises:
        InputError: If there is no such part.
        MissingTableError: If its positions are not rotary, or of an unknown type.
    """
    if part is not None and part not in embeddings.positions:
        known = ", ".join(embeddings.positions) or "none"
        raise InputError(f"{embeddings.name} has no part {part!r} with positions; its parts: {known}")
    found: dict[str, PositionEncoding] = {
        name: embeddings.positions[name] for name in ([part] if part is not None else embeddings.positions)
    }
    for name, one in found.items():
        if isinstance(one, Rotary):
            return name, one
    unknown = next((one for one in found.values() if isinstance(one, Unmeasured) and one.kind == "rotary"), None)
    if unknown is not None:
        raise MissingTableError(f"{unknown.reason}; it is not taken for unscaled, so nothing is computed")
    kinds = " and ".join(dict.fromkeys(one.kind for one in found.values()))
    known = f"; its positions are {kinds}" if kinds else ""
    raise MissingTableError(f"{embeddings.name} has no rotary positions{known}; hfposemb info lists its parts")


def _base_of(frequencies: NDArray[np.float64]) -> float | None:
    """Return θ of frequencies θ^(−i/pairs), ``None`` if they are not of that form."""
    pairs = len(frequencies)
    if pairs < 2 or not frequencies[1] > 0:
        return None
    theta = float((frequencies[0] / frequencies[1]) ** pairs)
    same = np.allclose(frequencies, theta ** -(np.arange(pairs) / pairs), rtol=1e-6)
    return float(f"{theta:.9g}") if same and theta > 1 else None


def _scalings(
    one: Rotary, theta: float | None, trained: int, factor: float
) -> dict[str, Callable[[int], NDArray[np.float64]] | str]:
    """Return for each scaling a function from the length of an input to its frequencies, or why there is none."""
    found: dict[str, Callable[[int], NDArray[np.float64]] | str] = {}
    if one.scaling not in ("", "default"):
        found["declared"] = partial(_frequencies, one)
    for name in SCALINGS:
        if theta is None:
            found[name] = "its frequencies are no geometric sequence with one base"
        elif name == "longrope":
            found[name] = (
                partial(_frequencies, one)
                if isinstance(one.by_length, LongFactors)
                else "its factors are searched for each model, and the configuration has none"
            )
        else:
            found[name] = partial(_frequencies, _scaled(name, theta, 2 * len(one.plain), trained, factor))
    return found


def _frequencies(one: Rotary, length: int) -> NDArray[np.float64]:
    return np.asarray(one.at(length).inv_freq, np.float64)


def _scaled(name: str, theta: float, width: int, trained: int, factor: float) -> Rotary:
    """Return plain positions of a model scaled by a rope type, as the type is defined for ``models.positions.rope``."""
    length = trained if name in ("none", "linear", "dynamic") else math.ceil(trained * factor)
    stated: dict[str, Any] = {"rope_type": "default" if name == "none" else name, "factor": factor}
    if name in ("yarn", "llama3"):
        stated["original_max_position_embeddings"] = trained
    if name == "llama3":
        stated |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    config = {"head_dim": width, "max_position_embeddings": length, "rope_theta": theta, "rope_scaling": stated}
    found = rotary_encodings(config, name=name)["position"]
    assert isinstance(found, Rotary), found
    return found


def _effect(
    scaling: str, made: Callable[[int], NDArray[np.float64]], plain: NDArray[np.float64], trained: int, multiple: int
) -> ScalingEffect:
    length = multiple * trained
    frequencies = made(length)
    distances = np.unique(np.geomspace(1, max(length - 1, 1), _SAMPLES).astype(np.int64))
    kernel = np.cos(np.multiply.outer(distances, frequencies)).mean(axis=1)
    close = np.arange(1, min(_LOCAL, length))
    near = np.cos(np.multiply.outer(close, frequencies)).mean(axis=1)
    before = np.cos(np.multiply.outer(close, plain)).mean(axis=1)
    seen, reached = plain * trained, frequencies * length
    unseen = (seen < 2 * np.pi) & (reached > seen * (1 + 1e-9))
    change = float(np.abs(near - before).max(initial=0.0))
    lowest = min(lowest_of(frequencies, min(length, _EVERY)) / len(frequencies), float(kernel.min()))
    beyond = length > _EVERY
    return ScalingEffect(scaling, multiple, length, int(unseen.sum()), change, lowest, beyond, kernel, distances)


def _agreement(one: Rotary, plain: NDArray[np.float64]) -> dict[int, float]:
    """Return the cosine of a vector rotated as declared and plainly, at powers of two up to the longest input."""
    powers = [2**power for power in range(0, 40) if 2**power < one.length]
    positions = [0, *powers[-8:], one.length - 1]
    apart = one.inv_freq - plain
    return {position: float(np.cos(position * apart).mean()) for position in dict.fromkeys(positions) if position >= 0}


def _lines(report: RopeReport) -> Iterator[str]:
    theta = "no single base" if report.theta is None else f"base {report.theta:,.0f}"
    yield f"{report.source} {report.part}: rotary, {report.pairs} pairs, {theta}, {report.scaling or 'not scaled'}"
    yield f"  trained on {report.trained_length:,} positions, longest stated input {report.length:,}"
    if report.attention_rule:
        yield f"  cosines and sines times the attention factor {report.attention_scaling:.6g}: {report.attention_rule}"
    if report.axes is not None:
        yield f"  mrope_section {list(report.axes.sections)}, {report.axes}"
    before = report.wavelengths.before
    finite = before[np.isfinite(before)]
    share = percent(report.never_turned / report.pairs)
    yield (
        f"  wavelengths from {finite.min():,.1f} to {finite.max():,.0f} positions; "
        f"{report.never_turned} pairs ({share}) never made a full turn in training"
    )
    if report.wavelengths.moved.any():
        yield f"  scaling moves {int(report.wavelengths.moved.sum())} pairs; cosine of declared and plain by position:"
        yield "    " + " · ".join(f"{position:,}: {number(cosine)}" for position, cosine in report.agreement.items())
    if report.base is not None:
        yield from _base_lines(report.base)
    if report.effects:
        yield f"  {'scaling':<10}{'length':>10}{'unseen pairs':>14}{'change near':>13}{'lowest kernel':>15}"
    for one in report.effects:
        near, lowest = number(one.near), number(one.lowest)
        sampled = "  sampled" if one.sampled else ""
        yield f"  {one.scaling:<10}{one.length:>10,}{one.unseen:>14}{near:>13}{lowest:>15}{sampled}"
    yield from (f"  {name}: {reason}" for name, reason in report.absent.items())
    for part in report.parts:
        if len(report.parts) > 1:
            turns = 2 * np.pi / part.frequencies[part.frequencies > 0]
            said = f"{len(part.frequencies)} pairs, wavelengths from {turns.min():,.1f} to {turns.max():,.0f}"
            yield f"  {display(part.part or 'the whole')}: {part.kind} by {' and '.join(part.axes)}, {said}"


def _base_lines(base: BaseCheck) -> Iterator[str]:
    verdict = "meets" if base.holds else "fails"
    least = (
        f"the smallest base that meets it is {base.bound:,.0f}" if base.bound is not None else "no base was searched"
    )
    lowest = number(base.lowest, digits=2)
    yield f"  base {base.theta:,.0f} {verdict} the bound of Men et al. (2024) for {base.length:,} positions:"
    yield f"  the lowest sum of cosines is {lowest}, which must not be negative; {least}"
