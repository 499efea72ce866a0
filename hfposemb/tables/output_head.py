"""Output heads: the table [vocabulary, width] that turns a final vector into one logit per token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from ..lazy_attributes import lazy_attribute
from .table import CHUNK_BYTES, EmbeddingTable, Vectors

How: TypeAlias = Literal[
    "absent", "alias", "same tensor", "configuration", "own tensor", "equal bytes", "different bytes", "no token table"
]

SHOWN = 5
"""Number of differing rows that are named."""


@dataclass(frozen=True)
class Tying:
    """Whether an output head is the token table, and how that was established.

    Attributes:
        tied: Whether head and token table are the same table.
        how: What established it. ``absent``: no head is stored, and the configuration ties it. ``alias``: the file says
            that head and table are one tensor. ``same tensor``: only the head is stored, and the configuration ties it.
            ``configuration``: both are stored, and the configuration ties them; ``OutputHead.tied_by_bytes`` compares.
            ``own tensor``: both are stored, and the configuration does not tie them. ``equal bytes`` and ``different
            bytes``: both were read. ``no token table``: there is nothing to be tied to.
        about: The same as a sentence.
        tensor: Tensor that holds the head.
        token: Role of the token table that the head belongs to, such as ``decoder.token``.
    """

    tied: bool
    how: How
    about: str
    tensor: str = ""
    token: str = "token"

    def __bool__(self) -> bool:
        """Return ``tied``."""
        return self.tied

    def __str__(self) -> str:
        """Say whether it is tied and how that is known."""
        return f"{'tied' if self.tied else 'untied'} ({self.how}): {self.about}"


UNTIED = Tying(False, "no token table", "there is no token table to be tied to")


@dataclass(frozen=True, eq=False)
class OutputHead(EmbeddingTable):
    """Output head of a model: one vector per token, read on first use like every table.

    The logit of a token is the product of its row with the vector that the model computes, plus ``bias`` where there is
    one. The transform that masked models apply before (``cls.predictions.transform``) and classifiers are not part of
    it. Equal to ``get_output_embeddings()`` of transformers.

    Attributes:
        tied: Whether it is the token table, as far as names and configuration tell; nothing is read.
        token: The token table that it belongs to; ``None`` if there is none.
        bias_tensor: Name of the tensor with the bias; ``None`` if there is none.
        read_bias: Reads the bias.

    >>> import hfposemb as hpe
    >>> bert = hpe.extract("sample:bert")
    >>> bert.head.shape, bert.head.tied.tied, bert.head.tied.how
    ((4000, 128), True, 'absent')
    """

    tied: Tying = UNTIED
    token: EmbeddingTable | None = field(default=None, repr=False)
    bias_tensor: str | None = None
    read_bias: Callable[[], Vectors] | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        """Describe the head by name, size, origin and tying, without reading it."""
        tied = "tied" if self.tied else "untied"
        return f"OutputHead({self.name!r}, {self.size}, {self.origin}, {tied})"

    @lazy_attribute
    def bias(self) -> Vectors | None:
        """Bias of each token's logit [vocabulary], read on first use; ``None`` if the head has none."""
        return None if self.read_bias is None else self.read_bias()

    @lazy_attribute
    def tied_by_bytes(self) -> Tying:
        """Whether head and token table hold the same numbers; reads both if they are stored separately.

        transformers ties two stored tables only if they are equal, whatever the configuration says.
        """
        if self.token is None or self.tied.how in ("absent", "alias", "same tensor"):
            return self.tied
        return replace(self.tied, **compared(self, self.token))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle how to read the head, as for every table."""
        return OutputHead, (*super().__reduce__()[1], self.tied, self.token, self.bias_tensor, self.read_bias)


def compared(head: EmbeddingTable, token: EmbeddingTable) -> dict[str, Any]:
    """Return ``tied``, ``how`` and ``about`` of two tables that were read, row by row."""
    names = f"{head.provenance.tensor or 'the head'} and {token.provenance.tensor or 'the token table'}"
    if head.shape[1] != token.shape[1]:
        about = f"{names} have vectors of {head.shape[1]:,} and {token.shape[1]:,} numbers"
        return {"tied": False, "how": "different bytes", "about": about}
    rows = min(head.shape[0], token.shape[0])
    step = max(1, CHUNK_BYTES // (head.shape[1] * 8))
    found: list[int] = []
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        found += (start + _differing(head.rows(start, stop), token.rows(start, stop))).tolist()
    if head.shape[0] != token.shape[0]:
        equal = "the rows of both are equal" if not found else f"{len(found):,} rows of both differ"
        about = f"{names} have {head.shape[0]:,} and {token.shape[0]:,} rows; {equal}"
        return {"tied": False, "how": "different bytes", "about": about}
    if not found:
        return {"tied": True, "how": "equal bytes", "about": f"{names} were read and are equal"}
    listed = ", ".join(map(str, found[:SHOWN])) + (", …" if len(found) > SHOWN else "")
    about = f"{names} were read; {len(found):,} of {rows:,} rows differ: {listed}"
    return {"tied": False, "how": "different bytes", "about": about}


def _differing(first: Vectors, second: Vectors) -> Any:
    """Return the rows of two blocks that are not equal to the bit."""
    if first.dtype != second.dtype:
        first, second = first.astype(np.float64), second.astype(np.float64)
    bits = np.uint32 if first.dtype == np.float32 else np.uint64
    one, other = (np.ascontiguousarray(block).view(bits) for block in (first, second))
    return np.flatnonzero((one != other).any(axis=1))
