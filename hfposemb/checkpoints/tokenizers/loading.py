"""Tokenizers built from a checkpoint's files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count, takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import SourceError, one_line
from ...tables.inputs import Pieces
from ...text import display
from .class_tokens import LIKE_BERT
from .small_files import is_regular_file, read_bounded, read_lines, read_tokenizer_json
from .vocabulary import SURROGATES, Vocabulary
from .vocabulary_files import read_vocabulary

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def load_tokenizer(folder: Path) -> Callable[[str], Pieces] | None:
    """Return a function that tokenises text, with special tokens added, without truncation or padding.

    It is built from tokenizer.json; else from vocab.txt if it is BERT's kind; else from vocab.json and merges.txt if
    they are byte-level like those of GPT-2 and RoBERTa. Some files make it consume excessive time or memory, or abort
    the process: for untrusted files use ``worker.Cutter``.

    Args:
        folder: Folder of the tokenizer's files.

    Returns:
        The function; ``None`` if the folder has none of these files.

    Raises:
        SourceError: If the files cannot be used; the function raises it too if the tokenizer fails.
    """
    vocabulary = read_vocabulary(folder)
    return None if vocabulary is None else tokenizer_of(folder, vocabulary)


def tokenizer_of(folder: Path, vocabulary: Vocabulary) -> Callable[[str], Pieces] | None:
    """Build the function of ``load_tokenizer`` for a vocabulary that was read from ``folder``."""
    with rust(vocabulary.file):
        build = _BUILDERS.get(vocabulary.file)
        tokenizer = None if build is None else build(folder, vocabulary)
        if tokenizer is None:
            return None
        tokenizer.no_truncation()
        tokenizer.no_padding()

    def cut(text: str) -> Pieces:
        with rust(vocabulary.file):
            encoding = tokenizer.encode(SURROGATES.sub("\ufffd", text))
        pieces = zip(encoding.ids, encoding.tokens, strict=True)
        return Pieces(tuple(vocabulary.text(row, piece) for row, piece in pieces), tuple(encoding.ids))

    return cut


@contextmanager
def rust(what: str) -> Iterator[None]:
    """Convert exceptions of the Rust tokenizer to ``SourceError``, including panics."""
    try:
        yield
    except BaseException as error:
        # The library raises bare Exceptions, and panics are of a class that cannot be imported.
        if not (type(error) in (Exception, ValueError) or type(error).__name__ == "PanicException"):
            raise
        reason = display(one_line(str(error)[:400]), width=120)
        raise SourceError(f"the tokenizer in {what} failed ({reason}); give token ids instead of a text") from error


WORDPIECE = frozenset(f"{name}Tokenizer" for name in (*LIKE_BERT, "Funnel", "MPNet"))
"""Tokenizer classes that tokenise like BERT's."""


BYTE_LEVEL_BPE = frozenset(
    {"BartTokenizer", "GPT2Tokenizer", "LEDTokenizer", "LongformerTokenizer", "RobertaTokenizer"}
)
"""Tokenizer classes that tokenise like GPT-2's."""


def _class_in(folder: Path, allowed: frozenset[str]) -> bool:
    stated = read_tokenizer_json(folder / "tokenizer_config.json").get("tokenizer_class")
    return stated is None or (isinstance(stated, str) and stated.removesuffix("Fast") in allowed)


def ready_made(folder: Path, vocabulary: Vocabulary) -> Tokenizer:
    """Return the tokenizer of a tokenizer.json that was read."""
    from tokenizers import Tokenizer

    # Use the text that was checked; from_file would read the file again.
    tokenizer = Tokenizer.from_str(read_bounded(folder / vocabulary.file).decode())
    beside = takewhile(vocabulary.literal.__contains__, count(tokenizer.get_vocab_size()))
    tokenizer.add_special_tokens([vocabulary.literal[row] for row in beside])
    return tokenizer


def _wordpiece(folder: Path, vocabulary: Vocabulary) -> Tokenizer | None:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    ids = {piece: row for row, piece in sorted({**vocabulary.pieces, **vocabulary.literal}.items())}
    parts = {"cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]", **vocabulary.declared}
    first, last, unknown = (parts[name] for name in ("cls_token", "sep_token", "unk_token"))
    if not vocabulary.style.prefix or not {first, last, unknown} <= ids.keys() or not _class_in(folder, WORDPIECE):
        return None
    settings = read_tokenizer_json(folder / "tokenizer_config.json")
    strip = settings.get("strip_accents")
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token=unknown))
    tokenizer.normalizer = normalizers.BertNormalizer(
        lowercase=settings.get("do_lower_case", True) is not False,
        strip_accents=strip if isinstance(strip, bool) else None,
        handle_chinese_chars=settings.get("tokenize_chinese_chars", True) is not False,
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing((last, ids[last]), (first, ids[first]))
    _add_special(tokenizer, vocabulary, ids)
    return tokenizer


def _byte_level_bpe(folder: Path, vocabulary: Vocabulary) -> Tokenizer | None:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    style, merges = vocabulary.style, folder / "merges.txt"
    if not style.byte_level or style.suffix or not is_regular_file(merges) or not _class_in(folder, BYTE_LEVEL_BPE):
        return None
    ids = {piece: row for row, piece in sorted(vocabulary.pieces.items())}
    pairs = [line.split(" ") for line in read_lines(merges) if line and not line.startswith("#version")]
    if wrong := [pair for pair in pairs if len(pair) != 2]:
        raise SourceError(f"every line of merges.txt must hold two pieces; found {' '.join(wrong[0])!r:.60}")
    settings = read_tokenizer_json(folder / "tokenizer_config.json")
    tokenizer = Tokenizer(models.BPE(ids, [(left, right) for left, right in pairs], fuse_unk=False))
    spaced = settings.get("add_prefix_space") is True
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=spaced)
    parts = dict(vocabulary.declared)
    if not parts and [vocabulary.pieces.get(row) for row in range(3)] == ["<s>", "<pad>", "</s>"]:
        parts = {"cls_token": "<s>", "sep_token": "</s>"}  # fairseq's order: RoBERTa without its configuration
    ids |= {token: row for row, token in vocabulary.literal.items()}
    first, last = parts.get("cls_token"), parts.get("sep_token")
    if first in ids and last in ids and first is not None and last is not None:
        tokenizer.post_processor = processors.RobertaProcessing(
            (last, ids[last]), (first, ids[first]), add_prefix_space=spaced
        )
    elif settings.get("add_bos_token") is True and (start := parts.get("bos_token")) in ids and start is not None:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=[start, "$A"], special_tokens=[(start, ids[start])]
        )
    _add_special(tokenizer, vocabulary, ids)
    return tokenizer


def _add_special(tokenizer: Tokenizer, vocabulary: Vocabulary, ids: Mapping[str, int]) -> None:
    """Register special tokens, so that the tokenizer recognises them in text."""
    from tokenizers import AddedToken

    for token in sorted(ids, key=lambda token: ids[token]):
        if token in vocabulary.special:
            tokenizer.add_special_tokens([AddedToken(token, normalized=False)])


_BUILDERS: Mapping[str, Callable[[Path, Vocabulary], Tokenizer | None]] = {
    "tokenizer.json": ready_made,
    "vocab.txt": _wordpiece,
    "vocab.json": _byte_level_bpe,
}
