"""The Words + positions tab: why adding positions does not destroy the meaning, and when it does."""

from __future__ import annotations

import html
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import gradio as gr
import numpy as np

from hfposemb.analysis.rows import directed
from hfposemb.composition.added_positions import WHOSE, Added, Adding, added
from hfposemb.composition.amplitude_sweep import AMPLITUDES, Moved, Sweep, kept_at, kept_in_place, moved, step_of, sweep
from hfposemb.composition.anchor_words import Anchors, anchored
from hfposemb.composition.neighbour_retention import Overlap, subspace_overlap
from hfposemb.composition.variance_decomposition import Cloud, cloud
from hfposemb.composition.word_order import Reordered, reordered, turned_round
from hfposemb.errors import HfposembError
from hfposemb.figures import line_figures, token_figures
from hfposemb.figures.palette import CLASSES, PALETTE, POSITION, SHARE, SOURCES
from hfposemb.figures.style import Axis, Series, listed, number
from hfposemb.tables.table import TOKEN_CLASSES, EmbeddingTable

from ..components.events import QUIET
from ..components.hidden import State
from ..components.plot import Drawing, LegendItem, NeighbourList, NeighbourRow, Panel, PanelRow, Panels, ScaleBar
from ..findings import logits
from ..recipes import snippets
from ..server.limits import LONGEST_SENTENCE, MOST_WORDS
from ..session.address import number_up_to, of_sources, text_up_to
from ..session.state import Opened, Session, one_line, unseen_heading
from .positions import FILES, percent
from .start import SENTENCE, input_panel
from .tokens import Word, nearest_spelling, row_of, shown, which_choices, with_tokens

if TYPE_CHECKING:
    from hfposemb.tables.inputs import Inputs

TITLE = "Words + positions"
NEEDS = logits.NEEDS

T = TypeVar("T")

FIRST_WORD = "king"
FIRST_ANCHORS = ("queen", "father", "bread")
EXAMPLES = ("paris", "seven", "red", "water", "##ing", "and")
WORDS_SHOWN = 8  # in the map and in the cloud
PLACES_SHOWN = 128  # the first of them
CLOUD_PLACES = 64
PIECES_SHOWN = 40  # of a sentence, each with what it keeps
NEIGHBOURS = 10
OVERLAP_DRAWS = 50

CALLED = {"own": "The model’s own", "sinusoid": "Sinusoid", "random": "Random"}
STYLES = {
    "own": (SOURCES[0].colour.light, "solid"),
    "sinusoid": (SOURCES[2].colour.light, "dash"),
    "random": (SOURCES[1].colour.light, "dot"),
}
ANCHOR_COLOURS = (*(source.colour.light for source in SOURCES), CLASSES["continuation"].light, CLASSES["unused"].light)
SCALED, UNSCALED = "One mean norm", "Their own norm"

AMPLITUDE_HELP = """
What goes in is x + A·p: x the row of the word in the token table, p that of its place in the position table. The model
itself uses A = 1. The share under each word says how many of its ten nearest neighbours among all tokens, by cosine,
are still among the ten nearest of the sum.

Adding does not overwrite. In hundreds of dimensions two vectors that know nothing of each other are almost at right
angles, so a position moves a word to the side, and seldom towards another word. Where positions keep to directions in
which words hardly differ, fewer than by chance, the two stay apart. Chance: subspaces drawn with the words’ own
covariance, 95 % of 50, after an observation on GPT-2 by Simon (2023).
"""
SURVIVAL_HELP = """
500 words are drawn, each gets a random position, and the ten nearest tokens of x + A·p are compared with those of x.
The tokens that are searched get no position. The band is the 2.5–97.5 % interval over resampled words (bootstrap,
Efron 1979). Random neighbours would keep ten in the size of the vocabulary.

Where sinusoid and random positions are scaled, they have the mean norm of the model’s own, so that only their
direction differs. At their own norm the sinusoid is √(d/2) long (Vaswani et al. 2017, who multiply words by √d to
keep up with it), random ones 0.02·√d.
"""
LISTS_HELP = """
The ten tokens nearest to the word alone, and to its sum with the vector of its place, by cosine, exact over every
token. Click a word of the sentence to see another; click a neighbour to follow it among the anchor words.
"""
ANCHOR_HELP = """
The cosine of x + A·p with words of your choice, on average over all inner positions p; the band holds 95 % of them.
All of them shrink as the position grows, since it takes a share of the length. What matters is that they keep their
order, and stay away from the grey band, which holds 95 % of the cosines with random tokens.
"""
RECOVERY_HELP = """
The word is told by the token nearest to the sum, by distance. The position is told by a linear map, the discriminant
yᵀΣ⁻¹(A·p) − ½(A·p)ᵀΣ⁻¹(A·p) (Fisher 1936), where Σ is how tokens scatter, estimated on tokens that are not tested. So
a linear layer, such as a query or key of attention, can read both out of the sum.

Side by side instead of added, both would be told exactly at every amplitude, at the price of twice the width.
"""
MAP_HELP = """
Each strip is a word, each column a position: how many of the word’s ten nearest neighbours are left there, at the
chosen amplitude. Many tables give position 0 a vector of its own kind, longer than the others.
"""
CLOUD_HELP = """
Some words, each at the first places, as the first layer gets them: summed and normalised as the model does it, or
brought to length 1 where it normalises only later. Both pictures are the same two principal components, coloured by
word and by position. Words that gather in clubs of their own are still words; clubs of one position have forgotten
them.
"""
VARIANCE_HELP = """
Analysis of variance (Fisher 1925): the variance of the whole cloud is exactly that of the words’ means, plus that of
the positions’ means, plus a rest, what a word does at one place and not at others. Without the normalisation the rest
is exactly 0, since a sum has no interaction. Dotted: the share of words where the same vectors are dealt out blindly.
"""
REORDER_HELP = """
Token vectors alone are a bag of words: another order feeds the same vectors, and attention, which only compares them,
would answer the same. Positions are added to tell the orders apart. Each row is a word with its place in both orders,
and the cosine of its two inputs.

Models with rotary positions, ALiBi or T5’s biases add nothing here. Their inputs are the same in every order, and order
comes in where attention compares two places.
"""


