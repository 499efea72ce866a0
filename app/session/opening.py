"""Fetching of Hub sources for the active tab, before anything is drawn.

One handler of the page does this for all tabs and reports progress; handlers that draw never access the network. The
state ``fetched`` holds the outcome: ``texts``, the sources it is about; ``problems``, by tab and source, why one cannot
be drawn; ``notices``, further messages; and an ``id`` that changes whenever a read ends.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any
from uuid import uuid4

import gradio as gr
from gradio.context import Context

from hfposemb.errors import CancelledError, HfposembError, OfflineError
from hfposemb.text import one_line

from ..components.events import QUIET
from ..components.lines import work_line
from ..failures import said_of
from ..jobs.fetching import GRACE, Fetch, Reading
from .opened import STOPPED, waiting
from .source_names import HUB_PRESETS, short_name
from .state import Session


def reading_line(fetches: list[Fetch]) -> Any:
    """Return the update of a progress line for some reads."""
    return gr.update(value=work_line(Reading.of(fetches), label="Reading from the Hub"), visible=True)


def page_of(session: Session, request: gr.Request) -> str:
    """Return the identifier of a visitor's page; each page has one set of reads at a time."""
    return f"{request.session_hash}/{session.scope}"


def told_of(fetched: Mapping[str, Any], texts: Sequence[str]) -> dict[str, Any]:
    """Return ``fetched`` reduced to these sources; problems of removed sources are forgotten, so they are retried."""
    problems = {
        tab: {text: said for text, said in of_tab.items() if text in texts}
        for tab, of_tab in fetched.get("problems", {}).items()
    }
    notices = fetched.get("notices", []) if fetched.get("texts") == list(texts) else []
    return {"id": fetched.get("id", ""), "texts": list(texts), "problems": problems, "notices": notices}


def with_problem(told: dict[str, Any], tab: str, text: str, said: str) -> dict[str, Any]:
    """Return ``told`` with the reason why a source cannot be drawn in a tab."""
    problems = {**told["problems"], tab: {**told["problems"].get(tab, {}), text: said}}
    return {**told, "id": uuid4().hex, "problems": problems}


def without_network(told: dict[str, Any], text: str, error: HfposembError) -> dict[str, Any]:
    """Return ``told`` with a Hub preset that cannot be reached replaced by a sample."""
    name, sample = HUB_PRESETS[text]
    texts = list(dict.fromkeys(sample if one == text else one for one in told["texts"]))
    notice = f"{name.partition(',')[0]}: {one_line(str(error))}. {short_name(sample)}, small demo, is shown instead."
    return {**told, "id": uuid4().hex, "texts": texts, "notices": [*told["notices"], notice]}


def bind(tabs: Mapping[str, Session]) -> None:
    """Bind the handlers that fetch; ``tabs`` has the session of each tab by key."""
    page = next(iter(tabs.values()))
    lines = list(page.lines.values())
    places = {key: place for place, key in enumerate(page.lines)}
    fetches = page.library.fetches

    def only(key: str, update: Any) -> list[Any]:
        return [update if place == places.get(key) else gr.skip() for place in range(len(lines))]

    hidden = [gr.update(visible=False) for _ in lines]

    async def fetch(
        active: str, texts: list[str], fetched: dict[str, Any], request: gr.Request
    ) -> AsyncIterator[list[Any]]:
        session, told = tabs[active], told_of(fetched, texts)
        missing = waiting(session.open(texts, told))
        if not missing:
            yield [*hidden, told if told != fetched else gr.skip(), gr.skip()]
            return
        read: list[Fetch] = []
        follow = fetches.follow(page_of(page, request), [active, texts], session.wanted(missing))
        try:
            async with aclosing(follow):
                async for read in follow:
                    yield [*only(active, reading_line(read)), gr.skip(), gr.skip()]
        except CancelledError:
            yield [*hidden, gr.skip(), gr.skip()]
            return
        for source, one in zip(missing, read, strict=True):
            if isinstance(one.error, OfflineError) and source.text in HUB_PRESETS:
                told = without_network(told, source.text, one.error)
            elif one.error is not None:
                said = one_line(said_of(one.error, public=session.public))
                told = with_problem(told, active, source.text, said)
        told = {**told, "id": uuid4().hex}
        yield [*hidden, told, told["texts"] if told["texts"] != texts else gr.skip()]

    def stop_others(active: str, texts: list[str], request: gr.Request) -> None:
        fetches.stop(page_of(page, request), but=[active, texts], grace=GRACE)

    def cancel(active: str, texts: list[str], fetched: dict[str, Any], request: gr.Request) -> list[Any]:
        fetches.stop(page_of(page, request))
        told = told_of(fetched, texts)
        for source in waiting(tabs[active].open(texts, told)):
            told = with_problem(told, active, source.text, STOPPED)
        return [*hidden, told]

    asked = [page.active, page.sources, page.fetched]
    first = waiting(next(iter(tabs.values())).open(page.first))
    blocks = Context.root_block
    loads = [blocks.load] if first and blocks is not None else []
    gr.on(
        [page.sources.change, page.active.change, *loads],
        fetch,
        asked,
        [*lines, page.fetched, page.sources],
        trigger_mode="always_last",
        **QUIET,
    )
    gr.on([page.sources.change, page.active.change], stop_others, asked[:2], None, **QUIET)
    for line in lines:
        line.select(cancel, asked, [*lines, page.fetched], **QUIET)
