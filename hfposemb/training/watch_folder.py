"""The folder of a training that is watched: what the tables were at its start, and rows of each measurement."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import HfposembError, InputError, SourceError
from ..files import complete_file
from ..logs import LOG

if TYPE_CHECKING:
    import torch

START = "start.state"
"""The file that keeps the start, for a training that is resumed; a checkpoint's ending would make it the model."""


class WatchFolder:
    """A folder that one training writes, and continues if it is resumed.

    Args:
        path: The folder, which need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._run, self._left = path, secrets.token_hex(8), False

    def started(self, step: int) -> dict[str, torch.Tensor]:
        """Return what an earlier part of the training kept of its start; {} for one that begins.

        Args:
            step: The step at which the training begins or goes on.

        Raises:
            InputError: If a training that begins would write among the steps of another.
            SourceError: If what was kept cannot be read.
        """
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        there = (self.path / START).is_file()
        if step == 0 and (there or any(self.path.glob("step-*"))):
            raise InputError(f"{self.path} has the steps of another training; choose another folder, or remove it")
        if not there:
            if step:
                LOG.warning("EmbeddingWatch compares with step %d: %s has no start of this training", step, self.path)
            return {}
        try:
            found: dict[str, torch.Tensor] = load_file(self.path / START)
        except (SafetensorError, OSError) as error:
            raise SourceError(f"{self.path / START} cannot be read: {error}; remove it to begin anew") from error
        return found

    def begin(self, start: Mapping[str, torch.Tensor]) -> None:
        """Keep the start, and become the only training that writes here.

        Raises:
            HfposembError: If the folder cannot be written.
        """
        from safetensors.torch import save

        _make(self.path)
        with complete_file(self.path / START) as file:
            file.write(save(dict(start), metadata={"run": self._run}))

    def write(self, step: int, content: bytes) -> None:
        """Write the rows of a step; if that fails, training goes on without, with a warning."""
        if self._left:
            return
        try:
            if not self._own():
                raise HfposembError(f"another training writes into {self.path}; give each a folder of its own")
            _make(self.path / f"step-{step}")
            with complete_file(self.path / f"step-{step}" / "model.safetensors") as file:
                file.write(content)
        except HfposembError as error:
            LOG.warning("EmbeddingWatch writes no further steps: %s", error)
            self._left = True

    def _own(self) -> bool:
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(self.path / START, "pt") as opened:
                return bool((opened.metadata() or {}).get("run") == self._run)
        except (SafetensorError, OSError):
            return False


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HfposembError(f"cannot write into {folder}: {error.strerror}; choose another folder") from error
