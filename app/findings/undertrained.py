"""The panel of odd tokens: ranked lists of one vocabulary, whose tokens are buttons."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import gradio as gr

from hfposemb.analysis.undertrained import UndertrainedToken, UndertrainedTokens, undertrained_tokens
from hfposemb.errors import HfposembError
from hfposemb.numbers import number
from hfposemb.text import one_line

from ..components.events import QUIET
from ..components.plot import NeighbourList, NeighbourRow, Panel, PanelRow
from ..jobs import measuring
from ..limits import SEARCHED
from ..recipes import token_snippets
from ..session.opened import Opened
from ..session.state import Session
from .chosen_word import Word, shown
from .token_search import NOT_SEARCHED

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from hfposemb.tables.table import EmbeddingTable

    from ..jobs.children import Progress
    from ..jobs.queue import Visitor

LISTED = 8
LOOK = "Look for odd tokens"
NAMES = {
    "near unused": "Closest to unused slots (cosine distance)",
    "near the mean": "Closest to the mean (distance)",
    "far from the mean": "Farthest from the mean (distance)",
    "short": "Short (norm)",
    "long": "Long (norm)",
    "same": "Equal (count)",
    "nearly the same": "Nearly equal (distance)",
}
OUT = {"near unused": "near unused tokens", "near the mean": "near the mean", "far from the mean": "far from it"}

HELP = """
A token that training hardly saw keeps its initial vector. So it is close to the mean of all tokens, where the
“SolidGoldMagikarp” of GPT-2 was found (Rumbelow and Watkins 2023; in GPT-2 XL such tokens are far from it), and close
to the mean of rows that are known to be unused. For the latter, the direction that all tokens share is removed, and the
list shows the cosine distance to that mean (Land and Bartolo 2024, Fishing for Magikarp).

A norm is an outlier if it differs from the median by a quarter and has a modified z-score that few tables of noise
reach. Equal rows are equal to the last bit; for nearly equal rows, the distance is relative to the typical distance
from the mean.

