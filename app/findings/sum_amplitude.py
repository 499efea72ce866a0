"""What remains of words and positions when they are added, by the amplitude of the positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hfposemb.errors import HfposembError
from hfposemb.figures import line_figures, token_figures
from hfposemb.figures.palette import CLASSES, PALETTE, SHARE, SOURCES
from hfposemb.figures.style import Axis, Series, listed, number
from hfposemb.reports.position_findings import percent
from hfposemb.tables.table import EmbeddingTable
from hfposemb.text import one_line

from ..components.plot import Drawing, NeighbourList, NeighbourRow, Panel, ScaleBar
from ..recipes import sum_snippets
from ..session.shown_positions import FILES
from .chosen_word import Word, row_of, shown
from .sum_view import CALLED, NEIGHBOURS, PLACES_SHOWN, STYLES, View, panel_unless
from .token_search import nearest_spelling

if TYPE_CHECKING:
    pass


ANCHOR_COLOURS = (*(source.colour.light for source in SOURCES), CLASSES["continuation"].light, CLASSES["unused"].light)
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


WHOLE: dict[str, Any] = {"span": (-0.02, 1.04), "ticks": (0, 0.25, 0.5, 0.75, 1)}
"""An axis of shares from 0 to 1."""


def amplitude_lines(
    title: str, series: Sequence[Series], view: View, *, height: int, labels: Any = "line", **y: Any
) -> Drawing:
    """Draw lines against the amplitude, with a mark at the chosen one."""
    ticks = (0.0, 1.0, 2.0, 3.0, 4.0)
    x = Axis("amplitude of the position part", ticks=ticks, span=(0.0, 4.0))
    marked = view.asked.amplitude
    figure = line_figures.curves(
        series, x=x, y=Axis(title, **y), labels=labels, marked=marked, written=percent, height=height
    )
    figure.update_xaxes(ticktext=[f"{tick:g}×" for tick in ticks])
    return Drawing(figure)


def finding_panel(view: View) -> Panel:
    """State whether positions drown the words at the chosen amplitude."""

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
            recipe=sum_snippets.finding(view.source, words.adding, view.step),
        )

    return panel_unless("finding", f"What {view.source.name} adds to its words", AMPLITUDE_HELP, made)


def _directions(view: View) -> str:
    """State the share of the words' variance in the leading directions of the model's own positions."""
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
    """Draw the share of neighbours kept against the amplitude, for the three kinds of positions."""

    def made(empty: Panel) -> Panel:
        if not view.sweeps:
            _ = view.chosen  # raises the reason
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
            drawings=(amplitude_lines("neighbours kept", series, view, height=380, labels="end", share=True, **WHOLE),),
            foot=f"Cosine, ten nearest of {searched} · 95 % of resampled words within "
            f"{percent(float(one.low[at]))} to {percent(float(one.high[at]))} · chance {_rare(one.chance)} · "
            f"seed {one.seed}",
            actions=FILES,
            recipe=sum_snippets.sweeps(view.source, list(map(view.adding, view.sweeps)), ["kept"]),
        )

    return panel_unless("survival", "How many neighbours are left", SURVIVAL_HELP, made, span=5)


def _rare(share: float) -> str:
    return f"{100 * share:.1g} %".replace("0.", ".", 1)


def lists_panel(view: View) -> Panel:
    """List the neighbours of the chosen word, alone and in its place."""

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
            recipe=sum_snippets.moved(
                view.source,
                view.chosen.adding,
                view.token,
                view.position,
                amplitude=view.asked.amplitude,
                k=NEIGHBOURS,
            ),
        )

    return panel_unless("lists", "The neighbours of a word", LISTS_HELP, made, span=3)


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
            drawings=(amplitude_lines(f"cosine with {shown(view.word)}", series, view, height=320, labels="end"),),
            foot=" ".join([f"Bands: 95 % of {found.places:,} positions; grey: of {found.random} random words.", *told]),
            actions=FILES,
            recipe=sum_snippets.anchors(view.source, view.chosen.adding, view.token, list(rows.values())),
        )

    return panel_unless("anchors", "A word among words that you name", ANCHOR_HELP, made)


def anchor_title(word: str, names: Sequence[str], mean: np.ndarray, amplitudes: np.ndarray) -> str:
    """State which anchor is nearest, at which amplitudes."""
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
    """Draw how often word and position are decoded from the sum."""

    def made(empty: Panel) -> Panel:
        _ = view.chosen  # raises the reason if there is nothing to add
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
            drawings=(amplitude_lines("found in the sum", series, view, height=290, share=True, **WHOLE),),
            foot=" · ".join(foot),
            actions=FILES,
            recipe=sum_snippets.sweeps(view.source, list(map(view.adding, view.sweeps)), ["positions", "words"]),
        )

    return panel_unless("recovery", "Reading both parts back out of the sum", RECOVERY_HELP, made)


def recovery_title(word: float, place: float, times: str) -> str:
    """State whether both parts can be decoded from their sum."""
    if min(word, place) >= 0.99:
        return f"Both parts can be read back out of the sum at {times}"
    if min(word, place) >= 0.5:
        return f"At {times} most words and most positions can be read back out of the sum"
    lost = [name for name, share in (("word", word), ("position", place)) if share < 0.5]
    return f"At {times} the {listed(lost)} can seldom be read back out of the sum"


def map_panel(view: View) -> Panel:
    """Draw the share of neighbours each word keeps at each of the first places."""

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
            recipe=sum_snippets.kept_map(
                view.source,
                view.chosen.adding,
                list(view.sample.values()),
                most=PLACES_SHOWN,
                step=view.step,
                k=NEIGHBOURS,
            ),
        )

    return panel_unless("map", "What words keep at every position", MAP_HELP, made)
