"""Long-running work in a child process that can be killed, with progress reports.

This module imports nothing heavy. Threads cannot be stopped, and the loops of UMAP run in C.
So the work, a function that can be pickled by name, runs in its own process, which is certain to end: when the work is
done, when it is stopped, when its deadline passes, and when this process dies, however that happens.

Guarantees: a child in public mode has neither the tokens nor the secrets of this process's environment, and no more
memory than its limit where the system can enforce one. Every failure becomes one line for the user: an error of
hfposemb with its own message, a bug as a ``BugError`` with the child's traceback and the end of its stderr, and lack of
memory as such if there is a sign of it. ``queue`` decides which job runs next, ``measuring`` has the functions.
"""

from __future__ import annotations

import errno
import faulthandler
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from io import TextIOWrapper
from queue import Empty, SimpleQueue
from typing import IO, Any

from hfposemb.bug_reports import SECRET
from hfposemb.errors import CancelledError, HfposembError

from ..failures import BugError
from ..limits import PUBLIC_MEMORY, PUBLIC_SECONDS

Report = Callable[[float, str], None]
"""Called by the work with the fraction done, 0 to 1, and a description of the current step."""


class Reporter:
    """The child's side of a job's progress: called with the share done and the stage, as a ``Report``."""

    def __init__(self, answer: Callable[[str, Any], None]) -> None:
        self._answer, self._last = answer, -1.0

    def __call__(self, share: float, doing: str) -> None:
        """Report the share done, 0 to 1, and the stage."""
        now = time.monotonic()
        if now - self._last > POLL / 2 or share >= 1:
            self._last = now
            self._answer("progress", (float(share), str(doing)))

    def draft(self, value: Any) -> None:
        """Send an unfinished result."""
        self._answer("draft", value)


WARM_AFTER = 10.0
"""Seconds after the start until UMAP is compiled, so that the first page is not slowed down."""

POLL = 0.25
"""Seconds between polls of a job's progress."""

GRACE = 1.0
"""Seconds that a child has to exit by itself after it was asked to."""

STDERR_BYTES = 64 * 2**10
"""Number of bytes kept from the end of a child's stderr."""

LATE = "this took too long and was stopped; try a smaller input"
NO_MEMORY = "not enough memory on this machine; try a smaller input"
KILLED = "the system ended the process that computed this, perhaps for lack of memory; try a smaller input"

_SHORT_OF_MEMORY = re.compile(
    rb"MemoryError|bad_alloc|[Cc]annot allocate memory|[Oo]ut of memory|pthread_create failed|[Uu]nable to allocate"
)
"""Messages that allocators and libraries print before they end the process for lack of memory."""


class JobError(HfposembError):
    """Work in a child process failed, took too long, or the process died."""


@dataclass(frozen=True)
class Progress:
    """Progress of a job or a read: fraction done in ``share``, what it is ``doing``, and seconds ``left`` if known.

    ``drafts`` is the number of unfinished results so far.
    """

    share: float
    doing: str
    left: float | None = None
    drafts: int = 0

    def __str__(self) -> str:
        return self.doing if self.left is None else f"{self.doing} · {_duration(self.left)} left"


def _duration(seconds: float) -> str:
    whole = max(1, round(seconds))
    return f"{whole} s" if whole < 100 else f"{round(whole / 60)} min"


