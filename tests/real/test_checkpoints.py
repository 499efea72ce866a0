"""The checkpoint made here is what it is made for: a real shape and layout, and values with structure."""

from __future__ import annotations

import numpy as np

import hfposemb as hpe


def test_the_checkpoint_has_its_size_and_every_row_a_name(real: dict[str, str]) -> None:
    found = hpe.extract(real["gpt2"])
    assert found.token.shape == (50_257, 768)
    assert found.token.provenance.stored_dtype == "F16"
    pieces = found.token.labels.pieces
    assert len(set(pieces)) == len(pieces) == 50_257


def test_words_have_neighbours_and_positions_an_order(real: dict[str, str]) -> None:
    found = hpe.extract(real["gpt2"])
    assert {" king", " King"} & set(hpe.neighbours(found.token, "king", k=5).labels)
    table = found.position.table
    assert table is not None
    assert table.shape == (1_024, 768)
    rows = table.vectors / np.linalg.norm(table.vectors, axis=1, keepdims=True)
    near, far = (np.mean(np.sum(rows[1:-step] * rows[1 + step :], axis=1)[:-1]) for step in (1, 180))
    assert near > 0.98
    assert far < 0.7
