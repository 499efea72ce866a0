"""The Tokens tab: a map of the vocabulary, exact neighbours of a word in every source, and word pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import gradio as gr

from hfposemb.tables.table import TOKEN_CLASSES
from hfposemb.text import one_line

from ..components.events import EACH, QUIET, State
from ..components.files import kept_file
from ..components.happened import Happened
from ..components.lines import folded_controls, segmented, unseen_heading
from ..components.page_script import on_event
from ..components.plot import PanelRow
from ..findings.chosen_word import (
    FIRST_WORD,
    FIRST_WORDS,
    TABLES,
    Word,
    of_table,
    read_word,
    source_of,
    which_choices,
    with_tokens,
    write_word,
)
from ..findings.tokens.token_head import head_row, reading_row
from ..findings.tokens.token_map import AUTOMATIC, METHODS, MapControls, asked_map, map_request
from ..findings.tokens.token_neighbours import find_word, spread_panels, word_panels
from ..findings.tokens.token_search import NOT_SEARCHED, picked_word, read_search, write_sought
from ..findings.tokens.token_selection import (
    Selection,
    found_tokens,
    outlined,
    read_selection,
    rows_of,
    table_of,
    words_of,
    write_selection,
)
from ..findings.tokens.undertrained import odd_row
from ..findings.tokens.word_pairs import pair_panels
from ..limits import LONGEST_QUERY, MOST_WORDS
from ..session.address import of_sources, one_of
from ..session.opened import Opened
from ..session.state import Session

if TYPE_CHECKING:
    from hfposemb.analysis.projection.projecting import Projection

TITLE = "Tokens"
NEEDS = ("token",)


class Layout:
    """The tab's components that events use.

    States are ``word``, ``listed``, the word whose neighbours are listed, ``sought``, ``which``, ``table``, which table
    stands for the tokens, ``method``, the chosen projection, ``selection``, ``exported``, which changes when a
    selection is to be saved, and ``spread`` and ``pairs``, whether a fold is open. ``tables`` is the session that draws
    the chosen table of each source, again when a head has been read.
    """

    def __init__(self, session: Session) -> None:
        self.word, self.sought = State(Word(FIRST_WORD)), State(list(NOT_SEARCHED))
        self.selection = State(Selection())
        choices = which_choices(session.open(session.first))
        # Keep the choice in a state: the field would send a choice it no longer offers, which Gradio refuses.
        self.which = State(choices[0][1] if choices else None)
        unseen_heading(TITLE, level=2)
        with gr.Row(equal_height=False):
            with gr.Column(scale=5, min_width=320, elem_classes="tokens-card"):
                folded_controls()
                with gr.Row(elem_classes="controls"):
                    self._toolbar(choices, self.which.value)
                with gr.Row(elem_classes="tokens-work"):
                    self.table = State("token")
                    read = reading_row(session, self.table, "head")
                    self.tables = session.through(partial(of_table, session), self.table, read.change)
                    self.umaps = session.jobs.bind(partial(map_request, session), label="Map")
                self.plan = PanelRow(scope=session.scope, reserve=781)
            with gr.Column(scale=3, min_width=320):
                self._search_fields()
                self.found = PanelRow((), scope=session.scope, visible=False)
                self.words = PanelRow(scope=session.scope, reserve=638)
        with gr.Column(elem_classes="tokens-folds"):
            self.pairs_box, self.pairs = session.fold("pairs", "Compare words: which pairs are close?")
            with self.pairs_box:
                with gr.Row(elem_classes="controls"):
                    label = f"Compare words (separate with commas, up to {MOST_WORDS})"
                    self.chosen = gr.Textbox(FIRST_WORDS, label=label, max_lines=1)
                self.matrix = PanelRow((), scope=session.scope)
            box, self.spread = session.fold("spread", "How unusual is such a cosine?")
            with box:
                self.hill = PanelRow((), scope=session.scope)
            _own_folds(session, self.table, self.which, self.which_field, [self.word, self.search, self.sought])
        self.listed = State(Word(FIRST_WORD))
        self.exported = State("")
        self.save = gr.DownloadButton(visible="hidden", elem_id=f"tokens-{session.scope}")
        self.method = State(AUTOMATIC)

    def _toolbar(self, choices: Sequence[Any], first: str | None) -> None:
        """Create the map's controls."""
        self.which_field = segmented("Source", choices, first, 204, "names", scale=0, visible=len(choices) > 1)
        self.table_field = segmented("Table", list(TABLES.items()), "token", 159, scale=0, visible=False)
        self.method_field = segmented("Projection", list(METHODS), "UMAP", 139, "seldom", scale=0)
        self.dims = segmented("Dimensions", ["2-D", "3-D"], "2-D", 114, "seldom", scale=0)
        self.color = segmented("Colour", ["Class", "Id", "Norm", "Trust"], "Class", 244, "seldom", scale=0)

    def _search_fields(self) -> None:
        """Create the search field, and the choices whether it is a pattern and whether the rows are centred."""
        with gr.Row(elem_classes="controls"):
            self.search = gr.Textbox(
                FIRST_WORD, label="Word, part of a word, or id", max_lines=1, scale=3, min_width=130
            )
            self.regex = gr.Checkbox(False, label="Regex", container=False)
            self.centring = gr.Checkbox(False, label="Centred", container=False)


