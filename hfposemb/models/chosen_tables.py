"""Which of the possible tables of a role stand for which part of a model, and why one was taken before another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .architectures.table_names import PART_ORDER, Candidate, Role
from .opened_model import Opened, table_axes


def tokens(opened: Opened, found: tuple[Candidate, ...]) -> dict[str, Candidate]:
    """Return the token table, the decoder's if it has its own vocabulary, and that of each part beside the text."""
    if not found:
        return {}
    first, chosen = found[0], {"": found[0]}
    ending = first.tensor.rsplit(".", 2)[-2:]
    if first.part != "decoder" and ending[0] != "shared":
        own = [one for one in found[1:] if one.part == "decoder" and one.tensor.rsplit(".", 2)[-2:] == ending]
        chosen |= {one.part: one for one in own[:1] if one.tensor != first.tensor}
    tensors = {candidate.tensor for candidate in chosen.values()}
    rest = "?token=TENSOR names another"
    others = [one for one in found if one.tensor not in tensors]
    _note_choice(opened, "token", first, others, rest)
    return chosen | {one.part: one for one in reversed(others) if one.part not in (*PART_ORDER, first.part)}


def parts(opened: Opened, role: Role, found: tuple[Candidate, ...]) -> dict[str, Candidate]:
    """Return the tables of each part and axis of the model, by key.

    If several tables have the same key, the best match gets it, and the others are named after their modules, with a
    note.
    """
    chosen: dict[str, Candidate] = {}
    tensors: set[str] = set()
    for candidate in found:
        if candidate.part not in chosen:
            chosen[candidate.part] = candidate
            tensors.add(candidate.tensor)
        elif candidate.tensor not in tensors:
            holder = candidate.tensor.removesuffix(".weight").split(".")
            for depth in (*range(2, len(holder) + 1), 1):
                key = f"{candidate.part}.{holder[-depth]}".strip(".")
                if key not in chosen:
                    chosen[key] = candidate
                    tensors.add(candidate.tensor)
                    break
    several = [one for key, one in chosen.items() if key != one.part]
    if several:
        _note_choice(opened, role, chosen[found[0].part], several, "beside it, by the names of their modules")
    return chosen


def _note_choice(opened: Opened, role: Role, taken: Candidate, others: Sequence[Candidate], rest: str) -> None:
    """Add a note about a choice between several tensors, and why it fell so, so that it is never silent."""
    if others:
        why = taken.why_before(others[0])
        names = ", ".join(one.tensor for one in others)[:200]
        opened.notes.append(f"{role}: using {taken.tensor}{', since ' if why else ''}{why}; {rest}: {names}")


def planes(opened: Opened, parts: Mapping[str, Candidate]) -> dict[str, tuple[Candidate, int | None]]:
    """Return every position table with its plane; a tensor that stacks two tables has one plane for each axis."""
    found: dict[str, tuple[Candidate, int | None]] = {}
    for part, candidate in parts.items():
        axes = table_axes(opened.tensors.info(candidate.tensor))
        if len(axes) == 3 and axes[0] == 2:
            found |= {f"{part}.{axis}".strip("."): (candidate, plane) for plane, axis in enumerate(("x", "y"))}
        else:
            found[part] = (candidate, None)
    return found
