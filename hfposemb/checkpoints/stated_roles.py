"""Roles of tensors that a checkpoint states itself, for formats that keep no names of modules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable


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


@runtime_checkable
class StatesRoles(Protocol):
    """Checkpoint that knows the roles of its tensors."""

    def roles(self) -> StatedRoles:
        """Return the tables of each role."""
        ...


def stated_roles(tensors: object) -> StatedRoles:
    """Return the roles that a checkpoint states; none if their names are to tell them."""
    return tensors.roles() if isinstance(tensors, StatesRoles) else StatedRoles()
