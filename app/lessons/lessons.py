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
        raise InputError(f"{model.name} uses different token vectors for the same words in another order")
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
            "A tokenizer splits a text into pieces and gives each a number. The number selects a row of a table, and "
            "this row is all that the model gets of the piece."
        ),
        question=f"“{REPEATED}” has “the” twice. How far apart are its two token vectors?",
        choices=(
            "Not at all: they are the same row",
            "A little: their neighbouring words differ",
            "As far as those of two different words",
        ),
        bounds=(0.0, 0.1),
        measure=apart,
        reveal="{name}: the two vectors are {value:g} apart",
        why="A token vector depends neither on the position of the piece nor on its neighbours; both matter later.",
        exercise="Add a long or rare word to the sentence. How many rows does it use?",
        models=TRAINED,
        tab="start",
        controls={"sentence": REPEATED},
    ),
    Lesson(
        title="Words used in similar ways have similar vectors",
        statement=(
            "A model is not told which words are related. It learns a vector for each, and words in similar contexts "
            "come to point in similar directions. A cosine shows this only in comparison with random pairs."
        ),
        question="Of 100 random pairs of words, how many are less similar than “king” and “queen”?",
        choices=("Up to 60: they are like any two words", "60 to 90", "More than 90"),
        bounds=(60.0, 90.0),
        measure=likeness,
        reveal="{name}: {value:.0f} of 100 random pairs are less similar",
        why="Every table has its own scale: the same cosine can be high in one table and low in another.",
        exercise="Click one of the neighbours, then one of its neighbours. Where are you after five steps?",
        models=("sample:gpt2", "sample:bert"),
        tab="tokens",
        controls={"word": "king", "words": "king, queen, bread"},
    ),
    Lesson(
        title="Without positions, an encoder loses the order",
        statement=(
            "In an encoder, attention compares every word with every other, regardless of their order. If it gets only "
            "token vectors, the same words in another order are the same input. In a decoder each word sees only those "
            "before it, which tells their order even without positions (Kazemnejad et al. 2023)."
        ),
        question=(
            f"With positions added, the words of “{SENTENCE}” are reversed. How many of its pieces keep the same "
            "input vector?"
        ),
        choices=("None", "One, in the middle", "All: they are the same words"),
        bounds=(0.0, 1.0),
        measure=unchanged,
        reveal="{name}: {value:.0f} of the pieces unchanged",
        why="Without positions all would: they are the same token vectors in another order.",
        exercise="Press “Reorder words” until a word keeps its input vector. What do both orders have in common?",
        models=TRAINED,
        tab="words",
        controls={"text": TURNED, "before": SENTENCE},
    ),
    Lesson(
        title="Why counting, a sigmoid and one sine fail",
        statement=(
            "A position encoding should keep its numbers bounded, give a position the same row in texts of any length, "
            "give every position its own row, keep neighbours apart, and extrapolate beyond its length."
        ),
        question="Counting encodes position 5 as the number 5. How many of the five requirements does it meet?",
        choices=("None or one", "Two or three", "Four or five"),
        bounds=(1.0, 3.0),
        measure=met,
        reveal="{name}: {value:.0f} of 5 met",
        why=(
            "Counting grows without bound, so a step is tiny compared with the number. A sigmoid is flat almost "
            "everywhere, and a single sine repeats. Many sines of different wavelengths avoid all of this."
        ),
        exercise=(
            "The last panels of the page show which requirements fail, and by how much. Which does rotary:256x128 meet?"
        ),
        models=("counting:256x128", "sigmoid:256x128", "single-sine:256x128", "sinusoidal:256x128"),
        tab="positions",
    ),
    Lesson(
        title="Sine and cosine turn a shift into a rotation",
        statement=(
            "With a sine and a cosine of each frequency, moving by k positions rotates each such pair by the same "
            "angle, wherever it starts. So one matrix maps every position to the one k positions later."
        ),
        question=(
            "A matrix for a shift by four positions is fitted on some positions of the sinusoid and tested on others. "
            "How much of the variance does it explain (R²)?"
        ),
        choices=("Less than half", "Half to nine tenths", "More than nine tenths"),
        bounds=(0.5, 0.9),
        measure=linear,
        reveal="{name}: R² {value:.2f} on held-out positions",
        why=(
            "For the sinusoid an exact rotation exists, with an R² of 1; a matrix fitted on 16 components of the table "
            "comes close. A sine alone cannot be rotated: it has the same value while rising and while falling. And "
            "random vectors have no structure that a matrix could map."
        ),
        exercise="Add sample:gpt2 to the sources, and open “Why sine and cosine?” below. What did it learn?",
        models=("sinusoidal:256x128", "single-sine:256x128", "random:256x128"),
        tab="positions",
    ),
    Lesson(
        title="Learned or fixed",
        statement=(
            "The sinusoid is a formula in which distance alone determines how similar two positions are. A learned "
            "table starts as random numbers, without any information that 5 comes after 4."
        ),
        question="How much of the similarity of two positions does their distance explain in the small BERT?",
        choices=("Less than a fifth", "A fifth to three fifths", "More than three fifths"),
        bounds=(0.2, 0.6),
        measure=invariance,
        reveal="{name}: distance alone explains {value:.0%}",
        why=(
            "This order was learned from text alone: the untrained table has almost none of it. How much is learned "
            "differs: this demo learned to predict next words before masked ones, and MiniLM, a real encoder, has 49%."
        ),
        exercise="Replace a source by sample:gpt2@step-400. How early in training does the order appear?",
        models=(*TRAINED, "sinusoidal:256x128", "random:256x128"),
        tab="positions",
    ),
    Lesson(
        title="The sum can keep both word and position",
        statement=(
            "Word and position are added, number by number. In many dimensions this need not destroy either, because "
            "two unrelated vectors share almost no direction. It depends on how large each of them is."
        ),
        question=(
            "Positions are scaled to four times their size in the model. How often can both the word and its position "
            "be recovered from the sum alone?"
        ),
        choices=("Less than one time in ten", "One to nine times in ten", "More than nine times in ten"),
        bounds=(0.1, 0.9),
        measure=both,
        reveal="{name}: word and position are each recovered at least {value:.0%} of the time",
        why=(
            "Both are in the sum, in different directions, as long as neither is much larger. In MiniLM, which learned "
            "both tables together, word and position are recovered every time. A sinusoid added to MiniLM’s words as "
            "they are leaves the right word nearest in less than 1%, since it is twelve times as long. Multiplying the "
            "words by √384 first, as Vaswani et al. do, brings it back to more than 99%."
        ),
        exercise="Reduce the amplitude to 1. What happens to the position, and to the word’s neighbours?",
        models=TRAINED,
        tab="words",
        controls={"amplitude": "4"},
    ),
    Lesson(
        title="Absolute, relative, rotary",
        statement=(
            "An absolute position is a vector that is added to the word. A relative position is a number that is added "
            "to the attention logit of two words; a rotary position rotates their query and key. Both depend only on "
            "where one word stands relative to the other: T5’s and DeBERTa’s biases on the direction as well."
        ),
        question=(
            "In the small BERT, whose positions are absolute, every position is compared with the one 8 before it. By "
            "how much does the cosine vary?"
        ),
        choices=("Not at all", "By up to .1", "By more than .1"),
        bounds=(1e-6, 0.1),
        measure=by_place,
        reveal="{name}: it varies by at most {value:.2f}",
        why="Rotary positions and ALiBi give all pairs at one distance the same value.",
        exercise="Find the plot of logits by distance. Which of them falls with distance, and which rises again?",
        models=("sample:bert", "rotary:256x64", "alibi:256x12"),
        tab="positions",
    ),
)
"""In textbook order; the first is lesson 1."""
