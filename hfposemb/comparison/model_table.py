"""Survey rows as a table with one row per model and one column per figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .metrics import MEASURES, Measure

if TYPE_CHECKING:
    import pandas

FACTS = ("source", "part", "commit", "kind", "architecture", "rows", "width")
"""Columns before the figures; rows and width are those of the position table."""


def measures_in(rows: pandas.DataFrame) -> list[Measure]:
    """Return the figures of which survey rows have a value, in display order."""
    having = {str(name).strip() for name in rows.loc[rows["value"].notna(), "metric"]}
    return [measure for measure in MEASURES if measure.name.strip() in having]


def model_table(rows: pandas.DataFrame, value: str = "value") -> pandas.DataFrame:
    """Return one row per model and one column per figure that any of them has.

    A model whose positions are in several parts, such as an encoder and a decoder, has a row for each, with the figures
    of the tables that the parts share in all of them. Models that could not be measured are left out.

    Args:
        rows: Rows of a survey, from ``hpe.survey`` or ``survey_folder.rows_of``.
        value: Column of the survey that is returned for each figure.

    Returns:
        Data frame with the columns ``FACTS`` and those of ``measures_in``, sorted as in the survey.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.comparison.model_table import model_table
        >>> rows = hpe.survey(["sample:bert", "sample:gpt2"], metrics=["*mean norm"], draws=0)
        >>> model_table(rows)[["source", "kind", "mean norm"]].round(3).values.tolist()
        [['sample:bert', 'learned', 0.168], ['sample:gpt2', 'learned', 0.375]]
    """
    import pandas

    measured = rows[rows["metric"].notna()].copy()
    measured["metric"] = measured["metric"].str.strip()
    measured["part"] = [table.rpartition(".")[0] for table in measured["table"]]
    names = [measure.name.strip() for measure in measures_in(rows)]
    found = []
    for source, of_source in measured.groupby("source", sort=False):
        shared = of_source[of_source["part"] == ""]
        for part in [part for part in dict.fromkeys(of_source["part"]) if part] or [""]:
            own = pandas.concat([of_source[of_source["part"] == part], shared])
            values = own.drop_duplicates("metric").set_index("metric")[value].reindex(names)
            found.append({"source": source, "part": part or None, **_facts(own), **values.to_dict()})
    table = pandas.DataFrame(found, columns=[*FACTS, *names])
    return table.astype({"rows": "Int64", "width": "Int64"})


def _facts(own: pandas.DataFrame) -> dict[str, object]:
    facts: dict[str, object] = {}
    for name in ("commit", "kind", "architecture"):
        known = own[name].dropna()
        facts[name] = None if known.empty else known.iloc[0]
    measured = own[own["rows"].notna()]
    of_positions = measured[[table.rpartition(".")[2] == "position" for table in measured["table"]]]
    for name in ("rows", "width"):
        facts[name] = None if of_positions.empty else of_positions[name].iloc[0]
    return facts
