"""Pickled checkpoints: the model's own tables, read by a child that is held to time and memory, or one clear line."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import psutil
import pytest
import torch
from packaging.version import Version

import hfposemb as hpe
from hfposemb.cache import Cache
from hfposemb.checkpoints.children import environment
from hfposemb.checkpoints.file_choice import PICKLE, PICKLE_INDEX
from hfposemb.checkpoints.limits import Limits
from hfposemb.checkpoints.pickles import checkpoint as pickled
from hfposemb.checkpoints.pickles import safe_torch
from hfposemb.checkpoints.pickles.checkpoint import PickledCheckpoint, open_pickled
from hfposemb.checkpoints.pickles.safe_torch import OLDEST_TORCH, is_safe
from hfposemb.errors import CheckpointError, HfposembError, HubError, MissingExtraError, MissingTableError
from hfposemb.models.architectures.families import likely_tables
from tests.conftest import Build
from tests.hub import FakeHub

HEADS = {"bert": "MaskedLM", "gpt2": "CausalLM", "opt": "CausalLM", "bart": "Seq2SeqLM", "roberta": "MaskedLM"}


pytestmark = pytest.mark.usefixtures("cache_folder")


@pytest.fixture(autouse=True)
def no_child_is_left() -> Iterator[None]:
    before = set(psutil.Process().children(recursive=True))
    yield
    assert set(psutil.Process().children(recursive=True)) <= before


def save(model: torch.nn.Module, folder: Path, **options: Any) -> Path:
    """Save a model as older versions of transformers did."""
    folder.mkdir(exist_ok=True)
    model.config.save_pretrained(folder)  # type: ignore[operator, union-attr]
    torch.save(model.state_dict(), folder / PICKLE, **options)
    return folder


def opened(content: object, folder: Path, *, limits: Limits | None = None) -> PickledCheckpoint:
    """Write any object with torch.save, and open it."""
    torch.save(content, folder / "weights.pt")
    return open_pickled(folder / "weights.pt", limits=limits or Limits(), likely=likely_tables)


def assert_same(here: hpe.Embeddings, there: hpe.Embeddings) -> None:
    assert list(here.tables) == list(there.tables)
    for role, table in there.tables.items():
        assert here.tables[role].shape == table.shape
        assert np.array_equal(here.tables[role].vectors, table.vectors)
        assert here.tables[role].provenance.stored_dtype == table.provenance.stored_dtype
    assert np.array_equal(here.inputs([5, 6, 7]).normed, there.inputs([5, 6, 7]).normed)


# --- the right tables -------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("model_type", HEADS)
def test_tables_and_inputs_equal_the_models(build: Build, tmp_path: Path, model_type: str) -> None:
    model = build(model_type, f"AutoModelFor{HEADS[model_type]}")
    found = hpe.extract(save(model, tmp_path / "pickled"))
    weight = model.get_input_embeddings().weight.detach().numpy()  # type: ignore[operator]
    assert np.array_equal(found.token.vectors, weight)
    model.save_pretrained(tmp_path / "safe")  # type: ignore[operator]
    assert_same(found, hpe.extract(tmp_path / "safe"))
    assert found.notes == hpe.extract(tmp_path / "safe").notes
    assert found.token.provenance.file == PICKLE
    assert found.token.provenance.file_bytes == (tmp_path / "pickled" / PICKLE).stat().st_size


@pytest.mark.usefixtures("forked")
def test_old_names_of_norms(build: Build, tmp_path: Path) -> None:
    model = build("bert")
    save(model, tmp_path / "pickled")
    state = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in model.state_dict().items()
    }
    assert "embeddings.LayerNorm.gamma" in state
    torch.save(state, tmp_path / "pickled" / PICKLE)
    model.save_pretrained(tmp_path / "safe")  # type: ignore[operator]
    assert_same(hpe.extract(tmp_path / "pickled"), hpe.extract(tmp_path / "safe"))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.usefixtures("forked")
def test_number_types_and_both_formats(build: Build, tmp_path: Path, dtype: torch.dtype, zipped: bool) -> None:
    model = build("gpt2").to(dtype)
    folder = save(model, tmp_path / "pickled", _use_new_zipfile_serialization=zipped)
    assert (folder / PICKLE).read_bytes().startswith(b"PK" if zipped else b"\x80")
    expected = model.get_input_embeddings().weight.detach()  # type: ignore[operator]
    expected = expected if dtype == torch.float64 else expected.float()
    assert np.array_equal(hpe.extract(folder).token.vectors, expected.numpy())


@pytest.mark.parametrize(
    "around",
    [
        lambda state: {"state_dict": state, "epoch": 3, "optimizer_states": [{"state": {0: torch.ones(2)}}]},
        lambda state: {"model": {"state_dict": state}},
        lambda state: {f"module.{name}": tensor for name, tensor in state.items()},
        lambda state: {"state_dict": {f"model.{name}": tensor for name, tensor in state.items()}},
        lambda state: {"_orig_mod." + name: torch.nn.Parameter(tensor) for name, tensor in state.items()},
        lambda state: {**state, "version": 7, "note": "text", "nothing": None, 3: torch.ones(2), "list": [1, 2]},
    ],
)
@pytest.mark.usefixtures("forked")
def test_state_dicts_inside_others(build: Build, tmp_path: Path, around: Callable[..., object]) -> None:
    model = build("bert")
    folder = save(model, tmp_path / "pickled")
    torch.save(around(model.state_dict()), folder / PICKLE)
    found = hpe.extract(folder)
    assert np.array_equal(found.token.vectors, model.get_input_embeddings().weight.detach().numpy())  # type: ignore[operator]
    assert found.position.table.shape == (20, 16)


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("name", ["weights.pt", "weights.pth", "weights.bin"])
def test_a_file_or_the_only_one_of_a_folder(build: Build, tmp_path: Path, name: str) -> None:
    folder = save(build("gpt2"), tmp_path / "pickled")
    (folder / PICKLE).rename(folder / name)
    (folder / "optimizer.pt").write_bytes(b"x")
    (folder / "training_args.bin").write_bytes(b"x")
    assert np.array_equal(hpe.extract(folder / name).token.vectors, hpe.extract(folder).token.vectors)
    (folder / "other.pt").write_bytes(b"x")
    with pytest.raises(CheckpointError, match=r"holds several pickled checkpoints, .*; name one file"):
        hpe.extract(folder)


def shard(model: torch.nn.Module, folder: Path) -> Path:
    """Save a model in two files and an index, tables in the first, everything in layers in the second."""
    save(model, folder)
    (folder / PICKLE).unlink()
    state = model.state_dict()
    names = [f"pytorch_model-0000{number}-of-00002.bin" for number in (1, 2)]
    places = {name: names[".layer." in name or ".h." in name] for name in state}
    for file in names:
        torch.save({name: tensor for name, tensor in state.items() if places[name] == file}, folder / file)
    (folder / PICKLE_INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return folder


@pytest.mark.usefixtures("forked")
def test_shards_are_read_through_their_index(build: Build, tmp_path: Path) -> None:
    model = build("bert")
    folder = shard(model, tmp_path / "pickled")
    (folder / "pytorch_model-00002-of-00002.bin").write_bytes(b"never read")
    model.save_pretrained(tmp_path / "safe")  # type: ignore[operator]
    assert_same(hpe.extract(folder), hpe.extract(tmp_path / "safe"))
    variant = (folder / PICKLE_INDEX).rename(folder / "pytorch_model.bin.index.fp16.json")
    assert_same(hpe.extract(folder), hpe.extract(tmp_path / "safe"))
    assert_same(hpe.extract(variant), hpe.extract(tmp_path / "safe"))
    (folder / PICKLE_INDEX).write_text('{"weight_map": {"wte.weight": "../secret.bin"}}')
    with pytest.raises(CheckpointError, match=r"must name \.bin files of this folder"):
        hpe.extract(folder)
    (folder / PICKLE_INDEX).write_text('{"weight_map": {"wte.weight": "absent.bin"}}')
    with pytest.raises(CheckpointError, match=r"absent\.bin: the file is missing"):
        hpe.extract(folder)


@pytest.mark.usefixtures("forked")
def test_views_strides_and_names_of_the_same_numbers(tmp_path: Path) -> None:
    base = torch.randn(6, 4)
    state = {
        "base": base,
        "same": base,
        "rows": base[2:4],
        "columns": base[:, 1:3],
        "turned": base.t(),
        "spread": torch.randn(1, 4).expand(5, 4),
        "every": base[::2],
        "empty": torch.zeros(0, 4),
        "nothing": torch.zeros(3, 0),
        "sparse": base.relu().to_sparse(),
        "rows of it": base.relu().to_sparse_csr(),
        "vector": base[0],
        "number": torch.tensor(2.5),
        "negative": torch.view_as_complex(torch.randn(3, 4, 2)).conj().imag,
    }
    assert state["negative"].is_neg()
    read = opened(state, tmp_path)
    assert read.metadata() == {"same": "base"}
    assert read.info("same") == read.info("base")
    for name, tensor in state.items():
        assert read.info(name).shape == tuple(tensor.shape)
        if tensor.ndim:
            dense = tensor if tensor.layout == torch.strided else tensor.to_dense()
            assert np.array_equal(read.read(name), dense.resolve_neg().numpy())
    assert np.array_equal(read.read("turned", 1, 3), base.t()[1:3].numpy())
    assert not read.read("base").flags.writeable


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("forked")
def test_numbers_that_hold_no_vectors_as_they_are(tmp_path: Path) -> None:
    state = {
        "wpe.weight": torch.randn(4, 3),
        "wte.weight": torch.quantize_per_tensor(torch.randn(4, 3), 0.1, 0, torch.qint8),
        "whole": torch.ones(4, 3, dtype=torch.int64),
        "meta": torch.empty(4, 3, device="meta"),
        "complex": torch.ones(4, 3, dtype=torch.complex128),
    }
    torch.save(state, tmp_path / "weights.pt")
    found = hpe.extract(tmp_path / "weights.pt")
    assert np.array_equal(found.position.table.vectors, state["wpe.weight"].numpy())
    with pytest.raises(MissingTableError, match=r"wte\.weight is stored as qint8, .*use the full-precision checkpoint"):
        _ = found.token
    read = open_pickled(tmp_path / "weights.pt")
    for name, kind in (("whole", "I64"), ("meta", "meta"), ("complex", "complex128")):
        with pytest.raises(CheckpointError, match=f"is stored as {kind}"):
            read.read(name)


@pytest.mark.usefixtures("forked")
def test_a_tensor_inside_a_layer_costs_another_child_once(tmp_path: Path) -> None:
    state = {"wte.weight": torch.randn(5, 4), "block.0.relative_attention_bias.weight": torch.randn(32, 2)}
    read = opened(state, tmp_path)
    assert kept() == {"wte.weight"}
    name = "block.0.relative_attention_bias.weight"
    assert np.array_equal(read.read(name), state[name].numpy())
    assert kept() == set(state)


def kept() -> set[str]:
    return {entry.key[-1] for entry in Cache.default().entries() if entry.key[0] == "table"}


# --- one clear line ---------------------------------------------------------------------------------------------------


class Evil:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


class Model(torch.nn.Module):
    """A module saved whole, which is code."""


def archive(path: Path, program: bytes) -> Path:
    """Write the zip archive that torch.save would write around a pickle, compressed."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("archive/data.pkl", program)
        file.writestr("archive/version", "3\n")
    return path


