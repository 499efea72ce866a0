"""Write the gallery of findings: what was published or found here, measured on the samples; see ``tests.reference``.

``python -m tests.gallery gpt2-helix gpt2=FOLDER`` measures a study on the published model itself, which lies outside
the repository, and keeps the result, with the digest of the table, in ``docs/measured.json``.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from urllib.parse import parse_qs, urlencode

import numpy as np

import hfposemb as hpe
from app.lessons.card import link
from app.lessons.lessons import LESSONS, Lesson
from app.session.address import MODELS, written
from hfposemb.surveys.published_findings import STUDIES
from hfposemb.surveys.reproduction import Outcome, outcome, reproduce
from tests.support.pages import DOCS, opening

MEASURED = DOCS / "measured.json"


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
            "Sines and cosines were chosen so that a shift by k positions is the same linear map at every position. "
            "The stored numbers confirm it to their last digits."
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
            "The positions of GPT-2 form a helix in three dimensions, as published. The small sample has a quarter of "
            "its positions and was trained on one book: its curve is no helix. Few dimensions alone are no finding: "
            "any smooth curve has them, a random walk too."
        ),
        study="gpt2-helix",
        given={"gpt2": "sample:gpt2", "untrained": "random:256x128"},
        models=("sample:gpt2", "random:256x128"),
        panel="sample:gpt2",
        picture="curve",
    ),
    Finding(
        title="Learned positions contain waves",
        about=(
            "In RoBERTa the leading components of the position table are sinusoid-like. The paper's numbers are for "
            "RoBERTa; here only the claim is tested, on the demo BERT. The components of random walks are waves too."
        ),
        study="yamamoto-2023",
        given={"roberta": "sample:bert", "untrained": "random:256x128"},
        claims=(2,),
        models=("sample:bert", "random:256x128"),
    ),
    Finding(
        title="How well a position can be read off its vector",
        about=(
            "A linear map recovers the position from the table of GPT-2, but hardly from those of BERT and RoBERTa, as "
            "published. Two models cannot show that decoders and encoders differ: pairs of random walks differ so, "
            "too. `sample:bert` is no stand-in for encoders either, as it learned to predict next words first."
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
            "The best-known word analogy. Measured as published, the three query words are candidates too, and one of "
            "them is nearest; usually they are excluded."
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
        title="Months and days lie on a circle",
        about=(
            "Words that are used alike in a cycle of contexts come to lie in its order. Of MiniLM’s rows of the twelve "
            "months and of the seven days, one turn holds far more than of the same rows in another order."
        ),
        study="calendar-circle",
        given={"words": "sample:minilm"},
        models=("sample:minilm",),
        tab="tokens",
        controls={"word": "march"},
    ),
    Finding(
        title="Numbers have waves",
        about=(
            "Numbers of one last digit have something in common, whatever their tens. The null shuffles last digits "
            "inside each decade, so that size explains nothing."
        ),
        study="number-waves",
        given={"words": "sample:minilm"},
        models=("sample:minilm",),
        tab="tokens",
        controls={"word": "50"},
    ),
    Finding(
        title="Words of the input layer point in all directions",
        about="The upper layers of GPT-2 are anisotropic, its input layer is not; tables trained briefly are.",
        study="ethayarajh-2019",
        given={"words": "sample:minilm"},
        models=("sample:minilm", "sample:gpt2"),
        tab="tokens",
    ),
    Finding(
        title="A common mean and a few strong directions",
        about="Found in static word vectors. MiniLM’s tokens have hardly any mean in common, but strong directions.",
        study="mu-viswanath-2018",
        given={"words": "sample:minilm"},
        models=("sample:minilm", "sample:gpt2"),
        tab="tokens",
    ),
    Finding(
        title="Positions of patches encode rows and columns",
        about="A vision transformer is not given a grid, but its position table has one. No sample here reads images.",
        study="vit-fig7",
        models=("google/vit-base-patch16-224",),
    ),
    Finding(
        title="Order is learned from text alone",
        about=(
            "A learned table starts as random numbers. After training, distance alone explains most of the similarity "
            "of its positions, as in the sinusoid, where it does so by construction."
        ),
        lesson=7,
        panel="sample:bert",
        picture="learned",
    ),
    Finding(
        title="What textbooks discard fails for a reason",
        about=(
            "Counting, fractions and a single sine are taught as steps towards the sinusoid. Tested against five "
            "requirements, each fails in its own way; the sinusoid does not extrapolate either."
        ),
        lesson=4,
        panel="sinusoidal:256x128 requirements",
        picture="requirements",
    ),
    Finding(
        title="Adding positions need not destroy the word or the position",
        about=(
            "In these two samples both can be recovered from the sum, even with positions four times as large. It "
            "depends on their sizes: a sinusoid added to the words of MiniLM as they are leaves the right word nearest "
            "in less than 1 %."
        ),
        lesson=8,
        panel="recovery",
        picture="recovery",
    ),
    Finding(
        title="Word order reaches the input through positions alone",
        about="The same words in reverse order have the same token vectors, but different inputs.",
        lesson=3,
        panel="reorder",
        picture="reorder",
    ),
    Finding(
        title="Rotary positions and ALiBi encode distance only",
        about=(
            "What they add to a score is the same for every pair at the same distance, wherever it is. A learned table "
            "does not guarantee this."
        ),
        lesson=12,
        panel="logits",
    ),
)
"""What is published first, then what this project measured."""


def gallery() -> str:
    """Return the page: its own text, then an entry for each finding."""
    return opening("gallery.md", "\n## ") + "".join("\n" + "\n\n".join(_entry(finding)) + "\n" for finding in FINDINGS)


def _entry(finding: Finding) -> Iterator[str]:
    yield f"## {finding.title}"
    if finding.picture:
        yield f"![{finding.title}, in the app](pictures/{finding.picture}.png)"
    yield finding.about
    yield "\n".join(_measured(finding) if finding.study else _of_lesson(LESSONS[finding.lesson - 1]))
    source = f"{STUDIES[finding.study].citation}. `hfposemb reproduce {finding.study}`" if finding.study else ""
    own = f"[Lesson {finding.lesson}](lessons.ipynb)" if finding.lesson else ""
    yield f"{_opened(finding)} · {source or own}"


def _opened(finding: Finding) -> str:
    """Return the command that opens a finding's sources, and the rest of its address."""
    values = parse_qs(finding.query.removeprefix("?"))
    command = shlex.join(["hfposemb", "app", *values.pop(MODELS)])
    return f"See it: `{command}`, then `?{urlencode(values, doseq=True)}`"


