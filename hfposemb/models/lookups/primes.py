"""Prime numbers, from which models make the sizes of hashed tables."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

_WITNESSES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
"""Bases that decide for all numbers below 3 × 10²⁴ (Sorenson & Webster 2015, https://arxiv.org/abs/1509.00864)."""


def is_prime(number: int) -> bool:
    """Return whether a number is prime, by the Miller–Rabin test.

    >>> from hfposemb.models.lookups.primes import is_prime
    >>> is_prime(20_000_003), is_prime(20_000_005)
    (True, False)
    """
    if number < 2:
        return False
    for one in _WITNESSES:
        if number % one == 0:
            return number == one
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    return all(_passes(number, base, odd, twos) for base in _WITNESSES)


def _passes(number: int, base: int, odd: int, twos: int) -> bool:
    power = pow(base, odd, number)
    if power in (1, number - 1):
        return True
    for _ in range(twos - 1):
        power = power * power % number
        if power == number - 1:
            return True
    return False


def next_prime(after: int, seen: Collection[int] = ()) -> int:
    """Return the smallest prime above a number that is not among ``seen``."""
    number = after + 1
    while not is_prime(number) or number in seen:
        number += 1
    return number


@lru_cache(maxsize=64)
def primes_from(first: int, count: int) -> tuple[int, ...]:
    """Return the first primes that are not below a number."""
    found: list[int] = []
    for _ in range(count):
        found.append(next_prime(found[-1] if found else first - 1))
    return tuple(found)
