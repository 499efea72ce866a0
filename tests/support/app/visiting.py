"""Visit a running app, in the environment that serves it: ``python tests/support/app/visiting.py URL SOURCE…``."""

from __future__ import annotations

import json
import sys
import time

from gradio_client import Client

from tests.support.app.serving import Visitor


def ask(url: str, source: str) -> None:
    """Ask the endpoints about a source."""
    client = Client(url, verbose=False)
    assert client.predict(source=source, api_name="/info")["tables"]["position"]["shape"]
    nearest = client.predict(source=source, query="king", limit=4, api_name="/neighbours")["neighbours"]
    assert len(nearest) == 4, nearest
    points = client.predict(source=source, method="umap", dims=2, table="position", api_name="/project")["coordinates"]
    assert len(points[0]) == 2, points[:2]


def show(url: str) -> None:
    """Bring every tab to the screen."""
    page = Visitor(url)
    tabs = [one["props"]["label"] for one in page.components.values() if one["type"] == "tabitem"]
    for tab in tabs:
        began = time.monotonic()
        messages = page.show(tab)
        assert all(message.get("success") for message in messages), (tab, messages)
        assert "alert" not in json.dumps(page.values), tab
        print(f"ok     {time.monotonic() - began:5.1f} s  the tab {tab}, {len(messages)} answers", flush=True)
    page.close()


if __name__ == "__main__":
    for named in sys.argv[2:]:
        ask(sys.argv[1], named)
        print(f"ok            the endpoints on {named}", flush=True)
    show(sys.argv[1])
