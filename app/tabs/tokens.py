"""The Tokens tab: a whole vocabulary as a map, a word's exact neighbours in every source, and chosen words in pairs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import gradio as gr
import numpy as np

import hfposemb as hpe
from hfposemb.analysis.anisotropy import is_strong, mean_cosine
from hfposemb.analysis.nearest_rows import Neighbours
from hfposemb.analysis.projection_quality import WRONG, PointTrust, Quality, point_trust
from hfposemb.analysis.rows import norms
from hfposemb.analysis.similarity_matrix import query_distribution
from hfposemb.errors import HfposembError
from hfposemb.figures import line_figures, style, token_figures
from hfposemb.figures.palette import POSITION, SHARE
from hfposemb.figures.style import number
from hfposemb.tables.row_lookup import reading, spelt
from hfposemb.tables.table import TOKEN_CLASSES, EmbeddingTable, Labels

from ..components.events import QUIET
from ..components.hidden import State
from ..components.plot import Drawing, LegendItem, NeighbourList, NeighbourRow, Panel, PanelRow, Panels, ScaleBar
from ..jobs import children, measuring
from ..jobs.queue import Visitor
from ..recipes import snippets
from ..server.limits import LONGEST_QUERY, LONGEST_SOURCE, PCA_FLOPS, QUICK_FLOPS
from ..session.address import of_sources
from ..session.state import Opened, Session, Umaps, guarded, one_line, unseen_heading

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from hfposemb.analysis.projection import Projection

TITLE = "Tokens"
NEEDS = ("token",)

FIRST_WORD = "king"
FIRST_WORDS = "king, queen, father, mother, heaven, earth"
NEIGHBOURS = 12
BINS = 160  # of the cosines with a word
MATCHES = 24
MAP_HEIGHT = 980
SEARCH_SECONDS = 3.0
MEASURED = 2_000  # tokens whose trust is measured when the map is coloured by it

MAP_HELP = """
Every dot is one row of the token table. PCA turns the table so that its two (or three) directions of most variance
face you: straight lines stay straight, and the share of the variance says how much is left out. UMAP bends: it keeps
near rows near, by cosine, and lets go of the rest.

Read the islands and who is inside them, not the distance between islands. The foot says how many of each token's ten
nearest the picture keeps, measured against the table, and its trustworthiness and continuity: 1 unless the map puts
together what is apart in the table, or tears apart what is together; a layout at random has .5 of both.

Coloured by trust, a dot shows how many of its ten nearest are near it here. Where all are dark, look at the list of
neighbours and not at the map.

Trustworthiness and continuity: Venna & Kaski 2001, 2006. PCA: Pearson 1901. UMAP: McInnes, Healy and Melville 2018,
arXiv:1802.03426.
"""
NEIGHBOUR_HELP = """
The cosine of two rows a and b is a·b / (‖a‖ ‖b‖): 1 for the same direction, 0 for unrelated ones. It is computed with
every row of the table in float64. Nothing is approximated, and nothing is read from the map.

A word is looked up in the other sources by its spelling: “ king” of a byte-level vocabulary is “king” of a WordPiece
one. Where a vocabulary has both “ king”, which starts a word, and “king”, a piece inside words, king means the first.

In some tables all tokens point one way, so that every cosine is high and neighbours are hard to tell apart. Centred
subtracts the mean of all rows before cosines are taken, here, in the histogram and in the matrix below. The page says
where the mean cosine of two random tokens is .5 or more: then more than half of each row, by its squared length, is
what all rows share.

Mu & Viswanath 2018, All-but-the-top, arXiv:1702.01417.
"""
SPREAD_HELP = """
How many tokens have which cosine with the chosen word, on a log axis, so that single tokens can be seen. The dots at
the foot are its nearest. Where all tokens point one way, the whole hill stands right of 0 and a high cosine means
little.

Ethayarajh 2019, arXiv:1909.00512, on directions that all vectors share.
"""


@dataclass(frozen=True)
class Word:
    """The word on the page: how it is spelt, and the source and row it was picked from, if it was picked."""

    text: str
    source: str = ""
    row: int = -1

    @classmethod
    def of(cls, state: Sequence[Any]) -> Word:
        """Read the word from its state."""
        return cls(str(state[0]), str(state[1]), int(state[2]))

    @property
    def state(self) -> list[Any]:
        """The word as a state holds it."""
        return [self.text, self.source, self.row]

    @property
    def shown(self) -> str:
        """The word without the space that marks a word's start."""
        return shown(self.text)


