"""The tools of the MCP server: the endpoints of ``api``, with answers that an agent can afford to read.

A tool has the docstring and the parameters of its endpoint, and those of long answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from . import parameters as kinds
from .api import Endpoint, Endpoints
from .mcp_answers import Answer, compared_metrics, compared_pairs, row_pairs
from .parameters import Described

if TYPE_CHECKING:
    import gradio as gr

    from ..session.state import Session

PREFIX = "hfposemb_"

Full = Annotated[bool, Field(description="Return everything in full precision, however long.")]


@dataclass(frozen=True)
class Tool:
    """An endpoint, what it is called with, and how its result becomes an answer."""

    described: Described
    endpoint: Endpoint
    shaped: Callable[[dict[str, Any], Mapping[str, Any]], Answer]

    async def answer(self, request: gr.Request, given: Mapping[str, Any]) -> Answer:
        """Call the endpoint for a request, with arguments that are checked."""
        own = {name: {"request": request, **given}[name] for name in signature(self.endpoint).parameters}
        if "limit" in own and "offset" not in own:  # the endpoint returns what comes before, too
            own["limit"] = min(given["offset"] + given["limit"], _MOST[self.endpoint.__name__])
        return self.shaped(await self.endpoint(**own), given)


def tools(session: Session) -> dict[str, Tool]:
    """Return the tools by name, in the order in which they are listed."""
    endpoints, found = Endpoints(session), {}
    for name, shaped in _SHAPED.items():
        endpoint = getattr(endpoints, name)
        more: dict[str, Any] = {} if name in ("info", "kinship") else {"offset": (kinds.Offset, 0)}
        more |= {"limit": (kinds.Points, 30)} if name == "project" else {}
        described = Described.of(PREFIX + name, endpoint, **more, full=(Full, False))
        found[PREFIX + name] = Tool(described, endpoint, shaped)
    return found


_MOST = {"neighbours": kinds.MOST_NEIGHBOURS, "project": kinds.MOST_POINTS}


def _listed(found: dict[str, Any], given: Mapping[str, Any], *, key: str) -> Answer:
    """Return a result whose list may be long."""
    return Answer(found, key, found.pop(key)[given["offset"] :], given["offset"])


def _described(found: dict[str, Any], given: Mapping[str, Any]) -> Answer:
    return Answer(found, "tables", [{"table": role, **facts} for role, facts in found.pop("tables").items()])


def _matched(found: dict[str, Any], given: Mapping[str, Any]) -> Answer:
    return Answer(found, "matches", found.pop("matches"), given["offset"], found["found"])


def _similar(found: dict[str, Any], given: Mapping[str, Any]) -> Answer:
    names = ("table", "metric", "centred", "anisotropy", "random_pairs", "others", "notes")
    pairs = row_pairs(found)[given["offset"] :]
    return Answer({name: found[name] for name in names}, "pairs", pairs, given["offset"])


def _projected(found: dict[str, Any], given: Mapping[str, Any]) -> Answer:
    rows, labels, places = (found.pop(name) for name in ("rows", "labels", "coordinates"))
    found["rows_without_direction"] = found.pop("left_out")
    points = [[row, label, *place] for row, label, place in zip(rows, labels, places, strict=True)]
    return Answer(found, "points", points[given["offset"] :], given["offset"], found["of"])


def _compared(document: dict[str, Any], given: Mapping[str, Any]) -> Answer:
    if given["full"]:  # with every chance level and neighbours of words
        return Answer(document)
    facts = {
        "sources": [source["source"] for source in document["sources"]],
        "kinds": [source["kind"] for source in document["sources"]],
        "pairs": compared_pairs(document),
        "notes": [note for source in document["sources"] for note in source["notes"]],
        "not_compared": document["missing"],
    }
    return Answer(facts, "metrics", compared_metrics(document)[given["offset"] :], given["offset"])


_SHAPED: Mapping[str, Callable[[dict[str, Any], Mapping[str, Any]], Answer]] = {
    "info": _described,
    "search": _matched,
    "tokenise": partial(_listed, key="pieces"),
    "neighbours": partial(_listed, key="neighbours"),
    "similarity": _similar,
    "project": _projected,
    "compare": _compared,
    "check": partial(_listed, key="findings"),
    "vocabulary": partial(_listed, key="differing"),
    "kinship": lambda found, given: Answer(found),
    "merge_preview": partial(_listed, key="steps"),
}
"""How the result of each endpoint becomes an answer; their order is that of the list of tools."""
