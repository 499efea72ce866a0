"""The endpoints for programs, which MCP clients see as tools: ``info``, ``neighbours``, ``similarity``, ``project`` and
``compare``.

Promised: their names, parameters and the keys of what they return stay. They obey the limits of the page: strangers
name no local files, read within ``PUBLIC_LIMITS``, and what is heavy runs in the child whose turn it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from contextlib import aclosing
from functools import partial, wraps
from typing import Any, Literal
from uuid import uuid4

import gradio as gr

from hfposemb.analysis.nearest_rows import neighbours as nearest
from hfposemb.analysis.row_pairs import pairs
from hfposemb.errors import HfposembError, InputError
from hfposemb.models.summary import describe
from hfposemb.reports.json_schema import document
from hfposemb.tables.embeddings import Embeddings
from hfposemb.tables.row_lookup import typed
from hfposemb.tables.table import EmbeddingTable
from hfposemb.text import one_line

from .. import limits
from ..failures import said_of
from ..findings.comparison import comparison_key
from ..findings.token_map import quality_of
from ..jobs import children
from ..jobs.queue import Visitor
from ..limits import LONGEST_TEXT, MOST_SOURCES, MOST_WORDS
from ..session.background_jobs import umap_key
from ..session.source_names import short_name
from ..session.state import Session

Endpoint = Callable[..., Awaitable[dict[str, Any]]]

METRICS = ("cosine", "dot", "euclidean")

MOST_NEIGHBOURS = 1_000
MOST_POINTS = 20_000
"""Points that one answer holds."""

AT_ONCE = 4
"""Calls of one endpoint that are answered side by side."""


def bind(session: Session) -> None:
    """Offer the endpoints on the page that is open. ``session`` says whose limits hold."""

    async def opened(source: str, *needs: str) -> Embeddings:
        """Open a source with what is needed of it read, in the threads that read for the page."""
        key, work = session.library.fetch(_text(source, "source"), needs, public=session.public)
        reads = session.library.fetches.follow(f"api/{uuid4().hex}", key, {key: (short_name(source), work)})
        async with aclosing(reads):
            async for read in reads:
                if read[0].over.is_set() and read[0].error is not None:
                    raise read[0].error
        return await asyncio.to_thread(session.library.open, source, public=session.public)

    async def chosen(source: str, role: str) -> tuple[str, EmbeddingTable]:
        """Return a table that was read, with its role: the one asked for, else the tokens', else the positions'."""
        found = await opened(source)
        wanted = _text(role, "table") or ("token" if "token" in found.tables else "position")
        if wanted not in found.tables:
            reason = found.absent.get(wanted, "it was not found")
            raise InputError(f"{found.name} has no {wanted} table: {reason}; its tables: {', '.join(found.tables)}")
        return wanted, (await opened(source, wanted.rpartition(".")[2])).tables[wanted]

    async def in_child(request: gr.Request, key: Hashable, work: Callable[..., Any], *arguments: Any) -> Any:
        """Do heavy work when the caller's turn comes, as the page does, unless its result is known."""
        if session.library.results.get(key) is None:
            visitor, call = Visitor.of(request, public=session.public), f"api/{uuid4().hex}"
            async with aclosing(session.jobs.compute(visitor, call, key, arguments, work, *arguments)) as steps:
                async for _ in steps:
                    pass
        if (found := session.library.results.get(key)) is None:
            raise HfposembError("the result could not be kept; ask again")
        return found

    async def info(source: str) -> dict[str, Any]:
        """Say which token and position tables a model has, and how it tells positions apart; no table is read.

        Args:
            source: A model of the Hub such as "openai-community/gpt2", "sample:bert", or "sinusoidal:512x384".
        """
        return describe(await opened(source))

    async def neighbours(
        source: str,
        query: str,
        k: int = 10,
        metric: Literal["cosine", "dot", "euclidean"] = "cosine",
        table: str = "",
        centred: bool = False,
    ) -> dict[str, Any]:
        """List the rows of a model's embedding table that are nearest to one of them, exactly, nearest first.

        Args:
            source: A model of the Hugging Face Hub, a sample such as "sample:bert", or a closed form.
            query: A token such as "king", or the number of a row.
            k: How many, 1,000 at most.
            metric: "cosine", "dot" or "euclidean".
            table: "token", "position" or another table that info names; the tokens by default.
            centred: Whether to subtract the mean row first, for tables whose rows all point one way: see the notes.
        """
        most = _count(k, MOST_NEIGHBOURS, "k")
        _, rows = await chosen(source, table)
        how: Any = {"metric": _one_of(metric, METRICS), "centred": _flag(centred, "centred")}
        found = await asyncio.to_thread(nearest, rows, _row(query), k=most, **how)
        return {"table": rows.name, **found.to_dict()}

    async def similarity(
        source: str,
        rows: list[str],
        metric: Literal["cosine", "dot", "euclidean"] = "cosine",
        table: str = "",
        centred: bool = False,
    ) -> dict[str, Any]:
        """Compare chosen rows of an embedding table with each other, and say how rare each value is.

        That is among random pairs, and as the rank of each row among all neighbours of the other, 1 for the nearest.

        Args:
            source: A model of the Hugging Face Hub, a sample such as "sample:bert", or a closed form.
            rows: Tokens such as ["king", "queen", "bread"], or numbers of rows; 12 at most.
            metric: "cosine", "dot" or "euclidean".
            table: "token", "position" or another table that info names; the tokens by default.
            centred: Whether to subtract the mean row first, for tables whose rows all point one way: see the notes.
        """
        asked = [_row(row) for row in _list(rows, MOST_WORDS, "rows")]
        _, whole = await chosen(source, table)
        how: Any = {"metric": _one_of(metric, METRICS), "centred": _flag(centred, "centred")}
        found = await asyncio.to_thread(pairs, whole, asked, **how)
        return {"table": whole.name, **found.to_dict()}

    async def project(
        request: gr.Request,
        source: str,
        method: Literal["pca", "umap"] = "pca",
        dims: int = 2,
        table: str = "position",
        points: int = 2_000,
    ) -> dict[str, Any]:
        """Project an embedding table to two or three dimensions, and say how far the picture can be trusted.

        Args:
            source: A model of the Hugging Face Hub, a sample such as "sample:bert", or a closed form.
            method: "pca", or "umap", which may take minutes the first time.
            dims: 2 or 3.
            table: "position", "token" or another table that info names.
            points: How many points to return, the first ones, 20,000 at most.
        """
        size, count = _one_of(dims, (2, 3)), _count(points, MOST_POINTS, "points")
        role, rows = await chosen(source, table)
        if _one_of(method, ("pca", "umap")) == "pca":
            found = await asyncio.to_thread(session.projection, rows, "pca", size)
        else:
            found = await in_child(request, umap_key(session.library, rows, size), children.umap, source, role, size)
        quality = await asyncio.to_thread(quality_of, session, rows, found)
        ratio = found.explained_variance_ratio
        return {
            "table": rows.name,
            "method": found.method,
            "seed": found.seed,
            "rows": found.rows[:count].tolist(),
            "labels": [rows.labels[row] for row in found.rows[:count].tolist()],
            "coordinates": found.coordinates[:count].tolist(),
            "of": len(found.rows),
            "left_out": found.left_out,
            "explained_variance_ratio": None if ratio is None else ratio.tolist(),
            "trustworthiness": quality.trustworthiness,
            "continuity": quality.continuity,
            "neighbours_kept": quality.neighbours_kept,
            "neighbours_kept_by_chance": quality.kept_by_chance,
        }

    async def compare(request: gr.Request, sources: list[str]) -> dict[str, Any]:
        """Measure up to four models and compare them pair by pair, every number beside what chance gives for it.

        Args:
            sources: Models of the Hub, samples or closed forms, such as ["sample:bert", "sinusoidal:256x128"].
        """
        texts = list(dict.fromkeys(_list(sources, MOST_SOURCES, "sources")))
        for text in texts:
            await opened(text, "position", "token")
        key = comparison_key(texts, public=session.public)
        return document(await in_child(request, key, children.comparison, texts, limits.COMPARISON_DRAWS))

    answering = partial(_answering, public=session.public)
    for endpoint in (info, neighbours, similarity):
        gr.api(answering(endpoint), api_name=endpoint.__name__, concurrency_limit=AT_ONCE)
    for heavy in (project, compare):
        gr.api(answering(heavy), api_name=heavy.__name__, concurrency_limit=None)  # the line bounds these


