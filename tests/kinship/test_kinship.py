"""Kinship of token tables, on models whose descent is known because they are trained and changed here."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.linalg import orthogonal_procrustes
from scipy.optimize import linear_sum_assignment
from scipy.stats import norm, ortho_group

import hfposemb as hpe
from hfposemb.comparison.row_fingerprints import token_hashes
from hfposemb.comparison.row_kinship import Kinship, search
from hfposemb.errors import InputError

from .lineages import MADE, WIDTH, Rows, corpus, source, starts, trained

FULL = bool(os.environ.get("HFPOSEMB_FULL"))
INDEPENDENT = 80 if FULL else 36
BASES = 12 if FULL else 3


@pytest.fixture(scope="module")
def independent() -> Rows:
    """Tables [models, words, width] of the same tokenizer and text that share nothing else."""
    return trained(starts(range(INDEPENDENT)), range(INDEPENDENT))


@pytest.fixture(scope="module")
def children(independent: Rows) -> dict[str, Rows]:
    """Tables trained from those of others, or from the same start."""
    import torch

    first = torch.tensor(independent[:BASES])
    seeds = range(500, 500 + BASES)
    return {
        "continued": trained(first, seeds, steps=60, half=1),
        "continued on other data": trained(first, range(700, 700 + BASES), steps=60, half=0),
        "one start": trained(starts(range(BASES)), seeds, steps=40, half=1),
        "one start, long ago": trained(starts(range(BASES)), seeds, half=1),
    }


@pytest.fixture(scope="module")
def unrelated(independent: Rows) -> list[Kinship]:
    opened = [source(rows, name=f"model {place}") for place, rows in enumerate(independent)]
    return [hpe.kinship(*pair) for pair in combinations(opened, 2)]


def each(left: Rows, right: Rows) -> list[Kinship]:
    """Compare the tables of two lists, each with the one at its place; the longer list is cut."""
    return [hpe.kinship(source(a), source(b)) for a, b in zip(left, right, strict=False)]


@pytest.fixture(scope="module")
def made(independent: Rows, children: dict[str, Rows]) -> dict[str, list[Kinship]]:
    found = {
        kind: [
            hpe.kinship(source(rows), make(rows, np.random.default_rng(place)))
            for place, rows in enumerate(independent[:BASES])
        ]
        for kind, (make, _) in MADE.items()
    }
    one, other = (children[kind] for kind in ("continued", "continued on other data"))
    early = trained(starts(range(BASES)), range(900, 900 + BASES), steps=40, half=0)
    return found | {
        "continued": each(independent, one),
        "continued on other data": each(independent, other),
        "averaged": each(independent, (one + other) / 2),
        "one start": each(early, children["one start"]),
        "siblings": each(one, other),
    }


@pytest.mark.parametrize("kind", [*MADE, "continued", "continued on other data", "averaged", "siblings", "one start"])
def test_every_lineage_is_told(made: dict[str, list[Kinship]], kind: str) -> None:
    right = MADE[kind][1] if kind in MADE else ("derived",)
    assert {one.verdict for one in made[kind]} <= set(right)


def test_one_start_is_seen_until_training_has_moved_the_rows_far_from_it(
    independent: Rows, children: dict[str, Rows], made: dict[str, list[Kinship]]
) -> None:
    late = each(independent, children["one start, long ago"])
    cosines = [np.median([one.evidence[1].value for one in several]) for several in (late, made["one start"])]
    assert 0 < cosines[0] < cosines[1]


def test_independent_models_of_one_tokenizer_are_not_kin(unrelated: list[Kinship]) -> None:
    """Their p is uniform, and what they share does not decide: frequency, and half their geometry after a rotation."""
    p = np.array([one.p for one in unrelated], np.float64)
    assert 0.03 <= (p <= 0.05).mean() <= 0.07
    assert (p <= 0.5).mean() == pytest.approx(0.5, abs=0.06)
    assert np.mean([one.kin for one in unrelated]) <= 0.01
    assert {one.verdict for one in unrelated} == {"same tokenizer"}
    turned = [one.evidence[2].value for one in unrelated]
    assert min(turned) > 0.2
    assert max(turned) < 0.8


def test_the_score_tells_kin_from_others(made: dict[str, list[Kinship]], unrelated: list[Kinship]) -> None:
    kin = np.array([one.score for several in made.values() for one in several], np.float64)
    others = np.array([one.score for one in unrelated], np.float64)
    area = (kin[:, None] > others).mean() + (kin[:, None] == others).mean() / 2
    assert area >= 0.99


def shared(rows: Rows, *, scaled: bool = False) -> NDArray[np.float64]:
    """Return the rows that are compared, in their order, centred and of length 1: written anew, in float64.

    With ``scaled`` the columns are of one variance before that.
    """
    some = rows[np.argsort(token_hashes(source(rows).token))[:256]].astype(np.float64)
    some = (some - some.mean(axis=0)) / (some.std(axis=0) if scaled else 1)
    return np.asarray(some / np.sqrt((some**2).sum(axis=1))[:, None])


def test_the_cosine_and_its_null_are_those_of_bases_turned_at_random(independent: Rows) -> None:
    x, y = (shared(rows, scaled=True) for rows in independent[:2])
    found = hpe.kinship(source(independent[0]), source(independent[1]))
    cosine = found.evidence[1]
    assert cosine.value == pytest.approx((x * y).sum(axis=1).mean(), abs=1e-10)
    turned = ortho_group(WIDTH, seed=0).rvs(4000)
    drawn = np.einsum("ij,nij->n", x.T @ y, turned) / len(x)
    assert drawn.mean() == pytest.approx(0, abs=4 * drawn.std() / 60)
    assert found.p == pytest.approx(norm.sf(cosine.value / drawn.std()), abs=0.02)
    assert cosine.limit == pytest.approx(norm.isf(1e-4) * drawn.std(), rel=0.05)


def test_the_rotation_and_the_columns_are_those_of_scipy(independent: Rows) -> None:
    x, y = map(shared, independent[:2])
    rotation = orthogonal_procrustes(x[::2], y[::2])[0]
    turned = x[1::2] @ rotation
    cosines = (turned * y[1::2]).sum(axis=1) / np.linalg.norm(turned, axis=1)
    found = hpe.kinship(source(independent[0]), source(independent[1]))
    assert found.evidence[2].value == pytest.approx(cosines.mean(), abs=1e-10)

    moved = MADE["permuted, with signs and noise"][0](independent[0], np.random.default_rng(1))
    y = shared(moved.token.vectors)
    size = np.abs(np.corrcoef(x[::2].T, y[::2].T)[:WIDTH, WIDTH:])
    rows, columns = linear_sum_assignment(-size)
    signs = np.sign(np.einsum("ij,ij->j", x[::2], y[::2][:, columns]))
    cosines = (x[1::2] * signs * y[1::2][:, columns]).sum(axis=1)
    assert rows.tolist() == list(range(WIDTH))
    assert hpe.kinship(source(independent[0]), moved).evidence[3].value == pytest.approx(cosines.mean(), abs=1e-9)
    of_one = independent[0][:, :1] + 0.1 * independent[1]  # hardly any column is the best of its best
    assert hpe.kinship(source(independent[0]), source(of_one)).evidence[3].value == 0


def _frequency(rows: Rows, rng: np.random.Generator, shared: Rows) -> None:
    """Give three columns what all models know of the tokens, with signs and noise of their own."""
    rows[:, [3, 11, 20]] = 20 * shared[:, :1] * rng.choice([-1, 1], 3) + 2 * rng.normal(size=(len(rows), 3))


def _massive(rows: Rows, rng: np.random.Generator, shared: Rows) -> None:
    """Make three columns of the same few rows massive."""
    rows[np.ix_(np.argsort(shared[:, 0])[:30], [3, 11, 20])] += 20 * rng.choice([-1, 1], 3)


def _scaled(rows: Rows, rng: np.random.Generator, shared: Rows) -> None:
    """Give the columns scales that differ by orders."""
    rows *= np.exp(np.linspace(-2, 2, rows.shape[1]))


def _meaning(rows: Rows, rng: np.random.Generator, shared: Rows) -> None:
    """Let six columns of ordinary scale mean the same in all models, up to their signs."""
    rows[:, :6] = rows[:, :6].std() * (shared[:, :6] * rng.choice([-1, 1], 6) + 0.3 * rng.normal(size=(len(rows), 6)))


@pytest.mark.parametrize("make", [_frequency, _massive, _scaled, _meaning])
def test_what_columns_of_a_family_share_is_no_kinship(
    independent: Rows, make: Callable[[Rows, np.random.Generator, Rows], None]
) -> None:
    rng, tables = np.random.default_rng(0), independent[:18].copy()
    shared = rng.normal(size=tables[0].shape).astype(np.float32)
    for rows in tables:
        make(rows, rng, shared)
    found = [hpe.kinship(*pair) for pair in combinations(map(source, tables), 2)]
    assert not any(one.kin for one in found)
    assert np.mean([one.p <= 0.05 for one in found if one.p is not None]) <= 0.08
    noisy = tables[0] + np.random.default_rng(1).normal(0, 0.5 * tables[0].std(axis=0), tables[0].shape)
    assert hpe.kinship(source(tables[0]), source(noisy)).verdict == "derived"


def test_a_row_of_zeros_is_not_that_of_the_other(independent: Rows) -> None:
    half = independent[0].copy()
    half[::2] = 0
    for pair in ((half, independent[0]), (independent[0], half)):
        found = hpe.kinship(*map(source, pair))
        assert (found.verdict, round(found.evidence[0].value, 1)) == ("derived", 0.5)
        assert any("are zeros" in note for note in found.notes)
    assert hpe.kinship(source(half), source(half.copy())).verdict == "same"


def test_a_few_equal_rows_are_enough(independent: Rows) -> None:
    few = independent[1].copy()
    few[::25] = independent[0][::25]
    found = hpe.kinship(source(independent[0]), source(few))
    assert found.verdict == "derived"
    assert found.evidence[1].value < found.evidence[1].limit, "the cosine alone would not say so"


def test_principal_axes_are_no_kinship(independent: Rows) -> None:
    """Independent models in their principal axes have the same axes up to signs, as model2vec writes them."""

    def turned(rows: Rows) -> Rows:
        centred = rows - rows.mean(axis=0)
        return np.asarray(centred @ np.linalg.svd(centred, full_matrices=False)[2].T, np.float32)

    opened = [source(turned(rows)) for rows in independent[:12]]
    found = [hpe.kinship(*pair) for pair in combinations(opened, 2)]
    assert not any(one.kin for one in found)
    assert all("principal axes" in " ".join(one.notes) for one in found)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda rows, words: (rows[:, :16], words), "32 and 16 numbers"),
        (lambda rows, words: (rows, [f"{word}@" for word in words]), "0 rows of shared tokens"),
        (lambda rows, words: (rows[:15], words[:15]), "15 rows of shared tokens"),
        (lambda rows, words: (rows, [word if at % 3 else f"{word}@" for at, word in enumerate(words)]), ""),
        (
            lambda rows, words: (rows[::-1], [word if at % 3 == 0 else f"{word}@" for at, word in enumerate(words)]),
            "made anew",
        ),
    ],
)
def test_what_is_not_tested_is_never_no(independent: Rows, change: object, reason: str) -> None:
    rows, words = change(independent[0], corpus()[0])  # type: ignore[operator]
    found = hpe.kinship(source(independent[0]), source(rows, words))
    assert found.verdict == ("cannot tell" if reason else "derived")
    assert (found.score is None) == bool(reason)
    assert reason in found.reason


def test_rows_without_tokens_are_compared_by_number_only_with_their_like(independent: Rows) -> None:
    bare = hpe.from_arrays(token=independent[0])
    assert "have no tokens" in hpe.kinship(source(independent[0]), bare).reason
    assert "by number" in hpe.kinship(bare, hpe.from_arrays(token=independent[0][:-1])).reason
    found = hpe.kinship(bare, hpe.from_arrays(token=independent[0].copy()))
    assert (found.verdict, found.notes[1]) == ("same", "rows have no tokens and were matched by number")
    found = hpe.kinship(bare, hpe.from_arrays(token=independent[1]))
    assert (found.verdict, "matched by number: their tokens may be others" in found.reason) == ("cannot tell", True)


def test_two_roundings_of_one_table_are_not_called_equal(independent: Rows) -> None:
    halves = [MADE[kind][0](independent[0], np.random.default_rng(0)) for kind in ("float16", "bfloat16")]
    found = hpe.kinship(*halves)
    assert (found.verdict, found.evidence[0].value < 0.5) == ("derived", True)
    assert "exact in F16 and BF16: rows were compared rounded to the coarser of both" in found.notes


def test_a_rotated_model_that_was_trained_further_is_not_said_to_have_no_origin(
    independent: Rows, tmp_path: Path
) -> None:
    kinds = ("permuted, with signs and noise", "rotated")
    moved = [MADE[kind][0](independent[0], np.random.default_rng(1)).token.vectors for kind in kinds]
    hpe.fingerprint(source(independent[0])).save(tmp_path / "a.kinship.safetensors")
    for rows in trained(torch.tensor(np.stack(moved)), [90, 91], steps=60):
        (found,), _ = search(source(rows), tmp_path)
        assert (found.verdict, found.score) == ("cannot tell", None)
        assert "below the .980 that decides, but above the .700 under which" in found.reason


def test_few_directions_prove_nothing() -> None:
    """Rows on one line are kin to any others on one line as often as not."""
    line = np.outer(np.arange(600.0), [1, 2, 3, 4])
    assert hpe.kinship(source(line), source(line[:, ::-1] * [1, -1, 1, -1])).verdict in ("cannot tell", "rotated")
    assert hpe.kinship(source(line[:, :3]), source(line[:, :3])).verdict == "cannot tell"


def test_rows_that_do_not_differ_or_are_not_finite_prove_nothing(independent: Rows) -> None:
    one = np.tile(np.arange(WIDTH, dtype=np.float32), (600, 1))
    found = hpe.kinship(source(one), source(independent[0]))
    assert (found.verdict, found.score, found.to_dict()["score"]) == ("cannot tell", None, None)
    assert hpe.kinship(source(one * np.nan), source(independent[0])).reason.startswith("0 rows")
    holes = independent[0].copy()
    holes[::2, 3] = np.nan
    assert hpe.kinship(source(holes), source(independent[0])).verdict == "same"


def test_one_model_is_no_pair() -> None:
    from hfposemb.comparison.row_kinship import all_pairs

    with pytest.raises(InputError, match="two models or more; got 1"):
        all_pairs(["sample:gpt2"])


def _positive(rows: Rows, rng: np.random.Generator, lengths: Rows) -> Rows:
    """Make all numbers of a table positive, and its rows as long as frequency has them in every model."""
    return np.asarray(np.abs(rng.normal(size=rows.shape)) * lengths, np.float32)


def test_positive_numbers_and_lengths_that_all_models_share_are_no_kinship(independent: Rows) -> None:
    """All of their numbers grow together with the length, along one direction that no training has chosen."""
    rng, words = np.random.default_rng(0), len(independent[0])
    lengths = (1 + rng.permutation(words)[:, None]) ** -0.5
    tables = [_positive(independent[0], rng, lengths) for _ in range(12)]
    found = [hpe.kinship(*pair) for pair in combinations(map(source, tables), 2)]
    assert not any(one.kin for one in found)
    assert np.mean([one.p <= 0.05 for one in found if one.p is not None]) <= 0.15
    noisy = tables[0] * (1 + 0.3 * rng.normal(size=tables[0].shape))
    assert hpe.kinship(source(tables[0]), source(noisy)).verdict == "derived"


def test_equal_rows_of_few_possible_ones_are_no_kinship() -> None:
    rng = np.random.default_rng(0)
    tables = [np.eye(16, dtype=np.float32)[rng.integers(16, size=600)] for _ in range(6)]
    found = [hpe.kinship(*pair) for pair in combinations(map(source, tables), 2)]
    assert not any(one.kin for one in found)
    assert hpe.kinship(source(tables[0]), source(tables[0].copy())).verdict == "same"


def test_no_p_is_zero() -> None:
    rows = np.random.default_rng(0).standard_normal((600, 768)).astype(np.float32)
    found = hpe.kinship(source(rows), source(rows.copy()))
    assert found.p is not None
    assert 0 < found.p < 1e-300