@pytest.mark.usefixtures("forked")
def test_nothing_is_run(tmp_path: Path) -> None:
    for protocol, name in ((2, "a.pt"), (4, "b.pt")):
        archive(tmp_path / name, pickle.dumps({"wte.weight": Evil(tmp_path / "made")}, protocol))
        with pytest.raises(CheckpointError, match=r"contains code|torch cannot load it"):
            hpe.extract(tmp_path / name)
        (tmp_path / f"raw-{name}").write_bytes(pickle.dumps(Evil(tmp_path / "made"), protocol))
        with pytest.raises(CheckpointError):
            hpe.extract(tmp_path / f"raw-{name}")
    assert not (tmp_path / "made").exists()
    with pytest.raises(CheckpointError, match=r"contains code, \S*Model, .*torch.save\(model.state_dict\(\), file"):
        opened(Model(), tmp_path)


BOMB = b"\x80\x02cbuiltins\nbytearray\nJ\x00\x00\x00\x50\x85R."
"""A call that takes 1.3 GB."""


def test_a_bomb_does_not_go_off(tmp_path: Path) -> None:
    path = archive(tmp_path / "bomb.pt", BOMB)
    assert path.stat().st_size < 1300
    peak: list[int] = [0]
    with watched(peak), pytest.raises(CheckpointError, match=r"exceeds the limit of 1,000,000,\d{3} bytes of memory"):
        hpe.extract(path)
    assert peak[0] < 1_000_000_000


