"""Serve folders as repositories, to try things by hand: ``python -m tests.hub owner/name=./folder``.

Prints the environment that points a client here, and serves until standard input ends.
"""

import argparse
import sys
from pathlib import Path

from tests.hub.server import FakeHub


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repositories", nargs="+", metavar="NAME=FOLDER")
    parser.add_argument("--delay", type=float, help="seconds before each answer")
    parser.add_argument("--rate", type=float, help="bytes a second of each connection")
    given = parser.parse_args()
    with FakeHub() as hub:
        for repository in given.repositories:
            name, _, folder = repository.partition("=")
            hub.add(name, {path.name: path for path in Path(folder).iterdir() if path.is_file()})
        hub.shape(delay=given.delay, rate=given.rate)
        print(f"HF_ENDPOINT={hub.endpoint} HFPOSEMB_HUB_HOSTS=localhost", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