def write_word(state: Sequence[Any]) -> str:
    """Write the word for an address: its spelling, and where it was picked from."""
    word = Word.of(state)
    return word.text if word.row < 0 else f"{word.text}|{word.row}|{word.source}"


def read_word(text: str) -> list[Any]:
    """Read what ``write_word`` wrote."""
    spelling, *picked = text.rsplit("|", 2)
    if len(text) > LONGEST_QUERY + LONGEST_SOURCE:
        raise ValueError(text[:40])
    if len(picked) == 2 and picked[0].isdecimal() and len(picked[0]) < 9:
        return Word(spelling, picked[1], int(picked[0])).state
    return Word(text).state


NOT_SEARCHED = ("", False)
"""What is searched, and whether it is a pattern, where nothing is."""


def write_sought(sought: Sequence[Any]) -> str:
    """Write a search for an address."""
    text, pattern = sought
    return f"{'regex' if pattern else 'text'}:{text}"


def read_search(text: str) -> list[Any]:
    """Read what ``write_sought`` wrote."""
    kind, _, wanted = text.partition(":")
    if kind not in ("text", "regex") or not 0 < len(wanted) <= LONGEST_QUERY:
        raise ValueError(text[:40])
    return [wanted, kind == "regex"]


def shown(label: str) -> str:
    """Return a token's label without the space that marks a word's start, short enough to read."""
    return one_line(label.strip(), width=40) or "(space)"


# --- looking words up -------------------------------------------------------------------------------------------------


def row_of(table: EmbeddingTable, word: Word, source: str) -> int | None:
    """Return the row of a word in a source: the one it was picked by, else by its spelling, else by its id."""
    if word.source == source and 0 <= word.row < table.shape[0]:
        return word.row
    if (row := spelt(table.labels, word.text)) is not None:
        return row
    bare = word.text.strip()
    if not word.source and bare.isascii() and bare.isdecimal() and len(bare) < 9 and int(bare) < table.shape[0]:
        return int(bare)
    return None


@lru_cache(maxsize=16)
def _folded(labels: Labels) -> tuple[str, ...]:
    return tuple(text.casefold() for text in labels)


def containing(labels: Labels, text: str) -> list[int]:
    """Return the rows whose label holds a text, whatever its case: the shortest first."""
    wanted = text.casefold()
    return _shortest(labels, [row for row, label in enumerate(_folded(labels)) if wanted in label])


def matching(labels: Labels, pattern: str) -> list[int]:
    """Return the rows whose label a regular expression is found in, within ``SEARCH_SECONDS``."""
    return _shortest(labels, children.run(children.search, pattern, labels.texts, deadline=SEARCH_SECONDS))


def _shortest(labels: Labels, rows: list[int]) -> list[int]:
    return sorted(rows, key=lambda row: (len(labels[row].strip()), row))


def nearest_spelling(labels: Labels, text: str) -> str | None:
    """Return the label that is spelt most like a text, among those that begin alike."""
    wanted = text.strip().casefold()[:40]
    if not wanted:
        return None
    near: tuple[float, str] = (0.0, "")
    for row, label in enumerate(_folded(labels)):
        bare = label.strip().removeprefix("##")
        if bare[:1] == wanted[0] and abs(len(bare) - len(wanted)) <= 4:
            near = max(near, (SequenceMatcher(None, wanted, bare).ratio(), labels[row]))
    return near[1] if near[0] >= 0.6 else None


def common_key(label: str) -> str:
    """Return what a token is told by across vocabularies: its letters."""
    return label.strip().removeprefix("##").casefold()


# --- the map ----------------------------------------------------------------------------------------------------------


def with_tokens(opened: Sequence[Opened]) -> list[Opened]:
    """Return the sources that have a token table."""
    return [source for source in opened if source.table("token") is not None]


def which_choices(opened: Sequence[Opened]) -> list[tuple[str, str]]:
    """Return the sources that have a token table as choices: a name, numbered where it comes again, and the text."""
    counted: Counter[str] = Counter()
    out = []
    for source in with_tokens(opened):
        counted[source.name] += 1
        again = counted[source.name]
        out.append((source.name if again == 1 else f"{source.name} {again}", source.text))
    return out


def _chosen(opened: Sequence[Opened], which: str | None) -> Opened | None:
    candidates = with_tokens(opened)
    return next((source for source in candidates if source.text == which), candidates[0] if candidates else None)


def _reason(source: Opened) -> str:
    """Say in one line why a source has no tokens."""
    if source.embeddings is None:
        return f"{source.name}: {source.error}"
    reason = source.embeddings.absent.get("token", "its checkpoint has none")
    return f"{source.name} has no tokens: {reason}."


