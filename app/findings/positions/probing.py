"""Position probes, computed on request: can a linear model read the position off a vector?"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import gradio as gr

from hfposemb.analysis.positions.probes import MOST, PROBES
from hfposemb.figures.style import listed
from hfposemb.text import number, percent

from ...components.events import QUIET
from ...components.help_texts import folded_help
from ...components.recipe import COPY_JS, folded_code
from ...jobs import measuring
from ...recipes.writing import listed_as, pinned, position, recipe, role_of
from ...session.background_jobs import Request
from ...session.opened import Opened
from ...session.shown_positions import tables_of
from ...session.state import Session

if TYPE_CHECKING:
    from hfposemb.analysis.positions.probes import Probe

Found = Mapping[str, "tuple[Probe, Probe]"]

QUESTION = "Can a linear model decode the position from a vector?"
MEASURE = "Run the probes"
RELATIVE = "relative"
HEADS = {
    "absolute": ("Absolute", "all columns, as in the paper"),
    "absolute, 32 components": ("Absolute, stable", "32 leading components"),
    "relative": ("Relative", "as in the paper"),
    "relative, standardised": ("Relative, stable", "columns standardised"),
}


def known(opened: Sequence[Opened], session: Session) -> dict[Opened, Found | None]:
    """Return the sources that have a vector for each position, with the probes that have been run."""
    out: dict[Opened, Found | None] = {}
    for source, positions in tables_of(opened, 0, session).items():
        out[source] = session.library.results.get(session.library.result_key(positions.whole, ("probes",)))
    return out


def missing(opened: Sequence[Opened], session: Session) -> list[list[str]]:
    """Return what has yet to be probed: source and role."""
    return [[source.text, role_of(source)] for source, found in known(opened, session).items() if found is None]


def finding(found: Mapping[Opened, Found | None]) -> str:
    """State the error of the stable absolute probe, or that nothing has been measured."""
    stable = list(PROBES)[1]
    said = [
        f"{number(one[stable][0].mean, digits=1)} in {source.name}" for source, one in found.items() if one is not None
    ]
    if not said:
        return "Not measured yet"
    return f"Decoded from 32 components, a position has a mean error of {listed(said)}"


def table(opened: Sequence[Opened], session: Session) -> str:
    """Return the table of all sources as HTML, with dashes where no probe was run."""
    found = known(opened, session)
    if not found:
        return "<h3>None of the sources has position vectors</h3><p>Try sample:gpt2, or sinusoidal:256x128.</p>"
    head = "".join(f'<th scope="col">{name}<small>{how}</small></th>' for name, how in HEADS.values())
    rows = [
        f'<tr><th scope="row">{html.escape(source.name)}</th>{"".join(cell(name, one) for name in HEADS)}</tr>'
        for source, one in found.items()
    ]
    done = [source for source, one in found.items() if one is not None]
    tables = {pinned(source): f"{position(source)}.table" for source in done}
    probed = recipe("probes", done, tables=listed_as("tables", tables))
    code = folded_code(probed, finding(found)) if done else ""
    about = f"Mean error in positions, and share of pairs in the wrong order. At most {MOST:,} positions are used."
    return (
        f"<h3>{html.escape(finding(found))}</h3><p>{about}</p>"
        f'<div class="scroll" tabindex="0" role="region" aria-label="Probes"><table><thead><tr><th scope="col">Source'
        f"</th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        f"{folded_help('probes')}{code}"
    )


def cell(name: str, found: Found | None) -> str:
    """Format one error, with that of noise."""
    if found is None:
        return "<td>–</td>"
    one, noise = found[name]
    if name.startswith(RELATIVE):
        mean, spread = number(100 * one.mean, digits=1), number(100 * one.deviation, digits=1)
        return f"<td>{mean} ± {spread}\u00a0%<small>noise {percent(noise.mean)}</small></td>"
    mean, spread, null = (number(value, digits=1) for value in (one.mean, one.deviation, noise.mean))
    return f"<td>{mean} ± {spread}<small>noise {null}</small></td>"


def probe_table(session: Session, unfolded: gr.State) -> None:
    """Create the table of the probes, and the button that runs them in a child process that can be cancelled.

    The table is drawn while its fold is open.
    """

    def asks(one: Sequence[str]) -> Request:
        table = session.table(*one)
        return Request(session.library.result_key(table, ("probes",)), measuring.probes, one)

    gr.HTML(f"<h3>{QUESTION}</h3>", apply_default_css=False, elem_classes="probes")
    shown = gr.HTML(js_on_load=COPY_JS, apply_default_css=False, elem_classes="probes")
    with gr.Column(elem_classes="in-place"):
        running = session.jobs.bind(asks, name="probes", label="Probes")
        button = gr.Button(MEASURE, variant="secondary", size="lg", scale=0, min_width=200)
    session.redraw(partial(table, session=session), [shown], on=[running.done.change], within=unfolded)
    # Reset ``wanted``, so that requesting the same again counts as a change.
    running.done.change(lambda: [], None, running.wanted, **QUIET)
    session.when([button.click], partial(missing, session=session), [running.wanted])
