"""Tables that the user names, folders inside repositories, and sources without any table."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import hfposemb as hpe
from hfposemb.errors import HubError, InputError, MissingTableError
from tests.hub.server import FakeHub
from tests.support.checkpoints.extracted import extracted

ROWS = np.random.default_rng(0).standard_normal((40, 8)).astype(np.float32)
WAVES = np.random.default_rng(1).standard_normal((1, 16, 8)).astype(np.float32)
VOCABULARY = {"model": {"type": "WordLevel", "vocab": {f"w{row}": row for row in range(40)}, "unk_token": "w0"}}


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """Return a checkpoint with names that nothing knows."""
    tensors = {"encoder.lookup": ROWS, "places.grid": WAVES, "out.matrix": ROWS + 1, "norm.scale": ROWS[0]}
    save_file(tensors, tmp_path / "model.safetensors")
    return tmp_path


def test_no_table_is_an_error_that_lists_what_there_is(odd: Path) -> None:
    with pytest.raises(MissingTableError) as caught:
        hpe.extract(odd)
    message = str(caught.value)
    assert "encoder.lookup [40, 8]" in message
    assert "?token=TENSOR" in message
    assert "norm.scale" not in message
    assert "\n" not in message


def test_tables_are_named_in_the_source_or_as_argument(odd: Path) -> None:
    named = hpe.extract(f"{odd}?token=encoder.lookup&position=places.grid&head=out.matrix")
    given = hpe.extract(odd, tables={"token": "encoder.lookup", "position": "places.grid", "head": "out.matrix"})
    for found in (named, given, pickle.loads(pickle.dumps(named))):
        assert np.array_equal(found.token, ROWS)
        assert np.array_equal(found.position.table, WAVES[0])
        assert np.array_equal(found.head, ROWS + 1)
        assert not found.head.tied
    labelled = hpe.extract(
        odd, tables={"token": "encoder.lookup"}, tokenizer=[f"w{row}" for row in range(40)], name="x"
    )
    assert (labelled.name, labelled.token.row("w7")) == ("x", 7)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("token=encoder.lokup", "has no tensor or module 'encoder.lokup'; similar names: encoder.lookup"),
        ("token=norm.scale", r"has the shape \[8\]; a table needs"),
        ("position=out", None),
    ],
)
def test_names_that_are_not_those_of_tables(odd: Path, query: str, message: str | None) -> None:
    if message is None:
        assert np.array_equal(hpe.extract(f"{odd}?{query}").position.table, ROWS + 1), "a module with one table"
        return
    with pytest.raises(InputError, match=message):
        hpe.extract(f"{odd}?{query}")


@pytest.fixture
def pipeline(hub: FakeHub, tmp_path: Path) -> FakeHub:
    """Serve a diffusers pipeline with two text encoders and their tokenizers."""
    files: dict[str, Path] = {}
    texts = {"model_index.json": "{}"}
    for number in ("", "_2"):
        texts[f"text_encoder{number}/config.json"] = json.dumps({"model_type": "clip_text_model", "vocab_size": 40})
        texts[f"tokenizer{number}/tokenizer.json"] = json.dumps(VOCABULARY)
        weights = tmp_path / f"weights{number}.safetensors"
        names = {"token_embedding": ROWS + len(number), "position_embedding": WAVES[0]}
        save_file({f"text_model.embeddings.{name}.weight": rows for name, rows in names.items()}, weights)
        files[f"text_encoder{number}/model.safetensors"] = weights
    for name, text in texts.items():
        files[name] = tmp_path / name.replace("/", "-")
        files[name].write_text(text)
    hub.add("a/pipeline", files)
    return hub


@pytest.mark.parametrize("path", ["text_encoder_2", "text_encoder_2/model.safetensors"])
def test_a_folder_of_a_repository(pipeline: FakeHub, path: str) -> None:
    found = hpe.extract(f"a/pipeline/{path}@main")
    for one in (found, pickle.loads(pickle.dumps(found))):
        assert np.array_equal(one.token, ROWS + 2)
        assert one.token.row("w5") == 5, "the tokenizer beside it"
        assert one.config["model_type"] == "clip_text_model"
    assert found.name == f"a/pipeline/{path}@main"


def test_errors_name_the_folders(pipeline: FakeHub) -> None:
    with pytest.raises(HubError, match=r"has no folder or checkpoint file 'unet'; its folders are .*text_encoder"):
        hpe.extract("a/pipeline/unet")
    with pytest.raises(hpe.errors.SourceError, match="text encoders are in text_encoder and text_encoder_2"):
        hpe.extract("a/pipeline")


def test_the_largest_tensors_are_named_where_names_are_numbered(tmp_path: Path) -> None:
    tensors = {f"embedders.{number}.weight": np.zeros((40 + number, 8), np.float32) for number in range(3)}
    largest = (
        r"its largest tensors shaped like tables are embedders\.2\.weight \[42, 8\], embedders\.1\.weight \[41, 8\]"
    )
    with pytest.raises(MissingTableError, match=largest):
        _ = extracted(tmp_path, tensors | {"small.weight": ROWS[:2]}, {"model_type": "mine"}).token
