"""The panel of odd tokens: ranked lists of one vocabulary, whose tokens are buttons."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import gradio as gr

from hfposemb.analysis.tokens.undertrained import UndertrainedToken, UndertrainedTokens, undertrained_tokens
from hfposemb.errors import HfposembError
from hfposemb.text import number, one_line, sentence_case

from ...components.events import EACH
from ...components.happened import Happened
from ...components.help_texts import HELP
from ...components.plot import NeighbourList, NeighbourRow, Panel, PanelRow
from ...jobs import measuring
from ...limits import SEARCHED
from ...recipes.writing import TOKEN_ROLES, command_line, pinned, recipe
from ...session.background_jobs import Request
from ...session.opened import UNREAD, Opened
from ...session.state import Session
from ..chosen_word import of_table, shown, source_of
from .token_head import reading_row, unread
from .token_search import picked_word

if TYPE_CHECKING:
    from collections.abc import Sequence

LISTED = 8
LOOK = "Look for odd tokens"
NAMES = {
    "untrained": "Untrained (distance from unused slots)",
    "near unused in the head": "Closest to unused slots of the head (distance)",
    "near unused": "Closest to unused slots (cosine distance)",
    "near the mean": "Closest to the mean (distance)",
    "far from the mean": "Farthest from the mean (distance)",
    "short": "Short (norm)",
    "long": "Long (norm)",
    "same": "Equal (count)",
    "nearly the same": "Nearly equal (distance)",
}
OUT = {
    "near unused in the head": "near unused rows of the head",
    "near unused": "near unused tokens",
    "near the mean": "near the mean",
    "far from the mean": "far from it",
}


def odd_panels(session: Session, source: Opened | None) -> tuple[Panel, ...]:
    """Return the panel of the odd tokens of one source."""
    table = source.table("token") if source else None
    if source is None or table is None:
        return ()
    empty = Panel("odd", f"Odd tokens of {source.name}", help=HELP["odd tokens"])
    try:
        if unread(session, [source]):
            return (replace(empty, message=sentence_case(f"{UNREAD}.")),)
        found = known(session, source)
        if found is None:
            size = f"Its tables have {numbers_of(source) / 1e6:,.0f} million numbers"
            message = f"{size}, so they are searched on request only. In a terminal: hfposemb odd {source.text}"
            return (replace(empty, message=one_line(message), actions=(LOOK,)),)
    except HfposembError as error:
        return (replace(empty, message=one_line(str(error))),)
    drawn = [one for one in found.lists if one.rows and one.name in NAMES]
    lists = tuple(NeighbourList(NAMES[one.name], "", tuple(map(_row, one.rows))) for one in drawn)
    names, roles = [one.name for one in drawn], ("token", "head") if found.head else TOKEN_ROLES
    command = command_line("odd", pinned(source), "--count", LISTED, "--json")
    return (
        replace(
            empty,
            title=_title(source, found),
            subtitle=" ".join(["Candidates only. Click a token.", *_marked(found)]),
            lists=lists,
            foot=_foot(found),
            recipe=recipe("odd tokens", [source], command=[command], roles=roles, names=names, count=LISTED)
            if drawn
            else None,
        ),
    )


def numbers_of(source: Opened) -> int:
    """Return how many numbers are searched: those of the token table, and of a head that is stored apart."""
    rows, width = source.tokens.shape
    return rows * width * (2 if source.separate else 1)


def known(session: Session, source: Opened) -> UndertrainedTokens | None:
    """Return the odd tokens of a source; for large tables only if they have been computed."""
    key, embeddings = session.source_key(source, ("odd", LISTED)), source.embeddings
    if embeddings is not None and numbers_of(source) <= SEARCHED:
        return session.library.results.make(key, lambda: undertrained_tokens(embeddings, count=LISTED))
    found: UndertrainedTokens | None = session.library.results.get(key)
    return found


def odd_request(session: Session, one: Sequence[str]) -> Request:
    """Return the odd tokens of ``[source, id]`` for a job."""
    (source,) = session.open(one[:1])
    return Request(session.source_key(source, ("odd", LISTED)), measuring.odd, (source.text, LISTED))


def _row(odd: UndertrainedToken) -> NeighbourRow:
    label = " = ".join(map(shown, (odd.label, *odd.twins[:1])))
    marks = f" ({', '.join(odd.marks)})" if odd.marks else ""
    return NeighbourRow(label + marks, odd.value, bool(odd.marks), odd.row)


def _marked(found: UndertrainedTokens) -> list[str]:
    """State which marks the tinted tokens have, and how the rows of added tokens were made."""
    marks = dict.fromkeys(mark for one in found.lists for odd in one.rows for mark in odd.marks)
    said = [f"Tinted: {' or '.join(marks)}."] if marks else []
    if found.origin is not None:
        count = len(found.origin.rows)
        said.append(f"{count:,} {'row was' if count == 1 else 'rows were'} added: {found.origin.sentence}.")
    return said


def _title(source: Opened, found: UndertrainedTokens) -> str:
    untrained = next((one for one in found.lists if one.name == "untrained" and one.rows), None)
    if untrained is not None:
        count, names = untrained.found or len(untrained.rows), _named(untrained.rows)
        many = f"{count:,} tokens of {source.name} look" if count > 1 else f"1 token of {source.name} looks"
        return f"{many} untrained: {', '.join(names)}"
    first = found["near unused"].rows or found["near the mean"].rows
    where = "the unused slots" if found["near unused"].rows else "the mean of all tokens"
    names = _named(first)
    return f"Closest to {where} of {source.name}: {', '.join(names)}"


def _named(rows: Sequence[UndertrainedToken]) -> list[str]:
    """Return three of the tokens, those that every font can write first: a headline of empty boxes says nothing."""
    return [shown(odd.label) for odd in sorted(rows, key=lambda odd: not odd.label.isascii())[:3]]


def _foot(found: UndertrainedTokens) -> str:
    """Summarise how far out the lists reach, what was not found, and how evenly the table fills its space."""
    listed = {one.name: one for one in found.lists}
    out = [
        f"{one.beyond} of {len(one.rows)} {where}"
        for name, where in OUT.items()
        if (one := listed.get(name)) and one.rows
    ]
    said = [f"Beyond chance: {', '.join(out)}"]
    said += [f"{one.found:,} {one.name}" for one in (found["short"], found["long"]) if one.found]
    if not found["same"].rows:
        said.append("no equal rows" if found["nearly the same"].rows else "no equal or nearly equal rows")
    said += [f"{found['unused'].found:,} unused" if found["unused"].found else "no row known to be unused"]
    if found.isoscore is not None and found.isoscore_of_noise is not None and found.anisotropy is not None:
        said.append(f"anisotropy {number(found.anisotropy)} (noise 0)")
        said.append(f"IsoScore {number(found.isoscore)} (noise {number(found.isoscore_of_noise)})")
    return " · ".join([*said, *found.notes])


def chosen(session: Session, opened: Sequence[Opened], table: str, which: str | None) -> Opened | None:
    """Return the source that the map shows, with its token table."""
    drawn = source_of(of_table(session, opened, table), which)
    return source_of(opened, which if drawn is None else drawn.text)


def odd_row(
    session: Session, controls: Sequence[gr.State], field: gr.Radio, picked: Sequence[Any], unfolded: gr.State
) -> None:
    """Create and bind the panel of the source that the map shows.

    ``controls`` are the chosen table and source, ``field`` the control that sets the source; ``picked`` are the word,
    the search field and the search, which a click sets; ``unfolded`` is whether the fold of the panel is open.
    """
    table, which = controls
    with gr.Column():
        read = reading_row(session, unfolded, True, name="odd")
        work = session.jobs.bind(partial(odd_request, session), name="odd", label="Odd tokens")
        row = PanelRow((), scope=session.scope)

    def draw(opened: Sequence[Opened], table: str, which: str | None) -> Any:
        return odd_panels(session, chosen(session, opened, table, which))

    def ask(due: list[Any], table: str, which: str | None, happened: Happened) -> Any:
        source = chosen(session, session.shown(due), table, which)
        if source is None or happened.get("action") != LOOK:
            return gr.skip()
        return [[source.text, uuid4().hex]]  # unique, so that it can be requested again after Cancel

    def pick(due: list[Any], table: str, which: str | None, happened: Happened) -> list[Any]:
        return picked_word(chosen(session, session.shown(due), table, which), happened.get("id"))

    session.redraw(draw, [row], inputs=controls, on=[read.change, table.change], within=unfolded)
    session.when([field.input], draw, [row], inputs=[table, field], within=unfolded)
    session.when([work.done.change], draw, [row], inputs=controls, within=unfolded)
    row.select(pick, [session.due, table, which], list(picked), **EACH)
    row.select(ask, [session.due, table, which], work.wanted, **EACH)