# --- what is looked at ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """What the visitor chose: a sentence and the one before it, whose positions, how large, and a word of it."""

    text: str
    before: str
    whose: str
    scaled: bool
    amplitude: float
    word: int
    anchors: tuple[str, ...]


@dataclass(frozen=True)
class View:
    """One source with what was asked of it: everything that is measured, once for everybody."""

    session: Session
    source: Opened
    asked: Asked

    @property
    def table(self) -> EmbeddingTable:
        """The tokens of the source."""
        assert self.source.embeddings is not None
        return self.source.embeddings.token

    @property
    def times(self) -> str:
        """The amplitude as it is written."""
        return f"{number(self.asked.amplitude, digits=2).rstrip('0').rstrip('.') or '0'}×"

    @property
    def step(self) -> int:
        """The place of the amplitude among those that are measured."""
        return step_of(self.asked.amplitude)

    def _result(self, what: tuple[Any, ...], maker: Callable[[], T]) -> T:
        own = self.source.table("position")
        library = self.session.library
        key = ("words", self.source.text, () if own is None else library.result_key(own, ()), *what)
        return self.session.library.result(self.table, key, maker)

    def adding(self, whose: str) -> Adding:
        """Return the protocol for one kind of positions."""
        return Adding(whose, scaled=self.asked.scaled)  # type: ignore[arg-type]

    def words(self, whose: str) -> Added:
        """Return words and positions of one kind. Raises ``HfposembError`` where they cannot be added."""
        assert self.source.embeddings is not None
        return added(self.source.embeddings, self.adding(whose))

    @cached_property
    def chosen(self) -> Added:
        """Words and the positions that were asked for."""
        return self.words(self.asked.whose)

    @cached_property
    def sweeps(self) -> dict[str, Sweep]:
        """What is left at every amplitude, by whose positions; without those that cannot be added."""
        found = {}
        for whose in WHOSE:
            try:
                found[whose] = self._result(
                    ("sweep", self.adding(whose)), lambda whose=whose: sweep(self.words(whose), k=NEIGHBOURS)
                )
            except HfposembError:
                continue  # the panels of the chosen ones say why
        return found

    @cached_property
    def inputs(self) -> Inputs:
        """What the sentence feeds. Raises ``HfposembError`` where it cannot be fed."""
        return self.fed(self.asked.text)

    def fed(self, text: str) -> Inputs:
        """Return what a text feeds."""
        assert self.source.embeddings is not None
        return self._result(("inputs", text), lambda: self.source.embeddings.inputs(text))  # type: ignore[union-attr]

    def special(self, token: int) -> bool:
        """Tell whether a token is a mark of the model and no word."""
        return TOKEN_CLASSES[self.table.labels.classes[token]] == "special"

    @cached_property
    def pieces(self) -> list[int]:
        """The places, in the sentence, of its pieces that are words."""
        return [place for place, token in enumerate(self.inputs.ids.tolist()) if not self.special(token)]

    @cached_property
    def place(self) -> int:
        """The place of the chosen piece: the one that was clicked, else “king”, else the longest."""
        if not self.pieces:
            raise HfposembError(f"write a word, such as in “{SENTENCE}”")
        if self.asked.word in self.pieces:
            return self.asked.word
        named = [place for place in self.pieces if self.inputs.pieces[place].strip() == FIRST_WORD]
        return named[0] if named else max(self.pieces, key=lambda place: len(self.inputs.pieces[place]))

    @property
    def token(self) -> int:
        """The token of the chosen piece."""
        return int(self.inputs.ids[self.place])

    @property
    def position(self) -> int:
        """The position of the chosen piece."""
        return int(self.inputs.positions[self.place])

    @property
    def word(self) -> str:
        """The chosen piece as it is written."""
        return shown(self.inputs.pieces[self.place])

    def in_place(self) -> dict[int, float]:
        """Return what each word of the sentence keeps in its place, by its place in the sentence."""
        usable, known = self.chosen.usable, directed(self.table)
        places = [
            place
            for place in self.pieces[:PIECES_SHOWN]
            if known[self.inputs.ids[place]]
            and 0 <= self.inputs.positions[place] < len(usable)
            and usable[self.inputs.positions[place]]
        ]
        if not places:
            return {}
        rows, where = self.inputs.ids[places], self.inputs.positions[places]
        found = self._result(
            ("in place", self.adding(self.asked.whose), tuple(rows), tuple(where)),
            lambda: kept_in_place(self.chosen, rows, where, k=NEIGHBOURS),
        )
        return dict(zip(places, found[self.step].tolist(), strict=True))

    def overlap(self) -> Overlap:
        """Return how much of the words' variance lies in the leading directions of the model's own positions."""
        embeddings = self.source.embeddings
        assert embeddings is not None
        return self._result(("overlap",), lambda: subspace_overlap(embeddings, draws=OVERLAP_DRAWS))

    def lists(self) -> Moved:
        """Return the neighbours of the chosen word, alone and in its place."""
        return self._result(
            ("lists", self.adding(self.asked.whose), self.token, self.position, self.asked.amplitude),
            lambda: moved(self.chosen, self.token, self.position, amplitude=self.asked.amplitude, k=NEIGHBOURS),
        )

    @cached_property
    def anchor_rows(self) -> dict[str, int]:
        """The anchor words that the source has, with their rows; the chosen word itself is none."""
        found = {word: row_of(self.table, Word(word), self.source.text) for word in self.asked.anchors}
        return {word: row for word, row in found.items() if row is not None and row != self.token}

    def anchors(self) -> Anchors:
        """Return how near the chosen word stays to the anchor words."""
        rows = tuple(self.anchor_rows.values())
        return self._result(
            ("anchors", self.adding(self.asked.whose), self.token, rows),
            lambda: anchored(self.chosen, self.token, np.array(rows, np.int64)),
        )

    @cached_property
    def sample(self) -> dict[str, int]:
        """The words of the sentence, filled up with others of the vocabulary, and their rows."""
        found: dict[str, int] = {}
        order = [self.place, *(place for place in self.pieces if place != self.place)]
        for place in order:
            found.setdefault(shown(self.inputs.pieces[place]), int(self.inputs.ids[place]))
        for word in EXAMPLES:
            if (row := self.table.labels.find(word)) is not None:
                found.setdefault(word, row)
        known = directed(self.table)
        return dict([(word, row) for word, row in found.items() if known[row]][:WORDS_SHOWN])

    @property
    def places(self) -> np.ndarray:
        """The first places that have a vector."""
        return np.flatnonzero(self.chosen.usable[:PLACES_SHOWN])

    def map(self) -> np.ndarray:
        """Return what each of the sample keeps at the first places, NaN where one has no vector [words, places]."""
        rows = tuple(self.sample.values())
        found = self._result(
            ("map", self.adding(self.asked.whose), rows),
            lambda: kept_at(self.chosen, np.array(rows), self.places, k=NEIGHBOURS).astype(np.float32),
        )
        out = np.full((len(rows), min(PLACES_SHOWN, len(self.chosen.usable))), np.nan, np.float32)
        out[:, self.places] = found[self.step]
        return out

    def cloud(self) -> Cloud:
        """Return the sample, each word at some inner places."""
        assert self.source.embeddings is not None
        inner = self.chosen.inner[:CLOUD_PLACES]
        return cloud(self.chosen, self.source.embeddings, np.array(list(self.sample.values())), inner)

    def of_cloud(self, what: str, maker: Callable[[Cloud], T], *more: Any) -> T:
        """Return a result of the cloud."""
        key = (what, self.adding(self.asked.whose), tuple(sorted(self.sample.values())), *more)
        return self._result(key, lambda: maker(self.cloud()))


