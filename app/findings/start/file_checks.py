"""The check of the files of all sources, what is wrong with them and what corrects it, and their model cards."""

from __future__ import annotations

import html
import re
from base64 import b64encode
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import gradio as gr

from hfposemb.checkpoints.access import local_path
from hfposemb.errors import HfposembError
from hfposemb.figures.style import listed
from hfposemb.reports.card_facts import HEIGHT, WIDTH, ModelCard, model_card
from hfposemb.tables.sources import HubSource, LocalSource, SampleSource
from hfposemb.text import display, one_line

from ...components.recipe import COPY_JS, Recipe, folded_code
from ...jobs import measuring
from ...limits import CHECKED_AT_ONCE
from ...recipes.writing import TOKEN_ROLES, command_line, listed_as, pinned, quoted, recipe
from ...session.background_jobs import BackgroundJob, Request
from ...session.library import allowed, reader, source_key
from ...session.opened import Opened
from ...session.source_names import short_name
from ...session.state import Session

if TYPE_CHECKING:
    from hfposemb.checks.check_report import CheckReport
    from hfposemb.checks.findings import Finding


def checks(sources: Sequence[Opened]) -> Recipe:
    """Return the recipe of the number of findings of each severity in the files of some sources."""
    checked = {pinned(source): f"hpe.check({quoted(pinned(source))})" for source in sources}
    command = [command_line("check", *checked)]
    reports = listed_as("reports", checked)
    return recipe("checks of files", sources, command=command, roles=TOKEN_ROLES, reports=reports)


NAME = "check"
QUESTION = "Is anything wrong with these files?"
ABOUT = (
    "Configuration, weights and tokenizer are compared with each other, the rows of the tables are examined, and "
    "nothing is executed. Of a model on the Hub, at most 2 MB are read."
)
MORE = " · Model card"
AGAIN = "Check again"
SIGNS = {"wrong": "✕", "suspicious": "?", "note": "i"}
NOTHING = "nothing to do"


def check_key(text: str, *, public: bool) -> Hashable:
    """Return the key under which the library keeps the check of a source. Raises ``HfposembError`` as ``allowed``."""
    return (NAME, source_key(text, public=public))


def has_files(source: Opened, session: Session) -> bool:
    """Return whether a source has files: a folder, a file, a model of the Hub or a sample, but no closed form."""
    try:
        found = allowed(source.text, public=session.public)
    except HfposembError:
        return False
    return isinstance(found, HubSource | LocalSource) or (isinstance(found, SampleSource) and found.step is None)


def is_quick(source: Opened, session: Session) -> bool:
    """Return whether the check takes well under a second: of a sample, or of a small local checkpoint."""
    found = allowed(source.text, public=session.public)
    if isinstance(found, SampleSource):
        return True
    if not isinstance(found, LocalSource):
        return False
    try:
        path = local_path(found, reader(public=session.public))
        files = path.iterdir() if path.is_dir() else iter((path,))
        return sum(file.stat().st_size for file in files if file.is_file()) <= CHECKED_AT_ONCE
    except OSError:
        return False


def known(opened: Sequence[Opened], session: Session) -> dict[Opened, CheckReport | None]:
    """Return the sources that have files, with the reports of those that have been checked."""
    get, public = session.library.results.get, session.public
    return {one: get(check_key(one.text, public=public)) for one in opened if has_files(one, session)}


def checked(opened: Sequence[Opened], session: Session) -> dict[Opened, CheckReport | None]:
    """Return the same after checking what takes well under a second; a source that cannot be checked is left out."""
    for source, found in known(opened, session).items():
        if found is None and is_quick(source, session):
            key = check_key(source.text, public=session.public)
            try:
                here = partial(measuring.check, source.text, lambda share, doing: None, public=session.public)
                session.library.results.make(key, here)
            except HfposembError:
                continue  # the job reports the error
    return known(opened, session)


def check_request(session: Session, one: Sequence[str]) -> Request:
    """Return the check of a source ``[text]`` for a job."""
    key = check_key(one[0], public=session.public)
    return Request(key, measuring.check, one, name=short_name(one[0]))


