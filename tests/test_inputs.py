"""What the first layer is fed, against the model's own first layer, within 1e-5 in float32."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

import hfposemb as hpe
from hfposemb.errors import InputError
from hfposemb.inputs import _take
from hfposemb.table import EmbeddingTable, Provenance

from .conftest import ABSOLUTE, Build
from .hub import FakeHub

IDS = [5, 17, 3, 60, 3, 22]


def first_layer_input(model: torch.nn.Module, **fed: torch.Tensor) -> np.ndarray:
    """Run a model and return what its first numbered layer was given."""
    layer = next(module for name, module in model.named_modules() if name.rpartition(".")[2] == "0")
    given: list[torch.Tensor] = []

    def note(_: torch.nn.Module, args: tuple[torch.Tensor, ...], kwargs: dict[str, torch.Tensor]) -> None:
        given.append(args[0] if args else kwargs["hidden_states"])

    handle = layer.register_forward_pre_hook(note, with_kwargs=True)
    with torch.no_grad():
        model(**fed)
    handle.remove()
    return given[0][0].numpy()


@pytest.mark.parametrize("model_type", ABSOLUTE)
def test_equals_the_models_own(build: Build, tmp_path: Path, model_type: str) -> None:
    model = build(model_type)
    model.save_pretrained(tmp_path)
    own = first_layer_input(model, input_ids=torch.tensor([IDS]))
    for source in (tmp_path, model):
        inputs = hpe.extract(source).inputs(IDS)
        np.testing.assert_allclose(inputs.normed, own, atol=1e-5, rtol=1e-5)
        np.testing.assert_allclose(inputs.token + inputs.type + inputs.position, inputs.sum, atol=1e-6)
        assert inputs.pieces == tuple(hpe.extract(source).token.labels[i] for i in IDS)


def test_text_through_a_real_tokenizer(minilm_folder: Path) -> None:
    text = "The king saw the queen, unbelievably."
    inputs = hpe.extract(minilm_folder).inputs(text)
    fed = transformers.AutoTokenizer.from_pretrained(minilm_folder)(text, return_tensors="pt")
    assert inputs.ids.tolist() == fed["input_ids"][0].tolist()
    assert inputs.pieces[:4] == ("[CLS]", "the", "king", "saw")
    model = transformers.AutoModel.from_pretrained(minilm_folder, dtype=torch.float32).eval()
    np.testing.assert_allclose(inputs.normed, first_layer_input(model, **fed), atol=1e-5)


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_samples(name: str) -> None:
    from hfposemb.samples import folder

    text = "the king saw the queen"
    inputs = hpe.extract(f"sample:{name}").inputs(text)
    fed = transformers.AutoTokenizer.from_pretrained(folder(name))(text, return_tensors="pt")
    assert inputs.ids.tolist() == fed["input_ids"][0].tolist()
    model = transformers.AutoModel.from_pretrained(folder(name), dtype=torch.float32).eval()
    np.testing.assert_allclose(inputs.normed, first_layer_input(model, **fed), atol=1e-5)


def test_vectors_typed_by_hand() -> None:
    embeddings = hpe.from_arrays(
        token=[[0.1, 0.2, 0.3], [0.4, 0.6, 0.5], [0.7, 0.9, 0.8]],
        position=[[0.01, 0.02, 0.03], [0.04, 0.05, 0.06], [0.07, 0.08, 0.09]],
        labels=["I", "am", "here"],
    )
    inputs = embeddings.inputs([0, 1, 2])
    np.testing.assert_allclose(inputs.sum, [[0.11, 0.22, 0.33], [0.44, 0.65, 0.56], [0.77, 0.98, 0.89]], atol=1e-7)
    assert inputs.pieces == ("I", "am", "here")


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([], "nothing to feed"),
        ([61], "token id 61 has no row"),
        ([-1], "token id -1 has no row"),
        ([0] * 21, "shorten it"),
        ([0.5], "whole numbers"),
        ([[1, 2]], "for one text"),
        ("a text", "without a tokenizer"),
    ],
)
def test_bad_input(build: Build, ids: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        hpe.extract(build("gpt2")).inputs(ids)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=60), st.sampled_from([np.float32, np.float64]))
def test_each_row_is_read_once_and_neighbours_together(rows: list[int], dtype: type[np.floating]) -> None:
    vectors = np.random.default_rng(3).standard_normal((41, 3)).astype(dtype)
    reads: list[tuple[int, int]] = []

    def read(start: int, stop: int) -> np.ndarray:
        reads.append((start, stop))
        return vectors[start:stop]

    table = EmbeddingTable("t", (41, 3), np.dtype(dtype), Provenance("t"), read)
    taken = _take(table, np.array(rows))
    one_by_one = np.stack([vectors[row] for row in rows]).astype(np.float32)
    assert taken.dtype == one_by_one.dtype
    assert taken.tobytes() == one_by_one.tobytes()
    assert [row for start, stop in reads for row in range(start, stop)] == sorted(set(rows))
    assert all(stop < start for (_, stop), (start, _) in pairwise(reads))


def test_a_sentence_on_the_hub_is_one_request_for_its_positions(hub: FakeHub) -> None:
    draw = np.random.default_rng(5)
    shapes = {"wte.weight": (3000, 64), "wpe.weight": (1024, 64)}
    tensors = {name: draw.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    config = json.dumps({"model_type": "gpt2", "n_positions": 1024}).encode()
    hub.add("a/gpt", {"config.json": config, "model.safetensors": save(tensors)})
    found = hpe.extract("a/gpt")
    before = len(hub.requests)
    ids = [2001, 7, 2002, 7, 900, 2000, 7, 7]
    inputs = found.inputs(ids)
    np.testing.assert_array_equal(inputs.sum, tensors["wte.weight"][ids] + tensors["wpe.weight"][: len(ids)])
    asked = [one.headers["range"] for one in hub.requests[before:] if one.host == "cdn"]
    assert len(asked) == 4, "2000 to 2002, 7, 900; and positions 0 to 7"
    assert len(set(asked)) == len(asked)
