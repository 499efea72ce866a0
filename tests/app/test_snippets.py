"""Every view has a snippet, and every snippet gives what its view shows; so does every command line."""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from hfposemb.app.components.plot import Panel, PanelRow
from hfposemb.app.components.recipe import Recipe
from hfposemb.app.recipes import writing
from hfposemb.app.session.opened import Opened

import hfposemb as hpe
from hfposemb.analysis.positions.probes import noise_like, position_probes
from hfposemb.tables.table import Provenance
from tests.architectures.tiny import build
from tests.reference import CHAPTERS
from tests.support.app.printed import printed_wrong
from tests.support.app.views import Page, View, checked, opened_page, views_of

pytestmark = pytest.mark.usefixtures("few_draws")

SAMPLES = ("sample:bert", "sample:gpt2", "sinusoidal:256x128")
MECHANISMS = ("rotary:128x32?theta=5000", "alibi:96x4", "random:90x24?seed=3")
LONGEST = 14  # lines


@pytest.fixture(scope="module")
def samples() -> Page:
    """The page as it is first seen."""
    return opened_page(SAMPLES)


@pytest.fixture(scope="module")
def mechanisms(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """Sources that tell positions apart in other ways, one of them a folder."""
    folder = tmp_path_factory.mktemp("models") / "t5 'x'"
    build("t5").save_pretrained(folder)
    return opened_page((*MECHANISMS, str(folder)))


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """A source with positions of texts and of images."""
    folder = tmp_path_factory.mktemp("models") / "clip"
    build("clip").save_pretrained(folder)
    return opened_page((str(folder), "random:40x16?seed=5"))


# --- what is given ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tab", "least"), [("start", 3), ("positions", 25), ("tokens", 12), ("words", 25), ("compare", 8), ("training", 10)]
)
def test_every_view_of_the_samples_is_given_by_its_snippet(samples: Page, tab: str, least: int) -> None:
    checked(views_of(samples, tab), least=least)


def test_every_view_of_mechanisms_is_given_by_its_snippet(mechanisms: Page) -> None:
    checked(views_of(mechanisms, "positions"), least=20)


def test_every_view_of_parts_is_given_by_its_snippet(parts: Page) -> None:
    checked(views_of(parts, "positions"), least=12)


def test_every_row_of_panels_is_among_the_views(samples: Page) -> None:
    assert samples.rows == 0, "a row that no view above is in: bind it with session.redraw, or test it"


@pytest.mark.parametrize(("text", "regex"), [("king", False), ("5", False), ("^.?(king|queen)$", True), ("'\"", True)])
def test_a_search_is_given_by_its_snippet(samples: Page, text: str, regex: bool) -> None:
    from hfposemb.app.findings.tokens.token_search import match_panels

    (panel,) = match_panels(samples.session.open(SAMPLES), text, regex)
    view = View("tokens", panel, panel.recipe.python if panel.recipe else "")
    checked([view], least=1)


def test_probes_are_given_by_their_snippet() -> None:
    from hfposemb.app.findings.positions import probing

    page = opened_page(("random:60x8?seed=9",))
    opened = page.session.at("positions").open(page.session.first)
    assert "recipe" not in probing.table(opened, page.session), "nothing was measured yet"
    table = opened[0].position.table
    found, noise = position_probes(table), position_probes(noise_like(table), seeds=range(2))
    key = page.session.library.result_key(table, ("probes",))
    page.session.library.results.put(key, {name: (found[name], noise[name]) for name in found})
    checked([view for view in page.views("positions") if isinstance(view.shown, str)], least=1)


# --- how they are written ---------------------------------------------------------------------------------------------


def test_snippets_are_short_and_use_public_names(samples: Page, mechanisms: Page, parts: Page) -> None:
    public = {f"hfposemb.{name}" for names in CHAPTERS.values() for name in names} | {"hfposemb", "numpy"}
    for page in (samples, mechanisms, parts):
        for view in views_of(page, "positions") + views_of(page, "start") + views_of(page, "tokens"):
            lines = view.python.splitlines()
            assert len(lines) <= LONGEST, view.python
            assert max(map(len, lines), default=0) <= 400
            for node in ast.walk(ast.parse(view.python)):
                if isinstance(node, ast.ImportFrom) and node.module != "dataclasses":
                    assert node.module in public
                if isinstance(node, ast.Attribute):
                    assert not node.attr.startswith("_")


@pytest.mark.parametrize("tab", ["start", "positions", "tokens"])
def test_a_snippet_runs_as_a_script(samples: Page, tab: str) -> None:
    python = next(view.python for view in views_of(samples, tab) if view.python)
    done = subprocess.run([sys.executable, "-c", python], capture_output=True, text=True, check=True)
    assert re.search(r"\d", done.stdout)


