"""The model card of each source, to copy as Markdown and to save as a picture, in the fold of the files."""

from __future__ import annotations

import html
import re
from base64 import b64encode
from collections.abc import Sequence

from hfposemb.errors import HfposembError
from hfposemb.reports.card_facts import HEIGHT, WIDTH, ModelCard, model_card

from ...session.opened import Opened
from ...session.state import Session
from .file_checks import has_files, is_quick

NEEDS = ("position", "token", "head")


def card_sections(opened: Sequence[Opened], session: Session) -> str:
    """Return the cards as HTML, each folded; none of a source whose tables would have to be fetched first."""
    return "".join(_section(source, card) for source in opened if (card := card_of(source, session)) is not None)


def card_of(source: Opened, session: Session) -> ModelCard | None:
    """Return the card of a source, written once for all visitors; ``None`` if it is not at hand or cannot be read."""
    if source.embeddings is None or not _at_hand(source, session):
        return None
    embeddings, tables = source.embeddings, list(source.embeddings.tables.values())
    if not tables:
        return None
    try:
        return session.library.result(tables[0], ("card", source.text), lambda: model_card(embeddings))
    except HfposembError:
        return None  # the source's own panel shows the reason


def _at_hand(source: Opened, session: Session) -> bool:
    """Return whether its tables are read, or small and on this machine."""
    try:
        if has_files(source, session) and is_quick(source, session):
            return True
        return session.library.opened(source.text, NEEDS, public=session.public) is not None and source.there
    except HfposembError:
        return False


def _section(source: Opened, card: ModelCard) -> str:
    name = html.escape(source.name)
    stem = re.sub(r"[^A-Za-z0-9]+", "-", source.name).strip("-").lower()[:60] or "model"
    pictures = "".join(_picture(card, name, stem, dark=dark) for dark in (False, True))
    return (
        f'<details class="recipe card"><summary>Model card of {name}</summary>'
        '<div><p><strong>Markdown</strong><button type="button" aria-label="Copy Markdown">Copy</button></p>'
        f'<pre tabindex="0" aria-label="Markdown" role="group">{html.escape(card.markdown())}</pre></div>'
        f"{pictures}</details>"
    )


def _picture(card: ModelCard, name: str, stem: str, *, dark: bool) -> str:
    """Return a picture with what saves it: a link for SVG, and a button for PNG, which the page paints."""
    shade = "dark" if dark else "light"
    data = f"data:image/svg+xml;base64,{b64encode(card.svg(dark=dark).encode()).decode()}"
    return (
        f'<figure><img src="{data}" width="{WIDTH}" height="{HEIGHT}" alt="Card of {name}, {shade}">'
        f'<figcaption>{shade.capitalize()}, {WIDTH:,} × {HEIGHT} <a href="{data}" download="{stem}-{shade}.svg">SVG</a>'
        f'<button type="button" data-png="{stem}-{shade}.png" aria-label="Save as PNG, {shade}">PNG</button>'
        "</figcaption></figure>"
    )
