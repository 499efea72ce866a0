"""Bounded caches of open sources and computed results, shared by all visitors of the process.

What a visitor who has signed in opens with their own token is in the caches of that account, and so is everything that
is computed for them.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TypeVar
from uuid import uuid4
from weakref import WeakKeyDictionary

from hfposemb.checkpoints.access import STRANGER, Access, Visitor, local_path
from hfposemb.checkpoints.limits import PUBLIC_LIMITS
from hfposemb.errors import (
    CancelledError,
    CheckpointError,
    InputError,
    MissingExtraError,
    MissingTableError,
    RefusedError,
    SourceError,
)
from hfposemb.tables.embeddings import Embeddings
from hfposemb.tables.source_parser import parse_source
from hfposemb.tables.sources import BuiltinSource, HubSource, LocalSource, Source, with_bases
from hfposemb.tables.table import EmbeddingTable, all_rows
from hfposemb.text import display

from .. import limits
from ..jobs.fetching import POLL, Fetch, Fetches, Work, extract
from ..jobs.lent import LentSource, lent
from ..limits import BUILTIN_BYTES, LONGEST_SOURCE
from .accounts import Visit, visit
from .kept import Kept

T = TypeVar("T")
SOURCE_BYTES = 4 * 2**30
"""Limit for the tables of open sources. Tables of local files are memory maps, whose pages the system can drop."""


RESULT_BYTES = 512 * 2**20
HASHED = 2**22
"""Tables of at most this many numbers are keyed by digest; hashing one takes a few hundredths of a second."""


MOST_FILES = 256
"""Number of files of a folder that are checked for changes."""


class Library:
    """Open sources and computed results, shared by all users of the process. Thread-safe."""

    def __init__(self, *, source_bytes: int = SOURCE_BYTES, result_bytes: int = RESULT_BYTES) -> None:
        self.sources = Kept(source_bytes)
        self._shared_results = Kept(result_bytes)
        self.fetches = Fetches()
        self._held: WeakKeyDictionary[Embeddings, _Held] = WeakKeyDictionary()
        self._names: WeakKeyDictionary[EmbeddingTable, str] = WeakKeyDictionary()
        self._lock = Lock()

    def open(self, text: str, *, public: bool = False) -> Embeddings:
        """Return the embeddings of a source, opened once. Raises ``HfposembError`` with a one-line message on failure.

        Blocks on the network for Hub sources: handlers of the page use ``opened`` and ``fetch`` instead.
        """
        return self._open(text, visit(), public=public)

    def _open(self, text: str, by: Visit, *, public: bool) -> Embeddings:
        """Return a source for who visits; what only that person may read is kept in the caches of the account."""
        key, account = source_key(text, public=public), by.account if public else None
        if account is not None and (own := account.sources.get(key)) is not None:
            return own  # type: ignore[no-any-return]
        try:
            return self.sources.make(key, lambda: _extracted(text, public=public))
        except RefusedError as error:
            if account is None:
                raise by.explained(error) from None
        reader = account.visitor
        try:
            return account.sources.make(key, lambda: _extracted(text, public=True, reader=reader))
        except RefusedError as error:
            raise by.explained(error) from None
        finally:
            account.clear_if_closed()

    def opened(self, text: str, needs: Sequence[str], *, public: bool = False) -> Embeddings | None:
        """Return a source without network access; ``None`` if parts that are needed have not been fetched."""
        source = allowed(text, public=public)
        if not isinstance(source, HubSource):
            return self.open(text, public=public)
        key, account = _key(source, public=public), visit().account if public else None
        own = None if account is None else account.sources.get(key)
        found = self.sources.get(key) if own is None else own
        return found if found is not None and self._hold(found).read.issuperset(needs) else None

    def fetch(self, text: str, needs: Sequence[str], *, public: bool = False) -> tuple[Hashable, Work]:
        """Return a key and a function that fetches the needed parts of a source."""
        by, key = visit(), source_key(text, public=public)
        shelves = (self.sources,) if by.account is None else (self.sources, by.account.sources)

        def work(fetch: Fetch) -> None:
            while True:
                try:
                    found = self._open(text, by, public=public)
                    break
                except CancelledError:
                    fetch.check()  # otherwise another page's read was cancelled, so try again
            held = self._hold(found)
            while not held.turn.acquire(timeout=POLL):
                fetch.check()
            try:
                missing = [need for need in needs if need not in held.read]
                fetch.expect(sum(table.provenance.nbytes for table in _tables(found, missing)))
                for need in missing:
                    _read(found, need)
                    held.read.add(need)
                for kept in shelves if missing else ():
                    kept.measure(key)
            finally:
                held.turn.release()
                if by.account is not None:
                    by.account.clear_if_closed()

        return (key, tuple(needs), by.id), work

    @property
    def results(self) -> Kept:
        """Computed results: those that all visitors share, or those of the account that the event comes from."""
        account = visit().account
        return self._shared_results if account is None else account.results_over(self._shared_results)

    def shares(self, text: str) -> bool:
        """Return whether a Hub model was opened on a public page without anybody's token."""
        return self.sources.get(source_key(text, public=True)) is not None

    def _hold(self, found: Embeddings) -> _Held:
        with self._lock:
            return self._held.setdefault(found, _Held())

    def result(self, table: EmbeddingTable, what: tuple[Hashable, ...], maker: Callable[[], T]) -> T:
        """Return a result for a table, computed once; ``what`` identifies the method and all its parameters."""
        return self.results.make(self.result_key(table, what), maker)

    def result_key(self, table: EmbeddingTable, what: tuple[Hashable, ...]) -> Hashable:
        """Return the key of a result in ``results``.

        Small tables of positions are identified by digest, because some are recomputed for every view. Hashing a large
        table takes seconds, and the results of a vocabulary name its tokens, which equal numbers do not: these tables
        are identified by object, as a source is opened once for as long as its files stay the same.
        """
        if table.named is None and table.shape[0] * table.shape[1] <= HASHED:
            all_rows(table)  # which the digest and most results read, so that they are computed or decoded once
            return (table.digest, table.name, *what)
        with self._lock:
            return (self._names.setdefault(table, uuid4().hex), *what)


