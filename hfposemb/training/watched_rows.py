"""The rows of a table that is being trained: their norms, which of them do not move, and which explode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..numbers import percent

if TYPE_CHECKING:
    import torch

EXPLODED = 3.0
"""A row explodes if its norm is this many times its own at the start and the median norm of the table at the start."""

MOST_NAMED = 20
"""Maximum number of rows that are named of each kind."""

_BLOCK = 2**22
"""Number of values that are measured together."""


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
        >>> from hfposemb.training.watched_rows import RowWatch
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
            weight: The table [rows, width] as it is now, of the width that it had.
        """
        import torch

        norms, marks = self._sums(weight)
        old = min(len(norms), len(self._norms))
        before, now = self._norms[:old], norms[:old]
        still = (now == before) & (marks[:old] == self._marks[:old])
        limit = EXPLODED * torch.maximum(before, before.nanmedian())
        large = torch.where(torch.isfinite(now) & (now <= limit), -torch.inf, now.nan_to_num(torch.inf, torch.inf))
        exploding = torch.isfinite(large) | (large == torch.inf)
        count = int(exploding.sum())
        shown = large.topk(min(count, MOST_NAMED)).indices.tolist()
        drift = self._drift(weight)
        named = zip(self.followed, drift.tolist(), strict=False)
        finite = now[torch.isfinite(now)]
        return RowState(
            step=step,
            table=self.role,
            rows=len(norms),
            norm_mean=float(finite.mean()) if len(finite) else float("nan"),
            norm_max=float(now.max()),
            unchanged=int(still.sum()),
            unchanged_rows=self._named(still),
            exploding=count,
            exploding_rows=tuple(shown),
            drift=float(drift.mean()),
            followed=dict(named),
            new_norm=self._new_norm(now),
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
