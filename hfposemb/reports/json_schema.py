"""JSON output of ``hfposemb compare --json``: a versioned document, and its JSON Schema (draft 2020-12).

``VERSION`` is incremented when a field is removed or changes its meaning; new fields may be added without it, so
readers should ignore unknown ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..comparison.results import Comparison

VERSION = 1


def document(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as JSON-compatible values that conform to the schema ``COMPARISON``.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.reports.json_schema import document
        >>> list(document(hpe.compare(hpe.sinusoidal(64, 16), words=[], draws=0)))
        ['version', 'words', 'sources', 'pairs', 'missing', 'moves']
    """
    return {"version": VERSION, **comparison.to_dict()}


def _object(about: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "description": about, "properties": properties, "required": list(properties)}


def _list(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _map(about: str, values: Any) -> dict[str, Any]:
    return {"type": "object", "description": about, "additionalProperties": values}


def _or_null(kind: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [kind, {"type": "null"}]}


_TEXT = {"type": "string"}
_NUMBER = {"type": "number"}
_COUNT = {"type": "integer", "minimum": 0}
_SHARE = {"type": "number", "minimum": 0, "maximum": 1}
_SHAPE = _or_null({"type": "array", "items": _COUNT, "minItems": 2, "maxItems": 2})
_NEAR = _list({"type": "array", "prefixItems": [_TEXT, _NUMBER], "minItems": 2, "maxItems": 2})
_NULL = {"$ref": "#/$defs/null"}

COMPARISON: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "hfposemb compare",
    **_object(
        "Several sources side by side; what cannot be had is null, with its note.",
        version={"const": VERSION},
        words={**_list(_TEXT), "description": "the words whose neighbours were asked for"},
        sources=_list({"$ref": "#/$defs/source"}),
        pairs=_list({"$ref": "#/$defs/pair"}),
        missing={**_list(_TEXT), "description": "why some pair could not be compared"},
        moves=_list({"$ref": "#/$defs/moves"}),
    ),
    "$defs": {
        "null": _object(
            "A number beside what its surrogates give: their mean and 2.5–97.5 % interval, and p.",
            observed=_NUMBER,
            mean=_NUMBER,
            low=_NUMBER,
            high=_NUMBER,
            p=_SHARE,
            draws=_COUNT,
            seed=_COUNT,
            kind=_TEXT,
        ),
        "figure": _object(
            "One figure of a source; value is null where it cannot be had, and note says why.",
            value=_or_null(_NUMBER),
            unit=_TEXT,
            note=_TEXT,
            null=_or_null(_NULL),
            deviation={**_or_null(_NUMBER), "description": "over seeds, where it depends on them"},
        ),
        "source": _object(
            "One source. A shape is null where it has no such table.",
            source=_TEXT,
            kind=_TEXT,
            part={**_TEXT, "description": "the part that its positions are of; empty where it has one"},
            position_shape=_SHAPE,
            token_shape=_SHAPE,
            metrics=_map("figures by name", {"$ref": "#/$defs/figure"}),
            neighbours=_map(
                "by word, the nearest tokens", _list(_object("one of them", label=_TEXT, cosine={"type": "number"}))
            ),
            notes=_list(_TEXT),
        ),
        "pair": _object(
            "How alike the tables of two sources are, over rows of the shared ones; of is the smaller table's size.",
            role={"enum": ["position", "token"]},
            left=_TEXT,
            right=_TEXT,
            observed=_map("measures by name, larger for more alike", _NUMBER),
            measures=_map("those that were set beside chance", _NULL),
            rows=_COUNT,
            shared=_COUNT,
            of=_COUNT,
            notes=_list(_TEXT),
            parts={**_list(_TEXT), "description": "the parts that the positions are of; empty where a model has one"},
        ),
        "move": _object(
            "How far a word lies from itself, 0 where it stayed, and its nearest (label, cosine) in either table.",
            label=_TEXT,
            distance=_NUMBER,
            kept=_SHARE,
            left=_NEAR,
            right=_NEAR,
        ),
        "moves": _object(
            "The words that moved most and least between two vocabularies.",
            left=_TEXT,
            right=_TEXT,
            most=_list({"$ref": "#/$defs/move"}),
            least=_list({"$ref": "#/$defs/move"}),
            mean=_NUMBER,
            null=_NULL,
            shared=_COUNT,
            rows=_COUNT,
            notes=_list(_TEXT),
        ),
    },
}
"""JSON Schema of ``document``."""
