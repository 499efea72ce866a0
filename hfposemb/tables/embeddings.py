"""Tables and position encodings of one source, read on first use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from ..errors import HfposembError, InputError, MissingTableError
from ..guesses import Answering, did_you_mean, several
from ..lazy_attributes import lazy_attribute
from ..text import one_line, written
from .encoding_base import shortened
from .encodings import PositionEncoding
from .output_head import OutputHead, Tying
from .table import EmbeddingTable, Labels, Provenance, Vectors, table_of
from .tabular import card

if TYPE_CHECKING:
    from typing import TypeAlias

    import pandas
    from numpy.typing import NDArray

    from ..progress import Traffic
    from .attention import Attention, LogitSplit
    from .inputs import Given, InputRecipe, Inputs, Pieces
    from .lookups.lookup_table import LookedUp, LookupTable
    from .token_marks import TokenMarks

    Numbers: TypeAlias = NDArray[np.floating[Any] | np.integer[Any]] | pandas.DataFrame | Sequence[Sequence[float]]


@dataclass(frozen=True, eq=False)
class LazyMapping(Mapping[str, Any]):
    """Mapping whose values are made on first access; its keys are known from the start."""

    makers: Mapping[str, Callable[[], Any]] = field(repr=False)
    made: dict[str, Any] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        """Show the values that are made, and the keys of the others."""
        shown = dict.fromkeys(self, "…") | {key: repr(value) for key, value in self.made.items()}
        return f"{{{', '.join(f'{key!r}: {value}' for key, value in shown.items())}}}"

    if not TYPE_CHECKING:  # type checkers know the attributes

        def __getattr__(self, name: str) -> Any:
            """Raise ``AttributeError``: the values have the attributes."""
            if name.startswith("_"):
                raise AttributeError(name, name=name, obj=self)
            said = f"this maps {', '.join(self) or 'nothing'} to values and has no attribute {name!r}"
            said += (
                f"; write [{name!r}]" if name in self else "".join(f"; write [{key!r}].{name}" for key in [*self][:1])
            )
            raise AttributeError(said, name=name, obj=self)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle all values, made now if necessary; where a maker fails, pickle the maker instead."""
        makers: dict[str, Callable[[], Any]] = {}
        for key, maker in self.makers.items():
            try:
                makers[key] = partial(_itself, self[key])
            except HfposembError:
                makers[key] = maker
        return LazyMapping, (makers,)

    def __getitem__(self, key: str) -> Any:
        if key not in self.makers:
            raise KeyError(f"there is no {key!r:.40}, only {', '.join(self) or 'nothing'}")
        if key not in self.made:
            self.made[key] = self.makers[key]()
        return self.made[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.makers)

    def __len__(self) -> int:
        return len(self.makers)


def _itself(value: Any) -> Any:
    return value


