"""Input recipe of an opened model: how token vectors become the first layer's input, from rules and tensors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..errors import MissingTableError
from ..tables.encodings import Absolute, PositionEncoding
from ..tables.inputs import Affine, InputRecipe, LayerNorm, RootMeanSquareNorm
from ..tables.table import EmbeddingTable
from .architectures.config_values import real_number, whole_number
from .architectures.families import BY_NAMES, NORMS_WITH_FIXED_EPS, InputRule, is_known, no_inputs
from .architectures.table_names import NUMBERED, tower_of
from .opened_model import Opened

_KEPT = 1 - 0.15 * 0.8
"""Share of the tokens that ESM's training did not mask."""


def recipe(
    opened: Opened,
    tables: Mapping[str, EmbeddingTable],
    positions: Mapping[str, PositionEncoding],
    fed: Sequence[str],
) -> InputRecipe:
    """Return how a model computes its first layer's input from token ids.

    Args:
        opened: The opened model.
        tables: Its tables by role and part.
        positions: Its position encodings by part.
        fed: Parts that the token vectors enter.

    Raises:
        MissingTableError: If it is unknown or not computed for the model type, with the reason.
    """
    from ..checkpoints.tokenizers.loading import load_tokenizer
    from ..checkpoints.tokenizers.worker import Cutter

    config, family, token = opened.part("text"), opened.family(), tables["token"]
    if opened.config and not is_known(opened.config):
        raise MissingTableError(f"the first layer's input of {opened.name} is unknown; its tables can still be used")
    if reason := no_inputs(opened.config):
        raise MissingTableError(f"the first layer's input of {opened.name} is not computed: {reason}")
    position = _added(positions, opened, fed)
    if not opened.config:
        kinds = tuple(table for key, table in tables.items() if key == "token_type")
        return InputRecipe(token, position, kinds, norm=_lone_norm(opened))
    rule = family.inputs or BY_NAMES
    tensor = token.provenance.tensor or ""
    masks = bool(rule.masks) and config.get(rule.masks) is True
    return InputRecipe(
        token,
        position,
        tuple(_constants(tables, rule, tensor)),
        scale=_KEPT if masks else _scale(config, rule, token.shape[1]),
        masked=whole_number(config, "mask_token_id") if masks else None,
        before=_affine(opened, rule.before, tensor),
        neighbours=config.get(rule.neighbours) is True if rule.neighbours else False,
        norm=_norm(opened, rule, tensor, config),
        after=_affine(opened, rule.after, tensor),
        padding=(padding := _padding(opened, position)),
        filling=_filling(opened, padding, token.shape[0]),
        tokenize=(load_tokenizer if opened.ours else Cutter)(folder) if (folder := opened.folder()) else None,
    )


def _added(positions: Mapping[str, PositionEncoding], opened: Opened, fed: Sequence[str]) -> EmbeddingTable | None:
    """Return the position table that is added to tokens: that of the first part they enter that has one."""
    if opened.part("text").get("position_biased_input", True) is False:
        return None
    return next((found.table for key in fed if isinstance(found := positions[key], Absolute)), None)


def _constants(tables: Mapping[str, EmbeddingTable], rule: InputRule, near: str) -> Iterable[EmbeddingTable]:
    """Yield the tables whose row 0 is added to every token: token types, and the axes of an absent bounding box."""
    keys = [key.removesuffix("token_type").rstrip(".") for key in tables if key.rsplit(".", 1)[-1] == "token_type"]
    several = {key for key in keys if (last := key.rsplit(".", 1)[-1]).isdecimal() or last == "task"}
    own = [key for key in keys if key.split(".")[0] == tower_of(near) or key in several]
    own = own or [key for key in keys if key in ("", "encoder", "text")][:1]
    yield from (tables[f"{key}.token_type".strip(".")] for key in own)
    yield from (_of_axis(tables, axis, near) for axis in rule.boxes)


def _of_axis(tables: Mapping[str, EmbeddingTable], axis: str, near: str) -> EmbeddingTable:
    """Return the position table of an axis; of several, that of the text's tower."""
    found = [key for key in tables if f".{key}".endswith(f".{axis}.position")]
    if not found:
        raise MissingTableError(
            f"the first layer's input includes the {axis} of a bounding box, but its table was not found; tables: "
            f"{', '.join(tables)}"
        )
    return tables[min(found, key=lambda key: (key.split(".")[0] != tower_of(near), len(key)))]


