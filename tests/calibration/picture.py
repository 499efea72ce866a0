"""The calibration as a picture: the rate of each measure by family, with its confidence interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .families import INDEPENDENT, RELATED
from .rates import Rate

if TYPE_CHECKING:
    from .__main__ import Result

COLOURS = ("#4c5fd5", "#c2571a", "#1f8a70", "#9b3fa5", "#7a6a00", "#b8325e")
"""One per shape."""

RELATIONS = (INDEPENDENT, next(iter(RELATED)))


def draw(results: Sequence[Result]) -> Any:
    """Return a figure of the false positives of tables of positions, on the left, and of the power, on the right."""
    from plotly.subplots import make_subplots

    shown = [one for one in results if not one.measure.startswith(("tokens", "one table", "patches"))]
    measures = list(dict.fromkeys(one.measure for one in shown))
    figure = make_subplots(
        rows=len(measures),
        cols=2,
        shared_yaxes=True,
        horizontal_spacing=0.06,
        vertical_spacing=0.08,
        subplot_titles=[title for name in measures for title in (f"{name}: false positives", f"{name}: power")],
    )
    shapes = sorted({(one.count, one.width) for one in shown})
    families = list(dict.fromkeys(one.family for one in shown))
    for row, measure in enumerate(measures, 1):
        for column, relation in enumerate(RELATIONS, 1):
            for place, shape in enumerate(shapes):
                own = [
                    one
                    for one in shown
                    if (one.measure, (one.count, one.width)) == (measure, shape) and one.relation == relation
                ]
                heights = [families.index(one.family) + 0.2 * (place - (len(shapes) - 1) / 2) for one in own]
                trace = _trace(own, heights, COLOURS[place % len(COLOURS)])
                trace.update(name=f"{shape[0]} × {shape[1]}", showlegend=row == column == 1)
                figure.add_trace(trace, row=row, col=column)
            figure.add_vline(
                5 if relation == INDEPENDENT else 80, line={"color": "#888", "dash": "dot"}, row=row, col=column
            )
            span = [0, 15] if relation == INDEPENDENT else [0, 101]
            figure.update_xaxes(range=span, ticksuffix=" %", row=row, col=column)
    figure.update_yaxes(autorange="reversed", tickvals=list(range(len(families))), ticktext=families)
    figure.update_layout(
        template="plotly_white",
        width=1100,
        height=120 + 30 * len(families) * len(measures),
        margin={"l": 260, "r": 20, "t": 70, "b": 40},
        legend={"orientation": "h", "y": 1.03},
        font={"family": "sans-serif", "size": 12},
    )
    return figure


def _trace(own: Sequence[Result], heights: Sequence[float], colour: str) -> Any:
    import plotly.graph_objects as go

    rates = [Rate(one.found, one.tested, one.pairs) for one in own]
    shares = [100 * rate.share for rate in rates]
    return go.Scatter(
        x=shares,
        y=heights,
        mode="markers",
        marker={"color": colour, "size": 7},
        error_x={
            "array": [100 * rate.interval[1] - share for rate, share in zip(rates, shares, strict=True)],
            "arrayminus": [share - 100 * rate.interval[0] for rate, share in zip(rates, shares, strict=True)],
            "color": colour,
            "thickness": 1,
        },
    )
