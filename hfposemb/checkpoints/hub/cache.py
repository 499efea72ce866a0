"""Files and commits in the cache of huggingface_hub."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ...logs import LOG


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
    if _is_commit(revision):
        return revision if _snapshot(repo, revision).is_dir() else None
    try:
        commit = (_folder(repo) / "refs" / revision).read_text("ascii").strip()
    except (OSError, ValueError):
        return None
    return commit if _is_commit(commit) and _snapshot(repo, commit).is_dir() else None


def refs_here(repo: str) -> list[str]:
    """Return the names of the revisions of a repository that Hugging Face's own cache knows."""
    root = _folder(repo) / "refs"
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def files_here(repo: str, commit: str) -> tuple[str, ...]:
    """Return the names of the files of a commit that Hugging Face's own cache holds, () if none."""
    root = _snapshot(repo, commit)
    found = ((os.path.relpath(at, root), files) for at, _, files in os.walk(root))
    return tuple(sorted((Path(at) / file).as_posix() for at, files in found for file in files))


def _folder(repo: str) -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE) / "--".join(("models", *repo.split("/")))


def _snapshot(repo: str, commit: str) -> Path:
    return _folder(repo) / "snapshots" / commit


def _is_commit(text: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{40}", text) is not None
