"""Rotary positions of a configuration as inference engines compute them, and the first position at which they part."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.resources import files
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import HfposembError, MissingTableError
from ..models.architectures.config_values import in_gguf, part_config
from ..models.positions.rope import rotary_encodings
from ..tables.documents import plain
from ..tables.embeddings import Embeddings
from ..tables.rotary import DynamicScaling, Rotary
from ..tables.tabular import Columns, Tabular, columns_of
from ..text import number
from . import engine_formulas
from .checked_source import CheckedSource
from .engine_formulas import DEEPSEEK, Computed, Stated
from .findings import Finding, finding
from .rope_report import chosen_part
from .rotary_settings import stated_scalings, type_of

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
        values["compute"] = partial(getattr(engine_formulas, row["compute"]), **values.pop("settings", {}))
        yield EngineRule(**values)


RULES = tuple(_read())
"""All rules, by engine and date."""


TOLERANCE = 1e-3
"""Largest difference of a cosine or sine, as a point of the plane, at which two engines still agree."""

VARIANTS = ("telechat3-yarn", "deepseek_yarn")
"""Types outside transformers whose frequencies are those of YaRN."""

_SCANNED = 4096
"""Positions beyond a change of frequencies that are compared one by one."""

_LONGEST = 2**24


@dataclass(frozen=True, eq=False)
class EngineTurns:
    """What an engine computes from a configuration, from one date until another.

    Attributes:
        engine: Name of the engine.
        since: Date or release from which it does so, "" where that is not known.
        until: Date or release until which it did, "" if it still does as far as is known.
        attention_factor: Factor of cosines and sines; ``None`` if not known or refused.
        frequencies: Frequencies [pairs] of a short input in radians per position; ``None`` likewise.
        length: Longest input that the engine derives from the configuration; ``None`` likewise.
        rule: What it does, in a sentence.
        thread: Address of the thread or source that shows it, "" if it is not known.
        shown: Date of the thread, "" for source.
        parts_at: First position whose cosines or sines differ from the reference by more than the tolerance; ``None``
            for none up to the longest input.
        refused: Why the engine refuses the configuration, "" if it does not.
    """

    _document = (
        *("engine", "since", "until", "known", "attention_factor", "length", "parts_at", "refused", "frequencies"),
        *("rule", "thread", "shown"),
    )
    engine: str
    since: str = ""
    until: str = ""
    attention_factor: float | None = None
    frequencies: NDArray[np.float64] | None = field(default=None, repr=False)
    length: int | None = None
    rule: str = "not known"
    thread: str = ""
    shown: str = ""
    parts_at: int | None = None
    refused: str = ""

    @property
    def known(self) -> bool:
        """Whether frequencies and factor are known."""
        return self.frequencies is not None


@dataclass(frozen=True, eq=False)
class RopeEngines(Tabular):
    """Rotary positions of a source as engines compute them.

    Attributes:
        source: Name of the source.
        part: Part or kind of layer.
        scaling: Stated rope type.
        reference: Engine that the others are compared with, in its present version.
        tolerance: Largest difference of cosines and sines at which two engines agree.
        rows: A row for each engine and time.
    """

    _document = ("source", "part", "scaling", "reference", "tolerance")
    source: str
    part: str
    scaling: str
    reference: str
    tolerance: float
    rows: tuple[EngineTurns, ...]

    @property
    def differing(self) -> tuple[EngineTurns, ...]:
        """Rows that part from the reference and still hold."""
        return tuple(row for row in self.rows if row.parts_at is not None and not row.until)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, with ``null`` for what is not known."""
        return {**super().to_dict(), "engines": plain(self.rows)}

    def columns(self) -> Columns:
        """Return one row per engine and time.

        ``engine``, ``since``, ``until``, ``attention_factor``, ``length``, ``parts_at``, ``rule``, ``thread`` and
        ``shown``, as in ``EngineTurns``.
        """
        names = ("engine", "since", "until", "attention_factor", "length", "parts_at", "rule", "thread", "shown")
        return columns_of(self.rows, *names)

    def __str__(self) -> str:
        """Write the rows as text."""
        return "\n".join(_lines(self))


def rope_engines(embeddings: Embeddings, *, part: str | None = None) -> RopeEngines:
    """Return the rotary positions of a source as inference engines compute them, by dated rules.

    Args:
        embeddings: The source.
        part: Part or kind of layer; ``None`` for the first one whose rotary positions are scaled, else the first one.

    Returns:
        A row for each engine and time, with the thread that shows it; what no thread or source shows is not known.

    Raises:
        InputError: If there is no such part.
        MissingTableError: If the positions are not rotary, of an unknown type, or stated by a GGUF file, which one
            engine reads.

    Examples:
        >>> import hfposemb as hpe
        >>> found = rope_engines(hpe.extract("rotary:1024x64"))
        >>> sorted({row.attention_factor for row in found.rows}), found.differing
        ([1.0], ())
    """
    name, given = _stated(embeddings, part)
    return of_stated(given, source=embeddings.name, part=name)


