"""What texts claim of the sum, measured: against concatenation, by width, the window of sizes, shares of variance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from hfposemb.composition.added_positions import PositionAddition
from hfposemb.composition.amplitude_sweep import Sweep
from hfposemb.composition.sum_and_concatenation import Interference, SumBesideConcatenation
from hfposemb.errors import HfposembError
from hfposemb.figures import line_figures, token_figures
from hfposemb.figures.palette import PALETTE, POSITION, SOURCES
from hfposemb.figures.style import Axis, Series, listed
from hfposemb.text import number, one_line, percent

from ...components.plot import Drawing, LegendItem, Panel, ScaleBar
from ...components.recipe import Recipe
from ...recipes.writing import SENTENCE_ROLES, Code, extracted, listed_as, recipe
from ...session.opened import Opened
from ..chosen_word import with_tokens
from .sum_amplitude import WHOLE, amplitude_lines
from .sum_view import CLOUD_PLACES, SCALES, View, added, drawn_or_said


@drawn_or_said("cloud", "Words at several positions", "words at positions", span=2)
def cloud_panel(view: View, empty: Panel) -> Panel:
    """Draw the sample at the first places as a cloud, coloured by word and by position."""
    amplitude = view.asked.amplitude
    found = view.of_cloud("club", lambda cloud: cloud.club(amplitude=amplitude), amplitude)
    names = {row: word for word, row in view.sample.items()}
    called = [names[int(row)] for row in found.rows]
    shares = view.of_cloud("variance", lambda cloud: cloud.variance())
    at = shares.index(amplitude)
    word, place = float(shares.words[at]), float(shares.positions[at])
    first, second = (percent(share) for share in found.explained)
    return replace(
        empty,
        title=f"At {view.times}, words explain {percent(word)} of the variance of the inputs, positions "
        f"{percent(place)}",
        drawings=(
            Drawing(token_figures.club(found, called, height=340), "Coloured by word"),
            Drawing(token_figures.club(found, called, by="position", height=340), "Coloured by position"),
        ),
        legend=tuple(
            LegendItem(name, token_figures.CLUB_COLOURS[place % len(token_figures.CLUB_COLOURS)])
            for place, name in enumerate(called)
        ),
        scale_bars=(ScaleBar(f"position {found.places[0]}", str(found.places[-1]), POSITION.light),),
        foot=f"{len(called)} words at {len(found.places)} positions · {NORMED[found.normed]} · axes explain "
        f"{first} and {second}",
        recipe=_recipe(view, f"shown = found.club(amplitude={amplitude:g}).points"),
    )


NORMED = {"model": "normalised as in the model", "length": "scaled to length 1", "none": "not normalised"}


def _recipe(view: View, shown: str) -> Recipe:
    """Return the code that computes something of the cloud on the screen."""
    adding, words = added(view.chosen.adding), list(view.sample.values())
    return view.recipe("cloud of sums", adding=adding, chosen=words, places=CLOUD_PLACES, shown=Code(shown))


@drawn_or_said("variance", "How the variance is shared", "shared variance")
def variance_panel(view: View, empty: Panel) -> Panel:
    """Draw the shares of words, positions and the interaction in the cloud's variance."""
    found = view.of_cloud("variance", lambda cloud: cloud.variance())
    at = found.amplitudes
    turn = np.flatnonzero(found.positions > found.words)
    title = "Words explain more of the variance than positions at every amplitude"
    if len(turn):
        title = f"From {at[turn[0]]:g}×, positions explain more of the variance than words"
    chance = np.full(len(at), found.chance[0])
    series = [
        Series("words", found.words, SOURCES[0].colour.light, "solid", at, marks=(found.index(view.asked.amplitude),)),
        Series("positions", found.positions, SOURCES[1].colour.light, "solid", at),
        Series("interaction", found.rest, SOURCES[3].colour.light, "dashdot", at),
        Series("by chance", chance, PALETTE["baseline"].light, "dot", at),
    ]
    return replace(
        empty,
        title=title,
        drawings=(amplitude_lines("share of the variance", series, view, height=340, share=True, **WHOLE),),
        foot=f"The parts add up to 100 % · {NORMED[found.normed]} · shuffled: "
        f"{listed([percent(share) for share in found.chance])}",
        recipe=_recipe(view, "found = found.variance()\nshown = [found.words, found.positions, found.rest]"),
    )


OWN = SCALES.index(1.0)


@drawn_or_said("concatenation", "Sum and concatenation", "concatenation")
def concatenation_panel(view: View, empty: Panel) -> Panel:
    """Draw what is recovered from the sum, from a turned sum and from the concatenation, by amplitude."""
    found = view.concatenation()
    colours = (PALETTE["ink"].light, SOURCES[1].colour.light, SOURCES[2].colour.light)
    series = [
        Series(name, values, colour, dash, found.amplitudes, chosen=name == "sum")
        for name, values, colour, dash in zip(found.ways, found.both, colours, ("solid", "dot", "dash"), strict=True)
    ]
    equal = f"up to {found.difference:.0e}" if found.difference else "exactly"
    return replace(
        empty,
        title=concatenation_title(found, view.step, view.times),
        subtitle=f"[x; v] times [I; I] is x + v, {equal} for {found.queries} words: a fixed projection.",
        drawings=(amplitude_lines("word and position recovered", series, view, height=290, share=True, **WHOLE),),
        foot=f"{found.queries} words at {found.places:,} positions of width {found.width} · seed {found.seed}",
        recipe=view.recipe("concatenation"),
    )


