"""Survey rows by model: a table with one row per model and one column per figure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..text import display
from .metrics import MEASURES, Measure

if TYPE_CHECKING:
    import pandas

FACTS = ("source", "part", "commit", "kind", "architecture", "rows", "width")
"""Columns before the figures; rows and width are those of the position table."""


@dataclass(frozen=True)
class ModelRows:
    """Rows of a survey that belong to one model, or to one part of it.

    Attributes:
        facts: Values of ``FACTS``; ``None`` where they are not known.
        figures: Row of the survey of each figure, by name.
    """

    facts: Mapping[str, Any]
    figures: Mapping[str, Mapping[str, Any]]

    def value(self, name: str, column: str = "value") -> float | None:
        """Return a number of a figure; ``None`` if there is none."""
        found = self.figures.get(name, {}).get(column)
        return None if found is None else float(found)


def measures_in(rows: pandas.DataFrame) -> list[Measure]:
    """Return the figures of which survey rows have a value, in display order."""
    having = {str(name).strip() for name in rows.loc[rows["value"].notna(), "metric"]}
    return [measure for measure in MEASURES if measure.name.strip() in having]


def rows_by_model(rows: pandas.DataFrame) -> list[ModelRows]:
    """Return the rows of each model that was measured, in the order of the survey.

    A model whose positions are in several parts, such as an encoder and a decoder, is listed once for each, with the
    figures of the tables that the parts share in all of them.

    Args:
        rows: Rows of a survey, from ``hpe.survey`` or ``survey_folder.rows_of``.
    """
    measured = rows[rows["metric"].notna()].astype(object)
    by_source: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for row in measured.where(measured.notna(), None).to_dict("records"):
        by_source.setdefault(row["source"], {}).setdefault(row["table"].rpartition(".")[0], []).append(row)
    return [
        _model(source, part, [*parts.get(part, ()), *(parts.get("", ()) if part else ())])
        for source, parts in by_source.items()
        for part in [part for part in parts if part] or [""]
    ]


def _model(source: str, part: str, own: Iterable[Mapping[str, Any]]) -> ModelRows:
    figures: dict[str, Mapping[str, Any]] = {}
    facts: dict[str, Any] = dict.fromkeys(FACTS) | {"source": source, "part": part or None}
    for row in own:
        figures.setdefault(row["metric"].strip(), row)
        of_table = ("rows", "width") if row["table"].rpartition(".")[2] == "position" else ()
        for name in ("commit", "kind", "architecture", *of_table):
            facts[name] = row[name] if facts[name] is None else facts[name]
    return ModelRows(facts, figures)


def model_table(rows: pandas.DataFrame) -> pandas.DataFrame:
    """Return one row per model and one column per figure that any of them has.

    Args:
        rows: Rows of a survey, from ``hpe.survey`` or ``survey_folder.rows_of``.

    Returns:
        Data frame with the columns ``FACTS`` and those of ``measures_in``, one row for each of ``rows_by_model``.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.comparison.model_table import model_table
        >>> rows = hpe.survey(["sample:bert", "sample:gpt2"], metrics=["*mean norm"], draws=0)
        >>> model_table(rows)[["source", "kind", "mean norm"]].round(3).values.tolist()
        [['sample:bert', 'learned', 0.168], ['sample:gpt2', 'learned', 0.374]]
    """
    import pandas

    names = [measure.name.strip() for measure in measures_in(rows)]
    lines = [[*model.facts.values(), *map(model.value, names)] for model in rows_by_model(rows)]
    table = pandas.DataFrame(lines, columns=[*FACTS, *names])
    return table.astype({"rows": "Int64", "width": "Int64", **dict.fromkeys(names, "float64")})


def versions_in(text: str) -> str:
    """Return the versions of libraries that a row states as JSON, for a sentence."""
    try:
        return ", ".join(f"{name} {version}" for name, version in json.loads(text).items())
    except (ValueError, AttributeError):
        return display(text, width=120)
