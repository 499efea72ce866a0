"""Rotary positions as inference engines compute them from a configuration: frequencies and attention factor.

Each function is one way to read the parameters; ``engine_rules.toml`` says which engine did so, and when.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..models.architectures.config_values import real_number
from ..tables.rotary import DynamicScaling, LongFactors, Rotary

DEEPSEEK = ("deepseek_v2", "deepseek_v3", "deepseek_v32")
"""Model types for which engines take the ratio of mscale and mscale_all_dim."""


@dataclass(frozen=True, eq=False)
class Stated:
    """What a rule reads of a configuration.

    Attributes:
        kind: Stated rope type, "" for none.
        ours: The encoding as transformers computes it; for a variant of YaRN, as if it were YaRN.
        parameters: The rotary parameters.
        config: Configuration of the part.
    """

    kind: str
    ours: Rotary
    parameters: Mapping[str, Any]
    config: Mapping[str, Any]

    def number(self, name: str, default: float | None = None) -> float | None:
        """Return a parameter, the default where it is missing or no number."""
        found = real_number(self.parameters, name, low=0.0, high=1e12)
        return default if found is None else found

    @property
    def extension(self) -> float:
        """The stated factor, or the ratio of the lengths."""
        return self.number("factor") or self.ours.length / self.trained

    @property
    def trained(self) -> int:
        """Number of positions before scaling."""
        return self.ours.trained_length or self.ours.length

    @property
    def model_type(self) -> str:
        """Type of the model, without the name of a part."""
        return str(self.config.get("model_type")).removesuffix("_text")

    @property
    def apart(self) -> bool:
        """Whether the rotated dimensions are apart from the others, as in multi-head latent attention."""
        return self.config.get("qk_rope_head_dim") is not None

    @property
    def plain(self) -> NDArray[np.float64]:
        """Frequencies before scaling [pairs]."""
        return np.asarray(self.ours.inv_freq if self.ours.base_freq is None else self.ours.base_freq, np.float64)

    def states(self, *names: str) -> bool:
        """Return whether a parameter is stated and is not null."""
        return any(self.parameters.get(name) is not None for name in names)


Computed: TypeAlias = Rotary | str
"""What an engine computes, or why it refuses the configuration."""


def mscale(factor: float, weight: float = 1.0, *, slope: float = 0.1) -> float:
    """Return 0.1 · weight · ln s + 1 for a factor s, 1 up to s = 1 (Peng et al. 2023); the slope differs by vendor."""
    return 1.0 if factor <= 1 else slope * weight * math.log(factor) + 1.0


def as_transformers(given: Stated) -> Computed:
    """Return what transformers computes."""
    return given.ours


def with_attention(given: Stated, attention: float, *, rounded: bool = False, twice: bool = False) -> Rotary:
    """Return the encoding with another attention factor.

    Args:
        given: What is stated.
        attention: The factor.
        rounded: Whether the bounds of the ramp are rounded whatever ``truncate`` says.
        twice: Whether the stated length, which includes the factor, is multiplied by it once more.
    """
    whole = rounded and given.parameters.get("truncate") is False
    length = round(given.ours.length * given.extension) if twice else given.ours.length
    frequencies = yarn_frequencies(given) if whole else given.ours.inv_freq
    return replace(given.ours, inv_freq=frequencies, attention_scaling=attention, length=length)


def yarn_frequencies(given: Stated) -> NDArray[np.float64]:
    """Return the frequencies of YaRN with bounds rounded to whole dimensions, as engines without ``truncate`` do."""
    plain, factor, width = given.plain, given.extension, 2 * len(given.plain)
    theta = float((plain[0] / plain[1]) ** len(plain)) if len(plain) > 1 else math.e

    def dimension(turns: float) -> float:
        return width * math.log(given.trained / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low = max(math.floor(dimension(given.number("beta_fast") or 32.0)), 0)
    high = min(math.ceil(dimension(given.number("beta_slow") or 1.0)), width - 1)
    ramp = np.clip((np.arange(len(plain)) - low) / ((high - low) or 0.001), 0, 1)
    return np.asarray(plain / factor * ramp + plain * (1 - ramp), np.float64)


def mscale_ratio(given: Stated) -> float:
    """Return the ratio of mscale and mscale_all_dim, 1 and 0 where they are not stated."""
    above, below = given.number("mscale", 1.0), given.number("mscale_all_dim", 0.0)
    return mscale(given.extension, above or 0.0) / mscale(given.extension, below or 0.0)


def multiplied(given: Stated, *, rounded: bool = False, twice: bool = False) -> Computed:
    """0.1 ln s + 1 times ``attn_factor``; DeepSeek's own class takes the ratio of mscale and mscale_all_dim."""
    own = given.model_type in DEEPSEEK or given.kind == "deepseek_yarn"
    usual = mscale_ratio(given) if own else mscale(given.extension)
    return with_attention(given, usual * (given.number("attn_factor", 1.0) or 1.0), rounded=rounded, twice=twice)


