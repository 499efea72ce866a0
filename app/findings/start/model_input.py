"""What a sentence becomes before the first layer: the vector of each piece, and of a word that occurs twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

import hfposemb as hpe
from hfposemb.errors import HfposembError
from hfposemb.figures import wave_figures
from hfposemb.figures.palette import SIMILARITY
from hfposemb.reports.position_findings import ALONE
from hfposemb.tables.table import TOKEN_CLASSES
from hfposemb.text import number, one_line

from ...components.help_texts import HELP
from ...components.plot import Drawing, Panel, ScaleBar
from ...limits import LONGEST_SENTENCE
from ...recipes.writing import SENTENCE_ROLES, Code, recipe
from ...session.opened import Opened

if TYPE_CHECKING:
    from hfposemb.tables.inputs import Inputs


SENTENCE = "the king saw the queen"
REPEATED = "saw the king and the queen"
PIECES = 14  # pieces of a sentence that are drawn
STRIPES = 64  # dimensions of a vector that are drawn
NEARLY_ONE = 0.995  # cosines from here on would round to 1.00


def fed(opened: Sequence[Opened], text: str) -> tuple[Opened, Inputs]:
    """Return the first source that accepts a sentence, and the input of its first layer.

    Raises ``HfposembError`` with the first source's reason if none does.
    """
    problem = hpe.HfposembError("no source is selected; choose one in the Positions tab, such as sample:bert")
    reasons: list[HfposembError] = []
    for source in opened:
        if source.embeddings is None:
            reasons.append(hpe.HfposembError(source.error))
            continue
        try:
            return source, source.embeddings.inputs(text)
        except HfposembError as error:
            reasons.append(error)
    raise reasons[0] if reasons else problem


def input_panel(opened: Sequence[Opened], text: str) -> Panel:
    """Draw the parts of each piece's input and their sum, and state the effect on a repeated word."""
    empty = Panel(key="input", title="The model's input has one vector per piece", help=HELP["input"])
    if len(text) > LONGEST_SENTENCE:
        return replace(empty, message=f"A sentence can have at most {LONGEST_SENTENCE} characters.", tone="error")
    if not text.strip():
        return replace(empty, message=f"Write a sentence, such as “{SENTENCE}”.")
    try:
        source, inputs = fed(opened, text)
    except HfposembError as error:
        said = one_line(str(error))
        return replace(empty, message=f"No input for this sentence: {said}", tone="error")
    shown = min(len(inputs.pieces), PIECES)
    pair = twice(source, inputs)
    types = {"segment": inputs.type} if inputs.type.any() else {}
    parts = {"token": inputs.token, "position": inputs.position, **types, "input": inputs.sum}
    figure = wave_figures.stripes(
        {name: part[:shown] for name, part in parts.items()},
        [piece.strip() or "(space)" for piece in inputs.pieces[:shown]],
        ids=inputs.ids[:shown],
        dimensions=STRIPES,
        accented=[place for place in pair if place < shown],
    )
    low, high = figure.data[0].meta["range"]
    width = inputs.sum.shape[1]
    foot = [f"{source.name} · first {STRIPES} of {width:,} dimensions" if width > STRIPES else source.name]
    foot += [f"{shown} of {len(inputs.pieces):,} pieces"] if shown < len(inputs.pieces) else []
    title, said = sentence_finding(source, inputs, pair)
    return replace(
        empty,
        title=title,
        drawings=(Drawing(figure),),
        message=said,
        emphasis=f"“{_piece(inputs, pair[0])}”" if pair else "",
        scale_bars=(ScaleBar(number(low, digits=2), f"+{number(high, digits=2)}", SIMILARITY.light),),
        foot=" · ".join(foot),
        recipe=recipe(
            "sentence",
            [source],
            roles=SENTENCE_ROLES,
            text=text,
            pieces=shown,
            stripes=STRIPES,
            between=Code('"type": inputs.type, ' if types else ""),
        ),
    )


def twice(source: Opened, inputs: Inputs) -> tuple[int, ...]:
    """Return the first two places of the first piece that occurs twice, except special tokens; empty if none does."""
    for place, token in enumerate(inputs.ids):
        again = np.flatnonzero(inputs.ids[place + 1 :] == token)
        if len(again) and not _special(source, int(token)):
            return place, place + 1 + int(again[0])
    return ()


def _spelt_twice(source: Opened, inputs: Inputs) -> str | None:
    """Return the first piece if it recurs after a space, which many vocabularies treat as another token."""
    own = [place for place, token in enumerate(inputs.ids) if not _special(source, int(token))]
    if not own:
        return None
    first = inputs.pieces[own[0]]
    return first.strip() if any(inputs.pieces[place] == f" {first}" for place in own[1:]) else None


def _special(source: Opened, token: int) -> bool:
    assert source.embeddings is not None
    return TOKEN_CLASSES[source.embeddings.token.labels.classes[token]] == "special"


def sentence_finding(source: Opened, inputs: Inputs, pair: Sequence[int]) -> tuple[str, str]:
    """State the effect of positions on the sentence: a title, and a sentence with numbers."""
    if not inputs.position.any():
        title = "This model adds no positions: a word has the same input at every position"
        return title, f"{source.name} encodes positions in another way, or not at all. See the Positions tab."
    if not pair:
        title = "The input of each piece is its token vector plus its position vector"
        own = next((i for i, token in enumerate(inputs.ids) if not _special(source, int(token))), 0)
        word, same = _piece(inputs, own), _cosine(inputs.token[own], inputs.sum[own])
        said = (
            f"At position {inputs.positions[own]}, the input of “{word}” has cosine {_written(same)} with its token "
            "vector. "
        )
        if (spelt := _spelt_twice(source, inputs)) is not None:
            return title, (
                f"{said}The first “{spelt}” has no space before it, so it is not the same token as the second. Repeat "
                f"a later word, as in “{REPEATED}”, to see one token at two positions."
            )
        return title, (f"{said}No piece occurs twice. Repeat a word to see it at two positions, as in “{SENTENCE}”.")
    first, second = pair
    tokens = _cosine(inputs.token[first], inputs.token[second])
    sums = _cosine(inputs.sum[first], inputs.sum[second])
    places = f"{inputs.positions[first]} and {inputs.positions[second]}"
    said = f"Both “{_piece(inputs, first)}” have the same token vector (cosine {_written(tokens)}). "
    if sums is not None and sums >= ALONE:
        title = "The same word at two positions becomes nearly the same input"
        return title, said + f"At positions {places} their inputs hardly differ (cosine {number(sums, digits=4)})."
    title = "The same word at two positions becomes two different inputs"
    return title, said + f"At positions {places} their inputs differ (cosine {_written(sums)})."


def _piece(inputs: Inputs, place: int) -> str:
    return one_line(inputs.pieces[place], width=24).strip() or "(space)"


def _cosine(left: np.ndarray, right: np.ndarray) -> float | None:
    """Return the cosine of two vectors, ``None`` if one of them has no direction."""
    value = float(hpe.similarity(hpe.from_arrays(token=np.stack([left, right])).token)[0, 1])
    return value if np.isfinite(value) else None


def _written(cosine: float | None) -> str:
    if cosine is None:
        return "unknown"
    return number(cosine, digits=4 if NEARLY_ONE <= cosine < 0.99995 else 2)
