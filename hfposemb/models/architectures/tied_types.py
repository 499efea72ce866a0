"""What a configuration says of tying the output head to the token table, and what checkpoints of each model type store.

The data are read off the small models of transformers 5.24: ``python -m tests.architectures.ties`` reads what decides
whether a head is tied, ``python -m tests.architectures.needed`` which tables are stored.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from ...text import one_line
from .config_values import JOINED, class_of, has_own_code, part_config

DATA = Path(__file__).with_name("ties.json")

ONE_TABLE = "pop2piano"
"""Model type whose encoder and decoder read the table ``shared`` though its head is never tied."""

Rule = Literal["whole", "text", "either", "always", "never"]


@lru_cache(maxsize=1)
def tie_rules() -> Mapping[str, Any]:
    """Return what decides whether a head is tied: ``types`` and ``classes`` by rule, and the types that are ``untied``.

    ``whole``, ``text``, ``either``: what that configuration says, or one of both. ``always``, ``never``: nothing that
    is stated. ``untied`` are the types whose configuration class does not tie the head by default.
    """
    found = json.loads(DATA.read_text(encoding="utf-8"))
    of = {kind: {name: rule for rule, names in found[kind].items() for name in names} for kind in ("types", "classes")}
    return {**of, "untied": frozenset(found["untied"])}


def tie_rule(config: Mapping[str, Any]) -> Rule | None:
    """Return what decides whether the class of a configuration ties its head; ``None`` if that is not known.

    Examples:
        >>> from hfposemb.models.architectures.tied_types import tie_rule
        >>> tie_rule({"model_type": "t5", "tie_word_embeddings": False})
        'always'
    """
    rules = tie_rules()
    by_type: Rule | None = rules["types"].get(str(config.get("model_type")))
    return None if has_own_code(config) else rules["classes"].get(class_of(config), by_type)


def _places(config: Mapping[str, Any], tensor: str, *, decoder: bool) -> tuple[Mapping[str, Any], ...]:
    """Return the configurations that say whether the head is tied, the one that counts most first."""
    rule = tie_rule(config)
    joined = str(config.get("model_type")) in JOINED
    text = part_config(config, "decoder" if joined or decoder else "text")
    own = config.get(f"{tensor.partition('.')[0]}_config")
    if rule == "text":
        return (text,)
    places = (own, config) if rule == "whole" and not decoder else (own, config, text)
    return tuple(one for one in places if isinstance(one, Mapping))


def stated_tie(config: Mapping[str, Any], *, tensor: str = "", decoder: bool = False) -> bool | None:
    """Return what a configuration says of tying the output head, where it is read; ``None`` if it says nothing.

    The part that holds the head precedes the whole, and the whole precedes its text part.

    Args:
        config: Configuration of the whole.
        tensor: Tensor of the head; ``thinker.lm_head.weight`` belongs to the part ``thinker_config``.
        decoder: Whether the head belongs to a decoder with a token table of its own.
    """
    places = _places(config, tensor, decoder=decoder)
    if tie_rule(config) == "either" and not any(one.get("tie_word_embeddings") is True for one in places):
        places = (config,)
    said = [one for place in places if isinstance(one := place.get("tie_word_embeddings"), bool)]
    return next((one for one in said if one or tie_rule(config) != "either"), next(iter(said), None))


def ties_by_default(config: Mapping[str, Any]) -> bool:
    """Return whether a configuration that does not say so ties the output head; unknown model types do."""
    part = part_config(config, "decoder") if str(config.get("model_type")) in JOINED else config
    return str(part.get("model_type")) not in tie_rules()["untied"]


def is_tied(config: Mapping[str, Any], *, tensor: str = "", decoder: bool = False) -> bool:
    """Return whether the output head is tied: by its class, by what is stated, or by the default of the model type.

    Args:
        config: Configuration of the whole.
        tensor: Tensor of the head if one is stored: of a class that always ties, it stays if the file says so.
        decoder: Whether the head belongs to a decoder with a token table of its own.
    """
    rule, stated = tie_rule(config), stated_tie(config, tensor=tensor, decoder=decoder)
    if rule == "never" or (rule == "always" and not tensor):
        return rule == "always"
    said = ties_by_default(config) if stated is None else stated
    text = _places(config, tensor, decoder=decoder)[-1]
    if rule not in ("text", "either") or "model_type" not in text or text is config:
        return said
    return is_tied(text) or (rule == "either" and said)


def tie_words(config: Mapping[str, Any], *, decoder: bool = False) -> str:
    """Say why a head that is not stored is tied, or why one is not.

    Args:
        config: Configuration of the whole.
        decoder: Whether the head belongs to a decoder with a token table of its own.

    Examples:
        >>> from hfposemb.models.architectures.tied_types import tie_words
        >>> tie_words({"model_type": "t5", "architectures": ["T5Model"], "tie_word_embeddings": False})
        'T5Model always ties it'
        >>> tie_words({"model_type": "gpt2"})
        'tie_word_embeddings is not stated, which means true'
    """
    rule, tied = tie_rule(config), is_tied(config, decoder=decoder)
    if rule in ("always", "never"):
        return f"{one_line(class_of(config) or config['model_type'], width=60)} {rule} ties it"
    if stated_tie(config, decoder=decoder) == tied:
        return f"tie_word_embeddings is {str(tied).lower()}"
    inner = part_config(config, "text") if rule == "whole" else {}
    where = " outside its text part" if inner is not config and "tie_word_embeddings" in inner else ""
    return f"tie_word_embeddings is not stated{where}, which means {str(tied).lower()}"


def unread_shared(config: Mapping[str, Any], names: Collection[str]) -> frozenset[str]:
    """Return the tables ``shared`` that neither encoder nor decoder reads, since they have their own and are not tied.

    Args:
        config: Configuration of the whole, of a type that transformers has.
        names: Tensor names.

    Examples:
        >>> from hfposemb.models.architectures.tied_types import unread_shared
        >>> names = [f"model.{part}.weight" for part in ("shared", "encoder.embed_tokens", "decoder.embed_tokens")]
        >>> sorted(unread_shared({"model_type": "bart", "tie_word_embeddings": False}, names))
        ['model.shared.weight']
    """
    if config.get("model_type") == ONE_TABLE or is_tied(config):
        return frozenset()
    there = frozenset(names)
    found = (name.removesuffix(_SHARED) for name in names if name == _SHARED or name.endswith(f".{_SHARED}"))
    own = [[f"{kind}{part}.embed_tokens.weight" for part in ("encoder", "decoder")] for kind in ("", "text_")]
    return frozenset(
        module + _SHARED for module in found if any({module + one for one in both} <= there for both in own)
    )


_SHARED = "shared.weight"

PARTS = ("Stack", "Encoder", "Decoder", "Layer", "Block", "Backbone", "Wrapper")
"""Ends of the names of classes that are parts of a model, and are not saved alone."""

Roles = frozenset[str]


@lru_cache(maxsize=1)
def _known() -> tuple[Mapping[str, Roles], Mapping[str, Mapping[str, Roles]]]:
    """Return the roles of the class that each type is named after, and those of its other classes that differ."""
    found = json.loads(Path(__file__).with_name("needed_tables.json").read_text(encoding="utf-8"))
    by_type = {name: frozenset(roles.split()) for roles, names in found["types"].items() for name in names}
    others = {
        name: {kind: frozenset(roles.split()) for kind, roles in kinds.items()}
        for name, kinds in found["classes"].items()
    }
    return by_type, others


def needed_tables(config: Mapping[str, Any]) -> Roles:
    """Return the roles of the tables that a checkpoint with this configuration must store; empty if that is not known.

    A part with a configuration of its own counts only if its type is known to have the table.

    Args:
        config: The configuration, as in config.json.

    Examples:
        >>> from hfposemb.models.architectures.tied_types import needed_tables
        >>> sorted(needed_tables({"model_type": "gpt2"}))
        ['position', 'token']
    """
    kind, named = config.get("model_type"), class_of(config)
    if not isinstance(kind, str) or has_own_code(config) or named.endswith(PARTS):
        return frozenset()
    by_type, others = _known()
    roles, differing = by_type.get(kind, frozenset()), others.get(kind, {})
    roles = differing.get(named, roles) if named else roles.intersection(*differing.values())
    return frozenset(role for role in roles if _of_part(config, role, by_type))


def _of_part(config: Mapping[str, Any], role: str, by_type: Mapping[str, Roles]) -> bool:
    part, _, rest = role.rpartition(".")
    inner = config.get(f"{part}_config") if part else part_config(config, "text")
    if not isinstance(inner, dict) or inner is config:
        return True
    return rest in by_type.get(str(inner.get("model_type")), ())
