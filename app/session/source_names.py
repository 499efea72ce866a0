"""Display names of sources, and the sources offered on the page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from hfposemb.errors import (
    HfposembError,
)
from hfposemb.tables.source_names import distinct, path_names
from hfposemb.tables.source_parser import parse_source
from hfposemb.tables.sources import BuiltinSource, HubSource, LocalSource, SampleSource
from hfposemb.text import display

from ..jobs.lent import PREFIX, name_of

FIRST = ("sample:minilm", "sample:gpt2", "sinusoidal:512x384")
"""The sources at first paint; none needs a network. MiniLM has 512 positions of width 384, the demo 256 of 128."""


PRESETS = (
    *FIRST,
    "sample:bert",
    *("rotary:2048x64", "alibi:2048x12"),
    *("random:256x128", "counting:256x128", "normalised:256x128", "sigmoid:256x128", "single-sine:256x128"),
)


_SHAPED = re.compile(r"[a-z-]+:[0-9]+x[0-9]+")

HUB_PRESETS = {
    "openai-community/gpt2": ("GPT-2, Hub", "sample:gpt2"),
    "google-bert/bert-base-uncased": ("BERT base, Hub", "sample:bert"),
    "FacebookAI/roberta-base": ("RoBERTa base, Hub", "sample:bert"),
    "distilbert/distilbert-base-uncased": ("DistilBERT base, Hub", "sample:bert"),
    "albert/albert-base-v2": ("ALBERT base v2, Hub", "sample:bert"),
    "facebook/opt-125m": ("OPT 125M, Hub", "sample:gpt2"),
}
"""Hub models on offer: the display name, and the sample that replaces it when the Hub is unreachable."""


def lent_name(text: str) -> str | None:
    """Return the name of an object that a host has lent, ``None`` for any other source."""
    return name_of(text)


def short_name(text: str) -> str:
    """Return a short display name of a source, sanitised."""
    return short_names([text])[0]


def short_names(texts: Sequence[str]) -> list[str]:
    """Return short, sanitised, mutually distinct display names of sources shown together."""
    return distinct(texts, [[display(name, width=28) for name in _called(text)] for text in texts])


def _called(text: str) -> tuple[str, ...]:
    """Return candidate names of a source, shortest first."""
    if (name := name_of(text)) is not None:
        return (name, text)
    try:
        source = parse_source(text)
    except HfposembError:
        return (text,)
    match source:
        case SampleSource(name, step):
            called = {"bert": "Demo BERT", "gpt2": "Demo GPT-2", "minilm": "MiniLM"}.get(name, name)
            return (called if step is None else f"{called} step {step:,}", text)
        case BuiltinSource(name, rows, width):
            called = {"sinusoidal": "Sinusoid", "random": "Untrained", "alibi": "ALiBi"}.get(name, name.capitalize())
            called = called if not source.options else f"{called} {' '.join(source.options.values())}"
            return (called, f"{called} {rows:,} × {width:,}", text)
        case HubSource(repo, revision, inside):
            short = repo.rpartition("/")[2]
            longer = f"{short}/{inside}" if inside else short
            pinned = longer if revision is None else f"{longer}@{revision[:12]}"
            return tuple(dict.fromkeys((short, longer, pinned, repo, text)))
        case LocalSource(path):
            return path_names(path)


def choices(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return sources as choices of the source field; labels that would be ambiguous are the full names."""
    made = [choice(text) for text in dict.fromkeys(texts)]
    often = Counter(label for label, _ in made)
    return [(label if often[label] == 1 else display(text, width=200), text) for label, text in made]


def choice(text: str) -> tuple[str, str]:
    """Return a source as a choice of the source field: label and name."""
    name = short_name(text)
    if text.startswith(("sample:", PREFIX)):
        return name, text
    if text in HUB_PRESETS:
        return HUB_PRESETS[text][0], text
    if _SHAPED.fullmatch(text):
        return f"{name} {text.partition(':')[2].replace('x', ' × ')}", text
    return (text if len(text) <= 36 else f"…{display(text[-35:], width=35)}"), text
