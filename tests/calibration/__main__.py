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
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .rates import Rate

DOCS = Path(__file__).parents[2] / "docs"
RESULTS, PAGE = DOCS / "calibration.jsonl", DOCS / "calibration.md"
PICTURE = DOCS / "pictures" / "calibration.png"
SHAPES = {"64x64": 1.0, "128x256": 1.0, "512x384": 0.25, "1024x768": 0.1}
"""Shapes of the tables of positions, rows × columns, with the share of the pairs that are drawn."""

OTHER_SHAPES = ("300x32",)
"""Shapes of the tables of tokens, and of single tables."""

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


def wanted(shapes: Sequence[str], pairs: int) -> Iterator[Task]:
    """Yield what is to be measured, of positions the largest tables last."""
    from .families import FREQUENCY, INDEPENDENT, POSITIONS, RELATED, TOKENS
    from .rates import SINGLE
    from .varying import VARYING

    for shape in shapes:
        count, width = map(int, shape.split("x"))
        if shape in OTHER_SHAPES:
            for family in (*TOKENS, *FREQUENCY, *SINGLE):
                yield Task(family, count, width, INDEPENDENT, 0, 10 * pairs if family in SINGLE else pairs)
                if family in TOKENS:
                    yield Task(family, count, width, next(iter(RELATED)), 0, max(20, pairs // 4))
            continue
        some = max(10, round(pairs * SHAPES.get(shape, 1.0)))
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
    from .families import INDEPENDENT, RELATED
    from .rates import Rate

    results = list(results)
    parts = [HEAD, *_extremes(results)]
    for measure in dict.fromkeys(one.measure for one in results):
        shapes = list(dict.fromkeys((one.count, one.width) for one in results if one.measure == measure))
        for relation in (INDEPENDENT, *RELATED):
            own = {
                (one.family, one.count, one.width): Rate(one.found, one.tested, one.pairs)
                for one in results
                if (one.measure, one.relation) == (measure, relation)
            }
            if not own:
                continue
            lines = [
                f"\n## {measure}: {relation}\n",
                "| family | " + " | ".join(f"{count} × {width}" for count, width in shapes) + " |",
                "|---" * (len(shapes) + 1) + "|",
            ]
            for family in dict.fromkeys(name for name, _, _ in own):
                cells = (own.get((family, *shape)) for shape in shapes)
                lines.append(f"| {family} | " + " | ".join("" if one is None else _cell(one) for one in cells) + " |")
            parts.append("\n".join(lines) + "\n")
    return "".join(parts)


def _extremes(results: Sequence[Result]) -> Iterator[str]:
    """Yield a line per measure: the families of most false positives and of least power."""
    from .families import FREQUENCY, INDEPENDENT, RELATED

    noisy = next(iter(RELATED))
    yield "\n"
    for measure in dict.fromkeys(one.measure for one in results):
        own = [one for one in results if one.measure == measure and one.tested and one.family not in FREQUENCY]
        false = max(
            (one for one in own if one.relation == INDEPENDENT), key=lambda one: one.found / one.tested, default=None
        )
        power = min((one for one in own if one.relation == noisy), key=lambda one: one.found / one.tested, default=None)
        said = [
            f"{title} {100 * one.found / one.tested:.1f} % ({one.family}, {one.count} × {one.width})"
            for title, one in (("most false positives", false), ("least power", power))
            if one is not None
        ]
        yield f"- {measure}: {'; '.join(said)}\n"


def _cell(rate: Rate) -> str:
    if not rate.tested:
        return f"abstained ({rate.pairs} pairs)"
    low, high = rate.interval
    abstained = f", {rate.pairs - rate.tested} abstained" if rate.tested < rate.pairs else ""
    return f"{100 * rate.share:.1f} % ({100 * low:.1f} to {100 * high:.1f}, {rate.tested} pairs{abstained})"


HEAD = """# Calibration of every test

How often a test finds p ≤ .05, with its 95 % confidence interval (Wilson 1927) and the number of pairs. Among
independent tables this should be 5 %: more would report an agreement where there is none, less is cautious. Among
related tables it is the power. Written by `python -m tests.calibration`; the families are those of
`tests/calibration/families.py`.

- **Positions** (CKA and centred RSA): surrogates keep the smoothness of both tables
  (`hfposemb.analysis.nulls.surrogates.SignFlips`), half of them drawn of either table, so that p does not depend on
  their order; positions of outlying norm are left out. The test abstains from tables that amount to fewer than two
  independent components. Other measures of positions have no p value. Centred RSA is cautious, and weaker than CKA
  among smooth tables. Copies whose positions moved are found as long as the tables are smooth over the distance that
  they moved; noise is not. **All of these families are as smooth everywhere.** Where amplitude, speed or a
  trend changes along the way, as in OpenAI's GPT-2 (its squared steps vary 6-fold), the test is not calibrated: of
  independent tables with a profile each of its own, 20 to 35 % have p ≤ .05, and nearly all that share one do.
- **Tokens**: rows are permuted. A small p says that rows correspond, not why: tables that share nothing but the order
  of frequency are found too (“ordered by frequency”).
- **One table of tokens**: its figures beside those of noise of the same scale, two-sided. The mean norm is fixed by the
  scale, so its test is cautious.
- **A grid of patches**: patches are shuffled. A small p says that patches are in an order, not that training made it.
- **`hfposemb reproduce`**: a claim that the rule confirms is measured on random walks too, and confirmed only if hardly
  any agrees. Whatever the rule, a walk is confirmed in at most 4.2 % (20 walks) or 5 % (7 walks).

![Rates by family, with confidence intervals](pictures/calibration.png)
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and, for the results of the documentation, write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=400)
    parser.add_argument("--shape", action="append", help="rows × columns, e.g. 64x64; can be given several times")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=RESULTS, help="file to which results are added as lines")
    parser.add_argument("--page", action="store_true", help="write the page from what has been measured")
    given = parser.parse_args(arguments)
    done = read(given.out) if given.out.exists() else []
    tasks = () if given.page else left(wanted(given.shape or (*OTHER_SHAPES, *SHAPES), given.pairs), done)
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
    from .titles import section

    last = "\n## Titles"
    kept = last + PAGE.read_text(encoding="utf-8").partition(last)[2]
    PAGE.write_text(page(results) + ("".join(section(256, 64, tables=200)) if titles else kept), encoding="utf-8")
    RESULTS.write_text("".join(map(_line, results)), encoding="utf-8")
    draw(results).write_image(PICTURE)
    with Image.open(PICTURE) as drawn:
        drawn.quantize(32).save(PICTURE, optimize=True)


def _line(one: Result) -> str:
    return json.dumps(one, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    main()
