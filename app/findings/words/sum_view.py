"""A source with the visitor's choices (sentence, positions, amplitude), and all measurements of the sum."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from hfposemb.analysis.rows import directed
from hfposemb.composition.added_positions import WHOSE, AddedPositions, PositionAddition, add_positions
from hfposemb.composition.amplitude_sweep import (
    MovedNeighbours,
    Sweep,
    moved_neighbours,
    retention_at,
    retention_in_place,
    step_of,
    sweep_amplitude,
)
from hfposemb.composition.anchor_words import AnchorSimilarity, anchor_similarity
from hfposemb.composition.neighbour_retention import Overlap, subspace_overlap
from hfposemb.composition.sum_and_concatenation import (
    Interference,
    SumBesideConcatenation,
    concatenation_beside,
    interference,
)
from hfposemb.composition.variance_decomposition import SumCloud, sum_cloud
from hfposemb.composition.word_mixture import Mixture, mixture
from hfposemb.errors import HfposembError
from hfposemb.figures.palette import SOURCES
from hfposemb.lazy_attributes import lazy_attribute
from hfposemb.tables.table import TOKEN_CLASSES, EmbeddingTable
from hfposemb.text import number, one_line, percent, sentence_case

from ...components.help_texts import HELP
from ...components.page_script import on_load
from ...components.plot import Panel
from ...components.recipe import Recipe
from ...recipes.writing import SENTENCE_ROLES, Code, extracted, quoted, recipe
from ...session.opened import Opened
from ...session.state import Session
from ..chosen_word import Word, row_of, shown, source_of
from ..start.model_input import SENTENCE

if TYPE_CHECKING:
    from hfposemb.tables.inputs import Inputs


T = TypeVar("T")
P = ParamSpec("P")
FIRST_WORD = "king"
FIRST_ANCHORS = ("queen", "father", "bread")
EXAMPLES = ("paris", "seven", "red", "water", "##ing", "and")
WORDS_SHOWN = 8  # in the map and in the cloud
PLACES_SHOWN = 128  # in the map
CLOUD_PLACES = 64
PIECES_SHOWN = 40  # pieces of a sentence that are shown with what they keep
NEIGHBOURS = 10
OVERLAP_DRAWS = 50
SCALES = tuple(float(scale) for scale in 2.0 ** np.arange(-5, 5.5, 0.5))  # of positions, to find the window
CALLED = {"own": "The model’s own", "sinusoid": "Sinusoid", "random": "Random"}
STYLES = {
    "own": (SOURCES[0].colour.light, "solid"),
    "sinusoid": (SOURCES[2].colour.light, "dash"),
    "random": (SOURCES[1].colour.light, "dot"),
}


@dataclass(frozen=True)
class Asked:
    """The visitor's choices: sentence, previous sentence, kind and scale of positions, amplitude, word, anchors."""

    text: str
    before: str
    whose: str
    scaled: bool
    amplitude: float
    word: int
    anchors: tuple[str, ...]


