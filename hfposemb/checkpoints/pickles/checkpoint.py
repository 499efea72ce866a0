"""Checkpoints written by ``torch.save``: a child process unpickles them, and this one receives only names and numbers.

A pickle is a program. ``torch.load(weights_only=True)`` runs only calls on a short allow-list, but it has had holes,
and allowed calls can request any amount of memory. A torch with a known hole is therefore not used (``safe_torch``),
and the pickle is loaded in a fresh interpreter: with a minimal environment (no token), without permission to write
files, killed after a deadline, and, where the system supports it (Linux), limited to twice the file's size plus 1 GB
beyond torch itself. This process trusts nothing it returns: the child answers with the header of an equivalent
safetensors file, which passes through the same strict parser as any other, and then with the bytes of the tensors that
this process requests by name.

The trade-off: a child takes some seconds, mostly to import torch, and almost nothing per tensor. The first child is
therefore asked for everything that tables and inputs usually need (``_wanted``), which goes to the disk cache. The
layers, most of a file, are not read. Anything requested later, such as a bias table inside a layer, takes another child
once. A file that was read before and has not changed needs neither child nor torch.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from numpy.typing import NDArray

from ...cache import Cache, Entry, Key
from ...errors import CheckpointError, one_line
from ...lazy_attributes import lazy_attribute
from ...memory_maps import lent
from ..access import LikelyTables, no_tables
from ..children import Child, start_child
from ..file_choice import weight_map
from ..folder_layouts import other_ranks
from ..limits import DEFAULT_LIMITS, Limits
from ..safetensors.checkpoint import Checkpoint, Header, TensorInfo, as_rows, check_read, parse_header, stays
from ..strict_json import foreign, open_regular, parse_json, read_json
from . import child as serving
from .child import CHUNK
from .joined_parts import JoinedParts, parts_of
from .safe_torch import installed_refusal

SPARE_MEMORY = 1_000_000_000
"""Bytes that a child may use beyond torch itself and twice the file."""


_SLOWEST = 20_000_000  # bytes of the file per second by which the deadline grows
_SMALL = 4_000_000  # largest tensor outside the layers to read ahead, such as a norm or a projection
_LINE = 2000
_ENDS = 2**18  # bytes hashed at both ends of a file: a zip archive ends with a checksum of every member
_NUMBERED = r"\.\d+\."


def _wanted(header: Header, limits: Limits, likely: LikelyTables) -> tuple[str, ...]:
    """Return the tensors to read ahead with the first child: likely tables, and small tensors outside the layers."""
    names = [name for name, info in header.tensors.items() if _is_readable(info, limits)]
    tables = frozenset(likely(names))
    wanted, total = [], 0
    for name in names:
        size = header.tensors[name].nbytes
        inside = re.search(_NUMBERED, f".{name}.") is not None
        if (name in tables or (size <= _SMALL and not inside)) and total + size <= limits.table_bytes:
            wanted.append(name)
            total += size
    return tuple(wanted)


def _is_readable(info: TensorInfo, limits: Limits) -> bool:
    try:
        check_read(info, limits=limits)
    except CheckpointError:
        return False
    return True


@dataclass(eq=False)
class PickledFile:
    """One file written by torch.save, with the interface of a safetensors file.

    All errors are ``SourceError`` or its subclasses.

    Attributes:
        name: Name of the file.
        identity: Identifies the content in the cache: origin, and digest or commit.
        file_bytes: Size of the file.
        on_disk: Provides a path that a child can read.
        cache: Where headers and tensors are kept.
        limits: Limits of what is read.
        check: Raises if the file at that path has changed.
        likely: Selects tensors to read ahead, which are probably tables.
    """

    name: str
    identity: tuple[str, str]
    file_bytes: int
    on_disk: Callable[[], AbstractContextManager[Path]]
    cache: Cache
    limits: Limits = DEFAULT_LIMITS
    check: Callable[[], None] = lambda: None
    likely: LikelyTables = no_tables
    _entries: dict[Key, Entry] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @lazy_attribute
    def header(self) -> Header:
        """Header of the equivalent safetensors file."""
        key = self._key("header")
        if self._kept(key) is None:
            self._converse(None)
        return self._parse(self._entries[key].bytes())

    @lazy_attribute
    def metadata(self) -> Mapping[str, str]:
        """Names of tensors that share memory with another, listed tensor, mapped to its name."""
        return {name: kept[1:] for name, kept in self.header.metadata.items() if kept.startswith("=")}

    @lazy_attribute
    def foreign(self) -> Mapping[str, TensorInfo]:
        """Tensors of types unknown to safetensors (quantised, without a device): listed, but not readable."""
        found = {}
        for name, kept in self.header.metadata.items():
            if match := re.fullmatch(r"!(\w{1,20}) ((?:\d{1,12} ?){0,8})", kept):
                found[name] = TensorInfo(name, match[1], tuple(map(int, match[2].split())), 0, 0, self.name)
        return found

    def info(self, name: str) -> TensorInfo:
        """Return a tensor's dtype, shape and size."""
        name = self.metadata.get(name, name)
        found = self.foreign.get(name) or self.header.tensors.get(name)
        if found is None:
            raise CheckpointError(
                f"{self.name} has no tensor {name!r:.80} among its {len(self.header.tensors)} tensors"
            )
        return found

    def read(self, name: str, start: int = 0, stop: int | None = None, *, codes: bool = False) -> NDArray[Any]:
        """Return rows ``[start, stop)`` of a tensor, read-only; see ``Checkpoint.read``, and ``codes`` for codes."""
        info = self.info(name)
        span = check_read(info, start, stop, limits=self.limits, codes=codes)
        check_read(info, limits=self.limits, codes=codes)  # the whole tensor is cached
        key = self._key("table", info.name)
        if self._kept(key) is None:
            self._converse((info.name,))
        raw = self._entries[key].view()[span.start - info.start : span.stop - info.start]
        return as_rows(lent(raw) if stays(info, codes) else raw, info, start, stop, codes=codes)

    def _key(self, kind: str, *tensor: str) -> Key:
        return (kind, *self.identity, self.name, *tensor)

    def _kept(self, key: Key) -> Entry | None:
        if key not in self._entries and (found := self.cache.find(key)) is not None:
            self._entries[key] = found
        return self._entries.get(key)

    def _parse(self, text: bytes) -> Header:
        """Parse the header of a file that does not exist; its size follows from the header itself."""
        ends = re.findall(rb'"data_offsets":\[\d{1,18},(\d{1,18})\]', text)
        size = 8 + len(text) + max(map(int, ends), default=0)
        return parse_header(text, file_bytes=size, name=self.name, limits=self.limits)

    def _converse(self, names: Sequence[str] | None) -> None:
        """Run a child that reads the file, and cache the header and the named tensors, by default ``_wanted``."""
        with self._lock:
            if names is not None and all(self._kept(self._key("table", name)) for name in names):
                return  # another thread has read them in the meantime
            if (refused := installed_refusal()) is not None:
                raise CheckpointError(f"{self.name}: {refused}")
            memory = min(2 * self.file_bytes + SPARE_MEMORY, self.limits.pickle_memory)
            seconds = self.limits.seconds + self.file_bytes / _SLOWEST
            with self.on_disk() as path, _Loaded(path, self.name, memory=memory) as child, child.within(seconds):
                text = child.header(most=self.limits.header_bytes)
                header = self._parse(text)
                self.check()
                if not header.tensors and not header.metadata:
                    raise CheckpointError(f"{self.name}: holds no tensor; give a file with a model's state dict")
                key = self._key("header")
                known = self._kept(key)
                if known is not None and known.bytes() != text:
                    raise CheckpointError(f"{self.name}: the file changed since it was opened; open it again")
                self._entries[key] = known or self.cache.put(key, text)
                for name in _wanted(header, self.limits, self.likely) if names is None else names:
                    self._keep(child, header.tensors[name])

    def _keep(self, child: _Loaded, info: TensorInfo) -> None:
        key = self._key("table", info.name)
        if self._kept(key) is None:
            with self.cache.write(key, size=info.nbytes) as writer:
                child.tensor(info.name, info.nbytes, writer.write)
                self.check()
            self._entries[key] = writer.entry