@pytest.mark.usefixtures("forked")
def test_an_archive_that_unpacks_to_more_than_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "bomb.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        file.writestr("archive/version", "3\n")
        with file.open("archive/data.pkl", "w") as inside:
            for _ in range(300):
                inside.write(b"N0" * 500_000)
    with pytest.raises(CheckpointError, match=r"exceeds the limit of 268,435,456 bytes of memory"):
        hpe.extract(path, limits=Limits(pickle_memory=2**28))


@pytest.mark.usefixtures("forked")
def test_a_tensor_larger_than_its_numbers(tmp_path: Path) -> None:
    read = opened({"wte.weight": torch.zeros(1, 1).expand(1_000_000, 65_536), "wpe.weight": torch.ones(4, 3)}, tmp_path)
    assert kept() == {"wpe.weight"}
    with pytest.raises(CheckpointError, match="the limit is"):
        read.read("wte.weight")
    with pytest.raises(CheckpointError, match="the limit is"):
        read.read("wte.weight", 0, 2)
    spread = {"wte.weight": torch.zeros(1, 1).expand(400_000, 1024)}
    with pytest.raises(CheckpointError, match=r"exceeds the limit of 268,435,456 bytes"):
        opened(spread, tmp_path, limits=Limits(pickle_memory=2**28))


