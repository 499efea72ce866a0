"""Texts for readers."""

from __future__ import annotations

import pytest

from hfposemb.text import number, percent, sentence_case, standing


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


@pytest.mark.parametrize(
    ("percentile", "said"),
    [
        (0, "below 99.9"), (0.09, "below 99.9"), (0.1, "above 0.1"), (4.425, "above 4.4"), (50.0, "above 50"),
        (98.29, "above 98.2"), (99.95, "above 99.9"), (100, "above 99.9"),
    ],
)  # fmt: skip
def test_a_percentile_is_rounded_to_no_untruth(percentile: float, said: str) -> None:
    assert standing(percentile) == f"{said}\u00a0%"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.69, ".690"),
        (-0.5, "−.500"),
        (1024, "1,024"),
        (0, ".000"),
        (-0.0001, ".000"),
        (12.3456, "12.346"),
        (1.0, "1.000"),
    ],
)
def test_numbers_for_readers(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.84, "84"),
        (0.994, "99"),
        (0.9996, "100"),
        (1, "100"),
        (1.3, "130"),
        (0.004, "under 1"),
        (0, "0"),
        (-0.2, "−20"),
    ],
)  # fmt: skip
def test_all_and_nothing_are_said_of_all_and_nothing_alone(share: float, text: str) -> None:
    assert percent(share) == f"{text}\u00a0%"
