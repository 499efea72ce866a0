"""Write the gallery of findings: what was published or found here, measured on the samples; see ``tests.reference``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import hfposemb as hpe
from app.lessons.card import link
from app.lessons.lessons import LESSONS, Lesson
from app.session.address import written
from hfposemb.surveys.published_findings import STUDIES

HOME = "http://127.0.0.1:7860/"
"""Where ``make run`` serves the app."""


@dataclass(frozen=True)
class Finding:
    """One entry: a ``study`` of ``reproduce`` with the sources that stand for its models here, or a ``lesson``.

    ``claims`` are those of the study that can be asked of others than its own models, by place; without them all are.
    ``models`` and ``controls`` are what its link opens in ``tab``, ``panel`` the key of the panel in its picture.
    """

    title: str
    about: str
    study: str = ""
    given: Mapping[str, str] = field(default_factory=dict)
    claims: tuple[int, ...] = ()
    lesson: int = 0
    models: tuple[str, ...] = ()
    tab: str = "positions"
    controls: Mapping[str, str] = field(default_factory=dict)
    panel: str = ""
    picture: str = ""

    @property
    def query(self) -> str:
        """What the address of the app has behind its place."""
        if self.lesson:
            return link(self.lesson)
        return "?" + written(self.controls, self.models, self.tab)


FINDINGS: tuple[Finding, ...] = (
    Finding(
        title="A shift of the sinusoid is a rotation",
        about=(
            "Sines and cosines were chosen so that going on by k positions is one linear map, the same from every "
            "position. It is so, to the last digits of the stored numbers."
        ),
        study="sinusoid-rotation",
        given={"sinusoid": "sinusoidal:512x384"},
        models=("sinusoidal:512x384", "single-sine:512x384"),
        panel="sinusoidal:512x384",
        picture="sinusoid",
    ),
    Finding(
        title="Learned positions lie on a curve of few dimensions",
        about=(
            "The positions of GPT-2 wind as a helix in three dimensions. Here the same is asked of the small sample, "
            "which has a quarter of its positions and saw one book."
        ),
        study="gpt2-helix",
        given={"gpt2": "sample:gpt2", "untrained": "random:256x128"},
        models=("sample:gpt2", "random:256x128"),
        panel="sample:gpt2",
        picture="curve",
    ),
    Finding(
        title="Learned positions have waves in them",
        about=(
            "In RoBERTa the leading components of the position table rise and fall as sines do. The figures of the "
            "paper are those of RoBERTa; here the question alone is put to the small BERT."
        ),
        study="yamamoto-2023",
        given={"roberta": "sample:bert", "untrained": "random:256x128"},
        claims=(2,),
        models=("sample:bert", "random:256x128"),
    ),
    Finding(
        title="Decoders learn absolute positions, encoders local ones",
        about=(
            "A linear map reads the position off the table of GPT-2 and hardly off that of BERT or RoBERTa. The two "
            "samples were trained on the same text, so that what is left between them is how they were trained."
        ),
        study="wang-chen-2020",
        given={
            "gpt2": "sample:gpt2",
            "bert": "sample:bert",
            "sinusoid": "sinusoidal:256x128",
            "untrained": "random:256x128",
        },
        models=("sample:gpt2", "sample:bert", "sinusoidal:256x128", "random:256x128"),
    ),
    Finding(
        title="King − man + woman",
        about=(
            "The best known sum of words. Measured as it was published, the words of the question are among the "
            "answers, and they win; it is commonly told with them left out."
        ),
        study="king-queen",
        given={"words": "sample:gpt2"},
        models=("sample:gpt2", "sample:bert"),
        tab="tokens",
        controls={"word": "king"},
        panel="neighbours",
        picture="king",
    ),
    Finding(
        title="Positions of patches know rows and columns",
        about="A vision transformer is told of no grid, and its position table has one. No sample here sees images.",
        study="vit-fig7",
        models=("google/vit-base-patch16-224",),
    ),
    Finding(
        title="Order comes from text alone",
        about=(
            "A learned table starts as random numbers. After training, distance alone explains most of how alike two "
            "of its positions are, as in the sinusoid, where it does so by construction."
        ),
        lesson=6,
        panel="sample:bert",
        picture="learned",
    ),
    Finding(
        title="What textbooks discard fails for a reason",
        about=(
            "Counting, a sigmoid and one sine are told as the steps that lead to the sinusoid. Held against five "
            "requirements, each fails in its own way; the sinusoid does not extrapolate either."
        ),
        lesson=4,
        panel="sinusoidal:256x128 requirements",
        picture="requirements",
    ),
    Finding(
        title="Adding positions destroys neither word nor place",
        about=(
            "Even with positions four times as large as the model has them, the word can be told from the sum, and its "
            "place as well."
        ),
        lesson=7,
        panel="recovery",
        picture="recovery",
    ),
    Finding(
        title="Another order is another input, by positions alone",
        about="The same words the other way round: the token vectors are the same ones, the inputs are not.",
        lesson=3,
        panel="reorder",
        picture="reorder",
    ),
    Finding(
        title="Rotary positions and ALiBi know distance only",
        about=(
            "What they add to a score is the same for every pair at one distance, wherever it stands. A learned table "
            "gives no such promise."
        ),
        lesson=8,
        panel="logits",
    ),
)
"""What is published first, then what this project measured."""

OPENING = f"""# Gallery of findings