def _scale(config: Mapping[str, Any], rule: InputRule, width: int) -> float:
    for name in rule.scale:
        if name == "√width" or config.get(name) is True:
            return math.sqrt(width)
        if (factor := real_number(config, name, low=1e-9, high=1e9)) is not None:
            return factor
    return 1.0


def _padding(opened: Opened, position: EmbeddingTable | None) -> int | None:
    if not opened.family().counts_padding or position is None:
        return None
    if position.provenance.tensor is not None:
        return position.provenance.row_offset - 1
    return whole_number(opened.part("text"), "pad_token_id")


def _filling(opened: Opened, padding: int | None, rows: int) -> int | None:
    """Return the id that pads a batch: the padding id, else the end-of-text id, if the table has its row."""
    parts = (opened.part("text"), opened.config)
    stated = [part.get(name) for name in ("pad_token_id", "eos_token_id") for part in parts]
    first = [found[0] if isinstance(found, list) and found else found for found in (padding, *stated)]
    ids = (found for found in first if isinstance(found, int) and not isinstance(found, bool))
    return next((found for found in ids if 0 <= found < rows), None)


def _named(opened: Opened, modules: tuple[str, ...], endings: tuple[str, ...], near: str) -> str | None:
    """Return the tensor of the first module that exists, outside the layers and nearest to the token table."""
    tower = tower_of(near)
    for module in modules:
        fitting = [
            name
            for name in opened.tensors.names()
            for ending in endings
            if f".{name}".endswith(f".{module}{ending}")
            and not NUMBERED.search(f".{name}.")
            and tower_of(name) in {tower, "", "encoder" if tower == "" else tower}
        ]
        if fitting:
            return min(fitting, key=lambda name: (-shared(name, near), "decoder" in name, len(name)))
    return None


def shared(one: str, other: str) -> int:
    """Return the number of leading name components that two tensor names share."""
    pairs = zip(one.split("."), other.split("."), strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), 0)


def _norm(
    opened: Opened, rule: InputRule, near: str, config: Mapping[str, Any]
) -> LayerNorm | RootMeanSquareNorm | None:
    weight = _named(opened, rule.norm, (".weight", ".gamma"), near)
    if weight is None and not (rule.rms and not rule.norm):
        return None
    eps = epsilon(opened, rule.eps, config, weight or "")
    if weight is None or rule.rms:
        return RootMeanSquareNorm(None if weight is None else opened.tensors.read(weight), eps)
    bias = _named(opened, (weight.rpartition(".")[0],), (".bias", ".beta"), near)
    plain = config.get("normalization_type") == "no_norm"
    read = opened.tensors.read
    return LayerNorm(read(weight), None if bias is None else read(bias), None if plain else eps)


def epsilon(opened: Opened, stated_by: tuple[str, ...] | float, config: Mapping[str, Any], weight: str) -> float:
    """Return a norm's epsilon: the given number, or the first of the fields that the configuration has."""
    if isinstance(stated_by, float):
        return stated_by
    stated = next((name for name in stated_by if name in config), None)
    if stated is None and weight.rpartition(".")[0].endswith(NORMS_WITH_FIXED_EPS):
        return 1e-5
    eps = real_number(config, stated, low=0.0, high=1.0) if stated else None
    if eps is None:
        raise MissingTableError(
            f"the configuration of {opened.name} has no number {stated or stated_by[0]}, needed for its normalisation"
        )
    return eps


def _affine(opened: Opened, modules: tuple[str, ...], near: str) -> Affine | None:
    weight = _named(opened, modules, (".weight",), near)
    if weight is None:
        return None
    bias = _named(opened, (weight.rpartition(".")[0],), (".bias",), near)
    return Affine(opened.tensors.read(weight), None if bias is None else opened.tensors.read(bias))


def _lone_norm(opened: Opened) -> LayerNorm | None:
    """Return the only LayerNorm of a module without configuration; ``None`` if there is not exactly one."""
    from ..checkpoints.torch_module import LiveTensors

    if not isinstance(opened.tensors, LiveTensors) or len(norms := opened.tensors.modules_of("LayerNorm")) != 1:
        return None
    module: Any = opened.tensors.module.get_submodule(norms[0])
    tensors = opened.tensors
    bias = f"{norms[0]}.bias" if f"{norms[0]}.bias" in tensors.names() else None
    return LayerNorm(tensors.read(f"{norms[0]}.weight"), None if bias is None else tensors.read(bias), module.eps)
