"""Tensor names of token, position and token-type tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

Role: TypeAlias = Literal["token", "token_type", "position"]


ROLES: tuple[Role, ...] = ("token", "token_type", "position")


TOKEN_ENDINGS: tuple[str, ...] = (
    "embed_text_tokens.weight",
    "shared.weight",
    "embed_tokens.weight",
    "embed_tokens.embedding.weight",
    "word_embeddings.weight",
    "word_embedding.weight",
    "wte.weight",
    "wte.embedding",
    "tokens_embed.weight",
    "tok_embeddings.weight",
    "token_embeddings.weight",
    "token_embedding.weight",
    "token_embedding_table.weight",
    "embed_in.weight",
    "tok_emb.weight",
    "token_emb.weight",
    "tok_embed.weight",
    "token_embed.weight",
    "token_embd.weight",
    "input_embeds_layer.weight",
    "input_embedding.weight",
    "text_token_embedding.weight",
    "text_embed_tokens.weight",
    "word_emb.emb_layers.0.weight",
)
"""Endings of token table names, the most reliable first. Prefixes (``bert.``, ``model.``) are arbitrary."""


LOOSE_TOKEN_ENDINGS: tuple[str, ...] = (
    "embeddings.weight",
    "embedding.weight",
    "embeds.weight",
    "embed.weight",
    "emb.weight",
    "text_embedding.weight",
    "text_embeddings.weight",
    "w.weight",
    "embedding_layer.weight",
)
"""Ambiguous endings, accepted only if the number of rows equals the size of a vocabulary in the configuration."""


WHOLE_TOKEN_NAMES = frozenset(("emb.weight", "embedding_layer.weight", "backbone.embedding_layer.weight"))
"""Whole names in checkpoints as RWKV's and Evo's authors publish them, mostly without a configuration."""


NO_TOKENS = re.compile(
    r"codebook|quantizer|(^|[._])(vq|t2u)|codec|per_layer|multi_head_embedding|"
    r"(pos(ition)?|type|segment|speaker|lang|bucket|class|modality|image|video|size|time|age|distance)"
    r"_?[a-z]{0,24}_?(emb|embed|embedding|embeddings|embeds)(\.weight)?$"
)
"""Patterns in the names of tables whose rows are not tokens."""


POSITION_ENDING = re.compile(
    r"(?:(?P<axis>x|y|h|w|row|col|column|height|width|box|char|temporal|spatial|mid|visual|text)_)?"
    r"(?:wpe|embed_positions|positions_embed|"
    r"(?:[a-z0-9]+_)*?(?:pos|position|positions|positional)_?(?:emb|embd|embed|embeds|embedding|embeddings|enc|encoding)"
    r"(?:_(?P<kind>layer|table|window|vlm))?|(?P<line>row|column|col)_embed(?:der|ding|dings)?|pos_idx_to_embed)"
)
"""Pattern for the last component of a position table's name, without ``weight``."""


NO_POSITIONS = re.compile(r"class_pos|query_pos|conv_embed|shared_(image_)?embedding|no_memory|pos_embedder|ids$")
"""Names that resemble those of position tables: rotary angles, object queries, random waves."""


TYPE_ENDING = re.compile(r"(visual_)?(token_type|task_type|segment)_(emb|embedding|embeddings)(_\d+)?|token_types")
"""Pattern for the module of a token-type (segment) table, or of ERNIE's task types."""


TOWERS: Mapping[str, frozenset[str]] = {
    "qformer": frozenset(("qformer",)),
    "talker": frozenset(("talker", "token2wav", "depth")),
    "action": frozenset(("action", "dit")),
    "vision": frozenset(("vision", "visual", "image", "img", "vit", "sam", "patch", "vpm", "resampler")),
    "audio": frozenset(("audio", "speech", "acoustic", "acoustics", "apm")),
    "video": frozenset(("video",)),
    "text": frozenset(("text", "language", "llm", "lm")),
    "encoder": frozenset(("encoder",)),
    "decoder": frozenset(("decoder",)),
}
"""Parts of a model, by words in the names of its modules and configuration fields."""


