"""Who reads from the Hub, and within which bounds."""

from __future__ import annotations

from dataclasses import dataclass

from ..cache import Cache
from .limits import DEFAULT_LIMITS, Limits
from .pickled import LikelyTables, no_tables


@dataclass(frozen=True)
class Access:
    """Say who reads from the Hub, and within which bounds.

    ``token`` is a token, ``None`` for the user's own (HF_TOKEN, or saved by a login) or ``False`` for none: then
    nothing that only the user's token could read is taken from the caches of this machine either.
    ``allow_full_download`` lets a whole file be read where a server ignores ranges, or the file is a pickle;
    ``likely`` names the tensors that are then read ahead, because they are probably tables.
    """

    token: str | bool | None = None
    limits: Limits = DEFAULT_LIMITS
    allow_full_download: bool = False
    cache: Cache | None = None
    likely: LikelyTables = no_tables

    @property
    def anonymous(self) -> bool:
        """Tell whether no token may be used."""
        return self.token is False
