"""What a page keeps for one visitor, and a plain metaclass for components of our own."""

from __future__ import annotations

import math
from abc import ABCMeta
from typing import Any

import gradio as gr
from gradio.component_meta import updateable


class NoStub(type(gr.HTML)):  # type: ignore[misc]
    """Gradio's metaclass without its habit of writing a ``.pyi`` beside the source of every component."""

    def __new__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, Any]) -> type:
        if "__init__" in attrs:
            attrs["__init__"] = updateable(attrs["__init__"])
        return ABCMeta.__new__(cls, name, bases, attrs)


class State(gr.State, metaclass=NoStub):
    """A ``gr.State`` that says it changed when it did, and not whenever it is set for the first time too.

    Gradio's page knows no values of states. It gets null for each that is set, and takes the first one for a change.
    What hears of that it calls one after the other, and all of it again where one was busy: with several such states
    this may never end.
    """

    def get_config(self) -> dict[str, Any]:  # type: ignore[override]
        """Tell the page the null that it gets later too: as JSON has NaN, for Gradio leaves out what is ``None``."""
        return {**super().get_config(), "value": math.nan}
