"""The app's own page: one that answers every failure with one line, and fills in what a call leaves out.

Gradio prints the traceback of what fails before or after a handler, and answers that there was an error, but not which.
A panel in somebody else's page is guarded by ``session.guard`` alone.
"""

from __future__ import annotations

import html
import inspect
from collections.abc import Sequence
from typing import Any

import gradio as gr
from gradio.exceptions import InvalidPathError

from hfposemb.text import one_line

from ..failures import said_of
from ..session.accounts import VisitedPage


class Page(VisitedPage):
    """The page of an app."""

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
        """Run a listener or an endpoint."""
        try:
            return await super().process_api(*values, **named)
        except gr.Error as error:
            error.print_exception = False
            raise
        except InvalidPathError as error:
            raise _refusal("this event names a file that the page was not given; reload the page") from error
        except Exception as error:
            raise _refusal(said_of(error, public=self.public)) from error


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
