"""What remains of words and positions when they are added, by the amplitude of the positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hfposemb.composition.amplitude_sweep import Sweep
from hfposemb.errors import HfposembError
from hfposemb.figures import line_figures, token_figures
from hfposemb.figures.palette import CLASSES, PALETTE, SHARE, SOURCES
from hfposemb.figures.style import Axis, Series, listed
from hfposemb.tables.table import EmbeddingTable
from hfposemb.text import number, one_line, percent, small_percent

from ...components.plot import Drawing, NeighbourList, NeighbourRow, Panel, ScaleBar
from ...components.recipe import Recipe
from ...recipes.writing import SENTENCE_ROLES, Code, recipe
from ..chosen_word import Word, row_of, shown
from ..tokens.token_search import nearest_spelling
from .sum_view import CALLED, NEIGHBOURS, PLACES_SHOWN, STYLES, View, added, drawn_or_said

ANCHOR_COLOURS = (*(source.colour.light for source in SOURCES), CLASSES["continuation"].light, CLASSES["unused"].light)


HALF = 0.5
WHOLE: dict[str, Any] = {"span": (-0.02, 1.04), "ticks": (0, 0.25, 0.5, 0.75, 1)}
"""An axis of shares from 0 to 1."""


def amplitude_lines(title: str, series: Sequence[Series], view: View, *, height: int, **y: Any) -> Drawing:
    """Draw lines against the amplitude, with a mark at the chosen one."""
    ticks = (0.0, 1.0, 2.0, 3.0, 4.0)
    x = Axis("position amplitude", ticks=ticks, span=(0.0, 4.0))
    marked = view.asked.amplitude
    figure = line_figures.curves(
        series, x=x, y=Axis(title, **y), labels="line", marked=marked, written=percent, height=height
    )
    figure.update_xaxes(ticktext=[f"{tick:g}×" for tick in ticks])
    return Drawing(figure)


def _sweep_recipe(view: View, *values: str) -> Recipe:
    """Return the code of some values of the sweeps of all kinds of positions."""
    protocols = [added(view.adding(whose)) for whose in view.sweeps]
    drawn = [Code(f"one.{value}") for value in values]
    return recipe("amplitudes", [view.source], roles=SENTENCE_ROLES, protocols=protocols, values=drawn)


@drawn_or_said("finding", "Adding positions to the words of {source}", "amplitude")
def finding_panel(view: View, empty: Panel) -> Panel:
    """State whether words keep their neighbours at the chosen amplitude."""
    words, found = view.chosen, view.sweeps[view.asked.whose]
    kept = float(found.kept[found.index(view.asked.amplitude)])
    whose = {"own": "positions", "sinusoid": "the sinusoid", "random": "random positions"}[view.asked.whose]
    title = f"With {whose} added at {view.times}, words keep {percent(kept)} of their ten nearest neighbours"
    if (random := view.sweeps.get("random")) is not None and random is not found:
        chance = percent(float(random.kept[random.index(view.asked.amplitude)]))
        title = f"{title}, with random vectors of the same norms {chance}"
    if view.asked.amplitude == 0:
        title = "Without positions, words keep all their neighbours, and have no position"
    longer, shorter = ("words", "positions") if words.ratio >= 1 else ("positions", "words")
    length = number(max(words.ratio, 1 / words.ratio), digits=1)
    return replace(
        empty,
        title=title,
        subtitle=f"{view.source.name}: word + amplitude × position{_unshown(view)}. At 1×, {longer} have {length} "
        f"times the norm of {shorter}.{_directions(view)}",
        recipe=view.recipe("neighbours kept", place=view.step),
    )


def _unshown(view: View) -> str:
    """Name what the model adds as well."""
    try:
        return " (the model adds a segment vector, too)" if view.inputs.type.any() else ""
    except HfposembError:
        return ""


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
        f" {found.components} leading directions of positions hold {share} of the words’ variance "
        f"(chance: {low} to {high})."
    )


@drawn_or_said("survival", "Neighbours kept by amplitude", "neighbours kept", span=4)
def survival_panel(view: View, empty: Panel) -> Panel:
    """Draw the share of neighbours kept against the amplitude, for the three kinds of positions."""
    if not view.sweeps:
        _ = view.chosen  # raises the reason
    series = []
    for whose, found in view.sweeps.items():
        mine = whose == view.asked.whose
        marks = (found.index(view.asked.amplitude),) if mine else ()
        band = (found.low, found.high) if mine else None
        series.append(Series(CALLED[whose], found.kept, *STYLES[whose], found.amplitudes, band, marks, chosen=mine))
    one = view.sweeps.get(view.asked.whose) or next(iter(view.sweeps.values()))
    title = half_title(one)
    if view.asked.whose not in view.sweeps:
        title = f"{view.source.name} adds no positions; shown is the effect of others on its words"
    searched = f"{one.tokens:,} tokens" if one.tokens == one.whole else f"{one.tokens:,} of {one.whole:,} tokens"
    scaled = "All positions have the same mean norm." if view.asked.scaled else "Positions have their original norms."
    return replace(
        empty,
        title=title,
        subtitle=f"Average of {one.queries} words at random positions. {scaled}",
        drawings=(amplitude_lines("neighbours kept", series, view, height=320, share=True, **WHOLE),),
        foot=f"Ten nearest of {searched} · chance {small_percent(one.chance)} · seed {one.seed}",
        recipe=_sweep_recipe(view, "kept"),
    )


def half_title(found: Sweep) -> str:
    """State up to which amplitude words keep half of their neighbours."""
    held = np.flatnonzero(found.kept >= HALF)
    last = float(found.amplitudes[held[-1]])
    if last == found.amplitudes[-1]:
        return f"Even at {last:g}×, words keep {percent(float(found.kept[-1]))} of their ten nearest neighbours"
    return f"Words keep half of their ten nearest neighbours up to {last:g}×"


@drawn_or_said("lists", "The neighbours of a word", "neighbours of a sum", span=5)
def lists_panel(view: View, empty: Panel) -> Panel:
    """List the neighbours of the chosen word, alone and at its position."""
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
        title=f"At {view.times}, {view.word} {place} keeps {kept} neighbours",
        emphasis=view.word,
        lists=(NeighbourList("The word alone", "", alone), NeighbourList(f"{view.times}, {place}", "", there)),
        foot="Tinted: in both lists. Click a word to make it an anchor word.",
        recipe=view.recipe(
            "moved neighbours", row=view.token, place=view.position, amplitude=view.asked.amplitude, k=NEIGHBOURS
        ),
    )


@drawn_or_said("anchors", "Cosine with anchor words", "anchors")
def anchor_panel(view: View, empty: Panel) -> Panel:
    """Draw the cosine of the chosen word with the anchor words against the amplitude."""
    missing = [word for word in view.asked.anchors if row_of(view.table, Word(word), view.source.text) is None]
    notes = [_missing(view.table, word) for word in missing]
    rows = view.anchor_rows
    if not rows:
        raise HfposembError(" ".join([*notes, "Enter a token of the model as an anchor word"]))
    found = view.anchors()
    chance = (found.chance_low + found.chance_high) / 2
    band = (found.chance_low, found.chance_high)
    series = [Series("random words", chance, PALETTE["baseline"].light, "dot", found.amplitudes, band)]
    for place, word in enumerate(rows):
        colour = ANCHOR_COLOURS[place % len(ANCHOR_COLOURS)]
        edges = (found.low[:, place], found.high[:, place])
        series.append(Series(word, found.mean[:, place], colour, "solid", found.amplitudes, edges))
    return replace(
        empty,
        title=anchor_title(view.word, list(rows), found.mean, found.amplitudes),
        drawings=(amplitude_lines(f"cosine with {shown(view.word)}", series, view, height=320),),
        foot=" ".join([f"Bands: 95 % of {found.places:,} positions; grey: {found.random} random words.", *notes]),
        recipe=view.recipe("anchors", row=view.token, others=rows.values()),
    )


@drawn_or_said("mixture", "A word as a mixture of others", "mixture", span=2)
def mixture_panel(view: View, empty: Panel) -> Panel:
    """Draw the weights of the words that the chosen word is a mixture of, with each position added."""
    found = view.mixture()
    order = np.argsort(-found.weights, kind="stable")
    names = [shown(found.labels[place]) for place in order]
    series = [
        Series(names[rank], found.weights_at[:, place], ANCHOR_COLOURS[rank], "solid", found.positions)
        for rank, place in enumerate(order.tolist())
    ]
    x, y = Axis("position that is added"), Axis("weight")
    null, shares = found.null, found.explained_at
    alone = " + ".join(f"{number(float(found.weights[place]))} {shown(found.labels[place])}" for place in order[:2])
    low, high = np.quantile(found.weights_at[:, order[0]], (0.025, 0.975))
    title = f"“{view.word}” = {alone} + …; with positions at {view.times}, the weight of “{names[0]}” is"
    return replace(
        empty,
        title=f"{title} {number(float(low))} to {number(float(high))}",
        subtitle=f"Six words explain {percent(null.observed)} of the word, of random vectors {percent(null.mean)} "
        f"(95 % at most {percent(null.high)}); of word and position {percent(float(np.median(shares)))}.",
        drawings=(Drawing(line_figures.curves(series, x=x, y=y, labels="end", height=290)),),
        foot=f"{found.candidates:,} words could join · range: 95 % of {len(shares):,} positions · seed {null.seed}",
        recipe=view.recipe("mixture", row=view.token, amplitude=view.asked.amplitude),
    )


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
    hint = f"; closest spelling: “{shown(spelt)}”" if spelt else ""
    return f"No token “{one_line(word, width=30)}”{hint}."


@drawn_or_said("recovery", "Recovering both parts from the sum", "recovery")
def recovery_panel(view: View, empty: Panel) -> Panel:
    """Draw how often word and position are decoded from the sum."""
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
        f"{found.queries} words at {found.places:,} positions",
        f"map fitted on {found.fitted:,} other tokens",
        f"chance {small_percent(found.words_by_chance)} and {small_percent(found.positions_by_chance)}",
        f"concatenated: {percent(beside.words)} and {percent(beside.positions)}",
    ]
    foot += [] if found.tokens == found.whole else [searched]
    return replace(
        empty,
        title=recovery_title(word, place, view.times),
        subtitle=window_said(found),
        numbers=(
            (percent(word), f"of words recovered at {view.times}"),
            (percent(place), f"of positions recovered at {view.times}"),
        ),
        drawings=(amplitude_lines("recovered from the sum", series, view, height=290, share=True, **WHOLE),),
        foot=" · ".join(foot),
        recipe=_sweep_recipe(view, "positions", "words"),
    )


def window_said(found: Sweep) -> str:
    """State the range of amplitudes in which both parts are recovered, and whether the model's own lies in it."""
    if (window := found.window) is None:
        return "At no measured amplitude are 95 % of words and 95 % of positions recovered."
    low, high = window
    own = "inside" if low <= 1 <= high else "below" if low > 1 else "above"
    return f"95 % of both are recovered from {low:g}× to {high:g}×; the model’s own 1× lies {own} this window."


