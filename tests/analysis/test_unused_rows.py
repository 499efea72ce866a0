"""Untrained tokens of tied and untied models: what was planted is found, and marks and origins are stated."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

import hfposemb as hpe
from hfposemb.analysis.tokens.undertrained import undertrained_tokens
from hfposemb.analysis.tokens.unused_rows import distance_to_unused, limit_of, separate_head

ROWS, WIDTH, PLANTED, KNOWN = 50_000, 32, 100, 12
Floats = NDArray[np.float32]


def made(seed: int, *, planted: int = PLANTED) -> tuple[Floats, Floats, list[int], list[int]]:
    """Return token table and head of a made model, the planted untrained rows, and rows known to be unused.

    Trained rows are sums of a topic, their own part and a direction that follows frequency. Untrained rows keep a part
    of their initial numbers. All rows of the head are moved against the mean of the final vectors, as by the softmax.
    """
    rng = np.random.default_rng(seed)
    start = 0.02 * rng.standard_normal((ROWS, WIDTH), np.float32)
    untrained = rng.permutation(ROWS)[: planted + KNOWN]
    topics, (hidden, frequency) = (rng.standard_normal((n, WIDTH), np.float32) / WIDTH**0.5 for n in (40, 2))
    often = np.arange(1, ROWS + 1, dtype=np.float32) ** -0.3 * 10

    def table() -> Floats:
        strength = rng.uniform(0.3, 1.2, (ROWS, 1)).astype(np.float32)
        found = start + topics[rng.integers(40, size=ROWS)] * strength + np.outer(often, frequency)
        found += 0.12 * rng.standard_normal((ROWS, WIDTH), np.float32)
        found[untrained] = 0.7 * start[untrained]
        return np.asarray(found, np.float32)

    token, head = table(), table() - 0.6 * hidden
    return token, head, untrained[:planted].tolist(), untrained[planted:].tolist()


@pytest.mark.parametrize("tied", [True, False])
def test_planted_untrained_rows_are_found(tied: bool) -> None:
    token, head, planted, known = made(0)
    source = hpe.from_arrays(token=head) if tied else hpe.from_arrays(token=token, head=head)
    found = undertrained_tokens(source, count=200, unused=known)["untrained"]
    listed = {row.row for row in found.rows}
    assert found.found == len(listed)
    assert len(listed & set(planted)) >= 0.95 * len(listed)
    assert len(listed & set(planted)) >= 0.95 * len(planted)


@pytest.mark.parametrize("tied", [True, False])
def test_nothing_is_found_where_nothing_was_planted(tied: bool) -> None:
    token, head, _, known = made(1, planted=0)
    source = hpe.from_arrays(token=head) if tied else hpe.from_arrays(token=token, head=head)
    assert undertrained_tokens(source, unused=known)["untrained"].found == 0


def test_rows_wrongly_called_unused_separate_nothing() -> None:
    token, *_ = made(2)
    found = undertrained_tokens(hpe.from_arrays(token=token[:5000]), unused=list(range(40, 60)))["untrained"]
    assert found.found == 0
    assert "lie among the others" in found.note


def test_head_is_measured_only_if_it_is_another_table() -> None:
    token, head, _, known = made(3)
    tied = undertrained_tokens(hpe.from_arrays(token=token[:3000], head=token[:3000]), unused=[0, 1, 2])
    assert tied.head == ""
    untied = undertrained_tokens(hpe.from_arrays(token=token, head=head), unused=known)
    assert untied.head == "arrays head"
    assert untied["near unused in the head"].rows
    assert separate_head(hpe.extract("sample:gpt2")) is None


def test_distance_is_that_of_other_unused_rows() -> None:
    rows = np.random.default_rng(0).standard_normal((20, 3))
    unused = np.zeros(20, bool)
    unused[[3, 4, 9]] = True
    found = distance_to_unused(hpe.from_arrays(token=rows).token, unused)
    assert found[0] == pytest.approx(np.linalg.norm(rows[0] - rows[[3, 4, 9]].mean(axis=0)))
    assert found[3] == pytest.approx(np.linalg.norm(rows[3] - rows[[4, 9]].mean(axis=0)))


def test_limit_covers_further_rows_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    drawn = np.exp(0.3 * rng.standard_normal((2000, 9)))
    missed = np.mean([row[-1] > limit_of(row[:-1]) for row in drawn])
    assert missed == pytest.approx(0.005, abs=0.005)


def saved(folder: Path, added: int) -> hpe.Embeddings:
    """Save a model with a tokenizer, of which the last tokens were added and are at the mean of the others."""
    rng = np.random.default_rng(0)
    token = rng.standard_normal((60, 8)).astype(np.float32)
    token[60 - added :] = token[: 60 - added].mean(axis=0)
    vocabulary = {"<s>": 0, "</s>": 1, **{f"[unused{row}]": row for row in range(2, 8)}}
    vocabulary |= {f"w{row}": row for row in range(8, 60 - added)}
    special = [{"id": row, "content": text, "special": True} for text, row in (("<s>", 0), ("</s>", 1))]
    special += [{"id": row, "content": f"<|new_{row}|>", "special": True} for row in range(60 - added, 60)]
    tokenizer = {"model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<s>"}, "added_tokens": special}
    settings = {"chat_template": "{{ bos_token }}<|new_58|>{{ message }}", "bos_token": "<s>"}
    save_file({"wte.weight": token}, folder / "model.safetensors")
    for name, value in {
        "config.json": {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 60},
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": settings,
    }.items():
        (folder / name).write_text(json.dumps(value))
    return hpe.extract(folder)


def test_tokens_are_marked_as_the_tokenizer_says(tmp_path: Path) -> None:
    marks = saved(tmp_path, 4).token_marks
    assert marks.reserved == frozenset(range(2, 8))
    assert marks.added == frozenset(range(56, 60))
    assert marks.template
    assert marks.chat == frozenset((0, 58))
    assert marks.of(58) == ("added", "chat template")
    assert hpe.from_arrays(token=np.eye(3)).token_marks.of(0) == ()


def test_added_rows_are_marked_and_their_origin_is_said(tmp_path: Path) -> None:
    found = undertrained_tokens(saved(tmp_path, 6))
    assert found.origin is not None
    assert found.origin.made == "mean"
    nearest = found["near the mean"].rows[0]
    assert nearest.marks[0] == "added"
    text = str(found)
    assert "6 new rows of" in text
    assert "[added" in text
