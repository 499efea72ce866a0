"""Revisions of a Hub repository: pins one to a commit, and finds those with safetensors files."""

from __future__ import annotations

import re
from contextlib import suppress

from ...cache import Key
from ...errors import CheckpointError, HubError, OfflineError
from ..deadline import Deadline
from ..file_choice import INDEX, MODEL, is_checkpoint
from ..strict_json import parse_json
from .cache import commit_here, files_here
from .files import LISTING_BYTES, RepositoryFiles
from .http import Wire

_REFS = 5  # number of revisions searched for safetensors


_REF = r"[A-Za-z0-9][A-Za-z0-9._/-]{0,200}"


_PULL = r"refs/pr/(\d{1,9})"


def pin(files: RepositoryFiles, branch: Key, deadline: Deadline) -> list[str]:
    """Resolve the revision to a commit if this machine may have read it before; otherwise the first response does.

    Offline, use the commit that the revision referred to when it was last read.

    Args:
        files: Files of the repository, before its commit is known.
        branch: Cache key of the commit that the revision referred to when it was last read.
        deadline: Deadline of the read.

    Returns:
        A note about a commit that was used offline, if any.
    """
    wire, foreign = files.wire, files.access.foreign
    if re.fullmatch(r"[0-9a-f]{40}", wire.revision) and not foreign:
        wire.commit = wire.revision
        return []
    kept = files.cache.find(branch)
    known = kept.bytes().decode("ascii", "replace") if kept is not None else None
    here = commit_here(wire.repo, wire.revision)
    if known is None and here is None:
        return []
    try:
        wire.pin("config.json", deadline)
    except OfflineError:
        # Without the user's token, show only what was previously read without it.
        whole = here is not None and any(is_checkpoint(file) for file in files_here(wire.repo, here))
        commit = known if foreign else here if whole else known or here
        if commit is None or not re.fullmatch(r"[0-9a-f]{40}", commit):
            raise
        wire.commit = commit
        files.go_offline()
        return [f"the Hub cannot be reached; using the cached commit {commit[:8]} of {wire.revision}"]
    return []


def list_refs(wire: Wire, deadline: Deadline) -> list[str]:
    """Return the names of a repository's revisions: branches, tags and pull requests. Raises ``SourceError``."""
    raw = wire.api(f"/api/models/{wire.repo}/refs?include_prs=1", most=LISTING_BYTES, deadline=deadline)
    refs = parse_json(raw, size=len(raw), name="the Hub's response", limit=LISTING_BYTES, kind=dict)
    listed = [
        one.get("ref") for kind in refs.values() if isinstance(kind, list) for one in kind if isinstance(one, dict)
    ]
    return [ref.removeprefix("refs/heads/") for ref in listed if isinstance(ref, str) and re.fullmatch(_REF, ref)]


def with_safetensors(wire: Wire, deadline: Deadline) -> str | None:
    """Return a revision with safetensors files, such as a pull request opened by the Hub's converter, or ``None``."""
    try:
        names = list_refs(wire, deadline)
    except (HubError, CheckpointError):
        return None
    pulls = sorted((int(match[1]) for name in names if (match := re.fullmatch(_PULL, name))), reverse=True)
    wanted = [name for name in names if "safetensors" in name] + [f"refs/pr/{number}" for number in pulls]
    for name in wanted[:_REFS]:
        there = Wire(wire.repo, name, wire.token, wire.limits, traffic=wire.traffic)
        for file in (MODEL, INDEX):
            with suppress(HubError, CheckpointError):
                there.read(file, range(1), lambda _: None, deadline=deadline)
                return name
    return None
