"""Rotary position encodings and their wavelengths."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..lazy_attributes import lazy_attribute
from .encoding_base import Kind, Unit, WithRows, relative_matrix
from .table import EmbeddingTable, Provenance, Vectors


@dataclass(frozen=True, eq=False)
class Wavelengths:
    """Wavelengths of a rotary encoding: positions per full turn of each pair of dimensions, infinite at frequency 0.

    Attributes:
        before: Wavelengths [pairs] without the scaling of the configuration.
        after: Wavelengths [pairs] with it.
        trained_length: Number of positions that the model was trained on before scaling.
    """

    _document = ("before", "after")
    before: NDArray[np.float64]
    after: NDArray[np.float64]
    trained_length: int

    @property
    def beyond(self) -> NDArray[np.bool_]:
        """Mask of the pairs that turned less than once in training and never saw some angles (Peng et al. 2023)."""
        return np.asarray(self.before > self.trained_length)

    @property
    def beyond_after(self) -> NDArray[np.bool_]:
        """Mask of the pairs that turn less than once in the trained length after scaling."""
        return np.asarray(self.after > self.trained_length)

    @property
    def moved(self) -> NDArray[np.bool_]:
        """Mask of the pairs whose frequency the scaling changes by more than rounding."""
        return ~np.isclose(self.before, self.after, rtol=1e-9, atol=0.0)


@dataclass(frozen=True, eq=False)
class LongFactors:
    """LongRoPE (Ding et al. 2024, arXiv 2402.13753): one set of frequencies up to a length, another beyond it.

    Attributes:
        short: Frequencies [pairs] of inputs up to ``trained_length`` positions.
        long: Frequencies [pairs] of all positions of longer inputs.
        trained_length: Longest input of the pretraining.
        scaling: Factors of cosines and sines for the two, if stated: those of Phi-3.5-MoE and Phi-3-small.
    """

    short: NDArray[np.float64]
    long: NDArray[np.float64]
    trained_length: int
    scaling: tuple[float, float] | None = None

    def frequencies(self, length: int) -> NDArray[np.float64]:
        """Return the frequencies [pairs] that rotate an input of ``length`` positions."""
        return self.long if length > self.trained_length else self.short


@dataclass(frozen=True)
class DynamicScaling:
    """Dynamic NTK-aware scaling (bloc97 and emozilla 2023): the base grows with the input beyond the trained length.

    Attributes:
        theta: Base of the frequencies.
        width: Number of rotated dimensions of a head.
        factor: Factor of the configuration.
        trained_length: Longest input that is not scaled.
    """

    theta: float
    width: int
    factor: float
    trained_length: int

    def frequencies(self, length: int) -> NDArray[np.float64]:
        """Return the frequencies [pairs] that rotate an input of ``length`` positions."""
        exponents = np.arange(0, self.width, 2) / self.width
        grown = self.factor * max(length, self.trained_length) / self.trained_length - (self.factor - 1)
        # With two rotated dimensions the only frequency is 1, whatever the base.
        base = self.theta * grown ** (self.width / (self.width - 2)) if self.width > 2 else self.theta
        return np.asarray(base**-exponents, np.float64)


Arrangement = Literal["contiguous", "interleaved", "alternating", "by dimension", "not known"]


@dataclass(frozen=True)
class PairAxes:
    """Which of a token's several positions turns each pair, in models of text and images (M-RoPE, arXiv 2409.12191).

    A word has the same position on all axes; a patch has its time, height and width.

    Attributes:
        names: Axis of each pair, in the order of ``inv_freq``; ``first/second`` where the dimensions of a pair differ.
        arrangement: ``contiguous`` sections; ``interleaved``, where time, height and width take turns; ``alternating``
            height and width in the head, then time; ``by dimension`` for sections of both halves of a head.
        sections: The stated ``mrope_section``, or that of the model type.
        reason: Why it is not known which pairs turn with what, "" if it is.
    """

    _document = ("names", "arrangement", "sections", "reason", "pairs")
    names: tuple[str, ...]
    arrangement: Arrangement
    sections: tuple[int, ...]
    reason: str = ""

    @property
    def pairs(self) -> dict[str, list[int]]:
        """Numbers of the pairs of each axis."""
        return {axis: [at for at, name in enumerate(self.names) if name == axis] for axis in dict.fromkeys(self.names)}

    def __str__(self) -> str:
        """Write the pairs of each axis."""
        if self.reason:
            return f"which pairs turn with time, height and width is not known: {self.reason}"
        return f"{self.arrangement}: {'; '.join(f'{axis} {_numbers(at)}' for axis, at in self.pairs.items())}"


def _numbers(numbers: list[int]) -> str:
    """Write numbers as runs of equal steps, such as 0 to 15, or 1, 4, … 58."""
    runs: list[list[int]] = []
    for one in numbers:
        if runs and (len(runs[-1]) == 1 or one - runs[-1][-1] == runs[-1][-1] - runs[-1][-2]):
            runs[-1].append(one)
        else:
            runs.append([one])
    return ", ".join(_run(run) for run in runs)


def _run(run: list[int]) -> str:
    if len(run) < 3:
        return ", ".join(map(str, run))
    return f"{run[0]} to {run[-1]}" if run[1] - run[0] == 1 else f"{run[0]}, {run[1]}, … {run[-1]}"


@dataclass(frozen=True, eq=False)
class Rotary(WithRows):
    """Rotary positions (Su et al. 2021, arXiv 2104.09864): at position t, pair i turns by t · ``inv_freq[i]``.

    It describes inputs of ``length`` positions. Most models rotate inputs of any length alike; ``at`` returns the
    encoding for another length, which matters for those that do not (``by_length``).

    Attributes:
        inv_freq: Frequencies in radians per position [rotated dimensions / 2].
        length: Number of positions of the input, as extracted the longest that the configuration states.
        attention_scaling: Factor of both cosines and sines.
        layout: Which dimensions form a pair: i and i + pairs (``half``), or 2i and 2i + 1 (``interleaved``).
        base_freq: Frequencies before scaling; ``None`` if nothing was scaled.
        trained_length: Longest input before scaling; ``None`` for ``length``.
        scaling: Name of the rope type that scales the frequencies, "" for none.
        by_length: How the frequencies change with the length of the input; ``None`` if they do not.
        attention_rule: What gives ``attention_scaling``: the formula with its numbers, "" for a type without one.
        axes: Which of several positions turns each pair; ``None`` if all turn with one.
    """

    inv_freq: NDArray[np.float64]
    length: int
    attention_scaling: float = 1.0
    layout: Literal["half", "interleaved"] = "half"
    base_freq: NDArray[np.float64] | None = None
    trained_length: int | None = None
    scaling: str = ""
    by_length: LongFactors | DynamicScaling | None = None
    attention_rule: str = ""
    axes: PairAxes | None = None
    kind: ClassVar[Kind] = "rotary"
    offset: ClassVar[int] = 0
    unit: ClassVar[Unit] = "expected rotary kernel"

    def at(self, length: int) -> Rotary:
        """Return the encoding as the model applies it to an input of another length.

        Models with LongRoPE or dynamic scaling change the frequencies of all positions once an input exceeds the
        trained length; transformers does so in ``dynamic_rope_update`` of ``modeling_rope_utils``.

        Args:
            length: Number of positions of the input, at least 1.

        Returns:
            The encoding, whose table has ``length`` rows.

        Raises:
            InputError: ``length`` is not a positive whole number.

        Examples:
            >>> import hfposemb as hpe
            >>> hpe.extract("rotary:512x64").position.at(2048).table.shape
            (2048, 64)
        """
        try:
            count = operator.index(length)
        except TypeError:
            count = 0
        if count < 1:
            raise InputError(f"length must be a whole number from 1 on; got {length!r}")
        rule, scaling = self.by_length, self.attention_scaling
        if isinstance(rule, LongFactors) and rule.scaling:
            scaling = rule.scaling[count > rule.trained_length]
        return replace(
            self,
            inv_freq=self.inv_freq if rule is None else rule.frequencies(count),
            attention_scaling=scaling,
            length=count,
            trained_length=self.trained_length or self.length,
        )

    @lazy_attribute
    def table(self) -> EmbeddingTable:
        """Cosines and sines [length, 2 · pairs] in the model's layout, computed on access.

        ``half``: all cosines, then all sines; ``interleaved``: cos ω₀t, sin ω₀t, cos ω₁t, …. No model adds these rows
        to its token vectors. The cosine of two rows is the expected kernel at their distance.
        """
        width = 2 * len(self.inv_freq)
        origin = Provenance("rotary", notes=("computed: cosines and sines of the angles, not added to any vector",))
        return EmbeddingTable("rotary positions", (self.length, width), np.dtype(np.float32), origin, self._rows)

    def _rows(self, start: int, stop: int) -> Vectors:
        angles = np.multiply.outer(np.arange(start, stop, dtype=np.float64), self.inv_freq)
        parts = self.attention_scaling * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        ordered = parts if self.layout == "half" else parts.transpose(0, 2, 1)
        return ordered.reshape(stop - start, 2 * len(self.inv_freq)).astype(np.float32)

    @property
    def plain(self) -> NDArray[np.float64]:
        """Frequencies before scaling [pairs]."""
        return np.asarray(self.inv_freq if self.base_freq is None else self.base_freq, np.float64)

    @property
    def wavelengths(self) -> NDArray[np.float64]:
        """Positions per full turn of each pair [pairs], 2π/ω; infinite where ω is 0."""
        return _turns(self.inv_freq)

    @property
    def scaled(self) -> Wavelengths:
        """Wavelengths before and after scaling, with the trained length to compare them with."""
        return Wavelengths(_turns(self.plain), self.wavelengths, self.trained_length or self.length)

    def matrix(self, length: int | None = None) -> NDArray[np.float64]:
        """Return the expected kernel of an input of ``length`` positions [length, length], by default the longest."""
        return relative_matrix((self if length is None else self.at(length)).profile, length or self.length)

    def kernels(self, distances: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return cos(ω_i Δ) [distances, pairs], the contribution of each pair to the kernel."""
        return np.asarray(np.cos(np.multiply.outer(np.asarray(distances, np.float64), self.inv_freq)))

    def profile(self, distances: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the kernel mean_i cos(ω_i Δ), assuming q = k with equal energy in every pair of dimensions."""
        return np.asarray(self.kernels(distances).mean(axis=1))


def _turns(frequencies: NDArray[np.float64]) -> NDArray[np.float64]:
    frequencies = np.abs(np.asarray(frequencies, np.float64))
    turns: NDArray[np.float64] = np.divide(
        2 * np.pi, frequencies, out=np.full(frequencies.shape, np.inf), where=frequencies > 0
    )
    return turns