class PickledCheckpoint(Checkpoint):
    """Checkpoint of one or several pickled files; what they state beside tensors is their further names."""


def one_file(
    file: str, *, name: str, open_file: Callable[[str], PickledFile], limits: Limits = DEFAULT_LIMITS
) -> PickledCheckpoint:
    """Return the checkpoint in a single file, whose header is read."""
    opened = open_file(file)
    names = (*opened.header.tensors, *opened.foreign)
    return PickledCheckpoint.of_one(name, file, names, opened, open_file, limits)


def open_pickled(
    path: Path, *, limits: Limits = DEFAULT_LIMITS, likely: LikelyTables = no_tables
) -> PickledCheckpoint | JoinedParts:
    """Open a local file written by torch.save, or the index of several, ``pytorch_model.bin.index.json``.

    A part of one of Meta's checkpoints, ``consolidated.00.pth``, is joined with the others in its folder.

    Args:
        path: The file or index.
        limits: Limits of what is read.
        likely: Selects tensors to read ahead, which are probably tables.

    Raises:
        CheckpointError: If it cannot be read, or is one part of a Megatron-LM checkpoint.
        MissingExtraError: If torch is needed and not installed.
    """
    name, folder = path.name, path.parent
    parts = other_ranks(f"{folder.name}/{name}", _listed(folder.absolute().parent))
    if parts > 1:
        raise CheckpointError(
            f"{folder.name}/{name}: is one of {parts} parts of a Megatron-LM checkpoint, each with a slice of "
            "all tables; convert it to the Hugging Face layout first, for example with export_ckpt of Megatron Bridge"
        )
    open_file = partial(_open_local, folder, Cache.default(limit=limits.cache_bytes), limits, likely)
    if meta := parts_of(name, _listed(folder)):
        stated = folder / "params.json"
        settings = read_json(stated, limit=limits.config_bytes, kind=dict) if stated.exists() else None
        return JoinedParts(name, tuple(map(open_file, meta)), limits, settings)
    if path.suffix == ".json":
        index: dict[str, Any] = read_json(path, limit=limits.header_bytes, kind=dict, unique=True)
        return PickledCheckpoint(name, weight_map(index, name=name, suffix=".bin"), open_file, limits)
    return one_file(name, name=name, open_file=open_file, limits=limits)