@dataclass(frozen=True)
class View:
    """One source with the visitor's choices; every measurement is computed once for all visitors."""

    session: Session
    source: Opened
    asked: Asked

    @property
    def table(self) -> EmbeddingTable:
        """The token table of the source."""
        assert self.source.embeddings is not None
        return self.source.embeddings.token

    @property
    def times(self) -> str:
        """The amplitude as text."""
        return f"{number(self.asked.amplitude, digits=2).rstrip('0').rstrip('.') or '0'}×"

    @property
    def step(self) -> int:
        """Index of the amplitude among the measured ones."""
        return step_of(self.asked.amplitude)

    def _result(self, what: tuple[Any, ...], maker: Callable[[], T]) -> T:
        own = self.source.table("position")
        library = self.session.library
        key = ("words", self.source.text, () if own is None else library.result_key(own, ()), *what)
        return self.session.library.result(self.table, key, maker)

    def adding(self, whose: str) -> PositionAddition:
        """Return the protocol for one kind of positions."""
        return PositionAddition(whose, scaled=self.asked.scaled)  # type: ignore[arg-type]

    def words(self, whose: str) -> AddedPositions:
        """Return words and positions of one kind. Raises ``HfposembError`` if they cannot be added."""
        assert self.source.embeddings is not None
        return add_positions(self.source.embeddings, self.adding(whose))

    @lazy_attribute
    def chosen(self) -> AddedPositions:
        """Words and the chosen positions."""
        return self.words(self.asked.whose)

    @lazy_attribute
    def sweeps(self) -> dict[str, Sweep]:
        """Results at every amplitude, by kind of positions; kinds that cannot be added are missing."""
        found: dict[str, Sweep] = {}
        for whose in WHOSE:
            try:
                found[whose] = self._sweep(whose)
            except HfposembError:
                continue  # the panels of the chosen kind show the reason
        return found

    def _sweep(self, whose: str) -> Sweep:
        key = ("sweep", self.adding(whose))
        return self._result(key, lambda: sweep_amplitude(self.words(whose), k=NEIGHBOURS))

    @lazy_attribute
    def inputs(self) -> Inputs:
        """The model's input for the sentence. Raises ``HfposembError`` if there is none."""
        return self.fed(self.asked.text)

    def fed(self, text: str) -> Inputs:
        """Return the model's input for a text."""
        assert self.source.embeddings is not None
        return self._result(("inputs", text), lambda: self.source.embeddings.inputs(text))  # type: ignore[union-attr]

    def special(self, token: int) -> bool:
        """Return whether a token is a special token, not a word."""
        return TOKEN_CLASSES[self.table.labels.classes[token]] == "special"

    @lazy_attribute
    def pieces(self) -> list[int]:
        """Indices of the sentence's pieces that are words."""
        return [place for place, token in enumerate(self.inputs.ids.tolist()) if not self.special(token)]

    @lazy_attribute
    def place(self) -> int:
        """Index of the chosen piece: the clicked one, otherwise “king”, otherwise the longest."""
        if not self.pieces:
            raise HfposembError(f"enter at least one word, such as in “{SENTENCE}”")
        if self.asked.word in self.pieces:
            return self.asked.word
        named = [place for place in self.pieces if self.inputs.pieces[place].strip() == FIRST_WORD]
        return named[0] if named else max(self.pieces, key=lambda place: len(self.inputs.pieces[place]))

    @property
    def token(self) -> int:
        """Token id of the chosen piece."""
        return int(self.inputs.ids[self.place])

    @property
    def position(self) -> int:
        """Position of the chosen piece."""
        return int(self.inputs.positions[self.place])

    @property
    def word(self) -> str:
        """Text of the chosen piece."""
        return shown(self.inputs.pieces[self.place])

    def in_place(self) -> dict[int, float]:
        """Return the share of neighbours each word of the sentence keeps, by its index in the sentence."""
        listed = set(self.pieces[:PIECES_SHOWN])
        places = [place for place in addable(self.chosen, self.table, self.inputs) if place in listed]
        if not places:
            return {}
        rows, where = self.inputs.ids[places], self.inputs.positions[places]
        found = self._result(
            ("in place", self.adding(self.asked.whose), tuple(rows), tuple(where)),
            lambda: retention_in_place(self.chosen, rows, where, k=NEIGHBOURS),
        )
        return dict(zip(places, found[self.step].tolist(), strict=True))

    def overlap(self) -> Overlap:
        """Return the share of the words' variance in the leading directions of the model's own positions."""
        embeddings = self.source.embeddings
        assert embeddings is not None
        return self._result(("overlap",), lambda: subspace_overlap(embeddings, draws=OVERLAP_DRAWS))

    def lists(self) -> MovedNeighbours:
        """Return the neighbours of the chosen word, alone and in its place."""
        return self._result(
            ("lists", self.adding(self.asked.whose), self.token, self.position, self.asked.amplitude),
            lambda: moved_neighbours(
                self.chosen, self.token, self.position, amplitude=self.asked.amplitude, k=NEIGHBOURS
            ),
        )

    @lazy_attribute
    def anchor_rows(self) -> dict[str, int]:
        """The anchor words that the source has, with their rows, except the chosen word itself."""
        found = {word: row_of(self.table, Word(word), self.source.text) for word in self.asked.anchors}
        return {word: row for word, row in found.items() if row is not None and row != self.token}

    def anchors(self) -> AnchorSimilarity:
        """Return how close the chosen word stays to the anchor words."""
        rows = tuple(self.anchor_rows.values())
        return self._result(
            ("anchors", self.adding(self.asked.whose), self.token, rows),
            lambda: anchor_similarity(self.chosen, self.token, np.array(rows, np.int64)),
        )

    def mixture(self) -> Mixture:
        """Return the chosen word as a mixture of others, alone and with every position added."""
        places = np.flatnonzero(self.chosen.usable)
        return self._result(
            ("mixture", self.adding(self.asked.whose), self.token, self.asked.amplitude),
            lambda: mixture(self.chosen, self.token, positions=places, amplitude=self.asked.amplitude),
        )

    def concatenation(self) -> SumBesideConcatenation:
        """Return what is recovered from the sum and from the concatenation at every amplitude."""
        key = ("concatenation", self.adding(self.asked.whose))
        return self._result(key, lambda: concatenation_beside(self.chosen, self._sweep(self.asked.whose)))

    def interference(self) -> Interference:
        """Return how far words and the chosen positions overlap, by width."""
        return self._result(("interference", self.adding(self.asked.whose)), lambda: interference(self.chosen))

    def window(self, adding: PositionAddition) -> Sweep:
        """Return what is recovered with positions of 1/32 to 32 times their size."""
        assert self.source.embeddings is not None
        words = partial(add_positions, self.source.embeddings, adding)
        return self._result(("window", adding), lambda: sweep_amplitude(words(), amplitudes=SCALES))

    @lazy_attribute
    def sample(self) -> dict[str, int]:
        """The words of the sentence, supplemented by examples from the vocabulary, with their rows."""
        found: dict[str, int] = {}
        order = [self.place, *(place for place in self.pieces if place != self.place)]
        for place in order:
            found.setdefault(shown(self.inputs.pieces[place]), int(self.inputs.ids[place]))
        for word in EXAMPLES:
            if (row := self.table.labels.find(word)) is not None:
                found.setdefault(word, row)
        known = directed(self.table)
        return dict([(word, row) for word, row in found.items() if known[row]][:WORDS_SHOWN])

    def map(self) -> np.ndarray:
        """Return the share that each sample word keeps at the first places [words, places]; NaN without a vector."""
        rows, places = tuple(self.sample.values()), np.flatnonzero(self.chosen.usable[:PLACES_SHOWN])
        found = self._result(
            ("map", self.adding(self.asked.whose), rows),
            lambda: retention_at(self.chosen, np.array(rows), places, k=NEIGHBOURS).astype(np.float32),
        )
        out = np.full((len(rows), min(PLACES_SHOWN, len(self.chosen.usable))), np.nan, np.float32)
        out[:, places] = found[self.step]
        return out

    def cloud(self) -> SumCloud:
        """Return the sample words, each at some inner places."""
        assert self.source.embeddings is not None
        inner = self.chosen.inner[:CLOUD_PLACES]
        return sum_cloud(self.chosen, self.source.embeddings, np.array(list(self.sample.values())), inner)

    def recipe(self, name: str, **values: Any) -> Recipe:
        """Return a section of ``snippets.md`` for the source, with its words and the chosen positions as ``$words``."""
        words = Code(f"words = hpe.add_positions({extracted(self.source)}, {added(self.chosen.adding)})")
        return recipe(name, [self.source], roles=SENTENCE_ROLES, words=words, **values)

    def of_cloud(self, what: str, maker: Callable[[SumCloud], T], *more: Any) -> T:
        """Return a result computed from the cloud, cached."""
        key = (what, self.adding(self.asked.whose), tuple(sorted(self.sample.values())), *more)
        return self._result(key, lambda: maker(self.cloud()))


