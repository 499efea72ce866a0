"""The trained samples are whole checkpoints, small, trained for real, and described by figures that are true."""

import json
import re

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file

from hfposemb.analysis import geometry
from hfposemb.errors import SourceError
from hfposemb.samples import TRAINED, folder
from hfposemb.tables.embeddings import from_arrays

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

TABLES = {"bert": "bert.embeddings.position_embeddings.weight", "gpt2": "transformer.wpe.weight"}
LARGEST = 4_000_000
UNSEEN = (
    "And God shall wipe away all tears from their eyes; and there shall be no more death, neither sorrow, nor crying, "
    "neither shall there be any more pain: for the former things are passed away."
)
"""Revelation 21:4, from the chapters that train.py holds out."""


def translation_invariance(table: NDArray[np.float64]) -> float:
    return geometry.translation_invariance(from_arrays(position=table).position)


def adjacent_cosine(table: NDArray[np.float64]) -> float:
    return float(geometry.similarity_by_distance(from_arrays(position=table).position, longest=1)[1])


def moments(name: str) -> dict[int, NDArray[np.float64]]:
    tables = load_file(folder(name) / "positions.safetensors")
    steps = {int(key.removeprefix("step-")): table.astype(np.float64) for key, table in tables.items()}
    return dict(sorted(steps.items()))


def readme_rows(heading: str) -> list[list[str]]:
    """The cells of the first table under a heading of the samples' README, without its two head lines."""
    text = (folder("bert").parent / "README.md").read_text(encoding="utf-8")
    section = text.split(f"\n{heading}\n", 1)[1]
    table = re.search(r"(?:^\|.*\|\n)+", section, re.MULTILINE)
    assert table, heading
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[0].splitlines()[2:]]


@pytest.fixture(scope="module", params=TRAINED)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def model(name: str) -> torch.nn.Module:
    kind = {"bert": transformers.AutoModelForMaskedLM, "gpt2": transformers.AutoModelForCausalLM}[name]
    model, report = kind.from_pretrained(folder(name), output_loading_info=True)
    assert not any(report[problem] for problem in ("missing_keys", "unexpected_keys", "mismatched_keys")), report
    return model.eval()


def test_an_unknown_sample_is_refused() -> None:
    with pytest.raises(SourceError, match="the samples are bert, gpt2 and minilm"):
        folder("elmo")


def test_a_sample_is_small(name: str) -> None:
    assert sum(file.stat().st_size for file in folder(name).rglob("*") if file.is_file()) <= LARGEST


def test_a_checkpoint_loads_whole_in_half_precision(name: str, model: torch.nn.Module) -> None:
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float16}
    assert {tensor.dtype for tensor in load_file(folder(name) / "model.safetensors").values()} == {np.dtype("float16")}
    assert model.get_parameter(TABLES[name]).shape[0] >= 256
    assert model.get_input_embeddings().weight is model.get_output_embeddings().weight


def test_the_base_model_loads_too(name: str) -> None:
    base = transformers.AutoModel.from_pretrained(folder(name))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder(name))
    ids = tokenizer("In the beginning", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        assert torch.isfinite(base(ids).last_hidden_state).all()


def test_the_tokenizers_of_both_libraries_agree(name: str) -> None:
    from tokenizers import Tokenizer

    fast = Tokenizer.from_file(str(folder(name) / "tokenizer.json"))
    whole = transformers.AutoTokenizer.from_pretrained(folder(name))
    assert fast.encode(UNSEEN).ids == whole(UNSEEN)["input_ids"]
    assert fast.get_vocab_size() == len(whole) == 4000


def test_the_plain_vocabulary_files_agree_with_the_tokenizer(name: str) -> None:
    from tokenizers import Tokenizer

    vocabulary = Tokenizer.from_file(str(folder(name) / "tokenizer.json")).get_vocab()
    if name == "bert":
        lines = (folder(name) / "vocab.txt").read_text(encoding="utf-8").splitlines()
        assert {token: row for row, token in enumerate(lines)} == vocabulary
    else:
        assert json.loads((folder(name) / "vocab.json").read_text(encoding="utf-8")) == vocabulary


def test_the_last_moment_is_the_model(name: str) -> None:
    tables = load_file(folder(name) / "positions.safetensors")
    final = load_file(folder(name) / "model.safetensors")[TABLES[name]]
    last = max(tables, key=lambda key: int(key.removeprefix("step-")))
    assert len(tables) >= 12
    assert {table.dtype for table in tables.values()} == {np.dtype("float16")}
    assert tables[last].tobytes() == final.tobytes()


def test_the_readme_tells_the_measured_geometry(name: str) -> None:
    rows = readme_rows(f"### The positions of {name} as they form")
    steps = moments(name)
    assert [int(row[0]) for row in rows] == list(steps)
    for row, table in zip(rows, steps.values(), strict=True):
        assert row[1:] == [f"{translation_invariance(table):.3f}", f"{adjacent_cosine(table):.3f}"]