def _neighbours(session: Session, table: EmbeddingTable, row: int, *, centred: bool) -> Neighbours:
    return session.library.result(
        table,
        ("neighbours", row, NEIGHBOURS, centred),
        lambda: hpe.neighbours(table, row, k=NEIGHBOURS, centred=centred),
    )


def _empty(key: str, title: str, message: str) -> tuple[Panel, ...]:
    return (Panel(key, title, message=message),)


def map_panels(
    session: Session,
    source: Opened | None,
    projection: Projection,
    color: str,
    word: Word,
    *,
    centred: bool = False,
) -> tuple[Panel, ...]:
    """Return the panel with the whole vocabulary of one source."""
    assert source is not None
    table = source.embeddings.token  # type: ignore[union-attr]
    labels, rows = table.labels, projection.rows
    row = row_of(table, word, source.text)
    near: list[int] = []
    if row is not None and np.isin(row, rows):
        try:
            near = [
                int(other) for other in _neighbours(session, table, row, centred=centred).rows if np.isin(other, rows)
            ]
        except HfposembError:
            near = []  # the list of neighbours says why
    else:
        row = None
    if color == "Trust":
        found = measured(session, table, projection)
        projection = replace(projection, trust=found, quality=found.quality)
    told = kept_here(session, table, projection, row) if projection.measured else []
    values: Any = {"Class": "class", "Id": "id", "Trust": "trust"}.get(color)
    paint = norms(table) if values is None else values
    figure = token_figures.token_map(projection, labels, color=paint, selected=row, neighbours=near, height=MAP_HEIGHT)
    legend: tuple[LegendItem, ...] = ()
    bars: tuple[ScaleBar, ...] = ()
    if color == "Class":
        counts = token_figures.class_counts(labels, rows=rows)
        legend = tuple(LegendItem(name, style.CLASS_COLOURS[name], f"{count:,}") for name, count in counts.items())
    elif color == "Id":
        bars = (ScaleBar("id 0", f"{table.shape[0] - 1:,}", POSITION.light),)
    else:
        marker = next(trace.marker for trace in figure.data if trace.marker.cmin is not None)
        digits, what = (2, "norm") if color == "Norm" else (1, "of its 10 nearest, near it here")
        ends = [number(end if color == "Norm" else 10 * end, digits=digits) for end in (marker.cmin, marker.cmax)]
        bars = (ScaleBar(*ends, SHARE.light, what),)
    return (
        Panel(
            "map",
            trust_title(source, projection) if color == "Trust" else _map_title(source, projection),
            (Drawing(figure),),
            subtitle=" ".join([_map_subtitle(source, projection), *told]),
            emphasis=shown(labels[row]) if row is not None else "",
            legend=legend,
            scale_bars=bars,
            help=MAP_HELP,
            foot=_map_foot(projection, table),
            actions=("PNG", "SVG"),
            recipe=snippets.token_map(source, method=projection.method, dims=projection.dims, values=color),
        ),
    )


def asked_map(
    session: Session,
    opened: Sequence[Opened],
    which: str | None,
    method: str,
    dims: str,
    color: str,
    state: list[Any],
    centred: bool = False,
    done: dict[str, Any] | None = None,
) -> list[Any]:
    """Return the projection, the map that the controls ask for, the work it wants done first, and the colour."""
    source, kept = _chosen(opened, which), gr.skip()
    if source is None:
        reasons = " ".join(_reason(one) for one in opened) or "Choose a source above, such as sample:bert."
        return [kept, _empty("map", "No source here has tokens", reasons), [], kept]
    table, size, back, paint = source.embeddings.token, int(dims[0]), kept, kept  # type: ignore[union-attr]
    try:
        if wanted := _before_map(session, source, table, method, size, color):
            if not (done and Umaps.failed(done, wanted)):
                return [kept, kept, wanted, kept]
            kind = wanted[0][3] if len(wanted[0]) > 3 else "UMAP"
            if kind == "PCA":
                message = "PCA of this table was stopped. To start it again, change a control, such as the colour."
                return [kept, _empty("map", f"There is no map of {source.name}", message), [], kept]
            if kind == "Trust":
                color, paint = "Class", gr.update(value="Class")
            else:
                method, back = "PCA", gr.update(value="PCA")
        projection = session.projection(table, method.lower(), size)
        assert projection is not None
        panels = map_panels(session, source, projection, color, Word.of(state), centred=centred)
    except HfposembError as error:
        panels = (Panel("map", f"{source.name} cannot be drawn", message=one_line(str(error)), tone="error"),)
    return [back, panels, [], paint]


