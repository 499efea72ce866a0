"""Every view has a snippet, and every snippet gives what its view shows; so does every command line."""

from __future__ import annotations

import ast
import csv
import html
import json
import re
import shlex
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from datetime import date
from functools import cache, lru_cache
from io import StringIO
from pathlib import Path
from typing import Any

import gradio as gr
import numpy as np
import pytest
from hfposemb.app import limits
from hfposemb.app.components.plot import Panel, PanelRow, Panels
from hfposemb.app.components.recipe import Recipe
from hfposemb.app.findings.compare import comparison, training_run
from hfposemb.app.findings.tokens import token_map
from hfposemb.app.jobs import children
from hfposemb.app.jobs.fetching import table_of
from hfposemb.app.recipes import sentence_snippets, writing
from hfposemb.app.session.background_jobs import umap_key
from hfposemb.app.session.opened import Opened
from hfposemb.app.session.state import Session

import hfposemb as hpe
from hfposemb import app
from hfposemb.analysis.positions.probes import noise_like, position_probes
from hfposemb.cli.main import main
from hfposemb.comparison.aligned_maps import align_maps
from hfposemb.numbers import number
from hfposemb.reports import html_tables
from hfposemb.tables.table import Provenance
from tests.architectures.tiny import build
from tests.conftest import FULL
from tests.reference import CHAPTERS
from tests.support.shown import ROUNDED, missing, not_given

SAMPLES = ("sample:bert", "sample:gpt2", "sinusoidal:256x128")
MECHANISMS = ("rotary:128x32?theta=5000", "alibi:96x4", "random:90x24?seed=3")
LONGEST = 14  # lines
AMPLITUDES = (0.5, 3.0)


@dataclass(frozen=True)
class View:
    """One view of a tab: a panel, or the HTML of one, and the recipe that it has."""

    tab: str
    shown: Panel | str
    python: str = ""
    command: str = ""


@dataclass(eq=False)
class Page:
    """A page without a browser: what each tab draws with, as it was bound."""

    session: Session
    draws: list[tuple[str, Any, list[Any]]]
    unfolded: list[Any]
    """The states of the folds that are open."""
    rows: int
    """Rows of panels that are drawn by none of these."""

    def views(self, tab: str, *, every: bool = True) -> list[View]:
        """Return every view of a tab with its first values, and with another choice of each control if ``every``.

        With FULL, each of the other choices is taken.
        """
        found: dict[Any, View] = {}
        opened = self.session.at(tab).open(self.session.first)
        for key, draw, inputs in self.draws:
            if key == tab:
                for values in self._values(inputs, every=every):
                    for view in self._drawn(tab, draw, opened, values):
                        found.setdefault((draw.__name__ if not view.python else "", *_told(view)), view)
        return list(found.values())

    def _values(self, inputs: list[Any], *, every: bool) -> Iterator[list[Any]]:
        folds = [*self.session.folds]
        first = [folds if one in self.unfolded else one.value for one in inputs]
        yield first
        for place, one in enumerate(inputs if every else ()):
            for other in _others(one, self.session.first)[: None if FULL else 1]:
                yield [*first[:place], other, *first[place + 1 :]]

    def _drawn(self, tab: str, draw: Any, opened: tuple[Opened, ...], values: list[Any]) -> Iterator[View]:
        results = draw(opened, *values)
        if self._lay_out(results):
            results = draw(opened, *values)
        for panel in _panels(results):
            recipe = panel.recipe
            yield View(tab, panel, recipe.python if recipe else "", recipe.command if recipe else "")
        for text in _texts(results):
            if "<table" in text or 'class="recipe"' in text:
                folded = dict(
                    re.findall(r'aria-label="(Python|Command line)" role="group">(.*?)</pre>', text, flags=re.S)
                )
                yield View(tab, text, *(html.unescape(folded.get(name, "")) for name in ("Python", "Command line")))

    def _lay_out(self, results: Any) -> bool:
        """Compute the UMAPs that a view wants, as its tab's job would."""
        wanted = [one for one in results if _is_wanted(one)] if isinstance(results, list | tuple) else []
        for source, role, third in (one for some in wanted for one in some):
            library = self.session.library
            if isinstance(source, list):
                left, right = (library.open(text) for text in source)
                key = comparison.maps_key(source, role, third, public=False)
                library.results.put(key, align_maps(left, right, role, method=third))
            else:
                table = table_of(library.open(source), role)
                key = umap_key(self.session.library, table, third)
                library.results.put(key, hpe.project(table, method="umap", dims=third))
        return bool(wanted)


def _is_wanted(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, list) and len(one) == 3 for one in value)


def _told(view: View) -> tuple[str, str]:
    return (view.python, view.shown.key if isinstance(view.shown, Panel) else "")


