"""Published findings measured again: on tables made to agree and to differ, on MiniLM, and with models missing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

import hfposemb as hpe
from hfposemb.analysis.tokens.word_sets import WORD_SETS
from hfposemb.cli.main import main
from hfposemb.surveys import published_findings as module
from hfposemb.surveys.published_findings import STUDIES, Models, _by_last_digit, _circle
from hfposemb.surveys.reproduction import Reproduction, reproduce, reproduce_all
from hfposemb.tables.source_parser import parse_source
from hfposemb.tables.sources import BuiltinSource, HubSource
from tests.hub import FakeHub
from tests.hub.gpt2 import add_gpt2
from tests.support.made_tables import noise

Folder = Callable[[str, NDArray[np.floating]], str]

READ_AT_THE_SOURCE = {"50.51", "92.23", "4", "10", "12"}
"""Numbers of published claims, and the counts of components they are for."""


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Write a checkpoint of a type with this position table, and return its folder."""

    def write(model_type: str, rows: NDArray[np.floating]) -> str:
        home = tmp_path / f"{model_type}-{len(list(tmp_path.iterdir()))}"
        home.mkdir()
        stored = np.ascontiguousarray(rows, np.float32)
        name = "wpe.weight" if model_type == "gpt2" else "embeddings.position_embeddings.weight"
        if model_type == "roberta":  # its first two rows are no positions
            stored = np.concatenate([np.zeros((2, rows.shape[1]), np.float32), stored])
        config = {"model_type": model_type, "hidden_size": rows.shape[1], "pad_token_id": 1}
        (home / "config.json").write_text(json.dumps(config))
        save_file({name: stored}, home / "model.safetensors")
        return str(home)

    return write


def verdicts(found: Reproduction) -> list[str]:
    return [outcome.verdict for outcome in found.outcomes]


def test_rows_are_well_formed_and_their_numbers_were_read_at_their_source() -> None:
    """Whoever adds a number adds it here too, and has read it where it was published."""
    for study in STUDIES.values():
        assert re.search(r"\b(19|20)\d\d\b", study.citation)
        assert {key for claim in study.claims for key in claim.needs} == set(study.models)
        for source in study.models.values():
            assert isinstance(parse_source(source), HubSource | BuiltinSource)
    of_names = re.compile(r"GPT-2|10000 · 2π|2π")
    said = {number for study in STUDIES.values() for claim in study.claims
            for number in re.findall(r"\d+(?:\.\d+)?", of_names.sub("", claim.published))}  # fmt: skip
    assert said == READ_AT_THE_SOURCE


def test_the_sinusoid_rotates() -> None:
    found = reproduce("sinusoid-rotation")
    assert verdicts(found) == ["agrees", "agrees"]
    assert 0 < found.outcomes[0].value < 1e-6
    # Other waves than the paper's turn too, but not so.
    other = reproduce("sinusoid-rotation", models={"sinusoid": "sinusoidal:512x384?base=500"})
    assert verdicts(other) == ["differs", "differs"]


def test_king_and_queen_in_minilm(minilm_folder: Path) -> None:
    found = reproduce("king-queen", models={"words": str(minilm_folder)})
    assert verdicts(found) == ["agrees", "differs", "agrees"]
    assert "cosine 0.627, above 99.99 %" in found.outcomes[0].measured
    # To the letter the nearest is king itself; queen is nearest once the words of the question are left out.
    assert found.outcomes[1].measured.startswith("nearest: king ")
    assert found.outcomes[2].measured.startswith("nearest: queen ")
    assert [outcome.value for outcome in found.outcomes[1:]] == [2, 1]


