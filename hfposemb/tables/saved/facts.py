"""What a file states about the table saved in it, written and read here: labels, classes and provenance as texts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from ..table import TOKEN_CLASSES, EmbeddingTable, Labels, Provenance

METADATA_BYTES = 10_000_000
"""Maximum size of the metadata of a file, as JSON."""

_LONGEST = 4096
_MOST_NOTES = 100


def stated_facts(table: EmbeddingTable) -> dict[str, str]:
    """Return labels and provenance of a table as texts by key, all in ASCII; ``read_labels`` and others read them.

    Args:
        table: Table [n, d].
    """
    labels = table.labels
    facts = {"labels": _json(labels.texts)}
    if labels.pieces != labels.texts:
        facts["pieces"] = _json(labels.pieces)
    if labels.classes.any():
        facts["classes"] = "".join(map(str, labels.classes.tolist()))
    if labels.note:
        facts["note"] = labels.note
    kept = asdict(table.provenance.saved or table.provenance)
    del kept["saved"]
    return {**facts, "provenance": json.dumps(kept), "writer": "hfposemb"}


def _json(texts: tuple[str, ...]) -> str:
    return json.dumps(texts, separators=(",", ":"))


def read_labels(facts: Mapping[str, str], rows: int) -> Labels | None:
    """Return the labels of a table; ``None`` if there are none that fit its rows.

    Args:
        facts: Texts by key, as ``stated_facts`` returns them; they come from a file and may be anything.
        rows: Number of rows.
    """
    texts = _texts(facts.get("labels"), rows)
    if texts is None:
        return None
    said = facts.get("classes", "")
    known = len(said) == rows and set(said) <= {str(one) for one in range(len(TOKEN_CLASSES))}
    classes = np.frombuffer(said.encode(), np.uint8) - ord("0") if known else np.zeros(rows, np.uint8)
    return Labels(texts, _texts(facts.get("pieces"), rows) or texts, classes, facts.get("note", "")[:_LONGEST])


def _texts(said: str | None, rows: int) -> tuple[str, ...] | None:
    found = _parsed(said)
    if not isinstance(found, list) or len(found) != rows or not all(isinstance(one, str) for one in found):
        return None
    return tuple(found)


def read_provenance(facts: Mapping[str, str]) -> Provenance | None:
    """Return the provenance of a table when it was saved; ``None`` if the file states none that is well-formed.

    Args:
        facts: Texts by key, as for ``read_labels``.
    """
    found = _parsed(facts.get("provenance"))
    if not isinstance(found, dict) or not set(found) <= {one.name for one in fields(Provenance)} - {"saved"}:
        return None
    notes = found.pop("notes", [])
    texts = {"source": str, "commit": str, "file": str, "tensor": str, "stored_dtype": str}
    kinds: dict[str, Any] = {**texts, **dict.fromkeys(("nbytes", "file_bytes", "row_offset"), int)}
    optional = ("commit", "file", "tensor", "file_bytes")
    if not isinstance(notes, list) or len(notes) > _MOST_NOTES or not isinstance(found.get("source"), str):
        return None
    for name, value in found.items():
        if value is None and name in optional:
            continue
        if type(value) is not kinds[name] or (kinds[name] is int and not 0 <= value < 2**63):
            return None
    words = [*notes, *(value for value in found.values() if isinstance(value, str))]
    if not all(isinstance(one, str) and len(one) <= _LONGEST and one.isprintable() for one in words):
        return None
    return Provenance(**found, notes=tuple(notes))


def _parsed(said: str | None) -> object:
    try:
        return None if said is None else json.loads(said, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _refuse(constant: str) -> object:
    raise ValueError(constant)
