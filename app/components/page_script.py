"""The style of the page, and calls of its script, which Gradio's ``js_on_load`` and ``js`` are made of.

The script reaches the page with the first row of panels. Calls wait for it in an array; ``app/static/app.js`` runs them
and takes the array's place.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import gradio as gr

from hfposemb.figures.assets import asset, script
from hfposemb.reports import html_tables


@cache
def page_style() -> str:
    """Return the style sheet: ``app.css``, and for the tables of Compare the style and colours that a report has."""
    colours = f"{html_tables.colours(dark=False)} .dark & {{ {html_tables.colours(dark=True)} }}"
    tables = f":is(#hfposemb-app, .html-container > .compare-table) {{ {colours}\n{asset('tables.css')}}}\n"
    return (FOLDER / "app.css").read_text(encoding="utf-8") + tables


def style_sheet() -> None:
    """Add the style sheet to the open page, whatever CSS the page has been launched with."""
    gr.HTML(html_template=f"<style>{page_style()}</style>", js_on_load=None, visible="hidden", apply_default_css=False)


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
