"""The parser, which answers to what it does not know, and helpers for options that several commands share."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError, MissingTableError
from ..guesses import did_you_mean, meant
from ..models.extraction import extract
from ..tables.documents import plain
from ..tables.embeddings import Embeddings
from ..tables.table import EmbeddingTable

ALIASES = {"neighbors": "neighbours", "--centered": "--centred", "--output": "--out", "-o": "--out", "--k": "-k"}
"""What most programs call a command or an option."""

SETTINGS = {
    "--token": "HF_TOKEN, or run hf auth login",
    "--offline": "HF_HUB_OFFLINE=1",
    "--cache-dir": "HFPOSEMB_CACHE for our cache and HF_HOME for that of huggingface_hub",
}
"""What is not an option but a variable of the environment."""


def whole_count(text: str) -> int:
    """Return a number of things."""
    if not (text.isascii() and text.isdecimal() and len(text) < 7):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 999,999")
    return int(text)


class AnsweringParser(argparse.ArgumentParser):
    """Parser that says what is meant by a wrong command, option or choice; its commands are such parsers too."""

    def flag(self, name: str, text: str, **more: Any) -> None:
        """Add an option without a value."""
        self.add_argument(name, action="store_true", help=text, **more)

    def value(self, name: str, metavar: str, text: str, **more: Any) -> None:
        """Add an argument, or an option with a value."""
        self.add_argument(name, metavar=metavar, help=text, **more)

    def path(self, name: str, metavar: str, text: str, **more: Any) -> None:
        """Add an option whose value is a path."""
        self.value(name, metavar, text, type=Path, **more)

    def count(self, name: str, text: str, default: int | None = None) -> None:
        """Add an option whose value is a number of things."""
        said = text if default is None else f"{text} (default: {default})"
        self.value(name, "N", said, type=whole_count, default=default)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse arguments; say of those that are left what they are probably meant for."""
        given = list(sys.argv[1:] if args is None else args)
        found, left = self.parse_known_args(given, namespace)
        if left:
            self.error(f"unrecognized arguments: {' '.join(left)}{self._listed(given, left)}")
        return found

    def parse_known_args(self, args: Any = None, namespace: Any = None, **more: Any) -> Any:
        """Parse arguments, after a look at those that do not exist."""
        given = list(sys.argv[1:] if args is None else args)
        return super().parse_known_args(self._known(given), namespace, **more)

    @property
    def _commands(self) -> Any:
        """The commands by name; ``None`` for a parser that has none."""
        return next((one.choices for one in self._actions if isinstance(one, argparse._SubParsersAction)), None)

    def _listed(self, given: Sequence[str], left: Sequence[str]) -> str:
        """Return how values are given that an option takes with commas, if such an option stands before those left."""
        before = given[: len(given) - 1 - given[::-1].index(left[0])]
        options = [place for place, one in enumerate(before) if one.startswith("--")]
        command = next((self._commands[one] for one in before if one in (self._commands or ())), self)
        action = command._option_string_actions.get(before[options[-1]]) if options else None
        if action is None or not str(action.metavar).endswith(",…"):
            return ""
        name, *values = before[options[-1] :]
        return f"; {name} takes several values with commas: {name} {','.join([*values, *left])}"

    def _known(self, given: Sequence[str]) -> list[str]:
        """Return the arguments with aliases replaced. Ends the program for an unknown command or option."""
        commands, found = self._commands, list[str]()
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
                    self.error(f"there is no option {name:.40}{self._instead(name)}")
                name = ALIASES[name]
            found.append(name + equals + value)
        return found

    def _instead(self, name: str) -> str:
        """Return what to write instead of an option that does not exist."""
        placed = {str(one.metavar or one.dest).lower(): one for one in self._actions if not one.option_strings}
        if found := meant(name.lstrip("-"), placed):
            return f"; {found[0].upper()} is written without a name, as in {self.prog} {' '.join(placed).upper()}"
        if name in SETTINGS:
            return f"; set {SETTINGS[name]}"
        return _meant(name, self._option_string_actions)

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