def _measured(finding: Finding) -> Iterator[str]:
    """Yield the claims of a study that the samples can stand for, and what is measured of each."""
    study = STUDIES[finding.study]
    yield from _on_the_published(finding.study)
    asked = [study.claims[place] for place in finding.claims] or study.claims
    claims = [claim for claim in asked if set(claim.needs) <= set(finding.given)]
    if not claims:
        yield f"Needs {', '.join(f'`{source}`' for source in study.models.values())} to be measured."
        return
    models = {name: hpe.extract(source) for name, source in finding.given.items()}
    yield from _table(outcome(claim, models) for claim in claims)
    stand_ins = [f"`{name}` is `{source}`" for name, source in finding.given.items() if source != study.models[name]]
    if stand_ins:
        yield f"\nHere {', '.join(stand_ins)}."


def _table(outcomes: Iterable[Outcome]) -> Iterator[str]:
    yield "| published | measured here | by the rule of `reproduce` |"
    yield "|---|---|---|"
    for found in outcomes:
        yield f"| {found.published} | {found.measured} | {found.verdict}: {found.rule} |"


def _on_the_published(study: str) -> Iterator[str]:
    """Yield what was measured on the published model itself, which stands before its stand-in."""
    kept = json.loads(MEASURED.read_text(encoding="utf-8")).get(study)
    if kept is None:
        return
    tables = "; ".join(f"`{one['source']}`, {one['shape']}, SHA-256 `{one['sha256'][:16]}…`" for one in kept["tables"])
    yield f"On the published model itself ({tables}):\n"
    yield from _table(Outcome(**one) for one in kept["outcomes"])
    yield "\nOn the stand-in that comes with the package:\n"


def remember(study: str, given: Mapping[str, str]) -> None:
    """Measure a study on published models and keep what was found of the claims that they allow.

    Args:
        study: Name of the study.
        given: Folders with the models, by the study's names for them.
    """
    found = reproduce(study, models=given)
    kept = json.loads(MEASURED.read_text(encoding="utf-8")) if MEASURED.exists() else {}
    tables = []
    for name, folder in given.items():
        made = hpe.extract(folder)
        table = made.token if name == "words" else made.tables["position"]
        digest = hashlib.sha256(np.ascontiguousarray(table.vectors).tobytes()).hexdigest()
        shape = f"{table.shape[0]:,} × {table.shape[1]}"
        tables.append({"source": STUDIES[study].models[name], "shape": shape, "sha256": digest})
    outcomes = [asdict(one) for one in found.outcomes if one.verdict != "not measured"]
    kept[study] = {"tables": tables, "outcomes": outcomes}
    MEASURED.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _of_lesson(lesson: Lesson) -> Iterator[str]:
    for source in lesson.models:
        line = lesson.measured(f"`{source}`", lesson.measure(hpe.extract(source)))
        yield f"- {line}"


def main(arguments: Sequence[str]) -> None:
    """Measure a study on the models that are given as ``name=FOLDER``."""
    study, *given = arguments
    remember(study, dict(one.split("=", 1) for one in given))


if __name__ == "__main__":
    main(sys.argv[1:])
