"""The named corpus of malformed GGUF files, and their building blocks."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import gguf

from hfposemb.checkpoints.file_ranges import LocalRanges
from hfposemb.checkpoints.gguf.checkpoint import GgufCheckpoint, open_gguf
from tests.support.checkpoints.malformed import Case

U8, U32, I32, F32, BOOL, STRING, ARRAY, U64 = 0, 4, 5, 6, 7, 8, 9, 10
TOKENS = "tokenizer.ggml.tokens"


def text(value: str | bytes, length: int | None = None) -> bytes:
    """Return a string with its length, or with another one."""
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw) if length is None else length) + raw


def key(name: str | bytes, kind: int, value: bytes) -> bytes:
    """Return a key with the bytes of its value."""
    return text(name) + struct.pack("<I", kind) + value


def u32(value: int) -> bytes:
    """Return a 32-bit number."""
    return struct.pack("<I", value)


def array(kind: int, count: int, elements: bytes = b"") -> bytes:
    """Return an array that states a number of elements."""
    return struct.pack("<IQ", kind, count) + elements


def texts(values: Sequence[str | bytes]) -> bytes:
    """Return an array of strings."""
    return array(STRING, len(values), b"".join(map(text, values)))


def tensor(
    name: str | bytes = "token_embd.weight", dims: Sequence[int] = (4, 2), kind: int = 0, offset: int = 0
) -> bytes:
    """Return an entry of the list of tensors."""
    return text(name) + struct.pack(f"<I{len(dims)}Q", len(dims), *dims) + struct.pack("<IQ", kind, offset)


KEYS = (
    key("general.architecture", STRING, text("llama")),
    key("general.alignment", U32, u32(32)),
    key(TOKENS, ARRAY, texts(["a", "b"])),
    key("tokenizer.ggml.token_type", ARRAY, array(I32, 2, struct.pack("<2i", 1, 1))),
    key("tokenizer.ggml.merges", ARRAY, texts(["a b"])),
)
TENSORS = (tensor(), tensor("output.weight", (32, 1), 2, 32))
DATA = bytes(range(64))


def head(
    keys: Sequence[bytes] = KEYS,
    tensors: Sequence[bytes] = TENSORS,
    *,
    version: int = 3,
    counts: tuple[int, int] | None = None,
) -> bytes:
    """Return a head of these keys and tensors."""
    stated = counts or (len(tensors), len(keys))
    return b"GGUF" + struct.pack("<IQQ", version, *stated) + b"".join(keys) + b"".join(tensors)


def file(
    keys: Sequence[bytes] = KEYS,
    tensors: Sequence[bytes] = TENSORS,
    *,
    data: bytes = DATA,
    version: int = 3,
    counts: tuple[int, int] | None = None,
) -> bytes:
    """Return a file with this head, its data at the next multiple of 32."""
    start = head(keys, tensors, version=version, counts=counts)
    return start + bytes(-len(start) % 32) + data


def vocabulary(tokens: int, merges: int) -> bytes:
    """Return a head with a vocabulary of this size."""
    words = [f"Ġword{place}" for place in range(tokens)]
    keys = [
        *KEYS[:2],
        key(TOKENS, ARRAY, texts(words)),
        key("tokenizer.ggml.scores", ARRAY, array(F32, tokens, bytes(4 * tokens))),
        key("tokenizer.ggml.token_type", ARRAY, array(I32, tokens, b"\1\0\0\0" * tokens)),
        key("tokenizer.ggml.merges", ARRAY, texts([f"Ġ{place} w" for place in range(merges)])),
    ]
    return file(keys)


def opened(path: Path) -> GgufCheckpoint:
    """Open a file."""
    return open_gguf(LocalRanges.open(path))


def _with_key(name: str | bytes, kind: int, value: bytes) -> Callable[[], bytes]:
    return lambda: file((*KEYS, key(name, kind, value)))


def _with_tensor(entry: bytes) -> Callable[[], bytes]:
    return lambda: file(tensors=(entry,))


def _starts() -> dict[str, Callable[[], bytes]]:
    valid = file()
    return {
        "start-empty": lambda: b"",
        "start-one-byte": lambda: b"G",
        "start-magic-alone": lambda: b"GGUF",
        "start-twenty-bytes": lambda: valid[:20],
        "start-lower-case": lambda: b"gguf" + valid[4:],
        "start-safetensors": lambda: struct.pack("<Q", 2) + b"{}",
        "start-html": lambda: b"<!DOCTYPE html><html>",
        "start-git-lfs": lambda: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        "start-zip": lambda: b"PK\x03\x04" + bytes(60),
        "version-1": lambda: file(version=1),
        "version-4": lambda: file(version=4),
        "version-big-endian": lambda: file(version=3 << 24),
        "count-of-keys-too-large": lambda: file(counts=(2, 6)),
        "count-of-keys-above-the-limit": lambda: file(counts=(2, 10_001)) + bytes(200_000),
        "count-of-tensors-too-large": lambda: file(counts=(3, 5)),
        "count-of-tensors-largest": lambda: file(counts=(2**64 - 1, 5)),
        "count-of-tensors-above-the-limit": lambda: file(counts=(50_001, 5)) + bytes(2_000_000),
        "cut-in-the-keys": lambda: valid[:60],
        "cut-in-the-tokens": lambda: valid[: valid.index(b"tokens") + 30],
        "cut-in-the-tensors": lambda: head()[:-9],
        "cut-before-the-data": head,
        "cut-in-the-data": lambda: file(data=DATA[:40]),
    }


def _keys() -> dict[str, Callable[[], bytes]]:
    aligned = KEYS[:1] + KEYS[2:]

    def alignment(kind: int, value: bytes) -> Callable[[], bytes]:
        return lambda: file((*aligned, key("general.alignment", kind, value)))

    return {
        "key-twice": lambda: file((*KEYS, KEYS[0])),
        "key-empty": _with_key("", U8, b"1"),
        "key-not-utf-8": _with_key(b"\xff\xfe", U8, b"1"),
        "key-with-newline": _with_key("a\nb", U8, b"1"),
        "key-of-300-bytes": _with_key("k" * 300, U8, b"1"),
        "key-length-largest": lambda: file((*KEYS, text("k", 2**64 - 1) + u32(U8) + b"1")),
        "key-of-unknown-type": _with_key("k", 13, bytes(8)),
        "key-of-largest-type": _with_key("k", 2**32 - 1, bytes(8)),
        "bool-of-2": _with_key("k", BOOL, b"\x02"),
        "string-length-largest": _with_key("k", STRING, text("", 2**64 - 1)),
        "string-longer-than-the-file": _with_key("k", STRING, text("", 10_000)),
        "string-not-utf-8": _with_key("k", STRING, text(b"\xc3\x28")),
        "array-of-arrays": _with_key("k", ARRAY, array(ARRAY, 1, array(U8, 1, b"1"))),
        "array-of-unknown-type": _with_key("k", ARRAY, array(13, 1, bytes(8))),
        "array-count-largest": _with_key("k", ARRAY, array(U8, 2**64 - 1)),
        "array-count-overflows": _with_key("k", ARRAY, array(U64, 2**61 + 1)),
        "array-longer-than-the-file": _with_key("k", ARRAY, array(F32, 1000)),
        "array-of-strings-length-overflows": _with_key("k", ARRAY, array(STRING, 2, text("a") + text("", 2**64 - 8))),
        "alignment-0": alignment(U32, u32(0)),
        "alignment-48": alignment(U32, u32(48)),
        "alignment-two-gigabytes": alignment(U32, u32(2**31)),
        "alignment-text": alignment(STRING, text("32")),
        "alignment-array": alignment(ARRAY, array(U32, 1, u32(32))),
    }


def _tensors() -> dict[str, Callable[[], bytes]]:
    second = "output.weight"
    return {
        "tensor-twice": lambda: file(tensors=(tensor(), tensor(offset=32))),
        "tensor-name-empty": _with_tensor(tensor("")),
        "tensor-name-of-65-bytes": _with_tensor(tensor("t" * 65)),
        "tensor-name-not-utf-8": _with_tensor(tensor(b"\xff")),
        "tensor-name-terminal-escape": _with_tensor(tensor("\x1b[2J")),
        "tensor-of-all-axes": lambda: file(tensors=(text("t") + u32(2**32 - 1) + bytes(40),)),
        "tensor-shape-overflows": _with_tensor(tensor(dims=(2**32, 2**32))),
        "tensor-shape-overflows-beside-zero": _with_tensor(tensor(dims=(2**62, 2**62, 0))),
        "tensor-shape-largest": _with_tensor(tensor(dims=(2**64 - 1,))),
        "tensor-type-withdrawn": _with_tensor(tensor(kind=4)),
        "tensor-type-unknown": _with_tensor(tensor(kind=99)),
        "tensor-rows-cut-blocks": _with_tensor(tensor(dims=(33, 1), kind=2)),
        "tensor-rows-cut-super-blocks": _with_tensor(tensor(dims=(32, 8), kind=14)),
        "tensor-offset-unaligned": _with_tensor(tensor(offset=4)),
        "tensor-offset-behind-the-file": _with_tensor(tensor(offset=2**40)),
        "tensor-offset-largest": _with_tensor(tensor(offset=2**64 - 32)),
        "tensor-ends-behind-the-file": _with_tensor(tensor(dims=(4, 5))),
        "tensors-overlap": lambda: file(tensors=(tensor(dims=(4, 3)), tensor(second, (4, 2), 0, 32))),
    }


def _bulk() -> dict[str, Callable[[], bytes]]:
    many = 24_000_000
    return {
        "bulk-keys": lambda: file([key(f"k{place:06}", U8, b"1") for place in range(9_999)], counts=(9, 9_999)),
        "bulk-empty-strings": _with_key("k", ARRAY, array(STRING, many // 8 + 1, bytes(many))),
        "bulk-long-strings": _with_key("k", ARRAY, array(STRING, 10**5, text("x" * 256) * 90_000)),
        "bulk-alternating-strings": _with_key("k", ARRAY, array(STRING, 10**6, (text("") + text("x" * 300)) * 75_000)),
        "bulk-kept-tokens": lambda: file([key(TOKENS, ARRAY, array(STRING, many // 8 + 1, bytes(many)))]),
        "bulk-texts": lambda: file([key(f"k{place}", STRING, text("\U0001f600" * 250_000)) for place in range(24)]),
        "bulk-one-text": _with_key("k", STRING, text("\U0001f600" * 6_000_000, 2**25)),
        "bulk-tensors": lambda: file(tensors=[tensor(f"t{place}") for place in range(50_000)]),
        "bulk-head-above-the-limit": _with_key("k", ARRAY, array(U8, 26_000_000, bytes(26_000_000))),
    }


CASES: tuple[Case, ...] = tuple(
    Case(name, build, suffix=".gguf")
    for part in (_starts(), _keys(), _tensors(), _bulk())
    for name, build in part.items()
)


def finished(writer: gguf.GGUFWriter) -> None:
    """Write the file."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
