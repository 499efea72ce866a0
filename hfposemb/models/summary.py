"""Summary of a source as plain values, for ``hfposemb info --json`` and the app's ``info``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..errors import HfposembError
from ..tables.embeddings import Embeddings
from ..tables.encodings import (
    Absolute,
    Alibi,
    Convolution,
    Grid,
    NoPositions,
    PositionEncoding,
    RelativeBias,
    RelativeTable,
    WindowBias,
)
from ..tables.rotary import Rotary
from ..tables.table import EmbeddingTable


def describe(embeddings: Embeddings) -> dict[str, Any]:
    """Return the tables and position encodings of a source, ready for JSON; no table is read."""
    tables = {role: table_facts(table) for role, table in embeddings.tables.items()}
    beside, unread = _lookups(embeddings)
    tables |= beside
    positions = {
        part: {"kind": one.kind, "unit": one.unit, "offset": one.offset, "facts": _facts(one)}
        for part, one in embeddings.positions.items()
    }
    model_type = embeddings.config.get("model_type")
    origins = [table.provenance for table in embeddings.tables.values()]
    files = {origin.file: origin.file_bytes or 0 for origin in origins}
    files |= {table["file"]: table["file_bytes"] or 0 for table in beside.values()}
    traffic = embeddings.traffic
    return {
        "name": embeddings.name,
        "model_type": model_type if isinstance(model_type, str) else None,
        "tables": tables,
        "heads": {role: _head_facts(embeddings, role) for role in embeddings.ties},
        "positions": positions,
        "absent": {
            role: why for role, why in embeddings.absent.items() if role not in (*tables, *embeddings.ties) and why
        },
        "notes": [*embeddings.notes, *unread],
        "commit": next((table["commit"] for table in tables.values() if table["commit"]), None),
        "file_bytes": sum(files.values()),
        "received_bytes": 0 if traffic is None else traffic.received,
        "requests": 0 if traffic is None else traffic.requests,
    }


def table_facts(table: EmbeddingTable) -> dict[str, Any]:
    """Return shape, dtype and provenance of a table, ready for JSON; it is not read."""
    return {"shape": list(table.shape), "dtype": table.dtype.name, **asdict(table.provenance)}


def _lookups(embeddings: Embeddings) -> tuple[dict[str, Any], list[str]]:
    """Return the facts of tables beside the word table, with what their rows are looked up by, and why one has none."""
    found: dict[str, Any] = {}
    unread = []
    for key in embeddings.lookups:
        try:
            table = embeddings.lookups[key]
        except HfposembError as error:
            unread.append(f"{key}: {error}")
            continue
        by = {"looked_up_by": table.lookup.by or None, "lookup": dict(table.lookup.facts)}
        found[key] = {**table_facts(table), **by, "unknown": table.lookup.unknown or None}
    return found, unread


def _head_facts(embeddings: Embeddings, role: str) -> dict[str, Any]:
    """Return what is known of a head; its shape if that needs no further request."""
    tie = embeddings.ties[role]
    facts = {"tensor": tie.tensor, "tied": tie.tied, "how": tie.how, "about": tie.about, "token": tie.token}
    unknown = {"shape": None, "stored_dtype": None, "bias": None}
    if embeddings.traffic is not None and tie.how not in ("absent", "alias", "same tensor"):
        return {**facts, **unknown}
    try:
        head = embeddings.heads[role]
    except HfposembError as error:
        return {**facts, **unknown, "about": f"{tie.about}; {error}"}
    return {
        **facts,
        "tied": head.tied.tied,
        "how": head.tied.how,
        "about": head.tied.about,
        "shape": list(head.shape),
        "stored_dtype": head.provenance.stored_dtype,
        "bias": head.bias_tensor,
    }


def _facts(encoding: PositionEncoding) -> dict[str, Any]:
    """Return the parameters of an encoding."""
    match encoding:
        case Absolute(grid=Grid(rows, columns, first)):
            return {"grid": f"{rows} × {columns}", "rows before it": first}
        case Rotary():
            return {
                "frequencies": len(encoding.inv_freq),
                "layout": encoding.layout,
                "scaling": round(encoding.attention_scaling, 6),
                **_rotary_rules(encoding),
            }
        case Alibi():
            return {"heads": len(encoding.slopes)}
        case RelativeBias():
            return {"rows": encoding.bias.shape[0], "heads": encoding.bias.shape[1]}
        case RelativeTable():
            return {"rows": len(encoding.rows)}
        case WindowBias():
            return {"window": f"{encoding.grid.rows} × {encoding.grid.columns}", "heads": encoding.bias.shape[2]}
        case Convolution():
            return {"width": encoding.width, "groups": encoding.groups}
        case NoPositions():
            return {"order": encoding.order}
    return {}


def _rotary_rules(encoding: Rotary) -> dict[str, Any]:
    """Return what gives the factor of cosines and sines, and which pairs turn with which axis, where stated."""
    found: dict[str, Any] = {}
    if encoding.attention_rule:
        found |= {"attention factor": round(encoding.attention_scaling, 6), "by": encoding.attention_rule}
    if encoding.axes is not None:
        found["mrope_section"] = f"{list(encoding.axes.sections)} {encoding.axes}"
    return found
