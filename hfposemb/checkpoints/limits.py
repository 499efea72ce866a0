"""Limits on what is read from a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits of what a checkpoint may require; checked before any tensor is read."""

    header_bytes: int = 25_000_000
    tensors: int = 50_000  # per file
    rank: int = 8
    rows: int = 1_000_000
    columns: int = 65_536
    table_bytes: int = 2_000_000_000  # stored bytes per read
    config_bytes: int = 5_000_000
    tokenizer_bytes: int = 40 * 2**20  # per tokenizer file; Gemma's has 33 MB
    seconds: float = 30.0  # per read; the bytes of large files extend it, see deadline.Deadline
    cache_bytes: int = 10_000_000_000
    pickle_memory: int = 32_000_000_000  # upper limit for a child that loads a pickle; it gets twice the file and 1 GB


DEFAULT_LIMITS = Limits()
PUBLIC_LIMITS = Limits(table_bytes=1_000_000_000, cache_bytes=2_000_000_000)
"""Limits for untrusted users, when the app is reachable from the internet."""
