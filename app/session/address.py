"""Page state in the URL, so that links, Back and Forward restore what was shown.

Each tab registers its controls with ``session.keep``. ``bind`` writes every value that differs from the first paint
into the query string whenever a control changes, and reads it back when the page opens or the visitor goes back or
forward. Names and values in a link are untrusted: values that a control cannot have are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlencode
from uuid import uuid4

import gradio as gr

from hfposemb.checkpoints.access import Access, local_path
from hfposemb.errors import SourceError
from hfposemb.tables.source_parser import parse_source
from hfposemb.tables.sources import LocalSource

from ..components.events import EACH, QUIET, UNFOLDED
from ..components.happened import Happened
from ..components.page_script import on_load
from ..limits import LONGEST_SOURCE, MOST_SOURCES

LONGEST_ADDRESS = 8_192
MODELS, TAB = "models", "tab"
HOPS = 2
"""Events between what a visitor does and the last control that it sets, such as a click on a word and its field."""

Component = Any  # Gradio's component classes have no typed common base
Choices = list[tuple[str, str]]
Read = Callable[[str], Any]
"""Parses a value from text; raises ``ValueError`` for a value that the control cannot have."""


@dataclass(frozen=True, eq=False)
class Control:
    """A control of a tab: its ``name`` in the URL, and how its value is serialised and parsed.

    ``choices`` computes the choices from the current sources, for controls whose choices depend on them.
    """

    name: str
    component: Component
    first: Any
    read: Read
    write: Callable[[Any], str] = str
    choices: Callable[[Sequence[str]], Choices] | None = None


def of_sources(texts: Sequence[str]) -> Choices:
    """Return the choices of a control that selects one of the sources on the page."""
    from .source_names import short_names

    return list(zip(short_names(texts), texts, strict=True))


def one_of(values: Sequence[Any]) -> Read:
    """Return a parser that maps ``str(value)`` back to one of ``values``."""
    named = {str(value): value for value in values}

    def read(text: str) -> Any:
        if text not in named:
            raise ValueError(text)
        return named[text]

    return read


def number_up_to(most: float) -> Read:
    """Return a parser of numbers from 0 to ``most``; decimal digits alone give an ``int``."""

    def read(text: str) -> float:
        if len(text) > 20 or not text.isascii():
            raise ValueError(text[:40])
        value = int(text) if text.isdecimal() else float(text)
        if not 0 <= value <= most:
            raise ValueError(text)
        return value

    return read


def text_up_to(longest: int) -> Read:
    """Return a parser of texts of at most ``longest`` characters."""

    def read(text: str) -> str:
        if len(text) > longest:
            raise ValueError(text[:40])
        return text

    return read


def numbers_by_source(text: str) -> dict[str, int]:
    """Parse a JSON object of source names and whole numbers from 0 to 999,999. Raises ``ValueError``."""
    try:
        found = json.loads(text) if len(text) <= MOST_SOURCES * (LONGEST_SOURCE + 20) else None
    except (ValueError, RecursionError) as error:
        raise ValueError(text[:40]) from error
    if not isinstance(found, dict) or not all(type(number) is int and 0 <= number < 10**6 for number in found.values()):
        raise ValueError(text[:40])
    return found


def control(name: str, component: Component, **more: Any) -> Control:
    """Return the ``Control`` of a Gradio component; the component's type determines ``read`` unless it is given."""
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
    """Return the query string: the sources, the tab, and the values that differ from the first paint."""
    named = [*((MODELS, text) for text in models), *([(TAB, tab)] if tab else []), *values.items()]
    return urlencode(named, errors="replace")  # half a character that was pasted


def read(query: str) -> dict[str, list[str]]:
    """Parse an untrusted query string; empty if it is too long or malformed."""
    if len(query) > LONGEST_ADDRESS:
        return {}
    try:
        return parse_qs(query.removeprefix("?"), max_num_fields=64)
    except ValueError:
        return {}


