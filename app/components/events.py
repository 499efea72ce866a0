"""Options shared by the app's event listeners."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import gradio as gr

T = TypeVar("T")

QUIET: dict[str, Any] = {
    "show_progress": "hidden",
    # Gradio's page tracks the progress of a listener on each of its outputs, even if none is shown, and on every
    # message of any listener it copies the state of all tracked components: half a second on a large page.
    "show_progress_on": [],
    "api_visibility": "private",
    "concurrency_limit": None,
}
"""For listeners that need no progress display, public endpoint or concurrency limit."""

UNFOLDED = "unfolded"
"""The value in the URL of an accordion that is open."""


def target_of(event: gr.EventData, known: Mapping[str, T]) -> T | None:
    """Return what is known of the component that an event is of, by one of its classes; ``None`` for another one.

    Not by its number: Gradio makes a component anew, with another number, whenever its properties change.
    """
    classes = getattr(event.target, "elem_classes", None) or ()
    return next((known[name] for name in classes if name in known), None)
