"""Regular expressions over labels: what ``re`` finds, and no pattern that keeps anybody waiting."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hfposemb.app.findings.tokens import patterns

from hfposemb.errors import InputError

TEXTS = [
    *("king", "King", " kings", "straße", "Ärger", "ÄRGER", "中文", "٣", "²", "Ⅷ", "_", "‿", "ι", "e\u0301", "ſ", "K"),
    *("", "\n", "\t", "\x85", "\u2028", "a b", "a-b", "[", "]", "^", "\\", "😀", "\ud800x", "x" * 40_000),
]
SAME = r"""
ing$ ^.?(king|rust)$ ^$ . ^.$ [^a] []a] [^]a] [\[] [a\]b] a|b (k)|(_) [A-C] ^\w+$ \W ^[\W_]+$ [^\W\d_] \d [\D]
^\s [\s] \S [^\S] \n [\n] \u00e4 \U0001F600 \x41 \A. .\Z K s (?P<n>a)b \bking\b x{3,} \\ \. ι
"""


def found(pattern: str, texts: list[str] = TEXTS) -> list[int]:
    return patterns.search(pattern, patterns.blocks(texts))


@pytest.mark.parametrize("pattern", [*SAME.split(), "\n", " "])
def test_matches_are_those_of_re(pattern: str) -> None:
    assert found(pattern) == [row for row, text in enumerate(TEXTS) if re.search(pattern, text, re.IGNORECASE)]


def test_texts_keep_their_places_in_many_blocks() -> None:
    many = [f"word {row}" for row in range(5_000)]
    assert len(list(patterns.blocks(many))) > 2
    assert found("D 49+$", many) == [49, 499, 4999]
    assert found(".", many) == list(range(5_000))
    assert found(".", []) == []


@pytest.mark.parametrize(
    "pattern",
    ["(", "*", "[", "a)|(b", "\\", r"(a)\1", "(?=a)", "(?<!a)b", "a++", "a{2000}", r"((\w{1,99}){1,9}){1,9}"],
)
def test_what_the_engine_lacks_is_one_line(pattern: str) -> None:
    with pytest.raises(InputError, match=r"^not a valid regular expression: .*without look-around") as raised:
        found(pattern)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|aa)*c", "(.*a){20}", r"\w{1,80}$", "(a.{400}|b.{500}|.a{300})$", "(.?){100}(.?){100}q"]
)
def test_no_pattern_goes_on_for_ever(pattern: str) -> None:
    """With backtracking each of these takes longer than the universe is old."""
    with suppress(InputError):
        found(pattern, ["a" * 30_000 + "b"] * 50)
