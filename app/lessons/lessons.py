"""The lessons as data: a textbook statement, a prediction, a measurement, and an exercise.

They are shown in the card above the tabs, and ``docs/lessons.ipynb`` is generated from them. Each measures one number
of a source, using the library alone. This module imports nothing heavy.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

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
from hfposemb.numbers import number, percent
from hfposemb.tables.table import TOKEN_CLASSES

from ..components.events import UNFOLDED

REPEATED = "and the king saw the queen"
SENTENCE = "and the king saw her"
TURNED = "her saw king the and"
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

TRAINED = ("sample:bert", "sample:gpt2")

# Choices of two lessons each, with their bounds.
OF_THE_WHOLE = ("Less than half", "Half to nine tenths", "More than nine tenths")
HOW_OFTEN = ("Less than one time in ten", "One to nine times in ten", "More than nine times in ten")

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
        controls={"word": "king", "words": "king, queen, bread", "pairs": UNFOLDED},
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
        title="Why counting, fractions and one sine fail",
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
            "Counting grows without bound, so a step is tiny compared with the number. As a fraction of the text’s "
            "length, the same position gets another row in each text. A single sine repeats. Many sines of different "
            "wavelengths avoid all of this."
        ),
        exercise="“Five tests” below shows which ones fail, and by how much. Which does sigmoid:256x128 pass?",
        models=("counting:256x128", "normalised:256x128", "single-sine:256x128", "sinusoidal:256x128"),
        tab="positions",
        controls={"tests": UNFOLDED},
    ),
    Lesson(
        title="Slow and fast frequencies",
        statement=(
            "A sinusoid of width d has d/2 frequencies, 10000^(−2i/d). With d = 6 they are 1, .0464 and .00215 radians "
            "a position, so the row of position 2 is sin 2, cos 2, sin .0928, cos .0928, sin .0043, cos .0043: "
            "(.909, −.416, .093, .996, .004, 1)."
        ),
        question=(
            "Neighbouring rows of this sinusoid differ a little in all six columns. How much of the squared difference "
            "is in the fastest pair?"
        ),
        choices=OF_THE_WHOLE,
        bounds=(0.5, 0.9),
        measure=fastest,
        reveal="{name}: {value:.1%} of a step is in the two columns that change most",
        why=(
            "The fast pair tells 5 from 6 and repeats after 6.3 positions; the slowest takes 2,900 for a turn and "
            "tells 5 from 500, like the hands of a clock. In a wider table more pairs share the work. A learned table "
            "has no such pairs: its waves run across all columns."
        ),
        exercise=(
            "“Dimensions drawn as waves” below shows the three sines, 0, 2 and 4. Which of them tells position 3 from "
            "4, and which 3 from 200?"
        ),
        models=("sinusoidal:256x6", "sinusoidal:256x128", "sample:gpt2"),
        tab="positions",
        controls={"dimensions": UNFOLDED, "waves": "0, 2, 4"},
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
        choices=OF_THE_WHOLE,
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
        question="How much of the similarity of two positions does their distance explain in the demo BERT?",
        choices=("Less than a fifth", "A fifth to three fifths", "More than three fifths"),
        bounds=(0.2, 0.6),
        measure=invariance,
        reveal="{name}: distance alone explains {value:.0%}",
        why=(
            "This order was learned from text alone: the untrained table has almost none of it. How much is learned "
            "differs: the demo BERT learned to predict next words before masked ones; MiniLM, a real encoder, has 49%."
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
        choices=HOW_OFTEN,
        bounds=(0.1, 0.9),
        measure=both,
        reveal="{name}: word and position are each recovered at least {value:.0%} of the time",
        why=(
            "Both are in the sum, in different directions, as long as neither is much larger. In MiniLM, which learned "
            "both tables together, word and position are recovered every time, as large as they are in the model."
        ),
        exercise="Reduce the amplitude to 1. What happens to the position, and to the word’s neighbours?",
        models=TRAINED,
        tab="words",
        controls={"amplitude": "4", "remains": UNFOLDED},
    ),
    Lesson(
        title="Why words are multiplied by √d",
        statement=(
            "A row of the sinusoid has a norm of √(d/2). Stored token vectors are often shorter. Vaswani et al. "
            "multiply them by √d, the square root of the width, before they add positions; they give no reason."
        ),
        question=(
            "The sinusoid is added to the demo BERT’s token vectors as they are stored. How often is the word nearest "
            "to the sum still the right one?"
        ),
        choices=HOW_OFTEN,
        bounds=(0.1, 0.9),
        measure=unscaled,
        reveal="{name}: the right word is nearest {value:.1%} of the time",
        why=(
            "The sum is almost only position. In MiniLM, whose sinusoid would be twelve times as long as a word, the "
            "right word is nearest in less than 1%; with its words multiplied by √384, in more than 99%. Adding keeps "
            "the meaning only because training, or this factor, sets the sizes."
        ),
        exercise="Lower the amplitude until the words are recovered. What happens to the positions?",
        models=TRAINED,
        tab="words",
        controls={"whose": "sinusoid", "size": "Their own norm", "remains": UNFOLDED},
    ),
    Lesson(
        title="What LayerNorm does to the sum",
        statement=(
            "BERT does not pass the sum on as it is. LayerNorm subtracts each vector’s mean, divides by its standard "
            "deviation, and applies a learned gain and bias. In BERT’s training, dropout then sets a random tenth of "
            "the numbers to 0. A batch of 8 texts of 4 tokens is an array of 8 × 4 × 256 numbers at width 256; each "
            "text gets the same 4 × 256 positions."
        ),
        question=(
            f"Among the sums of “{SENTENCE}” in the demo BERT, the longest is 29% longer than the shortest. How much "
            "is it after LayerNorm?"
        ),
        choices=("Less than a tenth", "A tenth to a third", "More than a third"),
        bounds=(0.1, 1 / 3),
        measure=longer,
        reveal="{name}: the longest input is {value:.0%} longer than the shortest",
        why=(
            "After LayerNorm all inputs are about equally long, so only the ratio of word and position counts: a "
            "larger position leaves less room for the word. GPT-2 has no LayerNorm at this point; its first one is "
            "inside the first layer, before attention."
        ),
        exercise="Write your own sentence below. Which has the stronger colours, its words or their positions?",
        models=TRAINED,
        tab="start",
        controls={"sentence": SENTENCE},
    ),
    Lesson(
        title="Clusters: by word or by position",
        statement=(
            "Five words at eight positions each make forty sums. They form clusters: all sums of a word, or all "
            "words of a position. The variance of the forty splits into a share of the words, one of the positions, "
            "and a rest."
        ),
        question=(
            "Positions are scaled to four times their size in the demo BERT. How large is the share of the words?"
        ),
        choices=("Less than a third", "A third to two thirds", "More than two thirds"),
        bounds=(1 / 3, 2 / 3),
        measure=from_words,
        reveal="{name}: words make up {value:.0%} of the variance",
        why=(
            "By chance words would make up 10%, with four of the 39 degrees of freedom. In the demo GPT-2 positions "
            "have the larger share at this amplitude, so its clusters are those of positions."
        ),
        exercise=(
            "Compare a word with two anchors, such as “father” and “earth”. At which amplitude do the positions change "
            "which of them is closer?"
        ),
        models=TRAINED,
        tab="words",
        controls={"amplitude": "4", "sums": UNFOLDED},
    ),
    Lesson(
        title="Absolute, relative, rotary",
        statement=(
            "An absolute position is a vector that is added to the word, so queries, keys and values all contain it. A "
            "relative position (Transformer-XL, T5, ALiBi) adds to the attention logit of two words; a rotary one "
            "rotates their query and key. Where words stand enters only as the place of one relative to the other; in "
            "Transformer-XL and DeBERTa what it adds also depends on the words themselves."
        ),
        question=(
            "In the demo BERT, whose positions are absolute, every position is compared with the one 8 before it. By "
            "how much does the cosine vary?"
        ),
        choices=("Not at all", "By up to .1", "By more than .1"),
        bounds=(1e-6, 0.1),
        measure=by_place,
        reveal="{name}: it varies by at most {value:.2f}",
        why=(
            "Rotary positions and ALiBi give all pairs at one distance the same value. They leave the values alone, "
            "which are what attention passes on: in the first layer, words stay free of positions."
        ),
        exercise="Find the plot of logits by distance. Which of them falls with distance, and which rises again?",
        models=("sample:bert", "rotary:256x64", "alibi:256x12", "relative-sinusoidal:256x64"),
        tab="positions",
        controls={"attention": UNFOLDED},
    ),
    Lesson(
        title="A sum is a concatenation times [I; I]",
        statement=(
            "Texts ask why positions are added and not concatenated. The two differ by one matrix: [x; v] times two "
            "identities, [I; I], is x + v. So the sum is a concatenation followed by a linear map that is fixed, and "
            "the question is whether both parts can still be read from it."
        ),
        question=(
            "In MiniLM, at the size that positions have in the model, how often are the word and its position both "
            "read from the sum? From the concatenation it is always."
        ),
        choices=HOW_OFTEN,
        bounds=(0.1, 0.9),
        measure=tied,
        reveal="{name}: both are read from the sum at least {value:.0%} of the time",
        why=(
            "In 384 dimensions there is room for both. The demo models have 128, and positions that are small beside "
            "their words: there the words are read, and most positions of the demo BERT are not."
        ),
        exercise="Open “A word as a mixture” below. Does the model’s own size lie inside the window?",
        models=("sample:minilm", *TRAINED),
        tab="words",
        controls={"remains": UNFOLDED},
    ),
    Lesson(
        title="One frequency after another",
        statement=(
            "Texts say that sines and cosines make every position unique. One pair does not: it runs round a circle "
            "like the hand of a clock, and 44 positions are almost exactly seven turns. Slower pairs are slower hands."
        ),
        question="With the fastest pair alone, how many positions are nearest to the position before or after?",
        choices=OF_THE_WHOLE,
        bounds=(0.5, 0.9),
        measure=one_pair,
        reveal="{name}: {value:.0%} of positions are nearest to a neighbour in two columns",
        why=(
            "With eight of the 64 pairs all are. The sines of most explainers are not GPT-2’s: its table has no such "
            "pairs of columns, and its waves run across all of them."
        ),
        exercise="Open “Waves” below. What does the map look like with two pairs, and with eight?",
        models=("sinusoidal:256x128", "sample:gpt2"),
        tab="positions",
        controls={"dimensions": UNFOLDED},
    ),
    Lesson(
        title="Why one may look at positions alone",
        statement=(
            "Attention sees only the sum of word and position, never the position. But the product of two sums has "
            "four parts, word · word, word · position, position · word and position · position, and the last depends "
            "on positions only."
        ),
        question=f"Which share of MiniLM’s first logits of “{SENTENCE}” do positions have alone?",
        choices=("Less than a twentieth", "A twentieth to a half", "More than half"),
        bounds=(0.05, 0.5),
        measure=alone,
        reveal="{name}: positions alone have {value:.0%} of the logits",
        why=(
            "What holds of the position table, such as its waves, holds of this share of the logits. How large it is "
            "each model has learned; below 0, positions alone work against the rest."
        ),
        exercise="Choose the logit term “position · position” below. Which key does each query prefer?",
        models=("sample:minilm", *TRAINED),
        tab="words",
        controls={"text": SENTENCE, "logits": UNFOLDED},
    ),
)
"""The first twelve in textbook order, then what texts argue; the first is lesson 1."""
