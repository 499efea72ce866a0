"""Verification of extracted tables, frequencies, slopes and inputs against the model as loaded by transformers.

It observes the model rather than its documentation: the rows it looks up while running, the frequencies in its modules,
the input of its first layer. Needs torch and transformers, and reads the whole model into memory.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import HfposembError, MissingExtraError, SourceError, one_line
from ..samples import TRAINED, folder
from ..tables.embeddings import Embeddings
from ..tables.encodings import Alibi, PositionEncoding, RelativeBias, RelativeTable, WindowBias
from ..tables.rotary import Rotary
from ..tables.source_parser import parse_source
from ..tables.sources import BuiltinSource, HubSource, SampleSource
from .config_values import in_gguf
from .extraction import extract
from .families import RELATIVE
from .table_names import POSITION_ENDING, tower_of

if TYPE_CHECKING:
    import torch

Verdict = Literal["equal", "different", "missing", "not compared"]

PIECES = 11
"""Number of tokens fed to a model to observe its lookups."""

CLOSE = 1e-5
"""Tolerance of float32 comparisons: of the first layer's input, and doubled of frequencies."""


@dataclass(frozen=True)
class Check:
    """One comparison between ``ours`` and ``theirs``; ``difference`` is the largest absolute difference."""

    what: str
    verdict: Verdict
    ours: str
    theirs: str
    difference: float | None = None


