"""Token labels that the caller gives."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from ..errors import InputError
from ..tables.table import Labels

if TYPE_CHECKING:
    import tokenizers
    import transformers

    Tokenizer: TypeAlias = (
        transformers.PreTrainedTokenizerBase
        | tokenizers.Tokenizer
        | Sequence[str]
        | Mapping[str, int]
        | Mapping[int, str]
    )
    """What names tokens: a tokenizer, the tokens in order, or a dictionary between tokens and their numbers."""


@dataclass(frozen=True, eq=False)
class SavedTokenizer:
    """Tokenizer that is saved to a temporary folder on first use; the folder exists as long as this object."""

    tokenizer: Any
    _folders: list[tempfile.TemporaryDirectory[str]] = field(default_factory=list, repr=False)

    def __call__(self) -> Path:
        """Return the folder, saving the tokenizer if necessary."""
        if not self._folders:
            folder = tempfile.TemporaryDirectory(prefix="hfposemb-")
            if hasattr(self.tokenizer, "save_pretrained"):
                self.tokenizer.save_pretrained(folder.name)
            else:
                self.tokenizer.save(str(Path(folder.name) / "tokenizer.json"))
            self._folders.append(folder)
        return Path(self._folders[0].name)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the tokenizer without the folder."""
        return SavedTokenizer, (self.tokenizer,)


@dataclass(frozen=True)
class GivenLabels:
    """Labels from the caller's list or dictionary."""

    tokens: tuple[str, ...]

    def __call__(self, rows: int) -> Labels:
        """Return labels for ``rows`` rows. Raises ``InputError`` if their number differs."""
        if len(self.tokens) != rows:
            raise InputError(
                f"{len(self.tokens):,} labels were given for {rows:,} token vectors; give one label per vector"
            )
        return Labels(self.tokens, self.tokens, np.zeros(rows, np.uint8))


def names_of(tokenizer: Tokenizer) -> SavedTokenizer | Callable[[int], Labels]:
    """Return a callable that saves a tokenizer, or one that makes labels from a list or dictionary of tokens.

    Raises ``InputError`` for anything else.
    """
    if hasattr(tokenizer, "save_pretrained") or (hasattr(tokenizer, "save") and hasattr(tokenizer, "get_vocab")):
        return SavedTokenizer(tokenizer)
    if isinstance(tokenizer, Mapping):
        return GivenLabels(_ordered(cast("Mapping[Any, Any]", tokenizer)))
    if isinstance(tokenizer, Sequence) and not isinstance(tokenizer, (str, bytes)):
        if wrong := next((one for one in tokenizer if not isinstance(one, str)), None):
            raise InputError(f"labels must be strings; got {wrong!r:.60}")
        return GivenLabels(tuple(tokenizer))
    raise InputError(
        "tokenizer must be a transformers tokenizer, a tokenizers.Tokenizer, a list of labels, or a dictionary "
        f"between labels and row numbers; got {type(tokenizer).__name__}"
    )


def _ordered(numbers: Mapping[Any, Any]) -> tuple[str, ...]:
    """Return the tokens of a dictionary, in either direction between tokens and numbers, ordered by number."""
    pairs = [(one, other) if isinstance(one, str) else (other, one) for one, other in numbers.items()]
    if wrong := [pair for pair in pairs if not isinstance(pair[0], str) or not isinstance(pair[1], int)]:
        raise InputError(
            f"a dictionary of labels must map strings to row numbers or the reverse; found {wrong[0]!r:.60}"
        )
    tokens = {number: token for token, number in pairs}
    if len(tokens) != len(pairs) or sorted(tokens) != list(range(len(tokens))):
        raise InputError(
            f"a dictionary of labels must number the rows from 0 to {len(pairs) - 1:,}, each once; "
            f"found {len(tokens):,} numbers from {min(tokens, default=0):,} to {max(tokens, default=0):,}"
        )
    return tuple(tokens[number] for number in range(len(tokens)))
