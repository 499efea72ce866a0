"""Parameters that endpoints and tools for agents share: their types, limits and descriptions, which clients see."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

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
Source = Annotated[str, Field(description=_SOURCE, max_length=LONGEST_TEXT)]
Sources = Annotated[list[str], Field(description=f"Sources. Each: {_SOURCE}", min_length=1, max_length=MOST_SOURCES)]
Offset = Annotated[int, Field(description="Number of entries to skip.", ge=0)]
Table = Annotated[
    str,
    Field(
        description='"token", "position" or another table that info lists. Default: tokens, else positions.',
        max_length=LONGEST_TEXT,
    ),
]
Metric = Annotated[Literal["cosine", "dot", "euclidean"], Field(description="How rows are compared.")]
Centred = Annotated[
    bool,
    Field(
        description="Whether to subtract the mean row first, for tables whose rows share a direction (anisotropy above "
        "about 0.2)."
    ),
]
Text = Annotated[str, Field(description="A text, such as a sentence.", max_length=LONGEST_TEXT)]
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
Row = Annotated[str | int, Field(description='A token such as "king", as search lists it, or the number of a row.')]
Nearest = Annotated[int, Field(description="Number of neighbours.", ge=1, le=MOST_NEIGHBOURS)]
Rows = Annotated[
    list[str | int],
    Field(
        description='Tokens such as ["king", "queen", "bread"], or row numbers.', min_length=1, max_length=MOST_WORDS
    ),
]
Method = Annotated[
    Literal["pca", "umap"], Field(description='"umap" of a large table may take minutes the first time.')
]
Dims = Annotated[int, Field(description="Number of dimensions.", ge=2, le=3)]
Points = Annotated[int, Field(description="Number of points, from the first row on.", ge=1, le=MOST_POINTS)]
