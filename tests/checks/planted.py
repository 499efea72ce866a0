"""Sound checkpoints, and faults planted in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

Arrays = dict[str, NDArray[Any]]
WIDTH, TOKENS, LAYERS = 32, 96, 2
NAMES = ("<|begin|>", "<|end|>", "<|user|>", "<|assistant|>", "<|reserved_0|>", "<|reserved_1|>")
SPECIAL = {90 + place: name for place, name in enumerate(NAMES)}
TEMPLATE = "{% for message in messages %}<|user|>{{ message.content }}<|assistant|>{% endfor %}"
LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": TOKENS,
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 2,
    "max_position_embeddings": 512,
    "rope_theta": 10_000_000.0,
    "tie_word_embeddings": False,
    "bos_token_id": 90,
    "eos_token_id": 91,
    "dtype": "float32",
}


def rows(count: int, width: int = WIDTH, *, seed: int = 0) -> NDArray[np.float32]:
    """Return random rows."""
    return np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32)


def tokenizer(folder: Path, *, tokens: int = TOKENS) -> None:
    """Write the files of a tokenizer with some special tokens and a chat template."""
    vocabulary = {f"t{row}": row for row in range(min(tokens, 90))}
    added = [
        {"id": row, "content": token, "special": True, "single_word": False, "lstrip": False, "rstrip": False}
        | {"normalized": False}
        for row, token in SPECIAL.items()
        if row < tokens
    ]
    model = {"type": "BPE", "vocab": vocabulary, "merges": []}
    write(folder, "tokenizer.json", {"version": "1.0", "added_tokens": added, "model": model})
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "added_tokens_decoder": {str(row): {"content": token, "special": True} for row, token in SPECIAL.items()},
        "bos_token": "<|begin|>",
        "eos_token": "<|end|>",
        "model_max_length": 512,
        "chat_template": TEMPLATE,
    }
    write(folder, "tokenizer_config.json", settings)


def write(folder: Path, name: str, values: Mapping[str, Any]) -> None:
    """Write a JSON file."""
    (folder / name).write_text(json.dumps(values), encoding="utf-8")


def llama(folder: Path) -> Path:
    """Write a sound checkpoint of Llama's kind, with tokenizer."""
    tensors: Arrays = {"model.embed_tokens.weight": rows(TOKENS), "lm_head.weight": rows(TOKENS, seed=1)}
    for layer in range(LAYERS):
        tensors[f"model.layers.{layer}.self_attn.q_proj.weight"] = rows(WIDTH, seed=2 + layer)
    save_file(tensors, folder / "model.safetensors")
    write(folder, "config.json", LLAMA)
    tokenizer(folder)
    return folder


def bert(folder: Path) -> Path:
    """Write a sound checkpoint of BERT's kind, with a table of positions and a vocab.txt."""
    tensors: Arrays = {
        "embeddings.word_embeddings.weight": rows(TOKENS),
        "embeddings.position_embeddings.weight": rows(64, seed=1),
        "embeddings.token_type_embeddings.weight": rows(2, seed=2),
    }
    tensors |= {f"encoder.layer.{layer}.output.dense.weight": rows(WIDTH, seed=3) for layer in range(LAYERS)}
    save_file(tensors, folder / "model.safetensors")
    config = {"model_type": "bert", "vocab_size": TOKENS, "hidden_size": WIDTH, "num_hidden_layers": LAYERS}
    config |= {"max_position_embeddings": 64, "pad_token_id": 0, "num_attention_heads": 2}
    write(folder, "config.json", config | {"architectures": ["BertModel"]})
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"t{row}" for row in range(5, TOKENS))]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    settings = {"tokenizer_class": "BertTokenizer", "cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]"}
    write(folder, "tokenizer_config.json", settings | {"model_max_length": 64})
    return folder


def t5(folder: Path) -> Path:
    """Write a sound checkpoint of T5's kind with an untied head, as MADLAD has it."""
    shared = rows(TOKENS)
    tensors: Arrays = {"shared.weight": shared, "lm_head.weight": 100 * rows(TOKENS, seed=1)}
    tensors["encoder.embed_tokens.weight"] = shared.copy()
    tensors["decoder.embed_tokens.weight"] = shared.copy()
    for stack in ("encoder", "decoder"):
        tensors[f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"] = rows(32, 2, seed=3)
    save_file(tensors, folder / "model.safetensors")
    config = {"model_type": "t5", "vocab_size": TOKENS, "d_model": WIDTH, "num_layers": LAYERS, "num_heads": 2}
    config |= {"tie_word_embeddings": False, "architectures": ["T5ForConditionalGeneration"], "pad_token_id": 0}
    write(folder, "config.json", config)
    return folder


def change(folder: Path, name: str = "config.json", **values: Any) -> None:
    """Change fields of a JSON file; None removes one."""
    stated = json.loads((folder / name).read_text(encoding="utf-8")) | values
    write(folder, name, {field: value for field, value in stated.items() if value is not None})


def edit(folder: Path, change: Callable[[Arrays], None]) -> None:
    """Change tensors of a checkpoint."""
    tensors = {name: array.copy() for name, array in load_file(folder / "model.safetensors").items()}
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


Plant = Callable[[Path], object]


def shards(folder: Path, *, drop: bool = False, misplace: bool = False) -> None:
    """Split a checkpoint into two files with an index."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    files = {name: f"model-0000{1 + (place >= 2)}-of-00002.safetensors" for place, name in enumerate(names)}
    for file in set(files.values()):
        save_file({name: tensors[name] for name in names if files[name] == file}, folder / file)
    if misplace:
        files[names[-1]] = files[names[0]]
    write(folder, "model.safetensors.index.json", {"metadata": {}, "weight_map": files})
    if drop:
        (folder / files[names[-1]]).unlink()


def set_rows(name: str, chosen: object, value: object) -> Plant:
    def plant(folder: Path) -> None:
        def put(tensors: Arrays) -> None:
            tensors[name][chosen] = value  # type: ignore[index]

        edit(folder, put)

    return plant


EMBED, PLACES = "model.embed_tokens.weight", "embeddings.position_embeddings.weight"
