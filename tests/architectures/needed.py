"""Which tables every class of a type stores: ``python -m tests.architectures.needed`` writes it, ten minutes."""

from __future__ import annotations

import math
import shutil
import signal
import sys
import tempfile
import textwrap
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIST = ROOT / "hfposemb" / "models" / "architectures" / "needed_tables.py"
LARGEST = 60_000_000
SECONDS = 240
INNER = ("Stack", "Encoder", "Decoder", "Layer", "Block", "Backbone", "Wrapper")
"""Ends of the names of classes that are parts of a model, and are not saved alone."""

JOINED = ("encoder-decoder", "vision-encoder-decoder", "speech-encoder-decoder", "vision-text-dual-encoder", "rag")
"""Types that join models of any type, so that no table belongs to all of them."""

RELATIVE = ("relative-bias", "relative-table")
"""Kinds of positions that are stored and are no table with a row for each."""

Roles = dict[str, frozenset[str]]


def roles_of(model_type: str) -> tuple[str, Roles]:
    """Build, save and extract each class of a type; return the roles of the tables that it stores, by class."""
    import torch
    import transformers

    import hfposemb as hpe
    from tests.architectures.tiny import _classes, configurations, randomise

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(SECONDS)
    found: Roles = {}
    try:
        for config in configurations(model_type):
            for kind in _classes(config):
                if kind.__name__ in found or kind.__name__.endswith(INNER):
                    continue
                folder = Path(tempfile.mkdtemp(prefix="needed-"))
                try:
                    with torch.device("meta"):
                        size = sum(math.prod(one.shape) for one in kind(config).parameters())
                    if not 0 < size < LARGEST:
                        continue
                    model = kind(config).eval()
                    randomise(model)
                    model.save_pretrained(folder)
                    made = hpe.extract(folder)
                    stored = {key for key, table in made.tables.items() if table.provenance.tensor}
                    stored |= {key for key, one in made.positions.items() if one.kind in RELATIVE}
                    found[kind.__name__] = frozenset(stored)
                except hpe.MissingTableError:
                    found[kind.__name__] = frozenset()
                except TimeoutError:
                    raise
                except Exception:  # noqa: BLE001 - what transformers cannot build or save is not ours to judge
                    continue
                finally:
                    shutil.rmtree(folder, ignore_errors=True)
            if found:
                break
    except Exception:  # noqa: BLE001 - a type without a configuration, or too slow: nothing is said of it
        return model_type, {}
    finally:
        signal.alarm(0)
    return model_type, found


def _too_long(*_: object) -> None:
    raise TimeoutError


def module(rows: Iterable[tuple[str, Mapping[str, frozenset[str]]]]) -> str:
    """Return the module that lists the roles."""
    by_roles: defaultdict[str, list[str]] = defaultdict(list)
    others: defaultdict[str, list[str]] = defaultdict(list)
    for model_type, found in rows:
        if not found or model_type in JOINED:
            continue
        first = next(iter(found.values()))
        by_roles[" ".join(sorted(first))].append(model_type)
        for kind, roles in found.items():
            if roles != first:
                others[" ".join(sorted(roles))].append(f"{model_type}/{kind}")
    return _MODULE.format(types=_listed(by_roles), others=_listed(others))


def _listed(groups: Mapping[str, list[str]]) -> str:
    lines = (
        textwrap.fill(
            f"{roles}: {' '.join(names)}",
            112,
            break_long_words=False,
            break_on_hyphens=False,
            initial_indent="    ",
            subsequent_indent="        ",
        )
        for roles, names in sorted(groups.items())
        if roles or "/" in names[0]
    )
    return "\n".join(lines)


_MODULE = '''"""The tables that every checkpoint of a model type stores, by role.

Written by ``python -m tests.architectures.needed`` from the small models of transformers 5.24.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .config_values import class_of

_TYPES = """
{types}
"""
"""Roles of the class that the type is named after, and its types."""

_CLASSES = """
{others}
"""
"""Roles of other classes of a type, where they differ."""


def _parsed(text: str) -> Iterator[tuple[str, frozenset[str]]]:
    for line in re.sub("\\n {{8}}", " ", text).strip().splitlines():
        roles, _, names = line.partition(":")
        yield from ((name, frozenset(roles.split())) for name in names.split())


_BY_TYPE, _BY_CLASS = dict(_parsed(_TYPES)), dict(_parsed(_CLASSES))


def needed_tables(config: Mapping[str, Any]) -> frozenset[str]:
    """Return the roles of the tables that a checkpoint with this configuration must store; empty if that is not known.

    A part with a configuration of its own counts only if its type is known to have the table.

    Args:
        config: The configuration, as in config.json.
    """
    kind = config.get("model_type")
    if not isinstance(kind, str) or "auto_map" in config:
        return frozenset()
    named, roles = class_of(config), _BY_TYPE.get(kind, frozenset())
    differing = {{name: found for name, found in _BY_CLASS.items() if name.startswith(f"{{kind}}/")}}
    if not named and differing:
        roles = roles.intersection(*differing.values())
    roles = differing.get(f"{{kind}}/{{named}}", roles)
    return frozenset(role for role in roles if _of_part(config, role))


def _of_part(config: Mapping[str, Any], role: str) -> bool:
    part, dot, rest = role.rpartition(".")
    inner = config.get(f"{{part}}_config")
    if not dot or not isinstance(inner, dict):
        return True
    return rest in _BY_TYPE.get(str(inner.get("model_type")), ())
'''


def main(types: list[str]) -> int:
    """Build all types and write the list, or print the roles of the given types."""
    from tests.architectures.survey import model_types

    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        rows = list(pool.map(roles_of, types or model_types()))
    if types:
        for model_type, found in rows:
            for kind, roles in found.items():
                print(f"{model_type}/{kind}: {' '.join(sorted(roles)) or 'none'}")
    else:
        LIST.write_text(module(rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
