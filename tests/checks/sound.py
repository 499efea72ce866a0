"""Every model type of transformers, built small, saved and checked: nothing may be wrong.

`python -m tests.checks.sound` goes through all types with and without an output head, about ten minutes.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

SECONDS = 120
"""Longest that building and checking one type may take."""

HEADED = (
    *("MODEL_FOR_CAUSAL_LM_MAPPING", "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING", "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING"),
    *("MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING", "MODEL_FOR_MULTIMODAL_LM_MAPPING", "MODEL_FOR_MASKED_LM_MAPPING"),
)
"""Mappings of transformers to classes with an output head, the first that fits is built."""


@dataclass(frozen=True)
class Row:
    """What the check of one checkpoint gave: findings by severity, or why the model was not built."""

    model_type: str
    built: str = ""
    reason: str = ""
    wrong: tuple[str, ...] = ()
    suspicious: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def headed(model_type: str, *, largest: int = 150_000_000) -> Any:
    """Return a tiny model of a type with an output head, with random weights; ``None`` if there is no such class."""
    import torch
    from transformers.models.auto import modeling_auto

    from tests.architectures.tiny import configurations, randomise

    for config in configurations(model_type):
        for name in HEADED:
            try:
                found = getattr(modeling_auto, name)[type(config)]
            except (KeyError, AttributeError, ValueError, ImportError):
                continue
            for kind in found if isinstance(found, tuple) else (found,):
                try:
                    with torch.device("meta"):
                        size = sum(math.prod(one.shape) for one in kind(config).parameters())
                    if size > largest:
                        continue
                    torch.manual_seed(0)
                    model = kind(config).eval()
                except Exception:  # noqa: BLE001 - a larger configuration follows
                    continue
                randomise(model)
                return model
    return None


def one(job: tuple[str, bool]) -> Row:
    """Build, save and check one type, with or without its head."""
    import torch
    import transformers

    import hfposemb as hpe
    from tests.architectures.tiny import build

    model_type, with_head = job
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    folder = Path(tempfile.mkdtemp(prefix="sound-"))
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(SECONDS)
    try:
        try:
            model = headed(model_type) if with_head else build(model_type)
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
            severity: tuple(f"{one.name}: {one.message.replace(str(folder), model_type)}" for one in found.of(severity))
            for severity in ("wrong", "suspicious", "note")
        }
        return Row(model_type, type(model).__name__, "", said["wrong"], said["suspicious"], said["note"])
    except hpe.HfposembError as error:
        return Row(model_type, reason=f"not checked: {str(error).replace(str(folder), model_type)[:160]}")
    except Exception as error:  # noqa: BLE001 - a type that fails is a row, never the end
        return Row(model_type, reason=f"failed: {type(error).__name__}: {' '.join(str(error).split())[:160]}")
    finally:
        signal.alarm(0)
        shutil.rmtree(folder, ignore_errors=True)


def _too_long(*_: object) -> None:
    raise TimeoutError(f"took more than {SECONDS} seconds")


def survey(jobs: Sequence[tuple[str, bool]], *, workers: int = 2) -> Iterator[Row]:
    """Yield a row for each job, in order, from child processes."""
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(one, jobs)


def jobs() -> list[tuple[str, bool]]:
    """Return all types, without and with their heads."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    return [(model_type, head) for model_type in CONFIG_MAPPING for head in (False, True)]


def main(arguments: Iterable[str]) -> int:
    """Check the given types, or all, and print what is wrong."""
    chosen = [(name, head) for name in arguments for head in (False, True)] or jobs()
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
