"""The check of the files of all sources: what is wrong with them, why it matters, and what corrects it."""

from __future__ import annotations

import html
from collections.abc import AsyncGenerator, Callable, Hashable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

import gradio as gr

from hfposemb.checkpoints.access import local_path
from hfposemb.errors import HfposembError
from hfposemb.figures.style import listed
from hfposemb.tables.sources import HubSource, LocalSource, SampleSource
from hfposemb.text import display, one_line

from ...components.events import QUIET
from ...components.recipe import COPY_JS, Recipe, folded_code
from ...jobs import children, measuring
from ...jobs.children import JobError
from ...jobs.visitor import Visitor
from ...limits import CHECKED_AT_ONCE
from ...recipes.writing import command_line, dict_lines, pinned, quoted, recipe_of
from ...session.library import allowed, reader, source_key
from ...session.opened import Opened
from ...session.source_names import short_name
from ...session.state import Session

if TYPE_CHECKING:
    from hfposemb.checks.check_report import CheckReport
    from hfposemb.checks.findings import Finding


def checks(sources: Sequence[Opened]) -> Recipe:
    """Return the recipe of the number of findings of each severity in the files of some sources."""
    body = [
        *dict_lines({pinned(source): f"hpe.check({quoted(pinned(source))})" for source in sources}, "reports"),
        'severities = ("wrong", "suspicious", "note")',
        "shown = {name: {one: len(each.of(one)) for one in severities} for name, each in reports.items()}",
        'print(*reports.values(), sep="\\n\\n")',
    ]
    return recipe_of(body, sources, command=[command_line("check", *map(pinned, sources))], roles=("token",))


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
    return (NAME, source_key(allowed(text, public=public), public=public))


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


# --- the fold ---------------------------------------------------------------------------------------------------------


def check_fold(session: Session, after: Callable[[Sequence[Opened], Session], str]) -> None:
    """Create the fold, which checks the sources when it is opened: large ones in a child that can be cancelled.

    ``after`` writes what follows the reports.
    """
    box, unfolded = session.fold(NAME, f"{QUESTION}{MORE}")
    with box:
        shown = gr.HTML(js_on_load=COPY_JS, apply_default_css=False, elem_classes="checks")
        with gr.Column(elem_classes="in-place"):
            running = session.jobs.bind(_work(session), name=NAME, label="Check")
            again = gr.Button(AGAIN, variant="secondary", size="lg", scale=0, min_width=160, visible=False)

    def draw(opened: Sequence[Opened], unfolded: bool, done: dict[str, Any]) -> Any:
        if not unfolded:
            return gr.update(label=f"{heading(known(opened, session))}{MORE}"), gr.skip(), [], gr.skip()
        found = checked(opened, session)
        missing = [[one.text] for one, report in found.items() if report is None]
        tried = [] if done.get("ok", True) else done["wanted"]  # by the last job, which failed or was cancelled
        failed = bool(missing) and all(one in tried for one in missing)
        others = [one for one in opened if one not in found]
        label = gr.update(label=f"{heading(found)}{MORE}")
        return label, page(found, others) + after(opened, session), [] if failed else missing, gr.update(visible=failed)

    def retry(due: list[Any]) -> list[list[str]]:
        return [[one.text] for one, report in known(session.shown(due), session).items() if report is None]

    outputs = [box, shown, running.wanted, again]
    session.redraw(draw, outputs, inputs=[unfolded, running.done], on=[unfolded.change, running.done.change])
    again.click(retry, [session.due], running.wanted, **QUIET)


def _work(session: Session) -> Any:
    async def work(
        visitor: Visitor, place: str, wanted: Sequence[Sequence[str]]
    ) -> AsyncGenerator[children.Progress, None]:
        reasons = []
        for (text,) in wanted:
            key = check_key(text, public=session.public)
            steps = session.jobs.compute(visitor, place, key, [text], measuring.check, text)
            try:
                async with aclosing(steps):
                    async for progress in steps:
                        yield progress
            except JobError as error:  # the others are checked all the same
                reasons.append(f"{short_name(text)}: {error}")
        if reasons:
            raise HfposembError("; ".join(reasons))

    return work
