"""Texts for readers."""

from __future__ import annotations

import pytest

from hfposemb.text import sentence_case


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no word has this position", "No word has this position"),
        ("one-sided biases, as in ALiBi", "One-sided biases, as in ALiBi"),
        ("reading, stopped", "Reading, stopped"),
        ("gpt2 has no tokens", "gpt2 has no tokens"),
        ("google-bert/bert-base-uncased has no config", "google-bert/bert-base-uncased has no config"),
        ("sample:bert has 256 positions", "sample:bert has 256 positions"),
        ("α is no word", "α is no word"),
        ("", ""),
    ],
)
def test_an_id_at_the_start_of_a_sentence_is_kept(text: str, said: str) -> None:
    assert sentence_case(text) == said
