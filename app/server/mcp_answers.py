"""Answers of the MCP tools: JSON that an agent can afford to read. This module imports nothing heavy.

An answer has at most ``MOST_CHARACTERS`` characters unless everything is requested: numbers have five digits, what is
empty is omitted, the least important facts come last and are left out first, and as many entries of the list are given
as fit. ``left_out`` says what is missing, and which parameters return it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MOST_CHARACTERS = 4_000
DIGITS = 5
LONGEST_VALUE = 300
"""Maximum number of characters of a text in a short answer."""
MOST_VALUES = 12
"""Maximum number of entries of a list among the facts of a short answer."""

KEY_METRICS = (
    "variance of 2 components",
    "components for 95 %",
    "mean cosine at distance 1",
    "mean cosine at distance 16",
    "translation invariance",
    "shift R² by 1, random rows",
    "shift R² by 4, random rows",
    "shift R² by 4, last quarter",
    "helix period",
    "mean norm",
    "norm of position 0",
    "break at position",
    "token mean norm",
    "token norm / position norm",
    "token anisotropy",
    "head and tokens, CKA",
)
"""Metrics of a comparison that a short answer gives first."""


@dataclass(frozen=True)
class Answer:
    """Facts, and a list that may be long.

    Attributes:
        facts: What is always given.
        key: Name of the list, "" if there is none.
        listed: The list's entries from ``offset`` on.
        offset: Number of entries before them.
        total: Number of entries in all, by default up to the last of ``listed``.
    """

    facts: Mapping[str, Any]
    key: str = ""
    listed: Sequence[Any] = ()
    offset: int = 0
    total: int | None = None

    def as_json(self, *, full: bool) -> dict[str, Any]:
        """Return the answer, short enough unless it is to be ``full``.

        Examples:
            >>> found = Answer({"of": "numbers"}, "numbers", [n / 3 for n in range(1000)]).as_json(full=False)
            >>> len(json.dumps(found)) <= MOST_CHARACTERS, found["numbers"][:2], found["left_out"]["next_offset"]
            (True, [0.0, 0.33333], 513)
        """
        if full:
            return self._with(_plain(self.facts), _plain(self.listed))
        facts, entries = _short(self.facts), [_short(entry) for entry in self.listed]
        while len(facts) > 1 and _length(facts) > MOST_CHARACTERS // 2:
            facts.popitem()
        fitting = len(entries)
        if _length(self._with(facts, entries)) > MOST_CHARACTERS:
            fitting = _most(len(entries), lambda count: _length(self._with(facts, entries[:count])) <= MOST_CHARACTERS)
        return self._with(facts, entries[:fitting])

    def _with(self, facts: Mapping[str, Any], entries: Sequence[Any]) -> dict[str, Any]:
        found = dict(facts)
        missing = [name for name, value in self.facts.items() if name not in found and not _empty(value)]
        if self.key:
            found[self.key] = list(entries)
        end = self.offset + len(entries)
        total = self.offset + len(self.listed) if self.total is None else self.total
        if end < total:
            more = f"offset={end} gives the next; full=true lifts the limit of {MOST_CHARACTERS:,} characters"
            found["left_out"] = {self.key: total - end, "next_offset": end, "to_get_more": more}
        if missing:
            left: dict[str, Any] = {"facts": missing, "to_get_more": "full=true gives everything"}
            found["left_out"] = {**left, **found.get("left_out", {})}
        return found


def _most(count: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number up to ``count`` that fits, by bisection."""
    low, high = 0, count
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def text_of(answer: Mapping[str, Any]) -> str:
    """Return an answer as JSON text."""
    return json.dumps(answer, ensure_ascii=False)


def _length(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False))


def _empty(value: Any) -> bool:
    return (
        value is None
        or (isinstance(value, float) and math.isnan(value))
        or (isinstance(value, (Mapping, list, tuple)) and not value)
    )


def _plain(value: Any, digits: int = 0) -> Any:
    """Return a value that JSON can hold: without NaN and infinities, numbers of so many ``digits``, recursively."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return float(f"{value:.{digits}g}") if digits else value
    if isinstance(value, Mapping):
        return {name: _plain(one, digits) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one, digits) for one in value]
    return value


def _short(value: Any) -> Any:
    """Return a rounded value without fields that are empty, and with long texts and lists cut, recursively."""
    if isinstance(value, Mapping):
        found = {name: _short(one) for name, one in value.items()}
        return {name: one for name, one in found.items() if not _empty(one)}
    if isinstance(value, (list, tuple)):
        cut = [_short(one) for one in value[:MOST_VALUES]]
        return [*cut, f"… and {len(value) - MOST_VALUES:,} more"] if len(value) > MOST_VALUES else cut
    if isinstance(value, str) and len(value) > LONGEST_VALUE:
        return f"{value[:LONGEST_VALUE]}…"
    return _plain(value, DIGITS)


# --- shorter forms of long results ------------------------------------------------------------------------------------


def row_pairs(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the matrices of ``Endpoints.similarity`` as a list of pairs.

    ``rank`` is that of the second row among the neighbours of the first, and the reverse.
    """
    labels, count = found["labels"], len(found["labels"])
    return [
        {
            "pair": [labels[left], labels[right]],
            found["metric"]: found["values"][left][right],
            "percentile_of_random_pairs": found["percentiles"][left][right],
            "rank": [found["ranks"][left][right], found["ranks"][right][left]],
        }
        for left in range(count)
        for right in range(left + 1, count)
    ]


def compared_metrics(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the metrics of a comparison that have a value, a list of values by source each, the key metrics first.

    ``untrained`` and ``sinusoid`` are the values of such tables of the same shape as each source.
    """
    sources = document["sources"]
    names = list(dict.fromkeys(name for source in sources for name in source["metrics"]))
    names.sort(key=lambda name: KEY_METRICS.index(name) if name in KEY_METRICS else len(KEY_METRICS))
    found = []
    for name in names:
        metrics = [source["metrics"].get(name) or {} for source in sources]
        values = [metric.get("value") for metric in metrics]
        if all(value is None for value in values):
            continue
        unit = next((metric["unit"] for metric in metrics if metric.get("unit")), "")
        entry: dict[str, Any] = {"metric": name, **({"unit": unit} if unit else {}), "values": values}
        for reference in ("untrained", "sinusoid"):
            known = [(metric.get("references") or {}).get(reference) for metric in metrics]
            if any(value is not None for value in known):
                entry[reference] = known
        found.append(entry)
    return found


def compared_pairs(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return how similar the tables of each pair of sources are, with p where CKA has a chance level, or why not."""
    found = []
    for pair in document["pairs"]:
        values = {name: pair["observed"].get(name) for name in ("CKA", "RSA, centred", "shared neighbours")}
        chance = pair["measures"].get("CKA", {}).get("p")
        about = {"table": pair["role"], "pair": [pair["left"], pair["right"]], "rows": pair["rows"]}
        told = {"corrected p of CKA": pair["corrected"].get("CKA"), "p of CKA": chance, "not_tested": pair["untested"]}
        found.append({**about, **values, **{name: value for name, value in told.items() if value != ""}})
    return found
