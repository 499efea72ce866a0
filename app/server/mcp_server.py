"""The MCP server at ``/gradio_api/mcp``: lists its tools and calls them.

It stands where Gradio's own would, because that one answers with Python's ``repr``, names tools after the Space and
passes each call through a client of its own page. Each request is answered by itself, without sessions. An answer is
JSON, as text and as structured content; an error is ``{"error": {"type": …, "message": …}}`` and marked as one.

Guarantee: a browser page of another origin cannot call the tools of an app that may open local files.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import gradio as gr
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from hfposemb import __version__
from hfposemb.errors import HfposembError, InputError
from hfposemb.lazy_attributes import lazy_attribute
from hfposemb.text import one_line

from ..failures import is_bug, said_of
from ..jobs.turns import ASKER
from ..jobs.visitor import Visitor
from . import parameters as kinds
from .answer_schemas import output_schema
from .api import Endpoint, Endpoints
from .mcp_answers import Answer, compared_metrics, compared_pairs, row_pairs, text_of
from .messages import body_of, origin_of, with_body
from .parameters import Described
from .reach import is_loopback, split_origin

if TYPE_CHECKING:
    import gradio as gr
    from starlette.types import Receive, Scope, Send

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
        return self.shaped(dict(await self.endpoint(**own)), given)  # a copy: the result may be kept for others


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


PATH = "/gradio_api/mcp"

MOST_CALLS = 24
"""Maximum number of calls of one visitor that run or wait; further ones are refused."""

INSTRUCTIONS = """\
Reads the token and position embedding tables of Hugging Face models, only the bytes needed, and measures them.
Start with hfposemb_info. hfposemb_compare answers questions about positions, hfposemb_similarity and
hfposemb_neighbours about words, hfposemb_tokenise about the input of the first layer. Answers are JSON of at most
4,000 characters; left_out says what is missing and which parameter returns it."""


class McpServer:
    """The server of one page: an ASGI application, served at ``PATH`` while ``lifespan`` runs."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.offered = tools(session)
        self._calls: Counter[Visitor] = Counter()
        logging.getLogger("mcp.server").setLevel(logging.CRITICAL)  # it logs each name of a tool that it does not know
        self._manager = StreamableHTTPSessionManager(self._server(), stateless=True)

    def _server(self) -> Server[Any, Any]:
        server: Server[Any, Any] = Server("hfposemb", version=__version__, instructions=INSTRUCTIONS)

        async def listed() -> list[types.Tool]:
            return self.tools

        async def called(name: str, arguments: dict[str, Any]) -> types.CallToolResult:
            return await self.called(name, arguments, server.request_context.request)

        server.list_tools()(listed)  # type: ignore[no-untyped-call]
        server.call_tool(validate_input=False)(called)
        return server

    @lazy_attribute
    def tools(self) -> list[types.Tool]:
        """The tools as clients see them."""
        hints = types.ToolAnnotations(readOnlyHint=True, idempotentHint=True, openWorldHint=True)
        return [
            types.Tool(
                name=one.name,
                description=one.description,
                inputSchema=one.schema,
                outputSchema=output_schema(one.name.removeprefix(PREFIX)),
                annotations=hints,
            )
            for one in (tool.described for tool in self.offered.values())
        ]

    async def called(self, name: str, arguments: Mapping[str, Any], request: Request | None) -> types.CallToolResult:
        """Call a tool and return its answer, or the error as an answer."""
        try:
            found, failed = await self._answer(name, arguments, request), False
        except Exception as error:  # noqa: BLE001 - a client reads every failure in its answer
            message = one_line(said_of(error, public=self.session.public))
            found, failed = {"error": {"type": _kind(error), "message": message}}, True
        text = types.TextContent(type="text", text=text_of(found))
        return types.CallToolResult(content=[text], structuredContent=found, isError=failed)

    async def _answer(self, name: str, arguments: Mapping[str, Any], request: Request | None) -> dict[str, Any]:
        tool = self.offered.get(name)
        if tool is None:
            raise InputError(one_line(f"there is no tool {name[:60]!r}; the tools: {', '.join(self.offered)}"))
        given = tool.described.parsed(arguments)
        visit = self._visit(request)
        visitor = Visitor.of(visit, public=self.session.public)
        if self._calls[visitor] >= MOST_CALLS:
            raise HfposembError("the server is busy; try again in a minute")
        self._calls[visitor] += 1
        asked = ASKER.set(visitor)
        try:
            answer = await tool.answer(visit, given)
        finally:
            ASKER.reset(asked)
            self._calls = +(self._calls - Counter([visitor]))
        return answer.as_json(full=given["full"])

    def _visit(self, request: Request | None) -> gr.Request:
        """Return the request as the job queue needs it: calls from one address come from one visitor."""
        found = gr.Request(request, session_hash="mcp")
        if self.session.public and not Visitor.of(found, public=True).address:
            found.session_hash = uuid4().hex
        return found

    # --- HTTP ---------------------------------------------------------------------------------------------------------

    @property
    def routes(self) -> list[Route]:
        """Where the server stands: its endpoint, and the list of its tools that the Hub reads."""
        return [Route(f"{PATH}/schema", self._schema), Route(PATH, self), Route(f"{PATH}/", self)]

    @asynccontextmanager
    async def lifespan(self, app: Any, *, host: Callable[[Any], Any] | None = None) -> AsyncIterator[Any]:
        """Answer requests until the app ends, within the lifespan of a ``host``."""
        async with AsyncExitStack() as stack:
            state = None if host is None else await stack.enter_async_context(host(app))
            await stack.enter_async_context(self._manager.run())
            yield state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request: POST carries the protocol, GET says what this address is for."""
        if scope["method"] == "POST":
            refused: Response | None = None if self.session.public or _is_own(Request(scope)) else _FOREIGN
        else:
            streaming = "text/event-stream" in Request(scope).headers.get("accept", "")
            refused = _NO_STREAM if streaming or scope["method"] != "GET" else _page(Request(scope))
        if refused is None:
            body = await body_of(receive)
            refused, (scope, receive) = _invalid(body), with_body(scope, body, receive)
        if refused is None:
            await self._manager.handle_request(scope, receive, send)
        else:
            await refused(scope, receive, send)

    async def _schema(self, request: Request) -> Response:
        """Return name, description and parameters of each tool, as Gradio's server does."""
        shown = [one.model_dump(include={"name", "description", "inputSchema"}) for one in self.tools]
        about = {"file_data_present": False, "mcp_type": "tool"}
        return JSONResponse(
            [{**tool, "meta": {**about, "endpoint_name": tool["name"].removeprefix(PREFIX)}} for tool in shown]
        )


