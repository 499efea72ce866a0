"""Similarity matrices of chosen words in the Tokens tab, with how unusual each value is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hfposemb.analysis.similarity.anisotropy import is_strong, mean_cosine
from hfposemb.analysis.similarity.row_pairs import Pairs, nearest, pair_similarities
from hfposemb.errors import HfposembError
from hfposemb.figures import matrix_figures
from hfposemb.figures.palette import SIMILARITY
from hfposemb.tables.row_lookup import reading
from hfposemb.text import number, one_line, standing

from ...components.help_texts import HELP
from ...components.plot import Drawing, Panel, Panels, ScaleBar
from ...limits import MOST_WORDS
from ...recipes import token_snippets
from ...session.opened import Opened
from ...session.state import Session
from ..chosen_word import Word, cosine, row_of, shown, with_tokens

MOST_NAMED = 6
"""Number of words that were left out that are named."""


def pair_panels(session: Session, opened: Sequence[Opened], text: str, *, centred: bool = False) -> Panels:
    """Return one labelled matrix of the chosen words for every source that has at least two of them."""
    asked = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    words = asked[:MOST_WORDS]
    panels = [_pair_panel(session, source, words, centred=centred) for source in with_tokens(opened)]
    drawn = [panel for panel in panels if panel.drawings]
    # Sources without these words are omitted if others have them.
    return Panels(tuple(drawn or panels[:1]), subheading=_left_out(asked[MOST_WORDS:]), columns=2)


def _left_out(words: Sequence[str]) -> str:
    """State which words are not compared, because there are more than ``MOST_WORDS``."""
    if not words:
        return ""
    named = [one_line(word, width=30) for word in words]
    more = f", … and {len(named) - MOST_NAMED} others" if len(named) > MOST_NAMED else ""
    verb = "was" if len(named) == 1 else "were"
    said = f"{len(named)} more {verb} left out: {', '.join(named[:MOST_NAMED])}{more}"
    return f"Showing the first {MOST_WORDS} words; {said}."


def _pair_panel(session: Session, source: Opened, words: Sequence[str], *, centred: bool) -> Panel:
    table = source.tokens
    key = f"pairs-{source.text}"
    rows = {word: row_of(table, Word(word), source.text) for word in words}
    missing = [one_line(word, width=30) for word, row in rows.items() if row is None]
    known = tuple(dict.fromkeys(row for row in rows.values() if row is not None))
    absent = f"{source.name} has no token {', '.join(f'“{word}”' for word in missing)}. " if missing else ""
    if len(known) < 2:
        return Panel(
            key,
            f"{source.name} has too few of these words",
            message=f"{absent}Enter at least two words or ids that it has, separated by commas.",
        )
    try:
        found = session.library.result(
            table, ("pairs", known, centred), lambda: pair_similarities(table, known, centred=centred)
        )
    except HfposembError as error:
        return Panel(key, f"{source.name} cannot compare these words", message=one_line(str(error)), tone="error")
    names = [shown(label) for label in found.labels]
    figure = matrix_figures.similarity_matrix(found.values, labels=names, percentiles=found.percentiles)
    title, caption = _pair_words(found, names)
    notes = _notes(source, words, centred=centred)
    return Panel(
        key,
        title,
        (Drawing(figure, caption),),
        source=(source.vocabulary, f"{len(names)} of its {table.shape[0]:,} tokens"),
        color=source.color,
        scale_bars=(ScaleBar(f"{cosine(centred)} −1", "+1", SIMILARITY.light),),
        help=HELP["pairs of words"],
        foot=" ".join([f"{absent}Percentiles among {found.sample:,} random pairs, seed {found.seed}.", *notes]),
        recipe=token_snippets.pairs(source, known, centred=centred),
    )


def _notes(source: Opened, words: Sequence[str], *, centred: bool) -> list[str]:
    """State what random tokens have in common, and how ambiguous words were read."""
    table = source.tokens
    said = [f"{one_line(note)}." for word in words if (note := reading(table.labels, word))]
    if is_strong(table) and not centred:
        common = number(mean_cosine(table) or 0.0, digits=2)
        said.append(f"Two random tokens have a mean cosine of {common}, so a high cosine means little.")
    return said


def _pair_words(found: Pairs, names: Sequence[str]) -> tuple[str, str]:
    """State the most and least similar pair, how unusual that is, and their ranks as neighbours."""
    upper = [(i, j) for i in range(len(names)) for j in range(i + 1, len(names)) if np.isfinite(found.values[i, j])]
    if not upper:
        return "No pair has a cosine", ""
    order = sorted(upper, key=lambda pair: -found.values[pair])
    (i, j), (k, m) = order[0], order[-1]

    def rank(pair: tuple[int, int]) -> str:
        return standing(float(found.percentiles[pair]))

    most = rank((i, j)).replace("above", "more similar than").replace("below", "less similar than")
    title = f"{names[i]} and {names[j]} are {most} of random pairs"
    there, back = nearest(int(found.ranks[i, j])), nearest(int(found.ranks[j, i]))
    near = f"{names[j]} is {names[i]}’s {there} of {found.others:,}, {names[i]} is {names[j]}’s {back}"
    least = number(float(found.values[k, m]), digits=2)
    low = f"{names[k]} and {names[m]}, {cosine(found.centred)} {least}, {rank((k, m))} of random pairs"
    return title, f"{near}. Least similar: {low}"
