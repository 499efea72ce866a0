"""Built-in position encodings with a closed form, and the untrained table that serves as null.

Each is an entry of ``BUILTINS``. Those with one row for each position compute only the requested rows, in float64, and
round them to float32; the others are encodings without rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypeAlias, cast
from urllib.parse import urlencode

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, SourceError
from .embeddings import Embeddings
from .encodings import Absolute, Alibi, PositionEncoding, RelativeTable, alibi_slopes
from .rotary import Rotary
from .sources import BuiltinSource
from .table import CHUNK_BYTES, EmbeddingTable, Provenance, Vectors

MOST_ROWS = 1_000_000
MOST_COLUMNS = 65_536
MOST_BYTES = 2**31
"""Size limit of a table, as float32."""

MOST_RELATIVE = 2**22
"""Maximum of distances × width of an encoding whose rows are all computed at once."""

Layout: TypeAlias = Literal["interleaved", "concatenated", "tensor2tensor"]
LAYOUTS: tuple[Layout, ...] = ("interleaved", "concatenated", "tensor2tensor")

Value: TypeAlias = float | int | str


@dataclass(frozen=True)
class Number:
    """Option with a finite numeric value from ``low`` to ``high``; an integer if ``whole``."""

    default: float | int
    low: float
    high: float
    whole: bool = False

    @property
    def allowed(self) -> str:
        """Allowed values, as part of an error message."""
        return (
            f"a whole number from {self.low} to {self.high}"
            if self.whole
            else f"a number from {self.low:g} to {self.high:g}"
        )

    def read(self, value: object) -> Value:
        """Return the number given as a number or as text. Raises ``ValueError`` if it is not allowed."""
        if isinstance(value, bool) or not isinstance(value, (str, int, float, np.integer, np.floating)):
            raise ValueError(self.allowed)
        if isinstance(value, str) and (len(value) > 40 or not value.isascii() or "_" in value):
            raise ValueError(self.allowed)
        # Seeds pass through int, since a float holds them exactly only up to 2**53.
        number = int(value) if self.whole and not isinstance(value, (float, np.floating)) else float(value)
        if not self.low <= number <= self.high or (self.whole and number != int(number)):
            raise ValueError(self.allowed)
        return int(number) if self.whole else number


@dataclass(frozen=True)
class Choice:
    """Option with a value among ``names``; the first is the default."""

    names: tuple[str, ...]

    @property
    def default(self) -> str:
        """The first name."""
        return self.names[0]

    @property
    def allowed(self) -> str:
        """Allowed values, as part of an error message."""
        return " or ".join(self.names)

    def read(self, value: object) -> Value:
        """Return ``value`` if it is one of the names. Raises ``ValueError`` otherwise."""
        if value not in self.names:
            raise ValueError(self.allowed)
        return value


@dataclass(frozen=True)
class Form:
    """Parameters of one computed table: its shape, its role and all options of its built-in."""

    rows: int
    width: int
    role: str
    options: Mapping[str, Value]

    def number(self, option: str) -> float:
        """Return a numeric option as a float."""
        return float(self.options[option])


Rows: TypeAlias = Callable[[Form, int, int], NDArray[np.float64]]
"""Computes rows ``[start, stop)`` [stop − start, width] of a form."""


Encoded: TypeAlias = Callable[[Form], PositionEncoding]
"""Makes the encoding of a form without one row for each position."""


@dataclass(frozen=True)
class Builtin:
    """Definition of a built-in.

    Attributes:
        formula: The formula, as text.
        about: Origin and properties, as text.
        rows: Computes rows; ``None`` for built-ins without one row for each position.
        encoding: Makes the encoding; ``None`` for built-ins with ``rows``.
        kind: Kind of the ``Absolute`` encoding made from ``rows``.
        options: Options of the source name, by name.
        roles: Roles of the tables made from ``rows``.
    """

    formula: str
    about: str
    rows: Rows | None = None
    encoding: Encoded | None = None
    kind: Literal["learned", "sinusoidal", "fixed"] = "fixed"
    options: Mapping[str, Number | Choice] = field(default_factory=dict)
    roles: tuple[str, ...] = ("position",)


def sine_rows(
    start: int, stop: int, width: int, *, base: float = 10000.0, layout: Layout = "interleaved", offset: int = 0
) -> NDArray[np.float64]:
    """Compute the sinusoids of positions ``[start, stop)`` at the angles ω_i (t + ``offset``).

    Layouts:
        - ``interleaved``: ω_i = base^(−2i/width), columns sin ω_0, cos ω_0, sin ω_1, … (Vaswani et al. 2017,
          arXiv 1706.03762).
        - ``concatenated``: the same ω, all sines and then all cosines (Marian, CTRL, RoFormer).
        - ``tensor2tensor``: ω_i = base^(−i/(h − 1)) with h = width // 2, all sines and then all cosines (tensor2tensor;
          fairseq: M2M100 and XGLM with an offset of 2; Whisper's encoder with none).

    An odd width has one more sine than cosines or, in ``tensor2tensor``, a last column of zeros, as in the originals.

    Args:
        start: First position.
        stop: End of the positions, exclusive.
        width: Number of columns.
        base: Base of the geometric sequence of frequencies.
        layout: Order of columns and spacing of frequencies.
        offset: Added to every position.

    Returns:
        Sinusoids [stop − start, width] in float64.
    """
    half = width // 2 if layout == "tensor2tensor" else (width + 1) // 2
    # As in tensor2tensor, divide by at least 1; transformers fails for widths 2 and 3.
    exponents = np.arange(half) / max(half - 1, 1) if layout == "tensor2tensor" else 2 * np.arange(half) / width
    angles = np.multiply.outer(np.arange(start + offset, stop + offset, dtype=np.float64), base**-exponents)
    out = np.zeros((stop - start, width))
    cosines = width // 2
    if layout == "interleaved":
        out[:, 0::2], out[:, 1::2] = np.sin(angles), np.cos(angles[:, :cosines])
    else:
        out[:, :half], out[:, half : half + cosines] = np.sin(angles), np.cos(angles[:, :cosines])
    return out


def _sines(form: Form, start: int, stop: int) -> NDArray[np.float64]:
    layout = cast(Layout, form.options["layout"])
    return sine_rows(
        start, stop, form.width, base=form.number("base"), layout=layout, offset=int(form.options["offset"])
    )


_DRAWN_AT_ONCE = 2**16
"""Numbers that each generator of ``random`` draws. It determines what a seed produces, so it must never change."""


def _drawn(form: Form, start: int, stop: int) -> NDArray[np.float64]:
    # Rows are drawn in blocks, each with a generator seeded by (seed, role, block), so that a row depends neither on
    # the range that is read nor on the length of the table.
    block = max(1, _DRAWN_AT_ONCE // form.width)
    out = np.empty((stop - start, form.width))
    for number in range(start // block, -(-stop // block)):
        seed = [int(form.options["seed"]), ("position", "token").index(form.role), number]
        first = max(start, number * block)
        last = min(stop, (number + 1) * block)
        drawn = np.random.default_rng(seed).standard_normal((last - number * block, form.width))
        out[first - start : last - start] = drawn[first - number * block :]
    return out * form.number("std")


def _alike(value: Callable[[Form, NDArray[np.float64]], NDArray[np.float64]]) -> Rows:
    """Return a row function whose components are all ``value`` of the position."""

    def rows(form: Form, start: int, stop: int) -> NDArray[np.float64]:
        column = value(form, np.arange(start, stop, dtype=np.float64))
        return np.broadcast_to(column[:, None], (stop - start, form.width))

    return rows


def _rotary(form: Form) -> Rotary:
    if form.width % 2:
        raise InputError(f"rotary needs an even number of dimensions, as it rotates pairs; got {form.width:,}")
    frequencies = form.number("theta") ** -(np.arange(0, form.width, 2) / form.width) / form.number("factor")
    layout = cast(Literal["half", "interleaved"], form.options["layout"])
    return Rotary(np.asarray(frequencies, np.float64), form.rows, layout=layout)


def relative_sines(reach: int, width: int, length: int, *, base: float = 10000.0) -> RelativeTable:
    """Return the sinusoids of distances that Transformer-XL projects and adds to keys (Dai et al. 2019, 1901.02860).

    Args:
        reach: Distances have a row from −reach + 1 to reach − 1.
        width: Number of columns.
        length: Number of positions drawn by default.
        base: Base of the geometric sequence of frequencies.
    """
    # The sinusoid of −t is that of t with negated sines; the angles are those of query − key.
    rows = sine_rows(0, reach, width, base=base, layout="concatenated")
    turned = rows * np.where(np.arange(width) < (width + 1) // 2, -1.0, 1.0)
    distances = np.arange(-reach + 1, reach)
    return RelativeTable(np.concatenate([rows[::-1], turned[1:]]), distances, length, clipped=False)


def _relative(form: Form) -> RelativeTable:
    if form.rows * form.width > MOST_RELATIVE:
        raise InputError(
            f"relative-sinusoidal holds all its rows, at most {MOST_RELATIVE:,} numbers; got {form.rows:,} × "
            f"{form.width:,}; give fewer distances or a smaller width"
        )
    return relative_sines(form.rows, form.width, form.rows, base=form.number("base"))


BUILTINS: Mapping[str, Builtin] = {
    "sinusoidal": Builtin(
        formula="sin and cos of ω_i·t, with ω_i decreasing geometrically from 1 towards 1/base",
        about="The encoding of Vaswani et al. 2017: a shift of the position is a rotation of every pair of components.",
        rows=_sines,
        kind="sinusoidal",
        options={
            "base": Number(10000.0, 1.0, 1e12),
            "layout": Choice(LAYOUTS),
            "offset": Number(0, 0, MOST_ROWS, whole=True),
        },
    ),
    "rotary": Builtin(
        formula="pair i of a query or key rotates by θ^(−2i/d)/factor per position, with d rotated dimensions",
        about="The rotations of Su et al. 2021, as positions × rotated dimensions of a head; a factor stretches the "
        "wavelengths for longer inputs. Nothing is added to tokens: .position.table has the cosines and sines.",
        encoding=_rotary,
        options={
            "theta": Number(10000.0, 1.0, 1e12),
            "layout": Choice(("half", "interleaved")),
            "factor": Number(1.0, 1e-6, 1e6),
        },
    ),
    "alibi": Builtin(
        formula="each head adds −slope·|distance| to its scores, with a power of 2 as its slope",
        about="The biases of Press et al. 2022, as positions × heads. Nothing is added to tokens, so there are no "
        "position vectors.",
        encoding=lambda form: Alibi(alibi_slopes(form.width), form.rows),
    ),
    "relative-sinusoidal": Builtin(
        formula="sin and cos of ω_i·(query − key), the sinusoid of a distance",
        about="The relative encoding of Dai et al. 2019 (Transformer-XL) before its learned projection, as distances × "
        "width: a row belongs to a distance, not to a position, and is added to keys within attention.",
        encoding=_relative,
        options={"base": Number(10000.0, 1.0, 1e12)},
    ),
    "random": Builtin(
        formula="independent draws from N(0, std²)",
        about="An untrained table, the null that other tables are compared with; its token table is a second, "
        "independent draw of the same shape.",
        rows=_drawn,
        kind="learned",
        options={"std": Number(0.02, 1e-12, 1e6), "seed": Number(0, 0, 2**63 - 1, whole=True)},
        roles=("position", "token"),
    ),
    "counting": Builtin(
        formula="every component is t",
        about="Discarded because it grows without bound: late positions outweigh the words, and longer texts give "
        "values not seen in training.",
        rows=_alike(lambda form, t: t),
    ),
    "normalised": Builtin(
        formula="every component is t/(n − 1), with n rows",
        about="Discarded because its step depends on the length: the same value means different positions in texts of "
        "different lengths.",
        rows=_alike(lambda form, t: t / max(form.rows - 1, 1)),
    ),
    "sigmoid": Builtin(
        formula="every component is 1/(1 + e^(−t))",
        about="Discarded because it saturates: after about 17 positions, neighbouring positions are equal in float32.",
        rows=_alike(lambda form, t: 1 / (1 + np.exp(-t))),
    ),
    "single-sine": Builtin(
        formula="every component is sin(ω·t), with the same ω",
        about="Discarded because it repeats: positions a period 2π/ω apart are equal, and a smaller ω that avoids this "
        "makes neighbours nearly equal.",
        rows=_alike(lambda form, t: np.sin(form.number("omega") * t)),
        options={"omega": Number(1.0, 1e-9, math.pi)},
    ),
}
"""Every built-in, by the name that its source starts with."""


def _read(name: str, form: Form, start: int, stop: int) -> Vectors:
    """Compute rows ``[start, stop)`` of a built-in."""
    compute = BUILTINS[name].rows
    assert compute is not None
    # Computed in chunks, to keep the float64 intermediate small.
    step = max(1, CHUNK_BYTES // (8 * form.width))
    out = np.empty((stop - start, form.width), np.float32)
    for first in range(start, stop, step):
        last = min(first + step, stop)
        out[first - start : last - start] = compute(form, first, last)
    out.flags.writeable = False
    return out


def _checked_size(rows: object, width: object) -> tuple[int, int]:
    if (
        isinstance(rows, bool)
        or isinstance(width, bool)
        or not all(isinstance(n, (int, np.integer)) for n in (rows, width))
    ):
        raise InputError(f"rows and width must be whole numbers; got {rows!r:.40} and {width!r:.40}")
    n, d = int(cast(int, rows)), int(cast(int, width))
    if not (1 <= n <= MOST_ROWS and 1 <= d <= MOST_COLUMNS):
        raise InputError(
            f"a table of {n:,} × {d:,} is out of range; use 1 to {MOST_ROWS:,} rows of width 1 to {MOST_COLUMNS:,}"
        )
    if (size := 4 * n * d) > MOST_BYTES:
        raise InputError(
            f"a table of {n:,} × {d:,} takes {size / 2**30:.1f} GB as float32; the limit is {MOST_BYTES / 2**30:g} GB; "
            f"use at most {MOST_BYTES // (4 * d):,} rows of this width"
        )
    return n, d


def _checked_options(name: str, given: Mapping[str, object]) -> dict[str, Value]:
    known = BUILTINS[name].options
    if unknown := [option for option in given if option not in known]:
        raise InputError(f"{name} has no option {unknown[0]!r:.40}; its options are {', '.join(known) or 'none'}")
    options: dict[str, Value] = {option: rule.default for option, rule in known.items()}
    for option, value in given.items():
        try:
            options[option] = known[option].read(value)
        except (ValueError, OverflowError) as error:
            raise InputError(f"{option} of {name} must be {known[option].allowed}; got {value!r:.40}") from error
    return options


_ABSENT = {
    "token": "it is a formula for positions, so it has no vocabulary; use random: for an untrained token table",
    "token_type": "a built-in has no token types",
    "inputs": "a built-in is not a model",
}


def _embeddings(name: str, rows: object, width: object, given: Mapping[str, object]) -> Embeddings:
    builtin = BUILTINS[name]
    n, d = _checked_size(rows, width)
    options = _checked_options(name, given)
    if options.get("layout") == "tensor2tensor" and d < 2:
        raise InputError("the layout tensor2tensor needs a width of at least 2")
    source = f"{name}:{n}x{d}" + (f"?{urlencode({key: str(given[key]) for key in given})}" if given else "")
    offset = int(options.get("offset", 0))
    tables: dict[str, EmbeddingTable] = {}
    if builtin.rows is not None:
        for role in builtin.roles:
            provenance = Provenance(source, nbytes=4 * n * d, row_offset=offset, notes=(builtin.formula,))
            reader = partial(_read, name, Form(n, d, role, options))
            tables[role] = EmbeddingTable(f"{source} {role}s", (n, d), np.dtype(np.float32), provenance, reader)
    if builtin.encoding is None:
        encoding: PositionEncoding = Absolute(tables["position"], kind=builtin.kind, offset=offset)
    else:
        encoding = builtin.encoding(Form(n, d, "position", options))
    told = (
        "are not stored; .position.table has their cos and sin"
        if encoding.has_table
        else "have no vector for a position"
    )
    absent = _ABSENT | {"position": f"{encoding.kind} positions {told}"}
    return Embeddings(
        name=source,
        tables=tables,
        positions={"position": encoding},
        config={"builtin": name, "rows": n, "width": d, **options},
        absent=absent,
        notes=(builtin.formula, builtin.about),
    )


def from_source(source: BuiltinSource) -> Embeddings:
    """Return the embeddings of a built-in source; rows are computed when they are read.

    Raises:
        SourceError: For unknown names, options and values, and for sizes out of range.
    """
    if source.name not in BUILTINS:
        raise SourceError(f"unknown built-in {source.name!r:.40}; the built-ins are {', '.join(BUILTINS)}")
    try:
        return _embeddings(source.name, source.rows, source.width, source.options)
    except InputError as error:
        raise SourceError(str(error)) from error


def sinusoidal(
    length: int, width: int, *, base: float = 10000.0, layout: Layout = "interleaved", offset: int = 0
) -> Embeddings:
    """Return the sinusoidal position encoding (Vaswani et al. 2017, arXiv 1706.03762).

    ``sine_rows`` states the formula of each layout.

    Args:
        length: Number of positions.
        width: Width of the vectors.
        base: Base of the geometric sequence of frequencies.
        layout: ``interleaved`` as in the paper, ``concatenated`` (Marian, CTRL, RoFormer) or ``tensor2tensor``
            (fairseq, Whisper).
        offset: Added to every position, so row 0 of ``.position.table`` has the angles ω · offset; 2 for M2M100 and
            XGLM.

    Returns:
        Embeddings with a ``position`` table [length, width] and no token table.

    Raises:
        InputError: For options and sizes out of range.

    >>> import hfposemb as hpe
    >>> hpe.sinusoidal(64, 16).position.table.vectors.shape
    (64, 16)
    """
    asked = {"base": base, "layout": layout, "offset": offset}
    rules = BUILTINS["sinusoidal"].options
    return _embeddings(
        "sinusoidal", length, width, {key: value for key, value in asked.items() if value != rules[key].default}
    )