# --- panels -----------------------------------------------------------------------------------------------------------


def _unless(key: str, title: str, help_text: str, maker: Callable[[Panel], Panel], **more: Any) -> Panel:
    """Return a panel, or the same one with why it cannot be drawn."""
    empty = Panel(key, title, help=help_text, **more)
    try:
        return maker(empty)
    except HfposembError as error:
        said = one_line(str(error))
        return replace(empty, message=f"{said[:1].upper()}{said[1:]}.")


WHOLE: dict[str, Any] = {"span": (-0.02, 1.04), "ticks": (0, 0.25, 0.5, 0.75, 1)}
"""An axis of shares."""


def _lines(title: str, series: Sequence[Series], view: View, *, height: int, labels: Any = "line", **y: Any) -> Drawing:
    """Draw lines against the amplitude, with the mark at the chosen one."""
    ticks = (0.0, 1.0, 2.0, 3.0, 4.0)
    x = Axis("amplitude of the position part", ticks=ticks, span=(0.0, 4.0))
    marked = view.asked.amplitude
    figure = line_figures.curves(
        series, x=x, y=Axis(title, **y), labels=labels, marked=marked, written=percent, height=height
    )
    figure.update_xaxes(ticktext=[f"{tick:g}×" for tick in ticks])
    return Drawing(figure)


