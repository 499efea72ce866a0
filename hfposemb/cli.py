"""The command line: each command prints or writes what one function of the package returns."""

from __future__ import annotations

import argparse
import csv
import errno
import json
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from .cache import KINDS, Cache, Key, Listed
from .embeddings import Embeddings
from .engine import KINDS as ENGINES
from .engine import REQUESTS, Engine
from .errors import HfposembError, InputError, MissingExtraError, MissingTableError, one_line
from .extract import extract
from .measures import EXTRAS
from .nulls import DRAWS
from .progress import Report, shown, wanted
from .reproduce import STUDIES
from .stopping import stopped_promptly
from .table import EmbeddingTable
from .version import __version__
from .wire import Progress, watching

if TYPE_CHECKING:
    from .campaign import Campaign
    from .survey import Plan

_SHOWN = 5

Command = Callable[[argparse.Namespace], None]

_TABLES = ".safetensors, .npy, .npz, .parquet, .csv or .tsv"

_DEBUG = "print the traceback of an error"

_SOURCES = "owner/name, ./folder, ./file.safetensors, sample:bert, sample:gpt2 or a built-in such as sinusoidal:512x384"


BUG = 70
"""The exit code of a bug, EX_SOFTWARE of sysexits.h."""


def main(arguments: Sequence[str] | None = None, *, known: argparse.ArgumentParser | None = None) -> int:
    """Run one command of those that are ``known``, by default ``parser()``; return its exit code.

    0 is success and 1 an error, which is one line on stderr; 70 is a bug, whose traceback is kept in a file.
    """
    given = (known or parser()).parse_args(arguments)
    try:
        with _stopping(given.run), _shown_progress(), _bar(given.run) as given.told:
            given.run(given)
    except KeyboardInterrupt as stop:
        print(f"hfposemb: stopped{stop}", file=sys.stderr)
        return 128 + (signal.SIGTERM if isinstance(stop, _Terminated) else signal.SIGINT)
    except HfposembError as error:
        return _failed(given, str(error))
    except ModuleNotFoundError as error:
        if error.name != f"{__package__}.app":
            return _reported(given, error, arguments)
        return _failed(given, "the app is not installed; in a clone: pip install -e '.[app]'")
    except BrokenPipeError:
        # Whoever read our output has seen enough; nothing is left to flush into.
        sys.stdout = None
        return 0
    except MemoryError:
        return _failed(given, "this does not fit into the memory of this machine; ask for less")
    except OSError as error:
        if error.errno not in _OF_THE_SYSTEM:
            return _reported(given, error, arguments)
        return _failed(given, f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror))
    except Exception as error:  # noqa: BLE001 - the last frame: whatever it is, it is reported
        return _reported(given, error, arguments)
    return 0


_OF_THE_SYSTEM = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EMFILE, errno.EIO}
"""Errors of the system that no program can help: a full disk, a folder that may not be written."""


def _failed(given: argparse.Namespace, said: str, *, code: int = 1) -> int:
    """Say on one line why a command failed, after the traceback with ``--debug``; return the exit code."""
    if given.debug:
        traceback.print_exc()
    print(f"hfposemb: {said}", file=sys.stderr)
    return code


def _reported(given: argparse.Namespace, bug: Exception, arguments: Sequence[str] | None) -> int:
    """Say on one line that there is a bug, and where its details are kept; return the exit code."""
    from .faults import keep

    fault = keep(bug, command=["hfposemb", *(sys.argv[1:] if arguments is None else arguments)])
    what = one_line(f"{type(bug).__name__}: {bug}").rstrip(": ")[:200]
    where = f"with the file {fault.path}" if fault.path else "with what --debug prints"
    return _failed(given, f"this is a bug in hfposemb ({what}); please report it {where}", code=BUG)


def _bar(run: Command) -> AbstractContextManager[Report]:
    """Return what shows how far a command is; the app and a Space have lines of their own."""
    return shown(run.__name__.strip("_"), False if run in (_app, _space, _cache) else None, printing=True)


def _stopping(run: Command) -> AbstractContextManager[None]:
    """Return what ends a command soon after Ctrl-C; the app and whatever has workers end these first, by themselves."""
    return nullcontext() if run in (_app, _survey, _again, _trajectory) else stopped_promptly()


