"""Panels of the first layer's attention logits: contributions of words and positions, and all encodings in one unit.

``logit_panels`` is about one sentence and one source, opened with the needs ``inputs`` and ``attention``;
``distance_panel`` is about all sources on the page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from hfposemb.composition import attention_logits
from hfposemb.errors import HfposembError, InputError
from hfposemb.figures import line_figures, matrix_figures
from hfposemb.figures.palette import SIMILARITY
from hfposemb.figures.style import Axis, Series, listed
from hfposemb.tables.attention import BIAS, PAIRS, PARTS, LogitSplit
from hfposemb.tables.table import TOKEN_CLASSES
from hfposemb.text import number, one_line, percent, sentence_case

from ...components.help_texts import HELP
from ...components.plot import Drawing, Panel, ScaleBar
from ...recipes.writing import SENTENCE_ROLES, Code, extracted, listed_as, pinned, recipe
from ...session.opened import Opened
from ...session.state import Session

NEEDS = ("position", "token", "inputs", "attention")

TERMS = (attention_logits.TOTAL, *PAIRS)
PIECES = 24  # pieces of a sentence that are drawn as a matrix
LONGEST = 64  # distances drawn
NEAR = 24  # distances drawn for one word repeated at every place
FAR = 16  # the distance stated in the title


def logit_panels(
    source: Opened, text: str, session: Session, *, term: str = attention_logits.TOTAL, head: int | None = None
) -> tuple[Panel, ...]:
    """Draw the shares of the logit terms of a sentence, the logits, and the attention for one repeated word.

    The matrix shows one ``term``, such as ``word · position``, in one ``head``, or the mean over all heads.
    """
    panels = (
        Panel(key="logit-shares", title="Contributions to the first layer's logits", help=HELP["logit shares"]),
        Panel(key="logit-map", title="Logits of each query and key", help=HELP["logits"]),
        Panel(key="identical", title="The same word at every position", help=HELP["one word repeated"]),
    )
    try:
        if source.embeddings is None:
            raise HfposembError(source.error)
        split = source.embeddings.logits(text)
    except HfposembError as error:
        said = f"No logits to show: {one_line(str(error))}"
        return (replace(panels[0], message=said),)
    drawn = (
        partial(share_panel, source=source, split=split, text=text),
        partial(map_panel, source=source, split=split, term=term, head=head, text=text),
        partial(identical_panel, source=source, split=split, session=session),
    )
    return tuple(_or_reason(draw, empty) for draw, empty in zip(drawn, panels, strict=True))


def read_head(text: str) -> int | None:
    """Parse a head number; empty text means the mean over all heads. Raises ``InputError``."""
    if not text.strip():
        return None
    if not (text.strip().isascii() and text.strip().isdecimal()):
        raise InputError(f"expected the number of a head, such as 0; got {text.strip()[:20]!r}")
    return int(text)


def _or_reason(draw: Callable[[Panel], Panel], empty: Panel) -> Panel:
    try:
        return draw(empty)
    except HfposembError as error:
        return replace(empty, message=sentence_case(one_line(str(error))))


# --- one sentence -----------------------------------------------------------------------------------------------------


def share_panel(empty: Panel, source: Opened, split: LogitSplit, text: str) -> Panel:
    """Draw the shares of the nine terms, parts of the query against parts of the key."""
    found = attention_logits.logit_shares(split)
    nine = found.mean[: len(PARTS) ** 2].reshape(len(PARTS), len(PARTS))
    limit = max(1.0, float(np.abs(nine).max()))
    figure = matrix_figures.similarity_matrix(nine, labels=PARTS, unit="dot", limit=limit)
    biased = ""
    if BIAS in found.names:
        biased = f" Distance biases contribute {percent(found.mean[found.names.index(BIAS)])}."
    if found.turning is not None:
        whole = found.turning[np.isfinite(found.turning)].mean()
        biased += f" Rotation by position contributes {percent(whole)}."
    four = ", ".join(f"{name} {percent(share)}" for name, share in found.products.items())
    raw = f"word and position without normalisation: R²\u00a0{number(found.unnormed, digits=2)}"
    return replace(
        empty,
        title=share_title(found),
        subtitle=f"{sentence_case(four)}. Rows: part of the query; columns: part of the key.{biased}",
        drawings=(Drawing(figure),),
        scale_bars=(ScaleBar(f"−{percent(limit)}", percent(limit), SIMILARITY.light),),
        foot=f"{source.name} · mean over {found.values.shape[1]} heads · {raw}",
        recipe=recipe("logit shares", [source], roles=SENTENCE_ROLES, text=text),
    )


def share_title(found: attention_logits.Shares) -> str:
    """State which two terms contribute most to the logits."""
    first, second = (int(place) for place in np.argsort(-found.mean, kind="stable")[:2])
    said = f"{_called(found.names[first])} contributes {percent(found.mean[first])} of the first layer's logits"
    said = said[0].upper() + said[1:]
    if found.mean[second] < 0.005:
        return said
    return f"{said}, {_called(found.names[second])} {percent(found.mean[second])}"


def _called(name: str) -> str:
    return "distance bias" if name == BIAS else name


def map_panel(empty: Panel, source: Opened, split: LogitSplit, term: str, head: int | None, text: str) -> Panel:
    """Draw the logits of one term, query by key."""
    heads = split.queries.shape[1]
    if head is not None and not 0 <= head < heads:
        raise InputError(f"{source.name} has no head {head}; its heads are 0 to {heads - 1}")
    rows = attention_logits.centred_logits(split, term)
    matrix = (rows.mean(axis=0) if head is None else rows[head])[:PIECES, :PIECES]
    pieces = [one_line(piece, width=16).strip() or "(space)" for piece in split.pieces[:PIECES]]
    figure = matrix_figures.similarity_matrix(matrix.astype(np.float32), labels=pieces, unit="dot")
    low, high = figure.data[0].zmin, figure.data[0].zmax
    others = np.where(np.eye(len(matrix), dtype=bool), np.nan, matrix)
    title = empty.title
    if np.isfinite(others).any():
        query, key = np.unravel_index(int(np.nanargmax(others)), others.shape)
        value = number(float(others[query, key]), digits=1)
        title = f"Largest logit: query “{pieces[query]}”, key “{pieces[key]}”, {value} above the query's mean"
    where, chosen = f"mean over {heads} heads", Code(".mean(axis=0)")
    if head is not None:
        where, chosen = f"head {head} of {heads}", Code(f"[{head}]")
    cut = f" · {PIECES} of {len(split.pieces)} pieces" if len(split.pieces) > PIECES else ""
    return replace(
        empty,
        title=title,
        subtitle="Rows are queries, columns are keys.",
        drawings=(Drawing(figure),),
        scale_bars=(ScaleBar(number(low, digits=1), f"+{number(high, digits=1)}", SIMILARITY.light),),
        foot=f"{source.name} · {'all terms' if term == attention_logits.TOTAL else term} · {where}{cut}",
        recipe=recipe("logit map", [source], roles=SENTENCE_ROLES, text=text, term=term, head=chosen, pieces=PIECES),
    )


def identical_panel(empty: Panel, source: Opened, split: LogitSplit, session: Session) -> Panel:
    """Draw the attention by distance when the sentence's first word is repeated at every place."""
    assert source.embeddings is not None
    classes = source.embeddings.token.labels.classes[split.ids]
    word = next((int(i) for i, kind in zip(split.ids, classes, strict=True) if TOKEN_CLASSES[kind] != "special"), None)
    if word is None:
        return replace(empty, message="The sentence has only special tokens. Add a word to repeat.")
    found = session.library.results.make(
        session.source_key(source, ("identical", word)),
        partial(attention_logits.identical_word_logits, source.embeddings, word),
    )
    near = np.abs(found.distances) <= NEAR
    at, mean, even, low, high = (
        one[near].astype(np.float32)
        for one in (found.distances, found.mean.mean(axis=0), found.uniform, found.low_mean, found.high_mean)
    )
    lines = [
        Series(source.name, mean, source.color, "solid", at=at, band=(low, high)),
        Series("uniform", even, at=at),
    ]
    figure = line_figures.curves(lines, x=Axis("distance in positions, key − query"), y=Axis("attention", share=True))
    places = found.attention.shape[1]
    return replace(
        empty,
        title=identical_title(found),
        subtitle=f"“{one_line(found.word, width=24).strip()}” {places} times, so any preference is due to positions.",
        drawings=(Drawing(figure),),
        foot=f"{source.name} · mean over {len(found.mean)} heads · band: shuffled positions, 95\u00a0%",
        recipe=recipe("identical words", [source], roles=SENTENCE_ROLES, word=word, near=NEAR),
    )


