"""Which engine computes rotary positions how: dated rules, each with the thread or source that shows it.

``engine_rules.toml`` has the rules; what no rule covers is not known. Dates are those of the thread: a change that was
merged holds in releases after it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from . import engine_formulas
from .engine_formulas import DEEPSEEK, Computed, Stated

REFERENCE = "transformers"
ENGINES = (REFERENCE, "vLLM", "SGLang", "llama.cpp", "mlx-lm")
"""Engines for which every configuration gets an answer, if only that it is not known."""


@dataclass(frozen=True)
class EngineRule:
    """How an engine computes the positions of some rope types, from one date until another.

    Attributes:
        engine: Name of the engine.
        kinds: Rope types that it is about.
        says: What the engine does.
        thread: Address of the thread or source that shows it.
        compute: Returns the encoding of the engine, or why it refuses.
        shown: Date of what shows it, "" for source without one.
        since: Date from which it holds, "" where that is not known.
        until: Date until which it held, "" if no later one is known.
        standard: Whether it is only about attention of no kind for which engines have code of their own.
        also: Model types that count as standard, besides DeepSeek's.
        types: The only model types that it is about; () for any.
        without: Model types that it is not about.
        states: Parameters that must be stated; for some, engines have defaults of their own, or stop.
        lacks: Parameters that must not be stated.
        truncates: Whether the bounds of the ramp must be rounded, which some say with ``truncate: false``; ``None`` for
            either.
    """

    engine: str
    kinds: tuple[str, ...]
    says: str
    thread: str
    compute: Callable[[Stated], Computed]
    shown: str = ""
    since: str = ""
    until: str = ""
    standard: bool = False
    also: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    truncates: bool | None = None

    def applies(self, given: Stated) -> bool:
        """Return whether the rule is about a configuration."""
        kind = given.model_type
        return (
            not (self.standard and given.apart and kind not in (*DEEPSEEK, *self.also))
            and (not self.types or kind in self.types)
            and kind not in self.without
            and all(map(given.states, self.states))
            and not given.states(*self.lacks)
            and self.truncates in (None, given.parameters.get("truncate") is not False)
        )


def is_published(thread: str) -> bool:
    """Return whether an address is that of a thread, not of source alone."""
    return "/pull/" in thread or "/issues/" in thread


def _read() -> Iterator[EngineRule]:
    """Yield the rules of ``engine_rules.toml``, which names functions of ``engine_formulas``."""
    for row in tomllib.loads(files(__package__).joinpath("engine_rules.toml").read_text(encoding="utf-8"))["rule"]:
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in row.items()
        }
        values["thread"] = f"https://github.com/{row['thread']}"
        values["compute"] = getattr(engine_formulas, row["compute"])
        yield EngineRule(**values)


RULES = tuple(_read())
"""All rules, by engine and date."""
