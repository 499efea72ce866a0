"""Turn a source into its Embeddings: the one place that joins naming, reading, families, labels and recipes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from .checkpoint import DEFAULT_LIMITS, Checkpoint, Limits, TensorInfo, is_pickled, locate
from .embeddings import Embeddings, LazyMapping
from .errors import CheckpointError, MissingTableError, SourceError
from .families import (
    HEADS,
    RELATIVE_BIAS,
    ROTARY_FIELDS,
    UNKNOWN,
    Candidate,
    Family,
    Role,
    candidates,
    family_of,
    real_number,
    row_offset,
    whole_number,
)
from .inputs import Affine, InputRecipe, LayerNorm
from .position import Absolute, Alibi, PositionEncoding, RelativeBias, Unmeasured, alibi_slopes
from .source import BuiltinSource, HubSource, LocalSource, SampleSource, Source, parse_source
from .table import EmbeddingTable, Labels, Provenance, row_labels

if TYPE_CHECKING:
    import torch

    from .hub import Access
    from .live import LiveTensors
    from .pickled import PickledCheckpoint

T = TypeVar("T")


class Tensors(Protocol):
    """Named tensors to read from: a checkpoint on disk or on the Hub, a live model."""

    @property
    def name(self) -> str: ...
    def names(self) -> tuple[str, ...]: ...
    def info(self, name: str) -> TensorInfo: ...
    def metadata(self) -> Mapping[str, str]: ...
    def config(self) -> dict[str, Any] | None: ...
    def file_bytes(self, name: str) -> int | None: ...
    def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]: ...


def extract(
    source: str | Path | Source | torch.nn.Module,
    *,
    revision: str | None = None,
    token: str | bool | None = None,
    allow_full_download: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Embeddings:
    """Return the embeddings of a source; tables are read when first used.

    ``source`` is a name such as ``openai-community/gpt2``, ``./folder``, ``sample:bert`` or ``sinusoidal:1024x768``, a
    path, or any ``torch.nn.Module`` that holds ``nn.Embedding``s. The rest is for the Hub: ``revision`` is a branch,
    tag or commit; ``token`` ``None`` for the user's own, ``False`` for none; ``allow_full_download`` reads a whole
    file where a server does not send parts of it, or where it is a pickle, which has none; ``limits`` bound what is
    read, from this machine too. Files that torch.save wrote are read where there is no safetensors file, with torch.
    Raises ``SourceError`` for a source that cannot be found or read.
    """
    named = LocalSource(source) if isinstance(source, Path) else source
    if isinstance(named, str):
        named = parse_source(named)
    match named:
        case LocalSource(path):
            return _from_folder(path, name=str(path), limits=limits)
        case SampleSource():
            return _from_sample(named)
        case BuiltinSource():
            from .builtin import from_source

            return from_source(named)
        case HubSource():
            from .hub import Access

            return _from_hub(_at(named, revision), Access(token, limits, allow_full_download))
    # torch need not be imported to know a module: whoever made one has imported it.
    if hasattr(named, "state_dict") and hasattr(named, "named_modules"):
        from .live import open_module

        return _from_module(open_module(named))
    raise SourceError(f"a source is a name, a path or a torch module; got {type(source).__name__}")


def _from_sample(sample: SampleSource) -> Embeddings:
    from .samples import folder

    home = folder(sample.name)
    if sample.step is None:
        return _from_folder(home, name=f"sample:{sample.name}", ours=True)
    moments = Checkpoint.open(home / "positions.safetensors")
    tensor = f"step-{sample.step}"
    if tensor not in moments.names():
        steps = sorted(int(name.removeprefix("step-")) for name in moments.names())
        raise SourceError(f"sample:{sample.name} kept no {tensor}; it kept the steps {', '.join(map(str, steps))}")
    name = f"sample:{sample.name}@{tensor}"
    table = _table(Opened(moments, name), "position", Candidate(tensor, ""), offset=0)
    absent = {"token": "only the position table of this moment of the training was kept"}
    return Embeddings(name, {"position": table}, {"position": Absolute(table)}, absent=absent)


def _nowhere() -> None:
    return None


@dataclass(frozen=True, eq=False)
class Opened:
    """Hold an opened source while its tables are looked for; ``folder`` returns where its tokenizer is, if any.

    ``ours`` says that its tokenizer comes with this package, and may run in this process.
    """

    tensors: Tensors
    name: str
    folder: Callable[[], Path | None] = _nowhere
    config: Mapping[str, Any] = field(default_factory=dict)
    family: Family = UNKNOWN
    notes: list[str] = field(default_factory=list)
    commit: str | None = None
    ours: bool = False


def _from_folder(path: Path, *, name: str, limits: Limits = DEFAULT_LIMITS, ours: bool = False) -> Embeddings:
    if not path.exists():
        raise SourceError(f"{path} does not exist; give a folder with a checkpoint or a .safetensors file")
    checkpoint = _open_folder(path, limits)
    config = checkpoint.config() or {}
    folder = partial(_itself, checkpoint.folder)
    return _from_files(Opened(checkpoint, name, folder, config, family_of(config), ours=ours))


def _open_folder(path: Path, limits: Limits) -> Checkpoint | PickledCheckpoint:
    file = locate(path)
    if not (file.exists() and is_pickled(file.name)):
        return Checkpoint.open(path, limits=limits)
    from .pickled import open_pickled

    return open_pickled(file, limits=limits)


def _at(source: HubSource, revision: str | None) -> HubSource:
    """Return a repository at a revision that was given beside its name."""
    if revision is None:
        return source
    if source.revision is not None:
        raise SourceError(f"the revision is given twice, {source.revision!r} and {revision!r}; give it once")
    found = parse_source(f"{source.repo}@{revision}")
    assert isinstance(found, HubSource)
    return found


def _from_hub(source: HubSource, access: Access) -> Embeddings:
    from .hub import open_hub

    found = open_hub(source, access)
    config = found.config() or {}
    family = family_of(config)
    opened = Opened(found, found.name, found.tokenizer_folder, config, family, found.notes, found.commit)
    return replace(_from_files(opened), traffic=found.traffic)


def _from_files(opened: Opened) -> Embeddings:
    config = opened.config
    if not config:
        opened.notes.append(
            "there is no config.json: tables are told by the names of their tensors, positions from row 0"
        )
    elif opened.family is UNKNOWN:
        kind = str(config.get("model_type"))[:40]
        opened.notes.append(f"the model type {kind!r} is not known: tables are told by the names of their tensors")
    return _assemble(opened, {role: _find(opened, role) for role in ("token", "token_type", "position")})


def _from_module(live: LiveTensors) -> Embeddings:
    config = live.config() or {}
    opened = Opened(live, live.name, config=config, family=family_of(config))
    found: dict[Role, tuple[Candidate, ...]] = {
        role: _find(opened, role) for role in ("token", "token_type", "position")
    }
    if not config:
        _add_unnamed(live, found, opened.notes)
    if not any(found.values()):
        raise SourceError(f"{live.name} holds no nn.Embedding; give a model that has one, or use hpe.from_arrays")
    return _assemble(opened, found)


def _add_unnamed(live: LiveTensors, found: dict[Role, tuple[Candidate, ...]], notes: list[str]) -> None:
    """Sort the ``nn.Embedding``s of a module without a configuration by what their names say, the rest by size."""
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


def _find(opened: Opened, role: Role) -> tuple[Candidate, ...]:
    """Return the tensors that can be the table of a role, aliases of the header and tied heads included."""
    stored = opened.tensors.names()
    aliases = [alias for alias, kept in opened.tensors.metadata().items() if kept in stored and alias not in stored]
    found = [
        candidate
        for candidate in candidates((*stored, *aliases), role)
        if candidate.tensor in aliases or _is_table(opened.tensors.info(candidate.tensor))
    ]
    tied = opened.config.get("tie_word_embeddings", opened.family.tied)
    if role == "token" and not found and opened.config and tied is True:
        heads = [name for name in stored if any(name == head or name.endswith(f".{head}") for head in HEADS)]
        found = [Candidate(name, "") for name in heads[:1]]
        if found:
            opened.notes.append(
                f"the token table is {found[0].tensor}, the output head that the configuration ties to it"
            )
    return tuple(
        Candidate(opened.tensors.metadata()[candidate.tensor], candidate.part)
        if candidate.tensor in aliases
        else candidate
        for candidate in found
    )


def _is_table(info: TensorInfo) -> bool:
    return len(info.shape) == 2 or (len(info.shape) == 3 and info.shape[0] == 1)


def _choose(opened: Opened, role: Role, found: tuple[Candidate, ...]) -> dict[str, Candidate]:
    """Return the best candidate of each part; one token table serves all parts. A choice among several is noted."""
    chosen: dict[str, Candidate] = {}
    for candidate in found:
        chosen.setdefault("" if role == "token" else candidate.part, candidate)
    tensors = {candidate.tensor for candidate in chosen.values()}
    others = [candidate.tensor for candidate in found if candidate.tensor not in tensors]
    if others and role != "token_type":
        taken = ", ".join(candidate.tensor for candidate in chosen.values())
        opened.notes.append(f"{role}: took {taken}; {', '.join(others)[:200]} could be one too, by a less sure name")
    return {"": next(iter(chosen.values()))} if len(chosen) == 1 else chosen


def _table(opened: Opened, role: Role, candidate: Candidate, *, offset: int) -> EmbeddingTable:
    """Return the table that a tensor holds, from row ``offset`` on.

    Raises ``CheckpointError`` where the tensor is not a table, or has no row left.
    """
    tensors, name = opened.tensors, candidate.tensor
    info = tensors.info(name)
    if not _is_table(info):
        raise CheckpointError(
            f"{name} in {opened.name} must have two axes [rows, width]; its shape is {list(info.shape)}"
        )
    (stored, width), flat = info.shape[-2:], len(info.shape) == 2
    rows = stored - offset
    if rows < 1 or width < 1:
        raise CheckpointError(
            f"{name} in {opened.name} has {stored} rows of {width}, of which {offset} are not positions"
        )

    def read(start: int, stop: int) -> NDArray[Any]:
        return tensors.read(name, start + offset, stop + offset) if flat else tensors.read(name)[0, start:stop]

    provenance = Provenance(
        source=opened.name,
        commit=opened.commit,
        file=info.file or None,
        tensor=name,
        stored_dtype=info.dtype,
        nbytes=info.nbytes,
        file_bytes=tensors.file_bytes(name),
        row_offset=offset,
    )
    dtype = np.dtype(np.float64 if info.dtype == "F64" else np.float32)
    named = partial(_labels, opened.folder, rows) if role == "token" else None
    return EmbeddingTable(f"{opened.name} {role.replace('_', ' ')}s", (rows, width), dtype, provenance, read, named)


def _labels(folder: Callable[[], Path | None], rows: int) -> Labels:
    from .vocabulary import read_labels

    found = folder()
    return (read_labels(found, rows=rows) if found else None) or row_labels(rows)


def _assemble(opened: Opened, found: Mapping[Role, tuple[Candidate, ...]]) -> Embeddings:
    chosen = {role: _choose(opened, role, tables) for role, tables in found.items()}
    makers: dict[str, Callable[[], EmbeddingTable]] = {}
    for role, parts in chosen.items():
        for part, candidate in parts.items():
            rows = opened.tensors.info(candidate.tensor).shape[-2]
            offset = row_offset(opened.family, opened.config, rows) if role == "position" else 0
            key = f"{part}.{role}" if part else role
            makers[key] = partial(_table, opened, role, candidate, offset=offset)
    tables = LazyMapping(makers)
    encodings: dict[str, Callable[[], PositionEncoding]] = {
        part or "position": partial(_absolute, opened, tables, f"{part}.position" if part else "position")
        for part in chosen["position"]
    }
    if not encodings:
        encodings = {part: partial(_itself, encoding) for part, encoding in _without_table(opened).items()}
    listed = ", ".join(opened.tensors.names()[:4])
    reason = f"no tensor has the name of one; its tensors are {listed[:120]}"
    absent = {"token": reason, "token_type": "the model has no token types", "position": reason}
    if "token" not in makers:
        absent["inputs"] = "it has no token table"
    recipe = partial(_recipe, opened, tables) if "token" in makers else None
    return Embeddings(opened.name, tables, LazyMapping(encodings), opened.config, absent, tuple(opened.notes), recipe)


def _itself(value: T) -> T:
    return value


def _absolute(opened: Opened, tables: Mapping[str, EmbeddingTable], key: str) -> Absolute:
    table = tables[key]
    computed = bool(opened.family.computed) and opened.config.get(opened.family.computed) is True
    return Absolute(table, "sinusoidal" if computed else "learned", table.provenance.row_offset)


def _without_table(opened: Opened) -> Mapping[str, PositionEncoding]:
    """Return what a model without a position table has by its tensors or its configuration, by part."""
    from .rope import rotary_encodings

    config, kind = opened.config, opened.family.kind
    if found := _relative_biases(opened):
        return found
    if config.get("alibi") is True or kind == "alibi":
        return {"position": _alibi(opened)}
    if kind == "rotary" or any(config.get(name) is not None for name in ROTARY_FIELDS):
        return rotary_encodings(config, name=opened.name)
    return {}


def _alibi(opened: Opened) -> PositionEncoding:
    heads = _stated(opened, ("n_head", "n_heads", "num_attention_heads"))
    if heads is None:
        return Unmeasured("alibi", f"{opened.name} has ALiBi positions, but states no number of heads")
    longest = real_number(opened.config, "alibi_bias_max", low=1e-3, high=1e3) or 8.0
    length = _stated(opened, ("max_seq_len", "seq_length", "max_position_embeddings")) or 2048
    return Alibi(alibi_slopes(heads, longest=longest, kept=opened.family.alibi_kept), length)


def _relative_biases(opened: Opened) -> dict[str, PositionEncoding]:
    """Return the bias tables over bucketed distances, by part: of the first layer, where every layer has its own."""
    found: dict[str, list[str]] = {}
    for name in opened.tensors.names():
        if name.endswith(RELATIVE_BIAS) and "EncDec" not in name:
            part = next((part for part in ("encoder", "decoder") if part in name.split(".")), "position")
            found.setdefault(part, []).append(name)
    encodings: dict[str, PositionEncoding] = {}
    for part, names in sorted(found.items(), key=lambda item: item[0] == "decoder"):
        if len(names) > 1:
            opened.notes.append(f"{part}: {len(names)} layers have biases of their own; shown are those of the first")
        first = min(names, key=_layers)
        if len(opened.tensors.info(first).shape) != 2:
            raise CheckpointError(f"{first} in {opened.name} must have two axes [buckets, heads]")
        length = _stated(opened, ("n_positions", "max_position_embeddings")) or 512
        far = _stated(opened, ("relative_attention_max_distance",)) or 128
        bias = np.asarray(opened.tensors.read(first), np.float64)
        encodings[part] = RelativeBias(bias, length, bidirectional=part != "decoder", max_distance=far)
    return encodings


def _layers(name: str) -> list[int]:
    return [int(part) for part in name.split(".") if part.isdecimal()]


def _stated(opened: Opened, names: tuple[str, ...]) -> int | None:
    """Return the first of some whole numbers that the configuration has."""
    found = (whole_number(opened.config, name, low=1, high=2**24) for name in names)
    return next((number for number in found if number is not None), None)


def _recipe(opened: Opened, tables: Mapping[str, EmbeddingTable]) -> InputRecipe:
    from .cutting import Cutter
    from .vocabulary import load_tokenizer

    rule = opened.family.inputs
    if rule is None:
        if opened.config:
            raise MissingTableError(
                f"how {opened.name} feeds its first layer is not known; its tables can still be used"
            )
        return InputRecipe(
            tables["token"], _first(tables, "position"), _first(tables, "token_type"), norm=_lone_norm(opened)
        )
    part = "encoder." if "encoder.position" in tables else ""
    position = _first(tables, "position")
    norm = _norm(opened, rule.norm, part, rule.eps) if rule.norm else None
    scaled = bool(rule.sqrt_scale) and opened.config.get(rule.sqrt_scale) is True
    counts_padding = opened.family.offset == "padding + 1"
    return InputRecipe(
        tables["token"],
        position,
        _first(tables, "token_type"),
        scale=math.sqrt(tables["token"].shape[1]) if scaled else 1.0,
        before=_affine(opened, rule.before),
        norm=norm,
        after=_affine(opened, rule.after),
        padding=position.provenance.row_offset - 1 if counts_padding and position is not None else None,
        tokenize=(load_tokenizer if opened.ours else Cutter)(folder) if (folder := opened.folder()) else None,
    )


def _first(tables: Mapping[str, EmbeddingTable], role: Role) -> EmbeddingTable | None:
    key = next((key for key in (role, f"encoder.{role}", f"decoder.{role}") if key in tables), None)
    return None if key is None else tables[key]


def _named(opened: Opened, module: str, part: str, endings: tuple[str, ...]) -> str | None:
    """Return the tensor of a module, whatever stands before its name; that of ``part`` where there are several."""
    names = opened.tensors.names()
    fitting = [name for name in names for ending in endings if f".{name}".endswith(f".{module}{ending}")]
    return min(fitting, key=lambda name: (part not in f"{name}", len(name)), default=None)


def _norm(opened: Opened, module: str, part: str, eps: str | float) -> LayerNorm | None:
    weight = _named(opened, module, part, (".weight", ".gamma"))
    if weight is None:
        raise MissingTableError(f"{opened.name} has no {module}, which normalises its first layer's input")
    bias = _named(opened, module, part, (".bias", ".beta"))
    value = real_number(opened.config, eps, low=0.0, high=1.0) if isinstance(eps, str) else eps
    if value is None:
        raise MissingTableError(
            f"the configuration of {opened.name} has no number {eps}, which its normalisation needs"
        )
    return LayerNorm(opened.tensors.read(weight), None if bias is None else opened.tensors.read(bias), value)


def _affine(opened: Opened, module: str) -> Affine | None:
    weight = _named(opened, module, "", (".weight",)) if module else None
    if weight is None:
        return None
    bias = _named(opened, module, "", (".bias",))
    return Affine(opened.tensors.read(weight), None if bias is None else opened.tensors.read(bias))


def _lone_norm(opened: Opened) -> LayerNorm | None:
    """Return the one LayerNorm of a module without configuration, if it has exactly one."""
    from .live import LiveTensors

    if not isinstance(opened.tensors, LiveTensors) or len(norms := opened.tensors.modules_of("LayerNorm")) != 1:
        return None
    return _norm(opened, norms[0], "", opened.tensors.module.get_submodule(norms[0]).eps)  # type: ignore[arg-type]