def _before_map(
    session: Session, source: Opened, table: EmbeddingTable, method: str, dims: int, color: str
) -> list[list[Any]]:
    """Return the work that a map waits for, nothing where it can be drawn at once: what ``map_work`` takes."""
    rows, width = table.shape
    if method == "UMAP" and session.projection(table, "umap", dims) is None:
        return [[source.text, "token", dims]]
    heavy = rows * width * min(rows, width) > PCA_FLOPS
    if method == "PCA" and heavy and session.library.results.get(_pca_key(session, table, dims)) is None:
        return [[source.text, "token", dims, "PCA"]]
    costly = min(MEASURED, rows) * rows * width > QUICK_FLOPS
    key = session.library.result_key(table, trust_key(method.lower(), dims))
    if color == "Trust" and costly and session.library.results.get(key) is None:
        return [[source.text, "token", dims, "Trust", method.lower()]]
    return []


def _pca_key(session: Session, table: EmbeddingTable, dims: int) -> Any:
    return session.library.result_key(table, ("pca", dims))


async def map_work(
    session: Session, visitor: Visitor, part: str, wanted: Sequence[Sequence[Any]]
) -> AsyncGenerator[children.Progress, None]:
    """Do what a map waits for in a child: UMAP of ``[[source, role, dims]]``, or what stands behind these three."""
    text, role, dims, *more = wanted[0]
    if not more:
        steps = session.lay_out(visitor, part, wanted)
    else:
        table = session.open([text])[0].table(role)
        if table is None:
            return
        if more[0] == "PCA":
            key = _pca_key(session, table, dims)
            steps = session.compute(visitor, part, key, list(wanted[0]), measuring.pca, text, role, dims)
        else:
            projection = session.projection(table, more[1], dims)
            if projection is None:
                return
            key = session.library.result_key(table, trust_key(more[1], dims))
            picture = (projection.coordinates, projection.rows, metric_of(projection), MEASURED)
            steps = session.compute(visitor, part, key, list(wanted[0]), measuring.trust, text, role, *picture)
    async with aclosing(steps):
        async for progress in steps:
            yield progress


def _map_title(source: Opened, projection: Projection) -> str:
    if projection.explained_variance_ratio is not None:
        share, axes = float(projection.explained_variance_ratio.sum()), {2: "Two", 3: "Three"}[projection.dims]
        rest = "so dots that look close may not be" if share < 0.5 else "so the map shows most of what there is"
        return f"{axes} directions hold {100 * share:.0f} % of how {source.name}’s tokens differ, {rest}"
    quality = projection.quality
    kept = quality.neighbours_kept * quality.k
    return f"Of each token’s {quality.k} nearest in {source.name}, this map keeps {kept:.1f} near"


def _map_subtitle(source: Opened, projection: Projection) -> str:
    count = f"All {len(projection.rows):,} tokens of {source.name}"
    if projection.left_out:
        count = f"{len(projection.rows):,} of {len(projection.rows) + projection.left_out:,} tokens of {source.name}"
    return f"{count}. Close dots tend to have similar vectors; distances across the map mean little. Click one."


def measured(session: Session, table: EmbeddingTable, projection: Projection) -> PointTrust:
    """Measure more points of a map than its own sample has, once for everybody."""
    key = trust_key(projection.method, projection.dims)
    return session.library.result(table, key, lambda: _trust(table, projection, MEASURED))


def trust_key(method: str, dims: int) -> tuple[Any, ...]:
    """Return what the trust of a map is called among the results of its table."""
    return ("trust", method, dims)


def quality_of(session: Session, table: EmbeddingTable, projection: Projection) -> Quality:
    """Return how far a picture can be trusted, measured now where it was not."""
    if projection.measured:
        return projection.quality
    key = ("quality", projection.method, projection.dims)
    return session.library.result(table, key, lambda: _trust(table, projection, None).quality)


def metric_of(projection: Projection) -> Any:
    """Return the metric that a picture is measured by: PCA keeps distances, UMAP what it was given."""
    return projection.parameters.get("metric", "euclidean")


def _trust(table: EmbeddingTable, projection: Projection, points: int | list[int] | None) -> PointTrust:
    metric = metric_of(projection)
    return point_trust(table, projection.coordinates, rows=projection.rows, metric=metric, points=points)


