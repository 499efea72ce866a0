"""Every model type of transformers, built small, saved and checked: nothing may be wrong.

`python -m tests.checks.sound` goes through all types with and without an output head, about ten minutes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import hfposemb as hpe
from tests.architectures.survey import model_types, with_heads
from tests.architectures.tiny import build, workplace

SECONDS = 120
"""Longest that building and checking one type may take."""


@dataclass(frozen=True)
class Row:
    """What the check of one checkpoint gave: findings by severity, or why the model was not built."""

    model_type: str
    built: str = ""
    reason: str = ""
    wrong: tuple[str, ...] = ()
    suspicious: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def one(job: tuple[str, bool]) -> Row:
    """Build, save and check one type, with or without its head."""
    model_type, with_head = job
    try:
        with workplace(SECONDS) as folder:
            try:
                model = next(with_heads(model_type), None) if with_head else build(model_type)
            except Exception as error:  # noqa: BLE001 - what transformers cannot build is not ours to judge
                return Row(model_type, reason=f"not built: {type(error).__name__}")
            if model is None:
                return Row(model_type, reason="no class with an output head")
            try:
                model.save_pretrained(folder)
            except Exception as error:  # noqa: BLE001 - nor what it cannot save
                return Row(model_type, reason=f"not saved: {type(error).__name__}")
            found = hpe.check(folder, full=True)
            said = {
                kind: tuple(f"{one.name}: {one.message.replace(str(folder), model_type)}" for one in found.of(kind))
                for kind in ("wrong", "suspicious", "note")
            }
            return Row(model_type, type(model).__name__, "", said["wrong"], said["suspicious"], said["note"])
    except hpe.HfposembError as error:
        return Row(model_type, reason=f"not checked: {str(error)[:160]}")
    except Exception as error:  # noqa: BLE001 - a type that fails is a row, never the end
        return Row(model_type, reason=f"failed: {type(error).__name__}: {' '.join(str(error).split())[:160]}")


def survey(jobs: Sequence[tuple[str, bool]], *, workers: int = 2) -> Iterator[Row]:
    """Yield a row for each job, in order, from child processes."""
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(one, jobs)


def main(arguments: Iterable[str]) -> int:
    """Check the given types, or all, and print what is wrong."""
    chosen = [(name, head) for name in [*arguments] or model_types() for head in (False, True)]
    rows = []
    for row in survey(chosen, workers=int(os.environ.get("WORKERS", "2"))):
        rows.append(row)
        for severity, found in (("wrong", row.wrong), ("suspicious", row.suspicious), ("note", row.notes)):
            for said in found:
                print(f"{severity}: {row.model_type} ({row.built}): {said}", flush=True)
        if row.reason.startswith(("failed", "not checked")):
            print(f"{row.model_type}: {row.reason}", flush=True)
        if len(rows) % 100 == 0:
            print(f"{len(rows)} of {len(chosen)}", flush=True)
    built = [row for row in rows if row.built]
    wrong = [row for row in built if row.wrong]
    failed = [row for row in rows if row.reason.startswith("failed")]
    print(f"{len(built)} checkpoints checked, {len(wrong)} with something wrong, {len(failed)} failed")
    return bool(wrong or failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
