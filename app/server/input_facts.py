"""What each piece of a text adds to the input of the first layer, in numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hfposemb.analysis.rows import directed
from hfposemb.composition.added_positions import PositionAddition, add_positions
from hfposemb.composition.amplitude_sweep import retention_in_place

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hfposemb.tables.embeddings import Embeddings
    from hfposemb.tables.inputs import Inputs

NEIGHBOURS = 10
"""Number of nearest neighbours of a piece, of which the share that it keeps is measured."""


def input_facts(model: Embeddings, text: str, *, neighbours: bool = False) -> dict[str, Any]:
    """Return which vectors a model adds for a text, and for each piece its id, position, norms and cosine.

    Args:
        model: The model.
        text: A text, which its tokenizer splits.
        neighbours: Also return the share of its ten nearest neighbours that each piece keeps when its position is
            added, which reads the whole token table.

    Raises:
        MissingTableError: If the first layer's input of the model cannot be computed.
        InputError: For an empty text, and for texts longer than the position table.

    Examples:
        >>> import hfposemb as hpe
        >>> found = input_facts(hpe.extract("sample:minilm"), "king")
        >>> found["added"], found["normalised"], [one["piece"] for one in found["pieces"]]
        (['token', 'token_type', 'position'], True, ['[CLS]', 'king', '[SEP]'])
    """
    inputs = model.inputs(text)
    parts = {"token": inputs.token, "token_type": inputs.type, "position": inputs.position}
    added = [name for name, part in parts.items() if part.any()]
    changed = inputs.normed.shape != inputs.sum.shape or not np.array_equal(inputs.normed, inputs.sum)
    pieces = _pieces(inputs)
    if neighbours and "position" in added:
        for piece, kept in zip(pieces, _kept(model, inputs), strict=True):
            piece["neighbours_kept"] = kept
    return {"text": text, "added": added, "normalised": changed, "pieces": pieces}


def _pieces(inputs: Inputs) -> list[dict[str, Any]]:
    """Return id, position, norms and cosine of each piece."""
    lengths = {
        f"{name}_norm": np.linalg.norm(part.astype(np.float64), axis=1).tolist()
        for name, part in (
            ("token", inputs.token),
            ("position", inputs.position),
            ("sum", inputs.sum),
            ("entering", inputs.normed),
        )
    }
    products = np.einsum("ij,ij->i", inputs.token.astype(np.float64), inputs.sum.astype(np.float64)).tolist()
    found = []
    for place, piece in enumerate(inputs.pieces):
        norms = {name: values[place] for name, values in lengths.items()}
        scale = norms["token_norm"] * norms["sum_norm"]
        cosine = products[place] / scale if scale else None
        where = {"piece": piece, "id": int(inputs.ids[place]), "position": int(inputs.positions[place])}
        found.append({**where, **norms, "cosine_with_token": cosine})
    return found


def _kept(model: Embeddings, inputs: Inputs) -> list[float | None]:
    """Return the share of neighbours that each piece keeps, ``None`` where a vector has no direction."""
    words = add_positions(model, PositionAddition("own"))
    known, count = directed(model.token), len(words.usable)
    places: NDArray[np.int64] = np.array(
        [
            place
            for place, (token, position) in enumerate(zip(inputs.ids, inputs.positions, strict=True))
            if known[token] and 0 <= position < count and words.usable[position]
        ],
        np.int64,
    )
    kept: list[float | None] = [None] * len(inputs.ids)
    if len(places):
        rows, where = inputs.ids[places], inputs.positions[places]
        (shares,) = retention_in_place(words, rows, where, amplitudes=(1.0,), k=NEIGHBOURS).tolist()
        for place, share in zip(places.tolist(), shares, strict=True):
            kept[place] = share
    return kept
