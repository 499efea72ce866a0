"""Addresses, commands and lines of code that name a model are read as its name; nothing becomes a path."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

import hfposemb as hpe
from hfposemb.checkpoints.access import Visitor
from hfposemb.errors import SourceError
from hfposemb.tables.source_parser import parse_source
from hfposemb.tables.sources import LOCAL_PREFIXES, LocalSource, with_bases
from tests.hub import FakeHub
from tests.support.checkpoints.layouts import MODEL

PAGE = (Path(__file__).parents[2] / "docs" / "sources.md").read_text(encoding="utf-8")
READ = [
    (typed, name)
    for line in PAGE.partition("| typed or pasted |")[2].partition("\n\n")[0].splitlines()
    if (cells := re.findall(r"`([^`]+)`", line)) and line.startswith("|")
    for name in cells[-1:]
    for typed in cells[:-1]
]
REFUSED = {
    "owner/name:Q4_K_M": "write owner/name/FILE.gguf",
    "ollama run hf.co/owner/name:Q4_K_M": "write owner/name/FILE.gguf",
    "llama-cli -hf owner/name:Q8_0": "write owner/name/FILE.gguf",
    "https://huggingface.co/datasets/owner/name": "is a dataset; give a model",
    "hf://spaces/owner/name": "is a Space; give a model",
    "https://huggingface.co/papers/1706.03762": "is a paper; give a model",
    "https://example.com/owner/name": "is no address of the Hub",
    "https://owner\uff0fname/model": "is no address of the Hub",
    "https://[huggingface.co/owner/name": "unknown prefix",
    "https://huggingface.co": "names no model",
    "file:///etc/passwd": "write the path itself",
    "owner/name?base=https://huggingface.co/other/model": "unknown prefix 'https'",
    'owner/name?base="other/model"': "is not a source",
    "https://huggingface.co/../../etc/passwd": "names no model",
    "hf://../../etc": "names no model",
    "models--..--..": "names no model",
    "model.gguf": "write ./model.gguf here, or owner/name/model.gguf on the Hub",
    "embeddings.npy@main": "write ./embeddings.npy here",
}


@pytest.mark.parametrize(("typed", "name"), READ)
def test_what_names_a_model_elsewhere_is_read_as_its_name(typed: str, name: str) -> None:
    assert str(parse_source(f" {typed}\n")) == name
    assert str(parse_source(name)) == name


@pytest.mark.parametrize("typed", REFUSED)
def test_what_names_no_model_is_answered_with_what_to_write(typed: str) -> None:
    with pytest.raises(SourceError, match=re.escape(REFUSED[typed])):
        parse_source(typed)


PIECES = st.sampled_from(
    [*LOCAL_PREFIXES, *("hf.co", "https:", "/", "hf:", "models", "--", "snapshots", "?base=", "a", "b", "%2e%2e", "..")]
)
MARKS = st.sampled_from(["~", "file:", "git@", ":", "tree", "main", "@", '"', "from_pretrained(", ")", " ", "\u00a0"])


@example(". /")
@given(st.lists(PIECES | MARKS, min_size=1, max_size=9).map("".join))
def test_nothing_becomes_a_path_that_was_not_written_as_one(typed: str) -> None:
    try:
        found = parse_source(typed)
    except SourceError:
        return
    assert parse_source(str(found)) == found
    for source in with_bases(found):
        written = typed.strip().startswith(LOCAL_PREFIXES) or "base=" in typed
        assert written or not isinstance(source, LocalSource)


def test_a_folder_of_the_working_directory_is_named_for_this_machines_user_alone(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "outputs" / "checkpoint-500"
    folder.mkdir(parents=True)
    for name, content in MODEL.items():
        (folder / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SourceError, match=r"a folder of this name is here: write \./outputs/checkpoint-500$"):
        hpe.extract("outputs/checkpoint-500")
    with pytest.raises(SourceError, match=r"a folder of this name is here: write \./outputs/checkpoint-500$"):
        hpe.check("outputs/checkpoint-500")
    for token in (Visitor(), False):
        with pytest.raises(SourceError) as told:
            hpe.extract("outputs/checkpoint-500", token=token)
        assert "is here" not in str(told.value)


def test_vectors_are_taken_as_people_hold_them() -> None:
    made = torch.nn.Embedding(9, 4)
    rows = made.weight.detach().numpy()
    for held in (made, made.weight, made.weight.detach(), rows, rows.tolist()):
        assert np.array_equal(hpe.from_arrays(token=held).token.vectors, rows)
    for dtype in (torch.bfloat16, torch.float16, torch.float8_e4m3fn):
        assert np.array_equal(
            hpe.from_arrays(token=made.weight.to(dtype)).token.vectors, made.weight.to(dtype).float().detach()
        )
    for wrong in (torch.empty(3, 4, device="meta"), torch.eye(3).to_sparse(), "words", object(), np.zeros((2, 2, 2))):
        with pytest.raises(hpe.HfposembError):
            hpe.from_arrays(token=wrong)  # type: ignore[arg-type]
    for shape in ((1, 9, 4), (9, 1, 4)):
        assert np.array_equal(hpe.from_arrays(position=rows.reshape(shape)).position.table.vectors, rows)
    for labels in (3, range(9), [None] * 9):
        with pytest.raises(hpe.HfposembError, match=r"labels of from_arrays\(\) must be texts or None; got"):
            hpe.from_arrays(token=rows, labels=labels)  # type: ignore[arg-type]
    with pytest.raises(hpe.HfposembError, match="labels must be"):
        hpe.from_arrays(token=rows, labels={"a": 1})  # type: ignore[arg-type]
    with pytest.raises(SourceError, match=r"call from_arrays\(token="):
        hpe.extract(made.weight)  # type: ignore[arg-type]
    with pytest.raises(SourceError, match=r"call from_arrays\(token=state\['wte.weight'\]\)"):
        hpe.extract({"head.bias": rows[0], "wte.weight": rows})  # type: ignore[arg-type]
