"""Rows for the tokens of another model: the sums, the quality of each method, and tokens that would break the base."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import hfposemb as hpe
from hfposemb.analysis.matching_pursuit import matching_pursuit
from hfposemb.cli.main import main
from hfposemb.comparison.transplants import token_keys
from hfposemb.errors import InputError

Floats = NDArray[np.float64]

PAIRS = (("sample:minilm", "sample:gpt2"), ("sample:bert", "sample:gpt2"))


def rows_of(target: Floats, atoms: Floats, k: int) -> tuple[list[int], Floats]:
    """Find a sparse sum as mergekit's tokensurgeon does, in float64: all weights are fitted anew at every step."""
    chosen: list[int] = []
    left, weights = target, np.empty(0)
    for _ in range(k):
        near = np.abs(atoms @ left)
        near[chosen] = -np.inf
        chosen.append(int(near.argmax()))
        weights = np.linalg.lstsq(atoms[chosen].T, target, rcond=None)[0]
        left = target - weights @ atoms[chosen]
    return chosen, weights


@pytest.mark.parametrize("signed", [False, True])
def test_sums_are_those_of_a_plain_loop(signed: bool) -> None:
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((600, 96)) + 2 * rng.standard_normal(96)
    targets = rng.standard_normal((20, 96)) + atoms[:20]
    single = atoms.astype(np.float32)
    found = matching_pursuit(
        targets, 40, lambda left: left.astype(np.float32) @ single.T, lambda rows: atoms[rows], signed=signed
    )
    if signed:  # the first atom is then the one of the largest product, not of the largest in either direction
        assert np.array_equal(found.rows[:, 0], (targets @ atoms.T).argmax(axis=1))
        return
    for target, rows, weights, explained in zip(targets, found.rows, found.weights, found.explained, strict=True):
        chosen, fitted = rows_of(target, atoms, 40)
        assert rows.tolist() == chosen
        assert weights == pytest.approx(fitted, abs=1e-6)
        assert explained[-1] == pytest.approx(1 - np.square(target - fitted @ atoms[chosen]).sum() / (target @ target))


def words(count: int, first: str = "w") -> list[str]:
    return [f"{first}{at:05}" for at in range(count)]


def related(seed: int, shared: int = 1500, alone: int = 1000) -> tuple[hpe.Embeddings, hpe.Embeddings]:
    """Make two models whose rows show the same meanings, of 24 dimensions, through maps and noise of their own."""
    rng = np.random.default_rng(seed)
    meanings = rng.standard_normal((shared + alone, 24))
    tables = [
        meanings @ rng.standard_normal((24, width)) / 5 + 0.5 * rng.standard_normal((len(meanings), width))
        for width in (96, 128)
    ]
    base = hpe.from_arrays(token=tables[0][:shared], labels=words(shared), name="base")
    return base, hpe.from_arrays(token=tables[1], labels=words(shared) + words(alone, "v"), name="donor")


def test_rows_that_tokensurgeon_would_make() -> None:
    (base, donor), told = related(0), list[float]()
    found = hpe.transplant(base, donor, tokens=["v00003", "v00007"], progress=lambda share, _: told.append(share))
    assert told == sorted(set(told)), "each share that is told is more than the one before"
    ours, theirs = (np.asarray(one.token.vectors[:1500], np.float64) for one in (base, donor))
    for row, made in zip(found.rows, found.vectors, strict=True):
        chosen, weights = rows_of(np.asarray(donor.token.vectors[row], np.float64), theirs, 64)
        assert made == pytest.approx(weights @ ours[chosen], abs=1e-4)


def test_counts_and_means_are_those_of_the_rows() -> None:
    base, donor = related(2, shared=101, alone=70)
    rows = np.array(base.token.vectors)
    rows[5] = 0  # has no direction, so it is not shared
    found = hpe.transplant(hpe.from_arrays(token=rows, labels=words(101)), donor, "mean", k=8)
    assert (found.shared, found.hidden, found.alone) == (100, 25, 70)
    mean = rows.mean(axis=0)
    assert found.vectors == pytest.approx(np.tile(mean, (70, 1)), abs=1e-6)
    assert found.to_frame()["norm"].tolist() == pytest.approx([np.linalg.norm(mean)] * 70)
    with pytest.raises(InputError, match="share 79 tokens; at least 80"):
        hpe.transplant(*related(2, shared=79), k=8)


