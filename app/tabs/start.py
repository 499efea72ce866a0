"""The Start tab, for somebody who knows nothing yet: one sentence, one picture, and three ways on."""

from __future__ import annotations

import html
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import gradio as gr
import numpy as np

import hfposemb as hpe
from hfposemb.errors import CancelledError, HfposembError
from hfposemb.figures import line_figures, position_figures
from hfposemb.figures.palette import POSITION, SIMILARITY
from hfposemb.figures.style import number
from hfposemb.tables.table import TOKEN_CLASSES

from .. import TABS
from ..components.events import QUIET
from ..components.plot import Drawing, Panel, PanelRow, ScaleBar
from ..lessons.card import lesson_list
from ..recipes import snippets
from ..server.limits import LONGEST_SENTENCE
from ..session.opening import page_of, reading_line
from ..session.state import WORK_LINE, Opened, Session, one_line
from ..session.suggestions import in_box
from .positions import ALONE, FILES, UNSEEN, Positions, axes_caption, positions_of, tables_of
from .positions import NEEDS as POSITIONS_NEEDS

if TYPE_CHECKING:
    from hfposemb.tables.inputs import Inputs

TITLE = "Start"
NEEDS = ("position", "inputs")
SENTENCE = "the king saw the queen"
REPEATED = "saw the king and the queen"
PIECES = 14  # of a sentence that are drawn
STRIPES = 64  # dimensions of a vector that are drawn
NEARLY_ONE = 0.995  # a cosine from here on would be written as 1.00
LEARNED, SINUSOID, UNTRAINED = "Learned", "Sinusoid", "Untrained"

QUESTION = """# What does a model know about words and positions?

A language model reads numbers. Each word piece has a learned vector, each place in the text has another, and the
model’s first layer gets their sum.
"""
INPUT_HELP = """
The model's own tokenizer cuts the sentence into pieces, and each piece has an id. The id is a row of the token table,
the place in the sentence a row of the position table. Both are added, number by number. Each stripe is one number, blue
below zero and orange above.

Where a model also adds a vector for the segment, as BERT does, it is the same for every piece and is in the input. The
normalisation that follows in some models is left out.

Cosine: 1 for vectors that point the same way, 0 for such as have nothing in common.
"""
CLOUD_HELP = """
A position vector has many numbers. The picture shows the three directions in which the positions differ most (PCA), so
that dots close in the picture mostly have similar vectors. Drag it to turn it.

Nobody told the model that 5 comes after 4: it learned a vector for every position from text alone. The untrained table
has random vectors of the same size, and the same picture is made of it.
"""


# --- one sentence ----------------------------------------------------------------------------------------------------


