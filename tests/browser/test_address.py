"""The address of the page: it says what is shown, a link to it shows the same, and the way back works."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode

import gradio as gr
import pytest
from gradio.components.base import FormComponent
from hypothesis import given, settings
from hypothesis import strategies as st

import app
from app.findings import chosen_word, token_search
from app.session import address

from .conftest import TIMEOUT
from .waiting import drawn, open_tab, until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

WORD = "Word, part of a word, or id"


def _query(page: Page) -> dict[str, list[str]]:
    return parse_qs(str(page.evaluate("location.search")).removeprefix("?"))


def _tab(page: Page) -> str:
    return page.get_by_role("tab", selected=True).first.inner_text()


def test_the_address_follows_and_leads_back(page: Page, site: Callable[..., str]) -> None:
    url = site("random:40x16", "random:41x16")
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


def test_a_link_shows_what_it_was_copied_from(page: Page, site: Callable[..., str]) -> None:
    url = site()
    wanted = "models=sample%3Abert&models=random%3A300x64&tab=tokens&colour=Norm&word=queen"
    page.goto(f"{url}?{wanted}&position=nonsense&method=%3Cscript%3E&dims=9")
    drawn(page)
    until(page, lambda: _tab(page), "Tokens")
    until(page, lambda: page.get_by_label(WORD).input_value(), "queen")
    until(page, lambda: page.get_by_label("Norm", exact=True).is_checked(), True)
    until(page, lambda: "Nearest to queen in BERT" in page.locator("body").inner_text(), True)
    until(page, lambda: "Untrained" in page.locator(".provenance").first.inner_text(), True)
    until(page, lambda: _query(page), parse_qs(wanted))


def _arrays(page: Page) -> dict[str, Any]:
    """Return every number that is drawn or listed on the screen, by the key of its panel."""
    found: dict[str, Any] = page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll("hfposemb-row .panel")]
          .filter((panel) => panel.offsetWidth)
          .map((panel) => [panel.dataset.key, {
            drawn: [...panel.querySelectorAll(".stage")].map((stage) => (stage.data ?? []).map((trace) =>
              ["x", "y", "z"].map((axis) => trace[axis] && JSON.stringify(Array.from(trace[axis], (one) =>
                one?.length === undefined ? one : Array.from(one)))))),
            listed: [...panel.querySelectorAll(".neighbour")].map((row) => row.innerText),
            words: panel.querySelector(".names").innerText,
          }]))"""
    )
    return found


def _controls(page: Page) -> list[Any]:
    """Return what every control on the screen holds."""
    found: list[Any] = page.evaluate(
        """() => [...document.querySelectorAll("input, textarea")]
          .filter((one) => one.offsetWidth && one.type !== "file")
          .map((one) => [one.ariaLabel || one.closest("label, fieldset, .block")?.innerText.slice(0, 60) || "",
            /radio|checkbox/.test(one.type) ? one.checked : one.value])"""
    )
    return found


LINKS = {
    "start": {"sentence": "a queen saw the king", "kind": "Untrained"},
    "positions": {
        "dims": "2",
        "length": "128",
        "position": "7",
        "waves": "1, 2",
        "map-of-shift": "orthogonal",
        "shifted-by": "1",
    },
    "tokens": {
        "space": "3-D",
        "colour": "Norm",
        "word": "queen",
        "words": "king, queen, earth",
        "search": "regex:^.?kin",
        "centred": "True",
    },
    "words": {
        "text": "a queen saw the king",
        "before": "the king saw a queen",
        "whose": "sinusoid",
        "size": "Their own norm",
        "amplitude": "2.5",
        "anchors": "father,earth",
        "place": "2",
        "part-of-logits": "word · position",
        "head": "1",
    },
}
"""What a link to each tab may hold, all of it other than at first."""


SOURCES = ("sample:bert", "random:300x64?seed=8")
SMALL = {"positions": ("sinusoidal:160x16", "random:160x16?seed=8")}
"""Where all that a link opens is measured, small tables are enough."""


@pytest.mark.parametrize("tab", LINKS)
def test_a_link_opened_elsewhere_shows_the_same(
    browser: Browser, page: Page, site: Callable[..., str], tab: str
) -> None:
    url = site(*SMALL.get(tab, SOURCES))
    plain = _elsewhere(browser, f"{url}?tab={tab}", lambda found: True)
    page.goto(f"{url}?{urlencode({'tab': tab, **LINKS[tab]})}")
    drawn(page)
    wanted = {name: [value] for name, value in LINKS[tab].items()} | ({} if tab == "start" else {"tab": [tab]})
    until(page, lambda: _query(page), wanted)
    shown = _settled(page, lambda found: found != plain["arrays"])
    assert shown != plain["arrays"]
    found = _elsewhere(browser, str(page.evaluate("location.href")), lambda found: found == shown)
    assert found["arrays"] == shown
    assert found["controls"] == _controls(page) != plain["controls"]


