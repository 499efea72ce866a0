"""Refusals of malformed files: one short line, at little cost."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from hfposemb.errors import CheckpointError
from tests.support.checkpoints.malformed import Case

LINUX = Path("/proc/self/status").exists()
MEMORY = 150_000_000
"""Peak memory in bytes that no malformed file may take."""


def assert_refused(case: Case, folder: Path, read: Callable[[Path], object]) -> None:
    """Require one short line, and nothing but a CheckpointError."""
    path = case.write(folder)
    try:
        found = read(path)
    except CheckpointError as error:
        message = str(error)
    except BaseException as error:
        raise AssertionError(f"{case.name}: raised {type(error).__name__}") from error
    else:
        raise AssertionError(f"{case.name}: was read as {found!r:.80}")
    finally:
        path.unlink()
    assert_one_line(path, message)


def assert_one_line(path: Path, message: str) -> None:
    """Require a short line that begins with the file's name."""
    assert message.startswith(f"{path.name}: ")
    assert message.isprintable(), message
    assert len(message) <= 300, message
    message.encode()


CHILD = """
import json, resource, sys
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from hfposemb.errors import CheckpointError

def status(key):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(key))

module, _, function = sys.argv[1].partition(":")
read = attrgetter(function)(import_module(module))
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


def peaks(cases: tuple[Case, ...], folder: Path, *, reader: str) -> dict[str, int]:
    """Return, for each case, the peak memory of a child process that has refused it and those before it in one line."""
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
            assert said, f"{case.name} ended the process"
            assert_one_line(path, json.loads(said))
            path.unlink()
        rest, _ = child.communicate(timeout=300)
    found: dict[str, int] = json.loads(rest)
    return found
