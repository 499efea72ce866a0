"""Limits on what is read from a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """State how much one checkpoint may ask for; everything is decided before a tensor's bytes are touched."""

    header_bytes: int = 25_000_000
    tensors: int = 50_000  # in one file
    rank: int = 8
    rows: int = 1_000_000
    columns: int = 65_536
    table_bytes: int = 2_000_000_000  # stored bytes of one read
    config_bytes: int = 5_000_000
    tokenizer_bytes: int = 40 * 2**20  # one file of a tokenizer; Gemma has 33 MB
    seconds: float = 30.0  # that a read may take; the bytes of large files extend it, see deadline.Deadline
    cache_bytes: int = 10_000_000_000
    pickle_memory: int = 32_000_000_000  # at most, of a child that loads a pickle: twice its file and 1 GB are enough


DEFAULT_LIMITS = Limits()
PUBLIC_LIMITS = Limits(table_bytes=1_000_000_000, cache_bytes=2_000_000_000)
"""What strangers may ask for, where the app stands on the open internet."""
