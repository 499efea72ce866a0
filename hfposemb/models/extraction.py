"""Extraction of embeddings from a source: combines parsing, readers, families, labels and recipes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..checkpoints.access import Access, Visitor
from ..checkpoints.adapters.adapted import ORIGINAL, Adapter, adapter_of, may_be_adapter
from ..checkpoints.gguf.config import ARCHITECTURE, ARCHITECTURES
from ..checkpoints.limits import DEFAULT_LIMITS, Limits
from ..checkpoints.quantised.decoded import table_refusal
from ..checkpoints.safetensors.checkpoint import Checkpoint, TensorInfo
from ..checkpoints.stated_roles import stated_roles
from ..errors import InputError, MissingTableError, SourceError
from ..tables.embeddings import Embeddings, LazyMapping
from ..tables.encodings import Absolute, PositionEncoding
from ..tables.source_parser import parse_source, source_of
from ..tables.sources import BuiltinSource, HubSource, LocalSource, SampleSource, Source
from ..tables.table import EmbeddingTable
from ..text import one_line
from . import row_checks
from .architectures.config_values import class_of
from .architectures.families import is_known, likely_tables, no_inputs, parts_fed, row_offset
from .architectures.head_names import SURE_HEADS, head_candidates, is_headed
from .architectures.table_names import (
    NEXT_TOKEN,
    PART_ORDER,
    ROLES,
    Candidate,
    Role,
    candidates,
    outside_layers,
    tower_of,
)
from .architectures.tied_types import is_tied, unread_shared
from .architectures.type_defaults import extended_type, type_of_class
from .lookups.finding import find_lookups, tokenizer
from .named_tables import TENSOR, named_tables, named_tensor, parts, planes, tensor_named, tokens, unmatched
from .native_configs import NATIVE, with_exported_tables, with_native_config
from .opened_model import Opened, is_table, itself, labels_of_target, marks_of, not_missing, table_in_tensor
from .opening import open_here, open_repository
from .output_heads import find_heads
from .positions.position_mechanisms import absolute, keys, mechanisms, read_tables, unplaced

if TYPE_CHECKING:
    import torch

    from ..checkpoints.torch_module import LiveTensors
    from ..tables.attention import Attention
    from ..tables.inputs import InputRecipe
    from ..tables.token_marks import TokenMarks
    from .given_labels import Tokenizer


def extract(  # noqa: PLR0913 - keywords with defaults
    source: str | Path | Source | torch.nn.Module,
    *,
    revision: str | None = None,
    token: str | bool | Visitor | None = None,
    allow_full_download: bool = False,
    limits: Limits = DEFAULT_LIMITS,
    tokenizer: Tokenizer | None = None,
    tables: Mapping[str, str] | None = None,
    name: str | None = None,
    rows: Sequence[int | str] | None = None,
    base: str | Path | bool | None = None,
) -> Embeddings:
    """Open a source and return its embeddings; tables are read on first use.

    Args:
        source: A name such as ``openai-community/gpt2``, ``./folder``, ``sample:bert`` or ``sinusoidal:1024x768``; a
            path; or any ``torch.nn.Module`` that contains ``nn.Embedding``s.
        revision: Branch, tag or commit of a repository on the Hub.
        token: Token for the Hub; ``None`` for the user's own, ``False`` for none, a ``Visitor`` for somebody else's.
        allow_full_download: Whether to download whole files if a server does not support ranges, or if there are only
            pickles, which cannot be read in part.
        limits: Limits of what is read, for local files too.
        tokenizer: Labels for the tokens, instead of the checkpoint's own: a tokenizer of transformers or tokenizers, a
            list of labels, or a dictionary between labels and row numbers.
        tables: Tensors of tables, instead of those that would be found, such as ``{"position": "encoder.pe"}``: maps
            ``token``, ``token_type``, ``position``, ``encoder.position``, ``decoder.position`` or ``head`` to the name
            of a tensor, or of a module, of shape [rows, width], [1, rows, width] or [rows, 1, width]; ``tensor`` adds
            any other tensor as ``tables["tensor"]``. The name of a source can say the same:
            ``./folder?position=encoder.pe``.
        rows: Labels or row numbers of tokens; the token table and the output head are restricted to them, and only
            these rows are read.
        base: Source that a PEFT adapter is applied to as rows are read, ``True`` for the one that it names. Without it,
            only the tables that the adapter contains are read, and nothing is fetched of its base model.
        name: Name of the source in figures.

    Returns:
        The tables and position encodings. Files written by torch.save are read, with torch, if there are no
        safetensors.

    Raises:
        SourceError: If the source cannot be found or read.
        MissingTableError: If no table and no position encoding is found in it.
        InputError: If a table or labels do not fit the source.

    >>> import hfposemb as hpe
    >>> hpe.extract("sample:gpt2").token.shape
    (4000, 128)
    >>> import torch
    >>> layer = torch.nn.Embedding(2, 8)
    >>> hpe.extract(layer, tokenizer=["yes", "no"], name="mine").token["no"].shape
    (8,)
    >>> hpe.extract("sample:gpt2", rows=["king", "queen"]).token
    EmbeddingTable('sample:gpt2 tokens', 2 × 128 float32, transformer.wte.weight of model.safetensors, stored as F16)
    """
    named = source_of(source) if isinstance(source, str | Path) else source
    applied_to = base if isinstance(base, bool) else source_of(base) if base else None
    given = _Given(tables or {}, tokenizer, name, applied_to)
    access = Access(token, limits, allow_full_download, likely=likely_tables)
    access.check(*given.names(named))
    if isinstance(named, HubSource):
        found = _from_hub(_at(named, revision), access, given)
    else:
        found = _from_here(named, access, given)
    return found if rows is None else found.with_rows(rows)


def _from_here(
    source: LocalSource | BuiltinSource | SampleSource | torch.nn.Module, access: Access, given: _Given
) -> Embeddings:
    """Return the embeddings of any source but a repository on the Hub."""
    if isinstance(source, (BuiltinSource, SampleSource)) and given:
        given_for = "tokenizer, tables, name and base apply to checkpoints and torch modules"
        raise InputError(f"{given_for}, not to {source.name}")
    match source:
        case LocalSource():
            return _opened_files(open_here(source, access), source, access, given)
        case SampleSource():
            return _from_sample(source)
        case BuiltinSource():
            from ..tables.closed_forms import from_source

            return from_source(source)
    if _is_module(source):
        from ..checkpoints.torch_module import open_module

        return _from_module(open_module(source, name=given.name), given)
    raise SourceError(f"source must be a name, a path or a torch module; got {type(source).__name__}{_in_hand(source)}")


def _is_module(given: object) -> bool:
    """Return whether an object is a torch module, without importing torch."""
    return hasattr(given, "state_dict") and hasattr(given, "named_modules") and not isinstance(given, type)


def _in_hand(given: object) -> str:
    """Return how to open what a caller holds in memory: an array, or the state of a module."""
    if isinstance(given, Mapping):
        names = [one for one in given if isinstance(one, str)]
        named = next((one.tensor for one in candidates(names, "token")), names[0] if names else "NAME")
        return f"; call from_arrays(token=state[{named[:80]!r}])"
    if isinstance(given, type):
        return f"; {given.__name__} is a class: give a model, such as {given.__name__}.from_pretrained('owner/name')"
    if isinstance(given, (list, tuple)) and all(isinstance(one, str | Path) for one in given):
        return "; open each: [hpe.extract(one) for one in names]"
    if isinstance(given, Embeddings):
        return ", which is open already; use it as it is"
    if _is_module(getattr(given, "model", None)):  # of pipelines and trainers
        return "; give its .model"
    if hasattr(given, "shape") or isinstance(given, (list, tuple)):
        return "; for vectors in memory call from_arrays(token=…)"
    name = getattr(given, "name_or_path", None)  # of configurations and tokenizers of transformers
    return f"; write hpe.extract({name!r:.80})" if name and isinstance(name, str) else ""


_MOMENTS, _MOMENT = "positions.safetensors", "step-"


def sample_steps(name: str) -> list[int]:
    """Return the training steps of which a sample has snapshots."""
    from ..samples import check_trained, folder

    check_trained(name)
    names = Checkpoint.open(folder(name) / _MOMENTS).names()
    return sorted(int(tensor.removeprefix(_MOMENT)) for tensor in names)


def _from_sample(sample: SampleSource) -> Embeddings:
    from ..samples import check_trained, folder

    if sample.step is None:
        return _from_files(open_here(sample, Access()))
    check_trained(sample.name)
    moments = Checkpoint.open(folder(sample.name) / _MOMENTS)
    tensor = f"{_MOMENT}{sample.step}"
    if tensor not in moments.names():
        steps = ", ".join(map(str, sample_steps(sample.name)))
        raise SourceError(f"sample:{sample.name} has no snapshot {tensor}; its steps are {steps}")
    name = f"sample:{sample.name}@{tensor}"
    table = table_in_tensor(Opened(moments, name), "position", tensor)
    absent = {"token": "the snapshots of the training hold the position table only"}
    return Embeddings(name, {"position": table}, {"position": Absolute(table)}, absent=absent)


def _at(source: HubSource, revision: str | None) -> HubSource:
    """Return a repository at the revision passed as an argument."""
    if revision is None:
        return source
    if source.revision is not None:
        raise SourceError(f"the revision is given twice, {source.revision!r} and {revision!r}; give it once")
    parse_source(f"{source.repo}@{revision}")  # raises if it is no revision
    return source.at(revision)


def _from_hub(source: HubSource, access: Access, given: _Given) -> Embeddings:
    from ..checkpoints.deadline import one_read

    with one_read(access.limits.seconds):
        opened, traffic = open_repository(source, access)
        return replace(_opened_files(opened, source, replace(access, traffic=traffic), given), traffic=traffic)


def of_opened(opened: Opened, source: LocalSource | HubSource | SampleSource, access: Access) -> Embeddings:
    """Return the embeddings of a source that is already open, even if no table is found.

    Args:
        opened: The opened source.
        source: What it was opened from; a sample at the end of its training.
        access: Who reads it, within which limits; ``traffic`` counts the requests so far.
    """
    from ..checkpoints.deadline import one_read

    if isinstance(source, SampleSource):
        return _from_files(opened)
    with one_read(access.limits.seconds):
        found = _opened_files(opened, source, access, _Given({}, None, None, empty=True))
        return replace(found, traffic=access.traffic)


def _opened_files(opened: Opened, source: LocalSource | HubSource, access: Access, given: _Given) -> Embeddings:
    """Return the embeddings of an opened source, on its base model if it is an adapter and one is named."""
    base = given.base or source.base
    if base:
        from .applied_adapters import apply_adapter, named_base, open_base

        named = named_base(opened, isinstance(source, HubSource)) if base is True else base
        opened = apply_adapter(opened, open_base(named, access))
    return _from_files(given.applied(opened, source.tables), empty=given.empty)


def base_of(adapter: str | Path, *, revision: str | None = None) -> str:
    """Return the base model that the configuration of an adapter names.

    Args:
        adapter: Name or path of the adapter.
        revision: Branch, tag or commit of a repository on the Hub.

    Raises:
        SourceError: If it cannot be opened.
        InputError: If it names no base model.
    """
    from .applied_adapters import named_base

    named, access = source_of(adapter), Access(likely=likely_tables)
    if isinstance(named, HubSource):
        return str(named_base(open_repository(_at(named, revision), access)[0], on_hub=True))
    if not isinstance(named, LocalSource):
        raise InputError(f"{str(adapter)[:80]!r} is not an adapter")
    return str(named_base(open_here(named, access), on_hub=False))


def _from_files(opened: Opened, *, empty: bool = False) -> Embeddings:
    opened = with_exported_tables(with_native_config(opened))
    kind, other = opened.config.get("model_type"), extended_type(opened.config)
    inferred = other or (type_of_class(opened.config) if kind is None else "")
    if inferred:
        opened = replace(opened, config={**opened.config, "model_type": inferred})
        stated = "no model type" if kind is None else f"the model type {str(kind)[:40]!r}"
        which = f"its class {one_line(class_of(opened.config), width=100)}"
        how = "is other code, read as" if other else "is one of"
        opened.notes.append(f"config.json states {stated}; {which} {how} {inferred}")
    config = opened.config
    opened.notes.extend(row_checks.of_shard(opened.name))
    if not config:
        how = stated_roles(opened.tensors).how or "by tensor name"
        opened.notes.append(f"there is no config.json: tables were identified {how}, and positions start at row 0")
    elif not is_known(config) and str(config.get("model_type")) not in NATIVE:
        kind = config.get("model_type")
        what = "config.json states no model type" if kind is None else f"the model type {str(kind)[:40]!r} is unknown"
        opened.notes.append(f"{what}: tables were identified {stated_roles(opened.tensors).how or 'by tensor name'}")
    found = _candidates(opened) | named_tables(opened.tensors, opened.named)
    unplaced_in_gguf = opened.in_gguf and found["token"] and not found["position"] and not opened.family().kind
    if unplaced_in_gguf and config[ARCHITECTURE] not in ARCHITECTURES:
        reason = f"the architecture {str(config[ARCHITECTURE])[:40]!r} is unknown, and no tensor holds its positions"
        opened.refused["position"] = reason
    adapter = _adapter(opened)
    if adapter is None:
        made = _assemble(opened, found)
        if not (empty or made.tables or made.positions or made.heads or made.lookups or opened.refused):
            raise MissingTableError(f"no table was found in {opened.name}: {made.absent['token']}")
        return made
    if not any(found.values()):
        raise SourceError(f"{opened.name}: {adapter.nothing}")
    opened.notes.append(adapter.note)
    made = _assemble(opened, found)
    absent = dict.fromkeys((*ROLES, "head", "inputs"), f"this is {adapter.about}; {adapter.advice}")
    return replace(made, absent=absent, recipe=None, attention=None)


def _adapter(opened: Opened) -> Adapter | None:
    """Describe a source that is an adapter; ``None`` for a model. Reads its configuration only if names suggest one."""
    names = opened.tensors.names()
    config = opened.adapter() if may_be_adapter(names) else None
    return None if config is None else adapter_of(names, config)


@dataclass(frozen=True)
class _Given:
    """What the caller states about a source: tensors of tables, labels, a name, the base model of an adapter."""

    tables: Mapping[str, str]
    tokenizer: Tokenizer | None
    name: str | None
    base: Source | bool | None = None
    empty: bool = False
    """Whether a source without any table is accepted."""

    def names(self, source: Source | torch.nn.Module) -> list[Source]:
        """Return a source and the base model, unless it is a live model or the base model is not named here."""
        return [one for one in (source, self.base) if isinstance(one, Source)]

    def __bool__(self) -> bool:
        """Return whether anything is stated."""
        return bool(self.tables or self.base) or self.tokenizer is not None or self.name is not None

    def applied(self, opened: Opened, in_name: Mapping[str, str] | None = None) -> Opened:
        """Return the opened source with what is stated about it, here and in its name."""
        if self.name or in_name or self.tables:
            opened = replace(opened, name=self.name or opened.name, named={**(in_name or {}), **self.tables})
        if self.tokenizer is None:
            return opened
        from .given_labels import SavedTokenizer, names_of

        names = names_of(self.tokenizer)
        # The caller's tokenizer is trusted and may run in this process.
        if isinstance(names, SavedTokenizer):
            return replace(opened, ours=True, folder=names, labels=None, without_tokens=not_missing)
        return replace(opened, ours=True, labels=names, without_tokens=not_missing)


def _from_module(live: LiveTensors, given: _Given) -> Embeddings:
    config = live.config() or {}
    named = replace(given, tokenizer=live.tokenizer()) if given.tokenizer is None else given
    opened = named.applied(Opened(live, live.name, config=config))
    found = _candidates(opened) | named_tables(live, given.tables)
    if not config or not any(found.values()):
        _add_unnamed(live, found)
    if not config and found["position"]:
        opened.notes.append("the module has no configuration, or models with different ones: positions start at row 0")
    if not any(found.values()):
        if opened.refused:
            raise SourceError(f"{live.name}: {next(iter(opened.refused.values()))}")
        raise SourceError(
            f'{live.name} has no nn.Embedding; name its tables: extract(model, tables={{"position": "NAME"}})'
        )
    made = _assemble(opened, found)
    if given.tokenizer is not None:
        _ = made.token.labels  # raises if they do not fit
    return made


def _add_unnamed(live: LiveTensors, found: dict[Role, tuple[Candidate, ...]]) -> None:
    """Assign the ``nn.Embedding``s of a module without configuration to roles, by name and then by size."""
    told = {candidate.tensor for tables in found.values() for candidate in tables}
    rest = [f"{name}.weight".removeprefix(".") for name in live.modules_of("Embedding")]
    rest = [name for name in rest if name not in told]
    words_of: dict[Role, tuple[str, ...]] = {"position": ("pos", "wpe"), "token_type": ("type", "segment")}
    for role, words in words_of.items():
        named = [name for name in rest if any(word in name.lower() for word in words)]
        if not found[role]:
            found[role] = tuple(Candidate(name, "") for name in named)
        rest = [name for name in rest if name not in named]
    if rest and not found["token"]:
        rest.sort(key=lambda name: -live.info(name).shape[0])
        found["token"] = tuple(Candidate(name, "") for name in rest)


def _candidates(opened: Opened) -> dict[Role, tuple[Candidate, ...]]:
    """Return the possible tables of each role, including aliases from the header and tied heads."""
    names = outside_layers((*opened.tensors.names(), *opened.aliases))
    return {role: _find(opened, role, names, opened.aliases) for role in ROLES}


def _find(opened: Opened, role: Role, names: tuple[str, ...], aliases: Mapping[str, str]) -> tuple[Candidate, ...]:
    """Return those of ``names`` that can be the table of a role, by the names in the file.

    Quantised tensors are excluded; the reason is kept in case no other tensor is found.
    """
    tensors, config = opened.tensors, opened.config
    stored = tensors.names()

    def rows(name: str) -> int:
        shape = tensors.info(aliases.get(name, name)).shape
        return shape[-2] if len(shape) > 1 else 0

    found = []
    for candidate in candidates(names, role, vocabularies=opened.vocabularies, rows=rows):
        tensor = aliases.get(candidate.tensor, candidate.tensor)
        if reason := table_refusal(tensors, tensor):
            opened.refused.setdefault(role, reason)
        elif _can_be(role, tensors.info(tensor)):
            found.append(candidate)
    if role == "token" and not found and (parts := [name for name in stored if name.endswith(NEXT_TOKEN)]):
        opened.refused[role] = (
            "its vocabulary is cut into tables of different widths (adaptive embeddings, each with a projection), "
            f"which are not put together; name one of them, such as --tensor {parts[0]}"
        )
    found = _by_use(opened, role, found)
    if role == "token" and is_known(config) and (unread := unread_shared(config, stored)):
        found = [one for one in found if one.tensor not in unread]
    if role == "token" and not found and role not in opened.refused and config and is_tied(config):
        named = head_candidates(stored, loose=is_headed(class_of(config)))
        heads = [one for one in named if one.endswith(SURE_HEADS) or rows(one) in opened.vocabularies]
        found = [Candidate(name, "") for name in heads[:1]]
        if found:
            opened.notes.append(
                f"the token table is {found[0].tensor}, the output head tied to it by the configuration"
            )
    return tuple(replace(one, tensor=aliases.get(one.tensor, one.tensor)) for one in found)


def _by_use(opened: Opened, role: Role, named: list[Candidate]) -> list[Candidate]:
    """Return the tables that the checkpoint itself states for a role, or else those found by name.

    The names are kept where they agree, since they also say which part of the model a table belongs to.
    """
    roles = stated_roles(opened.tensors)
    stated = roles.tables.get(role, ())
    if set(stated) <= {candidate.tensor for candidate in named}:
        return named
    if roles.how:
        opened.notes.append(f"{role.replace('_', ' ')}: {', '.join(stated)[:200]}, identified {roles.how}")
    return [Candidate(name, "") for name in stated]


def _can_be(role: Role, info: TensorInfo) -> bool:
    """Return whether a tensor has the shape of a table; token vectors need a width above 1, unlike times and prices."""
    return is_table(info) and (role != "token" or info.shape[-1] > 1)


def _assemble(opened: Opened, found: Mapping[Role, tuple[Candidate, ...]]) -> Embeddings:
    makers: dict[str, Callable[[], EmbeddingTable]] = {}
    token = tokens(opened, found["token"])
    for part, candidate in token.items():
        _note_storage(opened, part, candidate.tensor)
        # The tokenizer is the text's; what the rows of other parts stand for, no file says.
        role = "token" if part in PART_ORDER else ""
        make = partial(table_in_tensor, opened, role, candidate.tensor)
        own = part == "decoder"
        makers[f"{part}.token".strip(".")] = partial(_of_target, opened, make, makers["token"]) if own else make
    for part, candidate in parts(opened, "token_type", found["token_type"]).items():
        makers[f"{part}.token_type".strip(".")] = partial(table_in_tensor, opened, "token_type", candidate.tensor)
    if (named := opened.named.get(TENSOR)) is not None:
        makers[TENSOR] = partial(named_tensor, opened, makers.get("token"), tensor_named(opened.tensors, named))
    main = tower_of(found["token"][0].tensor) if found["token"] else ""
    stored = planes(opened, parts(opened, "position", read_tables(opened, main, found["position"])))
    split = [_split(part) for part in stored]
    # If a stored table holds rotation angles, the mechanism is rotary and the table is kept separately.
    turns = opened.family().kind == "rotary"
    placed = mechanisms(opened, main, frozenset() if turns else frozenset(tower for tower, axis in split))
    words = main if found["token"] else None
    names = keys([*split, *((one.tower, one.axis) for one in placed)], words)
    tables = LazyMapping(makers)
    encodings: dict[str, Callable[[], PositionEncoding]] = {}
    for (candidate, plane), (tower, axis), key in zip(stored.values(), split, names, strict=False):
        rows = opened.tensors.info(candidate.tensor).shape[-2]
        offset = row_offset(opened.family(tower), opened.part(tower), rows) if tower not in ("vision", "audio") else 0
        if axis == "":
            opened.notes.extend(row_checks.of_positions(opened, tower, candidate.tensor, offset=offset))
        name = "position" if key == "position" else f"{key}.position"
        makers[name] = partial(table_in_tensor, opened, "position", candidate.tensor, offset=offset, plane=plane)
        if not turns:
            encodings[key] = partial(_absolute, opened, tables, tower, name)
    heads = find_heads(opened, token, tables)
    lookups = LazyMapping(find_lookups(opened))  # adds notes
    opened.notes.extend([heads.note] if heads.note else [])
    opened.notes.extend(f"{role.replace('_', ' ')}: {reason}" for role, reason in opened.refused.items())
    for one, key in zip(placed, names[len(split) :], strict=True):
        encodings[key] = one.make
    fed = parts_fed(encodings, found["token"][0].part) if found["token"] else ()
    if found["token"] and encodings and not fed and not is_known(opened.config):
        opened.notes.append(f"positions of the words were not found, only those of other parts: {', '.join(encodings)}")
    ordered = sorted(
        encodings, key=lambda key: (key not in fed, [_ORDER.get(word, 3) for word in re.split(r"[. ]", key)])
    )
    said = {"token_type": "the model has no token types", "head": heads.absent, **opened.refused}
    if "token" not in makers:
        said["inputs"] = "it has no token table"
    reasons = {role: partial(itself, reason) for role, reason in said.items()}
    tokenless = partial(unmatched, opened, no_inputs(opened.config))
    absent = LazyMapping({"token": tokenless, "position": partial(unplaced, opened), **reasons})
    positions = LazyMapping({key: encodings[key] for key in ordered})
    made = partial(_recipe, opened, tables, positions, fed) if "token" in makers else None
    attends = partial(_attention, opened, tables, positions) if made is not None else None
    return Embeddings(
        opened.name,
        tables,
        positions,
        opened.config,
        absent,
        tuple(opened.notes),
        made,
        attention=attends,
        fed=fed,
        heads=LazyMapping(heads.makers),
        ties=heads.ties,
        marks=partial(_marks, opened, tables) if "token" in makers else None,
        lookups=lookups,
        cutter=partial(tokenizer, opened),
        made_from=partial(_made_from, opened),
    )


def _made_from(opened: Opened) -> str | None:
    from .applied_adapters import made_from

    return made_from(opened)


def _note_storage(opened: Opened, part: str, tensor: str) -> None:
    """Add notes about the rows of a token table, and about how they are stored if they are decoded."""
    if part == "":
        opened.notes.extend(row_checks.of_tokens(opened, tensor))
    if tensor.endswith(ORIGINAL):
        opened.notes.append(f"{tensor} is the weight before its parametrization, which is not applied")
    if (info := opened.tensors.info(tensor)).decoded:
        opened.notes.append(f"{info.name} is stored as {info.dtype}; its rows are decoded")


def _marks(opened: Opened, tables: Mapping[str, EmbeddingTable]) -> TokenMarks:
    return marks_of(opened, tables["token"])


# Imported on use: the tables alone do not need these modules.
def _recipe(
    opened: Opened,
    tables: Mapping[str, EmbeddingTable],
    positions: Mapping[str, PositionEncoding],
    fed: tuple[str, ...],
) -> InputRecipe:
    from .input_recipes import recipe

    return recipe(opened, tables, positions, fed)


def _attention(
    opened: Opened, tables: Mapping[str, EmbeddingTable], positions: Mapping[str, PositionEncoding]
) -> Attention:
    from .attention_weights import attention

    return attention(opened, tables, positions)


_ORDER = {"position": 0, "text": 0, "encoder": 1, "decoder": 2}
"""Order of the positions, the text's first, after those that the words enter (``families.parts_fed``)."""


def _of_target(
    opened: Opened, make: Callable[[], EmbeddingTable], source: Callable[[], EmbeddingTable]
) -> EmbeddingTable:
    """Return the decoder's own token table with the labels of its vocabulary."""
    table = make()
    return replace(table, named=partial(labels_of_target, opened, len(table), len(source())))


def _split(part: str) -> tuple[str, str]:
    """Split a part's name into tower and axis."""
    tower = tower_of(part.split(".")[0])
    return (tower, part.partition(".")[2]) if tower else ("", part)


def _absolute(opened: Opened, tables: Mapping[str, EmbeddingTable], tower: str, key: str) -> Absolute:
    return absolute(opened, tower, tables[key])