def sglang_yarn(given: Stated) -> Computed:
    """Return the ratio of mscale and mscale_all_dim if both are stated, else 0.1 ln s + 1, times ``attn_factor``."""
    both = given.states("mscale") and given.states("mscale_all_dim")
    if not both or given.model_type in DEEPSEEK:
        return multiplied(given)
    return with_attention(given, mscale_ratio(given) * (given.number("attn_factor", 1.0) or 1.0))


def laguna_squared(given: Stated) -> Computed:
    """Return 0.1 ln s + 1 times ``attention_factor``, which should replace it."""
    return with_attention(given, mscale(given.extension) * (given.number("attention_factor", 1.0) or 1.0))


def laguna_mscale(given: Stated) -> Computed:
    """The factor 0.1 · attention_factor · ln s + 1."""
    return with_attention(given, mscale(given.extension, given.number("attention_factor", 1.0) or 1.0))


def mlx_yarn(given: Stated) -> Computed:
    """Return the ratio of mscale and mscale_all_dim, 1 and 0 where they are not stated."""
    return with_attention(given, mscale_ratio(given), rounded=True)


def llama_yarn(given: Stated) -> Computed:
    """The ratio where the converter writes mscale_all_dim, with mscale taken as 1 outside DeepSeek 2."""
    weight_all = given.number("mscale_all_dim", 0.0) or 0.0
    if given.model_type in DEEPSEEK and weight_all not in (0.0, 1.0):
        return with_attention(given, 1.0, rounded=True)
    writes = given.model_type in (*DEEPSEEK, "ministral3", "mistral4")
    return with_attention(given, mscale(given.extension) / mscale(given.extension, weight_all * writes), rounded=True)


def plain_yarn(given: Stated, *, slope: float = 0.1, rounded: bool = False, twice: bool = False) -> Computed:
    """The factor 0.1 ln s + 1, whatever else is stated; the slope differs by vendor."""
    return with_attention(given, mscale(given.extension, slope=slope), rounded=rounded, twice=twice)


def implicit_factor(given: Stated) -> Computed:
    """YaRN with the ratio of the lengths in place of the stated factor."""
    ratio = given.ours.length / given.trained
    implied = replace(given, parameters={**given.parameters, "factor": ratio})
    usual = mscale_ratio(implied) if given.states("mscale") and given.states("mscale_all_dim") else mscale(ratio)
    attention = given.number("attention_factor", usual) or usual
    return replace(given.ours, inv_freq=yarn_frequencies(implied), attention_scaling=attention)


def _long_attention(given: Stated) -> float:
    """Return the attention factor from the ratio of the lengths alone, or the stated ``long_mscale``."""
    ratio = given.ours.length / given.trained
    usual = 1.0 if ratio <= 1 else math.sqrt(1 + math.log(ratio) / math.log(given.trained))
    return given.number("long_mscale", usual) or usual


def _factors(given: Stated) -> LongFactors:
    assert isinstance(given.ours.by_length, LongFactors)
    return given.ours.by_length


def late_switch(given: Stated) -> Computed:
    """Long factors for inputs with a position above the trained length, one later than transformers."""
    found = _factors(given)
    later = replace(found, trained_length=found.trained_length + 1, scaling=None)
    return replace(given.ours, by_length=later, attention_scaling=_long_attention(given))


def always_short(given: Stated) -> Computed:
    """Return the short factors for every input, none longer than the trained length."""
    short = _factors(given).short
    attention = _long_attention(given)
    return replace(given.ours, inv_freq=short, by_length=None, attention_scaling=attention, length=given.trained)


def always_long(given: Stated) -> Computed:
    """Return the long factors for every input."""
    long = _factors(given).long
    return replace(given.ours, inv_freq=long, by_length=None, attention_scaling=_long_attention(given))


def fixed_base(given: Stated) -> Computed:
    """The base of an input of the longest extended length, for every input: θ (s² − s + 1)^(d/(d − 2))."""
    factor, width = given.extension, 2 * len(given.plain)
    if not isinstance(given.ours.by_length, DynamicScaling) or width < 4:
        return given.ours
    theta = given.ours.by_length.theta * (factor * factor - factor + 1) ** (width / (width - 2))
    frequencies = theta ** -(np.arange(0, width, 2) / width)
    return replace(given.ours, inv_freq=frequencies, by_length=None, length=round(given.ours.length * factor))


def unscaled(given: Stated) -> Computed:
    """Return the plain frequencies."""
    return replace(given.ours, inv_freq=given.plain, by_length=None, attention_scaling=1.0)


def doubled(given: Stated) -> Computed:
    """Return twice the plain frequencies, as of positions that count double."""
    return replace(given.ours, inv_freq=2 * given.plain, by_length=None)


def refuses(given: Stated) -> Computed:
    """Return that mlx-lm knows no such type."""
    return f"mlx-lm stops at the rope type {given.kind!r}"


def unknown_type(given: Stated) -> Computed:
    """Return that transformers knows no such type."""
    return f"transformers has no rope type {given.kind!r}; code that comes with a model may"
