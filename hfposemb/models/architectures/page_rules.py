"""The rules about files and architectures as values of JSON, for a page that reads models without Python."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ...checkpoints import strict_json
from ...checkpoints.hub import http_connection
from ...checkpoints.hub.files import LISTING_BYTES
from ...checkpoints.limits import PUBLIC_LIMITS, Limits
from ...checkpoints.safetensors import checkpoint as safetensors
from ...checkpoints.tokenizers import small_files
from . import families, table_names
from .config_values import JOINED
from .families import Family
from .head_names import SURE_HEADS
from .tied_types import tie_rules
from .type_defaults import SWITCHES, decoders, kind_defaults, own_switches, rotary_defaults, rotary_types

RETRY_PAUSE = 500
"""Milliseconds before a request that failed for a passing reason is sent again; each pause is twice the one before."""

_FIELDS = ("model_types", "kind", "counts_padding", "padding", "leading", "waves", "first", "waves_scaled")


def hub_hosts() -> tuple[list[str], list[str]]:
    """Return the domains of the Hub, and further hosts to which a private one may redirect large files.

    Examples:
        >>> from hfposemb.models.architectures.page_rules import hub_hosts
        >>> hub_hosts()[0]
        ['huggingface.co', 'hf.co']
    """
    return list(http_connection.HUB_HOSTS), http_connection.further_hosts()


def page_rules(limits: Limits = PUBLIC_LIMITS) -> dict[str, Any]:
    """Return the limits, the names of tables and the facts about architectures that the Python reader uses.

    Args:
        limits: Limits of what is read.

    Returns:
        Values of JSON; regular expressions are in the syntax of JavaScript.

    Examples:
        >>> from hfposemb.models.architectures.page_rules import page_rules
        >>> page_rules()["limits"]["header_bytes"]
        25000000
    """
    bounds = {name: value for name, value in asdict(limits).items() if name not in ("seconds", "cache_bytes")}
    bounds |= safetensors.TEXT_LIMITS | {"json_values": strict_json.MOST_VALUES, "listing_bytes": LISTING_BYTES}
    bounds |= {"tokenizer_values": small_files.MOST_VALUES, "retry_pause": RETRY_PAUSE}
    return {
        "limits": bounds,
        "magic": [(magic.decode("latin-1"), kind) for magic, kind in strict_json.MAGIC],
        "bits": safetensors.BITS,
        "plain": sorted(safetensors.PLAIN),
        "families": [*map(_row, families.FAMILIES)],
        "family": _row(families.DEFAULT),
        "relative_endings": [rule.ending for rule in families.RELATIVE],
        "convolution": families.CONVOLUTION,
        "rotary_fields": list(families.ROTARY_FIELDS),
        "untied": sorted(tie_rules()["untied"]),
        "ties": {kind: tie_rules()[kind] for kind in ("types", "classes")},
        "joined": dict(JOINED),
        "rotary_defaults": rotary_defaults(),
        "kind_defaults": kind_defaults(),
        "rotary_types": sorted(rotary_types()),
        "decoders": decoders(),
        "switches": list(SWITCHES),
        "own_switches": own_switches(),
        **_names(),
    }


def _row(family: Family) -> dict[str, Any]:
    return {name: value for name, value in asdict(family).items() if name in _FIELDS}


def _names() -> dict[str, Any]:
    return {
        "token_endings": list(table_names.TOKEN_ENDINGS),
        "loose_token_endings": list(table_names.LOOSE_TOKEN_ENDINGS),
        "whole_token_names": sorted(table_names.WHOLE_TOKEN_NAMES),
        "numbered": table_names.NUMBERED.pattern,
        "numbered_token": table_names.NUMBERED_TOKEN,
        "no_tokens": table_names.NO_TOKENS.pattern,
        "position_ending": table_names.POSITION_ENDING.pattern.replace("(?P<", "(?<"),
        "no_positions": table_names.NO_POSITIONS.pattern,
        "heads": list(SURE_HEADS),
        "towers": [(tower, sorted(words)) for tower, words in table_names.TOWERS.items()],
        "short": dict(table_names.SHORT),
        "whole": sorted(table_names.WHOLE),
        "axes": dict(table_names.AXES),
        "part_order": dict(table_names.PART_ORDER),
    }