def check_engines(source: CheckedSource) -> Iterator[Finding]:
    """Yield a note for each kind of layer that present engines turn differently, if a thread shows it."""
    if in_gguf(source.config):
        return
    for part in stated_scalings(source.text):
        try:
            found = rope_engines(source.embeddings, part=part or None)
        except HfposembError:
            continue  # other findings say why there are no frequencies
        apart = [row for row in found.differing if is_published(row.thread) and found.scaling not in ("", "default")]
        if apart:
            usual = next(row for row in found.rows if row.engine == found.reference and not row.until)
            said = f"{found.scaling} is read differently from {_in_words(usual)}: "
            said += "; ".join(f"{_in_words(row)}, from position {row.parts_at:,} on" for row in apart)
            yield finding(
                "rope-engines-differ",
                said,
                fix={"source": source.name},
                engines=", ".join(row.engine for row in apart),
                attention_factor=usual.attention_factor,
                position=min(row.parts_at or 0 for row in apart),
                part=found.part,
            )


def _in_words(row: EngineTurns) -> str:
    return f"{row.engine} with the attention factor {number(row.attention_factor or 0.0)}"


def of_stated(given: Stated, *, source: str, part: str) -> RopeEngines:
    """Return the rows for what a configuration states.

    Args:
        given: Parameters, and the encoding as transformers computes it.
        source: Name of the source.
        part: Part or kind of layer.
    """
    computed = [(rule, rule.compute(given)) for rule in RULES if given.kind in rule.kinds and rule.applies(given)]
    turned = [(rule, one) for rule, one in computed if isinstance(one, Rotary) and not rule.until]
    first = next(((rule, one) for rule, one in turned if rule.engine == REFERENCE), turned[0] if turned else None)
    reference = first[1] if first else given.ours
    rows: list[EngineTurns] = []
    others = dict.fromkeys(rule.engine for rule, _ in computed if rule.engine not in ENGINES)
    for engine in (*ENGINES, *others):
        mine = [(rule, one) for rule, one in computed if rule.engine == engine]
        rows += _merged([_row(rule, one, reference) for rule, one in mine]) or [EngineTurns(engine)]
    return RopeEngines(source, part, given.kind, first[0].engine if first else "", TOLERANCE, tuple(rows))


def _stated(embeddings: Embeddings, part: str | None) -> tuple[str, Stated]:
    """Return the part and what its configuration states."""
    if in_gguf(embeddings.config):
        raise MissingTableError(
            f"{embeddings.name} is a GGUF file, made for llama.cpp; give the repository that it was converted from"
        )
    text = part_config(embeddings.config, "text")
    scalings = stated_scalings(text)
    for name, parameters in scalings.items():
        if type_of(parameters) in VARIANTS and part in (None, name or "position"):
            return name or "position", of_config(text, parameters, name=embeddings.name)
    if part is None:
        rotary = ((name, one) for name, one in embeddings.positions.items() if isinstance(one, Rotary))
        part = next((name for name, one in rotary if one.scaling not in ("", "default")), None)
    name, one = chosen_part(embeddings, part)
    own = scalings.get(name, {} if one.scaling in ("", "default") else scalings.get("", {}))
    return name, Stated(_kind(own), one, own, text)


def of_config(config: Mapping[str, Any], parameters: Mapping[str, Any], *, name: str) -> Stated:
    """Return what a configuration states, with a variant of YaRN computed as YaRN.

    Args:
        config: Configuration of the text.
        parameters: Rotary parameters of the part.
        name: Name of the source in messages.

    Raises:
        MissingTableError: If the encoding cannot be computed.
    """
    kind = _kind(parameters)
    usual = {**parameters, "rope_type": "yarn" if kind in VARIANTS else kind}
    whole = {**config, "rope_parameters": None, "rope_scaling": {**usual, "type": usual["rope_type"]}}
    found = next(iter(rotary_encodings(whole, name=name).values()))
    if not isinstance(found, Rotary):
        raise MissingTableError(f"{getattr(found, 'reason', name)}; no engine is compared")
    return Stated(kind, found, parameters, config)


def _kind(parameters: Mapping[str, Any]) -> str:
    """Return the rope type, with the older name of multimodal positions read as transformers reads it."""
    kind = type_of(parameters)
    return "default" if kind == "mrope" else kind


