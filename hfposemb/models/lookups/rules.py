"""What looks up the rows of tables beside the word table: the rules of model types, from their configurations.

The rules are those of transformers 5.24 (Qwen4-Exp, Gemma 3n, Gemma 4, BLT), and of the code that publishers ship:

- LongCat: https://huggingface.co/meituan-longcat/LongCat-Flash-Lite/blob/main/modeling_longcat_ngram.py
- LongCat-Next: https://huggingface.co/meituan-longcat/LongCat-Next/blob/main/modeling_longcat_ngram.py
- Engram: https://github.com/deepseek-ai/Engram/blob/main/engram_demo_v1.py
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...checkpoints.quantised.decoded import Decoded
from ...errors import CheckpointError, InputError
from ...tables.lookups.lookup_table import Head, NgramHash, RowLookup, TokenRows
from ..architectures.config_values import class_of
from ..opened_model import Opened, itself
from .names import Named

_WITNESSES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
"""Bases that decide for all numbers below 3 × 10²⁴ (Sorenson & Webster 2015, https://arxiv.org/abs/1509.00864)."""


def is_prime(number: int) -> bool:
    """Return whether a number is prime, by the Miller–Rabin test.

    >>> from hfposemb.models.lookups.rules import is_prime
    >>> is_prime(20_000_003), is_prime(20_000_005)
    (True, False)
    """
    if number < 2:
        return False
    for one in _WITNESSES:
        if number % one == 0:
            return number == one
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    return all(_passes(number, base, odd, twos) for base in _WITNESSES)


def _passes(number: int, base: int, odd: int, twos: int) -> bool:
    power = pow(base, odd, number)
    if power in (1, number - 1):
        return True
    for _ in range(twos - 1):
        power = power * power % number
        if power == number - 1:
            return True
    return False


def next_prime(after: int, seen: Collection[int] = ()) -> int:
    """Return the smallest prime above a number that is not among ``seen``."""
    number = after + 1
    while not is_prime(number) or number in seen:
        number += 1
    return number


@lru_cache(maxsize=64)
def primes_from(first: int, count: int) -> tuple[int, ...]:
    """Return the first primes that are not below a number."""
    found: list[int] = []
    for _ in range(count):
        found.append(next_prime(found[-1] if found else first - 1))
    return tuple(found)


_MASK = 2**64 - 1
_LARGEST = 2**40
_MOST_HEADS = 4096
_MOST_ORDER = 16
_MOST_TEXT = 60
_CODEBOOKS = ("num_codebooks", "num_quantizers", "n_codebooks")


@dataclass(frozen=True)
class Expected:
    """What a configuration says of a table.

    Attributes:
        lookup: How its rows are looked up.
        sizes: Number of rows of each of its tensors; ``None`` if the configuration does not say.
        width: Numbers in a row; ``None`` if the configuration does not say.
        layers: Number of layers whose vectors lie side by side in a row.
    """

    lookup: RowLookup
    sizes: tuple[int, ...] | None = None
    width: int | None = None
    layers: int = 1


def expected(opened: Opened, named: Named) -> Expected:
    """Return what the configuration says of a table; if it cannot be used, why not."""
    rule = _RULES.get(named.layout)
    if named.missing is not None:
        return Expected(RowLookup(unknown=f"its part {named.missing} is missing"))
    if rule is None:
        return Expected(_other(opened, named))
    try:
        return rule(opened, named)
    except (InputError, CheckpointError) as error:
        return Expected(RowLookup(unknown=str(error)))


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"


def _whole(
    config: Mapping[str, Any], *names: str, low: int = 1, high: int = _LARGEST, default: int | None = None
) -> int:
    """Return the integer of the first field that is stated, within bounds. Raises ``InputError``."""
    name = next((one for one in names if config.get(one) is not None), names[0])
    value = config.get(name, default) if config.get(name) is not None else default
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        wanted = f"a whole number from {low:,} to {high:,}"
        said = "is not stated" if value is None else f"is {_shown(value)}"
        raise InputError(f"{name} of config.json {said}; expected {wanted}")
    return value


def _ids(config: Mapping[str, Any], name: str) -> list[int]:
    """Return a list of integers. Raises ``InputError``."""
    value = config.get(name)
    if not isinstance(value, list) or not all(type(one) is int and abs(one) < 2**62 for one in value):
        raise InputError(f"{name} of config.json is {_shown(value)}; expected a list of whole numbers")
    return value


def _end(config: Mapping[str, Any]) -> int:
    """Return the token that ends a text, the first of several. Raises ``InputError``."""
    value = config.get("eos_token_id")
    if isinstance(value, list) and value:
        return _whole({"eos_token_id": value[0]}, "eos_token_id", low=0)
    return _whole(config, "eos_token_id", low=0)


def _type(opened: Opened, named: Named, *types: str) -> Mapping[str, Any]:
    """Return the configuration of the text if its type is one whose rule is known. Raises ``InputError``."""
    config = opened.part("text")
    if config.get("model_type") not in types:
        raise InputError(f"the model type {_shown(config.get('model_type'))} has no known rule for {named.title}")
    return config


def _facts(rule: NgramHash, how: str, **more: Any) -> dict[str, Any]:
    """Return what an n-gram table is looked up by, ready for JSON."""
    orders = list(dict.fromkeys(head.order for head in rule.heads))
    return {
        "kind": "ngram",
        "orders": orders,
        "heads_per_order": len(rule.heads) // len(orders),
        "hash": how,
        "moduli": [head.modulus for head in rule.heads],
        "offsets": [head.offset for head in rule.heads],
        "before_the_text": rule.fill,
        "begins_anew_after": list(rule.ends),
        **more,
    }


def _sentence(facts: Mapping[str, Any], before: str) -> str:
    """Return what an n-gram table is looked up by."""
    orders, moduli, heads = facts["orders"], facts["moduli"], facts["heads_per_order"]
    grams = ", ".join(f"{order}-" for order in orders[:-1]) + f"{' and ' if orders[1:] else ''}{orders[-1]}-grams"
    span = f"{min(moduli):,}" if min(moduli) == max(moduli) else f"{min(moduli):,} to {max(moduli):,}"
    ends = facts["begins_anew_after"]
    anew = f"; a text begins anew after token {', '.join(map(str, ends))}" if ends else ""
    each = f"{heads} {'head' if heads == 1 else 'heads'}{' each' if orders[1:] else ''}"
    return f"{grams.lstrip(' ')} of tokens, {each}: {facts['hash']}, modulo {span}; {before} before the text{anew}"


def _placed(heads: Sequence[tuple[int, int, tuple[int, ...]]]) -> tuple[Head, ...]:
    """Return heads that follow each other, from (order, modulus, factors)."""
    starts = accumulate((modulus for _, modulus, _ in heads), initial=0)
    return tuple(
        Head(order, modulus, start, factors) for (order, modulus, factors), start in zip(heads, starts, strict=False)
    )


def _splitmix(value: int) -> int:
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def _qwen4(opened: Opened, named: Named) -> Expected:
    """Read the rule of Qwen4-Exp (``Qwen4ExpTextNGramEmbedding`` of transformers)."""
    config = _type(opened, named, "qwen4_exp_text", "qwen4_exp")
    order = _whole(config, "ngram_size", low=2, high=_MOST_ORDER, default=3)
    each = _whole(config, "heads_per_ngram", high=_MOST_HEADS, default=8)
    base = _whole(config, "ngram_vocab_size_base", default=20_000_000)
    divisor = _whole(config, "make_ngram_vocab_size_divisible_by", default=128)
    vocabulary = _whole(config, "vocab_size", default=248_320)
    seed = _whole(config, "seed", low=-(2**63), high=2**63, default=1234)
    end, count = _end(config), (order - 1) * each
    layers = sorted(set(_ids(config, "ple_layer_ids")))
    if named.layer is None or named.layer + 1 not in layers:
        raise InputError(f"ple_layer_ids of config.json is {_shown(layers)}, without the layer of {named.title}")
    index = layers.index(named.layer + 1)
    if (index + 1) * count > _MOST_HEADS:
        raise InputError(f"config.json states {(index + 1) * count:,} heads of n-grams; the limit is {_MOST_HEADS:,}")
    width = _whole(config, "ple_embed_dim", "hidden_size", default=2048)
    if width % count:
        raise InputError(f"ple_embed_dim of config.json is {width:,}, which {count:,} heads do not divide")
    half = max(1, (2**63 - 1) // vocabulary // 2)
    start = seed + 10007 * index
    factors = tuple(
        2 * (_splitmix((start + 0x9E3779B97F4A7C15 * (one + 1)) & _MASK) % half) + 1 for one in range(order)
    )
    sizes = primes_from(base, (index + 1) * count)[index * count :]
    heads = _placed([(2 + at // each, size, factors[: 2 + at // each]) for at, size in enumerate(sizes)])
    heads, factors = _stored(opened, named, heads, factors)
    rule = NgramHash(heads, "xor", fill=end, ends=(end,), count=vocabulary)
    facts = _facts(rule, "XOR of id × multiplier", multipliers=list(factors), layer=named.layer)
    lookup = RowLookup(_sentence(facts, f"token {end}"), facts, make=partial(itself, rule))
    rows = -(-sum(sizes) // divisor) * divisor
    parts = len(named.tensors)
    part = -(-rows // parts)
    last = rows - part * (parts - 1)
    return Expected(lookup, (*[part] * (parts - 1), last) if last > 0 else None, width // count)


def _stored(
    opened: Opened, named: Named, heads: tuple[Head, ...], factors: tuple[int, ...]
) -> tuple[tuple[Head, ...], tuple[int, ...]]:
    """Return heads and multipliers as the checkpoint stores them, if it does: transformers loads these buffers."""
    prefix = named.module.removesuffix("ngram_embedding")
    multipliers = _buffer(opened, f"{prefix}layer_multipliers", len(factors))
    sizes = _buffer(opened, f"{prefix}ngram_heads_vocab_sizes", len(heads), low=1)
    offsets = _buffer(opened, f"{prefix}ngram_heads_offsets", len(heads), low=0)
    factors = factors if multipliers is None else multipliers
    return tuple(
        replace(
            head,
            modulus=head.modulus if sizes is None else sizes[at],
            offset=head.offset if offsets is None else offsets[at],
            factors=factors[: head.order],
        )
        for at, head in enumerate(heads)
    ), factors


def _buffer(opened: Opened, name: str, count: int, low: int = -(2**63)) -> tuple[int, ...] | None:
    """Return the integers of a stored buffer; ``None`` if there is none. Raises ``InputError``."""
    tensors = opened.tensors.stored if isinstance(opened.tensors, Decoded) else opened.tensors
    read = getattr(tensors, "codes", None)
    if read is None or name not in opened.tensors.names():
        return None
    info = opened.tensors.info(name)
    if info.dtype != "I64" or info.shape != (count,):
        raise InputError(f"{name} has the shape {list(info.shape)} {info.dtype}; expected [{count}] I64")
    values = tuple(np.asarray(read(name)).reshape(-1).tolist())
    if wrong := [one for one in values if one < low]:
        raise InputError(f"{name} holds {wrong[0]}; expected numbers from {low}")
    return values


_ELSEWHERE = ("ignored_token_ids", "ngram_exclude_sp_token", "ngram_hash_base", "ngram_mod_force_prime")
"""Fields with which relatives of LongCat change the rule."""


def _longcat(opened: Opened, named: Named) -> Expected:
    """Read the rule of LongCat-Flash-Lite and LongCat-Next (``NgramEmbedding``)."""
    config = opened.part("text")
    if not any(str(one).lower().startswith("longcat") for one in (config.get("model_type"), class_of(opened.config))):
        raise InputError(f"the model type {_shown(config.get('model_type'))} has no known rule for {named.title}")
    if changed := [name for name in _ELSEWHERE if config.get(name)]:
        raise InputError(f"config.json states {changed[0]}, whose meaning is not known")
    order = _whole(config, "emb_neighbor_num", "oe_neighbor_num", low=2, high=_MOST_ORDER)
    each = _whole(config, "emb_split_num", "oe_split_num", high=_MOST_HEADS)
    several = config.get("oe_ignored_token_ids") is not None
    vocabulary = _whole(config, "text_vocab_size" if several else "vocab_size", high=2**31)
    ratio = next((config[one] for one in ("ngram_vocab_size_ratio", "oe_vocab_size_ratio") if one in config), None)
    if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 0 < ratio <= 1e6:
        raise InputError(f"ngram_vocab_size_ratio of config.json is {_shown(ratio)}; expected a number above 0")
    count, end = (order - 1) * each, _end(config)
    if count != len(named.tensors):
        raise InputError(f"config.json states {count:,} tables of n-grams, but the file has {len(named.tensors):,}")
    heads = []
    for at in range(count):
        modulus = int(ratio * vocabulary + at * 2 + 1)
        factors = tuple(pow(vocabulary, power, modulus) if power else 1 for power in range(2 + at // each))
        heads.append((2 + at // each, modulus, factors))
    ignored = tuple(_ids(config, "oe_ignored_token_ids")) if several else ()
    ids = _whole(config, "vocab_size", high=2**31)
    rule = NgramHash(_placed(heads), "sum", fill=0, ends=(end,), ignored=ignored, skips_zero=several, count=ids)
    facts = _facts(rule, f"sum of id × {vocabulary:,}^distance", **({"ignored": list(ignored)} if several else {}))
    lookup = RowLookup(_sentence(facts, "0"), facts, make=partial(itself, rule))
    return Expected(lookup, tuple(modulus for _, modulus, _ in heads))


def _engram_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of a configuration that describes Engram. Raises ``InputError``."""
    for part in (config, *(value for value in config.values() if isinstance(value, dict))):
        if "engram_vocab_size" in part:
            return {**part, **{str(name).removeprefix("engram_"): value for name, value in part.items()}}
    raise InputError("config.json states no engram_vocab_size")


def _engram(opened: Opened, named: Named) -> Expected:
    """Read the rule of Engram (``NgramHashMapping``); its multipliers follow from the tokenizer."""
    config = _engram_config(opened.config)
    order = _whole(config, "max_ngram_size", low=2, high=_MOST_ORDER)
    each = _whole(config, "n_head_per_ngram", high=_MOST_HEADS)
    pad, seed = _whole(config, "pad_id", low=0), _whole(config, "seed", low=0, high=2**62, default=0)
    bases, layers = _ids(config, "engram_vocab_size"), _ids(config, "layer_ids")
    if len(bases) < order - 1 or min(bases) < 1 or max(bases) > _LARGEST:
        raise InputError(f"engram_vocab_size of config.json is {_shown(bases)}; expected {order - 1} sizes from 1")
    layer = layers[0] if named.layer is None and len(layers) == 1 else named.layer
    if layer not in layers:
        raise InputError(f"layer_ids of config.json is {_shown(layers)}, without the layer of {named.title}")
    if (layers.index(layer) + 1) * (order - 1) * each > _MOST_HEADS:
        raise InputError(f"config.json states more than {_MOST_HEADS:,} heads of n-grams")
    sizes = _engram_sizes(layers[: layers.index(layer) + 1], bases[: order - 1], each)
    heads = _placed([(2 + at // each, size, (1,)) for at, size in enumerate(sizes)])
    rule = NgramHash(heads, "xor", fill=pad)
    facts = _facts(rule, "XOR of id × multiplier, after spellings of a word are joined", layer=layer)
    make = partial(_engram_rule, opened, heads, order, pad, seed + 10007 * layer)
    return Expected(RowLookup(_sentence(facts, f"token {pad}"), facts, make=make), (sum(sizes),))


def _engram_sizes(layers: Sequence[int], bases: Sequence[int], each: int) -> list[int]:
    """Return the sizes of the last layer's heads; no prime is taken twice over all layers."""
    seen: set[int] = set()
    sizes: list[int] = []
    for _ in layers:
        sizes = []
        for base in bases:
            last = base - 1
            for _ in range(each):
                last = next_prime(last, seen)
                seen.add(last)
                sizes.append(last)
    return sizes


def _engram_rule(opened: Opened, heads: tuple[Head, ...], order: int, pad: int, seed: int) -> NgramHash:
    from ...checkpoints.tokenizers.worker import Cutter

    folder = opened.folder()
    if folder is None:
        raise InputError(f"{opened.name} has no tokenizer, whose tokens the hash joins by their spelling")
    joined: NDArray[np.int64] = np.array(Cutter(folder).joined(), np.int64)
    if pad >= len(joined):
        raise InputError(f"pad_id of config.json is {pad:,}; the tokenizer has {len(joined):,} tokens")
    half = max(1, (2**63 - 1) // (int(joined.max()) + 1) // 2)
    found = np.random.default_rng(seed).integers(0, half, size=(order,), dtype=np.int64) * 2 + 1
    factors = tuple(int(one) for one in found)
    heads = tuple(replace(head, factors=factors[: head.order]) for head in heads)
    return NgramHash(heads, "xor", fill=int(joined[pad]), renamed=joined)


_BLT_PRIMES = (
    *(1000000007, 5915587277, 1500450271, 3267000013, 5754853343, 4093082899, 9576890767, 3628273133),
    *(2860486313, 5463458053, 3367900313),
)


def _blt(opened: Opened, named: Named) -> Expected:
    """Read the rule of BLT (``compute_hash_embeddings`` of transformers)."""
    config = opened.whole
    if config.get("model_type") != "blt":
        raise InputError(f"the model type {_shown(config.get('model_type'))} has no known rule for {named.title}")
    stated = config.get("encoder_hash_byte_group_size") or [3, 4, 5, 6, 7, 8]
    orders = _ids({"encoder_hash_byte_group_size": stated}, "encoder_hash_byte_group_size")
    functions = _whole(config, "encoder_hash_byte_group_nb_functions", high=_MOST_HEADS, default=1)
    size = _whole(config, "encoder_hash_byte_group_vocab", default=500_002)
    if not all(1 <= order <= _MOST_ORDER for order in orders) or functions * len(orders) > _MOST_HEADS:
        raise InputError(f"encoder_hash_byte_group_size of config.json is {_shown(orders)}; expected small numbers")
    heads = []
    for function in range(functions):
        prime = _BLT_PRIMES[function % len(_BLT_PRIMES)]
        for order in orders:
            # The oldest byte has the power 0.
            powers = (pow(prime, order - 1 - distance) & _MASK for distance in range(order))
            heads.append((order, size, tuple(one - 2**64 if one >= 2**63 else one for one in powers)))
    rule = NgramHash(_placed(heads), "sum", fill=0)
    facts = _facts(rule, "sum of id × prime^place")
    return Expected(RowLookup(_sentence(facts, "0"), facts, make=partial(itself, rule)), (size * len(heads),))


def _per_layer(opened: Opened, named: Named) -> Expected:
    """Read the rule of Gemma 3n and Gemma 4 (``get_per_layer_inputs`` of transformers)."""
    config = _type(opened, named, "gemma3n_text", "gemma4_text")
    layers = _whole(config, "num_hidden_layers", high=65_536)
    if opened.in_gguf:
        shape = opened.tensors.info(named.tensors[0]).shape
        count, width = shape[0], max(1, shape[-1] // layers)
    else:
        count = _whole(config, "vocab_size_per_layer_input", high=2**31, default=262_144)
        width = _whole(config, "hidden_size_per_layer_input", high=65_536, default=256)
    old = config["model_type"] == "gemma3n_text"
    rule = TokenRows(count, 0 if old else None, {} if old else dict(_placeholders(opened, config)))
    facts = {"kind": "per_layer", "layers": layers, "width_per_layer": width, "scale": math.sqrt(width)}
    outside = f"; ids without a row look up row {rule.outside}" if old else ""
    if rule.replaced:
        outside += f"; tokens of images, video and audio look up row {next(iter(rule.replaced.values()))}"
    said = f"each token: {layers} layers × {width} numbers, times {math.sqrt(width):g}{outside}"
    facts |= {"rows_looked_up": count, "outside": rule.outside, "replaced": list(rule.replaced)}
    return Expected(RowLookup(said, facts, make=partial(itself, rule)), (count,), layers * width, layers)


def _placeholders(opened: Opened, text: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    """Yield the ids that stand for images, video and audio in Gemma 4, with the row of padding."""
    if opened.whole.get("model_type") != "gemma4":
        return
    pad = _whole(text, "pad_token_id", low=0, default=0)
    for name, default in (("image_token_id", 258_880), ("video_token_id", 258_884), ("audio_token_id", 258_881)):
        if opened.whole.get(name, default) is not None:
            yield _whole(opened.whole, name, low=0, default=default), pad


def _codes(opened: Opened, named: Named) -> Expected:
    """Say what looks up the rows of a table for each codebook."""
    count = len(named.tensors)
    facts = {"kind": "codes", "codebooks": count}
    if count == 1:
        return Expected(RowLookup("a code of audio", facts))
    return Expected(RowLookup(f"a code of each of {count} codebooks; the rows of one follow those of another", facts))


def _joined_codes(opened: Opened, named: Named) -> Expected:
    """Say what looks up the rows of one table for all codebooks; no configuration says it of all types alike."""
    count = next((value for one in _CODEBOOKS if type(value := opened.whole.get(one)) is int), 1)
    rows = opened.tensors.info(named.tensors[0]).shape[0]
    if not 1 < count <= rows or rows % count:
        return Expected(RowLookup("a code of audio", {"kind": "codes", "codebooks": None}))
    said = f"a code of each of {count} codebooks, {rows // count:,} rows each"
    return Expected(RowLookup(said, {"kind": "codes", "codebooks": count}))


def _other(opened: Opened, named: Named) -> RowLookup:
    if opened.part("text").get("model_type") == "prophetnet":
        return RowLookup("the number of tokens that a prediction looks ahead")
    return RowLookup(unknown=f"no rule is known for {named.title}")


_RULES: Mapping[str, Callable[[Opened, Named], Expected]] = {
    "qwen4": _qwen4,
    "longcat": _longcat,
    "engram": _engram,
    "blt": _blt,
    "per_layer": _per_layer,
    "codes": _codes,
    "joined_codes": _joined_codes,
}
