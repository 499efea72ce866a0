"""The app without a browser: a session of its own library, and the rows of panels of a page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Any

import gradio as gr
from hfposemb.app.components.plot import PanelRow
from hfposemb.app.jobs.visitor import Visitor
from hfposemb.app.session.background_jobs import Request
from hfposemb.app.session.library import Library
from hfposemb.app.session.state import Session


def open_session(*sources: str, public: bool = False, tab: str = "tokens", needs: tuple[str, ...] = ()) -> Session:
    """Return a session of its own library, as a tab gets it that needs some tables."""
    with gr.Blocks():
        session = Session(public, sources, gr.State([]), gr.State(""), gr.Tabs(), library=Library())
    return session.at(tab, needs)


def rows_of(blocks: gr.Blocks) -> list[PanelRow]:
    """Return the rows of panels of a page."""
    return [block for block in blocks.blocks.values() if isinstance(block, PanelRow)]


async def taken(steps: Any) -> list[Any]:
    """Return all that a generator yields."""
    async with aclosing(steps) as found:
        return [step async for step in found]


def computed(session: Session, wanted: Sequence[Any], asks: Callable[..., Request]) -> list[Any]:
    """Do what a part of a page wants, and return what it was told meanwhile."""
    return asyncio.run(taken(session.jobs.run(Visitor("page"), "part", wanted, asks)))