@dataclass(frozen=True)
class Verification:
    """All comparisons for one source."""

    source: str
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether at least one comparison found equal values and none found different or missing ones."""
        verdicts = {check.verdict for check in self.checks}
        return "equal" in verdicts and not verdicts & {"different", "missing"}

    def __str__(self) -> str:
        """List all comparisons: subject, verdict, largest difference, and both sides."""
        lines = [self.source]
        for check in self.checks:
            size = "" if check.difference is None else f"{check.difference:.1e}"
            lines.append(f"  {check.what:<21}{check.verdict:<14}{size:<9}{check.ours} / {check.theirs}")
        return "\n".join(lines)

    def of(self, what: str) -> tuple[Check, ...]:
        """Return the checks of one kind, such as ``token table``."""
        return tuple(check for check in self.checks if check.what.startswith(what))


@dataclass(frozen=True, eq=False)
class Lookup:
    """Rows that a model read from a table: ``rows`` are the indices, in the shape in which they were requested."""

    name: str
    weight: NDArray[np.float32]
    rows: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Observed:
    """What a model did with ``ids``: its lookups, and the input of the first layer of each list of layers."""

    ids: NDArray[np.int64]
    lookups: tuple[Lookup, ...]
    layers: Mapping[str, NDArray[np.float32]]


def verify(source: str, *, revision: str | None = None, token: str | bool | None = None) -> Verification:
    """Load a model with transformers and compare it with everything that was extracted.

    Args:
        source: A folder, a repository on the Hub or a whole sample.
        revision: Branch, tag or commit of a repository.
        token: Token for the Hub; ``None`` for the user's own, ``False`` for none.

    Raises:
        SourceError: If transformers cannot load the source.
        MissingExtraError: If torch or transformers is not installed.
    """
    try:
        import torch
        import transformers
    except ImportError as error:
        raise MissingExtraError("transformers", extra="torch", purpose="verify") from error
    named = parse_source(source)
    part = isinstance(named, SampleSource) and (named.step is not None or named.name not in TRAINED)
    if part or isinstance(named, BuiltinSource):
        raise SourceError(
            f"transformers cannot load {source}; give a folder, a repository or a complete sample such as sample:bert"
        )
    embeddings = extract(source, revision=revision, token=token)
    if in_gguf(embeddings.config):
        raise SourceError(f"{source} is a GGUF file, not one of transformers; verify the checkpoint it was made from")
    try:
        if isinstance(named, HubSource):
            where, options = named.repo, {"revision": revision or named.revision, "token": token}
        else:
            where, options = str(folder(named.name) if isinstance(named, SampleSource) else named.path), {}
        model = transformers.AutoModel.from_pretrained(where, dtype=torch.float32, **options)
    except Exception as error:
        reason = one_line(error)[:200] or type(error).__name__
        raise SourceError(f"transformers cannot load {source}: {reason}") from error
    return compare(embeddings, model.eval())


def compare(embeddings: Embeddings, model: torch.nn.Module) -> Verification:
    """Compare what was extracted from a checkpoint with the live model."""
    seen = observe(model)
    checks = [
        *_tokens(embeddings, model, seen),
        *_positions(embeddings, model, seen),
        *_relatives(embeddings, model, seen),
        *_rotaries(embeddings, model),
        *_alibis(embeddings, model),
        *_inputs(embeddings, seen),
    ]
    return Verification(embeddings.name, tuple(checks))


# --- what the model does ---------------------------------------------------------------------------------------------


def observe(model: torch.nn.Module) -> Observed:
    """Run a model on a few tokens, or noise for images and sounds; record its lookups and layer inputs.

    If it fails, other inputs and then its parts are tried; what was recorded before a failure counts.
    """
    import torch

    ids = _ids(model)
    names = {
        tensor.data_ptr(): name
        for name, tensor in (*model.named_buffers(remove_duplicate=False), *model.named_parameters())
    }
    lookups: list[Lookup] = []
    layers: dict[str, NDArray[np.float32]] = {}
    for part, arguments in _attempts(model, torch.from_numpy(ids)[None]):
        found, fed = _run(part, arguments, names)
        lookups += found
        if fed and any(np.array_equal(one.rows.reshape(-1), ids) for one in found):
            layers = fed
            break
    return Observed(ids, tuple(lookups), layers)


def _ids(model: torch.nn.Module) -> NDArray[np.int64]:
    """Return ids in random order without the first few, which are often special; tiny vocabularies repeat ids."""
    table = _input_embeddings(model)
    most = min(int(table.weight.shape[0]), 60) if table is not None else 36
    rng = np.random.default_rng(1)
    if most < 2 * PIECES:
        padding = getattr(getattr(model, "config", None), "pad_token_id", None)
        return np.resize([one for one in rng.permutation(most) if one != padding], PIECES).astype(np.int64)
    return np.asarray(rng.permutation(max(most - 8, PIECES))[:PIECES] + min(5, max(most - PIECES, 0)), np.int64)


def _input_embeddings(model: torch.nn.Module) -> Any:
    import torch

    try:
        found = model.get_input_embeddings()  # type: ignore[operator]
    except (AttributeError, NotImplementedError, TypeError, KeyError):
        return None
    return found if isinstance(found, torch.nn.Embedding) and found.weight.shape[0] > 1 else None


def _run(
    part: torch.nn.Module, arguments: Mapping[str, torch.Tensor], names: Mapping[int, str]
) -> tuple[list[Lookup], dict[str, NDArray[np.float32]]]:
    import torch
    from torch.overrides import TorchFunctionMode

    lookups: list[Lookup] = []
    fed: dict[str, NDArray[np.float32]] = {}

    class Watch(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if func is torch.nn.functional.embedding:
                rows, weight = [*args, *(kwargs[name] for name in ("input", "weight") if name in kwargs)][:2]
                name = names.get(weight.data_ptr(), "")
                lookups.append(Lookup(name, weight.detach().float().numpy(), rows.detach().numpy().copy()))
            return func(*args, **kwargs)

    def hook(name: str) -> Any:
        def record(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            values = [one for one in (*args, *kwargs.values()) if isinstance(one, torch.Tensor)]
            vectors = [one for one in values if one.is_floating_point() and one.ndim >= 2]
            if vectors:
                fed.setdefault(name, vectors[0].detach().float().numpy().copy())

        return record

    lists = [(name, one) for name, one in part.named_modules() if isinstance(one, torch.nn.ModuleList) and len(one)]
    hooks = [one[0].register_forward_pre_hook(hook(name), with_kwargs=True) for name, one in lists]
    try:
        with torch.no_grad(), Watch():
            part(**arguments)
    except Exception:  # noqa: BLE001 - a model may reject made-up inputs in any way; what was recorded still counts
        return lookups, fed
    finally:
        for one in hooks:
            one.remove()
    return lookups, fed


_PARTS = ("language_model", "text_model", "text_encoder", "decoder", "model", "thinker", "transformer", "encoder")


def _attempts(model: torch.nn.Module, ids: torch.Tensor) -> Iterator[tuple[torch.nn.Module, dict[str, torch.Tensor]]]:
    """Yield parts of a model with arguments to try: tokens, tokens with an image or a sound, and either alone."""
    import torch

    generator = torch.Generator().manual_seed(0)
    names = inspect.signature(model.forward).parameters
    words = _words(model, ids)
    if words:
        yield model, words
    if "pixel_values" in names:
        image = torch.randn(1, *_image(getattr(model, "config", None)), generator=generator)
        yield model, {**words, "pixel_values": image}
        yield model, {"pixel_values": image}
    if "input_values" in names:
        yield model, {"input_values": torch.randn(1, 4000, generator=generator)}
    if "input_features" in names:
        config = getattr(model, "config", None)
        mels, frames = getattr(config, "num_mel_bins", 80), 2 * getattr(config, "max_source_positions", 40)
        rest = {name: value for name, value in words.items() if name != "input_ids"}
        yield model, {**rest, "input_features": torch.randn(1, mels, frames, generator=generator)}
    for name in _PARTS:
        part = getattr(model, name, None)
        if isinstance(part, torch.nn.Module) and (words := _words(part, ids)):
            yield part, words


def _words(part: torch.nn.Module, ids: torch.Tensor) -> dict[str, Any]:
    names = inspect.signature(part.forward).parameters
    words: dict[str, Any] = {name: ids for name in ("input_ids", "decoder_input_ids") if name in names}
    if not words:
        return {}
    open_ended = any(one.kind is one.VAR_KEYWORD for one in names.values())
    if "use_cache" in names or open_ended:
        words["use_cache"] = False
    if "bbox" in names and names["bbox"].default is inspect.Parameter.empty:
        words["bbox"] = ids.new_zeros(*ids.shape, 4)
    return words


def _image(config: Any) -> tuple[int, int, int]:
    """Return channels, height and width of the images in a configuration."""
    for one in (config, *(getattr(config, name, None) for name in ("vision_config", "image_config", "encoder"))):
        size, channels = getattr(one, "image_size", None), getattr(one, "num_channels", 3)
        if isinstance(size, int):
            size = (size, size)
        if isinstance(size, list | tuple) and len(size) == 2:
            return (channels if isinstance(channels, int) else 3, int(size[0]), int(size[1]))
    return 3, 224, 224


# --- what is compared ------------------------------------------------------------------------------------------------


def _differ(ours: NDArray[Any], theirs: NDArray[Any]) -> float | None:
    """Return the largest difference, 0.0 only if all values are bitwise equal; ``None`` if the shapes differ."""
    if ours.shape != theirs.shape:
        return None
    if np.array_equal(ours, theirs, equal_nan=True):
        return 0.0
    return float(max(np.nanmax(np.abs(ours.astype(np.float64) - theirs)), np.finfo(np.float32).tiny))


def _nearest(what: str, theirs: str, values: NDArray[Any], ours: Mapping[str, NDArray[Any]]) -> Check:
    """Compare values of the model with the nearest of ours."""
    found = {name: difference for name, one in ours.items() if (difference := _differ(one, values)) is not None}
    if not found:
        return Check(what, "missing", ", ".join(ours)[:80] or "none", f"{theirs} {list(values.shape)}")
    name = min(found, key=lambda name: found[name])
    return Check(what, "equal" if found[name] == 0.0 else "different", name, theirs, found[name])


def _tokens(embeddings: Embeddings, model: torch.nn.Module, seen: Observed) -> Iterator[Check]:
    theirs = {
        one.name: one.weight
        for one in seen.lookups
        if one.name and len(one.weight) > 1 and np.array_equal(one.rows.reshape(-1), seen.ids)
    }
    table = _input_embeddings(model)
    if table is not None and not theirs:
        theirs["get_input_embeddings()"] = table.weight.detach().float().numpy()
    if "token" not in embeddings.tables:
        yield from (Check("token table", "missing", "none", name) for name in list(theirs)[:1])
        return
    ours = embeddings.token
    if theirs:
        checks = [_nearest("token table", name, one, {ours.name: ours.vectors}) for name, one in theirs.items()]
        yield next((one for one in checks if one.verdict == "equal"), checks[0])
        return
    equal = [name for name, one in _embeddings_of(model) if _differ(ours.vectors, one) == 0.0]
    verdict: Verdict = "equal" if equal else "different"
    yield Check("token table", verdict, str(ours.provenance.tensor), equal[0] if equal else "no nn.Embedding")


def _embeddings_of(model: torch.nn.Module) -> Iterator[tuple[str, NDArray[np.float32]]]:
    import torch

    for name, one in model.named_modules():
        if isinstance(one, torch.nn.Embedding):
            yield name, one.weight.detach().float().numpy()


_NOT_POSITIONS = re.compile(
    r"ids$|class_pos|query_pos|conv_embed|shared_(image_)?embedding|no_memory|tile_embedding|embed_global|\.\d+\.|rel|pe_k"
)


def _positions(embeddings: Embeddings, model: torch.nn.Module, seen: Observed) -> Iterator[Check]:
    """Compare tables that are read sequentially, including the offset, then those that are not read by lookup."""
    ours = {name: table for name, table in embeddings.tables.items() if "token" not in name}
    whole = {name: table.vectors for name, table in ours.items()}
    found: dict[str, dict[int, NDArray[Any]]] = {}
    for one in seen.lookups:
        rows = one.rows.reshape(-1)
        if len(rows) >= 5 and (np.diff(rows) == 1).all() and one.name and "embed_global" not in one.name:
            found.setdefault(one.name, {})[int(rows[0])] = one.weight[int(rows[0]) :]
    for name, starts in found.items():
        checks = [_nearest("position table", f"{name} from row {start}", one, whole) for start, one in starts.items()]
        # A decoder that looks ahead also reads its rows shifted by one; the match for the first layer counts.
        yield next((check for check in checks if check.verdict == "equal"), checks[0])
    contents = [_rows_of(table.vectors) for table in ours.values()]
    for name, value in model.state_dict().items():
        ending = name.removesuffix(".weight").removesuffix(".embedding").rsplit(".", 1)[-1]
        if name in found or value.ndim < 2 or not POSITION_ENDING.fullmatch(ending) or _NOT_POSITIONS.search(name):
            continue
        theirs = _rows_of(_as_rows(value.detach().float().numpy()))
        held = any(mine <= theirs and len(mine) >= len(theirs) - 3 for mine in contents)
        parts = [mine for mine in contents if mine < theirs]
        held = held or (bool(parts) and set().union(*parts) == theirs)
        yield Check(
            "position table", "equal" if held else "missing", ", ".join(ours)[:80], f"{name} {list(value.shape)}"
        )


def _as_rows(values: NDArray[Any]) -> NDArray[Any]:
    axes = [size for size in values.shape[:-1] if size != 1]
    if len(axes) == 2 and values.shape[-1] == axes[1] < axes[0]:
        values = np.moveaxis(values.reshape(*axes, values.shape[-1]), 0, -1)
    return values.reshape(-1, values.shape[-1])


def _rows_of(values: NDArray[Any]) -> set[bytes]:
    return {row.tobytes() for row in np.ascontiguousarray(values, np.float32)}


def _relatives(embeddings: Embeddings, model: torch.nn.Module, seen: Observed) -> Iterator[Check]:
    """Compare biases by distance if the model looks them up, and all other stored relative tensors by their rows."""
    ours = {name: encoding for name, encoding in embeddings.positions.items() if _is_relative(encoding)}
    looked: set[str] = set()
    for one in seen.lookups:
        rows = one.rows.squeeze()
        square = rows.ndim == 2 and rows.shape[0] == rows.shape[1] > 2 and len(np.unique(rows)) > 2
        if one.name in looked or not (square and np.array_equal(rows[1:, 1:], rows[:-1, :-1])):
            continue
        looked.add(one.name)
        if not any(rule.fits(one.name) for rule in RELATIVE) or _later_layer(one.name, looked):
            continue
        theirs = one.weight[rows]
        distances = np.arange(len(rows))[None, :] - np.arange(len(rows))[:, None]
        values = {name: _by_distance(encoding, distances) for name, encoding in ours.items()}
        yield _nearest("relative positions", one.name, theirs, values)
    stored = [(name, value) for name, value in model.state_dict().items() if name not in looked and value.ndim >= 2]
    for rule in RELATIVE:
        if rule.rows in ("unread", "waves"):
            continue
        fitting = [(name, value) for name, value in stored if rule.fits(name) and "cross" not in name.lower()]
        if looked & {name for name in looked if name.endswith(rule.ending)}:
            continue
        for tower in dict.fromkeys(tower_of(name) for name, _ in fitting):
            name, value = next(one for one in fitting if tower_of(one[0]) == tower)
            theirs_rows = _rows_of(value.detach().float().reshape(-1, value.shape[-1]).numpy())
            held = any(mine <= theirs_rows for mine in map(_stored_rows, ours.values()) if mine)
            yield Check("relative positions", "equal" if held else "missing", ", ".join(ours)[:80], name)


def _is_relative(encoding: PositionEncoding) -> bool:
    return isinstance(encoding, RelativeBias | RelativeTable | WindowBias)


def _later_layer(name: str, looked: set[str]) -> bool:
    """Return whether a lower layer of the same tower has already been compared."""
    without = re.sub(r"\.\d+", "", name)
    return any(other != name and re.sub(r"\.\d+", "", other) == without for other in looked)


def _by_distance(encoding: PositionEncoding, distances: NDArray[np.int64]) -> NDArray[np.float32]:
    if isinstance(encoding, RelativeBias):
        return encoding.bias_at(distances).astype(np.float32)
    if isinstance(encoding, RelativeTable):
        return np.asarray(encoding.rows, np.float32)[encoding.row_of(distances)]
    return np.empty(0, np.float32)


def _stored_rows(encoding: PositionEncoding) -> set[bytes]:
    if isinstance(encoding, RelativeTable):
        return _rows_of(np.asarray(encoding.rows))
    if isinstance(encoding, RelativeBias | WindowBias):
        return _rows_of(encoding.bias.reshape(-1, encoding.bias.shape[-1]))
    return set()


def _rotaries(embeddings: Embeddings, model: torch.nn.Module) -> Iterator[Check]:
    """Compare frequencies, scaling and layout with those of every rotary module of the text; equal ones once.

    Frequencies that change with the length of the input are also compared beyond the trained length.
    """
    ours = {name: one for name in embeddings.positions if isinstance(one := embeddings.positions[name], Rotary)}
    done: set[tuple[bytes, float]] = set()
    for path, module in model.named_modules():
        if not _is_text(path, type(module).__name__):
            continue
        for buffer, values in module.named_buffers(recurse=False):
            if not buffer.endswith("inv_freq") or "original" in buffer:
                continue
            prefix = buffer.removesuffix("inv_freq")
            scaling = float(getattr(module, f"{prefix}attention_scaling", None) or 1.0)
            theirs = values.double().numpy()
            if (theirs.tobytes(), scaling) in done:
                continue
            done.add((theirs.tobytes(), scaling))
            name = f"{path}.{buffer}"
            near = {
                key: float(np.abs(one.at(1).inv_freq - theirs).max())
                for key, one in ours.items()
                if one.inv_freq.shape == theirs.shape and abs(one.attention_scaling - scaling) < 1e-6
            }
            key = min(near, key=lambda key: near[key], default="")
            if not near and "token" not in embeddings.tables:
                yield Check(
                    "rotary frequencies", "not compared", "", f"{name} rotates by rows and columns, or by frames"
                )
                continue
            if not near or near[key] > 2 * CLOSE:
                verdict: Verdict = "different" if ours else "missing"
                yield Check("rotary frequencies", verdict, ", ".join(ours) or "none", name, near.get(key))
                continue
            yield Check("rotary frequencies", "equal", key, name, near[key])
            if ours[key].by_length is not None:
                yield from _beyond(ours[key], module, prefix, key, name)
            if (layout := _layout(module, prefix.rstrip("_"), len(theirs))) is not None:
                same: Verdict = "equal" if layout == ours[key].layout else "different"
                yield Check("rotary layout", same, ours[key].layout, layout)


def _beyond(ours: Rotary, module: torch.nn.Module, prefix: str, key: str, name: str) -> Iterator[Check]:
    """Compare frequencies after inputs of twice to eight times the trained length, then return to a short input."""
    import torch

    kind = {"layer_type": prefix.removesuffix("_")} if prefix else {}
    trained = ours.scaled.trained_length

    def rotate(length: int) -> None:
        with torch.no_grad():  # one position is enough: the module looks at the largest
            module(torch.zeros(1, 1, 1), position_ids=torch.tensor([[length - 1]]), **kind)

    for times in (2, 4, 8):
        what = f"rotary frequencies at {times} × {trained:,} positions"
        try:
            rotate(times * trained)
            theirs = getattr(module, f"{prefix}inv_freq").double().numpy()
        except Exception as error:  # noqa: BLE001 - modules of other models have other signatures
            yield Check(what, "not compared", key, f"{name}: {type(error).__name__}")
            continue
        far = float(np.abs(ours.at(times * trained).inv_freq - theirs).max())
        yield Check(what, "equal" if far <= CLOSE else "different", key, name, far)
    with suppress(Exception):
        rotate(1)


_OTHER_ROTARY = re.compile(
    r"protein|pos_emb$|time_emb|token2wav|bbox|encode_pos|rel_bias|speech|compress", re.IGNORECASE
)


def _is_text(path: str, kind: str) -> bool:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind).lower()
    others = ("vision", "audio", "video", "talker", "action", "qformer")
    return not (tower_of(path) in others or tower_of(words) in others or _OTHER_ROTARY.search(path))


def _layout(module: torch.nn.Module, kind: str, pairs: int) -> str | None:
    """Return the layout of rotated pairs, measured with the model's own function; ``None`` if that is not possible."""
    import torch

    functions = vars(sys.modules[type(module).__module__])
    config = getattr(module, "config", None)
    interleaved = bool(getattr(config, "rope_interleave", False)) and "apply_rotary_pos_emb_interleave" in functions
    turn = functions.get("apply_rotary_pos_emb_interleave" if interleaved else "apply_rotary_pos_emb")
    if turn is None:
        return None
    width = 2 * pairs
    # One head for each unit vector; two of them form a pair if they are rotated into the same two dimensions.
    query = torch.eye(width)[None, :, None, :].expand(1, width, 2, width).contiguous()
    places = torch.tensor([[0, 1]])
    try:
        extra = {"layer_type": kind} if "layer_type" in inspect.signature(module.forward).parameters else {}
        cos, sin = module(query, places, **extra)
        turned = turn(query, query.clone(), cos, sin)[0][0, :, 1]
    except Exception:  # noqa: BLE001 - functions with other signatures are not measured
        return None
    ends = turned.abs().gt(1e-6)
    same = [head for head in range(1, width) if ends.shape == (width, width) and torch.equal(ends[head], ends[0])]
    return {1: "interleaved", pairs: "half"}.get(same[0]) if len(same) == 1 and pairs > 1 else None


