"""Layouts beside plain safetensors, GGUF and ONNX: each mutant is read as its layout says, or refused in one line.

``plainly`` reads the same folders as the layouts are defined, one step after the other, and refuses all that the
definition does not say. A table is never shown that it reads otherwise.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import hfposemb as hpe
from hfposemb.errors import HfposembError
from hfposemb.tables.rotary import Rotary
from tests.conftest import FULL
from tests.support.checkpoints.mutants import INDEX, MODEL, PARTS, Folder, Stored, examples, mutants
from tests.support.checkpoints.refusals import LINUX, MEMORY

MUTANTS = 10_000 if FULL else 60
SECONDS = 60
"""After this a mutant counts as one that hangs."""

_FLOATS = ("F64", "F32", "F16", "BF16")
MARKS = (
    {*PARTS}
    - {"weight", "biases", "weight_shape", "weight_g_idx", "weight_global_scale", "scale", "W_q", "codes"}
    - {"_weight_zero_point"}
)
"""Parts that say that a table is quantised, whatever else is there."""

_EXAMPLES = examples()


class Unknown(Exception):  # noqa: N818
    """The plain reader does not know, so that any outcome is right."""


# --- the plain reader -------------------------------------------------------------------------------------------------


def _need(condition: object) -> None:
    if not condition:
        raise ValueError


def _sound_file(made: Folder, file: str) -> dict[str, Stored]:
    """Return the tensors of a file; raise ``ValueError`` unless it is a sound safetensors file."""
    _need(made.links.get(file, "elsewhere") == "elsewhere" and file in made.files())
    size = len(made._safetensors(file))
    _need(int(size * made.cuts.get(file, 1.0)) == size)
    inside = [one for one in made.tensors if one.file == file]
    _need(len({one.name for one in inside}) == len(inside))
    for one in inside:
        _need(one.name and one.name.isprintable() and len(one.name.encode()) <= 256 and min(one.shape, default=0) >= 0)
        one.values()
    return {one.name: one for one in inside}


def _document(made: Folder, file: str) -> dict[str, Any]:
    """Return the object in a JSON file, empty if there is none; raise ``ValueError`` for anything else."""
    link, size = made.links.get(file, "elsewhere"), len(made._document(file)) if file in made.documents else 0
    if file not in made.documents or link in ("nowhere", "loop"):
        return {}
    _need(
        link == "elsewhere" and int(size * made.cuts.get(file, 1.0)) == size and isinstance(made.documents[file], dict)
    )
    _need("[[[" not in made._document(file).decode())
    return json.loads(json.dumps(made.documents[file]))  # type: ignore[no-any-return]


def _stored(made: Folder, name: str) -> tuple[dict[str, Stored], dict[str, Stored]]:
    """Return the tensors of the file that a tensor is in, and those of its module by the end of their names."""
    listed = [file for file in made.files() if made.links.get(file) != "folder"]
    weights = [file for file in listed if file.endswith(".safetensors")]
    if MODEL in listed or (INDEX not in listed and len(weights) == 1):
        tensors = _sound_file(made, MODEL if MODEL in listed else weights[0])
    else:
        files = _document(made, INDEX)["weight_map"]
        for file in files.values():
            _need(isinstance(file, str) and file.endswith(".safetensors") and not set(file) & set("/\\:\n"))
        tensors = {}
        for part in files:
            with suppress(ValueError, KeyError):  # a table is sound whatever the other shards are
                tensors[part] = _sound_file(made, files[part])[part]
    module = name.removesuffix("weight")
    return tensors, {last: tensors[module + last] for last in PARTS if module + last in tensors}


def plainly(made: Folder, name: str) -> NDArray[Any]:
    """Return a table as its layout is defined; raise anything if it is not sound."""
    tensors, parts = _stored(made, name)
    config = _document(made, "config.json")
    if name == "learned_embeds" and name not in tensors:
        return torch.cat([_vectors(one).reshape(-1, one.shape[-1]) for one in tensors.values()]).numpy()
    if name in ("embeddings", "embedding.weight") and set(tensors) <= {name, "mapping", "weights"}:
        return _static(tensors, name)
    if (
        name in tensors
        and (set(parts) <= {"weight"} or not set(parts) & MARKS)
        and tensors[name].dtype in (*_FLOATS, "F8_E4M3", "F8_E5M2")
    ):
        if tensors[name].dtype in _FLOATS:
            found = _vectors(tensors[name])
            return found.reshape(-1, found.shape[-1]).numpy()
        _need(set(parts) <= {"weight"} and not _method(config))
        return tensors[name].values().float().numpy()
    return _decoded(name, parts, config, made.metadata).float().numpy()


def _vectors(one: Stored) -> torch.Tensor:
    _need(one.dtype in _FLOATS and one.shape)
    return one.values() if one.dtype == "F64" else one.values().float()


def _static(tensors: Mapping[str, Stored], name: str) -> NDArray[Any]:
    table = tensors[name].values()
    _need(table.dim() == 2 and tensors[name].dtype in (*_FLOATS, "I8", "I32", "I64"))
    table = table if tensors[name].dtype == "F64" else table.float()
    if "mapping" in tensors:
        places = tensors["mapping"].values()
        _need(places.dim() == 1 and tensors["mapping"].dtype in ("I8", "I32", "I64") and (places >= 0).all())
        table = table[places.long()]
    if "weights" in tensors:
        weights = _vectors(tensors["weights"])
        _need(weights.shape == (len(table),))
        table = table * weights[:, None]
    return table.numpy()


def _method(config: Mapping[str, Any]) -> str:
    found = config.get("quantization_config")
    method = found.get("quant_method") if isinstance(found, dict) else None
    return method if isinstance(method, str) else ""


def _finite(*tensors: torch.Tensor) -> None:
    for one in tensors:
        _need(torch.isfinite(one.float()).all())


def _spread(numbers: torch.Tensor, rows: int, width: int) -> torch.Tensor:
    """Return a number for each of a table from one for all, one per row, or one per group of a row."""
    if numbers.numel() == 1:
        return numbers.reshape(1, 1).expand(rows, width)
    numbers = numbers.reshape(rows, 1) if numbers.dim() == 1 else numbers
    _need(numbers.dim() == 2 and len(numbers) == rows and width % numbers.shape[1] == 0)
    return numbers.repeat_interleave(width // numbers.shape[1], 1)


def _bits(raw: bytes, rows: int, bits: int) -> torch.Tensor:
    """Return the codes of rows of a stream of bits, the lowest first."""
    stream = np.unpackbits(np.frombuffer(raw, np.uint8).reshape(rows, -1), axis=1, bitorder="little")
    stream = stream[:, : stream.shape[1] // bits * bits].reshape(rows, -1, bits)
    return torch.from_numpy((stream * (1 << np.arange(bits))).sum(axis=2))


def _decoded(
    name: str, parts: Mapping[str, Stored], config: Mapping[str, Any], metadata: Mapping[str, str]
) -> torch.Tensor:
    last = next(one for one in ("embedding_quantized", "_weight_qdata", "weight_packed", "weight") if one in parts)
    codes = parts[last]
    rows, width = codes.shape
    _need(rows and width)
    values = {key: one.values() for key, one in parts.items()}
    settings = config.get("quantization_config")
    settings = settings if isinstance(settings, dict) else {}
    if last == "embedding_quantized":
        return _gemma(parts, values, config, settings)
    if last == "_weight_qdata":
        return _torchao(values, json.loads(metadata[name]), parts)
    if last == "weight_packed":
        return _packed(parts, values, settings)
    if codes.dtype == "U32":
        return _mlx(name, parts, values, config)
    if codes.dtype in ("F8_E4M3", "F8_E5M2"):
        (scale,) = set(parts) - {"weight"}
        _need(scale in ("weight_scale", "weight_scale_inv"))
        numbers, blocks = values[scale], settings.get("weight_block_size")
        _finite(numbers)
        if blocks is not None:
            down, across = blocks
            _need(type(down) is int and type(across) is int and down > 0 and across > 0)
            _need(tuple(numbers.shape) == (-(-rows // down), -(-width // across)))
            numbers = numbers.repeat_interleave(down, 0)[:rows].repeat_interleave(across, 1)[:, :width]
        else:
            numbers = _spread(numbers, rows, width)
        kind = torch.bfloat16 if parts[scale].dtype == "F8_E8M0" else numbers.dtype
        return values["weight"].to(kind) * numbers.to(kind)
    _need(codes.dtype == "I8" and {"weight_scale"} <= set(parts) - {"weight"} <= {"weight_scale", "weight_zero_point"})
    if _method(config) == "gemma":
        raise Unknown
    numbers, zero = values["weight_scale"], values.get("weight_zero_point", torch.zeros((), dtype=torch.int8))
    _need(parts["weight_scale"].dtype in ("F32", "F16", "BF16") and zero.dtype == torch.int8)
    _need("weight_zero_point" not in parts or zero.shape == numbers.shape)
    _finite(numbers)
    _stated(settings, numbers, width, symmetric="weight_zero_point" not in parts)
    product = (codes.values().float() - _spread(zero.float(), rows, width)) * _spread(numbers, rows, width).float()
    return product.to(numbers.dtype) if _method(config) == "compressed-tensors" else product


def _stated(settings: Mapping[str, Any], scales: torch.Tensor, width: int, *, symmetric: bool, bits: int = 0) -> None:
    """Require that what compressed-tensors states, if it is clear, is what is stored."""
    groups = settings.get("config_groups")
    if not isinstance(groups, dict) or len(groups) != 1 or not isinstance(one := next(iter(groups.values())), dict):
        return
    if not isinstance(stated := one.get("weights"), dict):
        return
    size = stated.get("group_size")
    _need(type(size) is not int or size <= 0 or scales.numel() == 1 or size * scales.shape[-1] == width)
    _need(stated.get("strategy") != "channel" or scales.numel() in (1, len(scales)))
    _need(stated.get("symmetric") is not False or not symmetric)
    _need(not bits or stated.get("num_bits", bits) == bits)


def _mlx(
    name: str, parts: Mapping[str, Stored], values: Mapping[str, torch.Tensor], config: Mapping[str, Any]
) -> torch.Tensor:
    options = (config.get(key) for key in ("quantization", "quantization_config"))
    stated = next(
        one
        for one in options
        if isinstance(one, dict) and ("group_size" in one or "mode" in one) and "quant_method" not in one
    )
    own = stated.get(name.removesuffix(".weight"), True)
    _need(own is not False)
    stated = own if isinstance(own, dict) else stated
    if stated.get("mode", "affine") in ("mxfp4", "mxfp8", "nvfp4"):
        raise Unknown
    _need(stated.get("mode", "affine") == "affine" and set(parts) == {"weight", "scales", "biases"})
    group, bits = stated.get("group_size", 64), stated.get("bits", 4)
    _need(group in (32, 64, 128) and bits in (1, 2, 3, 4, 5, 6, 8) and bool not in (type(bits), type(group)))
    scales, biases = values["scales"], values["biases"]
    rows, words = parts["weight"].shape
    width = 32 * words / bits
    _need(parts["scales"].dtype == parts["biases"].dtype and parts["scales"].dtype in ("F32", "F16", "BF16"))
    _need(scales.shape == biases.shape == (rows, width / group))
    _finite(scales, biases)
    codes = _bits(parts["weight"].raw, rows, int(bits)).to(scales.dtype)
    return codes * scales.repeat_interleave(int(group), 1) + biases.repeat_interleave(int(group), 1)


def _gemma(
    parts: Mapping[str, Stored],
    values: Mapping[str, torch.Tensor],
    config: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> torch.Tensor:
    _need(set(parts) == {"embedding_quantized", "embedding_scale"} and parts["embedding_scale"].dtype != "F64")
    codes, scales = parts["embedding_quantized"], values["embedding_scale"]
    rows, nbytes = codes.shape
    _need(codes.dtype in ("U8", "I8") and scales.dim() == 2 and scales.is_floating_point())
    _need(parts["embedding_scale"].dtype in ("F32", "F16", "BF16"))
    _finite(scales)
    own = settings.get("module_quant_configs")
    options = [settings, *(own.values() if isinstance(own, dict) else ())]
    stated = {one["num_bits"] for one in options if isinstance(one, dict) and type(one.get("num_bits")) is int}
    text = config.get("text_config")
    states = [config, text] if isinstance(text, dict) else [config]
    widths = {
        one[key] for one in states for key in ("hidden_size", "dim") if type(one.get(key)) is int and one[key] > 0
    }
    if codes.dtype == "I8":
        bits, width = 8, nbytes
    else:
        fits = {(b, w) for b in (2, 4) for w in widths if -(-w * b // 8) == nbytes}
        if not widths and len(stated & {2, 4}) == 1:
            fits = {(b, nbytes * 8 // b) for b in stated & {2, 4}}
        if len(fits) > 1:
            fits = {one for one in fits if one[0] in stated}
        ((bits, width),) = fits
    _need(not stated or bits in stated)
    kind = next(
        (one.get("dtype", one.get("torch_dtype")) for one in states if one.get("dtype", one.get("torch_dtype"))), ""
    )
    if not isinstance(kind, str) or kind not in ("", "float32"):
        raise Unknown
    table = codes.values().float() if bits == 8 else _bits(codes.raw, rows, bits)[:, :width].float() - 2 ** (bits - 1)
    _need(scales.numel() != 1 or rows == 1)
    return table * _spread(scales.float(), rows, width)


def _torchao(values: Mapping[str, torch.Tensor], stated: Any, parts: Mapping[str, Stored]) -> torch.Tensor:
    data = stated["_data"]
    shifted = {"IntxUnpackedToInt8Tensor": True, "Float8Tensor": False}.get(stated["_type"])
    if shifted is None:
        _need(stated["_type"] == "Int8Tensor")
        shifted = "_weight_zero_point" in parts
    need = {"_weight_qdata", "_weight_scale"} | ({"_weight_zero_point"} if shifted else set())
    codes = values["_weight_qdata"]
    _need(set(parts) == need and (codes.dtype == torch.int8) == (stated["_type"] != "Float8Tensor"))
    _need(parts["_weight_scale"].dtype in ("F32", "F16", "BF16"))
    _need(not shifted or parts["_weight_zero_point"].dtype in ("I8", "I32"))
    kind = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}[data["dtype"]["_data"]]
    down, across = data["block_size"]
    rows, width = codes.shape
    _need(type(down) is int and type(across) is int and across > 0 and width % across == 0)
    _need(down == 1 or (down, across) == (rows, width))
    shape = (rows, width // across) if down == 1 else ()
    spread = {}
    for key in sorted(need - {"_weight_qdata"}):
        numbers = values[key]
        _need(
            tuple(numbers.shape) in (shape, (rows,) if shape and shape[1] == 1 else shape)
            or numbers.numel() == rows == 1
            or (down > 1 and numbers.numel() == 1)
        )
        _finite(numbers)
        spread[key] = _spread(numbers.float(), rows, width)
    shift = spread.get("_weight_zero_point", torch.zeros(()))
    return ((codes.float() - shift) * spread["_weight_scale"]).to(kind)


def _packed(
    parts: Mapping[str, Stored], values: Mapping[str, torch.Tensor], settings: Mapping[str, Any]
) -> torch.Tensor:
    if parts["weight_packed"].dtype != "I32":
        raise Unknown
    _need(set(parts) == {"weight_packed", "weight_scale", "weight_shape"})
    _need(parts["weight_shape"].dtype in ("I32", "I64") and parts["weight_scale"].dtype in ("F32", "F16", "BF16"))
    rows, width = values["weight_shape"].tolist()
    scales, words = values["weight_scale"], parts["weight_packed"].shape[1]
    (bits,) = (one for one in range(1, 9) if -(-width * one // 32) == words)
    _need(
        parts["weight_packed"].shape[0] == rows and (32 % bits == 0 or words == 1 or -(-width // (32 // bits)) != words)
    )
    _need(scales.numel() != 1 or rows == 1)
    _finite(scales)
    _stated(settings, scales, width, symmetric=True, bits=bits)
    codes = _bits(parts["weight_packed"].raw, rows, bits)[:, :width] - 2 ** (bits - 1)
    return (codes.float() * _spread(scales.float(), rows, width)).to(scales.dtype)


# --- outcomes ---------------------------------------------------------------------------------------------------------

_opened: list[str] | None = None


def _listen(event: str, given: tuple[Any, ...]) -> None:
    if (
        _opened is not None
        and event in ("open", "os.listdir", "os.scandir")
        and isinstance(given[0], str | bytes | os.PathLike)
    ):
        _opened.append(os.fsdecode(given[0]))


sys.addaudithook(_listen)


@contextmanager
def watched(inside: Path) -> Iterator[None]:
    """Require that nothing is opened outside of a folder and of the program's own, and that it ends."""

    def hangs(*_: object) -> None:
        raise AssertionError("still running")

    global _opened
    _opened, before = [], signal.signal(signal.SIGALRM, hangs)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        found, _opened = _opened, None
    own = tuple(os.path.realpath(one) for one in (*sys.path, sys.prefix, sys.base_prefix) if os.path.isabs(one))
    for path in found:
        assert f"{os.path.abspath(path)}/".startswith((f"{inside}/", *own)), path


