"""PEFT adapters: which tables they change, and how; applied to rows as they are read, nothing is merged or written.

The formulas are those of PEFT's ``merge_and_unload``: LoRA (Hu et al. 2021), rsLoRA (Kalajdzievski 2023), DoRA (Liu et
al. 2024), trainable tokens, and modules that are saved whole. Numbers are computed in float32, where PEFT computes in
the stored dtype.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import CheckpointError
from ...lazy_attributes import lazy_attribute
from ...tables.table import CHUNK_BYTES
from ...text import display
from ..formats import ReadTensors, WrappedTensors
from ..quantised.decoded import refusal
from ..safetensors.checkpoint import TensorInfo
from ..strict_json import shortened

ADAPTER_CONFIG = "adapter_config.json"
_WRAPPED = "base_model."
"""Prefix of all tensor names in a model wrapped by PEFT."""

_SAVED = re.compile(r"\.modules_to_save\.[^.]+(?=\.)")
"""Infix in the tensor names of modules that PEFT trains completely; save_pretrained usually removes it."""

ORIGINAL = ".parametrizations.weight.original"
"""Ending of a weight as it is before a parametrization of torch changes it, as in jina-embeddings-v3."""

_CHANGES = {
    "lora_embedding_": "by a low-rank product (lora_embedding_A and lora_embedding_B)",
    "trainable_tokens_": "for single rows (trainable_tokens_delta)",
}
"""How an adapter can modify a table without containing all of it, by a part of the tensor names."""


@dataclass(frozen=True)
class Adapter:
    """Description of an adapter, ready to show on one line.

    Attributes:
        kind: Type of adapter in PEFT's terms.
        base: Name of the base model, "" if unknown.
        changes: How the adapter modifies a table of the base model, "" if it does not.
    """

    kind: str
    base: str
    changes: str

    @property
    def about(self) -> str:
        """What it is, with its base model if known."""
        return f"a PEFT adapter ({self.kind}) of {self.base or 'an unnamed base model'}"

    @property
    def advice(self) -> str:
        """What to open instead."""
        applied = f"?base={self.base.strip('“”') or 'SOURCE'} after its name, or --base"
        return f"open {self.base or 'the base model'} instead, or apply the adapter to it: {applied}"

    @property
    def nothing(self) -> str:
        """Why an adapter without tables cannot be shown."""
        holds = "contains no complete table"
        if self.changes:
            holds = f"only changes the token table, {self.changes}, which cannot be read alone"
        return f"this is {self.about} and {holds}; {self.advice}"

    @property
    def note(self) -> str:
        """Note about the tables that it contains."""
        return f"this is {self.about}; its tables replace those of the base model"


def may_be_adapter(names: Iterable[str]) -> bool:
    """Return whether the tensor names are those of a PEFT adapter."""
    return all(name.startswith(_WRAPPED) or name.startswith("prompt_") for name in names)


def adapter_of(names: Iterable[str], config: Mapping[str, Any]) -> Adapter:
    """Describe an adapter from its tensor names and adapter_config.json; both are untrusted text."""
    kind, base = (config.get(name) for name in ("peft_type", "base_model_name_or_path"))
    listed = tuple(names)
    changes = (how for part, how in _CHANGES.items() if any(part in name for name in listed))
    return Adapter(
        display(kind, width=20) if isinstance(kind, str) and kind.strip() else "of unknown type",
        f"“{display(base, width=60)}”" if isinstance(base, str) and base.strip() else "",
        " and ".join(changes),
    )


def whole_modules(names: Sequence[str]) -> dict[str, str]:
    """Return the tensors of completely trained modules and of parametrized ones, by the names of ordinary modules."""
    found = {_SAVED.sub("", name): name for name in names if ".modules_to_save." in name and _SAVED.search(name)}
    return found | {f"{name.removesuffix(ORIGINAL)}.weight": name for name in names if name.endswith(ORIGINAL)}


_PREFIX = re.compile(r"^base_model\.(?:model\.)?")
_PARTS = {
    "whole": r"(?:modules_to_save(?:\.[^.]+)?\.|base_layer\.)?weight",
    "embedding A": r"lora_embedding_A(?:\.[^.]+)?",
    "embedding B": r"lora_embedding_B(?:\.[^.]+)?",
    "A": r"lora_A(?:\.[^.]+)?\.weight",
    "B": r"lora_B(?:\.[^.]+)?\.weight",
    "magnitude": r"lora_magnitude_vector(?:\.[^.]+)?(?:\.weight)?",
    "tokens": r"(?:token_adapter\.)?trainable_tokens_delta(?:\.[^.]+)?",
}
"""Endings of the names of an adapter's tensors, after the module that they change."""

