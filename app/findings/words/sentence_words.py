"""The words of the sentence as buttons, each with the share of neighbours that it keeps in its place."""

from __future__ import annotations

import html

from hfposemb.errors import HfposembError
from hfposemb.numbers import percent

from ...components.page_script import on_load
from ..chosen_word import shown
from .sum_view import PIECES_SHOWN, View

STRIP_JS = on_load("chooseWord")


def strip(view: View) -> str:
    """Return the words of the sentence as HTML buttons, each with the share of neighbours it keeps."""
    try:
        kept = view.in_place()
        chosen = view.place
        buttons = []
        for place in view.pieces[:PIECES_SHOWN]:
            share = percent(kept[place]) if place in kept else "–"
            name = html.escape(shown(view.inputs.pieces[place]))
            buttons.append(
                f'<li><button type="button" data-place="{place}" aria-pressed="{str(place == chosen).lower()}">'
                f"<strong><bdi>{name}</bdi></strong><span>{share}</span></button></li>"
            )
    except HfposembError:
        return ""
    more = len(view.pieces) - PIECES_SHOWN
    rest = f"<p>first {PIECES_SHOWN} of {len(view.pieces)} pieces</p>" if more > 0 else ""
    return (
        f'<ol aria-label="Words of the sentence">{"".join(buttons)}</ol><p>neighbours kept at this position</p>{rest}'
    )
