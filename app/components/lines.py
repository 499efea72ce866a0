"""One-line components: progress, failure messages, choices, and headings for screen readers."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import gradio as gr

from hfposemb.text import one_line

from ..jobs import children
from .page_script import on_load

WORK_LINE: dict[str, Any] = {
    "apply_default_css": False,
    "elem_classes": "work",
    "js_on_load": on_load("cancelJob"),
}


def work_line(progress: children.Progress, *, label: str = "UMAP") -> str:
    """Return a job's progress as HTML: a bar, the current step with the time left, and a Cancel button."""
    share, words = round(100 * progress.share), html.escape(one_line(str(progress)))
    return (
        f'<div class="track" role="progressbar" aria-label="{label}" aria-valuemin="0" aria-valuemax="100" '
        f'aria-valuenow="{share}"><span style="width: {max(share, 1)}%"></span></div>'
        f'<div class="said"><span>{words}</span><button type="button">Cancel</button></div>'
    )


def failed_line(text: str) -> str:
    """Return the reason why a job failed as HTML."""
    return f'<p class="failed" role="alert">{html.escape(one_line(text))}</p>'


def folded_controls() -> None:
    """Create the line that, on a phone, stands for the bar of controls created next, and unfolds it."""
    gr.HTML(
        '<button type="button" aria-expanded="false">Controls</button>',
        js_on_load=on_load("foldControls"),
        apply_default_css=False,
        elem_classes="summary",
    )


def segmented(label: str, choices: Sequence[Any], value: Any, width: int, *classes: str, **more: Any) -> gr.Radio:
    """Create a choice between a few values that stand side by side, at least ``width`` pixels wide."""
    names = ["segmented", *classes]
    return gr.Radio(choices, value=value, label=label, elem_classes=names, min_width=width, **more)


def pending_mark() -> gr.HTML:
    """Create what Gradio marks as pending while pictures are computed; ``plot.css`` makes the last ones fainter then.

    One for the page, and the first in it: at each message of the server Gradio's page looks up every component that
    ever showed progress, from the top, and copies its properties. With a mark on each row, most of the time between
    a click and its picture was spent on that.
    """
    return gr.HTML("<i data-drawing></i>", apply_default_css=False, scale=0, min_width=0, elem_classes="unseen")


def unseen_heading(text: str, *, level: int) -> None:
    """Create a heading for screen readers only."""
    style = "position: absolute; width: 1px; height: 1px; margin: 0; overflow: hidden; clip-path: inset(50%)"
    line = f'<h{level} style="{style}">{html.escape(text)}</h{level}>'
    gr.HTML(line, apply_default_css=False, scale=0, min_width=0, elem_classes="unseen")
