"""What rows and vocabularies of two models tell, as HTML: what decides each answer, and the evidence folded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ..comparison.merged_rows import FIGURES, ROWS
from ..comparison.row_kinship import MEASURED
from ..text import display, number, one_line, sentence_case
from ..vocabularies.vocabulary_answers import QUESTIONS

_SIGNS = {"yes": "✓", "with a map": "≈", "no": "✕", "cannot tell": "?"}
_CLASSES = {"yes": "note", "with a map": "suspicious", "no": "wrong", "cannot tell": "suspicious"}


def verdict_card(found: Mapping[str, Any], names: Sequence[str]) -> str:
    """Return the card of two token tables, without the verdict.

    Args:
        found: ``to_dict()`` of a ``PairVerdict``.
        names: Names of the two sources, as they are shown.
    """
    a, b = map(_text, names)
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
        answer = f"<p>{_line(ROWS[rows['answer']])}: {_text(rows['because'])}.</p>"
    folded = f"<ul>{''.join(f'<li>{_line(note)}</li>' for note in found['notes'])}</ul>"
    compared = ""
    if lines:
        compared = f"; {found['shared']:,} rows of the same tokens were compared"
        folded = f"<details><summary>Evidence</summary>{tables}{folded}</details>"
    return f"<section><p>A is {a}, B is {b}{compared}.</p><p>{_line(found['reason'])}.</p>{answer}{folded}</section>"


def vocabulary_card(found: Mapping[str, Any], names: Sequence[str]) -> str:
    """Return the card of two vocabularies, without the headline.

    Args:
        found: ``VocabularyDifference.to_dict()``.
        names: Names of the two sources, as they are shown.
    """
    sides = zip("AB", names, found["sources"].values(), strict=True)
    parts = [f"<p>{letter} is {_text(name)}{_facts(side)}</p>" for letter, name, side in sides]
    parts += [_answer(name, one) for name, one in found["answers"].items()]
    told = [("Differs", one) if one["matters"] else ("Note", one) for one in found["findings"]]
    lines = "".join(f"<li><strong>{kind}</strong> {_text(one['message'])}</li>" for kind, one in told)
    ids = [(f"{one['id']:,}", _token(one["a"]), _token(one["b"])) for one in found["differing"] if one["a"] != one["b"]]
    if lines or ids:
        about = f"Evidence: {len(told):,} {'finding' if len(told) == 1 else 'findings'}"
        table = _table(("id", "in A", "in B"), ids) if ids else ""
        parts.append(f"<details><summary>{about}</summary><ul>{lines}</ul>{table}</details>")
    return f"<section>{''.join(parts)}</section>"


def _facts(side: Mapping[str, Any]) -> str:
    if side["reason"]:
        return f": {_text(side['reason'])}"
    rows = "" if side["rows"] is None else f", {side['rows']:,} rows"
    return f": {side['tokens']:,} tokens in {_text(side['file'])}{rows}"


def _answer(name: str, one: Mapping[str, str]) -> str:
    kind = one["answer"]
    return (
        f'<div class="finding {_CLASSES[kind]}"><p><strong><span aria-hidden="true">{_SIGNS[kind]}</span> '
        f"{_text(QUESTIONS[name])} {kind.capitalize()}</strong></p><p>{_text(one['because'])}</p></div>"
    )


def _table(heads: Sequence[str], lines: Sequence[Sequence[str | float]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in heads)
    body = "".join(f"<tr>{''.join(map(_cell, line))}</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: str | float) -> str:
    return f"<td>{escape(value) if isinstance(value, str) else number(value)}</td>"


def _token(text: str | None) -> str:
    return "—" if text is None else display(text)


def _line(text: str) -> str:
    return escape(sentence_case(one_line(text)))


def _text(text: str) -> str:
    return escape(one_line(text))
