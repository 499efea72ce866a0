"""Answers to what people write: names of other libraries, from transformers to umap, and one value for several."""

from __future__ import annotations

import os
from abc import ABCMeta
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from .errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence


def several(given: Any) -> Sequence[Any]:
    """Return one value or several as a sequence.

    A text, a path, a number, and a source, table, encoding or model are one; anything else that can be iterated is
    several.

    Args:
        given: One value, or several as a list, an array, a generator or another iterable.

    >>> from hfposemb.guesses import several
    >>> several("king"), several(word for word in ("king", "queen"))
    (['king'], ['king', 'queen'])
    """
    if isinstance(given, (list, tuple, range)) or getattr(given, "ndim", 0) == 1:
        return given  # type: ignore[no-any-return]  # also long arrays, which lists would slow down
    if isinstance(given, (str, bytes, os.PathLike)) or hasattr(type(given), "_is_one") or hasattr(given, "state_dict"):
        return [given]
    try:
        each = iter(given)
    except TypeError:
        return [given]
    return list(each)


@cache
def _tried(of: str) -> dict[str, Any]:
    """Return a table of ``guesses.toml``, which is read when somebody guesses."""
    import tomllib
    from pathlib import Path

    found: dict[str, Any] = tomllib.loads(Path(__file__).with_name("guesses.toml").read_text(encoding="utf-8"))[of]
    return found


def _plain(name: str) -> str:
    """Write a name in one case, without separators, in British spelling and in the singular."""
    text = name.lower().replace("_", "").replace("-", "").replace(" ", "")
    for other, ours in (
        ("neighbor", "neighbour"),
        ("centered", "centred"),
        ("center", "centre"),
        ("color", "colour"),
        ("ized", "ised"),
    ):
        text = text.replace(other, ours)
    return (text.removeprefix("get") or text).removesuffix("s") or name


def meant(name: str, known: Iterable[str]) -> list[str]:
    """Return which of the known names somebody means by another, the likeliest first, at most three.

    >>> from hfposemb.guesses import meant
    >>> meant("top_k", ["k", "metric"]), meant("Neighbors", ["norms", "neighbours"]), meant("xyz", ["k"])
    (['k'], ['neighbours'], [])
    """
    plain: dict[str, str] = {}
    for one in known:
        plain.setdefault(_plain(one), one)
    asked = _plain(name)
    if asked in plain:
        return [plain[asked]]
    found = [one for one in plain.values() if asked in _synonyms(one)]
    return (found or _close(asked, plain))[:3]


def _synonyms(name: str) -> set[str]:
    return {_plain(one) for one in _tried("synonyms").get(name, "").split()}


def _close(asked: str, plain: dict[str, str], *, n: int = 3, cutoff: float = 0.6) -> list[str]:
    from difflib import get_close_matches

    return [plain[one] for one in get_close_matches(asked, plain, n=n, cutoff=cutoff)]


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return the end of an error about an unknown name: "" or “; did you mean …?”."""
    found = meant(str(name)[:80], known)
    return f"; did you mean {' or '.join(found)}?" if found else ""


def unknown_choice(argument: str, given: object, choices: Sequence[str]) -> InputError:
    """Return the error for a value that is none of the choices of an argument."""
    *most, last = (f'"{one}"' for one in choices)
    return InputError(
        f"{argument} must be {', '.join(most)} or {last}; got {given!r:.40}{did_you_mean(given, choices)}"
    )


def unknown_attribute(owner: object, name: str, known: Iterable[str], *, what: str, **named: str) -> AttributeError:
    """Return the error for an attribute that does not exist, with what to write instead.

    Args:
        owner: Object that was asked.
        name: The attribute.
        known: Names of its attributes.
        what: Start of the message, such as ``module 'hfposemb'``.
        named: What ``{table}`` and ``{source}`` are called in the answer.
    """
    said = f"{what} has no attribute {name!r}"
    if not name.startswith("_"):  # others are asked for by machines
        said += _answer(name, {_plain(one): one for one in known}, type(owner), named)
    return AttributeError(said, name=name, obj=owner)


def _answer(name: str, plain: dict[str, str], owner: type, named: dict[str, str]) -> str:
    import sys

    asked = _plain(name)
    if asked in plain:
        return f"; did you mean {plain[asked]}?"
    words: dict[str, str] = {}
    of_table = bool(named) and "." not in named["table"].removeprefix("model.position.")
    if not named:
        answers = [pair for kind in owner.__mro__ for pair in _tried("of_results").get(kind.__name__, {}).items()]
    else:  # a table is asked for what is its own
        answers = sorted(_tried("answers").items(), key=lambda pair: pair[0].startswith("{table}") != of_table)
    for answer, names in answers:
        for one in names.split():
            words.setdefault(_plain(one), answer)
    known = words.get(asked, "")
    if of_table and "{table}" not in known and "show" not in known and (found := _elsewhere(name)):
        return f"; write {named['table']}{found}"
    if known:
        known = known.format(**named)
        return f"; write {known}" if named else f"; did you mean {known}?"
    if name in sys.modules[__package__].__all__:
        return f"; write hpe.{name}(…)"
    close = _close(asked, {**words, **plain}, cutoff=0.75)
    if not close and named:  # the verb of plot_positions, the noun of run_app
        close = [words[part] for part in map(_plain, name.split("_")) if len(part) > 2 and part in words][:1]
    if close:
        return f"; did you mean {' or '.join(one.format(**named) for one in list(dict.fromkeys(close))[:2])}?"
    return "; dir() lists its attributes" if len(plain) > _LISTED else f"; it has {', '.join(plain.values())}"


_LISTED = 16
"""Most attributes that an error lists."""


def _elsewhere(name: str) -> str:
    """Return how a table has an attribute of NumPy's arrays or of data frames; "" for others."""
    import sys

    kinds = {".vectors": ("numpy", "ndarray"), ".to_frame()": ("pandas", "DataFrame")}
    for how, (module, kind) in kinds.items():
        if hasattr(getattr(sys.modules.get(module), kind, None), name):
            return f"{how}.{name}"
    return ""