_PART = re.compile(
    r"^(?P<module>.+?)\.(?:" + "|".join(f"(?P<p{at}>{ending})" for at, ending in enumerate(_PARTS.values())) + ")$"
)
_UNLIKE_LORA = (
    *("alora_invocation_tokens", "arrow_config", "kasa_config", "layer_replication", "monteclora_config"),
    *("target_parameters", "use_bdlora", "use_qalora", "velora_config"),
)
"""Options of LoRA with another formula, or that change more than single modules."""

_CHANGES_BASE = ("pissa", "olora", "corda", "loftq", "lora_ga")
"""Initialisations of LoRA that subtract something from the base model's weights."""

_KNOWN = ("LORA", "TRAINABLE_TOKENS")


def changes_of(
    adapter: Sequence[str], base: Iterable[str], config: Mapping[str, Any]
) -> tuple[dict[str, ModuleChange], tuple[str, ...]]:
    """Return how an adapter changes tensors of its base model.

    Args:
        adapter: Names of the adapter's tensors.
        base: Names of the base model's tensors.
        config: Its adapter_config.json.

    Returns:
        The changes by the names that tensors have in the base model, and the changed modules that it does not store.

    Raises:
        CheckpointError: If nothing fits, or adapter_config.json is not that of an adapter.
    """
    modules: dict[str, dict[str, str]] = {}
    for name in adapter:
        if (split := _split(name)) is not None:
            modules.setdefault(split[0], {})[split[1]] = name
    stored = {name.removesuffix(".weight"): name for name in base if name.endswith(".weight")}
    stored |= {name: name for name in base if not name.endswith((".weight", ".bias"))}
    longer = _LongerNames(stored)
    matched = {module: _match(module, stored, longer) for module in modules}
    found = {name: _change(module, modules[module], config) for module, name in matched.items() if name is not None}
    next((change.ids for change in found.values() if change.tokens is not None), None)  # told before rows are read
    if not found and (kind := config.get("peft_type")) not in _KNOWN:
        said = (
            f"adapters of type {display(str(kind), width=20)} cannot be applied, only those of {' and '.join(_KNOWN)}"
        )
        raise CheckpointError(f"{said}; open the base model, or merge them with PEFT")
    if not found:
        such = f", such as {display(', '.join(list(modules)[:3]), width=100)}" if modules else ""
        changed = f"the base model has none of the modules that the adapter changes{such}"
        raise CheckpointError(f"{changed}; name the model that it was made for")
    missing = [module for module, name in matched.items() if name is None]
    # What is saved whole needs nothing of the base, such as the head of a model whose head was tied.
    added = [module for module in missing if modules[module].keys() == {"whole"}]
    found |= {f"{module}.weight": _change(module, modules[module], config) for module in added}
    return found, tuple(module for module in missing if module not in added)


def _split(name: str) -> tuple[str, str] | None:
    """Split the name of an adapter's tensor into the module that it changes and its part in the change."""
    match = _PART.match(_PREFIX.sub("", name, count=1))
    if match is None:
        return None
    return match["module"], next(part for at, part in enumerate(_PARTS) if match[f"p{at}"] is not None)


def _match(module: str, stored: Mapping[str, str], longer: _LongerNames) -> str | None:
    """Return the base model's tensor of a module; checkpoints of base models lack a prefix that heads add."""
    parts = module.split(".")
    for skipped in range(len(parts)):
        if (ending := ".".join(parts[skipped:])) in stored and (skipped < len(parts) - 1 or skipped == 0):
            return stored[ending]
    if len(parts) > 1 and parts[-1] in stored:
        return stored[parts[-1]]
    found = longer.ending_in(module) or longer.like.get(_plain(module), [])
    return stored[found[0]] if len(found) == 1 else None


class _LongerNames:
    """The modules of a base model by how their names end, so that many are found in little time."""

    def __init__(self, modules: Iterable[str]) -> None:
        self.like: dict[tuple[str, ...], list[str]] = {}
        # transformers 5 saves model.language_model.* by older names, language_model.model.* or model.*.
        for one in modules:
            self.like.setdefault(_plain(one), []).append(one)
        self._backwards = sorted(one[::-1] for one in modules)

    def ending_in(self, module: str) -> list[str]:
        """Return the modules whose names end in that of another, after a dot; two of them if there are more."""
        ending = f".{module}"[::-1]
        first = bisect_left(self._backwards, ending)
        return [one[::-1] for one in self._backwards[first : first + 2] if one.startswith(ending)]


