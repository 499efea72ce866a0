"""Types and actions of command-line options."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any


def port(text: str) -> int:
    """Return a port."""
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and 1 <= int(text) <= 65535):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; give a number from 1 to 65535")
    return int(text)


def count(text: str) -> int:
    """Return a whole number of up to six digits."""
    if not (text.isascii() and text.isdecimal() and len(text) < 7):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 999,999")
    return int(text)


class Schema(argparse.Action):
    """Print the JSON Schema and exit instead of running the command, like ``--version``."""

    def __init__(self, option_strings: Sequence[str], dest: str, **more: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **more)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Print it."""
        from ..checks.report_formats import SCHEMA
        from ..reports.json_schema import COMPARISON

        print(json.dumps(SCHEMA if self.const == "check" else COMPARISON, indent=2, ensure_ascii=False))
        parser.exit()
