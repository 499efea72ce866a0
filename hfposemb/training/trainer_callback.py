"""A callback of transformers' ``Trainer`` that watches the embedding tables of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from ..errors import HfposembError, InputError
from ..files import complete_file
from ..logs import LOG
from ..models.extraction import extract
from ..several import several
from ..tables.saved.facts import stated_facts
from .watched_rows import RowState, RowWatch

if TYPE_CHECKING:
    import torch
    import transformers

    from ..tables.table import EmbeddingTable

TABLES = ("token", "position")


class EmbeddingWatch(TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Log what happens to the rows of a model's tables while it is trained.

    Norms, rows that do not move, rows that explode, the drift of a sample and of chosen rows: see
    ``training.watched_rows.RowState``. The figures become part of the trainer's own log, so that TensorBoard, trackio
    or wandb draw them beside the loss, if the callback is attached: ``EmbeddingWatch(…).attach(trainer)``. In
    ``Trainer(callbacks=[…])`` it comes after these loggers; then the figures are in ``trainer.state.log_history``.

    Args:
        every: Training steps between two measurements; by default those at which the trainer logs.
        rows: Labels or row numbers of tokens to follow.
        new: Labels or row numbers of tokens that were added before training.
        sample: Number of other rows of which the drift is measured, and which are written to ``folder``.
        folder: Folder to which the sampled, new and followed rows and all positions are written, ``step-N`` for each
            measurement. ``hpe.trajectory(hpe.revisions(folder, "step-*"))`` and the app's tab Training read it, while
            training goes on, too.
        seed: Seed of the sample.

    Attributes:
        history: What was measured, in order.

    Raises:
        InputError: If ``every`` or ``sample`` is not positive, or the model has no such row, once training begins.

    Examples:
        >>> import hfposemb as hpe
        >>> hpe.EmbeddingWatch(every=100, rows=["king", "queen"])
        EmbeddingWatch(every=100, rows=('king', 'queen'), new=(), folder=None)
    """

    def __init__(
        self,
        every: int | None = None,
        *,
        rows: str | int | Sequence[str | int] = (),
        new: str | int | Sequence[str | int] = (),
        sample: int = 256,
        folder: str | Path | None = None,
        seed: int = 0,
    ) -> None:
        for name, value in (("every", 1 if every is None else every), ("sample", sample)):
            if value < 1:
                raise InputError(f"{name} must be at least 1; got {value}")
        self.every, self.sample, self.seed = every, sample, seed
        self.rows, self.new = tuple(several(rows)), tuple(several(new))
        self.folder = None if folder is None else Path(folder)
        self.history: list[RowState] = []
        self._watches: dict[str, tuple[RowWatch, str, EmbeddingTable]] = {}
        self._due = False

    def __repr__(self) -> str:
        """Show what is watched."""
        folder = None if self.folder is None else str(self.folder)
        return f"EmbeddingWatch(every={self.every}, rows={self.rows}, new={self.new}, folder={folder!r})"

    def attach(self, trainer: transformers.Trainer) -> EmbeddingWatch:
        """Become the first callback of a trainer, so that its loggers get the figures, and return this callback.

        Args:
            trainer: The trainer, before ``train()``.
        """
        callbacks = trainer.callback_handler.callbacks
        callbacks[:] = [self, *(one for one in callbacks if one is not self)]
        return self

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Keep what the tables are before the first step."""
        model, tokenizer = given["model"], given.get("processing_class")
        labels = tokenizer if hasattr(tokenizer, "convert_ids_to_tokens") else None
        self._watches = {}
        if not state.is_world_process_zero:
            return
        found = extract(model, tokenizer=labels, name=type(model).__name__)
        for role in TABLES:
            table = found.tables.get(role)
            if table is None or not table.provenance.tensor:
                continue
            weight = _parameter(model, table.provenance.tensor)
            if weight is None or tuple(weight.shape) != table.shape:
                LOG.warning("EmbeddingWatch leaves the %s table out: its rows are not whole in this process", role)
                continue
            followed = {str(row): table.row(row) for row in self.rows} if role == "token" else {}
            new = [table.row(row) for row in self.new] if role == "token" else []
            watch = RowWatch(weight, role, followed, new, sample=self.sample, seed=self.seed)
            self._watches[role] = (watch, table.provenance.tensor, table)
        if not self._watches:
            raise InputError(f"{type(model).__name__} has no table of tokens or positions to watch in this process")
        self._write(state.global_step, model)

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Have the trainer log at the steps that were asked for."""
        if self.every is not None and state.global_step % self.every == 0:
            self._due = control.should_log = True

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **given: Any) -> None:
        """Add the figures to what the trainer logs."""
        if logs is None or not self._watches or not (self._due if self.every is not None else "loss" in logs):
            return
        self._due, model = False, given["model"]
        for role, (watch, tensor, _) in self._watches.items():
            weight = _parameter(model, tensor)
            assert weight is not None
            found = watch.measure(state.global_step, weight)
            before = next((one for one in reversed(self.history) if one.table == role), None)
            if found.exploding and (before is None or not before.exploding):
                LOG.warning("EmbeddingWatch: %s", found)
            self.history.append(found)
            logs.update(found.logged())
            if state.log_history:
                state.log_history[-1].update(found.logged())
        self._write(state.global_step, model)

    def _write(self, step: int, model: Any) -> None:
        """Write the rows that are followed and all positions, as a checkpoint of its own, if a folder is given."""
        from safetensors.torch import save

        if self.folder is None:
            return
        folder = self.folder / f"step-{step}"

        tensors: dict[str, torch.Tensor] = {}
        facts: Mapping[str, str] = {}
        for role, (watch, tensor, table) in self._watches.items():
            weight = _parameter(model, tensor)
            assert weight is not None
            if role == "token":
                weight, kept = weight[list(watch.kept)], table.pick(watch.kept)
                facts = {name: text for name, text in stated_facts(kept).items() if name != "provenance"}
            tensors[role] = weight.detach().float().cpu().contiguous()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HfposembError(f"cannot write into {folder}: {error.strerror}; choose another folder") from error
        with complete_file(folder / "model.safetensors") as file:
            file.write(save(tensors, metadata=dict(facts)))


def _parameter(model: Any, name: str) -> torch.Tensor | None:
    """Return a parameter of a model by its name, which has none of the prefixes that wrappers add."""
    found = dict(model.named_parameters(remove_duplicate=False))
    ends = [one for one in found if one == name or one.endswith(f".{name}")]
    weight: torch.Tensor | None = found[min(ends, key=len)] if ends else None
    return weight
