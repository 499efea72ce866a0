"""Tables of ONNX files, equal to what onnx and torch say they are."""

from __future__ import annotations

import json
import pickle
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import hfposemb as hpe
from hfposemb.checkpoints.file_ranges import LocalRanges
from hfposemb.checkpoints.onnx.checkpoint import OnnxCheckpoint, open_onnx
from hfposemb.cli.main import main
from hfposemb.errors import CheckpointError, InputError, MissingTableError, SourceError
from tests.conftest import Build
from tests.hub import FakeHub
from tests.support.checkpoints.onnx_files import looked_up, model, node, packed, random_table, save, write_inline

Array = np.ndarray
INPUTS = {"bert": ["input_ids", "attention_mask", "token_type_ids"]}
CLASSES = {"bert": "AutoModelForMaskedLM", "roberta": "AutoModelForMaskedLM"}


def opened(path: Path) -> OnnxCheckpoint:
    return open_onnx(LocalRanges.open(path))


def same(found: Any, wanted: Any) -> None:
    """Require the same shape, dtype and bytes."""
    found, wanted = np.asarray(found), np.ascontiguousarray(wanted)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    assert np.ascontiguousarray(found).tobytes() == wanted.tobytes()


# --- as exported by torch ---------------------------------------------------------------------------------------------


class Logits(torch.nn.Module):
    """A model with its inputs in order and its logits alone, as an exporter needs it."""

    def __init__(self, model: torch.nn.Module, names: list[str]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *given: torch.Tensor) -> torch.Tensor:
        return self.model(**dict(zip(self.names, given, strict=True))).logits


def exported(made: torch.nn.Module, folder: Path, names: list[str]) -> Path:
    """Export a model by tracing, as optimum does, with its configuration beside it."""
    given = tuple(
        torch.zeros((1, 4), dtype=torch.long) if "type" in name else torch.ones((1, 4), dtype=torch.long)
        for name in names
    )
    made.config.use_cache = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Logits(made, names),
            given,
            str(folder / "model.onnx"),
            dynamo=False,
            input_names=names,
            output_names=["logits"],
            dynamic_axes={name: {0: "batch", 1: "length"} for name in names},
        )
    made.config.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("model_type", ["bert", "roberta", "gpt2", "llama", "opt"])
def test_tables_of_an_export_are_those_of_the_model(build: Build, tmp_path: Path, model_type: str) -> None:
    made = build(model_type, CLASSES.get(model_type, "AutoModelForCausalLM"), attn_implementation="eager")
    names = INPUTS.get(model_type, ["input_ids", "attention_mask"])
    source = hpe.extract(exported(made, tmp_path, names))
    wanted = hpe.extract(made)
    assert set(source.tables) == set(wanted.tables)
    for role, table in wanted.tables.items():
        same(source.tables[role].vectors, table.vectors)
        assert source.tables[role].provenance.row_offset == table.provenance.row_offset
    same(source.head.vectors, wanted.head.vectors)
    assert (source.head.bias is None) == (wanted.head.bias is None)
    if wanted.head.bias is not None:
        same(source.head.bias, wanted.head.bias)
    assert list(source.positions) == list(wanted.positions)
    kept = source.token.provenance.tensor
    assert kept is not None
    assert kept.endswith(str(wanted.token.provenance.tensor))


@pytest.mark.parametrize("model_type", ["bert", "roberta", "gpt2"])
def test_roles_need_no_names(build: Build, tmp_path: Path, model_type: str) -> None:
    made = build(model_type, CLASSES.get(model_type, "AutoModelForCausalLM"), attn_implementation="eager")
    folder = exported(made, tmp_path, INPUTS.get(model_type, ["input_ids", "attention_mask"]))
    graph = onnx.load(folder / "model.onnx")
    renamed = {one.name: f"onnx::Any_{number}" for number, one in enumerate(graph.graph.initializer)}
    for one in graph.graph.initializer:
        one.name = renamed[one.name]
    for one in graph.graph.node:
        one.input[:] = [renamed.get(name, name) for name in one.input]
    save(tmp_path, graph)
    source, wanted = hpe.extract(folder), hpe.extract(made)
    assert {*source.tables} == {*wanted.tables}
    for role, table in wanted.tables.items():
        same(source.tables[role].vectors, table.vectors)
        assert source.tables[role].provenance.tensor in renamed.values()
    same(source.head.vectors, wanted.head.vectors)
    assert any("identified by use in the graph" in note for note in source.notes)


