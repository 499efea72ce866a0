"""Notes about configurations and files that disagree on the shape of a table; the file takes precedence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .architectures.config_values import first_whole, name_of, part_config, whole_number
from .opened_model import Opened, is_unnamed, padded_rows, unnamed

_LENGTHS = ("max_position_embeddings", "n_positions")
_TEXT = ("", "text", "encoder", "decoder")
_WIDTHS = ("hidden_size", "d_model", "n_embd", "dim", "embedding_size", "word_embed_proj_dim", "emb_dim", "embed_dim")


def of_tokens(opened: Opened, tensor: str) -> tuple[str, ...]:
    """Return notes about the token table: its rows, its width, and that its rows have no names but their numbers."""
    unlabelled = (unnamed(opened),) if is_unnamed(opened) else ()
    return (*_number_of_tokens(opened, tensor), *_width(opened, tensor), *unlabelled)


def of_shard(name: str) -> tuple[str, ...]:
    """Return a note about a source that is one file of several, which an index names."""
    part = re.search(r"-(\d{5})-of-(\d{5})\.(?:safetensors|bin)(?=[@?]|$)", name)
    if part is None or int(part[2]) < 2:
        return ()
    return (f"this is file {int(part[1])} of {int(part[2])}; tables in the others are not read, open their folder",)


def _number_of_tokens(opened: Opened, tensor: str) -> tuple[str, ...]:
    tokens, rows = whole_number(opened.part("text"), "vocab_size", low=1), _rows(opened, tensor)
    # A table may hold several vocabularies, as for the codebooks of audio models.
    if tokens is None or rows is None or rows % tokens == 0 or rows in opened.vocabularies:
        return ()
    said = f"{name_of(opened.config)} states {tokens:,} tokens, but {tensor} has {rows:,} rows"
    if not padded_rows(rows, tokens):
        part = f"; it may be one of {tokens // rows} parts of the table" if tokens % rows == 0 else ""
        return (f"{said}; all rows are used{part}",)
    if not is_unnamed(opened):
        return ()
    return (f"{said}; the surplus rows are treated as padding, as there is no tokenizer",)


def _width(opened: Opened, tensor: str, tower: str = "text") -> tuple[str, ...]:
    if _rows(opened, tensor) is None:
        return ()
    said, _ = other_width(opened.config, tensor, opened.tensors.info(tensor).shape[-1], tower=tower)
    return (said,) if said else ()


def other_width(
    config: Mapping[str, Any], tensor: str | None, width: int, *, tower: str = "text"
) -> tuple[str, dict[str, Any]]:
    """Return a note that the configuration states other widths, and these; empty if it states this one, or none."""
    part = part_config(config, tower)
    numbers = {name: whole_number(part, name, low=1) for name in _WIDTHS}
    stated = {name: number for name, number in numbers.items() if number is not None}
    if not stated or width in [value for name, value in part.items() if "vocab" not in name]:
        return "", {}
    listed = ", ".join(f"{name} {number:,}" for name, number in stated.items())
    return f"{name_of(config)} states {listed}, but the vectors of {tensor} have {width:,} numbers", stated


def of_positions(opened: Opened, tower: str, tensor: str, *, offset: int) -> tuple[str, ...]:
    """Return notes about the rows of a text's position table, of which the first ``offset`` are not positions."""
    config, rows = opened.part(tower or "text"), _rows(opened, tensor)
    length = first_whole(config, _LENGTHS)
    # Without a vocabulary the positions are patches, whose number depends on the image size.
    if tower not in _TEXT or not opened.vocabularies or length is None:
        return ()
    narrow = _width(opened, tensor, tower or "text")
    if rows is None or rows in (length, length + offset):
        return narrow
    first = f" from row {offset} on" if offset else ""
    said = f"{name_of(opened.config)} states {length:,} positions, but {tensor} has {rows:,} rows"
    return (f"{said}; all rows{first} are used", *narrow)


def _rows(opened: Opened, tensor: str) -> int | None:
    """Return the rows of a two-dimensional table in a file; ``None`` for others, such as tables of live models."""
    shape = opened.tensors.info(tensor).shape
    return shape[0] if len(shape) == 2 and opened.tensors.file_bytes(tensor) is not None else None
