"""Self-contained HTML page of a survey: a table of all models, and any two figures of them as a scatter plot.

The table is complete without JavaScript. The script of the page, ``atlas.js``, sorts and filters it, draws the plot and
writes the command that compares the chosen models. Nothing is measured here.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..comparison.metric_meanings import UNITS, meaning
from ..comparison.metrics import SECTIONS, Measure
from ..comparison.model_table import ModelRows, measures_in, rows_by_model, versions_in
from ..errors import InputError
from ..figures.assets import BUNDLE, script
from ..figures.palette import GROUPS, PALETTE
from ..figures.style import FONT, escape
from ..tables.source_names import names
from ..text import display, number
from .html_page import about, document, page_style
from .html_tables import column_heads, sheet

if TYPE_CHECKING:
    import pandas

APP = "http://127.0.0.1:7860"
"""Address of an app that was started on this machine, to which the page links."""

COLOURED_BY: Mapping[str, str] = {"kind": "kind of positions", "architecture": "architecture"}
"""Columns that colour the dots, with what they are called."""


def atlas_page(rows: pandas.DataFrame, *, title: str = "Atlas", app: str = APP) -> str:
    """Return an HTML page that browses a survey: a table that can be sorted and filtered, and a scatter plot.

    Args:
        rows: Rows of a survey, from ``hpe.survey`` or ``survey_folder.rows_of``.
        title: Title of the page.
        app: Address of the app that the page links to.

    Returns:
        The page as HTML.

    Raises:
        InputError: If no source of the survey could be measured.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.reports.atlas_page import atlas_page
        >>> page = atlas_page(hpe.survey(["sample:bert"], metrics=["*norm*"], draws=0))
        >>> page.splitlines()[0], "<td>.168</td>" in page
        ('<!doctype html>', True)
    """
    models, measures = rows_by_model(rows), measures_in(rows)
    if not models or not measures:
        raise InputError("no source of this survey could be measured; its rows have the reasons")
    shown = _shown_names(models)
    parts = (
        _plot_section(models, measures),
        _choice_section(),
        _table_section(models, measures, shown),
        _meanings(measures),
        _failures(rows),
        _provenance(rows),
    )
    return document(
        title=html.escape(display(title, width=300)),
        header=about(f"{_count(len(models), 'model')}, {_count(len(measures), 'figure')}"),
        body="\n".join(part for part in parts if part),
        data=_data(models, measures, shown, app),
        script=script(BUNDLE / "atlas.js"),
        style=page_style("report.css", "tables.css", "atlas.css"),
    )


def figure_text(value: float | None, unit: str = "") -> str:
    """Format a figure of the table; – if there is none.

    Examples:
        >>> [figure_text(value) for value in (82.863, 0.1684, -0.00002, 1442.2, None)]
        ['82.9', '.168', '−2.0e−5', '1,442', '–']
    """
    if value is None or value != value:
        return "–"
    size = abs(value)
    if 0 < size < 0.0005:
        return f"{value:.1e}".replace("e-0", "e-").replace("-", "−")
    return number(value, digits=0 if unit in ("components", "position") else 3 if size < 10 else 1)


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _shown_names(models: Sequence[ModelRows]) -> list[str]:
    """Return a display name of each row: that of the source, and of its part if it has several."""
    sources = list(dict.fromkeys(model.facts["source"] for model in models))
    of_source = dict(zip(sources, names(sources), strict=True))
    pairs = [(of_source[model.facts["source"]], model.facts["part"]) for model in models]
    return [display(name + (f", {part}" if part else ""), width=80) for name, part in pairs]


def _data(models: Sequence[ModelRows], measures: Sequence[Measure], shown: Sequence[str], app: str) -> dict[str, Any]:
    """Return what the script needs: values, names, colours and meanings."""
    figures = [
        {
            "name": (name := one.name.strip()),
            "unit": one.unit,
            "about": meaning(one),
            "values": [model.value(name) for model in models],
            "chance": [_chance(model, one) for model in models],
        }
        for one in measures
    ]
    return {
        "names": list(shown),
        "hover": [escape(name, width=80) for name in shown],
        "sources": [model.facts["source"] for model in models],
        "groups": {name: [model.facts[name] or "not known" for model in models] for name in COLOURED_BY},
        "figures": figures,
        "colours": [[one.light, one.dark] for one in GROUPS],  # of the most frequent groups; the others are grey
        "roles": {name: [PALETTE[name].light, PALETTE[name].dark] for name in ("ink", "subdued", "faint", "accent")},
        "other": [PALETTE["baseline"].light, PALETTE["baseline"].dark],
        "font": FONT,
        "app": app.rstrip("/"),
    }


def _chance(model: ModelRows, measure: Measure) -> str:
    """Return what a figure is compared with: the interval of its surrogates, or two known tables."""

    def text(column: str) -> str:
        return figure_text(model.value(measure.name.strip(), column), measure.unit)

    low, high, untrained, sinusoid = map(text, ("baseline_low", "baseline_high", "untrained", "sinusoid"))
    if low != "–":
        return f"by chance {low} to {high}"
    return f"untrained {untrained}; sinusoid {sinusoid}" if "–" not in (untrained, sinusoid) else ""


# --- sections ---------------------------------------------------------------------------------------------------------


def _plot_section(models: Sequence[ModelRows], measures: Sequence[Measure]) -> str:
    """Return the plot and its controls; the two figures that most models have are chosen."""
    having = [sum(model.value(one.name.strip()) is not None for model in models) for one in measures]
    order = sorted(range(len(measures)), key=lambda place: -having[place])
    x, y = order[0], order[1] if len(order) > 1 else order[0]
    coloured = "".join(f'<option value="{name}">{what}</option>' for name, what in COLOURED_BY.items())
    return (
        '<section id="plot" class="plotted" hidden><h2>Any two figures</h2><div class="controls">'
        f"{_choice('x', 'Horizontal', _options(measures, x))}{_choice('y', 'Vertical', _options(measures, y))}"
        f"{_choice('colour', 'Colour', coloured)}"
        '<span class="ticks"><label><input type="checkbox" id="log-x"> log x</label>'
        '<label><input type="checkbox" id="log-y"> log y</label></span></div>'
        '<div class="sheet"><div id="legend"></div><div id="scatter"></div><p class="about" id="plot-foot"></p>'
        '<dl class="about" id="plot-meanings"></dl></div></section>'
    )


def _choice(key: str, label: str, options: str) -> str:
    return f'<label>{label}<select id="{key}">{options}</select></label>'


def _options(measures: Sequence[Measure], chosen: int) -> str:
    """Return the figures as options of a select element, in groups."""
    parts = []
    for section, heading in SECTIONS.items():
        inside = [
            f'<option value="{place}"{" selected" if place == chosen else ""}>{html.escape(_titled(one))}</option>'
            for place, one in enumerate(measures)
            if one.section == section
        ]
        if inside:
            parts.append(f'<optgroup label="{heading.capitalize()}">{"".join(inside)}</optgroup>')
    return "".join(parts)


def _titled(measure: Measure) -> str:
    unit = measure.unit if measure.unit in ("%", "positions") else ""
    return f"{measure.name.strip()}, {unit}" if unit else measure.name.strip()


def _choice_section() -> str:
    return (
        '<section id="chosen" class="sheet" hidden><h2>Chosen models</h2>'
        '<p class="about" id="chosen-count" role="status">Choose models in the plot or the table to compare them.</p>'
        '<div id="chosen-ways" hidden><pre><code id="chosen-command"></code></pre>'
        '<p class="ways"><button type="button" id="chosen-copy">Copy command</button>'
        '<a id="chosen-link" target="_blank" rel="noopener">Open in the app</a>'
        '<button type="button" id="chosen-clear">Clear</button></p></div></section>'
    )


def _table_section(models: Sequence[ModelRows], measures: Sequence[Measure], shown: Sequence[str]) -> str:
    groups = "".join(
        f'<label>{what.capitalize()}<select class="only" data-group="{name}"><option value="">all</option></select>'
        "</label>"
        for name, what in COLOURED_BY.items()
    )
    sections = "".join(
        f'<option value="{section}">{heading}</option>'
        for section, heading in SECTIONS.items()
        if any(one.section == section for one in measures)
    )
    return (
        '<section id="models"><h2>All models</h2><div class="controls" id="filters" hidden>'
        '<label>Name contains<input type="search" id="search" autocomplete="off" spellcheck="false"></label>'
        f'{groups}<label>Figures of<select id="section"><option value="">everything</option>{sections}</select></label>'
        '<p class="about" id="count" role="status"></p></div>'
        '<div class="sheet long" role="region" aria-label="All models" tabindex="0"><table class="atlas">'
        f"<thead><tr>{_heads(measures)}</tr></thead>"
        f"<tbody>{''.join(_model_rows(models, measures, shown))}</tbody></table></div></section>"
    )


def _heads(measures: Sequence[Measure]) -> str:
    facts = ("Model", "Positions", "Architecture", "Rows", "Width")
    parts = [f'<th scope="col" aria-sort="none" data-fact="{place}">{name}</th>' for place, name in enumerate(facts)]
    parts += [
        f'<th scope="col" aria-sort="none" data-figure="{place}" data-section="{one.section}" '
        f'title="{html.escape(meaning(one))}">{html.escape(_titled(one))}</th>'
        for place, one in enumerate(measures)
    ]
    return "".join(parts)


def _model_rows(models: Sequence[ModelRows], measures: Sequence[Measure], shown: Sequence[str]) -> Iterator[str]:
    for place, (name, model) in enumerate(zip(shown, models, strict=True)):
        texts = [display(model.facts[key] or "–", width=40) for key in COLOURED_BY]
        texts += ["–" if (size := model.facts[key]) is None else f"{size:,}" for key in ("rows", "width")]
        cells = [f"<td>{html.escape(text)}</td>" for text in texts]
        for one in measures:
            said = f' title="{html.escape(beside)}"' if (beside := _chance(model, one)) else ""
            cells.append(f"<td{said}>{figure_text(model.value(one.name.strip()), one.unit)}</td>")
        whole = html.escape(display(model.facts["source"], width=300))
        head = f'<th scope="row" title="{whole}">{html.escape(name)}</th>'
        yield f'<tr data-row="{place}">{head}{"".join(cells)}</tr>'


def _meanings(measures: Sequence[Measure]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{html.escape(one.name.strip())}</th><td>{html.escape(UNITS[one.unit])}</td>'
        f"<td>{html.escape(meaning(one))}</td></tr>"
        for one in measures
    )
    table = sheet("Meaning of each figure", column_heads("Figure", "Unit", "Meaning"), rows, kind="")
    return (
        "<section><h2>What the figures mean</h2><details><summary>Unit and meaning of each figure</summary>"
        f"{table}</details></section>"
    )


def _failures(rows: pandas.DataFrame) -> str:
    failed = rows[rows["metric"].isna()].drop_duplicates("source")
    if failed.empty:
        return ""
    lines = "".join(
        f"<li><strong>{html.escape(display(source, width=80))}</strong> {html.escape(display(why, width=400))}</li>"
        for source, why in zip(failed["source"], failed["error"].fillna(""), strict=True)
    )
    return f'<section><h2>Not measured: {len(failed):,}</h2><ul class="notes">{lines}</ul></section>'


def _provenance(rows: pandas.DataFrame) -> str:
    """Return how the figures were computed."""
    versions = [versions_in(text) for text in dict.fromkeys(rows["versions"].dropna())]
    said = [f"Computed by {' and by '.join(versions)}." if versions else ""]
    if draws := sorted({int(one) for one in rows["draws"].dropna()}):
        said.append(f"Chance levels from {', '.join(f'{one:,}' for one in draws)} draws.")
    said.append("Every model's commit and the SHA-256 of its tables are in the survey's rows.")
    return f"<section><h2>Provenance</h2>{about(' '.join(filter(None, said)))}</section>"
