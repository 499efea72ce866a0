"""The style of the app's components, sent once for a page."""

from __future__ import annotations

from functools import cache

import gradio as gr

from hfposemb.figures.assets import asset
from hfposemb.reports import html_tables

from .page_script import FOLDER


@cache
def page_style() -> str:
    """Return the style sheet: ``app.css``, and for the tables of Compare the style and colours that a report has."""
    colours = f"{html_tables.colours(dark=False)} .dark & {{ {html_tables.colours(dark=True)} }}"
    tables = f":is(#hfposemb-app, .html-container > .compare-table) {{ {colours}\n{asset('tables.css')}}}\n"
    return (FOLDER / "app.css").read_text(encoding="utf-8") + tables


def style_sheet() -> None:
    """Add the style sheet to the open page, whatever CSS the page has been launched with."""
    gr.HTML(html_template=f"<style>{page_style()}</style>", js_on_load=None, visible="hidden", apply_default_css=False)
