"""Position encodings of every part of an opened source, from its tensors and configuration.

Stored tables that are sinusoids are recognised by their numbers rather than by the name of the model.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from ...checkpoints.quantised.decoded import table_refusal
from ...checkpoints.torch_module import LiveTensors
from ...errors import CheckpointError
from ...tables.encodings import (
    Absolute,
    Alibi,
    Convolution,
    Grid,
    NoPositions,
    PositionEncoding,
    RelativeBias,
    RelativeTable,
    Unmeasured,
    WindowBias,
    alibi_slopes,
)
from ...tables.rotary import Rotary
from ...tables.table import EmbeddingTable, Provenance
from ...text import one_line
from ..architectures.config_values import name_of, patches_of, real_number
from ..architectures.families import CONVOLUTION, RELATIVE, RelativeRule, is_known, row_offset
from ..architectures.table_names import Candidate, tower_of
from ..architectures.type_defaults import is_published, rotates
from ..named_tables import PLACES, unmatched
from ..opened_model import Opened, itself, stored_grid
from .axial import axial_pairs, axial_positions
from .position_kinds import CALLED, kind_of, stated_kind, text_kind

if TYPE_CHECKING:
    from ...tables.closed_forms import Layout

_FEW = 3
"""Rows that are read at first; nearly all learned tables are told apart by them."""

_TOLERANCE = 4e-3
"""Largest difference between the numbers of a table and sinusoids, which allows for storage in bfloat16."""

_MOST_CELLS = 2**24


def are_waves(table: EmbeddingTable, grid: Grid | None) -> bool:
    """Return whether every column of a table is a sine or cosine of the position, or of one axis of a grid.

    The test needs no formula: x(t + 1) + x(t − 1) = 2 cos(ω) x(t) for a sampled sine of frequency ω, and sines and
    cosines in equal number give all rows the length √(width / 2). Three rows decide for nearly all learned tables.

    Args:
        table: Table [rows, width]; with a grid, its patches row by row after ``grid.first`` other rows.
        grid: Grid of patches; ``None`` for positions along one axis.

    >>> import hfposemb as hpe
    >>> from hfposemb.models.positions.position_mechanisms import are_waves
    >>> are_waves(hpe.sinusoidal(64, 16).position.table, None)
    True
    >>> are_waves(hpe.extract("sample:bert").position.table, None)
    False
    """
    first = 0 if grid is None else grid.first
    rows, width = table.shape[0] - first, table.shape[1]
    if width % 2 or rows < 2 * _FEW or rows * width > _MOST_CELLS:
        return False
    if not _alike(np.asarray(table.rows(first, first + _FEW), np.float64), width):
        return False
    whole = np.asarray(table.rows(first, table.shape[0]), np.float64)
    if not _alike(whole, width):
        return False
    if grid is None:
        return bool(_sampled(whole[:, None, :]).all())
    cells = whole[: grid.rows * grid.columns].reshape(grid.rows, grid.columns, width)
    down = _sampled(cells) & _constant(cells.transpose(1, 0, 2))
    across = _sampled(cells.transpose(1, 0, 2)) & _constant(cells)
    return bool((down | across).all())


def _alike(rows: NDArray[np.float64], width: int) -> bool:
    """Return whether rows have the length of width / 2 pairs of a sine and a cosine."""
    lengths = np.linalg.norm(rows, axis=1) / math.sqrt(width / 2)
    return bool(np.isfinite(rows).all() and (np.abs(lengths - 1) < _TOLERANCE).all())


def _sampled(cells: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return whether each column [n, m, width] is a sampled sine along the first axis, for all m alike."""
    middle, around = cells[1:-1], cells[2:] + cells[:-2]
    energy = np.square(middle).sum(axis=(0, 1))
    twice_cosine = (middle * around).sum(axis=(0, 1)) / np.where(energy > 0, energy, 1)
    residual = np.abs(around - twice_cosine * middle).max(axis=(0, 1))
    return np.asarray((residual < _TOLERANCE * 2) & (np.abs(twice_cosine) < 2 + _TOLERANCE))