# --- what is shown ----------------------------------------------------------------------------------------------------


def heading(found: Mapping[Opened, CheckReport | None]) -> str:
    """Return the question, followed by the result for the sources that have been checked."""
    some, sound = [], []
    for source, report in found.items():
        if report is None:
            continue
        if report.findings:
            some.append(f"{counted(report)} in {source.name}")
        else:
            sound.append(source.name)
    said = [*some, *([f"{'nothing' if some else 'Nothing'} in {listed(sound)}"] if sound else [])]
    return f"{QUESTION} {'; '.join(said)}".rstrip()


def counted(report: CheckReport) -> str:
    """Return the number of findings of each severity that has any."""
    plural = {"wrong": "wrong", "suspicious": "suspicious", "note": "notes"}
    counts = {severity: len(report.of(severity)) for severity in plural}  # type: ignore[arg-type]
    return ", ".join(f"{count:,} {name if count == 1 else plural[name]}" for name, count in counts.items() if count)


def page(found: Mapping[Opened, CheckReport | None], others: Sequence[Opened]) -> str:
    """Return the reports as HTML; ``others`` are the sources without files."""
    parts = [f"<p>{ABOUT}</p>"]
    parts += [_section(source, report) for source, report in found.items()]
    if others:
        verb = "is computed and has" if len(others) == 1 else "are computed and have"
        parts.append(f"<p>{html.escape(listed([one.name for one in others]))} {verb} no files.</p>")
    done = [source for source, report in found.items() if report is not None]
    return "".join([*parts, folded_code(checks(done), heading(found)) if done else ""])


def _section(source: Opened, report: CheckReport | None) -> str:
    name = html.escape(source.name)
    if report is None:
        return f"<section><h3>{name}: not checked yet</h3></section>"
    told = "".join(_finding(one) for one in report.findings)
    looked = [("Checked", report.checked), ("Not checked", report.not_checked)]
    lists = "".join(
        f"<p>{head}</p><ul>{''.join(f'<li>{html.escape(display(line, width=300))}</li>' for line in lines)}</ul>"
        for head, lines in looked
        if lines
    )
    about = f"<details><summary>What was checked, and what was not</summary>{lists}</details>" if lists else ""
    return f"<section><h3>{name}: {report.summary}</h3>{told}{about}</section>"


def _finding(one: Finding) -> str:
    """Return a finding: its severity as a sign and a word, what it says, why it matters, and the fix to copy."""
    said, why, file = (html.escape(one_line(text)) for text in (one.message, one.why, one.file))
    copied = "" if one.fix == NOTHING else '<button type="button" aria-label="Copy the fix">Copy</button>'
    fix = f'<pre tabindex="0" aria-label="Fix" role="group">{html.escape(one.fix)}</pre>'
    return (
        f'<div class="finding {one.severity}"><p><strong><span aria-hidden="true">{SIGNS[one.severity]}</span> '
        f"{one.severity.capitalize()}</strong> {said}</p><p>{why}</p>"
        f"<div><p>Fix for {file}{copied}</p>{fix}</div></div>"
    )


# --- model cards ------------------------------------------------------------------------------------------------------


NEEDS = ("position", "token", "head")


def card_sections(opened: Sequence[Opened], session: Session) -> str:
    """Return the cards as HTML, each folded; none of a source whose tables would have to be fetched first."""
    at_hand = [source for source in opened if source.embeddings is not None and _at_hand(source, session)]
    cards = ((source, card_of(source, at_hand, session)) for source in at_hand)
    return "".join(_card(source, card) for source, card in cards if card is not None)


