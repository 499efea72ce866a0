"""The named corpus of malformed safetensors files: every one must be refused in one line, cheaply.

Each case is made by a function, so that the large ones cost nothing until they are written.
"""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

DATA = bytes(range(32))
ENTRY = '{"dtype":"F32","shape":[4,2],"data_offsets":[0,32]}'
VALID = '{"__metadata__":{"format":"pt"},"t":' + ENTRY + "}"
BIG = 24_900_000  # just under the header limit


@dataclass(frozen=True)
class Case:
    """Name one malformed file; ``size`` extends it, sparsely, to that many bytes."""

    name: str
    build: Callable[[], bytes]
    size: int = 0
    suffix: str = ".safetensors"

    def write(self, folder: Path) -> Path:
        """Write the file into a folder under its name."""
        path = folder / f"{self.name}{self.suffix}"
        path.write_bytes(self.build())
        if self.size:
            with open(path, "r+b") as file:
                file.truncate(self.size)
        return path


def with_header(header: str | bytes, *, data: bytes = DATA, length: int | None = None) -> bytes:
    """Return a file with this header, whatever it says."""
    text = header.encode() if isinstance(header, str) else header
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def listing(**values: str) -> str:
    """Return a JSON object of values that are JSON already."""
    return "{" + ",".join(f'"{key}":{value}' for key, value in values.items()) + "}"


def valid() -> bytes:
    """Return the file that most cases differ from in one point."""
    return with_header(VALID)


