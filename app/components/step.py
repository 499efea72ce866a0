"""Slider over the unevenly spaced steps of a training run, with a Play button."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import gradio as gr

from hfposemb.figures.style import number

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

# Playing requests the next step at an interval; moving the slider stops it.
_JS = """
const [button, range, said] = ["button", "input", "output"].map((name) => element.querySelector(name));
let steps = [], timer = 0;
const name = () => { said.value = steps.length ? `step ${steps[range.value]}` : "";
  range.setAttribute("aria-valuetext", said.value); };
const ask = () => { name(); trigger("select", { at: Number(range.value) }); };
const play = (on) => {
  clearInterval(timer);
  timer = 0;
  button.setAttribute("aria-pressed", on);
  button.textContent = on ? "Pause" : "Play";
  if (!on) return;
  if (range.value === range.max) { range.value = 0; ask(); }
  timer = setInterval(() => {
    if (!element.isConnected || range.value === range.max) return play(false);
    range.value = Number(range.value) + 1;
    ask();
  }, 900);
};
range.addEventListener("input", () => { play(false); ask(); });
button.addEventListener("click", () => play(!timer));
const show = () => {
  const given = JSON.parse(props.value || "{}");
  if (JSON.stringify(given.steps ?? []) !== JSON.stringify(steps)) {
    play(false);
    steps = given.steps ?? [];
    range.max = Math.max(steps.length - 1, 0);
  } else if (timer || document.activeElement === range) return;  // whoever moves it knows better where it is
  range.value = given.at ?? range.max;
  name();
};
watch("value", show);
show();
"""


def step_field() -> gr.HTML:
    """Create the slider; its ``.select`` event carries the index of the chosen step in ``_data["at"]``."""
    return gr.HTML(
        "", html_template=_TEMPLATE, css_template=_CSS, js_on_load=_JS, apply_default_css=False, visible=False
    )


def of_steps(steps: Sequence[int], at: int) -> Any:
    """Return an update that shows these steps, with the one at index ``at`` selected."""
    value = json.dumps({"steps": [number(step, digits=0) for step in steps], "at": at})
    return gr.update(value=value, visible=True)
