"""Checkpoints of the sizes of GPT-2, Llama 3.2, Gemma 3 and Whisper, made here: real shapes and layouts, made values.

The values have structure to show: words that are spelt alike lie together, classes form islands, norms go with how
rare a word is, all share a mean direction, and positions run along a slow helix. They are no language model.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from . import vocabularies

VERSION = 2
"""Counts up when what is made changes, so that nothing older is taken from a cache."""

CHUNK = 16_384
RANK = 192
BUCKETS = 2**14

Floats = NDArray[np.float32]
Blocks = Iterator[Floats]


@dataclass(frozen=True)
class Stored:
    """One tensor of a file: its shape, and its values in blocks of rows; without them it is a hole of zeros."""

    shape: tuple[int, ...]
    blocks: Callable[[], Blocks] | None = None


@dataclass(frozen=True)
class Recipe:
    """What a checkpoint consists of."""

    config: Mapping[str, object]
    dtype: str
    tokenizer: Callable[[], Tokenizer]
    tensors: Callable[[Sequence[str]], Mapping[str, Stored]]
    files: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


def cache_folder() -> Path:
    """Return where the checkpoints of this version are kept between runs."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "hfposemb-tests" / f"real-{VERSION}-{platform.python_version()}"


def made(name: str, folder: Path | None = None) -> Path:
    """Return the folder of a checkpoint, which is made where it is not there yet: once, whole or not at all."""
    folder = folder or cache_folder()
    target = folder / name
    if target.is_dir():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed: the workers of a test run ask at once
        if target.is_dir():
            return target
        unfinished = Path(tempfile.mkdtemp(dir=folder, prefix=f".{name}-"))
        try:
            write(RECIPES[name], unfinished)
            unfinished.rename(target)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
    return target


def write(recipe: Recipe, folder: Path) -> None:
    """Write a checkpoint as the Hub holds it: a configuration, a tokenizer and one file of tensors."""
    folder.chmod(0o755)
    tokenizer = recipe.tokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    for name, content in {"config.json": recipe.config, **recipe.files}.items():
        (folder / name).write_text(json.dumps(content, indent=2), "utf-8")
    labels = [piece for piece, _ in sorted(tokenizer.get_vocab().items(), key=lambda one: one[1])]
    write_tensors(folder / "model.safetensors", recipe.tensors(labels), recipe.dtype)


