"""Six facts for a model card: measured, the same in Markdown and in the picture, and nothing of a name is markup."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.cli.main import main
from hfposemb.errors import InputError
from hfposemb.reports.card_facts import ModelCard, model_card
from hfposemb.tables.encodings import Unmeasured
from tests.hub.server import FakeHub
from tests.support.app.models import MANY, checkpoint


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


def test_it_is_written_by_its_suffix_without_a_path_of_this_machine(tmp_path: Path) -> None:
    for name in ("base", "tuned"):
        checkpoint(tmp_path / name, MANY, ROWS)
    card = model_card(hpe.extract(tmp_path / "tuned"), base=tmp_path / "base")
    assert card.facts["Origin"].startswith("the same rows as base: ")
    assert str(tmp_path) not in card.markdown() + card.svg()
    assert "`hfposemb card tuned --base base`" in card.markdown()
    card.write(tmp_path / "card.svg")
    card.write(tmp_path / "card.md")
    assert (tmp_path / "card.md").read_text(encoding="utf-8").startswith("## Embeddings")
    assert "<polyline" in (tmp_path / "card.svg").read_text(encoding="utf-8")
    with pytest.raises(InputError, match=r"a card is written as \.md or \.svg; got 'card.png'"):
        card.write(tmp_path / "card.png")


ROWS = np.random.default_rng(0).normal(size=(len(MANY), 16)).astype(np.float32)
MOVED = np.random.default_rng(1).normal(size=ROWS.shape).astype(np.float32)


def put(hub: FakeHub, folder: Path, repo: str, rows: np.ndarray, readme: str | None = None) -> str:
    """Put a model with a README on the Hub, and return its name."""
    checkpoint(folder / repo, MANY, rows)
    if readme is not None:
        (folder / repo / "README.md").write_text(readme)
    hub.add(repo, {path.name: path.read_bytes() for path in (folder / repo).iterdir()})
    return repo


@pytest.mark.parametrize(
    ("stated", "rows", "said"),
    [
        ("base_model: owner/base", ROWS, "the same rows as owner/base: 100\u00a0% of "),
        ("base_model:\n- 'owner/base'\n- owner/third", ROWS + 0.1 * MOVED, "derived from owner/base: 0\u00a0% of "),
        ("base_model: [owner/base]", MOVED, "its rows do not come from owner/base: cosine "),
        ("base_model: owner/none", ROWS, "not measured: owner/none is not a public model"),
    ],
)
def test_what_a_readme_says_is_held_against_the_rows(
    hub: FakeHub, tmp_path: Path, stated: str, rows: np.ndarray, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    put(hub, tmp_path, "owner/base", ROWS)
    tuned = put(hub, tmp_path, "owner/tuned", rows, f"---\nlicense: mit\n{stated}\n---\n# A model\n")
    card = model_card(hpe.extract(tuned), base=True)
    assert card.facts["Origin"].startswith(said)
    assert "Origin" in card.svg()
    known = not said.startswith("not measured")
    assert card.facts["Vocabulary"].startswith("One vocabulary: all " if known else said)
    assert f"`hfposemb card {tuned} --base owner/{'base' if known else 'none'}`" in card.markdown()
    assert main(["card", tuned]) == 0
    assert f"| Origin | {said.replace(chr(0xA0), ' ')}"[:40] in capsys.readouterr().out.replace("\u00a0", " ")


@pytest.mark.parametrize(
    "readme",
    [
        None,
        "# A model\nbase_model: owner/base\n",
        "---\nbase_model:\n---\n",
        "---\nbase_model: ../base\n---\n",
        "---\nbase_model: /etc/passwd\n---\n",
        "---\nbase_model: {a: [owner/base]}\n---\n",
        "---\nbase_model: !!python/object/apply:os.system ['true']\n---\n",
        f"---\nbase_model: {'[' * 20_000}\n---\n",
        "---\n- base_model\n---\n",
    ],
)
def test_without_a_base_nothing_more_is_read(
    hub: FakeHub, tmp_path: Path, readme: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    put(hub, tmp_path, "owner/base", ROWS)
    bare = put(hub, tmp_path, "owner/bare", ROWS, readme)
    assert main(["card", bare]) == 0
    assert "Origin" not in capsys.readouterr().out
    assert not [one.path for one in hub.requests if "owner/base" in one.path]
    assert main(["card", bare, "--base"]) == 1
    assert "does not name the model that it was made from" in capsys.readouterr().err
    assert main(["card", bare, "--base", "owner/base"]) == 0
    assert "| Origin | the same rows as owner/base" in capsys.readouterr().out


def test_what_was_not_found_is_not_said_to_be_absent() -> None:
    tokens = hpe.from_arrays(token=np.eye(30), name="tokens")
    facts = model_card(tokens).facts
    assert facts["Positions"].startswith("not found: ")
    for fact in ("Similarity explained by distance", "Rotary reach"):
        assert facts[fact] == "not measured: no positions were found"
    unread = replace(tokens, positions={"position": Unmeasured("rotary", "its angles are not stated")})
    assert model_card(unread).facts["Rotary reach"] == "not measured: its angles are not stated"
