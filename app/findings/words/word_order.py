"""The effect of another word order on the vectors that enter the first layer."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hfposemb.composition.word_order import Reordered, reorder_words, reverse_tokens
from hfposemb.errors import HfposembError
from hfposemb.text import number, one_line

from ...components.plot import NeighbourList, NeighbourRow, Panel
from ...recipes.writing import SENTENCE_ROLES, recipe
from ..chosen_word import shown
from .sum_view import PIECES_SHOWN, View, drawn_or_said


@drawn_or_said("reorder", "The same words in another order", "word order", span=3)
def reorder_panel(view: View, empty: Panel) -> Panel:
    """List the words of the sentence with the cosines of their inputs in another order."""
    found, other = other_order(view)
    words = [i for i, place in enumerate(found.first) if not view.special(int(view.inputs.ids[place]))]
    title, said = reorder_finding(view, found, words)
    orders: dict[str, Any] = {"text": view.asked.text, "other": other}
    rows = tuple(
        NeighbourRow(
            f"{shown(found.pieces[i])}  {found.first[i]} → {found.second[i]}",
            float(found.cosines[i]),
            not found.changed[i],
            int(found.first[i]),
        )
        for i in words[:PIECES_SHOWN]
    )
    return replace(
        empty,
        title=title,
        subtitle=f"{said} {order_of(view, other)}",
        lists=(NeighbourList("Cosine of both inputs", "", rows),),
        foot="Tinted: the same input. Left: position here → in the other order.",
        recipe=recipe("two orders", [view.source], roles=SENTENCE_ROLES, **orders, pieces=words[:PIECES_SHOWN])
        if rows
        else None,
    )


def other_order(view: View) -> tuple[Reordered, str | list[int]]:
    """Compare the sentence with the previous order, or with its reverse; also return that order."""
    here, before = view.inputs, view.asked.before
    if before.strip() and before != view.asked.text:
        try:
            return reorder_words(here, view.fed(before)), before
        except HfposembError:
            pass  # other words, so it is not a reordering
    ids = reverse_tokens(here.ids, fixed=[view.special(int(token)) for token in here.ids])
    assert view.source.embeddings is not None
    return reorder_words(here, view.source.embeddings.inputs(ids)), ids.tolist()


def order_of(view: View, other: str | list[int]) -> str:
    """Describe the other order: a previous text, or reversed ids."""
    if isinstance(other, str):
        return f"Before: “{one_line(other, width=80)}”"
    return f"Reversed: “{one_line(' '.join(view.table.labels[row].strip() for row in other), width=80)}”"


def reorder_finding(view: View, found: Reordered, words: Sequence[int]) -> tuple[str, str]:
    """State the effect of another order: a title and a sentence."""
    changed = int(found.changed[words].sum())
    name = view.source.name
    if not found.added:
        kind = view.source.position.kind if view.source.parts else "none"
        how = f"; its {kind} positions take effect in attention" if kind != "none" else ""
        return (
            "Reordered, the input vectors stay the same: nothing is added to the words",
            f"{name} adds no positions, so the input of its first layer has no order{how}.",
        )
    if not changed:
        return "Both orders are the same", "Every word is at the same position as before."
    same = "The token vectors are the same in both orders" if found.same_tokens else "Token vectors depend on the order"
    moved = [float(one) for one in found.cosines[words] if one < 1]
    low = number(min(moved, default=1.0), digits=2)
    return (
        f"Reordered, {changed} of {len(words)} words get a different input vector",
        f"{same}; with positions added, they differ, down to a cosine of {low}.",
    )


def shuffled(text: str) -> str:
    """Return the words of a text in another order, if there is one; deterministic."""
    words = text.split()
    if len(set(words)) < 2:
        return text
    draw, order = random.Random(text), list(words)
    while order == words:
        draw.shuffle(order)
    return " ".join(order)