@dataclass(frozen=True, eq=False)
class Embeddings(Answering):
    """Tables and position encodings of one source.

    ``extract`` and ``from_arrays`` make them.

    Attributes:
        name: Name of the source.
        tables: All tables by role and part: ``token``, ``token_type``, ``position``, and for models of several parts
            ``encoder.position``, ``decoder.position``.
        positions: Position encodings by part.
        config: The model's configuration, or the parameters of a built-in.
        absent: Why a role is missing; part of the error that accessing it raises.
        notes: Remarks about how the source was read.
        recipe: Makes the recipe of the first layer's input; ``None`` if there is none.
        traffic: Requests and bytes fetched so far, for sources of the Hub.
        attention: Makes the parameters of the first layer's attention; ``None`` if unknown.
        fed: Parts that the rows of ``token`` enter, the first one first: encoder and decoder for BART, the decoder
            alone for Whisper.
        heads: Output heads: ``head``, or ``decoder.head`` if encoder and decoder have a token table each.
        ties: How each head is tied, from names and configuration; a head's own ``tied`` is the same.
        marks: Reads which tokens are reserved, added or used by the chat template; ``None`` without a tokenizer.
        lookups: Tables that a model looks up beside its word table: ``ngram`` by n-grams of tokens, ``per_layer`` by
            tokens for every layer; further ones of other layers as ``layer5.ngram``.
        cutter: Makes what cuts a text into tokens; ``None`` if there is no tokenizer.
        made_from: Reads which model the source's files say that it was made from; ``None`` if it has no files.

    >>> import hfposemb as hpe
    >>> bert = hpe.extract("sample:bert")
    >>> bert.token.shape, bert.position.table.shape
    ((4000, 128), (256, 128))
    """

    name: str
    tables: Mapping[str, EmbeddingTable]
    positions: Mapping[str, PositionEncoding]
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    absent: Mapping[str, str] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()
    recipe: Callable[[], InputRecipe] | None = field(default=None, repr=False)
    traffic: Traffic | None = field(default=None, repr=False)
    attention: Callable[[], Attention] | None = field(default=None, repr=False)
    fed: tuple[str, ...] = field(default=(), repr=False)
    heads: Mapping[str, OutputHead] = field(default_factory=dict, repr=False)
    ties: Mapping[str, Tying] = field(default_factory=dict, repr=False)
    marks: Callable[[], TokenMarks] | None = field(default=None, repr=False)
    lookups: Mapping[str, LookupTable] = field(default_factory=dict, repr=False)
    cutter: Callable[[], Callable[[str], Pieces] | None] | None = field(default=None, repr=False)
    made_from: Callable[[], str | None] | None = field(default=None, repr=False)

    _is_one: ClassVar[bool] = True  # for ``several``
    _made: ClassVar[str] = "hpe.extract('owner/name') or hpe.from_arrays(token=vectors)"

    def __post_init__(self) -> None:
        """Let ``positions`` say what it is, to those who mean ``position``."""
        if not isinstance(self.positions, LazyMapping):
            makers = {part: partial(_itself, one) for part, one in self.positions.items()}
            object.__setattr__(self, "positions", LazyMapping(makers, dict(self.positions)))

    def _names(self) -> dict[str, str]:
        tables = self.__dict__.get("tables", ())
        table = "model.position.table" if "token" not in tables and "position" in tables else "model.token"
        return {"table": table, "source": "model"}

    def __getitem__(self, role: str) -> EmbeddingTable:
        """Return the table of a role. Raises ``InputError`` for rows, which only its tables have."""
        if isinstance(role, str) and role in (*self.tables, *self.absent):
            return self._table(role)
        said = f"{self.name} has the tables {', '.join(self.tables)}"
        if isinstance(role, str) and (near := did_you_mean(role, self.tables)):
            raise InputError(f"{said} and no {role!r:.40}{near}")
        raise InputError(f"{said}; write {self._names()['table']}[{role!r:.40}] for a row")

    def __iter__(self) -> NoReturn:
        """Raise ``TypeError``, which says what has rows."""
        with_rows = self._names()["table"]
        raise TypeError(f"{self.name} has the tables {', '.join(self.tables)}; write {with_rows} for one with rows")

    def __contains__(self, key: object) -> bool:
        """Raise ``TypeError``, as ``__iter__`` does."""
        return self.__iter__()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Vectors:
        """Raise ``TypeError``; NumPy would otherwise make an array of one object."""
        return self.__iter__()

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the fields but no cached result; see ``EmbeddingTable`` for how tables are pickled."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def __repr__(self) -> str:
        """Name the source and its tables without reading them."""
        return f"Embeddings({self.name!r}, tables: {', '.join((*self.tables, *self.lookups)) or 'none'})"

    def _repr_html_(self) -> str:
        tables = [(role, f"{table.size}, {table.origin}") for role, table in self.tables.items()]
        positions = [(f"{part} is", one.kind) for part, one in self.positions.items()]
        read = [("read", str(self.traffic))] if self.traffic is not None else []
        return card(self.name, [*tables, *positions, *read, *(("note", note) for note in self.notes)])

    def _table(self, role: str) -> EmbeddingTable:
        if role in self.tables:
            return self.tables[role]
        reason = self.absent.get(role, _known(tuple(self.tables)))
        raise MissingTableError(f"{self.name} has no {role.replace('_', ' ')} table: {reason}", reason=reason)

    @property
    def token(self) -> EmbeddingTable:
        """Token table [vocabulary, width]. Raises ``MissingTableError`` if there is none."""
        return self._table("token")

    @property
    def head(self) -> OutputHead:
        """Output head [vocabulary, width]; the decoder's if encoder and decoder have a token table each.

        ``head.tied`` says whether it is the token table. Raises ``MissingTableError`` if there is none: base models
        have no head, and classifiers and the transforms of masked models are not output heads.

        >>> import hfposemb as hpe
        >>> print(hpe.extract("sample:gpt2").head.tied)
        tied (absent): no head is stored, and tie_word_embeddings is true
        """
        for key in ("head", "decoder.head"):
            if key in self.heads:
                return self.heads[key]
        reason = self.absent.get("head") or _known((*self.tables, *self.heads))
        raise MissingTableError(f"{self.name} has no output head: {reason}", reason=reason)

    @lazy_attribute
    def token_marks(self) -> TokenMarks:
        """Reserved and added tokens, and those that the chat template writes; none without a tokenizer."""
        from .token_marks import TokenMarks

        return TokenMarks() if self.marks is None else self.marks()

    @property
    def token_type(self) -> EmbeddingTable:
        """Token-type (segment) table [types, width]. Raises ``MissingTableError`` if there is none."""
        return self._table("token_type")

    @property
    def position(self) -> PositionEncoding:
        """Position encoding of the part whose first layer the rows of ``token`` enter.

        The encoder's if they enter both encoder and decoder; the first part's if there are no tokens. Raises
        ``MissingTableError`` if there is none.
        """
        if not self.positions:
            reason = self.absent.get("position", "no positions were found")
            raise MissingTableError(f"no position encoding was found in {self.name}: {reason}", reason=reason)
        return self.positions[next(iter(self.positions))]

    def part(self, name: str) -> Embeddings:
        """Return one part of a model, such as ``decoder``, with its own ``position`` and ``token``.

        There is no token table if no tokens enter the part. Raises ``InputError`` for a part without positions.
        """
        if name not in self.positions:
            known = ", ".join(self.positions) or "none"
            raise InputError(f"{self.name} has no part {name!r} with positions; its parts: {known}")
        if name == next(iter(self.positions)):
            return self
        own = f"{name}.token"
        tables: Mapping[str, EmbeddingTable] = self.tables
        absent = {**self.absent, "inputs": f"it is computed for the part {next(iter(self.positions))!r} only"}
        if own in self.tables or name not in self.fed:
            makers = {
                role: partial(self.tables.__getitem__, role) for role in self.tables if role not in ("token", own)
            }
            if own in self.tables:
                makers = {"token": partial(self.tables.__getitem__, own), **makers}
            else:
                absent["token"] = f"words enter its {' and its '.join(self.fed) or 'other parts'}, not its {name}"
            tables = LazyMapping(makers)
        others = [one for one in self.positions if one != name]
        positions = LazyMapping({one: partial(self.positions.__getitem__, one) for one in (name, *others)})
        fed = (name,) if "token" in tables else ()
        found = replace(self, tables=tables, positions=positions, absent=absent, recipe=None, attention=None, fed=fed)
        if f"{name}.head" not in self.heads:
            return found
        keys = {key: key.removeprefix(f"{name}.") for key in self.heads if key != "head"}
        heads = LazyMapping({new: partial(self.heads.__getitem__, key) for key, new in keys.items()})
        return replace(found, heads=heads, ties={new: self.ties[key] for key, new in keys.items()})

    def with_rows(self, rows: Sequence[int | str]) -> Embeddings:
        """Return the same source with some rows of its token table and output head, in the given order.

        Only these rows are read, when they are first used; positions and inputs stay as they are.

        Args:
            rows: Labels or row numbers of tokens.

        Raises:
            MissingTableError: If there is no token table.
            InputError: If there is no such row.

        >>> import hfposemb as hpe
        >>> hpe.extract("sample:gpt2").with_rows(["king", 7]).token.shape
        (2, 128)
        """
        token = self.token.pick(rows)
        heads = {}
        for key, head in self.heads.items():
            if len(head) == len(self.token):
                heads[key] = replace(head.pick([self.token.row(one) for one in rows]), token=token)
        tables = LazyMapping(
            {
                role: partial(_itself, token) if role == "token" else partial(self.tables.get, role)
                for role in self.tables
            }
        )
        return replace(self, tables=tables, heads=heads, ties={key: self.ties[key] for key in heads})

    @lazy_attribute
    def _recipe(self) -> InputRecipe:
        if self.recipe is None:
            reason = self.absent.get("inputs", "it is not a model")
            raise MissingTableError(f"{self.name} has no computable first-layer input: {reason}", reason=reason)
        return self.recipe()

    def inputs(self, text_or_ids: Given) -> Inputs:
        """Compute the first layer's input: token, type and position vectors, their sum, and the normalised sum.

        Args:
            text_or_ids: A text or its token ids; or a batch, a list of texts or of lists of ids. Shorter texts of a
                batch are padded on the right, see ``Inputs.mask``.

        Raises:
            MissingTableError: If the source has no recipe for its first layer's input.
            InputError: For an empty text, ids without a row, and texts longer than the position table.

        >>> import hfposemb as hpe
        >>> hpe.extract("sample:gpt2").inputs([5, 6, 7]).normed.shape
        (3, 128)
        """
        from .inputs import feed

        return feed(self._recipe, text_or_ids)

    def lookup(self, key: str) -> LookupTable:
        """Return a table beside the word table by its key in ``lookups``. Raises ``MissingTableError`` for others."""
        if (found := self.lookups.get(key.replace("-", "_"))) is not None:
            return found
        known = f"it has {', '.join(self.lookups)}" if self.lookups else "it has none beside its word table"
        raise MissingTableError(f"{self.name} has no table {key!r:.40}: {known}", reason=known)

    @lazy_attribute
    def cut(self) -> Callable[[str], Pieces] | None:
        """What cuts a text into tokens; ``None`` without a tokenizer."""
        return None if self.cutter is None else self.cutter()

    def tokenize(self, text: str) -> Pieces:
        """Return the pieces of a text and their ids, special tokens included.

        Raises:
            InputError: If the source has no tokenizer.

        Examples:
            >>> import hfposemb as hpe
            >>> hpe.extract("sample:minilm").tokenize("NLP").texts
            ('[CLS]', 'nl', '##p', '[SEP]')
        """
        if self.cut is None:
            raise InputError(f"{self.name} has no tokenizer that can be used here")
        return self.cut(text)

    def looked_up(self, text_or_ids: str | Sequence[int], table: str = "ngram") -> LookedUp:
        """Return which rows of a table beside the word table a text looks up; none of them is read.

        Args:
            text_or_ids: A text or its token ids.
            table: Key of the table in ``lookups``.

        Raises:
            MissingTableError: If there is no such table.
            InputError: If it is not known what looks its rows up, for an empty text, and for ids without a row.

        >>> import hfposemb as hpe
        >>> hpe.extract("sample:gpt2").looked_up([5, 6, 7])
        Traceback (most recent call last):
        hfposemb.errors.MissingTableError: sample:gpt2 has no table 'ngram': it has none beside its word table
        """
        from .lookups.lookup_table import read_rows

        return read_rows(self.lookup(table), text_or_ids, self.cut if isinstance(text_or_ids, str) else None)

    @lazy_attribute
    def _attention(self) -> Attention:
        if self.attention is None:
            reason = self.absent.get("inputs", "it is not a model")
            raise MissingTableError(f"{self.name} has no first-layer logits to decompose: {reason}", reason=reason)
        return self.attention()

    def logits(self, text_or_ids: Given) -> LogitSplit:
        """Compute the first layer's attention logits of one text, decomposed into the contributions of each part.

        Reads W_Q, W_K and the norms of that layer.

        Args:
            text_or_ids: One text or its token ids.

        Raises:
            MissingTableError: If the first layer's attention is not known.
            InputError: As for ``inputs``, for a batch, and for texts that are too long.

        >>> import hfposemb as hpe
        >>> split = hpe.extract("sample:gpt2").logits([5, 6, 7])
        >>> split.term("word · position").shape == split.total.shape
        True
        """
        from .attention import split

        return split(self._recipe, self._attention, text_or_ids)


