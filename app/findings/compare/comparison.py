"""Panels of a comparison: metrics, pairs, moved words and aligned maps; their work in child processes."""

from __future__ import annotations

import html
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import gradio as gr

import hfposemb as hpe
from hfposemb.comparison.aligned_maps import AlignedMaps, align_maps
from hfposemb.comparison.matched_rows import tables_of
from hfposemb.comparison.side_by_side import Run
from hfposemb.comparison.table_side import rows_of
from hfposemb.figures.position_figures import beside
from hfposemb.figures.style import listed
from hfposemb.reports import html_tables
from hfposemb.tables.embeddings import LazyMapping
from hfposemb.text import one_line

from ... import limits
from ...components.files import kept_file
from ...components.help_texts import HELP, folded_help
from ...components.plot import Drawing, NeighbourList, NeighbourRow, Panel, Panels
from ...components.recipe import Recipe, folded_code
from ...jobs import measuring
from ...recipes.comparison_snippets import comparison_recipe
from ...recipes.writing import TOKEN_ROLES, Code, part_code, recipe
from ...session.background_jobs import Request
from ...session.library import source_key
from ...session.opened import Opened
from ...session.source_names import short_names
from ...session.state import Session
from ..chosen_word import shown

if TYPE_CHECKING:
    from hfposemb.comparison.alignment import Alignment
    from hfposemb.comparison.moved_words import Move, Moves
    from hfposemb.comparison.results import Comparison
    from hfposemb.tables.embeddings import Embeddings
    from hfposemb.tables.table import EmbeddingTable

POSITIONS, TOKENS = "Positions", "Tokens"


ROLES = {POSITIONS: "position", TOKENS: "token"}
BONE = '<div class="bone" aria-hidden="true"></div>'
"""Stands where tables will be while they are measured."""

MAP_HEIGHT = 340


def pair_choices(names: Sequence[str]) -> list[tuple[str, str]]:
    """Return every pair of sources as a choice: label and value."""
    pairs = combinations(range(len(names)), 2)
    return [(f"{names[left]} – {names[right]}", f"{left}-{right}") for left, right in pairs]


