"""The Compare tab's work in child processes: chance levels and pairs, UMAP maps, and the report."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

import gradio as gr

from ... import limits
from ...components.files import kept_file
from ...jobs import children
from ...jobs.visitor import Visitor
from ...session.state import Session
from .comparison import comparison_key, maps_key, of_part, part_of


@dataclass(frozen=True)
class ComparisonJobs:
    """Requests and runs the work; a job takes a visitor, the place on the page, and what is wanted."""

    session: Session

    def comparable(self, due: list[Any]) -> list[str]:
        """Return the sources on the screen that were opened."""
        return [source.text for source in self.session.shown(due) if source.embeddings is not None]

    def taken(self, due: list[Any], part: str | None) -> str:
        """Return the part that is compared, "" if no source has the selected one."""
        return part_of(*of_part(self.session.shown(due), part))

    def begin(self, due: list[Any], part: str | None) -> Any:
        """Request chance levels and pairs as soon as the tab is drawn."""
        having, part = self.comparable(due), self.taken(due, part)
        if not having:
            return []
        key = comparison_key(having, public=self.session.public, part=part)
        return [having, part] if self.session.library.results.get(key) is None else []

    def retry(self, due: list[Any], part: str | None) -> Any:
        """Request chance levels and pairs again."""
        having = self.comparable(due)
        return [having, self.taken(due, part), uuid4().hex] if having else []

    async def measure(
        self, visitor: Visitor, place: str, wanted: Sequence[Any]
    ) -> AsyncGenerator[children.Progress, None]:
        """Compute chance levels and pairs."""
        texts, part = wanted[:2]
        key = comparison_key(texts, public=self.session.public, part=part)
        work = partial(children.comparison, part=part)
        async for step in self.session.jobs.compute(visitor, place, key, texts, work, texts, limits.COMPARISON_DRAWS):
            yield step

    async def lay_out(
        self, visitor: Visitor, place: str, wanted: Sequence[Any]
    ) -> AsyncGenerator[children.Progress, None]:
        """Compute the two maps."""
        texts, role, method, part = wanted[0]
        key = maps_key(texts, role, method, public=self.session.public, part=part)
        work = partial(children.maps, part=part)
        async for step in self.session.jobs.compute(visitor, place, key, wanted[0], work, texts, role, method):
            yield step

    def ask_report(self, due: list[Any], part: str | None) -> Any:
        """Request the report."""
        having = self.comparable(due)
        return [[having, self.taken(due, part), uuid4().hex]] if having else []

    async def write(
        self, visitor: Visitor, place: str, wanted: Sequence[Any]
    ) -> AsyncGenerator[children.Progress, None]:
        """Compute the report, and keep the comparison that it contains."""
        session, (texts, part, _) = self.session, wanted[0]
        measured = comparison_key(texts, public=session.public, part=part)
        key = comparison_key(texts, public=session.public, what="report", part=part)

        def late() -> tuple[Any, ...]:
            """Take the comparison from the results, where the panel above may have put it meanwhile."""
            return texts, session.library.results.get(measured), limits.COMPARISON_DRAWS

        work = partial(children.page, part=part)
        async for step in session.jobs.compute(visitor, place, key, wanted[0], work, late=late):
            yield step
        results = session.library.results
        made = results.get(key)
        if made is not None and results.get(measured) is None:
            results.put(measured, made[0])

    def hand_over(self, wanted: list[Any], done: dict[str, Any]) -> Any:
        """Give the page the file once it is written; none if it was not."""
        if not done.get("ok") or not wanted:
            return gr.update(value=None)
        texts, part, _ = wanted[0]
        key = comparison_key(texts, public=self.session.public, what="report", part=part)
        made = self.session.library.results.get(key)
        return gr.update(value=None if made is None else kept_file(made[1].encode(), "hfposemb-report.html"))
