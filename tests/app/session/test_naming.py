"""Sources that are seen together never have the same name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hfposemb.app.session.source_names import choices, short_names

import hfposemb as hpe
from hfposemb.analysis.positions.encoding_properties import encoding_requirements, side_by_side
from hfposemb.reports.report_sections import names_of
from hfposemb.tables.source_names import WIDEST, names

RUN = "/runs/gpt2-small-trained-on-one-book"


@pytest.mark.parametrize(
    ("sources", "found"),
    [
        (["/data/bert"], ["bert"]),
        (["/data/bert/model.safetensors"], ["bert"]),
        (["/runs/a/model"], ["a/model"]),
        (["/runs/a/model", "/runs/b/model"], ["a/model", "b/model"]),
        (["/runs/a/final/model", "/runs/b/final/model"], ["a/…/model", "b/…/model"]),
        (["/data/bert", "/other/bert", "owner/bert"], ["data/bert", "other/bert", "owner/bert"]),
        (["/m/x.safetensors", "/m/y.safetensors"], ["x.safetensors", "y.safetensors"]),
        (["/a/adapter_model.safetensors", "/b/model-00001-of-00002.safetensors"], ["a", "b"]),
        (["/bert", "/x/bert"], ["/bert", "x/bert"]),
        (["/a/b", "/a/b"], ["b", "b"]),
        (["/", "sample:bert"], ["/", "sample:bert"]),
    ],
)
def test_folders_are_named_by_the_last_part_that_tells_them_apart(sources: list[str], found: list[str]) -> None:
    assert names(sources) == found


def test_long_names_keep_what_differs() -> None:
    pair = [f"{owner}/a-model-with-a-long-name" for owner in ("one-organisation", "another-organisation")]
    assert names(pair[:1], widest=24) == ["…-model-with-a-long-name"]
    assert len(set(names(pair, widest=24))) == 2


@pytest.mark.parametrize(
    ("sources", "found"),
    [
        (["sample:gpt2@step-500"], ["Demo GPT-2 step 500"]),
        (["sinusoidal:256x128", "random:8x8"], ["Sinusoid", "Untrained"]),
        (["/data/my-bert"], ["my-bert"]),
        (["/data/my-bert/model.safetensors", "a b c"], ["my-bert", "a b c"]),
        (["sample:bert", "google/bert"], ["Demo BERT", "bert"]),
        (["sample:minilm", "owner/all-MiniLM-L6-v2"], ["MiniLM", "all-MiniLM-L6-v2"]),
        (["one/gpt2", "two/gpt2", "gpt2"], ["one/gpt2", "two/gpt2", "gpt2"]),
        (["o/run@step1", "o/run@step2"], ["run@step1", "run@step2"]),
        (["random:8x4", "random:16x4"], ["Untrained 8 × 4", "Untrained 16 × 4"]),
        (["/runs/a/model", "/runs/b/model"], ["a/model", "b/model"]),
        (["~x/gpt2", "~y/gpt2"], ["~x/gpt2", "~y/gpt2"]),
        (["openai-community/gpt2", "sample:gpt2"], ["GPT-2", "Demo GPT-2"]),
        ([f"{RUN}-lr-1e-4-seed-{seed}" for seed in "12"], ["gpt2-…book-lr-1e-4-seed-1", "gpt2-…book-lr-1e-4-seed-2"]),
        (
            [f"/runs/{seed}-{RUN[6:]}/model" for seed in "12"],
            ["1-…trained-on-one-book/model", "2-…trained-on-one-book/model"],
        ),
        ([f"/runs/{'0f3a9c2e' * 4}{end}" for end in "ab"], [f"0f3a9c2e…{'0f3a9c2e' * 2}{end}" for end in "ab"]),
    ],
)
def test_sources_of_a_page_have_names_of_their_own(sources: list[str], found: list[str]) -> None:
    assert short_names(sources) == found


@pytest.mark.parametrize("cut", [slice(0, None), slice(0, 4), slice(4, None)])
def test_many_long_names_are_short_and_differ(cut: slice) -> None:
    texts = [f"{RUN}-{warm}-lr-{rate}e-4-seed-{seed}" for warm in ("warm", "cold") for rate in "13" for seed in "12"]
    found = short_names(texts[cut])
    assert len(set(found)) == len(found)
    assert all(len(name) <= WIDEST for name in found)


def test_a_source_is_called_the_same_in_bar_headline_and_report() -> None:
    texts = ["sample:gpt2", "openai-community/gpt2", *(f"{RUN}-seed-{seed}" for seed in "12"), "sinusoidal:8x4"]
    arrays = [hpe.from_arrays(position=np.eye(8), name=text) for text in texts]
    offered = {text: name for name, text in choices(texts, ["sinusoidal:9x4", "sample:bert", *texts])}
    assert [offered[text] for text in texts] == short_names(texts) == names_of(arrays)
    assert (offered["sinusoidal:9x4"], offered["sample:bert"]) == ("Sinusoid 9 × 4", "Demo BERT")


def test_columns_of_the_terminal_tell_folders_apart(tmp_path: Path) -> None:
    deep = "a-folder-whose-name-fills-a-column/model"
    table = np.random.default_rng(0).normal(size=(32, 8))
    made = [hpe.from_arrays(position=table, name=str(tmp_path / part / deep)) for part in "ab"]
    comparison = str(hpe.compare(*made, draws=0))
    assert comparison.splitlines()[0].split() == ["a/…/model", "b/…/model"]
    assert "a/…/model and b/…/model: 32 positions" in comparison
    assert side_by_side([encoding_requirements(one) for one in made]).split()[:2] == ["a/…/model", "b/…/model"]