def test_a_helix_and_what_is_none(folder: Folder) -> None:
    t = np.arange(300)[:, None]
    wound = np.concatenate([np.cos(t / 20), np.sin(t / 20), t / 300], axis=1) @ noise(3, 24) + 0.05 * noise(300, 24, 1)
    found = reproduce("gpt2-helix", models={"gpt2": folder("gpt2", wound)})
    assert verdicts(found) == ["cannot tell", "agrees"]
    # Three components of any random walk explain about four fifths of its variance.
    assert "2 of 2 random walks agree as well" in found.outcomes[0].measured
    assert " of 20 random walks agree as well" in found.outcomes[1].measured
    straight = t / 300 @ noise(1, 24) + 0.02 * noise(300, 24, 1)
    assert verdicts(reproduce("gpt2-helix", models={"gpt2": folder("gpt2", straight)})) == ["cannot tell", "differs"]


def test_yamamoto_takes_half_a_point_and_no_more(folder: Folder) -> None:
    """A table of waves whose leading components hold just what RoBERTa's do."""
    angles = 2 * np.pi / 512 * np.arange(512)[:, None] * np.arange(1, 9)
    waves = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    held = np.array([50.51 / 4] * 4 + [(92.23 - 50.51) / 8] * 8 + [(100 - 92.23) / 4] * 4)
    rows = waves * np.sqrt(held) @ np.linalg.qr(noise(24, 24))[0][:16]
    found = reproduce("yamamoto-2023", models={"roberta": folder("roberta", rows)})
    # The components of a random walk are waves as well, but they hold more of its variance.
    assert verdicts(found) == ["agrees", "agrees", "cannot tell"]
    assert found.outcomes[0].measured == "50.51 %; 0 of 20 random walks agree as well"
    assert (
        verdicts(reproduce("yamamoto-2023", models={"roberta": folder("roberta", noise(512, 24))})) == ["differs"] * 3
    )


