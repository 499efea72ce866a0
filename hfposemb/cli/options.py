"""Helpers for options that several commands share."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from typing import Any

from ..errors import InputError, MissingTableError
from ..guesses import did_you_mean
from ..models.extraction import extract
from ..tables.embeddings import Embeddings
from ..tables.table import EmbeddingTable

SHOWN = 5


Command = Callable[[argparse.Namespace], int | None]


def parts_of(given: argparse.Namespace) -> str | list[str | None] | None:
    """Return the value of ``--part`` in the format of ``compare``."""
    if len(given.part) > 1:
        return [None if name == "-" else name for name in given.part]
    return given.part[0] if given.part and given.part[0] != "-" else None


def opened_source(given: argparse.Namespace, *, source: str | None = None) -> Embeddings:
    """Return the source that a command names, or one of several that it names."""
    tensor = getattr(given, "tensor", None)
    return extract(
        given.source if source is None else source,
        revision=given.revision,
        allow_full_download=given.allow_full_download,
        tables=None if tensor is None else {"tensor": tensor},
        base=given.base,
    )


def whole_numbers(text: str, option: str) -> list[int]:
    """Return ids separated by commas. Raises ``InputError``."""
    ids = [part.strip() for part in text.split(",") if part.strip()]
    if wrong := [part for part in ids if not (part.isascii() and part.isdecimal() and len(part) < 19)]:
        raise InputError(f"{option} takes whole numbers separated by commas, such as 177,188; got {wrong[0]!r:.40}")
    return [int(part) for part in ids]


def chosen_table(given: argparse.Namespace) -> EmbeddingTable:
    """Return the table that a command names."""
    if given.tensor is not None and given.table is not None:
        raise InputError("give --table or --tensor, not both")
    return role_of(opened_source(given), given.table if given.tensor is None else "tensor")


def role_of(embeddings: Embeddings, wanted: str | None) -> EmbeddingTable:
    """Return the table that ``--table`` names, by default tokens, or positions if there are none."""
    role = (wanted or ("token" if "token" in embeddings.tables else "position")).replace("-", "_")
    if role in embeddings.tables:
        return embeddings.tables[role]
    if role in embeddings.heads:
        return embeddings.heads[role]
    if role == "head":
        return embeddings.head
    if (beside := _beside(embeddings, role)) is not None:
        return beside
    computed = embeddings.positions.get(role.removesuffix(".position"))
    if computed is not None and computed.has_table:
        return computed.table
    reason = embeddings.absent.get(role, "not found")
    tables = ", ".join((*embeddings.tables, *embeddings.heads, *embeddings.lookups)) or "none"
    raise MissingTableError(
        f"{embeddings.name} has no {role} table: {reason}; its tables: {tables}"
        + did_you_mean(role, [*embeddings.tables, *embeddings.heads, *embeddings.lookups])
    )


def _beside(embeddings: Embeddings, role: str) -> EmbeddingTable | None:
    """Return a table that is looked up beside the word table, or of ``layer7.per_layer`` the part of one layer."""
    if role in embeddings.lookups:
        return embeddings.lookups[role]
    layer, _, key = role.partition(".")
    number = layer.removeprefix("layer")
    if key not in embeddings.lookups or not number.isdecimal() or len(number) > 6:
        return None
    return embeddings.lookups[key].layer(int(number))


def print_json(document: dict[str, Any]) -> None:
    """Print the JSON document of a command with ``--json``, which prints nothing else on standard output.

    JSON has no NaN and no infinity; both are null.
    """
    print(json.dumps(_finite(document), indent=2, ensure_ascii=False, allow_nan=False), flush=True)


def _finite(value: Any) -> Any:
    match value:
        case dict():
            return {key: _finite(one) for key, one in value.items()}
        case list() | tuple():
            return [_finite(one) for one in value]
        case float() if not math.isfinite(value):
            return None
    return value


def print_result(found: object, document: dict[str, Any], given: argparse.Namespace) -> None:
    """Print a result as text, or as a JSON document with ``--json``."""
    if given.json:
        print_json(document)
    else:
        print(found)


class Terminated(KeyboardInterrupt):
    """SIGTERM was received, as batch systems send it before the time limit."""


def byte_size(count: int) -> str:
    """Format a number of bytes for humans."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