def named_pairs(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return every pair of sources, given by their texts, as a choice."""
    return pair_choices(short_names(texts))


@dataclass(frozen=True)
class Compared:
    """The sources that could be opened, and their comparison; with chance levels and pairs if ``done``.

    ``stopped`` is whether computing those was cancelled or failed.
    """

    sources: tuple[Opened, ...]
    comparison: Comparison | None
    done: bool
    stopped: bool = False

    @property
    def names(self) -> list[str]:
        """Display names of the sources."""
        return [source.name for source in self.sources]

    @property
    def named(self) -> dict[str, str]:
        """Display names by the names used in the comparison."""
        return {source.embeddings.name: source.name for source in self.sources if source.embeddings is not None}

    def own_name(self, place: int) -> str:
        """Return the name that the comparison uses for a source, by its index."""
        return str(self.sources[place].embeddings.name)  # type: ignore[union-attr]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Index pairs of the sources."""
        return list(combinations(range(len(self.sources)), 2))

    def pair(self, chosen: str | None) -> tuple[int, int] | None:
        """Return the selected pair, or the first."""
        known = {f"{left}-{right}": (left, right) for left, right in self.pairs}
        return known.get(chosen or "", next(iter(known.values()), None))

    def recipe(self, *, pairs: bool) -> Recipe:
        """Return the recipe of the metrics, or with ``pairs`` of the pairwise measures."""
        return comparison_recipe(self.sources, draws=limits.COMPARISON_DRAWS, words=measuring.WORDS, pairs=pairs)

    def moves(self, pair: tuple[int, int]) -> Moves | None:
        """Return the words that moved between two sources, if known."""
        names = [self.own_name(place) for place in pair]
        found = self.comparison.moves if self.comparison is not None else ()
        return next((one for one in found if [one.left, one.right] == names), None)


def chosen_pair(opened: Sequence[Opened], chosen: str | None) -> tuple[Opened, Opened] | None:
    """Return the sources of the selected pair, or the first, of those that could be opened."""
    having = tuple(source for source in opened if source.embeddings is not None)
    pair = Compared(having, None, done=False).pair(chosen)
    return None if pair is None else (having[pair[0]], having[pair[1]])


def comparison_key(texts: Sequence[str], *, public: bool, what: str = "comparison", part: str = "") -> Hashable:
    """Return the key of a comparison in the library's results. Raises ``SourceError`` for forbidden sources."""
    return (what, limits.COMPARISON_DRAWS, part, *_keys(texts, public=public))


def of_part(opened: Sequence[Opened], part: str | None) -> tuple[Opened, ...]:
    """Return the sources reduced to a part; sources without it are unchanged."""
    return tuple(
        replace(source, embeddings=source.embeddings.part(part), wanted=part)
        if part and source.embeddings is not None and part in source.parts
        else source
        for source in opened
    )


def part_of(*sources: Opened) -> str:
    """Return the part selected for some sources, or "" if each uses the part that its words enter."""
    return next((source.wanted for source in sources if source.wanted), "")


def _keys(texts: Sequence[str], *, public: bool) -> list[Hashable]:
    return [source_key(text, public=public) for text in texts]


def quick(source: Opened) -> bool:
    """Return whether a source's token table is small enough to be measured while the page waits."""
    return _quick(source.table("token"))


def _quick(table: EmbeddingTable | None) -> bool:
    return table is None or table.shape[0] * table.shape[1] ** 2 <= limits.QUICK_FLOPS


def _positions(source: Opened) -> list[str]:
    """Return the roles of a source's position tables."""
    assert source.embeddings is not None
    return [role for role in source.embeddings.tables if role.rpartition(".")[2] == "position"]


def at_once(source: Opened) -> Embeddings:
    """Return what is measured of a source while the page waits: all of it, or without words if there are many."""
    found = source.embeddings
    assert found is not None
    if quick(source):
        return found
    rest = {role: partial(found.tables.__getitem__, role) for role in found.tables if role != "token"}
    absent = {**found.absent, "token": "its table is large; its metrics are shown once the chance levels are computed"}
    return replace(found, tables=LazyMapping(rest), absent=absent)


def compared(opened: Sequence[Opened], session: Session) -> Compared:
    """Return what is known about the sources at present: everything, the metrics only, or nothing yet."""
    having = tuple(source for source in opened if source.embeddings is not None)
    if not having:
        return Compared((), None, done=True)
    texts = [source.text for source in having]
    results, part = session.library.results, part_of(*having)
    if (full := results.get(comparison_key(texts, public=session.public, part=part))) is not None:
        return Compared(having, full, done=True)
    positions = [
        source.embeddings.tables[role] for source in having if source.embeddings for role in _positions(source)
    ]
    if not all(map(_quick, positions)):
        return Compared(having, None, done=False)
    embeddings = [at_once(source) for source in having if source.embeddings is not None]
    found = results.make(
        comparison_key(texts, public=session.public, what="figures", part=part),
        lambda: hpe.compare(*embeddings, words=(), pairs=False, draws=0, run=Run(progress=False)),
    )
    return Compared(having, found, done=False)


def part_choices(parts: Sequence[str]) -> list[tuple[str, str]]:
    """Return parts as choices, preceded by the part that each source's words enter."""
    return [("default (token input)", ""), *((part, part) for part in parts)]


def figures_html(found: Compared) -> str:
    """Return the panel with the metrics of every source."""
    if not found.sources:
        return "<h2>Nothing to compare yet</h2><p>Choose two or more sources above, such as BERT and GPT-2.</p>"
    if found.comparison is None:
        said = "Stopped." if found.stopped else "The progress is shown above."
        return f"<h2>These tables are large, so measuring them takes a while</h2><p>{said}</p>"
    levels = "were not" if found.stopped else "are being"
    about = html_tables.KEY if found.done else f"Chance levels {levels} computed."
    finding = html_tables.finding(found.comparison, found.names)
    table = html_tables.metrics_table(found.comparison, found.names)
    code = folded_code(found.recipe(pairs=False), finding)
    return (
        f"<h2>{html.escape(finding)}</h2><details><summary>All {len(html_tables.known(found.comparison))} numbers"
        f"</summary><p>{html.escape(about)}</p>{table}{folded_help('metrics of sources')}{code}</details>"
    )


def pairs_html(found: Compared, chosen: str | None = None) -> str:
    """Return the panel with the measures of the chosen pair, and those of the others folded."""
    if not found.sources:
        return ""
    if len(found.sources) < 2:
        return "<h2>Similarity of two sources</h2><p>Choose a second source to compare with this one.</p>"
    if not found.done or found.comparison is None:
        said = "<p>Not measured.</p>" if found.stopped else f"<p>Measuring, with chance levels…</p>{BONE}"
        return f"<h2>Similarity of two sources</h2>{said}"
    this, others = of_pair(found, found.comparison, chosen)
    names = [found.own_name(place) for place in found.pair(chosen) or ()]
    title = pair_title(this, {name: found.named[name] for name in names})
    tables = pair_tables(found, this, others)
    key = "; ".join(filter(None, (html_tables.KEY, html_tables.correction(found.comparison))))
    code = folded_code(found.recipe(pairs=True), title)
    return f"<h2>{html.escape(title)}</h2><p>{html.escape(key)}</p>{tables}{folded_help('pairs of sources')}{code}"


def of_pair(found: Compared, comparison: Comparison, chosen: str | None) -> tuple[Comparison, Comparison]:
    """Return the comparison reduced to the chosen pair, and that of all others."""
    names = {found.own_name(place) for place in found.pair(chosen) or ()}
    first, rest = (
        replace(
            comparison,
            pairs=tuple(one for one in comparison.pairs if ({one.left, one.right} == names) is here),
            missing=tuple(one for one in comparison.missing if ({one.left, one.right} == names) is here),
        )
        for here in (True, False)
    )
    return first, rest


def pair_tables(found: Compared, chosen: Comparison, rest: Comparison) -> str:
    """Return the tables of the chosen pair, and those of the others folded."""
    tables = html_tables.pairs_tables(chosen, found.named)
    others = html_tables.pairs_tables(rest, found.named)
    count = len(found.pairs) - 1
    said = "The other pair" if count == 1 else f"The other {count} pairs"
    return f"{tables}<details><summary>{said}</summary>{others}</details>" if others and count else tables


def pair_title(comparison: Comparison, named: Mapping[str, str]) -> str:
    """State of one pair whether its tables are more similar than expected by chance, and which were not tested.

    Args:
        comparison: The comparison, reduced to the pair.
        named: Display names of its two sources by their own.
    """
    said: dict[str, list[Alignment]] = {}
    for pair in comparison.pairs:
        null, why = pair.measures.get("CKA"), f": {pair.untested}" if pair.untested else ""
        stands = "" if null is None else html_tables.standing(null, pair.p("CKA"))
        tested = f"are {'more' if stands == 'above' else 'no more'} similar than expected by chance"
        if "CKA" in pair.observed:
            said.setdefault(tested if stands else f"were not compared with chance{why}", []).append(pair)
    who = listed(list(named.values()))
    parts: list[str] = []
    for verdict, pairs in sorted(said.items(), key=lambda one: one[0].startswith("were")):
        what = listed([f"{pair.role}s" for pair in pairs])
        values = listed([html_tables.figure(pair.observed["CKA"]) for pair in pairs])
        whose = f"their {what}" if parts else f"The {what} of {who}"
        parts.append(f"{whose} (CKA {values}) {verdict}")
    return "; ".join(parts) or f"No tables of {who} could be compared"


def moved_panels(found: Compared, chosen: str | None, at: int) -> Panels:
    """Return the words that moved most between a pair, and the selected word's neighbours in both."""
    pair = found.pair(chosen)
    if pair is None:
        return Panels(())
    left, right = (found.sources[place] for place in pair)
    empty = Panel("moved", f"Words that moved most from {left.name} to {right.name}", help=HELP["words that moved"])
    moves = found.moves(pair)
    if moves is None:
        still = "The search was stopped." if found.stopped else "Searching…"
        return Panels((replace(empty, message=why_not(found, pair) if found.done else still),))
    word = moves.most[at] if 0 <= at < len(moves.most) else moves.most[0]
    shared = {label for label, _ in word.left} & {label for label, _ in word.right}
    lists = (
        NeighbourList(
            "Moved most",
            "",
            tuple(NeighbourRow(shown(one.label), one.distance, one == word, row) for row, one in enumerate(moves.most)),
        ),
        _near(left, word.left, shared),
        _near(right, word.right, shared),
    )
    count = f"{moves.shared:,} shared words, mean distance {html_tables.figure(moves.mean)}"
    chance = f"by chance {html_tables.figure(moves.null.low)} to {html_tables.figure(moves.null.high)}"
    code = {"left": part_code(left), "right": part_code(right)}
    return Panels(
        (
            Panel(
                "moved",
                moved_title(word, left.name, right.name),
                subtitle="Click a moved word to list its neighbours, and a neighbour to open it in Tokens.",
                emphasis=f"“{shown(word.label)}”",
                lists=lists,
                help=HELP["words that moved"],
                foot="; ".join([f"{count}, {chance}", *map(one_line, moves.notes)]),
                actions=("Open in Tokens",),
                recipe=recipe("moved words", [left, right], roles=TOKEN_ROLES, **code, at=moves.most.index(word)),
            ),
        )
    )


def _near(source: Opened, near: Sequence[tuple[str, float]], shared: set[str]) -> NeighbourList:
    rows = (NeighbourRow(shown(label), value, label in shared, place) for place, (label, value) in enumerate(near))
    return NeighbourList(source.name, source.color, tuple(rows))


def moved_title(word: Move, left: str, right: str) -> str:
    """State how many neighbours a moved word has kept."""
    kept = round(word.kept * len(word.left))
    moved = f"“{shown(word.label)}” moved by {html_tables.figure(word.distance)} from {left} to {right}"
    return f"{moved} and keeps {kept} of its {len(word.left)} neighbours"


def why_not(found: Compared, pair: tuple[int, int]) -> str:
    """Return the comparison's reason why the words of two sources are not compared."""
    names = [found.sources[place].embeddings.name for place in pair]  # type: ignore[union-attr]
    for one in found.comparison.missing if found.comparison is not None else ():
        if [one.role, one.left, one.right] == ["token", *names]:
            return one_line(one.reason)
    return "This pair was not compared."


def maps_key(texts: Sequence[str], role: str, method: str, *, public: bool, part: str = "") -> Hashable:
    """Return the key of two aligned maps in the library's results. Raises like ``comparison_key``."""
    return ("aligned", role, method, part, *_keys(texts, public=public))


def maps_of(left: Opened, right: Opened, role: str, method: str, session: Session) -> AlignedMaps | None:
    """Return two aligned maps: PCA of small tables is computed, others are returned only if available.

    Raises ``MissingTableError`` if a source has no such table.
    """
    key = maps_key([left.text, right.text], role, method, public=session.public, part=part_of(left, right))
    found: AlignedMaps | None = session.library.results.get(key)
    if found is not None:
        return found
    assert left.embeddings is not None
    assert right.embeddings is not None
    one, other = left.embeddings, right.embeddings
    tables_of(one, other, role)
    if method == "pca" and (role == "position" or (quick(left) and quick(right))):
        found = session.library.results.make(key, lambda: align_maps(one, other, role))
    return found


def maps_panels(found: Compared, pair: tuple[int, int], maps: AlignedMaps) -> Panels:
    """Return two maps side by side."""
    drawn = beside(maps, found.comparison.moves if found.comparison is not None else ())
    left, right = (found.sources[place] for place in pair)
    about = "rotated onto the left map" if maps.method == "pca" else "laid out jointly"
    code = {"left": part_code(left), "right": part_code(right), "role": maps.role, "method": maps.method}
    for figure in (drawn.left, drawn.right):
        figure.update_layout(height=MAP_HEIGHT)
    panels = tuple(
        Panel(
            f"map-{side}",
            "",
            (Drawing(figure),),
            source=(source.name, note),
            color=source.color,
            help=HELP["aligned maps"],
            foot=f"{maps.method.upper()} · {drawn.drawn}",
            recipe=recipe("aligned maps", [left, right], roles=(maps.role,), **code, side=Code(side)),
        )
        for side, source, figure, note in (
            ("left", left, drawn.left, rows_of(maps.role, (maps.parts[0], ""))),
            ("right", right, drawn.right, f"{rows_of(maps.role, (maps.parts[1], ''))}, {about}"),
        )
    )
    heading = maps.sentence(left.name, right.name)
    return Panels(panels, heading=heading, subheading="; ".join(map(one_line, maps.notes)), columns=2)


@dataclass(frozen=True)
class ComparisonJobs:
    """What the tab wants of child processes, and what computes it."""

    session: Session

    def begin(self, opened: Sequence[Opened]) -> list[Any]:
        """Request chance levels and pairs as soon as the tab is drawn, unless they are known."""
        wanted = [one[:2] for one in self.again(opened)]
        return [one for one in wanted if self.session.library.results.get(self.measure(one).key) is None]

    @staticmethod
    def again(opened: Sequence[Opened]) -> list[Any]:
        """Request the sources that were opened and their part, even if the same was requested before."""
        texts = [source.text for source in opened if source.embeddings is not None]
        return [[texts, part_of(*opened), uuid4().hex]] if texts else []

    def measure(self, wanted: Sequence[Any]) -> Request:
        """Return the chance levels and pairs for a job."""
        texts, part, *_ = wanted
        key = comparison_key(texts, public=self.session.public, part=part)
        return Request(key, partial(measuring.comparison, part=part), (texts, limits.COMPARISON_DRAWS))

    def lay_out(self, wanted: Sequence[Any]) -> Request:
        """Return the two maps for a job."""
        texts, role, method, part = wanted
        key = maps_key(texts, role, method, public=self.session.public, part=part)
        return Request(key, partial(measuring.maps, part=part), (texts, role, method))

    def write(self, wanted: Sequence[Any]) -> Request:
        """Return the report for a job, which takes the comparison that the panel above may have computed meanwhile."""
        texts, part, *_ = wanted
        known = self.session.library.results.get(comparison_key(texts, public=self.session.public, part=part))
        key = comparison_key(texts, public=self.session.public, what="report", part=part)
        return Request(key, partial(measuring.page, part=part), (texts, known, limits.COMPARISON_DRAWS))

    def hand_over(self, wanted: list[Any], done: dict[str, Any]) -> Any:
        """Give the page the file once it is written, and keep the comparison in it; no file if it was not."""
        if not done.get("ok") or not wanted:
            return gr.update(value=None)
        results, request = self.session.library.results, self.write(wanted[0])
        made = results.get(request.key)
        if made is None:
            return gr.update(value=None)
        texts, part, _ = wanted[0]
        measured = comparison_key(texts, public=self.session.public, part=part)
        results.make(measured, lambda: made[0])
        return gr.update(value=kept_file(made[1].encode(), "hfposemb-report.html"))
