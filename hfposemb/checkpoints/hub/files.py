"""Whole files of a Hub repository at one commit, from this machine's caches or fetched, and its revisions."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ...cache import Cache, Entry, Key
from ...errors import CheckpointError, HubError, MissingFileError, OfflineError
from ...lazy_attributes import lazy_attribute
from ...logs import LOG
from ..access import Access
from ..deadline import Deadline
from ..file_choice import INDEX, MODEL, is_checkpoint
from ..strict_json import parse_json
from .http import Wire
from .http_connection import is_commit


def in_hub_cache(repo: str, file: str, commit: str | None) -> Path | None:
    """Return a file of Hugging Face's own cache at exactly this commit, or ``None``."""
    if commit is None:
        return None
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(repo, file, revision=commit)
    if not isinstance(found, str):
        return None
    LOG.debug("%s %s: found in the cache of huggingface_hub", repo, file)
    return Path(found)


def commit_here(repo: str, revision: str) -> str | None:
    """Return the commit of a revision in Hugging Face's own cache, or ``None``."""
    if is_commit(revision):
        return revision if _snapshot(repo, revision).is_dir() else None
    try:
        commit = (_folder(repo) / "refs" / revision).read_text("ascii").strip()
    except (OSError, ValueError):
        return None
    return commit if is_commit(commit) and _snapshot(repo, commit).is_dir() else None


def refs_here(repo: str) -> list[str]:
    """Return the names of the revisions of a repository that Hugging Face's own cache knows."""
    root = _folder(repo) / "refs"
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def files_here(repo: str, commit: str) -> tuple[str, ...]:
    """Return the names of the files of a commit that Hugging Face's own cache holds, () if none."""
    root = _snapshot(repo, commit)
    found = ((os.path.relpath(at, root), files) for at, _, files in os.walk(root))
    return tuple(sorted((Path(at) / file).as_posix() for at, files in found for file in files))


def _folder(repo: str) -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE) / "--".join(("models", *repo.split("/")))


def _snapshot(repo: str, commit: str) -> Path:
    return _folder(repo) / "snapshots" / commit


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

    def small(self, file: str, folder: str = "", *, limit: int) -> bytes | None:
        """Return a whole file, from this machine if it is there; ``None`` if the repository does not have it.

        Args:
            file: Name of the file in its folder.
            folder: The folder, with a trailing slash; "" for the repository itself.
            limit: Limit of its size in bytes.
        """
        path = folder + file
        if path in self._absent or (self.listed and path not in self.listing):
            return None
        if (here := in_hub_cache(self.wire.repo, path, self.wire.commit)) is not None:
            raw = here.read_bytes()[: limit + 1]
            if len(raw) > limit:
                raise HubError(f"{self.name} {file} exceeds the limit of {limit:,} bytes")
            return raw
        get = partial(self.wire.get, path, most=limit, deadline=self.wire.deadline())
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
        raw = get() if self.wire.commit is None else None  # pins the commit
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


_REFS = 5  # number of revisions searched for safetensors


_REF = r"[A-Za-z0-9][A-Za-z0-9._/-]{0,200}"


_PULL = r"refs/pr/(\d{1,9})"


def pin(files: RepositoryFiles, branch: Key) -> list[str]:
    """Resolve the revision to a commit if this machine may have read it before; otherwise the first response does.

    Offline, use the commit that the revision referred to when it was last read.

    Args:
        files: Files of the repository, before its commit is known.
        branch: Cache key of the commit that the revision referred to when it was last read.

    Returns:
        A note about a commit that was used offline, if any.
    """
    wire, foreign = files.wire, files.access.foreign
    if is_commit(wire.revision) and not foreign:
        wire.commit = wire.revision
        return []
    kept = files.cache.find(branch)
    known = kept.bytes().decode("ascii", "replace") if kept is not None else None
    here = commit_here(wire.repo, wire.revision)
    if known is None and here is None:
        return []
    try:
        wire.pin("config.json")
    except OfflineError:
        # Without the user's token, show only what was previously read without it.
        whole = here is not None and any(is_checkpoint(file) for file in files_here(wire.repo, here))
        commit = known if foreign else here if whole else known or here
        if commit is None or not is_commit(commit):
            raise
        wire.commit = commit
        files.go_offline()
        return [f"the Hub cannot be reached; using the cached commit {commit[:8]} of {wire.revision}"]
    return []


def list_refs(wire: Wire, deadline: Deadline) -> list[str]:
    """Return the names of a repository's revisions: branches, tags and pull requests. Raises ``SourceError``."""
    raw = wire.api(f"/api/models/{wire.repo}/refs?include_prs=1", most=LISTING_BYTES, deadline=deadline)
    refs = parse_json(raw, size=len(raw), name="the Hub's response", limit=LISTING_BYTES, kind=dict)
    listed = [
        one.get("ref") for kind in refs.values() if isinstance(kind, list) for one in kind if isinstance(one, dict)
    ]
    return [ref.removeprefix("refs/heads/") for ref in listed if isinstance(ref, str) and re.fullmatch(_REF, ref)]


def with_safetensors(wire: Wire, deadline: Deadline) -> str | None:
    """Return a revision with safetensors files, such as a pull request opened by the Hub's converter, or ``None``."""
    try:
        names = list_refs(wire, deadline)
    except (HubError, CheckpointError):
        return None
    pulls = sorted((int(match[1]) for name in names if (match := re.fullmatch(_PULL, name))), reverse=True)
    wanted = [name for name in names if "safetensors" in name] + [f"refs/pr/{number}" for number in pulls]
    for name in wanted[:_REFS]:
        there = Wire(wire.repo, name, wire.token, wire.limits, traffic=wire.traffic)
        for file in (MODEL, INDEX):
            with suppress(HubError, CheckpointError):
                there.read(file, range(1), lambda _: None, deadline=deadline)
                return name
    return None
