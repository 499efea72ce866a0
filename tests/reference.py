"""Write what docs/ has out of the code, the parser and the docstrings: `python -m tests.reference`."""

from __future__ import annotations

import argparse
import inspect
import textwrap
from collections.abc import Callable
from importlib import import_module
from typing import Any

import hfposemb as hpe
from hfposemb.checks.findings import SUBJECTS
from hfposemb.cli.parser import LISTED, parser
from tests.atlas import atlas
from tests.gallery import gallery
from tests.support.pages import DOCS, opening

CHAPTERS = {
    "Reading": ("tables.table", "tables.encodings", "tables.rotary", "tables.inputs", "models.verification.verifying"),
    "Seeing": (
        "analysis.projection.projecting",
        "analysis.similarity.similarity_matrix",
        "analysis.similarity.nearest_rows",
        "analysis.similarity.row_pairs",
        "analysis.similarity.anisotropy",
        "analysis.projection.quality",
        "analysis.projection.map_regions",
        "figures.named_figures",
        "figures.position_figures",
        "figures.matrix_figures",
        "figures.line_figures",
        "figures.quantisation_errors",
        "figures.wave_figures",
        "figures.token_figures",
    ),
    "Positions": (
        "analysis.rows",
        "analysis.geometry",
        "analysis.positions.patches",
        "analysis.positions.shift_operator",
        "analysis.positions.shift_curves",
        "analysis.positions.probes",
        "analysis.positions.resolution",
        "analysis.positions.encoding_properties",
        "analysis.nulls.surrogates",
    ),
    "Words": ("tables.output_head", "tables.token_marks", "analysis.tokens.undertrained", "analysis.tokens.new_rows"),
    "Words and positions": (
        "composition.added_positions",
        "composition.neighbour_retention",
        "composition.amplitude_sweep",
        "composition.anchor_words",
        "composition.variance_decomposition",
        "composition.word_order",
        "composition.position_decoder",
        "composition.attention_logits",
    ),
    "Comparing": (
        "comparison.side_by_side",
        "comparison.results",
        "comparison.alignment",
        "comparison.moved_words",
        "comparison.quantisation",
        "comparison.token_against_head",
        "comparison.row_kinship",
        "comparison.merged_rows",
        "comparison.row_fingerprints",
        "comparison.transplants",
        "comparison.aligned_maps",
    ),
    "Checking": (
        "checks.running",
        "checks.check_report",
        "checks.findings",
        "checks.rope_report",
        "checks.rope_engines",
        "models.positions.rotary_parts",
        "analysis.positions.base_bound",
    ),
    "Many sources": (
        "surveys.source_figures",
        "surveys.source_lists",
        "surveys.worker_pool",
        "surveys.survey_folder",
        "surveys.cost_forecast",
        "surveys.remeasure",
        "surveys.training_run",
        "surveys.published_findings",
        "surveys.reproduction",
    ),
    "Notebooks": ("widget.showing", "widget.selection"),
    "Keeping": ("reports.export", "reports.bundle", "reports.report", "reports.json_schema", "cache"),
    "Errors": ("errors",),
}
"""The modules that scripts import, by what they are for."""


def commands() -> str:
    """Return the page of all commands."""
    top = parser()
    (chosen,) = [action for action in top._actions if isinstance(action, argparse._SubParsersAction)]
    rarer = {name: command for name, command in chosen.choices.items() if name not in LISTED}
    parts = [
        "# Commands\n",
        "Written by `python -m tests.reference` from the parser; `hfposemb COMMAND --help` prints the same.\n",
        "Exit code 0 on success, 1 for an error, which is one line on stderr, 2 for wrong usage, 70 for a bug in "
        "hfposemb: the line then names a file with the traceback to report. `--debug`, before or after the command, "
        "prints it.\n",
        *(f"- [`{name}`](#hfposemb-{name}): {_about(chosen.choices[name])}" for name in LISTED),
        "\nMore commands, which `hfposemb --help` only names:\n",
        *(f"- [`{name}`](#hfposemb-{name}): {_about(command)}" for name, command in rarer.items()),
    ]
    for name, command in chosen.choices.items():
        parts.append(f"\n## hfposemb {name}\n\n{command.description}\n\n```\n{usage(command)}\n```\n")
        rows = [
            f"| {_invocation(action)} | {_cell(action.help or '')} |"
            for action in command._actions
            if action.dest not in ("help", "debug")
        ]
        parts += ["| argument | meaning |", "|---|---|", *rows]
    return "\n".join(parts) + "\n"


