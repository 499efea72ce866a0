"""The commands and their options."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from .. import __version__
from ..analysis.nulls.surrogates import DRAWS
from ..comparison.metrics import EXTRAS
from ..surveys.published_findings import STUDIES
from .arguments import (
    LISTED,
    SOURCES,
    Schema,
    add_access,
    add_command,
    add_draws,
    add_engine,
    add_metric,
    add_metrics,
    add_origin,
    add_part,
    add_role,
    add_serving,
    add_source,
    add_table,
    whole_count,
)
from .inspecting import (
    run_cache,
    run_card,
    run_changes,
    run_check,
    run_export,
    run_extract,
    run_head,
    run_info,
    run_kinship,
    run_merge_preview,
    run_mixture,
    run_neighbours,
    run_odd,
    run_project,
    run_rope,
    run_similarity,
    run_transplant,
    run_verify,
    run_vocab,
)
from .measuring import run_atlas, run_compare, run_reproduce, run_survey, run_trajectory
from .options import AnsweringParser
from .serving import run_app, run_space
from .skill import run_skill

if TYPE_CHECKING:
    from .arguments import Commands

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
        _pair_commands,
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
    command = add_command(commands, "app", run_app, "open the app in a browser on this machine")
    command.add_argument(
        "sources",
        nargs="*",
        metavar="SOURCE",
        help=f"sources to open: {SOURCES} (default: GPT-2, BERT and the sinusoid; without a network, two samples)",
    )
    command.add_argument(
        "--offline", action="store_true", help="use no network: only files of this machine and what was read before"
    )
    add_serving(command)

    command = add_command(
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
    command = add_command(
        commands,
        "info",
        run_info,
        "list the tables of sources without reading them; --requirements checks their positions",
    )
    command.add_argument(
        "sources", nargs="+", metavar="SOURCE", help=f"{SOURCES}, or a discarded encoding such as counting:256x128"
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
    add_origin(command)

    command = add_command(commands, "extract", run_extract, "write a table to a file")
    add_table(command)
    command.add_argument(
        "--rows", nargs="+", metavar="ROW", help="labels or row numbers; only these rows are read (default: all)"
    )
    command.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help=f"{_TABLES}; the suffix sets the format"
    )

    command = add_command(commands, "project", run_project, "project a table to two or three dimensions")
    add_table(command)
    command.add_argument("--method", type=str.lower, choices=("pca", "umap"), default="pca", help="(default: pca)")
    command.add_argument("--dims", type=int, choices=(2, 3), default=2, help="dimensions (default: 2)")
    command.add_argument("--seed", type=int, default=0, help="seed of UMAP (default: 0)")
    command.add_argument("--out", type=Path, metavar="FILE", help=f"{_TABLES} instead of CSV on the terminal")

    command = add_command(commands, "similarity", run_similarity, "compare selected rows of a table pairwise")
    add_table(command)
    command.add_argument(
        "--rows", required=True, metavar="A,B,…", help="labels or row numbers, such as king,queen,paris"
    )
    add_metric(command)

    command = add_command(
        commands, "neighbours", run_neighbours, "list the exact nearest neighbours of one or more rows"
    )
    add_table(command)
    command.add_argument("queries", nargs="+", metavar="QUERY", help="a label or a row number")
    command.add_argument("-k", type=int, default=10, help="number of neighbours (default: 10)")
    add_metric(command)

    command = add_command(commands, "card", run_card, "write six facts about a source for its model card")
    add_source(command, base="the model that it was made from, to compare rows and tokens (default: the one it states)")
    command.add_argument("--word", default="king", help="word whose nearest tokens are listed (default: king)")
    command.add_argument("--dark", action="store_true", help="write the picture in dark colours")
    command.add_argument(
        "--out", type=Path, metavar="FILE", help=".md, or .svg for a picture of 1,200 × 630 (default: the terminal)"
    )

    command = add_command(
        commands, "mixture", run_mixture, "write a word as a weighted sum of a few others, and with positions added"
    )
    add_source(command)
    command.add_argument("word", metavar="WORD", help="a label or a row number")
    command.add_argument("-k", type=int, default=6, help="number of words to mix it from (default: 6)")
    command.add_argument("--positions", default="", metavar="P,…", help="positions to add to it, such as 1,5,20")


def _compare_command(commands: Commands) -> None:
    """Add the command that compares sources."""
    command = add_command(
        commands, "compare", run_compare, "compare several sources: metrics, pairs and neighbours of words"
    )
    command.add_argument("sources", nargs="+", metavar="SOURCE", help=SOURCES)
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
    command.add_argument(
        "--fold-case", action="store_true", help="match tokens regardless of case, such as King and king"
    )
    command.add_argument("--leave-out", action="store_true", help="leave out positions with outlying norms")
    add_part(command)
    command.add_argument(
        "--also",
        action="append",
        choices=EXTRAS,
        default=[],
        help="further metrics, which take minutes; may be repeated",
    )
    command.add_argument("--schema", action=Schema, help="print the JSON Schema of --json and exit")
    command.add_argument("--out", type=Path, metavar="FILE", help="write a self-contained .html page")


def _survey_commands(commands: Commands) -> None:
    """Add the commands that measure many sources."""
    command = add_command(commands, "survey", run_survey, "measure many sources and write parquet files to a folder")
    command.add_argument("sources", nargs="*", metavar="SOURCE", help=SOURCES)
    command.add_argument("--file", type=Path, metavar="FILE", help="text file with further sources, one per line")
    command.add_argument("--author", metavar="NAME", help="add the Hub models of this user or organisation")
    command.add_argument(
        "--filter",
        action="append",
        default=[],
        metavar="TAG",
        help="add the Hub models with this tag (with all tags, if repeated)",
    )
    command.add_argument("--limit", type=whole_count, metavar="N", help="maximum number of Hub models (default: 50)")
    command.add_argument("--revisions", metavar="PATTERN", help='revisions of a single source, such as "step*"')
    add_metrics(command, draws=DRAWS)
    add_access(command)
    command.add_argument("--out", metavar="FOLDER", help="a folder or fsspec URL; results already there are kept")
    command.add_argument(
        "--fingerprints", action="store_true", help="keep one of each model there too, for kinship --against FOLDER"
    )
    command.add_argument(
        "--again",
        metavar="SURVEY",
        help="repeat the measurements of a survey, its folder or a CSV or parquet file of its rows, for all or the "
        "given sources, and compare the results",
    )
    command.add_argument(
        "--dry-run", action="store_true", help="estimate the cost from the headers, and measure nothing"
    )
    add_engine(command)

    command = add_command(commands, "atlas", run_atlas, "write a page to browse a survey, or publish it as a dataset")
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

    command = add_command(
        commands, "trajectory", run_trajectory, "follow a table through the checkpoints of a training run"
    )
    command.add_argument(
        "source", metavar="SOURCE", help="a repository, a folder of checkpoints or a sample such as sample:gpt2"
    )
    command.add_argument(
        "--revisions", required=True, metavar="PATTERN", help='pattern of its checkpoints, such as "step*"'
    )
    command.add_argument(
        "--most", type=whole_count, metavar="N", help="number of checkpoints, evenly spaced (default: all)"
    )
    command.add_argument("--table", choices=("position", "token"), default="position", help="(default: position)")
    add_metrics(command, draws=0)
    command.add_argument(
        "--out", type=Path, metavar="FILE", help=".html page with its PCA map and a slider over the steps"
    )
    add_engine(command)


def _export_command(commands: Commands) -> None:
    """Add the command that writes files."""
    command = add_command(
        commands, "export", run_export, "write a table, projection, figure or comparison to a file, or a static page"
    )
    command.add_argument("sources", nargs="*", metavar="SOURCE", help=SOURCES)
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
    command = add_command(
        commands,
        "check",
        run_check,
        "look for faults in the files of models; exit code 1 if something is wrong, 2 if a source cannot be checked",
    )
    command.add_argument(
        "sources", nargs="+", metavar="SOURCE", help="owner/name, ./folder, ./file.safetensors or a sample"
    )
    command.add_argument("--full", action="store_true", help="read whole tables, all headers and the whole tokenizer")
    command.add_argument("--schema", action=Schema, const="check", help="print the JSON Schema of --json and exit")
    command.add_argument("--sarif", type=Path, metavar="FILE", help="write the findings as SARIF 2.1.0, for GitHub")

    command = add_command(
        commands,
        "vocab",
        run_vocab,
        "compare two vocabularies: can the models be merged, draft for each other, be distilled; exit code 0 if they "
        "are the same, 1 if a difference matters, 2 if one cannot be read; or measure a text with --text",
    )
    command.add_argument("a", metavar="A", help=f"{SOURCES}, or a folder with a tokenizer alone")
    command.add_argument("b", nargs="?", metavar="B", help="the second one; not needed with --text")
    command.add_argument(
        "--text",
        type=Path,
        metavar="FILE",
        help="cut a text file instead: tokens per word, by script, rows that it never uses and the bytes they cost",
    )
    command.add_argument("--schema", action=Schema, const="vocab", help="print the JSON Schema of --json and exit")

    command = add_command(
        commands, "rope", run_rope, "show rotary positions: wavelengths, scalings side by side, the bound of the base"
    )
    add_source(command)
    command.add_argument("--part", metavar="NAME", help="kind of layer or part (default: the text's first)")
    command.add_argument(
        "--factor", type=float, default=8.0, metavar="N", help="factor of the scalings compared (default: 8)"
    )
    command.add_argument(
        "--engines",
        action="store_true",
        help="show them as transformers, vLLM, SGLang, llama.cpp and mlx-lm compute them, with dates and threads",
    )

    command = add_command(
        commands,
        "verify",
        run_verify,
        "compare tables, frequencies and inputs with the model as loaded by transformers",
    )
    command.add_argument("source", metavar="SOURCE", help="a folder, or a Hub repository, which is downloaded")
    command.add_argument("--revision", metavar="NAME", help="branch, tag or commit of a model on the Hub")

    command = add_command(commands, "reproduce", run_reproduce, "measure published findings again and compare")
    command.add_argument("studies", nargs="*", metavar="NAME", help=f"(default: all) {', '.join(STUDIES)}")
    command.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="KEY=SOURCE",
        help="use another source for a model of a study, such as roberta=./folder",
    )
    add_access(command)


def _finding_commands(commands: Commands) -> None:
    """Add the commands that look at odd tokens, output heads and changed rows."""
    command = add_command(
        commands, "odd", run_odd, "list odd tokens: untrained, near the mean, short, long, identical, unused"
    )
    add_source(command)
    command.add_argument(
        "--count", type=whole_count, default=20, metavar="N", help="number of tokens of each kind (default: 20)"
    )
    command.add_argument(
        "--table", metavar="ROLE", help="measure one table alone, token or head (default: token, and an untied head)"
    )
    command.add_argument("--unused", default="", metavar="A,B,…", help="ids of tokens known to be unused")

    command = add_command(commands, "head", run_head, "compare the token table of an untied model with its output head")
    add_source(command)
    command.add_argument(
        "--count",
        type=whole_count,
        default=20,
        metavar="N",
        help="number of tokens that differ most and least (default: 20)",
    )
    add_draws(command, 39, "at least 19")

    command = add_command(
        commands, "changes", run_changes, "list the rows that an adapter, or a fine-tuning, changed the most"
    )
    add_table(command)
    command.add_argument(
        "after", nargs="?", metavar="AFTER", help="the source after training; not for an adapter with --base"
    )
    command.add_argument(
        "--count", type=whole_count, default=20, metavar="N", help="number of rows listed (default: 20)"
    )


def _pair_commands(commands: Commands) -> None:
    """Add the commands of two models: whether one was made from the other, and rows for tokens of the other."""
    command = add_command(
        commands, "kinship", run_kinship, "tell from a few token rows whether models were made from one another"
    )
    command.add_argument("sources", nargs="+", metavar="SOURCE", help=f"{SOURCES}, or a file of --save")
    command.add_argument(
        "--against",
        type=Path,
        metavar="FOLDER",
        help="compare one source with all files of --save, or of survey --fingerprints",
    )
    command.add_argument(
        "--save", type=Path, metavar="FOLDER", help="keep a fingerprint of each source there, in under a megabyte"
    )
    command.add_argument("--schema", action=Schema, const="kinship", help="print the JSON Schema of --json and exit")
    add_access(command)

    command = add_command(
        commands, "merge-preview", run_merge_preview, "tell what averaging the token tables of two models would do"
    )
    command.add_argument("a", metavar="A", help=f"the first model: {SOURCES}")
    command.add_argument("b", metavar="B", help="the second model")
    command.add_argument(
        "--schema", action=Schema, const="merge-preview", help="print the JSON Schema of --json and exit"
    )
    add_access(command)

    command = add_command(
        commands, "transplant", run_transplant, "make rows for the tokens that only another model has, and scan them"
    )
    command.add_argument("base", metavar="BASE", help=f"the model that the rows are for: {SOURCES}")
    command.add_argument("donor", metavar="DONOR", help="the model that has the tokens")
    command.add_argument(
        "--method",
        choices=("mean", "subword", "omp"),
        default="omp",
        help="the mean row, the mean row of the token's pieces, or a sparse sum of shared rows (default: omp)",
    )
    command.add_argument("-k", type=whole_count, default=64, metavar="N", help="rows in a sparse sum (default: 64)")
    command.add_argument(
        "--tokens", type=whole_count, metavar="N", help="make rows for so many tokens at random (default: all)"
    )
    command.add_argument(
        "--save", type=Path, metavar="FILE", help="write the rows: .safetensors, .npz, .parquet, .npy or .csv"
    )
    command.add_argument("--force", action="store_true", help="replace FILE if it exists")
    add_access(command)


def _cache_command(commands: Commands) -> None:
    """Add the command that shows or clears the disk cache."""
    command = add_command(commands, "cache", run_cache, "show or clear the disk cache")
    command.add_argument("--clear", action="store_true", help="clear the cache")


def _skill_command(commands: Commands) -> None:
    """Add the command that prints or installs the skill for agents."""
    command = add_command(
        commands, "skill", run_skill, "print the skill that teaches agents this command, or install it"
    )
    command.add_argument(
        "--add", action="store_true", help="install it into .agents/skills, with a link in .claude/skills"
    )
    command.add_argument(
        "--global", dest="everywhere", action="store_true", help="install it for all projects, in the home directory"
    )
    command.add_argument("--dest", type=Path, metavar="FOLDER", help="install it into this folder of skills instead")
    command.add_argument("--force", action="store_true", help="replace an installed one")
