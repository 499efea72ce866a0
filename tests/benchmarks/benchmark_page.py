"""The text of ``docs/benchmarks.md``: a table of bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .cost import Row
from .kept_run import WORSE, Found, regressions


def page_text(found: Found, *, before: Mapping[str, float], machine: Mapping[str, Any]) -> str:
    """Return the page of a run, with what is worse than in the run before marked.

    Args:
        found: What was measured.
        before: The figures of the run before by the names of their lines; empty where there is none.
        machine: Where and when it was measured.
    """
    marked = regressions(found.rows, before)
    lines = [*_head(found, machine, marked, compared=bool(before)), *_bounds(found.rows, marked)]
    return "\n".join(lines) + "\n"


def line(row: Row) -> str:
    """Return one line for the terminal."""
    found = _ranged(row.found, row.spread)
    return f"{row.number:>2} {row.name:<62} {row.ours:<48} {row.bound:<48} {found:<30} {row.goal:>10}  {_verdict(row)}"


def _verdict(row: Row) -> str:
    return ("met" if row.met else "**missed**") if row.goal else ""


def _head(found: Found, machine: Mapping[str, Any], marked: Mapping[str, float], *, compared: bool) -> Iterator[str]:
    asked = [row for row in found.rows if row.goal]
    libraries = ", ".join(f"{name} {version}" for name, version in machine["libraries"].items())
    yield "# Benchmarks\n"
    yield (
        "Written by `make bench`. Both sides of a line run in turns in one script. Each figure is the median over the "
        "rounds, with the range in brackets; a figure without brackets does not vary, or comes from one round. What "
        "counts is the ratio, since machines are noisy: its median and range are those of the ratio of each round.\n"
    )
    yield (
        f"{machine['date']}, Python {machine['python']}, {machine['system']}, {machine['cores']} cores, "
        f"{machine['processor']}; {libraries}. {sum(found.seconds.values()) / 60:.0f} minutes.\n"
    )
    yield f"{sum(row.met for row in asked)} of {len(asked)} goals met.\n"
    if compared:
        worst = f"{len(marked)} {'figure is' if len(marked) == 1 else 'figures are'}" if marked else "No figure is"
        yield (
            f"{worst} worse by more than {WORSE - 1:.0%} than in the run kept before; such figures are marked ▲. "
            "Ratios are compared, and where there is no bound the figure itself, which depends on the machine.\n"
        )


def _mark(name: str, marked: Mapping[str, float]) -> str:
    return f" ▲ {marked[name]:.2f} × the run before" if name in marked else ""


def _ranged(text: str, spread: str) -> str:
    return f"{text} [{spread}]" if spread else text


def _bounds(rows: Sequence[Row], marked: Mapping[str, float]) -> Iterator[str]:
    yield "| goal | operation | ours | bound | found | wanted | |"
    yield "|---|---|---|---|---|---|---|"
    for row in sorted(rows, key=lambda row: row.number):
        found = _ranged(row.found, row.spread) + _mark(row.name, marked)
        yield f"| {row.number} | {row.name} | {row.ours} | {row.bound} | {found} | {row.goal} | {_verdict(row)} |"
