"""Tokenisation with untrusted tokenizers, in a child process that can be killed.

The tokenizer is Rust code driven by a file from anyone. Some files make it compute forever, which no thread can stop,
exhaust memory, or abort the process. It therefore runs in a child whose end is guaranteed: the operating system limits
its CPU time, memory and idle time, and it ends with its parent.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from ...errors import InputError, SourceError
from ...tables.inputs import Pieces
from ..children import Child, start_child
from .loading import ready_made, rust, tokenizer_of
from .vocabulary_files import read_vocabulary, vocabulary_of

TOKENIZER_JSON = "tokenizer.json"
_ONE_SPACE = "\ue000"


def joined_spellings(folder: Path) -> list[int]:
    """Return a number for each token id, the same for tokens that differ in case, accents or spaces only.

    As ``CompressedTokenizer`` in https://github.com/deepseek-ai/Engram/blob/main/engram_demo_v1.py. The tokenizer of an
    untrusted file may run forever: use ``worker.Cutter.joined`` for it.

    Args:
        folder: Folder of the tokenizer's files.

    Raises:
        SourceError: If there is no tokenizer.json, or the tokenizer fails.
    """
    vocabulary = read_vocabulary(folder)
    if vocabulary is None or vocabulary.file != TOKENIZER_JSON:
        raise SourceError(f"joining tokens by their spelling needs a {TOKENIZER_JSON}; there is none")
    with rust(TOKENIZER_JSON):
        from tokenizers import Regex, normalizers

        tokenizer = ready_made(folder, vocabulary)
        plain = normalizers.Sequence(
            [
                normalizers.NFKC(),
                normalizers.NFD(),
                normalizers.StripAccents(),
                normalizers.Lowercase(),
                normalizers.Replace(Regex(r"[ \t\r\n]+"), " "),
                normalizers.Replace(Regex(r"^ $"), _ONE_SPACE),
                normalizers.Strip(),
                normalizers.Replace(_ONE_SPACE, " "),
            ]
        )
        numbers: dict[str | None, int] = {}
        found = []
        for token in range(tokenizer.get_vocab_size(with_added_tokens=True)):
            text = tokenizer.decode([token], skip_special_tokens=False)
            spelt = tokenizer.id_to_token(token) if "\ufffd" in text else plain.normalize_str(text) or text
            found.append(numbers.setdefault(spelt, len(numbers)))
    return found


LOAD_SECONDS, CUT_SECONDS = 1.0, 0.8
"""CPU seconds of the child to load a tokenizer, and to tokenise a short text."""

SECONDS_A_ROW, SECONDS_A_CHARACTER = 8e-6, 2e-5
"""CPU seconds that each row of the vocabulary adds to the former, and each character of the text to the latter."""

SECONDS_A_SPELLING = 8e-5
"""CPU seconds to join a token with others by its spelling."""

MEMORY, MEMORY_A_ROW = 110 * 2**20, 2_500
"""Bytes that the child may allocate after its start, and those that each row of the vocabulary adds (Gemma: 500 MB)."""

MOST_ROWS = 300_000
"""Rows that count towards both limits; no model in use has more, and a file must not raise them at will."""

IDLE_SECONDS = 10.0
"""Seconds that a child waits for the next text."""

_WALL = 4.0
"""Seconds of wall-clock time allowed per second of CPU time, for busy machines."""

_MOST_PIECES, _MOST_CHARACTERS, _LONGEST_ANSWER = 1_000_000, 2_000_000, 32_000_000
_ADVICE = "give token ids instead of a text"


class Cutter:
    """Tokenises texts like ``loading.load_tokenizer``, from the files in ``folder``, in a child process.

    The folder must exist as long as this object. A child is kept for ``IDLE_SECONDS`` and restarted when needed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._child: _Tokenising | None = None
        self._last: weakref.finalize[[], Cutter] | None = None
        self._lock = threading.Lock()

    def __call__(self, text: str) -> Pieces:
        """Tokenise a text.

        Raises:
            SourceError: If the files cannot be used, or the tokenizer fails or exceeds its limits.
            InputError: If the folder has no tokenizer.
            TypeError: If ``text`` is not a string.
        """
        if not isinstance(text, str):
            raise TypeError(f"text must be a str; got {type(text).__name__}")
        found = self._answered({"text": text}, CUT_SECONDS + SECONDS_A_CHARACTER * len(text))
        return Pieces(tuple(found["texts"]), tuple(found["ids"]))

    def joined(self) -> tuple[int, ...]:
        """Return a number for each token id, the same for tokens of one spelling; see ``joined_spellings``.

        Raises:
            SourceError: As for a text, and if there is no tokenizer.json.
            InputError: If the folder has no tokenizer.
        """
        seconds = LOAD_SECONDS + (SECONDS_A_ROW + SECONDS_A_SPELLING) * MOST_ROWS
        return tuple(self._answered({"joined": str(self._folder)}, seconds)["ids"])

    def _answered(self, question: dict[str, str], seconds: float) -> dict[str, Any]:
        with self._lock:
            child = self._child
            answer = child.ask(question, seconds=seconds) if child is not None and child.alive() else None
            if child is None or (answer is None and child.idled()):
                child = self._loaded()
                answer = child.ask(question, seconds=seconds)
            return self._checked(child, answer)

    def _loaded(self) -> _Tokenising:
        self._end()
        child = self._child = _Tokenising()
        self._last = weakref.finalize(self, child.end)
        seconds = LOAD_SECONDS + SECONDS_A_ROW * MOST_ROWS
        try:
            found = self._checked(child, child.ask({"folder": str(self._folder)}, seconds=seconds))
        except SourceError:
            self._end()
            raise
        if not found["ready"]:
            self._end()
            raise InputError(_unsupported(vocabulary_of(self._folder)))
        return child

    def _checked(self, child: _Tokenising, answer: dict[str, Any] | None) -> dict[str, Any]:
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


