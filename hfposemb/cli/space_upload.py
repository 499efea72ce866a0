"""Upload of a Hugging Face Space: its name, whether it may be written, and what the Hub answers."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ..checkpoints.hub.http_answers import http_errors
from ..errors import HfposembError, HubError, InputError, OfflineError

if TYPE_CHECKING:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

_BLANK = {".gitattributes", "README.md"}
"""Files of a Space that was created by hand, before anything is uploaded."""

_EXAMPLE, _SAYS = {"index.html", "style.css"}, "Welcome to your static Space"
"""The page that the Hub puts into a new static Space, and what it says."""

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}"


@dataclass(frozen=True)
class Kind:
    """A kind of Space.

    Attributes:
        sdk: What the Hub runs it with.
        mark: A file that only such a Space has.
        ours: Patterns of files that are removed if the new version does not have them.
        needed_by: What needs the SDK, for messages.
        other: What another Space does instead, for messages.
    """

    sdk: str
    mark: str
    ours: tuple[str, ...]
    needed_by: str
    other: str


def check_name(name: str) -> None:
    """Raise ``InputError`` unless a name is valid for a Space."""
    if "/" not in name:
        raise InputError(f"{name!r:.80} has no owner; write OWNER/NAME, where OWNER is your user name or organisation")
    if not re.fullmatch(rf"{_NAME}/{_NAME}", name) or "--" in name or ".." in name:
        raise InputError(
            f"{name!r:.80} is not a valid Space name; write OWNER/NAME with letters, digits, '-', '_' and '.'"
        )


def write_files(files: Mapping[str, Path | str], folder: Path) -> None:
    """Write the files of a Space to a folder."""
    for name, content in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            shutil.copyfile(content, place)
        else:
            place.write_text(content, encoding="utf-8", newline="\n")


def upload(name: str, files: Mapping[str, Path | str], kind: Kind, *, private: bool) -> str:
    """Create or update the Space ``owner/name`` and return its URL.

    Args:
        name: ``owner/name`` of the Space.
        files: Its files by path: a file on this machine, or a text.
        kind: The kind of Space; one of another kind is not modified.
        private: Whether to create it as private.

    Raises:
        InputError: If it should be private and is not.
        HubError: If the Hub refuses the request or cannot be reached.
    """
    from huggingface_hub import HfApi, get_token

    from .. import __version__

    token = get_token()
    if not token:
        raise HubError("you are not logged in: run `hf auth login`, or set HF_TOKEN, to a token with write access")
    hub = HfApi(token=token, library_name="hfposemb")
    with told(name), TemporaryDirectory(prefix="hfposemb-") as folder:
        _check_present(hub, name, kind, private=private)
        write_files(files, Path(folder))
        url = hub.create_repo(name, repo_type="space", space_sdk=kind.sdk, private=private or None, exist_ok=True)
        hub.upload_folder(
            repo_id=name,
            repo_type="space",
            folder_path=folder,
            delete_patterns=list(kind.ours),
            commit_message=f"hfposemb {__version__}",
        )
    return str(url)


def _check_present(hub: HfApi, name: str, kind: Kind, *, private: bool) -> None:
    """Raise an error for a Space that is something else, or that is public but should be private."""
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        present = hub.space_info(name)
    except RepositoryNotFoundError:
        return
    if present.sdk not in (None, kind.sdk):
        raise HubError(
            f"{name} is a Space with the SDK {present.sdk!r:.40}, but {kind.needed_by} needs {kind.sdk!r}; choose "
            "another name"
        )
    names = {one.rfilename for one in present.siblings or ()}
    if names - _BLANK and kind.mark not in names and not _has_example(hub, name, names):
        raise HubError(f"{name} {kind.other}, which would be overwritten; choose another name")
    if private and not present.private:
        raise InputError(f"{name} exists and is public; make it private in its settings first")


def _has_example(hub: HfApi, name: str, names: set[str]) -> bool:
    """Return whether a Space has nothing but the page that the Hub puts into a new one."""
    if names - _BLANK != _EXAMPLE:
        return False
    with TemporaryDirectory(prefix="hfposemb-") as folder:
        page = hub.hf_hub_download(name, "index.html", repo_type="space", local_dir=folder)
        return _SAYS in Path(page).read_text(encoding="utf-8", errors="replace")


@contextmanager
def told(name: str) -> Iterator[None]:
    """Convert the Hub's refusals, and failures to reach it, to one-line errors."""
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    try:
        yield
    except HfposembError:
        raise
    except HfHubHTTPError as error:
        raise _refusal(error, name) from error
    except OfflineModeIsEnabled as error:
        raise OfflineError("offline mode is on; unset HF_HUB_OFFLINE and try again") from error
    except http_errors().request as error:
        raise OfflineError("the Hub cannot be reached; check the network and try again") from error
    except (OSError, RuntimeError, ValueError) as error:  # raised by the upload, which has several code paths
        raise HubError(
            f"the upload to {name} was interrupted ({_line(error)}); run the command again to continue"
        ) from error


def _refusal(error: HfHubHTTPError, name: str) -> HubError:
    status, said = error.response.status_code, _line(error.server_message or "")
    match status:
        case 401:
            return HubError("the Hub rejected the token; run `hf auth login`, or set HF_TOKEN to another token")
        case 402:
            return HubError(f"the Hub requires a paid plan to run {name}{f': {said}' if said else ''}")
        case 403:
            owner = name.partition("/")[0]
            return HubError(f"your token has no write access to {owner}; choose another owner or another token")
    return HubError(f"the Hub refused {name} with status {status}{f': {said}' if said else ''}")


def _line(value: Any) -> str:
    """Return the printable first line of an untrusted text."""
    lines = str(value).strip().splitlines() or [""]
    return "".join(character for character in lines[0] if character.isprintable())[:200]