@contextmanager
def _shown_progress() -> Iterator[None]:
    """Show how far each read from the Hub is, with its rate and the time left, where stderr is a terminal."""
    bar: Any = None
    shown: tuple[str, int] = ("", 0)

    def report(progress: Progress) -> None:
        nonlocal bar, shown
        from tqdm import tqdm

        if bar is None or progress.what != shown[0] or progress.done < shown[1]:
            if bar is not None:
                bar.close()
            scale: dict[str, Any] = {"unit": "B", "unit_scale": True, "unit_divisor": 1000}
            bar = tqdm(desc=progress.what, total=progress.total, leave=False, disable=not wanted(), **scale)
            shown = (progress.what, 0)
        bar.update(progress.done - shown[1])
        shown = (progress.what, progress.done)

    try:
        with watching(report):
            yield
    finally:
        if bar is not None:
            bar.close()


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    top = argparse.ArgumentParser(
        prog="hfposemb", description="See and measure what a pretrained model knows about words and positions."
    )
    top.add_argument("--version", action="version", version=f"hfposemb {__version__}")
    top.add_argument("--debug", action="store_true", help=_DEBUG)
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")

    command = _command(commands, "app", _app, "open the app in a browser on this machine")
    command.add_argument("sources", nargs="*", metavar="SOURCE", help=f"what to show first: {_SOURCES}")
    _add_serving(command)

    command = _command(commands, "space", _space, "put the app on the Hugging Face Hub, as a Space of yours")
    command.add_argument("name", metavar="OWNER/NAME", help="the Space, which is created if need be, else updated")
    command.add_argument("--private", action="store_true", help="let nobody else see it")
    command.add_argument("--models", default="", metavar="A,B,…", help="what it opens with (default: the samples)")
    command.add_argument("--dry-run", action="store_true", help="say what would be uploaded, and upload nothing")

    command = _command(commands, "info", _info, "say which tables a source has, without reading them")
    _add_source(command)
    command.add_argument("--json", action="store_true", help="print JSON")

    command = _command(commands, "extract", _extract, "write a table to a file")
    _add_table(command)
    command.add_argument("--out", type=Path, required=True, metavar="FILE", help=f"{_TABLES}, which says the format")

    command = _command(commands, "project", _project, "project a table to two or three dimensions")
    _add_table(command)
    command.add_argument("--method", choices=("pca", "umap"), default="pca", help="(default: pca)")
    command.add_argument("--dims", type=int, choices=(2, 3), default=2, help="dimensions (default: 2)")
    command.add_argument("--seed", type=int, default=0, help="seed of UMAP (default: 0)")
    command.add_argument("--out", type=Path, metavar="FILE", help=f"{_TABLES} instead of CSV on the terminal")

    command = _command(commands, "similarity", _similarity, "compare chosen rows of a table, pair by pair")
    _add_table(command)
    command.add_argument(
        "--rows", required=True, metavar="A,B,…", help="labels or row numbers, such as king,queen,paris"
    )
    _add_metric(command)
    command.add_argument("--json", action="store_true", help="print JSON")

    command = _command(commands, "neighbours", _neighbours, "list the rows nearest to one or several, exactly")
    _add_table(command)
    command.add_argument("queries", nargs="+", metavar="QUERY", help="a label, or a row number")
    command.add_argument("-k", type=int, default=10, help="how many (default: 10)")
    _add_metric(command)
    command.add_argument("--json", action="store_true", help="print JSON")

    command = _command(commands, "compare", _compare, "print the figures of several sources side by side")
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

    command = _command(commands, "survey", _survey, "measure many sources, into a folder of parquet files")
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

    command = _command(commands, "again", _again, "measure again what a survey measured, and compare")
    command.add_argument("survey", metavar="SURVEY", help="the folder of a survey, or a CSV file of its rows")
    command.add_argument("sources", nargs="*", metavar="SOURCE", help="which of its sources (default: all)")
    _add_access(command)
    _add_engine(command)

    command = _command(commands, "trajectory", _trajectory, "follow a table over the checkpoints of a training run")
    command.add_argument("source", metavar="SOURCE", help="a repository, a folder of checkpoints, or a sample")
    command.add_argument("--revisions", required=True, metavar="PATTERN", help='its checkpoints, such as "step*"')
    command.add_argument("--most", type=_count, metavar="N", help="that many of them, evenly spread (default: all)")
    command.add_argument("--table", choices=("position", "token"), default="position", help="(default: position)")
    _add_metrics(command, draws=0)
    command.add_argument("--json", action="store_true", help="print JSON")
    command.add_argument("--out", type=Path, metavar="FILE", help=".html: its map by PCA, with a slider over the steps")
    _add_engine(command)

    command = _command(commands, "export", _export, "write a table, a projection, a figure or a comparison to a file")
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

    command = _command(commands, "verify", _verify, "load the real model and compare every table, frequency and input")
    command.add_argument("source", metavar="SOURCE", help="a folder, or a repository on the Hub, which is downloaded")
    command.add_argument("--revision", metavar="NAME", help="branch, tag or commit of a model on the Hub")
    command.add_argument("--json", action="store_true", help="print JSON")

    command = _command(commands, "reproduce", _reproduce, "measure published findings again, side by side with them")
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

    command = _command(commands, "odd", _odd, "list odd tokens: near the mean, short, long, equal, unused")
    _add_source(command)
    command.add_argument("--count", type=int, default=20, metavar="N", help="how many of each kind (default: 20)")
    command.add_argument("--unused", default="", metavar="A,B,…", help="ids that are known to be never used")
    command.add_argument("--json", action="store_true", help="print JSON")

    command = _command(commands, "requirements", _requirements, "say which requirements positions meet")
    command.add_argument(
        "sources", nargs="+", metavar="SOURCE", help=f"{_SOURCES}, or a discarded one, counting:256x128"
    )
    command.add_argument(
        "--resolution", action="store_true", help="say how far the slow and the fast waves alone tell the position"
    )
    _add_access(command)
    command.add_argument("--json", action="store_true", help="print JSON")

    command = _command(commands, "cache", _cache, "say what is kept on disk, or remove it")
    command.add_argument("--clear", action="store_true", help="remove all of it")
    command.add_argument("--json", action="store_true", help="print JSON")
    for command in commands.choices.values():  # after a command, too; what stands before it holds
        command.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=_DEBUG)
    return top


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


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, run: Command, text: str
) -> argparse.ArgumentParser:
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


