"""Code snippets for comparisons of sources and for training runs whose code or command depends on what is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .. import limits
from ..components.recipe import Recipe
from .writing import SENTENCE_ROLES, Code, command_line, part_code, pinned, quoted, recipe

if TYPE_CHECKING:
    from ..session.opened import Opened


def comparison_recipe(sources: Sequence[Opened], *, draws: int, words: Sequence[str], pairs: bool) -> Recipe:
    """Return the recipe of the metrics of sources, or with ``pairs`` of every pair, with chance levels."""
    parts = [word for source in sources for word in ("--part", source.wanted or "-")]
    chosen = parts if any(source.wanted for source in sources) else []
    if len(sources) == 1 or len({source.wanted for source in sources}) == 1:
        chosen = chosen[:2]
    command = command_line(
        "compare", *map(pinned, sources), "--words", ",".join(words), "--draws", draws, *chosen, "--json"
    )
    listed = "\n".join(["sources = [", *(f"    {part_code(source)}," for source in sources), "]"])
    name = "pairs" if pairs else "metrics"
    return recipe(name, sources, command=[command], roles=SENTENCE_ROLES, sources=Code(listed), draws=draws)


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
    command = [command_line("trajectory", source.text, *options, "--json")] if printed or metrics is not None else []
    code = {"sources": Code(sources), "measured": Code(measured), "value": Code(value)}
    return recipe("training", [source], command=command, roles=(role,), role=role, **code)