def _others(component: Any, sources: tuple[str, ...]) -> list[Any]:
    match component:
        case gr.Radio() | gr.Dropdown() if not getattr(component, "multiselect", False):
            return [value for _, value in component.choices if value != component.value]
        case gr.Checkbox():
            return [not component.value]
        case gr.Slider() if component.maximum == 4:
            return list(AMPLITUDES)
        case gr.State() if component.value == training_run.LAST:
            return [450]
        case gr.State() if component.value == training_run.FIRST_FIGURE["position"]:
            return ["CKA with the last", "map's disparity", "IsoScore", "helix period"]
        case gr.State() if component.value == token_map.AUTOMATIC:
            return ["PCA"]
        case gr.State() if component.value == "token":
            return ["head"]
        case gr.State() if component.value == "0-1":
            return [f"0-{len(sources) - 1}"]  # another pair
        case gr.State() if component.value in sources:
            return [text for text in sources if text != component.value]
    return []


def _panels(value: Any) -> Iterator[Panel]:
    if isinstance(value, Panel):
        yield value
    elif isinstance(value, Panels | list | tuple):
        for one in value.panels if isinstance(value, Panels) else value:
            yield from _panels(one)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one)


def opened_page(sources: tuple[str, ...]) -> Page:
    """Build the app, and take what every tab binds to its rows of panels."""
    draws: list[tuple[str, Any, list[Any]]] = []
    sessions: list[Session] = []
    filled: set[PanelRow] = set()

    def note(session: Session, draw: Any, outputs: Any, *, inputs: Any = (), job: Any = None, **_: Any) -> None:
        sessions.append(session)
        ended = [] if job is None else [job.done]
        draws.append((session.key, draw, [*inputs, *ended]))
        filled.update(one for one in outputs if isinstance(one, PanelRow))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "redraw", note)
        with gr.Blocks() as blocks:
            app.panel(sources=sources)
    rows = {block for block in blocks.blocks.values() if isinstance(block, PanelRow)}
    return Page(sessions[0], draws, [one.unfolded for one in sessions], len(rows - filled))


@pytest.fixture(scope="module", autouse=True)
def few_draws() -> Iterator[None]:
    """What chance gives is no part of what is compared."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "COMPARISON_DRAWS", 3)
        patch.setattr(limits, "TRAINING_DRAWS", 3)
        yield
    views_of.cache_clear()


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


@lru_cache(maxsize=16)
def run(python: str) -> Any:
    """Run a snippet in a fresh namespace, and return what it ends in; the panels of one snippet share it."""
    names: dict[str, Any] = {}
    with redirect_stdout(StringIO()) as said:
        exec(compile(python, "snippet", "exec"), names)
    assert said.getvalue().strip()
    return names["shown"]


def wrong(views: list[View]) -> list[str]:
    """Return what is wrong with the snippets of some views."""
    said = []
    for view in views:
        if not view.python:
            said += [f"{view.tab}: {name} shows numbers and has no recipe" for name in unreproduced(view)]
        elif isinstance(view.shown, Panel):
            said += [f"{view.tab}: {one}\n{view.python}" for one in missing(view.shown, run(view.python))]
        else:
            said += [f"{view.tab}: {one}\n{view.python}" for one in unwritten(view.shown, run(view.python))]
    return said


def unreproduced(view: View) -> list[str]:
    """Return the name of a view that shows numbers and has no recipe."""
    panel = view.shown
    if isinstance(panel, str):
        return [panel[:60]] if re.search(r"<td>[^<]*\d", panel) else []
    return [panel.key] if panel.drawings or panel.lists or panel.numbers else []


def unwritten(shown: str, given: Any) -> list[str]:
    """Return which of the numbers given stand nowhere in a table that is HTML."""
    text = html.unescape(re.sub(r"<[^>]+>", " ", shown.partition('<details class="recipe">')[0]))
    words = {word.strip(".,") for word in text.replace("\u00a0", " ").split()}
    values = {}
    for each in given.values() if isinstance(given, dict) else given:
        values |= {(id(each), name): value for name, value in each.items() if value is not None}
    assert len(values) > 3
    return [
        f"{name}: {value}"
        for (_, name), value in values.items()
        if not {number(scale * value, digits=digits) for scale in (1, 100) for digits in (0, 1, 2, 3)}
        | {html_tables.figure(value, unit) for unit in ("", "%", "cosine")} & words
    ]


def checked(views: list[View], *, least: int) -> None:
    """Fail unless there are so many views, and all of their snippets give what is shown."""
    assert sum(bool(view.python) for view in views) >= least
    said = wrong(views)
    assert not said, "\n\n".join(said)


def compared(page: Page) -> None:
    """Compare the sources of a page, as the tab's job would."""
    library, texts = page.session.library, list(page.session.first)
    found = hpe.compare(*map(library.open, texts), words=children.WORDS, draws=3)
    library.results.put(comparison.comparison_key(texts, public=False), found)