def _known(tables: Sequence[str]) -> str:
    """State which tables a source has, as the reason why it lacks another."""
    if len(tables) == 1:
        return f"its only table is {tables[0]}"
    return f"its tables are {', '.join(tables)}" if tables else "it has no tables"


def stack(source: Embeddings) -> str:
    """Return the name of the part that ``source.position`` belongs to, or "" if there is only one."""
    return next(iter(source.positions)) if len(source.positions) > 1 else ""


def from_arrays(
    token: Numbers | None = None,
    *,
    position: Numbers | None = None,
    head: Numbers | None = None,
    labels: Sequence[str] | None = None,
    name: str = "arrays",
) -> Embeddings:
    """Make an ``Embeddings`` from vectors in memory.

    Args:
        token: Token vectors [rows, width], as an array, nested lists, a DataFrame, a tensor or an ``nn.Embedding``. The
            index of a DataFrame, such as ``EmbeddingTable.to_frame()`` returns, names the tokens unless ``labels``
            does.
        position: Position vectors [rows, width], of the same width as ``token``.
        head: Vectors of an output head of its own, one row for each row of ``token``.
        labels: One label for each row of ``token``.
        name: Name of the source.

    Raises:
        InputError: For arrays that are not two-dimensional or differ in width, and labels that do not match the token
            rows.

    >>> import hfposemb as hpe
    >>> mine = hpe.from_arrays(token=[[1.0, 0.0], [0.0, 1.0]], labels=["yes", "no"])
    >>> mine.token["no"].tolist()
    [0.0, 1.0]
    """
    from .encodings import Absolute
    from .inputs import InputRecipe

    given = {role: vectors for role, vectors in (("token", token), ("position", position)) if vectors is not None}
    if not given:
        raise InputError("from_arrays needs token vectors, position vectors or both")
    if labels is None and (frame := _frame(token)) is not None:
        labels = list(map(str, frame.index))
    names = None if labels is None else _given_labels(labels)
    tables: dict[str, EmbeddingTable] = {}
    for role, vectors in given.items():
        named = partial(_itself, names) if role == "token" and names is not None else None
        tables[role] = table_of(_array(role, vectors), name=f"{name} {role}s", provenance=Provenance(name), named=named)
    widths = {role: table.shape[1] for role, table in tables.items()}
    if len(set(widths.values())) > 1:
        raise InputError(f"token and position vectors must have the same width; got {widths}")
    if names is not None and ("token" not in tables or len(names) != tables["token"].shape[0]):
        rows = tables["token"].shape[0] if "token" in tables else 0
        raise InputError(f"{len(names)} labels were given for {rows} token vectors; give one label per vector")
    absent = dict.fromkeys(("token", "token_type", "position", "head"), "it was not given to from_arrays")
    positions = {"position": Absolute(tables["position"])} if "position" in tables else {}
    recipe = partial(InputRecipe, tables["token"], tables.get("position")) if "token" in tables else None
    heads = {} if head is None else {"head": _given_head(_array("head", head), tables.get("token"), name)}
    ties = {key: one.tied for key, one in heads.items()}
    return Embeddings(name, tables, positions, absent=absent, recipe=recipe, heads=heads, ties=ties)


