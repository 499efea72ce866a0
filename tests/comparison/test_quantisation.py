"""What quantisation does to a token table: figures with known truth, their nulls, and the tokens that are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import hfposemb as hpe
from hfposemb.cli.main import main
from hfposemb.comparison.quantisation import QuantisationDamage, quantised_forms, quantised_pair
from hfposemb.errors import InputError
from tests.support.checkpoints.quantised import TOKENS, affine, forms, of_codes, saved

ROWS, WIDTH = 300, 64
NAMES = ["relative error", "cosine", "neighbours kept", "neighbours' rank"]


def vectors(seed: int, spread: float = 0.0) -> NDArray[np.float32]:
    """Return rows around ten centres, whose lengths differ by ``spread``."""
    rng = np.random.default_rng(seed)
    found = rng.standard_normal((10, WIDTH)).repeat(ROWS // 10, axis=0) + rng.standard_normal((ROWS, WIDTH))
    return (found * np.exp(spread * rng.standard_normal((ROWS, 1)))).astype(np.float32)


def damage(x: NDArray[np.float32], y: NDArray[np.float32], **options: Any) -> QuantisationDamage:
    return hpe.compare_quantised(hpe.from_arrays(token=x), hpe.from_arrays(token=y), **options)


def test_figures_are_those_of_their_definitions() -> None:
    x = vectors(0)
    y = x + 0.3 * np.random.default_rng(1).standard_normal(x.shape).astype(np.float32)
    found = damage(x, y, count=4, k=5)
    wide, other = x.astype(float), y.astype(float)
    errors = np.linalg.norm(other - wide, axis=1) / np.linalg.norm(wide, axis=1)
    np.testing.assert_allclose(found.errors, errors, rtol=1e-6)
    unit = [rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9) for rows in (wide, other)]
    cosines = [one @ one.T - 3 * np.eye(ROWS) for one in unit]
    np.testing.assert_allclose(found.cosines, (unit[0] * unit[1]).sum(axis=1), atol=1e-6)
    near = [np.argsort(-one, axis=1) for one in cosines]
    kept, ranks = [], []
    for row in range(ROWS):
        kept.append(len(set(near[0][row, :5]) & set(near[1][row, :5])) / 5)
        place = {other: at for at, other in enumerate(near[1][row])}
        ranks.append(np.mean([place[other] for other in near[0][row, :5]]) - 2)
    assert found.measures["relative error"].observed == pytest.approx(errors.mean())
    assert found.measures["neighbours kept"].observed == pytest.approx(np.mean(kept))
    assert found.measures["neighbours' rank"].observed == pytest.approx(np.mean(ranks))
    assert list(found.measures) == NAMES
    assert [move.label for move in found.worst] == [str(row) for row in np.argsort(-errors, kind="stable")[:4]]


def test_without_a_tokenizer_on_one_side_rows_go_by_number_and_one_that_became_zero_is_the_worst() -> None:
    x = vectors(0)
    named = hpe.from_arrays(token=x.astype(np.float16), labels=[str(ROWS - 1 - row) for row in range(ROWS)])
    assert hpe.compare_quantised(hpe.from_arrays(token=x), named).measures["relative error"].observed < 1e-3
    y = np.round(x, 1)
    y[7], y[9] = 0, np.inf
    found = damage(x, y, count=1)
    assert (found.errors[7], found.cosines[7]) == (1, 0)
    assert found.worst[0].label == "7"
    assert found.notes[0] == "1 rows that are not finite are left out"


@pytest.mark.parametrize("tails", [3, 1e9])
def test_evenly_spread_errors_are_beyond_chance_as_rarely_as_the_level_says(tails: float) -> None:
    """However large the largest of them are."""
    beyond = dict.fromkeys(NAMES, 0)
    for seed in range(40):
        x = vectors(seed, spread=0.3)[::3]
        y = x + 0.2 * np.random.default_rng(1000 + seed).standard_t(tails, x.shape).astype(np.float32)
        for name, null in damage(x, y, count=1, draws=39, seed=seed).measures.items():
            beyond[name] += null.beyond
    assert max(beyond.values()) <= 6, beyond  # binomial, 40 trials of .05: more than 6 has p = .003


def test_equal_rows_are_no_nearer_than_all_are() -> None:
    """Each of all rows is kept, at its rank, whatever the errors are."""
    x = vectors(0)[:40]
    x[20:] = x[0]
    found = damage(x, np.round(x, 1), count=1, k=1000, draws=39).measures
    assert [(found[name].observed, found[name].p) for name in NAMES[2:]] == [(1, 1), (0, 1)]


def test_errors_that_follow_the_vectors_are_told_from_evenly_spread_ones() -> None:
    x = vectors(0, spread=1.0)
    steps = np.abs(x).max(axis=1, keepdims=True) / 7
    found = damage(x, np.round(x / steps) * steps, count=3)
    error = found.measures["relative error"]
    assert error.beyond
    assert error.observed < error.low
    assert found.measures["neighbours kept"].observed > found.measures["neighbours kept"].high
    half = damage(x, x.astype(np.float16).astype(np.float32), count=3).measures
    assert half["cosine"].beyond, "though all cosines are 1 to five digits"
    assert half["relative error"].beyond


def test_fewer_bits_damage_more() -> None:
    x = np.repeat(vectors(0), 2, axis=1)
    found = [damage(x, of_codes(affine(x, bits=bits), bits=bits).numpy(), count=1) for bits in (2, 4, 8)]
    for name, sign in zip(NAMES, (1, -1, -1, 1), strict=True):
        values = [sign * one.measures[name].observed for one in found]
        assert values == sorted(values, reverse=True), name


def test_results_are_plain_values_text_and_frames() -> None:
    x = vectors(0)
    found = damage(x, x + np.float32(0.01), count=2)
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["tokens"] == ROWS
    assert list(plain["measures"]) == NAMES
    assert len(plain["worst"]) == 2
    assert list(found.to_frame().columns) == ["label", "relative error", "cosine"]
    assert len(found.to_frame()) == ROWS
    assert "random errors" in str(found)


def test_what_is_not_a_quantised_model_is_refused() -> None:
    x = vectors(0)
    with pytest.raises(InputError, match="are equal; nothing was quantised"):
        damage(x, x.copy())
    with pytest.raises(InputError, match="the token tables are 64 and 32 wide"):
        damage(x, x[:, :32])
    with pytest.raises(InputError, match="share 10 tokens; at least 20"):
        damage(x[:10], x[:10] + 1)
    with pytest.raises(InputError, match="draws at least 19; got 20, 10 and 5"):
        damage(x, x + 1, draws=5)


def test_compare_prints_the_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain, coded = forms(tmp_path, x := np.repeat(vectors(0), 2, axis=1))
    opened = [hpe.extract(folder) for folder in (coded, plain)]
    pair = quantised_pair(opened)
    assert pair[0] is opened[1], "the original comes first"
    assert quantised_pair([opened[0], opened[0]]) is None
    assert quantised_pair([opened[1], hpe.from_arrays(token=x)]) is None
    other = saved(tmp_path / "other", {TOKENS: torch.from_numpy(x[:200])})
    assert quantised_pair([opened[0], hpe.extract(other)]) is None
    assert main(["compare", str(plain), str(coded), "--draws", "0", "--words", ""]) == 0
    said = capsys.readouterr().out
    assert "quantisation of " in said
    assert "F32 against 4 bits, groups of 64 (MLX), 300 tokens" in said
    assert main(["compare", str(coded), str(plain), "--draws", "0", "--words", "", "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["quantisation"]
    exact = hpe.compare_quantised(*pair, count=len(one["worst"]))
    assert one == json.loads(json.dumps(exact.to_dict()))
    out = tmp_path / "report.html"
    assert main(["compare", str(coded), str(plain), "--draws", "0", "--words", "", "--out", str(out)]) == 0
    page = out.read_text(encoding="utf-8")
    assert "<h2>Quantisation</h2>" in page
    assert page.count("Largest errors") >= 1


def test_equal_tables_of_other_precision_are_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = torch.from_numpy(vectors(0)).bfloat16()
    folders = [saved(tmp_path / name, {TOKENS: one}) for name, one in (("half", x), ("single", x.float()))]
    opened = [hpe.extract(folder) for folder in folders]
    assert quantised_pair(opened) is not None
    assert quantised_forms(opened) == ()
    assert main(["compare", *map(str, folders), "--draws", "0", "--words", ""]) == 0
    assert "quantisation" not in capsys.readouterr().out
    assert main(["compare", *map(str, folders), "--draws", "0", "--words", "", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["quantisation"] == []


def test_every_two_of_several_sources_are_taken(tmp_path: Path) -> None:
    plain, coded = forms(tmp_path, x := np.repeat(vectors(0), 2, axis=1))
    half = saved(tmp_path / "half", {TOKENS: torch.from_numpy(x).half()})
    opened = [hpe.extract(one) for one in (coded, half, plain)]
    found = [(one.original, one.quantised) for one in quantised_forms([*opened, hpe.sinusoidal(64, 16)])]
    assert found == [(str(half), str(coded)), (str(plain), str(coded)), (str(plain), str(half))]