def _parts(given: argparse.Namespace) -> str | list[str | None] | None:
    """Return what ``--part`` names, as ``compare`` takes it."""
    if len(given.part) > 1:
        return [None if name == "-" else name for name in given.part]
    return given.part[0] if given.part and given.part[0] != "-" else None


def _add_metric(command: argparse.ArgumentParser) -> None:
    command.add_argument("--metric", choices=("cosine", "dot", "euclidean"), default="cosine", help="(default: cosine)")
    command.add_argument(
        "--centred",
        action="store_true",
        help="subtract the mean row first (Mu & Viswanath 2018), for tables whose rows all point one way",
    )


def _opened(given: argparse.Namespace) -> Embeddings:
    return extract(given.source, revision=given.revision, allow_full_download=given.allow_full_download)


def _chosen(given: argparse.Namespace) -> EmbeddingTable:
    return _role(_opened(given), given.table)


def _role(embeddings: Embeddings, wanted: str | None) -> EmbeddingTable:
    """Return the table that ``--table`` names; by default the tokens', or the positions' where there are none."""
    role = wanted or ("token" if "token" in embeddings.tables else "position")
    if role in embeddings.tables:
        return embeddings.tables[role]
    computed = embeddings.positions.get(role.removesuffix(".position"))
    if computed is not None and computed.has_table:
        return computed.table
    reason = embeddings.absent.get(role, "it was not found")
    raise MissingTableError(
        f"{embeddings.name} has no {role} table: {reason}; its tables: {', '.join(embeddings.tables) or 'none'}"
    )


