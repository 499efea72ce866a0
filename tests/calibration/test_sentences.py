"""No sentence escapes its rule, and those that say more than a number are seldom said where there is nothing."""

from __future__ import annotations

import ast
import re

import pytest

from .sentences import PLAIN, ROOT, RULES, shown_texts, written
from .titles import shares

NOTHING = {
    "noise": {"“No order”"},
    "random walks": {"“One smooth curve”", "“Neighbours are similar”", "an outlying norm"},
    "smooth, ℓ = n/32": {"“Neighbours are similar”", "“falls below zero”", "an outlying norm"},
}
"""What may be said of tables of these families: it is a number that they have."""


def test_every_sentence_has_a_rule() -> None:
    found = set(written())
    named = {(path, name) for path, rules in RULES.items() for name in rules}
    plain = {(path, name) for path, names in PLAIN.items() for name in names}
    assert found == named | plain
    assert not named & plain


SYNONYMS = re.compile(r"\b(coils?|winds?|winding|spirals?|variation)\b")
"""Other words for a helix and for variance."""


def test_one_word_stands_for_one_thing() -> None:
    """What app, reports, command line and documentation show calls a thing the same everywhere."""
    said = {f"{path}: {text[:90]}" for path, text in shown_texts() if SYNONYMS.search(text)}
    assert not said


def test_the_tests_that_rules_name_are_there() -> None:
    named = {rule.test for rules in RULES.values() for rule in rules.values()} - {""}
    for path, _, function in (name.partition("::") for name in named):
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert function in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, path
    tested = [rule for rules in RULES.values() for rule in rules.values() if "chance" in rule.states]
    assert tested
    assert all(rule.test for rule in tested)


@pytest.mark.parametrize("family", NOTHING)
def test_titles_say_little_of_noise(family: str) -> None:
    found = shares(family, 128, 32, tables=40)
    said = {title for title, share in found.items() if share > 0.1}
    assert said <= NOTHING[family]
    assert said
