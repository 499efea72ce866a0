"""The vocabulary of one source, opened without its tables: what each id stands for, and what its files declare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ..checkpoints.access import Access, Visitor, local_path
from ..checkpoints.formats import ReadTensors
from ..checkpoints.hub.repository import open_hub
from ..checkpoints.limits import DEFAULT_LIMITS, Limits
from ..checkpoints.tokenizers.small_files import local_text
from ..checkpoints.tokenizers.vocabulary import Style, Vocabulary, style_by_share
from ..checkpoints.tokenizers.vocabulary_files import (
    has_vocabulary,
    read_vocabulary,
    vocabulary_file,
    vocabulary_of,
)
from ..checks.checked_source import SMALL_FILES, CheckedSource, open_source
from ..checks.tokenizer_files import MARKED, Tokens, read_tokens
from ..errors import HfposembError, InputError, OfflineError, RefusedError, SourceError
from ..models.architectures.config_values import part_config, whole_number
from ..models.given_labels import SavedTokenizer
from ..models.opened_model import Absent
from ..models.opening import small_file, tokenizer_folder
from ..tables.embeddings import Embeddings
from ..tables.source_parser import source_of
from ..tables.sources import BuiltinSource, HubSource, LocalSource, Source
from ..tables.table import TOKEN_CLASSES
from .tokenizer_rules import TokenizerRules, read_rules

if TYPE_CHECKING:
    from ..models.given_labels import Tokenizer


@dataclass(frozen=True, eq=False)
class OpenedTokenizer:
    """The vocabulary of one source.

    Attributes:
        name: Name of the source.
        file: File that states the vocabulary; "" if there is none.
        pieces: Pieces by id, as the file spells them.
        texts: Bytes of text by id, the same in all notations.
        fallback: Ids of the tokens that stand for one byte each, such as ``<0x0A>``.
        added: Ids of special and added tokens.
        special: Ids of special tokens.
        continued: Whether pieces inside a word are marked, as by ``##``, instead of those that begin one.
        roles: Ids of special tokens by role, such as ``eos``.
        rows: Rows of the token table; ``None`` if no file states them.
        template: The chat template, "" if there is none.
        marked: Tokens that the chat template writes.
        rules: What the tokenizer does to a text.
        reason: Why there is no vocabulary, "" if there is one.
    """

    name: str
    file: str = ""
    pieces: Mapping[int, str] = field(default_factory=dict)
    texts: Mapping[int, bytes] = field(default_factory=dict)
    fallback: frozenset[int] = frozenset()
    added: frozenset[int] = frozenset()
    special: frozenset[int] = frozenset()
    continued: bool = False
    roles: Mapping[str, int] = field(default_factory=dict)
    rows: int | None = None
    template: str = ""
    marked: frozenset[str] = frozenset()
    rules: TokenizerRules = field(default_factory=TokenizerRules)
    reason: str = ""

    @property
    def size(self) -> int:
        """Number of ids from 0 to the largest one."""
        return max(self.texts, default=-1) + 1


def open_tokenizer(
    source: str | Path | Source | Embeddings | Tokenizer,
    *,
    token: str | bool | Visitor | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> OpenedTokenizer:
    """Open the vocabulary of a source; of a checkpoint only the header is read.

    Args:
        source: What ``extract`` takes, what it returned, a folder or repository that has a tokenizer alone, or a
            tokenizer of transformers or tokenizers.
        token: Token for the Hub; ``None`` for the user's own, ``False`` for none, a ``Visitor`` for somebody else's.
        limits: Limits of what is read.

    Raises:
        SourceError: If the source cannot be read, or a file of its tokenizer violates its format.
        InputError: If the source can have no vocabulary, as a formula.
    """
    if hasattr(source, "save_pretrained") or hasattr(source, "to_str"):
        saved = SavedTokenizer(source)
        opened = open_tokenizer(LocalSource(saved()), token=token, limits=limits)
        return replace(opened, name=type(source).__name__)
    named = _named(source)
    if isinstance(named, BuiltinSource):
        raise InputError(f"{named} is a formula without a vocabulary; give a folder, a file or owner/name of a model")
    access = Access(token, limits)
    access.check(named)
    home, file = _one_file(named, access)
    try:
        if file is not None:
            return _opened(_without_tensors(named, access, home), home, file)
        return _opened(open_source(named, revision=None, token=token, limits=limits, full=True))
    except (OfflineError, RefusedError):  # the tokenizer's files would be asked for in vain, too
        raise
    except HfposembError as error:
        bare = _without_tensors(named, access, home)
        if bare is None:
            raise _without_vocabulary(named, home, error) from error
        return _opened(bare)


def open_alone(source: str | Path | Source, error: SourceError) -> tuple[OpenedTokenizer, Path]:
    """Return the vocabulary of a source that has no model, and the folder of its files.

    Args:
        source: The source.
        error: Why no model can be opened.

    Raises:
        SourceError: If it has no tokenizer either, a file of it violates its format, or its folder cuts texts by
            another one.
    """
    named, access = _named(source), Access(None, DEFAULT_LIMITS)
    home, file = _one_file(named, access)
    bare = _without_tensors(named, access, home)
    folder = None if bare is None else home if file is not None else bare.folder()
    first = None if folder is None else vocabulary_of(folder)
    if folder is None or first is None:
        raise _without_vocabulary(named, home, error)
    if file not in (None, first):
        raise SourceError(f"{folder} cuts texts by its {first}, not by {file}; give the folder")
    return _opened(bare, home if file is not None else None, file), folder


def _without_vocabulary(named: Source, home: Path | None, error: HfposembError) -> HfposembError:
    """Return the error for a source that has neither a model nor a vocabulary."""
    if home is None or not isinstance(error, SourceError):
        return error
    lacking = "has no file that states a vocabulary (tokenizer.json, tokenizer.model, vocab.txt, …)"
    return SourceError(f"{named} {lacking}, and none of a model: {error}")


def of_labels(source: Embeddings) -> OpenedTokenizer:
    """Return the vocabulary that the labels of an opened source's tokens state, without the rules of its tokenizer."""
    table = source.token
    labels = table.labels
    if not table.has_names:
        reason = labels.note or "its rows have no tokens, only numbers"
        return OpenedTokenizer(source.name, rows=len(table), reason=reason)
    kinds = [TOKEN_CLASSES[one] for one in labels.classes.tolist()]
    pieces = {row: text for row, (text, kind) in enumerate(zip(labels, kinds, strict=True)) if kind != "padding"}
    return OpenedTokenizer(
        source.name,
        "the labels of its rows",
        pieces,
        {row: text.encode(errors="surrogatepass") for row, text in pieces.items()},
        added=frozenset(row for row in pieces if kinds[row] == "special"),
        continued=any(text.startswith("##") for text in labels),
        rows=len(table),
    )


