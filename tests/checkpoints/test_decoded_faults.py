"""Codes that cannot be right: refused on one line, never a wrong table."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from numpy.typing import NDArray

import hfposemb as hpe
from hfposemb.checkpoints.limits import Limits
from hfposemb.checkpoints.quantised.decoded import Decoded
from hfposemb.errors import CheckpointError, HfposembError, InputError, MissingTableError, SourceError
from tests.checkpoints.quantised_references import WIDTH
from tests.conftest import Build
from tests.hub import FakeHub
from tests.support.checkpoints.quantised import KEPT, MLX, TOKENS, affine, decoded_in, llama, same_bits, saved


def changed(parts: dict[str, torch.Tensor], **changes: torch.Tensor | None) -> dict[str, torch.Tensor]:
    """Return parts with some replaced or left out."""
    return {name: one for name, one in {**parts, **changes}.items() if one is not None}


ROWS = np.random.default_rng(0).standard_normal((61, 128)).astype(np.float32)
GOOD = affine(ROWS)
NAN = torch.full((61, 2), torch.nan)
BYTES = torch.ones((61, 8), dtype=torch.uint8)
SETTINGS = MLX["quantization"]
EIGHT = torch.ones(61, 64).to(torch.float8_e4m3fn)
INTEGERS = torch.ones((61, 64), dtype=torch.int8)
ONES = torch.ones(61, 1)
FLOAT8 = ONES.to(torch.float8_e4m3fn)
MX_SCALES = torch.ones((61, 4), dtype=torch.uint8)


MXFP4 = {"mode": "mxfp4", "group_size": 32}


def settings(**values: object) -> dict[str, Any]:
    """Return a configuration with settings of MLX."""
    return {"quantization": SETTINGS | values}


MLX_FAULTS: dict[str, tuple[dict[str, torch.Tensor], dict[str, Any], str]] = {
    "scales of too few rows": (changed(GOOD, scales=torch.ones(60, 2)), {}, r"has the shape \[60, 2\], but 61 rows"),
    "scales of too many groups": (changed(GOOD, scales=torch.ones(61, 3)), {}, r"groups of 64 need \[61, 2\]"),
    "scales of no groups": (changed(GOOD, scales=torch.ones(61, 0)), {}, r"shape \[61, 0\], which has no numbers"),
    "scales on one axis": (changed(GOOD, scales=torch.ones(122)), {}, r"shape \[122\]; expected a table"),
    "scales on three axes": (changed(GOOD, scales=torch.ones(61, 2, 1)), {}, r"shape \[61, 2, 1\]; expected a table"),
    "scales of integers": (changed(GOOD, scales=torch.ones(61, 2, dtype=torch.int32)), {}, "stored as I32; expected"),
    "scales of bytes for affine": (changed(GOOD, scales=BYTES), {}, "stored as U8; expected F32"),
    "no scales": (changed(GOOD, scales=None), {}, "stored as U32, not as plain vectors"),
    "no biases": (changed(GOOD, biases=None), {}, "its biases are missing"),
    "biases of another shape": (changed(GOOD, biases=torch.ones(61, 1)), {}, r"\[61, 1\], but its scales \[61, 2\]"),
    "biases of another dtype": (changed(GOOD, biases=GOOD["biases"].half()), {}, "stored as F16; expected F32"),
    "codes without columns": (changed(GOOD, weight=torch.ones((61, 0), dtype=torch.uint32)), {}, "has no numbers"),
    "codes on three axes": (changed(GOOD, weight=GOOD["weight"][:, :, None]), {}, "expected a table"),
    "bits that contradict the shapes": (GOOD, settings(bits=8), "need"),
    "bits that cut a code": (GOOD, settings(bits=3), "which 3 bits do not divide"),
    "bits that contradict the width": (GOOD, settings(bits=8, group_size=32) | {"hidden_size": 128}, "needs 4 bits"),
    "seven bits": (GOOD, settings(bits=7), "states '7' bits"),
    "no bits": (GOOD, settings(bits=0), "which affine does not have"),
    "minus four bits": (GOOD, settings(bits=-4), "which affine does not have"),
    "bits in words": (GOOD, settings(bits="four"), "states 'four' bits"),
    "true bits": (GOOD, settings(bits=True), "which affine does not have"),
    "bits in a list": (GOOD, settings(bits=[4]), "which affine does not have"),
    "groups of nothing": (GOOD, settings(group_size=0), "which affine does not have"),
    "groups of 10**30": (GOOD, settings(group_size=10**30), "which affine does not have"),
    "a mode nobody knows": (GOOD, settings(mode="affline"), "states the mode 'affline'; expected one of affine"),
    "a mode in a list": (GOOD, settings(mode=["affine"]), "expected one of affine"),
    "no settings": (GOOD, {"quantization": None}, "does not state group_size and bits"),
    "settings of another method": (GOOD, {"quantization": {**SETTINGS, "quant_method": "gptq"}}, "does not state"),
    "a table that is not quantised": (GOOD, settings(**{"model.embed_tokens": False}), "is not quantised, but it is"),
    "settings of the table that do not fit": (
        GOOD,
        settings(**{"model.embed_tokens": {"bits": 4, "group_size": 128}}),
        r"groups of 128 need \[61, 1\]",
    ),
    "biases for mxfp4": (changed(GOOD, scales=MX_SCALES), settings(**MXFP4), "has biases, but .* states mxfp4"),
    "groups that mxfp4 does not have": (
        changed(GOOD, biases=None),
        settings(mode="mxfp4", group_size=64),
        "which mxfp4 does not have",
    ),
    "scales that are not a number": (changed(GOOD, scales=NAN), {}, "row 0 of .*scales' has a number that"),
    "infinite biases": (changed(GOOD, biases=NAN * 0 + torch.inf), {}, "biases' has a number that is not finite"),
    "one scale that is not a number": (
        changed(GOOD, scales=torch.where(torch.arange(61)[:, None] == 17, NAN, GOOD["scales"])),
        {},
        "row 17 of .*scales' has a number that is not finite",
    ),
    "a power of two that is none": (
        changed(GOOD, biases=None, scales=255 * MX_SCALES),
        settings(**MXFP4),
        "has a number that is not finite",
    ),
}

COMPRESSED = {"quantization_config": {"quant_method": "compressed-tensors"}}
PACKED = {"weight_packed": torch.ones((61, 8), dtype=torch.int32), "weight_scale": ONES}
GEMMA = {"embedding_quantized": BYTES, "embedding_scale": ONES}
FP8 = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [16, 16]}}


def shaped(*sizes: int) -> dict[str, torch.Tensor]:
    """Return packed codes that state a shape."""
    return PACKED | {"weight_shape": torch.tensor(sizes)}


def eight(**scales: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return 8-bit floats with scales."""
    return {"weight": EIGHT, **scales}