def _app(given: argparse.Namespace) -> None:
    if find_spec("gradio") is None:
        raise MissingExtraError("gradio", extra="app", purpose="the app")
    from .app import launch
    from .app.limits import MOST_SOURCES
    from .app.reach import check_sources, has_a_browser, reach

    if len(given.sources) > MOST_SOURCES:
        raise InputError(f"{len(given.sources)} sources are more than the app shows at once; name {MOST_SOURCES}")
    public = True if given.public else False if given.trusted else None
    at = reach(given.host, given.share or None, public)
    check_sources(given.sources, public=at.public)
    launch(
        tuple(given.sources),
        host=at.host,
        port=given.port,
        share=at.share,
        public=public,
        auth=given.auth,
        mcp=given.mcp,
        inbrowser=not given.no_open and has_a_browser(),
        debug=given.debug,
    )


def _space(given: argparse.Namespace) -> None:
    from .space import check_name, presets_of, publish, space_files

    models = [model.strip() for model in given.models.split(",") if model.strip()]
    if not given.dry_run:
        print(publish(given.name, models=models, private=given.private))
        return
    check_name(given.name)
    files = space_files(models, presets=presets_of(models))
    sizes = {name: len(text.encode()) if isinstance(text, str) else text.stat().st_size for name, text in files.items()}
    print(f"{given.name} would hold {len(files)} files, {_size(sum(sizes.values()))}; nothing was uploaded")
    for name, size in sizes.items():
        print(f"  {name:<44}{_size(size):>12}")
    print(f"\nREADME.md:\n{files['README.md']}")


def _info(given: argparse.Namespace) -> None:
    from .facts import describe

    facts = describe(_opened(given))
    if given.json:
        print(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    print(facts["name"])
    for role, table in facts["tables"].items():
        rows, width = table["shape"]
        origin = " · ".join(str(part) for part in (table["tensor"], table["file"]) if part) or "computed"
        offset = f" · {table['row_offset']} leading rows left out" if table["row_offset"] else ""
        print(f"  {role:<18}{rows:>9,} × {width:<6,} {table['stored_dtype']:<5} {origin}{offset}")
    for part, position in facts["positions"].items():
        more = ", ".join(f"{name} {value}" for name, value in position["facts"].items())
        print(f"  {part}: {position['kind']}{f' ({more})' if more else ''}")
    for note in facts["notes"]:
        print(f"  note: {note}")
    if facts["commit"]:
        received, total = facts["received_bytes"], facts["file_bytes"]
        asked = f"{facts['requests']} {'request' if facts['requests'] == 1 else 'requests'}"
        print(f"  commit {facts['commit'][:8]}; read {_size(received)} of {_size(total)}, {asked}")


def _extract(given: argparse.Namespace) -> None:
    from .export import write_table

    table = _chosen(given)
    write_table(table, given.out)
    print(f"wrote {given.out}: {table.name}, {table.shape[0]:,} × {table.shape[1]:,} {table.dtype.name}")


def _project(given: argparse.Namespace) -> None:
    from .results import cached_projection

    table = _chosen(given)
    found = cached_projection(
        Cache.default(), table, method=given.method, dims=given.dims, seed=given.seed, progress=given.told
    )
    print(found, file=sys.stderr)
    if given.out is None:
        from .export import AXES, safe_cell

        lines = csv.writer(sys.stdout, lineterminator="\n")
        lines.writerow(["label", *AXES[: given.dims]])
        for row, point in zip(found.rows, found.coordinates, strict=True):
            lines.writerow([safe_cell(table.labels[int(row)]), *(f"{value:.6g}" for value in point)])
        return
    from .export import write_projection

    write_projection(found, table, given.out)
    print(f"wrote {given.out}: {len(found.rows):,} points", file=sys.stderr)


def _export(given: argparse.Namespace) -> None:
    """Write what the options and the file's ending say; both are checked before anything is read."""
    from .export import ENDINGS, FIGURE_ENDINGS, check_ending
    from .files import check_place

    whole = given.out.suffix == ".zip"
    check_ending(given.out, (".zip",) if whole else FIGURE_ENDINGS if given.figure else ENDINGS)
    check_place(given.out)
    if not whole and not given.figure and len(given.sources) > 1:
        raise InputError(
            f"{given.out.suffix} holds one table; got {len(given.sources)} sources: export them one by one"
        )
    from .comparison import of_parts

    opened = [extract(source, allow_full_download=given.allow_full_download) for source in given.sources]
    opened = of_parts(opened, _parts(given))
    if whole:
        said = _export_comparison(opened, given)
    elif given.figure:
        from .export import write_figure
        from .views import view

        write_figure(view(given.figure, *opened), given.out)
        said = f"{given.figure} of {', '.join(given.sources)}"
    else:
        said = _export_table(_role(opened[0], given.table), given)
    print(f"wrote {given.out}: {said}, {_size(given.out.stat().st_size)}")


def _export_table(table: EmbeddingTable, given: argparse.Namespace) -> str:
    from .export import write_projection, write_table

    if given.projection is None:
        write_table(table, given.out)
        return f"{table.name}, {table.shape[0]:,} × {table.shape[1]:,} {table.dtype.name}"
    from .results import cached_projection

    found = cached_projection(
        Cache.default(), table, method=given.projection, dims=given.dims, seed=given.seed, progress=given.told
    )
    write_projection(found, table, given.out)
    return f"{table.name} by {found.method}, {len(found.rows):,} points in {found.dims}-D"


def _export_comparison(opened: Sequence[Embeddings], given: argparse.Namespace) -> str:
    from .bundle import write_bundle
    from .comparison import Run, compare

    found = compare(*opened, run=Run(cache=Cache.default(), progress=given.told))
    write_bundle(found, opened, given.out, progress=given.told)
    return f"the comparison of {', '.join(given.sources)}"


def _similarity(given: argparse.Namespace) -> None:
    from .lookup import typed
    from .pairing import pairs

    table = _chosen(given)
    found = pairs(table, [typed(key) for key in given.rows.split(",")], metric=given.metric, centred=given.centred)
    _print(found, {"table": table.name, **found.to_dict()}, given)


def _neighbours(given: argparse.Namespace) -> None:
    from .lookup import typed
    from .nearest import neighbours

    table, several = _chosen(given), len(given.queries) > 1
    queries = [typed(query) for query in given.queries]
    found = neighbours(table, queries, k=given.k, metric=given.metric, centred=given.centred)
    results = [{"table": table.name, **one.to_dict()} for one in found]
    _print(found if several else found[0], {"results": results} if several else results[0], given)


def _print(found: object, facts: dict[str, Any], given: argparse.Namespace) -> None:
    """Print a result, or with ``--json`` its facts."""
    print(json.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False) if given.json else found)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and 1 <= int(text) <= 65535):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; give a number from 1 to 65535")
    return int(text)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 7):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 999,999")
    return int(text)


