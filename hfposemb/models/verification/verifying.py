"""Verification of extracted tables, heads, frequencies, slopes and inputs against the model as transformers loads it.

It observes the model rather than its documentation: the rows it looks up while running, the frequencies in its modules,
the input of its first layer. Needs torch and transformers, and reads the whole model into memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...checkpoints.access import Access, local_path
from ...checkpoints.pickles.safe_torch import refusal
from ...errors import HfposembError, MissingExtraError, SourceError, one_line
from ...samples import TRAINED, folder
from ...tables.embeddings import Embeddings
from ...tables.encodings import Absolute, PositionEncoding, RelativeBias, RelativeTable, WindowBias
from ...tables.source_parser import parse_source
from ...tables.sources import BuiltinSource, HubSource, SampleSource
from ...tables.tabular import Columns, Tabular
from ..architectures.config_values import class_of, in_gguf
from ..architectures.families import RELATIVE
from ..architectures.head_names import is_headed
from ..architectures.table_names import POSITION_ENDING, tower_of
from ..extraction import extract
from .heads import CLOSE, Check, Verdict, differ, head_checks, nearest
from .observed_model import Observed, input_embeddings, observe
from .rotary import alibi_checks, rotary_checks

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Verification(Tabular):
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
        wide = max((19, *(len(check.what) for check in self.checks))) + 2
        for check in self.checks:
            size = "" if check.difference is None else f"{check.difference:.1e}"
            lines.append(f"  {check.what:<{wide}}{check.verdict:<14}{size:<9}{check.ours} / {check.theirs}")
        return "\n".join(lines)

    def of(self, what: str) -> tuple[Check, ...]:
        """Return the checks of one kind, such as ``token table``."""
        return tuple(check for check in self.checks if check.what.startswith(what))

    def columns(self) -> Columns:
        """Return one row per comparison: ``what``, ``verdict``, ``ours``, ``theirs`` and ``difference``."""
        names = ("what", "verdict", "ours", "theirs", "difference")
        return {name: [getattr(check, name) for check in self.checks] for name in names}


def verify(source: str | Path, *, revision: str | None = None, token: str | bool | None = None) -> Verification:
    """Load a model with transformers and compare it with everything that was extracted.

    Args:
        source: A folder, a repository on the Hub or a whole sample.
        revision: Branch, tag or commit of a repository.
        token: Token for the Hub; ``None`` for the user's own, ``False`` for none.

    Raises:
        SourceError: If transformers cannot load the source, or may not with this version of torch.
        MissingExtraError: If torch or transformers is not installed.
    """
    try:
        import torch
        import transformers
    except ImportError as error:
        raise MissingExtraError("transformers", extra="torch", purpose="verify") from error
    if (refused := refusal(str(torch.__version__), purpose="verify, which loads what transformers finds,")) is not None:
        raise SourceError(refused)
    source = str(source)
    named = parse_source(source)
    part = isinstance(named, SampleSource) and (named.step is not None or named.name not in TRAINED)
    if part or isinstance(named, BuiltinSource):
        raise SourceError(
            f"transformers cannot load {source}; give a folder, a repository or a complete sample such as sample:bert"
        )
    embeddings = extract(source, revision=revision, token=token)
    if in_gguf(embeddings.config):
        raise SourceError(f"{source} is a GGUF file, not one of transformers; verify the checkpoint it was made from")
    if isinstance(named, HubSource):
        where, options = named.repo, {"revision": revision or named.revision, "token": token}
    else:
        where, options = str(folder(named.name) if isinstance(named, SampleSource) else local_path(named, Access())), {}
    kind = _class_of(embeddings.config)
    try:
        model = kind.from_pretrained(where, dtype=torch.float32, **options).eval()
    except Exception as error:
        reason = one_line(error)[:200] or type(error).__name__
        raise SourceError(f"transformers cannot load {source}: {reason}") from error
    if kind is transformers.AutoModel or not is_headed(class_of(embeddings.config)):
        return compare(embeddings, model)
    found = compare(embeddings, model.base_model)
    return replace(found, checks=(*found.checks, *head_checks(embeddings, model)))


def _class_of(config: Mapping[str, Any]) -> Any:
    """Return the class of transformers that was saved, else ``AutoModel``."""
    import transformers

    kind: Any = getattr(transformers, class_of(config), None)
    if not (isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel)):
        return transformers.AutoModel
    return kind if getattr(kind.config_class, "model_type", "") == config.get("model_type") else transformers.AutoModel


def compare(embeddings: Embeddings, model: torch.nn.Module) -> Verification:
    """Compare what was extracted from a checkpoint with the live model."""
    seen = observe(model)
    checks = [
        *_tokens(embeddings, model, seen),
        *_positions(embeddings, model, seen),
        *_relatives(embeddings, model, seen),
        *rotary_checks(embeddings, model),
        *alibi_checks(embeddings, model),
        *_inputs(embeddings, seen),
    ]
    return Verification(embeddings.name, tuple(checks))


def _tokens(embeddings: Embeddings, model: torch.nn.Module, seen: Observed) -> Iterator[Check]:
    theirs = {
        one.name: one.weight
        for one in seen.lookups
        if one.name and len(one.weight) > 1 and np.array_equal(one.rows.reshape(-1), seen.ids)
    }
    table = input_embeddings(model)
    if table is not None and not theirs:
        theirs["get_input_embeddings()"] = table.weight.detach().float().numpy()
    if "token" not in embeddings.tables:
        yield from (Check("token table", "missing", "none", name) for name in list(theirs)[:1])
        return
    ours = embeddings.token
    if theirs:
        checks = [nearest("token table", name, one, {ours.name: ours.vectors}) for name, one in theirs.items()]
        yield next((one for one in checks if one.verdict == "equal"), checks[0])
        return
    equal = [name for name, one in _embeddings_of(model) if differ(ours.vectors, one) == 0.0]
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
    ours |= {name: one.table for name, one in embeddings.positions.items() if isinstance(one, Absolute)}
    whole = {name: table.vectors for name, table in ours.items()}
    found: dict[str, dict[int, NDArray[Any]]] = {}
    for one in seen.lookups:
        rows = one.rows.reshape(-1)
        if len(rows) >= 5 and (np.diff(rows) == 1).all() and one.name and "embed_global" not in one.name:
            found.setdefault(one.name, {})[int(rows[0])] = one.weight[int(rows[0]) :]
    for name, starts in found.items():
        checks = [nearest("position table", f"{name} from row {start}", one, whole) for start, one in starts.items()]
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
        yield nearest("relative positions", one.name, theirs, values)
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
