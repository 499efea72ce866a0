"""Adapters that PEFT writes, with their base model and what it merges."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import peft


def model(kind: str, **changes: int) -> Any:
    import transformers

    small = {"vocab_size": 60, "bos_token_id": 1, "eos_token_id": 2}
    if "GPT-2" in kind:
        config = transformers.GPT2Config(n_embd=16, n_layer=1, n_head=2, n_positions=32, **small)
        return transformers.GPT2LMHeadModel(config)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    if "images" in kind:
        vision = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
        vision |= {"image_size": 8, "patch_size": 4}
        text = transformers.Gemma3TextConfig(**sizes, head_dim=8, num_key_value_heads=2, **small)
        whole = transformers.Gemma3Config(
            text_config=text, vision_config=vision, mm_tokens_per_image=4, tie_word_embeddings=False
        )
        return transformers.Gemma3ForConditionalGeneration(whole)
    llama = transformers.LlamaConfig(**(sizes | small | changes), tie_word_embeddings="tied" in kind)
    return transformers.LlamaForCausalLM(llama)


def write(folder: Path, kind: str, adapter: Any, **changes: int) -> None:
    """Write a base model, an adapter with random numbers, and the model that PEFT merges; ``changes`` are sizes."""
    import torch

    torch.manual_seed(0)
    base = model(kind, **changes)
    base.save_pretrained(folder / "base")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = peft.get_peft_model(base, adapter)
        for name, parameter in made.named_parameters():
            if parameter.requires_grad:
                parameter.data = torch.randn_like(parameter) * 0.3 + ("magnitude" in name)
        made.save_pretrained(folder / "adapter")
        made.merge_and_unload().save_pretrained(folder / "merged")
