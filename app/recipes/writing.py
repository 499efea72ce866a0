"""Building blocks of all snippets: imports, sources at their commits, tables, citations.

A snippet runs unchanged and ends in ``shown``, the numbers that the panel draws or lists, by source or by name. It
names sources as the page does, Hub sources at the commit that was read, and uses public names only. Text typed by a
visitor is embedded as a literal, so none of it can ever be executed.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from hfposemb.errors import HfposembError
from hfposemb.tables.source_parser import parse_source
from hfposemb.tables.sources import HubSource, LocalSource

from ..components.help_texts import sections_of
from ..components.recipe import Recipe
from ..session.source_names import lent_name

if TYPE_CHECKING:
    from hfposemb.tables.table import EmbeddingTable

    from ..session.opened import Opened
    from ..session.shown_positions import Positions


SNIPPETS: Mapping[str, str] = sections_of(Path(__file__).with_name("snippets.md"))
"""Bodies of snippets by name of their section, with ``$`` names for values."""

TOKEN_ROLES = ("token",)
SENTENCE_ROLES = ("token", "position")

HASHED = 2**26
"""Numbers of a table up to which its hash is computed for a citation; larger tables are cited with a hash only if it is
already known."""


class Code(str):
    """An expression or lines of code; any other text is embedded as a literal."""

    __slots__ = ()


def literal(value: object) -> str:
    """Return a value as Python code."""
    if isinstance(value, Code):
        return value
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Iterable):
        return f"[{', '.join(map(literal, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def quoted(text: str) -> str:
    """Return a text as a Python literal, in double quotes unless it contains one."""
    literal = repr(text)
    return literal if '"' in literal else f'"{literal[1:-1]}"'


def pinned(source: Opened) -> str:
    """Return the name of a source; for a Hub source with the commit that was read."""
    name = source.text.strip()
    commit = _commit(source)
    try:
        parsed = parse_source(name) if commit else None
    except HfposembError:
        parsed = None
    return str(parsed.at(commit)) if isinstance(parsed, HubSource) else name


def _commit(source: Opened) -> str:
    tables: Iterable[EmbeddingTable] = () if source.embeddings is None else source.embeddings.tables.values()
    return next((table.provenance.commit for table in tables if table.provenance.commit), "")


def _local(source: Opened) -> bool:
    try:
        return isinstance(parse_source(source.text), LocalSource)
    except HfposembError:
        return True


def _cited(source: Opened, roles: Sequence[str]) -> str:
    """Return a source's name with the hashes of the tables that a view reads, without reading from the Hub."""
    said = [hashed for role in roles if (hashed := _hash(source, role))]
    return f"{pinned(source)} ({', '.join(said)})" if said else pinned(source)


def _hash(source: Opened, role: str) -> str:
    table = source.table(role)
    if table is None:
        return ""
    known = "digest" in vars(table)
    if not known and (_commit(source) or table.shape[0] * table.shape[1] > HASHED):
        return ""
    return f"{role} table SHA-256 {table.digest}"


def extracted(source: Opened) -> Code:
    """Return the expression that opens a source; an object of the host is in a dictionary of those it has given."""
    if (name := lent_name(source.text)) is not None:
        return Code(f"given[{quoted(name)}]")
    return Code(f"hpe.extract({quoted(pinned(source))})")


def part_code(source: Opened) -> Code:
    """Return the expression for a source reduced to the part that is compared."""
    return Code(extracted(source) + (f".part({quoted(source.wanted)})" if source.wanted else ""))


def position(source: Opened) -> Code:
    """Return the expression for the position encoding that is shown."""
    return Code(extracted(source) + (".position" if is_first(source) else f".positions[{quoted(source.part)}]"))


def is_first(source: Opened) -> bool:
    """Return whether the shown part is the source's first one."""
    return source.part == next(iter(source.parts), "")


def rows(shown: Positions) -> str:
    """Return the expression for the rows of positions that are shown."""
    encoding = position(shown.source)
    if shown.turning:
        return f"{encoding}.at({shown.length}).table"
    return f"{encoding}.table{'' if shown.complete else f'.part(0, {shown.length})'}"


def role_of(source: Opened) -> str:
    """Return the role of the table whose positions are shown."""
    return "position" if source.part in ("", "position") else f"{source.part}.position"


def recipe(
    name: str,
    sources: Sequence[Opened],
    /,
    *,
    imports: Sequence[str] = (),
    command: Sequence[str] = (),
    roles: Sequence[str] = (),
    **values: Any,
) -> Recipe:
    """Return the recipe of a section of ``snippets.md`` with values in place of its names."""
    given = {"source": extracted(sources[0])} | values if sources else values
    body = Template(SNIPPETS[name]).substitute({each: literal(value) for each, value in given.items()})
    return recipe_of(body.split("\n"), sources, imports=imports, command=command, roles=roles)


def listed_as(name: str, values: Mapping[str, str]) -> Code:
    """Return the code of a dict of this name that maps names to expressions."""
    return Code("\n".join(dict_lines(values, name)))


def dict_lines(values: Mapping[str, str], name: str = "shown") -> list[str]:
    """Return the lines of a dict literal that maps names to expressions."""
    return [f"{name} = {{", *(f"    {quoted(key)}: {value}," for key, value in values.items()), "}"]


def recipe_of(
    body: Sequence[str],
    sources: Sequence[Opened],
    *,
    imports: Sequence[str] = (),
    command: Sequence[str] = (),
    roles: Sequence[str] = (),
) -> Recipe:
    """Return a recipe: imports, ``body``, the printing of ``shown``, the commands and the cited sources."""
    standard = [line for line in imports if not line.startswith(("from hfposemb", "import numpy"))]
    others = [line for line in imports if line not in standard and line != "import numpy as np"]
    numpy = ["import numpy as np"] if any("np." in line for line in body) else []
    heads = [*standard, *([""] if standard else []), *numpy, *([""] if numpy else []), "import hfposemb as hpe"]
    lines = [*heads, *sorted(others), "", *body, "print(shown)"]
    readable = all(line.isprintable() for line in command)  # omitted otherwise: a terminal would not show what it runs
    cited = tuple(_cited(source, roles or (role_of(source),)) for source in sources)
    return Recipe("\n".join(lines) + "\n", "\n".join(command) if readable else "", cited, any(map(_local, sources)))


def command_line(*words: object) -> str:
    """Return an ``hfposemb`` command with its words quoted for a shell."""
    return shlex.join(["hfposemb", *map(str, words)])


def comma_separated(values: Iterable[Any]) -> Code:
    """Return integers separated by commas."""
    return Code(", ".join(str(int(value)) for value in values))
