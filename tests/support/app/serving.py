"""The app in a process of its own, as strangers meet it, and a visitor who speaks to it over plain HTTP.

``python -m tests.support.app.serving PORT LOG`` serves in public mode. Whatever it touches outside of its own folders
is written to LOG, by a hook that is there before anything is imported.
"""

from __future__ import annotations

import asyncio
import html
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from tests.support.app.touched import CANARY, own_folders, watch
from tests.support.processes.waiting import unused_port

if TYPE_CHECKING:
    import gradio as gr
    import httpx
    from mcp.types import CallToolResult

ROOT = Path(__file__).parents[3]
ENDPOINTS: Mapping[str, Mapping[str, Any]] = {
    "info": {"source": "sinusoidal:16x8"},
    "search": {"source": "sample:bert", "query": "king"},
    "tokenise": {"source": "sample:bert", "text": "the king"},
    "neighbours": {"source": "sample:bert", "query": "king"},
    "similarity": {"source": "sample:bert", "rows": ["king", "queen"]},
    "project": {"source": "sinusoidal:16x8"},
    "compare": {"sources": ["sinusoidal:16x8"]},
    "check": {"source": "sample:bert"},
    "vocabulary": {"source": "sample:bert", "other": "sample:gpt2"},
    "kinship": {"source": "sample:bert", "other": "sample:gpt2"},
    "merge_preview": {"source": "sample:bert", "other": "sample:gpt2"},
}
"""What programs can call, and agents by the same names after ``hfposemb_``, with values of what each needs."""


