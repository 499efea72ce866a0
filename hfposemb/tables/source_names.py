"""What sources are called where there is little room: a folder by its last part that tells it from the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from .sources import LOCAL_PREFIXES

GENERIC = {"model", "checkpoint", "snapshot", "main", "latest"}
"""Names of folders that tell nobody anything."""


def names(sources: Sequence[str], *, widest: int = 0) -> list[str]:
    """Return a name for each of the sources: of a path its end, anything else as it is written; no two are equal.

    Of names longer than ``widest``, if that is given, the end is kept, where names of models differ.
    """
    written = [path_names(Path(text)) if text.startswith(LOCAL_PREFIXES) else (text,) for text in sources]
    found = distinct(sources, written)
    if not widest:
        return found
    return distinct(sources, [(name,) if len(name) <= widest else ("…" + name[1 - widest :], name) for name in found])


def path_names(path: Path) -> tuple[str, ...]:
    """Return what a folder or file could be called, the shortest first and the whole path last.

    Of ``/runs/a/final/model`` that is ``final/model``, for ``model`` says nothing, then ``a/…/model``.
    """
    folder = path.parent if path.suffix == ".safetensors" else path
    parts = [part for part in folder.absolute().parts if part not in ("/", "\\")]
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
    """Choose the first of each source's candidates by which it differs from all other sources.

    The same source twice has the same name. Where candidates do not suffice, a number is added.
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
    """Return where each source stands first."""
    return list({source: place for place, source in reversed(list(enumerate(sources)))}.values())


def _numbered(sources: Sequence[str], found: Sequence[str]) -> list[str]:
    """Add a number to a name that another source has already."""
    owners: dict[str, str] = {}
    for place, source in enumerate(sources):
        name, number = found[place], 1
        while owners.get(name, source) != source:
            number += 1
            name = f"{found[place]} ({number})"
        owners[name] = source
    by_source = {source: name for name, source in reversed(owners.items())}
    return [by_source[source] for source in sources]
