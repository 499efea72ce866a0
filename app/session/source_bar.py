"""The bar above the tabs: the sources that all tabs show, what is read of them, and why one cannot be opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from ..components.events import QUIET, NoStub
from ..components.lines import WORK_LINE
from ..components.page_script import on_event, on_load
from ..limits import MOST_SOURCES
from . import suggestions
from .opened import Opened, left_out, problems
from .source_names import HUB_PRESETS, PRESETS, choices

if TYPE_CHECKING:
    from .state import Session


SIGN_IN = "Sign in with Hugging Face"
SIGN_OUT = "Sign out ({})"


class SignInButton(gr.LoginButton, metaclass=NoStub):
    """Gradio's button, which comes back to the view it was clicked in; Gradio's forgets all models but the first."""

    @classmethod
    def drawn(cls) -> SignInButton:
        """Create the button of a page."""
        return cls(SIGN_IN, SIGN_OUT, variant="secondary", size="sm", scale=0, min_width=0, elem_classes="sign-in")

    def activate(self) -> None:
        """Bind the click, and the name of who is signed in when the page is loaded."""
        self.click(None, self, None, js=on_event("signInOrOut", signIn=SIGN_IN), **QUIET)
        self.attach_load_event(self._check_login_status, None)

    def get_block_name(self) -> str:
        """Return the name of the component in the browser."""
        return "button"

    def get_block_class(self) -> str:
        """Return the same."""
        return "button"


LABEL = f"Models to compare (up to {MOST_SOURCES})"


@dataclass(frozen=True)
class SourceBar:
    """The components of the bar, created above the tabs and bound to the page afterwards.

    ``first`` are the sources at first paint, ``scope`` is the page's. ``colours`` gives every chip the colour of its
    source.
    """

    first: tuple[str, ...]
    scope: str
    field: gr.Dropdown
    count: gr.HTML
    colours: gr.HTML
    problem: gr.HTML
    reading: gr.HTML
    notice: str

    @classmethod
    def drawn(cls, first: Sequence[str], scope: str, *, sign_in: bool = False, notice: str = "") -> SourceBar:
        """Create the components, with ``sign_in`` also the button to sign in; a ``notice`` is shown at first."""
        with gr.Column(elem_classes=["source-bar", f"bar-{scope}"]):
            with gr.Row(elem_classes="source-chips"):
                field = gr.Dropdown(
                    offered(first),
                    value=list(first),
                    multiselect=True,
                    allow_custom_value=True,
                    label=LABEL,
                    elem_classes="sources",
                    scale=1,
                    min_width=240,
                )
                count = gr.HTML(
                    "",
                    js_on_load=on_load("sourceField"),
                    apply_default_css=False,
                    elem_classes="source-count",
                    scale=0,
                    min_width=56,
                )
                if sign_in:
                    SignInButton.drawn()
            problem = gr.HTML("", visible=False, elem_classes="source-error")
            reading = gr.HTML(visible=False, **WORK_LINE)
        colours = gr.HTML(chip_colours(first, scope), visible="hidden", apply_default_css=False)
        return cls(tuple(first), scope, field, count, colours, problem, reading, notice)

    @property
    def shown(self) -> list[Any]:
        """The components that ``updates`` is for."""
        return [self.field, self.colours]

    def offering(self, texts: Sequence[str], own: Sequence[str]) -> Any:
        """Return the update of the field that offers these sources and the visitor's ``own`` among the others."""
        return gr.update(choices=offered(texts, (*own, *self.first)))

    def updates(self, texts: Sequence[str], own: Sequence[str] = ()) -> list[Any]:
        """Return updates that show these sources, and offer the visitor's ``own`` among the others."""
        field = {**self.offering(texts, own), "value": list(filter(None, texts))}
        return [field, chip_colours(texts, self.scope)]

    def bind(self, session: Session, sessions: Mapping[str, Session], foot: gr.HTML, told: Told) -> None:
        """Keep the bar, the sources and the page's footer, whose HTML ``told`` returns, in sync."""

        def chosen(
            texts: Sequence[str] | None, before: list[str], own: list[str], active: str, fetched: dict[str, Any]
        ) -> list[Any]:
            """Take the sources of the field, which then shows no more of them than the page."""
            named = list(filter(None, before))
            if list(texts or ()) == named:
                return [gr.skip()] * (2 + len(self.shown))
            wanted = [text for text in texts or () if text in named] + list(texts or ())
            shown, beyond = sessions.get(active, session).fitting(wanted, fetched)
            shown = placed(shown, before)
            return [shown, beyond, *self.updates(shown, own)]

        def status(active: str, texts: list[str], fetched: dict[str, Any], beyond: list[str]) -> list[Any]:
            opened = sessions[active].open(texts, fetched)
            line = problems(opened, [*fetched.get("notices", ()), *left_out(beyond)])
            return [gr.update(value=line, visible=bool(line)), counted(opened), told(session.open(texts))]

        def due(active: str, restored: str, texts: list[str], fetched: dict[str, Any], *drawn: list[Any]) -> Any:
            """Let the active tab draw, unless it is already drawn with these values or sources are being fetched."""
            if active not in sessions:
                return gr.skip()  # the page has not said yet which tab it shows
            now = sessions[active].drawn_with(restored, texts, fetched)
            return {sessions[active].due: now} if now and now != drawn[list(sessions).index(active)] else gr.skip()

        self.count.value = counted(session.open(self.first))
        said = problems(session.open(self.first), [*left_out(session.beyond.value), *filter(None, [self.notice])])
        self.problem.value, self.problem.visible = said, bool(said)
        # Not "input", which Gradio does not fire for typed values. Updating the field in turn changes nothing further.
        sources = session.sources
        kept = [sources, session.beyond, *self.shown]
        self.field.change(
            chosen,
            [self.field, sources, session.own, session.active, session.fetched],
            kept,
            trigger_mode="always_last",
            **QUIET,
        )
        suggestions.in_field(session, self.field)
        sources.change(self.updates, [sources, session.own], self.shown, **QUIET)
        changes = [one.change for one in (sources, session.active, session.fetched, session.restored)]
        dues = [one.due for one in sessions.values()]
        asked = [session.active, session.restored, sources, session.fetched]
        gr.on(changes, due, [*asked, *dues], dues, trigger_mode="always_last", **QUIET)
        read = [session.active, sources, session.fetched, session.beyond]
        told_by = [*changes[:3], session.beyond.change]
        gr.on(told_by, status, read, [self.problem, self.count, foot], **QUIET)