class _Schema(argparse.Action):
    """Print the schema instead of running the command, as ``--version`` does."""

    def __init__(self, option_strings: Sequence[str], dest: str, **more: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **more)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from .schema import COMPARISON

        print(json.dumps(COMPARISON, indent=2, ensure_ascii=False))
        parser.exit()


def _compare(given: argparse.Namespace) -> None:
    from .comparison import Run, compare
    from .report import check_path, report, write_report
    from .schema import document

    if given.out is not None:
        check_path(given.out)
    words = tuple(word for word in given.words.split(",") if word)
    opened = [extract(source, allow_full_download=given.allow_full_download) for source in given.sources]
    comparison = compare(
        *opened,
        words=words,
        pairs=given.pairs,
        draws=given.draws,
        fold_case=given.fold_case,
        leave_out=given.leave_out,
        part=_parts(given),
        run=Run(extras=tuple(given.also), cache=Cache.default(), progress=given.told),
    )
    if given.out is not None:
        write_report(report(*opened, comparison=comparison, part=_parts(given), progress=given.told), given.out)
    if given.out is not None:
        size = f"{given.out.stat().st_size / 1e6:.1f} MB"
        said = f"wrote {given.out}: {size}, opens in any browser, without a network"
        print(said, file=sys.stderr if given.json else sys.stdout)
    if given.json:
        print(json.dumps(document(comparison), indent=2, ensure_ascii=False, allow_nan=False))
    elif given.out is None:
        print(comparison)


