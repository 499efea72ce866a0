"""Attributes that are computed when they are first read."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self, TypeVar, overload

T = TypeVar("T")


class lazy_attribute(cached_property[T]):  # noqa: N801 - used as a decorator
    """Attribute that is computed when it is first read, without a lock, as ``cached_property`` from Python 3.12 on.

    Up to Python 3.11, ``cached_property`` holds one lock for all objects of a class, so that several threads that read
    their own tables from the Hub would wait for each other. Here two threads that read the same attribute at once may
    both compute it; both get what the first of them stored.
    """

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T: ...
    def __get__(self, instance: object | None, owner: type[Any] | None = None) -> Self | T:
        """Return the value, or the descriptor itself if it is read from the class."""
        if instance is None:
            return self
        assert self.attrname is not None
        kept = vars(instance)
        if self.attrname in kept:
            found: T = kept[self.attrname]
            return found
        value: T = kept.setdefault(self.attrname, self.func(instance))
        return value
