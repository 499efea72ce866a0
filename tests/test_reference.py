"""The reference pages say what the parser and the docstrings say."""

from __future__ import annotations

import sys

import pytest

from hfposemb.cli import parser
from tests.reference import DOCS, PAGES, usage


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="argparse and inspect write it otherwise in other versions")
@pytest.mark.parametrize("page", PAGES)
def test_pages_are_up_to_date(page: str) -> None:
    assert (DOCS / page).read_text(encoding="utf-8") == PAGES[page](), "run: python -m tests.reference"


def test_usage_does_not_depend_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    wide = usage(parser())
    monkeypatch.setenv("COLUMNS", "50")
    assert usage(parser()) == wide
