"""Bounded reading of JSON and other small files from untrusted sources."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import FileIO
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from ..errors import CheckpointError

MOST_VALUES = 300_000
SHOWN = 80
_T = TypeVar("_T")
CONVERT_ADVICE = "load it with transformers and save it with model.save_pretrained(folder)"
FASTTEXT_ADVICE = "read its vectors with fasttext, model.get_word_vector(word), and pass them to hfposemb.from_arrays"


MAGIC = (
    (b"version ", "is a Git LFS pointer, not the file itself; fetch it with 'git lfs pull'"),
    (b"<", "is an HTML or XML page, not a checkpoint; download the file again"),
    (b"\x1f\x8b", "is gzip-compressed; unpack it first"),
    (b"PK\x03\x04", f"is a zip archive, probably written by torch.save; {CONVERT_ADVICE}"),
    (b"\x80", f"is a Python pickle; {CONVERT_ADVICE}"),
    (b"GGUF", "is a GGUF file; rename it to end in .gguf"),
    (b"\x89HDF", f"is an HDF5 file; {CONVERT_ADVICE}"),
    (b"\xba\x16O/", f"is a model of fastText; {FASTTEXT_ADVICE}"),
)


MOST_NESTED, MOST_NAMES = 3, 5000
# The next separator outside strings; an unclosed string goes on to the end, so that nothing is searched twice.
_SEPARATOR = re.compile(rb'(?:[^",\[{]++|"(?:[^"\\]++|\\.)*+"?)*+([,\[{]|\Z)', re.DOTALL)


def fault(name: str, rule: str) -> CheckpointError:
    """Return a ``CheckpointError`` that names a file and the rule it violates."""
    return CheckpointError(f"{name if name.isprintable() and len(name) <= SHOWN else shortened(name)}: {rule}")


def shortened(value: str | bytes) -> str:
    """Quote untrusted text for a one-line message."""
    shown = repr(value[:SHOWN])
    return shown if len(shown) <= SHOWN else shown[: SHOWN - 1] + "…"


def foreign(start: bytes) -> str | None:
    """Identify another file type by its first (eight) bytes; ``None`` if unknown or if they are a length below 4 GB."""
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if len(start) == 8 and not any(start[4:]) and not start.startswith(b"\x1f\x8b\x08"):
        return None
    return next((kind for magic, kind in MAGIC if text.startswith(magic)), None)


@contextmanager
def open_regular(path: Path) -> Iterator[FileIO]:
    """Open a regular file, unbuffered; a pipe or device could block forever."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise fault(path.name, "is not a regular file")
        with open(path, "rb", buffering=0) as file:
            yield file
    except FileNotFoundError:
        raise fault(path.name, "the file is missing") from None
    except (OSError, ValueError) as error:
        raise fault(path.name, f"cannot be read: {shortened(str(error))}") from None


def parse_json(  # noqa: PLR0913 - keywords with defaults
    raw: bytes,
    *,
    size: int,
    name: str,
    limit: int,
    kind: type[_T],
    unique: bool = False,
    values: int = MOST_VALUES,
    whole: Callable[[str], int] | None = None,
) -> _T:
    """Parse JSON of a given type.

    Args:
        raw: The start of the file, at least all of it if within ``limit``.
        size: Size of the file in bytes.
        name: Name of the file in messages.
        limit: Largest size in bytes; a quarter of it for text that is not ASCII.
        kind: Required type of the value.
        unique: Whether to reject duplicate keys.
        values: Largest number of values.
        whole: Returns a whole number by its digits, or raises ``ValueError``.

    Raises:
        CheckpointError: If the file is too large, not JSON, or of another type.
    """

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(items)
        if len(made) != len(items):
            raise fault(name, "has a duplicate key in an object")
        return made

    # Decoded text that is not ASCII takes up to four times its bytes.
    if size > (limit if raw.isascii() else limit // 4):
        raise fault(name, f"has {size} bytes; the limit is {limit}, or a quarter of that for text that is not ASCII")
    if sum(map(raw.count, (b",", b"[", b"{"))) > values and _separated(raw, values):
        raise fault(name, f"has more than {values} values")
    try:
        found = json.loads(raw.decode("utf-8"), object_pairs_hook=pairs if unique else None, parse_int=whole)
        if b"\\u" in raw:
            json.dumps(found, ensure_ascii=False).encode("utf-8")  # rejects lone surrogates
    except (ValueError, RecursionError) as error:
        raise fault(name, foreign(raw[:8]) or f"is not JSON: {shortened(str(error))}") from None
    if not isinstance(found, kind):
        raise fault(name, f"must be a JSON {kind.__name__}, found {type(found).__name__}")
    return found


def _separated(raw: bytes, values: int) -> bool:
    """Return whether more than so many separators are outside strings."""
    return any(islice((found[1] for found in _SEPARATOR.finditer(raw) if found[1]), values, None))


def read_json(path: Path, *, limit: int, kind: type[_T], unique: bool = False) -> _T:
    """Read JSON of a given type from a file; see ``parse_json``."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        raw = file.read(min(size, limit))
    return parse_json(raw, size=size, name=path.name, limit=limit, kind=kind, unique=unique)