def finding_panel(view: View) -> Panel:
    """Say whether positions drown the words at the chosen amplitude."""

    def made(empty: Panel) -> Panel:
        words, found = view.chosen, view.sweeps[view.asked.whose]
        kept = float(found.kept[found.index(view.asked.amplitude)])
        whose = {"own": "positions", "sinusoid": "the sinusoid", "random": "random positions"}[view.asked.whose]
        said = f"{percent(kept)} of a word’s neighbours stay"
        title = f"Adding {whose} does not drown the words: at {view.times} {said}"
        if view.asked.amplitude == 0:
            title = "Without positions every word has its own neighbours, and no word knows its place"
        elif kept < 0.5:
            title = f"At {view.times} {whose} {_begin(whose)} the words: {percent(kept)} of a word’s neighbours stay"
        length = number(words.ratio, digits=1)
        much = f"Words are {length} times as long as positions at 1×." if words.ratio >= 1 else ""
        much = much or f"Positions are {number(1 / words.ratio, digits=1)} times as long as words at 1×."
        return replace(
            empty,
            title=title,
            subtitle=f"{view.source.name}: input = word + amplitude × position. {much}{_directions(view)}",
            recipe=snippets.finding(view.source, words.adding, view.step),
        )

    return _unless("finding", f"What {view.source.name} adds to its words", AMPLITUDE_HELP, made)


def _directions(view: View) -> str:
    """Say how much of what tells words apart lies where the model's own positions do."""
    if view.asked.whose != "own":
        return ""
    try:
        found = view.overlap()
    except HfposembError:
        return ""
    share, low, high = percent(found.share), percent(found.low), percent(found.high)
    return (
        f" The {found.components} leading directions of positions hold {share} of how words differ; "
        f"by chance it would be {low} to {high}."
    )


def _begin(whose: str) -> str:
    return "drowns" if whose == "the sinusoid" else "drown"


def survival_panel(view: View) -> Panel:
    """Draw the share of neighbours kept against the amplitude, for all three kinds of positions."""

    def made(empty: Panel) -> Panel:
        if not view.sweeps:
            _ = view.chosen  # it says why
        series = []
        for whose, found in view.sweeps.items():
            mine = whose == view.asked.whose
            marks = (found.index(view.asked.amplitude),) if mine else ()
            band = (found.low, found.high) if mine else None
            series.append(Series(CALLED[whose], found.kept, *STYLES[whose], found.amplitudes, band, marks, chosen=mine))
        one = view.sweeps.get(view.asked.whose) or next(iter(view.sweeps.values()))
        at = one.index(view.asked.amplitude)
        title = f"{percent(float(one.kept[at]))} of each word’s ten nearest neighbours are left at {view.times}"
        if view.asked.whose not in view.sweeps:
            title = f"{view.source.name} adds no positions; these are what others would do to its words"
        searched = f"{one.tokens:,} tokens" if one.tokens == one.whole else f"{one.tokens:,} of {one.whole:,} tokens"
        scaled = "All positions have one mean norm." if view.asked.scaled else "Each has its own norm."
        return replace(
            empty,
            title=title,
            subtitle=f"Average of {one.queries} words at random positions. {scaled}",
            drawings=(_lines("neighbours kept", series, view, height=380, labels="end", share=True, **WHOLE),),
            foot=f"Cosine, ten nearest of {searched} · 95 % of resampled words within "
            f"{percent(float(one.low[at]))} to {percent(float(one.high[at]))} · chance {_rare(one.chance)} · "
            f"seed {one.seed}",
            actions=FILES,
            recipe=snippets.sweeps(view.source, list(map(view.adding, view.sweeps)), ["kept"]),
        )

    return _unless("survival", "How many neighbours are left", SURVIVAL_HELP, made, span=5)


