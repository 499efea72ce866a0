"""Six facts for a model card: measured, the same in Markdown and in the picture, and nothing of a name is markup."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.errors import InputError
from hfposemb.reports.card_facts import ModelCard, model_card


def test_facts_are_those_of_the_measures(minilm_folder: Path) -> None:
    model = hpe.extract(minilm_folder)
    card = hpe.model_card(model)
    assert len(card.facts) == 6
    assert card.facts["Positions"].startswith("learned, 512 × 384. One fast helix: 87 turns")
    share = hpe.translation_invariance(model.position)
    assert card.facts["Similarity explained by distance"] == f"{100 * share:.0f}\u00a0%"
    near = hpe.neighbours(model.token, "king", k=3)
    assert card.facts["Nearest to “king”"].startswith(f"{near.labels[0]} .69, {near.labels[1]} .63")
    assert card.facts["Tokens that look untrained"] == "558 of 30,522"
    assert card.facts["Output head"] == "does not apply: model has no output head"
    assert card.name == minilm_folder.name, "no path of this machine"
    assert str(minilm_folder.parent) not in card.markdown() + card.svg()


@pytest.mark.parametrize("text", ["sinusoidal:64x16", "rotary:512x64", "alibi:64x8", "random:32x8"])
def test_what_does_not_apply_is_said(text: str) -> None:
    card = model_card(hpe.extract(text))
    assert all(said and "Traceback" not in said for said in card.facts.values())
    assert card.facts["Rotary reach"].startswith("16 of 32 pairs" if text.startswith("rotary") else "does not apply")


def test_nothing_is_markup() -> None:
    card = ModelCard('<b>[x](y)|`"', {"Positions": "<img src=x> | [a](b)"}, np.array([[0, 0], [1, np.pi]]))
    for dark in (False, True):
        svg = ElementTree.fromstring(card.svg(dark=dark))
        assert (svg.attrib["width"], svg.attrib["height"]) == ("1200", "630")
        assert "".join(svg.itertext()).count("<img src=x>") == 1
    assert "<img" not in card.markdown()
    assert "\\[a](b)" in card.markdown()
    assert card.svg() != card.svg(dark=True)


def test_it_is_written_by_its_suffix(tmp_path: Path) -> None:
    card = model_card(hpe.extract("sample:gpt2"))
    card.write(tmp_path / "card.svg")
    card.write(tmp_path / "card.md")
    assert (tmp_path / "card.md").read_text(encoding="utf-8").startswith("## Embeddings")
    assert "<polyline" in (tmp_path / "card.svg").read_text(encoding="utf-8")
    with pytest.raises(InputError, match=r"a card is written as \.md or \.svg; got 'card.png'"):
        card.write(tmp_path / "card.png")