def concatenation_title(found: SumBesideConcatenation, step: int, times: str) -> str:
    """State what is recovered from the sum at an amplitude, from a turned one, and from the concatenation."""
    own, turned, beside = (percent(float(values[step])) for values in found.both)
    return f"At {times}, the sum gives back {own}; with positions turned at random {turned}, concatenated {beside}"


@drawn_or_said("interference", "How far words and positions overlap", "interference")
def interference_panel(view: View, empty: Panel) -> Panel:
    """Draw the mean |cos| of words and positions against the width, beside that of random directions."""
    found = view.interference()
    at = np.array(found.widths, np.float64)
    series = [
        Series("as they are", found.cosines, SOURCES[0].colour.light, "solid", at, chosen=True),
        Series("without the means", found.centred, SOURCES[2].colour.light, "dash", at),
        Series("random directions", found.expected, PALETTE["baseline"].light, "dot", at),
    ]
    x, y = Axis("width d", ticks=tuple(map(float, found.widths))), Axis("mean |cos|")
    return replace(
        empty,
        title=interference_title(found),
        subtitle="Below its own width, the tables are projected at random.",
        drawings=(Drawing(line_figures.curves(series, x=x, y=y, height=290)),),
        foot=f"{found.pairs:,} pairs of a word and a position · seed {found.seed}",
        recipe=view.recipe("interference"),
    )


def interference_title(found: Interference) -> str:
    """State the overlap of words and positions at the model's own width, beside that of random directions."""
    own, chance = (number(float(part[-1]), digits=3) for part in (found.cosines, found.expected))
    return f"In {found.widths[-1]} dimensions a word and a position have |cos| {own}, random directions {chance}"


@drawn_or_said("windows", "The window of amplitudes", "window", span=2)
def window_panel(view: View, empty: Panel, opened: Sequence[Opened]) -> Panel:
    """Draw for all sources at which sizes of positions both parts are recovered, and their own size."""
    found: dict[str, Sweep] = {}
    asked: list[tuple[str, Opened, PositionAddition]] = []
    series, left_out = [], []
    speaking = with_tokens(opened)
    first = PositionAddition("sinusoid", scaled=False)
    wanted = [(source.name, source, PositionAddition()) for source in speaking]
    wanted += [("Sinusoid", source, first) for source in speaking[:1]]
    for name, source, adding in wanted:
        try:
            found[name] = one = replace(view, source=source).window(adding)
        except HfposembError as error:
            left_out.append(f"{name}: {one_line(error.reason, width=80)}")
            continue
        asked.append((name, source, adding))
        colour, dash = (source.color, source.dash) if adding.whose == "own" else (PALETTE["ink"].light, "dot")
        series.append(Series(name, one.both, colour, dash, one.amplitudes / one.ratio, marks=(OWN,)))
    if not found:
        raise HfposembError("none of the sources adds positions to its words")
    x = Axis("norm of positions / norm of words", log=True)
    y = Axis("word and position recovered", share=True, **WHOLE)
    return replace(
        empty,
        title=window_title(found),
        subtitle="; ".join(f"{name} {window_range(one)}" for name, one in found.items()) + ".",
        drawings=(Drawing(line_figures.curves(series, x=x, y=y, height=300)),),
        foot=" · ".join(["Dots: as large as in the model", *left_out]),
        recipe=_window_recipe(asked),
    )


def _window_recipe(asked: Sequence[tuple[str, Opened, PositionAddition]]) -> Recipe:
    """Return the code of the shares recovered at every size of positions, for some sources."""
    words = {name: f"hpe.add_positions({extracted(source)}, {added(adding)})" for name, source, adding in asked}
    own = [source for _, source, adding in asked if adding.whose == "own"]
    return recipe("windows", own, roles=SENTENCE_ROLES, words=listed_as("words", words))


def window_range(found: Sweep) -> str:
    """Return the window of a source as norms of positions over those of words, and its own."""
    own = number(1 / found.ratio, digits=2)
    if (window := found.window) is None:
        return f"has no window, its own is {own}"
    low, high = (number(one / found.ratio, digits=2) for one in window)
    return f"{low} to {high}, its own {own}"


def window_title(found: Mapping[str, Sweep]) -> str:
    """State whose own size of positions lies inside, below or above the window in which both parts are recovered."""
    sides: dict[str, list[str]] = {"inside": [], "below it": [], "above it": [], "": []}
    for name, one in found.items():
        low, high = one.window or (np.nan, np.nan)
        side = "inside" if low <= 1 <= high else "below it" if low > 1 else "above it" if high < 1 else ""
        sides[side].append(name)
    sizes = max((len(found[name].amplitudes) for name in sides[""]), default=0)
    none = f"none of {sizes} sizes gives back both in {listed(sides[''])}" if sides[""] else ""
    said = ", ".join(f"{side} for {listed(names)}" for side, names in sides.items() if names and side)
    if not said:
        return none[0].upper() + none[1:]
    told = f"Word and position are both readable in a window of sizes; the model’s own is {said}"
    return f"{told}; {none}" if none else told
