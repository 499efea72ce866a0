"""Calls of the functions of ``app/static``, which Gradio's ``js_on_load`` and ``js`` are made of.

The script reaches the page with the first row of panels. Calls wait for it in an array; ``app/static/app.js`` runs them
and takes the array's place.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hfposemb.figures.assets import script

FOLDER = Path(__file__).parents[1] / "static"

_CALL = "(window.hfposembCalls ??= []).push([{}, {}, {}]);"


def on_load(function: str, **options: Any) -> str:
    """Return a ``js_on_load`` that hands the component to a function, with some options."""
    return _CALL.format(json.dumps(function), "{ element, trigger, props, watch }", json.dumps(options))


def on_event(function: str, **options: Any) -> str:
    """Return a ``js`` that hands the event's inputs to a function, with some options."""
    return f"(...values) => {{ {_CALL.format(json.dumps(function), 'values', json.dumps(options))} }}"


def page_script() -> str:
    """Return the script of the page: the modules of the app, and those of the library that they use."""
    return script(FOLDER / "bundle" / "app.js")
