"""Folders that hold a model somewhere inside: read where that can be, with the true advice where not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.errors import CheckpointError, SourceError
from tests.hub import FakeHub
from tests.support.checkpoints.gguf_models import Model
from tests.support.checkpoints.layouts import (
    CONFIG,
    LAYOUTS,
    MODEL,
    ROWS,
    STATE,
    pickled,
    placed,
)


def write(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_folder_is_told_and_what_the_advice_names_opens(layout: str, tmp_path: Path) -> None:
    files, message, inside = LAYOUTS[layout]
    folder = write(tmp_path / "here", files)
    with pytest.raises(SourceError, match=message) as caught:
        hpe.extract(folder)
    assert "\n" not in str(caught.value)
    if inside:
        assert str(caught.value).endswith(f"open {folder}/{inside}")
        found = hpe.extract(str(caught.value).rpartition("open ")[2])
        assert np.array_equal(found.token.vectors, ROWS)
        assert np.array_equal(found.position.table.vectors, ROWS[::-1])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_repository_is_told_and_what_the_advice_names_opens(layout: str, hub: FakeHub) -> None:
    files, message, inside = LAYOUTS[layout]
    hub.add("a/here", files)
    with pytest.raises(SourceError, match=message) as caught:
        hpe.extract("a/here@main")
    if inside:
        assert str(caught.value).endswith(f"open a/here/{inside}@main")
        found = hpe.extract(f"a/here/{inside}@main", allow_full_download=True)
        assert np.array_equal(found.token.vectors, ROWS)
    assert len(str(caught.value)) < 320


def test_a_part_of_a_megatron_checkpoint_is_no_table(tmp_path: Path) -> None:
    folder = write(tmp_path, LAYOUTS["megatron-parts"][0])
    with pytest.raises(
        SourceError, match=r"one of 4 parts of a Megatron-LM checkpoint, each with a slice of all tables"
    ):
        hpe.extract(folder / "release" / "mp_rank_01" / "model_optim_rng.pt")


SEVERAL = {
    "safetensors": {
        "config.json": CONFIG,
        "one.safetensors": MODEL["model.safetensors"],
        "two.safetensors": MODEL["model.safetensors"],
    },
    "pickles": {"config.json": CONFIG, "one.bin": pickled(STATE), "two.bin": pickled(STATE)},
}


@pytest.mark.parametrize("kind", [*SEVERAL, "gguf"])
@pytest.mark.parametrize("where", ["here", "on the Hub", "in a folder of a revision"])
def test_the_advice_to_name_one_of_several_names_a_source_that_opens(
    kind: str, where: str, hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Model("llama", tensors={"token_embd.weight": ROWS}).write(tmp_path / "made.gguf").read_bytes()
    files = SEVERAL.get(kind, {"one.gguf": made, "two.gguf": made})
    monkeypatch.chdir(tmp_path)
    if where == "here":
        write(tmp_path / "mine", files)
        source = "./mine"
    elif where == "on the Hub":
        hub.add("a/mine", files)
        source = "a/mine"
    else:
        hub.add("a/mine", placed("runs", files))
        source = "a/mine/runs@main"
    options = {"allow_full_download": True}
    with pytest.raises(CheckpointError, match=r", such as \S+$") as told:
        hpe.extract(source, **options)
    advised = str(told.value).rpartition(" ")[2]
    assert np.array_equal(hpe.extract(advised, **options).token.vectors, ROWS)
