"""Plots of all sources: similarity by distance, norms and explained variance; waves and rotary wavelengths."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import hfposemb as hpe
from hfposemb.figures import line_figures, wave_figures
from hfposemb.figures.style import Series, listed
from hfposemb.reports.position_findings import Facts, distance_title, norm_title, variance_title, wave_title
from hfposemb.tables.encodings import PositionEncoding
from hfposemb.tables.rotary import DynamicScaling, LongFactors, Rotary
from hfposemb.text import number

from ...components.help_texts import HELP
from ...components.plot import Drawing, Panel, Panels
from ...components.recipe import Recipe
from ...recipes.position_snippets import of_tables, profiles
from ...recipes.writing import position, recipe
from ...session.opened import Opened
from ...session.shown_positions import KERNEL, Positions, drawn_length, positions_of, shown_part, tables_of
from ...session.state import Session
from .position_clouds import by_distance, half_at, series_of
from .sinusoid_claims import buildup_panel

BIASED = 128  # distances drawn of additive biases: those of T5 level off by then, those of ALiBi never do
HEIGHT = 200  # of the three plots below the clouds
EXAMPLE = 16  # the distance whose bias is stated in the title


def mirrored(series: Sequence[Series]) -> list[Series]:
    """Return the lines on one axis: if any has negative distances, symmetric ones are mirrored."""
    if all(s.x.min() >= 0 for s in series):
        return list(series)
    return [
        s if s.x.min() < 0 else replace(s, values=np.r_[s.values[:0:-1], s.values], at=np.r_[-s.x[:0:-1], s.x])
        for s in series
    ]


def lines(opened: Sequence[Opened], length: int, session: Session) -> Panels:
    """Draw similarity by distance in one plot per unit, norms, and explained variance."""
    found = tables_of(opened, length, session)
    return _in_columns([*distance_panels(opened, found, length), *table_panels(found, session)])


def spectra(opened: Sequence[Opened], length: int, session: Session) -> Panels:
    """Draw the strength of waves by period in all tables, and the wavelengths of every rotary source."""
    found = tables_of(opened, length, session)
    return _in_columns([*wave_panel(found), *wavelength_panels(opened), *buildup_panel(opened, session)])


def _in_columns(drawn: Sequence[Panel]) -> Panels:
    return Panels(tuple(drawn), columns={4: 2}.get(len(drawn), min(max(len(drawn), 1), 3)))


def distance_panels(opened: Sequence[Opened], found: Mapping[Opened, Positions], length: int) -> list[Panel]:
    """Draw similarity against distance, one plot per unit: different units never share an axis."""
    facts = {source: positions.facts for source, positions in found.items()}
    curves: dict[str, list[Series]] = {"cosine": [], "expected rotary kernel": [], "additive bias": []}
    curves["cosine"] += [series_of(s, fact.half) for s, fact in facts.items() if fact.next is not None]
    others: dict[str, dict[str, PositionEncoding]] = {unit: {} for unit in curves}
    mechanisms: dict[str, list[Opened]] = {unit: [] for unit in curves}
    silent = []
    for source in opened:
        encoding = source.encoding
        if encoding is None:
            continue
        unit = encoding.unit
        if unit == "none":
            silent.append(source.name)
        elif source not in found and (unit != "cosine" or not encoding.has_table):
            most = BIASED if unit == "additive bias" else KERNEL
            shown = drawn_length(encoding, length, most)
            curves[unit].append(by_distance(series_of(source, np.empty(0)), encoding, shown))
            others[unit][source.name] = encoding
            mechanisms[unit].append(source)
    kernels, biases = others["expected rotary kernel"], others["additive bias"]
    titles = {
        "cosine": distance_title({source.name: fact for source, fact in facts.items()})
        if facts
        else "Similarity of the vector of each distance to that of distance 0",
        "expected rotary kernel": f"The kernel falls below .5 {listed(_each(kernels, half_at))}",
        "additive bias": f"{EXAMPLE} positions back, the bias is {listed(_each(biases, bias_back))}",
    }
    relative = f"{listed(list(others['cosine']))}: cosine with the vector of distance 0" if others["cosine"] else ""
    feet = {
        "cosine": " · ".join(filter(None, ["Distances up to half of each table" if facts else "", relative])),
        "expected rotary kernel": "Expected rotary kernel, equal energy in every pair",
        "additive bias": f"Additive bias to the logit, mean over heads, up to distance {BIASED - 1}",
    }
    helps = {"cosine": HELP["distance"], "expected rotary kernel": HELP["rotary kernel"], "additive bias": HELP["bias"]}
    without = f" · not shown: {listed(silent)} (no numbers to compare)" if silent else ""
    drawn = []
    for kind, series in curves.items():
        if series:
            both = mirrored(series)
            figure = line_figures.similarity_by_distance(both, unit=kind, height=HEIGHT)  # type: ignore[arg-type]
            key = {"cosine": "distance", "expected rotary kernel": "kernel"}.get(kind, "bias")
            rest = mechanisms[kind]
            tables = [found[s] for s, fact in facts.items() if fact.next is not None] if kind == "cosine" else []
            at = {source: one.x for source, one in zip(rest, both[len(both) - len(rest) :], strict=True)}
            recipe = profiles(tables, at)
            drawn.append(_panel(key, titles[kind], figure, helps[kind], feet[kind] + without, recipe))
            without = ""
    return drawn


def _each(encodings: Mapping[str, PositionEncoding], value: Callable[[PositionEncoding], str]) -> list[str]:
    return [f"{value(encoding)} in {name}" for name, encoding in encodings.items()] or [""]


def bias_back(encoding: PositionEncoding) -> str:
    """Return the bias of the key ``EXAMPLE`` positions before the query as text."""
    return number(float(encoding.profile(np.array([-EXAMPLE]))[0]), digits=2)


def table_panels(found: Mapping[Opened, Positions], session: Session) -> list[Panel]:
    """Draw norms and explained variance of all sources that have vectors, in one plot each."""
    facts = {source: positions.facts for source, positions in found.items()}
    by_name = {source.name: fact for source, fact in facts.items()}
    drawn: list[Panel] = []
    if long := {s: fact for s, fact in facts.items() if (fact.norms > 0).sum() > 1}:
        norms = [
            series_of(s, np.where(fact.norms > 0, fact.norms, np.nan), marks=_ends(fact)) for s, fact in long.items()
        ]
        figure = line_figures.norms_by_position(norms, height=HEIGHT)
        recipe = of_tables([found[s] for s in long], "hpe.positive_norms(table)", figure="norms")
        panel = _panel("norms", norm_title(by_name), figure, HELP["norms"], "Euclidean norm, log scale", recipe)
        drawn.append(replace(panel, tools=("Range",)))
    if parts := {
        s: fact.cumulative for s, fact in facts.items() if fact.cumulative is not None and len(fact.cumulative) > 1
    }:
        shares = [series_of(s, held, marks=(min(3, len(held)) - 1,)) for s, held in parts.items()]
        baseline = _untrained(found, session)
        figure = line_figures.explained_variance([*shares, *baseline], height=HEIGHT)
        foot = "PCA of the centred table" + (" · dotted: an untrained table" if baseline else "")
        recipe = of_tables([found[s] for s in parts], "hpe.spectrum(table).cumulative", figure="variance")
        drawn.append(_panel("variance", variance_title(by_name), figure, HELP["variance"], foot, recipe))
    return drawn


def wave_panel(tables: Mapping[Opened, Positions]) -> list[Panel]:
    """Draw the strength of waves by period in the columns of all tables, with the level of noise; nothing without."""
    facts = {source: positions.facts for source, positions in tables.items()}
    found = {source: fact.waves for source, fact in facts.items() if fact.waves is not None}
    if not found:
        return []
    series = [
        series_of(
            source,
            waves.strength[::-1],
            at=waves.periods[::-1].astype(np.float32),
            marks=() if waves.peak is None else (len(waves.strength) - 1 - int(waves.strength.argmax()),),
        )
        for source, waves in found.items()
    ]
    widest = max(found.values(), key=lambda waves: waves.high)  # the widest interval is valid for all
    figure = wave_figures.waves_by_period(series, noise=(widest.low, widest.high))
    title = wave_title({source.name: fact for source, fact in facts.items()})
    foot = "Magnitude of the DFT, mean over columns · band: 95 % of noise"
    recipe = of_tables([tables[source] for source in found], "hpe.strength_by_period(table).strength[::-1]")
    return [_panel("waves", title, figure, HELP["waves"], foot, recipe)]


def wavelength_panels(opened: Sequence[Opened]) -> list[Panel]:
    """Draw the wavelengths of every rotary source, one plot each."""
    drawn = []
    for source in opened:
        encoding = source.encoding
        if isinstance(encoding, Rotary):
            line = series_of(source, np.empty(0))
            figure = wave_figures.wavelengths(
                encoding.scaled, series=line, scaled=f"after {encoding.scaling or 'scaling'}"
            )
            key, code = f"wavelengths {source.text}", recipe("wavelengths", [source], position=position(source))
            panel = _panel(key, wavelength_title(encoding), figure, HELP["wavelengths"], still(encoding), code)
            drawn.append(replace(panel, source=(source.name, shown_part(source)), color=source.color))
    return drawn


def wavelength_title(encoding: Rotary) -> str:
    """State how many pairs never completed a turn in training, and how many the scaling changes."""
    found = encoding.scaled
    pairs, beyond, moved = len(found.after), int(found.beyond.sum()), int(found.moved.sum())
    turn = "rotates" if beyond == 1 else "rotate"
    trained = f"the {found.trained_length:,} positions it was trained on"
    said = f"{beyond:,} of {pairs:,} pairs {turn} less than once in {trained}"
    scaling = (
        f"scaling by {encoding.scaling or 'its configuration'} changes {moved:,} {'pair' if moved == 1 else 'pairs'}"
    )
    match encoding.by_length:
        case DynamicScaling(trained_length=trained_length):
            return f"{said}; inputs of more than {trained_length:,} positions slow them down"
        case LongFactors(trained_length=trained_length) if moved:
            return f"{said}; {scaling} for inputs of more than {trained_length:,} positions"
    return f"{said}; {scaling if moved else 'none is scaled'}"


def still(encoding: Rotary) -> str:
    """State how many pairs exceed the trained length after scaling, and how many have no wavelength to draw."""
    found = encoding.scaled
    resting = int(np.isinf(found.after).sum())
    parts = [f"{int(found.beyond_after.sum()):,} beyond the trained length after scaling" if found.moved.any() else ""]
    parts += [f"{resting:,} without rotation, not drawn" if resting else ""]
    return " · ".join(filter(None, ["2π / ω, log scale", *parts]))


def _panel(key: str, title: str, figure: Any, help_text: str, foot: str, recipe: Recipe) -> Panel:
    drawings = (Drawing(figure),)
    return Panel(key=key, title=title, drawings=drawings, help=help_text, foot=foot, recipe=recipe)


def _ends(facts: Facts) -> tuple[int, ...]:
    """Position 0 and the last one, if they are outliers."""
    return tuple(row for row in (0, len(facts.norms) - 1) if row in facts.outliers and facts.norms[row] > 0)


def _untrained(found: Mapping[Opened, Positions], session: Session) -> list[Series]:
    """The explained variance of an untrained table of the first source's size, unless one is already shown."""
    if any(source.text.startswith("random:") for source in found):
        return []
    rows, width = next(iter(found.values())).table.shape
    try:
        text = f"random:{rows}x{width}"
        untrained = positions_of(Opened(text, "", "", "", session.library.open(text)), 0, session)
        return [] if untrained is None else [Series("Untrained", untrained.cumulative.astype(np.float32))]
    except hpe.HfposembError:
        return []
