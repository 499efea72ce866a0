"""Links in a local folder are followed, as Hugging Face's own cache has them; what never ends is not waited for."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.checkpoints.safetensors.checkpoint import Checkpoint
from hfposemb.checkpoints.strict_json import SHOWN, shortened
from hfposemb.errors import CheckpointError, HfposembError
from tests.support.checkpoints.layouts import CONFIG, MODEL, ROWS
from tests.support.checkpoints.refusals import LINUX

SECONDS = 60
"""After this a read counts as one that hangs."""

FILES = (
    *("tokenizer.json", "vocab.txt", "merges.txt", "added_tokens.json", "chat_template.jinja", "modules.json"),
    *("config.json", "adapter_config.json", "model.safetensors.index.json"),
    *("model.safetensors", "pytorch_model.bin", "model.gguf"),
)

_opened: list[str] | None = None


def _listen(event: str, given: tuple[Any, ...]) -> None:
    if (
        _opened is not None
        and event in ("open", "os.listdir", "os.scandir")
        and isinstance(given[0], str | os.PathLike)
    ):
        _opened.append(os.fspath(given[0]))


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


def saved(folder: Path) -> Path:
    """Write a sound checkpoint into a folder of its own."""
    folder.mkdir()
    (folder / "config.json").write_bytes(CONFIG)
    (folder / "model.safetensors").write_bytes(MODEL["model.safetensors"])
    return folder


def read(folder: Path) -> None:
    with watched(folder), suppress(HfposembError):
        _ = (found := hpe.extract(folder)).token.vectors, found.token.labels[0], found.token_marks


@pytest.mark.skipif(not LINUX, reason="the devices are those of Linux")
@pytest.mark.parametrize("target", ["/proc/kmsg", "/dev/zero", "/dev/tty", "/proc/self/mem", "/", "pipe", "self"])
def test_links_to_what_never_ends_are_not_waited_for(target: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in FILES:
        folder = saved(tmp_path / f"of-{name}")
        if name in ("pytorch_model.bin", "model.gguf"):
            (folder / "model.safetensors").unlink()
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to({"pipe": tmp_path / "pipe", "self": folder / name}.get(target, target))
        read(folder)


def test_links_to_files_are_followed(tmp_path: Path) -> None:
    sound, linked = saved(tmp_path / "sound"), tmp_path / "linked"
    linked.mkdir()
    for path in sound.iterdir():
        (linked / path.name).symlink_to(path)
    assert np.array_equal(hpe.extract(linked).token.vectors, ROWS)


def test_the_checkpoint_of_a_folder_is_its_one_file_or_that_of_its_first_module(tmp_path: Path) -> None:
    (tmp_path / "modules.json").write_text('[{"idx": 0, "name": "0", "path": "0_Transformer", "type": "x"}]')
    module = saved(tmp_path / "0_Transformer")
    (module / "model.safetensors").rename(module / "weights.safetensors")
    names = Checkpoint.open(module).names()
    assert Checkpoint.open(tmp_path).names() == names
    (module / "weights.safetensors").unlink()
    with pytest.raises(CheckpointError, match="no "):
        Checkpoint.open(tmp_path)


def test_untrusted_text_is_cut_to_what_fits_a_line() -> None:
    assert len(shortened("x" * 10 * SHOWN)) == SHOWN
    assert shortened("plain") == "'plain'"
