"""Small checkpoints of every layout, changed at random: their tensors, names, settings and files."""

from __future__ import annotations

import copy
import json
import os
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from tests.support.checkpoints.quantised import affine

DTYPES = {
    **{"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I8": torch.int8},
    **{"U8": torch.uint8, "I32": torch.int32, "I64": torch.int64, "U32": torch.uint32, "BOOL": torch.bool},
    **{"F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "F8_E8M0": torch.float8_e8m0fnu},
}
_NAMES = {kind: name for name, kind in DTYPES.items()}
MODEL, INDEX = "model.safetensors", "model.safetensors.index.json"
NESTED = "@nested@"
_DEEP = "[" * 5000 + "]" * 5000
EXTREMES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 4, 5, 8, 16, 31, 32, 64, 128, 2**31, 2**63, 10**30, 1e300, 0.5, 1e-30),
    *(float("nan"), float("inf"), "", "4", "abc", "x" * 3000, "../x", "/etc/passwd", "\x1b[2J\u202e\n", NESTED),
    *([], {}, [1, 2], [16, 16], [-1, 16], [1, 64], ["a"], {"a": {}}, [[1]], {"bits": 4}),
)
KEYS = (
    *("bits", "group_size", "mode", "quant_method", "weight_block_size", "num_bits", "hidden_size", "dtype", "dim"),
    *("quantization", "quantization_config", "model_type", "symmetric", "strategy", "head_dim", "rope_theta"),
    *("model.embed_tokens", "text_config", "block_size", "weight_map", "tie_word_embeddings", "architectures"),
)
PARTS = (
    *("weight", "scales", "biases", "weight_scale", "weight_scale_inv", "weight_scale_2", "weight_packed"),
    *("weight_shape", "weight_zero_point", "weight_g_idx", "weight_global_scale", "embedding_quantized", "scale"),
    *("embedding_scale", "_weight_qdata", "_weight_scale", "_weight_zero_point", "qweight", "W_q", "codes", "SCB"),
)
LINKS = ("loop", "nowhere", "zero", "pipe", "folder", "self", "elsewhere")


@dataclass
class Stored:
    """A tensor as a header states it, and its bytes, which need not fit."""

    file: str
    name: str
    dtype: str
    shape: list[int]
    raw: bytes = field(repr=False)

    def values(self) -> torch.Tensor:
        """Return its numbers. Raises ``ValueError`` if its bytes do not fit."""
        if _product(self.shape) * torch.empty(0, dtype=DTYPES[self.dtype]).element_size() != len(self.raw):
            raise ValueError(self.name)
        if not self.raw:
            return torch.zeros(self.shape, dtype=DTYPES[self.dtype])
        return torch.frombuffer(bytearray(self.raw), dtype=DTYPES[self.dtype]).reshape(self.shape)


@dataclass
class Folder:
    """A folder with a checkpoint: tensors, metadata and JSON files, and what is done to its files when written."""

    tensors: list[Stored]
    documents: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    cuts: dict[str, float] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)

    def files(self) -> list[str]:
        """Return the names of its files."""
        return list(dict.fromkeys([*(one.file for one in self.tensors), *self.documents]))

    def written(self, folder: Path) -> Path:
        """Write it into a folder that does not exist; what its links lead to is beside it."""
        folder.mkdir()
        for file in self.files():
            raw = self._document(file) if file in self.documents else self._safetensors(file)
            share = self.cuts.get(file, 1.0)
            raw = raw[: int(len(raw) * share)] + b"\0" * int(len(raw) * max(share - 1, 0))
            link, place = self.links.get(file), folder / file
            beside = folder.parent / f"beside-{file}"
            beside.unlink(missing_ok=True)
            if link == "elsewhere":
                beside.write_bytes(raw)
            elif link == "pipe":
                os.mkfifo(beside)
            targets = {"zero": "/dev/zero", "folder": folder, "self": "/proc/self/mem", "loop": place}
            if link is None:
                place.write_bytes(raw)
            else:
                place.symlink_to(targets.get(link, beside))
        return folder

    def _document(self, file: str) -> bytes:
        return json.dumps(self.documents[file]).replace(f'"{NESTED}"', _DEEP).encode()

    def _safetensors(self, file: str) -> bytes:
        entries, data = [], b""
        if self.metadata:
            entries.append(f'"__metadata__":{json.dumps(self.metadata)}')
        for one in (one for one in self.tensors if one.file == file):
            span = [len(data), len(data) + len(one.raw)]
            fields = {"dtype": one.dtype, "shape": one.shape, "data_offsets": span}
            entries.append(f"{json.dumps(one.name)}:{json.dumps(fields)}")
            data += one.raw
        header = f"{{{','.join(entries)}}}".encode()
        return len(header).to_bytes(8, "little") + header + data