class _AnsweringType(ABCMeta):
    """Class of classes that answer, too: to an attribute that they do not have, and to one value that is no field."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            what = f"class {cls.__name__!r}"
            if name in cls.__annotations__:  # asked for each field by dataclass(), which needs no guess
                raise AttributeError(f"{what} has no attribute {name!r}; its objects have", name=name, obj=cls)
            known = [one for one in type.__dir__(cls) if not one.startswith("_")]
            raise unknown_attribute(cls, name, known, what=what, table="model.token", source="model")

        def __call__(cls, *given: Any, **fields: Any) -> Any:
            made = cls.__dict__.get("_made")
            if made is not None and len(given) + len(fields) < 2:
                raise TypeError(f"{cls.__name__} is not made by its name; write {made}")
            return super().__call__(*given, **fields)


class Answering(metaclass=_AnsweringType):
    """Mixin of objects that answer to an unknown attribute with what to write instead.

    ``_called`` says what the table and the source are called in the answer; results have neither. ``_made`` is how to
    make what nobody makes by the name of its class.
    """

    _called: ClassVar[dict[str, str]] = {}
    _made: ClassVar[str | None] = None

    def _names(self) -> dict[str, str]:
        return self._called

    if not TYPE_CHECKING:  # type checkers know the attributes

        def __getattr__(self, name: str) -> Any:
            """Raise ``AttributeError``: there is no such attribute."""
            what = f"{type(self).__name__!r} object"
            named = {} if name.startswith("_") else self._names()
            raise unknown_attribute(self, name, _public(self), what=what, **named)

    def __dir__(self) -> list[str]:
        """Return the public attributes."""
        return _public(self)


def _public(owner: object) -> list[str]:
    return sorted({one for one in object.__dir__(owner) if not one.startswith("_")})


def answering(function: Callable[..., Any], module: str) -> Callable[..., Any]:
    """Return a function that explains arguments that it does not have or take, as the public name of a module."""
    from functools import wraps

    code, name = function.__code__, function.__name__
    named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    placed = None if code.co_flags & 0x04 else code.co_argcount  # *args
    several = code.co_varnames[len(named)] if placed is None else ""
    kinds = {one: kind for one, kind in function.__annotations__.items() if set(_parts(kind)) <= {*_FITS}}

    @wraps(function)
    def called(*given: Any, **options: Any) -> Any:
        if not (code.co_flags & 0x08 or options.keys() <= set(named)):  # **options
            wrong = next(one for one in options if one not in named)
            left = [one for one in named if one not in options]
            raise TypeError(f"{name}() has no argument {wrong!r}; {_instead(wrong, left, named)}")
        if placed is not None and len(given) > placed:
            raise TypeError(f"{name}() {_placed(named[:placed], named[placed:], len(given))}")
        names = (*named[: code.co_argcount], *[several] * (len(given) - code.co_argcount))
        for one, value in (*zip(names, given, strict=False), *options.items()):
            if one == several and not isinstance(value, (str, os.PathLike)):
                continue  # one, or several in a list
            if one in kinds and not _fits(value, kinds[one]):
                said = _described(value, kinds[one])
                ordered = set(_parts(kinds[one])) & {*_CLASSES, "str"}
                if ordered and any(_fits(other, kinds[one]) for other in given):
                    said += f"; the order is {', '.join(dict.fromkeys((*named[: code.co_argcount], *names)))}"
                raise InputError(f"{one} of {name}() must be {_kind(kinds[one])}; got {said}")
            if one == "seed" and value < 0:
                raise InputError(f"seed of {name}() must be 0 or more; got {value}")
        return function(*given, **options)

    called.__module__ = module  # so that it is pickled by its public name
    return called


def _placed(placed: Sequence[str], others: Sequence[str], count: int) -> str:
    """Return what is wrong with too many values without names."""
    named = f"with names:{''.join(f' {one}=' for one in others)}"
    if not placed:
        return f"takes nothing without a name; write its arguments {named}"
    end = f", and the others {named}" if others else ""
    return f"takes {', '.join(placed)} without names, and got {count} values; write several rows as one list{end}"


def _instead(wrong: str, left: Sequence[str], named: Sequence[str]) -> str:
    """Return what to write instead of an argument that a function does not have."""
    near = meant(wrong, left)
    if near == ["umap"]:
        return f"write umap=hpe.UMAPParameters({wrong}=…)"
    if near:
        return f"did you mean {'= or '.join(near)}=?"
    said = next((said for said, names in _tried("needless").items() if wrong in names.split()), None)
    return said or f"its arguments are {', '.join(named)}"


def _of_class(name: str) -> Callable[[Any], bool]:
    return lambda value: any(one.__name__ == name for one in type(value).__mro__)


_MADE = {
    "AddedPositions": "hpe.add_positions(model)",
    "LogitSplit": "model.logits(text)",
    "Inputs": "model.inputs(text)",
}
"""How results that other functions take are made."""


def _each(kind: Callable[[Any], bool], letters: str) -> Callable[[Any], bool]:
    """Return whether one value, or each of several, is of a kind; of an array, the letter of its dtype is asked.

    What may be read only once, such as a generator, is not looked at.
    """

    def fits(value: Any) -> bool:
        if (letter := getattr(getattr(value, "dtype", None), "kind", None)) is not None:
            return letter in letters or not value.size
        if isinstance(value, (list, tuple, range)):
            return all(map(kind, value))
        return kind(value) or (hasattr(value, "__iter__") and not isinstance(value, (str, bytes)))

    return fits


def _whole(value: object) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _real(value: object) -> bool:
    return hasattr(value, "__float__") or hasattr(value, "__index__")


def _text(value: object) -> bool:
    return isinstance(value, (str, os.PathLike))


_CLASSES = ("Embeddings", "EmbeddingTable", "PositionAddition", "UMAPParameters", *_MADE)
_FITS: dict[str, Callable[[Any], bool]] = {
    "int": _whole,
    "float": _real,
    "str": _text,
    "Path": _text,
    **dict.fromkeys(("Sequence[int]", "Rows", "Places", "NDArray[np.integer]"), _each(_whole, "iu")),
    "Sequence[int | str]": _each(lambda value: _whole(value) or _text(value), "iuUOT"),
    "Sequence[float]": _each(_real, "iuf"),
    "Sequence[str]": _each(_text, "UOT"),
    "None": lambda value: value is None,
    **{name: _of_class(name) for name in _CLASSES},
}
"""What a value must have for an annotation, of those whose mistakes would end inside a computation."""

_KINDS = {
    **{"int": "a whole number", "float": "a number", "str": "a text", "Path": "a path", "None": "None"},
    **dict.fromkeys(("Sequence[int]", "Rows", "Places", "NDArray[np.integer]"), "whole numbers"),
    **{"Sequence[float]": "numbers", "Sequence[str]": "texts", "Sequence[int | str]": "rows or words"},
}


def _parts(annotation: str) -> list[str]:
    parts: list[str] = []
    for part in annotation.split(" | "):
        if parts and parts[-1].count("[") > parts[-1].count("]"):
            parts[-1] += f" | {part}"  # within brackets
        else:
            parts.append(part)
    return parts


def _fits(value: object, annotation: str) -> bool:
    return any(_FITS[kind](value) for kind in _parts(annotation))


def _kind(annotation: str) -> str:
    parts = _parts(annotation)
    named = (_KINDS.get(part) or f"{'an' if part[0] in 'AEIOU' else 'a'} {part}" for part in parts)
    *others, last = dict.fromkeys(named)
    return f"{', '.join(others)} or {last}" if others else last


def _described(value: object, wanted: str) -> str:
    """Return a value of the wrong kind in an error message, with how to make the wanted one of it."""
    plain = isinstance(value, (str, int, float, list, tuple))
    of_numbers = f" of {value.dtype!s:.40}" if hasattr(value, "dtype") else ""
    said = f"{value!r:.80}" if plain else type(value).__name__ + of_numbers
    if made := _MADE.get(wanted):
        return f"{said}; make one with {made}"
    if plain:
        if isinstance(value, str) and "Embedding" in wanted:
            said += f"; open it first: hpe.extract({said}){'.token' if wanted == 'EmbeddingTable' else ''}"
        return said
    if "Embedding" not in wanted:
        return said
    if "EmbeddingTable" in wanted and hasattr(value, "positions"):
        return f"{said}; give its .token or .position.table"
    if "EmbeddingTable" in wanted and hasattr(value, "table"):
        return f"{said}; give its .table"
    of_arrays = "hpe.from_arrays(token=vectors)" + (".token" if "EmbeddingTable" in wanted else "")
    return f"{said}; write {of_arrays}" if hasattr(value, "shape") and not _FITS["EmbeddingTable"](value) else said
