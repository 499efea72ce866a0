"""One-line error messages for event handlers, and the check of what a visitor's page sends them."""

from __future__ import annotations

import html
import inspect
import math
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import wraps
from typing import Any

import gradio as gr

from hfposemb.errors import InputError
from hfposemb.text import one_line, written

from ..components.lines import failed_line
from ..components.plot import Panel, PanelRow
from ..failures import is_bug, said_of
from ..jobs.turns import TURNS, asker
from ..limits import LONGEST_TEXT

INPUTS: tuple[tuple[type[gr.Component], tuple[type, ...]], ...] = (
    (gr.Textbox, (str,)),
    (gr.Radio, (str, int, float)),
    (gr.Checkbox, (bool,)),
    (gr.Number, (int, float)),
    (gr.Slider, (int, float)),
    (gr.Dropdown, (str,)),
)
"""The types of values of the components that visitors set, of each item of one that holds several."""

NEVER_NONE = ("str", "int", "float", "bool")
"""Annotations of parameters that are never ``None``."""


def guard_listeners(listeners: Mapping[int, Any], but: Container[int], *, public: bool) -> None:
    """Guard every handler that was bound to a page, except those with the numbers ``but``.

    Args:
        listeners: Those of the page, which may be that of a host, by number.
        but: Numbers of the listeners of others.
        public: Whether others can reach the page.
    """
    for number, bound in listeners.items():
        if number not in but and bound.fn is not None:
            bound.fn = guarded(bound.fn, public=public, inputs=bound.inputs)


def guarded(
    handler: Callable[..., Any],
    *,
    public: bool,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    of: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """Wrap a handler so that its errors are shown as one line, and it is called only with values of its ``inputs``.

    One with ``outputs`` runs when it is its visitor's turn. A bug is reported in those ``outputs`` that are panels,
    because their old pictures would no longer match the controls. A parameter that is declared as a text, a number or
    a flag is never ``None``; ``of`` declares them if the handler itself does not.
    """
    declared = [str(one.annotation) in NEVER_NONE for one in inspect.signature(of or handler).parameters.values()]
    guard = _Guard(public, tuple(inputs), tuple(outputs), declared)

    @wraps(handler)
    async def steps(*values: Any) -> Any:
        try:
            async with aclosing(handler(*guard.checked(values))) as shown:
                async for step in shown:
                    yield step
        except Exception as error:  # noqa: BLE001 - told to the visitor
            yield guard.failed(error)

    @wraps(handler)
    async def wait(*values: Any) -> Any:
        try:
            return await handler(*guard.checked(values))
        except Exception as error:  # noqa: BLE001 - told to the visitor
            return guard.failed(error)

    @wraps(handler)
    def call(*values: Any) -> Any:
        try:
            with TURNS.turn(asker() if outputs else None):  # what draws
                return handler(*guard.checked(values))
        except Exception as error:  # noqa: BLE001 - told to the visitor
            return guard.failed(error)

    return steps if inspect.isasyncgenfunction(handler) else wait if inspect.iscoroutinefunction(handler) else call


@dataclass(frozen=True)
class _Guard:
    """What is done before a handler is called, and after it failed."""

    public: bool
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    declared: Sequence[bool]

    def checked(self, values: Sequence[Any]) -> list[Any]:
        """Return the values of the inputs, between which Gradio passes what happened and the request."""
        if any(value is None and needed for value, needed in zip(values, self.declared, strict=False)):
            raise InputError("a control has no value; reload the page")
        given = iter(self.inputs)
        injected = gr.EventData | gr.Request
        return [value if isinstance(value, injected) else _valid(next(given, None), value) for value in values]

    def failed(self, error: Exception) -> Any:
        """Return what is shown of an error, or raise it as the line that Gradio shows."""
        if isinstance(error, gr.Error):
            error.print_exception = False
            raise error
        said = one_line(said_of(error, public=self.public))
        if is_bug(error) and (shown := _failed(self.outputs, said)):
            return shown
        raise gr.Error(html.escape(said), title="Error", print_exception=False) from error


def _valid(component: Any, value: Any) -> Any:
    """Return the value of an input. A state's is the server's own.

    Raises:
        InputError: The component cannot have it.
    """
    wanted = next((types for kind, types in INPUTS if isinstance(component, kind)), None)
    if wanted is None or (value is None and isinstance(component, gr.Radio | gr.Dropdown)):
        return value
    if value is None and isinstance(component, gr.Textbox):
        return ""
    label = component.label or "a control"
    for one in value if isinstance(value, list) and getattr(component, "multiselect", False) else [value]:
        if isinstance(one, str) and len(one) > LONGEST_TEXT:
            raise InputError(f"a text can have at most {LONGEST_TEXT:,} characters; shorten it")
        if type(one) not in wanted or (isinstance(one, float) and not math.isfinite(one)):
            raise InputError(f"{label} cannot be {written(one)}; reload the page")
    return value


def _failed(outputs: Sequence[Any], said: str) -> dict[Any, Any]:
    """Return values that show the error in the panels and the first ``gr.HTML`` among the outputs."""
    panels = (Panel("failed", "This panel could not be drawn", message=said, tone="error"),)
    lines = [output for output in outputs if type(output) is gr.HTML][:1]
    rows = [output for output in outputs if isinstance(output, PanelRow)]
    return {**dict.fromkeys(lines, failed_line(said)), **dict.fromkeys(rows, panels)}
