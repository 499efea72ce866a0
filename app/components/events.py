"""What the app's components and listeners share: options, per-visitor state, and a metaclass."""

from __future__ import annotations

import math
from abc import ABCMeta
from typing import Any

import gradio as gr
from gradio.component_meta import updateable


class NoStub(type(gr.HTML)):  # type: ignore[misc]
    """Gradio's component metaclass, except that it writes no ``.pyi`` file next to the source."""

    def __new__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, Any]) -> type:
        """Create the class as Gradio does, with ``__init__`` made updateable."""
        if "__init__" in attrs:
            attrs["__init__"] = updateable(attrs["__init__"])  # type: ignore[no-untyped-call]
        return ABCMeta.__new__(cls, name, bases, attrs)


class State(gr.State, metaclass=NoStub):
    """A ``gr.State`` that fires ``change`` only when its value changes, not also when it is first set.

    Gradio's page does not know the values of states. It receives null for each state that is set, and treats the first
    null as a change. Listeners run one after the other, and all again if one was busy: with several such states this
    may never end.
    """

    def get_config(self) -> dict[str, Any]:  # type: ignore[override]
        """Send the same null initially that the page gets later, written as NaN because Gradio omits ``None``."""
        return {**super().get_config(), "value": math.nan}  # type: ignore[no-untyped-call]


QUIET: dict[str, Any] = {
    "show_progress": "hidden",
    # Gradio's page tracks the progress of a listener on each of its outputs, even if none is shown, and on every
    # message of any listener it copies the state of all tracked components: half a second on a large page.
    "show_progress_on": [],
    "api_visibility": "private",
    "concurrency_limit": None,
    # Gradio keeps a queue of each listener for ever, also of those of a tab that one visitor has opened.
    "concurrency_id": "quiet",
}
"""For listeners that need no progress display, public endpoint or concurrency limit."""

EACH: dict[str, Any] = {**QUIET, "trigger_mode": "multiple"}
"""For listeners that read what an event says. Gradio drops an event that comes while another one is answered; with
``always_last`` it repeats the event that was answered, not the one that came."""

UNFOLDED = "unfolded"
"""The value in the URL of an accordion that is open."""