def _alibis(embeddings: Embeddings, model: torch.nn.Module) -> Iterator[Check]:
    """Compare slopes with those of the biases that the model's own function computes."""
    import torch

    ours = next((one for name in embeddings.positions if isinstance(one := embeddings.positions[name], Alibi)), None)
    module = sys.modules[type(model).__module__]
    build = next((one for name, one in vars(module).items() if re.fullmatch(r"build\w*_alibi_tensor", name)), None)
    if build is None or (ours is None and not getattr(getattr(model, "config", None), "alibi", True)):
        return
    if ours is None:
        yield Check("ALiBi slopes", "missing", "none", build.__name__)
        return
    heads, length = len(ours.slopes), 9
    if len(inspect.signature(build).parameters) == 3 and "attention_mask" in inspect.signature(build).parameters:
        bias = build(torch.ones(1, length), heads, torch.float32).reshape(heads, length)
    else:
        bias = build(heads, length).reshape(heads, length)
    slopes = (bias[:, -1] - bias[:, 0]).double().numpy() / (length - 1)
    difference = float(np.abs(slopes - ours.slopes).max())
    # Falcon rounds its biases to bfloat16, which has 8 bits.
    verdict: Verdict = "equal" if difference <= (2**-8 if ours.rounded else 1e-6) else "different"
    yield Check("ALiBi slopes", verdict, f"{heads} slopes", build.__name__, difference)


