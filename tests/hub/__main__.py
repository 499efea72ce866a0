"""Serve folders as repositories, to try things by hand: ``python -m tests.hub owner/name=./folder``.

Prints the environment that points a client here, and serves until standard input ends. Each line that comes in is
answered by one of JSON: every request so far, as [time of arrival, method, URL, range].
"""

import argparse
import json
import sys
from pathlib import Path

from tests.hub.server import FakeHub
from tests.hub.training import add_run


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repositories", nargs="*", metavar="NAME=FOLDER")
    parser.add_argument("--run", type=int, default=0, help="checkpoints of a training run, as revisions of lab/run")
    parser.add_argument("--layers", type=int, default=0, help="layers of each checkpoint, with GPT-2's names")
    parser.add_argument("--delay", type=float, help="seconds before each answer")
    parser.add_argument("--rate", type=float, help="bytes a second of each connection")
    given = parser.parse_args()
    with FakeHub() as hub:
        for repository in given.repositories:
            name, _, folder = repository.partition("=")
            hub.add(name, {path.name: path for path in Path(folder).iterdir() if path.is_file()})
        add_run(hub, given.run, positions=256, tokens=2_000, width=64, layers=given.layers)
        hub.shape(delay=given.delay, rate=given.rate)
        print(f"HF_ENDPOINT={hub.endpoint} HFPOSEMB_HUB_HOSTS=localhost", flush=True)
        for _ in sys.stdin:
            print(json.dumps(_asked(hub)), flush=True)


def _asked(hub: FakeHub) -> list[tuple[float, str, str, str | None]]:
    servers = {"hub": hub.endpoint, "cdn": hub.cdn, "elsewhere": hub.elsewhere}
    return [(one.at, one.method, servers[one.host] + one.path, one.headers.get("range")) for one in hub.requests]


if __name__ == "__main__":
    main()
