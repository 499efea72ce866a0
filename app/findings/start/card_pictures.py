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
    at_hand = [source for source in opened if source.embeddings is not None and _at_hand(source, session)]
    cards = ((source, card_of(source, at_hand, session)) for source in at_hand)
    return "".join(_section(source, card) for source, card in cards if card is not None)


def card_of(source: Opened, at_hand: Sequence[Opened], session: Session) -> ModelCard | None:
    """Return the card of a source, written once for all visitors; ``None`` if it cannot be read.

    It is compared with the model that its files say it was made from, if that is open, too: from rows alone nobody
    knows which of two models came first.
    """
    embeddings = source.embeddings
    tables = [] if embeddings is None else list(embeddings.tables.values())
    if embeddings is None or not tables:
        return None
    others = [one for one in at_hand if one.text != source.text]

    def stated() -> str:
        return (embeddings.made_from() if embeddings.made_from is not None else None) or ""

    try:
        named = session.library.result(tables[0], ("made from", source.text), stated) if others else ""
        of = {one.embeddings.name: one for one in others if one.embeddings is not None}
        base = of.get(named)
        what = ("card", source.text, "" if base is None else base.text)
        compared = None if base is None else base.embeddings
        return session.library.result(tables[0], what, lambda: model_card(embeddings, base=compared))
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
