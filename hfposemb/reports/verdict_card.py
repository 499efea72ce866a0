"""What rows of two models tell, as HTML: what decides the verdict, and the figures folded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ..comparison.merged_rows import FIGURES, ROWS
from ..comparison.row_kinship import MEASURED
from ..numbers import number
from ..text import one_line, sentence_case


def verdict_card(found: Mapping[str, Any], names: Sequence[str]) -> str:
    """Return the card of two token tables, without the verdict.

    Args:
        found: ``to_dict()`` of a ``PairVerdict``.
        names: Names of the two sources, as they are shown.
    """
    a, b = (escape(one_line(name)) for name in names)
    lines = [
        (one["name"], one["value"], MEASURED if one["null"] is None else one["null"], one["limit"])
        for one in found["evidence"]
    ]
    tables = _table(("figure", "value", "null", "decides from"), lines)
    if found.get("steps"):
        steps = [
            (one["method"], number(one["weight"], digits=1), *(one[name] for name in FIGURES)) for one in found["steps"]
        ]
        tables += _table(("merge", "weight of B", *FIGURES.values()), steps)
    rows = found.get("rows")
    answer = ""
    if rows is not None and rows["because"] != found["reason"]:
        answer = f"<p>{_line(ROWS[rows['answer']])}: {escape(one_line(rows['because']))}.</p>"
    folded = f"<ul>{''.join(f'<li>{_line(note)}</li>' for note in found['notes'])}</ul>"
    compared = ""
    if lines:
        compared = f"; {found['shared']:,} rows of the same tokens were compared"
        folded = f"<details><summary>Evidence</summary>{tables}{folded}</details>"
    return f"<section><p>A is {a}, B is {b}{compared}.</p><p>{_line(found['reason'])}.</p>{answer}{folded}</section>"


def _table(heads: Sequence[str], lines: Sequence[Sequence[str | float]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in heads)
    body = "".join(f"<tr>{''.join(map(_cell, line))}</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _line(text: str) -> str:
    return escape(sentence_case(one_line(text)))


def _cell(value: str | float) -> str:
    return f"<td>{escape(value) if isinstance(value, str) else number(value)}</td>"
