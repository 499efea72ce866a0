"""The Tokens tab: a map of the vocabulary, exact neighbours of a word in every source, and word pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

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
from ..findings.token_map import MapControls, asked_map, map_work
from ..findings.token_neighbours import find_word, spread_panels, word_panels
from ..findings.token_search import NOT_SEARCHED, match_panels, read_search, write_sought
from ..findings.undertrained import odd_row
from ..findings.word_pairs import pair_panels
from ..limits import LONGEST_QUERY, MOST_WORDS
from ..session.address import of_sources
from ..session.background_jobs import BackgroundJob
from ..session.guard import guarded
from ..session.opened import Opened
from ..session.state import Session

TITLE = "Tokens"
NEEDS = ("token",)


@dataclass(frozen=True)
class Layout:
    """The tab's components that events use; ``word``, ``sought`` and ``which`` are states."""

    word: gr.State
    sought: gr.State
    which: gr.State
    which_field: gr.Radio
    method: gr.Radio
    dims: gr.Radio
    color: gr.Radio
    umaps: BackgroundJob
    plan: PanelRow
    search: gr.Textbox
    regex: gr.Checkbox
    centring: gr.Checkbox
    matches: PanelRow
    words: PanelRow
    hill: PanelRow
    chosen: gr.Textbox
    matrix: PanelRow


@dataclass(frozen=True)
class Handlers:
    """What the tab draws, and what a click on a token does."""

    session: Session

    def draw_map(self, opened: Sequence[Opened], *values: Any) -> list[Any]:
        """Draw the map; ``values`` are those of its six controls, and the outcome of its job once that has ended."""
        controls, done = values[:6], values[6:]
        return asked_map(self.session, opened, MapControls(*controls), *done)

    def draw_word(self, opened: Sequence[Opened], which: str | None, state: list[Any], centred: bool) -> list[Any]:
        """Draw the neighbours of the word and how unusual they are."""
        word, source = Word.of(state), source_of(opened, which)
        near = word_panels(self.session, opened, word, centred=centred)
        return [near, spread_panels(self.session, source, word, centred=centred)]

    def draw_pairs(self, opened: Sequence[Opened], text: str, centred: bool) -> Panels:
        """Draw the similarities of some words."""
        return pair_panels(self.session, opened, text, centred=centred)

    def pick(
        self, due: list[Any], which: str | None, state: list[Any], centred: bool, happened: gr.EventData
    ) -> list[Any]:
        """Select the token that was clicked: a dot of the map, or a row of a list."""
        told, sources = happened._data, with_tokens(self.session.shown(due))
        if told.get("panel") == "neighbours":
            found = [find_word(self.session, source, Word.of(state), centred=centred) for source in sources]
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


def tab(session: Session) -> None:
    """Create and bind the tab."""
    layout, handlers = create_layout(session), Handlers(session)
    bind_drawing(session, layout, handlers)
    bind_search(session, layout)
    keep_controls(session, layout)
    bind_selection(session, layout, handlers)


def create_layout(session: Session) -> Layout:
    """Create the components, and bind the map's job and the row of odd tokens."""
    word, sought = State(Word(FIRST_WORD).state), State(list(NOT_SEARCHED))
    choices = which_choices(session.open(session.first))
    # Keep the choice in a state: the field would send a choice it no longer offers, which Gradio refuses.
    which = State(choices[0][1] if choices else None)
    which_field, method, dims, color = _toolbar(session, choices, which.value)
    with gr.Row(equal_height=False):
        with gr.Column(scale=5, min_width=320):
            umaps = session.jobs.bind(partial(map_work, session), label="Map")
            plan = PanelRow(scope=session.scope, reserve=760)
        with gr.Column(scale=3, min_width=320):
            search, regex, centring = _search_fields()
            matches = PanelRow((), scope=session.scope, visible=False)
            words = PanelRow(scope=session.scope, reserve=480)
            hill = PanelRow(scope=session.scope, reserve=280)
    with gr.Row(equal_height=False):
        with gr.Column(scale=1, min_width=240), gr.Row(elem_classes="controls"):
            label = f"Words to compare (comma-separated, up to {MOST_WORDS})"
            chosen = gr.Textbox(FIRST_WORDS, label=label, lines=3, max_lines=6)
        with gr.Column(scale=3, min_width=320):
            matrix = PanelRow((), scope=session.scope)
    odd_row(session, which, which_field, source_of, [word, search, sought])
    return Layout(
        word=word,
        sought=sought,
        which=which,
        which_field=which_field,
        method=method,
        dims=dims,
        color=color,
        umaps=umaps,
        plan=plan,
        search=search,
        regex=regex,
        centring=centring,
        matches=matches,
        words=words,
        hill=hill,
        chosen=chosen,
        matrix=matrix,
    )


def _toolbar(
    session: Session, choices: Sequence[Any], first: str | None
) -> tuple[gr.Radio, gr.Radio, gr.Radio, gr.Radio]:
    """Create the toolbar, and return the map's controls: source, projection, dimensions and colour."""
    with gr.Row(elem_classes="controls"):
        with gr.Column(scale=0, min_width=902), gr.Row():  # the width of its parts and the gaps between them
            which_field = _segmented("Source", choices, first, 210, "names", visible=len(choices) > 1)
            method = _segmented("Projection", ["PCA", "UMAP"], "PCA", 160)
            dims = _segmented("Dimensions", ["2-D", "3-D"], "2-D", 150)
            color = _segmented("Colour", ["Class", "Id", "Norm", "Trust"], "Class", 270)
        unseen_heading(TITLE, level=2)
    return which_field, method, dims, color