@pytest.mark.parametrize("text", ['it\'s "so"', "a\\", "\u202egnp\x00", "x\n__import__('os')", "\ud800", "{0}", "日本"])
def test_texts_of_visitors_are_literals(text: str) -> None:
    literal = writing.quoted(text)
    assert ast.literal_eval(literal) == text
    assert literal.isprintable()


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tab", "commands"),
    [
        ("positions", {"project", "export", "extract", "info"}),
        ("tokens", {"project", "neighbours", "similarity", "odd"}),
        ("compare", {"compare"}),
        ("training", {"trajectory"}),
    ],
)
def test_every_command_line_gives_what_is_shown(
    samples: Page, tab: str, commands: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = {view.command: view for view in views_of(samples, tab) if view.command}
    assert {shlex.split(command)[1] for command in views} == commands
    said = [
        f"{command}: {one}" for command, view in views.items() for one in printed_wrong(view, tmp_path, monkeypatch)
    ]
    assert not said, "\n".join(said)


def test_command_lines_of_other_sources_give_what_is_shown(
    mechanisms: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = {view.command: view for view in views_of(mechanisms, "positions") if view.command}
    assert any("t5 '\"'\"'x'\"'\"''" in command for command in views), "a path is quoted for the shell"
    for view in views.values():
        assert not printed_wrong(view, tmp_path, monkeypatch), view.command


# --- how a view is cited ----------------------------------------------------------------------------------------------


def opened_as(text: str, commit: str | None = None) -> Opened:
    """Return a source as if it had been read at a commit."""
    found = hpe.from_arrays(position=np.arange(12, dtype=np.float32).reshape(4, 3))
    tables = {"position": replace(found.tables["position"], provenance=Provenance(text, commit=commit))}
    return Opened(text, "x", "", "", replace(found, tables=tables))


def test_a_source_of_the_hub_is_pinned_to_what_was_read() -> None:
    commit = "607a30d783dfa663caf39e06633721c8d4cfcd7e"
    for name in ("openai-community/gpt2", "openai-community/gpt2@main", " openai-community/gpt2 "):
        assert writing.pinned(opened_as(name, commit)) == f"openai-community/gpt2@{commit}"
    for name in ("sample:gpt2", "sinusoidal:8x4", "./folder"):
        assert writing.pinned(opened_as(name)) == name


def test_a_citation_names_version_sources_and_hashes(samples: Page) -> None:
    panels = [view.shown for view in views_of(samples, "positions") if isinstance(view.shown, Panel)]
    panel = next(panel for panel in panels if panel.key == "norms")
    said = panel.recipe.citation(panel.title, today=date(2026, 11, 22))
    digest = hpe.extract("sample:gpt2").tables["position"].digest
    assert said.startswith("@misc{hfposemb,\n  title = {{")
    assert said.count("{") == said.count("}")
    assert f"howpublished = {{hfposemb {hpe.__version__}}}" in said
    assert "year = {2026}" in said
    assert "Drawn on 2026-11-22 from" in said
    assert f"sample:gpt2 (position table SHA-256 {digest})" in said
    assert not panel.recipe.local


def test_titles_and_names_are_text_to_bibtex() -> None:
    said = Recipe("", sources=("./a_b",)).citation("100 % of {x} & $y$ \\input{z}\nmore")
    assert "100 \\% of \\{x\\} \\& \\$y\\$ \\textbackslash{}input\\{z\\} more" in said
    assert "./a\\_b" in said
    assert said.count("\n") == 6


def test_nothing_is_read_from_the_hub_for_a_citation() -> None:
    source = opened_as("owner/name", "6" * 40)
    recipe = writing.recipe("logit shares", [source], roles=("token", "position"), text="a")
    assert recipe.sources == (f"owner/name@{'6' * 40}",)
    assert "digest" not in vars(source.embeddings.tables["position"])  # type: ignore[union-attr]


def test_what_is_typed_is_a_literal_and_local_paths_are_told_apart(tmp_path: Path) -> None:
    text = "$text ${source}\n'\"\\"
    made = writing.recipe("logit shares", [opened_as("sample:bert")], text=text)
    assert text in [node.value for node in ast.walk(ast.parse(made.python)) if isinstance(node, ast.Constant)]
    assert not made.local
    assert writing.recipe("logit shares", [opened_as(str(tmp_path))], text="a").local


def test_a_row_sends_its_recipes_whole(samples: Page) -> None:
    shown = (view.shown for view in views_of(samples, "words"))
    panel = next(one for one in shown if isinstance(one, Panel) and one.source is None)
    row = PanelRow((), scope="x", render=False)
    long = replace(panel.recipe, python=panel.recipe.python * 200)
    for recipe in (panel.recipe, long):
        sent = json.loads(row.postprocess((replace(panel, recipe=recipe),))["row"])["panels"][0]["recipe"]
        assert sent["python"] == recipe.python
        assert sent["cite"] == recipe.citation(panel.title)
    assert "recipe" not in json.loads(row.postprocess((Panel("x", "x"),))["row"])["panels"][0]


def test_snippets_of_words_print_them_beside_their_numbers(samples: Page) -> None:
    listed = [
        view
        for tab in ("tokens", "words", "compare")
        for view in views_of(samples, tab)
        if isinstance(view.shown, Panel) and view.shown.lists and view.python
    ]
    assert len(listed) > 3
    assert [view.shown.key for view in listed if not re.search(r"label|word\.|pieces", view.python)] == []
