"""Cut texts with a stranger's tokenizer, in a child process that can be killed.

The tokenizer is Rust, driven by a file that anybody can write. Some such files make it compute for ever, which no
thread can stop, take all memory, or abort the process. So it runs in a process of its own, which ends for certain: with
its allowance of processor time, memory or idleness, which the system itself counts, and with this process.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Any

from ..errors import InputError, SourceError
from ..tables.inputs import Pieces

LOAD_SECONDS, CUT_SECONDS = 1.0, 0.8
"""Processor time of the child to load a tokenizer, and to cut a short text."""

SECONDS_A_ROW, SECONDS_A_CHARACTER = 8e-6, 2e-5
"""What a row of the vocabulary adds to the first, a character of the text to the second."""

MEMORY, MEMORY_A_ROW = 110 * 2**20, 2_500
"""Bytes that the child may take once it has started, and what a row of the vocabulary adds: Gemma needs 500 MB."""

MOST_ROWS = 300_000
"""Rows that add to both: no model in use has more, and a file must not buy what it likes."""

IDLE_SECONDS = 10.0
"""How long a child is kept for the next text."""

_WALL = 4.0
"""Seconds of a busy machine's clock for one of processor time."""

_MOST_PIECES, _MOST_CHARACTERS, _LONGEST_ANSWER = 1_000_000, 2_000_000, 32_000_000
_ADVICE = "give token ids instead of a text"