def stored(tensors: Mapping[str, torch.Tensor], file: str = MODEL) -> list[Stored]:
    """Return tensors as they are stored."""
    return [
        Stored(
            file,
            name,
            _NAMES[one.dtype],
            list(one.shape),
            one.contiguous().view(-1).view(torch.uint8).numpy().tobytes(),
        )
        if one.dim()
        else replace(stored({name: one[None]}, file)[0], shape=[])
        for name, one in tensors.items()
    ]


# --- one sound example of each layout, or a few -----------------------------------------------------------------------


def _made(**parts: torch.Tensor) -> list[Stored]:
    return stored({f"model.embed_tokens.{last}": part for last, part in parts.items()})


def _torchao(kind: str, names: tuple[str, ...], **data: object) -> dict[str, str]:
    typed = {"dtype": {"_type": "torch.dtype", "_data": "float16"}, **data}
    described = {"_type": kind, "_data": typed, "_tensor_data_names": list(names)}
    return {"model.embed_tokens.weight": json.dumps(described)}


def examples() -> dict[str, tuple[Folder, ...]]:
    """Return sound folders by the name of their layout."""
    draw = torch.Generator().manual_seed(7)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=draw)

    def whole(low: int, high: int, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        return torch.randint(low, high, shape, generator=draw).to(dtype)

    rows, scales = normal(5, 64), normal(5, 1).abs() + 0.1
    llama = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 5}
    config = {"config.json": llama}

    def quantised(**settings: object) -> dict[str, Any]:
        return {"config.json": {**llama, "quantization_config": settings}}

    mlx = {"config.json": {**llama, "quantization": {"group_size": 32, "bits": 4, "mode": "affine"}}}
    half = {name: one.half() if name != "weight" else one for name, one in affine(rows.numpy(), group=32).items()}
    bytes_ = whole(0, 256, (5, 32), torch.uint8)
    eight = rows.to(torch.float8_e4m3fn)
    codes = whole(-8, 8, (5, 64), torch.int8)
    weights = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 32}
    packed = quantised(quant_method="compressed-tensors", config_groups={"group_0": {"weights": weights}})
    tables = {"clusters": normal(3, 8), "mapping": whole(0, 3, (9,), torch.int64), "weights": normal(9)}
    static = {"embeddings": tables["clusters"], "mapping": tables["mapping"], "weights": tables["weights"]}
    shards = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    plain = {"model.embed_tokens.weight": rows, "lm_head.weight": normal(5, 64)}
    params = {"dim": 64, "n_layers": 1, "n_heads": 4, "n_kv_heads": 2, "norm_eps": 1e-5, "rope_theta": 5e5}
    original = {"tok_embeddings.weight": rows, "output.weight": normal(5, 64), "norm.weight": normal(64)}
    indexed = [*stored({"model.embed_tokens.weight": rows}, shards[0]), *stored({"lm_head.weight": rows}, shards[1])]
    weight_map = {one.name: one.file for one in indexed}
    intx = ("qdata", "scale", "zero_point")
    return {
        "mlx": (Folder(_made(**affine(rows.numpy(), group=32)), mlx), Folder(_made(**half), mlx)),
        "gemma": (
            Folder(_made(embedding_quantized=bytes_, embedding_scale=scales), config),
            Folder(
                _made(embedding_quantized=bytes_[:, :16], embedding_scale=normal(5, 4)),
                quantised(quant_method="gemma", num_bits=4, module_quant_configs={"a+": {"num_bits": 2}}),
            ),
        ),
        "float8": (
            Folder(
                _made(weight=eight, weight_scale_inv=normal(3, 4)),
                quantised(quant_method="fp8", weight_block_size=[2, 16]),
            ),
            Folder(_made(weight=eight, weight_scale=scales.bfloat16()), config),
        ),
        "torchao": (
            Folder(
                _made(_weight_qdata=codes, _weight_scale=normal(5, 2), _weight_zero_point=codes[:, :2]),
                quantised(quant_method="torchao"),
                _torchao("IntxUnpackedToInt8Tensor", intx, target_dtype={"_data": "int4"}, block_size=[1, 32]),
            ),
            Folder(
                _made(_weight_qdata=eight, _weight_scale=scales),
                quantised(quant_method="torchao"),
                _torchao("Float8Tensor", intx[:2], block_size=[1, 64]),
            ),
        ),
        "compressed-tensors": (
            Folder(
                _made(
                    weight_packed=whole(-(2**31), 2**31, (5, 8), torch.int32),
                    weight_scale=normal(5, 2),
                    weight_shape=torch.tensor([5, 64]),
                ),
                packed,
            ),
            Folder(
                _made(weight=codes, weight_scale=scales, weight_zero_point=codes[:, :1]),
                quantised(quant_method="compressed-tensors"),
            ),
        ),
        "params.json": (Folder(stored(original), {"params.json": params}),),
        "learned tokens": (
            Folder(stored({"<cat>": normal(3, 16), "<dog>": normal(16)}, "learned_embeds.safetensors")),
            Folder(stored({"emb_params": normal(3, 16)}, "cat.safetensors")),
        ),
        "static embeddings": (Folder(stored(static), {"config.json": {"model_type": "model2vec"}}),),
        "index": (
            Folder(indexed, {**config, INDEX: {"metadata": {"total_size": 2560}, "weight_map": weight_map}}),
            Folder(stored(plain), config),
        ),
    }


