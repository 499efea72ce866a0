"""Endpoints for programs, such as info, search and neighbours of one model, and kinship, vocabulary and merge of two.

Stable: their names, parameters and the keys of their results. They obey the limits of the page: in public mode callers
cannot name local files and read within ``PUBLIC_LIMITS``, and heavy work runs in a child process from the job queue.
``mcp_server`` offers the same to MCP clients, in shorter answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial, wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints
from uuid import uuid4

import gradio as gr
import numpy as np
from gradio.context import get_blocks_context
from gradio.events import api as gradio_api
from pydantic import TypeAdapter

from hfposemb.analysis.similarity.nearest_rows import neighbours as nearest
from hfposemb.analysis.similarity.row_pairs import pair_similarities
from hfposemb.composition.added_positions import PositionAddition, add_positions
from hfposemb.composition.amplitude_sweep import retention_in_place
from hfposemb.errors import HfposembError, InputError
from hfposemb.models.summary import describe
from hfposemb.reports.json_schema import document
from hfposemb.tables.embeddings import Embeddings
from hfposemb.tables.row_lookup import typed
from hfposemb.tables.table import EmbeddingTable
from hfposemb.text import one_line

from .. import limits
from ..failures import said_of
from ..findings.compare.comparison import comparison_key
from ..findings.compare.pair_questions import MERGE, ORIGIN, VOCABULARY, PairQuestion, pair_key
from ..findings.start.file_checks import check_key
from ..findings.tokens import token_search
from ..findings.tokens.token_map import quality_of
from ..findings.words.sum_view import addable
from ..jobs import measuring
from ..jobs.turns import TURNS, asker
from ..jobs.visitor import Visitor
from ..limits import LONGEST_QUERY
from ..session.background_jobs import Request, umap_key, umap_of
from ..session.source_names import short_name
from ..session.state import Session
from . import parameters as kinds
from .answer_schemas import ANSWERS, result_schema
from .parameters import Described

if TYPE_CHECKING:
    from hfposemb.checks.check_report import CheckReport
    from hfposemb.tables.inputs import Inputs

NEIGHBOURS = 10
"""Number of nearest neighbours of a piece, of which the share that it keeps is measured."""


def input_facts(model: Embeddings, text: str, *, neighbours: bool = False) -> dict[str, Any]:
    """Return which vectors a model adds for a text, and for each piece its id, position, norms and cosine.

    Args:
        model: The model.
        text: A text, which its tokenizer splits.
        neighbours: Also return the share of its ten nearest neighbours that each piece keeps when its position is
            added, which reads the whole token table.

    Raises:
        MissingTableError: If the first layer's input of the model cannot be computed.
        InputError: For an empty text, and for texts longer than the position table.

    Examples:
        >>> import hfposemb as hpe
        >>> found = input_facts(hpe.extract("sample:minilm"), "king")
        >>> found["added"], found["normalised"], [one["piece"] for one in found["pieces"]]
        (['token', 'token_type', 'position'], True, ['[CLS]', 'king', '[SEP]'])
    """
    inputs = model.inputs(text)
    parts = {"token": inputs.token, "token_type": inputs.type, "position": inputs.position}
    added = [name for name, part in parts.items() if part.any()]
    changed = inputs.normed.shape != inputs.sum.shape or not np.array_equal(inputs.normed, inputs.sum)
    pieces = _pieces(inputs)
    if neighbours and "position" in added:
        for piece, kept in zip(pieces, _kept(model, inputs), strict=True):
            piece["neighbours_kept"] = kept
    return {"text": text, "added": added, "normalised": changed, "pieces": pieces}


def _pieces(inputs: Inputs) -> list[dict[str, Any]]:
    """Return id, position, norms and cosine of each piece."""
    lengths = {
        f"{name}_norm": np.linalg.norm(part.astype(np.float64), axis=1).tolist()
        for name, part in (
            ("token", inputs.token),
            ("position", inputs.position),
            ("sum", inputs.sum),
            ("entering", inputs.normed),
        )
    }
    products = np.einsum("ij,ij->i", inputs.token.astype(np.float64), inputs.sum.astype(np.float64)).tolist()
    found = []
    for place, piece in enumerate(inputs.pieces):
        norms = {name: values[place] for name, values in lengths.items()}
        scale = norms["token_norm"] * norms["sum_norm"]
        cosine = products[place] / scale if scale else None
        where = {"piece": piece, "id": int(inputs.ids[place]), "position": int(inputs.positions[place])}
        found.append({**where, **norms, "cosine_with_token": cosine})
    return found


def _kept(model: Embeddings, inputs: Inputs) -> list[float | None]:
    """Return the share of neighbours that each piece keeps, ``None`` where a vector has no direction."""
    words = add_positions(model, PositionAddition("own"))
    places = addable(words, model.token, inputs)
    if not places:
        return [None] * len(inputs.ids)
    rows, where = inputs.ids[places], inputs.positions[places]
    (shares,) = retention_in_place(words, rows, where, amplitudes=(1.0,), k=NEIGHBOURS).tolist()
    kept = dict(zip(places, shares, strict=True))
    return [kept.get(place) for place in range(len(inputs.ids))]


T = TypeVar("T")
Endpoint = Callable[..., Awaitable[dict[str, Any]]]


def bind(session: Session) -> None:
    """Register the endpoints on the open page; ``session`` determines the limits."""
    endpoints = Endpoints(session)
    answering = partial(_answering, public=session.public)
    page = get_blocks_context()
    assert page is not None
    for name in ANSWERS:
        # Gradio's queue has no turns: what waits in it keeps others out. Ours are ``jobs.turns`` and ``jobs.queue``.
        endpoint = getattr(endpoints, name)
        gradio_api(answering(endpoint), api_name=name, concurrency_limit=None)
        _describe(next(reversed(page.fns.values())), endpoint)


def _describe(listener: Any, endpoint: Endpoint) -> None:
    """Tell Gradio what the parameters and the result of an endpoint are, which it does not read from types."""
    hints = get_type_hints(endpoint, include_extras=True)
    told = {name: TypeAdapter(hint).json_schema() for name, hint in hints.items() if name not in ("request", "return")}
    for component, (name, schema) in zip(listener.inputs, told.items(), strict=True):
        component.label = name
        component.api_info().update(schema, additional_description=schema["description"])
    (result,) = listener.outputs
    result.label = endpoint.__name__
    result.api_info().update(result_schema(endpoint.__name__))


@dataclass(frozen=True)
class ModelAccess:
    """Opens what an endpoint is asked for, and runs heavy work on it, within the limits of the page."""

    session: Session

    async def opened(self, source: str, *needs: str) -> Embeddings:
        """Open a source and read the parts ``needs``, in the threads that read for the page."""
        key, work = self.session.library.fetch(source, needs, public=self.session.public)
        reads = self.session.library.fetches.follow(f"api/{uuid4().hex}", key, {key: (short_name(source), work)})
        async with aclosing(reads):
            async for read in reads:
                if read[0].over.is_set() and read[0].error is not None:
                    raise read[0].error
        return await asyncio.to_thread(self.session.library.open, source, public=self.session.public)

    async def chosen(self, source: str, role: str, *, read: bool = True) -> tuple[str, EmbeddingTable]:
        """Return a table and its role: the requested one, by default tokens, or positions if there are none.

        Unless ``read``, no row of it is read.
        """
        found = await self.opened(source)
        wanted = role or ("token" if "token" in found.tables else "position")
        if (beside := wanted.replace("-", "_")) in found.lookups:
            rows = found.lookup(beside)
            if rows.shape[0] * rows.shape[1] * rows.dtype.itemsize <= limits.HELD_BYTES:
                return beside, rows
            raise InputError(
                f"the {beside} table is too large to be compared here, {rows.size}; hfposemb extract {found.name} "
                f"--table {beside} --rows 5 reads single rows"
            )
        if wanted not in found.tables:
            reason = found.absent.get(wanted, "it was not found")
            raise InputError(f"{found.name} has no {wanted} table: {reason}; available: {', '.join(found.tables)}")
        opened = await self.opened(source, wanted.rpartition(".")[2]) if read else found
        return wanted, opened.tables[wanted]

    async def computed(self, work: Callable[..., T], *arguments: Any, **more: Any) -> T:
        """Call a function in a thread when it is the visitor's turn."""
        return await TURNS.call(asker(), work, *arguments, **more)

    async def in_child(self, request: gr.Request, key: Hashable, work: Callable[..., Any], *arguments: Any) -> Any:
        """Run heavy work through the job queue, as the page does, unless its result is cached."""
        visitor, call = Visitor.of(request, public=self.session.public), f"api/{uuid4().hex}"
        asks = partial(Request, key, work)
        async with aclosing(self.session.jobs.run(visitor, call, [arguments], asks)) as steps:
            async for _ in steps:
                pass
        if (found := self.session.library.results.get(key)) is None:
            raise HfposembError("the result is no longer available; send the request again")
        return found