def test_inputs_are_those_of_the_model(build: Build, tmp_path: Path) -> None:
    made = build("bert", "AutoModelForMaskedLM", attn_implementation="eager")
    folder = exported(made, tmp_path, INPUTS["bert"])
    ids = [1, 5, 9]
    found, wanted = (hpe.extract(one).inputs(ids) for one in (folder, made))
    same(found.sum, wanted.sum)


# --- dtypes and places ------------------------------------------------------------------------------------------------

FLOATS = {"F32": TensorProto.FLOAT, "F16": TensorProto.FLOAT16, "BF16": TensorProto.BFLOAT16, "F64": TensorProto.DOUBLE}


@pytest.mark.parametrize("raw", [True, False], ids=["raw", "numbers"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_are_read_as_onnx_reads_them(tmp_path: Path, dtype: str, raw: bool) -> None:
    values = random_table(30, 8)
    typed = values.astype(helper.tensor_dtype_to_np_dtype(FLOATS[dtype]))
    table = (
        numpy_helper.from_array(typed, "t")
        if raw
        else helper.make_tensor("t", FLOATS[dtype], [30, 8], typed.reshape(-1).tolist())
    )
    checkpoint = opened(save(tmp_path, model(looked_up(), {"table": table, "head": values.T})))
    wanted = numpy_helper.to_array(table).astype(np.float64 if dtype == "F64" else np.float32)
    same(checkpoint.read("table"), wanted)
    same(checkpoint.read("table", 3, 7), wanted[3:7])
    assert checkpoint.info("table").dtype == dtype
    same(checkpoint.read("head"), values)
    same(checkpoint.read("head", 3, 7), values[3:7])
    with pytest.raises(InputError, match="rows 20 to 31"):
        checkpoint.read("table", 20, 31)


@pytest.fixture
def external(tmp_path: Path) -> tuple[Path, Array]:
    table = random_table(200, 32)
    made = model(looked_up(), {"table": table, "head": table.T.copy(), "position": random_table(20, 32)})
    onnx.save_model(
        made, tmp_path / "model.onnx", save_as_external_data=True, location="model.onnx_data", size_threshold=0
    )
    return tmp_path, table


def test_external_data_that_is_missing_or_cut(external: tuple[Path, Array]) -> None:
    folder, _ = external
    data = folder / "model.onnx_data"
    data.write_bytes(data.read_bytes()[:1000])
    with pytest.raises(CheckpointError, match=r"'table' ends at byte .* of model.onnx_data, which has 1000; download"):
        hpe.extract(folder).token  # noqa: B018
    data.unlink()
    with pytest.raises(SourceError, match=r"model\.onnx_data: the file is missing"):
        hpe.extract(folder).token  # noqa: B018


# --- codes ------------------------------------------------------------------------------------------------------------

CODES = {"U8": TensorProto.UINT8, "I8": TensorProto.INT8, "U4": TensorProto.UINT4, "I4": TensorProto.INT4}
SHAPES = {"table": (), "row": (24,), "column": (32,), "block": (24, 2)}


def codes(dtype: str, shape: tuple[int, ...], *, seed: int, raw: bool = True) -> onnx.TensorProto:
    low, high = {"U8": (0, 255), "I8": (-128, 127), "U4": (0, 15), "I4": (-8, 7)}[dtype]
    values = np.random.default_rng(seed).integers(low, high, size=shape, endpoint=True)
    typed = np.asarray(values).astype(helper.tensor_dtype_to_np_dtype(CODES[dtype]))
    if raw:
        return numpy_helper.from_array(typed, "codes")
    return helper.make_tensor("codes", CODES[dtype], list(shape), np.asarray(values).reshape(-1).tolist())


def computed(made: onnx.ModelProto, rows: int) -> Array:
    """Return what the reference looks up for every row."""
    found = ReferenceEvaluator(made).run(["hidden"], {"input_ids": np.arange(rows)[None]})[0]
    return np.asarray(found[0], np.float32)


def reference(nodes: list[onnx.NodeProto], tensors: Mapping[str, Any]) -> onnx.ModelProto:
    """Return a model whose hidden states are the reference's own output."""
    return model(nodes, tensors, outputs=["hidden"])


@pytest.mark.parametrize("zeros", [True, False], ids=["zeros", "none"])
@pytest.mark.parametrize("per", SHAPES)
@pytest.mark.parametrize("dtype", CODES)
def test_codes_with_scales_equal_the_reference(tmp_path: Path, dtype: str, per: str, zeros: bool) -> None:
    raw = per != "row"
    tensors: dict[str, Any] = {"codes": codes(dtype, (24, 32), seed=1, raw=raw)}
    tensors["scales"] = np.abs(random_table(*SHAPES[per], seed=2)).astype(np.float16 if per == "column" else np.float32)
    given = ["codes", "scales"]
    if zeros:
        tensors["zeros"] = codes(dtype, SHAPES[per], seed=3, raw=raw)
        given.append("zeros")
    options = {"block_size": 16} if per == "block" else {}
    nodes = [
        node("DequantizeLinear", given, "table", axis=0 if per == "row" else 1, **options),
        node("Gather", ["table", "input_ids"], "hidden"),
    ]
    made = reference(nodes, tensors)
    checkpoint = opened(save(tmp_path, made))
    found, wanted = checkpoint.read("codes"), computed(made, 24)
    if per == "column":  # the reference rounds to the dtype of the scales
        found = found.astype(np.float16).astype(np.float32)
    same(found, wanted)
    same(checkpoint.read("codes", 5, 9), checkpoint.read("codes")[5:9])
    assert checkpoint.roles().tables["token"] == ("codes",)
    assert checkpoint.info("codes").dtype == f"{dtype}, one scale per {'16 numbers' if per == 'block' else per}"
    assert "scales" not in checkpoint.names()


@pytest.mark.parametrize("per", ["table", "column"])
def test_scales_after_the_lookup(tmp_path: Path, per: str) -> None:
    tensors: dict[str, Any] = {"codes": codes("U8", (24, 32), seed=1), "zeros": codes("U8", SHAPES[per], seed=3)}
    tensors["scales"] = np.abs(random_table(*SHAPES[per], seed=2))
    nodes = [
        node("Gather", ["codes", "input_ids"], "rows"),
        node("DequantizeLinear", ["rows", "scales", "zeros"], "hidden", axis=-1 if per == "table" else 2),
    ]
    made = reference(nodes, tensors)
    same(opened(save(tmp_path, made)).read("codes"), computed(made, 24))


@pytest.mark.parametrize("zeros", [True, False], ids=["zeros", "none"])
@pytest.mark.parametrize(
    ("bits", "block", "width"), [(4, 16, 48), (4, 32, 72), (4, 128, 128), (8, 64, 192), (2, 32, 96)]
)
def test_lookups_of_packed_blocks(tmp_path: Path, bits: int, block: int, width: int, zeros: bool) -> None:
    draw = np.random.default_rng(5)
    blocks = -(-width // block)
    values = draw.integers(2**bits, size=(30, width), dtype=np.uint8)
    zero = draw.integers(2**bits, size=(30, blocks), dtype=np.uint8)
    scales = np.abs(random_table(30, blocks, dtype=np.float16))
    tensors = {"codes": packed(values, bits), "scales": scales}
    given = ["codes", "input_ids", "scales"]
    if zeros:
        tensors["zeros"] = packed(zero, bits)
        given.append("zeros")
    lookup = node("GatherBlockQuantized", given, "hidden", bits=bits, block_size=block, gather_axis=0, quantize_axis=1)
    checkpoint = opened(save(tmp_path, model([lookup], tensors, outputs=["hidden"])))
    of_block = np.arange(width) // block
    around = zero[:, of_block].astype(np.float32) if zeros else np.float32(2 ** (bits - 1))
    wanted = (values.astype(np.float32) - around) * scales[:, of_block].astype(np.float32)
    same(checkpoint.read("codes"), wanted)
    same(checkpoint.read("codes", 7, 12), wanted[7:12])


@pytest.mark.parametrize("dtype", ["U4", "I4"])
def test_lookups_of_blocks_of_four_bit_tensors(tmp_path: Path, dtype: str) -> None:
    """Their zero points are packed without regard to rows, of which each has three here."""
    tensors: dict[str, Any] = {"codes": codes(dtype, (10, 48), seed=1), "zeros": codes(dtype, (10, 3), seed=2)}
    tensors["scales"] = np.abs(random_table(10, 3, seed=3))
    blocks = [node("GatherBlockQuantized", ["codes", "input_ids", "scales", "zeros"], "hidden", block_size=16)]
    scaled = [
        node("DequantizeLinear", ["codes", "scales", "zeros"], "table", axis=1, block_size=16),
        node("Gather", ["table", "input_ids"], "hidden"),
    ]
    wanted = computed(reference(scaled, tensors), 10)
    checkpoint = opened(save(tmp_path, reference(blocks, tensors)))
    same(checkpoint.read("codes"), wanted)
    same(checkpoint.read("codes", 3, 8), wanted[3:8])


# --- heads ------------------------------------------------------------------------------------------------------------

TABLE = random_table(40, 16)
HEAD = random_table(40, 16, seed=1)
BIAS = random_table(40, seed=2)


def with_head(nodes: list[onnx.NodeProto], **tensors: Any) -> onnx.ModelProto:
    return model([node("Gather", ["table", "input_ids"], "hidden"), *nodes], {"table": TABLE, **tensors})


def _matmul() -> onnx.ModelProto:
    nodes = [node("MatMul", ["hidden", "head"], "product"), node("Add", ["bias", "product"], "logits")]
    return with_head(nodes, head=HEAD.T.copy(), bias=BIAS)


def _gemm() -> onnx.ModelProto:
    return with_head([node("Gemm", ["hidden", "head", "bias"], "logits", transB=1)], head=HEAD, bias=BIAS)


def _scaled() -> onnx.ModelProto:
    nodes = [
        node("Transpose", ["head"], "turned", perm=[1, 0]),
        node("MatMul", ["hidden", "turned"], "product"),
        node("Add", ["product", "bias"], "sum"),
        node("Mul", ["sum", "factor"], "scaled"),
        node("Tanh", ["scaled"], "logits"),
    ]
    return with_head(nodes, head=HEAD, bias=BIAS, factor=np.float32([0.5]))


@pytest.mark.parametrize("build", [_matmul, _gemm, _scaled], ids=["matmul", "gemm", "scaled"])
def test_heads_with_their_bias(tmp_path: Path, build: Callable[[], onnx.ModelProto]) -> None:
    source = hpe.extract(save(tmp_path, build()))
    same(source.head.vectors, HEAD)
    same(source.head.bias, BIAS)
    assert source.head.provenance.tensor == "head"


def test_without_a_configuration_no_default_ties_a_head_of_its_own(tmp_path: Path) -> None:
    nodes = [node("MatMul", ["hidden", "turned"], "logits"), node("Transpose", ["lm_head.weight"], "turned")]
    made = with_head(nodes[::-1], **{"lm_head.weight": HEAD})
    said = hpe.extract(save(tmp_path, made)).head.tied
    assert (said.tied, said.how, said.about) == (False, "own tensor", "lm_head.weight and table are stored separately")
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}', encoding="utf-8")
    assert hpe.extract(tmp_path / "model.onnx").head.tied.about.endswith("which means true")


def _nbits() -> onnx.ModelProto:
    values = np.random.default_rng(1).integers(16, size=(40, 1, 32), dtype=np.uint8)
    product = node("MatMulNBits", ["hidden", "codes", "scales", "zeros"], "logits", K=16, N=40, bits=4, block_size=32)
    zeros = np.random.default_rng(2).integers(16, size=(40, 1), dtype=np.uint8)
    return with_head([product], codes=packed(values, 4), scales=np.abs(BIAS), zeros=zeros.reshape(-1))


def _integers() -> onnx.ModelProto:
    nodes = [
        node("DynamicQuantizeLinear", ["hidden"], "rounded", "scale", "zero"),
        node("MatMulInteger", ["rounded", "codes", "zero", "zeros"], "integers"),
        node("Cast", ["integers"], "product", to=TensorProto.FLOAT),
        node("Mul", ["scale", "scales"], "both"),
        node("Mul", ["product", "both"], "logits"),
    ]
    return with_head(nodes, codes=codes("I8", (16, 40), seed=1), scales=np.abs(BIAS), zeros=codes("I8", (40,), seed=2))


def _dynamic() -> onnx.ModelProto:
    product = node("DynamicQuantizeMatMul", ["hidden", "codes", "scales", "zeros"], "logits")
    return with_head(
        [product], codes=codes("U8", (16, 40), seed=1), scales=np.float32([0.25]), zeros=codes("U8", (1,), seed=2)
    )


def _qdq() -> onnx.ModelProto:
    nodes = [
        node("DequantizeLinear", ["codes", "scales"], "head", axis=1),
        node("MatMul", ["hidden", "head"], "logits"),
    ]
    return with_head(nodes, codes=codes("I8", (16, 40), seed=1), scales=np.abs(BIAS))


def _decoded(made: onnx.ModelProto) -> Array:
    """Return the head by the definition of its operator."""
    tensors = {one.name: numpy_helper.to_array(one) for one in made.graph.initializer}
    values = tensors["codes"].astype(np.float32)
    if tensors["codes"].ndim == 3:
        nibbles = np.stack([tensors["codes"] & 15, tensors["codes"] >> 4], axis=-1).reshape(40, 32)[:, :16]
        return (nibbles.astype(np.float32) - tensors["zeros"].astype(np.float32)[:, None]) * tensors["scales"][:, None]
    zeros = tensors.get("zeros", np.float32(0)).astype(np.float32)
    return ((values - zeros) * tensors["scales"]).T


@pytest.mark.parametrize("build", [_nbits, _integers, _dynamic, _qdq], ids=["nbits", "integers", "dynamic", "qdq"])
def test_heads_of_codes(tmp_path: Path, build: Callable[[], onnx.ModelProto]) -> None:
    made = build()
    head = hpe.extract(save(tmp_path, made)).head
    wanted = _decoded(made)
    same(head.vectors, wanted)
    same(hpe.extract(tmp_path / "model.onnx").head.rows(5, 9), wanted[5:9])


def test_graphs_without_a_head_say_why(tmp_path: Path) -> None:
    classes = with_head([node("MatMul", ["hidden", "classes"], "logits")], classes=random_table(16, 3))
    states = model([node("Gather", ["table", "input_ids"], "hidden")], {"table": TABLE}, outputs=["hidden"])
    for made, reason in (
        (classes, "the last product before logits gives 3 numbers, not one for each of the 40 tokens"),
        (states, "the graph computes no logits; its outputs are 'hidden'"),
        (with_head([node("Softmax", ["hidden"], "logits")]), "logits comes from Softmax"),
    ):
        with pytest.raises(MissingTableError, match=reason):
            hpe.extract(save(tmp_path, made)).head  # noqa: B018


# --- graphs -----------------------------------------------------------------------------------------------------------


def test_branches_of_a_merged_decoder(tmp_path: Path) -> None:
    """Both branches look the same up under the same names; tensors are in the graph around them."""

    def branch(name: str) -> onnx.GraphProto:
        shape = [node("Shape", ["past"], "length"), node("Range", ["zero", "length", "one"], "places")]
        nodes = [
            node("Cast", ["input_ids"], "ids", to=TensorProto.INT64),
            node("Gather", ["table", "ids"], "words"),
            *(shape if name == "with_past" else [node("CumSum", ["mask", "zero"], "places")]),
            node("Gather", ["positions", "places"], "placed"),
            node("Add", ["words", "placed"], "hidden"),
            node("MatMul", ["hidden", "head"], "logits"),
        ]
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info("logits", TensorProto.FLOAT, None)])

    choice = node("If", ["use_cache"], "logits", then_branch=branch("with_past"), else_branch=branch("without"))
    tensors = {"table": TABLE, "positions": random_table(24, 16, seed=3), "head": HEAD.T.copy()}
    tensors |= {"zero": np.array(0), "one": np.array(1)}
    made = model([choice], tensors, inputs=["input_ids", "past", "mask", "use_cache"])
    source = hpe.extract(save(tmp_path, made, "decoder_model_merged.onnx"))
    same(source.token.vectors, TABLE)
    same(source.position.table.vectors, tensors["positions"])
    same(source.head.vectors, HEAD)