def identical_title(found: attention_logits.Identical) -> str:
    """State where attention exceeds chance most when all words are the same."""
    mean = found.mean.mean(axis=0)
    if found.p > 0.05:
        return "With one word repeated, no distance gets more attention than with positions in random order"
    place = int(np.where(found.each_p <= 0.05, mean - found.uniform, -np.inf).argmax())
    distance, value = int(found.distances[place]), percent(float(mean[place]))
    way, far = "before" if distance < 0 else "after", "" if abs(distance) == 1 else f"{abs(distance)} "
    where = f"the word {far}{way}" if distance else "the word itself"
    return (
        f"With one word repeated, {where} gets {value} of the attention "
        f"(uniform: {percent(float(found.uniform[place]))})"
    )


# --- all sources ------------------------------------------------------------------------------------------------------


def distance_panel(opened: Sequence[Opened], session: Session) -> Panel:
    """Draw the effect of positions on the first layer's logits by distance, for all sources and any encoding.

    Hub models whose first layer has not been read are listed, and not waited for.
    """
    empty = Panel(key="logits", title="Effect of positions on the logits", help=HELP["logits by distance"])
    found: dict[Opened, attention_logits.ByDistance] = {}
    without: dict[str, list[str]] = {}
    for source in opened:
        try:
            found[source] = _by_distance(source, session)
        except HfposembError as error:
            without.setdefault(one_line(error.reason), []).append(source.name)
    foot = " · ".join(
        [
            *(["First layer, mean over heads, relative to the key just before the query"] if found else []),
            *(f"not shown: {', '.join(names)} ({reason})" for reason, names in without.items()),
        ]
    )
    if not found:
        said = "None of the sources has a first layer that can be read. Choose a model, such as sample:gpt2."
        return replace(empty, message=said, foot=foot)
    lines = [
        Series(
            source.name,
            one.change.mean(axis=0).astype(np.float32),
            source.color,
            source.dash,
            at=one.distances.astype(np.float32),
        )
        for source, one in found.items()
    ]
    figure = line_figures.curves(lines, x=Axis("distance in positions, key − query"), y=Axis("change in logit"))
    opening = {pinned(source): extracted(source) for source in found}
    return replace(
        empty,
        title=distance_title(found),
        subtitle="What positions alone add to, or subtract from, an attention logit: tables, rotations and biases.",
        drawings=(Drawing(figure),),
        foot=foot,
        recipe=recipe("logits by distance", list(found), sources=listed_as("sources", opening), longest=LONGEST),
    )


def _by_distance(source: Opened, session: Session) -> attention_logits.ByDistance:
    if source.embeddings is None:
        raise HfposembError(source.error)
    if session.library.opened(source.text, NEEDS, public=session.public) is None:
        raise HfposembError("its first layer has not been read from the Hub")
    return session.library.results.make(
        session.source_key(source, ("logits by distance",)),
        partial(attention_logits.logits_by_distance, source.embeddings, longest=LONGEST),
    )


def distance_title(found: dict[Opened, attention_logits.ByDistance]) -> str:
    """State by how much the logit of a distant key differs from that of the key just before the query."""
    back = {source: min(FAR, -int(one.distances[0])) for source, one in found.items()}
    most = max(back.values())
    changes = []
    for source, one in found.items():
        change = number(float(one.change.mean(axis=0)[one.distances == -back[source]][0]), digits=2)
        fewer = f" ({back[source]} back)" if back[source] < most else ""
        changes.append(f"{change} in {source.name}{fewer}")
    if most < 2:
        return "Not enough positions to compare distances"
    return f"Looking back {most} positions instead of 1 changes the logit by {listed(changes)}"