OTHER_FAULTS: dict[str, tuple[dict[str, torch.Tensor], dict[str, Any], str]] = {
    "Gemma, no width": (GEMMA, {}, "states no width"),
    "Gemma, no fitting width": (GEMMA, {"hidden_size": 64}, "16 codes of 4 bits or 32 of 2, but config.json states 64"),
    "Gemma, a width of text": (GEMMA, {"hidden_size": "16"}, "no width"),
    "Gemma, scales of other rows": (
        changed(GEMMA, embedding_scale=torch.ones(3, 1)),
        {"hidden_size": 16},
        r"shape \[3, 1\], but 61 rows",
    ),
    "Gemma, groups that do not divide": (
        changed(GEMMA, embedding_scale=torch.ones(61, 3)),
        {"hidden_size": 16},
        r"shape \[61, 3\]",
    ),
    "Gemma, no scales": ({"embedding_quantized": BYTES}, {"hidden_size": 16}, "its embedding_scale are missing"),
    "Gemma, floats": ({"embedding_quantized": torch.ones(61, 8), "embedding_scale": ONES}, {}, "expected U8 or I8"),
    "8-bit floats, half the scales": (eight(weight_scale=torch.ones(30, 1)), {}, r"shape \[30, 1\]"),
    "8-bit floats, blocks of another shape": (eight(weight_scale_inv=torch.ones(3, 4)), FP8, r"need \[4, 4\]"),
    "8-bit floats, blocks without a size": (eight(weight_scale_inv=torch.ones(4, 4)), {}, "shape"),
    "8-bit floats, a scale of NaN": (eight(weight_scale=torch.tensor(torch.nan)), {}, "not finite"),
    "8-bit floats that miss their scale": (eight(), FP8, "stored as F8_E4M3, not as plain vectors"),
    "8-bit floats on three axes": ({"weight": EIGHT[None], "weight_scale": ONES}, {}, "expected a table"),
    "8-bit floats, a scale under another name": (eight(scale_weight=torch.ones(())), {}, "with .*scale_weight"),
    "integers, no scales": ({"weight": INTEGERS}, {}, "stored as I8, not as plain vectors"),
    "integers, zero points of another shape": (
        {"weight": INTEGERS, "weight_scale": ONES, "weight_zero_point": INTEGERS},
        {},
        r"shape \[61, 64\], but its scales \[61, 1\]",
    ),
    "compressed-tensors, no shape": (PACKED, COMPRESSED, "its weight_shape are missing"),
    "compressed-tensors, another shape": (shaped(60, 64), COMPRESSED, "does not fit 60"),
    "compressed-tensors, a shape of minus": (shaped(-61, 64), COMPRESSED, "at least 1"),
    "compressed-tensors, a huge shape": (shaped(61, 2**62), COMPRESSED, "does not fit 61 rows of 4611686018427387904"),
    "compressed-tensors, a shape of three": (shaped(1, 1, 1), COMPRESSED, r"expected \[2\]"),
    "compressed-tensors, zero points": (
        PACKED | {"weight_zero_point": torch.ones((8, 1), dtype=torch.int32)},
        COMPRESSED,
        r"\(compressed-tensors, asymmetric or with permuted columns\)",
    ),
    "compressed-tensors, a scale of zero for all": (
        {"weight_packed": BYTES, "weight_scale": FLOAT8, "weight_global_scale": torch.zeros(1)},
        COMPRESSED,
        "a scale must be finite and not 0",
    ),
    "ModelOpt, several scales for all": (
        {"weight": BYTES, "weight_scale": FLOAT8, "weight_scale_2": ONES},
        {},
        "expected a single number",
    ),
    "torchao, not described": ({"_weight_qdata": INTEGERS, "_weight_scale": ONES}, {}, "does not describe"),
    "GPTQ": (
        {"qweight": PACKED["weight_packed"], "scales": ONES, "qzeros": PACKED["weight_packed"]},
        {},
        r"I32 with .*scales \(GPTQ or AWQ\), not as plain vectors",
    ),
    "HQQ": ({"W_q": BYTES, "scale": ONES, "zero": ONES}, {}, r"scale \(HQQ\), not as plain vectors"),
    "AQLM": (
        {"codes": INTEGERS[:, :, None], "codebooks": torch.ones(1, 256, 1, 8), "scales": ONES},
        {},
        r"\(AQLM\), not as plain vectors",
    ),
    "bitsandbytes, 8 bits": ({"weight": INTEGERS, "SCB": torch.ones(61)}, {}, r"\(bitsandbytes, 8 bits\)"),
    "bitsandbytes, 4 bits": (
        {"weight": BYTES, "weight.absmax": torch.ones(61), "weight.quant_map": ONES},
        {},
        r"\(bitsandbytes, 4 bits\)",
    ),
    "plain vectors with scales": ({"weight": torch.ones(61, 64), "weight_scale_inv": torch.ones(1, 1)}, {}, "F32 with"),
    "too wide": ({"weight": torch.ones((1, 70_000), dtype=torch.int8), "weight_scale": ONES[:1]}, {}, "the limit is"),
}


