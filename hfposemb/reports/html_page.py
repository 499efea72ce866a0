"""The frame of the report: script, style and Content-Security-Policy."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING, Any

from ..figures.assets import asset
from ..figures.javascript import report_script
from . import html_tables

if TYPE_CHECKING:
    pass


def as_data(value: Any) -> str:
    """Return JSON that is safe to embed in HTML: ``&``, ``<`` and ``>`` are escaped."""
    found = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return found.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def csp_hash(content: str) -> str:
    """Return the base64-encoded SHA-256 of a script for a Content-Security-Policy."""
    return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def plotly_script() -> str:
    """Return the plotly.js of the installed plotly, escaped so that it cannot end the script element."""
    from importlib.resources import files

    source = (files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")
    return source.replace("</script", "<\\/script").replace("<!--", "<\\!--").replace("\r\n", "\n")


def page_script() -> str:
    """Return the page's only script: the app's panels, and the code that passes them their numbers."""
    return report_script()


def page_style() -> str:
    """Return the style of the page, the tables and the panels."""
    theme = (
        "--body-text-color: var(--ink); --hfposemb-subdued: var(--subdued); --background-fill-primary: var(--panel); "
        "--background-fill-secondary: var(--field); --border-color-primary: var(--faint);"
    )
    # The panels define their own colours as the tables do, some in terms of themselves.
    rows = asset("plot.css")
    return (
        f":root {{ {html_tables.colours(dark=False)} {theme} }}\n"
        f"@media (prefers-color-scheme: dark) {{ @media screen {{ :root {{ {html_tables.colours(dark=True)} }} }} }}\n"
        f"{PAGE}\n{html_tables.STYLE}\n{rows}\n"
    )


PAGE = """
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font-size: 15px; line-height: 24px; }
body { font-family: -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 32px; }
h1 { font-size: 32px; line-height: 40px; font-weight: 700; margin: 0 0 8px; overflow-wrap: anywhere; }
h2 { font-size: 22px; line-height: 30px; font-weight: 650; margin: 0 0 4px; overflow-wrap: anywhere; }
h3 { font-size: 15px; line-height: 22px; font-weight: 650; margin: 24px 0 4px; }
main > section { margin-top: 40px; }
.lead { margin: 0 0 16px; font-size: 16px; overflow-wrap: anywhere; }
.sheet, .pairs { background: var(--panel); border-radius: 12px; padding: 16px 24px; margin-top: 12px; }
.pairs h3 { margin: 0; }
.rows { margin-top: 16px; }
.rows h3 { margin: 0; }
.rows .heading h2 { font-size: 18px; line-height: 26px; }
pre { background: var(--field); border-radius: 8px; padding: 12px 16px; font-size: 13px; line-height: 20px; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; }
code { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: 12.5px; }
code { overflow-wrap: anywhere; }
@media (max-width: 719px) {
  main { padding: 16px; }
  h1 { font-size: 26px; line-height: 32px; }
  .sheet, .pairs { padding: 12px 16px; }
}
@page { margin: 12mm; }
@media print {
  body { background: #fff; zoom: .58; }
  main { width: 1176px; max-width: none; padding: 0; }
  .sheet { overflow: visible; padding: 0; }
  .panel, .pair, tr { break-inside: avoid; }
  h2, h3, .lead { break-after: avoid; }
  .actions { display: none !important; }
}
"""
