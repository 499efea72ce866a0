"""A repository's own files, however hostile: right tables or one line, within 200 MB, and none of its code."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import hfposemb as hpe
from hfposemb.checkpoints.adapters.adapted import changes_of
from tests.conftest import FULL
from tests.hub import FakeHub
from tests.support.checkpoints.hostile import CONFIGS, MARKER, TEXT, TOKENIZERS, Case

MEMORY = 200_000_000
"""Bytes that one case may take."""
CUT = ("eps-", "padding", "maximum", "code", "model-type", "rope", "heads")
"""Names of configurations that say something about a model's inputs; the others leave the cutting of texts alone."""
ALIKE = ("64-megabytes-of-one-text", "39-megabytes-of-one-text", "three-million-objects", "json-merges-of-lines")
"""Large tokenizers beside which there is another one of the same size and kind."""

CHILD = """
import gc, json, os, sys, threading, time
import numpy as np
import hfposemb as hpe
import hfposemb.checkpoints.tokenizers.worker, hfposemb.checkpoints.hub.repository
import hfposemb.checkpoints.tokenizers.vocabulary_files
import huggingface_hub, tokenizers
from hfposemb.errors import HfposembError
from tests.support.checkpoints.hostile import POSITION, NORM, TOKEN, WORDS

CODE = []

def hook(event, args):
    name = str(args[0]) if args else ""
    if event == "import" and name.endswith("_x") or event == "open" and name.endswith("_x.py"):
        CODE.append(f"{event} {name}")

sys.addaudithook(hook)

def status(key, pid="self"):
    lines = read(f"/proc/{pid}/status").decode().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(key)), 0)

def children():
    found = []
    for task in os.listdir("/proc/self/task"):
        found += read(f"/proc/self/task/{task}/children").decode().split()
    return [pid for pid in found if b"import " + b"_serve" in read(f"/proc/{pid}/cmdline")]

def read(path):
    try:
        return open(path, "rb").read()
    except OSError:
        return b""

below, watching = 0, True

def watch():
    global below
    while watching:
        below = max([below, *(status("VmHWM", pid) for pid in children())])
        time.sleep(0.004)

def rows(table, wanted):
    assert table.shape == wanted.shape, f"shape {table.shape}"
    assert table.vectors.tobytes() == wanted.tobytes(), "other numbers"

def labels(found, case):
    texts = found.token.labels
    rows(found.token, TOKEN)
    assert len(texts) == len(TOKEN)
    assert all(text and text.isprintable() for text in texts)
    assert case["tokens"] or texts.texts == WORDS, texts.texts

def position(found, case):
    rows(found.position.table, POSITION[case["offset"]:])

def inputs(found, case):
    fed = found.inputs(case["text"])
    ids = fed.ids
    total = TOKEN[ids] + POSITION[case["offset"]:][: len(ids)]
    np.testing.assert_allclose(fed.sum, total, atol=1e-6)
    if case["name"].startswith("config-eps"):
        centred = total - total.mean(1, keepdims=True)
        total = centred / np.sqrt((centred**2).mean(1, keepdims=True)) * NORM + NORM
    np.testing.assert_allclose(fed.normed, total, atol=1e-5)
    assert case["tokens"] or fed.pieces == tuple(case["text"].split()), fed.pieces

for line in sys.stdin:
    case, steps = json.loads(line), {}
    gc.collect()
    open("/proc/self/clear_refs", "w").write("5")
    base, below, watching = status("VmRSS"), 0, True
    watcher = threading.Thread(target=watch)
    watcher.start()
    found = None
    for step, work in (("extract", None), ("position", position), ("labels", labels), ("inputs", inputs)):
        if step != "extract" and found is None or step == "inputs" and not case["cut"]:
            continue
        try:
            if step == "extract":
                found = hpe.extract(case["source"])
            else:
                work(found, case)
        except HfposembError as error:
            steps[step] = str(error)
        except BaseException as error:
            steps[step] = f"RAW {type(error).__name__}: {error}"
        else:
            steps[step] = ""
    peak, watching = status("VmHWM") - base, False
    watcher.join()
    found = None
    gc.collect()
    # A child begins as large as a fresh interpreter with numpy, as this process did.
    below = max(0, below - FRESH) if below else 0
    print(json.dumps({"steps": steps, "peak": peak, "below": below, "code": CODE}))
    sys.stdout.flush()
"""
FRESH = 40_000_000

pytestmark = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peak memory is read from /proc")


