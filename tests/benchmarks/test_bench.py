"""What ``make bench`` writes: medians with their spread, and a mark where a figure is worse than before."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks import bench
from tests.benchmarks.benchmark_page import line, page_text
from tests.benchmarks.cost import Cost, Pair, beside, count, middle, ratio, ratios, score
from tests.benchmarks.kept_run import Found, read_values, regressions, write_values

MACHINE = {
    "date": "2030-01-01",
    "python": "3.11",
    "system": "Linux",
    "cores": 2,
    "processor": "a",
    "libraries": {"numpy": "2"},
}


def pair(ours: list[float], theirs: list[float]) -> Pair:
    """Return costs whose walls are these."""
    return middle([Cost(wall, wall) for wall in ours]), middle([Cost(wall, wall) for wall in theirs])


def found_of(*lines: Any) -> Found:
    """Return a run with these lines."""
    return Found(list(lines), {"pca": 60.0})


def written(found: Found, before: dict[str, float] | None = None) -> str:
    """Return the page of a run."""
    return page_text(found, before=before or {}, machine=MACHINE)


def test_a_ratio_is_that_of_each_round() -> None:
    """A machine that is slow for one round slows both sides of it."""
    costs = pair([1.0, 20.0, 3.0], [1.0, 10.0, 1.0])
    assert ratios(costs) == [1.0, 2.0, 3.0]
    row = ratio(7, "PCA", costs, 1.5)
    assert (row.value, row.found, row.spread, row.met) == (2.0, "2.00 ×", "1.00 × – 3.00 ×", False)
    assert ratio(7, "PCA", costs, 2).met
    assert beside(7, "PCA", costs).goal == ""
    assert ratios((Cost(3, 1), Cost(2, 1))) == [1.5]


def test_a_score_is_a_mean_over_seeds_and_compared_as_a_ratio() -> None:
    row = score(8, "trust", [0.8, 0.9], [0.85, 0.86], slack=0.002)
    assert (row.ours, row.bound, row.found, row.met) == ("0.8500", "0.8550", "−0.0050", False)
    assert row.value == pytest.approx(0.855 / 0.85)
    assert row.spread == "−0.0500 – +0.0400"
    assert score(8, "trust", [0.8, 0.9], [0.85, 0.854], slack=0.002).met


@pytest.mark.parametrize(("before", "mark"), [(2.0, False), (1.75, False), (1.73, True), (0.0, True), (None, False)])
def test_a_figure_is_marked_from_fifteen_percent_on(before: float | None, mark: bool) -> None:
    row = ratio(7, "PCA", pair([2.0], [1.0]), 3)
    found, then = found_of(row), {} if before is None else {"PCA": before}
    assert ("PCA" in regressions(found.rows, then)) is mark
    page = written(found, then)
    assert ("▲" in next(one for one in page.splitlines() if "| PCA |" in one)) is mark
    assert ("1 figure is worse by more than 15%" in page) is mark
    assert ("No figure is worse" in page) is (not mark and before is not None)


def test_what_is_kept_is_what_the_next_run_reads(tmp_path: Path) -> None:
    path = tmp_path / "benchmarks.json"
    assert read_values(path) == {}
    rows = (ratio(7, "PCA", pair([2.0], [1.0]), 3), count(13, "app", 80.0, 100, unit="ms"))
    found = found_of(*rows)
    write_values(found, path)
    kept = read_values(path)
    assert kept == {"PCA": 2.0, "app": 80.0}
    assert regressions(found.rows, kept) == {}
    run = json.loads(path.read_text(encoding="utf-8"))
    assert run["seconds"] == {"pca": 60.0}
    assert run["machine"]["cores"] >= 1


def test_the_page_has_every_line_once_and_a_table_is_a_table() -> None:
    rows = (count(13, "app", 180.0, 100, unit="ms"), ratio(7, "PCA", pair([2.0, 3.0], [1.0, 1.0]), 3))
    page = written(found_of(*rows))
    assert "1 of 2 goals met" in page
    assert "| 7 | PCA | 2.5 s [2 s – 3 s] (2.5 s CPU) | 1 s [1 s – 1 s] (1 s CPU) |" in page
    assert page.index("| 7 | PCA") < page.index("| 13 | app")  # in the order of the goals
    assert "| **missed** |" in page
    for table in re.findall(r"(?:^\|.*\n)+", page, flags=re.M):
        assert len({one.count("|") for one in table.splitlines()}) == 1
    assert all(row.name in line(row) for row in rows)


def test_groups_are_chosen_by_name_and_run_in_their_order(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []
    for name, group in bench.GROUPS.items():

        def lines(given: bench.Setting, name: str = name) -> Any:
            ran.append(name)
            assert given.quick
            yield count(1, name, 1, 2, unit="s")

        monkeypatch.setitem(bench.GROUPS, name, bench.Group(lines, quick=group.quick))
    monkeypatch.setattr("sys.argv", ["bench", "--quick", "--only", "umap,pca"])
    bench.main()
    assert ran == ["pca", "umap"]
    assert "minutes" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["bench", "--quick"])
    bench.main()
    assert "size" not in ran[2:]
    assert {"reading", "umap"} < set(ran[2:])
    monkeypatch.setattr("sys.argv", ["bench", "--only", "umpa"])
    with pytest.raises(SystemExit):
        bench.main()
    assert "no group umpa; there are reading, " in capsys.readouterr().err