def _rare(share: float) -> str:
    return f"{100 * share:.1g} %".replace("0.", ".", 1)


def lists_panel(view: View) -> Panel:
    """List the neighbours of the chosen word alone and in its place."""

    def made(empty: Panel) -> Panel:
        found = view.lists()
        alone, there = (
            tuple(
                NeighbourRow(shown(label), float(value), int(row) in found.shared, int(row))
                for row, label, value in zip(near.rows, near.labels, near.values, strict=True)
            )
            for near in (found.before, found.after)
        )
        place = f"at position {view.position}"
        kept = f"{len(found.shared)} of its {len(alone)}"
        return replace(
            empty,
            title=f"{view.word} {place} keeps {kept} neighbours at {view.times}",
            emphasis=view.word,
            lists=(NeighbourList("The word alone", "", alone), NeighbourList(f"{view.times}, {place}", "", there)),
            foot="Tinted rows are in both lists. Number: cosine, exact. Click a word to make it an anchor.",
            recipe=snippets.moved(
                view.source,
                view.chosen.adding,
                view.token,
                view.position,
                amplitude=view.asked.amplitude,
                k=NEIGHBOURS,
            ),
        )

    return _unless("lists", "The neighbours of a word", LISTS_HELP, made, span=3)


def anchor_panel(view: View) -> Panel:
    """Draw the cosine of the chosen word with the anchor words against the amplitude."""

    def made(empty: Panel) -> Panel:
        missing = [word for word in view.asked.anchors if row_of(view.table, Word(word), view.source.text) is None]
        told = [_missing(view.table, word) for word in missing]
        rows = view.anchor_rows
        if not rows:
            raise HfposembError(" ".join(["name a word that the model has, such as queen", *told]))
        found = view.anchors()
        chance = (found.chance_low + found.chance_high) / 2
        band = (found.chance_low, found.chance_high)
        series = [Series("any word", chance, PALETTE["baseline"].light, "dot", found.amplitudes, band)]
        for place, word in enumerate(rows):
            colour = ANCHOR_COLOURS[place % len(ANCHOR_COLOURS)]
            edges = (found.low[:, place], found.high[:, place])
            series.append(Series(word, found.mean[:, place], colour, "solid", found.amplitudes, edges))
        return replace(
            empty,
            title=anchor_title(view.word, list(rows), found.mean, found.amplitudes),
            drawings=(_lines(f"cosine with {shown(view.word)}", series, view, height=320, labels="end"),),
            foot=" ".join([f"Bands: 95 % of {found.places:,} positions; grey: of {found.random} random words.", *told]),
            actions=FILES,
            recipe=snippets.anchors(view.source, view.chosen.adding, view.token, list(rows.values())),
        )

    return _unless("anchors", "A word among words that you name", ANCHOR_HELP, made)


def anchor_title(word: str, names: Sequence[str], mean: np.ndarray, amplitudes: np.ndarray) -> str:
    """Say which anchor is nearest, at which amplitudes."""
    nearest = mean.argmax(axis=1)
    if len(names) == 1:
        return f"“{word}” and “{names[0]}”: {number(float(mean[0, 0]))} alone, {number(float(mean[-1, 0]))} at 4×"
    if (nearest == nearest[0]).all():
        far = mean.argmin(axis=1)
        away = f" and farthest from “{names[far[0]]}”" if (far == far[0]).all() else ""
        return f"“{word}” stays nearest to “{names[nearest[0]]}”{away} at every amplitude"
    turn = int(np.flatnonzero(nearest != nearest[0])[0])
    first, then = names[nearest[0]], names[nearest[turn]]
    return f"“{word}” is nearest to “{first}” until {amplitudes[turn]:g}×, where “{then}” is nearer"


