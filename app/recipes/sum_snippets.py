"""Code snippets for panels about words with positions added."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..components.recipe import Recipe
from .sentence_snippets import SENTENCE_ROLES
from .writing import comma_separated, dict_lines, extracted, quoted, recipe_of

if TYPE_CHECKING:
    from hfposemb.composition.added_positions import Adding

    from ..session.opened import Opened


def _adding(adding: Adding) -> str:
    return f"Adding({quoted(adding.whose)}{'' if adding.scaled else ', scaled=False'})"


_ADDED = "from hfposemb.composition.added_positions import Adding, added"


def _of_sum(source: Opened, adding: Adding, body: Sequence[str], imported: str) -> Recipe:
    """Return the recipe of numbers computed from ``words``, the sum of a source's words and positions."""
    words = f"words = added({extracted(source)}, {_adding(adding)})"
    return recipe_of([words, *body], [source], imports=[_ADDED, imported], roles=SENTENCE_ROLES)


def sweeps(source: Opened, addings: Sequence[Adding], values: Sequence[str]) -> Recipe:
    """Return the recipe of ``values`` of amplitude sweeps, for some kinds of positions."""
    called = [f"{_adding(one)}" for one in addings]
    body = [
        f"source = {extracted(source)}",
        f"protocols = [{', '.join(called)}]",
        "found = {one.whose: sweep(added(source, one)) for one in protocols}",
        f"shown = {{whose: [{', '.join(f'one.{value}' for value in values)}] for whose, one in found.items()}}",
    ]
    imports = [_ADDED, "from hfposemb.composition.amplitude_sweep import sweep"]
    return recipe_of(body, [source], imports=imports, roles=SENTENCE_ROLES)


def finding(source: Opened, adding: Adding, place: int) -> Recipe:
    """Return the recipe of the share of neighbours kept at one amplitude, and the ratio of word and position norms."""
    body = dict_lines({"neighbours kept": f"sweep(words).kept[{place}]", "words by positions": "words.ratio"})
    return _of_sum(source, adding, body, "from hfposemb.composition.amplitude_sweep import sweep")


def moved(source: Opened, adding: Adding, row: int, place: int, *, amplitude: float, k: int) -> Recipe:
    """Return the recipe of the neighbours of a word, alone and summed with a position."""
    body = [
        f"found = moved(words, {row}, {place}, amplitude={amplitude:g}, k={k})",
        *dict_lines({"alone": "found.before.values", "in its place": "found.after.values"}),
    ]
    return _of_sum(source, adding, body, "from hfposemb.composition.amplitude_sweep import moved")


def anchors(source: Opened, adding: Adding, row: int, others: Sequence[int]) -> Recipe:
    """Return the recipe of the cosines of a word with anchor words at every amplitude."""
    body = [f"shown = anchored(words, {row}, [{comma_separated(others)}]).mean"]
    return _of_sum(source, adding, body, "from hfposemb.composition.anchor_words import anchored")


def kept_map(source: Opened, adding: Adding, chosen: Sequence[int], *, most: int, step: int, k: int) -> Recipe:
    """Return the recipe of the share of neighbours that words keep at the first places."""
    body = [
        f"places = np.flatnonzero(words.usable[:{most}])",
        f"shown = kept_at(words, [{comma_separated(chosen)}], places, k={k})[{step}]",
    ]
    return _of_sum(source, adding, body, "from hfposemb.composition.amplitude_sweep import kept_at")


def club(source: Opened, adding: Adding, chosen: Sequence[int], *, places: int, value: str) -> Recipe:
    """Return the recipe of a ``value`` of the cloud of some words at the first inner places."""
    body = [
        f"source = {extracted(source)}",
        f"words = added(source, {_adding(adding)})",
        f"found = cloud(words, source, [{comma_separated(chosen)}], words.inner[:{places}])",
        value,
    ]
    return recipe_of(
        body,
        [source],
        imports=[_ADDED, "from hfposemb.composition.variance_decomposition import cloud"],
        roles=SENTENCE_ROLES,
    )
