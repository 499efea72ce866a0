"""The models that a page opens with: GPT-2 and BERT where the Hub answers in time, otherwise what needs no network.

They are read as the app starts, in threads, while the page is built. What is there when a page is opened is what it
shows; nothing changes under the hands of who looks at it.
"""

from __future__ import annotations

import threading
import time
from urllib.parse import urlencode

from hfposemb.tables import source_names
from hfposemb.text import one_line

from ..failures import said_of
from ..jobs.fetching import Fetch
from .address import MODELS, read
from .library import shared_library
from .source_names import FIRST

FAMOUS = tuple(source_names.FAMOUS)[:2]
"""GPT-2 and BERT."""

SINUSOID = "sinusoidal:512x768"
"""The sinusoid beside them, of their width and BERT's length."""

NEEDS = ("position", "inputs")
"""What the first tab needs of them: their positions, 4.8 MB together, and a sentence's rows."""

LOCAL_SECONDS, SPACE_SECONDS = 2.0, 20.0
"""Seconds from the start of the app until the page is built without those that have not come; a Space has no visitor
yet."""


class FirstModels:
    """The reads of the famous models, which begin at once and go on after the deadline.

    Attributes:
        built: What the page was built with.
    """

    def __init__(self, *, public: bool) -> None:
        self.public = public
        self.built: tuple[str, ...] = FIRST
        self._began = time.monotonic()
        self._there: set[str] = set()
        self._why: dict[str, str] = {}
        self._threads = [
            threading.Thread(target=self._read, args=(text,), name=f"first {text}", daemon=True) for text in FAMOUS
        ]
        for thread in self._threads:
            thread.start()

    def _read(self, text: str) -> None:
        try:
            _, work = shared_library().fetch(text, NEEDS, public=self.public)
            work(Fetch(text, _pages=1))
        except Exception as error:  # noqa: BLE001 - said on the page, which begins without it
            self._why[text] = one_line(said_of(error, public=self.public))
        else:
            self._there.add(text)

    def wait(self, seconds: float) -> None:
        """Wait until all have come or failed, for at most so many seconds since the start."""
        for thread in self._threads:
            thread.join(max(0.0, self._began + seconds - time.monotonic()))

    def sources(self) -> tuple[str, ...]:
        """Return what a page that is opened now begins with."""
        there = [text for text in FAMOUS if text in self._there]
        if not there:
            return FIRST
        return (*there, *(FIRST[:1] if len(there) < len(FAMOUS) else ()), SINUSOID)

    def said(self) -> str:
        """Return one line on those that are not there and how to get them; "" if all are."""
        missing = [text for text in FAMOUS if text not in self._there]
        if not missing:
            return ""
        who = " and ".join(source_names.FAMOUS[text] for text in missing)
        are = "is" if len(missing) == 1 else "are"
        if not self._why.keys() >= set(missing):
            return f"{who} {are} still being read from the Hub; reload the page to begin with what has come"
        how = f"run hfposemb app {' '.join(missing)}, or choose {who} among the sources"
        return f"{who} {are} not shown: {how} ({self._why[missing[0]]})"

    def address(self, query: str) -> str:
        """Return the query of a page that begins with more than was there when it was built; "" for any other.

        Args:
            query: Query of the address that was asked for; one that names sources, or cannot be read, is left as it is.
        """
        now, asked = self.sources(), read(query)
        if now == self.built or MODELS in asked or (query and not asked):
            return ""
        return "&".join(filter(None, [urlencode([(MODELS, text) for text in now], safe="/:"), query]))