def _plain(module: str) -> tuple[str, ...]:
    """Return the path of a module without the words around the language model, whose order differs by version."""
    return tuple(part for part in module.split(".") if part not in ("model", "language_model"))


def _change(module: str, parts: Mapping[str, str], config: Mapping[str, Any]) -> ModuleChange:
    embedding = "embedding A" in parts or "embedding B" in parts
    first, second = (
        (parts.get("embedding A"), parts.get("embedding B")) if embedding else (parts.get("A"), parts.get("B"))
    )
    refused = _refused(config, embedding=embedding, low_rank=first is not None or second is not None)
    if (first is None) != (second is None):
        refused = refused or "is changed by one factor of a low-rank product, without the other; download it again"
    return ModuleChange(
        whole=parts.get("whole"),
        first=first,
        second=second,
        embedding=embedding,
        turned=config.get("fan_in_fan_out") is True,
        magnitude=parts.get("magnitude"),
        tokens=parts.get("tokens"),
        refused=refused,
        module=module,
        config=config,
    )


_NUMBERS = (("rank_pattern", "r"), ("alpha_pattern", "lora_alpha"))


def _number(module: str, config: Mapping[str, Any], pattern: str, default: str) -> float:
    """Return the rank or α of a module: PEFT searches the keys of a pattern as the ends of module names."""
    patterns = config.get(pattern)
    listed = patterns.items() if isinstance(patterns, Mapping) else ()
    own = next((value for key, value in listed if _ends(module, str(key), alone=len(listed) > _MOST_PATTERNS)), None)
    value = config.get(default) if own is None else own
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e6:
        raise CheckpointError(f"adapter_config.json must state {default} as a number above 0; found {value!r:.40}")
    return float(value)


def _ends(module: str, key: str, *, alone: bool) -> bool:
    """Return whether a module ends in a key, a regular expression of PEFT; one that may take long is only a name.

    So are those of a long list, which has one for each module; names ``alone`` are then compared.
    """
    if module == key or module.endswith(f".{key}"):
        return True
    if alone or _SLOW.search(key) or len(key) > _LONGEST_KEY or len(_REPEATS.findall(key)) > _MOST_REPEATS:
        return False
    with suppress(re.error, OverflowError):
        return re.match(rf"(.*\.)?({key})$", module[-_LONGEST_KEY:]) is not None
    return False


_SLOW, _REPEATS = re.compile(r"\)[*+{?]|\\[1-9]|\(\?"), re.compile(r"[*+{?]")
"""What repeats a group or refers to one, and what repeats anything: few of the latter match in little time."""
_LONGEST_KEY, _MOST_REPEATS, _MOST_PATTERNS = 200, 3, 32


def _refused(config: Mapping[str, Any], *, embedding: bool, low_rank: bool) -> str:
    """Return why the change of a module cannot be applied, as the end of a sentence; "" if it can."""
    kind = config.get("peft_type")
    merge = "merge it with merge_and_unload of PEFT and open the result"
    if kind not in _KNOWN:
        return f"is changed by {display(str(kind), width=20)}, whose formula is not applied here; {merge}"
    if not low_rank:
        return ""
    if other := next((name for name in _UNLIKE_LORA if config.get(name)), None):
        return f"is changed with {other}, which is not applied here; {merge}"
    start = config.get("init_lora_weights")
    if isinstance(start, str) and start.lower().startswith(_CHANGES_BASE) and not embedding:
        return f"was started by {display(start, width=20)}, which changes the base model's weights too; {merge}"
    return ""


def _ids(module: str, config: Mapping[str, Any]) -> Sequence[int]:
    """Return the row numbers of the trained tokens of a module."""
    given: Any = config.get("token_indices") or config.get("trainable_token_indices")
    if isinstance(given, Mapping):
        own = [value for key, value in given.items() if module == key or module.endswith(f".{key}")]
        given = own[0] if own else next(iter(given.values()), None)
    whole = isinstance(given, list) and all(isinstance(one, int) and not isinstance(one, bool) for one in given)
    if not whole or not given or min(given) < 0:
        raise CheckpointError(f"adapter_config.json must list the ids of the trained tokens; found {given!r:.40}")
    return tuple(given)


