"""Which tables every class of a type stores: ``python -m tests.architectures.needed`` writes it, ten minutes."""

from __future__ import annotations

import json
import math
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

import hfposemb as hpe
from hfposemb.errors import MissingTableError
from hfposemb.models.architectures.tied_types import PARTS
from tests.architectures.survey import model_types
from tests.architectures.tiny import _classes, configurations, randomise, workplace

ROOT = Path(__file__).parents[2]
DATA = ROOT / "hfposemb" / "models" / "architectures" / "needed_tables.json"
LARGEST = 60_000_000
SECONDS = 240
JOINED = ("encoder-decoder", "vision-encoder-decoder", "speech-encoder-decoder", "vision-text-dual-encoder", "rag")
"""Types that join models of any type, so that no table belongs to all of them."""

RELATIVE = ("relative-bias", "relative-table")
"""Kinds of positions that are stored and are no table with a row for each."""

Roles = dict[str, frozenset[str]]


def roles_of(model_type: str) -> tuple[str, Roles]:
    """Build, save and extract each class of a type; return the roles of the tables that it stores, by class."""
    found: Roles = {}
    try:
        with workplace(SECONDS):
            for config in configurations(model_type):
                for kind in _classes(config):
                    if kind.__name__ not in found and not kind.__name__.endswith(PARTS):
                        _add(found, kind, config)
                if found:
                    break
    except Exception:  # noqa: BLE001 - a type without a configuration, or too slow: nothing is said of it
        return model_type, {}
    return model_type, found


def _add(found: Roles, kind: Any, config: Any) -> None:
    try:
        with torch.device("meta"):
            size = sum(math.prod(one.shape) for one in kind(config).parameters())
        if not 0 < size < LARGEST:
            return
        model = kind(config).eval()
        randomise(model)
        with tempfile.TemporaryDirectory(prefix="needed-") as folder:
            model.save_pretrained(folder)
            made = hpe.extract(folder)
        stored = {key for key, table in made.tables.items() if table.provenance.tensor}
        stored |= {key for key, one in made.positions.items() if one.kind in RELATIVE}
        found[kind.__name__] = frozenset(stored)
    except MissingTableError:
        found[kind.__name__] = frozenset()
    except TimeoutError:
        raise
    except Exception:  # noqa: BLE001 - what transformers cannot build or save is not ours to judge
        return


def text(rows: Iterable[tuple[str, Roles]]) -> str:
    """Return the data as JSON, a line for each set of roles and for each type with classes that differ."""
    types: defaultdict[str, list[str]] = defaultdict(list)
    classes: dict[str, dict[str, str]] = {}
    for model_type, found in rows:
        if not found or model_type in JOINED:
            continue
        first = next(iter(found.values()))
        if first:
            types[" ".join(sorted(first))].append(model_type)
        others = {kind: " ".join(sorted(roles)) for kind, roles in found.items() if roles != first}
        if others:
            classes[model_type] = others
    sections = (("types", dict(sorted(types.items()))), ("classes", classes))
    return "{\n" + ",\n".join(f'"{name}": {{\n{_lines(section)}\n}}' for name, section in sections) + "\n}\n"


def _lines(section: Mapping[str, object]) -> str:
    return ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in section.items())


def written() -> dict[str, Roles]:
    """Return the data as they were written, by type; classes like the first are not in them."""
    found = json.loads(DATA.read_text(encoding="utf-8"))
    first = {name: {"": frozenset(roles.split())} for roles, names in found["types"].items() for name in names}
    others = {
        name: {kind: frozenset(roles.split()) for kind, roles in kinds.items()}
        for name, kinds in found["classes"].items()
    }
    return {name: {"": frozenset(), **first.get(name, {}), **others.get(name, {})} for name in {*first, *others}}


def main(arguments: list[str]) -> int:
    """Build all types and write the list, or print the roles of the given types; ``--write`` replaces theirs."""
    types = [one for one in arguments if one != "--write"]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        rows = list(pool.map(roles_of, types or model_types()))
    if types and "--write" in arguments:
        DATA.write_text(text(sorted({**written(), **dict(rows)}.items())), encoding="utf-8")
    elif types:
        for model_type, found in rows:
            for kind, roles in found.items():
                print(f"{model_type}/{kind}: {' '.join(sorted(roles)) or 'none'}")
    else:
        DATA.write_text(text(rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
