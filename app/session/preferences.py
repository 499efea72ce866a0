"""What the visitor's browser remembers: the theme, and the visitor's own sources, offered next to the presets.

It is one entry of the browser's local storage. Nothing personal is stored: no local path, token, sentence or word, and
of somebody who is signed in no model that others have not opened. The stored value is untrusted and validated like a
URL.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gradio as gr

from hfposemb.errors import HfposembError
from hfposemb.tables.source_parser import parse_source
from hfposemb.tables.sources import BuiltinSource, HubSource, SampleSource

from ..components.events import EACH, QUIET
from ..components.happened import Happened
from ..components.page_script import on_load
from ..limits import LONGEST_SOURCE
from .accounts import visit

if TYPE_CHECKING:
    from .source_bar import SourceBar
    from .state import Session

MOST = 8
"""Number of sources that are remembered, most recent first."""


def remembered(texts: object, presets: Sequence[str] = ()) -> list[str]:
    """Return the sources that may be remembered: Hub models with an owner, built-ins and samples, except presets."""
    found = []
    for text in texts if isinstance(texts, list) else ():
        try:
            source = parse_source(text) if isinstance(text, str) and len(text) <= LONGEST_SOURCE else None
        except HfposembError:
            continue
        # A name without an owner may be a token that was pasted into the wrong field.
        owned = isinstance(source, HubSource) and "/" in source.repo
        if (owned or isinstance(source, BuiltinSource | SampleSource)) and text not in presets:
            found.append(text)
    return list(dict.fromkeys(found))[:MOST]


def _public(text: str, session: Session) -> bool:
    """Return whether a source needs nobody's token, as far as is known."""
    return not isinstance(parse_source(text), HubSource) or session.library.shares(text)


def bind(session: Session, bar: SourceBar) -> None:
    """Let the browser remember the sources of a page, and offer remembered ones in its bar."""
    presets = (*session.first, *session.presets)
    script = on_load("rememberSources", most=MOST)
    line = gr.HTML("", html_template="", js_on_load=script, apply_default_css=False, elem_classes="unseen")

    def told(texts: list[str]) -> str:
        found = remembered(list(texts), presets)
        return json.dumps(found if visit().account is None else [text for text in found if _public(text, session)])

    def offer(event: Happened, texts: list[str]) -> list[Any]:
        own = remembered(event.get("sources"), presets)
        # Not the field's value: an address may be setting the sources at this moment.
        return [own, bar.offering(texts, own)]

    session.sources.change(told, session.sources, line, **QUIET)
    line.select(offer, session.sources, [session.own, bar.field], **EACH)