@dataclass(frozen=True)
class Handlers:
    """What the tab draws, and what a click on a token does."""

    session: Session

    def shown(self, due: list[Any], table: str) -> tuple[Opened, ...]:
        """Return the sources that the tab is drawn with, with the table that stands for their tokens."""
        return of_table(self.session, self.session.shown(due), table)

    def draw_map(
        self, opened: Sequence[Opened], which: str | None, method: str, dims: str, color: str, *values: Any
    ) -> list[Any]:
        """Draw the map; ``values`` are its other two controls, and the outcome of its job once that has ended."""
        return asked_map(self.session, opened, MapControls(which, method, dims, color, *values[:2]), *values[2:])

    def draw_word(self, opened: Sequence[Opened], word: Word, centred: bool) -> list[Any]:
        """Draw the neighbours of the word, and return the word, which has its neighbours now."""
        return [word_panels(self.session, opened, word, centred=centred), word]

    def draw_spread(self, opened: Sequence[Opened], which: str | None, word: Word, centred: bool) -> Any:
        """Draw how unusual the neighbours of the word are."""
        return spread_panels(self.session, source_of(opened, which), word, centred=centred)

    def draw_pairs(self, opened: Sequence[Opened], text: str, centred: bool) -> Any:
        """Draw the similarities of some words."""
        return pair_panels(self.session, opened, text, centred=centred)

    def draw_found(self, opened: Sequence[Opened], which: str | None, sought: list[Any], chosen: Selection) -> Any:
        """Draw the tokens that are searched or selected, which also stand out on the map."""
        row = found_tokens(self.session, opened, source_of(opened, which), sought, chosen)
        return gr.update(visible=False) if row is None else gr.update(value=row, visible=True)

    def pick(
        self, due: list[Any], table: str, which: str | None, word: Word, centred: bool, happened: Happened
    ) -> list[Any]:
        """Select the token that was clicked: a dot of the map, or a row of a list."""
        told, sources = happened.told, with_tokens(self.shown(due, table))
        if told.get("panel") == "neighbours":
            found = [find_word(self.session, source, word, centred=centred) for source in sources]
            sources = [one.source for one in found if one.near is not None]
        if told.get("panel") in ("map", "selection"):
            source, row = source_of(sources, which), told.get("index", told.get("id"))
            if told.get("panel") == "map" and told.get("group") != "token":
                return [gr.skip()] * 3
        else:
            place, row = told.get("list"), told.get("id")
            source = sources[place] if isinstance(place, int) and 0 <= place < len(sources) else None
        return picked_word(source, row)

    def select(
        self, due: list[Any], table: str, which: str | None, method: str, word: Word, happened: Happened
    ) -> list[Any]:
        """Select the tokens of a class, or those within a shape drawn on the map, in place of a search."""
        told, source = happened.told, source_of(self.shown(due, table), which)
        if source is None:
            return [gr.skip()] * 3
        if told.get("legend") in TOKEN_CLASSES:
            chosen: Selection | None = Selection("class", told["legend"])
        elif "area" in told:
            drawn = self._projection(source, method)
            chosen = None if drawn is None else outlined(told["area"], drawn, source)
        else:
            return [gr.skip()] * 3
        if not chosen:
            return [gr.skip()] * 3
        return [chosen, list(NOT_SEARCHED), write_search(word, NOT_SEARCHED)]

    def _projection(self, source: Opened, method: str) -> Projection | None:
        return self.session.projection(source.tokens, method.lower(), 2) or self.session.pca(source.tokens, 2)

    def act(
        self,
        due: list[Any],
        table: str,
        which: str | None,
        sought: list[Any],
        chosen: Selection,
        word: Word,
        happened: Happened,
    ) -> list[Any]:
        """Clear the selection, compare its first words, or save it: what its buttons do.

        Return the selection, the search and its field, the words to compare, their fold, whether it is open, and
        ``exported``.
        """
        kept = [gr.skip()] * 7
        match happened.get("action"):
            case "Clear":
                return [Selection(), list(NOT_SEARCHED), write_search(word, NOT_SEARCHED), *kept[3:]]
            case "CSV":
                return [*kept[:6], uuid4().hex]
            case "Compare":
                source = source_of(self.shown(due, table), which)
                if source is None:
                    return kept
                rows = rows_of(self.session, source, sought, chosen)
                words = words_of(source.tokens, rows, MOST_WORDS)
                return [*kept[:3], words, gr.update(open=True), True, gr.skip()] if words else kept
        return kept

    def hand_over(self, due: list[Any], table: str, which: str | None, sought: list[Any], chosen: Selection) -> Any:
        """Give the page the selected tokens as a file."""
        source = source_of(self.shown(due, table), which)
        if source is None:
            return gr.update(value=None)
        rows = rows_of(self.session, source, sought, chosen)
        return gr.update(value=kept_file(table_of(source.tokens, rows), "tokens.csv"))

    @staticmethod
    def draw_field(opened: Sequence[Opened], which: str | None) -> Any:
        """Offer the sources that have tokens, or a head."""
        source, choices = source_of(opened, which), which_choices(opened)
        return gr.update(choices=choices, value=source.text if source else None, visible=len(choices) > 1)


