"""Local reading: round trips against safetensors and torch, hostile files, folders."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from hfposemb import memory_maps
from hfposemb.checkpoints.file_choice import locate
from hfposemb.checkpoints.limits import DEFAULT_LIMITS, Limits
from hfposemb.checkpoints.safetensors.checkpoint import Checkpoint, widen
from hfposemb.errors import CheckpointError, InputError
from hfposemb.models.opening import small_file
from tests.conftest import FULL
from tests.support.checkpoints import malformed
from tests.support.checkpoints.malformed import CASES, ENTRY, listing, with_header
from tests.support.checkpoints.refusals import assert_one_line, assert_refused

FLOATS = ("F64", "F32", "F16", "BF16")
BITS = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16, "I64": 64, "C64": 64, "F6_E2M3": 6, "F4": 4, "BOOL": 8}
TORCH = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def bits(array: np.ndarray) -> np.ndarray:
    """Return an array's bytes, so that NaNs compare too."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def expected(tensor: torch.Tensor) -> np.ndarray:
    """Return what must be read for a tensor, without any conversion of ours."""
    if tensor.dtype == torch.bfloat16:
        return tensor.float().numpy()
    return tensor.numpy().astype(np.float32) if tensor.dtype == torch.float16 else tensor.numpy()


def saved(folder: Path, *, name: str = "model.safetensors", **tensors: torch.Tensor) -> Path:
    save_file(tensors, folder / name, metadata={"format": "pt"})
    return folder / name


def write(folder: Path, content: bytes, *, name: str = "model.safetensors") -> Path:
    (folder / name).write_bytes(content)
    return folder / name


# --- malformed files ---


def test_malformed_files_are_refused_in_one_line_and_150_megabytes(tmp_path: Path) -> None:
    assert_refused(CASES, tmp_path, reader="hfposemb.checkpoints.safetensors.checkpoint:Checkpoint.open")


# --- against safetensors ---

JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["F32", "I64", "", "F4", "t", "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "dtype"]), inner, max_size=2),
    max_leaves=5,
)
SMALL = st.integers(-1, 9) | st.sampled_from([16, 24, 32, 48, 2**31, 2**62, 2**63, 2**64, 2**64 + 8])


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Draw a valid file of one to four tensors, then break its header, its bytes, or neither."""
    header: dict[str, Any] = {}
    at = 0
    for index in range(draw(st.integers(1, 4))):
        dtype = draw(st.sampled_from([*FLOATS, "I64", "BOOL", "F4"]))
        shape = draw(st.lists(st.integers(0, 4), max_size=3))
        size = int(np.prod(shape, dtype=int)) * BITS[dtype] // 8
        header[f"t{index}"] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    data = draw(st.binary(min_size=at, max_size=at))
    for _ in range(draw(st.integers(0, 2))):
        entry = header[draw(st.sampled_from(sorted(header)))]
        if not isinstance(entry, dict):
            continue
        kind = draw(st.sampled_from(["shape", "data_offsets", "dtype", "field", "entry", "metadata"]))
        if kind in ("shape", "data_offsets"):
            entry[kind] = draw(st.lists(SMALL, max_size=4) | JUNK)
        elif kind == "dtype":
            entry[kind] = draw(st.sampled_from(["F64", "F16", "C64", "U32", "F6_E2M3", "F99"]) | JUNK)
        elif kind == "field":
            entry[draw(st.sampled_from(["shape", "extra"]))] = draw(JUNK)
        elif kind == "entry":
            header[draw(st.sampled_from(["t0", "u", "", "\x00", "é"]))] = draw(JUNK | st.just(entry))
        else:
            header["__metadata__"] = draw(JUNK | st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2))
    text = json.dumps(header, ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")
    text += draw(st.sampled_from([b"", b"", b" ", b"    ", b"\n", b"\0"]))
    content = bytearray(with_header(text, data=data))
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(content) - 1))
        how = draw(st.sampled_from(["flip", "drop", "insert", "cut"]))
        if how == "flip":
            content[place] ^= 1 << draw(st.integers(0, 7))
        elif how == "drop" and place:
            del content[place]
        elif how == "insert":
            content.insert(place, draw(st.sampled_from(b' {}[],:"0129-\\\n')))
        else:
            del content[max(place, 1) :]
    return bytes(content)


def theirs(path: Path) -> dict[str, torch.Tensor] | None:
    """Return what safetensors reads, tensors that torch can hold as float only, or None where it refuses the file."""
    try:
        with safe_open(path, "pt") as opened:
            found = {}
            for name in opened.keys():  # noqa: SIM118 — not a mapping
                if opened.get_slice(name).get_dtype() in FLOATS:
                    found[name] = opened.get_tensor(name)
            return found
    except (SafetensorError, OSError, ValueError, RuntimeError, OverflowError):
        return None


def assert_agrees(path: Path) -> bool:
    """Require that we refuse what safetensors refuses and read what it reads; return whether we read it."""
    reference = theirs(path)
    try:
        checkpoint = Checkpoint.open(path, limits=Limits(rows=2**63, columns=2**63))
    except CheckpointError:
        return False
    assert reference is not None, f"safetensors refuses {path.read_bytes()!r}"
    tensors = checkpoint.tensors
    assert set(reference) == {name for name, info in tensors.items() if info.dtype in FLOATS}
    for name, tensor in reference.items():
        assert tensors[name].shape == tuple(tensor.shape)
        if tensor.dim():
            np.testing.assert_array_equal(bits(checkpoint.read(name)), bits(expected(tensor)))
    return True


@settings(max_examples=600 if FULL else 150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files())
@example(malformed.valid())
@example(with_header(listing(t=ENTRY) + "  "))
@example(with_header("{}", data=b""))
def test_nothing_that_safetensors_refuses_is_accepted(tmp_path: Path, content: bytes) -> None:
    assert_agrees(write(tmp_path, content))


# --- round trips ---


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
def test_every_16_bit_pattern_is_widened_exactly(dtype: str, tmp_path: Path) -> None:
    patterns = np.arange(65536, dtype=np.uint16)
    found = Checkpoint.open(
        write(
            tmp_path,
            with_header(
                listing(t=f'{{"dtype":"{dtype}","shape":[256,256],"data_offsets":[0,131072]}}'), data=patterns.tobytes()
            ),
        )
    ).read("t")
    if dtype == "F16":
        reference = patterns.view(np.float16).astype(np.float32)
    else:
        reference = torch.from_numpy(patterns.view(np.int16)).view(torch.bfloat16).float().numpy()
    np.testing.assert_array_equal(bits(found), bits(reference))


def test_bf16_is_widened_across_chunks() -> None:
    raw = np.random.default_rng(0).integers(0, 2**16, 2**20 + 3, dtype=np.uint16)
    reference = torch.from_numpy(raw.view(np.int16)).view(torch.bfloat16).float().numpy()
    np.testing.assert_array_equal(bits(widen(raw, "BF16")), bits(reference))


@pytest.mark.parametrize("dtype", ["F32", "F64"])
@pytest.mark.parametrize("rows", [4, memory_maps.SMALL], ids=["read", "mapped"])
def test_full_precision_is_read_only_and_mapped_where_it_is_large(dtype: str, rows: int, tmp_path: Path) -> None:
    path = saved(tmp_path, t=torch.arange(3.0 * rows).reshape(rows, 3).to(TORCH[dtype]))
    found = Checkpoint.open(path).read("t", 1)
    assert not found.flags.owndata
    assert memory_maps.lendable(found)
    with pytest.raises(ValueError, match="read-only"):
        found[0, 0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        found.flags.writeable = True
    torch.from_numpy(found).zero_()
    np.testing.assert_array_equal(Checkpoint.open(path).read("t", 1)[0], [3, 4, 5])


@pytest.mark.parametrize("dtype", FLOATS)
@given(bounds=st.lists(st.integers(0, 9), min_size=2, max_size=2).map(sorted))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_row_ranges(dtype: str, bounds: list[int], tmp_path: Path) -> None:
    tensor = torch.arange(54.0).reshape(9, 3, 2).to(TORCH[dtype])
    path = tmp_path / "model.safetensors"
    if not path.exists():
        saved(tmp_path, a=torch.zeros(3), t=tensor)
    found = Checkpoint.open(path).read("t", *bounds)
    np.testing.assert_array_equal(found, expected(tensor)[slice(*bounds)])


@pytest.mark.parametrize(("start", "stop"), [(-1, None), (0, 5), (3, 2), (5, None)])
def test_rows_that_do_not_exist(start: int, stop: int | None, tmp_path: Path) -> None:
    checkpoint = Checkpoint.open(saved(tmp_path, t=torch.zeros(4, 2)))
    with pytest.raises(InputError, match="it has rows 0 to 4"):
        checkpoint.read("t", start, stop)


def test_info_names_the_bytes_of_the_tensor(tmp_path: Path) -> None:
    path = saved(tmp_path, a=torch.zeros(3), t=torch.arange(4.0).reshape(2, 2))
    checkpoint = Checkpoint.open(path)
    info = checkpoint.info("t")
    assert path.read_bytes()[info.start : info.stop] == np.arange(4, dtype=np.float32).tobytes()
    assert (info.name, info.dtype, info.shape, info.nbytes, info.file) == ("t", "F32", (2, 2), 16, "model.safetensors")
    assert checkpoint.file_bytes("t") == path.stat().st_size
    assert checkpoint.name == "model.safetensors"


def test_fields_may_stand_in_any_order_with_spaces(tmp_path: Path) -> None:
    header = '{ "t" : {"data_offsets":[ 0 , 32 ] ,\n"shape" : [4,\t2], "dtype" : "F32" } , "__metadata__" : { } }   '
    assert_agrees(write(tmp_path, with_header(header)))
    assert Checkpoint.open(tmp_path).info("t").shape == (4, 2)
    wrong = with_header(listing(t=ENTRY, u="[]"))
    with pytest.raises(CheckpointError, match=f"; byte {wrong.index(b'u') - 1} reads "):
        Checkpoint.open(write(tmp_path, wrong))


@pytest.mark.parametrize("name", ["été", "\\u00e9t\\u00e9", "\\ud83d\\ude00", 'a\\"b\\\\', "x" * 256])
def test_printable_names_are_kept(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, with_header(f'{{"{name}":{ENTRY}}}'))
    assert assert_agrees(path)
    assert Checkpoint.open(path).names() == (json.loads(f'"{name}"'),)


@pytest.mark.parametrize("dtype", ["I64", "I8", "U8", "BOOL", "C64", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F4", "F6_E2M3"])
def test_codes_are_listed_but_not_read(dtype: str, tmp_path: Path) -> None:
    size = BITS.get(dtype, 8) * 4
    entry = f'{{"dtype":"{dtype}","shape":[8,4],"data_offsets":[0,{size}]}}'
    checkpoint = Checkpoint.open(write(tmp_path, with_header(listing(t=entry), data=bytes(size))))
    assert checkpoint.info("t").dtype == dtype
    with pytest.raises(CheckpointError, match=f"stored as {dtype}.*full-precision checkpoint"):
        checkpoint.read("t")


def test_scalar_is_listed_but_not_a_table(tmp_path: Path) -> None:
    checkpoint = Checkpoint.open(saved(tmp_path, t=torch.tensor(1.0)))
    assert checkpoint.info("t").shape == ()
    with pytest.raises(CheckpointError, match="not a table"):
        checkpoint.read("t")


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (Limits(rows=3), "4 rows of 2 numbers were asked of 't'; the limit is 3 rows"),
        (Limits(columns=1), "4 rows of 2 numbers were asked of 't'; the limit is"),
        (Limits(table_bytes=31), "have 32 bytes; the limit is 31"),
    ],
)
def test_limits_of_a_table(limits: Limits, message: str, tmp_path: Path) -> None:
    checkpoint = Checkpoint.open(write(tmp_path, malformed.valid()), limits=limits)
    with pytest.raises(CheckpointError, match=message):
        checkpoint.read("t")
    assert len(Checkpoint.open(saved(tmp_path, v=torch.zeros(3)), limits=limits).read("v")) == 3, "no table, no width"


@pytest.mark.parametrize("limits", [Limits(header_bytes=20), Limits(tensors=0), Limits(rank=1)])
def test_limits_of_a_header(limits: Limits, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError):
        Checkpoint.open(write(tmp_path, malformed.valid()), limits=limits)
    assert Checkpoint.open(tmp_path, limits=Limits(tensors=1, rank=2)).names() == ("t",)


@pytest.mark.parametrize("change", ["cut", "grow", "rewrite"])
def test_file_that_changes_after_opening(change: str, tmp_path: Path) -> None:
    path = saved(tmp_path, t=torch.zeros(4096, 4))
    checkpoint = Checkpoint.open(path)
    if change == "cut":
        os.truncate(path, 400)
    elif change == "grow":
        os.truncate(path, path.stat().st_size + 1)
    else:
        saved(tmp_path, t=torch.ones(4096, 4))
        os.utime(path, ns=(1, 1))
    with pytest.raises(CheckpointError, match="changed since it was opened"):
        checkpoint.read("t")


def test_file_that_is_removed_after_opening(tmp_path: Path) -> None:
    path = saved(tmp_path, t=torch.zeros(2, 2))
    checkpoint = Checkpoint.open(path)
    path.unlink()
    with pytest.raises(CheckpointError, match="the file is missing"):
        checkpoint.read("t")


# --- folders ---


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, torch.Tensor]]:
    """Save a small GPT-2 in several shards, as transformers does it."""
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_layer=2, n_head=2, n_embd=16, vocab_size=96, n_positions=32)
    model = transformers.GPT2Model(config)
    folder = tmp_path_factory.mktemp("sharded")
    model.save_pretrained(folder, max_shard_size="10KB")
    assert (folder / "model.safetensors.index.json").exists()
    return folder, {name: tensor.detach() for name, tensor in model.state_dict().items()}


def test_sharded_checkpoint(sharded: tuple[Path, dict[str, torch.Tensor]]) -> None:
    folder, state = sharded
    checkpoint = Checkpoint.open(folder)
    assert set(checkpoint.names()) == set(state)
    assert len({info.file for info in checkpoint.tensors.values()}) > 2
    for name, tensor in state.items():
        np.testing.assert_array_equal(bits(checkpoint.read(name)), bits(tensor.numpy()))
    assert checkpoint.metadata() == {"format": "pt"}


def test_only_the_shard_asked_for_is_read(sharded: tuple[Path, dict[str, torch.Tensor]], tmp_path: Path) -> None:
    folder, state = sharded
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    file = index["weight_map"]["wpe.weight"]
    write(tmp_path, json.dumps(index).encode(), name="model.safetensors.index.json")
    write(tmp_path, (folder / file).read_bytes(), name=file)
    checkpoint = Checkpoint.open(tmp_path)
    np.testing.assert_array_equal(checkpoint.read("wpe.weight"), state["wpe.weight"].numpy())
    other = next(name for name, shard in index["weight_map"].items() if shard != file)
    with pytest.raises(CheckpointError, match=r"model-\d+-of-\d+\.safetensors: the file is missing"):
        checkpoint.read(other)


@pytest.mark.parametrize("path", ["file", "index"])
def test_one_file_may_be_named(path: str, sharded: tuple[Path, dict[str, torch.Tensor]]) -> None:
    folder, state = sharded
    if path == "index":
        assert set(Checkpoint.open(folder / "model.safetensors.index.json").names()) == set(state)
    else:
        shard = sorted(folder.glob("*.safetensors"))[0]
        assert Checkpoint.open(shard).name == shard.name


INDEX = "model.safetensors.index.json"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"weight_map":{}}',
        b'{"weight_map":[]}',
        b'{"weight_map":{"t":1}}',
        b'{"weight_map":{"t":"../model.safetensors"}}',
        b'{"weight_map":{"t":"/etc/model.safetensors"}}',
        b'{"weight_map":{"t":"sub/model.safetensors"}}',
        b'{"weight_map":{"t":"sub\\\\model.safetensors"}}',
        b'{"weight_map":{"t":".."}}',
        b'{"weight_map":{"t":""}}',
        b'{"weight_map":{"t":"a\\u0000.safetensors"}}',
        b'{"weight_map":{"t":"a\\n.safetensors"}}',
        b'{"weight_map":{"t":"pytorch_model.bin"}}',
        b'{"weight_map":{"\\ud800":"model.safetensors"}}',
        b'{"weight_map":{"a\\nb":"model.safetensors"}}',
        b'{"weight_map":{"t":"a.safetensors","t":"b.safetensors"}}',
        b'{"weight_map":{"t":"\xff.safetensors"}}',
        b'{"weight_map":' * 100_000,
        b'{"weight_map":{"t":' + b"9" * 5000 + b"}}",
        b"version https://git-lfs.github.com/spec/v1\n",
        b"<html></html>",
        b'{"a":[' + b"1," * 400_000 + b"1]}",
        b'{"weight_map":{"t":"' + b"x" * 25_000_000 + b'"}}',
        '{"weight_map":{"t":"\U0001f600'.encode() + b"x" * 7_000_000 + b'"}}',
    ],
    ids=lambda content: content[:44].decode("ascii", "replace") + f"...{len(content)}",
)
def test_malformed_index(content: bytes, tmp_path: Path) -> None:
    saved(tmp_path, name="a.safetensors", t=torch.zeros(2, 2))
    write(tmp_path, content, name=INDEX)
    with pytest.raises(CheckpointError) as caught:
        Checkpoint.open(tmp_path)
    assert_one_line(tmp_path / INDEX, str(caught.value))


@pytest.mark.parametrize(
    ("shard", "message"),
    [
        ("absent.safetensors", "absent.safetensors: the file is missing"),
        ("x" * 300 + ".safetensors", "cannot be read"),
        ("other.safetensors", "other.safetensors: the index says that 't' is in this shard"),
    ],
)
def test_index_that_its_shards_do_not_bear_out(shard: str, message: str, tmp_path: Path) -> None:
    saved(tmp_path, name="other.safetensors", u=torch.zeros(2, 2))
    write(tmp_path, json.dumps({"weight_map": {"t": shard}}).encode(), name=INDEX)
    checkpoint = Checkpoint.open(tmp_path)
    assert checkpoint.names() == ("t",)
    with pytest.raises(CheckpointError, match=message):
        checkpoint.info("t")


def test_tensor_of_two_shards_is_where_the_index_says(tmp_path: Path) -> None:
    saved(tmp_path, name="a.safetensors", t=torch.zeros(2, 2))
    saved(tmp_path, name="b.safetensors", t=torch.ones(2, 2))
    write(tmp_path, b'{"weight_map":{"t":"b.safetensors"}}', name=INDEX)
    assert Checkpoint.open(tmp_path).read("t").all()


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["model.safetensors", "model.fp16.safetensors", INDEX], "model.safetensors"),
        (["model.fp16.safetensors", "pytorch_model.bin"], "model.fp16.safetensors"),
        (["weights.safetensors", "optimizer.safetensors", "training_args.bin"], "weights.safetensors"),
        (["diffusion_pytorch_model.safetensors"], "diffusion_pytorch_model.safetensors"),
    ],
)
def test_the_file_that_a_folder_means(names: list[str], chosen: str, tmp_path: Path) -> None:
    for name in names:
        saved(tmp_path, name=name, t=torch.zeros(2, 2))
    assert Checkpoint.open(tmp_path).info("t").file == chosen


def test_index_of_a_variant(tmp_path: Path) -> None:
    saved(tmp_path, name="model.fp16-00001-of-00001.safetensors", t=torch.zeros(2, 2))
    content = b'{"weight_map":{"t":"model.fp16-00001-of-00001.safetensors"}}'
    write(tmp_path, content, name="model.safetensors.index.fp16.json")
    assert Checkpoint.open(tmp_path).read("t").shape == (2, 2)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "has no .safetensors file among 0 files"),
        (["readme.txt", "training_args.bin", "optimizer.pt"], "has no .safetensors file among 3 files"),
        (["pytorch_model.bin"], r"'pytorch_model.bin'; .*save_pretrained"),
        (["tf_model.h5"], r"'tf_model.h5'; .*save_pretrained"),
        (["flax_model.msgpack"], r"'flax_model.msgpack'; .*save_pretrained"),
        (["a.safetensors", "b.safetensors"], r"'a.safetensors, b.safetensors'; name one file"),
        (["model.fp16.safetensors", "model.bf16.safetensors"], "name one file"),
        (["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"], "but not their index"),
        (["model-00001-of-00002.safetensors"], "but not their index; download .model.safetensors.index.json. too"),
        (["optimizer.safetensors"], "has no .safetensors file|holds shards"),
    ],
)
def test_folder_without_a_checkpoint(names: list[str], message: str, tmp_path: Path) -> None:
    for name in names:
        write(tmp_path, b"x", name=name)
    with pytest.raises(CheckpointError, match=message) as caught:
        Checkpoint.open(tmp_path)
    assert str(caught.value).startswith(tmp_path.name)


HOSTILE_PATHS = ("..", ".", "/tmp", "../x", "a/b", "a/", "./a", "..\\\\x", "C:x", "a\\nb", "a\\u0000", "a\\u202e")
"""Paths in modules.json, as JSON writes them, that are not the name of a folder."""


@pytest.mark.parametrize(("listed", "order"), [(True, 1), (True, -1), (False, 1)])
def test_sentence_transformers_folder(listed: bool, order: int, tmp_path: Path) -> None:
    inner = tmp_path / "0_Transformer"
    inner.mkdir()
    saved(inner, t=torch.ones(2, 2))
    write(inner, b'{"model_type":"bert"}', name="config.json")
    if listed:
        modules = [{"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
        modules = [{"path": "0_Transformer", "type": "sentence_transformers.models.Transformer"}, *modules][::order]
        write(tmp_path, json.dumps(modules).encode(), name="modules.json")
    checkpoint = Checkpoint.open(tmp_path)
    assert checkpoint.read("t").all()
    assert locate(tmp_path).parent == inner, "where its configuration is"
    assert checkpoint.name == tmp_path.name


@pytest.mark.parametrize(
    "modules",
    [
        *("", "{}", "[]", "[1]", "[{}]", '[{"path":1}]', '[{"path":"absent"}]', '[{"path":null}]', '[{"path":[[]]}]'),
        *(f'[{{"path":"{path}"}}]' for path in HOSTILE_PATHS),
    ],
)
def test_malformed_modules(modules: str, tmp_path: Path) -> None:
    write(tmp_path, modules.encode(), name="modules.json")
    with pytest.raises(CheckpointError, match=r"modules\.json") as caught:
        Checkpoint.open(tmp_path)
    assert str(caught.value).isprintable()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("name", ["model.safetensors", INDEX])
def test_pipe_does_not_hang(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(CheckpointError, match="is not a regular file"):
        Checkpoint.open(tmp_path)


def test_link_to_its_own_folder_ends(tmp_path: Path) -> None:
    (tmp_path / "0_Transformer").symlink_to(tmp_path)
    with pytest.raises(CheckpointError):
        Checkpoint.open(tmp_path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent", "the file is missing"),
        ("a\0b.safetensors", "cannot be read"),
        ("x" * 300 + ".safetensors", "cannot be read"),
        ("pytorch_model.bin", "save_pretrained"),
        ("model.gguf", "is not a .safetensors file"),
        ("glove.6B.50d.txt", "read its arrays with gensim"),
        ("lid.176.ftz", "read its vectors with fasttext"),
        *(
            (f"table.{suffix}", "if it holds a table, read that")
            for suffix in ("pkl", "pickle", "joblib", "dat", "what")
        ),
        ("broken-link.safetensors", "the file is missing"),
    ],
)
def test_path_that_is_no_checkpoint(name: str, message: str, tmp_path: Path) -> None:
    write(tmp_path, b"x", name="pytorch_model.bin")
    write(tmp_path, b"x", name="model.gguf")
    write(tmp_path, b"the 0.4 0.2", name="glove.6B.50d.txt")
    if name.startswith(("lid", "table")):
        write(tmp_path, b"x", name=name)
    (tmp_path / "broken-link.safetensors").symlink_to(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match=message) as caught:
        Checkpoint.open(tmp_path / name)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) <= 300


def test_unknown_tensor(tmp_path: Path) -> None:
    checkpoint = Checkpoint.open(saved(tmp_path, t=torch.zeros(2, 2)))
    with pytest.raises(CheckpointError, match=r"has no tensor 'wte\.weight' among its 1"):
        checkpoint.read("wte.weight")


def test_config_may_be_absent_and_may_repeat_keys(tmp_path: Path) -> None:
    assert small_file(tmp_path, DEFAULT_LIMITS, "config.json") is None
    write(tmp_path, '{"a":1,"a":2,"limit":[0.0,Infinity],"name":"é \\ud83d\\ude00"}'.encode(), name="config.json")
    found = small_file(tmp_path, DEFAULT_LIMITS, "config.json")
    assert found == {"a": 2, "limit": [0.0, float("inf")], "name": "é \U0001f600"}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"null",
        b'{"a":',
        b'{"a":"\xff"}',
        b'{"a":"\\ud800"}',
        b'{"a":' + b"[" * 100_000,
        b'{"a":' + b"9" * 5000 + b"}",
        b"\x1f\x8b\x08\0",
        b'{"a":[' + b"1," * 400_000 + b"1]}",
        b'{"a":"' + b"x" * 5_000_000 + b'"}',
        struct.pack("<Q", 2) + b"{}",
    ],
    ids=lambda content: content[:24].decode("ascii", "replace") + f"...{len(content)}",
)
def test_malformed_config(content: bytes, tmp_path: Path) -> None:
    write(tmp_path, content, name="config.json")
    with pytest.raises(CheckpointError) as caught:
        small_file(tmp_path, DEFAULT_LIMITS, "config.json")
    assert_one_line(tmp_path / "config.json", str(caught.value))


def test_a_header_that_changes_under_the_same_size_and_time_is_read_again(tmp_path: Path) -> None:
    path = saved(tmp_path, first=torch.zeros(4, 6), other=torch.ones(6, 4))
    assert Checkpoint.open(path).info("first").shape == (4, 6)
    status, whole = path.stat(), path.read_bytes()
    changed = whole.replace(b'"shape":[4,6]', b'"shape":[3,8]').replace(b'"first"', b'"third"')
    assert (changed != whole, len(changed)) == (True, len(whole))
    path.write_bytes(changed)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    again = Checkpoint.open(path)
    assert sorted(again.names()) == ["other", "third"]
    assert again.info("third").shape == (3, 8)
    path.write_bytes(changed + b"\0")  # the same header, but the file has a byte that it does not cover
    with pytest.raises(CheckpointError, match="for them"):
        Checkpoint.open(path)