def trust_title(source: Opened, projection: Projection) -> str:
    """Say how many of the measured tokens lie wrongly."""
    found = projection.trust
    assert found is not None
    wrong, of = int(found.wrong.sum()), len(found.points)
    least = math.ceil(WRONG * found.k)
    drawn = "tokens" if of == len(projection.rows) else "tokens measured"
    lie = f"{wrong:,} lie wrongly here: fewer than {least} of their {found.k} nearest are near them"
    return f"Of {of:,} {drawn} of {source.name}, {lie}"


def kept_here(session: Session, table: EmbeddingTable, projection: Projection, row: int | None) -> list[str]:
    """Say how many of the chosen word's nearest are near it on the map."""
    if row is None:
        return []
    place = int(np.searchsorted(projection.rows, row))
    key = ("trust at", projection.method, projection.dims, place)
    found = session.library.result(table, key, lambda: _trust(table, projection, [place]))
    return [f"{shown(table.labels[row])} has {int(found.counts[0])} of its {found.k} nearest near it here."]


def share(value: float) -> str:
    """Write a share so that a small one is not nothing: 2.3 %, .03 %."""
    return f"{number(100 * value, digits=0 if value >= 0.1 else 1 if value >= 0.01 else 2)} %"


def _map_foot(projection: Projection, table: EmbeddingTable) -> str:
    left_out = f"{projection.left_out:,} rows left out: NaN, Inf or zero" if projection.left_out else "nothing left out"
    if not projection.measured:
        kept = "colour by trust to measure how many neighbours it keeps"
        return f"PCA · {projection.dims} of {table.shape[1]} directions · {kept} · {left_out}"
    quality = projection.quality
    trusted, whole = (number(value, digits=2) for value in (quality.trustworthiness, quality.continuity))
    kept = f"{share(quality.neighbours_kept)} of {quality.k} neighbours kept, by chance {share(quality.kept_by_chance)}"
    kept = f"{kept} · trust {trusted}, continuity {whole}, by chance {number(quality.trust_by_chance, digits=2)}"
    if quality.points < quality.rows:
        kept = f"{kept}, measured on {quality.points:,} tokens"
    if projection.method == "pca":
        return f"PCA · {projection.dims} of {table.shape[1]} directions · {kept} · {left_out}"
    settings = f"{projection.parameters['neighbors']} neighbours · {projection.parameters['metric']}"
    return f"UMAP · {settings} · seed {projection.seed} · {kept} · {left_out}"


# --- the word ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """A word in one source: its row and its nearest, or why there is neither."""

    source: Opened
    table: EmbeddingTable
    row: int | None
    near: Neighbours | None = None
    problem: str = ""


def _find(session: Session, source: Opened, word: Word, *, centred: bool = False) -> Found:
    table = source.embeddings.token  # type: ignore[union-attr]
    row = row_of(table, word, source.text)
    if row is None:
        spelt = nearest_spelling(table.labels, word.text)
        hint = f"; spelt most like it: “{one_line(spelt.strip(), width=30)}”" if spelt else ""
        return Found(source, table, None, problem=f"{source.name} has no token “{word.shown}”{hint}.")
    try:
        return Found(source, table, row, _neighbours(session, table, row, centred=centred))
    except HfposembError as error:
        return Found(source, table, row, problem=one_line(str(error)))


def word_panels(session: Session, opened: Sequence[Opened], word: Word, *, centred: bool = False) -> tuple[Panel, ...]:
    """Return the panel of a word's exact neighbours in every source."""
    found = [_find(session, source, word, centred=centred) for source in with_tokens(opened)]
    near = [one for one in found if one.near is not None]
    sets = [{common_key(label) for label in one.near.labels} for one in near if one.near is not None]
    shared = set.intersection(*sets) if len(sets) > 1 else set()
    lists = tuple(
        NeighbourList(one.source.name, one.source.color, tuple(_rows(one.near, shared))) for one in near if one.near
    )
    notes = [one.problem for one in found if one.problem]
    notes += [said for one in near if (said := _read_as(one, word))]
    notes += [_reason(source) for source in opened if source.table("token") is None and not source.error]
    tinted = "Tinted rows are in every list. " if shared else ""
    return (
        Panel(
            "neighbours",
            _word_title(word, near, len(shared), centred=centred),
            subtitle=". ".join(filter(None, [_facts(found, word), anisotropy_line(near, centred=centred)])),
            emphasis=word.shown,
            lists=lists,
            help=NEIGHBOUR_HELP,
            message="" if near else "Try another word, such as king, or point at a dot of the map and click it.",
            foot=" ".join(
                [f"{tinted}Number: {cosine(centred)}, exact, over every token. Click a word to walk on.", *notes]
            ),
            recipe=snippets.neighbours(
                {one.source: one.row for one in near if one.row is not None}, k=NEIGHBOURS, centred=centred
            )
            if near
            else None,
        ),
    )