def write_tensors(path: Path, tensors: Mapping[str, Stored], dtype: str) -> None:
    """Write a safetensors file by blocks; tensors without values are skipped over, so that they take no room."""
    width = {"F32": 4, "F16": 2, "BF16": 2}[dtype]
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, one in tensors.items():
        end = offset + width * int(np.prod(one.shape))
        header[name] = {"dtype": dtype, "shape": list(one.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for one in tensors.values():
            start = file.tell()
            for block in () if one.blocks is None else one.blocks():
                file.write(_stored(block, dtype))
            file.seek(start + width * int(np.prod(one.shape)))
        file.truncate()


def _stored(values: Floats, dtype: str) -> bytes:
    """Return values as the bytes of a dtype, rounded to the nearest."""
    if dtype == "BF16":
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2").tobytes()
    return values.astype({"F16": "<f2", "F32": "<f4"}[dtype]).tobytes()


def words(
    labels: Sequence[str], width: int, *, norm: float = 3.0, mean: float = 0.5, seed: int = 0
) -> Callable[[], Blocks]:
    """Return the vectors of a vocabulary, in blocks: by spelling, class and rarity, around a shared mean of that size.

    Vectors have about the length ``norm``, of which the mean is the share ``mean``.
    """

    def blocks() -> Blocks:
        from sklearn.feature_extraction.text import HashingVectorizer

        rng = np.random.default_rng(seed)
        hashed = HashingVectorizer(analyzer="char_wb", ngram_range=(2, 4), n_features=BUCKETS, dtype=np.float32)
        spectrum = np.arange(1, RANK + 1, dtype=np.float32) ** -0.3
        inner = rng.standard_normal((BUCKETS, RANK), np.float32) * spectrum
        outer = rng.standard_normal((RANK, width), np.float32) / np.float32(np.sqrt((spectrum**2).sum()))
        classes = 0.45 * rng.standard_normal((8, width), np.float32)
        shared = rng.standard_normal(width, np.float32)
        for start in range(0, len(labels), CHUNK):
            part = labels[start : start + CHUNK]
            kinds = np.array([_kind(label) for label in part])
            spelt = hashed.transform([_plain(label) for label in part]) @ inner
            vectors = spelt @ outer + classes[kinds] + 0.25 * rng.standard_normal((len(part), width), np.float32)
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            vectors[kinds == 7] *= np.float32(0.1)  # never trained: they stayed where they began, around the mean
            rare = np.log1p(np.arange(start, start + len(part), dtype=np.float32))[:, None]
            yield np.asarray(
                norm * (0.6 + rare / 25) * ((1 - mean) * vectors + mean * shared / np.linalg.norm(shared)), np.float32
            )

    return blocks


def _plain(label: str) -> str:
    return label.strip("Ġ▁ ") or label


def _kind(label: str) -> int:
    """Return a class of tokens, for an island each."""
    if label.startswith(("<unused", "[unused", "<|reserved")):
        return 7
    if label.startswith(("<", "[")) and label.endswith((">", "]")):
        return 6
    text = _plain(label)
    if any(one.isdigit() for one in text):
        return 5
    if not any(one.isalpha() for one in text):
        return 4
    if not text.isascii():
        return 3
    return (2 if text[0].isupper() else 0) + (0 if label[0] in "Ġ▁" else 1) * (not text[0].isupper())


def helix(length: int, width: int, *, turns: float = 2.8, norm: float = 3.3, seed: int = 3) -> Callable[[], Blocks]:
    """Return a table of positions like GPT-2's: a slow helix and its harmonics, row 0 far off, the last row short."""

    def blocks() -> Blocks:
        rng = np.random.default_rng(seed)
        basis = np.linalg.qr(rng.standard_normal((width, 24)))[0]
        at = np.arange(length) / length
        waves = [np.ones(length), 1.2 * (2 * at - 1)]
        for turn, size in ((turns, 1.0), (2 * turns, 0.45), (4.5 * turns, 0.25), (11 * turns, 0.15), (37, 0.08)):
            waves += [size * np.sin(2 * np.pi * turn * at), size * np.cos(2 * np.pi * turn * at)]
        table = np.stack(waves, axis=1) @ basis[:, : len(waves)].T
        table += 0.012 * np.sqrt(24 / width) * rng.standard_normal((length, width))
        table *= norm / np.linalg.norm(table, axis=1).mean()
        table[0] = 3 * norm * basis[:, 20] + table[0]
        table[-1] *= 0.05
        yield table.astype(np.float32)

    return blocks


def sines(length: int, width: int) -> Callable[[], Blocks]:
    """Return Whisper's fixed positions: sines in the first half of the columns, cosines in the second."""

    def blocks() -> Blocks:
        rates = np.exp(-np.log(10_000) / (width // 2 - 1) * np.arange(width // 2))
        angles = np.arange(length)[:, None] * rates
        yield np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)

    return blocks


def random(*shape: int, size: float = 0.02, around: float = 0.0, seed: int = 5) -> Stored:
    """Return a tensor of random values."""

    def blocks() -> Blocks:
        yield around + size * np.random.default_rng(seed + len(shape) * shape[0]).standard_normal(shape, np.float32)

    return Stored(shape, blocks)


def _gpt2_tensors(labels: Sequence[str]) -> dict[str, Stored]:
    width = 768
    found = {
        "wte.weight": Stored((len(labels), width), words(labels, width, norm=4.0, mean=0.35)),
        "wpe.weight": Stored((1024, width), helix(1024, width)),
    }
    shapes = {"ln_1": (width,), "attn.c_attn": (width, 3 * width), "attn.c_proj": (width, width), "ln_2": (width,)}
    shapes |= {"mlp.c_fc": (width, 4 * width), "mlp.c_proj": (4 * width, width)}
    for layer in range(12):
        for name, shape in shapes.items():
            own = random(*shape, size=0.05, around=float(len(shape) == 1), seed=11)
            bias = random(shape[-1], size=0.02)
            found[f"h.{layer}.{name}.weight"] = own if layer == 0 else Stored(shape)
            found[f"h.{layer}.{name}.bias"] = bias if layer == 0 else Stored((shape[-1],))
    found["ln_f.weight"], found["ln_f.bias"] = random(width, around=1.0), random(width)
    return found


_GPT2 = Recipe(
    config={
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "activation_function": "gelu_new",
        "bos_token_id": 50256,
        "eos_token_id": 50256,
        "layer_norm_epsilon": 1e-5,
        "n_ctx": 1024,
        "n_embd": 768,
        "n_head": 12,
        "n_layer": 12,
        "n_positions": 1024,
        "torch_dtype": "float16",
        "vocab_size": 50257,
    },
    dtype="F16",
    tokenizer=lambda: vocabularies.byte_level(50_257, ["<|endoftext|>"], vocabularies.text_at_hand(), extra=1_000),
    tensors=_gpt2_tensors,
    files={"tokenizer_config.json": {"tokenizer_class": "GPT2Tokenizer", "model_max_length": 1024}},
)


def _rotary_layers(
    width: int, layers: int, *, heads: int, keys: int, head: int, inner: int, norms: Sequence[str], around: float
) -> dict[str, Stored]:
    """Return the tensors of a decoder as Gemma's, all but those of the first layer's attention as holes."""
    shapes = {"self_attn.q_proj": (heads * head, width), "self_attn.k_proj": (keys * head, width)}
    shapes |= {"self_attn.v_proj": (keys * head, width), "self_attn.o_proj": (width, heads * head)}
    shapes |= {"mlp.gate_proj": (inner, width), "mlp.up_proj": (inner, width), "mlp.down_proj": (width, inner)}
    shapes |= {name: (head if name.startswith("self_attn") else width,) for name in norms}
    found = {}
    for layer in range(layers):
        for name, shape in shapes.items():
            real = layer == 0 and not name.startswith("mlp")
            own = random(*shape, size=0.04, around=around if len(shape) == 1 else 0.0, seed=17)
            found[f"model.layers.{layer}.{name}.weight"] = own if real else Stored(shape)
    found["model.norm.weight"] = random(width, around=around)
    return found


def _gemma_tensors(labels: Sequence[str]) -> dict[str, Stored]:
    norms = ["input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"]
    norms += ["self_attn.q_norm", "self_attn.k_norm"]
    layers = _rotary_layers(640, 18, heads=4, keys=1, head=256, inner=2048, norms=norms, around=0.0)
    table = Stored((len(labels), 640), words(labels, 640, norm=0.9, mean=0.2, seed=2))
    return {"model.embed_tokens.weight": table, **layers}


_GEMMA = Recipe(
    config={
        "model_type": "gemma3_text",
        "architectures": ["Gemma3ForCausalLM"],
        "attn_logit_softcapping": None,
        "bos_token_id": 2,
        "eos_token_id": 1,
        "pad_token_id": 0,
        "head_dim": 256,
        "hidden_activation": "gelu_pytorch_tanh",
        "hidden_size": 640,
        "intermediate_size": 2048,
        "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 3,
        "max_position_embeddings": 32768,
        "num_attention_heads": 4,
        "num_hidden_layers": 18,
        "num_key_value_heads": 1,
        "query_pre_attn_scalar": 256,
        "rms_norm_eps": 1e-6,
        "rope_local_base_freq": 10000.0,
        "rope_theta": 1000000.0,
        "sliding_window": 512,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "vocab_size": 262144,
    },
    dtype="BF16",
    tokenizer=lambda: vocabularies.gemma(262_144, vocabularies.text_at_hand()),
    tensors=_gemma_tensors,
    files={"tokenizer_config.json": {"tokenizer_class": "GemmaTokenizer", "model_max_length": 32768}},
)


def _whisper_tensors(labels: Sequence[str]) -> dict[str, Stored]:
    width = 512
    found = {
        "model.encoder.conv1.weight": Stored((width, 80, 3)),
        "model.encoder.conv1.bias": Stored((width,)),
        "model.encoder.conv2.weight": Stored((width, width, 3)),
        "model.encoder.conv2.bias": Stored((width,)),
        "model.encoder.embed_positions.weight": Stored((1500, width), sines(1500, width)),
        "model.decoder.embed_tokens.weight": Stored(
            (len(labels), width), words(labels, width, norm=0.9, mean=0.68, seed=4)
        ),
        "model.decoder.embed_positions.weight": Stored((448, width), helix(448, width, turns=1.4, norm=0.6)),
    }
    for part, towers in (("encoder", ("self_attn",)), ("decoder", ("self_attn", "encoder_attn"))):
        for layer in range(6):
            stem = f"model.{part}.layers.{layer}"
            for tower in towers:
                for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    own = random(width, width, size=0.06, seed=len(name))
                    found[f"{stem}.{tower}.{name}.weight"] = own if layer == 0 else Stored((width, width))
                    if name != "k_proj":
                        found[f"{stem}.{tower}.{name}.bias"] = Stored((width,))
                found[f"{stem}.{tower}_layer_norm.weight"] = random(width, around=1.0)
                found[f"{stem}.{tower}_layer_norm.bias"] = random(width)
            for name, shape in (("fc1", (2048, width)), ("fc2", (width, 2048))):
                found[f"{stem}.{name}.weight"], found[f"{stem}.{name}.bias"] = Stored(shape), Stored(shape[:1])
            found[f"{stem}.final_layer_norm.weight"] = random(width, around=1.0)
            found[f"{stem}.final_layer_norm.bias"] = random(width)
        found[f"model.{part}.layer_norm.weight"] = random(width, around=1.0)
        found[f"model.{part}.layer_norm.bias"] = random(width)
    return found


_WHISPER_SPECIAL = ["<|endoftext|>", "<|startoftranscript|>"]
_WHISPER_SPECIAL += [f"<|language_{row:02d}|>" for row in range(99)]
_WHISPER_SPECIAL += ["<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>"]
_WHISPER_SPECIAL += ["<|notimestamps|>", *(f"<|{row * 0.02:.2f}|>" for row in range(1501))]

_WHISPER = Recipe(
    config={
        "model_type": "whisper",
        "architectures": ["WhisperForConditionalGeneration"],
        "activation_function": "gelu",
        "bos_token_id": 50257,
        "eos_token_id": 50257,
        "pad_token_id": 50257,
        "decoder_start_token_id": 50258,
        "d_model": 512,
        "decoder_attention_heads": 8,
        "decoder_ffn_dim": 2048,
        "decoder_layers": 6,
        "encoder_attention_heads": 8,
        "encoder_ffn_dim": 2048,
        "encoder_layers": 6,
        "max_source_positions": 1500,
        "max_target_positions": 448,
        "num_mel_bins": 80,
        "scale_embedding": False,
        "torch_dtype": "float32",
        "vocab_size": 51865,
    },
    dtype="F32",
    tokenizer=lambda: vocabularies.byte_level(51_865, _WHISPER_SPECIAL, vocabularies.text_at_hand(), extra=1_000),
    tensors=_whisper_tensors,
    files={"tokenizer_config.json": {"tokenizer_class": "WhisperTokenizer", "model_max_length": 448}},
)

RECIPES: Mapping[str, Recipe] = {"gpt2": _GPT2, "gemma": _GEMMA, "whisper": _WHISPER}
"""The checkpoints by name."""
