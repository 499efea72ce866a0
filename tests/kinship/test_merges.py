"""What a merge would do, on models whose descent is known because they are trained and changed here."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import combinations

import jsonschema
import numpy as np
import pytest
from scipy.linalg import orthogonal_procrustes
from scipy.stats import ortho_group

import hfposemb as hpe
from hfposemb.cli.main import main
from hfposemb.comparison.merged_rows import MergePreview

from .lineages import MADE, WIDTH, Rows, corpus, source, starts, trained

BASES = 12 if os.environ.get("HFPOSEMB_FULL") else 4
DESTROYED = ("permuted, with signs and noise", "rotated")
BLURRED = ("a tenth frozen",)


@pytest.fixture(scope="module")
def models() -> dict[str, Rows]:
    """Tables [models, words, width]: independent ones, and the first of them trained on by either half of the text."""
    import torch

    independent = trained(starts(range(2 * BASES)), range(2 * BASES))
    first = torch.tensor(independent[:BASES])
    halves = {
        f"half {half}": trained(first, range(500 + half * 100, 500 + half * 100 + BASES), steps=60, half=half)
        for half in (0, 1)
    }
    return {"independent": independent, **halves}


def pairs(models: dict[str, Rows]) -> Iterator[tuple[str, MergePreview]]:
    """Yield merges with the verdict that is right."""
    independent, *halves = models.values()
    for one in halves:
        for a, b in zip(independent, one, strict=False):
            yield "keeps", hpe.merge_preview(source(a), source(b))
    for a, b in zip(*halves, strict=True):
        yield "keeps", hpe.merge_preview(source(a), source(b))
    for a, b in combinations(independent[: max(8, BASES)], 2):
        yield "destroys", hpe.merge_preview(source(a), source(b))
    for kind, (make, _) in MADE.items():
        right = "destroys" if kind in DESTROYED else "blurs" if kind in BLURRED else "keeps"
        for place, rows in enumerate(independent[: BASES // 2]):
            yield right, hpe.merge_preview(source(rows), make(rows, np.random.default_rng(place)))


def test_verdicts_are_right(models: dict[str, Rows]) -> None:
    told = list(pairs(models))
    wrong = [(right, found.verdict, found.reason) for right, found in told if found.verdict != right]
    assert len(told) >= 40
    assert len(wrong) <= len(told) // 40, wrong


def test_the_figures_are_those_of_merged_rows(models: dict[str, Rows]) -> None:
    """They are written anew here, in float64, with slerp as a turn in the plane of both tables."""
    a, b = (models[name][0].astype(np.float64) for name in ("half 0", "half 1"))
    few = np.sort(np.random.default_rng(0).permutation(len(a))[:200])
    a, b, words = a[few], 1.5 * b[few], [corpus()[0][row] for row in few]
    found = hpe.merge_preview(source(a.astype(np.float32), words), source(b.astype(np.float32), words))

    def near(rows: np.ndarray) -> list[set[int]]:
        lengths = np.sqrt((rows**2).sum(axis=1))
        cosines = rows @ rows.T / lengths / lengths[:, None]
        return [set(np.argsort(-line)[1:11].tolist()) for line in cosines]

    def figures(merged: np.ndarray, weight: float) -> tuple[float, ...]:
        parents = (1 - weight) * np.sqrt((a**2).sum(axis=1)) + weight * np.sqrt((b**2).sum(axis=1))
        kept = (np.mean([len(x & y) / 10 for x, y in zip(near(merged), near(one), strict=True)]) for one in (a, b))
        return float((np.sqrt((merged**2).sum(axis=1)) / parents).mean()), *map(float, kept)

    sizes = [np.sqrt((one**2).sum()) for one in (a, b)]
    first, second = a / sizes[0], b / sizes[1]
    angle = np.arccos((first * second).sum())
    beside = (second - first * np.cos(angle)) / np.sin(angle)
    for step in found.steps:
        expected = (1 - step.weight) * a + step.weight * b
        if step.method == "slerp":
            turned = np.cos(step.weight * angle) * first + np.sin(step.weight * angle) * beside
            # mergekit combines the tables with the weights of their directions: each keeps its own length.
            parts = np.linalg.lstsq(np.stack([first.ravel(), second.ravel()]).T, turned.ravel(), rcond=None)[0]
            expected = parts[0] * a + parts[1] * b
        assert (step.length, step.kept_a, step.kept_b) == pytest.approx(figures(expected, step.weight), abs=2e-3)
    turns = ortho_group(WIDTH, seed=0).rvs(60)
    null = np.mean([figures((a + b @ turn) / 2, 0.5) for turn in turns], axis=0)
    assert [one.null for one in found.evidence[1:]] == pytest.approx(null, abs=0.02)


def test_what_was_rotated_can_be_merged_once_it_is_aligned(models: dict[str, Rows]) -> None:
    plain = models["independent"][0]
    rotated = MADE["rotated"][0](plain, np.random.default_rng(0)).token.vectors
    found = hpe.merge_preview(source(plain), source(rotated))
    assert (found.verdict, found.origin.verdict) == ("destroys", "rotated")
    assert "align them first" in found.reason
    assert "merged rows are .000 as long as their parents" in hpe.merge_preview(source(plain), source(-plain)).reason
    aligned = rotated @ orthogonal_procrustes(rotated, plain)[0]
    assert hpe.merge_preview(source(plain), source(aligned)).verdict == "keeps"


@pytest.mark.parametrize(
    ("rows", "words", "verdict", "answer", "reason"),
    [
        (lambda rows: rows[:, :16], lambda words: words, "impossible", "no", "32 and 16 numbers"),
        (
            lambda rows: rows,
            lambda words: [word if at % 2 else f"{word}@" for at, word in enumerate(words)],
            "impossible",
            "no",
            "too many rows would have no partner",
        ),
        (lambda rows: rows[:15], lambda words: words[:15], "cannot tell", "with a map", "15 rows of shared tokens"),
        (lambda rows: rows[::-1], lambda words: words[::-1], "keeps", "with a map", "as long as their parents"),
        (lambda rows: rows, lambda _: None, "cannot tell", "cannot tell", "have no tokens"),
        (lambda rows: np.tile(rows[:1], (len(rows), 1)), lambda words: words, "cannot tell", "yes", "too few"),
    ],
)
def test_rows_that_cannot_be_averaged_are_not_judged(
    models: dict[str, Rows], rows: object, words: object, verdict: str, answer: str, reason: str
) -> None:
    plain = models["independent"][0]
    labels = words(list(corpus()[0]))  # type: ignore[operator]
    found = hpe.merge_preview(source(plain), hpe.from_arrays(token=rows(plain), labels=labels))  # type: ignore[operator]
    assert (found.verdict, found.rows.answer) == (verdict, answer)
    assert reason in found.reason


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["merge-preview", "sample:gpt2", "sample:gpt2", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    with pytest.raises(SystemExit):
        main(["merge-preview", "--schema"])
    jsonschema.validate(said, schema := json.loads(capsys.readouterr().out))
    with pytest.raises(jsonschema.ValidationError, match="'adds' is not one of"):
        jsonschema.validate(said | {"verdict": "adds"}, schema)
    assert {one["method"] for one in said["steps"]} == {"linear", "slerp"}
    assert main(["merge-preview", "sample:minilm", "sample:gpt2"]) == 0
    assert "sample:minilm and sample:gpt2: impossible\n" in capsys.readouterr().out
    assert main(["merge-preview", "sample:gpt2", "sinusoidal:16x8"]) == 1
    assert capsys.readouterr().err.count("\n") == 1
