"""Commands that compare sources, and those that measure many sources and show a survey."""

from __future__ import annotations

import argparse
import html
import signal
import sys
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from ..analysis.nulls.surrogates import DRAWS
from ..cache import Cache
from ..errors import HfposembError, InputError
from ..models.extraction import extract
from ..surveys.worker_pool import Engine
from ..tables.documents import plain
from ..text import display
from .options import Terminated, byte_size, parts_of, print_json, print_result

if TYPE_CHECKING:
    from ..surveys.source_figures import Plan
    from ..surveys.survey_folder import Campaign


def run_compare(given: argparse.Namespace) -> None:
    """Compare sources, and print the comparison or write a report."""
    from ..comparison.quantisation import quantised_forms
    from ..comparison.side_by_side import Run, compare
    from ..figures.graph_objects import require_plotly
    from ..reports.json_schema import document
    from ..reports.report import check_path, report, write_report

    if given.out is not None:
        require_plotly("a report")
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
        part=parts_of(given),
        run=Run(extras=tuple(given.also), cache=Cache.default(), progress=given.told),
    )
    damage = quantised_forms(opened, progress=given.told)
    if given.out is not None:
        page = report(*opened, comparison=comparison, quantisation=damage, part=parts_of(given), progress=given.told)
        write_report(page, given.out)
        size = f"{given.out.stat().st_size / 1e6:.1f} MB"
        said = f"wrote {given.out}: {size}, opens in any browser, offline too"
        print(said, file=sys.stderr if given.json else sys.stdout)
    if given.json:
        print_json(document(comparison, damage))
    elif given.out is None:
        print("\n\n".join(map(str, (comparison, *damage))))


def run_survey(given: argparse.Namespace) -> None:
    """Measure many sources into a folder; with ``--dry-run`` forecast the cost, with ``--again`` repeat a survey."""
    from ..surveys.source_figures import conduct, plan
    from ..surveys.survey_folder import check_out

    if given.again is not None:
        _measure_again(given)
        return
    if given.out is None and not given.dry_run:
        raise InputError("a survey needs a folder to write to: give --out FOLDER, or --dry-run")
    engine = _engine(given)
    more = {name: getattr(given, name) for name in ("draws", "allow_full_download", "fingerprints")}
    asked = plan(_named(given), metrics=given.metric, **more)
    with TemporaryDirectory() as nowhere:
        campaign = check_out(nowhere if given.out is None else given.out, asked.settings)
        with _said_if_stopped(asked, campaign):
            if given.dry_run:
                from ..surveys.cost_forecast import forecast

                found = forecast(asked, campaign, engine=engine, progress=given.told)
                print_result(found, found.to_dict(), given)
            else:
                done = conduct(asked, campaign, engine=engine, progress=given.told)
                print_result(f"wrote {given.out}: {done}", {"folder": given.out, **plain(done)}, given)
                for source, reason in done.failed.items():
                    print(f"  {source}: {reason}", file=sys.stderr)
                if done.failed and len(done.failed) == done.sources:
                    raise HfposembError("no source could be measured; the reasons are above")


def _measure_again(given: argparse.Namespace) -> None:
    """Measure the sources of a survey again; raise ``HfposembError`` if any result differs."""
    from ..surveys.remeasure import again
    from ..surveys.survey_folder import rows_of

    of_new = ("file", "author", "filter", "limit", "revisions", "metric", "out", "dry_run", "fingerprints")
    wrong = [name for name in of_new if getattr(given, name)] + ["draws"] * (given.draws != DRAWS)
    if wrong:
        option = wrong[0].replace("_", "-")
        raise InputError(f"--again repeats what {given.again} has measured, and writes nothing; leave out --{option}")
    found = again(
        rows_of(given.again),
        sources=given.sources,
        engine=_engine(given),
        allow_full_download=given.allow_full_download,
        progress=given.told,
    )
    print_result(found, {"same": found.same, **found.to_dict()}, given)
    if other := [one.source for one in found.sources if one.verdict in ("differs", "fails now")]:
        raise HfposembError(
            f"{len(other):,} of {len(found.sources):,} sources differ from {given.again}, the first is {other[0]}; "
            "see the lines above"
        )


@contextmanager
def _said_if_stopped(asked: Plan, campaign: Campaign) -> Iterator[None]:
    """When a survey is stopped by Ctrl-C or SIGTERM, let it end its processes, and add to the message what is kept."""
    from ..surveys.source_figures import left

    def end(*_: object) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except KeyboardInterrupt as stop:
        if kept := len(asked.targets) - len(left(asked, campaign)):
            stop.args = (f"; {kept:,} of {len(asked.targets):,} sources are saved; run the same command to continue",)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def _engine(given: argparse.Namespace) -> Engine:
    return Engine(given.engine, given.scheduler, given.workers, given.requests)


