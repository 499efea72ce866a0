"""Suggestions of Hub models while a name is typed: debounced, few, cached, and silent on failure."""

from __future__ import annotations

import asyncio
import re
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlencode

import gradio as gr

from hfposemb.checkpoints.deadline import Deadline
from hfposemb.checkpoints.hub.http import Wire
from hfposemb.checkpoints.strict_json import parse_json

from ..components.events import QUIET
from ..components.happened import Happened
from .source_names import choices
from .state import Session

MOST = 8
LEAST_TYPED = 2
PAUSE = 0.3
"""Seconds without a keystroke before the Hub is queried."""

SECONDS = 3.0
"""Seconds after which an answer of the Hub is discarded."""

REMEMBERED = 256
AT_ONCE = 2
MOST_WAITING = 16
_ANSWER_BYTES = 2_000_000
_TYPED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{1,95}")
_FOUND = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}(?:/[A-Za-z0-9][A-Za-z0-9._-]{0,95})?")

Names = tuple[str, ...]


class Suggestions:
    """Cached search results of the Hub. The user's own token is never used in public mode."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, bool], Names] = OrderedDict()
        self._typed: dict[str, int] = {}
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="suggest")
        self._places = threading.BoundedSemaphore(MOST_WAITING)

    async def after_quiet(self, page: str, text: str, *, public: bool) -> Names | None:
        """Return suggestions once typing on the page has paused; ``None`` if more was typed in the meantime."""
        turn = self._typed[page] = self._typed.get(page, 0) + 1
        await asyncio.sleep(PAUSE)
        if self._typed.get(page) != turn:
            return None
        found = await self.find(text, public=public)
        if self._typed.get(page) != turn:
            return None
        del self._typed[page]
        return found

    async def find(self, text: str, *, public: bool) -> Names:
        """Return up to ``MOST`` models whose names contain the text, most downloaded first; empty on failure."""
        typed = text.strip()
        if len(typed) < LEAST_TYPED or not _TYPED.fullmatch(typed):
            return ()
        key = (typed.lower(), public)
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        if not self._places.acquire(blocking=False):
            return ()
        asked = self._threads.submit(_ask, typed, public)
        asked.add_done_callback(lambda _: self._places.release())
        try:
            self._known[key] = await asyncio.wait_for(asyncio.wrap_future(asked), SECONDS)
        except Exception:  # noqa: BLE001 - whatever it is, nothing is suggested
            return ()
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return self._known[key]


def _ask(typed: str, public: bool) -> Names:
    query = urlencode({"search": typed, "sort": "downloads", "limit": MOST})
    wire = Wire("the Hub", "main", False if public else None)
    raw = wire.api(f"/api/models?{query}", most=_ANSWER_BYTES, deadline=Deadline(SECONDS))
    answer = parse_json(raw, size=len(raw), name="the Hub's answer", limit=_ANSWER_BYTES, kind=list)
    found = [model.get("id") for model in answer if isinstance(model, dict)]
    names = [name for name in found if isinstance(name, str) and _FOUND.fullmatch(name) and "--" not in name]
    return tuple(dict.fromkeys(names))[:MOST]


SUGGESTIONS = Suggestions()

_EVERY_KEY: dict[str, Any] = {
    **QUIET,
    "trigger_mode": "multiple",  # an event that waits for the pause must not block the next keystroke
    "queue": False,
}


def in_field(session: Session, dropdown: gr.Dropdown) -> None:
    """Add suggestions to the choices of the source field while a name is typed."""

    async def typed(active: str, texts: list[str], key: Happened, request: gr.Request) -> Any:
        page = f"{request.session_hash}/{session.scope}/{active}"
        found = await SUGGESTIONS.after_quiet(page, key.get("input_value") or "", public=session.public)
        if not found:
            return gr.skip()
        return gr.update(choices=choices([text for text in texts if text], (*found, *session.presets)))

    dropdown.key_up(typed, [session.active, session.sources], dropdown, **_EVERY_KEY)