def _headers() -> dict[str, str | bytes]:
    """Return headers that are wrong beside 32 bytes of data."""
    tensor = f'"t":{ENTRY}'

    def part(begin: int, end: int) -> str:
        return f'{{"dtype":"F32","shape":[{(end - begin) // 4}],"data_offsets":[{begin},{end}]}}'

    def field(**changes: str) -> str:
        parts = {"dtype": '"F32"', "shape": "[4,2]", "data_offsets": "[0,32]", **changes}
        return listing(t=listing(**{key: value for key, value in parts.items() if value}))

    return {
        # the text as a whole
        "text-leading-space": f" {VALID}",
        "text-byte-order-mark": b"\xef\xbb\xbf" + VALID.encode(),
        "text-utf-16": VALID.encode("utf-16-le"),
        "text-array": f"[{VALID}]",
        "text-trailing-nul": f"{VALID}\0",
        "text-trailing-newline": f"{VALID}\n",
        "text-trailing-letter": f"{VALID}  x",
        "text-two-objects": VALID + VALID,
        "text-empty-then-letter": "{}x",
        "text-unclosed": VALID[:-1],
        "text-unclosed-entry": VALID[:-2],
        "text-unclosed-string": '{"t',
        "text-trailing-comma": f"{{{tensor},}}",
        "text-leading-comma": f"{{,{tensor}}}",
        "text-no-colon": f'{{"t" {ENTRY}}}',
        "text-form-feed-as-space": f"{{\f{tensor}}}",
        "nesting-arrays": '{"t":' + "[" * 100_000 + "]" * 100_000 + "}",
        "nesting-objects": '{"t":' * 100_000 + "1" + "}" * 100_000,
        "nesting-in-extra-field": field(x="[" * 100_000 + "]" * 100_000),
        # names
        "name-not-utf-8": b'{"\xff\xfe":' + ENTRY.encode() + b"}",
        "name-utf-8-surrogate": b'{"\xed\xa0\x80":' + ENTRY.encode() + b"}",
        "name-lone-surrogate": f'{{"\\ud800":{ENTRY}}}',
        "name-reversed-surrogates": f'{{"\\ude00\\ud83d":{ENTRY}}}',
        "name-control-character": f'{{"a\x01b":{ENTRY}}}',
        "name-raw-newline": f'{{"a\nb":{ENTRY}}}',
        "name-escaped-newline": f'{{"a\\nb":{ENTRY}}}',
        "name-bidi-override": f'{{"\u202etxet":{ENTRY}}}',
        "name-bad-escape": f'{{"\\x41":{ENTRY}}}',
        "name-empty": f'{{"":{ENTRY}}}',
        "name-one-megabyte": f'{{"{"n" * 1_000_000}":{ENTRY}}}',
        "name-reserved-by-escape": f'{{"__metadat\\u0061__":{ENTRY}}}',
        # duplicates
        "duplicate-tensor": f"{{{tensor},{tensor}}}",
        "duplicate-tensor-halves": f'{{"t":{part(0, 16)},"t":{part(16, 32)}}}',
        "duplicate-by-escape": f'{{"t":{part(0, 16)},"\\u0074":{part(16, 32)}}}',
        "duplicate-metadata": f'{{"__metadata__":{{}},"__metadata__":{{}},{tensor}}}',
        "duplicate-metadata-key": f'{{"__metadata__":{{"a":"b","a":"c"}},{tensor}}}',
        "duplicate-dtype": field(shape='[4,2],"dtype":"F32"'),
        "duplicate-shape": field(shape='[4,2],"shape":[4,2]'),
        "duplicate-dtype-for-shape": field(shape="", dtype='"F32","dtype":"F32"'),
        # metadata
        "metadata-text": f'{{"__metadata__":"a",{tensor}}}',
        "metadata-list": f'{{"__metadata__":["a"],{tensor}}}',
        "metadata-number-value": f'{{"__metadata__":{{"a":1}},{tensor}}}',
        "metadata-nested-value": f'{{"__metadata__":{{"a":{{}}}},{tensor}}}',
        "metadata-lone-surrogate": f'{{"__metadata__":{{"a":"\\udfff"}},{tensor}}}',
        "metadata-not-utf-8": b'{"__metadata__":{"a":"\xff"},' + tensor.encode() + b"}",
        "metadata-unclosed": '{"__metadata__":{"a":"b"',
        "metadata-trailing-comma": f'{{"__metadata__":{{"a":"b",}},{tensor}}}',
        "metadata-is-a-tensor": f'{{"__metadata__":{ENTRY}}}',
        # entries
        "entry-null": '{"t":null}',
        "entry-list": '{"t":["F32",[4,2],[0,32]]}',
        "entry-empty": '{"t":{}}',
        "entry-without-dtype": field(dtype=""),
        "entry-without-shape": field(shape=""),
        "entry-without-offsets": field(data_offsets=""),
        "entry-extra-field": field(strides="[2,1]"),
        "entry-escaped-field": VALID.replace('"dtype"', '"d\\u0074ype"'),
        "entry-trailing-comma": VALID.replace("32]}", "32],}"),
        "entry-leading-comma": VALID.replace('{"dtype"', '{,"dtype"'),
        "entry-open-braces": VALID.replace(',"shape"', '{"shape"'),
        # dtypes
        "dtype-lower-case": field(dtype='"f32"'),
        "dtype-empty": field(dtype='""'),
        "dtype-null": field(dtype="null"),
        "dtype-with-nul": field(dtype='"F32\\u0000"'),
        "dtype-one-megabyte": field(dtype='"' + "F" * 1_000_000 + '"'),
        # shapes
        "shape-null": field(shape="null"),
        "shape-of-strings": field(shape='["4","2"]'),
        "shape-negative": field(shape="[-4,-2]"),
        "shape-negative-zero": field(shape="[-0]", data_offsets="[0,0]"),
        "shape-float": field(shape="[4.0,2]"),
        "shape-exponent": field(shape="[4e0,2]"),
        "shape-true": field(shape="[8,true]"),
        "shape-nan": field(shape="[NaN]"),
        "shape-leading-zero": field(shape="[04,2]"),
        "shape-plus-sign": field(shape="[+4,2]"),
        "shape-underscore": field(shape="[0_8]"),
        "shape-trailing-comma": field(shape="[4,2,]"),
        "shape-nested": field(shape="[[4,2]]"),
        "shape-too-small": field(shape="[4,1]"),
        "shape-too-large": field(shape="[4,3]"),
        "shape-2**63": field(shape=f"[{2**63}]"),
        "shape-wraps-to-8": field(shape=f"[{2**64 + 8}]"),
        "shape-product-wraps-to-8": field(shape=f"[{2**61},{2**3},8]"),
        "shape-overflow-before-zero": field(shape=f"[{2**62},{2**62},0]"),
        "shape-overflow-after-zero": field(shape=f"[0,{2**62},{2**62}]"),
        "shape-5000-digits": field(shape=f"[{'9' * 5000}]"),
        "shape-million-digits": field(shape=f"[{'9' * 1_000_000}]"),
        "shape-rank-9": field(shape="[8,1,1,1,1,1,1,1,1]"),
        "shape-rank-100000": field(shape=f"[8{',1' * 99_999}]"),
        # offsets
        "offsets-null": field(data_offsets="null"),
        "offsets-empty": field(data_offsets="[]"),
        "offsets-one": field(data_offsets="[32]"),
        "offsets-three": field(data_offsets="[0,32,32]"),
        "offsets-reversed": field(data_offsets="[32,0]"),
        "offsets-negative": field(data_offsets="[-32,0]"),
        "offsets-float": field(data_offsets="[0.0,32.0]"),
        "offsets-false": field(data_offsets="[false,32]"),
        "offsets-past-the-end": field(shape="[5,2]", data_offsets="[0,40]"),
        "offsets-2**64": field(data_offsets=f"[{2**64},{2**64 + 32}]"),
        "offsets-into-the-header": field(data_offsets=f"[{2**64 - 32},0]"),
        "offsets-do-not-fit-dtype": field(dtype='"F64"'),
        "offsets-half-byte": field(dtype='"F4"', shape="[63]"),
        "offsets-three-quarters": field(dtype='"F6_E2M3"', shape="[43]"),
        "overlap-whole": listing(a=ENTRY, b=ENTRY),
        "overlap-part": listing(a=ENTRY, b=part(8, 24)),
        "overlap-one-byte": listing(a=part(0, 16), b=part(15, 31)),
        "gap-at-the-start": listing(a=part(16, 32)),
        "gap-between": listing(a=part(0, 16), b=part(20, 32)),
        "gap-at-the-end": listing(a=part(0, 16)),
        "gap-no-tensor-at-all": "{}",
        "gap-only-metadata": '{"__metadata__":{"format":"pt"}}',
        "empty-tensor-inside-another": listing(t=ENTRY, z=part(16, 16)),
        "empty-tensor-past-the-end": listing(t=ENTRY, z=part(40, 40)),
    }