def unfolding(found: Mapping[str, list[str]], opens: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the values of a link, which opens the accordions of the controls that it sets."""
    return {opens[name]: [UNFOLDED] for name in found if name in opens} | dict(found)


def sources_of(values: Sequence[str], *, public: bool) -> Iterator[str]:
    """Yield the sources of a link once each: ``models=a&models=b``, or ``models=a,b`` unless that is a local path."""
    parts: list[str] = []
    for value in values:
        parts += [value] if "," not in value or (not public and _exists(value)) else value.split(",")
    for text in dict.fromkeys(parts):
        if text.strip() and len(text) <= LONGEST_SOURCE:
            yield text


def _exists(text: str) -> bool:
    with suppress(OSError, ValueError, SourceError):
        source = parse_source(text)
        return isinstance(source, LocalSource) and local_path(source, Access()).exists()
    return False


@dataclass(frozen=True)
class Address:
    """What writes the URL: the component ``line``, and the function that returns its value from those of ``told``."""

    line: gr.HTML
    told: Sequence[Component]
    say: Callable[..., str]


def bind(session: Any, bar: Any, keys: Sequence[str], late: Sequence[Any] = ()) -> Address:
    """Bind the URL to the sources, the active tab and every registered control of a page that has the tabs ``keys``.

    The controls of the sessions ``late`` are those of tabs that are drawn later: they take their values from ``view``.
    """
    controls: list[Control] = session.controls
    later: list[Control] = [one for tab in late for one in tab.controls]
    opens = {name: fold for one in (session, *late) for name, fold in one.opens.items()}
    names = [MODELS, TAB, *(one.name for one in (*controls, *later))]
    script = on_load("followAddress", names=names)  # other query parameters of the page are preserved
    line = gr.HTML("", html_template="", js_on_load=script, apply_default_css=False, elem_classes="unseen")

    def say(restored: str, texts: list[str], active: str, view: dict[str, str], *values: Any, asked: str = "") -> str:
        known = {**differing(controls, values), **view}
        differs = {name: known[name] for name in names if name in known}
        models = () if list(texts) == list(session.first) else list(filter(None, texts))
        query = written(differs, models, "" if active == keys[0] else active)
        return json.dumps({"query": query, "restored": restored, "asked": asked})

    def answer(*values: Any) -> str:
        return say(*values, asked=uuid4().hex)

    def show(event: Happened, own: list[str]) -> list[Any]:
        found = unfolding(read(event.get("query") or ""), opens)
        texts, beyond = session.fitting(list(sources_of(found.get(MODELS, ()), public=session.public)))
        texts = texts or list(session.first)
        tab = next((key for key in found.get(TAB, ()) if key in keys), keys[0])
        told = {name: values[0] for name, values in found.items()}
        view = differing(later, [value_of(one, told, texts) for one in later])
        set_by_link = taken(session, told, texts)
        return [texts, beyond, *session.show(tab), view, *set_by_link, *bar.updates(texts, own), uuid4().hex]

    components = [one.component for one in controls]
    told = [session.restored, session.sources, session.active, session.view, *components]
    changes = [one.change for one in told if one is not session.view]  # who changes that writes the URL as well
    gr.on(changes, say, told, line, trigger_mode="always_last", **QUIET)
    # Events are answered in order: what was done before the link was asked for, and what that sets, is answered first.
    settled = line.submit(lambda: None, **QUIET)
    for _ in range(HOPS):
        settled = settled.then(lambda: None, **QUIET)
    settled.then(answer, told, line, **QUIET)
    kept = [session.sources, session.beyond, session.tabs, session.active, session.view]
    shown = [*kept, *components, *session.folds.values(), *bar.shown]
    line.select(show, session.own, [*shown, session.restored], **EACH)
    return Address(line, told, say)


def differing(controls: Sequence[Control], values: Sequence[Any]) -> dict[str, str]:
    """Return what controls hold that differs from the first paint, as text by their names."""
    pairs = zip(controls, values, strict=True)
    return {one.name: one.write(value) for one, value in pairs if value is not None and value != one.first}


def value_of(one: Control, told: Mapping[str, str], texts: Sequence[str]) -> Any:
    """Return the value of a control: the one in the URL if valid, otherwise its initial value."""
    if one.name in told:
        with suppress(ValueError):
            read = one.read if one.choices is None else one_of([other for _, other in one.choices(texts)])
            return read(told[one.name])
    return one.first


def taken(session: Any, told: Mapping[str, str], texts: Sequence[str]) -> list[Any]:
    """Return the updates of the controls of a session, then of its folds, to what a URL holds."""
    values = {one.name: value_of(one, told, texts) for one in session.controls}
    folds = [gr.update(open=values[name]) for name in session.folds]
    states = [isinstance(one.component, gr.State) for one in session.controls]
    updates = zip(states, values.values(), strict=True)
    return [*(value if state else gr.update(value=value) for state, value in updates), *folds]