def _constant(cells: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return whether each column [n, m, width] is the same for all of the first axis."""
    return np.asarray(np.abs(cells - cells[:1]).max(axis=(0, 1)) < _TOLERANCE)


def square_grid(rows: int) -> Grid | None:
    """Return the square grid of as many patches as there are rows, after at most one other row; ``None`` if none fits.

    >>> from hfposemb.models.positions.position_mechanisms import square_grid
    >>> square_grid(65)
    Grid(rows=8, columns=8, first=1)
    """
    for first in (0, 1):
        side = math.isqrt(max(rows - first, 0))
        if side > 2 and side * side == rows - first:
            return Grid(side, side, first)
    return None


_LENGTHS = (
    *("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "seq_length"),
    "model_max_length",
)
_HALVES = ": halves, which most models rotate, are assumed"
_HEADS = ("n_head", "n_heads", "num_attention_heads", "encoder_attention_heads")
_WIDTHS = ("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "embed_dim")
_READS_BOTH = frozenset(("moonshine_streaming", "sam3_vit_model", "clvp", "roformer"))
"""Model types with rotary positions that read a stored table too; RoFormer's holds the angles."""

_APART = frozenset(("vision", "audio", "video"))
"""Towers whose positions are never those of the text."""

_MOST_PAIRS = 4096
"""Rotated pairs of a head, beyond which a tensor that is named as their frequencies is something else."""

_DRAWN = 512
"""Positions drawn if the configuration does not state a longest input."""


@dataclass(frozen=True, eq=False)
class Placed:
    """A position encoding to be made, with the ``tower`` it serves and its ``axis`` or kind of layer."""

    tower: str
    axis: str
    make: Callable[[], PositionEncoding]


def mechanisms(opened: Opened, main: str, absolute: frozenset[str]) -> list[Placed]:
    """Return the position encodings other than stored position tables, those of the text first.

    Args:
        opened: The opened source.
        main: Tower of the token table.
        absolute: Towers with a stored position table.
    """
    found = [
        replace(one, axis=one.axis or ("relative" if one.tower in absolute else ""))
        for one in (*_relative(opened, main), *_convolutions(opened), *_axial(opened, main))
    ]
    served = absolute | {placed.tower for placed in found}
    own = {main, "", *(("encoder", "decoder") if main in ("", "encoder", "decoder") else ())}
    if main == "decoder" and _of_patches(opened.part("encoder")):
        own.discard("encoder")  # its positions are those of images
    config = opened.part("text")
    turns = rotates(config) or not is_known(config) or opened.has_own_code
    beside = (turns and config.get("rope_parameters")) or config.get("position_embeddings_type") == "rotary"
    if beside or not served & own:
        found = [*_by_configuration(opened, main), *found]
    if opened.family("decoder").waves and not opened.family().waves:  # a decoder of audio codes has its own type
        found.append(Placed("decoder", "", partial(_waves, opened, "decoder")))
    return [*found, *_of_towers(opened, absolute)]


def _axial(opened: Opened, main: str) -> Iterator[Placed]:
    for tower, tensors in axial_pairs(opened):
        yield Placed("" if tower == main else tower, "", partial(axial_positions, opened, tensors))


def read_tables(opened: Opened, main: str, found: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """Return the position tables that a model reads, with a note about those of the text that it never does.

    A verified model type of text whose positions need no table reads none, whatever the file holds; of other types, of
    images, and of live models, a table that is there may be read.

    Args:
        opened: The opened source.
        main: Tower of the token table.
        found: Possible position tables.
    """
    config = opened.part("text")
    types = {str(one.get("model_type")) for one in (opened.config, config)}
    known = is_known(opened.config) and is_known(config) and _READS_BOTH.isdisjoint(types) and not _of_patches(config)
    kind = text_kind(opened) if opened.family().kind or rotates(config) else ""
    asked = not opened.named.keys().isdisjoint(PLACES)
    if asked or not known or kind not in ("rotary", "alibi", "none") or isinstance(opened.tensors, LiveTensors):
        return found
    own = ("", "text", main, "encoder", "decoder")
    unread = [one for one in found if tower_of(one.part.split(".")[0]) in own]
    said = f"is stored, but no {config.get('model_type')} model of transformers reads it with this config.json"
    opened.notes.extend(f"{one.tensor} {said}" for one in unread)
    return tuple(one for one in found if one not in unread)


def _of_patches(config: Mapping[str, Any]) -> bool:
    """Return whether a configuration is that of a tower for images."""
    return "vocab_size" not in config and "patch_size" in config


def _by_configuration(opened: Opened, main: str) -> list[Placed]:
    """Return the text's position encoding as stated by its configuration or family."""
    config, family, kind = opened.part("text"), opened.family(), text_kind(opened)
    if family.kind and kind != family.kind:
        said = "states alibi false, as the code reads that trained the model; transformers takes ALiBi"
        opened.notes.append(f"{name_of(opened.config)} {said}")
    if kind == "none":
        order = family.order or "the causal mask alone"
        return [Placed("", "", partial(NoPositions, order))]
    if kind == "alibi":
        if (most := _most_bias(config)) != 8 and is_known(config):
            said = f"states alibi_bias_max {most:g}, as the code reads that trained the model; transformers takes 8"
            opened.notes.append(f"{name_of(opened.config)} {said}")
        return [Placed("", "", partial(_alibi, opened))]
    if family.waves:
        return [Placed(tower, "", partial(_waves, opened, tower)) for tower in _towers_with_waves(opened, main)]
    parts = {tower: opened.part(tower) for tower in ("encoder", "decoder")}
    own = [tower for tower, part in parts.items() if kind_of(part, own_code=opened.has_own_code) == "rotary"]
    # Encoder and decoder with separate configurations, as in T5Gemma; Dia's words enter the encoder alone.
    apart = main == "encoder" and len(own) == 2 and opened.part("encoder") is not opened.part("decoder")
    if kind == "rotary" and not apart:
        if (other := stated_kind(config)) in ("alibi", "none") and is_known(config):
            said = f"states {CALLED[other]}, which no {config.get('model_type')} model of transformers reads"
            opened.notes.append(f"{name_of(opened.config)} {said}: it rotates")
        return _rotary(opened, "")
    kept = [one for one in opened.tensors.names() if one.endswith("inv_freq") and tower_of(one) in ("", main)]
    if kept and not own and not is_known(config):
        tensor = min(kept, key=_layers)
        opened.notes.append(f"{tensor} states no layout{_HALVES}")
        return [Placed("", "", partial(_stored_frequencies, opened, tensor))]
    return [placed for tower in own for placed in _rotary(opened, tower)]


def _rotary(opened: Opened, tower: str) -> list[Placed]:
    config = opened.part(tower or "text")
    from .rope import rotary_encodings, stated_layout, unread_fields
    from .rotary_parts import of_part, tower_encodings

    if _of_patches(config):
        axial = [one for one in of_part("", config) if len(one.axes) > 1]
        if axial and (made := tower_encodings(axial[0], config)):
            return [Placed(tower, axis, partial(itself, encoding)) for axis, encoding in made.items()]
        reason = f"{opened.name} rotates by the row and column of a patch, by angles that config.json does not tell"
        return [Placed(tower, "", partial(Unmeasured, "rotary", reason))]
    if (not is_known(config) or opened.has_own_code) and (unread := unread_fields(config)):
        said = f"{', '.join(unread)}, which hfposemb does not read, so its frequencies may be others"
        opened.notes.append(f"{name_of(opened.config)} states {said}"[:400])
    ratio = real_number(config, "rope_ratio", low=1e-6, high=1e12)
    if config.get("model_type") == "chatglm" and ratio not in (None, 1):
        said = "is taken as a factor of the base, as by ChatGLM3; the code of ChatGLM2 divides positions by it"
        opened.notes.append(f"rope_ratio {ratio:g} {said}")
    inner = config.get("attn_config")
    if config.get("model_type") == "dbrx" and isinstance(inner, dict) and inner.get("rope_theta") not in (None, 1e4):
        said = "states rope_theta in attn_config, as the code reads that trained the model; transformers takes 10,000"
        opened.notes.append(f"{name_of(opened.config)} {said}")
    if not (is_known(config) or is_published(config)) and stated_layout(config) is None:
        opened.notes.append(f"{name_of(opened.config)} states no layout{_HALVES}")
    return [
        Placed(tower, "" if axis == "position" else axis, partial(itself, encoding))
        for axis, encoding in rotary_encodings(config, name=opened.name).items()
    ]


def _stored_frequencies(opened: Opened, tensor: str) -> PositionEncoding:
    """Return rotary positions with the frequencies that a model of unknown type keeps in a tensor."""
    pairs = math.prod(opened.tensors.info(tensor).shape)
    stored = np.asarray(opened.tensors.read(tensor) if 0 < pairs <= _MOST_PAIRS else 0.0, np.float64).ravel()
    if not (np.isfinite(stored) & (stored > 0)).all():
        return Unmeasured("rotary", f"{tensor} in {opened.name} must hold 1 to {_MOST_PAIRS:,} positive frequencies")
    return Rotary(stored, opened.stated(_LENGTHS) or _DRAWN)


def _of_towers(opened: Opened, absolute: frozenset[str]) -> Iterator[Placed]:
    """Yield the rotary positions of images and sound, of the parts whose tensors are there."""
    if not any(isinstance(value, Mapping) for value in opened.whole.values()):
        return  # no part has a configuration of its own
    from .rotary_parts import TOWERS_APART, part_frequencies, part_of, tower_encodings

    there: frozenset[str] | None = None
    for one in part_frequencies(opened.whole):
        tower = tower_of(one.part.replace("_config", ""))
        if tower not in TOWERS_APART:
            continue
        there = frozenset(map(tower_of, opened.tensors.names())) if there is None else there
        if tower not in there:
            continue
        made = tower_encodings(one, part_of(opened.whole, one.part))
        if tower == "vision" and len(one.axes) == 1:
            made = {}  # the rows and columns of patches are rotated in a way of the model's own, as in Llama 4
        for axis, encoding in made.items():
            yield Placed(tower, axis or ("rotary" if tower in absolute else ""), partial(itself, encoding))
        if not made:
            reason = f"{opened.name} rotates patches of images, by angles that config.json does not tell"
            yield Placed(tower, "rotary" if tower in absolute else "", partial(Unmeasured, "rotary", reason))


def absolute(opened: Opened, tower: str, table: EmbeddingTable) -> Absolute:
    """Return the encoding of a stored position table, with the grid of image patches if it has one."""
    family = opened.family(tower)
    filled = bool(family.computed) and opened.part(tower or "text").get(family.computed) is True
    assert table.provenance.tensor is not None
    grid = stored_grid(opened.tensors.info(table.provenance.tensor)) or _patch_grid(opened, tower, table.shape[0])
    kind: Literal["sinusoidal", "learned"] = "learned"
    if filled or family.waves or tower in family.filled:
        kind = "sinusoidal"
    elif grid is not None or not is_known(opened.config):
        kind, grid = _by_numbers(table, grid)
    fixed = isinstance(opened.tensors, LiveTensors) and not opened.tensors.trained(table.provenance.tensor)
    return Absolute(table, "fixed" if fixed and kind == "learned" else kind, table.provenance.row_offset, grid)


def _by_numbers(table: EmbeddingTable, grid: Grid | None) -> tuple[Literal["sinusoidal", "learned"], Grid | None]:
    """Return whether a stored table is one of sinusoids, and its grid, for models of which no rule says it."""
    guesses = (grid,) if grid is not None else (None, square_grid(table.shape[0]))
    for guess in dict.fromkeys(guesses):
        if are_waves(table, guess):
            return "sinusoidal", guess
    return "learned", grid


def _patch_grid(opened: Opened, tower: str, rows: int) -> Grid | None:
    """Return the grid of patches for the configured image size, with up to three other rows before them."""
    down, across = patches_of(opened.part(tower)) or (0, 0)
    return Grid(down, across, rows - down * across) if 0 <= rows - down * across <= 3 and down and across else None


def _alibi(opened: Opened) -> PositionEncoding:
    heads = opened.stated(_HEADS)
    if heads is None:
        return Unmeasured("alibi", f"{opened.name} has ALiBi positions, but does not state the number of heads")
    family, width = opened.family(), opened.stated(_WIDTHS)
    slopes = alibi_slopes(heads, longest=_most_bias(opened.part("text")), kept=family.alibi_kept)
    scale = 1 / math.sqrt(width / heads) if family.alibi_scaled and width is not None else 1.0
    return Alibi(slopes, opened.stated(_LENGTHS) or 2048, scale, rounded=family.alibi_scaled)


def _most_bias(config: Mapping[str, Any]) -> float:
    """Return the ``alibi_bias_max`` of a configuration, as MPT's states it."""
    inner = config.get("attn_config")
    return real_number(inner if isinstance(inner, dict) else config, "alibi_bias_max", low=1e-3, high=1e3) or 8.0


def _towers_with_waves(opened: Opened, main: str) -> list[str]:
    """Return encoder and decoder if both receive tokens, else the tower of the tokens."""
    towers = {tower_of(name) for name in opened.tensors.names()} & {"encoder", "decoder"}
    return sorted(towers, reverse=True) if len(towers) == 2 and main != "decoder" else [main]


def _waves(opened: Opened, tower: str) -> PositionEncoding:
    """Return sinusoids that a model computes and does not store, up to the longest input in its configuration."""
    family = opened.family(tower or "text")
    width = opened.stated(_WIDTHS, tower or "text")
    sides = f"max_{'source' if tower == 'encoder' else 'target'}_positions"
    length = opened.stated((*_LENGTHS, sides), tower or "text")
    if width is None:
        return Unmeasured("sinusoidal", f"{opened.name} computes sinusoids, but does not state their width")
    length, form = length or _DRAWN, cast("Layout", family.waves)
    first = row_offset(family, opened.part(tower or "text"), length + 2) if family.counts_padding else family.first
    name, scale = f"{opened.name} positions", 1 / math.sqrt(width) if family.waves_scaled else 1.0
    order = ", cosines first" if family.cosines_first else ""
    notes = (f"computed: sinusoids in the layout {form}{order}, position 0 at the angles of {first}",)
    provenance = Provenance(opened.name, commit=opened.commit, nbytes=4 * length * width, notes=notes)

    read = partial(_sines, width, form, first, scale, family.cosines_first)
    table = EmbeddingTable(name, (length, width), np.dtype(np.float32), provenance, read)
    return Absolute(table, "sinusoidal", first)


def _sines(
    width: int, layout: Layout, offset: int, scale: float, cosines_first: bool, start: int, stop: int
) -> NDArray[np.float32]:
    from ...tables.closed_forms import sine_rows

    rows = sine_rows(start, stop, width, layout=layout, offset=offset) * scale
    half = width // 2
    return (np.roll(rows[:, : 2 * half], half, axis=1) if cosines_first else rows).astype(np.float32)


@lru_cache(maxsize=16)
def _likely(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names that may be those of relative positions."""
    endings = tuple(rule.ending for rule in RELATIVE)
    return tuple(name for name in names if name.endswith(endings))


def _relative(opened: Opened, main: str) -> Iterator[Placed]:
    """Yield the relative positions stored in tensors for every tower, from the first layer if all layers have them."""
    # Models with many experts have tens of thousands of names, so filter them before applying the rules.
    likely = _likely(opened.tensors.names())
    for rule in RELATIVE if likely else ():
        towers: dict[str, list[str]] = {}
        for name in filter(rule.fits, likely):
            towers.setdefault(tower_of(name), []).append(name)
        if set(towers) == {"encoder"} and main == "":
            # Without a decoder, the encoder is the whole model.
            towers = {"": towers["encoder"]}
        for tower, names in towers.items():
            if len(names) > 1:
                where = tower or "position"
                opened.notes.append(f"{where}: {len(names)} layers have their own biases; those of the first are shown")
            make = partial(_relative_of, opened, rule, tower, min(names, key=_layers))
            yield Placed(tower, rule.axis, make)


def _layers(name: str) -> list[int]:
    return [int(part) for part in name.split(".") if part.isdecimal()]


def _relative_of(opened: Opened, rule: RelativeRule, tower: str, tensor: str) -> PositionEncoding:
    length = opened.stated(_LENGTHS, tower or "text") or _DRAWN
    if rule.rows == "unread":
        return Unmeasured("relative-bias", f"{opened.name} has relative positions, but {rule.why}")
    if rule.rows == "waves":
        return _relative_waves(opened, tower, length)
    if reason := table_refusal(opened.tensors, tensor):
        raise CheckpointError(f"{opened.name}: {reason}")
    shape = [size for size in opened.tensors.info(tensor).shape if size != 1]
    if len(shape) != 2:
        raise CheckpointError(f"{tensor} in {opened.name} must have two axes; its shape is {shape}")
    rows = np.asarray(opened.tensors.read(tensor), np.float64).reshape(shape)
    if rule.rows == "buckets":
        return _bucketed(opened, rule, tower, rows, length)
    if rule.rows == "window":
        return _window(opened, rows)
    zero = len(rows) // 2
    stated = opened.part(tower or "text").get(rule.zero) if rule.zero else None
    sign = rule.sign if isinstance(stated, int) or not rule.zero else -1
    if isinstance(stated, int) and 0 <= stated < len(rows):
        zero = stated
    if rule.bias:
        return RelativeBias(rows, length, zero=zero)
    if rule.rows == "logarithmic":
        return _logarithmic(opened, rows, length)
    return RelativeTable(rows, sign * (np.arange(len(rows)) - zero), length, rule.clipped)


def _bucketed(
    opened: Opened, rule: RelativeRule, tower: str, rows: NDArray[np.float64], length: int
) -> PositionEncoding:
    """Return T5's biases if the distances with a bucket of their own end before the largest distinguished distance."""
    far, both = opened.stated(rule.far, tower or "text") or 128, tower != "decoder"
    exact = len(rows) // 4 if both else len(rows) // 2
    if not 1 <= exact < far:
        found = f"{len(rows)} buckets for distances up to {far}"
        return Unmeasured("relative-bias", f"{opened.name} has {found}, for which T5's formula is not defined")
    return RelativeBias(rows, length, bidirectional=both, max_distance=far)


def _window(opened: Opened, rows: NDArray[np.float64]) -> PositionEncoding:
    """Return the biases of a square window; up to three further rows belong to a class token (BEiT)."""
    for extra in (0, 3):
        side = math.isqrt(max(0, len(rows) - extra))
        if side * side == len(rows) - extra and side % 2:
            return WindowBias(rows[: side * side].reshape(side, side, -1))
    return Unmeasured("relative-bias", f"{opened.name} has biases for a non-square window")


def _logarithmic(opened: Opened, rows: NDArray[np.float64], length: int) -> PositionEncoding:
    """Return DeBERTa's table: rows by query − key, in widening buckets if the configuration states some.

    Near distances have one row each, up to half of the buckets; those beyond share rows on a logarithmic scale up to
    the longest input (He et al. 2021, arXiv 2006.03654; ``make_log_bucket_position`` in transformers).
    """
    config = opened.part("text")
    span, buckets = len(rows) // 2, config.get("position_buckets")
    if not isinstance(buckets, int) or buckets <= 0 or 2 * buckets != len(rows):
        return RelativeTable(rows, span - np.arange(len(rows)), length)
    farthest = opened.stated(("max_relative_positions",)) or length
    distances = np.arange(farthest)
    middle = buckets // 2
    with np.errstate(divide="ignore"):
        scaled = np.log(distances / middle) / math.log((farthest - 1) / middle) * (middle - 1)
    place = np.where(distances <= middle, distances, np.ceil(np.where(distances > 0, scaled, 0)) + middle).astype(int)
    place, first = np.unique(np.minimum(place, span - 1), return_index=True)
    nearest = distances[first]
    # Row span + p belongs to query − key in bucket p; distances here are key − query.
    kept = np.concatenate([span - place[::-1], span + place[1:]])
    return RelativeTable(rows[kept], np.concatenate([nearest[::-1], -nearest[1:]]), length)


def _relative_waves(opened: Opened, tower: str, length: int) -> PositionEncoding:
    """Return the sinusoids of distances that Transformer-XL projects and adds to keys.

    Source: Dai et al. 2019, arXiv 1901.02860.
    """
    width = opened.stated(_WIDTHS, tower or "text")
    if width is None:
        return Unmeasured("relative-table", f"{opened.name} has sinusoids of distances, but does not state their width")
    from ...tables.closed_forms import relative_sines

    return relative_sines(min(length, _DRAWN), width, length)


@lru_cache(maxsize=16)
def _of_convolutions(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of tensors in positional convolutions."""
    # The substring test is fast and excludes most names.
    return tuple(name for name in names if CONVOLUTION in name and CONVOLUTION in name.split("."))


def _convolutions(opened: Opened) -> Iterator[Placed]:
    """Yield the positional convolution of every tower that has one."""
    towers: dict[str, str] = {}
    for name in _of_convolutions(opened.tensors.names()):
        if len(opened.tensors.info(name).shape) == 3:
            shape, known = opened.tensors.info(name).shape, towers.get(tower_of(name))
            if known is None or math.prod(shape) > math.prod(opened.tensors.info(known).shape):
                towers[tower_of(name)] = name
    for tower, name in towers.items():
        channels, group, width = opened.tensors.info(name).shape
        yield Placed(tower, "", partial(Convolution, width, max(channels // max(group, 1), 1)))


def unplaced(opened: Opened) -> str:
    """Return why no positions were found, which a model of unknown type may have without a table."""
    from .rope import unread_fields

    config, said = opened.part("text"), unmatched(opened)
    kind = config.get("model_type")
    if not isinstance(kind, str) or is_known(config):
        return said
    unread = unread_fields(config)
    only = f" that can be read, only {', '.join(unread)[:200]}" if unread else ""
    stated = f"config.json states no rotary or ALiBi positions{only}"
    return f"the type {one_line(kind, width=40)!r} is unknown, and {stated}; {said}"


def keys(placed: list[tuple[str, str]], main: str | None = None) -> list[str]:
    """Return a key for every (tower, axis): the tower only if there are several, ``position`` if nothing remains.

    If there are towers other than encoder and decoder, and none is ``text``, encodings without a tower get ``text``.

    Args:
        placed: Tower and axis of each encoding.
        main: Tower of the token table, ``None`` without one; positions of images or sound alone are not its own.
    """
    towers = {tower for tower, _ in placed}
    several = len(towers) > 1 or (main is not None and main not in towers and bool(towers & _APART))
    beside = several and bool(towers - {"", "encoder", "decoder"})
    found: list[str] = []
    taken: Counter[str] = Counter()
    for tower, axis in placed:
        named = (tower or ("text" if beside and "text" not in towers else "")) if several else ""
        key = ".".join(filter(None, (named, axis))) or "position"
        taken[key] += 1
        found.append(f"{key} {taken[key]}" if taken[key] > 1 else key)
    return found