Told = Callable[[Sequence[Opened]], str]


def placed(texts: Sequence[str], before: Sequence[str]) -> list[str]:
    """Return sources at the places, which fix their colours, that they had before; new ones take the free places.

    A place without a source holds "". Sources beyond the last place are left out.
    """
    named = [text for text in dict.fromkeys(texts) if text]
    places = [text if text in named else "" for text in before[:MOST_SOURCES]]
    places += [""] * (MOST_SOURCES - len(places))
    for text in named:
        if text not in places and "" in places:
            places[places.index("")] = text
    while places and not places[-1]:
        places.pop()
    return places


def offered(texts: Sequence[str], own: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Return these sources, the visitor's ``own`` and the presets as choices of the field."""
    return choices([text for text in texts if text], (*own, *PRESETS, *HUB_PRESETS))


def counted(opened: Sequence[Opened]) -> str:
    """Return how many of the places are taken as HTML; a source that cannot be opened takes none."""
    return f"<span>{sum(one.there for one in opened)} of {MOST_SOURCES}</span>"


def chip_colours(texts: Sequence[str], scope: str) -> str:
    """Return a style sheet that gives the chip of every source the colour of its place."""
    taken = [place for place, text in enumerate(texts) if text]
    rules = (
        f".bar-{scope} .token:nth-of-type({number}) {{ --dot: var(--source-{place + 1}); }}"
        for number, place in enumerate(taken, 1)
    )
    return f"<style>{' '.join(rules)}</style>"
