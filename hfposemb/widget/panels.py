"""The panels of a widget: a map and a matrix of every source, with the numbers that link them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..analysis.projection.projecting import project
from ..analysis.similarity.similarity_matrix import similarity
from ..errors import HfposembError
from ..figures import matrix_figures, position_figures, token_figures
from ..figures.figure_packing import Packer
from ..figures.palette import POSITION, SIMILARITY, dark_map
from ..progress import Report
from ..reports.position_findings import axes_caption
from ..reports.source_drawings import (
    NO_CLOUD,
    Panel,
    class_legend,
    cosine_matrix,
    map_foot,
    mechanism,
    owner,
    packed_panel,
    row_of,
    sampled,
    scale_bar,
)
from ..tables.table import EmbeddingTable
from .shown_sources import ShownSource

if TYPE_CHECKING:
    from .selection import Rows, Selectable, Selection

WORDS = ("king", "queen", "man", "woman", "paris", "london", "one", "two", "red", "blue", "good", "bad")
"""Words whose cosines are drawn until tokens are selected."""

MOST_WORDS = 24
"""Maximum number of tokens in a matrix."""

TOKENS = 100_000
"""Maximum number of tokens drawn of a vocabulary; larger ones are sampled with a seed."""

DEEP = 3
"""Maximum number of sources whose positions are drawn in three dimensions by default."""

ORDER = scale_bar("first", "last", POSITION.light)
COSINE = scale_bar("cosine −1", "+1", SIMILARITY.light)

SEED = 0
HEIGHT = 420
COMPRESSION = 6


@dataclass(frozen=True)
class Options:
    """What is drawn.

    Attributes:
        method: Method of the maps.
        dims: Number of dimensions of the maps.
        words: Words whose cosines are drawn until tokens are selected.
    """

    method: Literal["pca", "umap"]
    dims: int
    words: Sequence[str]


@dataclass(eq=False)
class DrawnRow:
    """A row of panels under construction.

    Attributes:
        files: Numbers and labels so far, compressed with gzip.
        figures: Figures so far, with the titles of their panels.
    """

    files: list[bytes] = field(default_factory=list)
    figures: list[tuple[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._packer = Packer(self._put)

    def panel(self, source: ShownSource, key: str, title: str, *drawings: tuple[Any, str], **words: Any) -> Panel:
        """Return a panel of a source; what is selected stands out in it unless ``selects`` is false."""
        about = words.pop("about", "")
        shown = {"selects": True, **owner(source.name, source.place, about), **words}
        self.figures += [(f"{source.name}: {caption or title}", figure) for figure, caption in drawings]
        return packed_panel(self._packer, f"{key}-{source.place}", title, *drawings, **shown)

    def sent(self, panels: Sequence[Panel], *, columns: int, **words: Any) -> dict[str, Any]:
        """Return the row as the page reads it: its text, and the files that the text refers to."""
        row = {**row_of(panels, columns=columns, **words), "dark": dark_map()}
        return {"row": json.dumps(row, ensure_ascii=False, separators=(",", ":")), "files": self.files}

    def _put(self, content: bytes, _name: str) -> dict[str, Any]:
        self.files.append(gzip.compress(content, COMPRESSION, mtime=0))
        return {}


def position_rows(
    sources: Sequence[ShownSource], options: Options, progress: Report, left_out: Sequence[str] = ()
) -> tuple[dict[str, Any], dict[str, Any], list[tuple[str, Any]]]:
    """Draw the positions of some sources.

    Args:
        sources: The sources.
        options: What is drawn.
        progress: Callback for the fraction done and the current step.
        left_out: Why other sources are not drawn.

    Returns:
        The row of maps and that of matrices as they are sent, and the figures with their captions.
    """
    maps, matrices = DrawnRow(), DrawnRow()
    above, below = [], []
    for number, source in enumerate(sources):
        progress(number / len(sources), f"drawing {source.name}")
        if source.encoding is not None:
            line, matrix, foot = mechanism(source.encoding, source.name, source.place)
            about, bars = f"{source.encoding.kind} positions", []
            above.append(maps.panel(source, "map", NO_CLOUD, line, foot=foot, about=about))
        else:
            assert source.table is not None
            above.append(_position_map(maps, source, source.table, options))
            matrix, foot = cosine_matrix(source.table)
            about, bars = _count(source, "positions"), [COSINE]
        words = {"foot": foot, "about": about, "tools": ["Range"], "scale_bars": bars}
        below.append(matrices.panel(source, "matrix", "", matrix, **words))
    columns = min(len(sources), 4)
    first = maps.sent(above, columns=columns, subheading=_left_out(left_out))
    return first, matrices.sent(below, columns=columns), [*maps.figures, *matrices.figures]


def token_maps(
    sources: Sequence[ShownSource],
    chosen: Selectable,
    options: Options,
    progress: Report,
    left_out: Sequence[str] = (),
) -> tuple[dict[str, Any], list[tuple[str, Any]]]:
    """Draw the vocabularies of some sources.

    Args:
        sources: The sources.
        chosen: What can be selected of them.
        options: What is drawn.
        progress: Callback for the fraction done and the current step.
        left_out: Why other sources are not drawn.

    Returns:
        The row of maps as it is sent, and the figures with their captions.
    """
    maps, panels = DrawnRow(), []
    for number, source in enumerate(sources):
        stage = partial(_within, progress, number / len(sources), 1 / len(sources))
        assert source.table is not None
        found = project(source.table, method=options.method, dims=options.dims, seed=SEED, progress=stage)
        found, about = sampled(found, TOKENS, SEED)
        figure = token_figures.token_map(found, source.table.labels, height=HEIGHT)
        _link(figure, source, chosen, numbered=source.table.named is None)
        foot = f"{found.method.upper()} · {about}" + (f" · {found.left_out:,} rows left out" if found.left_out else "")
        legend = class_legend(source.table, found)
        drawing = (figure, axes_caption(found))
        words = {"foot": foot, "legend": legend, "tools": ["Lasso", "Box"], "about": _count(source, "tokens")}
        panels.append(maps.panel(source, "map", "", drawing, **words))
    return maps.sent(panels, columns=min(len(sources), 2), subheading=_left_out(left_out)), maps.figures


def token_matrices(
    sources: Sequence[ShownSource], chosen: Selectable, selection: Selection, words: Sequence[str]
) -> tuple[dict[str, Any], list[tuple[str, Any]]]:
    """Draw the cosines of the selected tokens of every source, or of some words if less than two are selected.

    Returns:
        The row of matrices as it is sent, and the figures with their captions.
    """
    drawn, panels = DrawnRow(), []
    for source in sources:
        assert source.table is not None
        numbers = chosen.linked.numbers[source.place]
        rows, title = _matrix_rows(source.table, selection[source.name], numbers, words)
        try:
            if len(rows) < 2:
                raise HfposembError("Select two or more tokens on a map to see the cosine of every two of them.")
            figure = _token_matrix(source.table, rows, numbers[rows])
        except HfposembError as error:
            panels.append(drawn.panel(source, "matrix", "", message=str(error)))
            continue
        panels.append(drawn.panel(source, "matrix", title, (figure, ""), selects=False, scale_bars=[COSINE]))
    return drawn.sent(panels, columns=min(len(sources), 2)), drawn.figures


def _position_map(row: DrawnRow, source: ShownSource, table: EmbeddingTable, options: Options) -> Panel:
    dims, about = min(options.dims, table.shape[1]), _count(source, "positions")
    if dims < 2 or table.finite.sum() < 2:
        said = "A map needs at least two positions and two dimensions."
        return row.panel(source, "map", "No map", message=said, about=about)
    found = project(table, method=options.method, dims=dims, seed=SEED, progress=False)
    figure = position_figures.projection(found, joined=options.method == "pca", height=HEIGHT)
    words = {"foot": map_foot(found, table.shape[1]), "tools": ["Lasso", "Box"], "about": about, "scale_bars": [ORDER]}
    return row.panel(source, "map", "", (figure, axes_caption(found)), **words)


def _matrix_rows(table: EmbeddingTable, selected: Rows, numbers: Rows, words: Sequence[str]) -> tuple[list[int], str]:
    """Return the rows whose cosines are drawn, in an order that all sources share, and the title that says so."""
    if len(selected) > 1:
        some = f"the first {MOST_WORDS} of {len(selected):,}" if len(selected) > MOST_WORDS else f"the {len(selected)}"
        rows = selected[np.argsort(numbers[selected], kind="stable")]
        return rows[:MOST_WORDS].tolist(), f"Cosines of {some} selected tokens"
    found = [row for word in words if (row := table.labels.find(word)) is not None] if table.named else []
    return list(dict.fromkeys(found))[:MOST_WORDS], "Cosines of some words"


def _token_matrix(table: EmbeddingTable, rows: Sequence[int], numbers: Any) -> Any:
    names = [table.labels[row].strip() or "(space)" for row in rows]
    figure = matrix_figures.similarity_matrix(similarity(table, rows=rows).astype(np.float32), labels=names)
    heat = figure.data[0]
    heat.meta = {**(heat.meta or {}), "link": "token", "ids": np.asarray(numbers, np.int32)}
    return figure


def _link(figure: Any, source: ShownSource, chosen: Selectable, *, numbered: bool) -> None:
    """Give the dots of a map the numbers that all sources share; rows without labels need no text either."""
    numbers, own = chosen.linked.numbers[source.place], chosen.linked.is_own(source.place)
    for trace in figure.data:
        if numbered:
            trace.text = None
        if own or not trace.meta or "link" not in trace.meta:
            continue
        rows = trace.meta.get("ids")
        if rows is None:
            rows = trace.meta["first"] + np.arange(len(trace.x))
        shared = np.asarray(numbers[rows], np.int32)
        trace.meta = {"link": trace.meta["link"], "ids": shared, "numbers": np.asarray(rows, np.int32)}


def _left_out(why: Sequence[str]) -> str:
    return f"Left out: {'; '.join(why)}" if why else ""


def _count(source: ShownSource, what: str) -> str:
    part = f"{source.count:,} of " if source.count < source.whole else ""
    return f"{part}{source.whole:,} {what}"


def _within(progress: Report, begin: float, share: float, done: float, doing: str) -> None:
    progress(begin + share * done, doing)