def _missing(table: EmbeddingTable, word: str) -> str:
    spelt = nearest_spelling(table.labels, word)
    hint = f", spelt most like it: “{shown(spelt)}”" if spelt else ""
    return f"No token “{one_line(word, width=30)}”{hint}."


def recovery_panel(view: View) -> Panel:
    """Draw how often word and position are read back out of the sum."""

    def made(empty: Panel) -> Panel:
        _ = view.chosen  # it says why where there is nothing to add
        series = [
            Series(CALLED[whose], found.positions, *STYLES[whose], found.amplitudes, chosen=whose == view.asked.whose)
            for whose, found in view.sweeps.items()
        ]
        found = view.sweeps[view.asked.whose]
        series.append(Series("words", found.words, PALETTE["ink"].light, "solid", found.amplitudes))
        at = found.index(view.asked.amplitude)
        word, place = float(found.words[at]), float(found.positions[at])
        beside, searched = found.concatenated, f"{found.tokens:,} of {found.whole:,} tokens searched"
        foot = [
            f"{found.queries} words at {found.places:,} places",
            f"the map fitted on {found.fitted:,} others",
            f"chance {_rare(found.words_by_chance)} and {_rare(found.positions_by_chance)}",
            f"side by side instead of added: {percent(beside.words)} and {percent(beside.positions)}",
        ]
        foot += [] if found.tokens == found.whole else [searched]
        return replace(
            empty,
            title=recovery_title(word, place, view.times),
            numbers=(
                (percent(word), f"of words found at {view.times}"),
                (percent(place), f"of positions found at {view.times}"),
            ),
            drawings=(_lines("found in the sum", series, view, height=290, share=True, **WHOLE),),
            foot=" · ".join(foot),
            actions=FILES,
            recipe=snippets.sweeps(view.source, list(map(view.adding, view.sweeps)), ["positions", "words"]),
        )

    return _unless("recovery", "Reading both parts back out of the sum", RECOVERY_HELP, made)


def recovery_title(word: float, place: float, times: str) -> str:
    """Say whether both parts are told from their sum."""
    if min(word, place) >= 0.99:
        return f"Both parts can be read back out of the sum at {times}"
    if min(word, place) >= 0.5:
        return f"At {times} most words and most positions can be read back out of the sum"
    lost = [name for name, share in (("word", word), ("position", place)) if share < 0.5]
    return f"At {times} the {listed(lost)} can seldom be read back out of the sum"


def map_panel(view: View) -> Panel:
    """Draw what each word keeps at each of the first places."""

    def made(empty: Panel) -> Panel:
        found = view.map()
        figure = token_figures.share_rows(found, list(view.sample), height=34 * len(found) + 60)
        others = found[:, 1:]
        rest = others[np.isfinite(others)]
        title = f"Every position leaves some neighbours, {percent(float(rest.mean()))} on average"
        if np.isfinite(found[:, 0]).any():
            first = percent(float(np.nanmean(found[:, 0])))
            title = f"Position 0 leaves {first} of a word’s neighbours, the others {percent(float(rest.mean()))}"
        searched = len(view.chosen.rows)
        sampled = "" if searched == view.chosen.whole else f" among {searched:,} of {view.chosen.whole:,} tokens"
        return replace(
            empty,
            title=title,
            drawings=(Drawing(figure),),
            scale_bars=(ScaleBar("kept 0 %", "100 %", SHARE.light),),
            foot=f"Ten nearest neighbours kept at {view.times}{sampled}",
            actions=FILES,
            recipe=snippets.kept_map(
                view.source,
                view.chosen.adding,
                list(view.sample.values()),
                most=PLACES_SHOWN,
                step=view.step,
                k=NEIGHBOURS,
            ),
        )

    return _unless("map", "What words keep at every position", MAP_HELP, made)