def followed(page: Page) -> None:
    """Follow the runs of a page, as the tab's job would."""
    for run in training_run.runs_of(page.session.open(page.session.first)):
        wanted = (run, "position", training_run.PATTERN, limits.CHECKPOINTS)
        found = children.training(*wanted, limits.TRAINING_DRAWS, lambda share, doing: None)
        page.session.library.results.put(training_run.run_key(wanted, public=False), found)


@cache
def views_of(page: Page, tab: str) -> list[View]:
    """Return every view of a tab after its job, the same ones to every test."""
    if tab in (jobs_of := {"compare": compared, "training": followed}):
        jobs_of[tab](page)
    return page.views(tab)


@pytest.mark.parametrize(
    ("tab", "least"), [("start", 3), ("positions", 25), ("tokens", 12), ("words", 25), ("compare", 8), ("training", 10)]
)
def test_every_view_of_the_samples_is_given_by_its_snippet(samples: Page, tab: str, least: int) -> None:
    checked(views_of(samples, tab), least=least)


@pytest.mark.parametrize(("tab", "least"), [("positions", 20)])
def test_every_view_of_mechanisms_is_given_by_its_snippet(mechanisms: Page, tab: str, least: int) -> None:
    checked(views_of(mechanisms, tab), least=least)


@pytest.mark.parametrize(("tab", "least"), [("positions", 12)])
def test_every_view_of_parts_is_given_by_its_snippet(parts: Page, tab: str, least: int) -> None:
    checked(views_of(parts, tab), least=least)


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
    assert table is not None
    found, noise = position_probes(table), position_probes(noise_like(table), seeds=range(2))
    key = page.session.library.result_key(table, ("probes",))
    page.session.library.results.put(key, {name: (found[name], noise[name]) for name in found})
    checked([view for view in page.views("positions") if isinstance(view.shown, str)], least=1)


# --- a comparison that can fail ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tab", "key", "said", "instead"),
    [
        ("positions", "sample:gpt2", "dims=3", "dims=2"),
        ("positions", "sample:gpt2", "sample:gpt2", "sample:bert"),
        ("positions", "distance", "mean_cosine_by_distance(table)", "mean_cosine_by_distance(table.part(0, 128))"),
        ("positions", "waves", "[::-1]", ""),
        ("tokens", "neighbours", "k=12", "k=11"),
        ("words", "survival", "sinusoid", "own"),
    ],
)
def test_a_snippet_that_gives_something_else_is_noticed(
    samples: Page, tab: str, key: str, said: str, instead: str
) -> None:
    view = next(
        one for one in views_of(samples, tab) if isinstance(one.shown, Panel) and one.shown.key == key and one.python
    )
    assert not wrong([view])
    assert said in view.python
    assert wrong([replace(view, python=view.python.replace(said, instead))])


def test_another_seed_is_noticed(samples: Page) -> None:
    table = hpe.extract("sample:gpt2").position.table
    assert table is not None
    (panel,) = [
        one.shown for one in views_of(samples, "positions") if 'method="umap"' in one.python and "gpt2" in one.python
    ]
    assert isinstance(panel, Panel)
    both = {"matrix": hpe.similarity(table)}
    cloud = {seed: hpe.project(table, method="umap", dims=3, seed=seed).coordinates for seed in (0, 1)}
    assert not missing(panel, {**both, "cloud": cloud[0]})
    assert missing(panel, {**both, "cloud": cloud[1]})


def test_a_view_without_a_recipe_is_noticed(samples: Page) -> None:
    view = next(one for one in views_of(samples, "start") if isinstance(one.shown, Panel))
    assert isinstance(view.shown, Panel)
    assert wrong([View("start", replace(view.shown, recipe=None))])
    assert not wrong([View("start", Panel("empty", "Nothing here", message="Write a sentence."))])


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


