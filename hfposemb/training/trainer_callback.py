"""A callback of transformers' ``Trainer`` that watches the embedding tables of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from ..errors import InputError
from ..guesses import several
from ..logs import LOG
from ..models.extraction import extract
from ..tables.saved.writing import stated_facts
from ..text import percent
from .watch_folder import WatchFolder

if TYPE_CHECKING:
    import torch
    import transformers

    from ..tables.table import EmbeddingTable


EXPLODED = 3.0
"""A row explodes if its norm is this many times its own at the start and the median norm of the table at the start."""

MOST_NAMED = 20
"""Maximum number of rows that are named of each kind."""

_BLOCK = 2**25
"""Number of values that are measured together; with two threads, blocks of 2²² take three times as long."""


@dataclass(frozen=True)
class RowState:
    """What was measured of a table at one step.

    Attributes:
        step: Training step.
        table: Role of the table: ``"token"`` or ``"position"``.
        rows: Number of rows.
        norm_mean: Mean norm.
        norm_max: Largest norm.
        unchanged: Number of rows that are what they were when training began, to the last bit that two sums over each
            row can show: those that no batch had, and those that are frozen.
        unchanged_rows: The first of them, of the followed and new rows first.
        exploding_rows: Rows whose norm is ``EXPLODED`` times their own and the table's median when training began, the
            largest first, and rows with NaN or Inf; at most ``MOST_NAMED``.
        exploding: Number of such rows.
        drift: Mean of ‖row − row at the start‖ / ‖row at the start‖ over the sampled rows.
        followed: The same for each followed row, by label.
        new_norm: Mean norm of the new rows relative to that of the others; ``None`` without new rows.
    """

    step: int
    table: str
    rows: int
    norm_mean: float
    norm_max: float
    unchanged: int
    unchanged_rows: tuple[int, ...]
    exploding: int
    exploding_rows: tuple[int, ...]
    drift: float
    followed: Mapping[str, float]
    new_norm: float | None = None

    def logged(self) -> dict[str, float]:
        """Return the figures by the names under which a trainer logs them."""
        figures: dict[str, float] = {
            "norm_mean": self.norm_mean,
            "norm_max": self.norm_max,
            "unchanged": self.unchanged / self.rows,
            "exploding": self.exploding,
            "drift": self.drift,
            **{f"drift/{label}": value for label, value in self.followed.items()},
        }
        if self.new_norm is not None:
            figures["new_norm"] = self.new_norm
        return {f"embeddings/{self.table}/{name}": value for name, value in figures.items()}

    def __str__(self) -> str:
        """Say what was found in one line."""
        still = f"{percent(self.unchanged / self.rows)} of {self.rows:,} rows as they were"
        large = f", {self.exploding:,} exploding (rows {_rows(self.exploding_rows)})" if self.exploding else ""
        return f"step {self.step:,}, {self.table}s: mean norm {self.norm_mean:.4g}, {still}{large}"


def _rows(rows: Sequence[int]) -> str:
    return ", ".join(map(str, rows[:5])) + (", …" if len(rows) > 5 else "")


class RowWatch:
    """Compares a table that is being trained with what it was.

    Two sums over each row are kept of the start, and the rows themselves of a sample.

    Args:
        weight: The table [rows, width], where it is trained.
        role: ``"token"`` or ``"position"``.
        followed: Rows by label that are followed.
        new: Rows that were added before training.
        sample: Number of other rows of which the drift is measured.
        seed: Seed of the sample.

    Examples:
        >>> import torch
        >>> from hfposemb.training.trainer_callback import RowWatch
        >>> weight = torch.eye(4)
        >>> watch = RowWatch(weight, "token", {"king": 2})
        >>> weight[2] *= 10
        >>> found = watch.measure(1, weight)
        >>> found.exploding_rows, found.unchanged_rows, found.followed["king"]
        ((2,), (0, 1, 3), 9.0)
    """

    def __init__(
        self,
        weight: torch.Tensor,
        role: str,
        followed: Mapping[str, int] | None = None,
        new: Sequence[int] = (),
        *,
        sample: int = 256,
        seed: int = 0,
    ) -> None:
        import torch

        self.role, self.followed, self.new = role, dict(followed or {}), tuple(new)
        generator = torch.Generator().manual_seed(seed)
        self._direction = torch.randn(weight.shape[1], generator=generator)
        drawn = torch.randperm(len(weight), generator=generator)[:sample].tolist()
        self.kept = tuple(dict.fromkeys([*self.followed.values(), *self.new[:sample], *sorted(drawn)]))
        self._at = torch.tensor(self.kept, device=weight.device)
        self._rows = self._picked(weight)
        self._norms, self._marks = self._sums(weight)

    def measure(self, step: int, weight: torch.Tensor) -> RowState:
        """Measure the table at a step of its training.

        Args:
            step: The step.
            weight: The table [rows, width] as it is now, of the width that it had. Rows that were added meanwhile are
                new, and compared with what they are now.
        """
        import torch

        now, marks = self._sums(weight)
        if len(now) != len(self._norms):
            self._resized(step, now, marks)
        before = self._norms
        still = (now == before) & (marks == self._marks)
        limit = EXPLODED * torch.maximum(before, before.nanmedian())
        large = torch.where(torch.isfinite(now) & (now <= limit), -torch.inf, now.nan_to_num(torch.inf, torch.inf))
        exploding = torch.isfinite(large) | (large == torch.inf)
        count = int(exploding.sum())
        shown = large.topk(min(count, MOST_NAMED)).indices.tolist()
        drift = self._drift(weight)
        moved = dict(zip(self.kept, drift.tolist(), strict=True))
        finite = now[torch.isfinite(now)]
        return RowState(
            step=step,
            table=self.role,
            rows=len(now),
            norm_mean=float(finite.mean()) if len(finite) else float("nan"),
            norm_max=float(now.max()),
            unchanged=int(still.sum()),
            unchanged_rows=self._named(still),
            exploding=count,
            exploding_rows=tuple(shown),
            drift=float(drift.mean()),
            followed={label: moved[row] for label, row in self.followed.items()},
            new_norm=self._new_norm(now),
        )

    def start(self) -> dict[str, torch.Tensor]:
        """Return what is kept of the start, for ``resume``."""
        at = self._at.cpu()
        return {"norms": self._norms, "marks": self._marks, "at": at, "rows": self._rows.cpu(), "axis": self._direction}

    def resume(self, start: Mapping[str, torch.Tensor]) -> None:
        """Compare with the start of an earlier part of the training.

        Args:
            start: What ``start`` returned then.

        Raises:
            InputError: If that was of other rows or another table.
        """
        try:
            norms, marks, at, rows, axis = (start[name] for name in ("norms", "marks", "at", "rows", "axis"))
        except KeyError as error:
            raise InputError(f"the start of the {self.role} table lacks {error}; choose another folder") from error
        followed = tuple(dict.fromkeys(self.followed.values()))
        kept = tuple(at.tolist())
        whole = norms.shape == marks.shape and rows.shape == (len(kept), len(axis)) and norms.ndim == 1
        if kept[: len(followed)] != followed or axis.shape != self._direction.shape or not whole:
            said = f"the {self.role} table was begun with other rows or another width"
            raise InputError(f"{said}; follow the same ones, or choose another folder")
        device = self._at.device
        self.kept, self._at, self._rows = kept, at.to(device), rows.to(device)
        self._norms, self._marks, self._direction = norms, marks, axis

    def _resized(self, step: int, norms: torch.Tensor, marks: torch.Tensor) -> None:
        """Let rows that were added begin as they are now, and forget rows that were removed."""
        import torch

        old, count = len(self._norms), len(norms)
        said = "they are new, and compared with what they are now" if count > old else "they are no longer watched"
        LOG.warning("the %s table went from %d to %d rows by step %d: %s", self.role, old, count, step, said)
        self._norms, self._marks = (
            torch.cat([was[:count], now[old:]]) for was, now in ((self._norms, norms), (self._marks, marks))
        )
        self.new = (*(row for row in self.new if row < count), *range(old, count))
        self.followed = {label: row for label, row in self.followed.items() if row < count}
        there = self._at < count
        self.kept, self._at, self._rows = (
            tuple(row for row in self.kept if row < count),
            self._at[there],
            self._rows[there],
        )

    def _picked(self, weight: torch.Tensor) -> torch.Tensor:
        picked: torch.Tensor = weight.detach()[self._at].float()
        return picked

    def _drift(self, weight: torch.Tensor) -> torch.Tensor:
        import torch

        moved = torch.linalg.vector_norm(self._picked(weight) - self._rows, dim=1)
        relative: torch.Tensor = moved / torch.linalg.vector_norm(self._rows, dim=1).clamp_min(1e-12)
        return relative.cpu()

    def _sums(self, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the norm of each row, and its product with one random direction [rows]."""
        import torch

        weight, direction = weight.detach(), self._direction.to(weight.device)
        norms, marks = (torch.empty(len(weight), device=weight.device) for _ in range(2))
        block = max(_BLOCK // weight.shape[1], 1)
        for start in range(0, len(weight), block):
            values = weight[start : start + block].float()
            norms[start : start + block] = torch.linalg.vector_norm(values, dim=1)
            marks[start : start + block] = values @ direction
        return norms.cpu(), marks.cpu()

    def _named(self, still: torch.Tensor) -> tuple[int, ...]:
        first = [row for row in (*self.followed.values(), *self.new) if row < len(still) and bool(still[row])]
        others: list[Any] = still.nonzero()[: MOST_NAMED + len(first), 0].tolist()
        return tuple(dict.fromkeys([*first, *others]))[:MOST_NAMED]

    def _new_norm(self, norms: torch.Tensor) -> float | None:
        import torch

        new = torch.zeros(len(norms), dtype=torch.bool)
        new[[row for row in self.new if row < len(norms)]] = True
        if not new.any() or new.all():
            return None
        return float(norms[new].mean() / norms[~new].mean())


TABLES = ("token", "position")


class EmbeddingWatch(TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Log what happens to the rows of a model's tables while it is trained.

    Norms, rows that do not move, rows that explode, the drift of a sample and of chosen rows: see
    ``RowState``. The figures become part of the trainer's own log, so that TensorBoard, trackio
    or wandb draw them beside the loss, if the callback is attached: ``EmbeddingWatch(…).attach(trainer)``. In
    ``Trainer(callbacks=[…])`` it comes after these loggers; then the figures are in ``trainer.state.log_history``.

    Args:
        every: Training steps between two measurements; by default those at which the trainer logs.
        rows: Labels or row numbers of tokens to follow.
        new: Labels or row numbers of tokens that were added before training.
        sample: Number of other rows of which the drift is measured, and which are written to ``folder``.
        folder: Folder to which the sampled, new and followed rows and all positions are written, ``step-N`` for each
            measurement. ``hpe.trajectory(hpe.revisions(folder, "step-*"))`` and the app's tab Training read it, while
            training goes on, too. It also keeps the start, from which a training that is resumed goes on.
        seed: Seed of the sample.

    Attributes:
        history: What was measured, in order.

    Raises:
        InputError: If ``every`` or ``sample`` is not positive, or, once training begins, the model has no such row or
            the folder has the steps of another training.
        HfposembError: If the folder cannot be written when training begins; later that is a warning.

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
        self._folder = None if folder is None else WatchFolder(Path(folder))
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
        self._begin(state.global_step)
        self._write(state.global_step, model)

    def _begin(self, step: int) -> None:
        """Compare with the start of a training that is resumed, and keep it in the folder."""
        if self._folder is None:
            if step:
                LOG.warning(
                    "EmbeddingWatch compares with step %d, where training goes on; a folder keeps its start", step
                )
            return
        kept = self._folder.started(step)
        for role, (watch, _, _) in self._watches.items():
            if own := {name.partition(".")[2]: one for name, one in kept.items() if name.startswith(f"{role}.")}:
                watch.resume(own)
        self._folder.begin(
            {
                f"{role}.{name}": one
                for role, (watch, _, _) in self._watches.items()
                for name, one in watch.start().items()
            }
        )

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Have the trainer log at the steps that were asked for."""
        if self.every is not None and state.global_step % self.every == 0:
            self._due = control.should_log = True

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **given: Any) -> None:
        """Add the figures to what the trainer logs."""
        if logs is None or not self._watches or not (self._due if self.every is not None else "loss" in logs):
            return
        self._due, model = False, given["model"]
        for role, (watch, tensor, table) in list(self._watches.items()):
            weight = _parameter(model, tensor)
            if weight is None or weight.ndim != 2 or weight.shape[1] != table.shape[1]:
                LOG.warning(
                    "EmbeddingWatch leaves the %s table out: it is no longer the one that training began with", role
                )
                del self._watches[role]
                continue
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

        if self._folder is None or not self._watches:
            return
        tensors: dict[str, torch.Tensor] = {}
        facts: Mapping[str, str] = {}
        for role, (watch, tensor, table) in self._watches.items():
            weight = _parameter(model, tensor)
            assert weight is not None
            if role == "token":
                weight, kept = weight[list(watch.kept)], table.pick(watch.kept)
                facts = {name: text for name, text in stated_facts(kept).items() if name != "provenance"}
            tensors[role] = weight.detach().float().cpu().contiguous()
        self._folder.write(step, save(tensors, metadata=dict(facts)))


def _parameter(model: Any, name: str) -> torch.Tensor | None:
    """Return a parameter of a model by its name, which has none of the prefixes that wrappers add."""
    found = dict(model.named_parameters(remove_duplicate=False))
    ends = [one for one in found if one == name or one.endswith(f".{name}")]
    weight: torch.Tensor | None = found[min(ends, key=len)] if ends else None
    return weight
