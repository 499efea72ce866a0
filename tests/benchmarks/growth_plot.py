"""A plot of how cost grows, as an SVG: a small panel for each operation, both axes logarithmic."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from .growth import Growth

COLUMNS, WIDTH, HEIGHT = 4, 220, 190
LEFT, TOP, RIGHT, BOTTOM = 46, 40, 14, 36
"""Margins of a panel, in pixels."""

STYLE = (
    "text{font:11px sans-serif;fill:#333}.title{font-weight:bold}.axis{stroke:#999}.expected{stroke:#999;"
    "stroke-dasharray:4 3}.found{stroke:#0072b2;stroke-width:2;fill:none}.range{stroke:#0072b2}.point{fill:#0072b2}"
)


def growth_svg(growths: Sequence[Growth]) -> str:
    """Return the plot: the median at each size with its range, and dashed the growth that is expected at most."""
    rows = -(-len(growths) // COLUMNS)
    wide, high = COLUMNS * WIDTH, max(1, rows) * HEIGHT
    panels = [
        f'<g transform="translate({place % COLUMNS * WIDTH} {place // COLUMNS * HEIGHT})">{"".join(_panel(one))}</g>'
        for place, one in enumerate(growths)
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}">'
    back = f'<rect width="{wide}" height="{high}" fill="#fff"/>'
    return "\n".join([head, f"<style>{STYLE}</style>", back, *panels, "</svg>"]) + "\n"


def _panel(one: Growth) -> Iterator[str]:
    """Yield the marks of one operation; the dashed line starts at its first median."""
    taken = [value for each in one.rounds for value in each]
    expected = [one.seconds[0] * (size / one.sizes[0]) ** one.expected for size in (one.sizes[0], one.sizes[-1])]
    low, high = min(*taken, *expected), max(*taken, *expected)

    def x(size: float) -> float:
        return _placed(size, one.sizes[0], one.sizes[-1], LEFT, WIDTH - RIGHT)

    def y(value: float) -> float:
        return _placed(value, low, high, HEIGHT - BOTTOM, TOP)

    yield f'<text class="title" x="{LEFT}" y="16">{escape(one.name)}</text>'
    yield f'<text x="{LEFT}" y="30">exponent {one.exponent:.2f}, expected ≤ {one.expected:g}</text>'
    yield f'<path class="axis" fill="none" d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>'
    for value in (low, high):
        yield f'<text text-anchor="end" x="{LEFT - 4}" y="{y(value) + 4:.1f}">{_short(value)}</text>'
    for size, anchor in ((one.sizes[0], "start"), (one.sizes[-1], "end")):
        yield f'<text text-anchor="{anchor}" x="{x(size):.1f}" y="{HEIGHT - BOTTOM + 14}">{size:,}</text>'
    middle = (LEFT + WIDTH - RIGHT) / 2
    yield f'<text text-anchor="middle" x="{middle:g}" y="{HEIGHT - BOTTOM + 27}">{escape(one.of)}</text>'
    ends = zip((one.sizes[0], one.sizes[-1]), expected, strict=True)
    yield f'<path class="expected" fill="none" d="{_line([(x(size), y(value)) for size, value in ends])}"/>'
    points = [(x(size), y(value)) for size, value in zip(one.sizes, one.seconds, strict=True)]
    yield f'<path class="found" d="{_line(points)}"/>'
    for size, values in zip(one.sizes, zip(*one.rounds, strict=True), strict=True):
        yield f'<path class="range" d="M{x(size):.1f} {y(min(values)):.1f}V{y(max(values)):.1f}"/>'
    yield from (f'<circle class="point" cx="{across:.1f}" cy="{down:.1f}" r="3"/>' for across, down in points)


def _placed(value: float, low: float, high: float, start: float, stop: float) -> float:
    """Return where a value stands between two ends of a logarithmic axis."""
    share = math.log(value / low) / math.log(high / low) if high > low else 0.5
    return start + share * (stop - start)


def _line(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{across:.1f} {down:.1f}" for across, down in points)


def _short(value: float) -> str:
    """Write a time in few letters."""
    for size, unit in ((1, "s"), (1e-3, "ms")):
        if value >= size:
            return f"{value / size:.2g} {unit}"
    return f"{value * 1e6:.2g} µs"
