"""What a tokenizer does to a text before and while it cuts it, in terms that can be compared."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..checkpoints.tokenizers.loading import BYTE_LEVEL_BPE, WORDPIECE
from ..checkpoints.tokenizers.small_files import Merges, is_regular_file, read_bounded, read_pipeline
from ..checkpoints.tokenizers.vocabulary import Vocabulary

_GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""What ``ByteLevel`` splits by, unless it is told not to (Radford et al. 2019, encoder.py)."""

_PARTS = ("normalizers", "pretokenizers", "processors")
_PAIRED = ("BertProcessing", "RobertaProcessing")
_OFFSETS_ONLY = ("trim_offsets",)


@dataclass(frozen=True)
class TokenizerRules:
    """The rules of a tokenizer, each ``None`` if its files do not state it.

    Attributes:
        model: Its model: BPE, WordPiece, Unigram.
        normaliser: The steps that change a text, in order.
        pre_tokeniser: The steps that split it, in order.
        around: The tokens that it adds before and after a text, which is written ``…``.
        options: Options of the model that change how it cuts.
        merges: The merges of a BPE, in order.
        scores: Digest of the scores of the pieces.
        engine: The names that llama.cpp has for model and pre-tokenizer.
    """

    model: str | None = None
    normaliser: tuple[str, ...] | None = None
    pre_tokeniser: tuple[str, ...] | None = None
    around: tuple[str, ...] | None = None
    options: tuple[str, ...] | None = None
    merges: Merges | None = None
    scores: str | None = None
    engine: tuple[str, str] | None = None


def read_rules(folder: Path, vocabulary: Vocabulary, settings: Mapping[str, Any]) -> TokenizerRules:
    """Return the rules that the files of a tokenizer state.

    Args:
        folder: Folder of the files.
        vocabulary: The vocabulary that was read from it.
        settings: Contents of tokenizer_config.json.

    Raises:
        SourceError: If a file violates its format.
    """
    stated = settings.get("tokenizer_class")
    kind = stated.removesuffix("Fast") if isinstance(stated, str) else None
    file = vocabulary.file
    if file == "tokenizer.json":
        return _of_tokenizer_json(folder / file, settings)
    if file == "vocab.txt" and vocabulary.style.prefix and (kind is None or kind in WORDPIECE):
        strip = settings.get("strip_accents")
        steps = {
            "type": "BertNormalizer",
            "lowercase": settings.get("do_lower_case", True) is not False,
            "strip_accents": strip if isinstance(strip, bool) else None,
            "handle_chinese_chars": settings.get("tokenize_chinese_chars", True) is not False,
            "clean_text": True,
        }
        return TokenizerRules("WordPiece", tuple(_steps(steps)), tuple(_steps({"type": "BertPreTokenizer"})))
    if file in ("vocab.json", "encoder.json"):
        merges = _merges_beside(folder)
        if (
            not vocabulary.style.byte_level
            or vocabulary.style.suffix
            or (kind is not None and kind not in BYTE_LEVEL_BPE)
        ):
            return TokenizerRules("BPE", merges=merges)
        before = {"type": "ByteLevel", "add_prefix_space": settings.get("add_prefix_space") is True}
        return TokenizerRules("BPE", (), tuple(_steps(before)), merges=merges)
    return TokenizerRules()


def _of_tokenizer_json(path: Path, settings: Mapping[str, Any]) -> TokenizerRules:
    found, merges = read_pipeline(path)
    model = found.get("model")
    model = model if isinstance(model, dict) else {}
    kind = model.get("type")
    vocab = model.get("vocab")
    if not isinstance(kind, str):  # files of old versions state no type
        kind = "Unigram" if isinstance(vocab, list) else "BPE" if "merges" in model else "WordPiece"
    normaliser = found.get("normalizer")
    if isinstance(normaliser, dict) and normaliser.get("type") == "BertNormalizer":
        # transformers lets the settings of a BERT replace this one.
        stated = settings.get("do_lower_case")
        normaliser = {**normaliser, **({"lowercase": stated} if isinstance(stated, bool) else {})}
    options = ("byte_fallback", "continuing_subword_prefix", "end_of_word_suffix")
    return TokenizerRules(
        kind,
        tuple(_steps(normaliser)),
        tuple(_steps(found.get("pre_tokenizer"))),
        _around(found.get("post_processor")),
        tuple(f"{name} {model[name]!r:.40}" for name in options if model.get(name)),
        merges if kind == "BPE" else None,
        _digest(vocab) if kind == "Unigram" else None,
    )


def _merges_beside(folder: Path) -> Merges | None:
    path = folder / "merges.txt"
    return Merges(path.name, read_bounded(path)) if is_regular_file(path) else None


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _around(part: Any) -> tuple[str, ...]:
    """Return the tokens that a post-processor adds to a single text, which is written ``…``."""
    for step in _single(part):
        if step.get("type") in _PAIRED:
            ends = [step.get(name) for name in ("cls", "sep")]
            first, last = (str(end[0]) if isinstance(end, list) and end else "?" for end in ends)
            return (first, "…", last)
        listed = step.get("single")
        if step.get("type") == "TemplateProcessing" and isinstance(listed, list):
            tokens = (one.get("SpecialToken") if isinstance(one, dict) else None for one in listed)
            return tuple(str(token.get("id")) if isinstance(token, dict) else "…" for token in tokens)
    return ("…",)


def _steps(part: Any) -> Iterator[str]:
    """Yield the steps of a normaliser or pre-tokenizer as JSON, those that do the same written alike."""
    for step in _single(part):
        yield from map(_written, _alike(step))


def _single(part: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the parts of a sequence in order, or the only part."""
    waiting = [part]
    while waiting:
        one = waiting.pop(0)
        if not isinstance(one, dict):
            continue
        inner = next((one[name] for name in _PARTS if isinstance(one.get(name), list)), None)
        if inner is not None:
            waiting = [*inner, *waiting]
            continue
        yield one


def _alike(step: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield what a step amounts to, with its defaults written out."""
    kind = step.get("type")
    plain = {name: value for name, value in step.items() if value is not None and name not in _OFFSETS_ONLY}
    if kind == "ByteLevel":
        if "use_regex" not in step and "add_prefix_space" not in step:
            yield {"type": kind}
            return
        if step.get("add_prefix_space") is True:
            yield {"type": "PrependSpace"}
        if step.get("use_regex") is not False:
            yield {"type": "Split", "pattern": {"Regex": _GPT2_PATTERN}, "behavior": "Isolated", "invert": False}
        yield {"type": kind}
    elif kind == "Metaspace":
        spaced = step.get("add_prefix_space")
        scheme = step.get("prepend_scheme") or ("never" if spaced is False else "always")
        whole = step.get("split") is not False
        yield {"type": kind, "replacement": step.get("replacement", "▁"), "prepend_scheme": scheme, "split": whole}
    elif kind == "BertNormalizer":
        lower = step.get("lowercase") is not False
        strip = step.get("strip_accents")
        yield {
            "type": kind,
            "lowercase": lower,
            "strip_accents": strip if isinstance(strip, bool) else lower,
            "handle_chinese_chars": step.get("handle_chinese_chars") is not False,
            "clean_text": step.get("clean_text") is not False,
        }
    else:
        yield plain


def _written(step: Mapping[str, Any]) -> str:
    text = json.dumps(step, sort_keys=True, ensure_ascii=False)
    return text if len(text) < _LONGEST else f"{step.get('type')} {_digest(step)[:12]}"


_LONGEST = 2_000
"""Characters of a step that are kept; a longer one, such as SentencePiece's map of characters, is kept as a digest."""
