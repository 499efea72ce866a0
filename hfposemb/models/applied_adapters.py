"""PEFT adapters applied to the base model that the user names."""

from __future__ import annotations

from dataclasses import replace

from ..checkpoints.adapted import Adapted
from ..checkpoints.adapter_changes import changes_of
from ..checkpoints.peft_adapters import adapter_of, may_be_adapter
from ..checkpoints.vocabulary import has_vocabulary
from ..errors import CheckpointError, InputError
from ..text import display
from .opened_model import Opened


def stated_base(adapter: Opened) -> str:
    """Return the base model that an adapter's configuration names. Raises ``InputError`` if it names none."""
    config = adapter.adapter() or {}
    stated = config.get("base_model_name_or_path")
    if not isinstance(stated, str) or not stated.strip():
        raise InputError(f"{adapter.name} does not name its base model; give its name: --base SOURCE, or base=SOURCE")
    revision = config.get("revision")
    return f"{stated}@{revision}" if isinstance(revision, str) and revision and "@" not in stated else stated


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
    folder = adapter.folder()
    own = folder is not None and has_vocabulary(folder)
    return replace(
        base,
        tensors=Adapted(base.tensors, adapter.tensors, changes),
        name=adapter.name,
        folder=adapter.folder if own else base.folder,
        settings=adapter.settings if own else base.settings,
        notes=notes,
        commit=adapter.commit,
    )


def _pin(base: Opened) -> str:
    return f" at {base.commit[:8]}" if base.commit else ""