@pytest.mark.parametrize("case", [*MLX_FAULTS, *OTHER_FAULTS])
def test_codes_that_cannot_be_right_give_one_line(tmp_path: Path, case: str) -> None:
    parts, config, message = (MLX_FAULTS | OTHER_FAULTS)[case]
    config = (dict(MLX) if case in MLX_FAULTS else {}) | config
    folder = saved(tmp_path, {f"model.embed_tokens.{name}": part for name, part in parts.items()}, config)
    with pytest.raises(CheckpointError, match=message) as caught:
        decoded_in(folder).read(TOKENS)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300
    with pytest.raises(HfposembError, match=message) as caught:
        _ = hpe.extract(folder).token.vectors
    assert str(caught.value).isprintable()


TORCHAO_FAULTS = {
    "no JSON": "{",
    "a list": "[]",
    "a class nobody knows": '{"_type": "Int3Tensor", "_data": {}}',
    "a class that is code": '{"_type": "os.system(1)", "_data": {}}',
    "no data": '{"_type": "Int8Tensor", "_data": 4}',
    "no dtype": '{"_type": "Int8Tensor", "_data": {"block_size": [1, 64]}}',
    "an integer dtype": '{"_type": "Int8Tensor", "_data": {"block_size": [1, 64], "dtype": {"_data": "int8"}}}',
    "no blocks": '{"_type": "Int8Tensor", "_data": {"dtype": {"_data": "float32"}}}',
    "blocks of nothing": '{"_type": "Int8Tensor", "_data": {"block_size": [1, 0], "dtype": {"_data": "float32"}}}',
    "blocks of minus": '{"_type": "Int8Tensor", "_data": {"block_size": [1, -64], "dtype": {"_data": "float32"}}}',
    "blocks of two rows": '{"_type": "Int8Tensor", "_data": {"block_size": [2, 64], "dtype": {"_data": "float32"}}}',
    "too many blocks": '{"_type": "Int8Tensor", "_data": {"block_size": [1, 16], "dtype": {"_data": "float32"}}}',
    "long": '{"_type": "' + "a" * 20_000 + '"}',
    "nested": "[" * 5000,
}


@pytest.mark.parametrize("case", TORCHAO_FAULTS)
def test_metadata_of_torchao_that_cannot_be_right(tmp_path: Path, case: str) -> None:
    tensors = {"model.embed_tokens._weight_qdata": INTEGERS, "model.embed_tokens._weight_scale": ONES}
    safetensors.torch.save_file(tensors, tmp_path / "model.safetensors", {TOKENS: TORCHAO_FAULTS[case]})
    with pytest.raises(CheckpointError) as caught:
        decoded_in(tmp_path).read(TOKENS)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


