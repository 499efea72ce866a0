"""Smallest base of rotary positions for a length of context (Men et al. 2024, arXiv 2405.14591)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError

LARGEST = 1e12
_SIDE, _SHORT = 64, 64
_BLOCK = _SIDE**2


def lowest_sum(theta: float, width: int, length: int) -> float:
    """Return the smallest expected advantage of similar over random tokens within a length.

    It is min over m < length of Σ_i cos(m·θ_i), θ_i = theta^(−2i/width) (Men et al. 2024, theorem 1). Where it is
    negative, a distant similar token scores lower than a random one at the same distance, on average.

    Args:
        theta: Base of the frequencies.
        width: Number of rotated dimensions of a head.
        length: Number of positions.

    Returns:
        The smallest sum, at most width / 2.

    Raises:
        InputError: If the base, the width or the length is out of range.

    Examples:
        >>> lowest_sum(500_000.0, 128, 8192) > 0
        True
        >>> lowest_sum(10_000.0, 128, 8192) > 0
        False
    """
    _check(width, length)
    if not 1 < theta <= LARGEST:
        raise InputError(f"theta must be above 1 and at most {LARGEST:g}; got {theta:g}")
    return lowest_of(_frequencies(theta, width), length)


def lowest_of(frequencies: NDArray[np.float64], length: int) -> float:
    """Return the smallest Σ_i cos(m·ω_i) of frequencies ω over all distances m < length."""
    return min(float(_sums(frequencies, start, length).min()) for start in range(0, length, _BLOCK))


def base_bound(width: int, length: int, *, step: float = 1e-3) -> float:
    """Return the smallest base for which similar tokens are preferred at every distance within a length.

    The smallest base with Σ_i cos(m·θ_i) ≥ 0 for all m < length (Men et al. 2024). Above it there are gaps of bases
    that fail, so bases are tried one after the other from below, and the first that holds is narrowed down by
    bisection.

    Args:
        width: Number of rotated dimensions of a head, such as 128.
        length: Number of positions.
        step: Relative distance of the bases tried.

    Returns:
        The bound; infinite if it exceeds 10^12.

    Raises:
        InputError: If the width or the length is out of range.

    Examples:
        >>> round(base_bound(128, 1024), -2)
        4300.0
    """
    _check(width, length)
    return _bound(width, length, step)


@lru_cache(maxsize=256)
def _bound(width: int, length: int, step: float) -> float:
    """Search upwards from the bound of half the length: what fails there fails here."""
    half = _bound(width, length // 2, step) if length >= _SHORT else 1.0
    if math.isinf(half):
        return half
    search, theta = _Search(width, length), half * (1.0 + step)
    if length >= _SHORT and not search.fails(half):
        return half
    while search.fails(theta):
        theta *= 1.0 + step
        if theta > LARGEST:
            return math.inf
    below = theta / (1.0 + step)
    for _ in range(20):
        middle = math.sqrt(below * theta)
        below, theta = (middle, theta) if search.fails(middle) else (below, middle)
    return theta


@dataclass
class _Search:
    """Bases tried in order; a base usually fails at the distance at which the one before it failed, or near it."""

    width: int
    length: int
    last: int = 0

    def fails(self, theta: float) -> bool:
        """Return whether some sum is negative."""
        frequencies = _frequencies(theta, self.width)
        if np.cos(self.last * frequencies).sum() < 0:
            return True
        blocks, near = range(-(-self.length // _BLOCK)), self.last // _BLOCK
        for block in sorted(blocks, key=lambda one: abs(one - near)):
            sums = _sums(frequencies, block * _BLOCK, self.length)
            if sums.min() < 0:
                self.last = block * _BLOCK + int(sums.argmin())
                return True
        return False


def _check(width: int, length: int) -> None:
    if width < 2 or width % 2:
        raise InputError(f"width must be even and at least 2; got {width}")
    if not 1 <= length <= 2**24:
        raise InputError(f"length must be from 1 to {2**24:,}; got {length:,}")


def _frequencies(theta: float, width: int) -> NDArray[np.float64]:
    return np.asarray(theta ** -(np.arange(0, width, 2) / width))


def _sums(frequencies: NDArray[np.float64], start: int, length: int) -> NDArray[np.float64]:
    """Return Σ_i cos(m·θ_i) for a block of distances from ``start`` on, before ``length``.

    With m = start + S·a + b it is the real part of Σ_i e^(i(start + S·a)θ_i) · e^(ibθ_i), a product of two matrices.
    """
    side = min(_SIDE, math.isqrt(length - start - 1) + 1)
    coarse = np.multiply.outer(start + side * np.arange(side), frequencies)
    fine = np.multiply.outer(np.arange(side), frequencies)
    found = np.cos(coarse) @ np.cos(fine).T - np.sin(coarse) @ np.sin(fine).T
    return np.asarray(found.ravel()[: length - start])
