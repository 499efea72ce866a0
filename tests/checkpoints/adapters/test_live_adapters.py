"""A live model with adapters is extracted as it looks rows up, under the names that it has without them."""

from __future__ import annotations

import numpy as np
import peft
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

import hfposemb as hpe

SIZES = {"vocab_size": 40, "n_embd": 8, "n_positions": 16, "n_layer": 1, "n_head": 2, "bos_token_id": 1}
ADAPTERS = {
    "LoRA on words": peft.LoraConfig(target_modules=["wte"], r=2),
    "LoRA on all tables": peft.LoraConfig(target_modules=["wte", "wpe", "lm_head"], r=2),
    "DoRA on words": peft.LoraConfig(target_modules=["wte"], r=2, use_dora=True),
    "LoRA on layers only": peft.LoraConfig(target_modules=["c_attn"], r=2),
    "words saved whole": peft.LoraConfig(target_modules=["c_attn"], modules_to_save=["wte"], r=2),
    "head saved whole": peft.LoraConfig(target_modules=["c_attn"], modules_to_save=["lm_head"], r=2),
    "trained tokens": peft.TrainableTokensConfig(token_indices=[1, 2], target_modules=["wte"]),
    "trained tokens beside LoRA": peft.LoraConfig(target_modules=["c_attn"], trainable_token_indices=[1, 2], r=2),
}


@pytest.mark.parametrize("kind", ADAPTERS)
def test_rows_are_those_that_the_adapted_model_looks_up(kind: str) -> None:
    torch.manual_seed(0)
    base = GPT2LMHeadModel(GPT2Config(**SIZES, eos_token_id=1))
    plain = base.transformer.wte.weight.detach().numpy().copy()
    model = peft.get_peft_model(base, ADAPTERS[kind])
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.normal_()
    found = hpe.extract(model)
    hidden = torch.randn(3, 8)
    with torch.no_grad():
        words = model.get_input_embeddings()(torch.arange(40)).numpy()
        positions, logits = base.transformer.wpe(torch.arange(16)).numpy(), base.lm_head(hidden).numpy()
    assert found.token.provenance.tensor == "transformer.wte.weight"
    assert np.allclose(found.token.vectors, words, atol=1e-5)
    assert np.allclose(found.token.rows(3, 5), words[3:5], atol=1e-5)
    assert np.allclose(found.position.table.vectors, positions, atol=1e-5)
    assert np.allclose(hidden.numpy() @ found.head.vectors.T, logits, atol=1e-4)
    assert np.allclose(words, plain) == (kind in ("LoRA on layers only", "head saved whole"))


def test_rows_are_those_that_a_parametrized_or_shortened_table_gives() -> None:
    """A weight that torch computes, and an embedding that shortens rows as it looks them up; neither is changed."""
    base = GPT2LMHeadModel(GPT2Config(**SIZES, eos_token_id=1))
    torch.nn.utils.parametrizations.weight_norm(base.transformer.wte)
    base.transformer.wpe.max_norm = 0.05
    with torch.no_grad():
        base.transformer.wte.parametrizations.weight.original0.mul_(3)
    stored = base.transformer.wpe.weight.detach().clone()
    found = hpe.extract(base)
    assert found.token.provenance.tensor == "transformer.wte.weight"
    assert np.allclose(found.token.vectors, base.transformer.wte.weight.detach())
    assert not found.head.tied, "the head holds what the weight is computed from"
    positions = found.position.table.vectors
    assert torch.equal(stored, base.transformer.wpe.weight)
    assert np.allclose(positions, base.transformer.wpe(torch.arange(16)).detach(), atol=1e-6)
    layer = torch.nn.Embedding(9, 4, max_norm=0.5)
    assert np.allclose(hpe.from_arrays(token=layer).token.vectors, layer(torch.arange(9)).detach(), atol=1e-6)