def _named(source: str | Path | Source | Embeddings | Tokenizer) -> Source:
    if isinstance(source, Embeddings):
        return _of_open(source)
    if isinstance(source, str | Path):
        return source_of(source)
    if isinstance(source, Source):
        return source
    raise InputError(
        f"a source must be a name, a path or an opened model; got {type(source).__name__}; of a live model give the "
        "folder or repository that it was loaded from"
    )


def _of_open(model: Embeddings) -> Source:
    """Return where an opened model was read, at the same commit. Raises ``InputError`` if it was read from no file."""
    kept = next((table.provenance for table in model.tables.values()), None)
    if kept is None or kept.file is None:
        raise InputError(f"{model.name} was read from no file; name the folder or repository that has its tokenizer")
    if kept.commit is None and (path := Path(model.name)).exists():
        return LocalSource(path)
    named = source_of(model.name)
    return named.at(kept.commit) if isinstance(named, HubSource) and kept.commit is not None else named


def _one_file(named: Source, access: Access) -> tuple[Path | None, str | None]:
    """Return the folder of a local source, and the file if it is one file of a tokenizer."""
    if not isinstance(named, LocalSource):
        return None, None
    path = local_path(named, access)
    if path.is_file():
        return path.absolute().parent, path.name if vocabulary_file([path.name]) else None
    return (path, None) if path.is_dir() else (None, None)


