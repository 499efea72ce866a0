"""The Tokens tab: a map of the vocabulary, exact neighbours of a word in every source, and word pairs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import gradio as gr

from hfposemb.text import one_line

from ..components.events import QUIET
from ..components.hidden import State
from ..components.lines import unseen_heading
from ..components.plot import PanelRow, Panels
from ..findings.chosen_word import (
    FIRST_WORD,
    FIRST_WORDS,
    Word,
    read_word,
    source_of,
    which_choices,
    with_tokens,
    write_word,
)
from ..findings.token_map import asked_map, map_work
from ..findings.token_neighbours import find_word, spread_panels, word_panels
from ..findings.token_search import NOT_SEARCHED, match_panels, read_search, write_sought
from ..limits import LONGEST_QUERY
from ..session.address import of_sources
from ..session.guard import guarded
from ..session.opened import Opened
from ..session.state import Session

if TYPE_CHECKING:
    pass


TITLE = "Tokens"
NEEDS = ("token",)


def _segmented(label: str, choices: Sequence[Any], value: Any, width: int, **more: Any) -> gr.Radio:
    return gr.Radio(choices, value=value, label=label, elem_classes="segmented", min_width=width, scale=1, **more)


def tab(session: Session) -> None:
    """Create and bind the tab."""
    from ..findings.undertrained import odd_row  # shows tokens as this tab does
    from ..findings.word_pairs import pair_panels

    def draw_word(opened: Sequence[Opened], which: str | None, state: list[Any], centred: bool) -> list[Any]:
        word, source = Word.of(state), source_of(opened, which)
        near = word_panels(session, opened, word, centred=centred)
        return [near, spread_panels(session, source, word, centred=centred)]

    def draw_pairs(opened: Sequence[Opened], text: str, centred: bool) -> Panels:
        return pair_panels(session, opened, text, centred=centred)

    def pick(due: list[Any], which: str | None, state: list[Any], centred: bool, happened: gr.EventData) -> list[Any]:
        """Select the token that was clicked: a dot of the map, or a row of a list."""
        told, sources = happened._data, with_tokens(session.shown(due))
        if told.get("panel") == "neighbours":
            found = [find_word(session, source, Word.of(state), centred=centred) for source in sources]
            sources = [one.source for one in found if one.near is not None]
        if told.get("panel") == "map":
            source, row = source_of(sources, which), told.get("index")
            if told.get("group") != "token":
                return [gr.skip()] * 3
        else:
            place, row = told.get("list"), told.get("id")
            source = sources[place] if isinstance(place, int) and 0 <= place < len(sources) else None
        table = source.table("token") if source else None
        if source is None or table is None or not isinstance(row, int) or not 0 <= row < table.shape[0]:
            return [gr.skip()] * 3
        text = table.labels[row]
        return [Word(text, source.text, row).state, one_line(text.strip(), width=60), list(NOT_SEARCHED)]

    word, sought = State(Word(FIRST_WORD).state), State(list(NOT_SEARCHED))
    choices = which_choices(session.open(session.first))
    # Keep the choice in a state: the field would send a choice it no longer offers, which Gradio refuses.
    which = State(choices[0][1] if choices else None)
    with gr.Row(elem_classes="controls"):
        session.source_field()
        with gr.Column(scale=0, min_width=902), gr.Row():  # the width of its parts and the gaps between them
            which_field = _segmented("Map of", choices, which.value, 210, visible=len(choices) > 1)
            method = _segmented("Projection", ["PCA", "UMAP"], "PCA", 160)
            dims = _segmented("Dimensions", ["2-D", "3-D"], "2-D", 150)
            color = _segmented("Colour", ["Class", "Id", "Norm", "Trust"], "Class", 270)
        unseen_heading(TITLE, level=2)
    with gr.Row(equal_height=False):
        with gr.Column(scale=5, min_width=320):
            umaps = session.jobs.bind(partial(map_work, session), label="Map")
            plan = PanelRow(scope=session.scope)
        with gr.Column(scale=3, min_width=320):
            with gr.Row(elem_classes="controls"):
                search = gr.Textbox(
                    FIRST_WORD, label="A word, an id, or part of a word", max_lines=1, scale=3, min_width=160
                )
                regex = gr.Checkbox(False, label=".* regex", container=False, scale=1, min_width=100)
                centring = gr.Checkbox(False, label="Centred", container=False, scale=1, min_width=100)
            matches = PanelRow((), scope=session.scope, visible=False)
            words = PanelRow((), scope=session.scope)
            hill = PanelRow((), scope=session.scope)
    with gr.Row(equal_height=False):
        with gr.Column(scale=1, min_width=240), gr.Row(elem_classes="controls"):
            chosen = gr.Textbox(FIRST_WORDS, label="Words to compare, with commas between", lines=3, max_lines=6)
        with gr.Column(scale=3, min_width=320):
            matrix = PanelRow((), scope=session.scope)
    odd_row(session, which, which_field, source_of, [word, search, sought])

    def draw_field(opened: Sequence[Opened], which: str | None) -> Any:
        source, choices = source_of(opened, which), which_choices(opened)
        return gr.update(choices=choices, value=source.text if source else None, visible=len(choices) > 1)

    asked = [which, method, dims, color, word, centring]
    drawn = [method, plan, umaps.wanted, color]
    events = [method.input, dims.input, color.input, word.change, centring.input]
    draw_map = partial(asked_map, session)
    session.redraw(draw_field, [which_field], inputs=[which])
    # Draw at once with the field's value, and not again when the state receives it.
    session.when([which_field.input], draw_map, drawn, inputs=[which_field, *asked[1:]])
    session.when([which_field.input], draw_word, [words, hill], inputs=[which_field, word, centring])
    session.redraw(draw_map, drawn, inputs=asked, on=events)
    session.when([umaps.done.change], draw_map, drawn, inputs=[*asked, umaps.done])
    session.redraw(draw_word, [words, hill], inputs=[which, word, centring], on=[word.change, centring.input])
    session.redraw(draw_pairs, [matrix], inputs=[chosen, centring], on=[chosen.input, centring.input])

    which_field.input(lambda chosen: chosen, which_field, which, **QUIET)

    def look(text: str, regex: bool, state: list[Any]) -> Any:
        """Search for labels that contain the text while it is typed."""
        if regex or text.strip() in ("", Word.of(state).text.strip()):
            return list(NOT_SEARCHED)
        return [text.strip()[:LONGEST_QUERY], False]

    def choose(text: str, regex: bool) -> list[Any]:
        """Use the text as the word, or search for it if it is a pattern."""
        wanted = text.strip()[:LONGEST_QUERY]
        if not wanted or regex:
            return [gr.skip(), [wanted, bool(wanted)]]
        return [Word(wanted).state, list(NOT_SEARCHED)]

    def draw_matches(opened: Sequence[Opened], sought: list[Any]) -> Any:
        text, pattern = sought
        return gr.update(value=match_panels(opened, text, pattern), visible=True) if text else gr.update(visible=False)

    def take(asked: list[Any]) -> list[Any]:
        """Select the word that another tab requested."""
        return [Word.of(asked).state, one_line(str(asked[0]).strip(), width=60), list(NOT_SEARCHED)]

    def write_search(state: list[Any], sought: list[Any]) -> str:
        """Return the content of the search field: the search if there is one, otherwise the word."""
        return str(sought[0]) or one_line(Word.of(state).text.strip(), width=60)

    session.asked.change(take, session.asked, [word, search, sought], **QUIET)
    safe = partial(guarded, public=session.public)
    search.input(safe(look), [search, regex, word], sought, trigger_mode="always_last", **QUIET)
    sent = [search.submit, regex.input]
    gr.on(sent, safe(choose), [search, regex], [word, sought], trigger_mode="always_last", **QUIET)
    session.redraw(draw_matches, [matches], inputs=[sought], on=[sought.change])
    session.keep("map", which, choices=of_sources)
    for name, component in {
        "layout": method,
        "space": dims,
        "colour": color,
        "words": chosen,
        "centred": centring,
    }.items():
        session.keep(name, component)
    session.keep("word", word, read=read_word, write=write_word)
    session.keep("search", sought, read=read_search, write=write_sought)
    word.change(write_search, [word, sought], search, **QUIET)
    # Only values from the URL are written back: a typing visitor is already further on.
    shown_search = [search, regex]
    session.restored.change(
        lambda state, sought: [write_search(state, sought), bool(sought[1])], [word, sought], shown_search, **QUIET
    )
    for row in (plan, words, matches):
        row.select(
            pick, [session.due, which, word, centring], [word, search, sought], trigger_mode="always_last", **QUIET
        )