BROKEN = {
    "empty": (b"", "the file is empty"),
    "text": (b"hello world", "not written by torch.save"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
    "page": (b"<!doctype html><html>", "HTML or XML page"),
    "fastText": (b"\xba\x16O/\x0c\0\0\0", "read its vectors with fasttext"),
    "zip": (b"PK\x05\x06" + bytes(18), "torch cannot load it|is truncated"),
    "pickle": (pickle.dumps([1, 2, 3], 2), "cannot load it|holds a"),
    "cut pickle": (pickle.dumps({"a": "b" * 100}, 2)[:50], "is truncated|cannot load it"),
    "stop": (b"\x80\x02.", "cannot load it"),
}
"""Files that are no checkpoints, and what is said of each."""


@pytest.mark.parametrize(("content", "message"), BROKEN.values(), ids=BROKEN)
@pytest.mark.usefixtures("forked")
def test_files_that_are_no_checkpoints(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / PICKLE).write_bytes(content)
    with pytest.raises(CheckpointError, match=message) as caught:
        hpe.extract(tmp_path)
    assert str(caught.value).startswith(PICKLE)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.usefixtures("forked")
def test_a_truncated_file(tmp_path: Path, zipped: bool) -> None:
    path = tmp_path / PICKLE
    torch.save({"wte.weight": torch.randn(500, 40)}, path, _use_new_zipfile_serialization=zipped)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(CheckpointError, match="download it again") as caught:
        hpe.extract(path)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (torch.ones(3), "holds a Tensor, not a state dict"),
        ([torch.ones(3)], "holds a list, not a state dict"),
        ({}, "holds no tensor"),
        ({"step": 3}, "holds no tensor"),
        ({"state_dict": {}}, "holds no tensor"),
        ({"a\nb": torch.ones(2, 2)}, "must be printable"),
        ({"x" * 300: torch.ones(2, 2)}, "name may have at most 256 bytes"),
        ({"__metadata__": torch.ones(2, 2)}, r"weights\.pt"),
        ({"wte.weight": torch.ones([1] * 12)}, "has 12 axes, the limit is 8"),
        ({f"t{i}": torch.ones(2) for i in range(60)}, "may list at most 50 tensors"),
    ],
)
@pytest.mark.usefixtures("forked")
def test_what_is_no_state_dict(tmp_path: Path, content: object, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        opened(content, tmp_path, limits=Limits(tensors=50))


def test_without_torch_the_line_to_type_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.save({"wte.weight": torch.ones(4, 3)}, tmp_path / "a.pt")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"saved by torch\.save needs .* pip install 'hfposemb\[torch\]'"):
        hpe.extract(tmp_path / "a.pt")
    assert issubclass(MissingExtraError, HfposembError)