SHOWN = 5


Command = Callable[[argparse.Namespace], int | None]


def parts_of(given: argparse.Namespace) -> str | list[str | None] | None:
    """Return the value of ``--part`` in the format of ``compare``."""
    if len(given.part) > 1:
        return [None if name == "-" else name for name in given.part]
    return given.part[0] if given.part and given.part[0] != "-" else None


def opened_source(given: argparse.Namespace, *, source: str | None = None) -> Embeddings:
    """Return the source that a command names, or one of several that it names."""
    tensor = getattr(given, "tensor", None)
    return extract(
        given.source if source is None else source,
        revision=given.revision,
        allow_full_download=given.allow_full_download,
        tables=None if tensor is None else {"tensor": tensor},
        base=given.base,
    )


def whole_numbers(text: str, option: str) -> list[int]:
    """Return ids separated by commas. Raises ``InputError``."""
    ids = [part.strip() for part in text.split(",") if part.strip()]
    if wrong := [part for part in ids if not (part.isascii() and part.isdecimal() and len(part) < 19)]:
        raise InputError(f"{option} takes whole numbers separated by commas, such as 177,188; got {wrong[0]!r:.40}")
    return [int(part) for part in ids]


def chosen_table(given: argparse.Namespace) -> EmbeddingTable:
    """Return the table that a command names."""
    if given.tensor is not None and given.table is not None:
        raise InputError("give --table or --tensor, not both")
    return role_of(opened_source(given), given.table if given.tensor is None else "tensor")


def role_of(embeddings: Embeddings, wanted: str | None) -> EmbeddingTable:
    """Return the table that ``--table`` names, by default tokens, or positions if there are none."""
    there = (one for one in ("token", "position") if one in {*embeddings.tables, *embeddings.positions})
    role = (wanted or next(there, "token")).replace("-", "_")
    if role in embeddings.tables:
        return embeddings.tables[role]
    if role in embeddings.heads:
        return embeddings.heads[role]
    if role == "head":
        return embeddings.head
    if (beside := _beside(embeddings, role)) is not None:
        return beside
    computed = embeddings.positions.get(role.removesuffix(".position"))
    if computed is not None and computed.has_table:
        return computed.table
    reason = embeddings.absent.get(role, "not found")
    tables = ", ".join((*embeddings.tables, *embeddings.heads, *embeddings.lookups)) or "none"
    raise MissingTableError(
        f"{embeddings.name} has no {role} table: {reason}; its tables: {tables}"
        + did_you_mean(role, [*embeddings.tables, *embeddings.heads, *embeddings.lookups])
    )


def _beside(embeddings: Embeddings, role: str) -> EmbeddingTable | None:
    """Return a table that is looked up beside the word table, or of ``layer7.per_layer`` the part of one layer."""
    if role in embeddings.lookups:
        return embeddings.lookups[role]
    layer, _, key = role.partition(".")
    number = layer.removeprefix("layer")
    if key not in embeddings.lookups or not number.isdecimal() or len(number) > 6:
        return None
    return embeddings.lookups[key].layer(int(number))


def print_json(document: dict[str, Any]) -> None:
    """Print the JSON document of a command with ``--json``, which prints nothing else on standard output.

    Results in it are their documents. JSON has no NaN and no infinity; both are null.
    """
    print(json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False), flush=True)


def print_result(found: object, document: dict[str, Any], given: argparse.Namespace) -> None:
    """Print a result as text, or as a JSON document with ``--json``."""
    if given.json:
        print_json(document)
    else:
        print(found)


class Terminated(KeyboardInterrupt):
    """SIGTERM was received, as batch systems send it before the time limit."""


def byte_size(count: int) -> str:
    """Format a number of bytes for humans."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