def test_wang_and_chen_hold_decoders_against_encoders(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEEDS", range(3))
    smooth = np.array(hpe.sinusoidal(600, 64).position.table.vectors)  # type: ignore[union-attr]
    models = {"gpt2": folder("gpt2", smooth), "bert": folder("bert", noise(512, 64))}
    models |= {"sinusoid": "sinusoidal:512x64", "untrained": "random:512x64", "roberta": folder("roberta", smooth)}
    found = reproduce("wang-chen-2020", models=models)
    # A position can be read off any smooth table, off some better than off others. RoBERTa's is GPT-2's table here.
    assert verdicts(found) == ["agrees", "cannot tell", "cannot tell", "differs", "agrees", "differs"]


def test_the_patches_of_an_image(tmp_path: Path) -> None:
    config = {"model_type": "vit", "image_size": 48, "patch_size": 8, "hidden_size": 16}
    (tmp_path / "config.json").write_text(json.dumps(config))
    # Each row and each column of the image has a bump of its own, which its neighbours share.
    places = np.stack(np.divmod(np.arange(36), 6))[:, :, None]
    walk = np.cumsum(noise(36, 16), axis=0)  # in reading order, which makes the patches of a row alike
    bumps = np.concatenate(np.exp(-((places - np.arange(6)) ** 2) / 2), axis=1)
    for rows, verdict in ((np.pad(bumps, ((0, 0), (0, 4))), "agrees"), (noise(36, 16), "differs"), (walk, "differs")):
        stored = np.concatenate([np.zeros((1, 16)), rows]).astype(np.float32)[None]
        save_file({"embeddings.position_embeddings": stored}, tmp_path / "model.safetensors")
        found = reproduce("vit-fig7", models={"vit": str(tmp_path)})
        near = "cannot tell" if verdict == "agrees" or rows is walk else verdict
        assert verdicts(found) == [near, verdict, verdict], str(found)
    no_image = reproduce("vit-fig7", models={"vit": "sinusoidal:16x4"})
    assert verdicts(no_image) == ["not measured"] * 3
    assert "no positions on an image grid" in no_image.outcomes[0].measured


def test_models_come_from_the_hub(hub: FakeHub, tmp_path: Path) -> None:
    """The Hub's GPT-2 is noise here, which is neither flat nor wound."""
    add_gpt2(hub, tmp_path)
    found = reproduce("gpt2-helix")
    assert found.sources["gpt2"] == "openai-community/gpt2"
    assert verdicts(found) == ["differs", "differs"]
    assert found.missing == {}


def test_what_is_missing_is_said_and_the_rest_is_measured(
    hub: FakeHub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SEEDS", range(1))
    assert main(["reproduce", "wang-chen-2020", "sinusoid-rotation", "vit-fig7"]) == 0
    printed = capsys.readouterr().out
    (line,) = [line for line in printed.splitlines() if "not available: gpt2, bert, roberta (" in line]
    assert "--model gpt2=./folder" in line
    assert printed.count("not measured") == 8
    assert main(["reproduce", "vit-fig7"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("hfposemb: nothing could be measured (vit: ")
    assert captured.err.count("\n") == 1


def test_command(minilm_folder: Path, capsys: pytest.CaptureFixture[str], hub: FakeHub) -> None:
    arguments = ["reproduce", "king-queen", "gpt2-helix", "--model", f"words={minilm_folder}", "--json"]
    assert main(arguments) == 0
    first, second = json.loads(capsys.readouterr().out)["studies"]
    assert [outcome["verdict"] for outcome in first["outcomes"]] == ["agrees", "differs", "agrees"]
    assert {outcome["verdict"] for outcome in second["outcomes"]} == {"not measured"}
    assert list(second["missing"]) == ["gpt2"]
    for wrong in (
        ["nonsense"],
        ["king-queen", "--model", "words"],
        ["king-queen", "--model", "gpt2=./x"],
        ["king-queen", "--model", "words=./nowhere"],
        ["king-queen", "--model", "words=sinusoidal:8x4"],
    ):
        assert main(["reproduce", *wrong]) == 1
        captured = capsys.readouterr()
        assert (captured.out, captured.err.count("\n")) == ("", 1), wrong


def test_all_studies_are_the_default(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEEDS", range(1))
    assert [one.name for one in reproduce_all()] == list(STUDIES)
    with pytest.raises(hpe.HfposembError, match="has no model 'x'"):
        reproduce("gpt2-helix", models={"x": "./y"})


def months(rows: np.ndarray) -> Models:
    return {"words": hpe.from_arrays(token=rows, labels=WORD_SETS["months"])}


def test_a_circle_of_words_is_told_from_words_in_any_order() -> None:
    """Of unrelated rows one in twenty agrees; on a circle with as much noise as signal nearly all do."""
    rng = np.random.default_rng(2)
    turn = 2 * np.pi * np.arange(12) / 12
    circle = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    found = {"noise": 0, "circle": 0}
    for _ in range(30):
        rows = rng.normal(size=(12, 32))
        plane = np.linalg.qr(rng.normal(size=(32, 2)))[0].T
        found["noise"] += _circle(months(rows), words="months").agrees
        found["circle"] += _circle(months(4 * circle @ plane + rows), words="months").agrees
    assert found["noise"] <= 4
    assert found["circle"] >= 27


def test_a_last_digit_is_told_from_size() -> None:
    """Rows that change smoothly with the number have no part of their last digit."""
    rng, places = np.random.default_rng(3), np.arange(100)
    smooth = np.exp(-np.square((places[:, None] - places) / 30.0)) + 1e-8 * np.eye(100)
    labels = [str(number) for number in places]
    found = {"smooth": 0, "digits": 0}
    for _ in range(20):
        rows = np.linalg.cholesky(smooth) @ rng.normal(size=(100, 24)) + 0.3 * rng.normal(size=(100, 24))
        digits = rows + 0.5 * rng.normal(size=(10, 24))[places % 10]
        for kind, given in (("smooth", rows), ("digits", digits)):
            found[kind] += _by_last_digit({"words": hpe.from_arrays(token=given, labels=labels)}).agrees
    assert found["smooth"] <= 2
    assert found["digits"] >= 18
