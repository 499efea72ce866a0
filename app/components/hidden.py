"""Per-visitor state, and a metaclass for custom components."""

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
