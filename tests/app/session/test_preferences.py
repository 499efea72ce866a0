"""What a browser may remember, and what is made of whatever comes back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.session import preferences


@pytest.mark.parametrize(
    "text", ["./folder", "/etc/passwd", "~/x", "../x", "hf_" + "a" * 34, "", "a b c", f"x/{'x' * 2000}", "the king"]
)
def test_nothing_personal_is_remembered(text: str) -> None:
    assert preferences.remembered([text]) == []


def test_presets_need_not_be_remembered() -> None:
    texts = ["owner/name@main", "sample:gpt2", "rotary:64x8", "owner/name@main"]
    assert preferences.remembered(texts, presets=("sample:gpt2",)) == ["owner/name@main", "rotary:64x8"]
    assert len(preferences.remembered([f"random:{rows}x8" for rows in range(10, 40)])) == preferences.MOST


@given(st.recursive(st.none() | st.integers() | st.text(max_size=20), lambda inner: st.lists(inner, max_size=5)))
@settings(max_examples=60, deadline=None)
def test_whatever_comes_back_is_read_or_passed_over(kept: Any) -> None:
    assert all(isinstance(text, str) for text in preferences.remembered(kept))
