"""Credentials and limits of Hub reads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from .limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from ..cache import Cache
    from ..transfers import Traffic

LikelyTables: TypeAlias = Callable[[Sequence[str]], Collection[str]]
"""Selects the tensor names that are probably embedding tables."""


def no_tables(names: Sequence[str]) -> Collection[str]:
    """Select no tensor name."""
    return ()


@dataclass(frozen=True)
class Access:
    """Credentials and limits of reads from the Hub.

    Attributes:
        token: A token; ``None`` for the user's own (HF_TOKEN or a saved login); ``False`` for none. With ``False``, the
            caches of this machine are not used either for anything that may need the user's token.
        limits: Limits of what is read.
        allow_full_download: Whether to read whole files if a server ignores ranges, or if a file is a pickle.
        cache: Cache to use; ``None`` for the default one.
        likely: Selects tensor names that are probably tables, which are then read ahead.
        traffic: Counts requests and bytes; ``None`` for a counter of each repository.
    """

    token: str | bool | None = None
    limits: Limits = DEFAULT_LIMITS
    allow_full_download: bool = False
    cache: Cache | None = None
    likely: LikelyTables = no_tables
    traffic: Traffic | None = None

    @property
    def anonymous(self) -> bool:
        """Whether no token may be used."""
        return self.token is False
