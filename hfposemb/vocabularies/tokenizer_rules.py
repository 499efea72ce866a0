"""What a tokenizer does to a text before and while it cuts it, in terms that can be compared."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..checkpoints.tokenizers.loading import BYTE_LEVEL_BPE, WORDPIECE
from ..checkpoints.tokenizers.sentencepiece import read_settings
from ..checkpoints.tokenizers.small_files import (
    Merges,
    is_regular_file,
    read_bounded,
    read_pipeline,
    read_tokenizer_json,
)
from ..checkpoints.tokenizers.vocabulary import Style, Vocabulary, as_characters

_GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""What ``ByteLevel`` splits by, unless it is told not to (Radford et al. 2019, encoder.py)."""

_PARTS = ("normalizers", "pretokenizers", "processors", "decoders")
_PAIRED = ("BertProcessing", "RobertaProcessing")
_OFFSETS_ONLY = ("trim_offsets",)
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {"Punctuation": {"behavior": "Isolated"}, "FixedLength": {"length": 5}}
"""Fields that files may leave out, by the kind of step."""

_FLAGS = ("single_word", "lstrip", "rstrip", "normalized")


@dataclass(frozen=True)
class TokenizerRules:
    """The rules of a tokenizer, each ``None`` if its files do not state it.

    Attributes:
        model: Its model: BPE, WordPiece, Unigram.
        normaliser: The steps that change a text, in order.
        pre_tokeniser: The steps that split it, in order.
        around: The tokens that it adds before and after a text, which is written ``…``.
        around_pair: The same for two texts, ``A`` and ``B``, each with its type after a colon unless that is 0.
        decoder: The steps that make a text of pieces, in order.
        options: Options of the model that change how it cuts, those without effect left out.
        added: Flags of the added tokens, which are found before a text is cut, by their text.
        merges: The merges of a BPE, in order.
        scores: The scores of the pieces.
        own: What only files of one format state, the format first.
        engine: The names that llama.cpp has for model and pre-tokenizer.
    """

    model: str | None = None
    normaliser: tuple[str, ...] | None = None
    pre_tokeniser: tuple[str, ...] | None = None
    around: tuple[str, ...] | None = None
    around_pair: tuple[str, ...] | None = None
    decoder: tuple[str, ...] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    added: Mapping[str, Mapping[str, Any]] | None = None
    merges: Merges | None = None
    scores: Mapping[str, float] | None = None
    own: tuple[str, ...] | None = None
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
        return _of_tokenizer_json(folder / file, vocabulary, settings)
    if file == "tekken.json":
        config = read_tokenizer_json(folder / file).get("config")
        return TokenizerRules(own=(file, str(config.get("pattern") if isinstance(config, dict) else None)))
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
    if vocabulary.style.space and not file.endswith((".txt", ".json")):
        found = read_settings(folder / file)
        fallback = found.byte_fallback and bool(_fallbacks(vocabulary))
        own = ("SentencePiece", *found.normaliser)
        flags = {piece: {"kind": kind} for piece, kind in found.kinds.items()}
        return TokenizerRules(
            found.model, options={"byte_fallback": fallback}, added=flags, scores=found.scores, own=own
        )
    return TokenizerRules()


def _of_tokenizer_json(path: Path, vocabulary: Vocabulary, settings: Mapping[str, Any]) -> TokenizerRules:
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
    before, cut = tuple(_steps(normaliser)), tuple(_steps(found.get("pre_tokenizer")))
    around, pair = _around(found.get("post_processor"), vocabulary)
    return TokenizerRules(
        kind,
        before,
        cut,
        around,
        pair,
        tuple(_steps(found.get("decoder"))),
        _options(kind, model, vocabulary, any(_BYTE_LEVEL in step for step in (*before, *cut))),
        _added(found.get("added_tokens"), normalised=bool(before)),
        merges if kind == "BPE" else None,
        _scores(vocab) if kind == "Unigram" else None,
        ("tokenizer.json",),
    )


_BYTE_LEVEL = '"type": "ByteLevel"'


def _options(kind: str, model: Mapping[str, Any], vocabulary: Vocabulary, byte_level: bool) -> dict[str, Any]:
    """Return the options of a model, defaults written out, what never changes the cut of a text as its default."""
    bytes_there = _fallbacks(vocabulary)
    fallback = model.get("byte_fallback") is True and bool(bytes_there)
    written = {*vocabulary.pieces.values()} if byte_level else set()
    # Where each byte has a token, no text has an unknown one.
    whole = (fallback and len(bytes_there) == 256) or (
        byte_level and all(as_characters(bytes([one])) in written for one in range(256))
    )
    unknown = model.get("unk_token") or None
    if kind == "Unigram":
        row = model.get("unk_id")
        unknown = vocabulary.pieces.get(row) if isinstance(row, int) else None
    found = {"byte_fallback": fallback, "unk_token": None if whole else unknown}
    if kind == "BPE":
        found |= {"fuse_unk": found["unk_token"] is not None and model.get("fuse_unk") is True}
        found |= {"dropout": model.get("dropout") or None, "ignore_merges": model.get("ignore_merges") is True}
        found |= {name: model.get(name) or None for name in ("continuing_subword_prefix", "end_of_word_suffix")}
    elif kind == "WordPiece":
        found |= {name: model.get(name, default) for name, default in _WORD_PIECE.items()}
    return found


