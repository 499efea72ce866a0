"""Attributes that are computed when they are first read."""

from __future__ import annotations

from functools import cached_property
from typing import Any, TypeVar

T = TypeVar("T")


class lazy_attribute(cached_property[T]):  # noqa: N801 - used as a decorator
    """Attribute that is computed when it is first read, without a lock, as ``cached_property`` from Python 3.12 on.

    Up to Python 3.11, ``cached_property`` holds one lock for all objects of a class, so that several threads that read
    their own tables from the Hub would wait for each other. Here two threads that read the same attribute at once may
    both compute it.
    """

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        """Return the value, or the descriptor itself if it is read from the class."""
        if instance is None:
            return self
        assert self.attrname is not None
        kept = vars(instance)
        if self.attrname not in kept:
            kept[self.attrname] = self.func(instance)
        return kept[self.attrname]