@dataclass(frozen=True)
class ModuleChange:
    """How an adapter changes one tensor [rows, columns] of its base model; names are those of the adapter's tensors.

    Attributes:
        whole: Tensor that replaces the base model's.
        first: Factor A of a low-rank product.
        second: Factor B of a low-rank product.
        embedding: Whether the product is one of ``lora_embedding_A`` and ``lora_embedding_B``, which is transposed.
        turned: Whether other products are transposed, for layers that store [inputs, outputs]; shapes take precedence.
        magnitude: Magnitudes of DoRA.
        tokens: Rows of trained tokens.
        refused: Why the change cannot be applied, as the end of a sentence; "" if it can.
        module: The adapter's name of what is changed.
        config: The adapter's configuration.
    """

    whole: str | None = None
    first: str | None = None
    second: str | None = None
    embedding: bool = False
    turned: bool = False
    magnitude: str | None = None
    tokens: str | None = None
    refused: str = ""
    module: str = ""
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @lazy_attribute
    def scale(self) -> float:
        """Factor of the product. Raises ``CheckpointError`` if the configuration does not state it."""
        rank, alpha = (_number(self.module, self.config, pattern, default) for pattern, default in _NUMBERS)
        return scale_of(int(rank), alpha, root=self.config.get("use_rslora") is True)

    @lazy_attribute
    def ids(self) -> Sequence[int]:
        """Row numbers of the trained tokens. Raises ``CheckpointError`` if the configuration does not list them."""
        return _ids(self.module, self.config)