def _kind(error: Exception) -> str:
    """Return the name of a public class of errors."""
    if is_bug(error):
        return "UnexpectedError"
    return type(error).__name__ if type(error).__module__ == HfposembError.__module__ else HfposembError.__name__


_FOREIGN = PlainTextResponse("pages of other origins cannot use this server\n", 403)
_NO_STREAM = PlainTextResponse("send each message with POST\n", 405, {"Allow": "GET, POST"})


def _invalid(body: bytes) -> Response | None:
    """Return the answer to what is no request or notification of the protocol, which its library would log."""
    try:
        message = types.JSONRPCMessage.model_validate_json(body).root
        sent = message.model_dump(by_alias=True, exclude_none=True, exclude={"jsonrpc", "id"})
        if isinstance(message, types.JSONRPCRequest):
            types.ClientRequest.model_validate(sent)
        else:
            types.ClientNotification.model_validate(sent)
    except ValueError:
        error = {"code": types.INVALID_REQUEST, "message": "not a request of the Model Context Protocol"}
        return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, 400)
    return None


def _is_own(request: Request) -> bool:
    """Return whether a request comes from a program, or from a page of this machine."""
    origin = request.headers.get("origin")
    return origin is None or is_loopback(split_origin(origin).hostname or "")


def _page(request: Request) -> Response:
    """Return what a person sees who opens the address in a browser."""
    url = f"{origin_of(request.scope)}{request.url.path.rstrip('/')}/"
    config = json.dumps({"mcpServers": {"hfposemb": {"url": url}}})
    lines = (
        "This is the MCP server of hfposemb, for agents. To add it:",
        f"  Claude Code: claude mcp add --transport http hfposemb {url}",
        f"  Cursor and others: {config}",
    )
    return PlainTextResponse("\n\n".join(lines) + "\n")
