"""Display names of sources, and the sources offered on the page."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hfposemb.tables import source_names
from hfposemb.tables.source_parser import parse_source
from hfposemb.tables.sources import HubSource
from hfposemb.text import display

from ..jobs.lent import name_of

FIRST = ("sample:minilm", "sample:gpt2", "sinusoidal:512x384")
"""The sources at first paint; none needs a network. MiniLM has 512 positions of width 384, the demo 256 of 128."""


PRESETS = (
    *FIRST,
    "sample:bert",
    *("rotary:2048x64", "alibi:2048x12", "relative-sinusoidal:512x128"),
    *("random:256x128", "counting:256x128", "normalised:256x128", "sigmoid:256x128", "single-sine:256x128"),
)


_SHAPED = re.compile(r"[a-z-]+:[0-9]+x[0-9]+")

HUB_PRESETS = {text: "sample:gpt2" if "gpt" in text or "opt" in text else "sample:bert" for text in source_names.FAMOUS}
"""Hub models on offer, with the sample that replaces each when the Hub is unreachable."""


def lent_name(text: str) -> str | None:
    """Return the name of an object that a host has lent, ``None`` for any other source."""
    return name_of(text)


def from_hub(text: str) -> bool:
    """Return whether a source is a model of the Hub."""
    return name_of(text) is None and isinstance(parse_source(text), HubSource)


def short_name(text: str) -> str:
    """Return a short display name of a source, sanitised."""
    return short_names([text])[0]


def short_names(texts: Sequence[str]) -> list[str]:
    """Return short, sanitised, mutually distinct display names of sources shown together."""
    return source_names.short_names(texts, {text: name for text in texts if (name := name_of(text)) is not None})


def choices(shown: Sequence[str], others: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Return sources as choices of the source field, label and name: those ``shown`` are called as everywhere else.

    Of the ``others``, samples and famous models have a name as well, unless it is taken, and tables their size.
    """
    made = dict(zip(shown, short_names(shown), strict=True))
    for text in others:
        name, _, size = text.partition(":")
        label = short_name(text) if name in ("sample", "memory") or text in HUB_PRESETS else text
        label = f"{short_name(text)} {size.replace('x', ' × ')}" if _SHAPED.fullmatch(text) else label
        made.setdefault(text, label if label not in made.values() else text)
    return [(display(label, width=200), text) for text, label in made.items()]