@dataclass(frozen=True, eq=False)
class Adapted(WrappedTensors):
    """Tensors of a base model, changed by an adapter as they are read.

    Attributes:
        stored: Tensors of the base model.
        adapter: Tensors of the adapter.
        changes: How the adapter changes tensors, by their names in the base model.
    """

    adapter: ReadTensors
    changes: Mapping[str, ModuleChange]
    _kept: dict[str, NDArray[Any]] = field(default_factory=dict, repr=False)
    """Factors and scales that every row needs."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the locations of both checkpoints."""
        return Adapted, (self.stored, self.adapter, dict(self.changes))

    def names(self) -> tuple[str, ...]:
        """Return the names of the base model's tensors, and of those that the adapter adds."""
        return tuple(dict.fromkeys((*self.stored.names(), *self.changes)))

    def info(self, name: str) -> TensorInfo:
        """Return a tensor's dtype, shape and location; those of the adapter's own tensor if it is saved whole."""
        tensors, stored = self._holder(name)
        return replace(tensors.info(stored), name=name)

    def refusal(self, name: str) -> str:
        """Return why a tensor cannot be read as vectors, on one line; "" if it can."""
        return refusal(*self._holder(name))

    def file_bytes(self, name: str) -> int | None:
        """Return the size of the file that holds a tensor."""
        tensors, stored = self._holder(name)
        return tensors.file_bytes(stored)

    def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return rows ``[start, stop)`` of a tensor as the adapter changes them, read-only."""
        change = self.changes.get(name)
        if change is None:
            return self.stored.read(name, start, stop)
        if change.refused:
            raise CheckpointError(f"{shortened(name)} {change.refused}")
        if change.magnitude is not None:
            self._norms(name, change, self.info(name).shape)  # before other rows are in memory
        rows = self._unchanged(name, start, stop)
        stop = start + len(rows)
        if change.first is not None and change.second is not None:
            rows = self._low_rank(name, change, rows, start, stop)
        if change.tokens is not None:
            rows = self._replaced(name, change, rows, start, stop)
        rows.flags.writeable = False
        return rows

    def _holder(self, name: str) -> tuple[ReadTensors, str]:
        """Return the checkpoint that stores a tensor before other changes, and its name there."""
        change = self.changes.get(name)
        return (self.stored, name) if change is None or change.whole is None else (self.adapter, change.whole)

    def _unchanged(self, name: str, start: int, stop: int | None) -> NDArray[Any]:
        tensors, stored = self._holder(name)
        return tensors.read(stored, start, stop)

    def _low_rank(self, name: str, change: ModuleChange, rows: NDArray[Any], start: int, stop: int) -> NDArray[Any]:
        """Return rows plus the scaled low-rank product, with the magnitudes of DoRA where there are any."""
        total = self.info(name).shape
        left, right, by_row = self._factors(change, total)
        changed = _added(rows, left[start:stop], right, change.scale)
        if change.magnitude is None:
            return changed
        magnitude = self._whole(change.magnitude).reshape(-1)
        norms = self._norms(name, change, total)
        if magnitude.shape != norms.shape:
            found = f"{len(magnitude)} magnitudes for {len(norms)} vectors"
            raise CheckpointError(f"{shortened(change.magnitude)} has {found}; the adapter is for another model")
        factor = magnitude / norms
        factor = factor[start:stop, None] if by_row else factor[None, :]
        np.multiply(changed, factor, out=changed, casting="same_kind")
        return changed

    def _factors(self, change: ModuleChange, shape: tuple[int, ...]) -> tuple[NDArray[Any], NDArray[Any], bool]:
        """Return the factors [rows, r] and [r, columns] whose product is added to a tensor of ``shape``.

        The third value is whether a row is one output of the layer, so that DoRA has a magnitude for each row.
        """
        assert change.first is not None
        assert change.second is not None
        first, second = self._whole(change.first), self._whole(change.second)
        if first.ndim == second.ndim == 2:
            for turned in (True,) if change.embedding else (change.turned, not change.turned):
                left, right = (first.T, second.T) if turned else (second, first)
                if left.shape[1] == right.shape[0] and (left.shape[0], right.shape[1]) == shape:
                    return left, right, not turned
        found = f"{list(first.shape)} and {list(second.shape)}"
        raise CheckpointError(
            f"{shortened(change.first)} and its partner have the shapes {found}, which do not fit the base model's "
            f"{list(shape)}; the adapter is for another model, or for another size of its vocabulary"
        )

    def _norms(self, name: str, change: ModuleChange, shape: tuple[int, ...]) -> NDArray[Any]:
        """Return the norms of a whole changed tensor, by row or by column, as DoRA divides by them."""
        key = f"norms of {name}"
        if key not in self._kept:
            left, right, by_row = self._factors(change, shape)
            step = max(1, CHUNK_BYTES // (4 * max(shape[1], 1)))
            parts = []
            for start in range(0, shape[0], step):
                stop = min(start + step, shape[0])
                rows = _added(self._unchanged(name, start, stop), left[start:stop], right, change.scale)
                squares = "ij,ij->i" if by_row else "ij,ij->j"
                parts.append(np.einsum(squares, rows, rows, dtype=np.float64, casting="same_kind"))
                del rows
            total = np.concatenate(parts) if by_row else np.sum(parts, axis=0)
            self._kept[key] = np.sqrt(total)
        return self._kept[key]

    def _replaced(self, name: str, change: ModuleChange, rows: NDArray[Any], start: int, stop: int) -> NDArray[Any]:
        """Return rows with those of trained tokens replaced."""
        assert change.tokens is not None
        trained = self._whole(change.tokens)
        if len(trained) != len(change.ids) or trained.shape[1:] != rows.shape[1:]:
            found = f"{list(trained.shape)} for {len(change.ids)} tokens of width {rows.shape[-1]}"
            raise CheckpointError(f"{shortened(change.tokens)} has the shape {found}; the adapter is for another model")
        places, rows_of_base = np.asarray(change.ids, np.int64), self.info(name).shape[0]
        if (places >= rows_of_base).any():
            found = f"the token {places.max():,}, but the base model has {rows_of_base:,} rows"
            raise CheckpointError(f"{shortened(change.tokens)} is for {found}; the adapter is for a larger vocabulary")
        inside = (places >= start) & (places < stop)
        if not inside.any():
            return rows
        out = np.array(rows)
        out[places[inside] - start] = trained[inside]
        return out

    def _whole(self, name: str) -> NDArray[Any]:
        if name not in self._kept:
            self._kept[name] = self.adapter.read(name)
        return self._kept[name]


def _added(rows: NDArray[Any], left: NDArray[Any], right: NDArray[Any], scale: float) -> NDArray[Any]:
    """Return ``rows + scale · left @ right``, without memory for the product besides."""
    out: NDArray[Any] = left @ right
    out = out.astype(np.result_type(rows, out), copy=False)
    out *= scale
    out += rows
    return out


def scale_of(rank: int, alpha: float, *, root: bool) -> float:
    """Return the factor of a low-rank product: α / r, or α / √r for rsLoRA.

    >>> from hfposemb.checkpoints.adapters.adapted import scale_of
    >>> scale_of(4, 16, root=False), scale_of(4, 16, root=True)
    (4.0, 8.0)
    """
    return alpha / (math.sqrt(rank) if root else rank)
