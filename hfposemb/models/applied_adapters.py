"""PEFT adapters applied to the base model that the user names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

from ..checkpoints.access import Access
from ..checkpoints.adapters.adapted import Adapted, ModuleChange, adapter_of, changes_of, may_be_adapter
from ..checkpoints.tokenizers.vocabulary_files import has_vocabulary
from ..errors import CheckpointError, InputError, SourceError
from ..tables.source_parser import parse_source
from ..tables.sources import HubSource, LocalSource, SampleSource, Source
from ..text import display
from .architectures.config_values import class_of
from .architectures.head_names import head_candidates, is_headed
from .architectures.table_names import candidates
from .architectures.tied_types import is_tied
from .opened_model import Opened
from .opening import open_here, open_repository


def stated_base(adapter: Opened) -> str:
    """Return the base model that an adapter's configuration names. Raises ``InputError`` if it names none."""
    config = adapter.adapter() or {}
    stated = config.get("base_model_name_or_path")
    if not isinstance(stated, str) or not stated.strip():
        raise InputError(f"{adapter.name} does not name its base model; give its name: --base SOURCE, or base=SOURCE")
    revision = config.get("revision")
    return f"{stated}@{revision}" if isinstance(revision, str) and revision and "@" not in stated else stated


def named_base(adapter: Opened, on_hub: bool) -> Source:
    """Return the base model that an adapter's configuration names; a file of the Hub names none on this machine."""
    stated = stated_base(adapter)
    advice = "give its name: --base SOURCE, or base=SOURCE"
    try:
        named = parse_source(stated)
    except SourceError:
        raise InputError(f"{adapter.name} calls its base model {display(stated, width=60)}; {advice}") from None
    if isinstance(named, LocalSource) and on_hub:
        where = f"{display(stated, width=60)}, a path on the machine where it was trained"
        raise InputError(f"{adapter.name} calls its base model {where}; {advice}")
    return named


MOST_README = 2**16
"""Characters of a README in which its front matter must end."""


def made_from(opened: Opened) -> str | None:
    """Return the model that a source says it was made from: the base of an adapter, or ``base_model`` of its README.

    A README names models of the Hub, the first of several counts. Nothing but these two small files is read.
    """
    if opened.adapter() is not None:
        with suppress(InputError):
            return str(named_base(opened, opened.commit is not None))
    with suppress(SourceError):
        stated = _stated_base(opened.text("README.md") or "")
        if stated not in _NULL and isinstance(named := parse_source(stated.strip()), HubSource):
            return str(named)
    return None


_NULL = ("", "~", "null", "Null", "NULL")
"""How YAML writes that there is nothing."""


def _stated_base(readme: str) -> str:
    """Return ``base_model`` of the YAML at the start of a README, the first of several; "" if it states none.

    No tag is resolved, no alias expanded and no mapping merged, by which a few lines can grow to gigabytes.
    """
    import yaml

    start, found, rest = readme[:MOST_README].removeprefix("\ufeff").partition("---")
    if start.strip() or not found:
        return ""
    try:
        top = yaml.compose(rest.partition("\n---")[0], Loader=yaml.BaseLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return ""
    fields = top.value if isinstance(top, yaml.MappingNode) else []
    stated = next((value for key, value in reversed(fields) if key.value == "base_model"), None)
    if isinstance(stated, yaml.SequenceNode) and stated.tag == _YAML + "seq":
        stated = next(iter(stated.value), None)
    return str(stated.value) if isinstance(stated, yaml.ScalarNode) and stated.tag == _YAML + "str" else ""


_YAML = "tag:yaml.org,2002:"


def open_base(base: Source, access: Access) -> Opened:
    """Open the base model of an adapter. Raises ``SourceError``, or ``InputError`` if it is no model."""
    if isinstance(base, HubSource | LocalSource) and (base.tables or base.base):
        raise InputError(f"{str(base)[:80]!r} has options; give the name of the base model alone")
    match base:
        case HubSource():
            return open_repository(base, access)[0]
        case LocalSource() | SampleSource(step=None):
            return open_here(base, access)
    raise InputError(f"{str(base)[:80]!r} is not a model; give the base model that the adapter was made for")


def apply_adapter(adapter: Opened, base: Opened) -> Opened:
    """Return a base model whose rows are changed by an adapter as they are read.

    Args:
        adapter: The opened adapter.
        base: The opened base model.

    Raises:
        InputError: If the first source is not an adapter.
        CheckpointError: If it does not fit the base model.
    """
    names = adapter.tensors.names()
    config = adapter.adapter() if may_be_adapter(names) else None
    if config is None:
        raise InputError(f"{adapter.name} is not a PEFT adapter, so it has no base model; open it without base")
    try:
        changes, missing = changes_of(names, base.tensors.names(), config)
    except CheckpointError as error:
        raise CheckpointError(f"{adapter.name} on {base.name}: {error}") from None
    notes = [*base.notes, f"{adapter_of(names, config).about}, applied to {base.name}{_pin(base)} without merging"]
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        left_out = "changes of modules that the base model does not store, such as a tied head, are left out"
        notes.append(f"{left_out}: {display(', '.join(missing[:3]), width=100)}{more}")
    notes.extend(_untied(changes, base))
    folder = adapter.folder()
    own = folder is not None and has_vocabulary(folder)
    return replace(
        base,
        tensors=Adapted(base.tensors, adapter.tensors, changes),
        name=adapter.name,
        folder=adapter.folder if own else base.folder,
        settings=adapter.settings if own else base.settings,
        notes=notes,
        without_tokens=adapter.without_tokens if own else base.without_tokens,
        commit=adapter.commit,
    )


def _untied(changes: Mapping[str, ModuleChange], base: Opened) -> Iterator[str]:
    """Yield a note if an adapter has a token table of its own, which PEFT does not tie to the base model's head."""
    names = frozenset((*base.tensors.names(), *changes))
    headed = is_headed(class_of(base.config))
    if not headed or not is_tied(base.config) or head_candidates(names, loose=headed):
        return
    for table in candidates(changes, "token"):
        if changes[table.tensor].whole is not None:
            kept = "PEFT keeps the base model's rows there unless it is told to tie them again"
            yield f"{table.tensor} is saved whole and is shown as the output head too, which is tied to it; {kept}"
            return


def _pin(base: Opened) -> str:
    return f" at {base.commit[:8]}" if base.commit else ""