@dataclass(frozen=True)
class Outcome:
    """What came of one case: the message of each step ("" where it was read right), and what it took."""

    steps: dict[str, str]
    peak: int
    below: int
    code: list[str]

    def faults(self, case: Case) -> list[str]:
        """Say what is wrong with it."""
        found = [f"{step}: {message}" for step, message in self.steps.items() if message.startswith("RAW")]
        found += [
            f"{step}: not one short line: {message[:400]!r}"
            for step, message in self.steps.items()
            if not message.isprintable() or len(message) > 320
        ]
        if (refused := tuple(step for step in self.steps if self.steps[step])) != case.refused:
            found.append(f"refused {refused}, expected {case.refused}: {self.steps}")
        if self.peak + self.below > MEMORY:
            found.append(f"took {self.peak >> 20} MB and its child {self.below >> 20} MB")
        return found + self.code


def outcomes(cases: Sequence[Case], sources: Sequence[str], folder: Path) -> dict[str, Outcome]:
    """Return what comes of each case, all tried in one child that is ended where it hangs."""
    found: dict[str, Outcome] = {}
    environment = {**os.environ, MARKER: str(folder / "marker")}
    code = CHILD.replace("FRESH", str(FRESH))
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as child:
        assert child.stdin
        assert child.stdout
        for case, source in zip(cases, sources, strict=True):
            tokens = case.name.startswith("tokenizer")
            cut = FULL or not case.name.startswith("config") or any(word in case.name for word in CUT)
            asked = {"name": case.name, "source": source, "offset": case.offset, "tokens": tokens}
            asked |= {"text": TEXT, "cut": cut}
            child.stdin.write(json.dumps(asked) + "\n")
            child.stdin.flush()
            if not select.select([child.stdout], [], [], 30)[0]:
                child.kill()
                raise AssertionError(f"{case.name} hangs")
            line = child.stdout.readline()
            assert line, f"{case.name} ended the process"
            found[case.name] = Outcome(**json.loads(line))
    return found


def on_the_hub(hub: FakeHub, cases: Sequence[Case]) -> list[str]:
    for case in cases:
        hub.add(f"hostile/{case.name}", dict(case.build()))
    return [f"hostile/{case.name}" for case in cases]


def assert_harmless(cases: Sequence[Case], found: dict[str, Outcome], folder: Path) -> None:
    faults = {case.name: wrong for case in cases if (wrong := found[case.name].faults(case))}
    assert not faults, "\n".join(f"{name}: {wrong}" for name, wrong in faults.items())
    assert not (folder / "marker").exists(), "code of a repository was run"


def test_no_configuration_on_the_hub_does_harm(hub: FakeHub, tmp_path: Path) -> None:
    assert_harmless(CONFIGS, outcomes(CONFIGS, on_the_hub(hub, CONFIGS), tmp_path), tmp_path)


@pytest.mark.parametrize("part", range(2))
def test_no_tokenizer_on_the_hub_does_harm(hub: FakeHub, tmp_path: Path, part: int) -> None:
    cases = [case for case in TOKENIZERS if FULL or not case.name.endswith(ALIKE)][part::2]
    assert_harmless(cases, outcomes(cases, on_the_hub(hub, cases), tmp_path), tmp_path)


def growth(work: Callable[[int], object], size: int) -> float:
    """Return how many times longer work takes at ten times a size: about 10 if it is in proportion, 100 if squared."""
    spent = []
    for one in (size, size, 10 * size):  # the first imports what is needed
        began = time.thread_time()
        work(one)
        spent.append(time.thread_time() - began)
    return spent[2] / spent[1]


def extracted(folder: Path, names: Iterable[str]) -> None:
    """Read a header of many names, of which none is of a table."""
    save_file({name: np.ones(1, "f2") for name in names}, folder / "model.safetensors")
    with pytest.raises(hpe.HfposembError):
        hpe.extract(str(folder))


def test_names_are_read_in_proportion_to_their_number_and_length(tmp_path: Path) -> None:
    saved = f"{'a' * 200}.modules_to_save.b.weight"
    assert growth(lambda count: extracted(tmp_path, (f"{one}{saved}" for one in range(count))), 1_500) < 40
    assert growth(lambda size: extracted(tmp_path, (f"{one}{'pos' * size}.emb.weight" for one in range(500))), 7) < 40


def test_modules_of_an_adapter_are_matched_in_proportion_to_their_number() -> None:
    def match(count: int) -> None:
        base = [f"layers.{number}.q.weight" for number in range(count)]
        names = [f"base_model.model.{'y' if number else 'layers'}.{number}.q.lora_A.weight" for number in range(count)]
        config = {"peft_type": "LORA", "rank_pattern": {f"{'[a-z]*' * 3}{number}": 4 for number in range(count)}}
        changes, missing = changes_of(names, base, config)
        assert (len(changes), len(missing)) == (1, count - 1)

    assert growth(match, 1_500) < 40
