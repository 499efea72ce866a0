"""The Words + positions tab: why adding positions does not destroy the meaning, and when it does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from hfposemb.composition.added_positions import WHOSE
from hfposemb.composition.amplitude_sweep import AMPLITUDES, step_of
from hfposemb.errors import HfposembError
from hfposemb.text import one_line, sentence_case

from ..components.events import EACH, QUIET, State
from ..components.happened import Happened
from ..components.lines import folded_controls, segmented, unseen_heading
from ..components.plot import Panel, PanelRow, Panels
from ..findings.chosen_word import source_of, which_choices
from ..findings.positions import logits
from ..findings.start.model_input import SENTENCE, input_panel
from ..findings.words.sum_amplitude import (
    anchor_panel,
    finding_panel,
    lists_panel,
    map_panel,
    mixture_panel,
    recovery_panel,
    survival_panel,
)
from ..findings.words.sum_claims import (
    cloud_panel,
    concatenation_panel,
    interference_panel,
    variance_panel,
    window_panel,
)
from ..findings.words.sum_view import CALLED, FIRST_ANCHORS, STRIP_JS, Asked, View, strip, view_of
from ..findings.words.word_order import reorder_panel, shuffled
from ..limits import LONGEST_SENTENCE, MOST_WORDS
from ..session.address import number_up_to, of_sources, text_up_to
from ..session.opened import Opened
from ..session.state import Session

TITLE = "Words + positions"
NEEDS = logits.NEEDS
SCALED, UNSCALED = "One mean norm", "Their own norm"  # as in the page's URL
SIZES = (("Same mean norm", SCALED), ("Original norm", UNSCALED))


def wordless(opened: Sequence[Opened]) -> str:
    """State which sources have no words, and why."""
    said = []
    for source in opened:
        if source.embeddings is None:
            said.append(f"{source.name}: {source.error}.")
        elif source.table("token") is None:
            reason = source.embeddings.absent.get("token", "it has no token table").partition(";")[0]
            said.append(f"{source.name} has no words: {reason}.")
    return " ".join(one_line(line) for line in said)


def top_panels(view: View | None, opened: Sequence[Opened]) -> Panels:
    """Return the finding, or the reason why no source has words."""
    if view is None:
        said = wordless(opened) or "Choose a source that has words, such as sample:bert."
        return Panels((Panel("finding", "None of the sources has words", message=said),))
    panel = finding_panel(view)
    if len(view.asked.text) > LONGEST_SENTENCE:
        return Panels((replace(panel, message=f"A sentence can have at most {LONGEST_SENTENCE} characters."),))
    try:
        _ = view.place
    except HfposembError as error:
        panel = replace(panel, message=panel.message or f"{sentence_case(one_line(str(error)))}.")
    left_out = wordless(opened)
    return Panels((replace(panel, foot=left_out),))


def first_panels(view: View) -> Panels:
    """Return the survival curve, the neighbours of a word, and the words in another order."""
    return Panels((survival_panel(view), lists_panel(view), reorder_panel(view)), columns=12)


def remaining_panels(view: View, opened: Sequence[Opened]) -> list[Any]:
    """Return what remains of each part: two rows, of which the first is the anchor words."""
    measured = (mixture_panel(view), recovery_panel(view), map_panel(view), window_panel(view, opened))
    both = Panels((*measured, concatenation_panel(view), interference_panel(view)), columns=2)
    return [Panels((anchor_panel(view),)), both]


def sum_panels(view: View) -> Panels:
    """Return the sums as a cloud, and the shares of its variance."""
    return Panels((cloud_panel(view), variance_panel(view)), columns=3)


STARTING = Panel(
    "finding",
    "Does adding positions destroy the words?",
    message="Measuring every amplitude. For a large vocabulary this takes some seconds, once.",
)


class Layout:
    """The tab's components that events use.

    States are ``before``, ``word``, ``kept`` and ``source``, ``settled``, what was asked when the first row was last
    drawn, and whether each fold is open: ``fed``, ``remains``, ``summed`` and ``scored``. ``box`` is the fold of the
    anchor words.
    """

    def __init__(self, session: Session) -> None:
        choices = which_choices(session.open(session.first))
        scope = f"{session.scope}-words"
        self._toolbar(session, choices)
        self._finding_card(scope)
        self.near = PanelRow(scope=scope, reserve=603)
        with gr.Column(elem_classes="folds"):
            box, self.fed = session.fold("model-input", "The model’s input: token + position")
            with box:
                self.vectors = PanelRow((), scope=scope)
            box, self.summed = session.fold("sums", "Clouds of sums: do inputs cluster by word or by position?")
            with box:
                self.clubs = PanelRow((), scope=scope, elem_classes="words-clouds")
            title = "A word as a mixture, anchor words, recovering both parts, and sum against concatenation"
            self.box, self.remains = session.fold("remains", title, holds=["anchors"])
            with self.box, gr.Row(equal_height=True):
                with gr.Column(scale=4, min_width=320, elem_classes="words-card above words-fill"):
                    self.anchors = _anchor_field()
                    self.followed = PanelRow((), scope=scope)
                with gr.Column(scale=8, min_width=320, elem_classes="words-fill"):
                    self.both = PanelRow((), scope=scope)
            logit, self.scored = session.fold(
                "logits", "Attention: what words and positions add to the logits", holds=["part-of-logits", "head"]
            )
            with logit:
                self._logit_fields()
                self.drawn_to = PanelRow((), scope=scope)
        self.before = State("")
        self.word = State(-1)
        self.kept = State(list(FIRST_ANCHORS))
        self.source = State(choices[0][1] if choices else None)
        self.settled = State(None)

    def _toolbar(self, session: Session, choices: Sequence[tuple[str, str]]) -> None:
        """Create the toolbar."""
        whoses = [(CALLED[one], one) for one in WHOSE]
        unseen_heading(TITLE, level=2)
        folded_controls()
        with gr.Row(elem_classes="controls"):
            self.text = gr.Textbox(
                SENTENCE, label="Sentence", max_lines=1, max_length=LONGEST_SENTENCE, scale=4, min_width=260
            )
            self.turn = gr.Button("Reorder words", scale=0, min_width=150)
            with gr.Column(scale=0, min_width=620), gr.Row():  # the width of its parts and the gaps between them
                self.which = gr.Dropdown(
                    choices, value=choices[0][1] if choices else None, label="Source", min_width=240
                )
                self.whose = segmented("Positions from", whoses, "own", 340, "words-whose", "seldom")

    def _finding_card(self, scope: str) -> None:
        """Create the card of the finding: its panel, the amplitude, the scale and the words of the sentence."""
        with gr.Column(elem_classes="words-card below"):
            self.finding = PanelRow((STARTING,), scope=scope, reserve=152)
            with gr.Row(elem_classes="controls"):
                with gr.Column(scale=4, min_width=300):
                    self.amplitude = gr.Slider(0, 4, 1, step=0.25, label="Position amplitude (1 = as in the model)")
                with gr.Column(scale=0, min_width=304):
                    self.size = segmented("Position norm", SIZES, SCALED, 290, "seldom")
                with gr.Column(scale=5, min_width=300):
                    self.words = gr.HTML("", js_on_load=STRIP_JS, apply_default_css=False, elem_classes="words-strip")

    def _logit_fields(self) -> None:
        """Create the controls of the logits: which part of them, and of which head."""
        with gr.Row(elem_classes="controls"):
            self.term = gr.Dropdown(list(logits.TERMS), label="Logit term", filterable=False, min_width=220, scale=1)
            self.head = gr.Textbox(
                "", label="Head (empty: mean over all)", max_lines=1, max_length=4, min_width=220, scale=1
            )
            unseen_heading("The first layer's logits", level=3)


@dataclass(frozen=True)
class Handlers:
    """What the tab draws."""

    session: Session

    def view(self, opened: Sequence[Opened], which: str | None, values: Sequence[Any]) -> View | None:
        """Return what is measured; ``None`` if no source has words or the sentence is too long."""
        found = view_of(self.session, opened, which, read_controls(*values))
        return found if found and len(found.asked.text) <= LONGEST_SENTENCE else None

    def draw_moving(self, opened: Sequence[Opened], which: str | None, *values: Any) -> list[Any]:
        """Draw the finding and what it is measured on: the words of the sentence, and the first row."""
        top = top_panels(view_of(self.session, opened, which, read_controls(*values)), opened)
        view = self.view(opened, which, values)
        drawn = [top, "", ()] if view is None else [top, strip(view), first_panels(view)]
        return [*drawn, [which, *values]]

    def draw(self, opened: Sequence[Opened], which: str | None, *values: Any) -> list[Any]:
        """Draw everything above the folds, and offer the sources that have words."""
        source = source_of(opened, which)
        named = gr.update(choices=which_choices(opened), value=source.text if source else None)
        return [named, *self.draw_moving(opened, which, *values)]

    @staticmethod
    def draw_vectors(opened: Sequence[Opened], which: str | None, text: str) -> Any:
        """Draw the vectors that enter the first layer."""
        source = source_of(opened, which)
        return () if source is None else (input_panel([source], text),)

    def draw_remains(self, opened: Sequence[Opened], which: str | None, *values: Any) -> list[Any]:
        """Draw what remains of each part of the sum."""
        view = self.view(opened, which, values)
        return [(), ()] if view is None else remaining_panels(view, opened)

    def draw_sums(self, opened: Sequence[Opened], which: str | None, *values: Any) -> Any:
        """Draw the clouds of sums."""
        view = self.view(opened, which, values)
        return () if view is None else sum_panels(view)

    def draw_logits(self, opened: Sequence[Opened], which: str | None, text: str, term: str, head: str) -> Any:
        """Draw the logits of the first layer."""
        source = source_of(opened, which)
        if source is None or len(text) > LONGEST_SENTENCE:
            return Panels(())
        return Panels(logits.logit_panels(source, text, self.session, term=term, head=logits.read_head(head)))


def tab(session: Session) -> None:
    """Create and bind the tab. Nothing is computed until it is first shown."""
    layout = Layout(session)
    bind_selection(layout)
    bind_drawing(session, layout, Handlers(session))
    keep_controls(session, layout)


def _anchor_field() -> gr.Dropdown:
    """Create the field of the anchor words."""
    with gr.Row(elem_classes="controls"):
        return gr.Dropdown(
            list(FIRST_ANCHORS),
            value=list(FIRST_ANCHORS),
            multiselect=True,
            allow_custom_value=True,
            max_choices=6,
            label="Anchor words",
            elem_classes="anchor-words",
        )


def read_controls(*values: Any) -> Asked:
    """Return the visitor's choices from the values of the controls, without the source."""
    text, before, whose, size, amplitude, word, kept = values
    measured = AMPLITUDES[step_of(float(amplitude or 0))]  # a typed value may lie between two of them
    return Asked(text, before, whose, size == SCALED, measured, int(word), tuple(kept))