AXES: Mapping[str, str] = {"col": "column", "char": "character", "visual": "vision", "text": ""}
"""Axis or part meant by the first word of a position table's name, if not the word itself."""


WHOLE = frozenset(("visual_bert", "data2vec_text"))
"""Base models, with the words among others, whose names hold the word of a tower: nothing is of that tower by them."""


SHORT: Mapping[str, str] = {"enc": "encoder", "dec": "decoder"}
"""Names of modules of GGUF files."""

NUMBERED_TOKEN = "word_emb.emb_layers.0.weight"
"""Ending of a token table whose number is not that of a layer: Transformer-XL's, unless it is cut into several."""

NEXT_TOKEN = NUMBERED_TOKEN.replace("0", "1")
"""Ending of the second table of a vocabulary that is cut into several."""

NUMBERED = re.compile(r"(?!^)(?<!\.backbone)\.\d+\.(?!(?:auto_)?model\.)")
"""Name inside a layer, between dots.

A backbone in a list of its own, as RF-DETR's, is no layer, nor is a model of sentence-transformers or the module of a
sequence.
"""


@lru_cache(maxsize=4096)
def tower_of(name: str) -> str:
    """Return the part of the model that a module or field belongs to, judged by its name; "" if unknown.

    A tower for one kind of input takes precedence over encoders and decoders inside it.
    """
    found = [tower for component in name.split(".") for tower in _towers_of(component)]
    apart = [tower for tower in found if tower not in ("encoder", "decoder")]
    return next(iter(apart or found), "")


@lru_cache(maxsize=4096)
def _towers_of(component: str) -> tuple[str, ...]:
    words = frozenset() if component in WHOLE else frozenset(SHORT.get(component, component).lower().split("_"))
    return tuple(tower for tower, told in TOWERS.items() if words & told)


@dataclass(frozen=True)
class Candidate:
    """Possible table of a role, with the part of the model that it belongs to ("" if there is only one)."""

    tensor: str
    part: str
    order: tuple[int, int, int, str] = (0, 0, 0, "")
    """Place among the candidates: ending of the name, part of the model, depth, name."""

    def why_before(self, other: Candidate) -> str:
        """Return why this table was taken rather than another, from what decided their order; "" if nothing did."""
        decided = next((at for at in range(4) if self.order[: at + 1] < other.order[: at + 1]), None)
        tower = tower_of(other.tensor)
        of_a_part = f"the other belongs to its {tower} part" if tower else "it belongs to the text"
        return "" if decided is None else (_MORE_USUAL, of_a_part, "its path is shorter", _FIRST)[decided]


_MORE_USUAL = "its name is the more usual one for such a table"
_FIRST = "it comes first by name, for nothing else tells them apart"

PART_ORDER = {"": 0, "text": 1, "encoder": 2, "decoder": 3}
"""Order of the parts of a model, the text first."""


def candidates(
    names: Iterable[str],
    role: Role,
    *,
    vocabularies: frozenset[int] = frozenset(),
    rows: Callable[[str], int] = lambda name: -1,
) -> tuple[Candidate, ...]:
    """Return the tensors whose names are those of tables of ``role``, the best first within each part.

    Names inside numbered layers are skipped. Better are: a more reliable ending, no tower other than the text, no
    ``decoder``, a shorter path.

    Args:
        names: Tensor names.
        role: Role of the table.
        vocabularies: Sizes of the vocabularies in the configuration; a loose ending needs one of them as number of
            rows.
        rows: Returns the number of rows of a tensor.
    """
    found: list[Candidate] = []
    for name in outside_layers(names):
        rank = _RANKS[role](name)
        if rank is None and role == "token" and _loose(name) and rows(name) in vocabularies:
            rank = len(TOKEN_ENDINGS)
        if rank is None and role == "token" and name in WHOLE_TOKEN_NAMES and not vocabularies:
            rank = len(TOKEN_ENDINGS) + 1
        if rank is not None:
            tower = tower_of(name)
            part = _PART[role](name, tower) if role in _PART else tower
            order = PART_ORDER.get(tower, 4)
            if role == "token":
                order = max((0, 0, 0, 1, 2)[order], int(tower == "text" and "decoder" in name))
            found.append(Candidate(name, part, (rank, order, name.count("."), name)))
    return tuple(sorted(found, key=lambda one: one.order))


