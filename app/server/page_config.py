"""The page's configuration without its repetitions, which a few lines of script restore in the browser.

Gradio writes every property of each component and listener, and most are the same for all of a kind. Here each kind
states its most frequent values once, and an object only those that differ. ``app/static/filled_config.js`` restores
the configuration before Gradio's script reads it. ``/config``, which clients read, stays as Gradio writes it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from hfposemb.figures.javascript import joined

FOLDER = Path(__file__).parents[1] / "static"

LISTS = ("components", "dependencies")
"""What of a configuration is a list of similar objects."""

_START, _END = "<script>window.gradio_config = ", ";</script>"
_MARKUP = re.compile("<(?=[!/sS])")
"""Starts of what would end a script in HTML, or change how its end is found."""


def with_short_config(page: str) -> str:
    """Return a page whose configuration repeats nothing; one without components, such as a login, stays as it is."""
    before, _, rest = page.partition(_START)
    config, ended, after = rest.partition(_END)
    if not ended or (script := _script(config)) is None:
        return page
    return f"{before}<script>{script}</script>{after}"


@lru_cache(maxsize=4)
def _script(config: str) -> str | None:
    """Return the script that sets the configuration; visitors by one address get the same one."""
    whole = json.loads(config)
    if not all(whole.get(name) for name in LISTS):
        return None
    short = ",".join(_MARKUP.sub(r"\\u003c", json.dumps(part, **_COMPACT)) for part in shortened(whole))
    return f"{filling()}window.gradio_config = filledConfig({short});"


def shortened(config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]:
    """Return the configuration without what objects share with others of their kind, and what they share.

    Args:
        config: A configuration of Gradio, with ``LISTS``.

    Returns:
        The configuration, in whose lists each object is a pair: the number of its kind and its own properties. And
        for each list what the objects of each kind share.

    Examples:
        >>> components = [{"id": 1, "type": "html", "props": {"a": 0}}, {"id": 2, "type": "html", "props": {"a": 0}}]
        >>> short, shared = shortened({"components": components, "dependencies": []})
        >>> short["components"], shared["components"]
        ([[0, {}], [0, {'id': 2}]], [{'id': 1, 'type': 'html', 'props': {'a': 0}}])
    """
    short: dict[str, Any] = dict(config)
    shared: dict[str, list[dict[str, Any]]] = {}
    for name in LISTS:
        short[name], shared[name] = _shared(config[name])
    return short, shared


def _shared(objects: Sequence[Mapping[str, Any]]) -> tuple[list[Any], list[dict[str, Any]]]:
    kinds: dict[object, list[Mapping[str, Any]]] = {}
    for one in objects:
        kinds.setdefault(_kind(one), []).append(one)
    common = {kind: _most_frequent(ones) for kind, ones in kinds.items()}
    numbers = {kind: number for number, kind in enumerate(kinds)}
    return [[numbers[kind], _own(one, common[kind])] for one in objects for kind in (_kind(one),)], [*common.values()]


def _kind(one: Mapping[str, Any]) -> object:
    """Return what objects with the same properties have in common: the class of a component."""
    return one.get("type"), one.get("component_class_id")


def _most_frequent(ones: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the most frequent value of each property that all objects have, by itself for those in ``props``."""
    found: dict[str, Any] = {}
    for name in (name for name in ones[0] if all(name in one for one in ones)):
        values = [one[name] for one in ones]
        if name == "props" and all(isinstance(value, dict) for value in values):
            found[name] = _most_frequent(values)
        else:
            written = [repr(value) for value in values]  # tells 1 from True
            found[name] = values[written.index(Counter(written).most_common(1)[0][0])]
    return found


def _own(one: Mapping[str, Any], common: Mapping[str, Any]) -> dict[str, Any]:
    own: dict[str, Any] = {}
    for name, value in one.items():
        if name not in common or repr(value) != repr(common[name]):
            own[name] = _own(value, common[name]) if name == "props" and name in common else value
    return own


_COMPACT: dict[str, Any] = {"separators": (",", ":"), "ensure_ascii": False}


@cache
def filling() -> str:
    """Return the script that restores the configuration."""
    return joined("filled_config.js", (FOLDER,))
