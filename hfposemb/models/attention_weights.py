"""First-layer attention of an opened model, from the rules and that layer's tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checkpoints.quantised.decoded import refusal
from ..errors import CheckpointError, MissingTableError
from ..lazy_attributes import lazy_attribute
from ..tables.attention import Attention, HeadMap, Norm
from ..tables.encodings import Absolute, Alibi, NoPositions, PositionEncoding, RelativeBias
from ..tables.inputs import LayerNorm, RootMeanSquareNorm
from ..tables.rotary import Rotary
from ..tables.table import EmbeddingTable
from .architectures.config_values import real_number, whole_number
from .architectures.table_names import tower_of
from .attention_rules import ATTENTION, AttentionRule, no_logits
from .input_recipes import epsilon, shared
from .opened_model import Opened

_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads", "attention_heads")
_WIDTHS = ("head_dim",)
_OTHER_TOWERS = frozenset(("vision", "audio", "video", "talker", "qformer", "action"))


def attention(
    opened: Opened, tables: Mapping[str, EmbeddingTable], positions: Mapping[str, PositionEncoding]
) -> Attention:
    """Return the first layer's attention; reads W_Q, W_K and the norms of that layer and nothing else.

    Args:
        opened: The opened model.
        tables: Its tables by role and part.
        positions: Its position encodings by part.

    Raises:
        MissingTableError: If the architecture's attention is unknown or cannot be decomposed, with the reason.
        CheckpointError: If the tensors do not fit together.
    """
    if not opened.config:
        raise MissingTableError(f"{opened.name} has no configuration, so the attention of its first layer is unknown")
    if opened.in_gguf:
        raise MissingTableError(
            f"the first layer's logits of {opened.name} are not computed: GGUF stores the rows of query and key "
            "projections in the order of llama.cpp's rotation; use the safetensors checkpoint"
        )
    if reason := no_logits(opened.config):
        raise MissingTableError(f"the first layer's logits of {opened.name} cannot be decomposed: {reason}")
    layer = _Layer(opened, _rule(opened), tables["token"].provenance.tensor or "")
    query, key = layer.maps()
    if query.weight.shape[2] != key.weight.shape[2] or len(query.weight) % len(key.weight):
        raise layer.unfit(f"{len(query.weight)} query heads cannot share {len(key.weight)} key heads")
    rule, config = layer.rule, opened.part("text")
    norm = layer.norm(rule.norm) if config.get(rule.norm_if) is not False else None
    if norm is not None and norm.weight is not None and norm.weight.shape != query.weight.shape[2:]:
        raise layer.unfit(
            f"its norm has the shape {list(norm.weight.shape)}, but inputs have {query.weight.shape[2]} dimensions"
        )
    turning, bias = _mechanism(opened, rule, positions)
    width = query.weight.shape[1]
    if turning is not None and 2 * len(turning.inv_freq) > width:
        raise layer.unfit(f"{2 * len(turning.inv_freq)} rotated dimensions exceed the head width of {width}")
    if bias is not None and len(bias.slopes if isinstance(bias, Alibi) else bias.bias[0]) != len(query.weight):
        raise layer.unfit(f"the number of its biases does not match its {len(query.weight)} heads")
    causal = rule.causal and config.get(rule.both_ways) is not True
    return Attention(
        query,
        key,
        scale=layer.scale(width),
        norm=norm,
        turning=turning,
        bias=bias,
        causal=causal or config.get("is_decoder") is True,
        window=_window(config, _kind(opened, rule)),
        counts=rule.counts,
    )


def _rule(opened: Opened) -> AttentionRule:
    """Return the rule of the model type. Raises ``MissingTableError`` if a field shows that it does not apply."""
    config = opened.part("text")
    rule = ATTENTION[str(config.get("model_type", opened.config.get("model_type")))]
    for name, value in rule.expects:
        outer, _, inner = name.rpartition(".")
        holder = config.get(outer, {}) if outer else config
        if isinstance(holder, Mapping) and holder.get(inner, value) != value:
            raise MissingTableError(
                f"the first layer's logits of {opened.name} cannot be decomposed: "
                f"its {name} is {str(holder[inner])[:40]}"
            )
    return rule


@dataclass(frozen=True, eq=False)
class _Layer:
    """Tensors of a first layer, each read on access.

    ``near`` is the name of the token table's tensor, used to choose between towers.
    """

    opened: Opened
    rule: AttentionRule
    near: str

    @lazy_attribute
    def heads(self) -> int:
        """Number of query heads according to the configuration."""
        found = self.opened.stated(_HEADS)
        if found is None:
            raise self.unfit("its configuration does not state the number of heads")
        return found

    def unfit(self, what: str) -> CheckpointError:
        """Return a ``CheckpointError`` about this layer."""
        return CheckpointError(f"the first layer of {self.opened.name} cannot be read: {what}")

    def find(self, module: str, kind: str) -> str | None:
        """Return the name of a module's weight or bias; of several, the one nearest to the token table by name."""
        wanted = f".{self.rule.layer}.{module}.{kind}"
        fitting = [
            name
            for name in self.opened.tensors.names()
            if f".{name}".endswith(wanted) and tower_of(name) not in _OTHER_TOWERS
        ]
        return min(fitting, key=lambda name: (-shared(name, self.near), len(name)), default=None)

    def read(self, name: str) -> NDArray[np.floating]:
        """Read a tensor of the layer. Raises ``MissingTableError`` if it is quantised."""
        if reason := refusal(self.opened.tensors, name):
            raise MissingTableError(f"the first layer's logits of {self.opened.name} cannot be decomposed: {reason}")
        return self.opened.tensors.read(name)

    def maps(self) -> tuple[HeadMap, HeadMap]:
        """Return the query projection and the key projection."""
        read = self._fused if self.rule.fused else self._apart
        query, key = read("weight"), read("bias")
        assert query is not None
        biases = (None, None) if key is None else key
        norms = [self.norm(name, rms=True) for name in (self.rule.query_norm, self.rule.key_norm)]
        maps = []
        for weight, bias, norm in zip(query, biases, norms, strict=True):
            assert norm is None or isinstance(norm, RootMeanSquareNorm)
            size = None if norm is None or norm.weight is None else norm.weight.shape
            if size not in (None, weight.shape[1:2], (weight.shape[0] * weight.shape[1],)):
                raise self.unfit(f"its norm has the shape {list(size or ())}, but its heads {list(weight.shape[:2])}")
            if bias is not None and bias.shape[:2] != weight.shape[:2]:
                raise self.unfit(f"its bias has the shape {list(bias.shape)}, but its weight {list(weight.shape)}")
            maps.append(HeadMap(weight, None if bias is None else bias[..., 0], norm))
        return maps[0], maps[1]

    def _apart(self, kind: str) -> tuple[NDArray[np.floating], NDArray[np.floating]] | None:
        """Return weights or biases of separate projections, queries and keys [heads, width, in]; a bias has in = 1."""
        names = [self.find(module, kind) for module in (self.rule.query, self.rule.key)]
        if names[0] is None or names[1] is None:
            if kind == "bias":
                return None
            raise self.unfit(f"it has no tensor {self.rule.layer}.{self.rule.query}.weight")
        query, key = (self._columns(self.read(name), kind) for name in names if name is not None)
        width = len(query) // self.heads
        if 0 in (width, key.size) or len(query) != width * self.heads or len(key) % width:
            raise self.unfit(f"{len(query)} and {len(key)} rows cannot be split into {self.heads} heads")
        return query.reshape(self.heads, width, query.shape[1]), key.reshape(-1, width, key.shape[1])

    def _fused(self, kind: str) -> tuple[NDArray[np.floating], NDArray[np.floating]] | None:
        name, heads = self.find(self.rule.query, kind), self.heads
        if name is None:
            if kind == "bias":
                return None
            raise self.unfit(f"it has no tensor {self.rule.layer}.{self.rule.query}.weight")
        rows = self._columns(self.read(name), kind)
        width = self.opened.stated(_WIDTHS) or self._inner(name, kind) // heads
        # The remaining rows are keys and as many values.
        keys = (len(rows) // max(width, 1) - heads) // 2
        if keys < 1 or len(rows) != (heads + 2 * keys) * width or heads % keys:
            raise self.unfit(f"{len(rows)} rows cannot be split into {heads} heads of width {width}")
        if self.rule.fused == "stacked":
            parted = rows[: (heads + keys) * width].reshape(heads + keys, width, rows.shape[1])
            return parted[:heads], parted[heads:]
        grouped = rows.reshape(keys, heads // keys + 2, width, rows.shape[1])
        return grouped[:, :-2].reshape(heads, width, rows.shape[1]), grouped[:, -2]

    def _inner(self, name: str, kind: str) -> int:
        """Return the input width of the fused module, from the shape of its weight."""
        weight = name.removesuffix(kind) + "weight"
        return self.opened.tensors.info(weight).shape[0 if self.rule.turned else -1]

    def _columns(self, values: NDArray[np.floating], kind: str) -> NDArray[np.floating]:
        """Return a weight as [out, in], a bias as [out, 1]."""
        if kind == "bias":
            return values.reshape(-1, 1)
        if values.ndim != 2:
            raise self.unfit(f"a weight must have two axes; its shape is {list(values.shape)}")
        return values.T if self.rule.turned else values

    def norm(self, module: str, *, rms: bool = False) -> Norm | None:
        """Return a norm of the layer, or ``None`` if the rule names none."""
        if not module:
            return None
        name = self.find(module, "weight")
        if name is None:
            raise self.unfit(f"it has no tensor {self.rule.layer}.{module}.weight")
        weight = self.read(name) + np.float32(self.rule.plus_one)
        eps = epsilon(self.opened, self.rule.eps, self.opened.part("text"), name)
        if rms or self.rule.rms:
            return RootMeanSquareNorm(weight, eps)
        bias = self.find(module, "bias")
        return LayerNorm(weight, None if bias is None else self.read(bias), eps)

    def scale(self, width: int) -> float:
        """Return the factor of the dot products."""
        field = self.rule.scale.removeprefix("1/√")
        if field == "1":
            return 1.0
        config = self.opened.part("text")
        found = float(width) if field == "head" else real_number(config, field, low=1e-9, high=1e9)
        if found is None:
            raise self.unfit(f"its configuration has no number {field}, needed to scale its logits")
        return 1 / math.sqrt(found) if field != self.rule.scale else found


def _mechanism(
    opened: Opened, rule: AttentionRule, positions: Mapping[str, PositionEncoding]
) -> tuple[Rotary | None, Alibi | RelativeBias | None]:
    """Return the rotary encoding and the bias of the first layer.

    Position tables that are added to tokens are part of the input recipe instead. Raises ``MissingTableError`` for
    encodings whose effect is not a sum, and if none was found.
    """
    turning: Rotary | None = None
    bias: Alibi | RelativeBias | None = None
    towers = {key: tower_of(key) for key in positions}
    encodes = "encoder" in towers.values() and not rule.layer.startswith("decoder")
    passed = _OTHER_TOWERS | ({"decoder"} if encodes else set())
    first, known = _kind(opened, rule), False
    for key, tower in towers.items():
        kind = key.rpartition(".")[2]
        if tower in passed or (first and kind != first and kind.endswith("_attention")):
            continue
        known = True
        match positions[key]:
            case Absolute() | NoPositions():
                pass
            case Rotary() as found:
                turning = turning or found
            case (Alibi(rounded=False) | RelativeBias()) as found:
                bias = bias or found
            case other:
                raise MissingTableError(
                    f"the first layer's logits of {opened.name} cannot be decomposed: its {other.kind} positions are "
                    "rounded or not part of a sum"
                )
    if not known:
        raise MissingTableError(
            f"the first layer's logits of {opened.name} cannot be decomposed: its position encoding was not found"
        )
    return turning, bias


def _kind(opened: Opened, rule: AttentionRule) -> str:
    """Return the kind of the first layer, "" if all layers are alike."""
    kinds = opened.part("text").get("layer_types")
    return str(kinds[0]) if isinstance(kinds, list) and kinds else rule.kind


def _window(config: Mapping[str, Any], kind: str) -> int | None:
    """Return how many keys a query of the first layer sees, including its own; ``None`` for all."""
    if kind not in ("", "sliding_attention") or config.get("use_sliding_window") is False:
        return None
    return whole_number(config, "sliding_window", low=1)