def test_weights_in_constants_and_through_operators(tmp_path: Path) -> None:
    nodes = [
        node("Constant", [], "stored", value=numpy_helper.from_array(TABLE.T.copy())),
        node("Identity", ["stored"], "same"),
        node("Transpose", ["same"], "turned", perm=[1, 0]),
        node("Cast", ["turned"], "table", to=TensorProto.FLOAT),
        node("Gather", ["table", "input_ids"], "hidden"),
    ]
    same(hpe.extract(save(tmp_path, model(nodes, {}, outputs=["hidden"]))).token.vectors, TABLE)


def test_what_is_no_lookup_of_tokens(tmp_path: Path) -> None:
    """Other axes, integers, and biases of attention, which are as wide as there are heads."""
    nodes = [
        node("Gather", ["table", "input_ids"], "hidden"),
        node("Gather", ["biases", "buckets"], "bias"),
        node("Gather", ["wide", "input_ids"], "columns", axis=1),
        node("Gather", ["order", "input_ids"], "numbers"),
        node("Range", ["zero", "forty", "one"], "buckets"),
    ]
    tensors: dict[str, Any] = {"table": TABLE, "biases": random_table(32, 4), "wide": random_table(50, 16)}
    tensors |= {"order": np.arange(80).reshape(5, 16)}
    tensors |= {"zero": np.array(0), "forty": np.array(40), "one": np.array(1)}
    found = opened(save(tmp_path, model(nodes, tensors, outputs=["hidden"]))).roles()
    assert dict(found.tables) == {"token": ("table",)}


