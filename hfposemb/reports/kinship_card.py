"""The kinship of two token tables as HTML: the verdict with what decides it, and the figures folded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ..comparison.row_kinship import MEASURED
from ..numbers import number
from ..text import one_line


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
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>" if lines else ""
    notes = "".join(f"<li>{escape(one_line(note))}</li>" for note in found["notes"])
    return (
        f"<section><p>A is {a}, B is {b}; {found['shared']:,} rows of the same tokens were compared.</p>"
        f"<p>{escape(one_line(found['reason']))}</p>"
        f"<details><summary>Evidence</summary>{table}<ul>{notes}</ul></details></section>"
    )
