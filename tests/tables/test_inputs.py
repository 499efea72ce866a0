"""What the first layer is fed, against the model's own first layer, within 1e-5 in float32."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

import hfposemb as hpe
from hfposemb.errors import InputError
from hfposemb.samples import folder
from hfposemb.tables.inputs import _take
from hfposemb.tables.table import EmbeddingTable, Provenance
from tests.conftest import ABSOLUTE, Build
from tests.hub import FakeHub

IDS = [5, 17, 3, 60, 3, 22]


def first_layer_input(model: torch.nn.Module, *, batch: bool = False, **fed: torch.Tensor) -> np.ndarray:
    """Run a model and return what its first numbered layer was given, for the first text or for all."""
    layer = next(module for name, module in model.named_modules() if name.rpartition(".")[2] == "0")
    given: list[torch.Tensor] = []

    def note(_: torch.nn.Module, args: tuple[torch.Tensor, ...], kwargs: dict[str, torch.Tensor]) -> None:
        given.append(args[0] if args else kwargs["hidden_states"])

    handle = layer.register_forward_pre_hook(note, with_kwargs=True)
    with torch.no_grad():
        model(**fed)
    handle.remove()
    return (given[0] if batch else given[0][0]).numpy()


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


@pytest.mark.parametrize("name", ["bert", "gpt2", "minilm"])
def test_text_through_a_real_tokenizer(minilm_folder: Path, name: str) -> None:
    text = "The king saw the queen, unbelievably."
    source, home = (f"sample:{name}", folder(name)) if name != "minilm" else (minilm_folder, minilm_folder)
    inputs = hpe.extract(source).inputs(text)
    fed = transformers.AutoTokenizer.from_pretrained(home)(text, return_tensors="pt")
    assert inputs.ids.tolist() == fed["input_ids"][0].tolist()
    model = transformers.AutoModel.from_pretrained(home, dtype=torch.float32).eval()
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
        ([], "the text is empty"),
        ([61], "token id 61 is out of range"),
        ([-1], "token id -1 is out of range"),
        ([0] * 21, "shorten it"),
        ([0.5], "whole numbers"),
        ([[1], 2], "text 2 of 2: token ids must be a list of whole numbers"),
        ([[[1, 2]]], "text 1 of 1: token ids must be a list of whole numbers"),
        ([[1, 2], []], "text 2 of 2: the text is empty"),
        ([[1], [1, 61]], "text 2 of 2: token id 61 is out of range"),
        ([[1], [0] * 21], "text 2 of 2: the text has 21 pieces, but .* only 20 rows; shorten it"),
        (["a", "b"], "text 1 of 2: .* no tokenizer"),
        (np.zeros((0, 4), int), r"shape \[0, 4\]; give at least one text"),
        (np.zeros((2, 0), int), "give at least one text"),
        (np.zeros((2, 2)), "text 1 of 2: token ids must be a list of whole numbers"),
        ([2**70], "whole numbers"),
        (7, "list of whole numbers"),
        ("a text", "no tokenizer"),
    ],
)
def test_bad_input(build: Build, ids: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        hpe.extract(build("gpt2")).inputs(ids)


BATCHED = ("bert", "roberta", "gpt2", "opt", "bart", "albert", "mpnet", "llama", "gemma", "mobilebert")
BATCH = [[5, 17, 3, 60, 3, 22], [7, 9], [4, 4, 4, 8]]


def batched(build: Build, model_type: str) -> Any:
    model: Any = build(model_type)
    model.config.pad_token_id = model.get_input_embeddings().padding_idx or 0
    return model


@pytest.mark.parametrize("model_type", BATCHED)
def test_a_batch_equals_the_models_own(build: Build, tmp_path: Path, model_type: str) -> None:
    model = batched(build, model_type)
    model.save_pretrained(tmp_path)
    inputs = hpe.extract(tmp_path).inputs(BATCH)
    assert inputs.mask.tolist() == [[place < len(ids) for place in range(6)] for ids in BATCH]
    assert (inputs.ids[~inputs.mask] == model.config.pad_token_id).all()
    assert (inputs.positions[~inputs.mask] == -1).all()
    fed = {"input_ids": torch.tensor(inputs.ids), "attention_mask": torch.tensor(inputs.mask).long()}
    own = first_layer_input(model, batch=True, **fed)
    assert inputs.normed.shape == own.shape
    np.testing.assert_allclose(inputs.normed[inputs.mask], own[inputs.mask], atol=1e-5, rtol=1e-5)
    for part in (inputs.token, inputs.type, inputs.position, inputs.sum, inputs.normed):
        assert part.dtype == np.float32
        assert not part[~inputs.mask].any()
    np.testing.assert_allclose(inputs.token + inputs.type + inputs.position, inputs.sum, atol=1e-6)


def test_masked_tokens_are_left_out_where_training_left_them_out(tmp_path: Path) -> None:
    sizes = {"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 1, "intermediate_size": 48}
    stated = {"vocab_size": 61, "max_position_embeddings": 42, "position_embedding_type": "rotary", "pad_token_id": 1}
    config = transformers.EsmConfig(**sizes, **stated, mask_token_id=17, token_dropout=True)
    model = transformers.EsmModel(config).eval()
    model.save_pretrained(tmp_path)
    inputs = hpe.extract(tmp_path).inputs(BATCH)
    fed = {"input_ids": torch.tensor(inputs.ids), "attention_mask": torch.tensor(inputs.mask).long()}
    own = first_layer_input(model, batch=True, **fed)
    np.testing.assert_allclose(inputs.normed[inputs.mask], own[inputs.mask], atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.integers(2, 60), min_size=1, max_size=18), min_size=1, max_size=5), st.data())
def test_the_rows_of_a_batch_are_the_single_texts(build: Build, texts: list[list[int]], data: st.DataObject) -> None:
    # MobileBERT's last piece sees what stands after it, padding too: there only a batch of equal lengths is the same.
    model_type = data.draw(st.sampled_from(sorted(BATCHED)))
    if model_type == "mobilebert":
        texts = [text[: min(map(len, texts))] for text in texts]
    if model_type not in FED:
        FED[model_type] = hpe.extract(batched(build, model_type))
    found = FED[model_type]
    together = found.inputs(texts)
    assert together.ids.shape == together.mask.shape == together.sum.shape[:2]
    for row, text in enumerate(texts):
        alone = found.inputs(text)
        assert alone.mask.all()
        (first,) = found.inputs([text]).normed
        np.testing.assert_array_equal(first, alone.normed)
        assert together.pieces[row] == alone.pieces
        for name in ("ids", "positions", "token", "type", "position", "sum", "normed"):
            np.testing.assert_allclose(getattr(together, name)[row, : len(text)], getattr(alone, name), atol=1e-5)


FED: dict[str, hpe.Embeddings] = {}


def test_texts_in_a_batch(minilm_folder: Path) -> None:
    texts = ["The king saw the queen.", "Unbelievably, it did."]
    found = hpe.extract(minilm_folder)
    inputs = found.inputs(texts)
    theirs = transformers.AutoTokenizer.from_pretrained(minilm_folder)(texts, padding=True, return_tensors="np")
    np.testing.assert_array_equal(inputs.ids, theirs["input_ids"])
    np.testing.assert_array_equal(inputs.mask, theirs["attention_mask"] == 1)
    assert inputs.pieces[0][:3] == ("[CLS]", "the", "king")
    length, width = inputs.ids.shape[1], found.token.shape[1]
    assert repr(inputs) == f"Inputs(2 texts; token, type, position, sum, normed [2, {length}, {width}])"
    one = repr(found.inputs("I am"))
    assert one == f"Inputs(4 pieces '[CLS] i am [SEP]'; token, type, position, sum, normed [4, {width}])"


def test_a_width_that_changes_is_said(build: Build) -> None:
    shown = repr(hpe.extract(build("albert")).inputs(np.array([[1, 2]])))
    assert shown == "Inputs(1 text; token, type, position, sum [1, 2, 8], normed [1, 2, 16])"


@pytest.mark.parametrize(
    ("stated", "filling"),
    [
        ({"pad_token_id": 9, "eos_token_id": 8}, 9),
        ({"pad_token_id": None, "eos_token_id": 8}, 8),
        ({"pad_token_id": -1, "eos_token_id": [7, 8]}, 7),
        ({"pad_token_id": 61, "eos_token_id": 8}, 8),
        ({"pad_token_id": None, "eos_token_id": []}, None),
        ({"pad_token_id": True, "eos_token_id": "2"}, None),
    ],
)
def test_what_a_batch_is_padded_with(build: Build, tmp_path: Path, stated: dict[str, object], filling: object) -> None:
    build("gpt2").save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | stated))
    found = hpe.extract(tmp_path)
    assert found.inputs([[1, 2], [3, 4]]).mask.all()
    if filling is None:
        with pytest.raises(InputError, match="texts of unequal lengths need padding"):
            found.inputs([[1, 2], [3]])
    else:
        assert found.inputs([[1, 2], [3]]).ids.tolist() == [[1, 2], [3, filling]]


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
