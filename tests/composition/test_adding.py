"""Whose positions are added, and how large."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import hfposemb as hpe
from hfposemb.composition import added_positions
from hfposemb.composition.added_positions import WHOSE, PositionAddition, add_positions, own_positions
from tests.architectures.tiny import build
from tests.support.made_tables import made


@pytest.mark.parametrize("whose", WHOSE)
def test_positions_have_the_mean_norm_of_the_models_own(whose: str) -> None:
    model = made(scale=3.0)
    found = add_positions(model, PositionAddition(whose))  # type: ignore[arg-type]
    own = np.linalg.norm(model.position.table.vectors[1:-1], axis=1).mean()
    assert np.linalg.norm(found.positions[1:-1], axis=1).mean() == pytest.approx(own, rel=1e-5)
    tokens = np.linalg.norm(model.token.vectors, axis=1).mean()
    assert found.ratio == pytest.approx(tokens / own, rel=1e-5)
    assert np.array_equal(found.tokens, model.token.vectors.astype(np.float32))


def test_positions_keep_their_own_norm_where_asked() -> None:
    sines = add_positions(made(), PositionAddition("sinusoid", scaled=False))
    assert np.allclose(np.linalg.norm(sines.positions, axis=1), 12**0.5)
    assert np.allclose(sines.positions, hpe.sinusoidal(30, 24).position.table.vectors, atol=1e-6)
    random = add_positions(made(), PositionAddition("random", scaled=False, seed=3))
    assert random.positions.std() == pytest.approx(0.02, rel=0.1)
    assert not np.array_equal(
        random.positions, add_positions(made(), PositionAddition("random", scaled=False)).positions
    )


def test_tokens_are_scaled_by_the_root_where_asked_and_the_models_own_scale_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = made()
    plain, rooted = add_positions(model), add_positions(model, PositionAddition(rooted=True))
    assert np.allclose(rooted.tokens, plain.tokens * 24**0.5)
    assert np.allclose(rooted.lengths, np.linalg.norm(rooted.tokens, axis=1))
    assert np.allclose(rooted.words(np.array([3])), rooted.tokens[3])
    monkeypatch.setitem(model.__dict__, "_recipe", replace(model._recipe, scale=5.0))
    assert np.allclose(add_positions(model).tokens, 5 * model.token.vectors)
    assert np.allclose(add_positions(model, PositionAddition(rooted=False)).tokens, model.token.vectors)


def test_words_and_positions_add_up_to_what_a_scaling_model_feeds_its_first_layer(tmp_path: Path) -> None:
    model = build("marian", changes={"d_model": 16, "scale_embedding": True})
    model.save_pretrained(tmp_path)
    fed: list[torch.Tensor] = []

    def keep(layer: torch.nn.Module, given: tuple[torch.Tensor, ...]) -> None:
        fed.append(given[0])

    model.encoder.layers[0].register_forward_pre_hook(keep)
    ids = [5, 9, 33, 12]
    with torch.no_grad():
        model.encoder(input_ids=torch.tensor([ids]))
    found = add_positions(hpe.extract(str(tmp_path)))
    assert found.factor == 4
    assert np.allclose(found.words(np.array(ids)) + found.at(np.arange(4)), fed[0][0].numpy(), atol=1e-6)


def test_a_large_table_is_sampled_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    model = made(rows=1500)
    assert len(add_positions(model).rows) == 1500
    monkeypatch.setattr(added_positions, "MOST_NUMBERS", 24 * 100)
    found = add_positions(model)
    assert (len(found.rows), found.whole) == (1000, 1500)
    assert np.allclose(found.tokens, model.token.vectors[found.rows])
    assert np.array_equal(found.rows, add_positions(model).rows)


def test_rows_without_a_direction_are_left_out() -> None:
    rng = np.random.default_rng(0)
    token, position = rng.standard_normal((60, 8)), rng.standard_normal((12, 8))
    token[4], token[5], position[3], position[6] = np.nan, 0, np.nan, 0
    found = add_positions(hpe.from_arrays(token=token, position=position))
    assert not {4, 5} & set(found.rows.tolist())
    assert not {0, 3, 6, 11} & set(found.inner.tolist())
    for row in (4, 60):
        with pytest.raises(hpe.HfposembError, match="zero or not finite"):
            found.words(np.array([row]))
    with pytest.raises(hpe.HfposembError, match="position 3 has no vector"):
        found.at(np.array([3]))


def test_what_cannot_be_added_says_why() -> None:
    tokens = np.random.default_rng(0).standard_normal((60, 8))
    without = hpe.from_arrays(token=tokens)
    model, wide = made(), made(width=32)
    mixed = hpe.Embeddings("mixed", {"token": model.token, "position": wide.position.table}, wide.positions)
    # Rotary positions have a table too, of angles, which is not added.
    rotary, alibi = (hpe.Embeddings("x", mixed.tables, hpe.extract(f"{x}:32x8").positions) for x in ("rotary", "alibi"))
    for source, said in (
        (without, "has no positions to add to its words"),
        (made(rows=30), "at least 40"),
        (made(positions=3), "inner positions"),
        (hpe.sinusoidal(32, 8), "no token table"),
        (mixed, "width 24 and positions of width 32"),
        (rotary, "rotary positions act within attention"),
        (alibi, "alibi positions act within attention"),
    ):
        with pytest.raises(hpe.HfposembError, match=said):
            add_positions(source)
    with pytest.raises(hpe.HfposembError, match="'own', 'sinusoid', 'random'"):
        PositionAddition("theirs")  # type: ignore[arg-type]
    assert len(add_positions(without, PositionAddition("sinusoid")).positions) == 512
    assert add_positions(without, PositionAddition("random")).ratio == pytest.approx(1.0, abs=1e-3)
    assert add_positions(mixed, PositionAddition("sinusoid")).positions.shape == (30, 24)
    bert = hpe.extract("sample:bert")
    assert own_positions(bert) is bert._recipe.position, "a model says itself what it adds"