class Conversation:
    """Requests to a child and its answers, in threads: nobody waits for a child that does not read or does not answer.

    Args:
        process: The child, with pipes as its stdin and stdout. It exits when the first of them breaks.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._answers: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def ask(self, request: bytes) -> None:
        """Send a request."""
        threading.Thread(target=self._send, args=(request,), daemon=True).start()

    def answer(self, timeout: float) -> tuple[str, Any]:
        """Return the kind and value of the next answer, "gone" after the last; ``queue.Empty`` if there is none yet."""
        return self._answers.get(timeout=max(0.0, timeout))

    def _send(self, request: bytes) -> None:
        with suppress(OSError, ValueError):
            assert self._process.stdin is not None
            send(self._process.stdin, request)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        try:
            with suppress(OSError, ValueError, EOFError):
                while True:
                    self._answers.put(pickle.loads(receive(self._process.stdout)))
        finally:
            self._answers.put(("gone", None))


class Job:
    """A function call in a child process. Use it as a context manager or call ``close``; afterwards there is no child.

    The child calls ``work(*arguments)``, or ``work(*arguments, report)`` with ``reports``. The function, its arguments
    and its result must be picklable. ``result`` raises ``JobError`` with the message of an error of hfposemb, and
    ``BugError`` if the work hit a bug.

    Args:
        work: The function to call.
        arguments: Its positional arguments.
        reports: Whether the function takes a ``Report`` as its last argument.
        deadline: Seconds until the child is killed.
        memory: Limit of its address space in bytes, where the system supports one.
        sealed: Whether to remove tokens and secrets from the child's environment.
    """

    def __init__(
        self,
        work: Callable[..., Any],
        *arguments: Any,
        reports: bool = False,
        deadline: float | None = None,
        memory: int | None = None,
        sealed: bool = False,
    ) -> None:
        # Not multiprocessing: its spawn method re-runs the main script, which breaks scripts without a __main__ guard.
        start = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import _child; _child()"
        self.started = time.monotonic()
        self.deadline = None if deadline is None else self.started + deadline
        self._outcome: tuple[str, Any] | None = None
        self._stage: tuple[str, float, float] = ("", self.started, 0.0)
        self._latest = Progress(0.0, "starting")
        self.draft: Any = None
        """The latest unfinished result."""
        self._stopped = self._killed = False
        self._process = subprocess.Popen(
            [sys.executable, "-c", start],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=without_secrets(os.environ) if sealed else None,
        )
        self._stderr = b""
        self._reader = threading.Thread(target=self._overhear, daemon=True)
        self._reader.start()
        self._conversation = Conversation(self._process)
        self._conversation.ask(pickle.dumps((memory, work, arguments, reports)))

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return self._process.pid

    def _overhear(self) -> None:
        """Keep the end of what the child and its libraries write to stderr."""
        assert self._process.stderr is not None
        with suppress(OSError, ValueError):
            while piece := os.read(self._process.stderr.fileno(), STDERR_BYTES):
                self._stderr = (self._stderr + piece)[-STDERR_BYTES:]

    def poll(self, wait: float = POLL) -> Progress | None:
        """Wait up to ``wait`` seconds for news; return the latest progress, or ``None`` when the job is over."""
        until = time.monotonic() + wait
        while self._outcome is None:
            if self.deadline is not None and time.monotonic() >= self.deadline:
                self._outcome = ("late", None)
                break
            try:
                kind, value = self._conversation.answer(min(until, self.deadline or until) - time.monotonic())
            except Empty:
                if time.monotonic() >= until:
                    return self._latest
                continue
            if kind == "progress":
                self._latest = self._progress(*value)
            elif kind == "draft":
                self.draft = value
                self._latest = replace(self._latest, drafts=self._latest.drafts + 1)
            else:
                self._outcome = (kind, value)
        return None

    def _progress(self, share: float, doing: str) -> Progress:
        """Estimate the time left from the speed of the current stage, identified by the text before the first comma."""
        now, stage = time.monotonic(), doing.partition(",")[0]
        known, since, first = self._stage
        if stage != known:
            self._stage = since_now = (stage, now, share)
            known, since, first = since_now
        done = share - first
        left = (now - since) * (1 - share) / done if done > 0.02 and now - since > 1 else None
        return Progress(share, doing, left, self._latest.drafts)

    def result(self) -> Any:
        """Wait for the job to end and return the result of the work."""
        while self.poll(60) is not None:
            pass
        self.close()
        assert self._outcome is not None
        kind, value = self._outcome
        if kind == "done":
            return value
        if kind == "failed":
            raise JobError(value)
        if kind == "late":
            raise JobError(LATE)
        if self._stopped:
            raise CancelledError("cancelled")
        raise self._death(value if kind == "fault" else "")

    def _death(self, said: str) -> HfposembError:
        """Return the error that explains a missing result; ``said`` is the child's traceback, empty if it sent none."""
        self._reader.join(GRACE)
        code = self._process.returncode
        if not said and not self._killed and code == -getattr(signal, "SIGKILL", 9):
            return JobError(KILLED)
        if not said and code != 0 and _SHORT_OF_MEMORY.search(self._stderr):
            return JobError(NO_MEMORY)
        ended = "" if said else f"the process ended with {_ending(code)} and without a result"
        printed = self._stderr.decode("utf-8", "replace").strip()
        parts = (said.strip(), ended, printed and f"--- end of its output ---\n{printed}")
        return BugError("\n\n".join(filter(None, parts)))

    def close(self) -> None:
        """End the child and every process it started. Returns when they are gone."""
        self._stopped = self._stopped or self._outcome is None
        process = self._process
        if self._outcome is not None and self._outcome[0] == "gone":
            with suppress(subprocess.TimeoutExpired):  # exiting by itself; its exit status is the diagnosis
                process.wait(GRACE)
        if process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()
        if self._outcome is not None and self._outcome[0] in ("done", "failed", "fault"):
            with suppress(subprocess.TimeoutExpired):
                process.wait(GRACE)
        if process.poll() is None:
            self._killed = True
            # Kill the whole group: a library may have started processes of its own.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL) if hasattr(os, "killpg") else process.kill()
            process.wait()
        if self._outcome is None:
            self._outcome = ("gone", None)

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _ending(code: int) -> str:
    """Describe how a process ended."""
    with suppress(ValueError):
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return f"signal {-code}"


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without secrets, in which the Hub's libraries also ignore a token stored by a login."""
    kept = {name: value for name, value in environment.items() if not SECRET.search(name)}
    return kept | {"HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}


def warm_later(*, public: bool, after: float = WARM_AFTER) -> threading.Event:
    """Compile UMAP in a background child of the lowest priority, some time after the start.

    The compiled code stays on disk for later jobs. With ``public`` the child is sealed and limited like the others. Set
    the returned event to cancel.
    """
    called_off = threading.Event()
    bounds: dict[str, Any] = {"memory": PUBLIC_MEMORY, "sealed": True} if public else {}

    def run() -> None:
        if not called_off.wait(after):
            with suppress(HfposembError), Job(warm, deadline=PUBLIC_SECONDS, **bounds) as job:
                job.result()  # if it cannot be compiled in advance, it is compiled on first use

    threading.Thread(target=run, name="warm", daemon=True).start()
    return called_off


def warm() -> None:
    """Compile UMAP, in the child, at the lowest priority."""
    from hfposemb.analysis.projection.umap_layout import warm_umap

    with suppress(AttributeError, OSError):
        os.nice(19)
    warm_umap()


# --- child side of the protocol ---------------------------------------------------------------------------------------


def send(pipe: IO[bytes], content: bytes) -> None:
    """Write a message, preceded by its length."""
    pipe.write(len(content).to_bytes(8, "little") + content)
    pipe.flush()


def receive(pipe: IO[bytes]) -> bytes:
    """Read a message. Raises ``EOFError`` if there are no more."""
    head = pipe.read(8)
    if len(head) < 8:
        raise EOFError
    return pipe.read(int.from_bytes(head, "little"))


def _child() -> None:
    """Entry point of the child: run the request on standard input, answer on standard output."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of libraries must not mix with the answers
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # a process that is ended writes nothing that it still holds
    faulthandler.enable()  # crashes in native code leave a traceback on stderr
    memory, work, arguments, reports = pickle.loads(receive(sys.stdin.buffer))
    bound(memory)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    lock = threading.Lock()

    def answer(kind: str, value: Any) -> None:
        with lock:
            send(answers, pickle.dumps((kind, value)))

    try:
        answer("done", work(*arguments, Reporter(answer)) if reports else work(*arguments))
    except HfposembError as error:
        answer("failed", str(error))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the parent reports any error
        if short_of_memory(error):
            answer("failed", NO_MEMORY)
        else:
            answer("fault", traceback.format_exc())


def short_of_memory(error: BaseException | None) -> bool:
    """Return whether an error, or one in its chain of causes, is a lack of memory."""
    while error is not None:
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
            return True
        if isinstance(error, ImportError) and _SHORT_OF_MEMORY.search(str(error).encode("utf-8", "replace")):
            return True
        error = error.__cause__ or error.__context__
    return False


def bound(memory: int | None) -> None:
    """Lower the process's priority and cap its memory."""
    with suppress(AttributeError, OSError):
        os.nice(15)
    if memory is not None:
        with suppress(ImportError, AttributeError, ValueError, OSError):
            import resource

            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _end_with_parent() -> None:
    """Exit when the parent closes its end of the pipe or dies."""
    sys.stdin.buffer.read(1)
    os._exit(1)