def _without_tensors(named: Source, access: Access, home: Path | None) -> CheckedSource | None:
    """Return a source whose checkpoint cannot be read; ``None`` if it has neither a tokenizer nor a configuration."""
    if isinstance(named, HubSource):
        there = open_hub(replace(named, revision=named.revision or "main"), access, tensors=False)
        if there.tokenizer_folder() is None and there.config() is None:
            return None
        nothing = Embeddings(there.name, {}, {}, there.config() or {})
        return CheckedSource(there.name, nothing, there, True, there.tokenizer_folder, there.json, there.text, bool)
    if home is None:
        return None
    small = partial(small_file, home, access.limits)
    config = small("config.json")
    if config is None and not has_vocabulary(tokenizer_folder(home)):
        return None
    nothing = Embeddings(str(named), {}, {}, config or {})
    texts = partial(local_text, home, access.limits.config_bytes)
    none = cast(ReadTensors, Absent(str(named)))
    return CheckedSource(str(named), nothing, none, True, partial(tokenizer_folder, home), small, texts, bool)


def _opened(source: CheckedSource | None, home: Path | None = None, file: str | None = None) -> OpenedTokenizer:
    if source is None:
        raise SourceError("the folder has no tokenizer")
    tokens = read_tokens(source)
    if home is not None:
        tokens = replace(tokens, vocabulary=read_vocabulary(home, file), findings=())
    for one in tokens.findings:
        if one.name == "tokenizer-unreadable":
            raise SourceError(one.message)
    rows = _rows(source)
    if tokens.vocabulary is None:
        reason = "no file of it states a vocabulary"
        return OpenedTokenizer(source.name, rows=rows, template=tokens.template, reason=reason)
    kind = source.stated("tokenizer_kind")
    if kind is not None:
        rules = TokenizerRules(engine=kind, merges=source.stated("merges"))
        roles = dict(source.stated("role_ids"))
    else:
        folder = home if home is not None else source.folder()
        assert folder is not None  # the vocabulary was read from it
        rules = read_rules(folder, tokens.vocabulary, source.json(SMALL_FILES[0]) or {})
        roles = _roles(source, tokens)
    return _read(source.name, tokens, rows, rules, roles)


def _rows(source: CheckedSource) -> int | None:
    table = source.table("token") if source.embeddings.tables else None
    if table is not None:
        return table.shape[0]
    return whole_number(part_config(source.config, "text"), "vocab_size", low=1)


def _roles(source: CheckedSource, tokens: Tokens) -> dict[str, int]:
    """Return the ids of the special tokens that the tokenizer declares, else those of the configuration."""
    ids = {token: row for row, token in tokens.by_id.items()}
    declared = {role: ids[token] for role, token in tokens.roles.items() if token in ids}
    for role in ("bos", "eos", "pad"):
        stated = whole_number(source.text, f"{role}_token_id", low=0)
        if role not in declared and stated is not None:
            declared[role] = stated
    return declared


def _read(
    name: str, tokens: Tokens, rows: int | None, rules: TokenizerRules, roles: Mapping[str, int]
) -> OpenedTokenizer:
    found = cast(Vocabulary, tokens.vocabulary)
    style = found.style if found.style != Style() else style_by_share(found.pieces.values())
    literal = {**found.literal, **tokens.added}
    texts, fallback = {}, set()
    for row, piece in found.pieces.items():
        texts[row] = style.raw(piece)
        if style.space and piece[:1] == "<" and style.fallback(piece) is not None:
            fallback.add(row)
    for row, token in literal.items():
        texts[row] = (token.replace(style.space, " ") if style.space else token).encode(errors="surrogatepass")
    pieces = {**found.pieces, **literal}
    special = frozenset(row for row, piece in pieces.items() if piece in found.special)
    template = tokens.template
    marked = {pieces[row] for row in (*literal, *special) if pieces[row].strip() and pieces[row] in template}
    marked |= set(MARKED.findall(template))
    continued = bool(style.prefix) and any(piece.startswith(style.prefix) for piece in found.pieces.values())
    return OpenedTokenizer(
        name,
        found.file,
        pieces,
        texts,
        frozenset(fallback - literal.keys()),
        frozenset(literal) | special,
        special,
        continued,
        {role: row for role, row in roles.items() if row in pieces},
        rows,
        template,
        frozenset(marked),
        rules,
    )