def addable(words: AddedPositions, table: EmbeddingTable, inputs: Inputs) -> list[int]:
    """Return the indices of a text's pieces whose word and position both have a vector with a direction."""
    known, usable = directed(table), words.usable
    pieces = enumerate(zip(inputs.ids.tolist(), inputs.positions.tolist(), strict=True))
    return [place for place, (token, at) in pieces if known[token] and 0 <= at < len(usable) and usable[at]]


def added(adding: PositionAddition) -> Code:
    """Return the expression for a protocol."""
    return Code(f"hpe.PositionAddition({quoted(adding.whose)}{'' if adding.scaled else ', scaled=False'})")


def drawn_or_said(
    key: str, title: str, told: str, **more: Any
) -> Callable[[Callable[Concatenate[View, Panel, P], Panel]], Callable[Concatenate[View, P], Panel]]:
    """Let a function that completes an empty panel return one that says why, if it cannot be drawn.

    ``told`` names the help of the panel, and ``{source}`` in the title is the source.
    """

    def decorated(draw: Callable[Concatenate[View, Panel, P], Panel]) -> Callable[Concatenate[View, P], Panel]:
        @wraps(draw)
        def panel(view: View, /, *given: P.args, **options: P.kwargs) -> Panel:
            empty = Panel(key, title.format(source=view.source.name), help=HELP[told], **more)
            try:
                return draw(view, empty, *given, **options)
            except HfposembError as error:
                return replace(empty, message=f"{sentence_case(one_line(str(error)))}.")

        return panel

    return decorated


def view_of(session: Session, opened: Sequence[Opened], which: str | None, asked: Asked) -> View | None:
    """Return the selected source with the visitor's choices; ``None`` if no source has words."""
    source = source_of(opened, which)
    return None if source is None else View(session, source, asked)


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
