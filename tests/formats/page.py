"""The page ``docs/formats.md``, written from the formats that the tests open."""

from __future__ import annotations

from tests.formats.adapters import ADAPTERS
from tests.formats.plain import PLAIN
from tests.formats.quantised import QUANTISED
from tests.formats.refusals import REFUSED
from tests.support.pages import DOCS, row, with_rows

READ = (*PLAIN, *QUANTISED, *ADAPTERS)
FORMATS = (*READ, *REFUSED)


def page() -> str:
    """Return the page with its tables written anew; the text around them is its own."""
    text = (DOCS / "formats.md").read_text(encoding="utf-8")
    read = (_row(one.name, one.source, one.read, one.here, one.hub, one.rows) for one in READ)
    text = with_rows(text, ("format", "source", "what is read", "this machine", "Hub", "single rows"), read)
    refused = (_row(one.name, one.source, f"refused: `{one.here}`", f"refused: `{one.hub}`") for one in REFUSED)
    return with_rows(text, ("format", "source", "this machine", "Hub"), refused)


def _row(*cells: str) -> str:
    return row(*(cell.replace("|", "\\|") for cell in cells))
