"""The errors of a quantised token table: every token by rank, with the errors expected by chance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..text import small_percent
from .label_placement import LINE
from .line_figures import curves
from .style import ACCENT, ACCENT_TEXT, BASELINE, MARGIN, PANEL, Axis, Series, add_label, escape, legend_row

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from ..comparison.moved_words import Move
    from ..comparison.quantisation import QuantisationDamage

SKEWED = 10
"""Errors whose maximum is this many times their median have a log axis."""

HEIGHT, LEGEND, RISE = 300, 36, 14

NAMED = 3
"""Tokens of largest error with a dot and a name; unused and special tokens are not named."""


def quantisation_errors(found: QuantisationDamage, *, style: tuple[str, str] = (ACCENT, "solid")) -> go.Figure:
    """Draw the relative error of the tokens, largest first, with the interval of random errors of the same energy.

    Args:
        found: Comparison of a token table with its quantised form.
        style: Colour and dash of the quantised source.

    Examples:
        >>> import numpy as np
        >>> import hfposemb as hpe
        >>> from hfposemb.figures.quantisation_errors import quantisation_errors
        >>> source = hpe.extract("sample:gpt2")
        >>> rounded = hpe.from_arrays(token=np.round(source.token.vectors, 2), labels=source.token.labels.texts)
        >>> figure = quantisation_errors(hpe.compare_quantised(source, rounded, draws=19))
        >>> figure.layout.xaxis.title.text
        'tokens, largest error first, log scale'
    """
    errors, random = np.sort(found.errors)[::-1], found.random
    values = errors[random.ranks - 1]
    chance = Series("random errors", random.mean, BASELINE, at=random.ranks, band=(random.low, random.high))
    drawn = Series("quantised", values, *style, at=random.ranks, chosen=True)
    x = Axis("tokens, largest error first, log scale", log=True, span=(0.8, 1.25 * len(errors)))
    y = _error_axis(np.concatenate([values, random.low, random.high]), found.worst[:NAMED])
    figure = curves([chance, drawn], x=x, y=y, height=HEIGHT)
    dots = [(move, 1 + int((errors > move.distance).sum())) for move in found.worst[:NAMED]]
    figure.add_scatter(
        x=[rank for _, rank in dots],
        y=[move.distance for move, _ in dots],
        text=[f"{_word(move)}: {small_percent(move.distance)}" for move, _ in dots],
        mode="markers",
        marker={"size": 8, "color": ACCENT, "line": {"width": 0}},
        hoverinfo="none",
        showlegend=False,
    )
    figure.layout.annotations = _names(dots, log=y.log)  # update_layout would merge them with the names of the lines
    return figure.update_layout(showlegend=True, legend=legend_row(), margin_t=LEGEND)


def _error_axis(values: np.ndarray[Any, Any], named: tuple[Move, ...]) -> Axis:
    """Return the axis of errors, from 0 or logarithmic, with room above the largest one for names in stacked lines."""
    room = (RISE + LINE * len(named)) / (HEIGHT - LEGEND - MARGIN["b"])
    positive = values[values > 0]
    low, high = float(positive.min()), float(positive.max())
    if high <= SKEWED * float(np.median(positive)):
        return Axis("relative error", share=True, span=(0.0, high / (1 - room)))
    decades = float(np.log10(high / low))
    return Axis(
        "relative error, log scale", log=True, share=True, span=(low, high * 10 ** (decades * room / (1 - room)))
    )


def _names(dots: list[tuple[Move, int]], *, log: bool) -> list[dict[str, Any]]:
    """Return the names above their dots: one line lower from each to the next, so that names never overlap."""
    notes = []
    for order, (move, rank) in enumerate(dots):
        rise = RISE + LINE * (len(dots) - 1 - order)
        leader = {"showarrow": True, "arrowhead": 0, "arrowwidth": 1, "arrowcolor": ACCENT, "ax": 0, "ay": -rise}
        at: dict[str, Any] = {"x": float(np.log10(rank)), "y": float(np.log10(move.distance)) if log else move.distance}
        name = f"“{_word(move)}”"
        notes.append(add_label(name, colour=ACCENT_TEXT, bgcolor=PANEL, xanchor="left", **at) | leader)
    return notes


def _word(move: Move) -> str:
    return escape(move.label.strip() or move.label, width=20)
