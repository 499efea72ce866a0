"""The address of the page: it says what is shown, a link to it shows the same, and the way back works."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import app
from app import address, theme, tokens

from .waiting import drawn, open_tab, until

if TYPE_CHECKING:
    from playwright.sync_api import Page

WORD = "A word, an id, or part of a word"


def _query(page: Page) -> dict[str, list[str]]:
    return parse_qs(str(page.evaluate("location.search")).removeprefix("?"))


def _tab(page: Page) -> str:
    return page.get_by_role("tab", selected=True).first.inner_text()


def test_the_address_follows_and_leads_back(page: Page, serve: Callable[..., str]) -> None:
    url = serve(app.build(sources=("random:40x16", "random:41x16")), theme=theme.theme(), css=theme.css())
    page.goto(f"{url}?utm=kept")
    drawn(page)
    open_tab(page, "Positions")
    until(page, lambda: _query(page), {"utm": ["kept"], "tab": ["positions"]})
    page.wait_for_timeout(1600)  # changes that follow each other at once are one step back
    page.get_by_text("2-D", exact=True).locator("visible=true").click()
    until(page, lambda: _query(page), {"utm": ["kept"], "tab": ["positions"], "dims": ["2"]})
    drawn(page)
    page.go_back()
    until(page, lambda: _query(page), {"utm": ["kept"], "tab": ["positions"]})
    until(page, lambda: page.get_by_label("3-D", exact=True).locator("visible=true").is_checked(), True)
    page.go_back()
    until(page, lambda: _tab(page), "Start")
    page.go_forward()
    until(page, lambda: _tab(page), "Positions")


def test_a_link_shows_what_it_was_copied_from(page: Page, serve: Callable[..., str]) -> None:
    url = serve(app.build(), theme=theme.theme(), css=theme.css())
    wanted = "models=sample%3Abert&models=random%3A300x64&tab=tokens&colour=Norm&word=queen"
    page.goto(f"{url}?{wanted}&position=nonsense&method=%3Cscript%3E&dims=9")
    drawn(page)
    until(page, lambda: _tab(page), "Tokens")
    until(page, lambda: page.get_by_label(WORD).input_value(), "queen")
    until(page, lambda: page.get_by_label("Norm", exact=True).is_checked(), True)
    until(page, lambda: "Nearest to queen in BERT" in page.locator("body").inner_text(), True)
    until(page, lambda: "Untrained" in page.locator(".provenance").first.inner_text(), True)
    until(page, lambda: _query(page), parse_qs(wanted))


# --- what is read and written -----------------------------------------------------------------------------------------


@given(st.text(max_size=200))
@settings(max_examples=60, deadline=None)
def test_any_query_is_read_or_passed_over(query: str) -> None:
    for name, values in address.read(query).items():
        assert isinstance(name, str)
        assert all(isinstance(value, str) for value in values)


def test_a_long_query_is_passed_over() -> None:
    assert address.read("?tab=" + "x" * address.LONGEST_ADDRESS) == {}
    assert address.read("&".join(f"a{i}=1" for i in range(100))) == {}


@given(st.dictionaries(st.sampled_from(["word", "method"]), st.text(min_size=1, max_size=20)), st.text(max_size=9))
@settings(max_examples=40, deadline=None)
def test_what_is_written_is_read_again(values: dict[str, str], model: str) -> None:
    models = [model] if model else []
    found = address.read(address.written(values, models, "tokens"))
    expected = {address.TAB: ["tokens"], **{name: [value] for name, value in values.items()}}
    assert found == expected | ({address.MODELS: models} if models else {})


@pytest.mark.parametrize("text", ["-1", "1e9", "nan", "inf", "x", "", "9" * 30, "٣"])
def test_numbers_out_of_range_are_none(text: str) -> None:
    read = address.number_up_to(100)
    with pytest.raises(ValueError, match=r"^(could not convert .*|.{0,40})$"):
        read(text)


@pytest.mark.parametrize("state", [["king", "", -1], [" king", "sample:gpt2", 12], ["a|b", "", -1], ["|", "x|y", 3]])
def test_a_word_is_written_and_read(state: list[object]) -> None:
    assert tokens.read_word(tokens.write_word(state)) in (state, ["||3|x|y", "", -1])
