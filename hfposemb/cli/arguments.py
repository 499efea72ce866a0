"""Arguments that several commands share, and how a command is added."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ..samples import NAMES as SAMPLES
from ..surveys.worker_pool import KINDS as ENGINES
from ..surveys.worker_pool import REQUESTS
from .options import AnsweringParser, Command

if TYPE_CHECKING:
    Commands: TypeAlias = argparse._SubParsersAction[AnsweringParser]
    Add: TypeAlias = Callable[[Command, str], AnsweringParser]


LISTED = ("app", "info", "neighbours", "compare", "check", "rope", "extract", "export")
"""Commands that ``--help`` describes; it names the others."""

SOURCES = (
    f"owner/name, ./folder, ./model.gguf, {', '.join(f'sample:{name}' for name in SAMPLES)} "
    "or a built-in such as sinusoidal:512x384"
)


def add_serving(command: AnsweringParser) -> None:
    """Add the address, the password and the mode of a server."""
    command.value("--host", "ADDRESS", "address to listen on, such as 0.0.0.0 for all (default: this machine only)")
    command.value("--port", "N", "port to listen on (default: first free port from 7860)", type=port_number)
    command.flag("--share", "create a public link through Gradio's tunnel")
    command.value(
        "--auth",
        "USER:PASSWORD",
        "require a password; @FILE or $HFPOSEMB_AUTH keep it out of the process list, and a file may hold several",
    )
    command.flag("--no-open", "do not open a browser")
    mode = command.add_mutually_exclusive_group()
    mode.add_argument(
        "--public",
        action="store_true",
        help="do not open local files; implied by --share and by a --host other than this machine",
    )
    mode.add_argument("--trusted", action="store_true", help="let everyone who can reach the app open local files")
    command.flag("--mcp", "also serve tools for agents at /gradio_api/mcp/ (MCP)")


def add_command(commands: Commands, run: Command, text: str) -> AnsweringParser:
    """Add the command that a function is named after; ``--help`` describes those that are ``LISTED``."""
    name = run.__name__.removeprefix("run_").replace("_", "-")
    listed: dict[str, Any] = {"help": text} if name in LISTED else {}
    command = commands.add_parser(name, description=f"{text[0].upper()}{text[1:]}.", **listed)
    command.set_defaults(run=run)
    return command


BASE = "apply an adapter to its base model: the one that it names, or SOURCE"


def add_source(command: AnsweringParser, base: str = BASE) -> None:
    """Add the source and where it comes from."""
    command.value("source", "SOURCE", SOURCES)
    add_origin(command, base)


def add_origin(command: AnsweringParser, base: str = BASE) -> None:
    """Add the revision of a source and the base of an adapter."""
    command.value("--revision", "NAME", "branch, tag or commit of a model on the Hub")
    command.value("--base", "SOURCE", base, nargs="?", const=True)
    add_access(command)


def add_access(command: AnsweringParser) -> None:
    """Add what allows whole files to be downloaded."""
    command.flag(
        "--allow-full-download",
        "download a whole file if it cannot be read in part (a pickle, or a server without range requests)",
    )


def add_metrics(command: AnsweringParser, *, draws: int) -> None:
    """Add the metrics of several sources."""
    command.value(
        "--metric",
        "NAME",
        'name or pattern of metrics of hfposemb compare, such as "shift*"; may be repeated (default: all)',
        action="append",
        default=[],
    )
    add_draws(command, draws)


def add_draws(command: AnsweringParser, draws: int, least: str = "0 for none") -> None:
    """Add the number of surrogates, and what its least value is."""
    command.count("--draws", f"surrogates per chance level, {least}", default=draws)


def add_engine(command: AnsweringParser) -> None:
    """Add where work runs."""
    command.add_argument("--engine", choices=ENGINES, default="local", help="where to run (default: local processes)")
    command.value("--scheduler", "ADDRESS", "address of the Dask scheduler, such as tcp://host:8786")
    command.count("--workers", "number of local processes (default: one per core)")
    command.count("--requests", "concurrent requests to the Hub, over all workers", default=REQUESTS)


def add_table(command: AnsweringParser) -> None:
    """Add a source and one of its tables."""
    add_source(command)
    add_role(command)
    command.value("--tensor", "NAME", "any tensor [rows, width] of the source, by its name")


def add_role(command: AnsweringParser) -> None:
    """Add the table by its role."""
    command.value(
        "--table",
        "ROLE",
        "token, head, position, token_type, ngram, per_layer, or one of a part such as encoder.position or "
        "layer7.per_layer (default: token, else position)",
    )


def add_part(command: AnsweringParser) -> None:
    """Add the part of a model."""
    command.value(
        "--part",
        "NAME",
        "part of a model, such as encoder or decoder (default: the part that the words enter); repeat it for each "
        "source, - for the default",
        action="append",
        default=[],
    )


def add_metric(command: AnsweringParser) -> None:
    """Add how rows are compared."""
    metrics = ("cosine", "dot", "euclidean")
    command.add_argument("--metric", type=str.lower, choices=metrics, default="cosine", help="(default: cosine)")
    command.flag("--centred", "subtract the mean row first (Mu & Viswanath 2018), for strongly anisotropic tables")


def port_number(text: str) -> int:
    """Return a port."""
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and 1 <= int(text) <= 65535):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; give a number from 1 to 65535")
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

        found = {
            **{"check": CHECK, "compare": COMPARISON, "kinship": KINSHIP},
            **{"merge-preview": MERGE, "vocab": VOCABULARY},
        }
        print(json.dumps(found[parser.prog.split()[-1]], indent=2, ensure_ascii=False))
        parser.exit()


def add_schema(command: AnsweringParser) -> None:
    """Add what prints the JSON Schema of a command."""
    command.add_argument("--schema", action=Schema, help="print the JSON Schema of --json and exit")