def test_what_is_looked_up_is_offered_if_no_input_is_named_after_tokens(tmp_path: Path) -> None:
    nodes = [node("Gather", ["kinds", "atoms"], "logits")]
    path = save(tmp_path, model(nodes, {"kinds": random_table(12, 16)}, inputs=["atoms"]))
    said = r"the graph looks up 'kinds' \[12, 16\] by 'atoms', inputs whose names do not"
    with pytest.raises(MissingTableError, match=said):
        hpe.extract(path)
    assert hpe.extract(f"{path}?token=kinds").token.shape == (12, 16)


# --- folders, the Hub and commands ------------------------------------------------------------------------------------

CONFIG = json.dumps({"model_type": "gpt2", "n_embd": 16, "vocab_size": 40, "architectures": ["GPT2LMHeadModel"]})


def test_settings_are_one_level_above_the_exports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "onnx").mkdir()
    save(tmp_path / "onnx", _matmul())
    (tmp_path / "config.json").write_text(CONFIG)
    vocabulary = {"model": {"type": "WordLevel", "vocab": {f"w{row}": row for row in range(40)}, "unk_token": "w0"}}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"version": "1.0", **vocabulary}))
    for place in (tmp_path, tmp_path / "onnx", tmp_path / "onnx" / "model.onnx"):
        source = hpe.extract(place)
        assert source.config["model_type"] == "gpt2"
        assert source.token.labels.texts[7] == "w7"
        main(["check", str(place)])
        assert "there is no tokenizer.json" not in capsys.readouterr().out


