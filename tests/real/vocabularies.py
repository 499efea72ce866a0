"""Vocabularies as large and as untidy as those of real models, from the text that every Python installation has."""

from __future__ import annotations

import json
import sysconfig
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from hfposemb import samples

TEXT_BYTES = 12_000_000
"""How much of the standard library is read, so that a vocabulary is trained in seconds."""

SCRIPTS = {
    "Latin": (0x61, 0x24F),
    "Greek": (0x3B1, 0x3C9),
    "Cyrillic": (0x430, 0x44F),
    "Armenian": (0x561, 0x586),
    "Hebrew": (0x5D0, 0x5EA),
    "Arabic": (0x627, 0x64A),
    "Syriac": (0x710, 0x72F),
    "Thaana": (0x780, 0x7A5),
    "Devanagari": (0x905, 0x939),
    "Bengali": (0x985, 0x9B9),
    "Gurmukhi": (0xA05, 0xA39),
    "Gujarati": (0xA85, 0xAB9),
    "Tamil": (0xB85, 0xBB9),
    "Telugu": (0xC05, 0xC39),
    "Kannada": (0xC85, 0xCB9),
    "Malayalam": (0xD05, 0xD39),
    "Sinhala": (0xD85, 0xDC6),
    "Thai": (0xE01, 0xE2E),
    "Lao": (0xE81, 0xEAE),
    "Tibetan": (0xF40, 0xF6C),
    "Myanmar": (0x1000, 0x102A),
    "Georgian": (0x10D0, 0x10F0),
    "Ethiopic": (0x1200, 0x1357),
    "Khmer": (0x1780, 0x17A2),
    "Hangul": (0xAC00, 0xD7A3),
    "Han": (0x4E00, 0x9FFF),
}
"""Where the letters of 26 scripts stand in Unicode."""


def text_at_hand() -> list[str]:
    """Return English and code: the standard library's sources and documentation, and the words of the samples."""
    root = Path(sysconfig.get_path("stdlib"))
    folder = Path(samples.__file__).parent
    words = (folder / "bert" / "vocab.txt").read_text("utf-8").split()
    own = " ".join(word for word in words if word.isalpha())
    found = [f"{own}\n{own.title()}\n"] * 3
    size = 0
    for path in sorted(root.rglob("*.py"), key=lambda one: (one.parent.name != "pydoc_data", str(one))):
        if {"site-packages", "test", "tests", "encodings"} & set(path.parts):
            continue
        found.append(path.read_text("utf-8", errors="replace"))
        size += len(found[-1])
        if size > TEXT_BYTES:
            break
    return found


def byte_level(size: int, special: Sequence[str], texts: Iterable[str], *, extra: int = 0) -> Tokenizer:
    """Train a byte-level BPE of ``size`` entries, the special ones last, as GPT-2's and Llama 3's are.

    What the text does not give is filled up with pieces that no merge reaches; ``extra`` are at least so many.
    """
    plain = size - len(special)
    tokenizer = Tokenizer(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=plain - extra, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator(texts, trainer)
    if len(vocabulary := tokenizer.get_vocab()) < plain:
        tokenizer = _filled(tokenizer, vocabulary, plain)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    assert tokenizer.get_vocab_size() == size, (tokenizer.get_vocab_size(), size)
    return tokenizer


def _filled(tokenizer: Tokenizer, vocabulary: dict[str, int], size: int) -> Tokenizer:
    """Return the tokenizer with more pieces in its vocabulary."""
    stated = json.loads(tokenizer.to_str())
    own = stated["model"]["vocab"]
    for word in _made_words(seed=1):
        if len(own) == size:
            break
        own.setdefault(_in_bytes(word), len(own))
    return Tokenizer.from_str(json.dumps(stated, ensure_ascii=False))


def _in_bytes(text: str) -> str:
    """Spell a text in the 256 characters that stand for bytes."""
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(text)[0][0]


def _made_words(*, seed: int) -> Iterator[str]:
    """Yield words of all scripts in turn, with and without a leading space, without end."""
    rng = np.random.default_rng(seed)
    alphabets = [_letters(first, last) for first, last in SCRIPTS.values()]
    while True:
        for letters in alphabets:
            chosen = rng.choice(np.asarray(letters), rng.integers(2, 7))
            word = "".join(chosen.tolist())
            yield from (f" {word}", word)


def _letters(first: int, last: int) -> list[str]:
    return [chr(code) for code in range(first, last + 1) if unicodedata.category(chr(code)).startswith("L")]