def _survey(given: argparse.Namespace) -> None:
    from .campaign import check_out
    from .survey import conduct, plan

    if given.out is None and not given.dry_run:
        raise InputError("a survey is written into a folder; name it by --out, or ask --dry-run")
    engine = _engine(given)
    asked = plan(_named(given), metrics=given.metric, draws=given.draws, allow_full_download=given.allow_full_download)
    with TemporaryDirectory() as nowhere:
        campaign = check_out(nowhere if given.out is None else given.out, asked.settings)
        with _said_if_stopped(asked, campaign):
            if given.dry_run:
                from .forecast import forecast

                found = forecast(asked, campaign, engine=engine, progress=given.told)
                print(found)
            else:
                done = conduct(asked, campaign, engine=engine, progress=given.told)
                print(f"wrote {given.out}: {done}")
                for source, reason in done.failed.items():
                    print(f"  {source}: {reason}", file=sys.stderr)


def _again(given: argparse.Namespace) -> None:
    from .again import again
    from .campaign import rows_of

    found = again(
        rows_of(given.survey),
        sources=given.sources,
        engine=_engine(given),
        allow_full_download=given.allow_full_download,
        progress=given.told,
    )
    print(found)
    if other := [one.source for one in found.sources if one.verdict in ("differs", "fails now")]:
        raise HfposembError(
            f"{len(other):,} of {len(found.sources):,} sources are not as {given.survey} has them, {other[0]} first; "
            "the lines above say what changed"
        )


class _Terminated(KeyboardInterrupt):
    """SIGTERM came, as a batch system sends it before its time is over."""


@contextmanager
def _said_if_stopped(asked: Plan, campaign: Campaign) -> Iterator[None]:
    """Where a survey is stopped, by Ctrl-C or SIGTERM, let it end its processes, and say what is kept."""
    from .survey import left

    def end(*_: object) -> None:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except KeyboardInterrupt as stop:
        if kept := len(asked.targets) - len(left(asked, campaign)):
            stop.args = (f"; {kept:,} of {len(asked.targets):,} sources are kept; the same command goes on from there",)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def _engine(given: argparse.Namespace) -> Engine:
    return Engine(given.engine, given.scheduler, given.workers, given.requests)


def _trajectory(given: argparse.Namespace) -> None:
    from .export import check_ending, write_figure
    from .figures import trajectory_map
    from .files import check_place
    from .listing import revisions, spread
    from .trajectory import trajectory

    if given.out is not None:
        check_ending(given.out, (".html",))
        check_place(given.out)
    engine, sources = _engine(given), revisions(given.source, given.revisions)
    if given.most is not None:
        sources = spread(sources, given.most)
    found = trajectory(
        sources, role=given.table, metrics=given.metric, draws=given.draws, engine=engine, progress=given.told
    )
    print(json.dumps(found.to_dict(), indent=2, ensure_ascii=False) if given.json else found)
    if given.out is not None:
        drawn = trajectory_map(found.frames, found.steps, found.labels, joined=given.table == "position")
        write_figure(drawn, given.out)
        print(f"wrote {given.out}: {len(found.steps)} checkpoints, {len(found.rows):,} rows", file=sys.stderr)


def _named(given: argparse.Namespace) -> list[str]:
    """Return the sources that a command names, one by one or many at once."""
    from .listing import in_file, on_hub, revisions

    found = [*given.sources, *([] if given.file is None else in_file(given.file))]
    if given.author or given.filter:
        found += on_hub(author=given.author, filters=given.filter, limit=given.limit)
    if given.revisions is None:
        return found
    if len(found) != 1:
        raise InputError(f"--revisions are those of one source; {len(found)} are named")
    return revisions(found[0], given.revisions)


def _verify(given: argparse.Namespace) -> None:
    from .verify import verify

    found = verify(given.source, revision=given.revision)
    print(json.dumps(asdict(found), indent=2, ensure_ascii=False) if given.json else found)
    if not found.passed:
        wrong = sum(check.verdict in ("different", "missing") for check in found.checks)
        raise HfposembError(
            f"{wrong} of {len(found.checks)} comparisons with the model itself failed; please report them with its name"
            if wrong
            else f"nothing of {found.source} could be compared with the model that transformers loads"
        )