def _answering(endpoint: Endpoint, *, public: bool) -> Endpoint:
    """Answer an error with one line."""

    @wraps(endpoint)
    async def answer(*values: Any) -> Any:
        try:
            return await endpoint(*values)
        except Exception as error:
            raise gr.Error(one_line(said_of(error, public=public)), print_exception=False) from error

    return answer


# --- what callers send: Gradio does not hold them to the types ------------------------------------------------------


def _text(value: object, name: str) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        raise InputError(f"{name} is a text of at most {LONGEST_TEXT:,} characters; got {_shown(value)}")
    return value


def _count(value: object, most: int, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise InputError(f"{name} is a whole number from 1 to {most:,}; got {_shown(value)}")
    return value


def _list(values: object, most: int, name: str) -> list[str]:
    if not isinstance(values, list) or not 1 <= len(values) <= most:
        raise InputError(f"{name} is a list of 1 to {most} texts; got {_shown(values)}")
    return [_text(value, f"each of {name}") for value in values]


def _one_of(value: Any, choices: tuple[Any, ...]) -> Any:
    if value not in choices or isinstance(value, bool):
        raise InputError(f"expected one of {', '.join(map(str, choices))}; got {_shown(value)}")
    return value


def _flag(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{name} is true or false; got {_shown(value)}")
    return value


def _row(value: object) -> int | str:
    """Return a row by its number, or the label that was written."""
    return typed(_text(str(value) if isinstance(value, int) else value, "a row"))


def _shown(value: object) -> str:
    return one_line(repr(value)[:60], width=60)
