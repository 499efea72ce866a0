"""Views of output heads are given by their snippets and command lines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hfposemb.app.components.plot import Panel
from hfposemb.app.findings.tokens import token_head

import hfposemb as hpe
from tests.support.app.models import untied
from tests.support.app.printed import printed_wrong
from tests.support.app.views import Page, checked, opened_page

pytestmark = pytest.mark.usefixtures("few_draws")


@pytest.fixture(scope="module")
def heads(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """A source with an output head of its own, beside one whose head is its token table."""
    return opened_page((untied(tmp_path_factory.mktemp("models") / "untied"), "sample:gpt2"))


def headed(page: Page) -> None:
    """Compare token tables with output heads, as the tab's job would."""
    session = page.session.at("tokens")
    for source in session.open(session.first):
        if source.untied and source.embeddings is not None:
            found = hpe.compare_head(source.embeddings, count=token_head.LISTED)
            session.library.results.put(session.source_key(source, ("head", token_head.LISTED)), found)


def test_every_view_of_an_output_head_is_given_by_its_snippet(
    heads: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    headed(heads)
    views = heads.views("tokens")
    checked(views, least=8)
    of_head = [
        view for view in views if isinstance(view.shown, Panel) and re.search(r"\.head\b|compare_head", view.python)
    ]
    (text, _), keys = heads.session.first, {view.shown.key for view in of_head if isinstance(view.shown, Panel)}
    assert keys >= {"map", "neighbours", "spread", f"pairs-{text}", f"head-{text}"}
    said = [one for view in of_head if view.command for one in printed_wrong(view, tmp_path, monkeypatch)]
    assert not said, "\n".join(said)