def _bulk() -> dict[str, Callable[[], bytes]]:
    """Return headers as large as the limit permits, each expensive to a reader of its own kind."""

    empty = '{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
    newline = r"\n"
    wide = "\U0001f600"  # one such character makes a whole text take four bytes a character

    def many(count: int, *, name: str = "", value: str) -> str:
        return "{" + ",".join(f'"{name}{index}":{value}' for index in range(count)) + "}"

    def metadata(text: str) -> bytes:
        return with_header(listing(__metadata__=text))

    return {
        "bulk-tiny-tensors": lambda: with_header(many(430_000, value=empty)),
        "bulk-wide-names-then-gap": lambda: with_header(many(49_000, name=wide + "n" * 240, value=empty)),
        "bulk-dtypes": lambda: with_header(many(450_000, value='{"dtype":"","dtype":"","dtype":""}')),
        "bulk-metadata-objects": lambda: with_header("{" + '"__metadata__":{},' * (BIG // 18) + "}"),
        "bulk-metadata-pairs": lambda: metadata(many(2_000_000, value='""')),
        "bulk-metadata-most-pairs": lambda: metadata(many(134_000, name="n" * 80, value=f'"{"x" * 80}"')),
        "bulk-metadata-wide-value": lambda: metadata(f'{{"a":"{wide}{"x" * BIG}"}}'),
        "bulk-metadata-wide-values-then-gap": lambda: metadata(many(9_900, value=f'"{wide}{"x" * 980}"')),
        "bulk-metadata-escapes-then-gap": lambda: metadata(f'{{"a":"{wide}{newline * 4_900_000}"}}'),
        "bulk-name": lambda: with_header(f'{{"{wide}{"x" * BIG}":{ENTRY}}}'),
        "bulk-unclosed-string": lambda: with_header('{"' + "x" * BIG),
        "bulk-backslashes": lambda: with_header('{"' + "\\" * BIG),
        "bulk-spaces": lambda: with_header("{" + " " * BIG),
        "bulk-braces": lambda: with_header("{" * BIG),
        "bulk-brackets": lambda: with_header('{"t":' + "[" * BIG),
        "bulk-commas": lambda: with_header('{"t":[' + "," * BIG),
        "bulk-rank": lambda: with_header(VALID.replace("[4,2]", f"[8{',1' * (BIG // 2)}]")),
        "bulk-lists-in-shape": lambda: with_header(VALID.replace("[4,2]", f"[[]{',[]' * (BIG // 3)}]")),
        "bulk-digits": lambda: with_header(VALID.replace("[4,2]", f"[{'9' * BIG}]")),
        "bulk-almost-entries": lambda: with_header('{"t":{"dtype":"F32",' + '"dtype":"F32",' * (BIG // 14)),
    }


def _archive() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("archive/data.pkl", b"x" * 40)
    return made.getvalue()


def _files() -> dict[str, Callable[[], bytes]]:
    """Return files that are wrong as wholes: lengths, truncation, other formats."""
    return {
        "file-empty": lambda: b"",
        "file-empty-with-form-feed": lambda: with_header("{\f}", data=b""),
        "file-empty-with-nul": lambda: with_header("{}\0", data=b""),
        "file-seven-bytes": lambda: valid()[:7],
        "file-eight-bytes": lambda: valid()[:8],
        "file-cut-after-the-header": lambda: valid()[: 8 + len(VALID)],
        "file-cut-by-one-byte": lambda: valid()[:-1],
        "file-one-byte-more": lambda: valid() + b"\0",
        "length-one": lambda: with_header(VALID, length=1),
        "length-one-less": lambda: with_header(VALID, length=len(VALID) - 1),
        "length-one-more": lambda: with_header(VALID, length=len(VALID) + 1),
        "length-past-the-end": lambda: with_header(VALID, length=len(VALID) + len(DATA) + 1),
        "length-2**63": lambda: with_header(VALID, length=2**63),
        "length-wraps-to-zero": lambda: with_header(VALID, length=2**64 - 8),
        "kind-lfs-pointer": lambda: (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 548105171\n"
        ),
        "kind-html": lambda: b"<!DOCTYPE html>\n<html><body>Sign in</body></html>\n",
        "kind-html-after-newlines": lambda: b"\n\n  <html lang=en><body>Sign in</body></html>\n",
        "kind-html-byte-order-mark": lambda: b"\xef\xbb\xbf<html><body>Sign in</body></html>\n",
        "kind-xml": lambda: b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>',
        "kind-gzip": lambda: gzip.compress(valid(), mtime=1_700_000_000),
        "kind-gzip-without-time": lambda: gzip.compress(valid(), mtime=0),
        "kind-gzip-length-fits": lambda: b"\x1f\x8b\x08" + bytes(5) + bytes(0x088B1F + 64),
        "kind-zip": _archive,
        "kind-pickle": lambda: pickle.dumps({"wte.weight": list(range(99))}, protocol=4),
        "kind-pickle-2": lambda: pickle.dumps({"wte.weight": list(range(99))}, protocol=2),
        "kind-gguf": lambda: b"GGUF\x03\0\0\0" + bytes(64),
        "kind-hdf5": lambda: b"\x89HDF\r\n\x1a\n" + bytes(64),
        "kind-plain-text": lambda: b"404: Not Found\n" * 9,
    }


def _build_header(text: str | bytes) -> Callable[[], bytes]:
    return lambda: with_header(text)


CASES: tuple[Case, ...] = (
    *(Case(name, build) for name, build in _files().items()),
    *(Case(f"header-{name}", _build_header(text)) for name, text in _headers().items()),
    *(Case(name, build) for name, build in _bulk().items()),
    Case("length-99-megabytes", lambda: struct.pack("<Q", 99_000_000) + b"{", size=99_000_100),
    Case("length-limit-plus-one", lambda: struct.pack("<Q", 25_000_001) + b"{", size=26_000_000),
    Case("length-limit-of-zeros", lambda: struct.pack("<Q", 25_000_000) + b"{", size=25_000_008),
)
