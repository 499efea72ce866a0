"""The fold of a model in full precision and quantised: what quantisation did to its token vectors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import gradio as gr

from hfposemb.comparison.quantisation import LISTED, quantised_pair
from hfposemb.figures.quantisation_errors import quantisation_errors
from hfposemb.reports.html_tables import damage
from hfposemb.text import one_line

from ...components.events import EACH
from ...components.happened import Happened
from ...components.help_texts import HELP
from ...components.plot import Drawing, NeighbourList, NeighbourRow, Panel, PanelRow, Panels
from ...jobs import measuring
from ...recipes.writing import TOKEN_ROLES, part_code, recipe
from ...session.background_jobs import BackgroundJob, Request
from ..chosen_word import shown
from .comparison import chosen_pair

if TYPE_CHECKING:
    from hfposemb.comparison.quantisation import QuantisationDamage

    from ...session.opened import Opened
    from ...session.state import Session

NAME = "quantisation"
QUESTION = "Quantisation: what did it do to the tokens?"
AGAIN = "Compare again"


def forms_of(opened: Sequence[Opened], chosen: str | None) -> tuple[Opened, Opened] | None:
    """Return the original and the quantised one of the chosen pair; ``None`` if it is not a model in both forms."""
    sources = {id(source.embeddings): source for source in chosen_pair(opened, chosen) or ()}
    forms = quantised_pair([source.embeddings for source in sources.values() if source.embeddings is not None])
    return None if forms is None else (sources[id(forms[0])], sources[id(forms[1])])


def wanted_of(session: Session, forms: tuple[Opened, Opened] | None) -> list[list[str]]:
    """Return the comparison ``[[original, quantised]]`` if it has yet to be computed."""
    return [] if forms is None or _known(session, forms) is not None else [[source.text for source in forms]]


def damage_request(session: Session, one: Sequence[str]) -> Request:
    """Return the comparison of the sources ``[original, quantised]`` for a job."""
    return Request(_key(session, session.open(one)), measuring.quantised, (one, LISTED))


def _key(session: Session, forms: Sequence[Opened]) -> Any:
    return tuple(session.source_key(source, (NAME, LISTED)) for source in forms)


def _known(session: Session, forms: Sequence[Opened]) -> QuantisationDamage | None:
    found: QuantisationDamage | None = session.library.results.get(_key(session, forms))
    return found


def quantisation_panels(session: Session, forms: tuple[Opened, Opened] | None, *, stopped: bool = False) -> Panels:
    """Return the panel of a model in both forms; if its comparison was ``stopped``, it can be asked for again."""
    if forms is None:
        return Panels(())
    original, quantised = forms
    found = _known(session, forms)
    if found is None:
        said = "The comparison was stopped." if stopped else "Comparing every token with the original…"
        title = f"{quantised.name} against {original.name}"
        return Panels(
            (Panel(NAME, title, message=said, help=HELP["quantisation"], actions=(AGAIN,) if stopped else ()),)
        )
    columns = {
        "Largest relative errors": [move.distance for move in found.worst],
        "Share of their neighbours kept": [move.kept for move in found.worst],
    }
    code = {"left": part_code(original), "right": part_code(quantised)}
    figure = quantisation_errors(found, style=(quantised.color, quantised.dash))
    panel = Panel(
        NAME,
        damage(found),
        (Drawing(figure),),
        source=(quantised.name, f"{found.stored[1]}; {original.name} is {found.stored[0]}"),
        color=quantised.color,
        help=HELP["quantisation"],
        lists=tuple(NeighbourList(name, "", _rows(found, values)) for name, values in columns.items()),
        foot="; ".join([f"{len(found.labels):,} tokens", *map(one_line, found.notes)]),
        recipe=recipe("quantised", [original, quantised], roles=TOKEN_ROLES, **code, count=LISTED),
    )
    return Panels((panel,))


def _rows(found: QuantisationDamage, values: Sequence[float]) -> tuple[NeighbourRow, ...]:
    words = (shown(move.label) for move in found.worst)
    return tuple(NeighbourRow(word, value, id=row) for row, (word, value) in enumerate(zip(words, values, strict=True)))


def quantisation_fold(session: Session, chosen: gr.State) -> None:
    """Create and bind the fold, which is shown for a chosen pair that is a model in both forms."""
    box, unfolded = session.fold(NAME, QUESTION)
    with box:
        with gr.Column(elem_classes="in-place"):
            work = session.jobs.bind(partial(damage_request, session), name=NAME, label="Quantisation")
        row = PanelRow((), scope=session.scope)

    def draw(opened: Sequence[Opened], unfolded: bool, chosen: str | None, done: dict[str, Any]) -> list[Any]:
        forms = forms_of(opened, chosen)
        seen = gr.update(visible=forms is not None)
        if not unfolded:
            return [seen, gr.skip(), []]
        wanted = wanted_of(session, forms)
        stopped = BackgroundJob.failed(done, wanted)
        return [seen, quantisation_panels(session, forms, stopped=stopped), [] if stopped else wanted]

    def act(due: list[Any], chosen: str | None, happened: Happened) -> list[Any]:
        told, forms = happened.told, forms_of(session.shown(due), chosen)
        stay = [gr.skip()] * 3
        if forms is None:
            return [gr.skip(), *stay]
        if told.get("action") == AGAIN:
            return [{}, *stay]  # what draws asks for it
        found, row = _known(session, forms), told.get("id")
        if found is None or not isinstance(row, int) or not 0 <= row < len(found.worst):
            return [gr.skip(), *stay]
        return [gr.skip(), *session.show_word(forms[1], found.worst[row].label)]

    inputs = [unfolded, chosen, work.done]
    session.redraw(draw, [box, row, work.wanted], inputs=inputs, on=[unfolded.change, chosen.change, work.done.change])
    asked = [work.done, session.asked, session.tabs, session.active]
    row.select(act, [session.due, chosen], asked, **EACH)