def test_versions_are_ordered_as_packaging_orders_them() -> None:
    ends = ["", ".0", ".1", "a1", "b2", ".rc1", "-dev1", "+cpu", ".post2", "RC1", ".0c1", "_alpha", "+local.2.0"]
    ends += [".0a0+b4e4ee8", ".0.dev20251101", ".1+cu128"]
    for text in (
        f"{major}.{minor}{end}" for major in (0, 1, 2, 3, 11) for minor in (0, 1, 9, 10, 11, 99) for end in ends
    ):
        assert is_safe(text) == (Version(text) >= Version(OLDEST_TORCH)), text
    assert not any(map(is_safe, ("2", "unknown", "")))


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("on_hub", [False, True])
def test_no_pickle_is_read_by_an_old_torch(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zipped: bool, on_hub: bool
) -> None:
    """Both formats, a file and an index: no child is started, and of a file on the Hub only its start is fetched."""
    monkeypatch.setattr(safe_torch, "version", lambda name: "2.9.1+cu128")
    monkeypatch.setattr(pickled, "start_child", lambda *_: pytest.fail("a child was started"))
    torch.save({"wte.weight": torch.ones(400, 30)}, tmp_path / PICKLE, _use_new_zipfile_serialization=zipped)
    sources = [str(tmp_path), str(tmp_path / PICKLE)]
    if on_hub:
        index = json.dumps({"weight_map": {"wte.weight": PICKLE}}).encode()
        hub.add("a/one", {PICKLE: tmp_path / PICKLE})
        hub.add("a/several", {PICKLE: tmp_path / PICKLE, PICKLE_INDEX: index})
        sources = ["a/one", "a/several"]
    for source in sources:
        with pytest.raises(
            CheckpointError, match=r"torch 2\.9\.1\+cu128 is installed.* needs 2\.10 or later: pip ins"
        ) as e:
            hpe.extract(source, allow_full_download=on_hub).token  # noqa: B018
        assert PICKLE in str(e.value)
        assert str(e.value).endswith("save it with model.save_pretrained(folder)")
    assert hub.cdn_bytes < 100


