"""Tensor names of tables that a model looks rows up in beside its word table."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

LAYOUTS: dict[str, re.Pattern[str]] = {
    "qwen4": re.compile(r"(?P<module>(?:.*\.)?ngram_embedding)(?:\.shard_(?P<part>\d{1,6}))?\.weight"),
    "longcat": re.compile(
        r"(?P<module>(?:.*\.)?(?:ngram_embeddings\.embedders\.|oe_embed_tokens))(?P<part>\d{1,6})\.weight"
    ),
    "engram": re.compile(r"(?P<module>(?:.*\.)?multi_head_embedding)\.embedding\.weight"),
    "blt": re.compile(r"(?P<module>(?:.*\.)?encoder_hash_tok_embedding)\.weight"),
    "per_layer": re.compile(r"(?P<module>(?:.*\.)?embed_tokens_per_layer|per_layer_token_embd)\.weight"),
    "codes": re.compile(
        r"(?P<module>(?:.*\.)?(?:embed_tokens|input_embeds_layers|(?:code|codec|codebook|audio|speech)_?emb[a-z]*)\.)"
        r"(?P<part>\d{1,6})(?:\.embedding)?\.weight"
    ),
    "joined_codes": re.compile(
        r"(?P<module>(?:.*\.)?(?:embed_audio_tokens|(?:code|codec|codebook|audio_token)_emb[a-z]*))\.weight"
    ),
}
"""Names whose layout is known, of the tables themselves or of their parts."""

_HINT = re.compile("emb|gram|per_layer|hash_tok")
_NAMED = re.compile(r"(^|[._])(n_?grams?|engrams?|per_layer|oe|over)[._]|ngram|engram")
_TABLE = re.compile(r"(emb|table|memory|lookup)[a-z_]*$")
_NO_TABLE = re.compile(r"proj|norm|gate|conv|bias|scale|multipliers|offsets|sizes|encoding")
_LAYER = re.compile(r"(?:^|\.)(\d{1,6})(?=\.)")


@dataclass(frozen=True)
class Named:
    """Table beside the word table, found by the name of its tensors.

    Attributes:
        key: ``ngram``, ``per_layer`` or ``codes``, after the layer if a model has several.
        layout: Layout of ``LAYOUTS``, "" for other names.
        tensors: Its tensors, whose rows follow each other.
        module: What their names begin with.
        layer: Number of the layer that it belongs to, if the name has one.
        missing: Number of the first part that is not there, ``None`` if all are.
    """

    key: str
    layout: str
    tensors: tuple[str, ...]
    module: str
    layer: int | None
    missing: int | None = None

    @property
    def title(self) -> str:
        """Name of the tensor, or a pattern of all names."""
        if len(self.tensors) == 1:
            return self.tensors[0]
        first, last = self.tensors[0], self.tensors[-1]
        start = next((at for at, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first))
        return f"{first[:start].rstrip('0123456789')}*.weight"


@lru_cache(maxsize=16)
def tables_named(names: tuple[str, ...]) -> tuple[Named, ...]:
    """Return the tables that tensor names reveal, those of known layouts first; a name alone costs no request."""
    groups: dict[tuple[str, str], dict[int, str]] = {}
    for name in names:
        if not _HINT.search(name):
            continue
        known = ((layout, found) for layout, one in LAYOUTS.items() if (found := one.fullmatch(name)))
        layout, found = next(known, ("", None))
        if found is None:
            if _other(name):
                groups["", name] = {0: name}
            continue
        part = found.groupdict().get("part")
        groups.setdefault((layout, found["module"]), {})[-1 if part is None else int(part)] = name
    order = sorted(groups, key=lambda group: (group[0] == "", "mtp" in group[1], _layer(group[1]) or 0, group[1]))
    keys: dict[str, int] = {}
    made = []
    for layout, module in order:
        parts = groups[layout, module]
        # A whole table is read rather than parts of the same name.
        tensors = (parts[-1],) if -1 in parts else tuple(parts[number] for number in sorted(parts))
        missing = None if -1 in parts else next((one for one in range(len(parts)) if one not in parts), None)
        made.append(Named(_key(keys, module, layout), layout, tensors, module, _layer(module), missing))
    return tuple(made)


def _other(name: str) -> bool:
    """Return whether the name of a tensor is like those of such tables."""
    stem = re.sub(r"[._]?\d+$", "", name.removesuffix(".weight"))
    last = stem.rpartition(".")[2]
    return bool(_NAMED.search(stem) and _TABLE.search(last) and not _NO_TABLE.search(last))


def _layer(module: str) -> int | None:
    found = _LAYER.search(module)
    return None if found is None else int(found[1])


def _key(keys: dict[str, int], module: str, layout: str) -> str:
    """Return a key that no other table has: of several, the first is named after its kind alone.

    ``keys`` counts the tables of each key so far.
    """
    codes = layout in ("codes", "joined_codes")
    kind = "codes" if codes else "per_layer" if "per_layer" in module and layout in ("", "per_layer") else "ngram"
    layer = _layer(module)
    own = kind if kind not in keys or layer is None else f"layer{layer}.{kind}"
    keys[own] = number = keys.get(own, 0) + 1
    return own if number == 1 else f"{own}{number}"
