"""The report's page: sections of HTML, panels, and the file that holds them."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..comparison.results import Comparison
from ..figures.assets import BUNDLE, script
from ..figures.figure_packing import Packer
from ..figures.palette import dark_map
from ..tables.source_names import short_names
from ..text import display
from .html_page import about, document, page_style
from .source_drawings import Panel, owner, packed_panel, row_of

if TYPE_CHECKING:
    from ..tables.embeddings import Embeddings


SEED = 0
"""Random seed of what the page samples."""


def names_of(sources: Sequence[Embeddings]) -> list[str]:
    """Return the display names of sources, as the app shows them."""
    return short_names([source.name for source in sources])


@dataclass(eq=False)
class Page:
    """A page under construction: sections of HTML, and the rows of panels that the script draws into them.

    Attributes:
        sources: The sources.
        comparison: Their comparison.
        sections: The sections so far.
        views: The rows of panels so far.
        names: Display names of the sources.
        named: Display name of each source by its own.
    """

    sources: tuple[Embeddings, ...]
    comparison: Comparison
    sections: list[str] = field(default_factory=list)
    views: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.packer = Packer(lambda content, name: {"data": base64.b64encode(content).decode()})
        self.names = names_of(self.sources)
        self.named = dict(zip((source.name for source in self.sources), self.names, strict=True))

    def add(self, heading: str, lead: str, body: str) -> None:
        """Add a section, unless it is empty."""
        if body:
            said = f'<p class="lead">{html.escape(lead)}</p>' if lead else ""
            self.sections.append(f"<section><h2>{html.escape(heading)}</h2>{said}{body}</section>")

    def row(self, panels: Sequence[Panel], *, columns: int = 0, **more: Any) -> str:
        """Store a row of panels for the script, and return its placeholder."""
        if not panels:
            return ""
        number = len(self.views)
        self.views.append(row_of(panels, columns=columns, **more))
        return f'<div class="rows" data-view="{number}"><hfposemb-row></hfposemb-row></div>'

    def panel(self, key: str, title: str, *drawings: tuple[Any, str], **words: Any) -> Panel:
        """Return a panel in the format of the page's script; ``drawings`` are figures with their captions."""
        return packed_panel(self.packer, key, title, *drawings, **words)

    def absent(self, place: int, why: str) -> Panel:
        """Return a panel that states why there is nothing to draw."""
        said = display(why, width=400)
        return self.panel(f"positions-{place}", "No positions to draw", message=said, **self.owner(place))

    def owner(self, place: int, about: str = "") -> dict[str, Any]:
        """Return the properties of a panel that identify its source."""
        return owner(self.names[place], place, about)

    def html(self, title: str, written: str) -> str:
        """Return the page."""
        views = {"files": self.packer.listed, "rows": self.views, "dark": dark_map()}
        return document(
            title=html.escape(display(title, width=300)),
            header=about(display(written, width=120)),
            body="\n".join(self.sections),
            data=views,
            script=script(BUNDLE / "report.js"),
            style=page_style(),
        )
