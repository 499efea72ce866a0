"""Folders that hold a model somewhere inside: read where that can be, with the true advice where not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.errors import SourceError
from tests.hub import FakeHub
from tests.support.checkpoints.layouts import (
    LAYOUTS,
    MEGATRON,
    ROWS,
    STATE,
    pickled,
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


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("content", [{"state_dict": STATE, "epoch": 1, "hyper_parameters": {"lr": 0.1}}, MEGATRON])
def test_nested_state_dicts_are_read(content: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "epoch=1.ckpt").write_bytes(pickled(content))
    for source in (tmp_path, tmp_path / "epoch=1.ckpt"):
        assert np.array_equal(hpe.extract(source).token.vectors, ROWS)


def test_a_part_of_a_megatron_checkpoint_is_no_table(tmp_path: Path) -> None:
    folder = write(tmp_path, LAYOUTS["megatron-parts"][0])
    with pytest.raises(
        SourceError, match=r"one of 4 parts of a Megatron-LM checkpoint, each with a slice of all tables"
    ):
        hpe.extract(folder / "release" / "mp_rank_01" / "model_optim_rng.pt")