def _search_fields() -> tuple[gr.Textbox, gr.Checkbox, gr.Checkbox]:
    """Create the search field, and the choices whether it is a pattern and whether the rows are centred."""
    with gr.Row(elem_classes="controls"):
        search = gr.Textbox(FIRST_WORD, label="Word, part of a word, or id", max_lines=1, scale=3, min_width=160)
        regex = gr.Checkbox(False, label="Regex", container=False, scale=1, min_width=100)
        centring = gr.Checkbox(False, label="Centred", container=False, scale=1, min_width=100)
    return search, regex, centring


def _segmented(label: str, choices: Sequence[Any], value: Any, width: int, *classes: str, **more: Any) -> gr.Radio:
    names = ["segmented", *classes]
    return gr.Radio(choices, value=value, label=label, elem_classes=names, min_width=width, scale=1, **more)


def draw_field(opened: Sequence[Opened], which: str | None) -> Any:
    """Offer the sources that have tokens."""
    source, choices = source_of(opened, which), which_choices(opened)
    return gr.update(choices=choices, value=source.text if source else None, visible=len(choices) > 1)


def draw_matches(opened: Sequence[Opened], sought: list[Any]) -> Any:
    """Draw the tokens that contain the searched text."""
    text, pattern = sought
    return gr.update(value=match_panels(opened, text, pattern), visible=True) if text else gr.update(visible=False)


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


def take(asked: list[Any]) -> list[Any]:
    """Select the word that another tab requested."""
    return [Word.of(asked).state, one_line(str(asked[0]).strip(), width=60), list(NOT_SEARCHED)]


def write_search(state: list[Any], sought: list[Any]) -> str:
    """Return the content of the search field: the search if there is one, otherwise the word."""
    return str(sought[0]) or one_line(Word.of(state).text.strip(), width=60)


def bind_drawing(session: Session, layout: Layout, handlers: Handlers) -> None:
    """Bind the map, the neighbours of the word and the similarities of some words."""
    which, field, umaps = layout.which, layout.which_field, layout.umaps
    word, centring, chosen, near = layout.word, layout.centring, layout.chosen, [layout.words, layout.hill]
    asked = [which, layout.method, layout.dims, layout.color, word, centring]
    drawn = [layout.method, layout.plan, umaps.wanted, layout.color]
    events = [layout.method.input, layout.dims.input, layout.color.input, word.change, centring.input]
    session.redraw(draw_field, [field], inputs=[which])
    # Draw at once with the field's value, and not again when the state receives it.
    session.when([field.input], handlers.draw_map, drawn, inputs=[field, *asked[1:]])
    session.when([field.input], handlers.draw_word, near, inputs=[field, word, centring])
    session.redraw(handlers.draw_map, drawn, inputs=asked, on=events)
    session.when([umaps.done.change], handlers.draw_map, drawn, inputs=[*asked, umaps.done])
    session.redraw(handlers.draw_word, near, inputs=[which, word, centring], on=[word.change, centring.input])
    session.redraw(handlers.draw_pairs, [layout.matrix], inputs=[chosen, centring], on=[chosen.change, centring.input])
    field.input(lambda chosen: chosen, field, which, **QUIET)


def bind_search(session: Session, layout: Layout) -> None:
    """Bind the search field, and the words that other tabs request."""
    word, search, regex, sought = layout.word, layout.search, layout.regex, layout.sought
    session.asked.change(take, session.asked, [word, search, sought], **QUIET)
    safe = partial(guarded, public=session.public)
    search.input(safe(look), [search, regex, word], sought, trigger_mode="always_last", **QUIET)
    sent = [search.submit, regex.input]
    gr.on(sent, safe(choose), [search, regex], [word, sought], trigger_mode="always_last", **QUIET)
    session.redraw(draw_matches, [layout.matches], inputs=[sought], on=[sought.change])


def keep_controls(session: Session, layout: Layout) -> None:
    """Store the controls in the page's URL."""
    session.keep("map", layout.which, choices=of_sources)
    for name, component in {
        "layout": layout.method,
        "space": layout.dims,
        "colour": layout.color,
        "words": layout.chosen,
        "centred": layout.centring,
    }.items():
        session.keep(name, component)
    session.keep("word", layout.word, read=read_word, write=write_word)
    session.keep("search", layout.sought, read=read_search, write=write_sought)


def bind_selection(session: Session, layout: Layout, handlers: Handlers) -> None:
    """Bind clicks on tokens, and keep the search field in step with the word."""
    word, search, sought = layout.word, layout.search, layout.sought
    word.change(write_search, [word, sought], search, **QUIET)
    # Only values from the URL are written back: a typing visitor is already further on.
    shown_search = [search, layout.regex]
    session.restored.change(
        lambda state, sought: [write_search(state, sought), bool(sought[1])], [word, sought], shown_search, **QUIET
    )
    for row in (layout.plan, layout.words, layout.matches):
        row.select(
            handlers.pick,
            [session.due, layout.which, word, layout.centring],
            [word, search, sought],
            trigger_mode="always_last",
            **QUIET,
        )
