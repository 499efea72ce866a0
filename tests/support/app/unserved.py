"""A visitor's page without a server: its events go through all that Gradio does before and after a handler."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import gradio as gr
from gradio.state_holder import SessionState


class Unserved:
    """A page of ``blocks``, whose states are in ``state``, and the values it was given in ``values``."""

    def __init__(self, blocks: gr.Blocks) -> None:
        self.blocks, self.state = blocks, SessionState(blocks)
        self.values = {one["id"]: one["props"].get("value") for one in blocks.get_config_file()["components"]}

    def run(
        self, bound: Any, data: Sequence[Any] | None = None, event_data: Any = None, target: int | None = None
    ) -> dict[str, Any]:
        """Run a listener with the values of the page, or with ``data``; return what Gradio answers at last."""
        given = [self.values.get(one._id) for one in bound.inputs] if data is None else list(data)
        happened = gr.EventData(self.state.blocks_config.blocks.get(target), event_data)
        return asyncio.run(self._run(bound, given, happened))

    async def _run(self, bound: Any, given: list[Any], happened: gr.EventData) -> dict[str, Any]:
        request = gr.Request(session_hash="unserved", headers={}, client=None)
        answer, iterator, changed = {"is_generating": True}, None, []
        while answer["is_generating"]:
            answer = await self.blocks.process_api(
                bound, given, self.state, request, iterator, "unserved", "event", event_data=happened
            )
            iterator, changed = answer.pop("iterator"), [*changed, *answer["changed_state_ids"]]
            if iterator is not None and not answer["is_generating"]:
                break
        if drawn := answer.get("render_config"):
            self.values |= {one["id"]: one["props"].get("value") for one in drawn["components"]}
            return {**answer, "changed_state_ids": [], "loads": [one["id"] for one in drawn["dependencies"]]}
        for one, value in zip(bound.outputs, answer["data"], strict=True):
            if not isinstance(value, dict) or value.get("__type__") != "update":
                self.values[one._id] = value
            elif "value" in value:
                self.values[one._id] = value["value"]
        return {**answer, "changed_state_ids": list(dict.fromkeys(changed))}

    @property
    def listeners(self) -> list[Any]:
        """What the server is asked by the page, without what its buttons ask a child process."""
        known = [one for one in self.state.blocks_config.fns.values() if one.fn and one.api_visibility != "public"]
        return [one for one in known if one.name != "compute"]

    def act(self, component: int, event: str) -> None:
        """Run what is bound to an event of a component, and what that changes in turn."""
        for bound in [one for one in self.listeners if (component, event) in one.targets]:
            answer = self.run(bound, target=component)
            for state in answer["changed_state_ids"]:
                self.act(state, "change")
            for loaded in [one for one in self.listeners if one._id in answer.get("loads", ())]:
                if any(event == "load" for _, event in loaded.targets):
                    for state in self.run(loaded)["changed_state_ids"]:
                        self.act(state, "change")