def _rows(near: Neighbours, shared: set[str]) -> Iterator[NeighbourRow]:
    for row, label, value in zip(near.rows, near.labels, near.values, strict=True):
        yield NeighbourRow(shown(label), float(value), common_key(label) in shared, int(row))


def _read_as(one: Found, word: Word) -> str:
    """Say which token the word was read as in a source, where it could mean two."""
    if word.source == one.source.text and word.row >= 0:
        return ""
    said = reading(one.table.labels, word.text)
    return f"In {one.source.name} {one_line(said)}." if said else ""


def cosine(centred: bool) -> str:
    """Return what the numbers are called."""
    return "centred cosine" if centred else "cosine"


def anisotropy_line(found: Sequence[Found], *, centred: bool) -> str:
    """Say in which of some sources random tokens are so alike that a high cosine means little."""
    strong = [one for one in found if not centred and is_strong(one.table)]
    if not strong:
        return ""
    said = " and ".join(f"{number(mean_cosine(one.table) or 0.0, digits=2)} in {one.source.name}" for one in strong)
    return f"Two random tokens have a mean cosine of {said}, so a high cosine means little: switch on Centred"


def _word_title(word: Word, near: Sequence[Found], shared: int, *, centred: bool) -> str:
    if not near:
        return f"No source here has a token “{word.shown}”"
    if len(near) == 1:
        best = near[0].near
        assert best is not None
        if not len(best.rows):
            return f"{word.shown} is alone in {near[0].source.name}"
        name, value = shown(best.labels[0]), number(float(best.values[0]))
        return f"Nearest to {word.shown} in {near[0].source.name} is {name}, at {cosine(centred)} {value}"
    where = {2: "in both", 3: "in all three", 4: "in all four"}[len(near)]
    if not shared:
        return f"For {word.shown}, none of the {NEIGHBOURS} nearest is the same {where}"
    return f"For {word.shown}, {shared} of the {NEIGHBOURS} nearest {'is' if shared == 1 else 'are'} the same {where}"


def _facts(found: Sequence[Found], word: Word) -> str:
    """Say what the word is in each source that has it."""
    lines = []
    for one in found:
        if one.row is None:
            continue
        kind = TOKEN_CLASSES[int(one.table.labels.classes[one.row])]
        holding = len(containing(one.table.labels, word.text.strip() or " "))
        norm = number(float(norms(one.table)[one.row]), digits=2)
        where = f"{one.source.name}: " if len(found) > 1 else ""
        contain = "token contains" if holding == 1 else "tokens contain"
        lines.append(f"{where}id {one.row}, norm {norm}, {kind}, {holding:,} {contain} it")
    return " · ".join(lines)


def spread_panels(session: Session, source: Opened | None, word: Word, *, centred: bool = False) -> tuple[Panel, ...]:
    """Return the panel that shows how far out the nearest are."""
    if source is None:
        return ()
    found = _find(session, source, word, centred=centred)
    if found.near is None or found.row is None or not len(found.near.rows):
        return _empty("spread", f"No spread to show in {source.name}", found.problem or "There is no other token.")
    row, table = found.row, found.table
    spread = session.library.result(
        table, ("spread", row, centred), lambda: query_distribution(table, row, bins=BINS, centred=centred)
    )
    best = shown(found.near.labels[0])
    typical, top = number(spread.mean, digits=2), number(float(found.near.values[0]), digits=2)
    title = f"A typical token of {source.name} has {cosine(centred)} {typical} with {word.shown}; {best} has {top}"
    return (
        Panel(
            "spread",
            title,
            (Drawing(line_figures.distribution(spread, neighbours=found.near)),),
            emphasis=word.shown,
            help=SPREAD_HELP,
            foot=f"{int(spread.counts.sum()):,} tokens, log scale",
            actions=("PNG", "SVG"),
            recipe=snippets.spread(source, row, bins=BINS, k=NEIGHBOURS, centred=centred),
        ),
    )


# --- search -----------------------------------------------------------------------------------------------------------


