"""``docs/families.md``: a made-up architecture is wrong without the row that the page adds, and right with it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hfposemb.models.architectures import families
from tests.support.snippets import run_snippets

PAGE = Path(__file__).parents[2] / "docs" / "families.md"


def test_the_row_of_the_page_makes_the_architecture_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a snippet has made the row, it stands in the table, as the page asks its reader to put it there."""
    names: dict[str, object] = {}

    def put() -> None:
        if isinstance(row := names.get("row"), families.Family):
            monkeypatch.setitem(families._BY_TYPE, row.model_types[0], row)

    assert run_snippets(PAGE.read_text(encoding="utf-8"), names, after=put) == 5
    assert families.row_offset(names["row"], {}, 43) == 3  # type: ignore[arg-type]
    assert "is unknown" in " ".join(names["lantern"].notes)  # type: ignore[attr-defined]
    assert not names["before"].passed  # type: ignore[attr-defined]
    assert names["after"].passed  # type: ignore[attr-defined]


def test_the_table_of_fields_names_what_there_is() -> None:
    for code in re.findall(r"^\| .+ \| `(.+?)` \|$", PAGE.read_text(encoding="utf-8"), flags=re.M):
        row = eval(f"Family(('x',), {code})", {"Family": families.Family, "InputRule": families.InputRule})
        assert row != families.Family(("x",))


def test_the_models_of_the_table_do_what_it_says() -> None:
    rows = re.findall(r"^\| .+, as (\w+)(?: and (\w+))? \| `(.+?)` \|$", PAGE.read_text(encoding="utf-8"), flags=re.M)
    assert len(rows) == 5
    for *models, code in rows:
        said = eval(f"dict({code})", {"InputRule": families.InputRule})
        for model in filter(None, models):
            family = families.family_of({"model_type": model.lower()})
            assert {name: getattr(family, name) for name in said} == said
