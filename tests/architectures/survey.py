"""Every model type of transformers, built small, saved, extracted and compared with the model itself."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

from hfposemb.models.verification.heads import Check

SECONDS = 240
"""Longest that building and comparing one type may take."""


@dataclass(frozen=True)
class Row:
    """What one model type gave: mechanisms by part, tensors with offsets, checks; or why it was not built."""

    model_type: str
    built: str = ""
    reason: str = ""
    mechanisms: tuple[str, ...] = ()
    token: str = ""
    positions: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    heads: tuple[str, ...] = ()
    info_ms: float = 0.0

    def verdicts(self, what: str) -> list[str]:
        """Return the verdicts of one kind of check."""
        return [check.verdict for check in self.checks if check.what.startswith(what)]


def one(model_type: str, *, classes: int | None = None) -> Row:
    """Build, save, extract and compare one type.

    Args:
        model_type: The type.
        classes: Number of classes with an output head that are compared; ``None`` for all.
    """
    import torch
    import transformers

    from hfposemb.checkpoints.access import Access
    from hfposemb.models.extraction import from_disk
    from hfposemb.models.verification.verifying import compare
    from hfposemb.tables.rotary import Rotary
    from hfposemb.tables.sources import LocalSource
    from tests.architectures.heads import checks_of, heads_of
    from tests.architectures.tiny import CannotBuildError, build

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    folder = Path(tempfile.mkdtemp(prefix="architecture-"))
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(SECONDS)
    try:
        model = build(model_type)
        model.save_pretrained(folder)
        found = from_disk(LocalSource(folder), Access())
        took = min(_milliseconds(folder) for _ in range(3))
        # The folder's name is another one each time.
        checks = tuple(
            replace(check, ours=check.ours.replace(str(folder), model_type)) for check in compare(found, model).checks
        )
        heads = heads_of(model_type, classes=classes)
        checks += checks_of(heads, model, found)
        stored = (table.provenance for key, table in found.tables.items() if "token" not in key)
        rotary = [encoding for encoding in found.positions.values() if isinstance(encoding, Rotary)]
        return Row(
            model_type,
            built=type(model).__name__,
            mechanisms=tuple(f"{key}: {encoding.kind}" for key, encoding in found.positions.items()),
            token=str(found.token.provenance.tensor) if "token" in found.tables else "",
            positions=tuple(f"{one.tensor} from row {one.row_offset}" for one in stored),
            layouts=tuple(dict.fromkeys(encoding.layout for encoding in rotary)),
            checks=checks,
            heads=tuple(dict.fromkeys(str(head) for head in heads)),
            info_ms=took,
        )
    except CannotBuildError as error:
        return Row(model_type, reason=" ".join(str(error).split())[:160])
    except Exception as error:  # noqa: BLE001 - a type that fails is a row of the survey, never its end
        return Row(model_type, reason=f"{type(error).__name__}: {' '.join(str(error).split())[:160]}")
    finally:
        signal.alarm(0)
        shutil.rmtree(folder, ignore_errors=True)


def _milliseconds(folder: Path) -> float:
    """Return what it takes to say which tables and positions a checkpoint has, its header in memory or at hand."""
    from hfposemb.checkpoints.access import Access
    from hfposemb.models.extraction import from_disk
    from hfposemb.models.summary import describe
    from hfposemb.tables.sources import LocalSource

    started = time.perf_counter()
    describe(from_disk(LocalSource(folder), Access()))
    return 1000 * (time.perf_counter() - started)


def _too_long(*_: object) -> None:
    raise TimeoutError(f"not done within {SECONDS} s")


def model_types() -> list[str]:
    """Return every model type that transformers has a configuration for."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    return sorted(CONFIG_MAPPING)


def survey(types: Sequence[str], *, workers: int | None = None) -> Iterator[Row]:
    """Yield the row of each type, in order, from child processes."""
    count = workers or os.cpu_count() or 1
    with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
        yield from pool.map(one, types)


def share(rows: Iterable[Row], what: str) -> tuple[int, int]:
    """Return how many types have all checks of a kind equal, and how many have any that was compared."""
    judged = [
        [verdict for verdict in row.verdicts(what) if verdict != "not compared"] for row in rows if row.verdicts(what)
    ]
    judged = [verdicts for verdicts in judged if verdicts]
    return sum(set(verdicts) == {"equal"} for verdicts in judged), len(judged)
