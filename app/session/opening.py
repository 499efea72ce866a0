"""Fetching of Hub sources for the active tab, before anything is drawn.

One handler of the page does this for all tabs and reports progress; handlers that draw never access the network. The
state ``fetched`` holds the outcome: ``texts``, the sources it is about; ``problems``, by tab and source, why one cannot
be drawn; ``notices``, further messages; and an ``id`` that changes whenever a read ends.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import gradio as gr
from gradio.context import get_blocks_context

from hfposemb.errors import CancelledError, HfposembError, OfflineError
from hfposemb.text import one_line

from ..components.events import QUIET
from ..components.lines import work_line
from ..failures import said_of
from ..jobs.fetching import GRACE, Fetch, reading
from .opened import STOPPED, waiting
from .source_names import HUB_PRESETS, short_name
from .state import Session


def reading_line(fetches: list[Fetch]) -> Any:
    """Return the update of a progress line for some reads."""
    return gr.update(value=work_line(reading(fetches), label="Reading from the Hub"), visible=True)


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
    sample = HUB_PRESETS[text]
    texts = list(dict.fromkeys(sample if one == text else one for one in told["texts"]))
    notice = f"{short_name(text)}: {one_line(str(error))}. {short_name(sample)} is shown instead."
    return {**told, "id": uuid4().hex, "texts": texts, "notices": [*told["notices"], notice]}


@dataclass(frozen=True)
class SourceReads:
    """Reads the sources of one page; ``tabs`` has the session of each tab by key."""

    tabs: Mapping[str, Session]

    @property
    def page(self) -> Session:
        """The session of the first tab, for what all tabs share."""
        return next(iter(self.tabs.values()))

    async def fetch(
        self, active: str, texts: list[str], fetched: dict[str, Any], request: gr.Request
    ) -> AsyncIterator[list[Any]]:
        """Read what the active tab needs, with progress, and record the outcome in ``fetched``."""
        active = active or next(iter(self.tabs))  # the page has not said yet which tab it shows
        session, told = self.tabs[active], told_of(fetched, texts)
        missing = waiting(session.open(texts, told))
        if not missing:
            yield [_HIDDEN, told if told != fetched else gr.skip(), gr.skip()]
            return
        read: list[Fetch] = []
        name = page_of(self.page, request)
        follow = self.page.library.fetches.follow(name, [active, texts], session.wanted(missing))
        try:
            async with aclosing(follow):
                async for read in follow:
                    yield [reading_line(read), gr.skip(), gr.skip()]
        except CancelledError:
            yield [_HIDDEN, gr.skip(), gr.skip()]
            return
        for source, one in zip(missing, read, strict=True):
            if isinstance(one.error, OfflineError) and source.text in HUB_PRESETS:
                told = without_network(told, source.text, one.error)
            elif one.error is not None:
                said = one_line(said_of(one.error, public=session.public))
                told = with_problem(told, active, source.text, said)
        told = {**told, "id": uuid4().hex}
        yield [_HIDDEN, told, told["texts"] if told["texts"] != texts else gr.skip()]

    def stop_others(self, active: str, texts: list[str], request: gr.Request) -> None:
        """Stop the page's reads for another tab or other sources."""
        self.page.library.fetches.stop(page_of(self.page, request), but=[active, texts], grace=GRACE)

    def cancel(self, active: str, texts: list[str], fetched: dict[str, Any], request: gr.Request) -> list[Any]:
        """Stop the page's reads, and record that they were stopped."""
        self.page.library.fetches.stop(page_of(self.page, request))
        told = told_of(fetched, texts)
        for source in waiting(self.tabs[active].open(texts, told)):
            told = with_problem(told, active, source.text, STOPPED)
        return [_HIDDEN, told]


_HIDDEN = gr.update(visible=False)


def bind(tabs: Mapping[str, Session], line: gr.HTML) -> None:
    """Bind the handlers that fetch; ``tabs`` has the session of each tab by key, ``line`` shows the progress."""
    reads = SourceReads(tabs)
    page = reads.page
    asked = [page.active, page.sources, page.fetched]
    blocks = get_blocks_context()
    loads = [blocks.root_block.load] if waiting(page.open(page.first)) and blocks is not None else []
    gr.on(
        [page.sources.change, page.active.change, *loads],
        reads.fetch,
        asked,
        [line, page.fetched, page.sources],
        trigger_mode="always_last",
        **QUIET,
    )
    gr.on([page.sources.change, page.active.change], reads.stop_others, asked[:2], None, **QUIET)
    line.select(reads.cancel, asked, [line, page.fetched], **QUIET)
