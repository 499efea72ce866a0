"""Measure how often tests of independent and of related tables find p ≤ .05, and write ``docs/calibration.md``.

``python -m tests.calibration`` takes many hours on two cores. It adds to what ``docs/calibration.jsonl`` has, twenty
pairs at a time, and can be stopped; ``--pairs 120 --shape 64x64`` measures less, and ``--page`` nothing: it writes the
page from what has been measured.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .rates import Rate

DOCS = Path(__file__).parents[2] / "docs"
RESULTS, PAGE = DOCS / "calibration.jsonl", DOCS / "calibration.md"
PICTURE = DOCS / "pictures" / "calibration.png"
SHAPES = {(64, 64): 1.0, (128, 256): 1.0, (512, 384): 0.25, (1024, 768): 0.1}
"""Rows and columns of the tables of positions, with the share of the pairs that are drawn."""

OTHER_SHAPE = 300, 32
"""Rows and columns of the tables of tokens, and of single tables."""

ENOUGH = 50
"""Tested pairs of a family from which its rate is counted among the extremes."""

AT_ONCE = 20
"""Pairs that are measured before their result is written."""


class Task(NamedTuple):
    """Pairs ``first`` to ``last`` of one family at one shape, with a ``relation`` of the two tables of a pair."""

    family: str
    count: int
    width: int
    relation: str
    first: int
    last: int


class Result(NamedTuple):
    """The rate of one measure for one family, shape and relation."""

    family: str
    count: int
    width: int
    relation: str
    measure: str
    found: int
    tested: int
    pairs: int


def wanted(shapes: Iterable[tuple[int, int]], pairs: int) -> Iterator[Task]:
    """Yield what is to be measured, of positions the largest tables last."""
    from .families import FREQUENCY, INDEPENDENT, POSITIONS, RELATED, TOKENS
    from .rates import SINGLE
    from .varying import VARYING

    for count, width in shapes:
        if (count, width) == OTHER_SHAPE:
            for family in (*TOKENS, *FREQUENCY, *SINGLE):
                yield Task(family, count, width, INDEPENDENT, 0, 10 * pairs if family in SINGLE else pairs)
                if family in TOKENS:
                    yield Task(family, count, width, next(iter(RELATED)), 0, max(20, pairs // 4))
            continue
        some = max(10, round(pairs * SHAPES.get((count, width), 1.0)))
        for relation in (INDEPENDENT, *RELATED):
            for family in POSITIONS | VARYING:
                yield Task(family, count, width, relation, 0, some if relation == INDEPENDENT else min(some, 20))


def left(tasks: Iterable[Task], done: Iterable[Result]) -> Iterator[Task]:
    """Yield what is left of tasks, a few pairs each."""
    known = {(one.family, one.count, one.width, one.relation): one.pairs for one in done}
    for task in tasks:
        for first in range(known.get(task[:4], 0), task.last, AT_ONCE):
            yield task._replace(first=first, last=min(first + AT_ONCE, task.last))


def run(task: Task) -> list[Result]:
    """Measure one task."""
    from .rates import rates_of_family

    family, count, width, relation, first, last = task
    found = rates_of_family(family, count, width, pairs=range(first, last), relation=relation)
    return [Result(*task[:4], name, one.found, one.tested, one.pairs) for name, one in found.items()]


def read(path: Path) -> list[Result]:
    """Return the results of a file of lines, those of the same tables added up."""
    found: dict[tuple[object, ...], Result] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        one = Result(*json.loads(line))
        before = found.get(one[:5], one._replace(found=0, tested=0, pairs=0))
        sums = (now + then for now, then in zip(one[5:], before[5:], strict=True))
        found[one[:5]] = Result(*one[:5], *sums)
    return list(found.values())


def page(results: Iterable[Result]) -> str:
    """Return the results as a page of Markdown."""
    from tests.support.pages import opening

    from .families import INDEPENDENT, RELATED

    results = list(results)
    parts = [opening("calibration.md", "\n| positions "), *_summary(results), PICTURED]
    for measure in dict.fromkeys(one.measure for one in results):
        shapes = sorted({(one.count, one.width) for one in results if one.measure == measure})
        for relation in (INDEPENDENT, *RELATED):
            own = {
                (one.family, one.count, one.width): _rate(one)
                for one in results
                if (one.measure, one.relation) == (measure, relation)
            }
            if not own:
                continue
            lines = [f"\n## {measure}: {relation}\n", *_heads("family", *(_shape(shape) for shape in shapes))]
            for family in dict.fromkeys(name for name, _, _ in own):
                cells = (own.get((family, *shape)) for shape in shapes)
                lines.append(f"| {family} | " + " | ".join("" if one is None else _cell(one) for one in cells) + " |")
            parts.append("\n".join(lines) + "\n")
    return "".join(parts)


def _summary(results: Sequence[Result]) -> Iterator[str]:
    """Yield a table of all families of positions by shape, the families that are not tested, and the shapes."""
    from .families import INDEPENDENT, RELATED
    from .rates import TESTED, Rate

    own = [one for one in results if one.measure == TESTED]
    shapes = sorted({(one.count, one.width) for one in own})
    families = len({one.family for one in own})
    every = f"the same in families of {ENOUGH} or more tested pairs"
    yield "\n" + "\n".join(_heads("positions", "independent tables, p ≤ .05", every, *RELATED)) + "\n"
    for shape in shapes:
        some = {name: [one[5:] for one in own if one[1:4] == (*shape, name)] for name in (INDEPENDENT, *RELATED)}
        cells = [_cell(Rate(*map(sum, zip(*some[name], strict=True)))) if some[name] else "" for name in some]
        fewer = (f", of {len(rates)} families alone" if 0 < len(rates) < families else "" for rates in some.values())
        cells = [cell + alone for cell, alone in zip(cells, fewer, strict=True)]
        shares = [100 * found / tested for found, tested, _ in some[INDEPENDENT] if tested >= ENOUGH]
        cells.insert(1, f"{min(shares):.1f} to {max(shares):.1f} %, {len(shares)} families" if shares else "")
        yield f"| {_shape(shape)} | {' | '.join(cells)} |\n"
    rates = [one for one in own if one.relation == INDEPENDENT and one.tested]
    if above := [one for one in rates if _rate(one).interval[0] > 0.05]:
        said = "; ".join(f"{one.family}, {_shape(one[1:3])} ({one.found} of {one.tested})" for one in above)
        yield f"\nOf {len(rates)} rates of independent tables, the interval lies above 5 % in {len(above)}: {said}.\n"
    tested = Counter({one.family: 0 for one in own})
    for one in own:
        tested[one.family] += one.tested
    if none := [family for family, number in tested.items() if not number]:
        yield f"\nNo pair was tested of: {'; '.join(none)}.\n"
    if missing := [_shape(shape) for shape in SHAPES if shape not in shapes]:
        yield f"\nNot measured: {', '.join(missing)}.\n"


def _heads(*names: str) -> tuple[str, str]:
    return f"| {' | '.join(names)} |", "|---" * len(names) + "|"


def _shape(shape: tuple[int, int]) -> str:
    return f"{shape[0]:,} × {shape[1]:,}"


def _rate(one: Result) -> Rate:
    from .rates import Rate

    return Rate(one.found, one.tested, one.pairs)


def _cell(rate: Rate) -> str:
    if not rate.tested:
        return f"abstained ({rate.pairs} pairs)"
    low, high = rate.interval
    abstained = f", {rate.pairs - rate.tested} abstained" if rate.tested < rate.pairs else ""
    return f"{100 * rate.share:.1f} % ({100 * low:.1f} to {100 * high:.1f}, {rate.tested} pairs{abstained})"


PICTURED = """
![Rates by family, with confidence intervals](pictures/calibration.png)
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and, for the results of the documentation, write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=400)
    parser.add_argument("--shape", action="append", type=_of, help="as 64x64; can be given several times")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=RESULTS, help="file to which results are added as lines")
    parser.add_argument("--page", action="store_true", help="write the page from what has been measured")
    given = parser.parse_args(arguments)
    done = read(given.out) if given.out.exists() else []
    tasks = () if given.page else left(wanted(given.shape or (OTHER_SHAPE, *SHAPES), given.pairs), done)
    with ProcessPoolExecutor(given.workers) as pool, given.out.open("a", encoding="utf-8") as lines:
        for results in pool.map(run, tasks):
            for one in results:
                lines.write(_line(one))
                print(*one, file=sys.stderr)
            lines.flush()
    if given.out == RESULTS:
        write(read(RESULTS), titles=not given.page)


def write(results: Sequence[Result], *, titles: bool) -> None:
    """Write the page and its picture, and the results, a line for each; ``titles`` measures its last section anew."""
    from PIL import Image

    from .picture import draw
    from .sentences import table
    from .titles import section

    last = "\n## Titles"
    kept = last + PAGE.read_text(encoding="utf-8").partition(last)[2]
    measured = "".join(section(256, 64, tables=200)) if titles else kept
    PAGE.write_text("".join([page(results), *table(), measured]), encoding="utf-8")
    RESULTS.write_text("".join(map(_line, results)), encoding="utf-8")
    draw(results).write_image(PICTURE)
    with Image.open(PICTURE) as drawn:
        drawn.quantize(32).save(PICTURE, optimize=True)


def _of(shape: str) -> tuple[int, int]:
    count, width = map(int, shape.split("x"))
    return count, width


def _line(one: Result) -> str:
    return json.dumps(one, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    main()
