"""Read checkpoints that ``torch.save`` wrote: a child process unpickles them, this one sees only names and numbers.

A pickle is a program. ``torch.load(weights_only=True)`` runs none of its calls that are not on a short list, but has
had holes, and what is on the list can ask for any amount of memory. So it runs in a fresh interpreter: with an empty
environment but for what starts it (no token), without leave to write files, killed after a deadline, and where the
system can hold it to that (Linux) with no more memory than twice the file and 1 GB beside torch itself. This process
believes it nothing: it answers with the header of the safetensors file that the pickle could be, which goes through
the same strict parser as any other, and then with the bytes of the tensors that this process asks for by name.

The trade-off: a child costs some seconds, mostly to import torch, and nearly nothing for each tensor. So the first one
is asked for everything that tables and inputs are usually made of (``_wanted``), which is kept in the disk cache; the
layers, most of a file, stay in it, and whatever else is asked for later (a bias table inside a layer, say) costs
another child once. A file that was read before and has not changed needs neither child nor torch.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeAlias

from numpy.typing import NDArray

from ..cache import Cache, Entry, Key
from ..errors import CheckpointError, MissingExtraError, one_line
from .folder_layouts import other_ranks
from .limits import DEFAULT_LIMITS, Limits
from .locate import weight_map
from .pickle_child import CHUNK
from .safetensors import Header, TensorInfo, as_rows, check_read, parse_header
from .strict_json import foreign, parse_json, read_json

if TYPE_CHECKING:
    pass


SPARE_MEMORY = 1_000_000_000
"""What a child may take beside torch itself and twice the file."""


_SLOWEST = 20_000_000  # bytes of the file a second, with which its deadline grows
_SMALL = 4_000_000  # bytes of a tensor outside the layers that is fetched unasked: a norm or a projection
_LINE = 2000
_ENDS = 2**18  # bytes at both ends of a file that tell it: a zip archive lists a checksum of every member at its end
_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LANG", "LC_ALL", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR")
_NUMBERED = r"\.\d+\."


def require_torch() -> None:
    """Raise ``MissingExtraError`` where torch is not installed; imports nothing."""
    if find_spec("torch") is None:
        raise MissingExtraError("torch", extra="torch", purpose="reading a checkpoint that torch.save wrote")


LikelyTables: TypeAlias = Callable[[Sequence[str]], Collection[str]]
"""Returns those of some tensor names that are probably embedding tables."""


def no_tables(names: Sequence[str]) -> Collection[str]:
    """Return nothing: no name is known to be that of a table."""
    return ()


def _wanted(header: Header, limits: Limits, likely: LikelyTables) -> tuple[str, ...]:
    """Return what the first child is asked for: possible tables, and what is small and outside the layers."""
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
    """Read one file that torch.save wrote as if it were safetensors; all errors are ``SourceError`` and its children.

    ``identity`` tells its content in the cache: where it is from, and its digest or commit. ``on_disk`` gives the path
    that a child may read; ``check`` raises where that is no longer the file it was. ``likely`` names the tensors that
    are read ahead, because they are probably tables.
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

    @cached_property
    def header(self) -> Header:
        """The header of the safetensors file that this one could be."""
        key = self._key("header")
        if self._kept(key) is None:
            self._converse(None)
        return self._parse(self._entries[key].bytes())

    @cached_property
    def aliases(self) -> Mapping[str, str]:
        """Names of tensors that are the same numbers in memory as another one, which is listed."""
        return {name: kept[1:] for name, kept in self.header.metadata.items() if kept.startswith("=")}

    @cached_property
    def foreign(self) -> Mapping[str, TensorInfo]:
        """Tensors that safetensors has no type for (quantised, on no device): known, but not to be read."""
        found = {}
        for name, kept in self.header.metadata.items():
            if match := re.fullmatch(r"!(\w{1,20}) ((?:\d{1,12} ?){0,8})", kept):
                found[name] = TensorInfo(name, match[1], tuple(map(int, match[2].split())), 0, 0, self.name)
        return found

    def info(self, name: str) -> TensorInfo:
        """Return dtype, shape and size of a tensor."""
        name = self.aliases.get(name, name)
        found = self.foreign.get(name) or self.header.tensors.get(name)
        if found is None:
            raise CheckpointError(f"{self.name} has no tensor {name!r:.80} among its {len(self.header.tensors)}")
        return found

    def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return rows [start, stop) of a tensor, read-only, as ``Checkpoint.read`` does."""
        info = self.info(name)
        span = check_read(info, start, stop, limits=self.limits)
        check_read(info, limits=self.limits)  # all of it is kept
        key = self._key("table", info.name)
        if self._kept(key) is None:
            self._converse((info.name,))
        return as_rows(self._entries[key].view()[span.start - info.start : span.stop - info.start], info, start, stop)

    def _key(self, kind: str, *tensor: str) -> Key:
        return (kind, *self.identity, self.name, *tensor)

    def _kept(self, key: Key) -> Entry | None:
        if key not in self._entries and (found := self.cache.find(key)) is not None:
            self._entries[key] = found
        return self._entries.get(key)

    def _parse(self, text: bytes) -> Header:
        """Check a header that names a file which is nowhere: its size is what the header says."""
        ends = re.findall(rb'"data_offsets":\[\d{1,18},(\d{1,18})\]', text)
        size = 8 + len(text) + max(map(int, ends), default=0)
        return parse_header(text, file_bytes=size, name=self.name, limits=self.limits)

    def _converse(self, names: Sequence[str] | None) -> None:
        """Let a child read the file, and keep the header and some tensors, by default ``_wanted``."""
        with self._lock:
            if names is not None and all(self._kept(self._key("table", name)) for name in names):
                return  # another thread has asked for them meanwhile
            require_torch()
            memory = min(2 * self.file_bytes + SPARE_MEMORY, self.limits.pickle_memory)
            seconds = self.limits.seconds + self.file_bytes / _SLOWEST
            with self.on_disk() as path, _Child(path, self.name, memory=memory, seconds=seconds) as child:
                text = child.header(most=self.limits.header_bytes)
                header = self._parse(text)
                self.check()
                if not header.tensors and not header.metadata:
                    raise CheckpointError(f"{self.name}: holds no tensor; name a file with a model's state dict")
                key = self._key("header")
                known = self._kept(key)
                if known is not None and known.bytes() != text:
                    raise CheckpointError(f"{self.name}: the file changed since it was opened; open it again")
                self._entries[key] = known or self.cache.put(key, text)
                for name in _wanted(header, self.limits, self.likely) if names is None else names:
                    self._keep(child, header.tensors[name])

    def _keep(self, child: _Child, info: TensorInfo) -> None:
        key = self._key("table", info.name)
        if self._kept(key) is None:
            with self.cache.write(key, size=info.nbytes) as writer:
                child.tensor(info.name, info.nbytes, writer.write)
                self.check()
            self._entries[key] = writer.entry


@dataclass(eq=False)
class PickledCheckpoint:
    """Read a checkpoint of one or several pickled files: ``files`` maps each tensor to one, which ``open_file`` opens.

    ``folder`` is where its configuration is, if that is on this machine.
    """

    name: str
    files: Mapping[str, str]
    open_file: Callable[[str], PickledFile]
    folder: Path | None = None
    _opened: dict[str, PickledFile] = field(default_factory=dict, repr=False)

    def names(self) -> tuple[str, ...]:
        """Return the tensors' names; reads no file."""
        return tuple(self.files)

    def info(self, name: str) -> TensorInfo:
        """Return dtype, shape and size of a tensor; reads its file if need be."""
        return self._file(name).info(name)

    def metadata(self) -> Mapping[str, str]:
        """Return which tensors are others under a second name, in the files read so far."""
        return MappingProxyType({k: v for file in self._opened.values() for k, v in file.aliases.items()})

    def config(self) -> dict[str, Any] | None:
        """Return config.json beside the checkpoint, or ``None`` where there is none."""
        path = None if self.folder is None else self.folder / "config.json"
        found = path is not None and os.path.exists(path)
        return read_json(path, limit=DEFAULT_LIMITS.config_bytes, kind=dict) if path and found else None

    def file_bytes(self, name: str) -> int:
        """Return the size of the file that holds a tensor."""
        return self._file(name).file_bytes

    def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return rows [start, stop) of a tensor, read-only, as ``Checkpoint.read`` does."""
        return self._file(name).read(name, start, stop)

    def _file(self, name: str) -> PickledFile:
        name = self.metadata().get(name, name)
        if name not in self.files:
            raise CheckpointError(f"{self.name} has no tensor {name!r:.80} among its {len(self.files)}")
        return self._use(self.files[name])

    def _use(self, file: str) -> PickledFile:
        if file not in self._opened:
            self._opened[file] = self.open_file(file)
        return self._opened[file]


def one_file(
    file: str, *, name: str, open_file: Callable[[str], PickledFile], folder: Path | None = None
) -> PickledCheckpoint:
    """Return the checkpoint that one file holds; reads its header."""
    opened = open_file(file)
    files = dict.fromkeys((*opened.header.tensors, *opened.foreign), file)
    return PickledCheckpoint(name, MappingProxyType(files), open_file, folder, {file: opened})


def shards(
    index: Mapping[str, Any],
    *,
    name: str,
    file: str,
    open_file: Callable[[str], PickledFile],
    folder: Path | None = None,
) -> PickledCheckpoint:
    """Return the checkpoint that an index, read from ``file``, spreads over several files; reads none of them."""
    return PickledCheckpoint(name, MappingProxyType(weight_map(index, name=file, suffix=".bin")), open_file, folder)


def open_pickled(path: Path, *, limits: Limits = DEFAULT_LIMITS, likely: LikelyTables = no_tables) -> PickledCheckpoint:
    """Open a local file that torch.save wrote, or the index of several, ``pytorch_model.bin.index.json``.

    ``likely`` returns those of some tensor names that are read ahead, because they are probably tables.
    """
    name, folder = path.name, path.parent
    parts = other_ranks(f"{folder.name}/{name}", _beside(folder))
    if parts > 1:
        raise CheckpointError(
            f"{folder.name}/{name}: has some rows of every table, for this Megatron-LM checkpoint is in {parts} parts; "
            "convert it to the Hugging Face layout first, for example with export_ckpt of Megatron Bridge"
        )
    open_file = partial(_open_local, folder, Cache.default(limit=limits.cache_bytes), limits, likely)
    if path.suffix == ".json":
        index: dict[str, Any] = read_json(path, limit=limits.header_bytes, kind=dict, unique=True)
        return shards(index, name=name, file=name, open_file=open_file, folder=folder)
    return one_file(name, name=name, open_file=open_file, folder=folder)


def _beside(folder: Path) -> list[str]:
    try:
        return [one.name for one in os.scandir(folder.absolute().parent)]
    except OSError:
        return []


def _open_local(folder: Path, cache: Cache, limits: Limits, likely: LikelyTables, file: str) -> PickledFile:
    path = Path(os.path.abspath(folder / file))
    digest = _digest(path)

    def check() -> None:
        if _digest(path) != digest:
            raise CheckpointError(f"{file}: the file changed since it was opened; open it again")

    identity, size = (str(path), digest), path.stat().st_size
    return PickledFile(file, identity, size, lambda: nullcontext(path), cache, limits, check, likely)


def _digest(path: Path) -> str:
    """Return what tells a file from its later self without reading all of it; raise where it cannot be one of these."""
    try:
        if not path.is_file():
            raise CheckpointError(f"{path.name}: the file is missing, or no regular file")
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            start = file.read(_ENDS)
            file.seek(max(0, status.st_size - _ENDS))
            sha = hashlib.sha256(b"%d %d " % (status.st_size, status.st_mtime_ns) + start + file.read(_ENDS))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path.name}: cannot be read: {str(error)[:80]!r}") from None
    check_start(start[:8], name=path.name)
    return sha.hexdigest()


def check_start(start: bytes, *, name: str) -> None:
    """Raise ``CheckpointError`` where the first (eight) bytes of a file are not of one that torch.save writes."""
    if not start.startswith((b"PK", b"\x80")):
        kind = "the file is empty; download it again" if not start else foreign(start)
        kind = kind or (
            "is no file that torch.save writes; if it belongs to another program, such as CTranslate2 or fastText, use "
            "the checkpoint that it was made from, else download it again"
        )
        raise CheckpointError(f"{name}: {kind}")


@contextmanager
def copied(entry: Entry, *, name: str) -> Iterator[Path]:
    """Give an entry of the cache a path of its own for the length of a block: a child reads it as a file."""
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


class _Child:
    """Hold one conversation with a child that has loaded a file; used in a with statement, after which it is gone."""

    def __init__(self, path: Path, name: str, *, memory: int, seconds: float) -> None:
        self._name, self._seconds, self._late = name, seconds, False
        # -P and a path of our own: no module is taken from the working directory.
        places = [str(Path(__file__).parents[2]), *(place for place in sys.path if os.path.isabs(place))]
        run = f"from {__package__}.pickle_child import serve_pickle; serve_pickle()"
        start = f"import json, sys; sys.path[:] = json.loads(sys.argv[1]); {run}"
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", start, json.dumps(places)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=environment(os.environ),
        )
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self._timer.start()
        self._say({"path": str(path), "memory": memory})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        process = self._process
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()

    def header(self, *, most: int) -> bytes:
        """Return the header that the child makes of the file, of at most ``most`` bytes; nothing of it is checked."""
        size = self._size()
        if size > most:
            self._fail(f"the header may have {most} bytes, this one would have {size}")
        kept = bytearray()
        self._receive(size, kept.extend)
        return bytes(kept)

    def tensor(self, name: str, size: int, sink: Callable[[bytes], object]) -> None:
        """Give the bytes of a tensor to ``sink``."""
        self._say({"tensor": name})
        if (found := self._size()) != size:
            self._fail(f"{name!r:.80} has {found} bytes where its header says {size}")
        self._receive(size, sink)

    def _end(self) -> None:
        self._late = True
        self._process.kill()

    def _fail(self, rule: str) -> NoReturn:
        raise CheckpointError(f"{self._name}: {rule}")

    def _gone(self) -> NoReturn:
        if self._late:
            self._fail(f"loading it took more than {self._seconds:.0f} s and was stopped")
        self._fail("the process that loaded it ended before it was done, perhaps for lack of memory")

    def _say(self, words: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):  # it is gone: its answer will be missing
            self._process.stdin.write(json.dumps(words).encode() + b"\n")
            self._process.stdin.flush()

    def _size(self) -> int:
        """Return the size of the answer that follows; raise what the child says instead."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline(_LINE)
        if not line.endswith(b"\n"):
            self._gone()
        answer = parse_json(line, size=len(line), name=self._name, limit=_LINE, kind=dict)
        size, error = answer.get("bytes"), answer.get("error")
        if isinstance(size, int) and size >= 0:
            return size
        said = one_line(error)[:300]
        return self._fail(said if said.isprintable() else ascii(said))

    def _receive(self, size: int, sink: Callable[[bytes], object]) -> None:
        assert self._process.stdout is not None
        while size:
            part = self._process.stdout.read(min(size, CHUNK))
            if not part:
                self._gone()
            sink(part)
            size -= len(part)


def environment(outer: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a child: what an interpreter needs to start, and no token or secret."""
    kept = {name: outer[name] for name in _ENVIRONMENT if name in outer}
    return kept | {"MALLOC_ARENA_MAX": "2", "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}
