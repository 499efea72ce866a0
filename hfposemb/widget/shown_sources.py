"""The sources that a widget shows: what is given, opened, and the table or mechanism that is drawn of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ..errors import HfposembError, InputError
from ..figures.named_figures import is_mechanism, kernel_length
from ..guesses import unknown_choice
from ..models.extraction import extract
from ..tables.embeddings import Embeddings
from ..tables.encodings import PositionEncoding
from ..tables.source_names import names
from ..tables.table import EmbeddingTable
from .selection import Role, Selectable, same_positions, same_tokens

Shown: TypeAlias = "Embeddings | EmbeddingTable | PositionEncoding | str | Path"
"""What can be shown: a source, its name or path, one of its tables, or a position encoding."""

MOST = {"position": 8, "token": 4}
"""Maximum number of sources: a browser has about 16 WebGL contexts, and a map of tokens takes three."""

POSITIONS = 4_096
"""Maximum number of positions drawn of a table."""


@dataclass(frozen=True, eq=False)
class ShownSource:
    """One of the sources.

    Attributes:
        name: Name of the source, different from that of the others.
        place: Its index among those that have rows.
        table: Table that is drawn; ``None`` for mechanisms without rows.
        whole: Number of rows of the table, of which the first are drawn.
        encoding: Mechanism that is drawn; ``None`` for tables.
    """

    name: str
    place: int
    table: EmbeddingTable | None
    whole: int
    encoding: PositionEncoding | None = None

    @property
    def count(self) -> int:
        """Number of rows that can be selected."""
        return self.whole if self.table is None else self.table.shape[0]


def shown_sources(given: Sequence[Shown], role: Role | None) -> tuple[Role, list[ShownSource], list[str]]:
    """Open sources, and choose what is drawn of each.

    Args:
        given: What is given.
        role: ``"position"`` or ``"token"``; by default positions if a source has any, otherwise tokens.

    Returns:
        The role, the sources that have it, and why others are left out.

    Raises:
        InputError: If there is no source, too many of them, none with that role, or the role is unknown.
        HfposembError: If a source cannot be opened.
    """
    if not given:
        raise InputError("show() needs a source, such as show('sample:gpt2', 'sample:bert')")
    for one in given:
        if not isinstance(one, (Embeddings, EmbeddingTable, PositionEncoding, str, Path)):
            raise InputError(
                "show() takes sources, their names, tables and position encodings; make a table of an array first: "
                f"hpe.from_arrays(token=vectors); got {type(one).__name__}"
            )
    if role not in (None, "position", "token"):
        raise unknown_choice("role", role, ("position", "token"))
    opened = [extract(one) if isinstance(one, (str, Path)) else one for one in given]
    wanted: Role = role or ("position" if any(map(_has_positions, opened)) else "token")
    found: list[ShownSource] = []
    left_out: list[str] = []
    for one, name in zip(opened, _names(opened), strict=True):
        try:
            found.append(_shown(one, name, len(found), wanted))
        except HfposembError as error:
            left_out.append(str(error))
    if not found:
        raise InputError(f"no source has {wanted}s to show: {'; '.join(left_out)}")
    if len(found) > MOST[wanted]:
        raise InputError(f"show() draws the {wanted}s of up to {MOST[wanted]} sources; got {len(found)}")
    return wanted, found, left_out


def selectable(role: Role, sources: Sequence[ShownSource]) -> Selectable:
    """Return what can be selected of some sources."""
    tables = {one.name: one.table for one in sources}
    drawn = [one for one in tables.values() if one is not None]
    linked = same_tokens(drawn) if role == "token" else same_positions([one.count for one in sources])
    return Selectable(role, tables, linked)


def _names(opened: Sequence[Embeddings | EmbeddingTable | PositionEncoding]) -> list[str]:
    """Return a distinct name for each source, also for those that are given twice."""
    written = names([str(getattr(one, "name", getattr(one, "kind", "positions"))) for one in opened])
    found: list[str] = []
    for name in written:
        count = sum(one == name or one.startswith(f"{name} (") for one in found)
        found.append(f"{name} ({count + 1})" if count else name)
    return found


def _has_positions(one: Embeddings | EmbeddingTable | PositionEncoding) -> bool:
    if isinstance(one, Embeddings):
        return any(not is_mechanism(part) or part.unit != "none" for part in one.positions.values())
    return not isinstance(one, EmbeddingTable) or one.named is None


def _shown(one: Embeddings | EmbeddingTable | PositionEncoding, name: str, place: int, role: Role) -> ShownSource:
    if isinstance(one, Embeddings):
        one = one.token if role == "token" else one.position
    if isinstance(one, EmbeddingTable):
        whole = one.shape[0]
        part = one if role == "token" or whole <= POSITIONS else one.part(0, POSITIONS)
        return ShownSource(name, place, part, whole)
    if role == "token":
        raise InputError(f"{name} is a position encoding, which has no tokens")
    if not is_mechanism(one):
        return _shown(one.table, name, place, role)
    if one.unit == "none":
        raise InputError(f"{name} has no positions to compare ({one.kind})")
    return ShownSource(name, place, None, kernel_length(one), one)
