"""A sentence on its way into the first layer, step by step: pieces and ids, rows, their sum, and its shape, as HTML."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

import hfposemb as hpe
from hfposemb.errors import HfposembError
from hfposemb.lazy_attributes import lazy_attribute
from hfposemb.tables.inputs import LayerNorm, RootMeanSquareNorm
from hfposemb.text import number, one_line, sentence_case

from ...components.recipe import folded_code
from ...limits import LONGEST_SENTENCE
from ...recipes.writing import SENTENCE_ROLES, recipe
from ...session.opened import Opened
from .model_input import fed

if TYPE_CHECKING:
    from hfposemb.tables.inputs import Inputs

Example: TypeAlias = Literal["model", "six", "sum"]
FIRST_SENTENCE = "I love NLP"
EXAMPLES: Mapping[Example, str] = {
    "model": "Model",
    "six": "d = 6",
    "sum": ".11 .32 .43",
}
"""What a sentence is followed on: a model of the page, or tables small enough to be worked by hand."""

PIECES = 8
NUMBERS = 6
CLOSE = 1e-4
"""Largest difference of a position row from the formula that it is said to follow."""

PE = (
    "<mtable columnalign='left'><mtr><mtd><mi>PE</mi><mo>(</mo><mi>pos</mi><mo>,</mo><mn>2</mn><mi>i</mi><mo>)</mo>"
    "<mo>=</mo><mi>sin</mi><mo>(</mo><mi>pos</mi><mo>/</mo><msup><mn>10000</mn><mrow><mn>2</mn><mi>i</mi><mo>/</mo>"
    "<mi>d</mi></mrow></msup><mo>)</mo></mtd></mtr><mtr><mtd><mi>PE</mi><mo>(</mo><mi>pos</mi><mo>,</mo><mn>2</mn>"
    "<mi>i</mi><mo>+</mo><mn>1</mn><mo>)</mo><mo>=</mo><mi>cos</mi><mo>(</mo><mi>pos</mi><mo>/</mo><msup>"
    "<mn>10000</mn><mrow><mn>2</mn><mi>i</mi><mo>/</mo><mi>d</mi></mrow></msup><mo>)</mo></mtd></mtr></mtable>"
)
MARKS = {
    "##": "WordPiece: ## continues a word",
    "Ġ": "byte-level BPE: a space belongs to the piece after it",
    "▁": "SentencePiece: ▁ stands for a space",
}


@dataclass(frozen=True)
class Followed:
    """What a sentence is followed on: a source and its input of the first layer."""

    name: str
    embeddings: hpe.Embeddings
    inputs: Inputs

    @lazy_attribute
    def layout(self) -> str:
        """How sines and cosines stand in the position rows, "in turn" or in "halves"; "" if they are no sinusoid."""
        rows, places = self.inputs.position[:PIECES], self.inputs.positions[:PIECES]
        columns = self.columns
        for layout in ("in turn", "halves"):
            expected = [[sinusoid(place, one, rows.shape[1], layout)[2] for one in columns] for place in places]
            if rows.any() and np.allclose(rows[:, columns], expected, atol=CLOSE):
                return layout
        return ""

    @lazy_attribute
    def first(self) -> int:
        """The piece that is shown first: the last word."""
        kinds = self.embeddings.token.labels.classes[self.inputs.ids[:PIECES]]
        words = [place for place, kind in enumerate(kinds) if not kind and self.inputs.pieces[place].strip().isalpha()]
        return words[-1] if words else 0

    @property
    def columns(self) -> list[int]:
        """The columns that are shown."""
        return list(range(min(NUMBERS, self.inputs.sum.shape[1])))


Part: TypeAlias = tuple[str, NDArray[np.floating], Sequence[str]]
"""One part of a piece's input: its name, its first numbers, and where each comes from, as HTML."""