def _about(command: argparse.ArgumentParser) -> str:
    about = (command.description or "").removesuffix(".")
    return about[:1].lower() + about[1:]


def usage(command: argparse.ArgumentParser) -> str:
    """Return how a command is called, whatever the width of the terminal."""
    words = " ".join(command.format_usage().removeprefix("usage: ").split())
    return "\n".join(textwrap.wrap(words, 100, subsequent_indent="    ", break_on_hyphens=False))


def _invocation(action: argparse.Action) -> str:
    value = action.metavar or ("" if action.nargs == 0 else action.dest)
    if action.choices and not action.metavar:
        value = ",".join(map(str, action.choices))
    names = [f"{name} {value}".strip() for name in action.option_strings] or [str(value)]
    return ", ".join(f"`{_cell(name)}`" for name in names)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("%%", "%")


def api() -> str:
    """Return the overview of what scripts import; the site has a page for each module, out of its docstrings."""
    names = sorted(hpe._HOME, key=str.lower)
    parts = [
        "# API\n",
        "`import hfposemb as hpe` gives the names below; everything else is imported from its module, as in\n"
        "`from hfposemb.analysis.positions.probes import absolute_probe`. Names that no page lists may change without\n"
        "notice.\n",
        "Written by `python -m tests.reference`. On the site, the links lead to a page for each module, with its\n"
        "signatures, arguments and examples; in the repository, to its source.\n",
        "## Names of `hpe`\n",
        "| name | | module |",
        "|---|---|---|",
        *(f"| `hpe.{name}` | {_cell(summary(getattr(hpe, name)))} | {_link(hpe._HOME[name])} |" for name in names),
    ]
    for chapter, modules in CHAPTERS.items():
        parts += [f"\n## {chapter}\n", "| module | |", "|---|---|"]
        parts += [f"| {_link(name)} | {_cell(summary(import_module(f'hfposemb.{name}')))} |" for name in modules]
    return "\n".join(parts) + "\n"


def documented() -> dict[str, tuple[str, ...]]:
    """Return the modules that the site documents, each with the names it shows; without names it shows all of them."""
    found: dict[str, tuple[str, ...]] = {name: () for names in CHAPTERS.values() for name in names}
    for name, module in hpe._HOME.items():
        if found.get(module) != ():
            found[module] = (*found.get(module, ()), name)
    return found


def _link(module: str) -> str:
    """Return a link to a module's source, in whose place the site has the module's page."""
    return f"[`{module}`](../hfposemb/{module.replace('.', '/')}.py)"


def summary(value: Any) -> str:
    """Return the first sentence of a docstring, in Markdown."""
    said = (inspect.getdoc(value) or "").partition("\n\n")[0]
    return " ".join(said.split()).replace("``", "`")


def findings() -> str:
    """Return the page of all findings of a check: its own text, then a table for each subject."""
    parts = [opening("check.md", "\n## ")]
    for subject, rules in SUBJECTS.items():
        parts.append(f"## {subject}\n\n| finding | severity | meaning | why | fix |\n|---|---|---|---|---|")
        for name, rule in rules.items():
            fix = rule.fix.replace("{{", "{").replace("}}", "}")
            cells = (f'<a id="{name}"></a>`{name}`', rule.severity, rule.about, rule.why, f"`{fix}`")
            parts.append(f"| {' | '.join(map(_cell, cells))} |")
        parts[-1] += "\n"
    return "\n".join(parts)


PAGES: dict[str, Callable[[], str]] = {
    "commands.md": commands,
    "api.md": api,
    "check.md": findings,
    "gallery.md": gallery,
    "atlas.md": atlas,
}

if __name__ == "__main__":
    for page, write in PAGES.items():
        (DOCS / page).write_text(write(), encoding="utf-8")
        print(DOCS / page)
