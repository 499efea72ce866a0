"""Without the Hub, whatever the cache of huggingface_hub holds is read as it would be online."""

from __future__ import annotations

import json
import re
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
from huggingface_hub import hf_hub_download
from safetensors.numpy import save

import hfposemb as hpe
from hfposemb.cli.main import main
from hfposemb.errors import OfflineError
from hfposemb.surveys.source_lists import revisions
from tests.conftest import FULL
from tests.hub import FakeHub
from tests.support.checkpoints.gguf_models import Model
from tests.support.checkpoints.layouts import CONFIG, MODEL, ROWS, STATE, pickled, placed

WORDS = {f"w{row}": row for row in range(11)}
TOKENIZER = {"added_tokens": [], "model": {"type": "WordLevel", "vocab": WORDS, "unk_token": "w0"}}
VOCABULARY = {
    "tokenizer.json": json.dumps(TOKENIZER | {"version": "1.0", "pre_tokenizer": {"type": "Whitespace"}}).encode()
}
INDEX = json.dumps({"metadata": {}, "weight_map": {"wte.weight": "one.safetensors", "wpe.weight": "two.safetensors"}})
SHARDS = {
    "config.json": CONFIG,
    "model.safetensors.index.json": INDEX.encode(),
    "one.safetensors": save({"wte.weight": ROWS}),
    "two.safetensors": save({"wpe.weight": ROWS[::-1].copy()}),
}
KINDS: dict[str, tuple[str, dict[str, bytes]]] = {
    "safetensors": ("", MODEL | VOCABULARY),
    "shards": ("", SHARDS | VOCABULARY),
    "pickle": ("", {"config.json": CONFIG, "pytorch_model.bin": pickled(STATE)} | VOCABULARY),
    "named": ("", {"config.json": CONFIG, "weights.safetensors": MODEL["model.safetensors"]} | VOCABULARY),
    "folder": ("/step-5", placed("step-5", MODEL | VOCABULARY) | {"README.md": b"x"}),
    "module": ("", placed("0_Transformer", MODEL | VOCABULARY)),
}
"""Path within the repository, and its files."""


@pytest.fixture(params=["switched off", "unreachable"])
def offline(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How the Hub is away."""
    return str(request.param)


@pytest.fixture(autouse=True)
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache of huggingface_hub."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))


def go_offline(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if how == "unreachable":
        for name in ("ENDPOINT", "HUGGINGFACE_CO_URL_TEMPLATE"):
            here = getattr(huggingface_hub.constants, name)
            monkeypatch.setattr(huggingface_hub.constants, name, re.sub(r":\d+", ":9", here))
    else:
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)


def downloaded(
    hub: FakeHub, files: dict[str, bytes], cache: Path, *, only: tuple[str, ...] = (), name: str = "a/model"
) -> str:
    """Fill the cache of huggingface_hub as from_pretrained does; return the commit."""
    hub.add(name, files)
    found = [hf_hub_download(name, file, cache_dir=cache / "hub") for file in only or files]
    return re.findall("snapshots/([0-9a-f]{40})/", Path(found[0]).as_posix())[0]


WAYS = [("switched off", kind) for kind in KINDS]
WAYS += [("unreachable", kind) for kind in KINDS if FULL or kind == "safetensors"]
"""To try whether an unreachable Hub answers takes a second each time; what is read after that is the same."""


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize(("offline", "kind"), WAYS, indirect=["offline"])
def test_every_command_reads_a_downloaded_model(
    hub: FakeHub,
    tmp_path: Path,
    kind: str,
    offline: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path, files = KINDS[kind]
    commit = downloaded(hub, files, tmp_path)
    go_offline(offline, monkeypatch)
    sent = len(hub.requests)
    for source in (f"a/model{path}", f"a/model{path}@{commit}"):
        assert np.array_equal(hpe.extract(source).token.vectors, ROWS)
        for command in ("info", "odd", "check", "neighbours", "compare"):
            more = {"neighbours": ("w1", "-k", "2"), "compare": ("sample:gpt2",), "odd": ("--count", "2")}
            assert main([command, source, *more.get(command, ())]) == 0, capsys.readouterr()
            assert command != "neighbours" or "'w1'" in capsys.readouterr().out
    assert len(hub.requests) == sent, "none was sent"


def test_a_gguf_file_is_found_offline_whatever_its_name(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Model("llama", tensors={"token_embd.weight": ROWS}).write(tmp_path / "made.gguf")
    downloaded(hub, {"tiny-F32.gguf": made.read_bytes()}, tmp_path)
    go_offline("switched off", monkeypatch)
    assert np.array_equal(hpe.extract("a/model").token.vectors, ROWS)


def test_what_the_cache_lacks_is_named(hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    downloaded(hub, MODEL | VOCABULARY, tmp_path, only=("config.json", "tokenizer.json"))
    shards = ("model.safetensors.index.json", "one.safetensors")
    downloaded(hub, SHARDS, tmp_path, only=shards, name="a/shards")
    go_offline("switched off", monkeypatch)
    with pytest.raises(
        OfflineError, match=r"cannot be reached, and the cache .* only 'config\.json, tokenizer\.json'; read"
    ):
        hpe.extract("a/model")
    with pytest.raises(OfflineError, match=r"two\.safetensors"):
        hpe.extract("a/shards")


def test_a_downloaded_model_precedes_a_commit_of_which_a_part_was_read(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = downloaded(hub, MODEL, tmp_path)
    hub.add("a/model", {**MODEL, "README.md": b"newer"})
    assert hpe.extract("a/model").position.table.provenance.commit != commit
    go_offline("switched off", monkeypatch)
    found = hpe.extract("a/model")
    assert found.token.provenance.commit == commit
    assert np.array_equal(found.token.vectors, ROWS)


def test_strangers_are_shown_nothing_of_the_cache(
    hub: FakeHub, tmp_path: Path, offline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = downloaded(hub, MODEL, tmp_path)
    go_offline(offline, monkeypatch)
    for source in ("a/model", f"a/model@{commit}"):
        with pytest.raises(OfflineError):
            hpe.extract(source, token=False)


def test_revisions_are_those_of_the_cache(
    hub: FakeHub, tmp_path: Path, offline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add("a/model", MODEL)
    for name in ("step1", "step2"):
        hub.add("a/model", {**MODEL, "README.md": name.encode()}, branch=name)
        for file in MODEL:
            hf_hub_download("a/model", file, revision=name, cache_dir=tmp_path / "hub")
    go_offline(offline, monkeypatch)
    assert revisions("a/model", "step*") == ["a/model@step1", "a/model@step2"]
    assert np.array_equal(hpe.extract("a/model@step2").token.vectors, ROWS)
    with pytest.raises(OfflineError):
        revisions("a/model", "step*", token=False)
    with pytest.raises(OfflineError):
        revisions("a/other", "step*")
