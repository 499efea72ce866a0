"""Tables that the user names by their tensors, which one is taken of several, and what is on offer for none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ..checkpoints.formats import ReadTensors
from ..checkpoints.quantised.decoded import table_refusal
from ..checkpoints.safetensors.checkpoint import TensorInfo
from ..checkpoints.stated_roles import stated_roles
from ..checkpoints.torch_module import LiveTensors
from ..errors import InputError
from ..tables.table import EmbeddingTable
from .architectures.table_names import PART_ORDER, Candidate, Role, outside_layers
from .opened_model import Opened, is_table, labels_of, table_axes, table_in_tensor

PLACES: dict[str, tuple[Role, str]] = {
    "token": ("token", ""),
    "token_type": ("token_type", ""),
    "position": ("position", ""),
    "encoder.position": ("position", "encoder"),
    "decoder.position": ("position", "decoder"),
}
"""Tables that a caller can name, with role and part of the model; ``OTHERS`` are named as well."""

HEAD = "head"
TENSOR = "tensor"
OTHERS = (HEAD, TENSOR)
"""Further names: the output head, and any tensor as a table of its own."""

_SHAPES = "[rows, width], [1, rows, width] or [rows, 1, width]"
_LISTED = 5
_MOST_READ = 20_000  # tensors whose shapes are looked at for a message


def named_tables(tensors: ReadTensors, tables: Mapping[str, str]) -> dict[Role, tuple[Candidate, ...]]:
    """Return the tensors named by ``tables``, by role; those of ``OTHERS`` are not among them.

    Args:
        tensors: The tensors of a checkpoint or a live module.
        tables: Maps roles to names, such as ``{"position": "encoder.pe"}``. A name is that of a tensor, or of a module
            with a single table.

    Raises:
        InputError: For unknown roles and names, and for shapes that are not those of a table.
    """
    found: dict[Role, tuple[Candidate, ...]] = {}
    for place, name in tables.items():
        if place not in (*PLACES, *OTHERS):
            raise InputError(f"unknown role {place!r} in tables; the roles are {', '.join((*PLACES, *OTHERS))}")
        if not isinstance(name, str):
            raise InputError(f"tables[{place!r}] must be the name of a tensor or module; got {type(name).__name__}")
        if place in PLACES:
            role, part = PLACES[place]
            found[role] = (*found.get(role, ()), Candidate(tensor_named(tensors, name), part))
    return found


def tensor_named(tensors: ReadTensors, name: str) -> str:
    """Return the name of the table that the name of a tensor or module refers to. Raises ``InputError``."""
    if _has(tensors, name):
        info = tensors.info(name)
        if 0 in info.shape:
            raise InputError(f"{tensors.name}: {table_refusal(tensors, name)}")
        if not _one_table(info):
            raise InputError(
                f"{name} of {tensors.name} has the shape {list(info.shape)}; a table needs {_SHAPES}; "
                "reshape it and use hpe.from_arrays"
            )
        return name
    inside = [one for one in _names(tensors) if one.startswith(f"{name}.")]
    fitting = [one for one in inside if _one_table(tensors.info(one))]
    if f"{name}.weight" in fitting:
        return f"{name}.weight"
    if len(fitting) == 1:
        return fitting[0]
    if inside:
        held = f"several tables, {_listed(fitting)}; name one of them" if fitting else f"no tensor of shape {_SHAPES}"
        raise InputError(f"{name} of {tensors.name} is a module with {held}")
    kinds = "parameter, buffer or module" if isinstance(tensors, LiveTensors) else "tensor or module"
    raise InputError(f"{tensors.name} has no {kinds} {name!r:.80}; {_nearest(tensors, name)}")


def named_tensor(opened: Opened, token: Callable[[], EmbeddingTable] | None, tensor: str) -> EmbeddingTable:
    """Return the table of a tensor that the user named, with the labels of the tokens if it has as many rows."""
    table = table_in_tensor(opened, TENSOR, tensor)
    alike = token is not None and token().shape[0] == table.shape[0]
    return replace(
        table, name=f"{opened.name} {tensor}", named=partial(labels_of, opened, len(table)) if alike else None
    )


def unmatched(opened: Opened, known: str = "") -> str:
    """Return why no table was found by name, after what is ``known`` of the model type, and how to name one."""
    return "; ".join(filter(None, (known, "no tensor name matches", _on_offer(opened))))


def _on_offer(opened: Opened) -> str:
    """Return what a source has instead of a table: its largest tensors of a table's shape, and how to name one.

    From the Hub, no header is fetched for it.
    """
    tensors, names = opened.tensors, opened.tensors.names()
    if not names:
        return "it has no tensors"
    near = outside_layers(names) or names
    known = [name for name in names[:_MOST_READ] if opened.at_hand(name)]
    if looked_up := stated_roles(tensors).absent.get("token"):
        said = looked_up
    elif largest := _largest(tensors, known):
        shown = (f"{name} {list(tensors.info(name).shape)}" for name in largest[:_LISTED])
        said = f"its largest tensors shaped like tables are {', '.join(shown)}"
    elif len(known) < len(names):
        said = f"its tensors include {_listed(near)}"
    else:
        return f"none of its {len(names):,} tensors is shaped like a table; they include {_listed(near)}"
    if isinstance(tensors, LiveTensors):
        return f'{said}; name one: tables={{"token": TENSOR}} or {{"position": TENSOR}}'
    return f"{said}; name one: ?token=TENSOR or ?position=TENSOR after the source's name"


def _largest(tensors: ReadTensors, names: Sequence[str]) -> list[str]:
    tables = [name for name in names if is_table(tensors.info(name)) and tensors.info(name).shape[-1] > 1]
    return sorted(tables, key=lambda name: (-tensors.info(name).nbytes, name))


def _has(tensors: ReadTensors, name: str) -> bool:
    return tensors.has(name) if isinstance(tensors, LiveTensors) else name in tensors.names()


def _names(tensors: ReadTensors) -> tuple[str, ...]:
    return tensors.tensors() if isinstance(tensors, LiveTensors) else tensors.names()


def _one_table(info: TensorInfo) -> bool:
    return len(info.shape) >= 2 and len(table_axes(info)) == 2


def _nearest(tensors: ReadTensors, name: str) -> str:
    """Suggest tables with names similar to a missing one, or else list the tables."""
    live = isinstance(tensors, LiveTensors)
    # The headers of a checkpoint in many files are not read only to suggest a name.
    tables = [one for one in _names(tensors) if not live or _one_table(tensors.info(one))]
    ends = [one for one in tables if one.rpartition(".")[2] == name.rpartition(".")[2]] if live else []
    known = {one.removesuffix(".weight"): one for one in tables} | {one: one for one in tables}
    import difflib

    close = [known[one] for one in difflib.get_close_matches(name, known, n=_LISTED, cutoff=0.5)]
    if nearest := list(dict.fromkeys([*ends, *close])):
        return f"similar names: {_listed(nearest)}"
    return f"its tables are {_listed(outside_layers(tables) or tables)}" if tables else "it has no tables"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(name[:80] for name in names[:_LISTED])
    return shown + (f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else "")


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
    other = 'tables={"token": TENSOR}' if isinstance(opened.tensors, LiveTensors) else "?token=TENSOR"
    rest = f"{other} names another"
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
