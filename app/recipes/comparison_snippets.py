"""Code snippets for comparisons of sources and for training runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .. import limits
from ..components.recipe import Recipe
from .sentence_snippets import SENTENCE_ROLES
from .token_snippets import TOKEN_ROLES
from .writing import command_line, dict_lines, of_part, pinned, quoted, recipe_of

if TYPE_CHECKING:
    from ..session.opened import Opened


def compared(sources: Sequence[Opened], *, draws: int, words: Sequence[str], pairs: bool) -> Recipe:
    """Return the recipe of the metrics of sources, or with ``pairs`` of every pair, with chance levels."""
    found = ["sources = [", *(f"    {of_part(source)}," for source in sources), "]"]
    values = "{(pair.role, pair.left, pair.right): pair.observed for pair in found.pairs}"
    if not pairs:
        values = "{each.source: {name: one.value for name, one in each.metrics.items()} for each in found.sources}"
    body = [*found, f"found = hpe.compare(*sources, draws={draws})", f"shown = {values}"]
    parts = [word for source in sources for word in ("--part", source.wanted or "-")]
    chosen = parts if any(source.wanted for source in sources) else []
    if len(sources) == 1 or len({source.wanted for source in sources}) == 1:
        chosen = chosen[:2]
    command = command_line(
        "compare", *map(pinned, sources), "--words", ",".join(words), "--draws", draws, *chosen, "--json"
    )
    return recipe_of(body, sources, command=[command], roles=SENTENCE_ROLES)


def moves(left: Opened, right: Opened, at: int) -> Recipe:
    """Return the recipe of the words that moved most between two sources, and of one word's neighbours."""
    body = [
        f"found = hpe.find_moved_words({of_part(left)}, {of_part(right)})",
        f"word = found.most[{at}]",
        *dict_lines(
            {
                "moved most": "[(one.label, one.distance) for one in found.most]",
                "left": "word.left",
                "right": "word.right",
            }
        ),
    ]
    return recipe_of(body, [left, right], roles=TOKEN_ROLES)


def quantised(original: Opened, other: Opened, *, count: int) -> Recipe:
    """Return the recipe of the comparison of a source with its quantised form."""
    body = [
        f"found = hpe.compare_quantised({of_part(original)}, {of_part(other)}, count={count})",
        *dict_lines(
            {
                "figures": "{name: null.observed for name, null in found.measures.items()}",
                "largest errors": "[(move.label, move.distance) for move in found.worst]",
            }
        ),
    ]
    return recipe_of(body, [original, other], roles=TOKEN_ROLES)


def maps(left: Opened, right: Opened, role: str, method: str, side: str) -> Recipe:
    """Return the recipe of one of two aligned maps."""
    body = [
        f"left, right = {of_part(left)}, {of_part(right)}",
        f'shown = hpe.align_maps(left, right, "{role}", method="{method}").coordinates_{side}',
    ]
    return recipe_of(
        body,
        [left, right],
        roles=(role,),
    )


def training(
    source: Opened,
    pattern: str,
    role: str,
    *,
    value: str,
    metrics: Sequence[str] | None,
    printed: bool,
    most: int | None,
) -> Recipe:
    """Return the recipe of a ``value`` of a training ``run``, thinned to ``most`` checkpoints.

    The command prints ``metrics`` by step, and for every run the similarity of its checkpoints.
    """
    sources = f"hpe.revisions({quoted(source.text)}, {quoted(pattern)})"
    options = ["--revisions", pattern, "--table", role]
    if most is not None:
        sources = f"hpe.evenly_spaced({sources}, {most})"
        options += ["--most", str(most)]
    measured = "metrics=None"
    if metrics is not None:
        measured = f"metrics=[{', '.join(map(quoted, metrics))}], draws={limits.TRAINING_DRAWS}"
        options += [part for name in metrics for part in ("--metric", name)] + ["--draws", str(limits.TRAINING_DRAWS)]
    body = [
        f"sources = {sources}",
        f"run = hpe.trajectory(sources, role={quoted(role)}, {measured})",
        f"shown = {value}",
    ]
    command = [command_line("trajectory", source.text, *options, "--json")] if printed or metrics is not None else []
    return recipe_of(
        body,
        [source],
        command=command,
        roles=(role,),
    )


def of_pair(function: str, command: str, shown: str, a: Opened, b: Opened) -> Recipe:
    """Return the recipe of what a function and a command tell of two models."""
    names = [pinned(one) for one in (a, b)]
    body = [f"found = hpe.{function}({', '.join(map(quoted, names))})", f"shown = {shown}", "print(found)"]
    return recipe_of(body, (a, b), command=[command_line(command, *names)], roles=("token",))
