"""Compare what this package costs with its bounds.

``python -m tests.benchmarks.bench [--quick] [--only GROUP,…]``. Every figure is the median of interleaved runs (ours,
bound, ours, bound, …) in one script on one machine, and what counts is the ratio beside its goal. Files are read from
the page cache. Nothing here is a test. The whole of it prints a table and writes ``docs/benchmarks.md`` and
``docs/benchmarks.json``, from which the next run takes what it is compared with. With
``--quick``, two minutes of smaller tables and fewer rounds, or ``--only``, some groups, nothing is written.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from .app import app_rows
from .benchmark_page import line, page_text
from .computing import (
    Rows,
    alignment_rows,
    fresh_umap_rows,
    large_umap_rows,
    minilm_tokens,
    neighbour_rows,
    pca_rows,
    umap_rows,
)
from .cost import ROOT, Row
from .kept_run import Found, machine, read_values, worse, write_values
from .reading import counted_rows, gguf_rows, hub_rows, import_rows, local_rows, process_rows, write_gpt2
from .size import size_rows
from .surveying import COUNTS, survey_rows

PAGE = ROOT / "docs" / "benchmarks.md"


@dataclass(frozen=True)
class Setting:
    """How large the groups are, and what several of them read."""

    folder: Path
    quick: bool = False

    @property
    def rounds(self) -> int:
        """Rounds of what takes seconds; what takes longer has fewer, what takes less has more."""
        return 3

    @property
    def slow(self) -> int:
        """Rounds of what takes longer."""
        return 1 if self.quick else self.rounds

    @cached_property
    def gpt2(self) -> Path:
        """A checkpoint of GPT-2's size."""
        return write_gpt2(self.folder / "gpt2")

    @cached_property
    def tokens(self) -> Rows:
        """The token table of a trained model, or a part of it."""
        return minilm_tokens()


def _reading(given: Setting) -> Iterator[Row]:
    yield from import_rows(rounds=given.rounds)
    yield from local_rows(given.gpt2, rounds=given.rounds)
    yield from process_rows(given.gpt2, rounds=given.slow)
    yield from gguf_rows(rounds=given.rounds)


def _hub(given: Setting) -> Iterator[Row]:
    yield from hub_rows(given.gpt2, rounds=given.rounds)
    yield from counted_rows(given.gpt2)


def _pca(given: Setting) -> Iterator[Row]:
    sizes = ((20_000, 256),) if given.quick else ((50_257, 768), (128_256, 2_048))
    return pca_rows(sizes=sizes, rounds=given.rounds)


def _umap(given: Setting) -> Iterator[Row]:
    return umap_rows(given.tokens[:4_000] if given.quick else given.tokens, rounds=given.slow)


def _neighbours(given: Setting) -> Iterator[Row]:
    return neighbour_rows(given.tokens[:10_000] if given.quick else given.tokens, rounds=given.rounds)


def _alignment(given: Setting) -> Iterator[Row]:
    rows, width = (10_000, 256) if given.quick else (50_000, 768)
    return alignment_rows(rows=rows, width=width, rounds=given.rounds)


def _surveys(given: Setting) -> Iterator[Row]:
    return survey_rows(rounds=given.slow, counts=(10, 20) if given.quick else COUNTS)


@dataclass(frozen=True)
class Group:
    """Some lines that run together, and whether ``--quick`` has them."""

    lines: Callable[[Setting], Iterator[Row]]
    quick: bool = True


GROUPS: dict[str, Group] = {
    "reading": Group(_reading),
    "hub": Group(_hub),
    "pca": Group(_pca),
    "app": Group(lambda given: app_rows(given.folder / "app", rounds=given.rounds), quick=False),
    "size": Group(lambda given: size_rows(rounds=given.rounds), quick=False),
    "surveys": Group(_surveys),
    "umap": Group(_umap),
    "umap-fresh": Group(lambda given: fresh_umap_rows(given.tokens, rounds=1), quick=False),
    "umap-large": Group(lambda _: large_umap_rows(), quick=False),
    "neighbours": Group(_neighbours),
    "alignment": Group(_alignment),
}
"""In the order in which they run."""


def measure(names: Sequence[str], *, quick: bool, show: Callable[[Row], None]) -> Found:
    """Run some groups, and show each line when it is there."""
    found = Found()
    with tempfile.TemporaryDirectory() as made:
        given = Setting(Path(made), quick)
        for name in names:
            began = time.perf_counter()
            for one in GROUPS[name].lines(given):
                found.rows.append(one)
                show(one)
            found.seconds[name] = time.perf_counter() - began
            print(f"-- {name}: {found.seconds[name]:.0f} s", flush=True)
    return found


def _chosen(text: str) -> list[str]:
    """Return the groups that are named, in the order in which they run."""
    names = text.split(",")
    if unknown := [name for name in names if name not in GROUPS]:
        raise argparse.ArgumentTypeError(f"no group {', '.join(unknown)}; there are {', '.join(GROUPS)}")
    return [name for name in GROUPS if name in names]


def main() -> None:
    """Run the comparisons, print a line for each, and write the page if all of them ran in full."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller tables and fewer rounds; nothing is written")
    parser.add_argument(
        "--only", type=_chosen, metavar="GROUP,…", help=f"only these groups, of {', '.join(GROUPS)}; nothing is written"
    )
    given = parser.parse_args()
    before = {} if given.quick else read_values()

    def show(one: Row) -> None:
        times = worse(one, before)
        print(line(one) + (f"  ▲ {times:.2f} × the run before" if times else ""), flush=True)

    names = given.only or [name for name, group in GROUPS.items() if group.quick or not given.quick]
    found = measure(names, quick=given.quick, show=show)
    print(f"{sum(found.seconds.values()) / 60:.1f} minutes")
    if given.quick or given.only:
        return
    PAGE.write_text(page_text(found, before=before, machine=machine()), encoding="utf-8")
    write_values(found)


if __name__ == "__main__":
    main()
