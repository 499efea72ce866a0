"""Two vocabularies compared, as HTML: the answers with what decides each, and the evidence folded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ..text import display, one_line
from ..vocabularies.vocabulary_answers import QUESTIONS

_SIGNS = {"yes": "✓", "with a map": "≈", "no": "✕", "cannot tell": "?"}
_CLASSES = {"yes": "note", "with a map": "suspicious", "no": "wrong", "cannot tell": "suspicious"}


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
    ids = [one for one in found["differing"] if one["a"] != one["b"]]
    if lines or ids:
        about = f"Evidence: {len(told):,} {'finding' if len(told) == 1 else 'findings'}"
        parts.append(f"<details><summary>{about}</summary><ul>{lines}</ul>{_table(ids)}</details>")
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


def _table(ids: Sequence[Mapping[str, Any]]) -> str:
    if not ids:
        return ""
    cells = "".join(
        f"<tr><td>{one['id']:,}</td><td>{_token(one['a'])}</td><td>{_token(one['b'])}</td></tr>" for one in ids
    )
    return f"<table><thead><tr><th>id</th><th>in A</th><th>in B</th></tr></thead><tbody>{cells}</tbody></table>"


def _token(text: str | None) -> str:
    return "—" if text is None else escape(display(text))


def _text(text: str) -> str:
    return escape(one_line(text))
