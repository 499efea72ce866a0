"""Stored tensors that together hold one quantised table, grouped by their names."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from ...errors import CheckpointError
from ..safetensors.checkpoint import TensorInfo
from ..strict_json import fault, shortened

if TYPE_CHECKING:
    from .code_values import Precision
    from .scaled_codes import BlockNumbers

FLOATS: Mapping[str, Precision] = {"F32": "F32", "F16": "F16", "BF16": "BF16"}
"""Stored dtypes of scales, with the precision in which a reference implementation computes with them."""

FLOAT8 = ("F8_E4M3", "F8_E5M2")
"""Stored dtypes of 8-bit floating-point numbers that are decoded as vectors."""

_CODES = ("weight", "embedding_quantized", "weight_packed", "_weight_qdata", "qweight", "W_q", "codes")
"""Last components of the names of codes: the table itself, Gemma, compressed-tensors, torchao, GPTQ, HQQ, AQLM."""

_OWN = frozenset(("embedding_quantized", "weight_packed", "_weight_qdata", "qweight"))
"""Names of codes that nothing else has, so that they are known without scales."""

_MARKS = (
    *("scales", "embedding_scale", "weight_scale", "weight_scale_inv", "_weight_scale", "scale_weight", "SCB"),
    *("absmax", "quant_map", "qzeros", "scale", "codebooks", "weight_scale_2", "weight_zero_point"),
)
"""Last components of the names of scales, of which a quantised table has at least one."""

_OTHERS = frozenset(("biases", "_weight_zero_point", "weight_global_scale", "weight_shape", "weight_g_idx", "g_idx"))


_KNOWN = frozenset((*_CODES, *_MARKS, *_OTHERS))

_NEEDED: Mapping[str, frozenset[str]] = {
    "W_q": frozenset(("scale",)),
    "codes": frozenset(("codebooks", "scales")),
}
"""Names of codes that other modules use too, with parts that tell them apart."""


@lru_cache(maxsize=16)
def grouped(names: tuple[str, ...]) -> Mapping[str, Mapping[str, str]]:
    """Return the parts of each quantised table, ``{"m.weight": {"weight": "m.weight", "scales": "m.scales"}}``.

    Args:
        names: Names of all tensors of a checkpoint.
    """
    modules: dict[str, dict[str, str]] = {}
    marked: dict[str, None] = {}
    for name in names:
        module, _, last = name.rpartition(".")
        if last in ("absmax", "quant_map") and module.endswith("weight"):  # bitsandbytes: m.weight.absmax
            module = module.removesuffix("weight").removesuffix(".")
        if last in _KNOWN:
            modules.setdefault(module, {})[last] = name
            if last in _MARKS or last in _OWN:
                marked[module] = None
    found = {}
    for module in marked:
        parts = modules[module]
        codes = next((one for one in _CODES[::-1] if one in parts and _NEEDED.get(one, set()) <= set(parts)), None)
        # HQQ's ``scale`` is a name of other things too, such as the scale of a norm.
        if codes in _OWN or codes == "W_q" or (codes and set(parts) & (set(_MARKS) - {"scale"})):
            found[f"{module}.weight" if module else "weight"] = {codes: parts[codes]} | parts
    return found


def beside(name: str, names: tuple[str, ...]) -> Mapping[str, str]:
    """Return a table of codes that is in no group, and the tensors of its module that may be parts of it."""
    module = name.removesuffix("weight")
    parts = {last: module + last for last in _KNOWN - {"weight"}} if module != name else {}
    return {"weight": name} | {last: part for last, part in parts.items() if part in names}


@dataclass(frozen=True, eq=False)
class QuantisedParts:
    """The parts of one quantised table.

    Attributes:
        name: Name of the table, as it would be stored without quantisation.
        tensors: Its parts by the last component of their names, the codes first.
        config: Configuration of the model.
        metadata: Metadata of the file's header.
        read: Reads rows of a tensor by name as they are stored.
    """

    name: str
    tensors: Mapping[str, TensorInfo]
    config: Mapping[str, Any]
    metadata: Mapping[str, str]
    read: Callable[[str, int, int], NDArray[Any]]

    @property
    def module(self) -> str:
        """Name of the module that the table belongs to."""
        return self.name.removesuffix("weight").removesuffix(".")

    @property
    def codes(self) -> TensorInfo:
        """The tensor with the codes."""
        return next(iter(self.tensors.values()))

    @property
    def method(self) -> str:
        """Method of quantisation that the configuration states, "" if none."""
        stated = self.settings.get("quant_method")
        return stated if isinstance(stated, str) else ""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What the configuration states about quantisation."""
        found = self.config.get("quantization_config")
        return found if isinstance(found, Mapping) else {}

    @property
    def weight_settings(self) -> Mapping[str, Any]:
        """What compressed-tensors states about weights; empty if there are several groups, chosen by patterns."""
        groups = self.settings.get("config_groups")
        found = list(groups.values()) if isinstance(groups, Mapping) else []
        weights = found[0].get("weights") if len(found) == 1 and isinstance(found[0], Mapping) else None
        return weights if isinstance(weights, Mapping) else {}

    @property
    def precision(self) -> Precision:
        """Precision in which the model computes, by its configuration."""
        for config in (self.config, self.config.get("text_config")):
            stated = config.get("dtype", config.get("torch_dtype")) if isinstance(config, Mapping) else None
            if isinstance(stated, str):
                known: dict[str, Precision] = {"bfloat16": "BF16", "float16": "F16"}
                return known.get(stated.removeprefix("torch."), "F32")
        return "F32"

    @property
    def widths(self) -> frozenset[int]:
        """Widths of token vectors that the configuration states."""
        parts = (self.config, self.config.get("text_config"))
        stated = [part.get(key) for part in parts if isinstance(part, Mapping) for key in _WIDTHS]
        return frozenset(one for one in stated if isinstance(one, int) and not isinstance(one, bool) and one > 0)

    def fault(self, rule: str) -> CheckpointError:
        """Return an error about this table."""
        return fault(self.codes.file, rule)

    def part(self, last: str, dtypes: Collection[str], *, rank: Collection[int] = (2,)) -> TensorInfo:
        """Return a part by the last component of its name.

        Raises:
            CheckpointError: If it is missing, or its dtype or number of axes is another.
        """
        if last not in self.tensors:
            what = f"{shortened(self.codes.name)} is stored as {self.codes.dtype}, but its {last} are missing"
            raise self.fault(f"{what}; download the checkpoint again")
        info = self.tensors[last]
        if info.dtype not in dtypes:
            raise self.fault(f"{shortened(info.name)} is stored as {info.dtype}; expected {' or '.join(dtypes)}")
        if len(info.shape) not in rank:
            raise self.fault(f"{shortened(info.name)} has the shape {list(info.shape)}; expected a table")
        if 0 in info.shape:
            raise self.fault(f"{shortened(info.name)} has the shape {list(info.shape)}, which has no numbers")
        return info

    def per_group(
        self, info: TensorInfo, shape: tuple[int, int], columns: int, *, precision: Precision
    ) -> BlockNumbers:
        """Return numbers of groups of ``columns`` of each row of a table.

        Raises:
            CheckpointError: If the tensor does not have one number for each group.
        """
        from .scaled_codes import BlockNumbers

        rows, width = shape
        groups = width // columns if columns and width % columns == 0 else 0
        if not groups or info.shape not in ((rows, groups), *(((rows,),) if groups == 1 else ())):
            rule = f"{rows} rows of {width} numbers in groups of {columns}"
            need = f" need [{rows}, {groups}]" if groups else " cannot be"
            raise self.fault(f"{shortened(info.name)} has the shape {list(info.shape)}, but {rule}{need}")
        return BlockNumbers(info, 1, columns, precision=precision)

    def check_stated(self, scales: BlockNumbers, width: int) -> None:
        """Raise ``CheckpointError`` if ``weight_settings`` state other groups or zero points than are stored."""
        stated, group = self.weight_settings, scales.columns if scales.rows == 1 else 0
        size, strategy = stated.get("group_size"), stated.get("strategy")
        whole = {"channel": width, "tensor": 0}.get(strategy, group) if isinstance(strategy, str) else group
        if (type(size) is int and size > 0 and size != group) or whole != group:
            found = f"config.json states {shortened(str(strategy))} and groups of {shortened(str(size))}"
            raise self.fault(f"{found}, but {shortened(scales.tensor.name)} has the shape {list(scales.tensor.shape)}")
        if stated.get("symmetric") is False and "weight_zero_point" not in self.tensors:
            raise self.fault(
                f"config.json states zero points, but {shortened(self.module)} has none; download it again"
            )

    def single(self, info: TensorInfo, shape: tuple[int, int]) -> BlockNumbers:
        """Return the one number of a whole table.

        Raises:
            CheckpointError: If the tensor has several.
        """
        from .scaled_codes import BlockNumbers

        if math.prod(info.shape) != 1:
            raise self.fault(f"{shortened(info.name)} has the shape {list(info.shape)}; expected a single number")
        return BlockNumbers(info, *shape)

    def refused(self, how: str = "") -> CheckpointError:
        """Return the error that says how this table is stored and that it is not decoded."""
        codes, scales = self.codes, next((last for last in _MARKS if last in self.tensors), None)
        beside = f" with {self.tensors[scales].name}" if scales else ""
        stored = f"{codes.name} is stored as {codes.dtype}{beside}{f' ({how})' if how else ''}"
        return CheckpointError(f"{stored}, not as plain vectors; use the full-precision checkpoint of this model")


_WIDTHS = ("hidden_size", "n_embd", "d_model", "dim")

READ = ("quantization", "quantization_config", "text_config", "dtype", "torch_dtype", *_WIDTHS)
"""Fields of a configuration that are read."""
