"""The exact neighbours of a word in every source, and the distribution of its cosines with all tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import hfposemb as hpe
from hfposemb.analysis.rows import norms
from hfposemb.analysis.similarity.anisotropy import is_strong, mean_cosine
from hfposemb.analysis.similarity.nearest_rows import Neighbours
from hfposemb.analysis.similarity.similarity_matrix import similarity_distribution
from hfposemb.errors import HfposembError
from hfposemb.figures import line_figures
from hfposemb.figures.style import listed
from hfposemb.tables.row_lookup import reading
from hfposemb.tables.table import TOKEN_CLASSES, EmbeddingTable
from hfposemb.text import number, one_line

from ...components.help_texts import HELP
from ...components.plot import Drawing, NeighbourList, NeighbourRow, Panel
from ...recipes import token_snippets
from ...recipes.writing import recipe
from ...session.opened import Opened
from ...session.state import Session
from ..chosen_word import Word, common_key, cosine, empty_panel, row_of, shown, why_no_tokens, with_tokens
from .token_search import containing, id_of, named_in_each, nearest_spelling

NEIGHBOURS = 12
LARGE = "sample:minilm"
"""The sample with the vocabulary of BERT."""

BINS = 160  # bins of the cosines with a word


def neighbours_of(session: Session, table: EmbeddingTable, row: int, *, centred: bool) -> Neighbours:
    """Return the nearest neighbours of a row, computed once for all visitors."""
    return session.library.result(
        table,
        ("neighbours", row, NEIGHBOURS, centred),
        lambda: hpe.neighbours(table, row, k=NEIGHBOURS, centred=centred),
    )


@dataclass(frozen=True)
class Found:
    """A word in one source: its row and neighbours, or the reason why there are none."""

    source: Opened
    table: EmbeddingTable
    row: int | None
    near: Neighbours | None = None
    problem: str = ""


def find_word(session: Session, source: Opened, word: Word, *, centred: bool = False) -> Found:
    """Look up a word in a source, with its neighbours."""
    table = source.tokens
    row = row_of(table, word, source.text)
    if row is None:
        spelt = nearest_spelling(table.labels, word.text)
        hint = f"; closest spelling: “{one_line(spelt.strip(), width=30)}”" if spelt else ""
        parts = _pieces(source, word.shown)
        read = f"; it reads it as {' + '.join(f'“{part}”' for part in parts)}" if len(parts) > 1 else hint
        return Found(source, table, None, problem=f"{source.name} has no token “{word.shown}”{read}.")
    try:
        return Found(source, table, row, neighbours_of(session, table, row, centred=centred))
    except HfposembError as error:
        return Found(source, table, row, problem=one_line(str(error)))


def _pieces(source: Opened, text: str) -> list[str]:
    """Return the tokens that a source cuts a word into; none if it has no tokenizer at hand."""
    found, special = source.embeddings, TOKEN_CLASSES.index("special")
    if found is None or found.cutter is None or found.traffic is not None:  # nothing is read from the Hub here
        return []
    try:
        cut = found.cut
        pieces = None if cut is None else cut(f" {text}")
    except HfposembError:
        return []
    classes = source.tokens.labels.classes
    kept = () if pieces is None else zip(pieces.texts, pieces.ids, strict=True)
    return [shown(label) for label, row in kept if row < len(classes) and classes[row] != special]


def _who_has(session: Session, opened: Sequence[Opened], word: Word) -> str:
    """Name a sample of many words that has a word which none of the sources has."""
    if any(source.text == LARGE for source in opened):
        return ""
    (sample,) = session.at("tokens", ("token",)).open([LARGE])
    table = sample.table("token")
    there = table is not None and row_of(table, word, "") is not None
    return f"{sample.name} has it: add {LARGE} above. " if there else ""


def word_panels(session: Session, opened: Sequence[Opened], word: Word, *, centred: bool = False) -> tuple[Panel, ...]:
    """Return the panel of a word's exact neighbours in every source."""
    found = [find_word(session, source, word, centred=centred) for source in with_tokens(opened)]
    near = [one for one in found if one.near is not None]
    named = [one for one in near if one.table.has_names] or near  # a number of a row is no other model's token
    sets = [{common_key(label) for label in one.near.labels} for one in named if one.near is not None]
    shared = set.intersection(*sets) if len(sets) > 1 else set()
    lists = tuple(
        NeighbourList(
            one.source.vocabulary, one.source.color, tuple(_rows(one.near, shared if one in named else set()))
        )
        for one in near
        if one.near
    )
    notes = [one.problem for one in found if one.problem]
    notes += [said for one in near if (said := _read_as(one, word))]
    notes += [why_no_tokens(source) for source in opened if source.table("token") is None and not source.error]
    tinted = "Tinted: in every list. " if shared else ""
    return (
        Panel(
            "neighbours",
            _word_title(opened, word, named, len(shared), centred=centred),
            subtitle=". ".join(filter(None, [_facts(found, word), anisotropy_line(near, centred=centred)])),
            emphasis=word.shown,
            lists=lists,
            help=HELP["neighbours"],
            message=""
            if near
            else f"{_who_has(session, opened, word)}Try another word or an id, or click a dot of the map.",
            foot=" ".join([f"{tinted}Number: {cosine(centred)}.", *notes]),
            recipe=token_snippets.neighbours(
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
    """State which token an ambiguous word was read as in a source."""
    if word.source == one.source.text and word.row >= 0:
        return ""
    said = reading(one.table.labels, word.text)
    return f"In {one.source.name} {one_line(said)}." if said else ""


def anisotropy_line(found: Sequence[Found], *, centred: bool) -> str:
    """State in which sources random tokens are so similar that a high cosine means little."""
    strong = [one for one in found if not centred and is_strong(one.table)]
    if not strong:
        return ""
    said = listed([f"{number(mean_cosine(one.table) or 0.0, digits=2)} in {one.source.vocabulary}" for one in strong])
    return f"Two random tokens have a mean cosine of {said}, so a high cosine means little: use Centred"


def _word_title(opened: Sequence[Opened], word: Word, near: Sequence[Found], shared: int, *, centred: bool) -> str:
    if not near:
        return f"None of the sources has a token “{word.shown}”"
    named = None if word.source else id_of(word.text.strip())
    if named is not None and any(one.row == named for one in near):
        return named_in_each(opened, named)
    if len(near) == 1:
        best = near[0].near
        assert best is not None
        if not len(best.rows):
            return f"{word.shown} has no neighbours in {near[0].source.vocabulary}"
        name, value = shown(best.labels[0]), number(float(best.values[0]), digits=2)
        measure = f"{cosine(centred)} " if centred else ""
        return f"Closest to {word.shown} in {near[0].source.vocabulary}: {name} ({measure}{value})"
    where = "in both" if len(near) == 2 else f"in all {len(near)}"
    heads = " output heads" if near[0].source.words == "head" else ""
    if not shared:
        return f"None of the {NEIGHBOURS} nearest neighbours of {word.shown} is the same {where}{heads}"
    are = "is" if shared == 1 else "are"
    return f"{shared} of the {NEIGHBOURS} nearest neighbours of {word.shown} {are} the same {where}{heads}"


def _facts(found: Sequence[Found], word: Word) -> str:
    """Describe the word in each source that has it: id, norm, class, and tokens that contain it."""
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
    """Return the panel of the cosines of all tokens with the word."""
    if source is None:
        return ()
    found = find_word(session, source, word, centred=centred)
    if found.near is None or found.row is None or not len(found.near.rows):
        return empty_panel(
            "spread", f"No distribution to show for {source.name}", found.problem or "There is no other token."
        )
    row, table = found.row, found.table
    spread = session.library.result(
        table, ("spread", row, centred), lambda: similarity_distribution(table, row, bins=BINS, centred=centred)
    )
    best = shown(found.near.labels[0])
    typical, top = number(spread.mean, digits=2), number(float(found.near.values[0]), digits=2)
    title = (
        f"A typical token of {source.vocabulary} has {cosine(centred)} {typical} with {word.shown}, {best} has {top}"
    )
    code: dict[str, Any] = {"table": token_snippets.words_of(source), "row": row, "k": NEIGHBOURS, "bins": BINS}
    code["more"] = token_snippets.centring(centred)[0]
    return (
        Panel(
            "spread",
            title,
            (Drawing(line_figures.distribution(spread, neighbours=found.near)),),
            emphasis=word.shown,
            help=HELP["spread"],
            foot=f"{int(spread.counts.sum()):,} tokens, log scale",
            recipe=recipe("cosines of a token", [source], roles=token_snippets.roles_of([source]), **code),
        ),
    )