class Endpoints(ModelAccess):
    """The endpoints. Their docstrings are what clients of the API and agents see."""

    async def info(self, source: kinds.Source) -> dict[str, Any]:
        """Describe a model's token and position embedding tables without reading them: start here.

        Returns the shape and data type of each table, the tensor and file it is stored in, how the model encodes
        positions (learned, sinusoidal, rotary, ALiBi, relative, none), its output head, and why a table is absent. Of
        a model on the Hub only headers and configuration are read, some kilobytes. Further sources are a branch, tag or
        commit as "owner/name@revision", "sample:bert", "sample:gpt2", and "random:512x384" for an untrained table.
        """
        return describe(await self.opened(source))

    async def search(
        self,
        source: kinds.Source,
        query: kinds.Sought,
        regex: kinds.Regex = False,
        table: kinds.Table = "",
        limit: kinds.Matches = 20,
        offset: kinds.Offset = 0,
    ) -> dict[str, Any]:
        """Find tokens in a model's vocabulary by a part of their text or a regular expression.

        Returns the row number (token id) and label of each, shortest first, and how many there are. Use it to learn
        how a word is written in a vocabulary before you ask for its neighbours. Upper and lower case are the same.
        """
        wanted = query.strip()
        if not 0 < len(wanted) <= LONGEST_QUERY:
            raise InputError(f"query must have 1 to {LONGEST_QUERY} characters; got {len(wanted)}")
        _, rows = await self.chosen(source, table, read=False)
        found = await self.computed(token_search.matched, rows, wanted, regex=regex)
        shown = found[offset : offset + limit]
        matches = [{"row": row, "label": rows.labels[row]} for row in shown]
        return {"table": rows.name, "query": wanted, "found": len(found), "of": rows.shape[0], "matches": matches}

    async def tokenise(self, source: kinds.Source, text: kinds.Text, neighbours: kinds.Kept = False) -> dict[str, Any]:
        """Split a text with a model's tokenizer, and measure what enters the model's first layer.

        Returns which vectors are added (token, token_type, position), whether a normalisation follows, and for each
        piece its id, its position, the norms of its token vector, of its position vector, of their sum and of what
        enters the first layer, and the cosine of the sum with the token vector alone.
        """
        found = await self.opened(source, "position", "inputs", *(["token"] if neighbours else []))
        return {"source": found.name, **await self.computed(input_facts, found, text, neighbours=neighbours)}

    async def neighbours(
        self,
        source: kinds.Source,
        query: kinds.Row,
        limit: kinds.Nearest = 10,
        metric: kinds.Metric = "cosine",
        table: kinds.Table = "",
        centred: kinds.Centred = False,
    ) -> dict[str, Any]:
        """List the exact nearest neighbours of a row in a model's embedding table, nearest first.

        Returns the row number, label and similarity of each, and the table's anisotropy, the mean cosine of random
        pairs: where it is large, every cosine is, and centred=true separates the rows.
        """
        _, rows = await self.chosen(source, table)
        search: Any = nearest  # overloaded
        asked = typed(str(query))
        found = await self.computed(search, rows, asked, k=limit, metric=metric, centred=centred)
        return {"table": rows.name, **found.to_dict()}

    async def similarity(
        self,
        source: kinds.Source,
        rows: kinds.Rows,
        metric: kinds.Metric = "cosine",
        table: kinds.Table = "",
        centred: kinds.Centred = False,
    ) -> dict[str, Any]:
        """Compare chosen rows of an embedding table pairwise, and say how unusual each value is.

        A cosine alone says little. So each pair comes with its percentile among random pairs of rows, and with the
        rank of each row among the neighbours of the other, 1 for the nearest.
        """
        asked = [typed(str(row)) for row in rows]
        _, whole = await self.chosen(source, table)
        found = await self.computed(pair_similarities, whole, asked, metric=metric, centred=centred)
        return {"table": whole.name, **found.to_dict()}

    async def project(
        self,
        request: gr.Request,
        source: kinds.Source,
        method: kinds.Method = "pca",
        dims: kinds.Dims = 2,
        table: kinds.Table = "position",
        limit: kinds.Points = 2_000,
    ) -> dict[str, Any]:
        """Project an embedding table to two or three dimensions with PCA or UMAP, and report the map's quality.

        Returns the share of variance that each dimension explains, trustworthiness, continuity and the share of
        nearest neighbours that the map keeps, beside what chance keeps; then [row, label, coordinates…] of each point.
        """
        role, rows = await self.chosen(source, table)
        if method == "pca":
            found = await self.computed(self.session.pca, rows, dims)
        else:
            library = self.session.library
            await asyncio.to_thread(umap_of, library, rows, dims)  # if it is included, it is among the results then
            key = umap_key(library, rows, dims)
            found = await self.in_child(request, key, measuring.umap, source, role, dims)
        quality = await self.computed(quality_of, self.session, rows, found)
        ratio = found.explained_variance_ratio
        return {
            "table": rows.name,
            "method": found.method,
            "seed": found.seed,
            "rows": found.rows[:limit].tolist(),
            "labels": [rows.labels[row] for row in found.rows[:limit].tolist()],
            "coordinates": found.coordinates[:limit].tolist(),
            "of": len(found.rows),
            "left_out": found.left_out,
            "explained_variance_ratio": None if ratio is None else ratio.tolist(),
            "trustworthiness": quality.trustworthiness,
            "continuity": quality.continuity,
            "neighbours_kept": quality.neighbours_kept,
            "neighbours_kept_by_chance": quality.kept_by_chance,
        }

    async def compare(self, request: gr.Request, sources: kinds.Sources) -> dict[str, Any]:
        """Measure up to eight models and compare their tables pairwise: the tool for questions about positions.

        Returns the metrics, each with its value for every source in the order of sources, beside the values of an
        untrained and of a sinusoidal table of the same shape: variance of components, mean cosine at a distance,
        translation invariance (1 if similarity depends on distance alone), shift R² (1 if one linear map shifts every
        position), norms, anisotropy. And for each pair CKA and other similarities, p against chance,
        corrected for all pairs and roles (judge by this one) and alone, or why it was not tested.
        """
        texts = list(dict.fromkeys(sources))
        for text in texts:
            await self.opened(text, "position", "token")
        key = comparison_key(texts, public=self.session.public)
        return document(await self.in_child(request, key, measuring.comparison, texts, limits.COMPARISON_DRAWS))

    async def check(self, request: gr.Request, source: kinds.Source) -> dict[str, Any]:
        """Look for faults in a model's files: configuration, weights and tokenizer are compared with each other.

        Returns each finding with its severity, why it matters and what corrects it, and what was checked. Nothing is
        executed, and of a model on the Hub at most 2 MB are read.
        """
        key = check_key(source, public=self.session.public)
        report: CheckReport = await self.in_child(request, key, measuring.check, source)
        return report.to_dict()

    async def vocabulary(self, request: gr.Request, source: kinds.Source, other: kinds.Source) -> dict[str, Any]:
        """Compare two vocabularies: can the models be merged, draft for each other, or be distilled?

        Returns a verdict, the three answers each with the finding that decides it, how many ids name the same text, and
        what else differs: special and chat tokens, padding, normaliser, pre-tokenizer, merges.
        """
        return await self._answered(VOCABULARY, request, source, other)

    async def kinship(self, request: gr.Request, source: kinds.Source, other: kinds.Source) -> dict[str, Any]:
        """Tell whether one model was made from the other, from a few hundred token rows.

        Returns a verdict (same, derived, extended, pruned, rotated, same tokenizer, unrelated, cannot tell), what
        decided, p for independent trainings, each figure beside its null, and what rows cannot tell.
        """
        return await self._answered(ORIGIN, request, source, other)

    async def merge_preview(self, request: gr.Request, source: kinds.Source, other: kinds.Source) -> dict[str, Any]:
        """Tell what averaging the token tables of two models would do, before they are merged.

        Returns a verdict (keeps, blurs, destroys, impossible, cannot tell), what decided, each figure beside its null,
        their kinship, and by method and weight how long merged rows are and how many neighbours they keep.
        """
        return await self._answered(MERGE, request, source, other)

    async def _answered(self, question: PairQuestion, request: gr.Request, source: str, other: str) -> dict[str, Any]:
        key = pair_key(question.name, source, other, public=self.session.public)
        found: dict[str, Any] = await self.in_child(request, key, question.compute, source, other)
        return found


def _answering(endpoint: Endpoint, *, public: bool) -> Endpoint:
    """Wrap an endpoint: its arguments are checked, as Gradio checks no types, and errors are answered with one line."""
    described, names = Described.of(endpoint.__name__, endpoint), list(signature(endpoint).parameters)

    @wraps(endpoint)
    async def answer(*values: Any) -> Any:
        given = dict(zip(names, values, strict=False))
        request = {"request": given.pop("request")} if "request" in given else {}
        try:
            return await endpoint(**request, **described.parsed(given, strict=True))
        except Exception as error:
            raise gr.Error(one_line(said_of(error, public=public)), print_exception=False) from error

    return answer