def test_the_unit_of_a_table_changes_nothing() -> None:
    """In float32 the square of 1e30 is infinite, that of 1e-30 zero."""

    def scaled(model: hpe.Embeddings, unit: float) -> hpe.Embeddings:
        rows = model.token.vectors * np.float32(unit)
        return hpe.from_arrays(token=rows, labels=model.token.labels.texts, name=model.name)

    base, donor = related(0)
    plain = hpe.transplant(base, donor, tokens=20)
    for ours, theirs in ((1e30, 1e-30), (1e-30, 1e30)):
        found = hpe.transplant(scaled(base, ours), scaled(donor, theirs), tokens=20)
        assert found.vectors / ours == pytest.approx(plain.vectors, rel=1e-3, abs=1e-4)
        assert [one.kept.observed for one in found.quality] == pytest.approx(
            [one.kept.observed for one in plain.quality], abs=0.01
        )
        assert found.salience == pytest.approx(plain.salience, rel=1e-3)


def test_a_head_of_its_own_needs_rows_that_are_made_just_so() -> None:
    tied, donor = related(0)
    given = np.random.default_rng(1).standard_normal(tied.token.shape)
    base = hpe.from_arrays(token=tied.token.vectors, head=given, labels=words(1500), name="base")
    found = hpe.transplant(base, donor, tokens=5)
    assert found.notes[0].startswith("the output head of base is not tied and needs rows, too")
    assert (found.to_dict()["notes"], str(found).count("\nnote: ")) == ([*found.notes], 1)
    assert np.array_equal(found.vectors, hpe.transplant(tied, donor, tokens=5).vectors)
    assert not hpe.transplant(tied, donor, tokens=5).notes
    assert not hpe.transplant("sample:bert", "sample:gpt2", k=16, tokens=5).notes
    of_head = hpe.transplant(base.head, donor.token, tokens=5)
    alone = hpe.transplant(hpe.from_arrays(token=given, labels=words(1500)), donor, tokens=5)
    assert np.array_equal(of_head.vectors, alone.vectors)
    assert not of_head.notes


def test_the_method_that_fits_is_the_best() -> None:
    quality = {one.method: one for one in hpe.transplant(*related(1), tokens=0).quality}
    assert quality["omp"].cosine.observed > 0.5 > quality["omp"].cosine.mean + 0.4
    assert quality["omp"].kept.observed > 0.2
    assert quality["mean"].cosine.observed == pytest.approx(quality["mean"].cosine.mean, abs=0.02)
    rng = np.random.default_rng(0)
    letters = rng.standard_normal((26, 48))
    spelled = ["".join(one) for one in rng.choice(list("abcdefghijklmnopqrstuvwxyz"), (700, 3))]
    texts = list("abcdefghijklmnopqrstuvwxyz") + list(dict.fromkeys(spelled))
    sums = np.array([np.mean([letters[ord(one) - 97] for one in text], axis=0) for text in texts])
    base = hpe.from_arrays(token=sums, labels=texts, name="spelled")
    other = hpe.from_arrays(token=rng.standard_normal((len(texts) + 1, 48)), labels=[*texts, "yz"])
    found = hpe.transplant(base, other, "subword")
    assert found.best.method == "subword"
    assert found.best.cosine.observed > 0.9
    assert found.vectors[0] == pytest.approx(letters[[24, 25]].mean(axis=0), abs=1e-6)


def attack(base: Floats, donor: Floats, rng: np.random.Generator) -> Floats:
    """Return a row of the donor as long as its others, whose sparse sum is long in the base (Liu et al. 2026).

    Its weights cancel in the donor and add up in the base: those that grow most, of 24 similar rows.
    """
    near = np.argsort(-(donor @ donor[rng.integers(len(donor))]) / np.linalg.norm(donor, axis=1))[:200]
    some = rng.choice(near, 24, replace=False)
    inner = donor[some] @ donor[some].T
    root = np.linalg.inv(np.linalg.cholesky(inner + 1e-3 * np.trace(inner) / 24 * np.eye(24)))
    row = root.T @ np.linalg.eigh(root @ base[some] @ base[some].T @ root.T)[1][:, -1] @ donor[some]
    return np.asarray(row * np.median(np.linalg.norm(donor, axis=1)) / np.linalg.norm(row))