What was published about words and positions, and what was found here, each measured on the two small models that come
with the package. Written by `python -m tests.reference`, which measures every figure again; the pictures are taken from
the app by `make pictures`. Start the app with `make run`, and “Open it” shows each finding there ({HOME}).
The same on the published models, with a connection to the Hub:

```
hfposemb reproduce              # all published findings; hfposemb reproduce gpt2-helix for one
```
"""


def gallery() -> str:
    """Return the page."""
    return OPENING + "".join("\n" + "\n\n".join(_entry(finding)) + "\n" for finding in FINDINGS)


def _entry(finding: Finding) -> Iterator[str]:
    yield f"## {finding.title}"
    if finding.picture:
        yield f"![{finding.title}, in the app](pictures/{finding.picture}.png)"
    yield finding.about
    yield "\n".join(_measured(finding) if finding.study else _of_lesson(LESSONS[finding.lesson - 1]))
    source = f"{STUDIES[finding.study].citation}. `hfposemb reproduce {finding.study}`" if finding.study else ""
    own = f"[Lesson {finding.lesson}](lessons.ipynb)" if finding.lesson else ""
    yield f"[Open it]({HOME}{finding.query}) · {source or own}"


def _measured(finding: Finding) -> Iterator[str]:
    """Yield the claims of a study that the samples can stand for, and what is measured of each."""
    study = STUDIES[finding.study]
    asked = [study.claims[place] for place in finding.claims] or study.claims
    claims = [claim for claim in asked if set(claim.needs) <= set(finding.given)]
    if not claims:
        yield f"To be measured it needs {', '.join(f'`{source}`' for source in study.models.values())}."
        return
    models = {name: hpe.extract(source) for name, source in finding.given.items()}
    yield "| published | measured here | by the rule of `reproduce` |"
    yield "|---|---|---|"
    for claim in claims:
        found = claim.measure(models)
        yield f"| {claim.published} | {found.words} | {'agrees' if found.agrees else 'differs'}: {claim.rule} |"
    stand_ins = [f"`{name}` is `{source}`" for name, source in finding.given.items() if source != study.models[name]]
    if stand_ins:
        yield f"\nHere {', '.join(stand_ins)}."


def _of_lesson(lesson: Lesson) -> Iterator[str]:
    for source in lesson.models:
        line = lesson.reveal.format(name=f"`{source}`", value=lesson.measure(hpe.extract(source)))
        yield f"- {line}"
