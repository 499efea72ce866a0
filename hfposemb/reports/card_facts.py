"""Six facts about a model's embeddings for its model card: as Markdown, and as a picture of 1,200 × 630 pixels."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..analysis.projection.projecting import project
from ..analysis.similarity.nearest_rows import neighbours
from ..analysis.tokens.undertrained import undertrained_tokens
from ..comparison.row_fingerprints import Fingerprint
from ..comparison.row_kinship import kinship, opened_or_kept
from ..errors import HfposembError, InputError, MissingTableError
from ..figures.palette import PALETTE, SOURCES
from ..files import complete_file
from ..tables.embeddings import Embeddings
from ..tables.encodings import PositionEncoding, Unmeasured
from ..tables.rotary import Rotary
from ..tables.tabular import Columns, Tabular
from ..text import number, one_line, percent, sentence_case
from ..vocabularies.comparing import difference_of, headline
from ..vocabularies.opened_tokenizer import of_labels
from .position_findings import finding, measure

WIDTH, HEIGHT = 1200, 630
LONGEST_FACT = 64
"""Number of characters of a fact in the picture; Markdown has it whole."""


@dataclass(frozen=True, eq=False)
class ModelCard(Tabular):
    """Six facts about a source, and two more if it is compared with the model that it was made from.

    Attributes:
        name: Name of the source; of a folder, without the path to it.
        facts: What is known of each, by its heading; why not, where it does not apply.
        curve: Positions in the plane of most variance [n, 2]; ``None`` if they have no rows.
        base: Name of the model that it was compared with, "" if there is none.
    """

    name: str
    facts: dict[str, str]
    curve: NDArray[np.floating] | None
    base: str = ""

    def columns(self) -> Columns:
        """Return one row per fact: ``fact`` and ``value``."""
        return {"fact": list(self.facts), "value": list(self.facts.values())}

    def __str__(self) -> str:
        return self.markdown()

    def markdown(self) -> str:
        """Return the facts as a section of a model card."""
        lines = [f"| {_cell(fact)} | {_cell(said)} |" for fact, said in self.facts.items()]
        source = one_line(self.name)
        command = f"hfposemb card {source}{f' --base {one_line(self.base)}' if self.base else ''}".replace("`", "")
        return "\n".join(
            [
                "## Embeddings",
                "",
                f"| | {_cell(source)} |",
                "|---|---|",
                *lines,
                "",
                f"Measured with `{command}`.",
            ]
        )

    def svg(self, *, dark: bool = False) -> str:
        """Return the facts as an SVG picture of 1,200 × 630 pixels, as link previews show it, in light or dark."""
        colour = {name: one.dark if dark else one.light for name, one in PALETTE.items()}
        line = SOURCES[0].colour.dark if dark else SOURCES[0].colour.light
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'font-family="system-ui, sans-serif"><title>{_text(f"Embeddings of {self.name}")}</title>',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{colour["panel"]}"/>',
            f'<text x="60" y="88" font-size="40" font-weight="650" fill="{colour["ink"]}">{_text(self.name, 40)}',
            "</text>",
        ]
        step = min(74, 444 // max(1, len(self.facts)))
        for place, (fact, said) in enumerate(self.facts.items()):
            y = 150 + step * place
            parts.append(f'<text x="60" y="{y}" font-size="19" fill="{colour["subdued"]}">{_text(fact)}</text>')
            shown = _text(said, LONGEST_FACT)
            parts.append(f'<text x="60" y="{y + 29}" font-size="24" fill="{colour["ink"]}">{shown}</text>')
        if self.curve is not None:
            points = " ".join(f"{x:.1f},{y:.1f}" for x, y in _fitted(self.curve, 900, 120, 250))
            parts.append(f'<polyline points="{points}" fill="none" stroke="{line}" stroke-width="2"/>')
        parts.append(f'<text x="60" y="606" font-size="17" fill="{colour["subdued"]}">hfposemb</text></svg>')
        return "".join(parts)

    def write(self, path: str | Path, *, dark: bool = False) -> None:
        """Write the card to a file: ``.md`` for Markdown, ``.svg`` for the picture.

        Raises:
            InputError: If the suffix is another one.
        """
        target = Path(path)
        if target.suffix not in (".md", ".svg"):
            raise InputError(f"a card is written as .md or .svg; got {target.name!r}")
        text = self.svg(dark=dark) if target.suffix == ".svg" else f"{self.markdown()}\n"
        with complete_file(target) as file:
            file.write(text.encode())


def model_card(
    source: Embeddings, *, word: str = "king", base: str | Path | Embeddings | bool | None = None
) -> ModelCard:
    """Return six facts about a source's embeddings for its model card.

    They are the shape of its positions, what distance alone explains of their similarity, whether the output head is
    tied, how many tokens look untrained, how far rotary positions reach, and which words are nearest to one of yours.

    Args:
        source: The source.
        word: The word whose nearest tokens are listed.
        base: The model that it was made from, whose rows and tokens are compared with its: an open source, a name or
            path, or ``True`` for the one that its README or the configuration of an adapter names, if any.

    Raises:
        HfposembError: If nothing of it can be read.

    Examples:
        >>> import hfposemb as hpe
        >>> hpe.model_card(hpe.extract("sample:gpt2")).facts["Output head"]
        'tied to the token table'
    """
    encoding = source.position if source.positions else None
    facts = {
        "Positions": lambda: _shape(source, encoding),
        "Similarity explained by distance": lambda: _distance(encoding),
        "Output head": lambda: _head(source),
        "Tokens that look untrained": lambda: _untrained(source),
        "Rotary reach": lambda: _reach(encoding),
        f"Nearest to “{word}”": lambda: _nearest(source, word),
    }
    if base is True:
        base = source.made_from() if source.made_from is not None else None
    if base:
        opened = cache(partial(opened_or_kept, base))
        facts["Origin"] = lambda: _origin(source, opened())
        facts["Vocabulary"] = lambda: _vocabulary(source, opened())
    full = source.name, base.name if isinstance(base, Embeddings) else str(base or "")
    name, made_from = (Path(one).name if Path(one).is_absolute() else one for one in full)
    told = {heading: _known(fact).replace(full[0], name).replace(full[1], made_from) for heading, fact in facts.items()}
    return ModelCard(name, told, _curve(encoding), made_from)


def _vocabulary(source: Embeddings, base: Embeddings | Fingerprint) -> str:
    """Return whether the ids of the base, which is A, name the same texts; what a merge would do says nothing of it."""
    if isinstance(base, Fingerprint):
        raise InputError(f"the fingerprint of {base.name} has no tokens but those of its rows")
    return headline(difference_of(of_labels(base), of_labels(source)))


def _origin(source: Embeddings, base: Embeddings | Fingerprint) -> str:
    found = kinship(base, source)
    if found.kin:
        how = "the same rows as" if found.verdict == "same" else f"{found.verdict} from"
        return f"{how} {found.a}: {found.reason}"
    told = "cannot tell whether it comes" if found.verdict == "cannot tell" else "its rows do not come"
    return f"{told} from {found.a}: {found.reason}"


def _known(fact: Callable[[], str]) -> str:
    try:
        return fact()
    except MissingTableError as error:
        return f"does not apply: {one_line(str(error)).partition(': ')[0].partition('; ')[0]}"
    except HfposembError as error:
        return f"not measured: {one_line(str(error), width=160)}"


_NOT_FOUND = "not measured: no positions were found"


def _shape(source: Embeddings, encoding: PositionEncoding | None) -> str:
    if encoding is None:
        return f"not found: {one_line(source.absent.get('position', 'no position table was found'), width=160)}"
    if isinstance(encoding, Rotary) or not encoding.has_table:
        return f"{encoding.kind}: no vectors are added to the words"
    rows, width = encoding.table.shape
    return f"{encoding.kind}, {rows:,} × {width:,}. {sentence_case(finding(measure(encoding.table)))}"


def _distance(encoding: PositionEncoding | None) -> str:
    if encoding is None:
        return _NOT_FOUND
    if isinstance(encoding, Rotary) or not encoding.has_table:
        return "does not apply: no position has a vector"
    share = measure(encoding.table).invariance
    return "not measured: fewer than 16 positions, or all alike" if share is None else percent(max(0.0, share))


def _head(source: Embeddings) -> str:
    tied = source.head.tied
    return "tied to the token table" if tied else f"its own: {tied.about}"


def _untrained(source: Embeddings) -> str:
    found = undertrained_tokens(source, count=1)
    untrained = next((one for one in found.lists if one.name == "untrained"), None)
    if untrained is None or untrained.found is None:
        return f"cannot tell: {untrained.note if untrained else 'the vocabulary names no unused rows'}"
    return f"{untrained.found:,} of {found.shape[0]:,}"


def _reach(encoding: PositionEncoding | None) -> str:
    if encoding is None:
        return _NOT_FOUND
    if isinstance(encoding, Unmeasured) and encoding.kind == "rotary":
        return f"not measured: {one_line(encoding.reason, width=160)}"
    if not isinstance(encoding, Rotary):
        return "does not apply: its positions do not rotate"
    found = encoding.scaled
    waves = found.after[np.isfinite(found.after)]
    longest = f"{waves.max():,.0f}" if len(waves) else "no"
    return (
        f"{int(found.beyond_after.sum()):,} of {len(found.after):,} pairs turn less than once in "
        f"{found.trained_length:,} positions; the slowest takes {longest}"
    )


def _nearest(source: Embeddings, word: str) -> str:
    found = neighbours(source.token, word, k=3)
    pairs = zip(found.labels, found.values.tolist(), strict=True)
    return ", ".join(f"{one_line(label, width=24).strip()} {number(value, digits=2)}" for label, value in pairs)


def _curve(encoding: PositionEncoding | None) -> NDArray[np.floating] | None:
    if encoding is None or isinstance(encoding, Rotary) or not encoding.has_table:
        return None
    try:
        return np.asarray(project(encoding, dims=2).coordinates)
    except HfposembError:
        return None


def _fitted(points: NDArray[np.floating], left: int, top: int, size: int) -> Iterator[tuple[float, float]]:
    """Yield points in a square of some pixels; the middle 98 % fill it, and what lies outside is at its edge."""
    low, high = np.quantile(points, [0.01, 0.99], axis=0)
    scaled = np.clip((points - low) / np.where(high > low, high - low, 1), 0, 1)
    for x, y in scaled.tolist():
        yield left + size * x, top + size * (1 - y)


def _text(text: str, width: int = 200) -> str:
    return html.escape(one_line(text, width=width))


def _cell(text: str) -> str:
    """Return a text as a cell of a Markdown table, where nothing of it is markup."""
    return (
        html.escape(one_line(text, width=200), quote=False).replace("|", "\\|").replace("[", "\\[").replace("`", "\\`")
    )
