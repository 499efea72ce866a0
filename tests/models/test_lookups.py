"""Tables beside the word table: which rows a text looks up, as transformers and the published code do."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray

import hfposemb as hpe

TEXTS = 10_000 if os.environ.get("HFPOSEMB_FULL") else 1000
QWEN4 = {
    **{"vocab_size": 99, "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "head_dim": 16},
    **{"num_key_value_heads": 2, "linear_key_head_dim": 16, "linear_value_head_dim": 16, "linear_num_key_heads": 4},
    **{"linear_num_value_heads": 4, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16},
    **{"num_experts": 4, "num_experts_per_tok": 2, "hc_lowrank": 8, "layer_types": ["linear_attention"] * 4},
    **{"ple_layer_ids": [1, 3], "ngram_vocab_size_base": 500, "heads_per_ngram": 4, "ngram_size": 3},
    **{"split_ngram_parts": 5, "eos_token_id": [7, 8]},
}
GEMMA = {
    **{"vocab_size": 99, "vocab_size_per_layer_input": 90, "hidden_size": 32, "num_hidden_layers": 3},
    **{"hidden_size_per_layer_input": 8, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8},
    **{"intermediate_size": 16, "num_kv_shared_layers": 0, "laurel_rank": 4, "pad_token_id": 3},
}


def texts(vocabulary: int, *marked: int, low: int = 0) -> Iterator[NDArray[np.int64]]:
    """Yield random texts, some of whose ids are ``marked``."""
    random = np.random.default_rng(0)
    for _ in range(TEXTS):
        ids = random.integers(low, vocabulary, random.integers(1, 40))
        if marked:
            ids[random.random(len(ids)) < 0.15] = random.choice(marked)
        yield ids


def hashed(module: Any, table: Any) -> Callable[[NDArray[np.int64]], NDArray[np.int64]]:
    """Return which rows of a table a module of torch looks up."""
    seen: list[torch.Tensor] = []
    table.register_forward_pre_hook(lambda _, given: seen.append(given[0].clone()))

    def rows(ids: NDArray[np.int64]) -> NDArray[np.int64]:
        seen.clear()
        with torch.no_grad():
            module(torch.tensor(ids)[None])
        return np.concatenate([one[0].reshape(len(ids), -1).numpy() for one in seen], axis=1)

    return rows


def test_qwen4_looks_up_the_rows_of_transformers(tmp_path: Path) -> None:
    config = transformers.Qwen4ExpTextConfig(**QWEN4)
    model = transformers.Qwen4ExpForCausalLM(config).eval()
    model.save_pretrained(tmp_path)
    opened = hpe.extract(tmp_path)
    assert list(opened.lookups) == ["ngram", "layer2.ngram"]
    for key, layer in (("ngram", 0), ("layer2.ngram", 2)):
        module = model.model.layers[layer].ple.ple_embedding
        table = opened.lookups[key]
        assert np.array_equal(table, module.ngram_embedding.weight.detach()), "five parts, joined"
        theirs = hashed(lambda ids, module=module: module(ids, None), module.ngram_embedding)
        assert all(np.array_equal(table.looked_up(ids), theirs(ids)) for ids in texts(99, 7, 8))
        assert np.array_equal(pickle.loads(pickle.dumps(table)).looked_up([1, 2, 7, 3]), table.looked_up([1, 2, 7, 3]))
