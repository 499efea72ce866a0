"""Formats whose token table is stored as numbers: safetensors, pickles, and the layouts of other libraries."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import save_file

from tests.formats.formats import AGREED, LEADING, ROWS, WHOLE, Format, Made, random_rows, write

TABLE = random_rows()
GPT2 = {"model_type": "gpt2", "vocab_size": ROWS, "n_embd": 128, "n_positions": 16}
Maker = Callable[[Path], Made]


def numpy_archive(root: Path) -> Made:
    """Write an archive of arrays, as ``numpy.savez`` does."""
    np.savez(root / "table.npz", weights=TABLE)
    return Made(TABLE, inside="table.npz")


def tensors(
    names: Mapping[str, NDArray[Any]],
    *,
    folder: str = "",
    file: str = "model.safetensors",
    expected: NDArray[np.float32] = TABLE,
    inside: str = "",
    **files: object,
) -> Maker:
    """Return a maker of a safetensors file with JSON files beside it."""

    def make(root: Path) -> Made:
        (root / folder).mkdir(parents=True, exist_ok=True)
        save_file(dict(names), root / folder / file)
        write(root / folder, {f"{name}.json": json.dumps(value) for name, value in files.items()})
        return Made(expected, inside)

    return make


def pickled(content: Mapping[str, Any], *, file: str = "checkpoint.pt", inside: str = "", **files: object) -> Maker:
    """Return a maker of a file of ``torch.save``; arrays become tensors."""

    def filled(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: filled(one) for name, one in value.items()}
        return torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value

    def make(root: Path) -> Made:
        path = root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(filled(content), path)
        write(root, {f"{name}.json": json.dumps(value) for name, value in files.items()})
        return Made(TABLE, inside)

    return make


def sharded(root: Path) -> Made:
    """Write two shards and their index."""
    half = ROWS // 2
    parts = {"model-00001-of-00002.safetensors": "wte.weight", "model-00002-of-00002.safetensors": "wpe.weight"}
    for (file, name), rows in zip(parts.items(), (TABLE, TABLE[:half]), strict=True):
        save_file({name: rows}, root / file)
    index = {"metadata": {}, "weight_map": {name: file for file, name in parts.items()}}
    write(root, {"model.safetensors.index.json": json.dumps(index), "config.json": json.dumps(GPT2)})
    return Made(TABLE)


def pickle_format(name: str, source: str, read: str, make: Maker) -> Format:
    """Return a row for files that are read whole."""
    return Format(name, source, read, make, hub=AGREED, rows=WHOLE)


WORDS = {"unk_token": "w0", "type": "WordLevel", "vocab": {f"w{row}": row for row in range(ROWS)}}
MODULES = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}]
STATIC = [{**MODULES[0], "path": "0_StaticEmbedding", "type": "sentence_transformers.models.StaticEmbedding"}]
PLACES = random_rows(48, 128, seed=1)
EMBEDDING = {"word_embeddings": {"weight": TABLE}, "position_embeddings": {"weight": PLACES}}
CLUSTERS = random_rows(3000, 128, seed=2)
MAPPING = np.random.default_rng(3).integers(3000, size=ROWS)
WEIGHTS = np.random.default_rng(4).random(ROWS).astype(np.float32)
PARAMS = {"dim": 128, "n_layers": 1, "n_heads": 2, "vocab_size": -1, "norm_eps": 1e-5}


def static(root: Path) -> Made:
    """Write a folder of sentence-transformers with a static embedding."""
    tensors({"embedding.weight": TABLE}, folder="0_StaticEmbedding")(root)
    write(root, {"modules.json": json.dumps(STATIC), "0_StaticEmbedding/tokenizer.json": json.dumps({"model": WORDS})})
    return Made(TABLE)


def sentences(root: Path) -> Made:
    """Write a folder of sentence-transformers with a BERT."""
    config = {"model_type": "bert", "vocab_size": ROWS, "hidden_size": 128}
    tensors({"embeddings.word_embeddings.weight": TABLE}, config=config)(root)
    write(root, {"modules.json": json.dumps(MODULES)})
    return Made(TABLE)


def pipeline(root: Path) -> Made:
    """Write a diffusers pipeline with a CLIP text encoder."""
    config = {"model_type": "clip_text_model", "vocab_size": ROWS, "hidden_size": 128}
    name = "text_model.embeddings.token_embedding.weight"
    tensors({name: TABLE}, folder="text_encoder", config=config)(root)
    write(root, {"model_index.json": "{}"})
    return Made(TABLE, "text_encoder")


CLIP = {"model_cfg": {"text_cfg": {"context_length": 48}}}
GRID, PATCHES = random_rows(1, 64 * 64 + 1, 128), random_rows(128, 3, 4, 4)
TIMM = {"architecture": "vit_tiny_patch4_16", "pretrained_cfg": {"input_size": [3, 256, 256]}}
STATE = {"transformer.wte.weight": TABLE, "transformer.wpe.weight": PLACES}
NANO = {"model": {f"_orig_mod.{name}": rows for name, rows in STATE.items()}, "model_args": {"n_layer": 2}}
WHISPER = {
    "dims": {"n_text_ctx": 48},
    "model_state_dict": {"decoder.token_embedding.weight": TABLE, "decoder.positional_embedding": PLACES},
}
LEARNED = "as stored; each token's vectors are rows"

PLAIN = (
    Format(
        "safetensors",
        "`owner/name`, `./folder`, `./model.safetensors`",
        "as stored, from the names or the family of the model; any other tensor by `?token=TENSOR&position=TENSOR`",
        tensors(STATE, config=GPT2),
    ),
    Format("safetensors, sharded", "`owner/name`, `./folder`", "as stored, through the index", sharded),
    pickle_format(
        "pickles: `.bin`, `.pt`, `.pth`",
        "`owner/name`, `./folder`, `./model.pt`",
        "as stored, by a child process that runs nothing; state dicts inside others too",
        pickled(STATE, file="pytorch_model.bin", config=GPT2),
    ),
    pickle_format(
        "Lightning `.ckpt`",
        "`./epoch=1.ckpt`",
        "the state dict as stored",
        pickled({"state_dict": {f"model.{key}": rows for key, rows in STATE.items()}, "epoch": 1}, file="last.ckpt"),
    ),
    Format(
        "a named table",
        "`owner/name?token=TENSOR`",
        "any tensor of two axes, or of three with one in front",
        lambda root: Made(tensors({"odd.name": TABLE})(root).expected, query="?token=odd.name"),
    ),
    Format("diffusers", "`owner/name/text_encoder`", "the text encoder of a folder, with its tokenizer", pipeline),
    Format("sentence-transformers", "`owner/name`, `./folder`", "the folder of the transformer", sentences),
    Format(
        "StaticEmbedding",
        "`owner/name`, `./folder`",
        "`embedding.weight` as stored, and `emb_layer.weight` of GloVe and the like",
        static,
    ),
    Format(
        "model2vec",
        "`owner/name`, `./folder`",
        "`embeddings`, chosen by `mapping` and multiplied by `weights` where they are stored",
        tensors(
            {"embeddings": CLUSTERS, "mapping": MAPPING, "weights": WEIGHTS},
            expected=CLUSTERS[MAPPING] * WEIGHTS[:, None],
            config={"model_type": "model2vec", "architectures": ["StaticModel"]},
            tokenizer={"model": WORDS},
        ),
    ),
    Format(
        "textual inversion",
        "`./learned_embeds.safetensors`",
        f"{LEARNED}; `?token=clip_g` for the second encoder",
        tensors({"<cat>": TABLE}, file="learned_embeds.safetensors"),
    ),
    pickle_format(
        "textual inversion, `.pt`",
        "`./token.pt`",
        LEARNED,
        pickled({"string_to_param": {"*": TABLE}, "string_to_token": {"*": 265}}, file="cat.pt"),
    ),
    Format(
        "NumPy: `.npy`, `.npz`",
        "`./table.npy`, `owner/name/table.npz`",
        "floating-point arrays of two axes, as stored; labels and provenance that `table.save` wrote into `.npz`",
        numpy_archive,
    ),
    Format(
        "timm",
        "`owner/name`, `./folder`",
        "`pos_embed` with its grid, class and distillation rows",
        tensors(
            {"pos_embed": GRID, "cls_token": GRID[:, :1].copy(), "patch_embed.proj.weight": PATCHES},
            config=TIMM,
            expected=GRID[0],
        ),
        rows=LEADING,
    ),
    Format(
        "open_clip",
        "`owner/name`, `./folder`",
        "token and text positions as stored; image positions with their grid",
        tensors({"token_embedding.weight": TABLE, "positional_embedding": PLACES}, open_clip_config=CLIP),
    ),
    pickle_format(
        "RWKV",
        "`./RWKV.pth`",
        "`emb.weight` as stored",
        pickled({"emb.weight": TABLE, "blocks.0.att.key.weight": PLACES, "head.weight": TABLE}, file="RWKV.pth"),
    ),
    Format(
        "Evo",
        "`owner/name`",
        "`embedding_layer.weight` as stored",
        tensors({"backbone.embedding_layer.weight": TABLE}, config={"model_type": "stripedhyena", "vocab_size": ROWS}),
    ),
    pickle_format(
        "nanoGPT", "`./ckpt.pt`", "as stored, with or without the prefix `_orig_mod.`", pickled(NANO, file="ckpt.pt")
    ),
    Format(
        "Meta and Mistral originals",
        "`./folder` with `params.json`",
        "`tok_embeddings.weight` as stored; rotary positions from `params.json`",
        tensors({"tok_embeddings.weight": TABLE, "norm.weight": TABLE[0]}, params=PARAMS),
    ),
    pickle_format(
        "Whisper, original", "`./tiny.pt`", "token and position tables of the decoder", pickled(WHISPER, file="tiny.pt")
    ),
    pickle_format(
        "Megatron-LM, one rank",
        "`./iter_0000500/mp_rank_00/model_optim_rng.pt`",
        "as stored",
        pickled(
            {"model": {"language_model": {"embedding": EMBEDDING}}, "iteration": 500},
            file="mp_rank_00/model_optim_rng.pt",
            inside="mp_rank_00/model_optim_rng.pt",
        ),
    ),
)
"""Rows of the table."""