def _ends(name: str, ending: str) -> bool:
    return name == ending or name.endswith(f".{ending}")


def outside_layers(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names outside numbered layers; the number in ``word_emb.emb_layers.0.weight`` does not count."""
    return _outside(tuple(names))


# Models have the same names, and a name does not change its meaning.
@lru_cache(maxsize=16)
def _outside(names: tuple[str, ...]) -> tuple[str, ...]:
    cut = any(name.endswith(NEXT_TOKEN) for name in names)
    kept = "" if cut else NUMBERED_TOKEN
    return tuple(name for name in names if not NUMBERED.search(f".{name.removesuffix(kept)}."))


@lru_cache(maxsize=1024)
def _token_rank(name: str) -> int | None:
    if not name.endswith(TOKEN_ENDINGS) or NO_TOKENS.search(name):
        return None
    return next((rank for rank, ending in enumerate(TOKEN_ENDINGS) if _ends(name, ending)), None)


@lru_cache(maxsize=1024)
def _loose(name: str) -> bool:
    return any(_ends(name, ending) for ending in LOOSE_TOKEN_ENDINGS) and not NO_TOKENS.search(name)


def _module(name: str) -> str:
    """Return the last component of a tensor's name without ``weight``."""
    path = name.removesuffix(".weight").removesuffix(".embedding")
    return path.rsplit(".", 1)[-1]


@lru_cache(maxsize=1024)
def _position_rank(name: str) -> int | None:
    if NO_POSITIONS.search(name) or name.endswith((".bias", "_bias")):
        return None
    told = POSITION_ENDING.fullmatch(_module(name))
    if told is None:
        return None
    if told["axis"] or told["kind"] or told["line"]:
        return 2
    return int(_module(name) not in ("wpe", "embed_positions", "positions_embed", "position_embeddings"))


@lru_cache(maxsize=1024)
def _type_rank(name: str) -> int | None:
    return 0 if TYPE_ENDING.fullmatch(_module(name)) else None


_RANKS: Mapping[Role, Callable[[str], int | None]] = {
    "token": _token_rank,
    "token_type": _type_rank,
    "position": _position_rank,
}


def _part(name: str, tower: str) -> str:
    """Return the key of a position table: its tower, and the axis of its rows if the name has one."""
    told = POSITION_ENDING.fullmatch(_module(name))
    assert told is not None
    axis = told["axis"] or told["line"] or ("window" if told["kind"] == "window" else "")
    parent = name.removesuffix(".weight").rpartition(".")[0].rpartition(".")[2]
    axis = axis or next((word for word in ("spatial", "temporal") if parent.startswith(f"{word}_")), "")
    axis = AXES.get(axis, axis)
    inner = next((word for word in name.split(".") if word in ("encoder", "decoder")), "")
    return ".".join(filter(None, (tower if axis != tower else "", inner if tower == "text" else "", axis)))


def _type_part(name: str, tower: str) -> str:
    """Return the key of a token-type table: its tower, and its number or ``task`` if a model has several."""
    told = TYPE_ENDING.fullmatch(_module(name))
    assert told is not None
    number = "task" if told[2] == "task_type" else (told[4] or "").removeprefix("_")
    return ".".join(filter(None, ("vision" if told[1] else tower, number if number != "0" else "")))


_PART: Mapping[Role, Callable[[str, str], str]] = {"position": _part, "token_type": _type_part}
