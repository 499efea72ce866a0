"""Writers of files that are killed while they write: ``python -m tests.support.processes.killed FOLDER KILLS``.

Every kind of file that this project writes for others to read is written over and over by a fork, which is killed at a
random moment. Prints, by kind, the names of files that were not complete then, and the number of kills in the middle.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import hfposemb as hpe
from app.jobs import lent
from hfposemb.analysis.projection.projecting import project
from hfposemb.bug_reports import keep
from hfposemb.figures.named_figures import VIEWS
from hfposemb.reports.export import WRITERS, write_figure, write_projection, write_table
from hfposemb.reports.report import write_report
from hfposemb.reports.static_site import write_site
from hfposemb.surveys.survey_folder import COLUMNS, _at
from hfposemb.tables.table import Provenance, table_of


def writers() -> dict[str, Callable[[Path], object]]:
    """Return functions that write into a folder, by the kind of file."""
    vectors = np.random.default_rng(0).standard_normal((400, 100)).astype(np.float32)
    table = table_of(vectors, name="exported", provenance=Provenance("here"))
    points = project(table)
    source = hpe.extract("sample:gpt2")
    figure = next(iter(VIEWS.values()))(source)
    found: dict[str, Callable[[Path], object]] = {
        f"table{ending}": lambda folder, ending=ending: write_table(table, folder / f"t{ending}")
        for ending in (*WRITERS, ".tsv")
    }
    rows = [dict.fromkeys(COLUMNS)]

    def lend(folder: Path) -> None:
        os.environ[lent.FOLDER] = str(folder)
        lent._LENT.clear()
        lent.token_hex = lambda _: "0123456789ab"  # type: ignore[assignment]
        lent.lend(source)

    return {
        **found,
        "map.parquet": lambda folder: write_projection(points, table, folder / "p.parquet"),
        "figure.json": lambda folder: write_figure(figure, folder / "f.json"),
        "report": lambda folder: write_report("<p>page</p>" * 100_000, folder / "r.html"),
        "static page": write_site,
        "survey part": lambda folder: _at(str(folder)).write("0", rows),
        "bug report": lambda folder: keep("x" * 150_000, folder=folder),
        "lent": lend,
    }


def complete(folder: Path) -> dict[str, bytes]:
    """Return the files that have their final names."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}


def main(place: Path, kills: int) -> None:
    """Kill every writer some times."""
    draw, torn = random.Random(0), {}
    for kind, write in writers().items():
        folder = place / kind
        folder.mkdir()
        write(folder)
        expected, halves = complete(folder), 0
        wrong: list[str] = [] if expected else ["nothing was written"]
        began = time.monotonic()
        write(folder)
        took = time.monotonic() - began
        for _ in range(kills):
            if not (child := os.fork()):
                while True:
                    write(folder)
            time.sleep(draw.uniform(0, 2 * took))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            found = complete(folder)
            wrong += [name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name)]
            for path in folder.glob(".*"):
                path.unlink()
                halves += 1
        torn[kind] = {"torn": sorted(set(wrong)), "halves": halves}
    print(json.dumps(torn))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