def _row(rule: EngineRule, one: Rotary | str, reference: Rotary) -> EngineTurns:
    found = EngineTurns(rule.engine, rule.since, rule.until, rule=rule.says, thread=rule.thread, shown=rule.shown)
    if isinstance(one, str):
        return replace(found, refused=one)
    parts_at = first_parting(one, reference, longest=one.length)
    turns: dict[str, Any] = {"attention_factor": one.attention_scaling, "frequencies": one.at(1).inv_freq}
    return replace(found, **turns, length=one.length, parts_at=parts_at)


def _merged(rows: list[EngineTurns]) -> list[EngineTurns]:
    """Join neighbouring times in which an engine computes the same; the later rule says how."""
    kept: list[EngineTurns] = []
    for row in rows:
        last = kept[-1] if kept else None
        if last is not None and last.until == row.since and _same(last, row):
            kept[-1] = replace(row, since=last.since)
        else:
            kept.append(row)
    return kept


def _same(one: EngineTurns, other: EngineTurns) -> bool:
    facts = ((row.attention_factor, row.length, row.parts_at, row.refused) for row in (one, other))
    if next(facts) != next(facts):
        return False
    if one.frequencies is None or other.frequencies is None:
        return one.frequencies is other.frequencies
    return bool(np.allclose(one.frequencies, other.frequencies, rtol=1e-9))


def first_parting(
    one: Rotary, other: Rotary, *, tolerance: float = TOLERANCE, longest: int | None = None
) -> int | None:
    """Return the first position at which two encodings differ by more than the tolerance.

    The input ends at that position, which matters where frequencies change with the length.

    Args:
        one: An encoding.
        other: Another one, of as many pairs.
        tolerance: Largest distance between (cos, sin) of a pair in both.
        longest: Number of positions that are compared; ``None`` for the longer of the two lengths.

    Returns:
        The position; 0 if the numbers of pairs or the factors differ, ``None`` if they agree at all positions.
    """
    if one.inv_freq.shape != other.inv_freq.shape or abs(one.attention_scaling - other.attention_scaling) > tolerance:
        return 0
    stop = min(longest or max(one.length, other.length), _LONGEST)
    # The first positions of the inputs whose frequencies differ from those of shorter ones.
    lengths = [each.by_length.trained_length for each in (one, other) if each.by_length is not None]
    changes = sorted({0, *(length for length in lengths if length < stop)})
    for start, end in pairwise([*changes, stop]):
        found = _parting_between(one, other, start, end, tolerance)
        if found is not None:
            return found
    return None


def _parting_between(one: Rotary, other: Rotary, start: int, stop: int, tolerance: float) -> int | None:
    grows = any(
        isinstance(each.by_length, DynamicScaling) and start >= each.by_length.trained_length for each in (one, other)
    )
    apart = np.abs(one.at(start + 1).inv_freq - other.at(start + 1).inv_freq).max(initial=0.0)
    if start == 0 and not grows:
        reach = min(tolerance / one.attention_scaling / 2, 1.0) if one.attention_scaling > 0 else 1.0
        at = math.inf if apart == 0 else math.floor(2 * math.asin(reach) / apart) + 1
        return int(at) if at < stop else None
    for position in range(start, min(stop, start + _SCANNED)):
        angles = position * (one.at(position + 1).inv_freq - other.at(position + 1).inv_freq)
        if (2 * one.attention_scaling * np.abs(np.sin(angles / 2))).max(initial=0.0) > tolerance:
            return position
    return None


def _lines(found: RopeEngines) -> Iterator[str]:
    kind = found.scaling or "not scaled"
    yield f"{found.source} {found.part}: rotary, {kind}, as inference engines compute it"
    yield f"  parts at: first position whose cosines or sines differ from {found.reference or 'others'} by more than "
    yield f"  {found.tolerance:g}; dates are those of the thread that shows the rule"
    yield f"  {'engine':<14}{'from':<12}{'until':<12}{'factor':>10}{'longest':>12}{'parts at':>12}"
    for row in found.rows:
        factor = "–" if row.attention_factor is None else number(row.attention_factor)
        length = "–" if row.length is None else f"{row.length:,}"
        parts = "–" if row.parts_at is None else f"{row.parts_at:,}"
        since, until = row.since or "not known", row.until or "now"
        if not row.known and not row.refused:
            yield f"  {row.engine:<14}not known"
            continue
        yield f"  {row.engine:<14}{since:<12}{until:<12}{factor:>10}{length:>12}{parts:>12}"
        yield f"      {row.refused or row.rule}"
        yield f"      {row.thread}{f', {row.shown}' if row.shown else ''}"