def _listed(folder: Path) -> Iterator[str]:
    """Yield the names of what is in a folder, which is not listed before one is asked for."""
    with suppress(OSError):
        yield from os.listdir(folder)


def _open_local(folder: Path, cache: Cache, limits: Limits, likely: LikelyTables, file: str) -> PickledFile:
    path = Path(os.path.abspath(folder / file))
    digest = _digest(path)

    def check() -> None:
        if _digest(path) != digest:
            raise CheckpointError(f"{file}: the file changed since it was opened; open it again")

    identity, size = (str(path), digest), path.stat().st_size
    return PickledFile(file, identity, size, lambda: nullcontext(path), cache, limits, check, likely)


def _digest(path: Path) -> str:
    """Return a fingerprint that detects changes without reading the whole file; raise if it is not a pickle."""
    with open_regular(path) as file:
        status = os.fstat(file.fileno())
        start = file.read(min(_ENDS, status.st_size))
        file.seek(max(0, status.st_size - _ENDS))
        sha = hashlib.sha256(b"%d %d " % (status.st_size, status.st_mtime_ns) + start + file.read(len(start)))
    check_start(start[:8], name=path.name)
    return sha.hexdigest()


def check_start(start: bytes, *, name: str) -> None:
    """Raise ``CheckpointError`` unless the first (eight) bytes of a file are those of a file written by torch.save."""
    if not start.startswith((b"PK", b"\x80")):
        kind = "the file is empty; download it again" if not start else foreign(start)
        kind = kind or (
            "was not written by torch.save; if it belongs to another program, such as CTranslate2, use the checkpoint "
            "it was made from; read vectors of word2vec with gensim; otherwise download it again"
        )
        raise CheckpointError(f"{name}: {kind}")


@contextmanager
def copied(entry: Entry, *, name: str) -> Iterator[Path]:
    """Copy a cache entry to a temporary file for the duration of the block, so that a child can read it."""
    with tempfile.TemporaryDirectory(prefix="hfposemb-") as folder:
        path = Path(folder) / "pickled"
        view = entry.view()
        try:
            with path.open("wb") as file:
                for start in range(0, len(view), CHUNK):
                    file.write(view[start : start + CHUNK].data)
        except OSError as error:
            raise CheckpointError(f"{name}: cannot be copied to {folder}: {error.strerror}; set TMPDIR") from None
        yield path


class _Loaded(Child):
    """A child that has loaded a file, and sends its tensors."""

    def __init__(self, path: Path, name: str, *, memory: int) -> None:
        super().__init__(start_child(serving.__name__, serving.serve_pickle.__name__))
        self._name = name
        self.say({"path": str(path), "memory": memory})

    def header(self, *, most: int) -> bytes:
        """Return the unchecked header that the child makes of the file, of at most ``most`` bytes."""
        size = self._size()
        if size > most:
            self._fail(f"the header would have {size} bytes; the limit is {most}")
        kept = bytearray()
        self._receive(size, kept.extend)
        return bytes(kept)

    def tensor(self, name: str, size: int, sink: Callable[[bytes], object]) -> None:
        """Pass the bytes of a tensor to ``sink``."""
        self.say({"tensor": name})
        if (found := self._size()) != size:
            self._fail(f"{name!r:.80} has {found} bytes, but its header says {size}")
        self._receive(size, sink)

    def _fail(self, rule: str) -> NoReturn:
        raise CheckpointError(f"{self._name}: {rule}")

    def _gone(self) -> NoReturn:
        if self.late:
            self._fail(f"loading it took more than {self.seconds:.0f} s and was stopped")
        self._fail("the process loading it ended unexpectedly, possibly out of memory")

    def _size(self) -> int:
        """Return the size of the answer that follows; raise the child's error if it sends one."""
        if (line := self.line(_LINE)) is None:
            self._gone()
        answer = parse_json(line, size=len(line), name=self._name, limit=_LINE, kind=dict)
        size, error = answer.get("bytes"), answer.get("error")
        if isinstance(size, int) and size >= 0:
            return size
        said = one_line(error)[:300]
        return self._fail(said if said.isprintable() else ascii(said))

    def _receive(self, size: int, sink: Callable[[bytes], object]) -> None:
        while size:
            part = self.answers.read(min(size, CHUNK))
            if not part:
                self._gone()
            sink(part)
            size -= len(part)