def tab(session: Session) -> None:
    """Create and bind the tab."""
    layout, handlers = Layout(session), Handlers(session)
    bind_drawing(session, layout, handlers)
    bind_search(session, layout)
    keep_controls(session, layout)
    bind_words(session, layout, handlers)
    bind_selection(session, layout, handlers)


def _own_folds(session: Session, table: gr.State, which: gr.State, field: gr.Radio, picked: Sequence[Any]) -> None:
    """Create the folds that bind their own events; ``picked`` are the components that a click on a token sets."""
    box, unfolded = session.fold("heads", "Token table and output head: are they one table?")
    with box:
        head_row(session, picked, unfolded)
    box, unfolded = session.fold("odd", "Odd tokens: which did training hardly touch?")
    with box:
        odd_row(session, [table, which], field, picked, unfolded)


def draw_table_field(opened: Sequence[Opened], table: str) -> Any:
    """Offer the output head if a source has one of its own."""
    untied = any(source.untied for source in opened)
    return gr.update(value=table if untied else "token", visible=untied)


def look(text: str, regex: bool, word: Word) -> Any:
    """Search for labels that contain the text while it is typed; a pattern is searched for once it is complete."""
    if regex:
        return gr.skip()
    if text.strip() in ("", word.text.strip()):
        return list(NOT_SEARCHED)
    return [text.strip()[:LONGEST_QUERY], False]


def choose(text: str, regex: bool) -> list[Any]:
    """Use the text as the word, or search for it if it is a pattern."""
    wanted = text.strip()[:LONGEST_QUERY]
    if not wanted or regex:
        return [gr.skip(), [wanted, bool(wanted)]]
    return [Word(wanted), list(NOT_SEARCHED)]


def take(asked: list[Any]) -> Any:
    """Select the word that another tab requested, if one has."""
    if not asked:
        return gr.skip()
    return [Word(*asked[:3]), one_line(str(asked[0]).strip(), width=60), list(NOT_SEARCHED)]


def write_search(word: Word, sought: Sequence[Any]) -> str:
    """Return the content of the search field: the search if there is one, otherwise the word."""
    return str(sought[0]) or one_line(word.text.strip(), width=60)


