"""Code snippets for panels about words with positions added."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..components.recipe import Recipe
from .sentence_snippets import SENTENCE_ROLES
from .writing import comma_separated, dict_lines, extracted, named_values, quoted, recipe_of

if TYPE_CHECKING:
    from hfposemb.composition.added_positions import PositionAddition

    from ..session.opened import Opened


def _adding(adding: PositionAddition) -> str:
    return f"hpe.PositionAddition({quoted(adding.whose)}{'' if adding.scaled else ', scaled=False'})"


def _of_sum(source: Opened, adding: PositionAddition, body: Sequence[str]) -> Recipe:
    """Return the recipe of numbers computed from ``words``, the sum of a source's words and positions."""
    words = f"words = hpe.add_positions({extracted(source)}, {_adding(adding)})"
    return recipe_of([words, *body], [source], roles=SENTENCE_ROLES)


def sweeps(source: Opened, addings: Sequence[PositionAddition], values: Sequence[str]) -> Recipe:
    """Return the recipe of ``values`` of amplitude sweeps, for some kinds of positions."""
    called = [f"{_adding(one)}" for one in addings]
    body = [
        f"source = {extracted(source)}",
        f"protocols = [{', '.join(called)}]",
        "found = {one.whose: hpe.sweep_amplitude(hpe.add_positions(source, one)) for one in protocols}",
        f"shown = {{whose: [{', '.join(f'one.{value}' for value in values)}] for whose, one in found.items()}}",
    ]
    return recipe_of(body, [source], roles=SENTENCE_ROLES)


def finding(source: Opened, adding: PositionAddition, place: int) -> Recipe:
    """Return the recipe of the share of neighbours kept at one amplitude, and the ratio of word and position norms."""
    body = dict_lines(
        {"neighbours kept": f"hpe.sweep_amplitude(words).kept[{place}]", "word norm / position norm": "words.ratio"}
    )
    return _of_sum(source, adding, body)


def moved(source: Opened, adding: PositionAddition, row: int, place: int, *, amplitude: float, k: int) -> Recipe:
    """Return the recipe of the neighbours of a word, alone and summed with a position."""
    body = [
        f"found = hpe.moved_neighbours(words, {row}, {place}, amplitude={amplitude:g}, k={k})",
        *dict_lines({"alone": named_values("found.before"), "with position": named_values("found.after")}),
    ]
    return _of_sum(source, adding, body)


def mixture(source: Opened, adding: PositionAddition, row: int, *, amplitude: float) -> Recipe:
    """Return the recipe of a word as a mixture of others, alone and with every position added."""
    body = [
        "places = np.flatnonzero(words.usable)",
        f"found = hpe.mixture(words, {row}, positions=places, amplitude={amplitude:g})",
        "shown = dict(zip(found.labels, found.weights_at.T))",
    ]
    return _of_sum(source, adding, body)


def concatenation(source: Opened, adding: PositionAddition) -> Recipe:
    """Return the recipe of what is recovered from a sum, from a turned sum and from the concatenation."""
    body = ["found = hpe.compare_sum_with_concatenation(words)", "shown = dict(zip(found.ways, found.both))"]
    return _of_sum(source, adding, body)


def interference(source: Opened, adding: PositionAddition) -> Recipe:
    """Return the recipe of the mean |cos| of words and positions by width."""
    values = {"as they are": "found.cosines", "without the means": "found.centred", "random": "found.expected"}
    return _of_sum(source, adding, ["found = hpe.interference(words)", *dict_lines(values)])


def windows(found: Sequence[tuple[str, Opened, PositionAddition]]) -> Recipe:
    """Return the recipe of the shares recovered at every size of positions, for some sources."""
    words = {name: f"hpe.add_positions({extracted(source)}, {_adding(adding)})" for name, source, adding in found}
    body = [
        *dict_lines(words, "words"),
        "scales = 2.0 ** np.arange(-5, 5.5, 0.5)",
        "sweeps = {name: hpe.sweep_amplitude(one, amplitudes=scales) for name, one in words.items()}",
        "shown = {name: one.both for name, one in sweeps.items()}",
    ]
    return recipe_of(body, [source for _, source, adding in found if adding.whose == "own"], roles=SENTENCE_ROLES)


def anchors(source: Opened, adding: PositionAddition, row: int, others: Sequence[int]) -> Recipe:
    """Return the recipe of the cosines of a word with anchor words at every amplitude."""
    body = [
        f"found = hpe.anchor_similarity(words, {row}, [{comma_separated(others)}])",
        "shown = {words.table.labels[row]: cosines for row, cosines in zip(found.rows, found.mean.T)}",
    ]
    return _of_sum(source, adding, body)


def kept_map(
    source: Opened, adding: PositionAddition, chosen: Sequence[int], *, most: int, step: int, k: int
) -> Recipe:
    """Return the recipe of the share of neighbours that words keep at the first places."""
    body = [
        f"places = np.flatnonzero(words.usable[:{most}])",
        f"shown = hpe.retention_at(words, [{comma_separated(chosen)}], places, k={k})[{step}]",
    ]
    return _of_sum(source, adding, body)


def club(source: Opened, adding: PositionAddition, chosen: Sequence[int], *, places: int, value: str) -> Recipe:
    """Return the recipe of a ``value`` of the cloud of some words at the first inner places."""
    body = [
        f"source = {extracted(source)}",
        f"words = hpe.add_positions(source, {_adding(adding)})",
        f"found = hpe.sum_cloud(words, source, [{comma_separated(chosen)}], words.inner[:{places}])",
        value,
    ]
    return recipe_of(
        body,
        [source],
        roles=SENTENCE_ROLES,
    )