def reorder(text: str) -> list[Any]:
    """Reorder the words of the sentence, remember the sentence before, and choose no word."""
    return [shuffled(text), text, -1]


def choose_word(happened: Happened) -> Any:
    """Select a word of the sentence, by its button or by its row in the reorder check."""
    told = happened.told
    place = told.get("place", told.get("id") if told.get("panel") == "reorder" else None)
    return place if isinstance(place, int) else gr.skip()


def follow_neighbour(kept: list[str], happened: Happened) -> list[Any]:
    """Add a clicked neighbour to the anchor words, and open their fold."""
    told = happened.told
    label = told.get("label") if told.get("panel") == "lists" else None
    if not isinstance(label, str):
        return [gr.skip()] * 3
    anchors = gr.skip() if label in kept else [*kept[-5:], label]
    return [anchors, gr.update(open=True), True]


def anchor_words(words: list[str] | None) -> list[str]:
    """Return the distinct anchor words, without spaces at their ends."""
    return [one_line(word, width=60) for word in dict.fromkeys(map(str.strip, words or ())) if word][:MOST_WORDS]


def bind_selection(layout: Layout) -> None:
    """Bind what chooses a word, the sentence, the source and the anchor words."""
    text, word, kept = layout.text, layout.word, layout.kept
    layout.turn.click(reorder, text, [text, layout.before, word], **QUIET)
    layout.near.select(follow_neighbour, kept, [layout.anchors, layout.box, layout.remains], **EACH)
    gr.on([layout.words.select, layout.near.select], choose_word, None, word, **EACH)
    text.input(lambda: -1, None, word, **QUIET)
    layout.which.input(lambda text: text, layout.which, layout.source, **QUIET)
    layout.anchors.change(anchor_words, layout.anchors, kept, trigger_mode="always_last", **QUIET)


