"""The tables that every checkpoint of a model type stores, by role.

The values are data: ``python -m tests.architectures.needed`` reads them off the small models of transformers 5.24.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

from .config_values import class_of

PARTS = ("Stack", "Encoder", "Decoder", "Layer", "Block", "Backbone", "Wrapper")
"""Ends of the names of classes that are parts of a model, and are not saved alone."""

Roles = frozenset[str]


@lru_cache(maxsize=1)
def _known() -> tuple[Mapping[str, Roles], Mapping[str, Mapping[str, Roles]]]:
    """Return the roles of the class that each type is named after, and those of its other classes that differ."""
    found = json.loads(files(__package__).joinpath("needed_tables.json").read_text(encoding="utf-8"))
    by_type = {name: frozenset(roles.split()) for roles, names in found["types"].items() for name in names}
    others = {
        name: {kind: frozenset(roles.split()) for kind, roles in kinds.items()}
        for name, kinds in found["classes"].items()
    }
    return by_type, others


def needed_tables(config: Mapping[str, Any]) -> Roles:
    """Return the roles of the tables that a checkpoint with this configuration must store; empty if that is not known.

    A part with a configuration of its own counts only if its type is known to have the table.

    Args:
        config: The configuration, as in config.json.

    Examples:
        >>> from hfposemb.models.architectures.needed_tables import needed_tables
        >>> sorted(needed_tables({"model_type": "gpt2"}))
        ['position', 'token']
    """
    kind, named = config.get("model_type"), class_of(config)
    if not isinstance(kind, str) or "auto_map" in config or named.endswith(PARTS):
        return frozenset()
    by_type, others = _known()
    roles, differing = by_type.get(kind, frozenset()), others.get(kind, {})
    roles = differing.get(named, roles) if named else roles.intersection(*differing.values())
    return frozenset(role for role in roles if _of_part(config, role, by_type))


def _of_part(config: Mapping[str, Any], role: str, by_type: Mapping[str, Roles]) -> bool:
    part, dot, rest = role.rpartition(".")
    inner = config.get(f"{part}_config")
    return not dot or not isinstance(inner, dict) or rest in by_type.get(str(inner.get("model_type")), ())
