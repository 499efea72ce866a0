"""A real kernel: what a notebook's page sends over the wire is the selection of the kernel's widget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_client.manager import start_new_kernel

if TYPE_CHECKING:
    from jupyter_client.blocking.client import BlockingKernelClient

WAIT = 120
MAKE = "import hfposemb as hpe\nw = hpe.show('sample:bert', 'sample:gpt2', progress=False)\nw"
SAY = "print(w.selection['sample:gpt2'].tolist(), w.selection.labels['sample:bert'])"


def run(client: BlockingKernelClient, code: str) -> list[dict[str, Any]]:
    """Run code, and return all that the kernel sent meanwhile."""
    heard: list[dict[str, Any]] = []
    answer = client.execute_interactive(code, output_hook=heard.append, timeout=WAIT)
    assert answer["content"]["status"] == "ok", answer["content"]
    return heard


def test_a_message_of_the_page_is_the_selection() -> None:
    manager, client = start_new_kernel(kernel_name="python3", startup_timeout=WAIT)
    try:
        heard = run(client, MAKE)
        opened = [one for one in heard if one["msg_type"] == "comm_open"]
        view = next(one for one in opened if "_maps" in one["content"]["data"]["state"])
        library = next(one for one in opened if one["content"]["data"]["state"].get("_view_name", "") is None)
        paths = view["content"]["data"]["buffer_paths"]
        assert ["_maps", "files", 0] in paths
        assert len(paths) == len(view["buffers"]), "numbers travel as bytes"
        assert library["content"]["data"]["buffer_paths"] == [["content"]]
        state = view["content"]["data"]["state"]
        assert state["_library"] == library["content"]["comm_id"]
        shown = next(one for one in heard if one["msg_type"] == "execute_result")["content"]["data"]
        assert shown["application/vnd.jupyter.widget-view+json"]["model_id"] == view["content"]["comm_id"]
        update = {"method": "update", "state": {"_selected": "5~2"}, "buffer_paths": []}
        content = {"comm_id": view["content"]["comm_id"], "data": update}
        client.shell_channel.send(client.session.msg("comm_msg", content))
        heard = run(client, SAY)
        said = "".join(one["content"]["text"] for one in heard if one["msg_type"] == "stream")
        assert said == "[5, 6, 7] ['5', '6', '7']\n"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
