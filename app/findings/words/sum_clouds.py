"""Words at many positions: point clouds, and the variance shares of words and positions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hfposemb.figures import token_figures
from hfposemb.figures.palette import PALETTE, POSITION, SOURCES
from hfposemb.figures.style import Series, listed
from hfposemb.numbers import percent

from ...components.plot import Drawing, LegendItem, Panel, ScaleBar
from ...components.recipe import Recipe
from ...recipes import sum_snippets
from ...session.shown_positions import FILES
from .sum_amplitude import WHOLE, amplitude_lines
from .sum_view import CLOUD_PLACES, View, panel_unless

CLOUD_HELP = """
Some words, each at the first positions, as input to the first layer: summed and normalised as in the model, or scaled
to length 1 if the model normalises only later. Both pictures show the same two principal components, coloured by word
and by position. Clusters of one word show that the word is preserved; clusters of one position show that it is not.
"""


VARIANCE_HELP = """
Analysis of variance (Fisher 1925): the variance of the whole cloud is exactly the sum of the variance of the words’
means, that of the positions’ means, and a remainder: the interaction of words and positions. Without normalisation the
remainder is exactly 0, because a sum has no interaction. The dotted line is the share of words after shuffling the same
vectors.
"""


def cloud_panel(view: View) -> Panel:
    """Draw the sample at the first places as a cloud, coloured by word and by position."""

    def made(empty: Panel) -> Panel:
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
            actions=FILES,
            recipe=_recipe(view, f"shown = found.club(amplitude={amplitude:g}).points"),
        )

    return panel_unless("cloud", "Words at several positions", CLOUD_HELP, made, span=2)


NORMED = {"model": "normalised as in the model", "length": "scaled to length 1", "none": "not normalised"}


def _recipe(view: View, value: str) -> Recipe:
    """Return the code that computes a value of the cloud on the screen."""
    words = list(view.sample.values())
    return sum_snippets.club(view.source, view.chosen.adding, words, places=CLOUD_PLACES, value=value)


def variance_panel(view: View) -> Panel:
    """Draw the shares of words, positions and the interaction in the cloud's variance."""

    def made(empty: Panel) -> Panel:
        found = view.of_cloud("variance", lambda cloud: cloud.variance())
        at = found.amplitudes
        turn = np.flatnonzero(found.positions > found.words)
        title = "Words explain more of the variance than positions at every amplitude"
        if len(turn):
            title = f"From {at[turn[0]]:g}×, positions explain more of the variance than words"
        chance = np.full(len(at), found.chance[0])
        series = [
            Series(
                "words", found.words, SOURCES[0].colour.light, "solid", at, marks=(found.index(view.asked.amplitude),)
            ),
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
            actions=FILES,
            recipe=_recipe(view, "found = found.variance()\nshown = [found.words, found.positions, found.rest]"),
        )

    return panel_unless("variance", "How the variance is shared", VARIANCE_HELP, made)
