"""The commands and their options."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from .. import __version__
from ..analysis.nulls.surrogates import DRAWS
from ..comparison.metrics import EXTRAS
from ..samples import NAMES as SAMPLES
from ..surveys.published_findings import STUDIES
from ..surveys.worker_pool import KINDS as ENGINES
from ..surveys.worker_pool import REQUESTS
from .answering import AnsweringParser
from .inspecting import (
    run_cache,
    run_card,
    run_changes,
    run_check,
    run_export,
    run_extract,
    run_head,
    run_info,
    run_mixture,
    run_neighbours,
    run_odd,
    run_project,
    run_rope,
    run_similarity,
    run_verify,
)
from .measuring import run_atlas, run_compare, run_reproduce, run_survey, run_trajectory
from .options import Command
from .serving import run_app, run_space
from .skill import run_skill

if TYPE_CHECKING:
    Commands: TypeAlias = argparse._SubParsersAction[AnsweringParser]


LISTED = ("app", "info", "neighbours", "compare", "check", "rope", "extract", "export")
"""Commands that ``--help`` describes; it names the others."""

_TABLES = ".safetensors, .npy, .npz, .parquet, .csv or .tsv"
_DEBUG = "print the full traceback of an error"
_VERBOSE = "log what is read, from where, and what is tried again"
_JSON = "print one JSON document, and nothing else, on standard output"
_SOURCES = (
    f"owner/name, ./folder, ./model.gguf, {', '.join(f'sample:{name}' for name in SAMPLES)} "
    "or a built-in such as sinusoidal:512x384"
)


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    top = AnsweringParser(
        prog="hfposemb", description="See and measure what a pretrained model knows about words and positions."
    )
    top.add_argument("--version", action="version", version=f"hfposemb {__version__}")
    top.add_argument("--debug", action="store_true", help=_DEBUG)
    top.add_argument("--verbose", action="store_true", help=_VERBOSE)
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
        _skill_command,
    ):
        add(commands)
    for command in commands.choices.values():
        described = any("--schema" in action.option_strings for action in command._actions)
        command.add_argument(
            "--json", action="store_true", help=_JSON + (", described by --schema" if described else "")
        )
        # Accepted after a command too, without overriding a value before it.
        command.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=_DEBUG)
        command.add_argument("--verbose", action="store_true", default=argparse.SUPPRESS, help=_VERBOSE)
    others = ", ".join(sorted(set(commands.choices) - set(LISTED)))
    top.epilog = f"more commands: {others}; {top.prog} COMMAND --help describes each"
    return top


def _serving_commands(commands: Commands) -> None:
    """Add the commands that serve the app."""
    command = _command(commands, "app", run_app, "open the app in a browser on this machine")
    command.add_argument(
        "sources",
        nargs="*",
        metavar="SOURCE",
        help=f"sources to open: {_SOURCES} (default: GPT-2, BERT and the sinusoid; without a network, two samples)",
    )
    command.add_argument(
        "--offline", action="store_true", help="use no network: only files of this machine and what was read before"
    )
    _add_serving(command)

    command = _command(
        commands, "space", run_space, "deploy the app, or a report, to your Space on the Hugging Face Hub"
    )
    command.add_argument("name", metavar="OWNER/NAME", help="the Space to create or update")
    command.add_argument("--private", action="store_true", help="create it as a private Space")
    command.add_argument(
        "--models", default="", metavar="A,B,…", help="sources it opens with (default: some that need no network)"
    )
    command.add_argument(
        "--static",
        type=Path,
        metavar="REPORT",
        help="upload a page as a static Space instead: an .html file of compare --out, or a folder with an index.html",
    )
    command.add_argument("--dry-run", action="store_true", help="list what would be uploaded, and upload nothing")


def _table_commands(commands: Commands) -> None:
    """Add the commands that read one table of a source."""
    command = _command(
        commands,
        "info",
        run_info,
        "list the tables of sources without reading them; --requirements checks their positions",
    )
    command.add_argument(
        "sources", nargs="+", metavar="SOURCE", help=f"{_SOURCES}, or a discarded encoding such as counting:256x128"
    )
    command.add_argument(
        "--requirements", action="store_true", help="check the requirements of a position encoding; reads positions"
    )
    command.add_argument(
        "--resolution",
        action="store_true",
        help="measure how well the slow or fast waves alone determine the position",
    )
    command.add_argument(
        "--text", metavar="TEXT", help="show which rows of a table such as ngram a text looks up; none of them is read"
    )
    command.add_argument("--ids", metavar="A,B,…", help="the same of token ids")
    command.add_argument(
        "--table", metavar="ROLE", help="the table of --text and --ids: ngram, per_layer (default: all)"
    )
    _add_origin(command)

    command = _command(commands, "extract", run_extract, "write a table to a file")
    _add_table(command)
    command.add_argument(
        "--rows", nargs="+", metavar="ROW", help="labels or row numbers; only these rows are read (default: all)"
    )
    command.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help=f"{_TABLES}; the suffix sets the format"
    )

    command = _command(commands, "project", run_project, "project a table to two or three dimensions")
    _add_table(command)
    command.add_argument("--method", type=str.lower, choices=("pca", "umap"), default="pca", help="(default: pca)")
    command.add_argument("--dims", type=int, choices=(2, 3), default=2, help="dimensions (default: 2)")
    command.add_argument("--seed", type=int, default=0, help="seed of UMAP (default: 0)")
    command.add_argument("--out", type=Path, metavar="FILE", help=f"{_TABLES} instead of CSV on the terminal")

    command = _command(commands, "similarity", run_similarity, "compare selected rows of a table pairwise")
    _add_table(command)
    command.add_argument(
        "--rows", required=True, metavar="A,B,…", help="labels or row numbers, such as king,queen,paris"
    )
    _add_metric(command)

    command = _command(commands, "neighbours", run_neighbours, "list the exact nearest neighbours of one or more rows")
    _add_table(command)
    command.add_argument("queries", nargs="+", metavar="QUERY", help="a label or a row number")
    command.add_argument("-k", type=int, default=10, help="number of neighbours (default: 10)")
    _add_metric(command)

    command = _command(commands, "card", run_card, "write six facts about a source for its model card")
    _add_source(command)
    command.add_argument("--word", default="king", help="word whose nearest tokens are listed (default: king)")
    command.add_argument("--dark", action="store_true", help="write the picture in dark colours")
    command.add_argument(
        "--out", type=Path, metavar="FILE", help=".md, or .svg for a picture of 1,200 × 630 (default: the terminal)"
    )

    command = _command(
        commands, "mixture", run_mixture, "write a word as a weighted sum of a few others, and with positions added"
    )
    _add_source(command)
    command.add_argument("word", metavar="WORD", help="a label or a row number")
    command.add_argument("-k", type=int, default=6, help="number of words to mix it from (default: 6)")
    command.add_argument("--positions", default="", metavar="P,…", help="positions to add to it, such as 1,5,20")


def _compare_command(commands: Commands) -> None:
    """Add the command that compares sources."""
    command = _command(
        commands, "compare", run_compare, "compare several sources: metrics, pairs and neighbours of words"
    )
    command.add_argument("sources", nargs="+", metavar="SOURCE", help=_SOURCES)
    _add_access(command)
    command.add_argument(
        "--words", default="king,queen,paris", help="words whose neighbours are listed (default: king,queen,paris)"
    )
    command.add_argument(
        "--pairs",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="measure how similar the tables of each pair of sources are, with chance levels; --no-pairs is faster",
    )
    command.add_argument(
        "--draws",
        type=_count,
        default=DRAWS,
        metavar="N",
        help=f"surrogates per chance level, 0 for none (default: {DRAWS})",
    )
    command.add_argument(
        "--fold-case", action="store_true", help="match tokens regardless of case, such as King and king"
    )
    command.add_argument("--leave-out", action="store_true", help="leave out positions with outlying norms")
    _add_part(command)
    command.add_argument(
        "--also",
        action="append",
        choices=EXTRAS,
        default=[],
        help="further metrics, which take minutes; may be repeated",
    )
    command.add_argument("--schema", action=_Schema, help="print the JSON Schema of --json and exit")
    command.add_argument("--out", type=Path, metavar="FILE", help="write a self-contained .html page")


def _survey_commands(commands: Commands) -> None:
    """Add the commands that measure many sources."""
    command = _command(commands, "survey", run_survey, "measure many sources and write parquet files to a folder")
    command.add_argument("sources", nargs="*", metavar="SOURCE", help=_SOURCES)
    command.add_argument("--file", type=Path, metavar="FILE", help="text file with further sources, one per line")
    command.add_argument("--author", metavar="NAME", help="add the Hub models of this user or organisation")
    command.add_argument(
        "--filter",
        action="append",
        default=[],
        metavar="TAG",
        help="add the Hub models with this tag (with all tags, if repeated)",
    )
    command.add_argument(
        "--limit", type=_count, default=50, metavar="N", help="maximum number of Hub models (default: 50)"
    )
    command.add_argument("--revisions", metavar="PATTERN", help='revisions of a single source, such as "step*"')
    _add_metrics(command, draws=DRAWS)
    _add_access(command)
    command.add_argument("--out", metavar="FOLDER", help="a folder or fsspec URL; results already there are kept")
    command.add_argument(
        "--again",
        metavar="SURVEY",
        help="repeat the measurements of a survey, its folder or a CSV or parquet file of its rows, for all or the "
        "given sources, and compare the results",
    )
    command.add_argument(
        "--dry-run", action="store_true", help="estimate the cost from the headers, and measure nothing"
    )
    _add_engine(command)

    command = _command(commands, "atlas", run_atlas, "write a page to browse a survey, or publish it as a dataset")
    command.add_argument(
        "survey", metavar="SURVEY", help="the folder of a survey, or a CSV or parquet file of its rows"
    )
    command.add_argument(
        "--out", type=Path, metavar="FILE", help=".html page (default: _atlas.html in the folder, or next to the file)"
    )
    command.add_argument("--open", action="store_true", help="open the page in a browser")
    command.add_argument("--title", metavar="TEXT", help="title of the page and of the dataset")
    command.add_argument(
        "--dataset", type=Path, metavar="FOLDER", help="also write parquet files and a data card for the Hub"
    )
    command.add_argument(
        "--app", metavar="ADDRESS", help="app that the page links to (default: the one on this machine)"
    )

    command = _command(
        commands, "trajectory", run_trajectory, "follow a table through the checkpoints of a training run"
    )
    command.add_argument(
        "source", metavar="SOURCE", help="a repository, a folder of checkpoints or a sample such as sample:gpt2"
    )
    command.add_argument(
        "--revisions", required=True, metavar="PATTERN", help='pattern of its checkpoints, such as "step*"'
    )
    command.add_argument("--most", type=_count, metavar="N", help="number of checkpoints, evenly spaced (default: all)")
    command.add_argument("--table", choices=("position", "token"), default="position", help="(default: position)")
    _add_metrics(command, draws=0)
    command.add_argument(
        "--out", type=Path, metavar="FILE", help=".html page with its PCA map and a slider over the steps"
    )
    _add_engine(command)


def _export_command(commands: Commands) -> None:
    """Add the command that writes files."""
    command = _command(
        commands, "export", run_export, "write a table, projection, figure or comparison to a file, or a static page"
    )
    command.add_argument("sources", nargs="*", metavar="SOURCE", help=_SOURCES)
    _add_access(command)
    _add_role(command)
    command.add_argument(
        "--projection", type=str.lower, choices=("pca", "umap"), help="write a projection instead of the vectors"
    )
    command.add_argument(
        "--dims", type=int, choices=(2, 3), default=2, help="dimensions of the projection (default: 2)"
    )
    command.add_argument("--seed", type=int, default=0, help="seed of UMAP (default: 0)")
    _add_part(command)
    command.add_argument(
        "--figure",
        metavar="NAME",
        help="write a figure: positions, similarity, table or tokens of one source; distance, norms or variance of "
        "several",
    )
    where = command.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help=f"{_TABLES} for a table or projection; .html, .json, .png, .svg or .pdf for a figure; .zip for a "
        "comparison of the sources (report, JSON and manifest)",
    )
    where.add_argument(
        "--site",
        type=Path,
        metavar="DIR",
        help="write index.html into a folder: a page that reads models of the Hub in the browser, without a server",
    )
    command.add_argument(
        "--endpoint", metavar="URL", help="address of the Hub that --site reads (default: HF_ENDPOINT)"
    )


def _check_commands(commands: Commands) -> None:
    """Add the commands that check files, and results against models and publications."""
    command = _command(
        commands,
        "check",
        run_check,
        "look for faults in the files of models; exit code 1 if something is wrong, 2 if a source cannot be checked",
    )
    command.add_argument(
        "sources", nargs="+", metavar="SOURCE", help="owner/name, ./folder, ./file.safetensors or a sample"
    )
    command.add_argument("--full", action="store_true", help="read whole tables, all headers and the whole tokenizer")
    command.add_argument("--schema", action=_Schema, const="check", help="print the JSON Schema of --json and exit")
    command.add_argument("--sarif", type=Path, metavar="FILE", help="write the findings as SARIF 2.1.0, for GitHub")

    command = _command(
        commands, "rope", run_rope, "show rotary positions: wavelengths, scalings side by side, the bound of the base"
    )
    _add_source(command)
    command.add_argument("--part", metavar="NAME", help="kind of layer or part (default: the text's first)")
    command.add_argument(
        "--factor", type=float, default=8.0, metavar="N", help="factor of the scalings compared (default: 8)"
    )
    command.add_argument(
        "--engines",
        action="store_true",
        help="show them as transformers, vLLM, SGLang, llama.cpp and mlx-lm compute them, with dates and threads",
    )

    command = _command(
        commands,
        "verify",
        run_verify,
        "compare tables, frequencies and inputs with the model as loaded by transformers",
    )
    command.add_argument("source", metavar="SOURCE", help="a folder, or a Hub repository, which is downloaded")
    command.add_argument("--revision", metavar="NAME", help="branch, tag or commit of a model on the Hub")

    command = _command(commands, "reproduce", run_reproduce, "measure published findings again and compare")
    command.add_argument("studies", nargs="*", metavar="NAME", help=f"(default: all) {', '.join(STUDIES)}")
    command.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="KEY=SOURCE",
        help="use another source for a model of a study, such as roberta=./folder",
    )
    _add_access(command)


def _finding_commands(commands: Commands) -> None:
    """Add the commands that look at odd tokens, output heads and changed rows."""
    command = _command(
        commands, "odd", run_odd, "list odd tokens: untrained, near the mean, short, long, identical, unused"
    )
    _add_source(command)
    command.add_argument(
        "--count", type=int, default=20, metavar="N", help="number of tokens of each kind (default: 20)"
    )
    command.add_argument(
        "--table", metavar="ROLE", help="measure one table alone, token or head (default: token, and an untied head)"
    )
    command.add_argument("--unused", default="", metavar="A,B,…", help="ids of tokens known to be unused")

    command = _command(commands, "head", run_head, "compare the token table of an untied model with its output head")
    _add_source(command)
    command.add_argument(
        "--count", type=int, default=20, metavar="N", help="number of tokens that differ most and least (default: 20)"
    )
    command.add_argument(
        "--draws", type=_count, default=39, metavar="N", help="surrogates per chance level, at least 19 (default: 39)"
    )

    command = _command(
        commands, "changes", run_changes, "list the rows that an adapter, or a fine-tuning, changed the most"
    )
    _add_table(command)
    command.add_argument(
        "after", nargs="?", metavar="AFTER", help="the source after training; not for an adapter with --base"
    )
    command.add_argument("--count", type=int, default=20, metavar="N", help="number of rows listed (default: 20)")


def _cache_command(commands: Commands) -> None:
    """Add the command that shows or clears the disk cache."""
    command = _command(commands, "cache", run_cache, "show or clear the disk cache")
    command.add_argument("--clear", action="store_true", help="clear the cache")


def _skill_command(commands: Commands) -> None:
    """Add the command that prints or installs the skill for agents."""
    command = _command(commands, "skill", run_skill, "print the skill that teaches agents this command, or install it")
    command.add_argument(
        "--add", action="store_true", help="install it into .agents/skills, with a link in .claude/skills"
    )
    command.add_argument(
        "--global", dest="everywhere", action="store_true", help="install it for all projects, in the home directory"
    )
    command.add_argument("--dest", type=Path, metavar="FOLDER", help="install it into this folder of skills instead")
    command.add_argument("--force", action="store_true", help="replace an installed one")


def _add_serving(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--host", metavar="ADDRESS", help="address to listen on, such as 0.0.0.0 for all (default: this machine only)"
    )
    command.add_argument(
        "--port", type=_port, metavar="N", help="port to listen on (default: first free port from 7860)"
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


def _command(commands: Commands, name: str, run: Command, text: str) -> argparse.ArgumentParser:
    listed: dict[str, Any] = {"help": text} if name in LISTED else {}
    command = commands.add_parser(name, description=f"{text[0].upper()}{text[1:]}.", **listed)
    command.set_defaults(run=run)
    return command


def _add_source(command: argparse.ArgumentParser) -> None:
    command.add_argument("source", metavar="SOURCE", help=_SOURCES)
    _add_origin(command)


def _add_origin(command: argparse.ArgumentParser) -> None:
    command.add_argument("--revision", metavar="NAME", help="branch, tag or commit of a model on the Hub")
    command.add_argument(
        "--base",
        nargs="?",
        const=True,
        metavar="SOURCE",
        help="apply an adapter to its base model: the one that it names, or SOURCE",
    )
    _add_access(command)


def _add_access(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--allow-full-download",
        action="store_true",
        help="download a whole file if it cannot be read in part (a pickle, or a server without range requests)",
    )


def _add_metrics(command: argparse.ArgumentParser, *, draws: int) -> None:
    command.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="NAME",
        help='name or pattern of metrics of hfposemb compare, such as "shift*"; may be repeated (default: all)',
    )
    command.add_argument(
        "--draws",
        type=_count,
        default=draws,
        metavar="N",
        help=f"surrogates per chance level, 0 for none (default: {draws})",
    )


def _add_engine(command: argparse.ArgumentParser) -> None:
    command.add_argument("--engine", choices=ENGINES, default="local", help="where to run (default: local processes)")
    command.add_argument(
        "--scheduler", metavar="ADDRESS", help="address of the Dask scheduler, such as tcp://host:8786"
    )
    command.add_argument(
        "--workers", type=_count, metavar="N", help="number of local processes (default: one per core)"
    )
    command.add_argument(
        "--requests",
        type=_count,
        default=REQUESTS,
        metavar="N",
        help=f"concurrent requests to the Hub, over all workers (default: {REQUESTS})",
    )


def _add_table(command: argparse.ArgumentParser) -> None:
    _add_source(command)
    _add_role(command)
    command.add_argument("--tensor", metavar="NAME", help="any tensor [rows, width] of the source, by its name")


def _add_role(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--table",
        metavar="ROLE",
        help="token, head, position, token_type, ngram, per_layer, or one of a part such as encoder.position or "
        "layer7.per_layer (default: token, else position)",
    )


def _add_part(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--part",
        action="append",
        default=[],
        metavar="NAME",
        help="part of a model, such as encoder or decoder (default: the part that the words enter); repeat it for each "
        "source, - for the default",
    )


def _add_metric(command: argparse.ArgumentParser) -> None:
    metrics = ("cosine", "dot", "euclidean")
    command.add_argument("--metric", type=str.lower, choices=metrics, default="cosine", help="(default: cosine)")
    command.add_argument(
        "--centred",
        action="store_true",
        help="subtract the mean row first (Mu & Viswanath 2018), for strongly anisotropic tables",
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
        from ..checks.report_formats import SCHEMA
        from ..reports.json_schema import COMPARISON

        print(json.dumps(SCHEMA if self.const == "check" else COMPARISON, indent=2, ensure_ascii=False))
        parser.exit()
