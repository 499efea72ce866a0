"""The Words + positions tab: why adding positions does not destroy the meaning, and when it does."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import gradio as gr

from hfposemb.composition.added_positions import WHOSE
from hfposemb.composition.amplitude_sweep import AMPLITUDES, step_of
from hfposemb.errors import HfposembError
from hfposemb.reports.position_findings import percent
from hfposemb.text import one_line

from ..components.events import QUIET
from ..components.hidden import State
from ..components.lines import unseen_heading
from ..components.plot import Panel, PanelRow, Panels
from ..findings import logits
from ..findings.chosen_word import shown, which_choices
from ..findings.model_input import SENTENCE, input_panel
from ..findings.sum_amplitude import anchor_panel, finding_panel, lists_panel, map_panel, recovery_panel, survival_panel
from ..findings.sum_clouds import cloud_panel, variance_panel
from ..findings.sum_view import CALLED, FIRST_ANCHORS, PIECES_SHOWN, Asked, View, source_of, view_of
from ..findings.word_order import reorder_panel, shuffled
from ..limits import LONGEST_SENTENCE, MOST_WORDS
from ..session.address import number_up_to, of_sources, text_up_to
from ..session.opened import Opened
from ..session.state import Session

if TYPE_CHECKING:
    pass


TITLE = "Words + positions"
NEEDS = logits.NEEDS
SCALED, UNSCALED = "One mean norm", "Their own norm"


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
    rest = f"<p>the first {PIECES_SHOWN} of {len(view.pieces)} pieces</p>" if more > 0 else ""
    return (
        f'<ol aria-label="Words of the sentence">{"".join(buttons)}</ol><p>neighbours kept, each in its place</p>{rest}'
    )


def wordless(opened: Sequence[Opened]) -> str:
    """State which sources have no words, and why."""
    said = []
    for source in opened:
        if source.embeddings is None:
            said.append(f"{source.name}: {source.error}.")
        elif source.table("token") is None:
            said.append(
                f"{source.name} has no words: {source.embeddings.absent.get('token', 'it has no token table')}."
            )
    return " ".join(one_line(line) for line in said)


def top_panels(view: View | None, opened: Sequence[Opened]) -> Panels:
    """Return the finding, or the reason why no source has words."""
    if view is None:
        said = wordless(opened) or "Choose a source that has, such as sample:bert."
        return Panels((Panel("finding", "No source here has words", message=said),))
    panel = finding_panel(view)
    if len(view.asked.text) > LONGEST_SENTENCE:
        return Panels((replace(panel, message=f"A sentence has at most {LONGEST_SENTENCE} characters here."),))
    try:
        _ = view.place
    except HfposembError as error:
        said = one_line(str(error))
        panel = replace(panel, message=panel.message or f"{said[:1].upper()}{said[1:]}.")
    left_out = wordless(opened)
    return Panels((replace(panel, foot=left_out),))


def amplitude_panels(view: View) -> list[Any]:
    """Return what depends on the amplitude: two rows, the anchor words and the cloud."""
    return [
        Panels((survival_panel(view), lists_panel(view)), columns=8),
        Panels((anchor_panel(view),)),
        Panels((recovery_panel(view), map_panel(view)), columns=2),
        Panels((cloud_panel(view), variance_panel(view)), columns=3),
    ]


def sentence_panels(view: View) -> Panels:
    """Return what depends on the sentence alone: its vectors, and another word order."""
    return Panels((input_panel([view.source], view.asked.text), reorder_panel(view)), columns=2)


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


STRIP_JS = """
element.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button) trigger("select", { place: Number(button.dataset.place) });
});
"""


STARTING = Panel(
    "finding",
    "Do positions drown the words they are added to?",
    message="Every amplitude is being measured. Of a large vocabulary that takes some seconds, and once only.",
)


def tab(session: Session) -> None:
    """Create and bind the tab. Nothing is computed until it is first shown."""
    opened = session.open(session.first)
    choices = which_choices(opened)
    whoses = [(CALLED[whose], whose) for whose in WHOSE]
    with gr.Row(elem_classes="controls"):
        text = gr.Textbox(SENTENCE, label="Sentence", max_lines=1, max_length=LONGEST_SENTENCE, scale=4, min_width=260)
        turn = gr.Button("Reorder words", scale=0, min_width=150)
        with gr.Column(scale=0, min_width=620), gr.Row():  # the width of its parts and the gaps between them
            which = gr.Dropdown(choices, value=choices[0][1] if choices else None, label="Source", min_width=240)
            whose = _segmented("Whose positions", whoses, "own", 340, "words-whose")
        session.fetch_line()
        unseen_heading(TITLE, level=2)
    with gr.Column(elem_classes="words-card below"):
        finding = PanelRow((STARTING,), scope=f"{session.scope}-words")
        with gr.Row(elem_classes="controls"):
            with gr.Column(scale=4, min_width=300):
                amplitude = gr.Slider(0, 4, 1, step=0.25, label="Amplitude of the position part, 1 as in the model")
            with gr.Column(scale=0, min_width=304):
                size = _segmented("How large", [SCALED, UNSCALED], SCALED, 290)
            with gr.Column(scale=5, min_width=300):
                words = gr.HTML("", css_template=STRIP_CSS, js_on_load=STRIP_JS, apply_default_css=False)
    scope = f"{session.scope}-words"
    near = PanelRow((), scope=scope)
    with gr.Row(equal_height=True):
        with gr.Column(scale=4, min_width=320, elem_classes="words-card above words-fill"):
            with gr.Row(elem_classes="controls"):
                anchors = gr.Dropdown(
                    list(FIRST_ANCHORS),
                    value=list(FIRST_ANCHORS),
                    multiselect=True,
                    allow_custom_value=True,
                    max_choices=6,
                    label="Anchor words",
                    elem_classes="anchor-words",
                )
            followed = PanelRow((), scope=scope)
        with gr.Column(scale=8, min_width=320, elem_classes="words-fill"):
            both = PanelRow((), scope=scope)
    clubs = PanelRow((), scope=scope, elem_classes="words-clouds")
    orders = PanelRow((), scope=scope, elem_classes="words-orders")
    with gr.Row(elem_classes="controls"):
        term = gr.Dropdown(list(logits.TERMS), label="Part of the logits", filterable=False, min_width=220, scale=1)
        head = gr.Textbox(
            "", label="Head, a number; all without one", max_lines=1, max_length=4, min_width=220, scale=1
        )
        unseen_heading("The first layer's logits", level=3)
    drawn_to = PanelRow((), scope=scope)

    before, word, kept = State(""), State(-1), State(list(FIRST_ANCHORS))
    source = State(choices[0][1] if choices else None)
    asked = [source, text, before, whose, size, amplitude, word, kept]
    moving = [finding, words, near, followed, both, clubs]

    def read(*values: Any) -> Asked:
        text, before, whose, size, amplitude, word, kept = values
        measured = AMPLITUDES[step_of(float(amplitude or 0))]  # a typed value may lie between two of them
        return Asked(text, before, whose, size == SCALED, measured, int(word), tuple(kept))

    def draw_moving(opened: Sequence[Opened], which: str | None, *values: Any) -> list[Any]:
        view = view_of(session, opened, which, read(*values))
        top = top_panels(view, opened)
        if view is None or len(view.asked.text) > LONGEST_SENTENCE:
            return [top, "", *((),) * 4]
        return [top, strip(view), *amplitude_panels(view)]

    def draw(opened: Sequence[Opened], which: str | None, *values: Any) -> list[Any]:
        view = view_of(session, opened, which, read(*values))
        options = which_choices(opened)
        named = gr.update(choices=options, value=view.source.text if view else None)
        rest: Any = sentence_panels(view) if view and len(view.asked.text) <= LONGEST_SENTENCE else ()
        return [named, *draw_moving(opened, which, *values), rest]

    def draw_logits(opened: Sequence[Opened], which: str | None, text: str, term: str, head: str) -> Panels:
        source = source_of(opened, which)
        if source is None or len(text) > LONGEST_SENTENCE:
            return Panels(())
        return Panels(logits.logit_panels(source, text, session, term=term, head=logits.read_head(head)))

    def other(text: str) -> list[Any]:
        return [shuffled(text), text, -1]

    def click(happened: gr.EventData) -> Any:
        """Select a word of the sentence, by its button or by its row in the reorder check."""
        told = happened._data or {}
        place = told.get("place", told.get("id") if told.get("panel") == "reorder" else None)
        return place if isinstance(place, int) else gr.skip()

    def follow(kept: list[str], happened: gr.EventData) -> Any:
        """Add a clicked neighbour to the anchor words."""
        label = (happened._data or {}).get("label")
        if not isinstance(label, str) or label in kept:
            return gr.skip()
        return [*kept[-5:], label]

    def name(words: list[str] | None) -> list[str]:
        return [one_line(word, width=60) for word in dict.fromkeys(map(str.strip, words or ())) if word][:MOST_WORDS]

    turn.click(other, text, [text, before, word], **QUIET)
    words.select(click, None, word, **QUIET)
    near.select(follow, kept, anchors, **QUIET)
    orders.select(click, None, word, **QUIET)
    text.input(lambda: -1, None, word, **QUIET)
    which.input(lambda text: text, which, source, **QUIET)
    anchors.change(name, anchors, kept, trigger_mode="always_last", **QUIET)
    everything = [which, *moving, orders]
    session.redraw(draw, everything, inputs=asked, on=[text.change, source.change, whose.input, size.input])
    session.redraw(
        draw_logits,
        [drawn_to],
        inputs=[source, text, term, head],
        on=[text.change, source.change, term.input, head.submit, head.blur],
    )
    for key, component in {"text": text, "whose": whose, "size": size, "part-of-logits": term, "head": head}.items():
        session.keep(key, component)
    session.keep("amplitude", amplitude, read=number_up_to(4))
    session.keep("words-of", source, choices=of_sources)
    session.keep("anchors", anchors, read=lambda text: name(text.split(",")), write=",".join)
    session.keep("place", word, read=lambda text: int(number_up_to(10**6)(text)))
    session.keep("before", before, read=text_up_to(LONGEST_SENTENCE))
    session.when([amplitude.input, amplitude.release, word.change, kept.change], draw_moving, moving, inputs=asked)


def _segmented(label: str, choices: Sequence[Any], value: Any, width: int, *classes: str) -> gr.Radio:
    return gr.Radio(choices, value=value, label=label, elem_classes=["segmented", *classes], min_width=width)
