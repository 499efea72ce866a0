"""For whom sources are read, with which token and within which limits, and whether that person may open files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ..errors import SourceError
from ..tables.sources import LocalSource, Source, with_bases
from .limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from ..cache import Cache
    from ..progress import Traffic

LikelyTables: TypeAlias = Callable[[Sequence[str]], Collection[str]]
"""Selects the tensor names that are probably embedding tables."""


def no_tables(names: Sequence[str]) -> Collection[str]:
    """Select no tensor name."""
    return ()


@dataclass(frozen=True)
class Visitor:
    """Somebody else than this machine's user, for whom a server reads models.

    No folder or file of this machine is opened for a visitor, whoever names it, and no token of its user is sent.

    Attributes:
        token: The visitor's own token, which is shown nowhere; ``None`` for a visitor without one.
        folder: Folder of the visitor's own cache, which holds everything that is read with the token.
    """

    token: str | None = field(default=None, repr=False)
    folder: Path | None = None


STRANGER = Visitor()
"""Any visitor without a token."""

NOT_HERE = "folders and files can be opened only if the app runs on your own machine: make run in a checkout"
"""What a visitor is told who names one, whether it exists or not."""


@dataclass(frozen=True)
class Access:
    """Who reads, and within which limits. Every function that opens a source is given one and passes it on.

    Attributes:
        token: A token; ``None`` for the user's own (HF_TOKEN or a saved login); ``False`` for none; or a ``Visitor``.
            With ``False`` and for a visitor, the caches of this machine are not used either for anything that may need
            the user's token. Only for a visitor are folders and files closed.
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
        if isinstance(self.token, Visitor):
            return False if self.token.token is None else self.token.token
        return self.token

    @property
    def own_cache(self) -> Cache:
        """The cache to use: the given one, that of the visitor, or the default one."""
        if self.cache is not None:
            return self.cache
        from ..cache import Cache

        most, own = self.limits.cache_bytes, self.token.folder if isinstance(self.token, Visitor) else None
        return Cache.default(limit=most) if own is None else Cache(own, most)

    def check(self, *sources: Source) -> None:
        """Raise ``SourceError`` if a source, or one that it names, is on this machine and the reader is a visitor."""
        if isinstance(self.token, Visitor):
            for source in sources:
                if any(isinstance(one, LocalSource) for one in with_bases(source)):
                    raise SourceError(NOT_HERE)


def local_path(source: LocalSource, access: Access) -> Path:
    """Return where a folder or file lies on this machine; nothing else looks a local source up.

    Args:
        source: The folder or file.
        access: Who reads it.

    Raises:
        SourceError: If the reader may not open it, or it is in the home folder of an unknown user.
    """
    access.check(source)
    try:
        return Path(source.path).expanduser() if source.in_home else Path(source.path)
    except RuntimeError as error:
        where = f"{str(source.path)!r:.80}"
        raise SourceError(f"{where} is in a home folder that does not exist; write the full path") from error