_WORD_PIECE: Mapping[str, Any] = {"continuing_subword_prefix": "##", "max_input_chars_per_word": 100}


def _fallbacks(vocabulary: Vocabulary) -> set[int]:
    """Return the bytes that have a token of their own, such as ``<0x0A>``."""
    found = (_SPACED.fallback(piece) for piece in vocabulary.pieces.values() if piece.startswith("<0x"))
    return {one for one in found if one is not None}


_SPACED = Style(space="▁")


def _added(listed: Any, *, normalised: bool) -> dict[str, dict[str, Any]]:
    """Return the flags of added tokens; whether they are looked for in a changed text matters where one is changed."""
    found: dict[str, dict[str, Any]] = {}
    for token in listed if isinstance(listed, list) else ():
        if isinstance(token, dict) and isinstance(token.get("content"), str):
            stated = {"normalized": token.get("special") is not True, **token}
            found[token["content"]] = {name: stated.get(name) is True for name in _FLAGS[: 3 + normalised]}
    return found


def _scores(vocab: Any) -> dict[str, float] | None:
    """Return the scores of pieces in the precision that SentencePiece keeps; ``None`` if they are none."""
    try:
        with np.errstate(over="ignore"):
            scores = np.array([one[1] for one in vocab], np.float64).astype(np.float32).tolist()
        return dict(zip((str(one[0]) for one in vocab), scores, strict=True))
    except (TypeError, ValueError, LookupError, OverflowError):
        return None


def _merges_beside(folder: Path) -> Merges | None:
    path = folder / "merges.txt"
    return Merges(path.name, read_bounded(path)) if is_regular_file(path) else None


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _around(part: Any, vocabulary: Vocabulary) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what a post-processor makes of a text, which is written ``…``, and of two."""
    for step in _single(part):
        if (kind := step.get("type")) in _PAIRED:
            ends = (step.get(name) for name in ("cls", "sep"))
            first, last = (
                _named(end[0], end[1], vocabulary) if isinstance(end, list) and len(end) == 2 else "?" for end in ends
            )
            between = (last, "B:1", f"{last}:1") if kind == "BertProcessing" else (last, last, "B", last)
            return (first, "…", last), (first, "A", *between)
        if kind == "TemplateProcessing":
            given = step.get("special_tokens")
            known = given if isinstance(given, dict) else {}
            single, pair = (tuple(_template(step.get(name), known, vocabulary)) for name in ("single", "pair"))
            return tuple("…" if one == "A" else one for one in single), pair
    return ("…",), ("A", "B:1")


def _template(listed: Any, known: Mapping[str, Any], vocabulary: Vocabulary) -> Iterator[str]:
    """Yield texts and tokens of a template, as ``_around`` writes them."""
    for one in listed if isinstance(listed, list) else ():
        kind, said = next(iter(one.items()), ("", None)) if isinstance(one, dict) else ("", None)
        if not isinstance(said, dict):
            yield "?"
            continue
        name, after = str(said.get("id")), f":{said['type_id']}" if said.get("type_id") else ""
        token = known.get(name)
        ids = token.get("ids") if kind == "SpecialToken" and isinstance(token, dict) else None
        if not isinstance(ids, list):
            yield name + after
            continue
        tokens = token.get("tokens") if isinstance(token, dict) else None
        names = tokens if isinstance(tokens, list) and len(tokens) == len(ids) else [name] * len(ids)
        yield from (_named(each, row, vocabulary) + after for each, row in zip(names, ids, strict=True))


def _named(name: Any, row: Any, vocabulary: Vocabulary) -> str:
    """Return a token that is added by its id, the id after it if that belongs to another token."""
    own = vocabulary.literal.get(row, vocabulary.pieces.get(row)) if isinstance(row, int) else None
    return str(name) if name == own else f"{name} ({row})"


def _steps(part: Any) -> Iterator[str]:
    """Yield the steps of a normaliser, pre-tokenizer or decoder as JSON, those that do the same written alike."""
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
    plain = {**_DEFAULTS.get(str(kind), {}), **plain}
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