class Cutter:
    """Cut texts as ``vocabulary.load_tokenizer`` does, from the files in ``folder``, in a child process.

    The folder must stay as long as this does. A child is kept for ``IDLE_SECONDS``, then started anew at need.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._child: _Child | None = None
        self._last: weakref.finalize[[], Cutter] | None = None
        self._lock = threading.Lock()

    def __call__(self, text: str) -> Pieces:
        """Return the pieces of a text.

        Raises ``SourceError`` where the files cannot be used and where the tokenizer fails, by taking too much too;
        ``InputError`` where the folder has no tokenizer; ``TypeError`` for what is no text.
        """
        if not isinstance(text, str):
            raise TypeError(f"a text is a str; got {type(text).__name__}")
        seconds = CUT_SECONDS + SECONDS_A_CHARACTER * len(text)
        with self._lock:
            child = self._child
            answer = child.ask({"text": text}, seconds=seconds) if child is not None and child.alive() else None
            if child is None or (answer is None and child.idled()):
                child = self._loaded()
                answer = child.ask({"text": text}, seconds=seconds)
            found = self._checked(child, answer)
        return Pieces(tuple(found["texts"]), tuple(found["ids"]))

    def _loaded(self) -> _Child:
        self._end()
        child = self._child = _Child()
        self._last = weakref.finalize(self, child.end)
        seconds = LOAD_SECONDS + SECONDS_A_ROW * MOST_ROWS
        try:
            found = self._checked(child, child.ask({"folder": str(self._folder)}, seconds=seconds))
        except SourceError:
            self._end()
            raise
        if not found["ready"]:
            self._end()
            raise InputError(f"the model comes without a tokenizer that can be used here: {_ADVICE}")
        return child

    def _checked(self, child: _Child, answer: dict[str, Any] | None) -> dict[str, Any]:
        if answer is None:
            self._end()
            raise SourceError(child.verdict())
        if "error" in answer:
            raise SourceError(answer["error"])
        return answer

    def _end(self) -> None:
        if self._last is not None:
            self._last()
        self._child = self._last = None


class _Child:
    """The child process: questions and answers are JSON, one a line. It knows no ``Cutter``, to end with it."""

    def __init__(self) -> None:
        start = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import _serve; _serve()"
        secrets = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
        # Threads take memory before there is anything to do for them.
        single = dict.fromkeys(("RAYON_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
        kept = {name: value for name, value in os.environ.items() if name not in secrets}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", start],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**kept, **single, "TOKENIZERS_PARALLELISM": "false"},
                start_new_session=True,
            )
        except OSError as error:
            raise SourceError(f"no process could be started to cut the text: {error.strerror}; {_ADVICE}") from error
        self._late = False
        self._answers: SimpleQueue[bytes | None] = SimpleQueue()
        threading.Thread(target=_listen, args=(self._process, self._answers), daemon=True).start()

    def alive(self) -> bool:
        return self._process.poll() is None

    def idled(self) -> bool:
        """Tell whether the child ended because nothing was asked of it."""
        return hasattr(signal, "SIGALRM") and self._process.poll() == -signal.SIGALRM

    def ask(self, question: dict[str, str], *, seconds: float) -> dict[str, Any] | None:
        """Return the answer; ``None`` where the child ended, or was ended because it gave none for too long."""
        until = time.monotonic() + _WALL * seconds + 1
        stdin = self._process.stdin
        assert stdin is not None
        with suppress(OSError, ValueError):  # where it cannot be asked, its end stands in the queue
            stdin.write(json.dumps(question).encode() + b"\n")
            stdin.flush()
        try:
            line = self._answers.get(timeout=max(0.0, until - time.monotonic()))
        except Empty:
            self._late = True
            self.end()
            return None
        return None if line is None else json.loads(line)

    def verdict(self) -> str:
        """Say why there was no answer."""
        code = self._process.poll()
        if self._late or (hasattr(signal, "SIGPROF") and code == -signal.SIGPROF):
            return f"the tokenizer takes too long and was stopped; {_ADVICE}"
        return f"the tokenizer takes too much memory or breaks down, and was stopped; {_ADVICE}"

    def end(self) -> None:
        """Kill the child; returns when it is gone."""
        process = self._process
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()


def _listen(process: subprocess.Popen[bytes], answers: SimpleQueue[bytes | None]) -> None:
    assert process.stdout is not None
    with suppress(OSError, ValueError), process.stdout as stdout:
        while (line := stdout.readline(_LONGEST_ANSWER)).endswith(b"\n"):
            answers.put(line)
    process.wait()
    answers.put(None)


# --- in the child -----------------------------------------------------------------------------------------------------


def _serve() -> None:
    """Run in the child: load the tokenizer of the folder that the first line names, then cut the text of each."""
    from .tokenizers import tokenizer_of
    from .vocabulary import read_vocabulary

    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # what a library prints is no answer
    folder = Path(json.loads(sys.stdin.buffer.readline())["folder"])
    taken = _limit_memory(MEMORY)
    _allow(LOAD_SECONDS)
    cut = None
    try:
        if (vocabulary := read_vocabulary(folder)) is not None:
            rows = min(len(vocabulary.pieces), MOST_ROWS)
            if taken is not None:
                _limit_memory(MEMORY + MEMORY_A_ROW * rows, taken=taken)
            _allow(LOAD_SECONDS + SECONDS_A_ROW * rows)
            cut = tokenizer_of(folder, vocabulary)
        answer: dict[str, Any] = {"ready": cut is not None}
    except SourceError as error:
        answer = {"error": str(error)}
    except MemoryError:
        answer = {"error": f"the tokenizer takes too much memory; {_ADVICE}"}
    _send(answers, answer)
    while cut is not None and (line := sys.stdin.buffer.readline()):
        text = json.loads(line)["text"]
        _allow(CUT_SECONDS + SECONDS_A_CHARACTER * len(text))
        try:
            pieces = cut(text)
        except SourceError as error:
            answer = {"error": str(error)}
        except MemoryError:
            answer = {"error": f"the tokenizer takes too much memory; {_ADVICE}"}
        else:
            answer = {"texts": pieces.texts, "ids": pieces.ids}
            if len(pieces.ids) > _MOST_PIECES or sum(map(len, pieces.texts)) > _MOST_CHARACTERS:
                size = f"{len(pieces.ids):,} pieces of {sum(map(len, pieces.texts)):,} characters"
                answer = {"error": f"the tokenizer makes {size} of a text of {len(text):,}; {_ADVICE}"}
        _send(answers, answer)


def _send(answers: IO[str], answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, IDLE_SECONDS)


def _allow(seconds: float) -> None:
    """Let the system end this process after so much processor time, or far more of the clock's."""
    if hasattr(signal, "setitimer"):
        for number in (signal.SIGPROF, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.setitimer(signal.ITIMER_REAL, _WALL * seconds + 2)


def _limit_memory(more: int, *, taken: int | None = None) -> int | None:
    """Let the system refuse more than so many bytes above ``taken``, by default what is taken now; return that.

    ``None`` where the system does not count them.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    import resource

    if taken is None:
        data = next(line for line in status.read_text().splitlines() if line.startswith("VmData:"))
        taken = int(data.split()[1]) * 1024
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = taken + more
    resource.setrlimit(resource.RLIMIT_DATA, (wanted if most < 0 else min(wanted, most), most))
    return taken
