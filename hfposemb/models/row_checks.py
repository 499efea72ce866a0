"""Notes about configurations and files that disagree on the number of rows; the file takes precedence."""

from __future__ import annotations

from .architectures.config_values import name_of, whole_number
from .opened_model import Opened, padded_rows, unnamed

_LENGTHS = ("max_position_embeddings", "n_positions")
_TEXT = ("", "text", "encoder", "decoder")


def of_tokens(opened: Opened, tensor: str) -> tuple[str, ...]:
    """Return notes about the rows of the token table; empty if configuration and file agree."""
    tokens, rows = whole_number(opened.part("text"), "vocab_size", low=1), _rows(opened, tensor)
    # A table may hold several vocabularies, as for the codebooks of audio models.
    if tokens is None or rows is None or rows % tokens == 0 or rows in opened.vocabularies:
        return ()
    said = f"{name_of(opened.config)} states {tokens:,} tokens, but {tensor} has {rows:,} rows"
    if not padded_rows(rows, tokens):
        return (f"{said}; all rows are used",)
    if not opened.without_tokens():
        return ()
    return (f"{said}; the surplus rows are treated as padding, as there is no tokenizer",)


def of_labels(opened: Opened) -> tuple[str, ...]:
    """Return a note that rows of the token table have no names but their numbers, if that is known."""
    return (unnamed(opened),) if opened.without_tokens() else ()


def of_positions(opened: Opened, tower: str, tensor: str, *, offset: int) -> tuple[str, ...]:
    """Return notes about the rows of a text's position table, of which the first ``offset`` are not positions."""
    config, rows = opened.part(tower or "text"), _rows(opened, tensor)
    stated = (whole_number(config, name, low=1) for name in _LENGTHS)
    length = next((number for number in stated if number is not None), None)
    # Without a vocabulary the positions are patches, whose number depends on the image size.
    if tower not in _TEXT or not opened.vocabularies or length is None:
        return ()
    if rows is None or rows in (length, length + offset):
        return ()
    first = f" from row {offset} on" if offset else ""
    said = f"{name_of(opened.config)} states {length:,} positions, but {tensor} has {rows:,} rows"
    return (f"{said}; all rows{first} are used",)


def _rows(opened: Opened, tensor: str) -> int | None:
    """Return the rows of a two-dimensional table in a file; ``None`` for others, such as tables of live models."""
    shape = opened.tensors.info(tensor).shape
    return shape[0] if len(shape) == 2 and opened.tensors.file_bytes(tensor) is not None else None
