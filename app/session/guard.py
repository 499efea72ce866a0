"""One-line error messages for event handlers."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from typing import Any

import gradio as gr

from hfposemb.errors import (
    InputError,
)
from hfposemb.text import one_line

from ..components.lines import failed_line
from ..components.plot import Panel, PanelRow
from ..failures import is_bug, said_of
from ..jobs.turns import TURNS, asker
from ..limits import (
    LONGEST_TEXT,
)


def guarded(handler: Callable[..., Any], *, public: bool, outputs: Sequence[Any] = ()) -> Callable[..., Any]:
    """Wrap a handler so that it runs when it is its visitor's turn, and its errors are shown as one line.

    A bug is reported in those ``outputs`` that are panels, because their old pictures would no longer match the
    controls.
    """

    def safe(*values: Any) -> Any:
        try:
            if any(isinstance(value, str) and len(value) > LONGEST_TEXT for value in values):
                raise InputError(f"a text can have at most {LONGEST_TEXT:,} characters; shorten it")
            with TURNS.turn(asker()):
                return handler(*values)
        except gr.Error:
            raise
        except Exception as error:
            said = one_line(said_of(error, public=public))
            if is_bug(error) and (shown := _failed(outputs, said)) is not None:
                return shown
            raise gr.Error(html.escape(said), title="Error", print_exception=False) from error

    return safe


def _failed(outputs: Sequence[Any], said: str) -> Any:
    """Return output values that show the error in the panels or the first ``gr.HTML``; ``None`` if there is neither."""
    panels = (Panel("failed", "This panel could not be drawn", message=said, tone="error"),)
    places = [place for place, output in enumerate(outputs) if type(output) is gr.HTML][:1]
    shown = [
        panels if isinstance(output, PanelRow) else failed_line(said) if place in places else gr.skip()
        for place, output in enumerate(outputs)
    ]
    if not places and not any(isinstance(output, PanelRow) for output in outputs):
        return None
    return shown if len(shown) > 1 else shown[0]
