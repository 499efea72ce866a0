"""Joining of the page's ES modules into one script, so that the package needs no tool of JavaScript.

Each module is a file that imports names of others, one import a line, and exports functions, classes and constants::

    import { plain, number } from "./text.js";
    export function row() { … }

A module is found by the name of its file in any of the given folders. Whatever else ES modules allow is refused:
default exports, renamed imports, cycles, and names that two modules define.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

from .assets import STATIC

_IMPORT = re.compile(r'import \{ ([\w$]+(?:, [\w$]+)*) \} from "(?:\.{1,2}/)(?:[\w./-]+/)?([\w-]+\.js)";')
_EXPORT = re.compile(r"export (?=(?:async )?function |class |const )")
_DEFINED = re.compile(r"(?:export )?(?:async )?(?:function|class|const|let|var) ([\w$]+)")
_TYPES = re.compile(r"^ */\*\*(?:(?!\*/).)*\*/\n", re.DOTALL | re.MULTILINE)


class _Module(NamedTuple):
    imports: dict[str, set[str]]
    exports: set[str]
    defined: set[str]
    code: str


def joined(entry: str, folders: Sequence[Path] = (STATIC,)) -> str:
    """Return a module and all that it imports as one script without imports and exports.

    Args:
        entry: Name of the file that is run last.
        folders: Where modules are.

    Raises:
        ValueError: A module is missing or has two files, imports what another does not export, defines a name that
            another has, is part of a cycle, or is written in a way that this does not read.
    """
    modules: dict[str, _Module] = {}
    todo = [entry]
    while todo:
        name = todo.pop()
        if name not in modules:
            modules[name] = _read(name, folders)
            todo += modules[name].imports
    owners: dict[str, str] = {}
    for name, module in modules.items():
        for other, wanted in module.imports.items():
            if missing := wanted - modules[other].exports:
                raise ValueError(f"{name} imports {', '.join(sorted(missing))}, which {other} does not export")
        for defined in sorted(module.defined):
            if defined in owners:
                raise ValueError(f"{name} and {owners[defined]} both define {defined}")
            owners[defined] = name
    try:
        order = list(TopologicalSorter({name: list(module.imports) for name, module in modules.items()}).static_order())
    except CycleError as error:
        raise ValueError(f"modules import each other: {' -> '.join(error.args[1])}") from error
    return "\n".join(modules[name].code for name in order)


def _read(name: str, folders: Sequence[Path]) -> _Module:
    paths = [folder / name for folder in folders if (folder / name).is_file()]
    if len(paths) != 1:
        raise ValueError(f"{name} has {len(paths)} files in {', '.join(str(folder) for folder in folders)}")
    imports: dict[str, set[str]] = {}
    exports: set[str] = set()
    defined: set[str] = set()
    lines: list[str] = []
    for line in _TYPES.sub("", paths[0].read_text(encoding="utf-8")).splitlines():
        if line.startswith("import"):
            found = _IMPORT.fullmatch(line)
            if not found:
                raise ValueError(f"{name}: cannot read {line!r}")
            imports.setdefault(found[2], set()).update(found[1].split(", "))
            continue
        if found := _DEFINED.match(line):
            defined.add(found[1])
        if line.startswith("export"):
            if not _EXPORT.match(line) or not found:
                raise ValueError(f"{name}: cannot read {line!r}")
            exports.add(found[1])
        lines.append(_EXPORT.sub("", line, count=1) if line.startswith("export") else line)
    code = "\n".join(lines).strip("\n") + "\n"
    if re.search("</script|<!--", code, re.IGNORECASE):
        raise ValueError(f"{name} has text that ends or hides a script element")
    return _Module(imports, exports, defined, code)


@cache
def report_script() -> str:
    """Return the script of a report."""
    return joined("report.js")


@cache
def widget_script() -> str:
    """Return the module of a notebook's widget, which exports ``render`` as anywidget expects it."""
    return joined("widget.js") + "\nexport default { render: renderWidget };\n"


@cache
def atlas_script() -> str:
    """Return the script of an atlas."""
    return joined("atlas.js")