def sinusoid(place: int, column: int, width: int, layout: str) -> tuple[int, str, float]:
    """Return i, the function and its value in a column of the sinusoid at a position (Vaswani et al. 2017)."""
    half = (width + 1) // 2
    pair, sine = (column // 2, column % 2 == 0) if layout == "in turn" else (column % half, column < half)
    turned = float(place) / 10000 ** (2 * pair / width)
    return pair, "sin" if sine else "cos", float(np.sin(turned) if sine else np.cos(turned))


def sentence_steps(opened: Sequence[Opened], text: str, example: str) -> str:
    """Return the steps of a sentence, on the first source that accepts it or on an example worked by hand."""
    if example not in EXAMPLES or example == "model":
        if len(text) > LONGEST_SENTENCE:
            return _message(f"A sentence can have at most {LONGEST_SENTENCE} characters.")
        if not text.strip():
            return _message(f"Write a sentence, such as “{FIRST_SENTENCE}”.")
        try:
            source, inputs = fed(opened, text)
        except HfposembError as error:
            return _message(f"{sentence_case(one_line(str(error)))}.")
        assert source.embeddings is not None
        name = source.name if source is opened[0] else f"{source.name}, since {opened[0].name} takes no sentence"
        followed = Followed(name, source.embeddings, inputs)
        shown: dict[str, Any] = {"text": text, "place": followed.first, "numbers": NUMBERS}
        code = recipe("numbers of a piece", [source], roles=SENTENCE_ROLES, **shown)
        return _steps(followed, text, folded_code(code, text))
    made = by_hand(example)
    return _steps(made, " ".join(made.inputs.pieces), "")


def by_hand(example: str) -> Followed:
    """Return a sentence on tables small enough to be worked by hand."""
    words = FIRST_SENTENCE.split()
    if example == "sum":
        rows, places = np.array([[0.1, 0.3, 0.4]]), np.array([[0.01, 0.02, 0.03]])
        words = words[1:2]
    else:
        words = [*words, "!"]
        rows, places = np.arange(1, 25).reshape(4, 6) / 10, hpe.sinusoidal(4, 6).position.table.vectors
    source = hpe.from_arrays(token=rows.astype(np.float32), position=places.astype(np.float32), labels=words)
    return Followed("tables made by hand", source, source.inputs(list(range(len(words)))))


def _message(said: str) -> str:
    return f'<p class="said">{html.escape(said)}</p>'


def _steps(followed: Followed, text: str, code: str) -> str:
    """Return all steps as HTML; without a script, a piece is chosen by a radio button and a number opens by a click."""
    inputs, count = followed.inputs, len(followed.inputs.pieces)
    names = [one_line(piece, width=16).strip() or "(space)" for piece in inputs.pieces[:PIECES]]
    radios = "".join(
        f'<input type="radio" name="step-piece" id="step-{place}" aria-label="{html.escape(name)}"'
        f"{' checked' if place == followed.first else ''}>"
        for place, name in enumerate(names)
    )
    chips = "".join(
        f'<label for="step-{place}"><b>{html.escape(name)}</b> {int(inputs.ids[place]):,}</label>'
        for place, name in enumerate(names)
    )
    more = f" The first {PIECES} of {count:,} pieces are shown." if count > PIECES else ""
    tables = "".join(f"<div>{_worked(followed, place, name)}</div>" for place, name in enumerate(names))
    return (
        f"{radios}<section><h2>1 Text → pieces → ids</h2><p>“{html.escape(one_line(text, width=80))}” in {count:,} "
        f"{'piece' if count == 1 else 'pieces'}{_cut_by(followed)}: {html.escape(followed.name)}.{more}</p>"
        f'<div class="pieces">{chips}</div></section>'
        f"<section><h2>2 Ids → rows → their sum</h2>{_formula(followed)}"
        f'<div class="worked">{tables}</div><p>Click a piece or a number to see where it comes from.</p></section>'
        f"<section><h2>3 The shape that enters the first layer</h2>{_boxes(followed, names)}</section>{code}"
    )


def _cut_by(followed: Followed) -> str:
    """Name the kind of tokenizer by the marks of its pieces."""
    pieces = followed.embeddings.token.labels.pieces
    if pieces and followed.embeddings.cutter is not None:
        some = pieces[:: max(1, len(pieces) // 2000)]
        marked = max(MARKS, key=lambda mark: sum(piece.startswith(mark) for piece in some))
        if any(piece.startswith(marked) for piece in some):
            return f" ({html.escape(MARKS[marked])})"
    return ""


def _formula(followed: Followed) -> str:
    """Return what is added, and the formula of the positions if they follow one, in MathML."""
    inputs, recipe = followed.inputs, followed.embeddings._recipe
    row = "<msub><mi>{0}</mi><mrow>{1}</mrow></msub>".format
    terms = [f"<mn>{number(recipe.scale, digits=2)}</mn><mo>·</mo>"] if recipe.scale != 1 else []
    terms.append(row("E", "<mi>id</mi>"))
    terms += [f"<mo>+</mo>{row('T', '<mn>0</mn>')}"] if inputs.type.any() else []
    terms += [f"<mo>+</mo>{row('P', '<mi>pos</mi>')}"] if inputs.position.any() else []
    total = f"<mi>x</mi><mo>=</mo>{''.join(terms)}"
    shape = "{0:,} × {1:,}".format
    tables = [f"E, {shape(*recipe.token.shape)}: one row per piece of the vocabulary"]
    if recipe.position is not None:
        tables.append(f"P, {shape(*recipe.position.shape)}: one row per position")
    formula = f"<math>{PE}</math>" if followed.layout else ""
    return f"<p><math>{total}</math><span>{'; '.join(tables)}</span></p>{formula}"


def _worked(followed: Followed, place: int, name: str) -> str:
    """Return the first numbers of each part of a piece's input as a table."""
    width = followed.inputs.sum.shape[1]
    rows = []
    for part, values, told in _parts(followed, place):
        cells = "".join(
            f'<td><details name="step-number"><summary>{number(float(value))}</summary><p>{said}</p></details></td>'
            for value, said in zip(values, told, strict=True)
        )
        rows.append(f"<tr><th scope='row'>{part}</th>{cells}{'<td>…</td>' if width > NUMBERS else ''}</tr>")
    heads = "".join(f"<th scope='col'>{column}</th>" for column in range(min(width, NUMBERS)))
    return (
        f"<table><caption>{html.escape(name)}: the first {min(width, NUMBERS)} of {width:,} numbers</caption>"
        f"<thead><tr><th scope='col'>dimension</th>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


def _parts(followed: Followed, place: int) -> Iterator[Part]:
    """Yield the parts of a piece's input: token, segment and position rows, their sum, and what normalising makes."""
    inputs, recipe = followed.inputs, followed.embeddings._recipe
    row, at = int(inputs.ids[place]), int(inputs.positions[place])
    columns = followed.columns
    picked = f"E[{row:,}, {{0}}]: one-hot vector of {row:,} × E"
    picked += f", × {number(recipe.scale, digits=2)}" if recipe.scale != 1 else ""
    if recipe.before is not None:
        picked = f"E[{row:,}], {recipe.token.shape[1]:,} numbers, projected to {inputs.sum.shape[1]:,}"
    yield f"E, row {row:,}", inputs.token[place, columns], [picked.format(one) for one in columns]
    added = [inputs.token[place]]
    if inputs.type.any():
        added.append(inputs.type[place])
        same = "T[0, {0}]: the segment, the same for every piece"
        yield "+ T, row 0", inputs.type[place, columns], [same.format(one) for one in columns]
    if inputs.position.any():
        added.append(inputs.position[place])
        said = [_of_position(followed, at, one) for one in columns]
        yield f"+ P, position {at}", inputs.position[place, columns], said
    sums = [_added([float(one[column]) for one in added]) for column in columns]
    total = inputs.sum[place]
    yield "= sum", total[columns], [f"{one} = {number(float(total[at]))}" for at, one in enumerate(sums)]
    if (norm := recipe.norm) is not None and recipe.after is None:
        yield _normed(norm, total, inputs.normed[place], columns)


def _of_position(followed: Followed, place: int, column: int) -> str:
    """Say where a number of a position row comes from."""
    if not (layout := followed.layout):
        return f"P[{place}, {column}]: stored, no formula"
    width = followed.inputs.position.shape[1]
    pair, name, value = sinusoid(place, column, width, layout)
    power = f"10000<sup>2·{pair}/{width}</sup>"
    turned = number(place / 10000 ** (2 * pair / width), digits=4)
    return f"pos = {place}, i = {pair}: angle {place} / {power} = {turned}, {name} {turned} = {number(value)}."


def _normed(
    norm: LayerNorm | RootMeanSquareNorm,
    total: NDArray[np.floating],
    normed: NDArray[np.floating],
    columns: Sequence[int],
) -> Part:
    """Return the name, the numbers and the origins of a normalised sum."""
    x = np.asarray(total, np.float64)
    if isinstance(norm, RootMeanSquareNorm):
        name, middle, spread = "RMSNorm", 0.0, float(np.sqrt(np.mean(x**2) + norm.eps))
    else:
        name, middle = "LayerNorm", float(x.mean()) if norm.eps is not None else 0.0
        spread = float(np.sqrt(x.var() + norm.eps)) if norm.eps is not None else 1.0
    said = []
    for column in columns:
        weight = 1.0 if norm.weight is None else float(norm.weight[column])
        shift = getattr(norm, "bias", None)
        bias = 0.0 if shift is None else float(shift[column])
        moved = f"({number(float(x[column]))}{_then(-middle)})" if middle else number(float(x[column]))
        scaled = f"{moved} / {number(spread)} × {number(weight)}"
        said.append(f"{scaled}{_then(bias) if bias else ''} = {number(float(normed[column]))}")
    return f"→ {name}", normed[list(columns)], said


def _added(values: Sequence[float]) -> str:
    return number(values[0]) + "".join(map(_then, values[1:]))


def _then(value: float) -> str:
    return f" {'−' if value < 0 else '+'} {number(abs(value))}"


def _boxes(followed: Followed, names: Sequence[str]) -> str:
    """Draw the shape of the input as one box per piece."""
    count, width = followed.inputs.normed.shape
    boxes = "".join(f"<li><b>{html.escape(name)}</b>{width:,}</li>" for name in names)
    more = f"<li>… {count - len(names):,} more</li>" if count > len(names) else ""
    return (
        f'<ol class="boxes" aria-label="One box per piece">{boxes}{more}</ol><p>(batch, length, d) = (1, {count:,}, '
        f"{width:,}): one sentence, {count:,} {'piece' if count == 1 else 'pieces'}, {width:,} numbers each. Eight "
        f"sentences of this length would be (8, {count:,}, {width:,}).</p>"
    )
