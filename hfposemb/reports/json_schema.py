"""JSON output of ``hfposemb compare --json``, a versioned document, and JSON Schemas (draft 2020-12) of two commands.

``VERSION`` is incremented when a field is removed or changes its meaning; new fields may be added without it, so
readers should ignore unknown ones.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..comparison.quantisation import QuantisationDamage
    from ..comparison.results import Comparison

VERSION = 1


def document(comparison: Comparison, quantisation: Sequence[QuantisationDamage] = ()) -> dict[str, Any]:
    """Return a comparison as JSON-compatible values that conform to ``schema("compare")``.

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


@cache
def schema(command: str) -> dict[str, Any]:
    """Return the JSON Schema of what a command prints with ``--json``: compare or kinship.

    Examples:
        >>> schema("compare")["properties"]["version"]
        {'const': 1}
    """
    found: dict[str, Any] = json.loads((_SCHEMAS / f"{command}.json").read_text(encoding="utf-8"))
    return found


_SCHEMAS = Path(__file__).with_name("schemas")
