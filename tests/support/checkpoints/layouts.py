"""Folders that hold a model somewhere inside."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping

import numpy as np
import torch
from safetensors.numpy import save

ROWS = np.arange(88, dtype=np.float32).reshape(11, 8)


CONFIG = json.dumps({"model_type": "gpt2", "vocab_size": 11, "n_embd": 8, "n_positions": 11}).encode()


MODEL = {"config.json": CONFIG, "model.safetensors": save({"wte.weight": ROWS, "wpe.weight": ROWS[::-1].copy()})}


STATE = {"model.wte.weight": torch.tensor(ROWS), "model.wpe.weight": torch.tensor(ROWS[::-1].copy())}


EMBEDDING = {"word_embeddings": {"weight": STATE["model.wte.weight"]}} | {
    "position_embeddings": {"weight": STATE["model.wpe.weight"]}
}


MEGATRON = {"model": {"language_model": {"embedding": EMBEDDING}}, "iteration": 500}


def pickled(value: object) -> bytes:
    made = io.BytesIO()
    torch.save(value, made)
    return made.getvalue()


def placed(folder: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"{folder}/{name}": content for name, content in files.items()}


UNET = {"unet/config.json": b"{}", "unet/diffusion_pytorch_model.safetensors": save({"w": ROWS})}


PIPELINE = {"model_index.json": b"{}", **UNET, "sd_v1.safetensors": save({"w": ROWS})}


RANK = pickled({"model": {"a": torch.ones(3)}})


LAYOUTS: dict[str, tuple[dict[str, bytes], str, str]] = {
    "diffusers": (PIPELINE | placed("text_encoder", MODEL), "text encoder is in text_encoder;", "text_encoder"),
    "diffusers-xl": (
        PIPELINE | placed("text_encoder", MODEL) | placed("text_encoder_2", MODEL),
        "text encoders are in text_encoder and text_encoder_2;",
        "text_encoder",
    ),
    "diffusers-without-text": (PIPELINE, "without a text encoder", ""),
    "trainer": (
        placed("checkpoint-500", MODEL) | placed("checkpoint-1000", MODEL),
        "but in checkpoint-500, checkpoint-1000;",
        "checkpoint-1000",
    ),
    "lightning-logs": (
        placed("version_0/checkpoints", {"last.ckpt": pickled({"state_dict": STATE, "epoch": 1})}),
        "but in version_0/checkpoints;",
        "version_0/checkpoints",
    ),
    "megatron": (
        {"latest_checkpointed_iteration.txt": b"500", "iter_0000500/mp_rank_00/model_optim_rng.pt": pickled(MEGATRON)},
        "is a Megatron-LM checkpoint;",
        "iter_0000500/mp_rank_00/model_optim_rng.pt",
    ),
    "megatron-parts": (
        {f"release/mp_rank_0{rank}/model_optim_rng.pt": RANK for rank in range(4)},
        "Megatron-LM checkpoint in 4 parts, each with a slice of all tables; convert it",
        "",
    ),
    "deepspeed": (
        {"zero_to_fp32.py": b"", "global_step5/mp_rank_00_model_states.pt": RANK},
        r"DeepSpeed checkpoint; run 'python zero_to_fp32.py \. gathered'",
        "",
    ),
    "distributed": (
        {"pytorch_model_fsdp_0/__0_0.distcp": b"x", "pytorch_model_fsdp_0/.metadata": b"x", "config.json": b"{}"},
        "__0_0.distcp'; gather it with 'python -m torch.distributed.checkpoint.format_utils dcp_to_torch",
        "",
    ),
    "tensor-parallel": (
        {f"model-rank-{rank}-part-0.safetensors": save({"w": ROWS}) for rank in range(2)},
        "holds the files of 2 processes, .*, each of which may have a slice of the tables; save the model gathered",
        "",
    ),
    "tensor-parallel-pickled": (
        {f"mp_rank_0{rank}_model_states.pt": RANK for rank in range(2)},
        "holds the files of 2 processes",
        "",
    ),
    "adapters-by-rank": (
        {f"lora_rank_{rank}.safetensors": save({"w": ROWS}) for rank in (8, 16)},
        "name one file, such as",
        "",
    ),
    "one-shard-pickled": (
        {"pytorch_model-00001-of-00002.bin": pickled(STATE)},
        "holds shards, .*, but not their index; download 'pytorch_model.bin.index.json'",
        "",
    ),
    "one-shard-of-a-variant": (
        {"model.fp16-00001-of-00002.safetensors": save({"w": ROWS}), "config.json": b"{}"},
        "holds shards, .*, but not their index; download 'model.safetensors.index.fp16.json'",
        "",
    ),
    "tensorflow-1": ({"bert_model.ckpt.meta": b"x"}, "'bert_model.ckpt.meta'; read its arrays with tensorflow", ""),
    "exported": ({"model.jit": b"x"}, "only 'model.jit'; save it with torch.save.torch.jit.load", ""),
    "archive": ({"model.tar.gz": b"x"}, "only 'model.tar.gz'; unpack it and open what is in it", ""),
    "nothing": ({"README.md": b"x"}, "has no .safetensors file among 1 file; give the folder of a model", ""),
}
