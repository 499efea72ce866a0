"""Results as documents: the plain values of their fields for JSON, and the JSON Schema that these values conform to."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from inspect import cleandoc
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from ..guesses import Answering

_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


class Document(Answering):
    """Result that is a document of its fields, or of the attributes that ``_document`` names."""

    _document: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that can be serialised as JSON; NaN and infinite numbers are ``None``."""
        return {name: plain(getattr(self, name)) for name in _names(type(self))}


def plain(value: Any) -> Any:
    """Return a value with its parts as plain values: dicts, lists, texts, numbers and ``None``.

    Results and dataclasses become dicts of their fields, arrays lists, and NaN and infinite numbers ``None``.

    Examples:
        >>> import numpy as np
        >>> from hfposemb.tables.documents import plain
        >>> plain({"cosines": np.array([0.5, np.nan]), 5: ("king", 1)})
        {'cosines': [0.5, None], '5': ['king', 1]}
    """
    match value:
        case Document():
            return value.to_dict()
        case Mapping():
            return {str(key): plain(one) for key, one in value.items()}
        case np.ndarray() | np.generic():
            return plain(value.tolist())
        case float() if not math.isfinite(value):
            return None
    if is_dataclass(value) or hasattr(value, "_fields"):
        return {name: plain(getattr(value, name)) for name in _names(type(value))}
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def _names(kind: Any) -> Sequence[str]:
    """Return the names of what a document has of a class: all fields, unless it says which attributes."""
    return getattr(kind, "_document", ()) or getattr(kind, "_fields", ()) or [one.name for one in fields(kind)]


def schema(title: str, *forms: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of what a command prints as JSON.

    Args:
        title: The command.
        forms: The objects that it may be, as ``members`` returns them.

    Examples:
        >>> from hfposemb.tables.documents import members, schema
        >>> schema("hfposemb demo", members(count=int, words=tuple[str, ...]))["properties"]["words"]
        {'type': 'array', 'items': {'type': 'string'}}
    """
    kinds: dict[str, dict[str, Any]] = {}
    found = [_filled(form, kinds) for form in forms]
    whole = found[0] if len(found) == 1 else {"oneOf": found}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **whole, "$defs": kinds}


def exact(form: Any) -> Any:
    """Return a schema whose objects have no further members."""
    if isinstance(form, list):
        return [exact(part) for part in form]
    if not isinstance(form, dict):
        return form
    closed = {"additionalProperties": False} if "required" in form else {}
    return {key: exact(part) for key, part in form.items()} | closed


def members(of: type | None = None, /, **more: Any) -> dict[str, Any]:
    """Return what ``schema`` makes the schema of an object of.

    Args:
        of: Class whose document the object is, if it is that of one; its types and docstrings describe the members.
        more: Further members, and members that are written otherwise than ``of`` has them, by name: types, or schemas
            in which types may stand for schemas.
    """
    found, hints = {}, {} if of is None else get_type_hints(of)
    for name in _names(of) if of is not None else ():
        attribute: Any = getattr(of, name, None)
        kind = hints[name] if name in hints else get_type_hints(attribute.fget)["return"]
        about = _told(of).get(name) or (attribute.__doc__ if name not in hints else "")
        about = " ".join(about.replace("``None``", "null").replace("``", "").split())
        found[name] = Annotated[kind, about] if about else kind
    about = {} if of is None else {"description": (of.__doc__ or "").partition("\n")[0]}
    return {"type": "object", **about, "properties": found | more, "required": list(found | more)}


def _told(kind: Any) -> dict[str, str]:
    """Return what the docstrings of a class and its bases say of their attributes."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        said = cleandoc(base.__doc__ or "").partition("\nAttributes:\n")[2].partition("\n\n")[0]
        found |= dict(re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", said, re.MULTILINE))
    return found


def _filled(form: Any, kinds: dict[str, dict[str, Any]]) -> Any:
    """Return a schema with those of the types that stand in it."""
    match form:
        case dict():
            return {key: _filled(part, kinds) for key, part in form.items()}
        case list():
            return [_filled(part, kinds) for part in form]
        case str() | int() | None:
            return form
    return _schema_of(form, kinds)


def _schema_of(kind: Any, kinds: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the schema of a type; those of classes are put into ``kinds`` by name, and referred to."""
    if kind in _TYPES:
        return {"type": _TYPES[kind]}
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return {"enum": list(parts)}
    if origin is Annotated:
        return {**_schema_of(parts[0], kinds), "description": parts[1]}
    inner = [_schema_of(one, kinds) for one in parts if one is not Ellipsis]
    if origin in (Union, UnionType):
        return {"anyOf": inner}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": inner[1]}
    if origin is tuple and Ellipsis not in parts:
        return {"type": "array", "prefixItems": inner, "minItems": len(inner), "maxItems": len(inner)}
    if origin is tuple:
        return {"type": "array", "items": inner[0]}
    if kind.__name__ not in kinds:
        kinds[kind.__name__] = {}  # known from here on, to a class that has others of its own
        kinds[kind.__name__] = _filled(members(kind), kinds)
    return {"$ref": f"#/$defs/{kind.__name__}"}
