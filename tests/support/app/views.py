"""Every view of a page without a browser, and what its snippets give of what it shows."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache, lru_cache
from io import StringIO
from typing import Any

import gradio as gr
import pytest
from hfposemb.app import limits
from hfposemb.app.components.plot import Panel, PanelRow, Panels
from hfposemb.app.findings import training_run
from hfposemb.app.findings.compare import comparison
from hfposemb.app.findings.tokens import token_map
from hfposemb.app.jobs import measuring
from hfposemb.app.jobs.fetching import table_of
from hfposemb.app.session.background_jobs import umap_key
from hfposemb.app.session.library import shared_library
from hfposemb.app.session.opened import Opened
from hfposemb.app.session.state import Session

import hfposemb as hpe
from hfposemb import app
from hfposemb.comparison.aligned_maps import align_maps
from hfposemb.reports import html_tables
from hfposemb.text import number
from tests.conftest import FULL
from tests.support.app.shown import missing

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
    draws: list[tuple[Session, Any, list[Any]]]
    """The session that draws, what it draws with, and its inputs, the last of which is that of its lens, if any."""
    rows: int
    """Rows of panels that are drawn by none of these."""

    def views(self, tab: str, *, every: bool = True) -> list[View]:
        """Return every view of a tab with its first values, and with another choice of each control if ``every``.

        With FULL, each of the other choices is taken.
        """
        found: dict[Any, View] = {}
        opened = self.session.at(tab).open(self.session.first)
        for session, draw, inputs in self.draws:
            if session.key == tab:
                name = getattr(draw, "func", draw).__name__
                for values in self._values(inputs, every=every):
                    shown = opened
                    if session.lens is not None:
                        *values, seen = values
                        shown = session.lens.view(opened, seen)
                    for view in self._drawn(tab, draw, shown, values):
                        found.setdefault((name if not view.python else "", *_told(view)), view)
        return list(found.values())

    def _values(self, inputs: list[Any], *, every: bool) -> Iterator[list[Any]]:
        first = [True if one.value is False and isinstance(one, gr.State) else one.value for one in inputs]
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
    """Build the app, and take what every tab binds to its rows of panels; nothing is known that others computed."""
    shared_library.cache_clear()
    draws: list[tuple[Session, Any, list[Any]]] = []
    sessions: list[Session] = []
    filled: set[PanelRow] = set()

    def note(session: Session, on: Any, draw: Any, outputs: Any, *, inputs: Any = (), **more: Any) -> None:
        sessions.append(session)
        draws.append((session, draw, [*inputs, *([session.lens.state] if session.lens else [])]))
        filled.update(one for one in outputs if isinstance(one, PanelRow))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "when", note)
        with gr.Blocks() as blocks:
            app.panel(sources=sources)
    rows = {block for block in blocks.blocks.values() if isinstance(block, PanelRow)}
    return Page(sessions[0], draws, len(rows - filled))


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
    found = hpe.compare(*map(library.open, texts), words=measuring.WORDS, draws=3)
    library.results.put(comparison.comparison_key(texts, public=False), found)


def followed(page: Page) -> None:
    """Follow the runs of a page, as the tab's job would."""
    for run in training_run.runs_of(page.session.open(page.session.first)):
        wanted = (run, "position", training_run.PATTERN, limits.CHECKPOINTS)
        found = measuring.training(*wanted, limits.TRAINING_DRAWS, lambda share, doing: None)
        page.session.library.results.put(training_run.run_key(wanted, public=False), found)


@cache
def views_of(page: Page, tab: str) -> list[View]:
    """Return every view of a tab after its job, the same ones to every test."""
    if tab in (jobs_of := {"compare": compared, "training": followed}):
        jobs_of[tab](page)
    return page.views(tab)
