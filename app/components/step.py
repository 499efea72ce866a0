"""Slider over the unevenly spaced steps of a training run, with a Play button."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import gradio as gr

from hfposemb.numbers import number

from .page_script import on_load

_TEMPLATE = """
<button type="button" aria-pressed="false">Play</button>
<input type="range" min="0" step="1" aria-label="Training step">
<output></output>
"""


def step_field() -> gr.HTML:
    """Create the slider; its ``.select`` event carries the index of the chosen step in ``_data["at"]``.

    Until it has steps it is not seen, but keeps its place.
    """
    return gr.HTML(
        "",
        html_template=_TEMPLATE,
        elem_classes="steps",
        js_on_load=on_load("stepSlider"),
        apply_default_css=False,
    )


def of_steps(steps: Sequence[int], at: int) -> Any:
    """Return an update that shows these steps, with the one at index ``at`` selected."""
    value = json.dumps({"steps": [number(step, digits=0) for step in steps], "at": at})
    return gr.update(value=value, visible=True)
