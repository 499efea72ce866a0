"""Types of the answers of endpoints and MCP tools, as JSON Schema: their main fields; an answer may add others."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import BaseModel


class _Answer(BaseModel):
    left_out: dict[str, Any] | None = None
    notes: list[str] = []


class StoredAs(BaseModel):
    """Shape and data type of a table, and the tensor that it is stored as."""

    shape: list[int]
    dtype: str
    tensor: str | None = None
    file: str | None = None


class StoredTable(StoredAs):
    """A table with its role."""

    table: str


class Info(_Answer):
    """The tables of a source."""

    name: str
    model_type: str | None = None
    tables: list[StoredTable]
    positions: dict[str, Any] = {}
    heads: dict[str, Any] = {}
    absent: dict[str, str] = {}


class Match(BaseModel):
    """A token."""

    row: int
    label: str


class Search(_Answer):
    """Tokens that match, shortest first, and their number."""

    table: str
    query: str
    found: int
    of: int
    matches: list[Match]


class Piece(BaseModel):
    """A piece of a text and its vectors."""

    piece: str
    id: int
    position: int
    token_norm: float | None = None
    position_norm: float | None = None
    sum_norm: float | None = None
    entering_norm: float | None = None
    cosine_with_token: float | None = None
    neighbours_kept: float | None = None


class Tokenise(_Answer):
    """A tokenised text."""

    source: str
    added: list[str]
    normalised: bool
    pieces: list[Piece]


class Neighbour(BaseModel):
    """A row with its similarity to the query."""

    row: int
    label: str
    value: float | None = None


class Neighbours(_Answer):
    """Nearest neighbours, nearest first."""

    table: str
    metric: str
    centred: bool
    anisotropy: float | None = None
    neighbours: list[Neighbour]


class RowPair(BaseModel):
    """Two rows, what share of random pairs is less similar, and their ranks among each other's neighbours."""

    pair: list[str]
    percentile_of_random_pairs: float | None = None
    rank: list[int | None] = []


class Similarity(_Answer):
    """Rows compared pairwise."""

    table: str
    metric: str
    centred: bool
    anisotropy: float | None = None
    pairs: list[RowPair]


class Project(_Answer):
    """A map and its quality; a point is [row, label, coordinates…]."""

    table: str
    method: str
    of: int
    explained_variance_ratio: list[float | None] = []
    trustworthiness: float | None = None
    continuity: float | None = None
    neighbours_kept: float | None = None
    neighbours_kept_by_chance: float | None = None
    points: list[list[Any]]


class Compared(BaseModel):
    """A metric with its value for each source."""

    metric: str
    unit: str = ""
    values: list[float | None]
    untrained: list[float | None] = []
    sinusoid: list[float | None] = []


class Compare(_Answer):
    """Sources compared; with ``full``, the document of ``hfposemb compare --json``."""

    sources: list[Any]
    metrics: list[Compared] = []
    pairs: list[Any] = []


class Finding(BaseModel):
    """A fault in a file."""

    severity: str


class Check(_Answer):
    """Faults found, and what was checked."""

    source: str
    passed: bool
    findings: list[Finding]
    checked: list[str] = []
    not_checked: list[str] = []


class Vocabulary(_Answer):
    """What two vocabularies are to each other, and what follows."""

    verdict: str
    headline: str
    answers: dict[str, Any]
    findings: list[Any] = []


class _Verdict(_Answer):
    """What rows of two models tell, and what decided."""

    a: str
    b: str
    verdict: str
    reason: str = ""
    evidence: list[Any] = []
    shared: int | None = None


class Kinship(_Verdict):
    """Whether one of two models was made from the other, and what decided."""

    score: float | None = None
    p: float | None = None


class Merge(_Verdict):
    """What averaging the token tables of two models would do, and what decided."""

    rows: dict[str, Any]
    overlap: float | None = None
    origin: dict[str, Any] = {}
    steps: list[Any] = []


class Described(BaseModel):
    """The tables of a source, by role."""

    name: str
    model_type: str | None
    tables: dict[str, StoredAs]
    positions: dict[str, Any]
    heads: dict[str, Any]
    absent: dict[str, str]


class Matrix(BaseModel):
    """Rows compared: values, shares of random pairs below them, and ranks among neighbours [rows, rows]."""

    table: str
    metric: str
    centred: bool
    anisotropy: float | None
    rows: list[int]
    labels: list[str]
    values: list[list[float | None]]
    percentiles: list[list[float | None]]
    ranks: list[list[int | None]]


class Projected(BaseModel):
    """A map and its quality: coordinates [rows, dims]."""

    table: str
    method: str
    rows: list[int]
    labels: list[str]
    coordinates: list[list[float]]
    of: int
    explained_variance_ratio: list[float] | None
    trustworthiness: float | None
    continuity: float | None
    neighbours_kept: float | None
    neighbours_kept_by_chance: float | None


class Document(BaseModel):
    """The document of ``hfposemb compare --json``."""

    version: int
    sources: list[Any]
    pairs: list[Any]


ANSWERS: dict[str, type[BaseModel]] = {
    "info": Info,
    "search": Search,
    "tokenise": Tokenise,
    "neighbours": Neighbours,
    "similarity": Similarity,
    "project": Project,
    "compare": Compare,
    "check": Check,
    "vocabulary": Vocabulary,
    "kinship": Kinship,
    "merge_preview": Merge,
}
"""Answers of the endpoints, which are the tools too, in the order in which they are listed."""


_RESULTS = ANSWERS | {"info": Described, "similarity": Matrix, "project": Projected, "compare": Document}
"""Results of the endpoints, which leave nothing out."""


@cache
def output_schema(tool: str) -> dict[str, Any]:
    """Return the JSON Schema of a tool's answers; other tools than those of ``mcp_server`` have none.

    Examples:
        >>> output_schema("search")["required"]
        ['table', 'query', 'found', 'of', 'matches']
    """
    return _schema(ANSWERS[tool])


@cache
def result_schema(endpoint: str) -> dict[str, Any]:
    """Return the JSON Schema of an endpoint's results.

    Examples:
        >>> list(result_schema("search")["properties"])
        ['table', 'query', 'found', 'of', 'matches']
    """
    schema = _schema(_RESULTS[endpoint])
    for name in ("left_out", "notes"):
        schema["properties"].pop(name, None)
    return schema


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema()
    for one in (schema, *schema.get("$defs", {}).values()):
        one.pop("title", None)
        for field in one["properties"].values():
            field.pop("title", None)
            field.pop("default", None)  # of no use to who reads an answer, and a list of tools is long enough
    return schema
