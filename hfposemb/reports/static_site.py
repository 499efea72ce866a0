"""A page without a server: it opens from disk or from any host, and reads public models of the Hub in the browser.

The page is one file: script, worker, style and plotly.js are in it, since a browser lets a page from disk load no
modules and no workers. Its Content-Security-Policy admits requests to the Hub and its hosts for large files alone. The
rules about files, names of tables and architectures are those of the Python reader, written into the page as JSON. The
same version and endpoint give the same bytes.
"""

from __future__ import annotations

import html
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .. import __version__
from ..errors import InputError
from ..figures import style
from ..figures.assets import script
from ..figures.palette import POSITION, SIMILARITY, SOURCES, dark_map
from ..files import complete_file
from ..models.architectures.page_rules import hub_hosts, page_rules
from .html_page import as_data, csp_hash, page_style, plotly_script

SITE = Path(__file__).with_name("site")
HUB = "https://huggingface.co"
_ENDPOINT = re.compile(
    r"https?://[A-Za-z0-9.-]{1,253}(?::[0-9]{1,5})?|https?://\[[0-9A-Fa-f:.]{2,45}\](?::[0-9]{1,5})?"
)
_ABOUT = (
    "Reads the position and token tables of a public model on the Hugging Face Hub, or of files on this machine, in "
    "your browser: the header of the file and the rows that are drawn, a few megabytes. Nothing is uploaded."
)


def write_site(folder: str | Path, *, endpoint: str | None = None) -> Path:
    """Write a page that reads models in the browser, as ``index.html`` in a folder; an existing one is replaced.

    Args:
        folder: The folder; it is created if its parent exists.
        endpoint: Address of the Hub, by default ``HF_ENDPOINT`` or https://huggingface.co.

    Returns:
        Path of the page.

    Raises:
        InputError: If the folder cannot be created, or the endpoint is not an address.
        HfposembError: If the page cannot be written.

    Examples:
        >>> import tempfile
        >>> from hfposemb.reports.static_site import write_site
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_site(folder).name
        'index.html'
    """
    page, path = site_page(endpoint=endpoint), Path(folder)
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(f"{path} cannot be made a folder: {error.strerror}; choose another one") from error
    with complete_file(path / "index.html") as file:
        file.write(page.encode())
    return path / "index.html"


def site_page(*, endpoint: str | None = None) -> str:
    """Return the page as HTML.

    Args:
        endpoint: Address of the Hub, by default ``HF_ENDPOINT`` or https://huggingface.co.

    Raises:
        InputError: If the endpoint is not an address.

    Examples:
        >>> from hfposemb.reports.static_site import site_page
        >>> site_page().splitlines()[0]
        '<!doctype html>'
    """
    hub = (endpoint or os.environ.get("HF_ENDPOINT") or HUB).rstrip("/")
    if not _ENDPOINT.fullmatch(hub):
        raise InputError(f"{hub[:80]!r} is not the address of a Hub; write it as {HUB}, without a path")
    domains, hosts = hub_hosts()
    style = f"{page_style()}\n{(SITE / 'site.css').read_text(encoding='utf-8')}"
    page, worker = (script(SITE / "bundle" / name) for name in ("site.js", "worker.js"))
    place = {"endpoint": hub, "hosts": [urlsplit(hub).hostname, *hosts], "domains": domains}
    data = {"rules": page_rules() | place, "colours": _colours()}
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(page, hub, domains, hosts)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f'<meta name="generator" content="hfposemb {__version__}">\n<meta name="color-scheme" content="light dark">\n'
        f"<title>Positions and tokens of a model</title>\n<style>{style}</style>\n"
        f"</head>\n<body>\n<main>\n{_body()}\n</main>\n"
        f'<script type="application/json" id="site">{as_data(data)}</script>\n'
        f'<script type="text/plain" id="worker">{worker}</script>\n'
        f'<script type="text/plain" id="plotly">{plotly_script()}</script>\n'
        f'<script type="module">{page}</script>\n</body>\n</html>\n'
    )


def _body() -> str:
    names = ("positions", "lines", "token-results")
    rows = [f'<div class="rows" id="{name}" hidden><hfposemb-row></hfposemb-row></div>\n' for name in names]
    return (
        f'<header><h1>Positions and tokens of a model</h1><p class="lead">{html.escape(_ABOUT)}</p></header>\n'
        '<noscript><p class="about">This page needs JavaScript.</p></noscript>\n'
        '<form id="open"><div class="submit"><button type="submit" class="primary">Open</button>'
        '<p class="about">or drop model.safetensors, config.json and tokenizer.json here.</p></div></form>\n'
        f'<div id="sources"></div>\n{rows[0]}{rows[1]}'
        f'<section id="tokens" hidden><h2>Tokens</h2><div id="token-form"></div>\n{rows[2]}</section>\n'
        f"<footer>hfposemb {__version__}</footer>"
    )


def _policy(script: str, hub: str, domains: list[str], hosts: list[str]) -> str:
    """Return the Content-Security-Policy: requests go to the Hub and its hosts, scripts are those of the page."""
    reached = [hub, *(f"https://{host} https://*.{host}" for host in domains)]
    reached += [f"{urlsplit(hub).scheme}://{host}:*" for host in hosts]
    return (
        f"default-src 'none'; script-src 'sha256-{csp_hash(script)}' 'unsafe-eval' blob:; worker-src blob:; "
        f"connect-src blob: {' '.join(reached)}; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; "
        "form-action 'none'"
    )


def _colours() -> dict[str, Any]:
    return {
        **{"ink": style.INK, "subdued": style.SUBDUED, "faint": style.FAINT, "panel": style.PANEL},
        "position": POSITION.light,
        "similarity": SIMILARITY.light,
        "sources": [{"color": one.colour.light, "dash": one.dash} for one in SOURCES],
        "dark": dark_map(),
    }
