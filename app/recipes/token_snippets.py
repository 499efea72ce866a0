"""Code snippets for panels about tokens whose code or command depends on what is chosen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hfposemb.tables.table import TOKEN_CLASSES

from ..components.recipe import Recipe
from .writing import (
    Code,
    comma_separated,
    command_line,
    dict_lines,
    extracted,
    listed_as,
    pinned,
    quoted,
    recipe,
    recipe_of,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..session.opened import Opened

MOST_IDS = 5_000
"""Ids of a selection that a snippet names."""


def token_map(source: Opened, *, method: str, dims: int, values: str = "") -> Recipe:
    """Return the recipe of the map of a vocabulary and, if coloured by numbers, of these: norms or trust."""
    body = [
        f"table = {words_of(source)}",
        f'found = hpe.project(table, method="{method}", dims={dims})',
    ]
    shown = {"map": "found.coordinates"}
    if values == "Norm":
        shown["norms"] = "hpe.norms(table)[found.rows]"
    if values == "Trust":
        body.append("metric = found.quality.metric")
        body.append("trust = hpe.point_trust(table, found.coordinates, rows=found.rows, metric=metric, points=2000)")
        shown["trust"] = "trust.neighbours_kept"
    command = command_line("project", pinned(source), "--table", source.words, "--method", method, "--dims", dims)
    return recipe_of([*body, *dict_lines(shown)], [source], command=[command], roles=roles_of([source]))


def roles_of(sources: Iterable[Opened]) -> tuple[str, ...]:
    """Return the roles of the tables that stand for the tokens."""
    return tuple(dict.fromkeys(source.words for source in sources))


def centring(centred: bool) -> tuple[Code, tuple[str, ...]]:
    """Return the arguments for centring, in Python and on the command line."""
    return (Code(", centred=True"), ("--centred",)) if centred else (Code(), ())


def words_of(source: Opened) -> Code:
    """Return the expression for the table that stands for the tokens."""
    return Code(f"{extracted(source)}.{source.words}")


def neighbours(words: Mapping[Opened, int], *, k: int, centred: bool) -> Recipe:
    """Return the recipe of the nearest tokens of a row in every source."""
    more, options = centring(centred)
    near = {pinned(source): f"hpe.neighbours({words_of(source)}, {row}, k={k}{more})" for source, row in words.items()}
    command = [
        command_line("neighbours", pinned(source), row, "--table", source.words, "-k", k, *options)
        for source, row in words.items()
    ]
    return recipe("nearest tokens", list(words), command=command, roles=roles_of(words), found=listed_as("found", near))


def pairs(source: Opened, chosen: Sequence[int], *, centred: bool) -> Recipe:
    """Return the recipe of the cosines of chosen tokens."""
    more, options = centring(centred)
    rows = ",".join(map(str, chosen))
    command = command_line("similarity", pinned(source), "--table", source.words, "--rows", rows, *options)
    code: dict[str, Any] = {"chosen": chosen, "table": words_of(source), "more": more}
    return recipe("cosines of tokens", [source], command=[command], roles=roles_of([source]), **code)


def matches(sources: Sequence[Opened], text: str, *, regex: bool, most: int) -> Recipe:
    """Return the recipe of the norms of the tokens that a search finds, shortest first."""
    test = f"{quoted(text.casefold())} in label.casefold()"
    if regex:
        test = f"re.search({quoted(text)}, label, re.IGNORECASE)"
    first = []
    if not regex and text.isascii() and text.isdecimal() and len(text) < 9:  # an id precedes labels that contain it
        first = [
            f"    if {int(text)} < len(table.labels):",
            f"        rows = list(dict.fromkeys([{int(text)}, *rows]))",
        ]
    body = [
        "shown = {}",
        f"for name in [{', '.join(quoted(pinned(source)) for source in sources)}]:",
        f"    table = hpe.extract(name).{sources[0].words}",
        f"    rows = [row for row, label in enumerate(table.labels) if {test}]",
        "    rows.sort(key=lambda row: (len(table.labels[row].strip()), row))",
        *first,
        f"    norms = hpe.norms(table)[rows[:{most}]].tolist()",
        "    shown[name] = [*zip([table.labels[row] for row in rows], norms)]",
    ]
    return recipe_of(body, sources, imports=["import re"] if regex else [], roles=roles_of(sources))


def selection(source: Opened, chosen: Sequence[int] | NDArray[np.int64], *, kind: str = "") -> Recipe:
    """Return the recipe of the norms of selected tokens: those of a class, or of ids."""
    body = [f"table = {words_of(source)}"]
    if kind:
        body.append(f"ids = (table.labels.classes == {TOKEN_CLASSES.index(kind)}).nonzero()[0]  # {kind}")
    else:
        body.append(f"ids = [{comma_separated(chosen[:MOST_IDS])}]")
    if not kind and len(chosen) > MOST_IDS:
        body[-1] += f"  # the first of {len(chosen):,}"
    body.append("shown = [*zip([table.labels[row] for row in ids], hpe.norms(table)[ids].tolist())]")
    return recipe_of(body, [source], roles=roles_of([source]))
