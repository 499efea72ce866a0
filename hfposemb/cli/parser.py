"""The commands and their options, as ``commands.toml`` has them."""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import __version__
from ..analysis.nulls.surrogates import DRAWS
from ..samples import NAMES as SAMPLES
from ..surveys.published_findings import STUDIES
from ..surveys.worker_pool import REQUESTS
from . import inspecting, measuring, serving, skill
from .options import AnsweringParser

LISTED = ("app", "info", "neighbours", "compare", "check", "rope", "extract", "export")
"""Commands that ``--help`` describes; it names the others."""

_SAID = {
    "SOURCES": f"owner/name, ./folder, ./model.gguf, {', '.join(f'sample:{name}' for name in SAMPLES)} "
    "or a built-in such as sinusoidal:512x384",
    "TABLES": ".safetensors, .npy, .npz, .parquet, .csv or .tsv",
    "STUDIES": ", ".join(STUDIES),
    "DRAWS": str(DRAWS),
    "REQUESTS": str(REQUESTS),
}
"""What stands in braces in texts and defaults."""

_DEBUG = "print the full traceback of an error"
_VERBOSE = "log what is read, from where, and what is tried again"
_JSON = "print one JSON document, and nothing else, on standard output"


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    top = AnsweringParser(
        prog="hfposemb", description="See and measure what a pretrained model knows about words and positions."
    )
    top.add_argument("--version", action="version", version=f"hfposemb {__version__}")
    top.add_argument("--debug", action="store_true", help=_DEBUG)
    top.add_argument("--verbose", action="store_true", help=_VERBOSE)
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    described = tomllib.loads(Path(__file__).with_name("commands.toml").read_text(encoding="utf-8"))
    shared = described.pop("shared")
    for name, arguments in described.items():
        text = arguments.pop("about")
        listed = {"help": text} if name in LISTED else {}
        command = commands.add_parser(name, description=f"{text[0].upper()}{text[1:]}.", **listed)
        command.set_defaults(run=_run(name))
        _add(command, arguments, shared)
        schema = ", described by --schema" if "--schema" in arguments else ""
        command.add_argument("--json", action="store_true", help=_JSON + schema)
        # Accepted after a command too, without overriding a value before it.
        command.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=_DEBUG)
        command.add_argument("--verbose", action="store_true", default=argparse.SUPPRESS, help=_VERBOSE)
    others = ", ".join(sorted(set(commands.choices) - set(LISTED)))
    top.epilog = f"more commands: {others}; {top.prog} COMMAND --help describes each"
    return top


def _run(name: str) -> Any:
    """Return the function of a command."""
    return next(
        found
        for module in (inspecting, measuring, serving, skill)
        if (found := getattr(module, f"run_{name.replace('-', '_')}", None)) is not None
    )


def _add(command: argparse.ArgumentParser, arguments: Mapping[str, Any], shared: Mapping[str, Any]) -> None:
    """Add the arguments of a command."""
    groups: dict[str, Any] = {}
    for name, options in arguments.items():
        if name.startswith("@"):
            _add(command, shared[name[1:]], shared)
            continue
        given: dict[str, Any] = {
            key: value.format(**_SAID) if isinstance(value, str) else value for key, value in options.items()
        }
        given |= {key: _NAMED.get(given[key], given[key]) for key in ("type", "action") if key in given}
        place: Any = command
        if group := given.pop("one_of", ""):
            required = given.pop("required", False)
            if group not in groups:
                groups[group] = command.add_mutually_exclusive_group(required=required)
            place = groups[group]
        place.add_argument(name, **given)


def port_number(text: str) -> int:
    """Return a port."""
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and 1 <= int(text) <= 65535):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; give a number from 1 to 65535")
    return int(text)


def whole_count(text: str) -> int:
    """Return a number of things."""
    if not (text.isascii() and text.isdecimal() and len(text) < 7):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 999,999")
    return int(text)


class Schema(argparse.Action):
    """Print the JSON Schema and exit instead of running the command, like ``--version``."""

    def __init__(self, option_strings: Sequence[str], dest: str, **more: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **more)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Print the schema of the command and exit."""
        from ..checks.report_formats import SCHEMA as CHECK
        from ..reports.json_schema import COMPARISON, KINSHIP, MERGE
        from ..vocabularies.vocabulary_schema import SCHEMA as VOCABULARY

        of_pairs = {"vocab": VOCABULARY, "kinship": KINSHIP, "merge-preview": MERGE}
        found = {"check": CHECK, "compare": COMPARISON, **of_pairs}
        print(json.dumps(found[str(self.const)], indent=2, ensure_ascii=False))
        parser.exit()


_NAMED: Mapping[str, Any] = {
    "count": whole_count,
    "float": float,
    "int": int,
    "lower": str.lower,
    "optional": argparse.BooleanOptionalAction,
    "path": Path,
    "port": port_number,
    "schema": Schema,
}
"""Types and actions by the names that ``commands.toml`` gives them."""