def recovery_title(word: float, place: float, times: str) -> str:
    """State whether both parts can be decoded from their sum."""
    if min(word, place) >= 0.99:
        return f"At {times}, both parts can be recovered from the sum"
    if min(word, place) >= 0.5:
        return f"At {times}, most words and most positions can be recovered from the sum"
    lost = [name for name, share in (("word", word), ("position", place)) if share < 0.5]
    return f"At {times}, the {listed(lost)} can seldom be recovered from the sum"


@drawn_or_said("map", "Neighbours kept at every position", "kept at every position")
def map_panel(view: View, empty: Panel) -> Panel:
    """Draw the share of neighbours each word keeps at each of the first places."""
    found = view.map()
    figure = token_figures.share_rows(found, list(view.sample))
    others = found[:, 1:]
    rest = others[np.isfinite(others)]
    title = f"Words keep {percent(float(rest.mean()))} of their neighbours on average over positions"
    if np.isfinite(found[:, 0]).any():
        first = percent(float(np.nanmean(found[:, 0])))
        title = f"At position 0, words keep {first} of their neighbours; elsewhere {percent(float(rest.mean()))}"
    searched = len(view.chosen.rows)
    sampled = "" if searched == view.chosen.whole else f" among {searched:,} of {view.chosen.whole:,} tokens"
    return replace(
        empty,
        title=title,
        drawings=(Drawing(figure),),
        scale_bars=(ScaleBar("kept 0 %", "100 %", SHARE.light),),
        foot=f"Ten nearest neighbours kept at {view.times}{sampled}",
        recipe=view.recipe(
            "kept at places", chosen=view.sample.values(), most=PLACES_SHOWN, step=view.step, k=NEIGHBOURS
        ),
    )
