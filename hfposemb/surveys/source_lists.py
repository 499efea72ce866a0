"""Lists of sources: the lines of a file, a search of the Hub, the revisions of one repository."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any

from ..checkpoints.access import Access, Visitor, local_path
from ..checkpoints.hub.http_answers import http_errors
from ..errors import HubError, InputError, OfflineError, SourceError
from ..guesses import several
from ..models.extraction import sample_steps
from ..tables.source_parser import parse_source
from ..tables.sources import HubSource, LocalSource, SampleSource

MODELS = 50
"""Default maximum number of models of a search."""

_MOST_SHOWN = 6


def in_file(path: Path) -> list[str]:
    """Return the sources listed in a text file, one per line; ``#`` begins a comment.

    Raises:
        SourceError: If a line is not a source, or the file cannot be read or lists none.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        raise SourceError(f"{path} cannot be read as a list of sources: {error}; give a text file") from error
    found = []
    for number, line in enumerate(lines, 1):
        if text := re.sub(r"(^|\s)#.*", "", line).strip():
            try:
                parse_source(text)
            except SourceError as error:
                raise SourceError(f"{path}, line {number}: {error}") from error
            found.append(text)
    if not found:
        raise SourceError(f"{path} lists no source; write one per line, such as owner/name")
    return found


def on_hub(*, author: str | None = None, filters: Sequence[str] = (), limit: int = MODELS) -> list[str]:
    """Return the most downloaded models of the Hub that match.

    Args:
        author: Owner of the models; any by default.
        filters: Tags that the models must all have.
        limit: Maximum number of models.

    Raises:
        InputError: If no model matches, or ``limit`` < 1.
        HubError: If the Hub answers with an error.
        OfflineError: If the Hub cannot be reached.
    """
    from huggingface_hub import HfApi, constants

    if limit < 1:
        raise InputError(f"limit must be at least 1; got {limit}")
    listed = HfApi(endpoint=constants.ENDPOINT).list_models(
        author=author, filter=list(filters) or None, sort="downloads", limit=limit
    )
    tagged = f"with {' and '.join(filters)}" if filters else ""
    wanted = " ".join(part for part in (f"by {author}" if author else "", tagged) if part)
    found = [str(one.id) for one in islice(_asked(listed, f"the search for models {wanted}"), limit)]
    if not found:
        raise InputError(f"no model {wanted} on the Hub; check the search on huggingface.co/models")
    return found


def _asked(listed: Iterable[Any], what: str) -> Iterator[Any]:
    """Yield what huggingface_hub lists, translating its errors to ours."""
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    try:
        yield from listed
    except OfflineModeIsEnabled as error:
        raise OfflineError(f"{what}: offline mode is on; unset HF_HUB_OFFLINE") from error
    except HfHubHTTPError as error:
        raise HubError(f"{what}: the Hub returned status {error.response.status_code}; try again later") from error
    except (http_errors().any, ValueError) as error:
        raise OfflineError(f"{what}: the Hub cannot be reached; check the network and HF_ENDPOINT") from error


def revisions(source: str, pattern: str, *, token: str | bool | Visitor | None = None) -> list[str]:
    """Return a source at each of its revisions whose name matches ``pattern``, such as ``step*``, ordered by number.

    Revisions are the branches and tags of a repository, the training steps of a sample, or the subfolders of a local
    folder that contain a checkpoint.

    Args:
        source: Repository, sample or local folder, without a revision.
        pattern: Shell-style pattern.
        token: Token for the Hub, as in ``extract``.

    Raises:
        InputError: If no revision matches, or the source has none.
        SourceError: If a local folder cannot be read.

    Examples:
        >>> from hfposemb.surveys.source_lists import revisions
        >>> revisions("sample:gpt2", "step-*")[0]
        'sample:gpt2@step-0'
    """
    named = parse_source(source)
    match named:
        case HubSource(repo, None):
            names = _of_hub(repo, Access(token))
        case SampleSource(name, None):
            names = [f"step-{step}" for step in sample_steps(name)]
        case LocalSource():
            names = _of_folder(local_path(named, Access(token)), source)
        case _:
            raise InputError(
                f"{source} has no revisions; give a repository, a folder of checkpoints or a sample such as sample:gpt2"
            )
    names.sort(key=_by_number)
    if not (found := [name for name in names if fnmatchcase(name, pattern)]):
        shown = ", ".join(names[:_MOST_SHOWN]) + (f", … ({len(names)})" if len(names) > _MOST_SHOWN else "")
        known = f"; its revisions are {shown}" if names else ": it has no checkpoints"
        raise InputError(f"{source} has no revision matching {pattern!r:.80}{known}")
    if isinstance(named, HubSource):
        return [str(named.at(name)) for name in found]
    return [f"{source.strip().rstrip('/')}{'/' if isinstance(named, LocalSource) else '@'}{name}" for name in found]


def _of_hub(repo: str, access: Access) -> list[str]:
    from ..checkpoints.hub.files import list_refs, refs_here
    from ..checkpoints.hub.http import Wire

    wire = Wire(repo, "main", access.sent)
    try:
        refs = list_refs(wire, wire.deadline())
    except OfflineError:
        # Without the user's token, nothing of the cache of this machine's user is shown.
        refs = [] if access.foreign else refs_here(repo)
        if not refs:
            raise
    return [ref.removeprefix("refs/tags/") for ref in refs if not ref.startswith(("refs/pr/", "refs/convert/"))]


def _of_folder(path: Path, source: str) -> list[str]:
    try:
        return [child.name for child in path.iterdir() if child.is_dir() and _has_checkpoint(child)]
    except OSError as error:
        raise SourceError(f"{source} is not a folder of checkpoints: {error.strerror}") from error


_WEIGHTS = frozenset((".safetensors", ".bin", ".pt", ".pth", ".ckpt"))


def _has_checkpoint(folder: Path) -> bool:
    """Return whether a folder contains weights; others, such as ``1_Pooling``, are not training checkpoints."""
    try:
        return any(child.suffix in _WEIGHTS or child.name.endswith(".index.json") for child in folder.iterdir())
    except OSError:
        return False


def step_of(source: str) -> int | None:
    """Return the last number in a source's revision, its training step; ``None`` if there is none."""
    numbers = re.findall(r"\d+", re.split(r"[@/]", source)[-1])
    return int(numbers[-1]) if numbers else None


def evenly_spaced(sources: Sequence[str], most: int) -> list[str]:
    """Return up to ``most`` sources, evenly spaced and including the first and the last.

    Raises:
        InputError: If sources must be dropped and ``most`` < 2.
    """
    sources = several(sources)
    if len(sources) <= most:
        return list(sources)
    if most < 2:
        raise InputError(f"at least 2 checkpoints are needed, the first and the last; got {most}")
    return [sources[round(place * (len(sources) - 1) / (most - 1))] for place in range(most)]


def _by_number(name: str) -> list[tuple[int, str]]:
    """Return a natural sort key: step9 before step10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]
