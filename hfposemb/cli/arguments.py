"""Arguments that several commands share, and how a command is added."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ..samples import NAMES as SAMPLES
from ..surveys.worker_pool import KINDS as ENGINES
from ..surveys.worker_pool import REQUESTS
from .options import AnsweringParser, Command

if TYPE_CHECKING:
    Commands: TypeAlias = argparse._SubParsersAction[AnsweringParser]


LISTED = ("app", "info", "neighbours", "compare", "check", "rope", "extract", "export")
"""Commands that ``--help`` describes; it names the others."""

SOURCES = (
    f"owner/name, ./folder, ./model.gguf, {', '.join(f'sample:{name}' for name in SAMPLES)} "
    "or a built-in such as sinusoidal:512x384"
)


def add_serving(command: argparse.ArgumentParser) -> None:
    """Add the address, the password and the mode of a server."""
    command.add_argument(
        "--host", metavar="ADDRESS", help="address to listen on, such as 0.0.0.0 for all (default: this machine only)"
    )
    command.add_argument(
        "--port", type=port_number, metavar="N", help="port to listen on (default: first free port from 7860)"
    )
    command.add_argument("--share", action="store_true", help="create a public link through Gradio's tunnel")
    command.add_argument(
        "--auth",
        metavar="USER:PASSWORD",
        help="require a password; @FILE or $HFPOSEMB_AUTH keep it out of the process list, and a file may hold several",
    )
    command.add_argument("--no-open", action="store_true", help="do not open a browser")
    mode = command.add_mutually_exclusive_group()
    mode.add_argument(
        "--public",
        action="store_true",
        help="do not open local files; implied by --share and by a --host other than this machine",
    )
    mode.add_argument("--trusted", action="store_true", help="let everyone who can reach the app open local files")
    command.add_argument("--mcp", action="store_true", help="also serve tools for agents at /gradio_api/mcp/ (MCP)")


def add_command(commands: Commands, name: str, run: Command, text: str) -> argparse.ArgumentParser:
    """Add a command; ``--help`` describes those that are ``LISTED``."""
    listed: dict[str, Any] = {"help": text} if name in LISTED else {}
    command = commands.add_parser(name, description=f"{text[0].upper()}{text[1:]}.", **listed)
    command.set_defaults(run=run)
    return command


BASE = "apply an adapter to its base model: the one that it names, or SOURCE"


def add_source(command: argparse.ArgumentParser, base: str = BASE) -> None:
    """Add the source and where it comes from."""
    command.add_argument("source", metavar="SOURCE", help=SOURCES)
    add_origin(command, base)


def add_origin(command: argparse.ArgumentParser, base: str = BASE) -> None:
    """Add the revision of a source and the base of an adapter."""
    command.add_argument("--revision", metavar="NAME", help="branch, tag or commit of a model on the Hub")
    command.add_argument("--base", nargs="?", const=True, metavar="SOURCE", help=base)
    add_access(command)


def add_access(command: argparse.ArgumentParser) -> None:
    """Add what allows whole files to be downloaded."""
    command.add_argument(
        "--allow-full-download",
        action="store_true",
        help="download a whole file if it cannot be read in part (a pickle, or a server without range requests)",
    )


def add_metrics(command: argparse.ArgumentParser, *, draws: int) -> None:
    """Add the metrics of several sources."""
    command.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="NAME",
        help='name or pattern of metrics of hfposemb compare, such as "shift*"; may be repeated (default: all)',
    )
    add_draws(command, draws)


def add_draws(command: argparse.ArgumentParser, draws: int, least: str = "0 for none") -> None:
    """Add the number of surrogates, and what its least value is."""
    said = f"surrogates per chance level, {least} (default: {draws})"
    command.add_argument("--draws", type=whole_count, default=draws, metavar="N", help=said)


def add_engine(command: argparse.ArgumentParser) -> None:
    """Add where work runs."""
    command.add_argument("--engine", choices=ENGINES, default="local", help="where to run (default: local processes)")
    command.add_argument(
        "--scheduler", metavar="ADDRESS", help="address of the Dask scheduler, such as tcp://host:8786"
    )
    command.add_argument(
        "--workers", type=whole_count, metavar="N", help="number of local processes (default: one per core)"
    )
    command.add_argument(
        "--requests",
        type=whole_count,
        default=REQUESTS,
        metavar="N",
        help=f"concurrent requests to the Hub, over all workers (default: {REQUESTS})",
    )


def add_table(command: argparse.ArgumentParser) -> None:
    """Add a source and one of its tables."""
    add_source(command)
    add_role(command)
    command.add_argument("--tensor", metavar="NAME", help="any tensor [rows, width] of the source, by its name")


def add_role(command: argparse.ArgumentParser) -> None:
    """Add the table by its role."""
    command.add_argument(
        "--table",
        metavar="ROLE",
        help="token, head, position, token_type, ngram, per_layer, or one of a part such as encoder.position or "
        "layer7.per_layer (default: token, else position)",
    )


def add_part(command: argparse.ArgumentParser) -> None:
    """Add the part of a model."""
    command.add_argument(
        "--part",
        action="append",
        default=[],
        metavar="NAME",
        help="part of a model, such as encoder or decoder (default: the part that the words enter); repeat it for each "
        "source, - for the default",
    )


def add_metric(command: argparse.ArgumentParser) -> None:
    """Add how rows are compared."""
    metrics = ("cosine", "dot", "euclidean")
    command.add_argument("--metric", type=str.lower, choices=metrics, default="cosine", help="(default: cosine)")
    command.add_argument(
        "--centred",
        action="store_true",
        help="subtract the mean row first (Mu & Viswanath 2018), for strongly anisotropic tables",
    )


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

        found = {"check": CHECK, "vocab": VOCABULARY, "kinship": KINSHIP, "merge-preview": MERGE}.get(
            str(self.const), COMPARISON
        )
        print(json.dumps(found, indent=2, ensure_ascii=False))
        parser.exit()
