"""JSON Schema of what ``hfposemb vocab --json`` prints."""

from __future__ import annotations

from typing import Any, get_args

from .comparing import FORMAT
from .measured_text import COVERAGE
from .vocabulary_answers import QUESTIONS, Reply, Verdict

_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}


def _fields(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": list(of), "additionalProperties": False, "properties": of}


def _optional(of: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [of, {"type": "null"}]}


_SOURCE = _fields(
    {
        "source": _TEXT,
        "file": _optional(_TEXT),
        "tokens": _COUNT,
        "rows": _optional(_COUNT),
        "added": _COUNT,
        "special": {"type": "object", "additionalProperties": _COUNT},
        "chat_template": {"type": "boolean"},
        "model": _optional(_TEXT),
        "reason": _optional(_TEXT),
    }
)
_IDS = dict.fromkeys(("same", "of", "conflicts", "moved", "missing", "added", "shared_texts", "texts"), _COUNT)
_DIFFERENCE = _fields(
    {
        "format": {"const": FORMAT},
        "version": _TEXT,
        "verdict": {"enum": list(get_args(Verdict))},
        "headline": _TEXT,
        "exit_code": {"enum": [0, 1, 2]},
        "sources": _fields({"a": _SOURCE, "b": _SOURCE}),
        "answers": _fields(
            dict.fromkeys(QUESTIONS, _fields({"answer": {"enum": list(get_args(Reply))}, "because": _TEXT}))
        ),
        "findings": {
            "type": "array",
            "items": _fields({"name": _TEXT, "matters": {"type": "boolean"}, "message": _TEXT, "count": _COUNT}),
        },
        "ids": _optional(_fields({**_IDS, "share": {"type": "number"}, "offset": _optional({"type": "integer"})})),
        "differing": {
            "type": "array",
            "items": _fields(
                {
                    "id": _COUNT,
                    "a": _optional(_TEXT),
                    "b": _optional(_TEXT),
                    "moved_to": {"type": "integer", "minimum": -1},
                }
            ),
        },
    }
)
_SCRIPT = _fields(
    {"script": _TEXT, "words": _COUNT, "characters": _COUNT, "tokens": _COUNT, "tokens_per_word": {"type": "number"}}
)
_COVERED = _fields(
    {
        "format": {"const": COVERAGE},
        "source": _TEXT,
        "characters": _COUNT,
        "words": _COUNT,
        "tokens": _COUNT,
        "tokens_per_word": {"type": "number"},
        "covered": {"type": "number"},
        "unknown": _COUNT,
        "scripts": {"type": "array", "items": _SCRIPT},
        "rows": _COUNT,
        "used": _COUNT,
        "unused": _COUNT,
        "unused_bytes": _COUNT,
        "row_bytes": _COUNT,
    }
)
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "hfposemb vocab",
    "oneOf": [_DIFFERENCE, _fields({"texts": {"type": "array", "items": _COVERED}})],
}
"""JSON Schema of ``hfposemb vocab --json``: the comparison of two vocabularies, or a text measured with ``--text``."""
