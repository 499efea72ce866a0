"""The words of the sentence as buttons, each with the share of neighbours that it keeps in its place."""

from __future__ import annotations

import html

from hfposemb.errors import HfposembError
from hfposemb.reports.position_findings import percent

from ..components.page_script import on_load
from .chosen_word import shown
from .sum_view import PIECES_SHOWN, View

STRIP_CSS = """
display: flex; flex-wrap: wrap; align-items: center; gap: 4px 24px; color: var(--body-text-color);
ol { display: flex; flex-wrap: wrap; gap: 4px; list-style: none; margin: 0; padding: 0; }
li { margin: 0; }
button { display: grid; justify-items: center; min-width: 44px; min-height: 44px; padding: 2px 8px; font: inherit;
  color: inherit; background: none; border: 0; border-radius: 8px; cursor: pointer; }
button:hover { background: var(--input-background-fill, rgba(128, 128, 128, .12)); }
strong { font-size: 15px; line-height: 22px; font-weight: 650; color: inherit; max-width: 16ch; overflow: hidden;
  text-overflow: ellipsis; white-space: nowrap; }
button span { font-size: 13px; line-height: 20px; font-variant-numeric: tabular-nums;
  color: var(--hfposemb-subdued, inherit); }
button[aria-pressed="true"] { background: var(--color-accent-soft, #fbe9f0); }
button[aria-pressed="true"] :is(strong, span) { color: var(--hfposemb-accent-text, #b8195a); }
p { margin: 0; font-size: 13px; line-height: 18px; color: var(--hfposemb-subdued, inherit); max-width: 18ch; }
.block:has(> .html-container > &) { padding: 0; background: none; box-shadow: none; border: 0; overflow: visible; }
.html-container:has(> &) { padding: 0; }
.gradio-container:has(&) .words-card { gap: 0; }
.gradio-container:has(&) .words-card .controls { box-shadow: none; flex: 0 0 auto; }
.gradio-container:has(&) .words-card .controls .block { overflow: visible !important; }
.gradio-container:has(&) .words-card.above .controls { border-radius: 12px 12px 0 0; padding: 20px 24px 0; }
.gradio-container:has(&) .words-card.above .panel { border-radius: 0 0 12px 12px !important;
  padding-top: 16px !important; box-shadow: none !important; }
.gradio-container:has(&) .words-card.below .controls { border-radius: 0 0 12px 12px; padding: 0 24px 20px;
  align-items: center; }
.gradio-container:has(&) .words-card.below .panel { border-radius: 12px 12px 0 0 !important;
  padding-bottom: 12px !important; box-shadow: none !important; }
.gradio-container:has(&) .words-orders .message { display: block; }
.gradio-container:has(&) .words-card.above > .block { flex: 1; }
.gradio-container:has(&) .words-fill :is(.block, .html-container, .html-container > div, hfposemb-row, .grid) {
  height: 100%; }
.gradio-container:has(&) .words-card.below .message { min-height: 0; }
@media (min-width: 900px) {
  .gradio-container:has(&) .words-card.above .panel { padding: 16px 24px 24px !important; }
  .gradio-container:has(&) .words-clouds [data-key="cloud"] .drawings { display: grid; gap: 0 16px;
    grid: auto auto / auto-flow minmax(0, 1fr); }
}
@media (max-width: 719px) {
  .gradio-container:has(&) .words-whose label { padding: 0 8px; font-size: 14px; }
  .gradio-container:has(&) .words-card.above .controls { padding: 16px 16px 0; }
  .gradio-container:has(&) .words-card.below .controls { padding: 0 16px 16px; }
}
"""


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
