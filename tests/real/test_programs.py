"""The endpoints on real models: through Gradio's own client, and as tools of an MCP client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from gradio_client import Client
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

import hfposemb as hpe
from hfposemb import app
from tests.conftest import FULL

from .conftest import MODELS


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An app of one's own, which reads local folders, with its MCP server."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HFPOSEMB_CACHE", str(tmp_path_factory.mktemp("cache-programs")))
        blocks = app.launch(("sinusoidal:16x8",), port=None, mcp=True, warm=False, prevent_thread_lock=True, quiet=True)  # type: ignore[arg-type]
        yield blocks.local_url
        blocks.close()


@pytest.fixture(scope="module")
def client(url: str) -> Client:
    return Client(url, verbose=False)


@pytest.mark.parametrize("model", MODELS if FULL else MODELS[-1:])
def test_every_endpoint(model: str, client: Client, real: dict[str, str]) -> None:
    source, table = real[model], hpe.extract(real[model]).token

    def ask(endpoint: str, **given: Any) -> Any:
        return client.predict(**given, api_name=f"/{endpoint}")

    assert ask("info", source=source)["tables"]["token"]["shape"] == list(table.shape)
    found = ask("neighbours", source=source, query="king", k=4)
    assert [one["label"] for one in found["neighbours"]] == list(hpe.neighbours(table, "king", k=4).labels)
    values = np.array(ask("similarity", source=source, rows=["king", "queen", "5"])["values"])
    np.testing.assert_allclose(values, values.T, atol=1e-6)
    np.testing.assert_allclose(values.diagonal(), 1, atol=1e-5)
    assert np.shape(ask("project", source=source, table="token", points=50)["coordinates"])[0] == 50


def test_tools_of_an_mcp_client(url: str, real: dict[str, str]) -> None:
    async def use() -> tuple[set[str], Any]:
        async with (
            streamable_http_client(f"{url.rstrip('/')}/gradio_api/mcp/") as (read, write, _),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            tools = {tool.name for tool in (await session.list_tools()).tools}
            asked = {"source": real["gpt2"], "query": "queen", "limit": 3}
            return tools, (await session.call_tool("hfposemb_neighbours", asked)).content[0]

    with ThreadPoolExecutor() as pool:  # Playwright has a loop of its own in this thread
        tools, said = pool.submit(asyncio.run, use()).result()
    assert len(tools) == 8
    assert len(json.loads(said.text)["neighbours"]) == 3