def bind_drawing(session: Session, layout: Layout, handlers: Handlers) -> None:
    """Bind what is drawn."""
    text, source, whose, size = layout.text, layout.source, layout.whose, layout.size
    amplitude, word, kept, term, head = layout.amplitude, layout.word, layout.kept, layout.term, layout.head
    asked = [source, text, layout.before, whose, size, amplitude, word, kept]
    moving = [layout.finding, layout.words, layout.near, layout.settled]
    changed = [text.change, source.change, whose.input, size.input]
    moved = [amplitude.input, amplitude.release, word.change]
    session.redraw(handlers.draw, [layout.which, *moving], inputs=asked, on=changed)
    session.when(moved, handlers.draw_moving, moving, inputs=asked)
    shown = [text.change, source.change]
    session.redraw(handlers.draw_vectors, [layout.vectors], inputs=[source, text], on=shown, within=layout.fed)
    # The folds follow a state: with more than one handler on the slider's own events, Gradio left their rows pending.
    remaining, changes = [layout.followed, layout.both], [kept.change, layout.settled.change]
    session.redraw(handlers.draw_remains, remaining, inputs=asked, on=changes, within=layout.remains)
    session.redraw(handlers.draw_sums, [layout.clubs], inputs=asked, on=changes[1:], within=layout.summed)
    events, asked = [*shown, term.input, head.submit, head.blur], [source, text, term, head]
    session.redraw(handlers.draw_logits, [layout.drawn_to], inputs=asked, on=events, within=layout.scored)


def keep_controls(session: Session, layout: Layout) -> None:
    """Store the controls in the page's URL."""
    session.keep("text", layout.text)
    session.keep("whose", layout.whose)
    session.keep("size", layout.size)
    session.keep("part-of-logits", layout.term)
    session.keep("head", layout.head)
    session.keep("amplitude", layout.amplitude, read=number_up_to(4))
    session.keep("words-of", layout.source, choices=of_sources)
    session.keep("anchors", layout.anchors, read=lambda text: anchor_words(text.split(",")), write=",".join)
    session.keep("place", layout.word, read=lambda text: int(number_up_to(10**6)(text)))
    session.keep("before", layout.before, read=text_up_to(LONGEST_SENTENCE))
