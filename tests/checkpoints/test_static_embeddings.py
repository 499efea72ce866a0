"""Static embeddings, equal to the definition of model2vec and to the module of sentence-transformers."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, pre_tokenizers

import hfposemb as hpe
from hfposemb.errors import CheckpointError
from tests.conftest import FULL
from tests.hub import FakeHub

WORDS = [f"w{row}" for row in range(30)]
DRAW = np.random.default_rng(0)
TABLE = DRAW.standard_normal((30, 8), np.float32)
CLUSTERS = DRAW.standard_normal((5, 8), np.float32)
MAPPING = DRAW.integers(5, size=30)
WEIGHTS = DRAW.random(30).astype(np.float32)


def tokenizer() -> Tokenizer:
    made = Tokenizer(models.WordLevel({word: row for row, word in enumerate(WORDS)}, unk_token="w0"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return made


def saved(folder: Path, **tensors: np.ndarray) -> Path:
    """Write a folder as model2vec does."""
    save_file(tensors, folder / "model.safetensors")
    tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps({"model_type": "model2vec", "architectures": ["StaticModel"]}))
    return folder


CASES = {
    "plain": {"embeddings": TABLE},
    "half": {"embeddings": TABLE.astype(np.float16)},
    "double": {"embeddings": TABLE.astype(np.float64), "weights": WEIGHTS.astype(np.float64)},
    "weights": {"embeddings": TABLE, "weights": WEIGHTS},
    "mapping": {"embeddings": CLUSTERS, "mapping": MAPPING},
    "both": {"embeddings": CLUSTERS, "mapping": MAPPING.astype(np.int32), "weights": WEIGHTS},
    "integers": {"embeddings": (40 * CLUSTERS).astype(np.int8), "mapping": MAPPING, "weights": WEIGHTS},
}


@pytest.mark.parametrize("case", CASES)
def test_rows_are_those_of_the_definition(hub: FakeHub, tmp_path: Path, case: str) -> None:
    tensors = CASES[case]
    wanted = tensors["embeddings"][tensors.get("mapping", np.arange(30))].astype(
        np.float64 if case == "double" else np.float32
    )
    wanted = wanted * tensors.get("weights", np.ones(30, wanted.dtype))[:, None]
    folder = saved(tmp_path, **tensors)
    hub.add(f"me/{case}", {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file()})
    for source in (folder, f"me/{case}"):
        table = hpe.extract(source).token
        np.testing.assert_array_equal(table.vectors, wanted)
        assert table.vectors.dtype == wanted.dtype
        np.testing.assert_array_equal(hpe.extract(source).token.rows(4, 9), wanted[4:9])
        assert table.labels.texts == tuple(WORDS)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(hpe.extract(source).token)).vectors, wanted)


@pytest.mark.parametrize(
    ("tensors", "reason"),
    [
        ({"embeddings": CLUSTERS, "mapping": MAPPING + 1}, "mapping must name rows 0 to 4; found 1 to 5"),
        ({"embeddings": CLUSTERS, "mapping": MAPPING - 1}, "mapping must name rows 0 to 4; found -1 to 3"),
        ({"embeddings": TABLE, "weights": WEIGHTS[:29]}, "must have a weight for each of the 30 tokens; found 29"),
        ({"embeddings": TABLE, "weights": WEIGHTS[None]}, r"weights must have one axis; found the shape \[1, 30\]"),
        ({"embeddings": TABLE[0]}, r"'embeddings' must have the axes \[rows, width\]; found \[8\]"),
    ],
    ids=["past", "negative", "few", "axes", "flat"],
)
def test_tensors_that_do_not_fit(tmp_path: Path, tensors: dict[str, np.ndarray], reason: str) -> None:
    folder = saved(tmp_path, **tensors)
    with pytest.raises(CheckpointError, match=reason):
        hpe.extract(folder).token.vectors  # noqa: B018


@pytest.mark.skipif(not FULL, reason="make test-full imports sentence-transformers")
def test_the_module_of_sentence_transformers(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    module = StaticEmbedding(tokenizer(), embedding_weights=TABLE)
    SentenceTransformer(modules=[module], device="cpu").save(str(tmp_path / "saved"))
    table = hpe.extract(tmp_path / "saved").token
    np.testing.assert_array_equal(table.vectors, TABLE)
    assert table.labels.texts == tuple(WORDS)


@pytest.mark.parametrize("file", ["whitespacetokenizer_config.json", "phrasetokenizer_config.json"])
def test_word_vectors_as_sentence_transformers_saves_them(hub: FakeHub, tmp_path: Path, file: str) -> None:
    """As average_word_embeddings_glove.6B.300d: the table and its words are in the folder of the first module."""
    module = tmp_path / "0_WordEmbeddings"
    module.mkdir()
    save_file({"emb_layer.weight": TABLE}, module / "model.safetensors")
    (module / file).write_text(json.dumps({"vocab": WORDS, "stop_words": ["w3"], "do_lower_case": False}))
    (module / "wordembedding_config.json").write_text(json.dumps({"max_seq_length": 1_000_000}))
    listed = [{"idx": 0, "name": "0", "path": module.name, "type": "sentence_transformers.models.WordEmbeddings"}]
    (tmp_path / "modules.json").write_text(json.dumps(listed))
    (tmp_path / "config_sentence_transformers.json").write_text("{}")
    files = [one for one in tmp_path.rglob("*") if one.is_file()]
    hub.add("me/glove", {one.relative_to(tmp_path).as_posix(): one.read_bytes() for one in files})
    for source in (tmp_path, "me/glove"):
        table = hpe.extract(source).token
        np.testing.assert_array_equal(table.vectors, TABLE)
        assert table.labels.texts == tuple(WORDS)
