"""What a visitor's own browser remembers: the theme, and sources of their own, to be offered beside the presets.

It is one entry of the browser's storage. Nothing personal is in it: no path of a machine, no token, no sentence, no
word. What comes back from there was written by whoever can write there, and is read as carefully as an address.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gradio as gr

from hfposemb.errors import HfposembError
from hfposemb.tables.source_parser import parse_source
from hfposemb.tables.sources import BuiltinSource, HubSource, SampleSource

from ..components.browser_storage import STORE_JS
from ..components.events import QUIET
from ..limits import LONGEST_SOURCE

if TYPE_CHECKING:
    from .state import Session

MOST = 8
"""Sources that are remembered, the last chosen first."""

_JS = (
    STORE_JS
    + f"const most = {MOST};"
    + """
const known = () => { const { sources } = stored(); return Array.isArray(sources) ? sources.slice(0, most) : []; };
watch("value", () => {
  const chosen = JSON.parse(props.value || "[]");
  if (chosen.length) store({ sources: [...new Set([...chosen, ...known()])].slice(0, most) });
});
if (known().length) setTimeout(() => trigger("select", { sources: known() }), 300);
"""
)


def remembered(texts: object, presets: Sequence[str] = ()) -> list[str]:
    """Return those of some sources that may be remembered: of owners on the Hub, built-ins, samples; no presets."""
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


def bind(session: Session) -> None:
    """Let the browser remember the sources of a page, and offer those that it knows in every field of sources."""
    presets = (*session.first, *session.presets)
    line = gr.HTML("", html_template="", js_on_load=_JS, apply_default_css=False, elem_classes="unseen")

    def told(texts: list[str]) -> str:
        return json.dumps(remembered(list(texts), presets))

    def offer(event: gr.EventData, texts: list[str]) -> list[Any]:
        own = remembered((event._data or {}).get("sources"), presets)
        return [own, *session.told_fields(texts, own)]

    session.sources.change(told, session.sources, line, **QUIET)
    line.select(offer, session.sources, [session.own, *(field for field, _ in session.fields)], **QUIET)
