"""JSON output of ``hfposemb compare --json``, a versioned document, and JSON Schemas (draft 2020-12) of three commands.

``VERSION`` is incremented when a field is removed or changes its meaning; new fields may be added without it, so
readers should ignore unknown ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from ..comparison.merged_rows import Method, Outcome
from ..comparison.row_kinship import Verdict
from ..tables.null_comparison import Side
from ..vocabularies.vocabulary_answers import Reply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..comparison.quantisation import QuantisationDamage
    from ..comparison.results import Comparison

VERSION = 1


def document(comparison: Comparison, quantisation: Sequence[QuantisationDamage] = ()) -> dict[str, Any]:
    """Return a comparison as JSON-compatible values that conform to the schema ``COMPARISON``.

    Args:
        comparison: The comparison.
        quantisation: What quantisation did, for the pairs of its sources that are a model in both forms.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.reports.json_schema import document
        >>> list(document(hpe.compare(hpe.sinusoidal(64, 16), words=[], draws=0)))
        ['version', 'words', 'sources', 'pairs', 'missing', 'moves', 'quantisation']
    """
    return {"version": VERSION, **comparison.to_dict(), "quantisation": [one.to_dict() for one in quantisation]}


def _object(about: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "description": about, "properties": properties, "required": list(properties)}


def _list(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _map(about: str, values: Any) -> dict[str, Any]:
    return {"type": "object", "description": about, "additionalProperties": values}


def _told(kind: dict[str, Any], about: str) -> dict[str, Any]:
    return {**kind, "description": about}


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
        "A comparison of several sources; unavailable values are null, with a note.",
        version={"const": VERSION},
        words=_told(_list(_TEXT), "words whose neighbours are listed"),
        sources=_list({"$ref": "#/$defs/source"}),
        pairs=_list({"$ref": "#/$defs/pair"}),
        missing=_told(_list(_TEXT), "reasons why pairs could not be compared"),
        moves=_list({"$ref": "#/$defs/moves"}),
        quantisation=_list({"$ref": "#/$defs/quantisation"}),
    ),
    "$defs": {
        "null": _object(
            "A value and its null distribution: mean and interval of the surrogates, and p for the tested side.",
            observed=_NUMBER,
            mean=_NUMBER,
            low=_NUMBER,
            high=_NUMBER,
            p=_SHARE,
            draws=_COUNT,
            seed=_COUNT,
            kind=_TEXT,
            side={"enum": list(get_args(Side))},
        ),
        "figure": _object(
            "One metric of a source; value is null if unavailable, for the reason in note.",
            value=_or_null(_NUMBER),
            unit=_TEXT,
            note=_TEXT,
            null=_or_null(_NULL),
            deviation=_told(_or_null(_NUMBER), "standard deviation over seeds, if it depends on them"),
            references=_map("values for an untrained table and a sinusoid of the same shape", _NUMBER),
        ),
        "source": _object(
            "One source; a shape is null if it has no such table.",
            source=_TEXT,
            kind=_TEXT,
            part=_told(_TEXT, "part that its positions belong to; empty for a model with a single part"),
            position_shape=_SHAPE,
            token_shape=_SHAPE,
            head=_told(_TEXT, "size of its output head, or tied; empty if it has none"),
            metrics=_map("metrics by name", {"$ref": "#/$defs/figure"}),
            neighbours=_map(
                "nearest tokens by word", _list(_object("One neighbour.", label=_TEXT, cosine={"type": "number"}))
            ),
            notes=_list(_TEXT),
        ),
        "pair": _object(
            "Similarity of the tables of two sources, over the rows they share; of is the size of the smaller table.",
            role={"enum": ["position", "token"]},
            left=_TEXT,
            right=_TEXT,
            observed=_map("measures by name; larger means more similar", _NUMBER),
            measures=_map("nulls of the measures that have one", _NULL),
            rows=_COUNT,
            shared=_COUNT,
            of=_COUNT,
            notes=_list(_TEXT),
            parts=_told(_list(_TEXT), "parts that the positions belong to; empty for models with a single part"),
            untested=_told(_TEXT, "why the tables were not compared with chance; empty if they were"),
            alike_in_profile=_map("correlation of what changes in the same manner along both tables", _NUMBER),
            corrected=_map("p of measures, corrected for all pairs and roles in which they were tested (Holm)", _SHARE),
            among=_told(_COUNT, "number of these tests"),
            least_found=_told(
                _or_null(_NUMBER), "share of a table that a copy of the other makes up to be found in 4 of 5 cases"
            ),
            without_leading=_told(_or_null(_NUMBER), "CKA without three leading components of each table"),
        ),
        "move": _object(
            "Distance of a word between two aligned tables, 0 if it did not move, and its neighbours in each.",
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
        "quantisation": _object(
            "What quantisation did to a token table. Nulls are those of random errors of the same energy; the distance "
            "of a token is its relative error.",
            original=_TEXT,
            quantised=_TEXT,
            sampled=_told(_COUNT, "number of tokens in measures"),
            k=_told(_COUNT, "number of neighbours"),
            tokens=_COUNT,
            measures=_map("means over the sampled tokens", _NULL),
            stored={"type": "array", "items": _TEXT, "minItems": 2, "maxItems": 2},
            worst=_list({"$ref": "#/$defs/move"}),
            notes=_list(_TEXT),
        ),
    },
}
"""JSON Schema of ``document``."""


def _verdict(about: str, verdicts: Any, **more: Any) -> dict[str, Any]:
    """Return the schema of a ``PairVerdict``."""
    evidence = _object(
        "A figure beside its null; it decides from its limit on.",
        name=_TEXT,
        value=_NUMBER,
        null=_or_null(_NUMBER),
        limit=_NUMBER,
    )
    return _object(
        about,
        a=_TEXT,
        b=_TEXT,
        verdict={"enum": list(get_args(verdicts))},
        reason=_TEXT,
        evidence=_list(evidence),
        shared=_told(_COUNT, "number of rows compared"),
        notes=_list(_TEXT),
        **more,
    )


_KIN = _verdict(
    "Rows of two models compared.",
    Verdict,
    score=_told(_or_null(_SHARE), "the strongest evidence, 1 for a copy; null if none tells"),
    p=_told(_or_null(_SHARE), "of so large a cosine for independent trainings"),
)
KINSHIP: dict[str, Any] = {
    "$schema": COMPARISON["$schema"],
    "title": "hfposemb kinship",
    **_object(
        "Pairs of models, and whether one was made from the other.",
        pairs=_list(_KIN),
        unread=_told(_list(_TEXT), "files that are no fingerprints, with the reason"),
    ),
}
MERGE: dict[str, Any] = {
    "$schema": COMPARISON["$schema"],
    "title": "hfposemb merge-preview",
    **_verdict(
        "What averaging two token tables would do.",
        Outcome,
        rows=_object("Whether rows can be averaged.", answer={"enum": list(get_args(Reply))}, because=_TEXT),
        overlap=_told(_or_null(_SHARE), "share of all tokens that both have"),
        origin=_KIN,
        steps=_list(
            _object(
                "Rows merged with one weight of the second table: length relative to the parents', neighbours kept.",
                method={"enum": list(get_args(Method))},
                weight=_SHARE,
                length=_NUMBER,
                kept_a=_SHARE,
                kept_b=_SHARE,
            )
        ),
    ),
}
