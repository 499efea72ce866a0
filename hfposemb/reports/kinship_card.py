"""The kinship of two token tables as HTML: the verdict with what decides it, and the figures folded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ..comparison.row_kinship import MEASURED
from ..numbers import number
from ..text import one_line, sentence_case


def kinship_card(found: Mapping[str, Any], names: Sequence[str]) -> str:
    """Return the card of two token tables, without the verdict.

    Args:
        found: ``Kinship.to_dict()``.
        names: Names of the two sources, as they are shown.
    """
    a, b = (escape(one_line(name)) for name in names)
    lines = "".join(
        f"<tr><td>{escape(one['name'])}</td><td>{number(one['value'])}</td>"
        f"<td>{MEASURED if one['null'] is None else number(one['null'])}</td><td>{number(one['limit'])}</td></tr>"
        for one in found["evidence"]
    )
    heads = "".join(f"<th>{name}</th>" for name in ("figure", "value", "null", "decides from"))
    notes = f"<ul>{''.join(f'<li>{escape(sentence_case(one_line(note)))}</li>' for note in found['notes'])}</ul>"
    compared = f"; {found['shared']:,} rows of the same tokens were compared" if lines else ""
    if lines:
        table = f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"
        notes = f"<details><summary>Evidence</summary>{table}{notes}</details>"
    reason = escape(sentence_case(one_line(found["reason"])))
    return f"<section><p>A is {a}, B is {b}{compared}.</p><p>{reason}.</p>{notes}</section>"
