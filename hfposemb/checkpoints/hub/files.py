"""Whole files of a Hub repository at one commit: from this machine's caches, or fetched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ...cache import Cache, Entry, Key
from ...errors import HubError, MissingFileError, OfflineError
from ...lazy_attributes import lazy_attribute
from ...logs import LOG
from ..access import Access
from ..deadline import Deadline
from ..strict_json import parse_json
from .cache import files_here, in_hub_cache
from .http import Wire

LISTING_BYTES = 20_000_000
"""Maximum size of a list of files or revisions."""


@dataclass(eq=False)
class RepositoryFiles:
    """Whole files of one repository; nothing is fetched twice, thanks to the disk cache.

    Attributes:
        name: Name of the source in messages.
        wire: Reads the repository.
        cache: Disk cache.
        access: Credentials and limits.
        offline: Whether the files that Hugging Face's own cache holds stand for all, since the Hub cannot be reached.
    """

    name: str
    wire: Wire
    cache: Cache
    access: Access
    offline: bool = False
    _entries: dict[Key, Entry] = field(default_factory=dict, repr=False)
    _absent: set[str] = field(default_factory=set, repr=False)

    @property
    def commit(self) -> str:
        """Commit at which everything is read."""
        assert self.wire.commit is not None
        return self.wire.commit

    @lazy_attribute
    def listing(self) -> tuple[str, ...]:
        """Names of all files of the repository at this commit; offline, of those that this machine has."""
        if self.offline and self.kept(self.key("file", "?listing")) is None:
            return files_here(self.wire.repo, self.commit)
        try:
            raw = self.fetch_once("file", "?listing", partial(_list_files, self.wire))
        except OfflineError:
            if not self.go_offline():
                raise
            return files_here(self.wire.repo, self.commit)
        return tuple(raw.decode().split("\n"))

    @property
    def listed(self) -> bool:
        """Whether the listing is known, so that a file that it lacks needs no request."""
        return self.wire.commit is not None and (self.offline or self.kept(self.key("file", "?listing")) is not None)

    def go_offline(self) -> bool:
        """Let the files that Hugging Face's own cache holds of this commit stand for all; return whether it has any."""
        commit = self.wire.commit
        # Without the user's token, show only what was previously read without it.
        self.offline = not self.access.foreign and commit is not None and bool(files_here(self.wire.repo, commit))
        return self.offline

    def json(self, file: str, folder: str = "") -> dict[str, Any] | None:
        """Return a small JSON file of a folder of the repository, or ``None`` if there is none."""
        limit = self.access.limits.config_bytes
        raw = self.small(file, folder, limit=limit)
        return None if raw is None else parse_json(raw, size=len(raw), name=file, limit=limit, kind=dict)

    def small(self, file: str, folder: str = "", *, limit: int, deadline: Deadline | None = None) -> bytes | None:
        """Return a whole file, from this machine if it is there; ``None`` if the repository does not have it.

        Args:
            file: Name of the file in its folder.
            folder: The folder, with a trailing slash; "" for the repository itself.
            limit: Limit of its size in bytes.
            deadline: Deadline of the read, by default the current one.
        """
        path = folder + file
        if path in self._absent or (self.listed and path not in self.listing):
            return None
        if (here := in_hub_cache(self.wire.repo, path, self.wire.commit)) is not None:
            raw = here.read_bytes()[: limit + 1]
            if len(raw) > limit:
                raise HubError(f"{self.name} {file} exceeds the limit of {limit:,} bytes")
            return raw
        get = partial(self.wire.get, path, most=limit, deadline=deadline or self.wire.deadline())
        try:
            return self.fetch_once("file", path, get)
        except MissingFileError:
            self._absent.add(path)
            return None
        except OfflineError:
            if not self.go_offline() or path in self.listing:
                raise
            return None

    def key(self, kind: str, path: str, *more: str) -> Key:
        """Return the cache key of something of this repository at its commit."""
        return (kind, self.wire.repo, self.commit, path, *more)

    def fetch_once(self, kind: str, path: str, get: Callable[[], bytes]) -> bytes:
        """Return bytes from the cache, or from ``get``, which then fills the cache."""
        raw = None
        if self.wire.commit is None:
            raw = get()  # pins the commit
        key = self.key(kind, path)
        if raw is None and (entry := self.kept(key)) is not None:
            return entry.bytes()
        raw = get() if raw is None else raw
        self.keep(key, self.cache.put(key, raw))
        return raw

    def kept(self, key: Key) -> Entry | None:
        """Return an entry of the cache, or ``None``."""
        if key not in self._entries and (found := self.cache.find(key)) is not None:
            LOG.debug("%s %s: %s found in the cache", self.wire.repo, " ".join(key[3:5]), key[0])
            self._entries[key] = found
        return self._entries.get(key)

    def keep(self, key: Key, entry: Entry) -> Entry:
        """Return an entry after recording it, so that it need not be looked up again."""
        self._entries[key] = entry
        return entry


def _list_files(wire: Wire) -> bytes:
    path = f"/api/models/{wire.repo}/revision/{wire.commit}"
    raw = wire.api(path, most=LISTING_BYTES, deadline=wire.deadline())
    found = parse_json(raw, size=len(raw), name="the Hub's response", limit=LISTING_BYTES, kind=dict)
    if found.get("sha", wire.commit) != wire.commit:
        raise HubError(f"{wire.repo}: the Hub lists the files of a different commit than requested; try again")
    siblings = found.get("siblings")
    names = [one.get("rfilename") for one in siblings if isinstance(one, dict)] if isinstance(siblings, list) else []
    return "\n".join(name for name in names if isinstance(name, str) and name.isprintable()).encode()
