"""The commands and their options."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from .. import __version__
from ..analysis.surrogates import DRAWS
from ..comparison.metrics import EXTRAS
from ..surveys.published_findings import STUDIES
from ..surveys.worker_pool import KINDS as ENGINES
from ..surveys.worker_pool import REQUESTS
from .inspecting import (
    run_cache,
    run_export,
    run_extract,
    run_info,
    run_neighbours,
    run_odd,
    run_project,
    run_requirements,
    run_similarity,
    run_verify,
)
from .measuring import run_again, run_compare, run_reproduce, run_survey, run_trajectory
from .options import Command
from .serving import run_app, run_space

if TYPE_CHECKING:
    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]


_TABLES = ".safetensors, .npy, .npz, .parquet, .csv or .tsv"
_DEBUG = "print the traceback of an error"
_SOURCES = "owner/name, ./folder, ./file.safetensors, sample:bert, sample:gpt2 or a built-in such as sinusoidal:512x384"


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    top = argparse.ArgumentParser(
        prog="hfposemb", description="See and measure what a pretrained model knows about words and positions."
    )
    top.add_argument("--version", action="version", version=f"hfposemb {__version__}")
    top.add_argument("--debug", action="store_true", help=_DEBUG)
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for add in (
        _serving_commands,
        _table_commands,
        _compare_command,
        _survey_commands,
        _export_command,
        _check_commands,
        _finding_commands,
        _cache_command,
    ):
        add(commands)
    for command in commands.choices.values():  # accepted after a command too, without overriding a value before it
        command.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=_DEBUG)
    return top


def _serving_commands(commands: Commands) -> None:
    """Add the commands that serve the app."""
    command = _command(commands, "app", run_app, "open the app in a browser on this machine")
    command.add_argument("sources", nargs="*", metavar="SOURCE", help=f"what to show first: {_SOURCES}")
    _add_serving(command)

    command = _command(commands, "space", run_space, "put the app on the Hugging Face Hub, as a Space of yours")
    command.add_argument("name", metavar="OWNER/NAME", help="the Space, which is created if need be, else updated")
    command.add_argument("--private", action="store_true", help="let nobody else see it")
    command.add_argument("--models", default="", metavar="A,B,…", help="what it opens with (default: the samples)")
    command.add_argument("--dry-run", action="store_true", help="say what would be uploaded, and upload nothing")


def _table_commands(commands: Commands) -> None:
    """Add the commands that read one table of a source."""
    command = _command(commands, "info", run_info, "say which tables a source has, without reading them")
    _add_source(command)
    command.add_argument("--json", action="store_true", help="print JSON")

    command = _command(commands, "extract", run_extract, "write a table to a file")
    _add_table(command)
    command.add_argument("--out", type=Path, required=True, metavar="FILE", help=f"{_TABLES}, which says the format")

    command = _command(commands, "project", run_project, "project a table to two or three dimensions")
    _add_table(command)
    command.add_argument("--method", choices=("pca", "umap"), default="pca", help="(default: pca)")
    command.add_argument("--dims", type=int, choices=(2, 3), default=2, help="dimensions (default: 2)")
    command.add_argument("--seed", type=int, default=0, help="seed of UMAP (default: 0)")
    command.add_argument("--out", type=Path, metavar="FILE", help=f"{_TABLES} instead of CSV on the terminal")

    command = _command(commands, "similarity", run_similarity, "compare chosen rows of a table, pair by pair")
    _add_table(command)
    command.add_argument(
        "--rows", required=True, metavar="A,B,…", help="labels or row numbers, such as king,queen,paris"
    )
    _add_metric(command)
    command.add_argument("--json", action="store_true", help="print JSON")

    command = _command(commands, "neighbours", run_neighbours, "list the rows nearest to one or several, exactly")
    _add_table(command)
    command.add_argument("queries", nargs="+", metavar="QUERY", help="a label, or a row number")
    command.add_argument("-k", type=int, default=10, help="how many (default: 10)")
    _add_metric(command)
    command.add_argument("--json", action="store_true", help="print JSON")


def _compare_command(commands: Commands) -> None:
    """Add the command that compares sources."""
    command = _command(commands, "compare", run_compare, "print the figures of several sources side by side")
    command.add_argument("sources", nargs="+", metavar="SOURCE", help=_SOURCES)
    _add_access(command)
    command.add_argument(
        "--words", default="king,queen,paris", help="words to list neighbours of (default: king,queen,paris)"
    )
    command.add_argument(
        "--pairs",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="say how alike the tables of every two sources are, beside chance; --no-pairs takes less time",
    )
    command.add_argument(
        "--draws", type=_count, default=DRAWS, metavar="N", help=f"surrogates for chance, 0 for none (default: {DRAWS})"
    )
    command.add_argument("--fold-case", action="store_true", help="match King and king when vocabularies are compared")
    command.add_argument("--leave-out", action="store_true", help="leave out positions whose norm stands out")
    _add_part(command)
    command.add_argument(
        "--also", action="append", choices=EXTRAS, default=[], help="figures that take minutes; may be given twice"
    )
    command.add_argument("--json", action="store_true", help="print JSON, as --schema describes it")
    command.add_argument("--schema", action=_Schema, help="print the JSON Schema of --json, and exit")
    command.add_argument("--out", type=Path, metavar="FILE", help="write a page, .html, that stands by itself")


def _survey_commands(commands: Commands) -> None:
    """Add the commands that measure many sources."""
    command = _command(commands, "survey", run_survey, "measure many sources, into a folder of parquet files")
    command.add_argument("sources", nargs="*", metavar="SOURCE", help=_SOURCES)
    command.add_argument("--file", type=Path, metavar="FILE", help="more sources, one a line")
    command.add_argument(
        "--author", metavar="NAME", help="more sources: models of the Hub by this user or organisation"
    )
    command.add_argument(
        "--filter",
        action="append",
        default=[],
        metavar="TAG",
        help="models of the Hub with this tag; may be given twice",
    )
    command.add_argument(
        "--limit", type=_count, default=50, metavar="N", help="models of the Hub at most (default: 50)"
    )
    command.add_argument("--revisions", metavar="PATTERN", help='revisions of the one source, such as "step*"')
    _add_metrics(command, draws=DRAWS)
    _add_access(command)
    command.add_argument("--out", metavar="FOLDER", help="a folder, or an fsspec URL; what is there is not done again")
    command.add_argument("--dry-run", action="store_true", help="say what would be read, by the headers alone")
    _add_engine(command)

    command = _command(commands, "again", run_again, "measure again what a survey measured, and compare")
    command.add_argument("survey", metavar="SURVEY", help="the folder of a survey, or a CSV file of its rows")
    command.add_argument("sources", nargs="*", metavar="SOURCE", help="which of its sources (default: all)")
    _add_access(command)
    _add_engine(command)

    command = _command(commands, "trajectory", run_trajectory, "follow a table over the checkpoints of a training run")
    command.add_argument("source", metavar="SOURCE", help="a repository, a folder of checkpoints, or a sample")
    command.add_argument("--revisions", required=True, metavar="PATTERN", help='its checkpoints, such as "step*"')
    command.add_argument("--most", type=_count, metavar="N", help="that many of them, evenly spread (default: all)")
    command.add_argument("--table", choices=("position", "token"), default="position", help="(default: position)")
    _add_metrics(command, draws=0)
    command.add_argument("--json", action="store_true", help="print JSON")
    command.add_argument("--out", type=Path, metavar="FILE", help=".html: its map by PCA, with a slider over the steps")
    _add_engine(command)


def _export_command(commands: Commands) -> None:
    """Add the command that writes files."""
    command = _command(
        commands, "export", run_export, "write a table, a projection, a figure or a comparison to a file"
    )
    command.add_argument("sources", nargs="+", metavar="SOURCE", help=_SOURCES)
    _add_access(command)
    _add_role(command)
    command.add_argument("--projection", choices=("pca", "umap"), help="the table's projection instead of its vectors")
    command.add_argument("--dims", type=int, choices=(2, 3), default=2, help="dimensions of it (default: 2)")
    command.add_argument("--seed", type=int, default=0, help="seed of UMAP (default: 0)")
    _add_part(command)
    command.add_argument(
        "--figure",
        metavar="NAME",
        help="a figure instead: positions, similarity, table or tokens of one source; distance, norms or variance of "
        "several",
    )
    command.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FILE",
        help=f"{_TABLES} for a table or projection; .html, .json, .png, .svg or .pdf for a figure; .zip for the "
        "comparison of the sources, with its page, its numbers and a manifest",
    )


def _check_commands(commands: Commands) -> None:
    """Add the commands that check results against models and publications."""
    command = _command(
        commands, "verify", run_verify, "load the real model and compare every table, frequency and input"
    )
    command.add_argument("source", metavar="SOURCE", help="a folder, or a repository on the Hub, which is downloaded")
    command.add_argument("--revision", metavar="NAME", help="branch, tag or commit of a model on the Hub")
    command.add_argument("--json", action="store_true", help="print JSON")

    command = _command(commands, "reproduce", run_reproduce, "measure published findings again, side by side with them")
    command.add_argument("studies", nargs="*", metavar="NAME", help=f"(default: all) {', '.join(STUDIES)}")
    command.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="KEY=SOURCE",
        help="another source for one of its models, such as roberta=./folder, where the Hub is not to be had",
    )
    _add_access(command)
    command.add_argument("--json", action="store_true", help="print JSON")


def _finding_commands(commands: Commands) -> None:
    """Add the commands that look for odd tokens and for requirements of positions."""
    command = _command(commands, "odd", run_odd, "list odd tokens: near the mean, short, long, equal, unused")
    _add_source(command)
    command.add_argument("--count", type=int, default=20, metavar="N", help="how many of each kind (default: 20)")
    command.add_argument("--unused", default="", metavar="A,B,…", help="ids that are known to be never used")
    command.add_argument("--json", action="store_true", help="print JSON")

    command = _command(commands, "requirements", run_requirements, "say which requirements positions meet")
    command.add_argument(
        "sources", nargs="+", metavar="SOURCE", help=f"{_SOURCES}, or a discarded one, counting:256x128"
    )
    command.add_argument(
        "--resolution", action="store_true", help="say how far the slow and the fast waves alone tell the position"
    )
    _add_access(command)
    command.add_argument("--json", action="store_true", help="print JSON")


def _cache_command(commands: Commands) -> None:
    """Add the command that shows or clears the disk cache."""
    command = _command(commands, "cache", run_cache, "say what is kept on disk, or remove it")
    command.add_argument("--clear", action="store_true", help="remove all of it")
    command.add_argument("--json", action="store_true", help="print JSON")


def _add_serving(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--host", metavar="ADDRESS", help="address to listen on, such as 0.0.0.0 for all (default: this machine only)"
    )
    command.add_argument(
        "--port", type=_port, metavar="N", help="port to listen on (default: the first free one from 7860 on)"
    )
    command.add_argument("--share", action="store_true", help="make a link for others, by Gradio's tunnel")
    command.add_argument(
        "--auth",
        metavar="USER:PASSWORD",
        help="ask for a password; @FILE reads one or more from a file, $HFPOSEMB_AUTH is read without this option: the "
        "list of processes shows neither",
    )
    command.add_argument("--no-open", action="store_true", help="do not open a browser")
    mode = command.add_mutually_exclusive_group()
    mode.add_argument(
        "--public",
        action="store_true",
        help="open no files of this machine; set by --share and by a --host that is not this machine alone",
    )
    mode.add_argument("--trusted", action="store_true", help="open files of this machine for everybody who reaches it")
    command.add_argument("--mcp", action="store_true", help="serve its endpoints as tools of an MCP server too")


def _command(commands: Commands, name: str, run: Command, text: str) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    command.set_defaults(run=run)
    return command


def _add_source(command: argparse.ArgumentParser) -> None:
    command.add_argument("source", metavar="SOURCE", help=_SOURCES)
    command.add_argument("--revision", metavar="NAME", help="branch, tag or commit of a model on the Hub")
    _add_access(command)


def _add_access(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--allow-full-download",
        action="store_true",
        help="read a whole file of the Hub where no part of it can be had: a pickle, or a server without ranges",
    )


def _add_metrics(command: argparse.ArgumentParser, *, draws: int) -> None:
    command.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="NAME",
        help='a figure of hfposemb compare, or several, such as "shift*"; may be given twice (default: all)',
    )
    command.add_argument(
        "--draws", type=_count, default=draws, metavar="N", help=f"surrogates for chance, 0 for none (default: {draws})"
    )


def _add_engine(command: argparse.ArgumentParser) -> None:
    command.add_argument("--engine", choices=ENGINES, default="local", help="(default: processes of this machine)")
    command.add_argument("--scheduler", metavar="ADDRESS", help="of the Dask cluster, such as tcp://host:8786")
    command.add_argument("--workers", type=_count, metavar="N", help="processes of this machine (default: one a core)")
    command.add_argument(
        "--requests",
        type=_count,
        default=REQUESTS,
        metavar="N",
        help=f"requests to the Hub at a time, of all workers together (default: {REQUESTS})",
    )


def _add_table(command: argparse.ArgumentParser) -> None:
    _add_source(command)
    _add_role(command)


def _add_role(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--table",
        metavar="ROLE",
        help="token, position, token_type, or encoder.position and the like (default: token, else position)",
    )


def _add_part(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--part",
        action="append",
        default=[],
        metavar="NAME",
        help="part of models that have several, such as encoder or decoder (default: the one that the words enter); "
        "given several times, one for each source, - for its default",
    )


def _add_metric(command: argparse.ArgumentParser) -> None:
    command.add_argument("--metric", choices=("cosine", "dot", "euclidean"), default="cosine", help="(default: cosine)")
    command.add_argument(
        "--centred",
        action="store_true",
        help="subtract the mean row first (Mu & Viswanath 2018), for tables whose rows all point one way",
    )


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and 1 <= int(text) <= 65535):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; give a number from 1 to 65535")
    return int(text)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 7):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 999,999")
    return int(text)


class _Schema(argparse.Action):
    """Print the JSON Schema and exit instead of running the command, like ``--version``."""

    def __init__(self, option_strings: Sequence[str], dest: str, **more: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **more)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from ..reports.json_schema import COMPARISON

        print(json.dumps(COMPARISON, indent=2, ensure_ascii=False))
        parser.exit()
