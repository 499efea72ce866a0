"""Tokens joined by their spelling, as Engram does before it hashes their ids."""

from __future__ import annotations

from pathlib import Path

from ...errors import SourceError
from .loading import ready_made, rust
from .vocabulary_files import read_vocabulary

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
