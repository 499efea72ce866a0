"""The frame of the report: script, style and Content-Security-Policy."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from typing import Any

from .. import __version__
from ..figures.assets import asset, plotly_js
from . import html_tables

PANEL_COLOURS = (
    "--body-text-color: var(--ink); --hfposemb-subdued: var(--subdued); --background-fill-primary: var(--panel); "
    "--background-fill-secondary: var(--field); --border-color-primary: var(--faint);"
)
"""The CSS variables of a Gradio page that the panels use, in those of ``html_tables.colours``."""


def as_data(value: Any) -> str:
    """Return JSON that is safe to embed in HTML: ``&``, ``<`` and ``>`` are escaped."""
    found = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return found.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def csp_hash(content: str) -> str:
    """Return the base64-encoded SHA-256 of a script for a Content-Security-Policy."""
    return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def plotly_script() -> str:
    """Return plotly.js, escaped so that it cannot end the script element."""
    return plotly_js().replace("</script", "<\\/script").replace("<!--", "<\\!--").replace("\r\n", "\n")


def document(*, title: str, header: str, body: str, data: Any, script: str, style: str) -> str:
    """Return a self-contained page, whose policy allows its own script, plotly.js, and no network.

    Args:
        title: Title, as HTML.
        header: What is under it, as HTML.
        body: Content of the page, as HTML.
        data: Numbers for the script, in the element ``views``.
        script: The page's only script; plotly.js is text for it, in the element ``plotly``.
        style: The page's style.
    """
    policy = (
        f"default-src 'none'; script-src 'sha256-{csp_hash(script)}' 'unsafe-eval' blob:; connect-src blob:; "
        "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="generator" content="hfposemb {__version__}">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n"
        f"<header><h1>{title}</h1>{header}</header>\n"
        '<noscript><p class="about">The plots need JavaScript; the tables work without it.</p></noscript>\n'
        f'{body}\n</main>\n<script type="application/json" id="views">{as_data(data)}</script>\n'
        f'<script type="text/plain" id="plotly">{plotly_script()}</script>\n'
        f'<script type="module">{script}</script>\n'
        "</body>\n</html>\n"
    )


def about(text: str) -> str:
    """Return a text as a grey line of HTML, or nothing if it is empty."""
    return f'<p class="about">{html.escape(text)}</p>' if text else ""


def page_style(*sheets: str) -> str:
    """Return the style of the page, the tables and the panels, or of other style sheets of ``static``."""
    # The panels define their own colours as the tables do, some in terms of themselves.
    text = "\n".join(map(asset, sheets or ("report.css", "tables.css", "plot.css")))
    return (
        f":root {{ {html_tables.colours(dark=False)} {PANEL_COLOURS} }}\n"
        f"@media (prefers-color-scheme: dark) {{ @media screen {{ :root {{ {html_tables.colours(dark=True)} }} }} }}\n"
        f"{text}"
    )
