"""Refusals of malformed files: one short line, at little cost."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.checkpoints.malformed import Case

LINUX = Path("/proc/self/status").exists()
MEMORY = 150_000_000
"""Peak memory in bytes that no malformed file may take."""


def assert_one_line(path: Path, message: str) -> None:
    """Require a short line that begins with the file's name."""
    assert message.startswith(f"{path.name}: ")
    assert message.isprintable(), message
    assert len(message) <= 300, message
    message.encode()


CHILD = """
import json, sys
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from hfposemb.errors import CheckpointError

proc = Path("/proc/self/status")

def status(key):
    return next(int(line.split()[1]) * 1024 for line in proc.open() if line.startswith(key)) if proc.exists() else 0

module, _, function = sys.argv[1].partition(":")
read = attrgetter(function)(import_module(module))
if proc.exists():
    import resource
    limit = status("VmSize") + 600_000_000
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
peaks, base = {}, status("VmRSS")
for line in sys.stdin:
    try:
        read(Path(line.strip()))
    except CheckpointError as error:
        peaks[Path(line.strip()).stem] = status("VmHWM") - base
        print(json.dumps(str(error)), flush=True)
    else:
        print(flush=True)
print(json.dumps(peaks))
"""


def assert_refused(cases: Sequence[Case], folder: Path, *, reader: str) -> None:
    """Require that a child refuses each file in one short line, and takes less than 150 MB for all of them."""
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, reader], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin
        assert child.stdout
        for case in cases:
            path = case.write(folder)
            child.stdin.write(f"{path}\n")
            child.stdin.flush()
            said = child.stdout.readline()
            assert said.strip(), f"{case.name} was read, or ended the process"
            assert_one_line(path, json.loads(said))
            path.unlink()
        rest, _ = child.communicate(timeout=300)
    peaks: dict[str, int] = json.loads(rest)
    assert list(peaks) == [case.name for case in cases]
    assert max(peaks.values()) < MEMORY, {name: peak for name, peak in peaks.items() if peak >= MEMORY}
    assert max(peaks.values()) > 1_000_000 or not LINUX, "it does measure"