def _given_labels(labels: Sequence[str]) -> Labels:
    names = () if isinstance(labels, Mapping) else tuple(several(labels))
    if isinstance(labels, Mapping):
        raise InputError(f"labels must be one text for each row of token, as a list; got {type(labels).__name__}")
    if others := [one for one in names if not isinstance(one, str)]:
        raise InputError(f"labels must be texts; one of them is {written(others[0])}")
    return Labels(names, names, np.zeros(len(names), np.uint8))


def _given_head(vectors: Vectors, token: EmbeddingTable | None, name: str) -> OutputHead:
    """Return a head given to ``from_arrays``. Raises ``InputError`` if it does not fit the token rows."""
    if token is None or len(vectors) != token.shape[0]:
        rows = 0 if token is None else token.shape[0]
        raise InputError(f"head must have one row for each of the {rows:,} token vectors; it has {len(vectors):,}")
    base = table_of(vectors, name=f"{name} head", provenance=Provenance(name), named=partial(getattr, token, "labels"))
    tied = Tying(False, "own tensor", "token vectors and head were given separately")
    return OutputHead(
        base.name, base.shape, base.dtype, base.provenance, base.reader, base.named, tied=tied, token=token
    )


def _frame(vectors: object) -> Any:
    """Return ``vectors`` if it is a DataFrame, else ``None``; duck-typed, to avoid importing pandas."""
    return vectors if hasattr(vectors, "to_numpy") and hasattr(vectors, "index") else None


def _array(role: str, vectors: Numbers) -> Vectors:
    if (frame := _frame(vectors)) is not None:
        vectors = frame.to_numpy()
    layer: Any = vectors
    vectors = getattr(vectors, "weight", vectors)  # of torch.nn.Embedding or Linear
    try:
        if callable(detach := getattr(vectors, "detach", None)):
            tensor = detach().cpu()
            tensor = tensor.float() if tensor.dtype.itemsize < 4 else tensor
            made = shortened(np.array(np.asarray(tensor)), layer)
        else:
            made = np.array(vectors, dtype=None if isinstance(vectors, np.ndarray) else np.float64)
        if made.ndim == 3 and 1 in made.shape[:2]:  # an axis of length 1 before or between the two, as in vision models
            return made.reshape(made[0].shape if len(made) == 1 else made[:, 0].shape)
        return made
    except Exception as error:
        said = one_line(str(error), width=200)
        raise InputError(f"{role} must be a table of numbers with rows of one length: {said}") from error