def printed(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run command lines in a folder, and return the numbers that they print or write."""
    monkeypatch.chdir(folder)
    found = []
    for line in command.splitlines():
        words = shlex.split(line)
        assert words[0] == "hfposemb"
        with redirect_stdout(StringIO()) as said:
            assert main(words[1:]) == 0
        found.append(numbers(said.getvalue(), folder / words[-1] if "--out" in words else None))
    return found


def numbers(said: str, written: Path | None) -> Any:
    """Return the numbers of a file, or else of what a command said: JSON, CSV, or one number a line."""
    if written is not None and written.suffix == ".npz":
        return np.load(written)["vectors"]
    if written is not None:
        traces = json.loads(written.read_text())["data"]
        return [decoded(one["y"]) for one in traces if one["mode"] == "lines" and "fill" not in one]
    if said.startswith("{"):
        return json.loads(said)
    if said.startswith("label,"):
        return np.array([[float(cell) for cell in line[1:]] for line in list(csv.reader(said.splitlines()))[1:]])
    matrix = [line.split()[1:] for line in said.partition("\n\n")[0].splitlines()[1:]]
    if matrix and all(len(line) == len(matrix) for line in matrix):
        return np.array(matrix, np.float64)
    return np.array([float(line.split()[-1]) for line in said.splitlines() if re.search(r"\d\.\d+$", line)])


def decoded(array: Any) -> Any:
    """Return an array of a figure that was written as JSON."""
    return np.frombuffer(b64decode(array["bdata"]), array["dtype"]) if isinstance(array, dict) else array


GIVES = {
    "project": {"points"},
    "extract": {"matrix"},
    "export": {"line"},
    "neighbours": {"list"},
    "similarity": {"matrix"},
    "odd": {"list"},
    "head": {"line"},
    "requirements": {"line"},
    "trajectory": {"line", "matrix"},
    "rope": {"line"},
}
"""What a command prints or writes of the views that name it; the others give all that is shown."""


def printed_wrong(view: View, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what the command line of a view does not give of what is shown."""
    given, name = printed(view.command, folder, monkeypatch), shlex.split(view.command)[1]
    rounded = 1e-3 if name in ("neighbours", "similarity") else ROUNDED  # they print three digits
    if isinstance(view.shown, Panel):
        return not_given(view.shown, given, kinds=GIVES[name], rounded=rounded)
    (document,) = given
    pairs = "CKA" in view.shown and "<section" in view.shown
    if pairs:
        return unwritten(view.shown, [pair["observed"] for pair in document["pairs"]])
    metrics = [each["metrics"] for each in document["sources"]]
    return unwritten(view.shown, [{name: one["value"] for name, one in each.items()} for each in metrics])


@pytest.mark.parametrize(
    ("tab", "commands"),
    [
        ("positions", {"project", "export", "extract", "requirements"}),
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


@pytest.mark.parametrize(
    ("key", "said", "instead"),
    [("sample:gpt2", "--dims 3", "--dims 2"), ("variance", "variance --out", "norms --out"), ("odd", "8", "7")],
)
def test_a_command_line_that_gives_something_else_is_noticed(
    samples: Page, key: str, said: str, instead: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = [
        view for tab in ("positions", "tokens") for view in views_of(samples, tab) if isinstance(view.shown, Panel)
    ]
    view = next(one for one in views if one.shown.key == key and said in one.command)  # type: ignore[union-attr]
    assert not printed_wrong(view, tmp_path, monkeypatch)
    assert printed_wrong(replace(view, command=view.command.replace(said, instead)), tmp_path, monkeypatch)


# --- how a view is cited ----------------------------------------------------------------------------------------------


def opened_as(text: str, commit: str | None = None, shape: tuple[int, int] = (4, 3)) -> Opened:
    """Return a source as if it had been read at a commit."""
    table = hpe.from_arrays(position=np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)).position.table
    assert table is not None
    found = hpe.from_arrays(position=table.vectors)
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
    assert panel.recipe is not None
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
    commit, source = "607a30d783dfa663caf39e06633721c8d4cfcd7e", opened_as("owner/name", "6" * 40)
    recipe = sentence_snippets.sentence(source, "a", pieces=1, stripes=1)
    assert recipe.sources == (f"owner/name@{'6' * 40}",)
    assert commit not in recipe.python
    assert "digest" not in vars(source.embeddings.tables["position"])  # type: ignore[union-attr]


def test_local_paths_are_told_apart(tmp_path: Path) -> None:
    assert sentence_snippets.sentence(opened_as(str(tmp_path)), "a", pieces=1, stripes=1).local
    assert not sentence_snippets.sentence(opened_as("sample:bert"), "a", pieces=1, stripes=1).local


def test_a_row_sends_its_recipes_whole(samples: Page) -> None:
    shown = (view.shown for view in views_of(samples, "start"))
    panel = next(one for one in shown if isinstance(one, Panel) and one.source is None)
    assert panel.recipe is not None
    row = PanelRow((), scope="x", render=False)
    long = replace(panel.recipe, python=panel.recipe.python * 200)
    for recipe in (panel.recipe, long):
        sent = json.loads(row.postprocess((replace(panel, recipe=recipe),))["row"])["panels"][0]["recipe"]
        assert sent["python"] == recipe.python
        assert sent["cite"] == recipe.citation(panel.title)
    assert "recipe" not in json.loads(row.postprocess((Panel("x", "x"),))["row"])["panels"][0]
