"""The atlas: its page, its list and its rows go together, its commands run, its figures come out the same again."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pandas
import pytest

import hfposemb as hpe
from app.session.source_names import HUB_PRESETS, PRESETS
from hfposemb.analysis.nulls.surrogates import DRAWS
from hfposemb.cli.main import main
from hfposemb.cli.parser import parser
from hfposemb.comparison.metrics import measures_named
from hfposemb.surveys.source_lists import in_file
from hfposemb.surveys.survey_folder import rows_of
from tests.atlas import DOCS, LIST, METRICS, ROWS, offline
from tests.conftest import FULL
from tests.hub import FakeHub
from tests.support.snippets import run_snippets

PAGE = (DOCS / "atlas.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^hfposemb .*", PAGE, flags=re.M)
FEW = ("sample:gpt2@step-500", "sinusoidal:256x128", "counting:256x128")


@pytest.fixture(scope="module")
def rows() -> pandas.DataFrame:
    """What was measured."""
    return rows_of(str(ROWS))


def test_the_list_has_what_the_app_offers() -> None:
    without_rows = {source for source in PRESETS if source.startswith(("rotary:", "alibi:", "relative-"))}
    listed = in_file(LIST)
    assert {*PRESETS, *HUB_PRESETS} - without_rows <= set(listed)
    assert len(listed) == len(set(listed)) > len({*PRESETS, *HUB_PRESETS})


def test_the_rows_are_what_the_command_measures_of_the_list(rows: pandas.DataFrame) -> None:
    given = parser().parse_args(shlex.split(COMMANDS[0])[1:])
    assert given.file == Path("docs/atlas.txt")
    assert tuple(given.metric) == METRICS
    names = [one.name for one in measures_named(given.metric)]
    assert len(names) == 11, "the page says eleven"
    assert rows.source.drop_duplicates().tolist() == offline()
    assert len(offline()) >= 10
    assert set(rows.groupby("source").metric.apply(list).map(tuple)) == {tuple(names)}
    assert rows.draws.max() == given.draws == DRAWS
    assert f"chance levels from {DRAWS} draws with seed 0" in PAGE
    (version,) = re.findall(r"version (\d+)", LIST.read_text(encoding="utf-8"))
    assert f"Version {version}: " in PAGE
    assert set(rows.seed.dropna()) == {0}
    assert ROWS.stat().st_size < 100_000


def test_the_page_has_the_hashes_of_the_tables() -> None:
    for source in offline():
        tables = hpe.extract(source).tables
        section = PAGE.partition(f"\n### {source}\n")[2].partition("\n### ")[0]
        for role in {"position", "token"} & set(tables):
            assert f"- {role}: `{tables[role].digest}`" in section


def test_the_commands_run(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The Hub has none of the models here: their rows say so, and the others are measured, and the same again."""
    listed = in_file(LIST) if FULL else [*FEW, *list(HUB_PRESETS)[:2]]
    here = [source for source in listed if source in offline()]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / LIST.name).write_text("\n".join(listed), encoding="utf-8")
    (tmp_path / "docs" / ROWS.name).symlink_to(ROWS)
    said = []
    for line in COMMANDS:
        given = shlex.split(line, comments=True)[1:]
        if given[:2] == ["survey", "--again"]:
            given += FEW if given[2].startswith("docs/") and not FULL else []
        elif given[0] == "survey":
            given += ["--draws", "1"]
        assert main(given) == 0, line
        said.append(capsys.readouterr().out)
    surveyed, browsed, published, kept, own = said
    others = len(listed) - len(here)
    assert surveyed == f"wrote atlas: {len(here)} sources; {others} failed\n"
    assert re.fullmatch(rf"wrote atlas/_atlas.html: {len(here)} models, [\d.]+ MB, opens in any browser\n", browsed)
    assert published.startswith(browsed)
    assert published.endswith("'hf upload OWNER/NAME dataset --repo-type dataset'\n")
    assert kept.count(": same, ") == len(here)
    assert (own.count(": same, "), own.count(": failed before: ")) == (len(here), others)
    names: dict[str, Any] = {}
    run_snippets(PAGE, names)
    assert names["found"].same
