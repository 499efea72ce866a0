"""Findings about files, shapes and dtypes: shards, layers, names that nothing explains."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ..checkpoints.file_choice import weight_map
from ..checkpoints.limits import DEFAULT_LIMITS
from ..checkpoints.safetensors.checkpoint import PLAIN, Checkpoint
from ..checkpoints.strict_json import read_json
from ..models.architectures.config_values import class_of, in_gguf, whole_number
from ..models.architectures.tied_types import needed_tables
from ..models.row_checks import other_width
from ..text import counted
from .checked_source import CheckedSource, configurations, index_of
from .findings import Finding, finding

_WRAPPERS = ("_orig_mod.", "module.", "_forward_module.", "_fsdp_wrapped_module.")
_FOREIGN = re.compile(r"(^|\.)(optimizer|exp_avg|exp_avg_sq|lr_scheduler|ema|teacher|loss_fn|grad_scaler)(\.|_|$)")
_LAYER = re.compile(r"^(.*?)(layers|layer|h|blocks|block)\.(\d+)\.")
LAYER_FIELDS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_PREDICTED = ("num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers", "num_hash_layers")
_TORCH = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_NAMED_BY_TRANSFORMERS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt")
"""Ends of files whose tensors are named as in transformers."""

_WITHOUT = re.compile(r"position|pos_emb|type_vocab_size|token_type")
"""Fields that, if false or 0, leave a table out."""

LAYERED_TYPES = frozenset(
    (
        *("llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "gemma", "gemma2", "gemma3_text"),
        *("phi", "phi3", "gpt2", "gpt_neo", "gpt_neox", "gptj", "gpt_bigcode", "olmo", "olmo2", "falcon", "bloom"),
        *("mpt", "opt", "bert", "roberta", "xlm-roberta", "camembert", "electra", "mpnet", "distilbert", "stablelm"),
        *("starcoder2", "granite", "cohere", "cohere2", "glm", "glm4", "smollm3", "persimmon", "nemotron", "helium"),
    )
)
"""Model types whose stored layers are numbered from 0 to the number in the configuration, without exception."""


def check_index(path: Path) -> Iterator[Finding]:
    """Yield findings about the index of a local checkpoint; needs no readable table.

    Raises ``CheckpointError`` if the index itself cannot be read.
    """
    index = index_of(path)
    if index is None or not index.name.endswith(".safetensors.index.json"):
        return
    listed = weight_map(read_json(index, limit=DEFAULT_LIMITS.header_bytes, kind=dict, unique=True), name=index.name)
    files = Counter(listed.values())
    missing = sorted(file for file in files if not (index.parent / file).is_file())
    for file in missing:
        said = f"{index.name} names {file}, which is not there; {files[file]} tensors are in it"
        yield finding("missing-shard", said, file=index.name, fix={"source": "OWNER/NAME"}, missing=file)
    stored: dict[str, str] = {}
    for file in sorted(set(files) - set(missing)):
        stored |= dict.fromkeys(Checkpoint.open(index.parent / file).names(), file)
    wrong = [name for name, file in listed.items() if file not in missing and stored.get(name) != file]
    unlisted = sorted(set(stored) - set(listed))
    if wrong or unlisted:
        which = (wrong or unlisted)[0]
        said = (
            f"{counted(len(wrong), 'tensor', verb='are')} not in the shard that {index.name} names, and "
            f"{counted(len(unlisted), 'tensor', 'of the shards', 'are')} not in it; the first is {which}"
        )
        yield finding("index-mismatch", said, file=index.name, misplaced=len(wrong), unlisted=len(unlisted))


def check_files(source: CheckedSource) -> Iterator[Finding]:
    """Yield findings about layers, names, dtypes and the width of the token table."""
    yield from _tables(source)
    yield from _layers(source)
    yield from _names(source)
    yield from _dtypes(source)
    yield from _width(source)


def _tables(source: CheckedSource) -> Iterator[Finding]:
    """Yield a finding for each table that every model of this type has, and that is not stored."""
    files = {info.file for info in source.infos.values()}
    needed = needed_tables(source.config)
    if not needed or not files or not all(file.endswith(_NAMED_BY_TRANSFORMERS) for file in files):
        return
    fields = (item for part in configurations(source.config) for item in part.items())
    if any(_WITHOUT.search(name) and value in (False, 0) for name, value in fields):
        needed &= {"token"}
    kind = class_of(source.config) or source.model_type
    empty = sum(0 in info.shape for info in source.infos.values())
    are = f"{empty:,} {'is' if empty == 1 else 'are'}"
    split = f"; {are} empty, as DeepSpeed's ZeRO-3 leaves the parameters of each process" if empty else ""
    for role in _absent(needed, {*source.embeddings.tables, *source.embeddings.positions}):
        what = role.replace("_", " ").replace(".", " ")
        said = f"none of the {len(source.names):,} tensors is the {what} table, which {kind} has{split}"
        yield finding("table-missing", said, role=role, tensors=len(source.names))


def _absent(needed: frozenset[str], stored: set[str]) -> list[str]:
    """Return the roles that are not stored, in any part: a base model saved alone has names without its prefix."""
    others = [role.rpartition(".")[2] for role in stored - needed]
    absent = []
    for role in sorted(needed - stored):
        kind = role.rpartition(".")[2]
        if kind in others:
            others.remove(kind)
        else:
            absent.append(role)
    return absent


def _layers(source: CheckedSource) -> Iterator[Finding]:
    config = source.config
    if source.model_type not in LAYERED_TYPES or config.get("pruned_heads"):
        return
    if source.name.startswith("sample:"):
        source.skipped("layers of a sample, which holds the tables and what the first layer needs")
        return
    known = {name: found for name in LAYER_FIELDS if (found := whole_number(config, name, low=1)) is not None}
    numbers: dict[str, set[int]] = {}
    for name in source.names:
        if match := _LAYER.match(name):
            numbers.setdefault(match[1] + match[2], set()).add(int(match[3]))
    if not known or not numbers:
        return
    field, stated = next(iter(known.items()))
    layers = max(numbers.values(), key=len)
    stored = max(layers) + 1
    predicted = sum(whole_number(config, name, high=100) or 0 for name in _PREDICTED)
    gaps = sorted(set(range(min(stated, stored))) - layers)
    if stored < stated or gaps:
        lacking = stated - len([one for one in layers if one < stated])
        said = f"config.json states {stated} layers, but {lacking} of them have no tensors"
        said += f", the first is layer {gaps[0]}" if gaps else f"; the last stored is layer {stored - 1}"
        yield finding("layers-missing", said, fix={"field": field}, stated=stated, stored=stored, missing=lacking)
    elif stored > stated + predicted:
        said = f"config.json states {stated} layers, but tensors of {stored} layers are stored"
        yield finding("layers-unexplained", said, fix={"field": field}, stated=stated, stored=stored)


def _names(source: CheckedSource) -> Iterator[Finding]:
    for prefix in _WRAPPERS:
        count = sum(name.startswith(prefix) for name in source.names)
        if count and count >= len(source.names) - 1:
            said = (
                f"{count} of {len(source.names)} tensor names begin with {prefix}, which no model of transformers has"
            )
            yield finding("wrapped-names", said, prefix=prefix, tensors=count)
    foreign = sorted(name for name in source.names if _FOREIGN.search(name))
    if foreign:
        said = (
            f"{counted(len(foreign), 'tensor', verb='belong')} to training, not to the model; the first is {foreign[0]}"
        )
        yield finding("foreign-tensors", said, tensors=len(foreign), first=foreign[0])


def _dtypes(source: CheckedSource) -> Iterator[Finding]:
    matrices = Counter(info.dtype for info in source.infos.values() if info.dtype in PLAIN and len(info.shape) > 1)
    table = source.table("token")
    own = table.provenance.stored_dtype if table is not None else None
    # Converters to GGUF keep small tensors at full precision on purpose.
    if len(matrices) > 1 and not in_gguf(source.config):
        listed = ", ".join(f"{count} in {dtype}" for dtype, count in matrices.most_common())
        most = matrices.most_common(1)[0][0]
        yield finding("mixed-dtypes", f"weights are stored as {listed}", fix={"dtype": _TORCH[most]}, listed=listed)
    stated = next((source.config.get(name) for name in ("dtype", "torch_dtype") if source.config.get(name)), None)
    named = stated.removeprefix("torch.") if isinstance(stated, str) else ""
    if own in _TORCH and named in _TORCH.values() and named != _TORCH[own]:
        said = f"config.json states {named}, but the token table is stored as {_TORCH[own]}"
        yield finding("dtype-differs", said, stated=named, stored=_TORCH[own])


def _width(source: CheckedSource) -> Iterator[Finding]:
    table = source.table("token")
    if table is None:
        return
    said, stated = other_width(source.config, table.provenance.tensor, width := table.shape[1])
    if said:
        yield finding("width", said, width=width, **stated)
