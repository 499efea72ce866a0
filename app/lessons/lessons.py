"""Eight lessons as data: a textbook statement, a prediction, a measurement, and an exercise.

They are shown in the card above the tabs, and ``docs/lessons.ipynb`` is generated from them. Each measures one number
of a source, using the library alone. This module imports nothing heavy.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

import hfposemb as hpe
from hfposemb import Embeddings
from hfposemb.analysis import geometry
from hfposemb.analysis.encoding_properties import encoding_requirements
from hfposemb.analysis.row_pairs import pair_similarities
from hfposemb.analysis.shift_operator import fit_shift
from hfposemb.composition.added_positions import add_positions
from hfposemb.composition.amplitude_sweep import sweep_amplitude
from hfposemb.composition.word_order import reorder_words, reverse_tokens
from hfposemb.errors import InputError
from hfposemb.tables.table import TOKEN_CLASSES

REPEATED = "and the king saw the queen"
SENTENCE = "and the king saw her"
TURNED = "her saw king the and"


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
        raise InputError(f"{model.name} looks up other vectors for the same words in another order")
    return float(np.sum(~found.changed & ~np.array(marks)))


def met(model: Embeddings) -> float:
    """Return how many of the five requirements the positions meet."""
    return float(encoding_requirements(model).met)


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


def by_place(model: Embeddings) -> float:
    """Return how much the similarity of two positions 8 apart differs from place to place."""
    return geometry.difference_by_place(model.position, 8)


# --- lessons ----------------------------------------------------------------------------------------------------------

TRAINED = ("sample:bert", "sample:gpt2")

LESSONS: tuple[Lesson, ...] = (
    Lesson(
        title="Tokens are rows of a table",
        statement=(
            "A tokenizer cuts a text into pieces and gives each a number. The number is a row of a table, and that row "
            "is all that the model is given of the piece."
        ),
        question=f"“{REPEATED}” says “the” twice. How far apart are the two token vectors that are looked up?",
        choices=(
            "Not at all: it is the same row",
            "A little: other words stand around them",
            "As far as those of two words",
        ),
        bounds=(0.0, 0.1),
        measure=apart,
        reveal="{name}: the two vectors are {value:g} apart",
        why="The table knows neither the place of a piece nor its neighbours. Both come in later.",
        exercise="Write a long or rare word into the sentence. How many rows does it take?",
        models=TRAINED,
        tab="start",
        controls={"sentence": REPEATED},
    ),
    Lesson(
        title="Words that are used alike are near",
        statement=(
            "Nobody tells a model which words are related. It learns a vector for each, and words that stand in like "
            "places come to point the same way. A cosine says so only beside the cosines of random pairs."
        ),
        question="Of 100 random pairs of words, how many are less alike than “king” and “queen”?",
        choices=("Up to 60: they are like any two", "60 to 90", "More than 90"),
        bounds=(60.0, 90.0),
        measure=likeness,
        reveal="{name}: {value:.0f} of 100 random pairs are less alike",
        why="Every table has its own scale: the same cosine is much in one and little in the next.",
        exercise="Click a word among the neighbours, and walk on. Where are you after five steps?",
        models=("sample:gpt2", "sample:bert"),
        tab="tokens",
        controls={"word": "king", "words": "king, queen, bread"},
    ),
    Lesson(
        title="Without positions, order is lost",
        statement=(
            "Attention compares every word with every other, whichever way round they stand. If all it gets are token "
            "vectors, the same words in another order are the same input."
        ),
        question=(
            f"With positions added, “{SENTENCE}” is turned round. How many of its pieces go in as the vector they "
            "went in as before?"
        ),
        choices=("None", "One, in the middle", "All: they are the same words"),
        bounds=(0.0, 1.0),
        measure=unchanged,
        reveal="{name}: {value:.0f} of the pieces goes in unchanged",
        why="Without positions all would: the token vectors are the same ones in another order.",
        exercise="Press “Reorder words” until a word keeps its vector. What do both orders have in common?",
        models=TRAINED,
        tab="words",
        controls={"text": TURNED, "before": SENTENCE},
    ),
    Lesson(
        title="Why counting, a sigmoid and one sine fail",
        statement=(
            "A way to tell positions apart should keep its numbers bounded, give a position the same row in texts of "
            "any length, give no two positions the same row, keep neighbours apart, and go on beyond its length."
        ),
        question="Counting gives position 5 the number 5. How many of the five requirements does it meet?",
        choices=("None or one", "Two or three", "Four or five"),
        bounds=(1.0, 3.0),
        measure=met,
        reveal="{name}: {value:.0f} of 5 met",
        why=(
            "Counting grows without bound, so that a step is nothing beside the number. A sigmoid is flat almost "
            "everywhere, and one sine comes back to where it was. Many sines of many lengths do neither."
        ),
        exercise=(
            "The last panels of the page say which requirement fails, and by how much. What does rotary:256x128 meet?"
        ),
        models=("counting:256x128", "sigmoid:256x128", "single-sine:256x128", "sinusoidal:256x128"),
        tab="positions",
    ),
    Lesson(
        title="Sine and cosine turn a shift into a rotation",
        statement=(
            "With a sine and a cosine of each frequency, going on by k positions turns every such pair by the same "
            "angle, wherever it starts. So one matrix takes any position to the one k further on."
        ),
        question=(
            "One matrix is fitted on some positions of the sinusoid and tried on others, four positions on. How much "
            "of them does it explain (R²)?"
        ),
        choices=("Less than half", "Half to nine tenths", "More than nine tenths"),
        bounds=(0.5, 0.9),
        measure=linear,
        reveal="{name}: R² {value:.2f} on positions it has not seen",
        why=(
            "A sine alone cannot be turned: it has the same height on its way up and on its way down. And in random "
            "numbers there is nothing that a matrix could carry on."
        ),
        exercise="Put sample:gpt2 among the sources, and open the question about shifts below. What did it learn?",
        models=("sinusoidal:256x128", "single-sine:256x128", "random:256x128"),
        tab="positions",
    ),
    Lesson(
        title="Learned against fixed",
        statement=(
            "The sinusoid is a formula in which distance alone decides how alike two positions are. A learned table "
            "starts as random numbers, and nobody tells it that 5 comes after 4."
        ),
        question="How much of the likeness of two positions does their distance explain in what BERT learned?",
        choices=("Less than a fifth", "A fifth to three fifths", "More than three fifths"),
        bounds=(0.2, 0.6),
        measure=invariance,
        reveal="{name}: distance alone explains {value:.0%}",
        why="Text alone brought that order in: the untrained table has next to none of it.",
        exercise="Put sample:gpt2@step-400 beside them. How early in training does the order come?",
        models=(*TRAINED, "sinusoidal:256x128", "random:256x128"),
        tab="positions",
    ),
    Lesson(
        title="The sum keeps both word and position",
        statement=(
            "Word and position are added, number by number. That destroys neither where there is room: in many "
            "dimensions two vectors that know nothing of each other hardly have a direction in common."
        ),
        question=(
            "Positions are made four times as large as in the model. How often can both be told from the sum alone, "
            "the word and its place?"
        ),
        choices=("Less than one time in ten", "One to nine times in ten", "More than nine times in ten"),
        bounds=(0.1, 0.9),
        measure=both,
        reveal="{name}: the word and the place are each told {value:.0%} of the time or more",
        why="Both are in the sum, in directions of their own. At its own size the position is harder to read off.",
        exercise="Pull the amplitude down to 1. What becomes of the place, and what of the word’s neighbours?",
        models=TRAINED,
        tab="words",
        controls={"amplitude": "4"},
    ),
    Lesson(
        title="Absolute, relative, rotary",
        statement=(
            "An absolute position is a vector that is added to the word. A relative one is a number that is added "
            "where attention compares two words; a rotary one turns the two. Both of these know only how far apart "
            "the words stand."
        ),
        question=(
            "In BERT, which is absolute, every position is compared with the one 8 before it. By how much does the "
            "cosine differ from place to place?"
        ),
        choices=("Not at all", "By up to .1", "By more than .1"),
        bounds=(1e-6, 0.1),
        measure=by_place,
        reveal="{name}: it differs by {value:.2f} at most",
        why="Rotary positions and ALiBi give every pair at one distance the same value, wherever it stands.",
        exercise="Find the plot in logits. Which of them falls with distance, and which comes up again?",
        models=("sample:bert", "rotary:256x64", "alibi:256x12"),
        tab="positions",
    ),
)
"""In textbook order; the first is lesson 1."""
