"""Child processes that read what nobody trusts: fresh interpreters without secrets, which can be killed at any time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Self

_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LANG", "LC_ALL", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR")
# Pools of threads take memory even if they are not used.
_SINGLE = dict.fromkeys(("RAYON_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")


def environment(outer: Mapping[str, str]) -> dict[str, str]:
    """Return a child's environment: what an interpreter needs to start, and no token or secret."""
    kept = {name: outer[name] for name in _ENVIRONMENT if name in outer}
    own = {"MALLOC_ARENA_MAX": "2", "PYTHONIOENCODING": "utf-8", "TOKENIZERS_PARALLELISM": "false"}
    return kept | _SINGLE | own


def start_child(module: str, function: str) -> subprocess.Popen[bytes]:
    """Start a fresh interpreter that serves over its pipes.

    Args:
        module: Module of the function that it calls.
        function: Name of the function.
    """
    # -P and an explicit path, so that no module is imported from the working directory.
    places = [str(Path(__file__).parents[2]), *(place for place in sys.path if os.path.isabs(place))]
    run = f"from {module} import {function}; {function}()"
    return subprocess.Popen(
        [
            sys.executable,
            "-P",
            "-c",
            f"import json, sys; sys.path[:] = json.loads(sys.argv[1]); {run}",
            json.dumps(places),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=environment(os.environ),
    )


class Child:
    """Conversation with a child, in lines of JSON.

    Attributes:
        answers: What the child writes.
        seconds: Time that it was given last.
        late: Whether it took longer and was killed.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._to, self.answers = process, process.stdin, process.stdout
        self.late, self.seconds = False, 0.0

    def __enter__(self) -> Self:
        """Return the child, which ends with the block."""
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def say(self, words: Mapping[str, Any]) -> None:
        """Send a line to the child."""
        with suppress(OSError, ValueError):  # the child has exited; the missing answer is handled later
            self._to.write(json.dumps(words).encode() + b"\n")
            self._to.flush()

    def give(self, content: memoryview) -> None:
        """Send bytes to the child, and nothing after them."""
        with suppress(OSError, ValueError), self._to:
            self._to.write(content)

    def line(self, most: int = -1) -> bytes | None:
        """Return the next line of at most ``most`` bytes; ``None`` if there is none, since the child has ended."""
        with suppress(OSError, ValueError):
            if (found := self.answers.readline(most)).endswith(b"\n"):
                return found
        return None

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Kill the child if this block takes longer."""
        self.seconds = seconds
        timer = threading.Timer(seconds, self._expire)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()

    def _expire(self) -> None:
        self.late = True
        self._process.kill()

    def end(self) -> None:
        """Kill the child, wait until it is gone, and close its pipes."""
        self._process.kill()
        self._process.wait()
        pipes: tuple[IO[bytes], ...] = (self._to, self.answers)
        for pipe in pipes:
            with suppress(OSError):
                pipe.close()
