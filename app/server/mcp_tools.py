"""The tools of the MCP server: the endpoints of ``api``, with answers that an agent can afford to read.

Their docstrings and the descriptions of their parameters are what an agent sees.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import gradio as gr
from pydantic import Field

from . import parameters as kinds
from .answer_schemas import ANSWERS
from .api import Endpoints
from .mcp_answers import Answer, compared_metrics, compared_pairs, row_pairs
from .parameters import MOST_NEIGHBOURS, MOST_POINTS

if TYPE_CHECKING:
    from ..session.state import Session

PREFIX = "hfposemb_"
Tool = Callable[..., Awaitable[Answer]]

Full = Annotated[bool, Field(description="Return everything in full precision, however long.")]


@dataclass(frozen=True)
class Tools:
    """The tools by name; each takes the HTTP request first."""

    session: Session

    @property
    def endpoints(self) -> Endpoints:
        """The endpoints that the tools call."""
        return Endpoints(self.session)

    @property
    def by_name(self) -> dict[str, Tool]:
        """All tools, in the order in which they are listed."""
        return {PREFIX + name: getattr(self, name) for name in ANSWERS}

    async def info(self, request: gr.Request, source: kinds.Source, full: Full = False) -> Answer:
        """Describe a model's token and position embedding tables without reading them: start here.

        Returns the shape and data type of each table, the tensor and file it is stored in, how the model encodes
        positions (learned, sinusoidal, rotary, ALiBi, relative, none), its output head, and why a table is absent. Of
        a model on the Hub only headers and configuration are read, some kilobytes. Further sources are a branch, tag or
        commit as "owner/name@revision", "sample:bert", "sample:gpt2", and "random:512x384" for an untrained table.
        """
        found = await self.endpoints.info(source)
        tables = [{"table": role, **facts} for role, facts in found.pop("tables").items()]
        return Answer(found, "tables", tables)

    async def search(  # noqa: PLR0913 - keywords with defaults
        self,
        request: gr.Request,
        source: kinds.Source,
        query: kinds.Sought,
        regex: kinds.Regex = False,
        table: kinds.Table = "",
        limit: kinds.Matches = 20,
        offset: kinds.Offset = 0,
        full: Full = False,
    ) -> Answer:
        """Find tokens in a model's vocabulary by a part of their text or a regular expression.

        Returns the row number (token id) and label of each, shortest first, and how many there are. Use it to learn
        how a word is written in a vocabulary before you ask for its neighbours. Upper and lower case are the same.
        """
        found = await self.endpoints.search(source, query, regex, table, limit, offset)
        return Answer(found, "matches", found.pop("matches"), offset, found["found"])

    async def tokenise(
        self,
        request: gr.Request,
        source: kinds.Source,
        text: kinds.Text,
        neighbours: kinds.Kept = False,
        offset: kinds.Offset = 0,
        full: Full = False,
    ) -> Answer:
        """Split a text with a model's tokenizer, and measure what enters the model's first layer.

        Returns which vectors are added (token, token_type, position), whether a normalisation follows, and for each
        piece its id, its position, the norms of its token vector, of its position vector, of their sum and of what
        enters the first layer, and the cosine of the sum with the token vector alone.
        """
        found = await self.endpoints.tokenise(source, text, neighbours)
        return Answer(found, "pieces", found.pop("pieces")[offset:], offset)

    async def neighbours(  # noqa: PLR0913 - keywords with defaults
        self,
        request: gr.Request,
        source: kinds.Source,
        query: kinds.Row,
        limit: kinds.Nearest = 10,
        offset: kinds.Offset = 0,
        metric: kinds.Metric = "cosine",
        table: kinds.Table = "",
        centred: kinds.Centred = False,
        full: Full = False,
    ) -> Answer:
        """List the exact nearest neighbours of a row in a model's embedding table, nearest first.

        Returns the row number, label and similarity of each, and the table's anisotropy, the mean cosine of random
        pairs: where it is large, every cosine is, and centred=true separates the rows.
        """
        most = min(offset + limit, MOST_NEIGHBOURS)
        found = await self.endpoints.neighbours(source, query, most, metric, table, centred)
        return Answer(found, "neighbours", found.pop("neighbours")[offset:], offset)

    async def similarity(  # noqa: PLR0913 - keywords with defaults
        self,
        request: gr.Request,
        source: kinds.Source,
        rows: kinds.Rows,
        metric: kinds.Metric = "cosine",
        table: kinds.Table = "",
        centred: kinds.Centred = False,
        offset: kinds.Offset = 0,
        full: Full = False,
    ) -> Answer:
        """Compare chosen rows of an embedding table pairwise, and say how unusual each value is.

        A cosine alone says little. So each pair comes with its percentile among random pairs of rows, and with the
        rank of each row among the neighbours of the other, 1 for the nearest.
        """
        found = await self.endpoints.similarity(source, rows, metric, table, centred)
        names = ("table", "metric", "centred", "anisotropy", "random_pairs", "others", "notes")
        return Answer({name: found[name] for name in names}, "pairs", row_pairs(found)[offset:], offset)

    async def project(  # noqa: PLR0913 - keywords with defaults
        self,
        request: gr.Request,
        source: kinds.Source,
        method: kinds.Method = "pca",
        dims: kinds.Dims = 2,
        table: kinds.Table = "position",
        limit: kinds.Points = 30,
        offset: kinds.Offset = 0,
        full: Full = False,
    ) -> Answer:
        """Project an embedding table to two or three dimensions with PCA or UMAP, and report the map's quality.

        Returns the share of variance that each dimension explains, trustworthiness, continuity and the share of
        nearest neighbours that the map keeps, beside what chance keeps; then [row, label, coordinates…] of each point.
        """
        most = min(offset + limit, MOST_POINTS)
        found = await self.endpoints.project(request, source, method, dims, table, most)
        rows, labels, places = (found.pop(name) for name in ("rows", "labels", "coordinates"))
        found["rows_without_direction"] = found.pop("left_out")
        points = [[row, label, *place] for row, label, place in zip(rows, labels, places, strict=True)]
        return Answer(found, "points", points[offset:], offset, found["of"])

    async def compare(
        self,
        request: gr.Request,
        sources: kinds.Sources,
        offset: kinds.Offset = 0,
        full: Annotated[
            bool,
            Field(description="Whether to return the whole document, with every chance level and neighbours of words."),
        ] = False,
    ) -> Answer:
        """Measure up to eight models and compare their tables pairwise: the tool for questions about positions.

        Returns the metrics, each with its value for every source in the order of sources, beside the values of an
        untrained and of a sinusoidal table of the same shape: variance of components, mean cosine at a distance,
        translation invariance (1 if similarity depends on distance alone), shift R² (1 if one linear map shifts every
        position), norms, anisotropy. And for each pair CKA and other similarities, p against chance,
        corrected for all pairs and roles (judge by this one) and alone, or why it was not tested.
        """
        document = await self.endpoints.compare(request, sources)
        if full:
            return Answer(document)
        facts = {
            "sources": [source["source"] for source in document["sources"]],
            "kinds": [source["kind"] for source in document["sources"]],
            "pairs": compared_pairs(document),
            "notes": [note for source in document["sources"] for note in source["notes"]],
            "not_compared": document["missing"],
        }
        return Answer(facts, "metrics", compared_metrics(document)[offset:], offset)

    async def check(
        self, request: gr.Request, source: kinds.Source, offset: kinds.Offset = 0, full: Full = False
    ) -> Answer:
        """Look for faults in a model's files: configuration, weights and tokenizer are compared with each other.

        Returns each finding with its severity, why it matters and what corrects it, and what was checked. Nothing is
        executed, and of a model on the Hub at most 2 MB are read.
        """
        found = await self.endpoints.check(request, source)
        return Answer(found, "findings", found.pop("findings")[offset:], offset)

    async def vocabulary(
        self,
        request: gr.Request,
        source: kinds.Source,
        other: kinds.Source,
        offset: kinds.Offset = 0,
        full: Full = False,
    ) -> Answer:
        """Compare two vocabularies: can the models be merged, draft for each other, or be distilled?

        Returns a verdict, the three answers each with the finding that decides it, how many ids name the same text, and
        what else differs: special and chat tokens, padding, normaliser, pre-tokenizer, merges.
        """
        found = await self.endpoints.vocabulary(request, source, other)
        return Answer(found, "differing", found.pop("differing")[offset:], offset)

    async def kinship(
        self, request: gr.Request, source: kinds.Source, other: kinds.Source, full: Full = False
    ) -> Answer:
        """Tell whether one model was made from the other, from a few hundred token rows.

        Returns a verdict (same, derived, extended, pruned, rotated, same tokenizer, unrelated, cannot tell), what
        decided, p for independent trainings, each figure beside its null, and what rows cannot tell.
        """
        return Answer(await self.endpoints.kinship(request, source, other))

    async def merge_preview(
        self,
        request: gr.Request,
        source: kinds.Source,
        other: kinds.Source,
        offset: kinds.Offset = 0,
        full: Full = False,
    ) -> Answer:
        """Tell what averaging the token tables of two models would do, before they are merged.

        Returns a verdict (keeps, blurs, destroys, impossible, cannot tell), what decided, each figure beside its null,
        their kinship, and by method and weight how long merged rows are and how many neighbours they keep.
        """
        found = await self.endpoints.merge_preview(request, source, other)
        return Answer(found, "steps", found.pop("steps")[offset:], offset)
