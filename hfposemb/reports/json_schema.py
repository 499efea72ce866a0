"""JSON output of ``hfposemb compare --json``, a versioned document, and the JSON Schemas of what five commands print.

``VERSION`` is incremented when a field is removed or changes its meaning; new fields may be added without it, so
readers should ignore unknown ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..checks.check_report import FORMAT, CheckReport
from ..checks.findings import RULES
from ..comparison.merged_rows import MergePreview
from ..comparison.quantisation import QuantisationDamage
from ..comparison.results import Comparison
from ..comparison.row_kinship import Kinship
from ..tables.documents import exact, members, plain, schema
from ..vocabularies.comparing import FORMAT as VOCABULARY_FORMAT
from ..vocabularies.measured_text import COVERAGE, TextCoverage
from ..vocabularies.vocabulary_answers import QUESTIONS, Verdict, VocabularyAnswer
from ..vocabularies.vocabulary_findings import VocabularyFinding

if TYPE_CHECKING:
    from collections.abc import Sequence

VERSION = 1


def document(comparison: Comparison, quantisation: Sequence[QuantisationDamage] = ()) -> dict[str, Any]:
    """Return a comparison as JSON-compatible values that conform to the schema of ``compare``.

    Args:
        comparison: The comparison.
        quantisation: What quantisation did, for the pairs of its sources that are a model in both forms.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.reports.json_schema import document
        >>> list(document(hpe.compare(hpe.sinusoidal(64, 16), words=[], draws=0)))
        ['version', 'sources', 'words', 'pairs', 'missing', 'moves', 'quantisation']
    """
    return {"version": VERSION, **comparison.to_dict(), "quantisation": plain(quantisation)}


_COMPARED = members(
    Comparison, version={"const": VERSION}, missing=tuple[str, ...], quantisation=tuple[QuantisationDamage, ...]
)
_SIDE = members(
    source=str,
    file=str | None,
    tokens=int,
    rows=int | None,
    added=int,
    special=Mapping[str, int],
    chat_template=bool,
    model=str | None,
    reason=str | None,
)
_COUNTED = ("same", "of", "conflicts", "moved", "missing", "added", "shared_texts", "texts")
_VOCABULARIES = members(
    format={"const": VOCABULARY_FORMAT},
    version=str,
    verdict=Verdict,
    headline=str,
    exit_code={"enum": [0, 1, 2]},
    sources=members(a=_SIDE, b=_SIDE),
    answers=members(**dict.fromkeys(QUESTIONS, VocabularyAnswer)),
    findings=tuple[VocabularyFinding, ...],
    ids={"anyOf": [members(**dict.fromkeys(_COUNTED, int), share=float, offset=int | None), type(None)]},
    differing={"type": "array", "items": members(id=int, a=str | None, b=str | None, moved_to=int)},
)
_TEXTS = members(texts={"type": "array", "items": members(TextCoverage, format={"const": COVERAGE})})

SCHEMAS: Mapping[str, dict[str, Any]] = {
    "check": exact(
        schema("hfposemb check", members(format={"const": FORMAT}, version=str, reports=tuple[CheckReport, ...]))
    ),
    "compare": schema("hfposemb compare", _COMPARED),
    "kinship": schema("hfposemb kinship", members(pairs=tuple[Kinship, ...], unread=tuple[str, ...])),
    "merge-preview": schema("hfposemb merge-preview", members(MergePreview)),
    "vocab": exact(schema("hfposemb vocab", _VOCABULARIES, _TEXTS)),
}
"""JSON Schemas of what commands print with ``--json``, by command; those of check and vocab allow no further fields."""

SCHEMAS["check"]["$defs"]["Finding"]["properties"]["name"]["enum"] = sorted(RULES)
