"""Code snippets for panels about a sentence: its vectors and logits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..components.recipe import Recipe
from .writing import comma_separated, dict_lines, extracted, pinned, quoted, recipe_of

if TYPE_CHECKING:
    from ..session.opened import Opened


def sentence(source: Opened, text: str, *, pieces: int, stripes: int, typed: bool = False) -> Recipe:
    """Return the recipe of the token, position, type and input vectors of each piece of a sentence."""
    between = '"type": inputs.type, ' if typed else ""
    body = [
        f"inputs = {extracted(source)}.inputs({quoted(text)})",
        f'parts = {{"token": inputs.token, "position": inputs.position, {between}"input": inputs.sum}}',
        f"shown = {{name: part[:{pieces}, :{stripes}] for name, part in parts.items()}}",
    ]
    return recipe_of(body, [source], roles=("token", "position"))


def sentence_numbers(source: Opened, text: str, *, place: int, numbers: int) -> Recipe:
    """Return the recipe of the first numbers of a piece's token row, position row and input."""
    body = [
        f"inputs = {extracted(source)}.inputs({quoted(text)})",
        'parts = {"token": inputs.token, "position": inputs.position, "sum": inputs.sum, "normed": inputs.normed}',
        f"shown = {{name: dict(enumerate(part[{place}, :{numbers}].tolist())) for name, part in parts.items()}}",
    ]
    return recipe_of(body, [source], roles=("token", "position"))


def reordering(source: Opened, text: str, other: str | Sequence[int], *, words: Sequence[int]) -> Recipe:
    """Return the recipe of the cosines between the inputs of a sentence in two orders."""
    second = quoted(other) if isinstance(other, str) else f"[{comma_separated(other)}]"
    body = [
        f"source = {extracted(source)}",
        f"found = hpe.reorder_words(source.inputs({quoted(text)}), source.inputs({second}))",
        f"shown = [(found.pieces[one], float(found.cosines[one])) for one in [{comma_separated(words)}]]",
    ]
    return recipe_of(body, [source], roles=("token", "position"))


SENTENCE_ROLES = ("token", "position")


def logit_shares(source: Opened, text: str) -> Recipe:
    """Return the recipe of the shares of the nine terms of a sentence's logits."""
    body = [
        f"found = hpe.logit_shares({extracted(source)}.logits({quoted(text)}))",
        "shown = found.mean[:9].reshape(3, 3)",
    ]
    return recipe_of(body, [source], roles=SENTENCE_ROLES)


def logit_map(source: Opened, text: str, term: str, head: int | None, *, pieces: int) -> Recipe:
    """Return the recipe of one term of a sentence's centred logits, in one head or averaged over all."""
    chosen = ".mean(axis=0)" if head is None else f"[{head}]"
    body = [
        f"rows = hpe.centred_logits({extracted(source)}.logits({quoted(text)}), {quoted(term)})",
        f"shown = rows{chosen}[:{pieces}, :{pieces}]",
    ]
    return recipe_of(body, [source], roles=SENTENCE_ROLES)


def identical(source: Opened, word: int, *, near: int) -> Recipe:
    """Return the recipe of the attention by distance for one word repeated at every place."""
    body = [
        f"found = hpe.identical_word_logits({extracted(source)}, {word})",
        f"near = abs(found.distances) <= {near}",
        *dict_lines({"attention": "found.mean.mean(axis=0)[near]", "uniform": "found.uniform[near]"}),
    ]
    return recipe_of(body, [source], roles=SENTENCE_ROLES)


def logits_by_distance(sources: Sequence[Opened], *, longest: int) -> Recipe:
    """Return the recipe of the change of the first layer's logit by distance."""
    body = [
        *dict_lines({pinned(source): extracted(source) for source in sources}, "sources"),
        f"found = {{name: hpe.logits_by_distance(source, longest={longest}) for name, source in sources.items()}}",
        "shown = {name: one.change.mean(axis=0) for name, one in found.items()}",
    ]
    return recipe_of(body, sources)