def test_the_child_asks_the_torch_that_it_has_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the metadata say: another one may stand before it on the path."""
    torch.save({"wte.weight": torch.ones(4, 3)}, tmp_path / "a.pt")
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(f"__version__ = {'2.9.1' + 'x' * 90!r}")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(CheckpointError, match=r"^a\.pt: torch 2\.9\.1x+ is installed.*save_pretrained\(folder\)$"):
        hpe.extract(tmp_path / "a.pt")


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr"])
def test_an_index_beyond_its_axis_is_not_followed(tmp_path: Path, layout: str) -> None:
    """torch itself loads such a tensor, and writes where it points to when it is made dense."""
    values, at = torch.ones(2), torch.tensor([0, 1, 2])
    if layout == "coo":
        wrong = torch.sparse_coo_tensor(torch.tensor([[0, 90_000], [0, 1]]), values, (2, 3), check_invariants=False)
    else:
        values = values.reshape(2, 1, 1) if layout == "bsr" else values
        make = getattr(torch, f"sparse_{layout}_tensor")
        wrong = make(at, torch.tensor([0, 90_000]), values, (2, 2), check_invariants=False)
    with pytest.raises(CheckpointError, match="torch cannot load it"):
        opened({"wte.weight": wrong}, tmp_path)


# --- the child --------------------------------------------------------------------------------------------------------


def slow(path: Path) -> Path:
    """Write a pickle of few bytes that keeps a child busy for half a minute."""
    return archive(path, b"\x80\x02N" + b"q\x00" * 50_000_000 + b".")


class watched:  # noqa: N801
    """Note the largest memory that children of this process take inside a with block."""

    def __init__(self, peak: list[int]) -> None:
        self.peak = peak
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self.over.wait(0.02):
            for child in psutil.Process().children():
                try:
                    self.peak[0] = max(self.peak[0], child.memory_info().rss)
                except psutil.Error:
                    continue

    def __enter__(self) -> None:
        self.thread.start()

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()


def busy_child(process: psutil.Process) -> psutil.Process:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        for child in process.children():
            if "hfposemb.checkpoints.pickles.child" in " ".join(child.cmdline()):
                return child
        time.sleep(0.02)
    raise AssertionError("no child was started")


def test_a_child_is_stopped_after_its_deadline_and_knows_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = slow(tmp_path / "slow.pt")
    assert path.stat().st_size < 1_000_000
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    raised: list[HfposembError] = []

    def read() -> None:
        try:
            open_pickled(path, limits=Limits(seconds=1))
        except HfposembError as error:
            raised.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    child = busy_child(psutil.Process())
    if sys.platform == "linux":
        told = Path(f"/proc/{child.pid}/environ").read_bytes()
        assert b"PATH=" in told
        assert b"HF_" not in told
        assert b"secret" not in told
    reader.join(60)
    assert re.search(r"slow\.pt: loading it took more than 1 s and was stopped", str(raised[0]))
    assert not child.is_running()


def test_the_environment_is_a_short_list() -> None:
    outer = {"PATH": "/bin", "HF_TOKEN": "a", "HUGGING_FACE_HUB_TOKEN": "b", "PYTHONPATH": "c", "HOME": "/root"}
    single = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS", "TOKENIZERS_PARALLELISM"}
    assert set(environment(outer)) == {"PATH", "MALLOC_ARENA_MAX", "PYTHONIOENCODING", *single}


def test_a_child_ends_with_whoever_started_it(tmp_path: Path) -> None:
    path = slow(tmp_path / "slow.pt")
    code = f"import hfposemb; hfposemb.extract({str(path)!r})"
    parent = subprocess.Popen([sys.executable, "-c", code])
    child = busy_child(psutil.Process(parent.pid))
    until = time.monotonic() + 30
    while not any(file.path == str(path) for file in child.open_files()):  # its imports come first
        assert time.monotonic() < until, "the child does not read the file"
        time.sleep(0.02)
    parent.kill()
    parent.wait()
    gone, _ = psutil.wait_procs([child], timeout=10)
    assert gone


def test_modules_of_the_working_directory_are_not_taken(tmp_path: Path) -> None:
    torch.save({"wte.weight": torch.ones(4, 3)}, tmp_path / "a.pt")
    (tmp_path / "torch.py").write_text("raise SystemExit(7)")
    code = "import hfposemb; print(hfposemb.extract('./a.pt').token.shape)"
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["(4,", "3)"]


PEAK = """
import resource, sys, hfposemb as hpe, hfposemb.checkpoints.pickles.checkpoint
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
table = hpe.extract(sys.argv[1]).token
table.rows(0, 10)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
print("torch" in sys.modules)
"""


def test_the_parent_stays_small_and_loads_no_torch(tmp_path: Path) -> None:
    torch.save({"wte.weight": torch.randn(40_000, 768), "h.0.w": torch.randn(20_000, 1000)}, tmp_path / "a.pt")
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(tmp_path / "a.pt")], capture_output=True, text=True, check=True
    )
    peak, has_torch = done.stdout.split()
    assert int(peak) < 30_000_000, "of a table of 123 MB"
    assert has_torch == "False"


# --- the cache --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("forked")
def test_a_second_reading_needs_no_child(build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save(build("bert"), tmp_path / "pickled")
    first = hpe.extract(folder).inputs([3, 4]).normed
    monkeypatch.setattr(sys, "executable", "/nonexistent")
    assert np.array_equal(hpe.extract(folder).inputs([3, 4]).normed, first)


@pytest.mark.usefixtures("forked")
def test_a_file_that_changed_is_read_again(build: Build, tmp_path: Path) -> None:
    folder = save(build("bert"), tmp_path / "pickled")
    before = hpe.extract(folder)
    state = torch.load(folder / PICKLE)
    state["embeddings.word_embeddings.weight"] += 1
    first = before.token.vectors
    torch.save(state, folder / PICKLE)
    assert np.array_equal(hpe.extract(folder).token.vectors, first + 1)
    layer = "encoder.layer.0.output.dense.weight"
    read = open_pickled(folder / PICKLE)
    torch.save({**state, layer: state[layer] + 1}, folder / PICKLE)
    with pytest.raises(CheckpointError, match="the file changed since it was opened"):
        read.read(layer)


def test_threads_that_want_the_same_tensor_start_one_child(tmp_path: Path) -> None:
    state = {"wte.weight": torch.ones(3, 2), "h.0.w": torch.randn(30, 20)}
    read = opened(state, tmp_path)
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(read.read("h.0.w"))) for _ in range(4)]
    before = {child.pid for child in psutil.Process().children()}
    started: set[int] = set()
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        started |= {child.pid for child in psutil.Process().children()} - before
        time.sleep(0.01)
    assert len(found) == 4
    assert all(np.array_equal(one, state["h.0.w"].numpy()) for one in found)
    assert len(started) == 1


# --- the Hub ----------------------------------------------------------------------------------------------------------

REPO = "somebody/old"


@pytest.fixture
def old(hub: FakeHub, build: Build, tmp_path: Path) -> torch.nn.Module:
    """A repository of the time before safetensors."""
    model = build("bert", vocab_size=3000, hidden_size=64)
    folder = save(model, tmp_path / "there")
    hub.add(REPO, {path.name: path for path in folder.iterdir()})
    return model


@pytest.mark.usefixtures("forked")
def test_it_is_read_whole_where_that_is_agreed_to(hub: FakeHub, old: torch.nn.Module, tmp_path: Path) -> None:
    size = (tmp_path / "there" / PICKLE).stat().st_size
    with pytest.raises(
        HubError, match=rf"{PICKLE} is a pickle of {size:,} bytes, .*allow_full_download=True, or --allow"
    ):
        hpe.extract(REPO)
    assert hub.cdn_bytes < 100
    found = hpe.extract(REPO, allow_full_download=True)
    assert_same(found, hpe.extract(tmp_path / "there"))
    assert found.token.provenance.commit
    assert found.token.provenance.file_bytes == size
    before = len(hub.requests)
    again = hpe.extract(REPO)
    assert_same(again, found)
    assert [one.method for one in hub.requests[before:]] == ["HEAD"], "what was read once is read without leave"


@pytest.mark.usefixtures("forked")
def test_a_download_that_breaks_off_goes_on(hub: FakeHub, old: torch.nn.Module) -> None:
    hub.fault("truncated", times=1, host="cdn", after=1, at=100_000)
    weight = old.get_input_embeddings().weight.detach().numpy()  # type: ignore[operator]
    assert np.array_equal(hpe.extract(REPO, allow_full_download=True).token.vectors, weight)


@pytest.mark.usefixtures("forked")
def test_something_else_is_noticed_before_it_is_downloaded(hub: FakeHub) -> None:
    hub.add("a/page", {PICKLE: b"hello" * 100_000})
    with pytest.raises(CheckpointError, match=r"not written by torch.save"):
        hpe.extract("a/page", allow_full_download=True)
    assert sum(one.body_bytes for one in hub.requests if PICKLE in one.path or one.host == "cdn") < 1000


@pytest.mark.usefixtures("forked")
def test_without_a_token_it_is_refused(hub: FakeHub, old: torch.nn.Module) -> None:
    for leave in (False, True):
        with pytest.raises(
            HubError, match=r"has no \.safetensors file, only the pickle 'pytorch_model\.bin'; .*run code"
        ) as e:
            hpe.extract(REPO, token=False, allow_full_download=leave)
        assert "safetensors revision" not in str(e.value)
    assert not [one for one in hub.requests if one.host == "cdn"]
    # Nor is what a user's own reading has left on this machine.
    hpe.extract(REPO, allow_full_download=True)
    with pytest.raises(HubError, match="only the pickle"):
        hpe.extract(REPO, token=False)


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("ref", ["refs/pr/3", "refs/convert/safetensors", "safetensors"])
def test_a_revision_with_safetensors_is_named(hub: FakeHub, old: torch.nn.Module, tmp_path: Path, ref: str) -> None:
    old.save_pretrained(tmp_path / "safe")  # type: ignore[operator]
    for number in (1, 2, 4):
        hub.add(REPO, {"README.md": f"pull request {number}".encode()}, branch=f"refs/pr/{number}")
    hub.add(REPO, {path.name: path for path in (tmp_path / "safe").iterdir()}, branch=ref)
    for options in ({"token": False}, {}, {"allow_full_download": True, "limits": Limits(table_bytes=10_000)}):
        with pytest.raises(HubError, match=rf"; use {REPO}@{ref}, which has safetensors$"):
            hpe.extract(REPO, **options)  # type: ignore[arg-type]
    named = hpe.extract(f"{REPO}@{ref}", token=False)
    assert np.array_equal(named.token.vectors, old.get_input_embeddings().weight.detach().numpy())  # type: ignore[operator]


@pytest.mark.usefixtures("forked")
def test_no_answer_on_revisions_costs_no_answer_on_the_rest(hub: FakeHub, old: torch.nn.Module) -> None:
    hub.fault("status", times=None, path="/refs", code=503)
    with pytest.raises(HubError, match=r"a pickle of .* to read it whole$"):
        hpe.extract(REPO)


@pytest.mark.usefixtures("forked")
def test_shards_of_the_hub(hub: FakeHub, build: Build, tmp_path: Path) -> None:
    model = build("bert", vocab_size=3000, hidden_size=64)
    folder = shard(model, tmp_path / "sharded")
    hub.add("a/sharded", {path.name: path for path in folder.iterdir()})
    with pytest.raises(HubError, match=r"pytorch_model-00001-of-00002\.bin is a pickle of"):
        hpe.extract("a/sharded")
    found = hpe.extract("a/sharded", allow_full_download=True)
    assert np.array_equal(found.token.vectors, model.get_input_embeddings().weight.detach().numpy())  # type: ignore[operator]
    assert found.inputs([4, 5]).normed.shape == (2, 64)
    assert not [one for one in hub.requests if "00002-of-00002" in one.path]


@pytest.mark.usefixtures("forked")
def test_a_download_of_hugging_faces_own_is_used(hub: FakeHub, old: torch.nn.Module, tmp_path: Path) -> None:
    # Under a name of its own: that cache lasts for all tests.
    hub.add("a/downloaded", {path.name: path for path in (tmp_path / "there").iterdir()})
    huggingface_hub.snapshot_download("a/downloaded")
    before = len(hub.requests)
    weight = old.get_input_embeddings().weight.detach().numpy()  # type: ignore[operator]
    assert np.array_equal(hpe.extract("a/downloaded").token.vectors, weight)
    assert not [one for one in hub.requests[before:] if PICKLE in one.path or one.host == "cdn"]


@pytest.mark.usefixtures("forked")
def test_on_the_command_line(hub: FakeHub, old: torch.nn.Module, capsys: pytest.CaptureFixture[str]) -> None:
    from hfposemb.cli.main import main

    assert main(["info", REPO]) == 1
    assert "--allow-full-download" in capsys.readouterr().err
    assert main(["info", REPO, "--allow-full-download"]) == 0
    assert PICKLE in capsys.readouterr().out