def outcome(made: Folder, folder: Path) -> str:
    """Read a folder; require right tables or one line. Returns which, in a word."""
    try:
        made.written(folder)
        with watched(folder):
            found = hpe.extract(folder)
            tables = {role: (table.provenance.tensor, np.array(table.vectors)) for role, table in _tables(found)}
            position = found.positions.get("position")
    except HfposembError as error:
        message = str(error)
        assert message.isprintable(), message
        assert 10 < len(message) <= 400, message
        return "refused"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if isinstance(position, Rotary) and "params.json" in made.documents and "config.json" not in made.documents:
        stated = _document(made, "params.json")
        width = stated.get("head_dim") or stated["dim"] / stated["n_heads"]
        theta = stated.get("rope_theta", 1e4)
        np.testing.assert_allclose(position.inv_freq, theta ** -(np.arange(0, width, 2) / width), rtol=1e-6)
    for name, table in tables.values():
        try:
            expected = plainly(made, name)
        except Unknown:
            continue
        assert table.shape == expected.shape, name
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(table, expected.astype(table.dtype), err_msg=name)
    return "read" if tables else "empty"


def _tables(found: Any) -> Iterator[tuple[str, Any]]:
    for role in ("token", "head"):
        if role in found.tables:
            yield role, found.tables[role]
    if "token" not in found.tables:
        _ = found.token  # says in one line why not