# --- changes ----------------------------------------------------------------------------------------------------------


def mutants(of: tuple[Folder, ...], count: int, *, seed: int) -> Iterator[Folder]:
    """Yield folders with up to three changes each."""
    draw = random.Random(seed)
    for _ in range(count):
        made = copy.deepcopy(draw.choice(of))
        for _ in range(draw.choice((1, 1, 1, 2, 3))):
            options = (
                [_tensor, _tensor, _file] + [_document] * 3 * bool(made.documents) + [_metadata] * bool(made.metadata)
            )
            draw.choice(options)(made, draw)
        yield made


def _tensor(made: Folder, draw: random.Random) -> None:
    if not made.tensors:
        return
    one, other = draw.choice(made.tensors), draw.choice(made.tensors)
    width = torch.empty(0, dtype=DTYPES[one.dtype]).element_size()
    match draw.randrange(12):
        case 0:
            made.tensors.remove(one)
        case 1:
            made.tensors.append(copy.copy(one))
        case 2:
            added = replace(one, name=f"{one.name.rpartition('.')[0]}.{draw.choice(PARTS)}".strip("."))
            made.tensors.append(added)
        case 3:
            one.name = f"{one.name.rpartition('.')[0]}.{draw.choice(PARTS)}".strip(".")
        case 4:
            one.name = draw.choice(("", "x" * 300, "a\nb", "../x", "<b>", "lm_head.weight", "\ud800", "é" * 9))
        case 5:
            one.name, other.name = other.name, one.name
        case 6:  # the same bytes as other numbers
            one.dtype = draw.choice(list(DTYPES))
        case 7:  # the same numbers in another precision
            kind = draw.choice(list(DTYPES))
            if one.raw and one.dtype not in ("F8_E8M0", "U32") and kind not in ("F8_E8M0", "U32"):
                made.tensors[made.tensors.index(one)] = (
                    replace(stored({one.name: one.values().double().to(DTYPES[kind])}, one.file)[0], shape=one.shape)
                    if len(one.raw) == width * _product(one.shape)
                    else one
                )
        case 8:
            axis = draw.randrange(len(one.shape) + 1)
            one.shape = draw.choice(
                (one.shape[::-1], [*one.shape[:axis], 1, *one.shape[axis:]], [_product(one.shape)], one.shape[1:])
            )
        case 9:  # other numbers of rows or columns, with bytes that fit
            one.shape = [max(size + draw.choice((-1, 0, 0, 1, size)), 0) for size in one.shape]
            one.raw = (one.raw * 8 or b"\0" * 4096)[: width * _product(one.shape)]
        case 10:
            one.shape = [draw.choice((0, 1, 2**31, 2**62, 10**30)) for _ in one.shape]
        case _:
            at = draw.randrange(max(len(one.raw) // width, 1)) * width
            worst = draw.choice(
                (b"\0" * 8, b"\xff" * 8, b"\x7f" * 8, b"\x00\x00\xc0\x7f" * 2, b"\x80\x7f" * 4, draw.randbytes(8))
            )
            one.raw = one.raw[:at] + worst[:width] + one.raw[at + width :]


def _product(shape: list[int]) -> int:
    found = 1
    for size in shape:
        found *= size
    return found


def _file(made: Folder, draw: random.Random) -> None:
    files = made.files()
    if not files:
        return
    file = draw.choice(files)
    match draw.randrange(4):
        case 0:
            made.cuts[file] = draw.choice((0.0, 0.3, 0.9, 0.999, 1.01, draw.random()))
        case 1 if file in made.documents:
            made.documents[file] = draw.choice(EXTREMES)
        case 2 if file in made.documents:
            del made.documents[file]
        case _:
            made.links[file] = draw.choice(LINKS)


def _document(made: Folder, draw: random.Random) -> None:
    if made.documents:
        file = draw.choice(list(made.documents))
        made.documents[file] = _changed(made.documents[file], draw)


def _metadata(made: Folder, draw: random.Random) -> None:
    key = draw.choice(list(made.metadata))
    match draw.randrange(4):
        case 0:
            made.metadata[draw.choice(("", "x", "lm_head.weight"))] = made.metadata.pop(key)
        case 1:
            made.metadata[key] = draw.choice(
                ("", "{", "[" * 3000, "null", '{"_type":[]}', "\ud800", made.metadata[key][:-9])
            )
        case _:
            try:
                made.metadata[key] = json.dumps(_changed(json.loads(made.metadata[key]), draw)).replace(
                    f'"{NESTED}"', _DEEP
                )
            except (ValueError, RecursionError):
                made.metadata[key] = "{}"


def _changed(value: Any, draw: random.Random) -> Any:
    """Return JSON with a change at a random place."""
    if isinstance(value, dict) and value and draw.random() < 0.8:
        key = draw.choice(list(value))
        match draw.randrange(8):
            case 0:
                return {name: one for name, one in value.items() if name != key}
            case 1:
                return {**value, draw.choice(KEYS): draw.choice(EXTREMES)}
            case 2:
                return {(draw.choice(KEYS) if name == key else name): one for name, one in value.items()}
            case 3:
                return {**value, key: value[draw.choice(list(value))]}
            case _:
                return {**value, key: _changed(value[key], draw)}
    if isinstance(value, list) and value and draw.random() < 0.7:
        at = draw.randrange(len(value))
        return [*value[:at], _changed(value[at], draw), *value[at + 1 :]]
    if type(value) is int and draw.random() < 0.5:
        return draw.choice((value + 1, value - 1, value * 2, value // 2, -value, float(value), str(value)))
    if isinstance(value, str) and value and draw.random() < 0.5:
        return draw.choice(
            (f"../{value}", f"/{value}", f"a/{value}", value[:-1], f"{value}\n", value.upper(), f"beside-{value}")
        )
    return draw.choice(EXTREMES)