def cloud_panel(view: View) -> Panel:
    """Draw the sample at the first places as a cloud, by word and by position."""

    def made(empty: Panel) -> Panel:
        amplitude = view.asked.amplitude
        found = view.of_cloud("club", lambda cloud: cloud.club(amplitude=amplitude), amplitude)
        names = {row: word for word, row in view.sample.items()}
        called = [names[int(row)] for row in found.rows]
        shares = view.of_cloud("variance", lambda cloud: cloud.variance())
        at = shares.index(amplitude)
        word, place = float(shares.words[at]), float(shares.positions[at])
        gather = "word" if word >= place else "position"
        first, second = (percent(share) for share in found.explained)
        return replace(
            empty,
            title=f"At {view.times} the sums gather by {gather}: words make {percent(word)} of the variance, "
            f"positions {percent(place)}",
            drawings=(
                Drawing(token_figures.club(found, called, height=340), "Coloured by word"),
                Drawing(token_figures.club(found, called, by="position", height=340), "Coloured by position"),
            ),
            legend=tuple(
                LegendItem(name, token_figures.CLUB_COLOURS[place % len(token_figures.CLUB_COLOURS)])
                for place, name in enumerate(called)
            ),
            scale_bars=(ScaleBar(f"position {found.places[0]}", str(found.places[-1]), POSITION.light),),
            foot=f"{len(called)} words at {len(found.places)} places · {NORMED[found.normed]} · axes hold {first} and "
            f"{second}",
            actions=FILES,
            recipe=snippets.club(
                view.source,
                view.chosen.adding,
                list(view.sample.values()),
                places=CLOUD_PLACES,
                value=f"shown = found.club(amplitude={amplitude:g}).points",
            ),
        )

    return _unless("cloud", "Words at places as one cloud", CLOUD_HELP, made, span=2)


NORMED = {"model": "normalised as the model does", "length": "at length 1", "none": "not normalised"}


def variance_panel(view: View) -> Panel:
    """Draw the shares of words, positions and the rest in the cloud's variance."""

    def made(empty: Panel) -> Panel:
        found = view.of_cloud("variance", lambda cloud: cloud.variance())
        at = found.amplitudes
        turn = np.flatnonzero(found.positions > found.words)
        title = "Words make most of the variance at every amplitude"
        if len(turn):
            title = f"From {at[turn[0]]:g}× on positions make more of the variance than words"
        chance = np.full(len(at), found.chance[0])
        series = [
            Series(
                "words", found.words, SOURCES[0].colour.light, "solid", at, marks=(found.index(view.asked.amplitude),)
            ),
            Series("positions", found.positions, SOURCES[1].colour.light, "solid", at),
            Series("the rest", found.rest, SOURCES[3].colour.light, "dashdot", at),
            Series("by chance", chance, PALETTE["baseline"].light, "dot", at),
        ]
        return replace(
            empty,
            title=title,
            drawings=(_lines("share of the variance", series, view, height=340, share=True, **WHOLE),),
            foot=f"The parts add up to 100 % · {NORMED[found.normed]} · dealt blindly: "
            f"{listed([percent(share) for share in found.chance])}",
            actions=FILES,
            recipe=snippets.club(
                view.source,
                view.chosen.adding,
                list(view.sample.values()),
                places=CLOUD_PLACES,
                value="found = found.variance()\nshown = [found.words, found.positions, found.rest]",
            ),
        )

    return _unless("variance", "How the variance is shared", VARIANCE_HELP, made)


def reorder_panel(view: View) -> Panel:
    """List the words of the sentence with their inputs in another order."""

    def made(empty: Panel) -> Panel:
        found, other = other_order(view)
        words = [i for i, place in enumerate(found.first) if not view.special(int(view.inputs.ids[place]))]
        title, said = reorder_finding(view, found, words)
        rows = tuple(
            NeighbourRow(
                f"{shown(found.pieces[i])}  {found.first[i]} → {found.second[i]}",
                float(found.cosines[i]),
                not found.changed[i],
                int(found.first[i]),
            )
            for i in words[:PIECES_SHOWN]
        )
        return replace(
            empty,
            title=title,
            subtitle=f"{said} {order_of(view, other)}",
            lists=(NeighbourList("Cosine of both inputs", "", rows),),
            foot="Tinted words go in as the same vector in both orders. Left: place in this order, and in the other.",
            recipe=snippets.reordering(view.source, view.asked.text, other, words=words[:PIECES_SHOWN])
            if rows
            else None,
        )

    return _unless("reorder", "The same words in another order", REORDER_HELP, made)


def other_order(view: View) -> tuple[Reordered, str | list[int]]:
    """Compare the sentence with the order before it, or else with itself turned round; return that too."""
    here, before = view.inputs, view.asked.before
    if before.strip() and before != view.asked.text:
        try:
            return reordered(here, view.fed(before)), before
        except HfposembError:
            pass  # other words, so it is no other order
    ids = turned_round(here.ids, fixed=[view.special(int(token)) for token in here.ids])
    assert view.source.embeddings is not None
    return reordered(here, view.source.embeddings.inputs(ids)), ids.tolist()