def bind_drawing(session: Session, layout: Layout, handlers: Handlers) -> None:
    """Bind the map, the neighbours of the word and the similarities of some words."""
    which, field, umaps, method = layout.which, layout.which_field, layout.umaps, layout.method
    word, centring, chosen, table, tables = layout.word, layout.centring, layout.chosen, layout.table, layout.tables
    asked = [which, method, layout.dims, layout.color, word, centring]
    drawn = [method, layout.plan, umaps.wanted, layout.color, layout.method_field]
    events = [method.change, layout.dims.input, layout.color.input, centring.input]
    tables.redraw(handlers.draw_field, [field], inputs=[which])
    session.redraw(draw_table_field, [layout.table_field], inputs=[table], on=[table.change])
    listed, events_of_word = [layout.words, layout.listed], [word.change, centring.input]
    tables.redraw(handlers.draw_word, listed, inputs=[word, centring], on=events_of_word)
    # Draw at once with the field's value, and not again when the state receives it.
    tables.when([field.input], handlers.draw_map, drawn, inputs=[field, *asked[1:]])
    # The word is marked on the map once its neighbours are listed: drawing a large vocabulary keeps a page busy longer.
    tables.redraw(handlers.draw_map, drawn, inputs=asked, on=events, after=[layout.listed.change])
    tables.when([umaps.done.change], handlers.draw_map, drawn, inputs=[*asked, umaps.done])
    asked, events = [which, word, centring], [which.change, *events_of_word]
    tables.redraw(handlers.draw_spread, [layout.hill], inputs=asked, on=events, within=layout.spread)
    asked, events = [chosen, centring], [chosen.change, centring.input]
    tables.redraw(handlers.draw_pairs, [layout.matrix], inputs=asked, on=events, within=layout.pairs)
    field.input(_same, field, which, **QUIET)
    layout.table_field.input(_same, layout.table_field, table, **QUIET)
    layout.method_field.input(_same, layout.method_field, method, **QUIET)


def bind_search(session: Session, layout: Layout) -> None:
    """Bind the search field, and the words that other tabs request."""
    word, search, regex, sought = layout.word, layout.search, layout.regex, layout.sought
    gr.on([session.asked.change, *session.loads], take, session.asked, [word, search, sought], **QUIET)
    search.input(look, [search, regex, word], sought, trigger_mode="always_last", **QUIET)
    sent = [search.submit, regex.input]
    gr.on(sent, choose, [search, regex], [word, sought], trigger_mode="always_last", **QUIET)


def keep_controls(session: Session, layout: Layout) -> None:
    """Store the controls in the page's URL."""
    session.keep("map", layout.which, choices=of_sources)
    session.keep("table", layout.table, read=one_of(list(TABLES.values())))
    session.keep("layout", layout.method, read=one_of(METHODS))
    session.keep("space", layout.dims)
    session.keep("colour", layout.color)
    session.keep("words", layout.chosen)
    session.keep("centred", layout.centring)
    session.keep("word", layout.word, read=read_word, write=write_word)
    session.keep("search", layout.sought, read=read_search, write=write_sought)
    session.keep("selection", layout.selection, read=read_selection, write=write_selection)


def bind_words(session: Session, layout: Layout, handlers: Handlers) -> None:
    """Bind clicks on tokens, and keep the search field in step with the word."""
    word, search, sought = layout.word, layout.search, layout.sought
    word.change(write_search, [word, sought], search, **QUIET)
    # Only values from the URL are written back: a typing visitor is already further on.
    shown_search = [search, layout.regex]
    gr.on(
        [session.restored.change, *session.loads],
        lambda word, sought: [write_search(word, sought), bool(sought[1])],
        [word, sought],
        shown_search,
        **QUIET,
    )
    gr.on(
        [row.select for row in (layout.plan, layout.words, layout.found)],
        handlers.pick,
        [session.due, layout.table, layout.which, word, layout.centring],
        [word, search, sought],
        **EACH,
    )


def bind_selection(session: Session, layout: Layout, handlers: Handlers) -> None:
    """Bind the selection: what makes it, what shows it, and what its buttons do."""
    which, sought, selection = layout.which, layout.sought, layout.selection
    asked = [which, sought, selection]
    layout.tables.redraw(handlers.draw_found, [layout.found], inputs=asked, on=[one.change for one in asked])
    drawn = [session.due, layout.table, which, layout.method_field, layout.word]
    layout.plan.select(handlers.select, drawn, [selection, sought, layout.search], **EACH)
    done = [selection, sought, layout.search, layout.chosen, layout.pairs_box, layout.pairs, layout.exported]
    shown = [session.due, layout.table, *asked]
    layout.found.select(handlers.act, [*shown, layout.word], done, **EACH)
    saved = layout.exported.change(handlers.hand_over, shown, layout.save, **QUIET)
    saved.then(None, layout.save, js=on_event("saveFile"), **QUIET)


def _same(value: Any) -> Any:
    return value