def card_of(source: Opened, at_hand: Sequence[Opened], session: Session) -> ModelCard | None:
    """Return the card of a source, written once for all visitors; ``None`` if it cannot be read.

    It is compared with the model that its files say it was made from, if that is open, too: from rows alone nobody
    knows which of two models came first.
    """
    embeddings = source.embeddings
    tables = [] if embeddings is None else list(embeddings.tables.values())
    if embeddings is None or not tables:
        return None
    others = [one for one in at_hand if one.text != source.text]

    def stated() -> str:
        return (embeddings.made_from() if embeddings.made_from is not None else None) or ""

    try:
        named = session.library.result(tables[0], ("made from", source.text), stated) if others else ""
        of = {one.embeddings.name: one for one in others if one.embeddings is not None}
        base = of.get(named)
        what = ("card", source.text, "" if base is None else base.text)
        compared = None if base is None else base.embeddings
        return session.library.result(tables[0], what, lambda: model_card(embeddings, base=compared))
    except HfposembError:
        return None  # the source's own panel shows the reason


def _at_hand(source: Opened, session: Session) -> bool:
    """Return whether its tables are read, or small and on this machine."""
    try:
        if has_files(source, session) and is_quick(source, session):
            return True
        return session.library.opened(source.text, NEEDS, public=session.public) is not None and source.there
    except HfposembError:
        return False


def _card(source: Opened, card: ModelCard) -> str:
    name = html.escape(source.name)
    stem = re.sub(r"[^A-Za-z0-9]+", "-", source.name).strip("-").lower()[:60] or "model"
    pictures = "".join(_picture(card, name, stem, dark=dark) for dark in (False, True))
    return (
        f'<details class="recipe card"><summary>Model card of {name}</summary>'
        '<div><p><strong>Markdown</strong><button type="button" aria-label="Copy Markdown">Copy</button></p>'
        f'<pre tabindex="0" aria-label="Markdown" role="group">{html.escape(card.markdown())}</pre></div>'
        f"{pictures}</details>"
    )


def _picture(card: ModelCard, name: str, stem: str, *, dark: bool) -> str:
    """Return a picture with what saves it: a link for SVG, and a button for PNG, which the page paints."""
    shade = "dark" if dark else "light"
    data = f"data:image/svg+xml;base64,{b64encode(card.svg(dark=dark).encode()).decode()}"
    return (
        f'<figure><img src="{data}" width="{WIDTH}" height="{HEIGHT}" alt="Card of {name}, {shade}">'
        f'<figcaption>{shade.capitalize()}, {WIDTH:,} × {HEIGHT} <a href="{data}" download="{stem}-{shade}.svg">SVG</a>'
        f'<button type="button" data-png="{stem}-{shade}.png" aria-label="Save as PNG, {shade}">PNG</button>'
        "</figcaption></figure>"
    )


# --- the fold ---------------------------------------------------------------------------------------------------------


def check_fold(session: Session) -> None:
    """Create the fold, which checks the sources when it is opened: large ones in a child that can be cancelled."""
    box, unfolded = session.fold(NAME, f"{QUESTION}{MORE}")
    with box:
        shown = gr.HTML(js_on_load=COPY_JS, apply_default_css=False, elem_classes="checks")
        with gr.Column(elem_classes="in-place"):
            running = session.jobs.bind(partial(check_request, session), name=NAME, label="Check")
            again = gr.Button(AGAIN, variant="secondary", size="lg", scale=0, min_width=160, visible=False)

    def draw(opened: Sequence[Opened], unfolded: bool, done: dict[str, Any]) -> Any:
        if not unfolded:
            return gr.update(label=f"{heading(known(opened, session))}{MORE}"), gr.skip(), [], gr.skip()
        found = checked(opened, session)
        missing = [[one.text] for one, report in found.items() if report is None]
        failed = BackgroundJob.failed(done, missing)
        others = [one for one in opened if one not in found]
        label = gr.update(label=f"{heading(found)}{MORE}")
        return (
            label,
            page(found, others) + card_sections(opened, session),
            [] if failed else missing,
            gr.update(visible=failed),
        )

    outputs = [box, shown, running.wanted, again]
    session.redraw(draw, outputs, inputs=[unfolded, running.done], on=[unfolded.change, running.done.change])
    running.again_on(again.click)
