"""Parameters that endpoints and tools for agents share: types, limits and descriptions, and their checks."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError, create_model

from hfposemb.errors import InputError
from hfposemb.lazy_attributes import lazy_attribute
from hfposemb.text import one_line, written

from ..limits import LONGEST_QUERY, LONGEST_TEXT, MOST_SOURCES, MOST_WORDS

MOST_NEIGHBOURS = 1_000
MOST_POINTS = 20_000
"""Maximum number of points in one answer."""
MOST_MATCHES = 1_000
"""Maximum number of tokens that a search lists in one answer."""

_SOURCE = (
    'Hub model such as "openai-community/gpt2"; "sample:minilm", which needs no network; or a closed form such as '
    '"sinusoidal:512x384" (rows x width).'
)
_Short = Annotated[str, Field(max_length=LONGEST_TEXT)]
Source = Annotated[_Short, Field(description=_SOURCE)]
Sources = Annotated[list[_Short], Field(description=f"Sources. Each: {_SOURCE}", min_length=1, max_length=MOST_SOURCES)]
Offset = Annotated[int, Field(description="Number of entries to skip.", ge=0)]
Table = Annotated[
    _Short, Field(description='"token", "position" or another table that info lists. Default: tokens, else positions.')
]
Metric = Annotated[Literal["cosine", "dot", "euclidean"], Field(description="How rows are compared.")]
Centred = Annotated[
    bool,
    Field(
        description="Whether to subtract the mean row first, for tables whose rows share a direction (anisotropy above "
        "about 0.2)."
    ),
]
Text = Annotated[_Short, Field(description="A text, such as a sentence.")]
Kept = Annotated[
    bool,
    Field(
        description="Whether to measure the share of its ten nearest neighbours that each piece keeps when its "
        "position is added, which reads the whole token table."
    ),
]
Sought = Annotated[
    str, Field(description='A part of a token such as "king", or a regular expression.', max_length=LONGEST_QUERY)
]
Regex = Annotated[
    bool,
    Field(
        description='Whether query is a regular expression such as "^kin.$": the syntax of Python\'s re without '
        "look-around and back-references."
    ),
]
Matches = Annotated[int, Field(description="Number of tokens to list.", ge=1, le=MOST_MATCHES)]
Row = Annotated[
    _Short | StrictInt, Field(description='A token such as "king", as search lists it, or the number of a row.')
]
Nearest = Annotated[int, Field(description="Number of neighbours.", ge=1, le=MOST_NEIGHBOURS)]
Rows = Annotated[
    list[_Short | StrictInt],
    Field(
        description='Tokens such as ["king", "queen", "bread"], or row numbers.', min_length=1, max_length=MOST_WORDS
    ),
]
Method = Annotated[
    Literal["pca", "umap"], Field(description='"umap" of a large table may take minutes the first time.')
]
Dims = Annotated[int, Field(description="Number of dimensions.", ge=2, le=3)]
Points = Annotated[int, Field(description="Number of points, from the first row on.", ge=1, le=MOST_POINTS)]


@dataclass(frozen=True)
class Described:
    """A tool or an endpoint, its description and the model of its arguments."""

    name: str
    call: Callable[..., Awaitable[Any]]
    arguments: type[BaseModel]

    @classmethod
    def of(cls, name: str, call: Callable[..., Awaitable[Any]], **more: tuple[Any, Any]) -> Described:
        """Read the parameters from a signature, without the request; ``more`` are further ones, types and defaults."""
        hints = get_type_hints(call, include_extras=True)
        fields: dict[str, Any] = {
            key: (hints[key], ... if one.default is one.empty else one.default)
            for key, one in inspect.signature(call).parameters.items()
            if key != "request"
        }
        return cls(name, call, create_model(name, __config__=ConfigDict(extra="forbid"), **fields | more))

    @lazy_attribute
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments."""
        schema = self.arguments.model_json_schema()
        for one in (schema, *schema["properties"].values()):
            one.pop("title", None)
        return schema

    @lazy_attribute
    def description(self) -> str:
        """What the tool does and returns."""
        return inspect.cleandoc(self.call.__doc__ or "")

    def parsed(self, arguments: Mapping[str, Any], *, strict: bool = False) -> dict[str, Any]:
        """Return arguments with their defaults. Raises ``InputError`` for the first that is invalid.

        Unless ``strict``, a number may be written as text.
        """
        try:
            found = self.arguments.model_validate(arguments, strict=strict or None)  # False would undo StrictInt
        except ValidationError as error:
            raise InputError(self._problem(error)) from error
        return {name: getattr(found, name) for name in self.arguments.model_fields}

    def _problem(self, error: ValidationError) -> str:
        first = error.errors(include_url=False)[0]
        name = str(first["loc"][0]) if first["loc"] else ""
        known = ", ".join(self.arguments.model_fields)
        if first["type"] == "missing":
            return f"{self.name} needs the parameter {name}; its parameters: {known}"
        if name not in self.arguments.model_fields:
            return one_line(f"{self.name} has no parameter {name[:40]!r}; its parameters: {known}")
        expected = _expected(self.schema["properties"][name])
        return one_line(f"{name} must be {expected}; got {written(first['input'])}")


def _expected(schema: Mapping[str, Any]) -> str:
    """Return in words what a JSON Schema of a parameter accepts."""
    if "enum" in schema:
        return f"one of {', '.join(map(str, schema['enum']))}"
    if "anyOf" in schema:
        return " or ".join(_expected(one) for one in schema["anyOf"])
    match schema["type"]:
        case "integer" if "maximum" in schema:
            return f"a whole number from {schema['minimum']} to {schema['maximum']:,}"
        case "integer":
            return f"a whole number from {schema['minimum']} on" if "minimum" in schema else "a whole number"
        case "string":
            return f"a string of at most {schema['maxLength']:,} characters" if "maxLength" in schema else "a string"
        case "array":
            return f"a list of {schema['minItems']} to {schema['maxItems']} entries, each {_expected(schema['items'])}"
    return "true or false"
