"""Made configurations, a model type inside another: tables or one line, never another exception."""

from __future__ import annotations

from collections import Counter

from tests.conftest import FULL
from tests.support.checkpoints.configurations import raw_errors


def test_nested_configurations_raise_nothing_but_our_errors() -> None:
    seen: Counter[str] = Counter()
    raised = raw_errors(20_000 if FULL else 200, seed=1, seen=seen)
    assert not raised, "\n".join(f"{where}: {config[:800]}" for where, config in raised.items())
    assert min(seen["extract"], seen["table"], seen["matrix"], seen["inputs"], seen["inputs: refused"]) > 20
