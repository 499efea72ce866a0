"""The six questions of the Start tab: a short answer, measured on the page's models, and the view that shows it."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from hfposemb.analysis.similarity.nearest_rows import neighbours
from hfposemb.analysis.similarity.row_pairs import nearest
from hfposemb.errors import HfposembError
from hfposemb.figures.style import listed
from hfposemb.reports.position_findings import Facts, wave_title
from hfposemb.tables.table import EmbeddingTable
from hfposemb.text import number, percent

from ...components.events import UNFOLDED
from ...session.address import written
from ...session.opened import Opened
from ...session.source_names import from_hub
from ...session.state import Session

PAIR = ("king", "queen")
MOST_MEASURED = 2**26
"""Numbers of the largest table whose words are compared before anybody asks."""

ORDINALS = {2: "second nearest", 3: "third nearest"}
ICONS = {
    "vector": '<path d="M2 24C6 4 12 4 16 24S26 44 30 24 40 4 44 24 50 34 54 24"/>'
    '<path class="other" d="M2 24C12 8 20 8 28 24S46 40 54 24"/>',
    "distance": '<path d="M4 4 52 44M4 16 40 44M16 4 52 32"/><path class="other" d="M4 28 26 44M30 4 52 20"/>',
    "rotation": '<circle cx="28" cy="24" r="18"/><path class="other" d="M28 24 46 24M28 24 40 11"/>',
    "words": '<path d="M6 10H50M6 22H38M6 34H28"/><path class="other" d="M6 16H44"/>',
    "sum": '<path d="M4 8C20 10 34 24 52 40"/><path class="other" d="M4 8C12 24 26 34 52 42" stroke-dasharray="4 4"/>',
    "layer": '<path d="M4 10H22M4 24H22M4 38H22"/><path class="other" d="M34 10H52M34 24H52M34 38H52"/>',
}


@dataclass(frozen=True)
class Question:
    """A question, its answer on the models of the page, and the tab and controls that show it."""

    title: str
    answer: str
    icon: str
    tab: str
    controls: Mapping[str, str]


class Near(NamedTuple):
    """How close two words are in a table: their cosine, and the second one's rank as a neighbour of the first."""

    cosine: float
    rank: int


def questions(opened: Sequence[Opened], facts: Mapping[Opened, Facts], session: Session) -> list[Question]:
    """Return the six questions with their answers."""
    return [
        Question(
            "What does a position vector look like?", waves(facts), "vector", "positions", {"dimensions": UNFOLDED}
        ),
        Question("Does similarity depend on distance alone?", distances(facts), "distance", "positions", {}),
        Question(
            "Why both sine and cosine?",
            "Together, a shift of the position becomes a rotation. See whether learned tables obey it too.",
            "rotation",
            "positions",
            {"shifts": UNFOLDED},
        ),
        Question(
            f"Are “{PAIR[0]}” and “{PAIR[1]}” close?", closeness(opened, session), "words", "tokens", {"word": PAIR[0]}
        ),
        Question(
            "Why does adding positions not destroy words?",
            "Change the strength of the positions, and see which neighbours a word keeps.",
            "sum",
            "words",
            {},
        ),
        Question(
            "What enters the first layer?",
            "Token, position and segment rows and their sum, step by step, for your own sentence above.",
            "layer",
            "start",
            {},
        ),
    ]


def waves(facts: Mapping[Opened, Facts]) -> str:
    """Describe how the columns of each table run over the positions, in the words of the tab Positions."""
    if all(one.waves is None for one in facts.values()):
        return "See the numbers of every position as a picture."
    return f"{wave_title({source.name: one for source, one in facts.items()})}."


def distances(facts: Mapping[Opened, Facts]) -> str:
    """State how much of the similarity of positions their distance explains."""
    known = [(source.name, one.invariance) for source, one in facts.items() if one.invariance is not None]
    if not known:
        return f"None of the models has {'enough positions' if facts else 'position vectors'} to compare."
    return f"Distance explains {listed([f'{percent(max(0.0, share))} in {name}' for name, share in known])}."


def closeness(opened: Sequence[Opened], session: Session) -> str:
    """State how close two words are in the first source on this machine that has both."""
    for source in opened:
        table = source.table("token")
        if table is None or table.shape[0] * table.shape[1] > MOST_MEASURED:
            continue
        if from_hub(source.text):
            continue  # its words have not been read
        found = session.library.result(table, ("near", *PAIR), partial(near, table))
        if found is not None:
            return (
                f"Cosine {number(found.cosine, digits=2)}: “{PAIR[1]}” is the {ordinal(found.rank)} of "
                f"{table.shape[0]:,} tokens in {source.name}."
            )
    return "Look up any word and its nearest neighbours."


def ordinal(rank: int) -> str:
    """Return a rank among neighbours in words: nearest, second nearest, 24th nearest."""
    return ORDINALS.get(rank, nearest(rank))


def near(table: EmbeddingTable) -> Near | None:
    """Return how close the two words are in a table; ``None`` if it lacks one of them."""
    try:
        found = neighbours(table, PAIR[0], k=min(1_000, table.shape[0] - 1))
        row = table.row(PAIR[1])
    except HfposembError:
        return None
    at = np.flatnonzero(np.asarray(found.rows) == row)
    return Near(float(found.values[at[0]]), int(at[0]) + 1) if len(at) else None


def cards(asked: Sequence[Question], session: Session, models: Sequence[str]) -> str:
    """Return the questions as HTML: links that keep the models, or buttons where nothing is linked."""
    shown = [] if tuple(models) == session.first else [text for text in models if text]
    there = [one for one in asked if session.has(one.tab)]
    return "".join(_card(number, one, session, shown) for number, one in enumerate(there, 1))


def _card(number: int, one: Question, session: Session, models: Sequence[str]) -> str:
    inside = (
        f"<strong>{number}&ensp;{html.escape(one.title)}</strong>"
        f'<span>{html.escape(one.answer)} <em aria-hidden="true">→</em></span>'
        f'<svg viewBox="0 0 56 48" aria-hidden="true">{ICONS[one.icon]}</svg>'
    )
    if not session.linked:
        return f'<button type="button" data-tab="{one.tab}">{inside}</button>'
    tab = "" if one.tab == "start" else one.tab
    return f'<a href="?{html.escape(written(one.controls, models, tab))}">{inside}</a>'
