"""The app's own page: one that answers every failure with one line, fills in what a call leaves out, and forgets.

Gradio prints the traceback of what fails before or after a handler, and answers that there was an error, but not which.
A panel in somebody else's page is guarded by ``session.guard`` alone. And it keeps a copy of the page, a megabyte or
two, of each of the last sessions; a call of a program is a session too.
"""

from __future__ import annotations

import html
import inspect
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import gradio as gr
from gradio.blocks_events import BlocksMeta
from gradio.exceptions import InvalidPathError

from hfposemb.text import one_line

from ..components.files import files_of
from ..failures import said_of
from ..limits import LEFT_SECONDS
from ..session.accounts import visit


class _NoStub(BlocksMeta):
    """Gradio's metaclass of pages, except that it writes no ``.pyi`` file."""

    def __new__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, Any]) -> type:
        """Create the class without listeners of its own: it inherits those of its base."""
        return type.__new__(cls, name, bases, attrs)


class Page(gr.Blocks, metaclass=_NoStub):
    """The page of an app: its files belong to whom they are made for (``components.files``), its sessions end."""

    public = False
    """Whether others can reach it."""

    async def preprocess_data(self, block_fn: Any, inputs: list[Any], *more: Any, **named: Any) -> Any:
        """Return what a handler is called with; what a browser could not have sent is refused in one line."""
        if block_fn.api_visibility == "public":
            inputs = with_defaults(block_fn, inputs)
        try:
            return await super().preprocess_data(block_fn, inputs, *more, **named)
        except gr.Error as error:
            raise _refusal(error.message) from error
        except Exception as error:
            raise _refusal("this event has values that its controls cannot have; reload the page") from error

    async def process_api(self, *values: Any, **named: Any) -> Any:
        """Run a listener or an endpoint, and write what the page then fetches."""
        account = visit(named.get("request")).account
        try:
            with files_of(None if account is None else account.files):
                found = await super().process_api(*values, **named)
        except gr.Error as error:
            error.print_exception = False
            raise
        except InvalidPathError as error:
            raise _refusal("this event names a file that the page was not given; reload the page") from error
        except Exception as error:
            raise _refusal(said_of(error, public=self.public)) from error
        called = named.get("session_hash") == named.get("event_id") and not found.get("is_generating")
        self._forget(named.get("session_hash") if called else None)
        return found

    def _forget(self, called: str | None) -> None:
        """Drop the session of a program that was answered, and those of pages that were left a while ago.

        Gradio keeps how long each listener took for ever, and with it a tab that one visitor has opened.
        """
        times = self._queue.process_time_per_fn
        for listener in [one for one in times if one.rendered_in is not None]:
            del times[listener]
        sessions, used = self.state_holder.session_data, self.state_holder.time_last_used
        before = datetime.now() - timedelta(seconds=LEFT_SECONDS)
        left = [name for name, session in list(sessions.items()) if session.is_closed and used[name] < before]
        for name in [*left, *filter(None, [called])]:
            sessions.pop(name, None)
            used.pop(name, None)


def with_defaults(endpoint: Any, values: Sequence[Any]) -> list[Any]:
    """Return the values that an endpoint of ``api`` is called with: those that were sent, then its defaults.

    Args:
        endpoint: A ``BlockFunction`` of Gradio.
        values: The leading arguments.

    Raises:
        gr.Error: A required one is missing, or there are too many.
    """
    known = [one for one in inspect.signature(endpoint.fn).parameters.values() if one.name != "request"]
    names, missing = ", ".join(one.name for one in known), known[len(values) :]
    if len(values) > len(known):
        raise _refusal(f"{endpoint.api_name} takes at most {len(known)} values ({names}); got {len(values)}")
    if required := [one.name for one in missing if one.default is one.empty]:
        raise _refusal(f"{endpoint.api_name} needs {', '.join(required)}; its values are {names}, in this order")
    return [*values, *(one.default for one in missing)]


def _refusal(said: str) -> gr.Error:
    return gr.Error(html.escape(one_line(said), quote=False), print_exception=False)
