"""Short display names of sources, such as the shortest path suffix that distinguishes a folder from the others."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from types import MappingProxyType

from ..errors import HfposembError
from ..text import display, named
from .source_parser import parse_source
from .sources import LOCAL_PREFIXES, BuiltinSource, HubSource, LocalSource, SampleSource

GENERIC = {"model", "checkpoint", "snapshot", "main", "latest"}
"""Folder names that do not identify a model."""

FAMOUS: Mapping[str, str] = {
    "openai-community/gpt2": "GPT-2",
    "google-bert/bert-base-uncased": "BERT",
    "FacebookAI/roberta-base": "RoBERTa",
    "distilbert/distilbert-base-uncased": "DistilBERT",
    "albert/albert-base-v2": "ALBERT",
    "facebook/opt-125m": "OPT 125M",
}
"""What models of the Hub are called."""

WIDEST = 28
"""Characters of a name in app and reports."""


def names(sources: Sequence[str], *, widest: int = 0) -> list[str]:
    """Return a distinct display name for each source: a suffix of a path, anything else as written.

    With ``widest`` > 0, longer names are cut to their end, where model names differ.
    """
    written = [path_names(Path(text)) if text.startswith(LOCAL_PREFIXES) else (text,) for text in sources]
    found = distinct(sources, written)
    if not widest:
        return found
    return distinct(sources, [(name,) if len(name) <= widest else ("…" + name[1 - widest :], name) for name in found])


def short_names(sources: Sequence[str], given: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """Return the names that app and reports show for sources beside each other: short, sanitised and distinct.

    Args:
        sources: The sources, as they are written.
        given: Names of those that are no text, such as objects in memory.
    """
    called = [(given[text], text) if text in given else _called(text) for text in sources]
    found = distinct(sources, [[named(name) for name in each] for each in called])
    # Long names keep the parts that the fewest others have.
    parts = {name: _PART.findall(name) for name in found if len(name) > WIDEST}
    often = Counter(part for each in parts.values() for part in set(each))
    return distinct(sources, [(_shortened(parts[name], often) if name in parts else name,) for name in found])


def _called(text: str) -> tuple[str, ...]:
    """Return candidate names of a source, shortest first."""
    try:
        source = parse_source(text)
    except HfposembError:
        return (text,)
    match source:
        case SampleSource(name, step):
            called = {"bert": "Demo BERT", "gpt2": "Demo GPT-2", "minilm": "MiniLM"}.get(name, name)
            return (called if step is None else f"{called} step {step:,}", text)
        case BuiltinSource(name, rows, width):
            called = {
                "sinusoidal": "Sinusoid",
                "relative-sinusoidal": "Relative sinusoid",
                "random": "Untrained",
                "alibi": "ALiBi",
            }.get(name, name.capitalize())
            called = called if not source.options else f"{called} {' '.join(source.options.values())}"
            return (called, f"{called} {rows:,} × {width:,}", text)
        case HubSource(repo, revision, inside):
            short = repo.rpartition("/")[2]
            longer = f"{short}/{inside}" if inside else short
            pinned = longer if revision is None else f"{longer}@{revision[:12]}"
            return tuple(dict.fromkeys((FAMOUS.get(text, short), short, longer, pinned, repo, text)))
        case LocalSource(path):
            return path_names(path)


_WEIGHTS = re.compile(r"(\w+_)?model([-.].*)?\.safetensors")
"""Names that libraries give to the weights of any model, which the folder tells apart."""

_PART = re.compile(r"[^-_./ ]{1,8}[-_./ ]*|[-_./ ]+")


def _shortened(parts: Sequence[str], often: Mapping[str, int]) -> str:
    """Return parts of a name, those that most other names have replaced by ``…``, until it is short enough."""
    rare, last = min(often[part] for part in parts), len(parts) - 1
    own = {place for place, part in enumerate(parts) if often[part] == rare}

    def weight(place: int) -> tuple[int, bool, int]:
        return often[parts[place]], place + 1 not in own and place not in (0, last), -place

    kept: set[int] = set()
    for place in sorted(range(len(parts)), key=weight):
        if len(_joined(parts, kept | {place})) <= WIDEST:
            kept.add(place)
    return _joined(parts, kept) if kept else display(parts[0], width=WIDEST)


def _joined(parts: Sequence[str], kept: set[int]) -> str:
    """Join the parts at some places, with one ``…`` for what is left out between them."""
    shown = [part if place in kept else "…" for place, part in enumerate(parts)]
    return "".join(one for place, one in enumerate(shown) if one != "…" or shown[place - 1 : place] != ["…"])


def path_names(path: PurePath) -> tuple[str, ...]:
    """Return candidate names of a folder or file, from the shortest to the whole path.

    For ``/runs/a/final/model`` they are ``final/model``, since ``model`` is generic, then ``a/…/model``.
    """
    folder = path.parent if _WEIGHTS.fullmatch(path.name) else path
    parts = [part for part in Path(folder).absolute().parts if part not in ("/", "\\")]
    if not parts:
        return (str(path),)
    *before, last = parts
    found = [] if last in GENERIC and before else [last]
    for count, part in enumerate(reversed(before)):
        found.append(f"{part}/{last}" if count == 0 else f"{part}/…/{last}")
    if folder != path:
        found.append(f"{last}/{path.name}")
    return (*found, str(path))


def distinct(sources: Sequence[str], candidates: Sequence[Sequence[str]]) -> list[str]:
    """Choose for each source its first candidate that differs from the names of all other sources.

    Equal sources get equal names. A number is appended if the candidates do not suffice.
    """
    level = [0] * len(sources)
    firsts = {source: place for place, source in reversed(list(enumerate(sources)))}.values()

    def chosen(place: int) -> str:
        return candidates[place][min(level[place], len(candidates[place]) - 1)]

    while True:
        shown = Counter(map(chosen, firsts))
        rising = [
            place
            for place in range(len(sources))
            if shown[chosen(place)] > 1 and level[place] < len(candidates[place]) - 1
        ]
        if not rising:
            return _numbered(sources, [chosen(place) for place in range(len(sources))])
        for place in rising:
            level[place] += 1


def _numbered(sources: Sequence[str], found: Sequence[str]) -> list[str]:
    """Append a number to names that another source already has."""
    owners: dict[str, str] = {}
    for place, source in enumerate(sources):
        name, number = found[place], 1
        while owners.get(name, source) != source:
            number += 1
            name = f"{found[place]} ({number})"
        owners[name] = source
    by_source = {source: name for name, source in reversed(owners.items())}
    return [by_source[source] for source in sources]
