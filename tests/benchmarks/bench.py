"""Compare what this package costs with its bounds: ``python -m tests.benchmarks.bench [--quick]``.

Every figure is the median of interleaved runs (ours, bound, ours, bound, …) in one script on one machine, and what
counts is the ratio beside its goal. Files are read from the page cache. Nothing here is a test. The whole of it prints
a table and writes ``docs/benchmarks.md``; ``--quick`` prints one of smaller tables and fewer rounds, in two minutes.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from .app import app_rows
from .computing import (
    alignment_rows,
    fresh_umap_rows,
    minilm_tokens,
    neighbour_rows,
    pca_rows,
    peer_rows,
    umap_rows,
)
from .cost import ROOT, Cost, Row, times
from .growth import Growth, growths
from .reading import counted_rows, hub_rows, import_rows, local_rows, process_rows, write_gpt2
from .size import size_rows
from .surveying import COUNTS, survey_rows

PAGE = ROOT / "docs" / "benchmarks.md"
LIBRARIES = ("numpy", "scipy", "scikit-learn", "umap-learn", "torch", "transformers", "huggingface_hub")


def rows(folder: Path, *, quick: bool) -> Iterator[Row]:
    """Yield every comparison, in the order of the goals as far as what they need allows."""
    rounds = 3
    yield from import_rows(rounds=rounds)
    yield from local_rows(folder, rounds=rounds)
    yield from process_rows(folder, rounds=1 if quick else rounds)
    yield from hub_rows(folder, rounds=rounds)
    yield from counted_rows(folder)
    sizes = ((20_000, 256),) if quick else ((50_257, 768), (128_256, 2_048))
    yield from pca_rows(sizes=sizes, rounds=rounds)
    if not quick:
        yield from app_rows(folder.parent, rounds=rounds)
        yield from size_rows(rounds=rounds)
    yield from survey_rows(rounds=1 if quick else rounds, counts=(10, 20) if quick else COUNTS)
    tokens = minilm_tokens()
    yield from umap_rows(tokens[:4_000] if quick else tokens, rounds=1 if quick else rounds)
    if not quick:
        yield from fresh_umap_rows(tokens, rounds=rounds)
    yield from neighbour_rows(tokens[:10_000] if quick else tokens, rounds=rounds)
    yield from alignment_rows(rows=10_000 if quick else 50_000, width=256 if quick else 768, rounds=rounds)


def line(row: Row) -> str:
    """Return one line for the terminal."""
    verdict = ("met" if row.met else "MISSED") if row.goal else ""
    return f"{row.number:>2} {row.name:<62} {row.ours:<34} {row.bound:<34} {row.found:>9} {row.goal:>10}  {verdict}"


def page(found: Sequence[Row], peers: Sequence[tuple[str, Cost, Cost]], grown: Sequence[Growth]) -> str:
    """Return ``docs/benchmarks.md``."""
    versions = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    asked = [row for row in found if row.goal]
    missed = [row for row in asked if not row.met]
    head = (
        "# Benchmarks\n\n"
        "Written by `make bench`. Each line is the median of interleaved runs of both sides in one script; what counts "
        "is the ratio, since machines are noisy.\n\n"
        f"{datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, {platform.system()} {platform.machine()}, "
        f"{os.cpu_count()} cores, {_model()}; {versions}.\n\n"
        f"{len(asked) - len(missed)} of {len(asked)} goals met.\n"
    )
    table = [
        "| goal | operation | ours | bound | found | wanted | |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {row.number} | {row.name} | {row.ours} | {row.bound} | {row.found} | {row.goal} | "
            f"{('met' if row.met else '**missed**') if row.goal else ''} |"
            for row in sorted(found, key=lambda row: row.number)
        ),
    ]
    beside = [
        "\n## Beside what one would write by hand\n",
        "| operation | ours | theirs | ours over theirs |",
        "|---|---|---|---|",
        *(f"| {name} | {ours} | {theirs} | {times(ours.wall / theirs.wall)} |" for name, ours, theirs in peers),
    ]
    how = [
        "\n## How cost grows\n",
        "Cost ∝ size^exponent, fitted over four sizes, width 128.\n",
        "| operation | grows with | sizes | seconds | exponent | expected, at most |",
        "|---|---|---|---|---|---|",
        *(
            f"| {one.name} | {one.of} | {', '.join(f'{size:,}' for size in one.sizes)} | "
            f"{', '.join(f'{value:.3g}' for value in one.seconds)} | {one.exponent:.2f} | {one.expected:g} |"
            for one in grown
        ),
    ]
    return "\n".join([head, *table, *beside, *how]) + "\n"


def _model() -> str:
    """Return what the processor calls itself."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    return next((text.split(":", 1)[1].strip() for text in lines if text.startswith("model name")), "unknown processor")


def main() -> None:
    """Run all comparisons, print a line for each, and write the page unless it was to be quick."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller tables and fewer rounds; nothing is written")
    quick = parser.parse_args().quick
    found = []
    with tempfile.TemporaryDirectory() as made:
        folder = write_gpt2(Path(made) / "gpt2")
        for row in rows(folder, quick=quick):
            found.append(row)
            print(line(row), flush=True)
        if quick:
            return
        peers = list(peer_rows(folder, minilm_tokens()))
    grown = list(growths())
    for one in grown:
        print(f"{one.name:<30} {one.of:<10} exponent {one.exponent:.2f}, expected {one.expected:g}", flush=True)
    PAGE.write_text(page(found, peers, grown), encoding="utf-8")


if __name__ == "__main__":
    main()