def match_panels(opened: Sequence[Opened], text: str, regex: bool) -> tuple[Panel, ...]:
    """Return the panel of the tokens that a search finds in every source."""
    query = text.strip()[:LONGEST_QUERY]
    lists, counts = [], []
    for source in with_tokens(opened):
        table = source.embeddings.token  # type: ignore[union-attr]
        try:
            rows = matching(table.labels, query) if regex else containing(table.labels, query)
        except HfposembError as error:
            return (
                Panel(
                    "matches", one_line(str(error)), tone="error", message="Mend the pattern, or search for plain text."
                ),
            )
        if not regex and query.isascii() and query.isdecimal() and len(query) < 9 and int(query) < table.shape[0]:
            rows = list(dict.fromkeys((int(query), *rows)))
        lengths = norms(table)
        entries = tuple(
            NeighbourRow(shown(table.labels[row]), float(lengths[row]), False, row) for row in rows[:MATCHES]
        )
        counts.append(f"{len(rows):,} of {source.name}")
        lists.append(NeighbourList(f"{source.name}, {len(rows):,}", source.color, entries))
    quoted = one_line(query, width=40)
    title = (
        f"{' and '.join(counts)} {'match' if regex else 'contain'} {quoted}" if counts else "No source here has tokens"
    )
    more = f"The {MATCHES} shortest of each. " if any(len(one.rows) == MATCHES for one in lists) else ""
    return (
        Panel(
            "matches",
            title,
            lists=tuple(lists),
            emphasis=quoted,
            foot=f"{more}Number: norm. Click a token to choose it, or press Enter for the word itself.",
            recipe=snippets.matches(with_tokens(opened), query, regex=regex, most=MATCHES) if any(counts) else None,
        ),
    )


# --- the tab ----------------------------------------------------------------------------------------------------------


def _segmented(label: str, choices: Sequence[Any], value: Any, width: int, **more: Any) -> gr.Radio:
    return gr.Radio(choices, value=value, label=label, elem_classes="segmented", min_width=width, scale=1, **more)


