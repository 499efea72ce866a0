"""Code snippets for panels about tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from hfposemb.tables.table import TOKEN_CLASSES

from ..components.recipe import Recipe
from .writing import comma_separated, command_line, dict_lines, extracted, named_values, pinned, quoted, recipe_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..session.opened import Opened

TOKEN_ROLES = ("token",)
MOST_IDS = 5_000
"""Ids of a selection that a snippet names."""


def token_map(source: Opened, *, method: str, dims: int, values: str = "") -> Recipe:
    """Return the recipe of the map of a vocabulary and, if coloured by numbers, of these: norms or trust."""
    body = [
        f"table = {extracted(source)}.{source.words}",
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
    return recipe_of([*body, *dict_lines(shown)], [source], command=[command], roles=_roles([source]))


def _roles(sources: Iterable[Opened]) -> tuple[str, ...]:
    """Return the roles of the tables that stand for the tokens."""
    return tuple(dict.fromkeys(source.words for source in sources))


def _centring(centred: bool) -> tuple[str, tuple[str, ...]]:
    """Return the arguments for centring, in Python and on the command line."""
    return (", centred=True", ("--centred",)) if centred else ("", ())


def neighbours(words: Mapping[Opened, int], *, k: int, centred: bool) -> Recipe:
    """Return the recipe of the nearest tokens of a row in every source."""
    more, options = _centring(centred)
    near = {
        pinned(source): f"hpe.neighbours({extracted(source)}.{source.words}, {row}, k={k}{more})"
        for source, row in words.items()
    }
    body = [*dict_lines(near, "found"), f"shown = {{name: {named_values('near')} for name, near in found.items()}}"]
    command = [
        command_line("neighbours", pinned(source), row, "--table", source.words, "-k", k, *options)
        for source, row in words.items()
    ]
    return recipe_of(body, list(words), command=command, roles=_roles(words))


def spread(source: Opened, row: int, *, bins: int, k: int, centred: bool) -> Recipe:
    """Return the recipe of the histogram of cosines with a row, and of its nearest tokens."""
    more, _ = _centring(centred)
    body = [
        f"table = {extracted(source)}.{source.words}",
        f"near = hpe.neighbours(table, {row}, k={k}{more})",
        *dict_lines(
            {
                "counts": f"hpe.similarity_distribution(table, {row}, bins={bins}{more}).counts",
                "nearest": named_values("near"),
            }
        ),
    ]
    return recipe_of(
        body,
        [source],
        roles=_roles([source]),
    )


def pairs(source: Opened, chosen: Sequence[int], *, centred: bool) -> Recipe:
    """Return the recipe of the cosines of chosen tokens."""
    more, options = _centring(centred)
    body = [
        f"rows = [{comma_separated(chosen)}]",
        f"table = {extracted(source)}.{source.words}",
        f"found = hpe.pair_similarities(table, rows{more})",
        'shown = {"words": [table.labels[row] for row in rows], "cosines": found.values}',
    ]
    rows = comma_separated(chosen).replace(" ", "")
    command = command_line("similarity", pinned(source), "--table", source.words, "--rows", rows, *options)
    return recipe_of(body, [source], command=[command], roles=_roles([source]))


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
    return recipe_of(body, sources, imports=["import re"] if regex else [], roles=_roles(sources))


def selection(source: Opened, chosen: Sequence[int] | NDArray[np.int64], *, kind: str = "") -> Recipe:
    """Return the recipe of the norms of selected tokens: those of a class, or of ids."""
    body = [f"table = {extracted(source)}.{source.words}"]
    if kind:
        body.append(f"ids = (table.labels.classes == {TOKEN_CLASSES.index(kind)}).nonzero()[0]  # {kind}")
    else:
        body.append(f"ids = [{comma_separated(chosen[:MOST_IDS])}]")
    if not kind and len(chosen) > MOST_IDS:
        body[-1] += f"  # the first of {len(chosen):,}"
    body.append("shown = [*zip([table.labels[row] for row in ids], hpe.norms(table)[ids].tolist())]")
    return recipe_of(body, [source], roles=_roles([source]))


def head(source: Opened, *, count: int) -> Recipe:
    """Return the recipe of the comparison of token table and output head."""
    body = [
        f"found = hpe.compare_head({extracted(source)}, count={count})",
        "shown = {",
        '    "figures": {one.name: one.null.observed for one in found.measures},',
        '    "differ most": [(move.label, move.distance) for move in found.most],',
        '    "differ least": [(move.label, move.distance) for move in found.least],',
        "}",
    ]
    command = command_line("head", pinned(source), "--count", count, "--json")
    return recipe_of(body, [source], command=[command], roles=("token", "head"))


def odd(source: Opened, names: Sequence[str], *, count: int, headed: bool = False) -> Recipe:
    """Return the recipe of the lists of odd tokens."""
    body = [
        f"found = hpe.undertrained_tokens({extracted(source)}, count={count})",
        f"names = [{', '.join(map(quoted, names))}]",
        "shown = {name: [(odd.label, odd.value) for odd in found[name].rows] for name in names}",
    ]
    command = command_line("odd", pinned(source), "--count", count, "--json")
    return recipe_of(body, [source], command=[command], roles=("token", "head") if headed else ("token",))