def test_rows_that_do_not_exist(tmp_path: Path) -> None:
    found = decoded_in(KEPT / "mlx")
    name = found.names()[0]
    for start, stop in ((0, 4), (-1, 2), (2, 1), (3, 4)):
        with pytest.raises(InputError, match="it has rows 0 to 3"):
            found.read(name, start, stop)
    assert found.read(name, 3, 3).shape == (0, WIDTH)


def test_a_table_counts_against_the_limit_as_what_it_is_decoded_to() -> None:
    found = decoded_in(KEPT / "mlx", Limits(table_bytes=2 * WIDTH))
    name = next(one for one in found.names() if "_2_" in one)
    assert found.read(name, 1, 2).shape == (1, WIDTH)
    with pytest.raises(CheckpointError, match="decoded, they count as 512 bytes; the limit is 256; read fewer"):
        found.read(name, 0, 2)


def test_a_quantised_table_that_is_refused_leaves_the_rest(build: Build, tmp_path: Path) -> None:
    folder, _, head = llama(build, tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config["quantization"]["model.embed_tokens"] = False
    (folder / "config.json").write_text(json.dumps(config))
    found = hpe.extract(folder)
    with pytest.raises(MissingTableError, match="is not quantised, but it is stored with scales"):
        _ = found.token
    assert found.position.kind == "rotary"
    same_bits(found.head.vectors, head)


@pytest.mark.parametrize("config", [True, False])
@pytest.mark.parametrize("where", ["folder", "hub"])
def test_codes_are_refused_wherever_they_are(
    build: Build, hub: FakeHub, tmp_path: Path, *, config: bool, where: str
) -> None:
    build("llama").save_pretrained(tmp_path)  # type: ignore[operator]
    tensors = safetensors.torch.load_file(tmp_path / "model.safetensors")
    del tensors["embed_tokens.weight"]
    codes = {"embed_tokens.qweight": torch.ones((61, 2), dtype=torch.int32), "embed_tokens.scales": ONES}
    safetensors.torch.save_file(tensors | codes, tmp_path / "model.safetensors", {"format": "pt"})
    if not config:
        (tmp_path / "config.json").unlink()
    hub.add("a/coded", {path.name: path for path in tmp_path.iterdir()})
    found = hpe.extract(tmp_path if where == "folder" else "a/coded")
    assert "token" not in found.tables
    said = r"is stored as I32 with embed_tokens\.scales \(GPTQ or AWQ\).*use the full-precision checkpoint"
    with pytest.raises(MissingTableError, match=said):
        _ = found.token
    with pytest.raises(MissingTableError):
        found.inputs([1])
    assert any(re.search(said.partition(".*")[0], note) for note in found.notes), "hfposemb info prints notes"
    assert not config or found.position.kind == "rotary"


def test_codes_of_a_live_model() -> None:
    module = torch.nn.Module()
    module.embed_tokens = torch.nn.Module()
    module.embed_tokens.register_buffer("weight", INTEGERS)
    with pytest.raises(SourceError, match="is stored as int8, not as plain vectors"):
        hpe.extract(module)


def read(found: Decoded, name: str) -> NDArray[Any] | None:
    """Return a table, ``None`` if it is refused on one line."""
    try:
        return found.read(name)
    except (CheckpointError, InputError) as error:
        message = str(error)
    assert message.isprintable()
    assert len(message) < 300
    return None


def test_random_parts_are_decoded_or_refused(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    dtypes = (torch.uint32, torch.uint8, torch.int8, torch.int32, torch.float32, torch.bfloat16, torch.float8_e4m3fn)
    names = ("weight", "scales", "biases", "weight_scale", "weight_packed", "weight_shape", "embedding_quantized")
    names += ("embedding_scale", "weight_scale_inv", "weight_scale_2", "weight_zero_point", "qweight")
    good = 0
    for _ in range(600):
        tensors = {}
        for name in random.choice(names, random.integers(1, 5), replace=False):
            shape = [int(size) for size in random.choice([0, 1, 2, 4, 8, 16, 32, 64], random.integers(0, 4))]
            tensors[f"e.{name}"] = torch.ones(shape).to(dtypes[random.integers(len(dtypes))])
        stated = {"bits": int(random.integers(0, 9)), "group_size": int(random.choice([16, 32, 64]))}
        folder = saved(tmp_path, tensors, {"quantization": stated, "hidden_size": 64})
        found = decoded_in(folder)
        for name in found.names():
            if (table := read(found, name)) is not None:
                assert table.shape == found.info(name).shape
                good += 1
    assert good > 50