Every ranking has a first entry, so the foot says how many of those listed lie beyond the farthest of as many normal
numbers. Whether a model cannot produce a token can be tested only with the model.
"""


def odd_panels(session: Session, source: Opened | None) -> tuple[Panel, ...]:
    """Return the panel of the odd tokens of one source."""
    table = source.table("token") if source else None
    if source is None or table is None:
        return ()
    empty = Panel("odd", f"Odd tokens of {source.name}", help=HELP)
    try:
        found = known(session, table)
        if found is None:
            size = f"Its table has {table.shape[0] * table.shape[1] / 1e6:,.0f} million numbers"
            message = f"{size}, so it is searched on request only. In a terminal: hfposemb odd {source.text}"
            return (replace(empty, message=one_line(message), actions=(LOOK,)),)
    except HfposembError as error:
        return (replace(empty, message=one_line(str(error))),)
    drawn = [one for one in found.lists if one.rows and one.name in NAMES]
    lists = tuple(NeighbourList(NAMES[one.name], "", tuple(map(_row, one.rows))) for one in drawn)
    return (
        replace(
            empty,
            title=_title(source, found),
            subtitle="Candidates only. Click a token.",
            lists=lists,
            foot=_foot(found),
            recipe=token_snippets.odd(source, [one.name for one in drawn], count=LISTED) if drawn else None,
        ),
    )


def known(session: Session, table: EmbeddingTable) -> UndertrainedTokens | None:
    """Return the odd tokens of a table; for a large one only if they have been computed."""
    what = ("odd", LISTED)
    if table.shape[0] * table.shape[1] <= SEARCHED:
        return session.library.result(table, what, lambda: undertrained_tokens(table, count=LISTED))
    found: UndertrainedTokens | None = session.library.results.get(session.library.result_key(table, what))
    return found


async def look(
    session: Session, visitor: Visitor, part: str, wanted: Sequence[Sequence[Any]]
) -> AsyncGenerator[Progress, None]:
    """Compute the odd tokens of ``[[source, role, id]]`` in a child process."""
    text, role, _ = wanted[0]
    table = session.open([text])[0].table(role)
    if table is not None:
        key = session.library.result_key(table, ("odd", LISTED))
        steps = session.jobs.compute(visitor, part, key, list(wanted[0]), measuring.odd, text, role, LISTED)
        async with aclosing(steps):
            async for progress in steps:
                yield progress


def _row(odd: UndertrainedToken) -> NeighbourRow:
    label = " = ".join(map(shown, (odd.label, *odd.twins[:1])))
    return NeighbourRow(label, odd.value, False, odd.row)


def _title(source: Opened, found: UndertrainedTokens) -> str:
    first = found["near unused"].rows or found["near the mean"].rows
    where = "the unused slots" if found["near unused"].rows else "the mean of all tokens"
    names = [shown(odd.label) for odd in first[:3]]
    return f"Closest to {where} of {source.name}: {', '.join(names)}"


def _foot(found: UndertrainedTokens) -> str:
    """Summarise how far out the lists reach, what was not found, and how evenly the table fills its space."""
    out = [f"{one.beyond} of {len(one.rows)} {where}" for name, where in OUT.items() if (one := found[name]).rows]
    said = [f"Beyond chance: {', '.join(out)}"]
    said += [f"{one.found:,} {one.name}" for one in (found["short"], found["long"]) if one.found]
    if not found["same"].rows:
        said.append("no equal rows" if found["nearly the same"].rows else "no equal or nearly equal rows")
    said += [f"{found['unused'].found:,} unused" if found["unused"].found else "no row known to be unused"]
    if found.isoscore is not None and found.isoscore_of_noise is not None and found.anisotropy is not None:
        said.append(f"anisotropy {number(found.anisotropy)} (noise 0)")
        said.append(f"IsoScore {number(found.isoscore)} (noise {number(found.isoscore_of_noise)})")
    return " · ".join([*said, *found.notes])


def odd_row(
    session: Session,
    which: gr.State,
    field: gr.Radio,
    chosen: Callable[[Sequence[Opened], str | None], Opened | None],
    picked: Sequence[Any],
    unfolded: gr.State,
) -> None:
    """Create and bind the panel of the source that ``which`` names and ``chosen`` finds.

    ``field`` is the control that sets ``which``; ``picked`` are the word, the search field and the search, which a
    click sets; ``unfolded`` is whether the fold that the panel is in is open.
    """
    with gr.Column():
        work = session.jobs.bind(partial(look, session), name="odd", label="Odd tokens")
        row = PanelRow((), scope=session.scope)

    def draw(opened: Sequence[Opened], unfolded: bool, which: str | None) -> Any:
        return odd_panels(session, chosen(opened, which)) if unfolded else gr.skip()

    def ask(due: list[Any], which: str | None, happened: gr.EventData) -> Any:
        source = chosen(session.shown(due), which)
        if source is None or happened._data.get("action") != LOOK:
            return gr.skip()
        return [[source.text, "token", uuid4().hex]]  # unique, so that it can be requested again after Cancel

    def pick(due: list[Any], which: str | None, happened: gr.EventData) -> list[Any]:
        source, token = chosen(session.shown(due), which), happened._data.get("id")
        table = source.table("token") if source else None
        if source is None or table is None or not isinstance(token, int) or not 0 <= token < table.shape[0]:
            return [gr.skip()] * 3
        text = table.labels[token]
        return [Word(text, source.text, token).state, one_line(text.strip(), width=60), list(NOT_SEARCHED)]

    session.redraw(draw, [row], inputs=[unfolded, which], on=[unfolded.change])
    session.when([field.input], draw, [row], inputs=[unfolded, field])
    session.when([work.done.change], draw, [row], inputs=[unfolded, which])
    row.select(pick, [session.due, which], list(picked), trigger_mode="always_last", **QUIET)
    row.select(ask, [session.due, which], work.wanted, trigger_mode="always_last", **QUIET)
