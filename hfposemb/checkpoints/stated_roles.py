"""Roles of tensors that a checkpoint states itself, for formats that keep no names of modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class StatedRoles:
    """Tables by their role.

    Attributes:
        tables: Tensors of each role, the best first: ``token``, ``token_type``, ``position`` and ``head``.
        biases: Tensor of the bias of each head, by the head's tensor.
        absent: Why a role has no table.
        how: How the roles were found, for users, if not by the names of the tensors.
    """

    tables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    biases: Mapping[str, str] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)
    how: str = ""


def stated_roles(tensors: object) -> StatedRoles:
    """Return the roles that a checkpoint states by a method ``roles``; none if their names are to tell them."""
    roles: Callable[[], StatedRoles] | None = getattr(tensors, "roles", None)
    return _NONE if roles is None else roles()


_NONE = StatedRoles()