def attacks(base: Floats, donor: Floats) -> Floats:
    """Return ten attacks that succeed: their rows in the base are twice as long as the median row, or longer."""
    rng = np.random.default_rng(0)
    tried = np.array([attack(base, donor, rng) for _ in range(30)])
    found = matching_pursuit(tried, 64, lambda left: left @ donor.T, lambda rows: donor[rows])
    made = np.array([weights @ base[rows] for rows, weights in zip(found.rows, found.weights, strict=True)])
    return tried[np.linalg.norm(made, axis=1) > 2 * np.median(np.linalg.norm(base, axis=1))][:10]


@pytest.mark.parametrize("names", PAIRS, ids=lambda names: " ".join(names))
def test_planted_breakers_are_found_and_ordinary_tokens_are_not(names: tuple[str, str]) -> None:
    base, donor = map(hpe.extract, names)
    plain = hpe.transplant(base, donor, tokens=1000)
    assert len(plain.breakers) <= 1
    keys = token_keys(base.token), token_keys(donor.token)
    both = sorted(set(keys[0]) & set(keys[1]))
    ours, theirs = (
        np.asarray(one.token.vectors[[rows[text] for text in both]], np.float64)
        for one, rows in zip((base, donor), keys, strict=True)
    )
    usable = theirs.any(axis=1) & ours.any(axis=1)
    rows = attacks(ours[usable], theirs[usable])
    names = [f" breaker{at}" for at in range(10)]
    every = np.concatenate([donor.token.vectors, rows])
    attacked = hpe.from_arrays(token=every, labels=[*donor.token.labels.texts, *names], name="attacked")
    found = hpe.transplant(base, attacked, tokens=names)
    assert len(found.breakers) == len(rows) == 10
    assert f"{names[found.breakers[0]]!r}: " in str(found)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "magic"}, "omp"),
        ({"k": 0}, "of at least 1; got 0"),
        ({"k": True}, "k of transplant.. must be a whole number; got True"),
        ({"seed": -1}, "seed of transplant.. must be 0 or more; got -1"),
        ({"tokens": True}, "tokens of transplant.. must be a whole number, texts or None; got True"),
        ({"method": {"omp"}}, "method must be"),
        ({"k": 1490}, "share 1,500 tokens; at least 1,510"),
        ({"tokens": ["w00003"]}, "'w00003' is a token that both base and donor have"),
        ({"tokens": ["nothing"]}, "no row named 'nothing'"),
        ({"tokens": -1}, "a number from 0 on"),
    ],
)
def test_what_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        hpe.transplant(*related(0), **change)
    with pytest.raises(InputError, match="only numbers of rows"):
        hpe.transplant(hpe.from_arrays(token=np.eye(300)), related(0)[1])


def test_the_command_saves_rows_and_replaces_nothing_unasked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = ["transplant", "sample:bert", "sample:gpt2", "--tokens", "7", "-k", "16", "--save", "made.safetensors"]
    assert main([*asked, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["made"], said["saved"], said["hidden"]) == (7, "made.safetensors", 256)
    saved = hpe.extract(tmp_path / "made.safetensors").token
    expected = hpe.transplant("sample:bert", "sample:gpt2", k=16, tokens=7)
    assert tuple(saved.labels.texts) == expected.labels
    assert np.array_equal(saved.vectors, expected.vectors)
    before = (tmp_path / "made.safetensors").read_bytes()
    for again, message in (
        (asked, "made.safetensors exists; add --force to replace it"),
        ([*asked[:-1], "made.txt"], "made.txt must end in"),
        ([*asked[:-1], "nowhere/made.npz"], "its folder does not exist"),
        (["transplant", "sample:bert", "sample:bert", "--save", "x.npz"], "no rows to save"),
    ):
        assert main(again) == 1
        assert message in capsys.readouterr().err
    assert [one.name for one in tmp_path.iterdir()] == ["made.safetensors"]
    assert (tmp_path / "made.safetensors").read_bytes() == before
    assert main([*asked[:4], "5", *asked[5:], "--method", "mean", "--force"]) == 0
    assert len(hpe.extract(tmp_path / "made.safetensors").token.labels.texts) == 5