def test_several_exports_are_listed_and_safetensors_come_first(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    (tmp_path / "onnx").mkdir()
    for name in ("model.onnx", "model_q4.onnx"):
        save(tmp_path / "onnx", _matmul(), name)
    with pytest.raises(CheckpointError, match=r"holds 2 models, 'model\.onnx', 'model_q4\.onnx'; name one"):
        hpe.extract(tmp_path)
    save_file({"wte.weight": HEAD}, tmp_path / "model.safetensors")
    same(hpe.extract(tmp_path).token.vectors, HEAD)


def test_external_data_is_read_from_its_own_file(hub: FakeHub, external: tuple[Path, Array]) -> None:
    folder, table = external
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2", "vocab_size": 200}))
    files = {f"onnx/{one.name}": one for one in folder.iterdir() if one.name != "config.json"}
    hub.add("me/exports", {**files, "config.json": folder / "config.json"})
    for name in (folder, "me/exports", "me/exports/onnx/model.onnx"):
        source = hpe.extract(name)
        assert str(source.token.provenance.file).endswith("model.onnx_data")
        assert source.token.provenance.file_bytes == (folder / "model.onnx_data").stat().st_size
        same(source.token.vectors, table)
        same(source.head.vectors, table)
        assert source.config["model_type"] == "gpt2"
        again = pickle.loads(pickle.dumps(source.token))
        same(again.vectors, table)


def test_a_file_with_its_tensors_inline_takes_few_requests(hub: FakeHub, tmp_path: Path) -> None:
    shapes = {"table": (5_000, 64), **{f"onnx::MatMul_{number}": (256, 320) for number in range(100)}}
    shapes |= {f"layer.{number}.bias": (256,) for number in range(98)}
    write_inline(tmp_path / "model.onnx", model(looked_up(head="head"), {}), {**shapes, "head": (64, 5_000)})
    hub.add("me/inline", {"model.onnx": tmp_path / "model.onnx"})
    source = hpe.extract("me/inline/model.onnx")
    assert source.traffic is not None
    assert source.traffic.requests <= 110
    assert source.traffic.received <= 5_000_000
    received = source.traffic.received
    assert source.token.rows(10, 20).shape == (10, 64)
    assert source.traffic.received - received <= 10 * 64 * 4
    requests = source.traffic.requests
    hpe.extract("me/inline/model.onnx")
    assert len(hub.requests) <= requests + 5


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text(CONFIG)
    path = str(save(tmp_path, _matmul()))
    assert main(["info", path]) == 0
    assert "head + bias" in capsys.readouterr().out
    assert main(["neighbours", path, "3"]) == 0
    assert main(["extract", path, "--table", "head", "--out", str(tmp_path / "head.npy")]) == 0
    same(np.load(tmp_path / "head.npy"), HEAD)
    assert main(["check", path]) in (0, 1)
    assert "tensor headers" in capsys.readouterr().out
