"""The lessons of ``lessons.toml``: a textbook statement, a prediction, a measurement, and an exercise.

They are shown in the card above the tabs, and ``docs/lessons.ipynb`` is generated from them. Each measures one number
of a source, using the library alone. This module imports nothing heavy.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import hfposemb as hpe
from hfposemb import Embeddings
from hfposemb.analysis import geometry
from hfposemb.analysis.positions.encoding_properties import encoding_requirements
from hfposemb.analysis.positions.shift_operator import fit_shift
from hfposemb.analysis.similarity.row_pairs import pair_similarities
from hfposemb.composition.added_positions import PositionAddition, add_positions
from hfposemb.composition.amplitude_sweep import sweep_amplitude
from hfposemb.composition.attention_logits import logit_shares
from hfposemb.composition.sum_and_concatenation import compare_sum_with_concatenation
from hfposemb.composition.variance_decomposition import sum_cloud
from hfposemb.composition.word_order import reorder_words, reverse_tokens
from hfposemb.errors import InputError
from hfposemb.tables.table import TOKEN_CLASSES
from hfposemb.text import number, percent

REPEATED = "and the king saw the queen"
SENTENCE = "and the king saw her"
FEW = ("king", "queen", "bread", "water", "earth")


class _Shown(float):
    """A number that a format string writes as the page does: ``.2f`` as .27, ``.0%`` as 84 %."""

    def __format__(self, spec: str) -> str:
        digits = int(re.sub(r"\D", "", spec) or 0)
        if spec.endswith("%"):
            return percent(float(self), digits=digits)
        return number(float(self), digits=digits) if spec.endswith("f") else float.__format__(self, spec)


@dataclass(frozen=True)
class Lesson:
    """A lesson. ``reveal`` is a format string with ``name`` and ``value`` that reports the measurement of a source.

    ``choices`` correspond to intervals of increasing values: the first is right up to and including the first of
    ``bounds``, the last beyond the last one. The lesson's link opens ``models`` in ``tab``, with its controls set to
    ``controls``; the question is about the first model.
    """

    title: str
    statement: str
    question: str
    choices: tuple[str, ...]
    bounds: tuple[float, ...]
    measure: Callable[[Embeddings], float]
    reveal: str
    why: str
    exercise: str
    models: tuple[str, ...]
    tab: str
    controls: Mapping[str, str] = field(default_factory=dict)

    def measured(self, name: str, value: float) -> str:
        """Return the line that reports the measurement of a source.

        Examples:
            >>> LESSONS[6].measured("BERT", 0.84).replace("\u00a0", " ")
            'BERT: distance alone explains 84 %'
        """
        return self.reveal.format(name=name, value=_Shown(value))

    def right(self, value: float) -> int:
        """Return the index of the choice that a measured value makes right."""
        return bisect_left(self.bounds, value)


# --- measurements: one number of one source ---------------------------------------------------------------------------


def apart(model: Embeddings) -> float:
    """Return the Euclidean distance between the token vectors of the two “the” in the sentence."""
    fed = model.inputs(REPEATED)
    first, second = (place for place, piece in enumerate(fed.pieces) if piece.strip() == "the")
    looked_up = hpe.from_arrays(token=fed.token[[first, second]])
    return float(hpe.similarity(looked_up.token, metric="euclidean")[0, 1])


def likeness(model: Embeddings) -> float:
    """Return the percentage of random word pairs that are less similar than king and queen."""
    return float(pair_similarities(model.token, ["king", "queen"]).percentiles[0, 1])


def unchanged(model: Embeddings) -> float:
    """Return the number of pieces whose input vector stays the same when the sentence is reversed."""
    fed = model.inputs(SENTENCE)
    marks = [TOKEN_CLASSES[kind] == "special" for kind in model.token.labels.classes[fed.ids]]
    found = reorder_words(fed, model.inputs(reverse_tokens(fed.ids, fixed=marks)))
    if not found.same_tokens:
        raise InputError(f"{model.name} uses different token vectors for the same words in another order")
    return float(np.sum(~found.changed & ~np.array(marks)))


def met(model: Embeddings) -> float:
    """Return how many of the five requirements the positions meet."""
    return float(encoding_requirements(model).met)


def fastest(model: Embeddings) -> float:
    """Return the share of the squared distances of neighbouring positions in the two columns that change most."""
    changes = np.square(np.diff(model.position.table.vectors.astype(np.float64), axis=0)).mean(axis=0)
    return float(np.sort(changes)[-2:].sum() / changes.sum())


def linear(model: Embeddings) -> float:
    """Return the held-out R² of a linear map to the position four steps further on."""
    return fit_shift(model.position, 4).linear


def invariance(model: Embeddings) -> float:
    """Return the share of variance in the similarity of two positions that their distance explains."""
    return geometry.translation_invariance(model.position)


def both(model: Embeddings) -> float:
    """Return the lower of the two rates at which word and position are decoded from their sum, at amplitude 4."""
    found = sweep_amplitude(add_positions(model), amplitudes=(4.0,))
    return float(min(found.words[0], found.positions[0]))


def unscaled(model: Embeddings) -> float:
    """Return how often the nearest word is the right one if the sinusoid is added to the words as they are stored."""
    added = add_positions(model, PositionAddition("sinusoid", scaled=False, rooted=False))
    return float(sweep_amplitude(added, amplitudes=(1.0,)).words[0])


def longer(model: Embeddings) -> float:
    """Return by what share the longest vector that enters the first layer is longer than the shortest."""
    lengths = np.linalg.norm(model.inputs(SENTENCE).normed, axis=1)
    return float(lengths.max() / lengths.min() - 1)


def from_words(model: Embeddings) -> float:
    """Return the share of the words in the variance of five words at eight positions each."""
    rows = np.array([model.token.row(word) for word in FEW])
    cloud = sum_cloud(add_positions(model), model, rows, np.arange(1, 9))
    return float(cloud.variance(amplitudes=(4.0,)).words[0])


def by_place(model: Embeddings) -> float:
    """Return how much the similarity of two positions 8 apart differs from place to place."""
    return geometry.difference_by_place(model.position, 8)


def tied(model: Embeddings) -> float:
    """Return how often word and position are both read from the sum, as often as from the concatenation at most."""
    found = compare_sum_with_concatenation(add_positions(model), amplitudes=(1.0,))
    return float(found.both[0, 0])


def one_pair(model: Embeddings) -> float:
    """Return the share of positions that are nearest to a neighbour in the two columns that change most."""
    columns = np.argsort(-np.square(np.diff(model.position.table.vectors, axis=0)).mean(axis=0), kind="stable")[:2]
    few = hpe.from_arrays(position=model.position.table.vectors[:, np.sort(columns)]).position.table
    near = [hpe.neighbours(few, row, metric="euclidean", k=1).rows[0] for row in range(few.shape[0])]
    return float(np.mean(np.abs(np.array(near) - np.arange(few.shape[0])) == 1))


def alone(model: Embeddings) -> float:
    """Return the share of the first layer's logits that positions have alone."""
    return logit_shares(model.logits(SENTENCE)).products["position · position"]


# --- lessons ----------------------------------------------------------------------------------------------------------


def _read() -> Iterator[Lesson]:
    """Yield the lessons of ``lessons.toml``, which names the functions above."""
    places = {"sentence": SENTENCE, "repeated": REPEATED}
    rows = tomllib.loads(Path(__file__).with_name("lessons.toml").read_text(encoding="utf-8"))["lesson"]
    for row in rows:
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in row.items()
        }
        values["question"] = row["question"].format(**places)
        values["measure"] = globals()[row["measure"]]
        values["controls"] = {name: value.format(**places) for name, value in row.get("controls", {}).items()}
        yield Lesson(**values)


LESSONS = tuple(_read())
"""The first twelve in textbook order, then what texts argue; the first is lesson 1."""