def _reproduce(given: argparse.Namespace) -> None:
    from .reproduce import reproduce_all

    models = [text.partition("=")[::2] for text in given.model]
    if wrong := [text for text, pair in zip(given.model, models, strict=True) if not all(pair)]:
        raise InputError(f"--model takes KEY=SOURCE, such as gpt2=./folder; got {wrong[0]!r}")
    found = reproduce_all(
        given.studies, models=dict(models), allow_full_download=given.allow_full_download, progress=given.told
    )
    if given.json:
        print(json.dumps({"studies": [asdict(one) for one in found]}, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        print("\n\n".join(map(str, found)))


def _odd(given: argparse.Namespace) -> None:
    from .oddities import oddities

    ids = [part.strip() for part in given.unused.split(",") if part.strip()]
    if wrong := [part for part in ids if not (part.isascii() and part.isdecimal())]:
        raise InputError(f"--unused takes ids with commas between, such as 177,188; got {wrong[0]!r}")
    found = oddities(_opened(given).token, count=given.count, unused=[int(part) for part in ids])
    print(json.dumps(asdict(found), indent=2, ensure_ascii=False, allow_nan=False) if given.json else found)


def _requirements(given: argparse.Namespace) -> None:
    from .requirements import requirements, side_by_side
    from .resolution import resolution

    opened = [extract(source, allow_full_download=given.allow_full_download) for source in given.sources]
    found = [requirements(one) for one in opened]
    facts: list[dict[str, Any]] = [{**asdict(one), "met": one.met} for one in found]
    texts = [side_by_side(found), *map(str, found)]
    for place, embeddings in enumerate(opened if given.resolution else ()):
        try:
            waves = resolution(embeddings.position)
            facts[place]["resolution"], text = waves.to_dict(), str(waves)
        except HfposembError as error:
            facts[place]["resolution"], text = None, f"note: {error}"
        texts[place + 1] += "\n" + "\n".join(f"  {line}" for line in text.splitlines())
    print(json.dumps({"sources": facts}, indent=2, ensure_ascii=False) if given.json else "\n\n".join(texts))


def _cache(given: argparse.Namespace) -> None:
    cache = Cache.default()
    if given.clear:
        freed = cache.clear()
        print(json.dumps({"folder": str(cache.folder), "freed": freed}) if given.json else f"freed {_size(freed)}")
        return
    entries = cache.entries()
    kinds = {kind: [entry.size for entry in entries if entry.key[0] == kind] for kind in KINDS}
    if given.json:
        facts = {
            "folder": str(cache.folder),
            "limit": cache.limit,
            "kinds": {kind: {"entries": len(sizes), "bytes": sum(sizes)} for kind, sizes in kinds.items()},
            "entries": [asdict(entry) for entry in entries],
        }
        print(json.dumps(facts, indent=2))
        return
    total = sum(entry.size for entry in entries)
    print(f"{cache.folder}: {_size(total)} of {_size(cache.limit)}")
    for kind, sizes in kinds.items():
        print(f"  {kind:<12}{len(sizes):>6,} {'entry' if len(sizes) == 1 else 'entries':<8}{_size(sum(sizes)):>10}")
    largest = sorted(entries, key=lambda entry: -entry.size)
    for title, few in (("largest", largest[:_SHOWN]), ("last used", entries[:_SHOWN])):
        if few:
            print(f"{title}:")
        for entry in few:
            print(f"  {_entry(entry)}")


def _size(count: int) -> str:
    """Return a number of bytes as a person reads it."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def _entry(entry: Listed) -> str:
    """Describe an entry of the cache on one line."""
    text = f"{entry.key[0]} {_about(entry.key)}"
    # Names of tensors and files are other people's text.
    text = text if text.isprintable() else ascii(text)
    return f"{text} {_size(entry.size)}"


def _about(key: Key) -> str:
    match key:
        case ("table", repo, commit, _, tensor, *_):
            return f"{repo}@{commit[:8]} {tensor}"
        case ("header" | "file", repo, commit, file):
            return f"{repo}@{commit[:8]} {file}"
        case ("commit", repo, revision):
            return f"{repo}@{revision}"
        case ("projection", digest, method, dims, seed, *_):
            return f"{method} in {dims}-D of the table {digest[:8]}, seed {seed}"
    return " ".join(key[1:])