@pytest.mark.parametrize("layout", _EXAMPLES)
def test_sound_examples_are_read(layout: str, tmp_path: Path) -> None:
    for number, made in enumerate(_EXAMPLES[layout]):
        assert outcome(made, tmp_path / str(number)) == "read"


@pytest.mark.skipif(not LINUX, reason="peak memory is read from /proc")
@pytest.mark.parametrize("layout", _EXAMPLES)
def test_mutants_are_read_as_they_are_or_refused(layout: str, tmp_path: Path) -> None:
    def peak() -> int:
        status = Path("/proc/self/status").read_text()
        return 1024 * int(status.partition("VmHWM:")[2].split()[0])

    found: Counter[str] = Counter()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    base = peak()
    for number, made in enumerate(mutants(_EXAMPLES[layout], MUTANTS, seed=sum(layout.encode()))):
        try:
            found[outcome(made, tmp_path / "m")] += 1
        except BaseException as error:
            raise AssertionError(f"mutant {number}: {type(error).__name__}: {error}\n{made}") from error
    assert peak() - base < MEMORY
    assert found["read"] > MUTANTS / 20, found
    assert found["refused"] > MUTANTS / 20, found
    print(layout, dict(found))


@pytest.mark.parametrize("target", ["/proc/kmsg", "/dev/zero", "/dev/tty", "/proc/self/mem", "/"])
def test_links_to_what_never_ends_are_not_waited_for(target: str, tmp_path: Path) -> None:
    (sound,) = _EXAMPLES["index"][1:]
    names = ("tokenizer.json", "vocab.txt", "merges.txt", "added_tokens.json", "chat_template.jinja", "modules.json")
    for name in (*names, "config.json", "adapter_config.json", INDEX, MODEL, "pytorch_model.bin", "model.gguf"):
        folder = sound.written(tmp_path / name)
        if name == "pytorch_model.bin" or name == "model.gguf":
            (folder / MODEL).unlink()
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)
        with watched(folder), suppress(HfposembError):
            _ = (found := hpe.extract(folder)).token.vectors, found.token.labels[0], found.token_marks
