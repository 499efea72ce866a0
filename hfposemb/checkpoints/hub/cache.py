"""Files and commits in the cache of huggingface_hub."""

from __future__ import annotations

import re
from pathlib import Path

from ...logs import LOG
from ..file_choice import INDEX, MODEL


def in_hub_cache(repo: str, file: str, commit: str | None) -> Path | None:
    """Return a file of Hugging Face's own cache at exactly this commit, or ``None``."""
    if commit is None:
        return None
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(repo, file, revision=commit)
    if not isinstance(found, str):
        return None
    LOG.debug("%s %s: found in the cache of huggingface_hub", repo, file)
    return Path(found)


def commit_here(repo: str, revision: str) -> str | None:
    """Return the commit of a revision in Hugging Face's own cache, or ``None``."""
    from huggingface_hub import try_to_load_from_cache

    for file in (MODEL, INDEX, "config.json"):
        found = try_to_load_from_cache(repo, file, revision=revision)
        if isinstance(found, str) and (match := re.search(r"[/\\]snapshots[/\\]([0-9a-f]{40})[/\\]", found)):
            return match[1]
    return None
