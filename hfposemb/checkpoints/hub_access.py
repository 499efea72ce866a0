"""Credentials and limits of Hub reads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
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
class Visitor:
    """Somebody else than this machine's user, for whom a server reads models with that person's own token.

    Attributes:
        token: The visitor's token, which is shown nowhere.
        folder: Folder of the visitor's own cache, which holds everything that is read with the token.
    """

    token: str = field(repr=False)
    folder: Path


@dataclass(frozen=True)
class Access:
    """Credentials and limits of reads from the Hub.

    Attributes:
        token: A token; ``None`` for the user's own (HF_TOKEN or a saved login); ``False`` for none; or a ``Visitor``.
            With ``False`` and for a visitor, the caches of this machine are not used either for anything that may need
            the user's token.
        limits: Limits of what is read.
        allow_full_download: Whether to read whole files if a server ignores ranges, or if a file is a pickle.
        cache: Cache to use; ``None`` for the default one.
        likely: Selects tensor names that are probably tables, which are then read ahead.
        traffic: Counts requests and bytes; ``None`` for a counter of each repository.
    """

    token: str | bool | Visitor | None = field(default=None, repr=False)
    limits: Limits = DEFAULT_LIMITS
    allow_full_download: bool = False
    cache: Cache | None = None
    likely: LikelyTables = no_tables
    traffic: Traffic | None = None

    @property
    def foreign(self) -> bool:
        """Whether this machine's user is not the reader: without any token, or with that of a visitor."""
        return self.token is False or isinstance(self.token, Visitor)

    @property
    def sent(self) -> str | bool | None:
        """The token as huggingface_hub takes it."""
        return self.token.token if isinstance(self.token, Visitor) else self.token

    @property
    def own_cache(self) -> Cache:
        """The cache to use: the given one, that of the visitor, or the default one."""
        if self.cache is not None:
            return self.cache
        from ..cache import Cache

        most = self.limits.cache_bytes
        return Cache(self.token.folder, most) if isinstance(self.token, Visitor) else Cache.default(limit=most)