def fed(opened: Sequence[Opened], text: str) -> tuple[Opened, Inputs]:
    """Return the first source that can be fed a sentence, and what its first layer gets.

    Raises ``HfposembError`` with the first source's reason where none can.
    """
    problem = hpe.HfposembError("no source is chosen; choose one under Positions, such as sample:bert")
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
    """Draw token + position = input for each piece of a sentence, and say what that does to a word said twice."""
    empty = Panel(key="input", title="A sentence goes in as one vector for each piece", help=INPUT_HELP)
    if len(text) > LONGEST_SENTENCE:
        return replace(empty, message=f"A sentence has at most {LONGEST_SENTENCE} characters here.", tone="error")
    if not text.strip():
        return replace(empty, message=f"Write a sentence, such as “{SENTENCE}”.")
    try:
        source, inputs = fed(opened, text)
    except HfposembError as error:
        said = one_line(str(error))
        return replace(empty, message=f"This sentence cannot be fed: {said}", tone="error")
    shown = min(len(inputs.pieces), PIECES)
    pair = twice(source, inputs)
    parts = {"token": inputs.token, "position": inputs.position, "input": inputs.sum}
    figure = line_figures.stripes(
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
    foot += ["the input holds the segment too"] if inputs.type.any() else []
    title, said = sentence_finding(source, inputs, pair)
    return replace(
        empty,
        title=title,
        drawings=(Drawing(figure),),
        message=said,
        emphasis=f"“{_piece(inputs, pair[0])}”" if pair else "",
        scale_bars=(ScaleBar(number(low, digits=2), f"+{number(high, digits=2)}", SIMILARITY.light),),
        foot=" · ".join(foot),
        actions=FILES,
        recipe=snippets.sentence(source, text, pieces=shown, stripes=STRIPES),
    )


def twice(source: Opened, inputs: Inputs) -> tuple[int, ...]:
    """Return the first two places of the first piece that comes twice, special ones aside; empty where none does."""
    for place, token in enumerate(inputs.ids):
        again = np.flatnonzero(inputs.ids[place + 1 :] == token)
        if len(again) and not _special(source, int(token)):
            return place, place + 1 + int(again[0])
    return ()


def _spelt_twice(source: Opened, inputs: Inputs) -> str | None:
    """Return the first piece if it comes again after a space, which many vocabularies hold as another token."""
    own = [place for place, token in enumerate(inputs.ids) if not _special(source, int(token))]
    if not own:
        return None
    first = inputs.pieces[own[0]]
    return first.strip() if any(inputs.pieces[place] == f" {first}" for place in own[1:]) else None


def _special(source: Opened, token: int) -> bool:
    assert source.embeddings is not None
    return TOKEN_CLASSES[source.embeddings.token.labels.classes[token]] == "special"


def sentence_finding(source: Opened, inputs: Inputs, pair: Sequence[int]) -> tuple[str, str]:
    """Say what positions do to the sentence: a title and a sentence with its numbers."""
    if not inputs.position.any():
        title = "This model adds no positions: a word goes in alike wherever it stands"
        return title, f"{source.name} tells positions apart in another way, or not at all. Positions says how."
    if not pair:
        title = "Each piece goes in as its own vector plus that of its place"
        own = next((i for i, token in enumerate(inputs.ids) if not _special(source, int(token))), 0)
        word, same = _piece(inputs, own), _cosine(inputs.token[own], inputs.sum[own])
        said = (
            f"At position {inputs.positions[own]}, “{word}” goes in with cosine {_written(same)} to its token vector. "
        )
        if (spelt := _spelt_twice(source, inputs)) is not None:
            return title, (
                f"{said}The first “{spelt}” has no space before it, so it is another token than the second. Repeat a "
                f"word further on, as in “{REPEATED}”, to see one token at two positions."
            )
        return title, (
            f"{said}No piece comes twice here. Say a word twice to see one word in two places, as in “{SENTENCE}”."
        )
    first, second = pair
    tokens = _cosine(inputs.token[first], inputs.token[second])
    sums = _cosine(inputs.sum[first], inputs.sum[second])
    places = f"{inputs.positions[first]} and {inputs.positions[second]}"
    said = f"Both “{_piece(inputs, first)}” share one token vector (cosine {_written(tokens)}). "
    if sums is not None and sums >= ALONE:
        title = "The same word in two places goes in as nearly the same vector"
        return title, said + f"At positions {places} their inputs hardly differ (cosine {number(sums, digits=4)})."
    title = "The same word in two places goes in as two different vectors"
    return title, said + f"At positions {places} their inputs differ (cosine {_written(sums)})."


def _piece(inputs: Inputs, place: int) -> str:
    return one_line(inputs.pieces[place], width=24).strip() or "(space)"


def _cosine(left: np.ndarray, right: np.ndarray) -> float | None:
    """Return the cosine of two vectors, ``None`` where one of them has no direction."""
    value = float(hpe.similarity(hpe.from_arrays(token=np.stack([left, right])).token)[0, 1])
    return value if np.isfinite(value) else None


def _written(cosine: float | None) -> str:
    if cosine is None:
        return "unknown"
    return number(cosine, digits=4 if NEARLY_ONE <= cosine < 0.99995 else 2)


# --- one picture -----------------------------------------------------------------------------------------------------


def best(opened: Sequence[Opened], session: Session) -> tuple[Opened, Positions] | None:
    """Return the source whose learned positions are most in order: the one worth a first look."""
    found = tables_of([_at_learned_part(source) for source in opened], 0, session)
    learned = {source: positions for source, positions in found.items() if _is_learned(source)}
    ranked = sorted((learned or found).items(), key=lambda item: -(item[1].facts.invariance or 0))
    return ranked[0] if ranked else None


def _is_learned(source: Opened) -> bool:
    """Return whether the positions that are shown of a source were trained."""
    return source.position.kind == "learned" and not source.text.startswith("random:")


def _at_learned_part(source: Opened) -> Opened:
    """Return a source at the first of its parts whose positions were trained, such as the decoder of Whisper."""
    parts = {} if source.embeddings is None else source.embeddings.positions
    learned = next((part for part, encoding in parts.items() if encoding.kind == "learned"), None)
    return source if learned is None else replace(source, wanted=learned)


def picture_panel(opened: Sequence[Opened], kind: str, session: Session) -> Panel:
    """Draw learned, computed or untrained positions in 3-D, beside untrained ones of the same size."""
    empty = Panel(key="picture", title="Positions as dots", help=CLOUD_HELP)
    chosen = best(opened, session)
    if chosen is None:
        return replace(
            empty, message="None of the sources has a vector for each position. Choose one that has, such as GPT-2."
        )
    learned, positions = chosen
    rows, width = positions.table.shape
    try:
        random = _built_in("random", rows, width, session)
        large = {
            LEARNED: (learned.name, positions),
            SINUSOID: ("Sinusoid", _built_in("sinusoidal", rows, width + width % 2, session)),
            UNTRAINED: ("Untrained", random),
        }[kind if kind in (SINUSOID, UNTRAINED) else LEARNED]
        small = (learned.name, positions) if kind == UNTRAINED else ("Untrained", random)
        return _picture(empty, learned, large, small)
    except HfposembError as error:
        return replace(empty, message=one_line(str(error)))


def _built_in(name: str, rows: int, width: int, session: Session) -> Positions:
    text = f"{name}:{rows}x{width}"
    opened = Opened(text, "", "", "", session.library.open(text))
    found = positions_of(opened, 0, session)
    assert found is not None
    return found


def _picture(empty: Panel, learned: Opened, large: tuple[str, Positions], small: tuple[str, Positions]) -> Panel:
    (name, shown), (other, beside) = large, small
    rows = shown.table.shape[0]
    projection = shown.pca(3)
    named = sorted({0, *(rows * quarter // 4 for quarter in (1, 2, 3)), rows - 1} & set(projection.rows.tolist()))
    stack = "" if learned.part in ("", "position") else f", {learned.part}"
    origin = "trained" if _is_learned(learned) else "computed"
    demo = ", small demo" if learned.text.startswith("sample:") else ""
    about = {learned.name: f"{stack}, {origin}{demo}"}
    pictures = [
        Drawing(position_figures.projection(projection, named=named, height=440), f"{name}{about.get(name, '')}"),
        Drawing(position_figures.projection(beside.pca(3), height=250), "Untrained: random would look like this")
        if other == "Untrained"
        else Drawing(position_figures.projection(beside.pca(3), height=250), f"{other}{about.get(other, '')}"),
    ]
    return replace(
        empty,
        title=picture_title(name, shown, other, beside),
        subtitle="Each dot is a position, joined to the next. Close dots have similar vectors.",
        drawings=tuple(pictures),
        scale_bars=(ScaleBar("position 0", f"{rows - 1:,}", POSITION.light),),
        foot=f"PCA of {_spoken(name)} · {axes_caption(projection)}",
        actions=FILES,
        recipe=snippets.projections([shown, beside], dims=3),
    )


def picture_title(name: str, shown: Positions, other: str, beside: Positions) -> str:
    """Say how alike neighbours are in both tables."""
    near, far = shown.facts.next, beside.facts.next
    if near is None or far is None:
        return f"The positions of {name}"
    return (
        f"Neighbouring positions have cosine {number(near, digits=2)} in {_spoken(name)}, "
        f"{number(far, digits=2)} in {_spoken(other)}"
    )


def _spoken(name: str) -> str:
    return {"Sinusoid": "the sinusoid", "Untrained": "an untrained table"}.get(name, name)


# --- the tab ---------------------------------------------------------------------------------------------------------

WAYS = (
    ("positions", "See positions", "Shape and similarity of every position, side by side"),
    ("tokens", "See words", "Every word of the vocabulary and its neighbours"),
    ("words", "Add them together", "Why adding positions does not destroy the words"),
)

WAYS_CSS = """
display: grid; grid-template-columns: repeat(auto-fit, minmax(min(280px, 100%), 1fr)); gap: 24px;
button { display: grid; grid-template-columns: 1fr auto; align-items: center; gap: 0 16px; padding: 20px 24px;
  min-height: 88px; text-align: start; font: inherit; cursor: pointer; border: 0; border-radius: 12px;
  color: var(--body-text-color); background: var(--block-background-fill); box-shadow: var(--block-shadow); }
button:hover strong { text-decoration: underline; text-underline-offset: 4px; }
strong { font-size: 15px; line-height: 24px; font-weight: 650; color: inherit; }
span { grid-column: 1; font-size: 14px; line-height: 21px;
  color: var(--hfposemb-subdued, color-mix(in srgb, var(--body-text-color) 72%, var(--background-fill-primary))); }
i { grid-area: 1 / 2 / 3 / 3; font-style: normal; font-size: 18px; color: #b8195a; }
.dark & i { color: #ff8fb8; }
.block:has(> .html-container > &) { padding: 0; background: none; box-shadow: none; border: 0; overflow: visible; }
.html-container:has(> &) { padding: 0; }
.gradio-container:has(&) .start-card { gap: 0; }
.gradio-container:has(&) .start-card .controls { border-radius: 12px 12px 0 0; padding: 20px 24px 0; box-shadow: none;
  flex: 0 0 auto; }
.gradio-container:has(&) .start-card .panel { border-radius: 0 0 12px 12px !important; box-shadow: none !important; }
.gradio-container:has(&) .start-card > .block { flex: 1; }
.gradio-container:has(&) .start-card > .block :is(.html-container, .html-container > div, hfposemb-row, .grid) {
  height: 100%; }
.gradio-container:has(&) .start-card .message { border-inline-start: 3px solid #b8195a; padding-inline-start: 16px;
  display: block !important; min-height: 0 !important; flex: none !important;
  color: var(--body-text-color) !important; }
.gradio-container:has(&) .start-card .error .message { border: 0; }
.dark .gradio-container:has(&) .start-card .message { border-color: #d13a78; }
@media (max-width: 719px) {
  .gradio-container:has(&) .start-card .controls { padding: 16px 16px 0; }
}
@media (min-width: 900px) {
  .gradio-container:has(&) .start-card .panel { padding: 16px 24px 24px !important; }
  .gradio-container:has(&) .start-picture .caption { align-self: start; padding: 4px 0 0 !important; }
  .gradio-container:has(&) .start-picture .drawings { display: grid; align-items: end; gap: 0 16px;
    grid: auto auto / auto-flow minmax(0, 5fr) minmax(0, 3fr); }
}
"""

WAYS_JS = """
element.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button) trigger("select", { tab: button.dataset.tab });
});
"""


def tab(session: Session) -> None:
    """Draw the tab and bind it."""
    first = session.open(session.first)
    gr.Markdown(QUESTION, elem_classes="question")
    gr.HTML(html_template="<h2>A sentence, and all positions</h2>", css_template=UNSEEN, apply_default_css=False)
    with gr.Row(equal_height=True):
        with gr.Column(scale=5, min_width=320, elem_classes="start-card"):
            with gr.Row(elem_classes="controls"):
                text = gr.Textbox(SENTENCE, label="Your sentence", max_lines=1, max_length=LONGEST_SENTENCE)
            sentence = PanelRow((input_panel(first, SENTENCE),), scope=f"{session.scope}-start")
        with gr.Column(scale=7, min_width=320, elem_classes="start-card start-picture"):
            with gr.Row(elem_classes="controls"):
                kinds = [LEARNED, SINUSOID, UNTRAINED]
                kind = gr.Radio(kinds, value=LEARNED, label="Positions", elem_classes="segmented", min_width=300)
            picture = PanelRow((picture_panel(first, LEARNED, session),), scope=f"{session.scope}-start")
    with gr.Row(elem_classes="controls"):
        own = gr.Textbox(
            label="Try your own model",
            placeholder="gpt2",
            max_lines=1,
            max_length=1024,
            scale=4,
            min_width=220,
            elem_classes="own-model",
        )
        show = gr.Button("Show", variant="primary", scale=0, min_width=96)
    in_box(session, own, name="own-model")
    session.fetch_line()
    trying = gr.HTML(visible=False, **WORK_LINE)
    line = gr.HTML(visible=False, elem_classes="source-error")
    ways = _ways()
    if session.linked:
        lesson_list()

    def draw_sentence(opened: Sequence[Opened], text: str) -> Any:
        return (input_panel(opened, text),)

    def draw_picture(opened: Sequence[Opened], kind: str) -> Any:
        return (picture_panel(opened, kind, session),)

    shown = session.at("positions", POSITIONS_NEEDS)

    async def try_own(text: str, request: gr.Request) -> AsyncIterator[Any]:
        hide = gr.update(visible=False)
        name, page = text.strip(), f"{page_of(session, request)}/own"
        if not name:
            yield [_problem("Write the name of a model, such as gpt2."), hide, gr.skip()]
            return
        opened, read = shown.open([name]), []
        follow = session.library.fetches.follow(page, name, shown.wanted(opened))
        try:
            async with aclosing(follow):
                async for read in follow:
                    if read and not read[0].over.is_set():
                        yield [hide, reading_line(read), gr.skip()]
        except CancelledError:
            yield [hide, hide, gr.skip()]
            return
        error = str(read[0].error or "") if read else opened[0].error
        if error:
            yield [_problem(one_line(error)), hide, gr.skip()]
            return
        yield [hide, hide, [name, "positions", uuid4().hex]]

    def stop_own(request: gr.Request) -> None:
        session.library.fetches.stop(f"{page_of(session, request)}/own")

    def go(event: gr.EventData) -> Any:
        return session.show((event._data or {}).get("tab", "positions"))

    session.keep("sentence", text)
    session.keep("kind", kind)
    session.redraw(draw_sentence, [sentence], inputs=[text], on=[text.change])
    session.redraw(draw_picture, [picture], inputs=[kind], on=[kind.input])
    gr.on(
        [show.click, own.submit],
        try_own,
        [own],
        [line, trying, session.tried],
        **QUIET,
    )
    trying.select(stop_own, **QUIET)
    ways.select(
        go,
        None,
        [session.tabs, session.active],
        **QUIET,
    )


def _problem(text: str) -> gr.HTML:
    return gr.HTML(f'<p role="alert">{html.escape(text[:1].upper() + text[1:])}</p>', visible=True)


def _ways() -> gr.HTML:
    cards = "".join(
        f'<button type="button" data-tab="{key}"><strong>{title}</strong><span>{about}</span>'
        '<i aria-hidden="true">→</i></button>'
        for key, title, about in WAYS
        if key in TABS
    )
    return gr.HTML(html_template=cards, css_template=WAYS_CSS, js_on_load=WAYS_JS, apply_default_css=False)