def tab(session: Session) -> None:
    """Draw the tab, and bind it."""
    from ..findings.undertrained import odd_row  # which shows tokens as this tab does
    from ..findings.word_pairs import pair_panels

    def draw_word(opened: Sequence[Opened], which: str | None, state: list[Any], centred: bool) -> list[Any]:
        word, source = Word.of(state), _chosen(opened, which)
        near = word_panels(session, opened, word, centred=centred)
        return [near, spread_panels(session, source, word, centred=centred)]

    def draw_pairs(opened: Sequence[Opened], text: str, centred: bool) -> Panels:
        return pair_panels(session, opened, text, centred=centred)

    def pick(due: list[Any], which: str | None, state: list[Any], centred: bool, happened: gr.EventData) -> list[Any]:
        """Choose the token that was clicked: a dot of the map, or a row of a list."""
        told, sources = happened._data, with_tokens(session.shown(due))
        if told.get("panel") == "neighbours":
            found = [_find(session, source, Word.of(state), centred=centred) for source in sources]
            sources = [one.source for one in found if one.near is not None]
        if told.get("panel") == "map":
            source, row = _chosen(sources, which), told.get("index")
            if told.get("group") != "token":
                return [gr.skip()] * 3
        else:
            place, row = told.get("list"), told.get("id")
            source = sources[place] if isinstance(place, int) and 0 <= place < len(sources) else None
        table = source.table("token") if source else None
        if source is None or table is None or not isinstance(row, int) or not 0 <= row < table.shape[0]:
            return [gr.skip()] * 3
        text = table.labels[row]
        return [Word(text, source.text, row).state, one_line(text.strip(), width=60), list(NOT_SEARCHED)]

    word, sought = State(Word(FIRST_WORD).state), State(list(NOT_SEARCHED))
    choices = which_choices(session.open(session.first))
    # The choice as a state: the field would send one that it offers no longer, which Gradio refuses.
    which = State(choices[0][1] if choices else None)
    with gr.Row(elem_classes="controls"):
        session.source_field()
        with gr.Column(scale=0, min_width=902), gr.Row():  # as wide as its parts and the gaps between them
            which_field = _segmented("Map of", choices, which.value, 210, visible=len(choices) > 1)
            method = _segmented("Projection", ["PCA", "UMAP"], "PCA", 160)
            dims = _segmented("Dimensions", ["2-D", "3-D"], "2-D", 150)
            color = _segmented("Colour", ["Class", "Id", "Norm", "Trust"], "Class", 270)
        unseen_heading(TITLE, level=2)
    with gr.Row(equal_height=False):
        with gr.Column(scale=5, min_width=320):
            umaps = session.works(partial(map_work, session), label="Map")
            plan = PanelRow(scope=session.scope)
        with gr.Column(scale=3, min_width=320):
            with gr.Row(elem_classes="controls"):
                search = gr.Textbox(
                    FIRST_WORD, label="A word, an id, or part of a word", max_lines=1, scale=3, min_width=160
                )
                regex = gr.Checkbox(False, label=".* regex", container=False, scale=1, min_width=100)
                centring = gr.Checkbox(False, label="Centred", container=False, scale=1, min_width=100)
            matches = PanelRow((), scope=session.scope, visible=False)
            words = PanelRow((), scope=session.scope)
            hill = PanelRow((), scope=session.scope)
    with gr.Row(equal_height=False):
        with gr.Column(scale=1, min_width=240), gr.Row(elem_classes="controls"):
            chosen = gr.Textbox(FIRST_WORDS, label="Words to compare, with commas between", lines=3, max_lines=6)
        with gr.Column(scale=3, min_width=320):
            matrix = PanelRow((), scope=session.scope)
    odd_row(session, which, which_field, _chosen, [word, search, sought])

    def draw_field(opened: Sequence[Opened], which: str | None) -> Any:
        source, choices = _chosen(opened, which), which_choices(opened)
        return gr.update(choices=choices, value=source.text if source else None, visible=len(choices) > 1)

    asked = [which, method, dims, color, word, centring]
    drawn = [method, plan, umaps.wanted, color]
    events = [method.input, dims.input, color.input, word.change, centring.input]
    draw_map = partial(asked_map, session)
    session.redraw(draw_field, [which_field], inputs=[which])
    # At once with what the field says, and not once more when the state has it.
    session.when([which_field.input], draw_map, drawn, inputs=[which_field, *asked[1:]])
    session.when([which_field.input], draw_word, [words, hill], inputs=[which_field, word, centring])
    session.redraw(draw_map, drawn, inputs=asked, on=events)
    session.when([umaps.done.change], draw_map, drawn, inputs=[*asked, umaps.done])
    session.redraw(draw_word, [words, hill], inputs=[which, word, centring], on=[word.change, centring.input])
    session.redraw(draw_pairs, [matrix], inputs=[chosen, centring], on=[chosen.input, centring.input])

    which_field.input(lambda chosen: chosen, which_field, which, **QUIET)

    def look(text: str, regex: bool, state: list[Any]) -> Any:
        """Search for what contains the text, while it is typed."""
        if regex or text.strip() in ("", Word.of(state).text.strip()):
            return list(NOT_SEARCHED)
        return [text.strip()[:LONGEST_QUERY], False]

    def choose(text: str, regex: bool) -> list[Any]:
        """Take the text as the word, or search for it where it is a pattern."""
        wanted = text.strip()[:LONGEST_QUERY]
        if not wanted or regex:
            return [gr.skip(), [wanted, bool(wanted)]]
        return [Word(wanted).state, list(NOT_SEARCHED)]

    def draw_matches(opened: Sequence[Opened], sought: list[Any]) -> Any:
        text, pattern = sought
        return gr.update(value=match_panels(opened, text, pattern), visible=True) if text else gr.update(visible=False)

    def take(asked: list[Any]) -> list[Any]:
        """Choose the word that another tab asked for."""
        return [Word.of(asked).state, one_line(str(asked[0]).strip(), width=60), list(NOT_SEARCHED)]

    def write_search(state: list[Any], sought: list[Any]) -> str:
        """Return what stands in the search field: what is searched, else the word."""
        return str(sought[0]) or one_line(Word.of(state).text.strip(), width=60)

    session.asked.change(take, session.asked, [word, search, sought], **QUIET)
    safe = partial(guarded, public=session.public)
    search.input(safe(look), [search, regex, word], sought, trigger_mode="always_last", **QUIET)
    sent = [search.submit, regex.input]
    gr.on(sent, safe(choose), [search, regex], [word, sought], trigger_mode="always_last", **QUIET)
    session.redraw(draw_matches, [matches], inputs=[sought], on=[sought.change])
    session.keep("map", which, choices=of_sources)
    for name, component in {
        "layout": method,
        "space": dims,
        "colour": color,
        "words": chosen,
        "centred": centring,
    }.items():
        session.keep(name, component)
    session.keep("word", word, read=read_word, write=write_word)
    session.keep("search", sought, read=read_search, write=write_sought)
    word.change(write_search, [word, sought], search, **QUIET)
    # Only what comes from an address is written back: whoever types is further on already.
    shown_search = [search, regex]
    session.restored.change(
        lambda state, sought: [write_search(state, sought), bool(sought[1])], [word, sought], shown_search, **QUIET
    )
    for row in (plan, words, matches):
        row.select(
            pick, [session.due, which, word, centring], [word, search, sought], trigger_mode="always_last", **QUIET
        )
