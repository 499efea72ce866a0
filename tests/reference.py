"""Write what docs/ has out of the code, the parser and the docstrings: `python -m tests.reference`."""

from __future__ import annotations

import argparse
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import hfposemb as hpe
from hfposemb.checks.catalogue import SUBJECTS
from hfposemb.cli.parser import parser
from tests.atlas import atlas
from tests.gallery import gallery
from tests.lessons import notebook

DOCS = Path(__file__).parent.parent / "docs"

CHAPTERS = {
    "Reading": ("tables.table", "tables.encodings", "tables.rotary", "tables.inputs", "models.verification"),
    "Seeing": (
        "analysis.projection",
        "analysis.similarity_matrix",
        "analysis.nearest_rows",
        "analysis.row_pairs",
        "analysis.anisotropy",
        "analysis.projection_quality",
        "analysis.map_regions",
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
        "analysis.patches",
        "analysis.shift_operator",
        "analysis.shift_curves",
        "analysis.probes",
        "analysis.resolution",
        "analysis.encoding_properties",
        "analysis.surrogates",
    ),
    "Words": ("tables.output_head", "tables.token_marks", "analysis.undertrained", "analysis.new_rows"),
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
        "comparison.aligned_maps",
    ),
    "Checking": (
        "checks.running",
        "checks.check_report",
        "checks.findings",
        "checks.catalogue",
        "checks.report_formats",
        "checks.rope_report",
        "models.rotary_parts",
        "analysis.base_bound",
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
    abouts = {action.dest: action.help for action in chosen._choices_actions}
    parts = [
        "# Commands\n",
        "Written by `python -m tests.reference` from the parser; `hfposemb COMMAND --help` prints the same.\n",
        "Exit code 0 on success, 1 for an error, which is one line on stderr, 2 for wrong usage, 70 for a bug in "
        "hfposemb: the line then names a file with the traceback to report. `--debug`, before or after the command, "
        "prints it.\n",
        *(f"- [`{name}`](#hfposemb-{name}): {abouts[name]}" for name in chosen.choices),
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
    """Return the page of what scripts import."""
    parts = [
        "# In Python\n",
        "Written by `python -m tests.reference` out of the docstrings. `import hfposemb as hpe` gives "
        f"{', '.join(f'`hpe.{name}`' for name in hpe.__all__ if not name.startswith('_'))}; the rest is imported from "
        "its module, `from hfposemb.analysis import geometry`.\n",
        *(f"- {chapter}: {', '.join(map(_link, names))}" for chapter, names in CHAPTERS.items()),
        "\n## hfposemb\n",
        *(_entry(f"hpe.{name}", getattr(hpe, name)) for name in hpe.__all__ if not name.startswith("_")),
    ]
    for names in CHAPTERS.values():
        for name in names:
            module = import_module(f"hfposemb.{name}")
            parts.append(f"\n## hfposemb.{name}\n\n{_text(module)}\n")
            parts += [_entry(f"{name.rpartition('.')[2]}.{one}", value) for one, value in public(module)]
    return "\n".join(parts) + "\n"


def _link(name: str) -> str:
    """Return a link to a module's chapter of the page."""
    return f"[{name}](#hfposemb{name.replace('.', '')})"


def public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield the functions and classes that a module defines for others, as they stand in it."""
    for name, value in vars(module).items():
        ours = getattr(value, "__module__", "") == module.__name__
        if ours and not name.startswith("_") and (inspect.isfunction(value) or inspect.isclass(value)):
            yield name, value


def _entry(name: str, value: Any) -> str:
    members = ""
    if inspect.isclass(value):
        lines = [f"- `{one}{_signature(member)}`: {_text(member).splitlines()[0]}" for one, member in _members(value)]
        members = "".join(f"\n{line}" for line in ["", *lines]) if lines else ""
    return f"### {name}\n\n```python\n{name}{_signature(value)}\n```\n\n{_text(value)}{members}\n"


def _members(value: type) -> Iterator[tuple[str, Any]]:
    for name, member in vars(value).items():
        inner: Any = getattr(member, "fget", None) or getattr(member, "func", None) or member
        inner = getattr(inner, "__func__", inner)
        if not name.startswith("_") and inspect.isfunction(inner) and inner.__doc__:
            yield name, inner if member is inner or isinstance(member, (classmethod, staticmethod)) else _Value(inner)


class _Value:
    """A property: it has words and no arguments."""

    def __init__(self, inner: Callable[..., Any]) -> None:
        self.__doc__ = inner.__doc__


def _signature(value: Any) -> str:
    if isinstance(value, _Value) or (inspect.isclass(value) and issubclass(value, Exception)):
        return ""
    try:
        said = str(inspect.signature(value))
    except ValueError:
        return ""
    said = re.sub(r"(: |-> )'([^']*)'", r"\1\2", said)
    said = re.sub(r"<function (\w+) at 0x\w+>", r"\1", said)
    said = re.sub(r"= (\w+)\([^()]*\)", r"= \1(…)", said)
    said = re.sub(r"\b(?:[a-z_]\w*\.)+([A-Z]\w*)", r"\1", said)  # types by their last name
    return said.replace("(self, ", "(").replace("(self)", "()").replace(" -> None", "")


def _text(value: Any) -> str:
    """Return a docstring as Markdown: sections of the Google style as lists, examples as blocks of code."""
    said = inspect.getdoc(value) or ""
    said = re.sub(r":(?:class|func|meth|mod):`~?([^`]+)`", r"`\1`", said).replace("``", "`")
    said = re.sub(r"^(\w[\w ]*):\n((?:(?:    .*)?(?:\n|\Z))+)", _section, said, flags=re.MULTILINE)
    return re.sub(
        r"^>>> (?:.+(?:\n|\Z))+", lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", said, flags=re.M
    ).rstrip()


def _section(found: re.Match[str]) -> str:
    """Return a section such as "Args:" as a list with an item for each name, or its text where it has none."""
    name, body = found[1], inspect.cleandoc(found[2])
    if name in ("Example", "Examples"):
        return f"{body}\n\n"
    items = [" ".join(item.split()) for item in re.split(r"\n(?=\S)", body)]
    if name == "Returns":
        return f"**{name}:** {' '.join(items)}\n\n"
    listed = [re.sub(r"^(\*{0,2}[\w, `*]+): ", lambda k: f"`{k[1].strip('`')}`: ", item) for item in items]
    return f"**{name}**\n\n" + "\n".join(f"- {item}" for item in listed) + "\n\n"


def findings() -> str:
    """Return the page of all findings of a check."""
    parts = [
        "# Findings of hfposemb check\n",
        "Written by `python -m tests.reference` from `hfposemb/checks/catalogue.py`. `hfposemb check SOURCE…` looks "
        "for faults in the files of models, without running them. *Wrong*: the files contradict each other or cannot "
        "work; *suspicious*: probably a mistake; *note*: worth knowing. A finding can be less serious than listed "
        "where it is not certain, as for a model type that the library does not know.\n",
        "Exit code 0 if nothing is wrong, 1 if something is, 2 if a source could not be checked. `--json` prints the "
        "report (`--schema` its JSON Schema), `--sarif FILE` writes SARIF 2.1.0 for GitHub.\n",
        "From the Hub, `check` reads config.json, the index, one header, tokenizer_config.json, chat_template.jinja "
        "where the settings have no template, and up to 1 MB of rows around the special tokens: at most six requests "
        "besides two redirects, and 2 MB, whatever the size of the model. "
        "The end of the report says what was not read. `--full` reads whole tables, the head, all headers and the "
        "whole tokenizer. Local folders are read whole, tables of more than 256 MB in part.\n",
        "In a GitHub workflow, with the account that holds the repository of hfposemb for `OWNER`, and for `COMMIT` "
        "the 40 digits of the commit to use:\n",
        "```yaml\n- uses: OWNER/hfposemb@COMMIT\n  with:\n    sources: ./model\n```\n",
        "`action.yml` uploads with `github/codeql-action/upload-sarif@v3`. Where actions must be pinned, replace `v3` "
        "in a copy of it by the commit of a release of that action.\n",
        "Before each commit, in `.pre-commit-config.yaml`:\n",
        "```yaml\n- repo: https://github.com/OWNER/hfposemb\n  rev: COMMIT\n  hooks:\n    - id: hfposemb-check\n"
        "      args: [./model]\n```\n",
    ]
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
    "lessons.ipynb": notebook,
    "gallery.md": gallery,
    "atlas.md": atlas,
}

if __name__ == "__main__":
    for page, write in PAGES.items():
        (DOCS / page).write_text(write(), encoding="utf-8")
        print(DOCS / page)
