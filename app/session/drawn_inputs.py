"""What each output of a page was last drawn from, so that nothing is drawn twice in a row from the same values.

A link sets several states at once, and each of them asks for the drawing that shows them all.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from threading import Lock
from typing import Any

import gradio as gr
from gradio.context import LocalContext

MOST = 8_192
"""Number of outputs, of all pages, whose last values are remembered."""

_last: OrderedDict[Hashable, bytes] = OrderedDict()
"""The digest of the values that the first output of a handler was last drawn from, by page and output."""

_lock = Lock()


def drawn_once(draw: Callable[..., Any], outputs: Sequence[Any]) -> Callable[..., Any]:
    """Return a handler that changes nothing if the outputs show what was drawn from the same values.

    Args:
        draw: Called with the values; what it returns is shown in the outputs, unless it returns ``gr.skip()``.
        outputs: The components that it draws, of which another handler may draw the first as well.
    """

    def on_event(*values: Any) -> Any:
        place, digest = _place(outputs), _digest(draw, values)
        with _lock:
            if place is not None and _last.get(place) == digest:
                return gr.skip()
            _last.pop(place, None)
        shown = draw(*values)
        if place is not None and shown != gr.skip():
            _remember(place, digest)
        return shown

    return on_event


def _place(outputs: Sequence[Any]) -> Hashable | None:
    """Return the first output on the visitor's page; ``None`` if the event comes from no page."""
    page = getattr(LocalContext.request.get(None), "session_hash", None)
    return (page, outputs[0]._id) if page and outputs else None


def _digest(draw: Callable[..., Any], values: Sequence[Any]) -> bytes:
    return hashlib.blake2b(repr((id(draw), values)).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _remember(place: Hashable, digest: bytes) -> None:
    with _lock:
        _last[place] = digest
        _last.move_to_end(place)
        while len(_last) > MOST:
            _last.popitem(last=False)
