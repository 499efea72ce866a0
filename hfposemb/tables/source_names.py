"""Short display names of sources, such as the shortest path suffix that distinguishes a folder from the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePath

from .sources import LOCAL_PREFIXES

GENERIC = {"model", "checkpoint", "snapshot", "main", "latest"}
"""Folder names that do not identify a model."""


def names(sources: Sequence[str], *, widest: int = 0) -> list[str]:
    """Return a distinct display name for each source: a suffix of a path, anything else as written.

    With ``widest`` > 0, longer names are cut to their end, where model names differ.
    """
    written = [path_names(Path(text)) if text.startswith(LOCAL_PREFIXES) else (text,) for text in sources]
    found = distinct(sources, written)
    if not widest:
        return found
    return distinct(sources, [(name,) if len(name) <= widest else ("…" + name[1 - widest :], name) for name in found])


def path_names(path: PurePath) -> tuple[str, ...]:
    """Return candidate names of a folder or file, from the shortest to the whole path.

    For ``/runs/a/final/model`` they are ``final/model``, since ``model`` is generic, then ``a/…/model``.
    """
    folder = path.parent if path.suffix == ".safetensors" else path
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

    def chosen(place: int) -> str:
        return candidates[place][min(level[place], len(candidates[place]) - 1)]

    while True:
        shown = Counter(chosen(place) for place in _firsts(sources))
        rising = [
            place
            for place in range(len(sources))
            if shown[chosen(place)] > 1 and level[place] < len(candidates[place]) - 1
        ]
        if not rising:
            return _numbered(sources, [chosen(place) for place in range(len(sources))])
        for place in rising:
            level[place] += 1


def _firsts(sources: Sequence[str]) -> list[int]:
    """Return the index of each distinct source's first occurrence."""
    return list({source: place for place, source in reversed(list(enumerate(sources)))}.values())


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