@dataclass
class Served:
    """A running app: its address, its process and what it opened that it should not have."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path
    output: Path
    known: set[str] = field(default_factory=set)

    @property
    def opened(self) -> list[str]:
        """What the process touched outside of its own folders since ``settle``, and before that in a canary."""
        lines = self.log.read_text().splitlines()
        return [line for line in lines if line not in self.known]

    def settle(self) -> None:
        """Leave out what has been touched so far, such as by what is imported, except canaries."""
        self.known = {line for line in self.opened if CANARY not in line}

    @property
    def said(self) -> str:
        """What the process printed."""
        return self.output.read_text(errors="replace")


@contextmanager
def serving(
    folder: Path, *, arguments: Sequence[str] | None = None, host: str = "127.0.0.1", **environment: str
) -> Iterator[Served]:
    """Serve the app for as long as the block lasts, from a working directory of its own: in public mode, or by the
    ``arguments`` of ``hfposemb app`` beside the port. Visitors come by the address of ``host``.
    """
    port = unused_port()
    served = folder / "served"
    served.mkdir(parents=True, exist_ok=True)
    log, output = served / "opened.log", served / "output.log"
    log.touch()
    command = ["-m", "tests.support.app.serving", str(port), str(log)]
    if arguments is not None:
        command = ["-m", "hfposemb", "app", "--port", str(port), *arguments]
    with output.open("wb") as printed:
        process = subprocess.Popen(
            [sys.executable, *command],
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            cwd=folder,
            stdout=printed,
            stderr=subprocess.STDOUT,
        )
    try:
        yield Served(f"http://{host}:{port}", process, log, output)
    finally:
        process.kill()
        process.wait()


@dataclass
class Visitor:
    """One page in a browser that is none: it keeps the values of the components and runs the events they have."""

    url: str
    address: str = ""
    """What a proxy would say that it comes from."""
    login: tuple[str, str] | None = None
    """User and password, where the page asks for them."""
    cookie: str = ""
    """The cookie of a browser that has signed in."""
    session: str = field(default_factory=lambda: uuid4().hex[:12])
    heard: list[str] = field(default_factory=list)
    """Every message of the server, as it came."""

    def __post_init__(self) -> None:
        """Open the page."""
        import httpx

        headers = {"x-forwarded-for": self.address} if self.address else {}
        headers |= {"cookie": self.cookie} if self.cookie else {}
        self.client = httpx.Client(base_url=self.url, headers=headers, timeout=180)
        until = time.monotonic() + 180
        while True:
            try:
                answer = self.client.get("/config")
                if self.login is not None:
                    user, password = self.login
                    self.client.post("/login", data={"username": user, "password": password}).raise_for_status()
                    answer = self.client.get("/config")
                config = answer.json()
                break
            except httpx.TransportError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)
        self.components: dict[int, dict[str, Any]] = {}
        self.dependencies: list[dict[str, Any]] = []
        self.values: dict[int, Any] = {}
        self._take(config)
        self.outlines = [two for two in self._placed(config["layout"]) if "late-tab" in self._classes(two[1])]

    def _take(self, drawn: dict[str, Any]) -> None:
        """Take components and listeners that the server has drawn."""
        self.components |= {one["id"]: one for one in drawn["components"]}
        self.dependencies = [*self.dependencies, *drawn["dependencies"]]
        self.values |= {one["id"]: one["props"].get("value") for one in drawn["components"]}

    def close(self) -> None:
        """Leave."""
        self.client.close()

    def find(self, test: Callable[[dict[str, Any]], bool]) -> int:
        """Return the first component that passes a test of its type and properties."""
        return next(key for key, one in self.components.items() if test({**one["props"], "type": one["type"]}))

    def labelled(self, label: str, place: int = 0) -> int:
        """Return a component by its label, the first of that label or another one."""
        return [key for key, one in self.components.items() if one["props"].get("label") == label][place]

    def events(self, component: int, event: str) -> list[dict[str, Any]]:
        """Return what is bound to an event of a component."""
        return [one for one in self.dependencies if [component, event] in [list(target) for target in one["targets"]]]

    def join(self, bound: dict[str, Any], data: Sequence[Any], trigger: int, event_data: Any = None) -> Any:
        """Ask for an event; return the server's answer."""
        body = {
            "data": list(data),
            "fn_index": bound["id"],
            "session_hash": self.session,
            "trigger_id": trigger,
            "event_data": event_data,
        }
        # Not json=body, which cannot carry half a character.
        sent = {"content-type": "application/json"}
        return self.client.post("/gradio_api/queue/join", content=json.dumps(body), headers=sent)

    def listen(self, event_id: str, *, stop: Callable[[str], bool] = lambda line: False) -> dict[str, Any] | None:
        """Hear what the server says until an event is over, or until ``stop``; return the last message."""
        with self.client.stream("GET", "/gradio_api/queue/data", params={"session_hash": self.session}) as lines:
            for line in lines.iter_lines():
                if not line.startswith("data:"):
                    continue
                self.heard.append(line)
                if stop(line):
                    return None
                message = json.loads(line[5:])
                over = message["msg"] in ("process_completed", "close_stream", "unexpected_error")
                if over and message.get("event_id") in (event_id, None):
                    return message
        return None

    def run(
        self, bound: dict[str, Any], trigger: int, data: Sequence[Any] | None = None, event_data: Any = None
    ) -> dict[str, Any]:
        """Run one event with the values of the page, or with crafted ``data``; return its last message."""
        sent = [self.values[key] for key in bound["inputs"]] if data is None else data
        answer = self.join(bound, sent, trigger, event_data)
        if answer.status_code != 200:
            return {"msg": "refused", "success": False, "status": answer.status_code, "output": answer.text}
        message = self.listen(answer.json()["event_id"]) or {"success": False, "output": {}}
        output = message.get("output") or {}
        for key, value in zip(bound["outputs"], output.get("data") or (), strict=False):
            if not isinstance(value, dict) or value.get("__type__") != "update":
                self.values[key] = value
            elif "value" in value:
                self.values[key] = value["value"]
        return message

    def act(self, component: int, event: str, value: Any = None) -> list[dict[str, Any]]:
        """Set a component, run what is bound to its event, and what that changes in turn; return the last messages."""
        if value is not None:
            self.values[component] = value
        messages = []
        for bound in self.events(component, event):
            message = self.run(bound, component)
            messages.append(message)
            messages += self.follow(message.get("output") or {}) if message.get("msg") != "refused" else []
        return messages

    def follow(self, output: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Run what an answer sets off: changes of states, and what a tab that it draws does when it is loaded."""
        messages = []
        drawn = output.get("render_config") or {"components": [], "dependencies": []}
        self._take(drawn)
        for bound in [one for one in drawn["dependencies"] if any(event == "load" for _, event in one["targets"])]:
            messages.append(message := self.run(bound, bound["targets"][0][0]))
            messages += self.follow(message.get("output") or {}) if message.get("msg") != "refused" else []
        for state in output.get("changed_state_ids") or ():
            messages += self.act(state, "change")
        return messages

    def show(self, tab: str) -> list[dict[str, Any]]:
        """Bring a tab to the screen, which asks for it if it is not drawn."""
        item = self.find(lambda one: one["type"] == "tabitem" and one.get("label") == tab)
        return [*self.act(item, "select"), *self.draw(item)]

    def draw(self, item: int) -> list[dict[str, Any]]:
        """Ask for a tab that is on the screen and not yet drawn."""
        messages = []
        for two in [two for two in self.outlines if two[0] == item]:
            while (said := self.act(two[1], "submit"))[0].get("msg") == "refused":  # the queue is full
                time.sleep(0.5)
            self.outlines.remove(two)
            messages += said
        return messages

    def _placed(self, layout: Mapping[str, Any], tab: int = 0) -> Iterator[tuple[int, int]]:
        """Yield every component of a part of the page after the tab that it stands in."""
        for one in layout.get("children") or ():
            item = one["id"] if self.components[one["id"]]["type"] == "tabitem" else tab
            yield item, one["id"]
            yield from self._placed(one, item)

    def _classes(self, component: int) -> Sequence[str]:
        return self.components[component]["props"].get("elem_classes") or ()

    def choose(self, sources: Any) -> list[dict[str, Any]]:
        """Write sources into the field that all tabs share."""
        field_of = self.find(lambda one: "sources" in (one.get("elem_classes") or ()))
        return self.act(field_of, "change", sources)


def called(client: httpx.Client, endpoint: str, *data: Any) -> str:
    """Call an endpoint as the documentation of Gradio says, without a client of it; return what the server sends."""
    sent = client.post(f"/gradio_api/call/{endpoint}", json={"data": data}).raise_for_status()
    return client.get(f"/gradio_api/call/{endpoint}/{sent.json()['event_id']}").text


def call_tools(url: str, *calls: tuple[str, Mapping[str, Any]]) -> list[CallToolResult]:
    """Call tools of the MCP server, by names without the prefix, in one session of a client."""
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    async def called() -> list[CallToolResult]:
        async with (
            streamable_http_client(f"{url}/gradio_api/mcp/") as (read, write, _),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            return [await session.call_tool(f"hfposemb_{name}", dict(given)) for name, given in calls]

    return asyncio.run(called())


def _serve(port: int, log: str) -> None:
    written = os.open(log, os.O_WRONLY | os.O_APPEND)
    with suppress(ImportError):
        import_module("matplotlib.pyplot")  # as Gradio does before the first event, where it is installed

    watch(lambda line: os.write(written, f"{line}\n".encode()), own_folders())
    with Path("canary-of-the-hook").open("w"):
        pass
    from hfposemb.app import launch

    launch(port=port, public=True, mcp=True, warm=False, quiet=True)


@contextmanager
def hosted(app: Any) -> Iterator[str]:
    """Serve an ASGI app on loopback for as long as the block lasts."""
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)


@contextmanager
def visited(blocks: gr.Blocks) -> Iterator[Visitor]:
    """Open a page of an app of this process, which is started if it is not; afterwards close both."""
    if not blocks.is_running:
        blocks.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1", ssr_mode=False)
    page = Visitor(str(blocks.local_url).rstrip("/"))
    try:
        yield page
    finally:
        page.close()
        blocks.close(verbose=False)


REFUSAL = "folders and files can be opened only if the app runs on your own machine: make run in a checkout"


def lines(page: Visitor) -> list[list[str]]:
    """Return what each tab says is wrong, without the names of the sources, in their order."""
    said = [value for value in page.values.values() if isinstance(value, str) and 'role="alert"' in value]
    found = [re.findall(r'<p role="alert">(?:<strong>.*?</strong> )?(.*?)</p>', one, re.DOTALL) for one in said]
    return [[html.unescape(line) for line in each] for each in found]


def alerts(page: Visitor) -> set[str]:
    """Return the same, each line once."""
    return {line for said in lines(page) for line in said}


if __name__ == "__main__":
    _serve(int(sys.argv[1]), sys.argv[2])
