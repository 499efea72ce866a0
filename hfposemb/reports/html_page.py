"""The frame of the report: script, style and Content-Security-Policy."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

from ..figures.assets import asset, plotly_js
from ..figures.javascript import report_script
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


def page_script() -> str:
    """Return the page's only script: the app's panels, and the code that passes them their numbers."""
    return report_script()


def page_style() -> str:
    """Return the style of the page, the tables and the panels."""
    # The panels define their own colours as the tables do, some in terms of themselves.
    sheets = "\n".join(map(asset, ("report.css", "tables.css", "plot.css")))
    return (
        f":root {{ {html_tables.colours(dark=False)} {PANEL_COLOURS} }}\n"
        f"@media (prefers-color-scheme: dark) {{ @media screen {{ :root {{ {html_tables.colours(dark=True)} }} }} }}\n"
        f"{sheets}"
    )
