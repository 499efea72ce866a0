"""Slider over the unevenly spaced steps of a training run, with a Play button."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import gradio as gr

from hfposemb.figures.style import number

from .page_script import on_load

_CSS = """
  .block:has(> .html-container > &) { padding: 0; background: none; box-shadow: none; }
  .html-container:has(> &) { padding: 0; }
  display: grid; grid-template-columns: auto 1fr auto; align-items: center; gap: 4px 16px;
  font-size: 14px; line-height: 20px; color: var(--body-text-color); font-variant-numeric: tabular-nums;
  button { font: inherit; font-weight: 650; color: inherit; background: var(--background-fill-primary);
    min-height: 40px; min-width: 88px; padding: 0 16px; cursor: pointer;
    border: 1px solid var(--border-color-primary); border-radius: 8px; }
  input { width: 100%; min-height: 24px; margin: 0; accent-color: #b8195a; cursor: pointer; }
  .dark & input { accent-color: #d13a78; }
  output { min-width: 12ch; font-weight: 650; }
  @media (max-width: 640px) { grid-template-columns: auto 1fr; input { grid-column: 1 / -1; grid-row: 2; } }
"""

_TEMPLATE = """
<button type="button" aria-pressed="false">Play</button>
<input type="range" min="0" step="1" aria-label="Training step">
<output></output>
"""


def step_field() -> gr.HTML:
    """Create the slider; its ``.select`` event carries the index of the chosen step in ``_data["at"]``."""
    return gr.HTML(
        "",
        html_template=_TEMPLATE,
        css_template=_CSS,
        js_on_load=on_load("stepSlider"),
        apply_default_css=False,
        visible=False,
    )


def of_steps(steps: Sequence[int], at: int) -> Any:
    """Return an update that shows these steps, with the one at index ``at`` selected."""
    value = json.dumps({"steps": [number(step, digits=0) for step in steps], "at": at})
    return gr.update(value=value, visible=True)
