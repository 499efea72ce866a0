"""Parser that answers to commands and options that it does not have."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from ..guesses import did_you_mean, meant

ALIASES = {"neighbors": "neighbours", "--centered": "--centred", "--output": "--out", "-o": "--out", "--k": "-k"}
"""What most programs call a command or an option."""


class AnsweringParser(argparse.ArgumentParser):
    """Parser that says what is meant by a wrong command, option or choice; its commands are such parsers too."""

    def parse_known_args(self, args: Any = None, namespace: Any = None, **more: Any) -> Any:
        """Parse arguments, after a look at those that do not exist."""
        given = list(sys.argv[1:] if args is None else args)
        return super().parse_known_args(self._known(given), namespace, **more)

    def _known(self, given: Sequence[str]) -> list[str]:
        """Return the arguments with aliases replaced. Ends the program for an unknown command or option."""
        commands = next((one.choices for one in self._actions if isinstance(one, argparse._SubParsersAction)), None)
        found: list[str] = []
        for place, one in enumerate(given):
            if one == "--":
                return [*found, *given[place:]]
            name, equals, value = one.partition("=")
            if commands is not None and not one.startswith("-"):
                name = ALIASES.get(name, name) if name not in commands else name
                if name not in commands:
                    self.error(f"there is no command {name!r:.40}{_meant(name, [*commands, '--help', '--version'])}")
                return [*found, name, *given[place + 1 :]]
            if self._is_unknown(one, name):
                if ALIASES.get(name) not in self._option_string_actions:
                    self.error(f"there is no option {name:.40}{_meant(name, self._option_string_actions)}")
                name = ALIASES[name]
            found.append(name + equals + value)
        return found

    def _is_unknown(self, argument: str, name: str) -> bool:
        """Return whether an argument is an option that the parser does not have, as argparse would read it."""
        if not argument.startswith("-") or argument == "-" or " " in argument:
            return False
        if argument.removeprefix("-").replace(".", "", 1).isdecimal():  # a negative number
            return False
        short = argument[:2] if argument[1] != "-" else name
        return not any(one.startswith(name) or one == short for one in self._option_string_actions)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            error.message += did_you_mean(value, map(str, action.choices or ()))
            raise


def _meant(name: str, known: Iterable[str]) -> str:
    bare = {one.lstrip("-"): one for one in known}
    found = [bare[one] for one in meant(name.lstrip("-"), bare)]
    return f"; did you mean {' or '.join(found)}?" if found else "; --help lists them"