def run_trajectory(given: argparse.Namespace) -> None:
    """Follow a table through the checkpoints of a training run."""
    from ..figures.graph_objects import require_plotly
    from ..figures.position_figures import trajectory_map
    from ..files import check_place
    from ..reports.export import check_ending, write_figure
    from ..surveys.source_lists import evenly_spaced, revisions
    from ..surveys.training_run import trajectory

    if given.out is not None:
        require_plotly()
        check_ending(given.out, (".html",))
        check_place(given.out)
    engine, sources = _engine(given), revisions(given.source, given.revisions)
    if given.most is not None:
        sources = evenly_spaced(sources, given.most)
    found = trajectory(
        sources, role=given.table, metrics=given.metric, draws=given.draws, engine=engine, progress=given.told
    )
    print_result(found, found.to_dict(), given)
    if given.out is not None:
        drawn = trajectory_map(found.frames, found.steps, found.labels, joined=given.table == "position")
        count = f"{len(found.steps)} checkpoints"
        title = f"{display(given.source)}: {given.table}s by PCA at {count}, each map aligned with the last"
        drawn.update_layout(title={"text": html.escape(title), "x": 0.01}, margin={"t": 64}, height=800)
        write_figure(drawn, given.out)
        print(f"wrote {given.out}: {len(found.steps)} checkpoints, {len(found.rows):,} rows", file=sys.stderr)


def _named(given: argparse.Namespace) -> list[str]:
    """Return the sources that a command names, individually or by a file, author, filter or pattern of revisions."""
    from ..surveys.source_lists import MODELS, in_file, on_hub, revisions

    found = [*given.sources, *([] if given.file is None else in_file(given.file))]
    if given.author or given.filter:
        found += on_hub(author=given.author, filters=given.filter, limit=MODELS if given.limit is None else given.limit)
    elif given.limit is not None:
        raise InputError("--limit is of the models of --author or --filter; give one of these, or leave it out")
    if given.revisions is None:
        return found
    if len(found) != 1:
        raise InputError(f"--revisions needs exactly one source; got {len(found)}")
    return revisions(found[0], given.revisions)


def run_reproduce(given: argparse.Namespace) -> None:
    """Measure published findings again, and print both results."""
    from ..surveys.reproduction import reproduce_all

    models = [text.partition("=")[::2] for text in given.model]
    if wrong := [text for text, pair in zip(given.model, models, strict=True) if not all(pair)]:
        raise InputError(f"--model takes KEY=SOURCE, such as gpt2=./folder; got {wrong[0]!r}")
    found = reproduce_all(
        given.studies, models=dict(models), allow_full_download=given.allow_full_download, progress=given.told
    )
    print_result("\n\n".join(map(str, found)), {"studies": found}, given)


PAGE = "_atlas.html"
"""Name of the page in the folder of a survey; readers of partitioned parquet skip names with this prefix."""


def run_atlas(given: argparse.Namespace) -> None:
    """Write the page of a survey, and with ``--dataset`` a dataset for the Hub."""
    from ..reports.atlas_page import APP, atlas_page
    from ..reports.report import check_path, write_report
    from ..surveys.survey_dataset import write_dataset
    from ..surveys.survey_folder import rows_of

    out = given.out or _place(given.survey)
    check_path(out)
    rows = rows_of(given.survey).sort_values("source", kind="stable", key=lambda names: names.str.lower())
    name = Path(given.survey).resolve().name or given.survey
    page = atlas_page(rows, title=given.title or f"Atlas of {name}", app=given.app or APP)
    write_report(page, out)
    failed = rows[rows["metric"].isna()].drop_duplicates("source")
    facts = {
        "page": str(out),
        "bytes": out.stat().st_size,
        "models": rows[rows["metric"].notna()]["source"].nunique(),
        "failed": dict(zip(failed["source"], failed["error"], strict=True)),
        "dataset": None,
    }
    if given.dataset is not None:
        facts["dataset"] = str(write_dataset(rows, given.dataset, **({"name": given.title} if given.title else {})))
    if given.json:
        print_json(facts)
    else:
        models = "1 model" if facts["models"] == 1 else f"{facts['models']:,} models"
        print(f"wrote {out}: {models}, {byte_size(out.stat().st_size)}, opens in any browser")
        if facts["dataset"] is not None:
            where = facts["dataset"]
            print(f"wrote {where}: upload it with 'hf upload OWNER/NAME {where} --repo-type dataset'")
    if given.open:
        webbrowser.open(out.resolve().as_uri())


def _place(survey: str) -> Path:
    """Return where the page goes by default: into the folder, or next to a file of rows."""
    if "://" in survey:
        raise InputError(f"{survey} is not a folder of this machine; give --out FILE.html for the page")
    path = Path(survey)
    return path / PAGE if path.is_dir() else path.with_suffix(".html")