def _inputs(embeddings: Embeddings, seen: Observed) -> Iterator[Check]:
    looked = [one.name for one in seen.lookups if np.array_equal(one.rows.reshape(-1), seen.ids)]
    if "token" not in embeddings.tables or not looked:
        return
    others = {"vision", "audio", "video", *(("encoder",) if tower_of(looked[0]) == "decoder" else ())}
    try:
        ours = embeddings.inputs(seen.ids.tolist()).normed
    except HfposembError as error:
        yield Check("first layer's input", "missing", str(error)[:160], "")
        return
    differences: dict[str, float] = {}
    for name, fed in seen.layers.items():
        theirs = fed.squeeze()
        theirs = theirs[:, 0] if theirs.ndim == 3 and theirs.shape[0] == len(seen.ids) else theirs
        if tower_of(name) in others or theirs.ndim != 2:
            continue
        # Models that use windows, or add a vector of their own, have more rows than tokens.

        if theirs.shape[0] >= len(ours) and theirs.shape[1] == ours.shape[1]:
            scale = max(1.0, float(np.abs(theirs).max()))
            differences[name] = float(np.abs(theirs[: len(ours)] - ours).max()) / scale
    if not differences:
        yield Check("first layer's input", "not compared", "", "no list of layers has inputs of this width")
        return
    name = min(differences, key=lambda name: differences[name])
    verdict: Verdict = "equal" if differences[name] <= CLOSE else "different"
    yield Check("first layer's input", verdict, f"{list(ours.shape)}", name, differences[name])
