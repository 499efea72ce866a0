"""The address of the page says what it shows: a copied link shows the same again, and back and forward work.

Each tab names its controls with ``session.keep``. ``bind`` writes what differs from the first paint behind the ``?`` of
the address whenever one changes, and reads it back when the page is opened, or the visitor goes back or forward. Names
and values come from whoever wrote the link: what no control can have is passed over.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlencode
from uuid import uuid4

import gradio as gr

from ..components.events import QUIET
from ..limits import LONGEST_SOURCE, MOST_SOURCES

LONGEST_ADDRESS = 8_192
MODELS, TAB = "models", "tab"

Component = Any  # Gradio's classes have no common one that is typed
Choices = list[tuple[str, str]]
Read = Callable[[str], Any]
"""Reads a value from its text; raises ``ValueError`` for what the control cannot have."""


@dataclass(frozen=True, eq=False)
class Control:
    """One control of a tab: its ``name`` in the address, and how its value is written and read.

    ``choices`` are those it has with the texts of some sources, where they come and go with them.
    """

    name: str
    component: Component
    first: Any
    read: Read
    write: Callable[[Any], str] = str
    choices: Callable[[Sequence[str]], Choices] | None = None


def of_sources(texts: Sequence[str]) -> Choices:
    """Return the choices of a control that names one of the sources on the page."""
    from .source_names import short_names

    return list(zip(short_names(texts), texts, strict=True))


def one_of(values: Sequence[Any]) -> Read:
    """Return what reads one of some values by its text."""
    named = {str(value): value for value in values}

    def read(text: str) -> Any:
        if text not in named:
            raise ValueError(text)
        return named[text]

    return read


def number_up_to(most: float) -> Read:
    """Return what reads a number from 0 to ``most``, whole where it is written so."""

    def read(text: str) -> float:
        if len(text) > 20 or not text.isascii():
            raise ValueError(text[:40])
        value = int(text) if text.isdecimal() else float(text)
        if not 0 <= value <= most:
            raise ValueError(text)
        return value

    return read


def text_up_to(longest: int) -> Read:
    """Return what reads a text of so many characters at most."""

    def read(text: str) -> str:
        if len(text) > longest:
            raise ValueError(text[:40])
        return text

    return read


def numbers_by_source(text: str) -> dict[str, int]:
    """Read a whole number for each of some sources, as ``json.dumps`` writes them. Raises ``ValueError``."""
    try:
        found = json.loads(text) if len(text) <= MOST_SOURCES * (LONGEST_SOURCE + 20) else None
    except (ValueError, RecursionError) as error:
        raise ValueError(text[:40]) from error
    if not isinstance(found, dict) or not all(type(number) is int and 0 <= number < 10**6 for number in found.values()):
        raise ValueError(text[:40])
    return found


def control(name: str, component: Component, **more: Any) -> Control:
    """Return the control that a Gradio component is; its kind says what it can have, unless ``read`` does."""
    if "read" not in more:
        match component:
            case gr.Radio() | gr.Dropdown():
                more["read"] = one_of([value for _, value in component.choices])
            case gr.Checkbox():
                more["read"] = one_of([True, False])
            case gr.Slider():
                more["read"] = number_up_to(component.maximum)
            case _:
                more["read"] = text_up_to(getattr(component, "max_length", None) or 400)
    return Control(name, component, component.value, **more)


def written(values: Mapping[str, str], models: Sequence[str], tab: str) -> str:
    """Return the query of an address: the sources, the tab, and what differs from the first paint."""
    named = [*((MODELS, text) for text in models), *([(TAB, tab)] if tab else []), *values.items()]
    return urlencode(named)


def read(query: str) -> dict[str, list[str]]:
    """Return the values by name of a query that somebody wrote; nothing of one that is too long or broken."""
    if len(query) > LONGEST_ADDRESS:
        return {}
    try:
        return parse_qs(query.removeprefix("?"), max_num_fields=64)
    except ValueError:
        return {}


# The page's address may have more in it than ours: only what is named here is replaced. While an address is being read
# what the page said before does not count; changes that follow each other at once are one step back.
_JS = """
const names = %s;
const addressOf = (query) => location.pathname + (`${query}` && "?" + query) + location.hash;
let moved = 0, reading = false, restored = "";
const show = () => {
  reading = true;
  trigger("select", { query: location.search.slice(0, 9000) });
};
watch("value", () => {
  const said = JSON.parse(props.value);
  if (reading && said.restored === restored) return;
  if (said.restored !== restored) moved = Date.now();
  reading = false;
  restored = said.restored;
  const wanted = new URLSearchParams(said.query), all = new URLSearchParams(location.search);
  const ours = new URLSearchParams([...all].filter(([name]) => names.includes(name)));
  if (wanted.toString() === ours.toString()) return;
  for (const name of names) all.delete(name);
  for (const [name, value] of wanted) all.append(name, value);
  history[Date.now() - moved < 1500 ? "replaceState" : "pushState"](history.state, "", addressOf(all));
  moved = Date.now();
});
window.addEventListener("popstate", () => element.isConnected && show());
// Once the first tab has come to the screen, which says so to the server.
if (names.some((name) => new URLSearchParams(location.search).has(name))) setTimeout(show, 300);
"""


def bind(session: Any, keys: Sequence[str]) -> None:
    """Bind the address to the sources, the tab and every control that was kept, of a page with these tabs."""
    controls: list[Control] = session.controls
    names = [MODELS, TAB, *(one.name for one in controls)]
    script = _JS % names
    line = gr.HTML("", html_template="", js_on_load=script, apply_default_css=False, elem_classes="unseen")

    def say(restored: str, texts: list[str], active: str, *values: Any) -> str:
        differs = {
            one.name: one.write(value)
            for one, value in zip(controls, values, strict=True)
            if value is not None and value != one.first
        }
        models = () if list(texts) == list(session.first) else texts
        query = written(differs, models, "" if active == keys[0] else active)
        return json.dumps({"query": query, "restored": restored})

    def show(event: gr.EventData, own: list[str]) -> list[Any]:
        found = read(str((event._data or {}).get("query", "")))
        texts = [text for text in dict.fromkeys(found.get(MODELS, ())) if text.strip() and len(text) <= LONGEST_SOURCE]
        texts = texts[:MOST_SOURCES] or list(session.first)
        tab = next((key for key in found.get(TAB, ()) if key in keys), keys[0])
        updates = [_update(one, found[one.name][0] if one.name in found else None, texts) for one in controls]
        values = dict(zip(names[2:], updates, strict=True))
        folds = [gr.update(open=values[name]) for name in session.folds]
        # The fields too, not only by what follows from the sources: one that comes to the screen says what it holds.
        return [texts, *session.show(tab), *updates, *folds, *session.told_fields(texts, own), uuid4().hex]

    components = [one.component for one in controls]
    gr.on(
        [one.change for one in (session.restored, session.sources, session.active, *components)],
        say,
        [session.restored, session.sources, session.active, *components],
        line,
        trigger_mode="always_last",
        **QUIET,
    )
    fields = [field for field, _ in session.fields]
    shown = [session.sources, session.tabs, session.active, *components, *session.folds.values(), *fields]
    line.select(show, session.own, [*shown, session.restored], **QUIET)


def _update(one: Control, text: str | None, texts: Sequence[str]) -> Any:
    """Return what a control is set to: what the address says, else what it was at first."""
    value, choices = one.first, None if one.choices is None else one.choices(texts)
    if text is not None:
        with suppress(ValueError):
            value = (one.read if choices is None else one_of([other for _, other in choices]))(text)
    if isinstance(one.component, gr.State):
        return value
    if choices is None:
        return gr.update(value=value)
    known = value in [other for _, other in choices]
    return gr.update(choices=choices, value=value if known else next((other for _, other in choices), None))