def _unsupported(file: str | None) -> str:
    """Return that a text cannot be cut by the file of a folder that states the tokens."""
    found = "no file states its tokens" if file is None else f"{file} states its tokens, but no text is cut by it"
    known = "tokenizer.json, BERT's vocab.txt and GPT-2's vocab.json with merges.txt are read"
    return f"the model has no supported tokenizer: {found}; {known}: save a tokenizer.json with transformers"


class _Tokenising(Child):
    """The child process.

    It holds no reference to its ``Cutter``, so that it ends when the ``Cutter`` is garbage-collected.
    """

    def __init__(self) -> None:
        try:
            super().__init__(start_child(__name__, _serve.__name__))
        except OSError as error:
            raise SourceError(
                f"no process could be started to tokenise the text: {error.strerror}; {_ADVICE}"
            ) from error

    def alive(self) -> bool:
        """Return whether the child is running."""
        return self._process.poll() is None

    def idled(self) -> bool:
        """Return whether the child ended because it was idle."""
        return hasattr(signal, "SIGALRM") and self._process.poll() == -signal.SIGALRM

    def ask(self, question: dict[str, str], *, seconds: float) -> dict[str, Any] | None:
        """Return the answer; ``None`` if the child ended or was ended because it took too long."""
        with self.within(_WALL * seconds + 1):
            self.say(question)
            line = self.line(_LONGEST_ANSWER)
        if line is None or self.late:
            self.end()
            return None
        found: dict[str, Any] = json.loads(line)
        return found

    def verdict(self) -> str:
        """Return why there was no answer."""
        code = self._process.poll()
        if self.late or (hasattr(signal, "SIGPROF") and code == -signal.SIGPROF):
            return f"the tokenizer took too long and was stopped; {_ADVICE}"
        return f"the tokenizer crashed or ran out of memory and was stopped; {_ADVICE}"


# --- in the child -----------------------------------------------------------------------------------------------------


def _serve() -> None:
    """Load the tokenizer from the folder named by the first line, then tokenise the text of each further line.

    Runs in the child.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # keep library output out of the answers
    folder = Path(json.loads(sys.stdin.buffer.readline())["folder"])
    taken = _limit_memory(MEMORY)
    _allow(LOAD_SECONDS)
    cut, rows = None, 0
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
        answer = {"error": f"the tokenizer ran out of memory; {_ADVICE}"}
    _send(answers, answer)
    while cut is not None and (line := sys.stdin.buffer.readline()):
        asked = json.loads(line)
        try:
            pieces = _joined(folder, rows) if "joined" in asked else _cut(cut, asked["text"])
        except SourceError as error:
            answer = {"error": str(error)}
        except MemoryError:
            answer = {"error": f"the tokenizer ran out of memory; {_ADVICE}"}
        else:
            answer = {"texts": pieces.texts, "ids": pieces.ids}
            if len(pieces.ids) > _MOST_PIECES or sum(map(len, pieces.texts)) > _MOST_CHARACTERS:
                size = f"{len(pieces.ids):,} pieces of {sum(map(len, pieces.texts)):,} characters"
                answer = {
                    "error": f"the tokenizer returned {size} for a text of {len(asked.get('text', '')):,}; {_ADVICE}"
                }
        _send(answers, answer)


def _cut(cut: Callable[[str], Pieces], text: str) -> Pieces:
    _allow(CUT_SECONDS + SECONDS_A_CHARACTER * len(text))
    return cut(text)


def _joined(folder: Path, rows: int) -> Pieces:
    _allow(LOAD_SECONDS + (SECONDS_A_ROW + SECONDS_A_SPELLING) * rows)
    return Pieces((), tuple(joined_spellings(folder)))


def _send(answers: IO[str], answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, IDLE_SECONDS)


def _allow(seconds: float) -> None:
    """Have the system end this process after ``seconds`` of CPU time, or much more of wall-clock time."""
    if hasattr(signal, "setitimer"):
        for number in (signal.SIGPROF, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.setitimer(signal.ITIMER_REAL, _WALL * seconds + 2)


def _limit_memory(more: int, *, taken: int | None = None) -> int | None:
    """Limit memory to ``more`` bytes above ``taken``, by default the current use; return ``taken``.

    Returns ``None`` if the system does not report memory use.
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