@dataclass(eq=False)
class _Held:
    """The parts of an open source that have been read, and the lock for reading more."""

    read: set[str] = field(default_factory=set)
    turn: Lock = field(default_factory=Lock)


def _tables(embeddings: Embeddings, needs: Sequence[str]) -> list[EmbeddingTable]:
    found = [table for role, table in embeddings.tables.items() if role.rpartition(".")[2] in needs]
    ties = embeddings.ties.items() if "head" in needs else ()
    return found + [
        embeddings.heads[role] for role, tying in ties if tying.how not in ("absent", "alias", "same tensor")
    ]


def _read(embeddings: Embeddings, need: str) -> None:
    """Read one of ``NEEDS``, or as ``head`` the heads stored apart; do nothing if the source does not have it."""
    for table in _tables(embeddings, [need]):
        if table.shape[0] * table.shape[1] * table.dtype.itemsize <= limits.HELD_BYTES:
            all_rows(table)
        else:
            next(iter(table.chunks()))  # fetches all of it: large tables are never fetched in part
    if need in ("position", "head"):
        return
    try:
        _ = embeddings.token.labels, embeddings.token_marks
        if need == "inputs":
            embeddings.inputs("a")
        if need == "attention":
            embeddings.logits([0])
    except (MissingTableError, InputError, MissingExtraError, CheckpointError):
        pass  # reported by the panel that needs it


@cache
def shared_library() -> Library:
    """Return the library of this process."""
    return Library()


def allowed(text: str, *, public: bool) -> Source | LentSource:
    """Parse a source name, and reject what public mode forbids before any lookup."""
    if len(text) > LONGEST_SOURCE:
        raise SourceError(f"a source name can have at most {LONGEST_SOURCE:,} characters")
    if lent(text) is not None:
        return LentSource(text)
    source = parse_source(text)
    reader(public=public).check(source)
    if public and isinstance(source, BuiltinSource) and 4 * source.rows * source.width > BUILTIN_BYTES:
        raise SourceError(
            f"a built-in can have at most {BUILTIN_BYTES >> 20} MB on this public page; {source.rows:,} × "
            f"{source.width:,} has {4 * source.rows * source.width / 2**20:,.0f} MB: use fewer rows"
        )
    return source


def source_key(text: str, *, public: bool = False) -> Hashable:
    """Return a key that equivalent names of a source share. Raises ``SourceError`` for what public mode forbids.

    In public mode the key of a Hub source differs, so that visitors never get what was opened with a user's token.
    """
    return _key(allowed(text, public=public), public=public)


def _key(source: Source | LentSource, *, public: bool) -> Hashable:
    named, who = () if isinstance(source, LentSource) else with_bases(source), reader(public=public)
    states = [_state_of_files(local_path(one, who)) for one in named if isinstance(one, LocalSource)]
    return public and isinstance(source, HubSource), repr(source), *states


def reader(*, public: bool) -> Access:
    """Return for whom the sources of a page are opened."""
    return Access(STRANGER, PUBLIC_LIMITS) if public else Access()


def _state_of_files(path: Path) -> tuple[Hashable, ...]:
    """Return a fingerprint of the files at a path; when it changes, the source is reopened and results recomputed."""
    try:
        with os.scandir(path if path.is_dir() else path.parent) as listed:
            found = [(one.name, one.stat()) for one in itertools.islice(listed, MOST_FILES) if one.is_file()]
    except OSError:
        return ()  # opening the source reports the error
    return tuple(sorted((name, status.st_ino, status.st_size, status.st_mtime_ns) for name, status in found))


def _extracted(text: str, *, public: bool, reader: Visitor | None = None) -> Embeddings:
    try:
        return extract(text, public=public, visitor=reader)
    except OSError as error:
        raise SourceError(f"{display(text, width=60)} cannot be read: {error.strerror or error}") from error
    except MemoryError as error:
        raise SourceError(f"{display(text, width=60)} does not fit into memory") from error