def order_of(view: View, other: str | list[int]) -> str:
    """Say what the other order is: a text that came before, or ids turned round."""
    if isinstance(other, str):
        return f"Before: “{one_line(other, width=80)}”"
    return f"Turned round: “{one_line(' '.join(view.table.labels[row].strip() for row in other), width=80)}”"


def reorder_finding(view: View, found: Reordered, words: Sequence[int]) -> tuple[str, str]:
    """Say what another order changes: a title and a sentence."""
    changed = int(found.changed[words].sum())
    name = view.source.name
    if not found.added:
        kind = view.source.position.kind if view.source.parts else "none"
        how = f"its {kind} positions come in where attention compares two places" if kind != "none" else "it has none"
        return (
            "In another order the same vectors go in: nothing is added to the words",
            f"{name} adds no positions, so to its first layer’s input the order is nothing; {how}.",
        )
    if not changed:
        return "This order is the same as the other", "Every word stands where it stood before."
    same = "The token vectors are the same in both orders" if found.same_tokens else "Token vectors depend on the order"
    moved = [float(one) for one in found.cosines[words] if one < 1]
    low = number(min(moved, default=1.0), digits=2)
    return (
        f"In another order {changed} of {len(words)} words go in as another vector",
        f"{same}; with positions added they differ, down to a cosine of {low}.",
    )


def strip(view: View) -> str:
    """Return the words of the sentence as HTML: buttons, each with the share it keeps in its place."""
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


# --- the page ---------------------------------------------------------------------------------------------------------


def wordless(opened: Sequence[Opened]) -> str:
    """Say which sources have no words, and why."""
    said = []
    for source in opened:
        if source.embeddings is None:
            said.append(f"{source.name}: {source.error}.")
        elif source.table("token") is None:
            said.append(
                f"{source.name} has no words: {source.embeddings.absent.get('token', 'it has no token table')}."
            )
    return " ".join(one_line(line) for line in said)


def view_of(session: Session, opened: Sequence[Opened], which: str | None, asked: Asked) -> View | None:
    """Return the source that is shown with what is asked of it; ``None`` where none has words."""
    source = source_of(opened, which)
    return None if source is None else View(session, source, asked)


def source_of(opened: Sequence[Opened], which: str | None) -> Opened | None:
    """Return the source of that text, else the first one, of those that have words."""
    speaking = with_tokens(opened)
    return next((one for one in speaking if one.text == which), speaking[0] if speaking else None)


def top_panels(view: View | None, opened: Sequence[Opened]) -> Panels:
    """Return the finding; where no source has words, why."""
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
    """Return what follows the slider: two rows, the anchor words and the cloud."""
    return [
        Panels((survival_panel(view), lists_panel(view)), columns=8),
        Panels((anchor_panel(view),)),
        Panels((recovery_panel(view), map_panel(view)), columns=2),
        Panels((cloud_panel(view), variance_panel(view)), columns=3),
    ]


def sentence_panels(view: View) -> Panels:
    """Return what follows the sentence alone: its vectors, and another order of it."""
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


def shuffled(text: str) -> str:
    """Return the words of a text in another order, if there is one: always the same one."""
    words = text.split()
    if len(set(words)) < 2:
        return text
    draw, order = random.Random(text), list(words)
    while order == words:
        draw.shuffle(order)
    return " ".join(order)


STARTING = Panel(
    "finding",
    "Do positions drown the words they are added to?",
    message="Every amplitude is being measured. Of a large vocabulary that takes some seconds, and once only.",
)


def tab(session: Session) -> None:
    """Draw the tab and bind it. Nothing is computed before it comes to the screen."""
    opened = session.open(session.first)
    choices = which_choices(opened)
    whoses = [(CALLED[whose], whose) for whose in WHOSE]
    with gr.Row(elem_classes="controls"):
        text = gr.Textbox(SENTENCE, label="Sentence", max_lines=1, max_length=LONGEST_SENTENCE, scale=4, min_width=260)
        turn = gr.Button("Reorder words", scale=0, min_width=150)
        with gr.Column(scale=0, min_width=620), gr.Row():  # as wide as its parts and the gap between them
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
        measured = AMPLITUDES[step_of(float(amplitude or 0))]  # what is typed may lie between two of them
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
        """Choose a word of the sentence, or one by its row in the reorder check."""
        told = happened._data or {}
        place = told.get("place", told.get("id") if told.get("panel") == "reorder" else None)
        return place if isinstance(place, int) else gr.skip()

    def follow(kept: list[str], happened: gr.EventData) -> Any:
        """Make a neighbour that was clicked an anchor word."""
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