def test_a_link_unfolds_what_was_unfolded(browser: Browser, page: Page, site: Callable[..., str]) -> None:
    page.goto(f"{site(*SMALL['positions'])}?tab=positions")
    drawn(page)
    page.locator(".fold-shifts > button").click()
    until(page, lambda: _query(page), {"tab": ["positions"], "shifts": ["unfolded"]})
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    other = context.new_page()
    other.goto(str(page.evaluate("location.href")))
    other.locator(".fold-shifts .panel[data-state=drawn]").first.wait_for()
    assert other.locator(".fold-probes > button.open").count() == 0
    drawn(other)
    other.locator(".fold-shifts > button").click()
    until(other, lambda: _query(other), {"tab": ["positions"]})
    other.go_back()
    other.locator(".fold-shifts > button.open").wait_for()
    context.close()


def _elsewhere(browser: Browser, url: str, enough: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Return what an address shows in a browser that has never been here."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    context.set_default_timeout(TIMEOUT)
    try:
        page = context.new_page()
        page.goto(url)
        drawn(page)
        return {"arrays": _settled(page, enough), "controls": _controls(page)}
    finally:
        context.close()


def _settled(page: Page, enough: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Return what is drawn, once it is enough and has not changed for a moment, or what there is after a while."""
    found: dict[str, Any] = {}
    for _ in range(20):
        before, found = found, _arrays(page)
        if found == before and enough(found):
            break
        page.wait_for_timeout(1500)
        drawn(page)
    return found


# --- every control ----------------------------------------------------------------------------------------------------

SAID_BY_OTHERS = {
    "Sources (up to 4)": "the sources are in the address as models",
    "Marked position": "a slider tells the position once it is let go",
    "Part": "a state is kept as part or stack, which the field follows",
    "Source": "a state is kept as words-of, map or run, which the field follows",
    WORD: "the word is kept, and what is searched",
    "Regex": "kept with what is searched",
    "Metric": "a state is kept as by, which the field follows",
    "Try your own model": "what is tried becomes a source",
    "What do you expect?": "whoever opens a lesson guesses anew",
}
"""Fields that the address does not name themselves, and why."""


def test_every_control_is_kept_in_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Any] = []
    monkeypatch.setattr(address, "bind", lambda session, keys: kept.extend(session.controls))
    blocks = app.build(sources=("sample:bert", "sinusoidal:42x16"))
    names = [one.name for one in kept]
    assert len(set(names)) == len(names)
    fields = [block for block in blocks.blocks.values() if isinstance(block, FormComponent)]
    named = {id(one.component) for one in kept}
    unkept = {str(block.label) for block in fields if id(block) not in named}
    assert unkept == set(SAID_BY_OTHERS), "keep it with session.keep, or say here why not"
    assert len(fields) > 25


def test_a_control_that_is_not_kept_would_be_noticed() -> None:
    assert issubclass(gr.Checkbox, FormComponent)
    assert not {gr.Radio, gr.Slider, gr.Textbox, gr.Dropdown} - {
        one for one in vars(gr).values() if isinstance(one, type) and issubclass(one, FormComponent)
    }


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


@pytest.mark.parametrize("text", ["", "[1]", '{"a": -1}', '{"a": true}', '{"a": "x"}', "[" * 9000, "{" + "x" * 9000])
def test_what_is_no_number_for_each_source_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r".{0,40}"):
        address.numbers_by_source(text)


def test_numbers_by_source_are_read_again() -> None:
    assert address.numbers_by_source('{"sample:bert": 3}') == {"sample:bert": 3}


@pytest.mark.parametrize("sought", [["king", False], ["^a:b", True]])
def test_a_search_is_written_and_read(sought: list[Any]) -> None:
    assert token_search.read_search(token_search.write_sought(sought)) == sought


@pytest.mark.parametrize("text", ["", "king", "regex:", "text:", "other:x", "regex:" + "x" * 999])
def test_what_is_no_search_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r".{0,40}"):
        token_search.read_search(text)


@pytest.mark.parametrize("text", ["-1", "1e9", "nan", "inf", "x", "", "9" * 30, "٣"])
def test_numbers_out_of_range_are_none(text: str) -> None:
    read = address.number_up_to(100)
    with pytest.raises(ValueError, match=r"^(could not convert .*|.{0,40})$"):
        read(text)


@pytest.mark.parametrize("state", [["king", "", -1], [" king", "sample:gpt2", 12], ["a|b", "", -1], ["|", "x|y", 3]])
def test_a_word_is_written_and_read(state: list[object]) -> None:
    assert chosen_word.read_word(chosen_word.write_word(state)) in (state, ["||3|x|y", "", -1])
