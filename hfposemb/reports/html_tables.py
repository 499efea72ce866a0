"""HTML tables of a comparison, each number with its chance interval. Nothing is measured here.

The report and the app show the same tables. Text from a source, such as names, labels and notes, is escaped. Numbers
beyond chance are marked by a sign and a word, never by colour alone. ``tables.css`` styles the tables with the
variables of ``colours``.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..comparison.metric_meanings import meaning
from ..comparison.metrics import MEASURES, SECTIONS, measures_named
from ..figures.palette import PALETTE, SOURCES
from ..figures.style import listed
from ..tables.null_comparison import LEVEL
from ..text import display, number, percent, sentence_case, small_percent

if TYPE_CHECKING:
    from ..comparison.alignment import Alignment
    from ..comparison.moved_words import Move
    from ..comparison.quantisation import QuantisationDamage
    from ..comparison.results import Comparison, Figure, NotCompared, SourceFigures
    from ..tables.null_comparison import Null

LONGEST_NAME = 60
SIGNS: Mapping[str, str] = {"above": "▲", "below": "▼", "within": "○"}
"""Signs of numbers above chance, below it, and of those whose p value shows neither."""

KEY = "▲ above chance, ▼ below chance (p ≤ .05), ○ neither"
"""The legend of ``SIGNS``."""


def colours(*, dark: bool) -> str:
    """Return the CSS variables that ``tables.css`` uses, for a light or a dark page."""
    roles = ("page", "panel", "field", "ink", "subdued", "faint", "accent", "accent_text", "accent_soft", "baseline")
    chosen = {role.replace("_", "-"): PALETTE[role] for role in roles}
    chosen |= {f"source-{place}": style.colour for place, style in enumerate(SOURCES)}
    return " ".join(f"--{name}: {colour.dark if dark else colour.light};" for name, colour in chosen.items())


def text(value: str, *, width: int = LONGEST_NAME) -> str:
    """Return a text as HTML: one line of at most ``width`` characters, invisible characters by name, no markup."""
    return html.escape(display(value, width=width))


def disc(place: int) -> str:
    """Return a dot in the colour of a source, by its index."""
    return f'<span class="disc" style="--colour: var(--source-{place % len(SOURCES)})" aria-hidden="true"></span>'


def figure(value: float | None, unit: str = "") -> str:
    """Format a number like the text form of a comparison, with a true minus sign; – if there is none."""
    from ..comparison.results import short

    if value is None:
        return "–"
    written = short(value, unit)
    return written.replace("-", "−") if written.strip("-.0") else written.lstrip("-")


def standing(null: Null, p: float | None = None) -> str:
    """Return whether a value is "above" or "below" chance by its p value, corrected if that is given, or "within"."""
    return "within" if (null.p if p is None else p) > LEVEL else "above" if null.observed > null.mean else "below"


def _sign(where: str) -> str:
    said = "not beyond chance" if where == "within" else f"{where} chance"
    return f'<span class="sign {where}" title="{said}">{SIGNS[where]}<span class="unseen">{said}</span></span>'


def column_heads(*names: str) -> str:
    """Return the heads of the columns of a table, which are HTML."""
    return "".join(f'<th scope="col">{name}</th>' for name in names)


def sheet(label: str, heads: str, rows: str, *, kind: str = "moves") -> str:
    """Return a table that scrolls in a region of its own, by what it is called and its parts as HTML."""
    style = f' class="{kind}"' if kind else ""
    return (
        f'<div class="sheet" role="region" aria-label="{label}" tabindex="0"><table{style}>'
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


# --- metrics ----------------------------------------------------------------------------------------------------------


def metrics_table(comparison: Comparison, names: Sequence[str] = ()) -> str:
    """Return the table of metrics, one column per source, followed by notes and the reasons why metrics are missing.

    Args:
        comparison: The comparison.
        names: Display names of the sources, by default their own.
    """
    shown = list(names) or [source.source for source in comparison.sources]
    heads = column_heads("Metric", *(f"{disc(place)}{text(name)}" for place, name in enumerate(shown)))
    rows = [
        f'<tr><th scope="row">{name}</th>{"".join(f"<td>{text(one.facts[name])}</td>" for one in comparison.sources)}'
        "</tr>"
        for name in comparison.sources[0].facts
    ]
    columns = len(shown) + 1
    for section, heading in SECTIONS.items():
        if names_of := [name for name in known(comparison) if _section(name) == section]:
            rows.append(f'<tr><th colspan="{columns}" scope="rowgroup">{heading.capitalize()}</th></tr>')
            rows += [_row(name, comparison.sources) for name in names_of]
    return sheet("Metrics of all sources", heads, "".join(rows), kind="") + _notes(comparison, shown)


def known(comparison: Comparison) -> list[str]:
    """Return the names of the metrics that at least one source has."""
    first = comparison.sources[0].metrics
    return [name for name in first if any(source.metrics[name].value is not None for source in comparison.sources)]


def _section(name: str) -> str:
    return next((measure.section for measure in MEASURES if measure.name == name), "both")


def _row(name: str, sources: Sequence[SourceFigures]) -> str:
    unit = sources[0].metrics[name].unit
    title = f"{name}, %" if unit == "%" else name
    cells = "".join(_cell(source.metrics[name]) for source in sources)
    return f'<tr><th scope="row">{text(title)}</th>{cells}</tr>'


def _cell(one: Figure) -> str:
    if one.value is None:
        return f'<td title="{html.escape(one.note)}"><span aria-label="not available">–</span></td>'
    spread = "" if one.deviation is None else f" ± {figure(one.deviation, one.unit)}"
    value = f"<strong>{figure(one.value, one.unit)}</strong>{spread}"
    if one.null is None:
        known = ", ".join(f"{name} {figure(found, one.unit)}" for name, found in one.references.items())
        return f"<td>{value}" + (f'<span class="chance">{known}</span></td>' if known else "</td>")
    low, high = (figure(end, one.unit) for end in (one.null.low, one.null.high))
    return f'<td>{value} {_sign(standing(one.null))}<span class="chance">chance {low} to {high}</span></td>'


def _notes(comparison: Comparison, names: Sequence[str]) -> str:
    """Return the notes of every source and the reasons why metrics are missing, each reason once."""
    lines = []
    for place, (name, source) in enumerate(zip(names, comparison.sources, strict=True)):
        reasons = [one.note for one in source.metrics.values() if one.note]
        said = dict.fromkeys(one.removesuffix(".") for one in (*source.notes, *reasons))
        if said:
            lines.append(f"<li>{disc(place)}<strong>{text(name)}</strong> {text('; '.join(said), width=1200)}</li>")
    return f'<ul class="notes">{"".join(lines)}</ul>' if lines else ""


def finding(comparison: Comparison, names: Sequence[str] = ()) -> str:
    """Say what the metric from −1 to 1 with the widest range over the sources means: a place to look, not a test."""
    shown = list(names) or [source.source for source in comparison.sources]
    best: tuple[float, str] = (0.0, "")
    for name in known(comparison):
        found = [source.metrics[name] for source in comparison.sources]
        values = [one.value for one in found if one.value is not None]
        if len(values) > 1 and found[0].unit in ("", "cosine") and max(map(abs, values)) <= 1:
            best = max(best, (max(values) - min(values), name))
    if not best[1]:
        return "No comparable metric is available for two of these sources"
    parts = [
        f"{figure(source.metrics[best[1]].value, source.metrics[best[1]].unit)} in {display(name, width=LONGEST_NAME)}"
        for name, source in zip(shown, comparison.sources, strict=True)
        if source.metrics[best[1]].value is not None
    ]
    plain = re.split("[:;.]", meaning(measures_named([best[1]])[0]))[0]
    plain = plain[0].lower() + plain[1:] if plain[1:2].islower() else plain
    return f"Biggest difference: {plain} ({listed(parts)})"


# --- pairs ------------------------------------------------------------------------------------------------------------


def pairs_tables(comparison: Comparison, names: Mapping[str, str] | None = None) -> str:
    """Return one table per pair and role: each measure as a dot on the interval of its null, with its p-value.

    Args:
        comparison: The comparison.
        names: Display names of the sources by their own names.
    """
    blocks = [_pair(pair, names or {}) for pair in comparison.pairs]
    missing = "".join(f"<li>{text(_missing(pair, names or {}), width=600)}</li>" for pair in comparison.missing)
    words = f'<ul class="notes">{missing}</ul>' if missing else ""
    return f'<div class="pairs">{"".join(blocks)}</div>{words}' if blocks else words


def _missing(pair: NotCompared, names: Mapping[str, str]) -> str:
    """Say why two tables were not compared, with the display names of the sources."""
    shown = {name: names.get(name, name) for name in (pair.left, pair.right)}
    reason = pair.reason
    for name, said in shown.items():
        reason = reason.replace(f"{name} has ", f"{said} has ")
    return sentence_case(str(replace(pair, left=shown[pair.left], right=shown[pair.right], reason=reason)))


def _pair(pair: Alignment, names: Mapping[str, str]) -> str:
    left, right = (text(names.get(name, name)) for name in (pair.left, pair.right))
    shared = f"{pair.rows:,} {pair.of_what}"
    if pair.role == "token":
        shared += f", {pair.shared:,} shared, {percent(pair.coverage)} of the smaller vocabulary"
    first = min((0.0, *pair.observed.values(), *(null.low for null in pair.measures.values())))
    rows = "".join(_measure(pair, name, value, first) for name, value in pair.observed.items())
    notes = f'<p class="about">{text(sentence_case("; ".join(pair.notes)), width=600)}</p>' if pair.notes else ""
    head = column_heads("Measure", "Scale", "Value", "Chance")
    return (
        f'<section class="pair"><h3>{pair.role.capitalize()}s of {left} and {right}</h3>'
        f"<p>{text(verdict(pair), width=600)}</p>"
        f'<p class="about">{text(shared, width=200)}</p><table>'
        f'<thead class="unseen"><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{notes}</section>'
    )


def verdict(pair: Alignment) -> str:
    """State whether the tables of a pair are more alike than by chance, by CKA, or why this was not tested."""
    null, value = pair.measures.get("CKA"), pair.observed.get("CKA")
    remarks = [sentence_case(one) for one in pair.remarks]
    if null is not None:
        said = f"CKA {figure(null.observed)}, by chance {figure(null.low)} to {figure(null.high)}"
        more = "No more" if standing(null, pair.p("CKA")) == "within" else "More"
        remarks.insert(0, f"{more} alike than chance: {said}")
    elif not pair.untested:
        remarks.insert(
            0, "Not compared with chance" if value is None else f"CKA {figure(value)}, not compared with chance"
        )
    elif value is not None:
        remarks[0] = f"CKA {figure(value)}, {pair.remarks[0]}"
    return f"{'. '.join(remarks)}."


def _measure(pair: Alignment, name: str, value: float, first: float) -> str:
    from ..comparison.results import p_values

    null = pair.measures.get(name)

    def at(value: float) -> str:
        return f"{100 * min(max((value - first) / (1 - first), 0.0), 1.0):.1f}%"

    where = "within" if null is None else standing(null, pair.p(name))
    band = "" if null is None else f"left: {at(null.low)}; right: calc(100% - {at(null.high)})"
    tested = value if null is None else null.observed
    marks = (("zero", f"left: {at(0)}"), ("band", band), (f"dot {where}", f"left: {at(tested)}"))
    strip = "".join(f'<i class="{kind}" style="{place}"></i>' for kind, place in marks if place)
    chance = (
        "" if null is None else f"{figure(null.low)} to {figure(null.high)}, {p_values(null, pair.p(name), p_value)}"
    )
    if figure(tested) != figure(value):
        chance = f"{figure(tested)} without outliers; {chance}"
    return (
        f'<tr><th scope="row">{text(name)}</th><td class="strip" aria-hidden="true"><span>{strip}</span></td>'
        f"<td><strong>{figure(value)}</strong> {_sign(where) if null is not None else ''}</td>"
        f'<td class="chance">{chance}</td></tr>'
    )


def p_value(p: float) -> str:
    """Format a p value."""
    return number(p) if p < 1 else "1"


def correction(comparison: Comparison) -> str:
    """Say for how many comparisons the p values of pairs are corrected; "" for one."""
    tests = max((pair.among for pair in comparison.pairs), default=1)
    return f"p is corrected for {tests} comparisons (Holm); in brackets, each alone" if tests > 1 else ""


# --- words ------------------------------------------------------------------------------------------------------------


def damage(found: QuantisationDamage) -> str:
    """State in a sentence the mean relative error and the neighbours kept, each with its chance interval."""
    error, kept = (found.measures[name] for name in ("relative error", "neighbours kept"))
    return (
        f"Quantisation changes a token by {small_percent(error.observed)} (random errors of the same energy "
        f"{_interval(error)}) and keeps {percent(kept.observed, digits=1)} of its neighbours ({_interval(kept)})"
    )


def _interval(null: Null) -> str:
    low, high = (small_percent(end) if null.observed < 0.5 else percent(end, digits=1) for end in (null.low, null.high))
    return low if low == high else f"{low} to {high}"


def moves_table(
    sides: tuple[str, str], groups: Mapping[str, Sequence[Move]], distance: str, names: Mapping[str, str]
) -> str:
    """Return groups of words of two sources, with their distances and neighbours.

    Args:
        sides: The sources.
        groups: Words by the heading of their group.
        distance: What the distances are called.
        names: Display names of the sources by their own names.
    """
    left, right = (text(names.get(name, name)) for name in sides)
    heads = column_heads("Word", distance, "Kept", f"Neighbours in {left}", f"Neighbours in {right}")
    parts = [
        f'<tr><th colspan="5" scope="rowgroup">{title}</th></tr>{"".join(map(_move, found))}'
        for title, found in groups.items()
        if found
    ]
    return sheet(f"{next(iter(groups))}: {left} and {right}", heads, "".join(parts))


def _move(move: Move) -> str:
    near = "".join(f"<td>{_labels(label for label, _ in side)}</td>" for side in (move.left, move.right))
    numbers = f"<td>{figure(move.distance)}</td><td>{percent(move.kept)}</td>"
    return f'<tr><th scope="row">{word(move.label)}</th>{numbers}{near}</tr>'


def word(label: str) -> str:
    """Return a token's label as HTML, without the space that marks the start of a word."""
    return text(label.strip() or "(space)", width=32)


def _labels(labels: Iterable[str]) -> str:
    return " · ".join(map(word, labels))


def neighbours_table(comparison: Comparison, names: Sequence[str] = ()) -> str:
    """Return the neighbours of the chosen words, one column per source that has any."""
    shown = list(names) or [source.source for source in comparison.sources]
    having = [place for place, source in enumerate(comparison.sources) if source.neighbours]
    if not having:
        return ""
    heads = column_heads("Word", *(f"{disc(place)}{text(shown[place])}" for place in having))
    rows = []
    for asked in comparison.words:
        cells = []
        for place in having:
            found = comparison.sources[place].neighbours.get(asked, ())
            said = " · ".join(f"{word(label)} {figure(value)}" for label, value in found)
            cells.append(f"<td>{said or '–'}</td>")
        rows.append(f'<tr><th scope="row">{text(asked)}</th>{"".join(cells)}</tr>')
    return sheet("Neighbours of chosen words", heads, "".join(rows))
