"""The reference pages say what the parser and the docstrings say."""

from __future__ import annotations

import inspect
import re
import sys

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.cli.parser import parser
from tests.reference import DOCS, PAGES, documented, usage

NUMBER = r"\d[\d,]*\.?\d*(?:e[-+]\d+)?"
MEASURED = "gallery.md"
"""Its figures are measured anew, and another processor rounds otherwise."""


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="argparse and inspect write it otherwise in other versions")
@pytest.mark.parametrize("page", PAGES)
def test_pages_are_up_to_date(page: str) -> None:
    written, now = (DOCS / page).read_text(encoding="utf-8"), PAGES[page]()
    if page == MEASURED:
        assert np.allclose(_numbers(written), _numbers(now), rtol=0.05, atol=1e-5), "run: python -m tests.reference"
        written, now = (re.sub(NUMBER, "#", text) for text in (written, now))
    assert written == now, "run: python -m tests.reference"


def test_every_public_name_is_on_a_page_of_the_api() -> None:
    shown = documented()
    for name in hpe.__all__[1:]:
        value = getattr(hpe, name)
        home = inspect.unwrap(value).__module__.removeprefix("hfposemb.")
        assert home in shown, name
        assert shown[home] == () or name in shown[home], name
        assert inspect.getdoc(value), name


def _numbers(text: str) -> list[float]:
    return [float(one.replace(",", "")) for one in re.findall(NUMBER, text)]


def test_usage_does_not_depend_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    wide = usage(parser())
    monkeypatch.setenv("COLUMNS", "50")
    assert usage(parser()) == wide
