"""The commands and their options."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from .. import __version__
from ..analysis.nulls.surrogates import DRAWS
from ..comparison.metrics import EXTRAS
from ..samples import NAMES as SAMPLES
from ..surveys.published_findings import STUDIES
from ..surveys.worker_pool import KINDS as ENGINES
from ..surveys.worker_pool import REQUESTS
from . import inspecting, measuring, serving, skill
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

_TABLES = ".safetensors, .npy, .npz, .parquet, .csv or .tsv"
_DEBUG = "print the full traceback of an error"
_VERBOSE = "log what is read, from where, and what is tried again"
_JSON = "print one JSON document, and nothing else, on standard output"


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    top = AnsweringParser(
        prog="hfposemb", description="See and measure what a pretrained model knows about words and positions."
    )
    top.add_argument("--version", action="version", version=f"hfposemb {__version__}")
    top.flag("--debug", _DEBUG)
    top.flag("--verbose", _VERBOSE)
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for add_group in (
        _serving_commands,
        _table_commands,
        _compare_command,
        _survey_commands,
        _export_command,
        _check_commands,
        _finding_commands,
        _pair_commands,
        _other_commands,
    ):
        add_group(partial(add_command, commands))
    for command in commands.choices.values():
        described = any("--schema" in action.option_strings for action in command._actions)
        command.flag("--json", _JSON + (", described by --schema" if described else ""))
        # Accepted after a command too, without overriding a value before it.
        command.flag("--debug", _DEBUG, default=argparse.SUPPRESS)
        command.flag("--verbose", _VERBOSE, default=argparse.SUPPRESS)
    others = ", ".join(sorted(set(commands.choices) - set(LISTED)))
    top.epilog = f"more commands: {others}; {top.prog} COMMAND --help describes each"
    return top


def _serving_commands(add: Add) -> None:
    """Add the commands that serve the app."""
    command = add(serving.run_app, "open the app in a browser on this machine")
    command.value(
        "sources",
        "SOURCE",
        f"sources to open: {SOURCES} (default: GPT-2, BERT and the sinusoid; without a network, two samples)",
        nargs="*",
    )
    command.flag("--offline", "use no network: only files of this machine and what was read before")
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

    command = add(serving.run_space, "deploy the app, or a report, to your Space on the Hugging Face Hub")
    command.value("name", "OWNER/NAME", "the Space to create or update")
    command.flag("--private", "create it as a private Space")
    command.value("--models", "A,B,…", "sources it opens with (default: some that need no network)", default="")
    command.path(
        "--static",
        "REPORT",
        "upload a page as a static Space instead: an .html file of compare --out, or a folder with an index.html",
    )
    command.flag("--dry-run", "list what would be uploaded, and upload nothing")


def _table_commands(add: Add) -> None:
    """Add the commands that read one table of a source."""
    command = add(
        inspecting.run_info,
        "list the tables of sources without reading them; --requirements checks their positions",
    )
    command.value("sources", "SOURCE", f"{SOURCES}, or a discarded encoding such as counting:256x128", nargs="+")
    command.flag("--requirements", "check the requirements of a position encoding; reads positions")
    command.flag("--resolution", "measure how well the slow or fast waves alone determine the position")
    command.value("--text", "TEXT", "show which rows of a table such as ngram a text looks up; none of them is read")
    command.value("--ids", "A,B,…", "the same of token ids")
    command.value("--table", "ROLE", "the table of --text and --ids: ngram, per_layer (default: all)")
    add_origin(command)

    command = add(inspecting.run_extract, "write a table to a file")
    add_table(command)
    command.value("--rows", "ROW", "labels or row numbers; only these rows are read (default: all)", nargs="+")
    command.path("--out", "FILE", f"{_TABLES}; the suffix sets the format", required=True)

    command = add(inspecting.run_project, "project a table to two or three dimensions")
    add_table(command)
    command.add_argument("--method", type=str.lower, choices=("pca", "umap"), default="pca", help="(default: pca)")
    command.add_argument("--dims", type=int, choices=(2, 3), default=2, help="dimensions (default: 2)")
    command.add_argument("--seed", type=int, default=0, help="seed of UMAP (default: 0)")
    command.path("--out", "FILE", f"{_TABLES} instead of CSV on the terminal")

    command = add(inspecting.run_similarity, "compare selected rows of a table pairwise")
    add_table(command)
    command.value("--rows", "A,B,…", "labels or row numbers, such as king,queen,paris", required=True)
    add_metric(command)

    command = add(inspecting.run_neighbours, "list the exact nearest neighbours of one or more rows")
    add_table(command)
    command.value("queries", "QUERY", "a label or a row number", nargs="+")
    command.add_argument("-k", type=int, default=10, help="number of neighbours (default: 10)")
    add_metric(command)

    command = add(inspecting.run_card, "write six facts about a source for its model card")
    add_source(command, base="the model that it was made from, to compare rows and tokens (default: the one it states)")
    command.add_argument("--word", default="king", help="word whose nearest tokens are listed (default: king)")
    command.flag("--dark", "write the picture in dark colours")
    command.path("--out", "FILE", ".md, or .svg for a picture of 1,200 × 630 (default: the terminal)")

    command = add(inspecting.run_mixture, "write a word as a weighted sum of a few others, and with positions added")
    add_source(command)
    command.value("word", "WORD", "a label or a row number")
    command.add_argument("-k", type=int, default=6, help="number of words to mix it from (default: 6)")
    command.value("--positions", "P,…", "positions to add to it, such as 1,5,20", default="")


def _compare_command(add: Add) -> None:
    """Add the command that compares sources."""
    command = add(measuring.run_compare, "compare several sources: metrics, pairs and neighbours of words")
    command.value("sources", "SOURCE", SOURCES, nargs="+")
    add_access(command)
    command.add_argument(
        "--words", default="king,queen,paris", help="words whose neighbours are listed (default: king,queen,paris)"
    )
    command.add_argument(
        "--pairs",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="measure how similar the tables of each pair of sources are, with chance levels; --no-pairs is faster",
    )
    add_draws(command, DRAWS)
    command.flag("--fold-case", "match tokens regardless of case, such as King and king")
    command.flag("--leave-out", "leave out positions with outlying norms")
    add_part(command)
    command.add_argument(
        "--also",
        action="append",
        choices=EXTRAS,
        default=[],
        help="further metrics, which take minutes; may be repeated",
    )
    add_schema(command)
    command.path("--out", "FILE", "write a self-contained .html page")


def _survey_commands(add: Add) -> None:
    """Add the commands that measure many sources."""
    command = add(measuring.run_survey, "measure many sources and write parquet files to a folder")
    command.value("sources", "SOURCE", SOURCES, nargs="*")
    command.path("--file", "FILE", "text file with further sources, one per line")
    command.value("--author", "NAME", "add the Hub models of this user or organisation")
    command.value(
        "--filter", "TAG", "add the Hub models with this tag (with all tags, if repeated)", action="append", default=[]
    )
    command.count("--limit", "maximum number of Hub models (default: 50)")
    command.value("--revisions", "PATTERN", 'revisions of a single source, such as "step*"')
    add_metrics(command, draws=DRAWS)
    add_access(command)
    command.value("--out", "FOLDER", "a folder or fsspec URL; results already there are kept")
    command.flag("--fingerprints", "keep one of each model there too, for kinship --against FOLDER")
    command.value(
        "--again",
        "SURVEY",
        "repeat the measurements of a survey, its folder or a CSV or parquet file of its rows, for all or the "
        "given sources, and compare the results",
    )
    command.flag("--dry-run", "estimate the cost from the headers, and measure nothing")
    add_engine(command)

    command = add(measuring.run_atlas, "write a page to browse a survey, or publish it as a dataset")
    command.value("survey", "SURVEY", "the folder of a survey, or a CSV or parquet file of its rows")
    command.path("--out", "FILE", ".html page (default: _atlas.html in the folder, or next to the file)")
    command.flag("--open", "open the page in a browser")
    command.value("--title", "TEXT", "title of the page and of the dataset")
    command.path("--dataset", "FOLDER", "also write parquet files and a data card for the Hub")
    command.value("--app", "ADDRESS", "app that the page links to (default: the one on this machine)")

    command = add(measuring.run_trajectory, "follow a table through the checkpoints of a training run")
    command.value("source", "SOURCE", "a repository, a folder of checkpoints or a sample such as sample:gpt2")
    command.value("--revisions", "PATTERN", 'pattern of its checkpoints, such as "step*"', required=True)
    command.count("--most", "number of checkpoints, evenly spaced (default: all)")
    command.add_argument("--table", choices=("position", "token"), default="position", help="(default: position)")
    add_metrics(command, draws=0)
    command.path("--out", "FILE", ".html page with its PCA map and a slider over the steps")
    add_engine(command)


def _export_command(add: Add) -> None:
    """Add the command that writes files."""
    command = add(inspecting.run_export, "write a table, projection, figure or comparison to a file, or a static page")
    command.value("sources", "SOURCE", SOURCES, nargs="*")
    add_access(command)
    add_role(command)
    command.add_argument(
        "--projection", type=str.lower, choices=("pca", "umap"), help="write a projection instead of the vectors"
    )
    command.add_argument(
        "--dims", type=int, choices=(2, 3), default=2, help="dimensions of the projection (default: 2)"
    )
    command.add_argument("--seed", type=int, default=0, help="seed of UMAP (default: 0)")
    add_part(command)
    command.value(
        "--figure",
        "NAME",
        "write a figure: positions, similarity, table or tokens of one source; distance, norms or variance of several",
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
    command.value("--endpoint", "URL", "address of the Hub that --site reads (default: HF_ENDPOINT)")


def _check_commands(add: Add) -> None:
    """Add the commands that check files, and results against models and publications."""
    command = add(
        inspecting.run_check,
        "look for faults in the files of models; exit code 1 if something is wrong, 2 if a source cannot be checked",
    )
    command.value("sources", "SOURCE", "owner/name, ./folder, ./file.safetensors or a sample", nargs="+")
    command.flag("--full", "read whole tables, all headers and the whole tokenizer")
    add_schema(command)
    command.path("--sarif", "FILE", "write the findings as SARIF 2.1.0, for GitHub")

    command = add(
        inspecting.run_vocab,
        "compare two vocabularies: can the models be merged, draft for each other, be distilled; exit code 0 if they "
        "are the same, 1 if a difference matters, 2 if one cannot be read; or measure a text with --text",
    )
    command.value("a", "A", f"{SOURCES}, or a folder with a tokenizer alone")
    command.value("b", "B", "the second one; not needed with --text", nargs="?")
    command.path(
        "--text",
        "FILE",
        "cut a text file instead: tokens per word, by script, rows that it never uses and the bytes they cost",
    )
    add_schema(command)

    command = add(
        inspecting.run_rope,
        "show rotary positions: wavelengths, scalings side by side, the bound of the base",
    )
    add_source(command)
    command.value("--part", "NAME", "kind of layer or part (default: the text's first)")
    command.value("--factor", "N", "factor of the scalings compared (default: 8)", type=float, default=8.0)
    command.flag(
        "--engines",
        "show them as transformers, vLLM, SGLang, llama.cpp and mlx-lm compute them, with dates and threads",
    )

    command = add(
        inspecting.run_verify,
        "compare tables, frequencies and inputs with the model as loaded by transformers",
    )
    command.value("source", "SOURCE", "a folder, or a Hub repository, which is downloaded")
    command.value("--revision", "NAME", "branch, tag or commit of a model on the Hub")

    command = add(measuring.run_reproduce, "measure published findings again and compare")
    command.value("studies", "NAME", f"(default: all) {', '.join(STUDIES)}", nargs="*")
    command.value(
        "--model",
        "KEY=SOURCE",
        "use another source for a model of a study, such as roberta=./folder",
        action="append",
        default=[],
    )
    add_access(command)


def _finding_commands(add: Add) -> None:
    """Add the commands that look at odd tokens, output heads and changed rows."""
    command = add(inspecting.run_odd, "list odd tokens: untrained, near the mean, short, long, identical, unused")
    add_source(command)
    command.count("--count", "number of tokens of each kind", default=20)
    command.value("--table", "ROLE", "measure one table alone, token or head (default: token, and an untied head)")
    command.value("--unused", "A,B,…", "ids of tokens known to be unused", default="")

    command = add(inspecting.run_head, "compare the token table of an untied model with its output head")
    add_source(command)
    command.count("--count", "number of tokens that differ most and least", default=20)
    add_draws(command, 39, "at least 19")

    command = add(inspecting.run_changes, "list the rows that an adapter, or a fine-tuning, changed the most")
    add_table(command)
    command.value("after", "AFTER", "the source after training; not for an adapter with --base", nargs="?")
    command.count("--count", "number of rows listed", default=20)


def _pair_commands(add: Add) -> None:
    """Add the commands of two models: whether one was made from the other, and rows for tokens of the other."""
    command = add(inspecting.run_kinship, "tell from a few token rows whether models were made from one another")
    command.value("sources", "SOURCE", f"{SOURCES}, or a file of --save", nargs="+")
    command.path("--against", "FOLDER", "compare one source with all files of --save, or of survey --fingerprints")
    command.path("--save", "FOLDER", "keep a fingerprint of each source there, in under a megabyte")
    add_schema(command)
    add_access(command)

    command = add(inspecting.run_merge_preview, "tell what averaging the token tables of two models would do")
    command.value("a", "A", f"the first model: {SOURCES}")
    command.value("b", "B", "the second model")
    add_schema(command)
    add_access(command)

    command = add(inspecting.run_transplant, "make rows for the tokens that only another model has, and scan them")
    command.value("base", "BASE", f"the model that the rows are for: {SOURCES}")
    command.value("donor", "DONOR", "the model that has the tokens")
    command.add_argument(
        "--method",
        choices=("mean", "subword", "omp"),
        default="omp",
        help="the mean row, the mean row of the token's pieces, or a sparse sum of shared rows (default: omp)",
    )
    command.count("-k", "rows in a sparse sum", default=64)
    command.count("--tokens", "make rows for so many tokens at random (default: all)")
    command.path("--save", "FILE", "write the rows: .safetensors, .npz, .parquet, .npy or .csv")
    command.flag("--force", "replace FILE if it exists")
    add_access(command)


def _other_commands(add: Add) -> None:
    """Add the commands of the disk cache, and of the skill for agents."""
    command = add(inspecting.run_cache, "show or clear the disk cache")
    command.flag("--clear", "clear the cache")

    command = add(skill.run_skill, "print the skill that teaches agents this command, or install it")
    command.flag("--add", "install it into .agents/skills, with a link in .claude/skills")
    command.flag("--global", "install it for all projects, in the home directory", dest="everywhere")
    command.path("--dest", "FOLDER", "install it into this folder of skills instead")
    command.flag("--force", "replace an installed one")


# --- arguments that several commands share ----------------------------------------------------------------------------


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
        from ..reports.json_schema import SCHEMAS

        print(json.dumps(SCHEMAS[parser.prog.split()[-1]], indent=2, ensure_ascii=False))
        parser.exit()


def add_schema(command: AnsweringParser) -> None:
    """Add what prints the JSON Schema of a command."""
    command.add_argument("--schema", action=Schema, help="print the JSON Schema of --json and exit")
